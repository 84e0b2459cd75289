/* What sealed records show. An attacker has every byte of the folder and of the server, knows
 * model, salt and prompt, and lacks only the seal key. Catches: an id by which he could see that he
 * knows them (names, digests of salts and contents, in names, faces, index or envelope); a class of
 * kernels told in the clear; a record for all readers that passes for one of readers with their own
 * kernels; records that are no longer found with the key, by another process, in any tier; events
 * that tell other keys than the application's. The program starts itself as a second process. */
#include <promptcache/cache.h>
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attn/kernels.h"
#include "redis_server.h"
#include "store/cache_internal.h"
#include "store/record/record_name.h"
#include "testing.h"

enum { TOKENS = 6, RECORDS = 3, BYTES = 3000 };
static const char salt[] = "tenant-7";
static const uint8_t seal[32] = {1, 2, 3, 4}, model[32] = {5, 6, 7};
static pc_context *context;
static atomic_int strange_events; /* events come from any thread */

/* ------------------------------------------------------------ what is stored */

static const int32_t *tokens_of(int number)
{
    static _Thread_local int32_t tokens[RECORDS][TOKENS];
    for (int i = 0; i < TOKENS; i++)
        tokens[number][i] = 100 * number + i;
    return tokens[number];
}

static pc__id base_key(void)
{
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    parts.model = model;
    parts.salt = salt;
    parts.salt_size = strlen(salt);
    return pc__base_key(&parts);
}

/* Each record saw the one before it. */
static pc__id key_of(int number)
{
    pc__id base = base_key(), parent;
    if (number)
        parent = key_of(number - 1);
    return pc__segment_key(&base, number ? &parent : NULL, TOKENS, 0, tokens_of(number), NULL,
                           TOKENS);
}

static pc__id content_of(int number)
{
    pc__id base = base_key();
    return pc__segment_key(&base, NULL, 0, 0, tokens_of(number), NULL, TOKENS);
}

static pc_raw raw_of(int number)
{
    static uint8_t memory[RECORDS][BYTES];
    static void *blocks[RECORDS][1];
    static const uint64_t bytes[1] = {BYTES};
    pc_raw raw = PC_RAW_INIT;
    for (int i = 0; i < BYTES; i++)
        memory[number][i] = (uint8_t)(i * 7 + number + i / 256);
    blocks[number][0] = memory[number];
    raw.model = model;
    raw.dtype = PC_DTYPE_F16;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.tokens = tokens_of(number);
    raw.token_count = TOKENS;
    raw.blocks = (const void *const *)blocks[number];
    raw.block_bytes = bytes;
    raw.block_count = 1;
    return raw;
}

static pc_status put(pc_cache *cache, int number)
{
    pc__id key = key_of(number), parent, content = content_of(number),
           tenant = pc__salt_digest(salt, strlen(salt));
    pc_raw raw = raw_of(number);
    pc__image image = {0};
    pc__entry_desc desc = {.key = key, .content = &content, .salt = &tenant, .cost = 10};
    pc_segment *segment;
    pc_status status = pc_segment_wrap(&segment, context, &raw, NULL, NULL);
    if (number) {
        parent = key_of(number - 1);
        desc.parent = &parent;
    }
    if (status >= 0)
        status = pc__cache_put_entry(cache, &desc, &image, segment, NULL, NULL);
    pc_segment_free(segment);
    return status;
}

/* The tier that gives it; PC_TIER_NONE: none. */
static uint32_t tier_of(pc_cache *cache, int number)
{
    pc_get_info info = PC_GET_INFO_INIT;
    pc_raw raw = raw_of(number), got = PC_RAW_INIT;
    pc_segment *segment = NULL;
    pc__id key = key_of(number);
    if (pc_cache_get(&segment, cache, key.bytes, &raw, 0, &info) == PC_OK
        && CHECK_OK(pc_segment_raw(segment, &got)))
        CHECK(!memcmp(got.blocks[0], raw.blocks[0], BYTES));
    pc_segment_free(segment);
    return info.tier;
}

static void watch(void *user, const pc_event *event)
{
    int known = 0;
    (void)user;
    for (int n = 0; n < RECORDS; n++) {
        pc__id key = key_of(n);
        known |= !memcmp(event->key, key.bytes, sizeof event->key);
    }
    strange_events += !known;
}

static pc_cache_options options_of(const char *folder, const char *remote, int sealed)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.ram_bytes = 1 << 20;
    o.disk_path = *folder ? folder : NULL;
    o.remote = *remote ? remote : NULL;
    o.seal_key = sealed ? seal : NULL;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.deadline_seconds = 20;
    o.on_event = watch;
    return o;
}

static pc_cache *open_cache(const pc_cache_options *o)
{
    pc_cache *cache = NULL;
    CHECK_OK(pc_cache_new(&cache, context, o));
    return cache;
}

static void fill(const char *folder, const char *remote, int sealed, uint64_t flags)
{
    pc_cache_options o = options_of(folder, remote, sealed);
    o.flags |= flags;
    pc_cache *cache = open_cache(&o);
    for (int n = 0; n < RECORDS; n++)
        CHECK_OK(put(cache, n));
    CHECK_OK(pc_cache_flush(cache));
    pc_cache_free(cache);
}

/* ------------------------------------------------------------ the attacker */

typedef struct haystack {
    char *data;
    size_t size;
} haystack;

static void add(haystack *h, const void *data, size_t size)
{
    h->data = realloc(h->data, h->size + size);
    memcpy(h->data + h->size, data, size);
    h->size += size;
}

static void add_file(haystack *h, const char *path)
{
    size_t size = 0;
    char *data = pc_test_read(path, &size);
    if (CHECK(data != NULL))
        add(h, data, size);
    free(data);
}

/* All names and all bytes below the folder. */
static void add_folder(haystack *h, const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char inside[1024];
        struct stat st;
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || stat(inside, &st))
            continue;
        add(h, e->d_name, strlen(e->d_name));
        if (S_ISDIR(st.st_mode))
            add_folder(h, inside);
        else
            add_file(h, inside);
    }
    if (dir)
        closedir(dir);
}

static int holds(const haystack *h, const void *what, size_t size)
{
    return memmem(h->data, h->size, what, size) != NULL;
}

/* A half of an id is enough for him, in bytes or in digits. */
static int holds_id(const haystack *h, const pc__id *id)
{
    char hex[65];
    pc__id_hex(id, hex);
    return holds(h, id->bytes, 16) || holds(h, id->bytes + 16, 16) || holds(h, hex, 32)
           || holds(h, hex + 32, 32);
}

/* How many of his right guesses he can see to be right. He also tries the keyed digests with a key
 * of zeros. */
static int found(const haystack *h)
{
    static const uint8_t zeros[32];
    const pc__record_options wrong = {.seal_key = zeros};
    pc__id ids[1 + 2 * RECORDS], shown;
    int count = 0;
    size_t n = 0;
    ids[n++] = pc__salt_digest(salt, strlen(salt));
    for (int i = 0; i < RECORDS; i++) {
        ids[n++] = key_of(i);
        ids[n++] = content_of(i);
    }
    for (size_t i = 0; i < n; i++) {
        count += holds_id(h, &ids[i]);
        shown = pc__shown_key(&ids[i], &wrong);
        count += holds_id(h, &shown);
        shown = pc__shown_salt(&ids[i], &wrong);
        count += holds_id(h, &shown);
        shown = pc__shown_content(&ids[i], &wrong);
        count += holds_id(h, &shown);
    }
    count += holds(h, salt, strlen(salt)) + holds(h, model, sizeof model)
             + holds(h, tokens_of(1), 4 * TOKENS);
    return count;
}

/* The server's whole memory, as it writes it to a file. */
static haystack server_bytes(const pc_redis *server)
{
    haystack h = {0};
    char path[512];
    CHECK_STR(pc_redis_ask(server, "SAVE"), "OK");
    snprintf(path, sizeof path, "%s/dump.rdb", server->folder);
    add_file(&h, path);
    return h;
}

static haystack folder_bytes(const char *folder)
{
    haystack h = {0};
    add_folder(&h, folder);
    return h;
}

/* ------------------------------------------------------------ cases */

static const char *fresh(const char *name)
{
    static char ring[8][512];
    static unsigned next;
    char *out = ring[next++ % 8];
    snprintf(out, sizeof ring[0], "%s/%s", pc_test_folder(), name);
    return out;
}

static void check_tier(const pc_cache_options *o, uint32_t tier)
{
    pc_cache *cache = open_cache(o);
    for (int n = 0; n < RECORDS; n++)
        CHECK_INT(tier_of(cache, n), tier);
    pc_cache_free(cache);
}

/* As another process, with the same key and with another one. */
static void check_process(const char *program, const char *folder, const char *remote, int wrong,
                          uint32_t tier)
{
    char number[8];
    int status = -1;
    pid_t pid = fork();
    snprintf(number, sizeof number, "%u", tier);
    if (!pid) {
        execl(program, program, folder, remote, wrong ? "wrong" : "right", number, (char *)NULL);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    CHECK_INT(status, 0);
}

static int second_process(char **argv)
{
    pc_cache_options o = options_of(argv[1], argv[2], 1);
    uint8_t wrong[32] = {9};
    if (!strcmp(argv[3], "wrong"))
        o.seal_key = wrong;
    o.flags |= PC_CACHE_READ_ONLY;
    check_tier(&o, (uint32_t)atoi(argv[4]));
    pc_context_free(context);
    return pc_test_end();
}

static void test_folder(const char *program)
{
    const char *plain = fresh("plain"), *sealed = fresh("sealed");
    fill(plain, "", 0, 0);
    fill(sealed, "", 1, 0);
    haystack open = folder_bytes(plain), closed = folder_bytes(sealed);
    /* the attack works where nothing is sealed: digests of salt, keys and contents, model, tokens
     */
    CHECK(found(&open) >= 1 + 2 * RECORDS + 1);
    CHECK_INT(found(&closed), 0);
    pc_cache_options o = options_of(sealed, "", 1);
    check_tier(&o, PC_TIER_DISK);
    check_process(program, sealed, "", 0, PC_TIER_DISK);
    check_process(program, sealed, "", 1, PC_TIER_NONE);
    free(open.data);
    free(closed.data);
}

static void test_server(const char *program)
{
    pc_redis server;
    char remote[64];
    if (!PC_REDIS_IS_THERE)
        return;
    server = pc_redis_start("--rdbcompression no");
    snprintf(remote, sizeof remote, "redis://127.0.0.1:%d", server.port);
    for (int sealed = 0; sealed < 2; sealed++) {
        pc_redis_ask(&server, "FLUSHALL");
        fill("", remote, sealed, 0);
        haystack h = server_bytes(&server);
        CHECK(sealed ? found(&h) == 0 : found(&h) >= 1 + 2 * RECORDS);
        free(h.data);
    }
    pc_cache_options o = options_of("", remote, 1);
    check_tier(&o, PC_TIER_REMOTE);
    check_process(program, "", remote, 0, PC_TIER_REMOTE);
    check_process(program, "", remote, 1, PC_TIER_NONE);
    pc_redis_kill(&server);
}

/* COMPRESSED stays in the process and is never sealed; with a seal key it works as without. */
static void test_compressed(void)
{
    pc_cache_options o = options_of("", "", 1);
    uint64_t freed;
    o.compressed_bytes = 1 << 20;
    pc_cache *cache = open_cache(&o);
    for (int n = 0; n < RECORDS; n++)
        CHECK_OK(put(cache, n));
    CHECK_OK(pc_cache_trim(cache, 0, &freed));
    CHECK_OK(pc_cache_flush(cache));
    for (int n = 0; n < RECORDS; n++)
        CHECK_INT(tier_of(cache, n), PC_TIER_COMPRESSED);
    pc_cache_free(cache);
}

static const char *path_of(const char *folder, int number, const char *kernels)
{
    static char ring[4][600];
    static unsigned next;
    const pc__record_options options = {.seal_key = seal, .kernels = kernels};
    pc__id key = key_of(number);
    pc__record_name name = pc__record_name_of(&key, &options);
    char hex[65], *out = ring[next++ % 4];
    pc__id_hex(&name.key, hex);
    snprintf(out, sizeof ring[0], "%s/%.2s/%s.%s.pcr", folder, hex, hex, name.variant);
    return out;
}

/* A record for all readers may have seen states of other kernels. Its file takes the place of one
 * for readers with their own kernels. */
static void test_kernels(void)
{
    const char *folder = fresh("kernels"), *class = pc__kernels_class();
    size_t size = 0;
    fill(folder, "", 1, PC_CACHE_OWN_KERNELS);
    haystack h = folder_bytes(folder);
    CHECK(!holds(&h, class, strlen(class)));
    fill(folder, "", 1, 0);
    pc_cache_options o = options_of(folder, "", 1);
    check_tier(&o, PC_TIER_DISK);
    o.flags |= PC_CACHE_OWN_KERNELS | PC_CACHE_READ_ONLY;
    check_tier(&o, PC_TIER_DISK);
    const char *own = path_of(folder, 1, class);
    char *other = pc_test_read(path_of(folder, 1, NULL), &size);
    if (CHECK(other && !chmod(own, 0600)))
        pc_test_write(own, other, size);
    pc_cache *cache = open_cache(&o);
    CHECK_INT(tier_of(cache, 0), PC_TIER_DISK);
    CHECK_INT(tier_of(cache, 1), PC_TIER_NONE);
    pc_cache_free(cache);
    free(other);
    free(h.data);
}

/* Removals by hand tell the application's keys. */
static void test_events(void)
{
    const char *folder = fresh("events");
    pc_cache_options o = options_of(folder, "", 1);
    pc_cache *cache = open_cache(&o);
    for (int n = 0; n < RECORDS; n++)
        CHECK_OK(put(cache, n));
    CHECK_OK(pc_cache_flush(cache));
    cache->tiers[PC_TIER_DISK]->ops->clear(cache->tiers[PC_TIER_DISK]);
    pc_cache_free(cache);
}

/* doc/format.md has these, and tools/digest_vectors.py makes them. */
static void test_vectors(void)
{
    static const char *const want[] = {
        "facf2e50efa3ea5f736e165f01a768cbf3f6676d983c2d2f22ff4d697b644302",
        "9d5da32336602d069692b38a4cd0a074040c168cd89be545adc5d9040985cb20",
        "15075cfbd4490c9b9e65925c183821eea5cb1b228ce99e540c291da486deaf0f",
        "5b7125ca65148428fe65ef194c76970b8d4241ba0c0d3ed64750e2b4a087b712"};
    uint8_t key[32];
    pc__id id, got[4];
    for (int i = 0; i < 32; i++) {
        key[i] = (uint8_t)i;
        id.bytes[i] = (uint8_t)(64 + i);
    }
    const pc__record_options all = {.seal_key = key}, own = {.seal_key = key, .kernels = "avx2"};
    got[0] = pc__shown_key(&id, &all);
    got[1] = pc__shown_key(&id, &own);
    got[2] = pc__shown_salt(&id, &all);
    got[3] = pc__shown_content(&id, &all);
    for (int i = 0; i < 4; i++) {
        char hex[65];
        pc__id_hex(&got[i], hex);
        CHECK_STR(hex, want[i]);
    }
}

int main(int argc, char **argv)
{
    CHECK_OK(pc_context_new(&context, NULL));
    if (argc > 1)
        return second_process(argv);
    test_vectors();
    test_folder(argv[0]);
    test_server(argv[0]);
    test_compressed();
    test_kernels();
    test_events();
    CHECK_INT(strange_events, 0);
    pc_context_free(context);
    return pc_test_end();
}

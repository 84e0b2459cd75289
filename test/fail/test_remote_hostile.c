/* A server that wants to harm. Catches: memory taken for what it claims (512 MiB of header, 1 TiB
 * of states, endless or deeply nested replies, lengths beyond any memory); entries that leave RAM
 * for such claims; MOVED and ASK of a single server, which would take the login to a host of its
 * choice, also from a socket of this machine; TLS names that nobody gave; sockets of other users;
 * nodes that are gone and never forgotten. */
#include <promptcache/cache.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/little_endian.h"
#include "fake_redis.h"
#include "records.h"
#include "remote_entries.h"
#include "store/cache_internal.h"
#include "store/raw_states.h"
#include "store/record/record_format.h"

#if !defined(PC_HAVE_HIREDIS)
int main(void)
{
    pc_test_skip("built without hiredis");
    return 0;
}
#else

#define PATIENCE 0.3

/* ------------------------------------------------------------ memory */

/* Remembers the largest allocation. */
static atomic_size_t largest;

static void *note_alloc(void *user, size_t size, size_t alignment)
{
    size_t before = atomic_load(&largest);
    (void)user;
    while (size > before && !atomic_compare_exchange_weak(&largest, &before, size))
        ;
    return size > (1 << 28) ? NULL : pc__libc_allocator.alloc(NULL, size, alignment);
}

static void note_free(void *user, void *ptr, size_t size, size_t alignment)
{
    (void)user;
    pc__libc_allocator.free(NULL, ptr, size, alignment);
}

static pc_allocator noting(void)
{
    return (pc_allocator){sizeof(pc_allocator), NULL, note_alloc, note_free};
}

static long kilobytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

/* ------------------------------------------------------------ values with claims */

static sample wanted;
static pc__codecs *codecs;

typedef struct claim {
    uint8_t value[1 << 14]; /* of the header */
    size_t size;
    uint32_t header; /* bytes that it claims; 0: as they are */
    uint64_t block;  /* bytes of its block; 0: as they are */
} claim;

/* The true record of `wanted`, then the claims, with checksums that are right. */
static void make_claim(claim *c)
{
    pc__record_options options = {.codecs = codecs, .codec = PC_CODEC_ZSTD};
    pc__remote_entry entry = {.tag = 7, .pieces = (uint32_t)wanted.image.block_count + 1};
    record_file file = record_file_new();
    uint8_t *h, *e;
    uint32_t size;
    CHECK_OK(pc__record_write(&pc__libc_allocator, &wanted.image, &options, &file.sink, NULL));
    h = file.data;
    e = h + PC__RECORD_PROLOGUE + PC__RECORD_FACE;
    size = pc__get_u32(h + 12);
    if (c->header) {
        pc__put_u32(h + 40, pc__get_u32(h + 40) + (c->header - size));
        pc__put_u32(h + 12, c->header);
        pc__put_u64(h + 16, c->header + (UINT64_C(1) << 20));
    }
    if (c->block) { /* of a codec, so that few bytes may stand for many */
        pc__put_u64(e + 16, c->block);
        pc__put_u32(e + 24, PC_CODEC_ZSTD);
        pc__put_u64(h + PC__RECORD_PROLOGUE + 168, c->block);
    }
    pc__record_header_sum(h, size, h + PC__RECORD_SUM_AT);
    entry.header_bytes = c->header ? c->header : size;
    entry.bytes = entry.header_bytes;
    pc__remote_envelope_write(c->value, &entry);
    memcpy(c->value + PC__REMOTE_ENVELOPE_BYTES, h, size);
    c->size = PC__REMOTE_ENVELOPE_BYTES + size;
    record_file_free(&file);
}

/* GETRANGE gives what there is, and zeros up to what is claimed. */
static int answer_claim(fake_redis *f, int fd, size_t count, char **words)
{
    static const char zeros[4096];
    const claim *c = f->user;
    size_t whole = c->header ? PC__REMOTE_ENVELOPE_BYTES + (size_t)c->header : c->size, from, to;
    char line[64];
    if (count < 4 || strcmp(words[0], "GETRANGE"))
        return fake_text(fd, "$-1\r\n");
    from = (size_t)atoll(words[2]);
    to = (size_t)atoll(words[3]) + 1;
    to = to < whole ? to : whole;
    snprintf(line, sizeof line, "$%zu\r\n", from < to ? to - from : 0);
    if (!fake_text(fd, line))
        return 0;
    for (size_t at = from, n; at < to; at += n) {
        int real = at < c->size;
        size_t end = real && c->size < to ? c->size : to;
        n = real || end - at < sizeof zeros ? end - at : sizeof zeros;
        if (!fake_send(fd, real ? (const void *)(c->value + at) : zeros, n))
            return 0;
    }
    return fake_text(fd, "\r\n");
}

static const char *address_of(const fake_redis *f, const char *login, const char *options)
{
    static char ring[4][128];
    static unsigned next;
    char *out = ring[next++ % 4];
    snprintf(out, sizeof ring[0], "redis://%s127.0.0.1:%d%s", login, f->port, options);
    return out;
}

/* ------------------------------------------------------------ claims and RAM */

enum { KEPT = 5, KEPT_BYTES = 150000 };

static pc_cache *full_cache(pc_context *context, const char *address)
{
    static uint8_t memory[KEPT_BYTES];
    static void *blocks[1] = {memory};
    static const uint64_t bytes[1] = {KEPT_BYTES};
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.ram_bytes = 1 << 20;
    o.remote = address;
    o.flags = PC_CACHE_ALWAYS_LOAD | PC_CACHE_READ_ONLY;
    o.deadline_seconds = 2;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    for (int32_t i = 0; i < KEPT; i++) {
        pc_raw raw = PC_RAW_INIT;
        pc_segment *segment = NULL;
        uint8_t key[32] = {9, (uint8_t)i};
        raw.model = key;
        raw.layout = PC_LAYOUT_APPLICATION;
        raw.tokens = &i;
        raw.token_count = 1;
        raw.blocks = (const void *const *)blocks;
        raw.block_bytes = bytes;
        raw.block_count = 1;
        CHECK_OK(pc_segment_wrap(&segment, context, &raw, NULL, NULL));
        CHECK_OK(pc_cache_put(cache, key, segment, NULL));
        pc_segment_free(segment);
    }
    return cache;
}

static void ref_context(void *owner)
{
    pc__context_ref(owner);
}

/* A load as a request makes it: it knows how many bytes a block may have, but not more. */
static uint32_t load_claim(pc_cache *cache, pc_context *context, uint64_t most)
{
    pc__image image = wanted.image;
    pc__entry_desc desc = {.key = image.key, .cost = 10};
    pc__load_request request = {.image = &image,
                                .ops = &pc__raw_payload,
                                .owner = context,
                                .ref_owner = ref_context,
                                .desc = &desc,
                                .cost = 10};
    pc__entry_load *load = NULL;
    pc_segment *segment = NULL;
    uint32_t reason = PC_REASON_NONE;
    image.blocks = NULL;
    image.block_bytes = NULL;
    image.most_block = most;
    if (CHECK_OK(pc__cache_lookup_async(cache, &request, &load, &reason)))
        CHECK_STATUS(pc__entry_load_wait(load, pc__now() + 5, &segment, &reason), PC_MISS);
    pc__load_drop(load);
    return reason;
}

static void test_claims(void)
{
    static const struct {
        uint32_t header;
        uint64_t block, most;
    } cases[] = {
        {1u << 29, 0, 4000}, /* 512 MiB of header */
        {1u << 29, 0, 0},
        {0, UINT64_C(1) << 27, 4000}, /* states beyond what the tokens have */
        {0, 300000, 4000},            /* that would fit into RAM if all else left it */
        {0, UINT64_C(1) << 27, 0},    /* a model that does not tell what its states take */
        {0, 300000, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        claim c = {.header = cases[i].header, .block = cases[i].block};
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context = NULL;
        pc_cache_stats stats = PC_CACHE_STATS_INIT;
        pc_allocator mem = noting();
        fake_redis server;
        o.allocator = &mem;
        make_claim(&c);
        fake_start(&server, NULL, answer_claim, &c);
        CHECK_OK(pc_context_new(&context, &o));
        pc_cache *cache = full_cache(context, address_of(&server, "", ""));
        atomic_store(&largest, 0);
        load_claim(cache, context, cases[i].most);
        CHECK_OK(pc_cache_get_stats(cache, &stats));
        CHECK_INT(stats.segments, KEPT);
        CHECK_INT(stats.evicted, 0);
        if (!CHECK(atomic_load(&largest) <= 800000))
            printf("case %zu: %zu bytes at once\n", i, atomic_load(&largest));
        pc_cache_free(cache);
        pc_context_free(context);
        fake_end(&server);
    }
}

/* ------------------------------------------------------------ replies */

typedef struct reply {
    const char *start, *again; /* again: without end */
} reply;

static int answer_reply(fake_redis *f, int fd, size_t count, char **words)
{
    const reply *r = f->user;
    (void)count, (void)words;
    if (!fake_text(fd, r->start))
        return 0;
    while (*r->again && !atomic_load(&f->stop))
        if (!fake_text(fd, r->again))
            return 0;
    return 1;
}

static void test_replies(void)
{
    static const reply replies[] = {
        {"$4611686018427387904\r\n", "x"},
        {"$99999999999999999999999\r\n", "x"},
        {"$536870912\r\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {"$-7\r\n", ""},
        {"$", "1"},
        {"", "*1\r\n"},
        {"*4294967295\r\n", ":1\r\n"},
        {"*-9\r\n", ""},
        {"*1000000\r\n", "$-1\r\n"},
        {"*2\r\n*2\r\n*2\r\n", "*2\r\n"},
        {"+", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"-ERR ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"*1\r\n$1000000000\r\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {"\r\n", "\r\n"},
    };
    long before = kilobytes();
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        reply r = replies[i];
        pc_allocator mem = noting();
        pc__tier_common common = {.mem = &mem, .record = {.codec = PC_CODEC_RAW}};
        pc__tier *tier = NULL;
        fake_redis server;
        uint32_t reason;
        int timed_out;
        double started;
        fake_start(&server, NULL, answer_reply, &r);
        CHECK_OK(pc__tier_remote_new(&tier, &common, address_of(&server, "", "")));
        atomic_store(&largest, 0);
        started = pc__now();
        CHECK(sample_load(tier, &mem, &common.record, &wanted, PATIENCE, &timed_out) < 0);
        CHECK(sample_put(tier, &wanted, PATIENCE, &reason) != PC_OK);
        if (!CHECK(pc__now() - started < 2 * PATIENCE + 1 && atomic_load(&largest) < 8 << 20))
            printf("reply %zu: %g s, %zu bytes at once\n", i, pc__now() - started,
                   atomic_load(&largest));
        tier->ops->free(tier);
        fake_end(&server);
    }
    CHECK(kilobytes() - before < 96 << 10);
}

/* ------------------------------------------------------------ redirections */

static int answer_nothing(fake_redis *f, int fd, size_t count, char **words)
{
    (void)f, (void)count;
    return fake_text(fd, !strcmp(words[0], "AUTH") ? "+OK\r\n" : "$-1\r\n");
}

static int answer_moved(fake_redis *f, int fd, size_t count, char **words)
{
    char line[64];
    (void)count;
    if (!strcmp(words[0], "AUTH"))
        return fake_text(fd, "+OK\r\n");
    snprintf(line, sizeof line, "-%s 1 127.0.0.1:%d\r\n", (const char *)f->user,
             *(const int *)((const char *)f->user + 8));
    return fake_text(fd, line);
}

/* How many connections the other host gets. */
static int follows(const char *path, const char *word, const char *options)
{
    struct {
        char word[8];
        int port;
    } to = {"", 0};
    pc__tier_common common = {.mem = &pc__libc_allocator, .record = {.codec = PC_CODEC_RAW}};
    pc__tier *tier = NULL;
    fake_redis server, thief;
    char address[600];
    int timed_out, taken;
    snprintf(to.word, sizeof to.word, "%s", word);
    fake_start(&thief, NULL, answer_nothing, NULL);
    to.port = thief.port;
    fake_start(&server, path, answer_moved, &to);
    if (path)
        snprintf(address, sizeof address, "redis+unix://:secret@%s%s", path, options);
    else
        snprintf(address, sizeof address, "%s", address_of(&server, ":secret@", options));
    if (CHECK_OK(pc__tier_remote_new(&tier, &common, address))) {
        sample_load(tier, &pc__libc_allocator, &common.record, &wanted, PATIENCE, &timed_out);
        tier->ops->free(tier);
    }
    taken = atomic_load(&thief.taken);
    CHECK(atomic_load(&server.commands) > 0);
    fake_end(&server);
    fake_end(&thief);
    return taken;
}

static void test_redirections(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/socket", pc_test_folder());
    CHECK_INT(follows(NULL, "MOVED", ""), 0);
    CHECK_INT(follows(NULL, "ASK", ""), 0);
    CHECK_INT(follows(path, "MOVED", ""), 0);
    CHECK_INT(follows(path, "ASK", ""), 0);
    CHECK(follows(NULL, "MOVED", "?cluster=1") > 0); /* a cluster's nodes may */
    CHECK(follows(NULL, "ASK", "?cluster=1") > 0);
}

/* ------------------------------------------------------------ names of nodes */

/* Whether a node of this cluster may send us to that host. */
static int goes_to(const char *address, const char *host)
{
    pc__remote_address parsed;
    pc__remote_nodes *nodes = NULL;
    pc__remote_node *first, *to;
    char text[300];
    int goes;
    if (!CHECK_OK(pc__remote_address_parse(&parsed, &pc__libc_allocator, address))
        || !CHECK_OK(pc__remote_nodes_new(&nodes, &pc__libc_allocator, NULL, &parsed)))
        return -1;
    first = pc__remote_nodes_of_slot(nodes, 1);
    snprintf(text, sizeof text, "MOVED 1 %s:6379", host);
    to = pc__remote_nodes_redirect(nodes, first, text);
    goes = to != NULL;
    pc__remote_node_drop(nodes, to);
    pc__remote_node_drop(nodes, first);
    pc__remote_nodes_free(nodes);
    return goes;
}

static void test_names(void)
{
#if defined(PC_HAVE_OPENSSL)
    static const char cluster[] = "rediss://:pw@one.cache.example.org,two.example.net?cluster=1",
                      numbers[] = "rediss://:pw@10.0.0.1:6380,10.0.0.2",
                      sni[] = "rediss://:pw@10.0.0.1?cluster=1&sni=cache.example.org";
    CHECK_INT(goes_to(cluster, "one.cache.example.org"), 1);
    CHECK_INT(goes_to(cluster, "Six.Cache.Example.Org"), 1);
    CHECK_INT(goes_to(cluster, "a.b.cache.example.org"), 1);
    CHECK_INT(goes_to(cluster, "two.example.net"), 1);
    CHECK_INT(goes_to(cluster, "evil.example.com"), 0);
    CHECK_INT(goes_to(cluster, "cache.example.org"), 0);
    CHECK_INT(goes_to(cluster, "evilcache.example.org"), 0);
    CHECK_INT(goes_to(cluster, "one.cache.example.org.evil.com"), 0);
    CHECK_INT(goes_to(cluster, "three.example.net"), 0); /* .example.net could be .co.uk */
    CHECK_INT(goes_to(cluster, "10.0.0.9"), 0);
    CHECK_INT(goes_to(numbers, "10.0.0.2"), 1);
    CHECK_INT(goes_to(numbers, "10.0.0.3"), 0);
    CHECK_INT(goes_to(numbers, "evil.0.0.1"), 0);
    CHECK_INT(goes_to(sni, "10.0.0.3"), 1); /* its certificate must name cache.example.org */
    CHECK_INT(goes_to("redis://one.example.org?cluster=1", "10.0.0.3"), 1); /* nothing is proved */
#endif
}

/* ------------------------------------------------------------ a socket's owner */

static pc_status load_from(const char *address)
{
    pc__tier_common common = {.mem = &pc__libc_allocator, .record = {.codec = PC_CODEC_RAW}};
    pc__tier *tier = NULL;
    pc_status status = PC_ERR_INVALID;
    int timed_out;
    if (CHECK_OK(pc__tier_remote_new(&tier, &common, address))) {
        status = sample_load(tier, &pc__libc_allocator, &common.record, &wanted, PATIENCE,
                             &timed_out);
        tier->ops->free(tier);
    }
    return status;
}

static void test_owner(void)
{
    enum { STRANGER = 65533 };
    char folder[300], path[330], address[600];
    fake_redis server;
    pid_t pid;
    snprintf(folder, sizeof folder, "%s", pc_test_folder());
    snprintf(path, sizeof path, "%s/ours", folder);
    fake_start(&server, path, answer_nothing, NULL);
    snprintf(address, sizeof address, "redis+unix://%s", path);
    CHECK_STATUS(load_from(address), PC_MISS);
    snprintf(address, sizeof address, "redis+unix://%s?owner=%d", path, STRANGER);
    CHECK_STATUS(load_from(address), geteuid() == STRANGER ? PC_MISS : PC_ERR_IO);
    CHECK_ERROR_HAS("owner");
    fake_end(&server);
    if (geteuid()) /* only root can be somebody else */
        return;
    snprintf(path, sizeof path, "/tmp/pc-owner-%d", (int)getpid());
    if (!(pid = fork())) {
        if (setuid(STRANGER))
            _exit(1);
        fake_start(&server, path, answer_nothing, NULL);
        pause();
    }
    for (int i = 0; i < 500 && access(path, F_OK); i++)
        usleep(10000);
    usleep(50000);
    snprintf(address, sizeof address, "redis+unix://:secret@%s", path);
    CHECK_STATUS(load_from(address), PC_ERR_IO);
    CHECK_ERROR_HAS("owner=");
    snprintf(address, sizeof address, "redis+unix://:secret@%s?owner=%d", path, STRANGER);
    CHECK_STATUS(load_from(address), PC_MISS);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(path);
}

/* ------------------------------------------------------------ nodes that are gone */

enum { ROUNDS = 15, NODES = 100 };

/* Every time other nodes have the slots. */
static int answer_slots(fake_redis *f, int fd, size_t count, char **words)
{
    char text[1 << 13];
    int round = (*(int *)f->user)++, size;
    (void)count;
    if (strcmp(words[0], "CLUSTER"))
        return fake_text(fd, "$-1\r\n");
    size = snprintf(text, sizeof text, "*%d\r\n", NODES);
    for (int i = 0; i < NODES; i++)
        size += snprintf(text + size, sizeof text - (size_t)size,
                         "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", i * 100,
                         i * 100 + 99, 1000 + round * NODES + i);
    return fake_text(fd, text);
}

static void test_forgotten(void)
{
    pc__remote_address parsed;
    pc__remote_nodes *nodes = NULL;
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    int rounds = 0;
    int64_t after_two = 0;
    fake_redis server;
    fake_start(&server, NULL, answer_slots, &rounds);
    CHECK_OK(pc__remote_address_parse(&parsed, &mem, address_of(&server, "", "?cluster=1")));
    CHECK_OK(pc__remote_nodes_new(&nodes, &mem, NULL, &parsed));
    for (int i = 0; i < ROUNDS; i++) {
        pc__remote_deadline limit = {pc__now() + 5, 0};
        pc__remote_node *node;
        char want[64];
        usleep(60000); /* slots are not asked for more often */
        pc__remote_nodes_refresh(nodes, &limit);
        node = pc__remote_nodes_of_slot(nodes, 250);
        snprintf(want, sizeof want, "127.0.0.1:%d", 1000 + i * NODES + 2);
        if (CHECK(node != NULL))
            CHECK_STR(pc__remote_node_name(node), want);
        if (i == 1)
            after_two = memory.live_bytes;
        /* a redirection makes the slots stale; a node in use outlives its removal */
        pc__remote_node *moved = node
                                     ? pc__remote_nodes_redirect(nodes, node, "MOVED 1 127.0.0.1:9")
                                     : NULL;
        pc__remote_node_drop(nodes, moved);
        pc__remote_node_drop(nodes, node);
    }
    CHECK_INT(rounds, ROUNDS);
    CHECK(memory.live_bytes <= 2 * after_two);
    pc__remote_nodes_free(nodes);
    CHECK_INT(memory.live_blocks, 0);
    fake_end(&server);
}

int main(void)
{
    wanted = sample_make(3, 1, 4000);
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, NULL, 0));
    test_claims();
    test_replies();
    test_redirections();
    test_names();
    test_owner();
    test_forgotten();
    sample_free(&wanted);
    pc__codecs_free(codecs);
    return pc_test_end();
}
#endif

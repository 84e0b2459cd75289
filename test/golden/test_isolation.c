/* Tenants in every tier. Each test is a pair: a tenant with the same salt hits, and the counters of
 * that tier say so; a tenant with another salt, or none, computes its own states and gets the same
 * answer. Catches: states of one tenant that another one gets, from RAM, compressed memory, a
 * folder that two processes share or a server; a salt that is not part of the names; salts of
 * position ranges that apply to the wrong parts; a shared system prompt that is not shared; a
 * tenant's quota that limits another one. */
#include <promptcache/cache.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis_server.h"
#include "toy_schema.h"

static const char prompt_text[] =
    "<prompt schema=\"t\"><a x=\"hot\"/><u2/><n><in/></n>what is it?</prompt>";

enum { TOKENS = 200, BLOCK = 64, IN_SECOND_BLOCK = 100 };

typedef struct place {
    uint32_t tier;
    const char *folder, *remote;
} place;

static pc_cache *open_cache(pc_context *context, const place *p, const char *salt)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.salt = salt;
    o.salt_size = salt ? strlen(salt) : 0;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.disk_path = p->folder;
    o.remote = p->remote;
    o.deadline_seconds = 20;
    if (p->tier == PC_TIER_COMPRESSED) {
        o.ram_bytes = 1; /* nothing stays in RAM */
        o.compressed_bytes = 1 << 24;
    }
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

/* Tokens of the parts that come from the cache and stand before `end`. */
static uint64_t cached_before(const pc_prompt *prompt, int64_t end)
{
    uint64_t tokens = 0;
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, i, &part));
        tokens += part.kind == PC_PART_CACHED && part.start < end ? part.count : 0;
    }
    return tokens;
}

/* Where the third cached part begins: what stands before it is shared. */
static int64_t boundary(const pc_prompt *prompt)
{
    int64_t third = 0;
    int seen = 0;
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, i, &part));
        seen += part.kind == PC_PART_CACHED && part.count;
        if (seen == 3)
            return part.start;
        third = part.start;
    }
    return third;
}

/* A request as tenant `salt` from position `first` on (NULL: the cache's salt throughout). `hits`
 * of `all` tokens have to come from the tier, or from RAM if they were there already. */
static void request(const pc_prompt *prompt, pc_cache *cache, uint32_t encoding, const char *salt,
                    int64_t first, uint32_t tier, uint64_t hits, uint64_t all, const char *text,
                    const char *what)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_salt from = {first, salt, salt ? strlen(salt) : 0};
    o.encoding = encoding;
    o.max_tokens = 6;
    o.salts = salt ? &from : NULL;
    o.salt_stride = sizeof(pc_salt);
    o.salt_count = salt ? 1 : 0;
    toy_answer a = toy_generate(prompt, cache, o);
    int ok = CHECK_OK(a.status);
    ok &= CHECK_INT(a.stats.tokens_cached, hits);
    ok &= CHECK_INT(a.stats.tokens_encoded, all - hits);
    if (hits && tier != PC_TIER_RAM)
        ok &= CHECK_INT(a.stats.tokens_tier[tier], hits);
    ok &= CHECK_STR(a.text[0], text);
    if (!ok)
        fprintf(stderr, "    %s, tier %u, encoding %u, salt %s\n", what, tier, encoding,
                salt ? salt : "none");
    CHECK_OK(pc_cache_flush(cache));
}

static void answer_text(const pc_prompt *prompt, uint32_t encoding, char *text, size_t size)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.encoding = encoding;
    o.max_tokens = 6;
    toy_answer a = toy_generate(prompt, NULL, o);
    CHECK_OK(a.status);
    snprintf(text, size, "%s", a.text[0]);
}

/* The second use brings blocks of a prompt without PML to the tiers below. If nothing stays in RAM,
 * only that is checked. */
static void once_more(const pc_prompt *prompt, pc_cache *cache, const place *p, uint32_t encoding,
                      const char *salt, int64_t first, uint64_t all, const char *text)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_salt from = {first, salt, strlen(salt)};
    if (p->tier != PC_TIER_COMPRESSED) {
        request(prompt, cache, encoding, salt, first, PC_TIER_RAM, all, all, text,
                "the same once more");
        return;
    }
    o.encoding = encoding;
    o.max_tokens = 6;
    o.salts = &from;
    o.salt_stride = sizeof(pc_salt);
    o.salt_count = 1;
    toy_answer a = toy_generate(prompt, cache, o);
    CHECK_STR(a.text[0], text);
    CHECK_OK(pc_cache_flush(cache));
}

/* One tenant after the other, each with a cache of its own over the same folder or server, unless
 * the tier is in memory. */
static void pairs(const toy_world *w, const pc_prompt *prompt, const place *p, uint32_t encoding,
                  int64_t first, uint64_t shared, uint64_t all)
{
    char text[2048];
    int again = p->tier == PC_TIER_DISK || p->tier == PC_TIER_REMOTE;
    pc_cache *cache = open_cache(w->context, p, NULL);
    answer_text(prompt, encoding, text, sizeof text);
    request(prompt, cache, encoding, "tenant-a", first, p->tier, 0, all, text, "the first one");
    once_more(prompt, cache, p, encoding, "tenant-a", first, all, text);
    if (again) {
        pc_cache_free(cache);
        cache = open_cache(w->context, p, NULL);
    }
    request(prompt, cache, encoding, "tenant-a", first, p->tier, all, all, text, "the same tenant");
    if (again) {
        pc_cache_free(cache);
        cache = open_cache(w->context, p, NULL);
    }
    request(prompt, cache, encoding, "tenant-b", first, p->tier, shared, all, text,
            "another tenant");
    once_more(prompt, cache, p, encoding, "tenant-b", first, all, text);
    if (p->tier == PC_TIER_COMPRESSED)
        request(prompt, cache, encoding, "tenant-b", first, p->tier, all, all, text,
                "that one again");
    if (again) {
        pc_cache_free(cache);
        cache = open_cache(w->context, p, NULL);
    }
    request(prompt, cache, encoding, NULL, 0, p->tier, shared, all, text, "no tenant");
    /* the salt is part of the name, not of the place where it begins */
    request(prompt, cache, encoding, "tenant-c", 0, p->tier, 0, all, text,
            "a tenant from the first token on");
    pc_cache_free(cache);
    if (again) {
        for (int i = 0; i < 2; i++) {
            cache = open_cache(w->context, p, "tenant-z");
            request(prompt, cache, encoding, NULL, 0, p->tier, i ? all : 0, all, text,
                    "a cache of a tenant's own");
            request(prompt, cache, encoding, NULL, 0, PC_TIER_RAM, all, all, text, "it once more");
            pc_cache_free(cache);
        }
    }
}

static pc_prompt *plain_prompt(const toy_world *w)
{
    int32_t ids[TOKENS];
    pc_prompt *prompt = NULL;
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = TOY_BYTES + (i * 37 + i / 9) % (TOY_VOCAB - TOY_BYTES);
    CHECK_OK(pc_prompt_from_tokens(&prompt, w->model, ids, TOKENS, NULL));
    return prompt;
}

static place inside(const place *p, const char *name, char folder[512])
{
    place own = *p;
    if (p->folder) {
        snprintf(folder, 512, "%s/%s", p->folder, name);
        own.folder = folder;
    }
    return own;
}

static void tier(const place *p)
{
    static const char *const names[] = {"independent", "sink", "joint", "exact"};
    toy_world w;
    pc_prompt *prompt, *plain;
    char folder[512];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    prompt = toy_prompt(&w, prompt_text);
    plain = plain_prompt(&w);
    int64_t first = boundary(prompt);
    uint64_t shared = cached_before(prompt, first), all = cached_before(prompt, INT64_MAX);
    CHECK(shared && shared < all);
    for (uint32_t encoding = PC_ENCODE_INDEPENDENT; encoding <= PC_ENCODE_EXACT; encoding++) {
        place own = inside(p, names[encoding], folder);
        pairs(&w, prompt, &own, encoding, first, shared, all);
    }
    pc_prompt_free(prompt);
    /* blocks of a prompt without PML: the second one begins before the boundary and is shared as a
     * whole */
    place own = inside(p, "plain", folder);
    pairs(&w, plain, &own, 0, IN_SECOND_BLOCK, 2 * BLOCK, cached_before(plain, INT64_MAX));
    pc_prompt_free(plain);
    toy_end(&w);
}

/* The other process: argv is "visitor", folder, tenant, 1 if it is to find everything. */
static void visitor(const char *folder, const char *salt, int finds)
{
    toy_world w;
    char text[2048];
    place p = {PC_TIER_DISK, folder, NULL};
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    pc_cache *cache = open_cache(w.context, &p, NULL);
    int64_t first = boundary(prompt);
    uint64_t shared = cached_before(prompt, first), all = cached_before(prompt, INT64_MAX);
    answer_text(prompt, 0, text, sizeof text);
    request(prompt, cache, 0, salt, first, PC_TIER_DISK, finds ? all : shared, all, text,
            "another process");
    pc_cache_free(cache);
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void two_processes(const char *program, const char *folder)
{
    static const char *const salts[] = {"tenant-a", "tenant-b", "tenant-b"};
    static const char *const finds[] = {"1", "0", "1"};
    toy_world w;
    place p = {PC_TIER_DISK, folder, NULL};
    char text[2048];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    pc_cache *cache = open_cache(w.context, &p, NULL); /* stays open: both use the folder at once */
    answer_text(prompt, 0, text, sizeof text);
    request(prompt, cache, 0, "tenant-a", boundary(prompt), PC_TIER_DISK, 0,
            cached_before(prompt, INT64_MAX), text, "before");
    for (int i = 0; i < 3; i++) {
        int code = -1;
        pid_t child = fork();
        if (!child) {
            execl(program, program, "visitor", folder, salts[i], finds[i], (char *)NULL);
            _exit(99);
        }
        CHECK(child > 0 && waitpid(child, &code, 0) == child);
        CHECK_INT(WIFEXITED(code) ? WEXITSTATUS(code) : -1, 0);
    }
    pc_cache_free(cache);
    pc_prompt_free(prompt);
    toy_end(&w);
}

/* A tenant with a quota of nearly nothing, beside one with room. */
static void quotas(void)
{
    toy_world w;
    char text[2048];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    int64_t first = boundary(prompt);
    uint64_t shared = cached_before(prompt, first), all = cached_before(prompt, INT64_MAX);
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_salt poor = {first, "poor", 4};
    answer_text(prompt, 0, text, sizeof text);
    CHECK_OK(pc_cache_set_quota(w.cache, PC_TIER_RAM, "poor", 4, 64));
    for (int i = 0; i < 2; i++)
        request(prompt, w.cache, 0, "poor", first, PC_TIER_RAM, i ? shared : 0, all, text,
                "a quota of nothing");
    for (int i = 0; i < 2; i++)
        request(prompt, w.cache, 0, "rich", first, PC_TIER_RAM, i ? all : shared, all, text,
                "beside it");
    o.max_tokens = 1;
    o.salts = &poor;
    o.salt_stride = sizeof(pc_salt);
    o.salt_count = 1;
    toy_answer a = toy_generate(prompt, w.cache, o);
    CHECK_INT(a.stats.miss_reason, PC_REASON_QUOTA);
    CHECK_OK(pc_cache_set_quota(w.cache, PC_TIER_RAM, "poor", 4, 0));
    for (int i = 0; i < 2; i++)
        request(prompt, w.cache, 0, "poor", first, PC_TIER_RAM, i ? all : shared, all, text,
                "without a quota");
    pc_prompt_free(prompt);
    toy_end(&w);
}

static void refused(const toy_world *w, const pc_prompt *prompt, const pc_salt *salts, size_t count,
                    const char *what)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sequence *sequence = (pc_sequence *)&o;
    o.salts = salts;
    o.salt_stride = sizeof(pc_salt);
    o.salt_count = count;
    CHECK_STATUS(pc_generate(prompt, w->cache, &o, NULL), PC_ERR_INVALID);
    CHECK_ERROR_HAS(what);
    CHECK_STATUS(pc_sequence_new(&sequence, prompt, w->cache, &o), PC_ERR_INVALID);
    CHECK(!sequence);
}

/* Lists of ranges that are not valid; salts that the caller frees after the call. */
static void arguments(void)
{
    static const pc_salt empty[] = {{0, "a", 1}, {5, "b", 0}}, null[] = {{0, NULL, 1}},
                         back[] = {{5, "a", 1}, {5, "b", 1}}, below[] = {{-1, "a", 1}};
    toy_world w;
    char salt[] = "tenant-a";
    pc_salt mine = {0, salt, 8};
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sequence *s = NULL;
    pc_batch *batch = NULL;
    pc_stats stats = PC_STATS_INIT;
    char text[2048];
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    pc_prompt *prompt = toy_prompt(&w, prompt_text);
    refused(&w, prompt, NULL, 1, "salts is NULL");
    refused(&w, prompt, empty, 2, "salt 1 is empty");
    refused(&w, prompt, null, 1, "salt 0 is empty");
    refused(&w, prompt, back, 2, "salt 1 begins at position 5");
    refused(&w, prompt, below, 1, "salt 0 begins at position -1");
    answer_text(prompt, 0, text, sizeof text);
    request(prompt, w.cache, 0, "tenant-a", 0, PC_TIER_RAM, 0, cached_before(prompt, INT64_MAX),
            text, "filling");
    o.salts = &mine;
    o.salt_stride = sizeof(pc_salt);
    o.salt_count = 1;
    o.max_tokens = 1;
    CHECK_OK(pc_sequence_new(&s, prompt, w.cache, &o));
    memset(salt, 'x', 8);
    mine.first = 1000;
    CHECK_OK(pc_batch_new(&batch, w.model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    while (pc_batch_step(batch) == PC_OK)
        ;
    CHECK_OK(pc_sequence_get_stats(s, &stats));
    CHECK_INT(stats.tokens_cached, cached_before(prompt, INT64_MAX));
    pc_batch_free(batch);
    pc_sequence_free(s);
    pc_prompt_free(prompt);
    toy_end(&w);
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "visitor")) {
        visitor(argv[2], argv[3], *argv[4] == '1');
        return pc_test_end();
    }
    const char *folder = pc_test_folder();
    char shared[512], address[64];
    place host = {PC_TIER_RAM, NULL, NULL}, packed = {PC_TIER_COMPRESSED, NULL, NULL},
          disk = {PC_TIER_DISK, folder, NULL}, remote = {PC_TIER_REMOTE, NULL, address};
    arguments();
    quotas();
    tier(&host);
    tier(&packed);
    tier(&disk);
    snprintf(shared, sizeof shared, "%s/two", folder);
    two_processes(argv[0], shared);
    if (PC_REDIS_IS_THERE) {
        pc_redis server = pc_redis_start("");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        tier(&remote);
        pc_redis_kill(&server);
    } else {
        printf("no redis-server, or no hiredis: REMOTE is left out\n");
    }
    return pc_test_end();
}

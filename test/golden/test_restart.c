/* One process encodes a schema, a second reads it from the folder, a third from a Redis server: for
 * every golden model and for the demo model in its number formats, in all encodings and for a
 * prompt without PML. This program runs itself as the other processes.
 * Catches: logits or tokens that are not, bit for bit, those of states that were computed here;
 * states that were computed again although they were stored (the counters say where they came
 * from); records of another model, under another name or with a changed bit that are used; requests
 * that fail or hang because a server was killed or does not answer; lossy records that count as
 * exact. */
#include <promptcache/cache.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/model.h"
#include "at_rest.h"
#include "golden_models.h"
#include "redis_server.h"
#include "testing.h"

static const char schema_text[] =
    "<schema name=\"s\">Listen: <module name=\"a\">a red <parameter name=\"x\" length=\"4\"/> "
    "tree</module>"
    "<module name=\"b\">blue boat</module>"
    "<union><module name=\"u\">spring</module><module name=\"v\">never</module></union><module "
    "name=\"c\">cats</module></schema>";
static const char prompt_text[] = "<prompt schema=\"s\"><a x=\"old\"/><b/><v/><c/>who?</prompt>";
/* for a context of 16 tokens */
static const char short_schema[] =
    "<schema name=\"s\">a<module name=\"m\">bcd</module><union><module "
    "name=\"u\">e</module><module name=\"v\">fg</module></union></schema>";
static const char short_prompt[] = "<prompt schema=\"s\"><m/><v/>?</prompt>";

enum {
    CASES = PC_ENCODE_EXACT + 2,
    PLAIN = PC_ENCODE_EXACT + 1,
    PLAIN_TOKENS = 90,
    STEPS = 4,
    MOST_VOCAB = 70000,
    REACH = 200 /* positions, at most */
};

/* What one process has to know to open the other's world. */
typedef struct setting {
    char model[256];
    uint32_t compute, kv, codec;
    const char *folder, *remote; /* NULL: none */
    uint64_t flags;
    double deadline;
    const uint8_t *seal_key;
} setting;

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
    pc_prompt *prompt, *plain; /* plain NULL: the context is too short */
} world;

typedef struct answer {
    uint64_t cached, encoded, tiers[PC_TIER_COUNT];
    uint32_t exactness, lossy, reason;
    int32_t tokens[STEPS];
    float logits[MOST_VOCAB];
} answer;

/* Golden models have no tokenizer: bytes, as far as the vocabulary reaches. */
static pc_status byte_tokens(void *user, const char *text, size_t size, uint64_t flags,
                             int32_t *tokens, size_t capacity, size_t *count)
{
    const pc_model *model = user;
    (void)flags;
    for (size_t i = 0; i < size && i < capacity; i++)
        tokens[i] = 3 + (unsigned char)text[i] % (model->info.vocab - 3);
    *count = size;
    return capacity && size > capacity ? PC_ERR_LIMIT : PC_OK;
}

static pc_cache *open_cache(pc_context *context, const setting *s)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.flags = s->flags;
    o.disk_path = s->folder;
    o.remote = s->remote;
    o.seal_key = s->seal_key;
    o.disk_codec = o.remote_codec = s->codec;
    o.deadline_seconds = s->deadline > 0 ? s->deadline : 20;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

static void close_world(world *w)
{
    pc_prompt_free(w->plain);
    pc_prompt_free(w->prompt);
    pc_schema_free(w->schema);
    pc_cache_free(w->cache);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static int open_world(world *w, const setting *s)
{
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    int32_t ids[PLAIN_TOKENS];
    int ok, small;
    memset(w, 0, sizeof *w);
    o.compute = s->compute;
    o.kv = s->kv;
    ok = CHECK_OK(pc_context_new(&w->context, NULL))
         && CHECK_OK(pc_model_load(&w->model, w->context, s->model, &o));
    if (!ok)
        return 0;
    if (!w->model->tokenizer)
        w->model->ops.tokenize = byte_tokens;
    small = w->model->info.context_length && w->model->info.context_length < 100;
    w->cache = open_cache(w->context, s);
    const char *schema = small ? short_schema : schema_text,
               *prompt = small ? short_prompt : prompt_text;
    ok = CHECK_OK(pc_schema_parse(&w->schema, w->model, schema, strlen(schema), NULL))
         && CHECK_OK(pc_prompt_parse(&w->prompt, &w->schema, 1, prompt, strlen(prompt), NULL));
    for (int32_t i = 0; i < PLAIN_TOKENS; i++)
        ids[i] = 3 + (i * 29 + i / 7) % (w->model->info.vocab - 3);
    if (ok && !small)
        ok = CHECK_OK(pc_prompt_from_tokens(&w->plain, w->model, ids, PLAIN_TOKENS, NULL));
    return ok && CHECK(w->model->info.vocab <= MOST_VOCAB);
}

/* Case `index`: an encoding of the schema's prompt, or PLAIN. */
static void ask(const world *w, size_t index, pc_cache *cache, answer *out)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    pc_sequence *sequence = NULL;
    pc_batch *batch = NULL;
    size_t count = 0;
    memset(out, 0, sizeof *out);
    if (index == PLAIN && !w->plain)
        return;
    o.encoding = index == PLAIN ? 0 : (uint32_t)index;
    o.max_tokens = STEPS;
    o.rope_regime_length = REACH;
    o.flags = PC_GENERATE_LOGITS | PC_GENERATE_KEEP;
    if (!CHECK_OK(pc_sequence_new(&sequence, index == PLAIN ? w->plain : w->prompt, cache, &o)))
        return;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, sequence));
    if (CHECK(pc_batch_step(batch) >= 0)) {
        const float *logits = pc_sequence_logits(sequence, &count);
        if (CHECK(logits && count == (size_t)w->model->info.vocab))
            memcpy(out->logits, logits, count * sizeof *logits);
        while (pc_batch_step(batch) == PC_OK)
            ;
    }
    const int32_t *tokens = pc_sequence_tokens(sequence, &count);
    memcpy(out->tokens, tokens, (count < STEPS ? count : STEPS) * sizeof *tokens);
    CHECK_OK(pc_sequence_get_stats(sequence, &stats));
    out->cached = stats.tokens_cached;
    out->encoded = stats.tokens_encoded;
    out->exactness = stats.exactness;
    out->lossy = stats.lossy;
    out->reason = stats.miss_reason;
    memcpy(out->tiers, stats.tokens_tier, sizeof out->tiers);
    pc_batch_free(batch);
    pc_sequence_free(sequence);
}

/* ------------------------------------------------------- the other processes */

/* Fills the store: schemas by encoding them, states that depend on prompts by asking twice. */
static void write_all(const setting *s)
{
    static answer a;
    world w;
    if (open_world(&w, s)) {
        for (uint32_t encoding = 0; encoding < PC_ENCODE_EXACT; encoding++) {
            pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
            o.encoding = encoding;
            o.rope_regime_length = REACH;
            CHECK_OK(pc_schema_encode(w.schema, w.cache, &o));
        }
        for (int i = 0; i < 2; i++)
            for (size_t c = PC_ENCODE_EXACT; c < CASES; c++)
                ask(&w, c, w.cache, &a);
        CHECK_OK(pc_cache_flush(w.cache));
    }
    close_world(&w);
}

static void read_all(const setting *s, const char *path)
{
    answer *all = calloc(CASES, sizeof *all);
    world w;
    if (open_world(&w, s)) {
        for (size_t c = 0; c < CASES; c++)
            ask(&w, c, w.cache, &all[c]);
        pc_test_write(path, all, CASES * sizeof *all);
    }
    close_world(&w);
    free(all);
}

/* argv: program, "write" or "read", model, compute, kv, codec, folder or -, address or -, file of
 * answers */
static int other_process(char **argv)
{
    setting s = {.compute = (uint32_t)atoi(argv[3]),
                 .kv = (uint32_t)atoi(argv[4]),
                 .codec = (uint32_t)atoi(argv[5]),
                 .folder = strcmp(argv[6], "-") ? argv[6] : NULL,
                 .remote = strcmp(argv[7], "-") ? argv[7] : NULL,
                 .flags = PC_CACHE_ALWAYS_LOAD};
    snprintf(s.model, sizeof s.model, "%s", argv[2]);
    if (!strcmp(argv[1], "write"))
        write_all(&s);
    else
        read_all(&s, argv[8]);
    return pc_test_end();
}

static void run(const char *program, const char *what, const setting *s, const char *answers)
{
    char compute[16], kv[16], codec[16];
    int code = -1;
    pid_t child;
    snprintf(compute, sizeof compute, "%u", s->compute);
    snprintf(kv, sizeof kv, "%u", s->kv);
    snprintf(codec, sizeof codec, "%u", s->codec);
    fflush(stdout);
    child = fork();
    if (!child) {
        (void)!freopen("/dev/null", "w", stdout); /* its count of checks */
        execl(program, program, what, s->model, compute, kv, codec, s->folder ? s->folder : "-",
              s->remote ? s->remote : "-", answers, (char *)NULL);
        _exit(99);
    }
    CHECK(child > 0 && waitpid(child, &code, 0) == child);
    if (!CHECK_INT(WIFEXITED(code) ? WEXITSTATUS(code) : -1, 0))
        fprintf(stderr, "    %s %s\n", what, s->model);
}

/* ------------------------------------------------------------- comparisons */

static int same(const answer *a, const answer *b)
{
    return !memcmp(a->logits, b->logits, sizeof a->logits)
           && !memcmp(a->tokens, b->tokens, sizeof a->tokens);
}

/* What a process has read from a tier against what was computed here. */
static void is_right(const world *w, const answer *want, const answer *got, uint32_t tier,
                     size_t index, const char *model)
{
    int ok = 1;
    if (index == PLAIN && !w->plain)
        return;
    ok &= CHECK(same(want, got));
    ok &= CHECK(got->cached > 0);
    ok &= CHECK_INT(got->encoded, 0);
    ok &= CHECK_INT(got->tiers[tier], got->cached);
    ok &= CHECK_INT(got->exactness, want->exactness);
    ok &= CHECK_INT(got->lossy, 0);
    ok &= CHECK_INT(got->reason, PC_REASON_NONE);
    if (!ok)
        fprintf(stderr, "    %s, case %zu, tier %u\n", model, index, tier);
}

/* Answers from states that this process has computed, taken from its memory. With int8 states,
 * arguments see other values in the request that computes the states than in later ones. */
static answer *computed_here(const world *w)
{
    static answer first;
    answer *all = calloc(CASES, sizeof *all);
    setting memory = {.compute = 0};
    pc_cache *cache = open_cache(w->context, &memory);
    for (size_t c = 0; c < CASES; c++) {
        ask(w, c, cache, &first);
        CHECK_INT(first.cached, 0);
        ask(w, c, cache, &all[c]);
    }
    pc_cache_free(cache);
    return all;
}

static void through(const char *program, const world *w, const answer *want, const setting *s,
                    uint32_t tier)
{
    char path[512];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/answers", pc_test_folder());
    run(program, "read", s, path);
    answer *got = (answer *)(void *)pc_test_read(path, &size);
    if (CHECK(got && size == CASES * sizeof *got))
        for (size_t c = 0; c < CASES; c++)
            is_right(w, &want[c], &got[c], tier, c, s->model);
    free(got);
}

/* One model: written by one process to both tiers, read by one process from each. */
static void restart(const char *program, setting s, const char *remote)
{
    char folder[512], answers[] = "-";
    setting alone = {.compute = s.compute, .kv = s.kv};
    world w;
    snprintf(folder, sizeof folder, "%s/store", pc_test_folder());
    s.folder = folder;
    s.remote = remote;
    run(program, "write", &s, answers);
    snprintf(alone.model, sizeof alone.model, "%s", s.model);
    if (open_world(&w, &alone)) {
        answer *want = computed_here(&w);
        s.remote = NULL;
        through(program, &w, want, &s, PC_TIER_DISK);
        s.remote = remote;
        s.folder = NULL;
        if (remote)
            through(program, &w, want, &s, PC_TIER_REMOTE);
        free(want);
    }
    close_world(&w);
}

static void set_model(setting *s, const char *path)
{
    snprintf(s->model, sizeof s->model, "%s", path);
}

/* ------------------------------------------------ records that must not be used */

typedef struct files {
    char path[64][512];
    size_t count;
} files;

static void list(const char *folder, files *f)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char path[512];
        size_t n = strlen(entry->d_name);
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n == 2)
            list(path, f);
        else if (n > 4 && !strcmp(entry->d_name + n - 4, ".pcr") && CHECK(f->count < 64))
            snprintf(f->path[f->count++], sizeof f->path[0], "%s", path);
    }
    if (dir)
        closedir(dir);
}

static files fill(const char *program, setting *s, char *folder, const char *name, uint32_t codec)
{
    files f = {.count = 0};
    snprintf(folder, 512, "%s/%s", pc_test_folder(), name);
    s->folder = folder;
    s->codec = codec;
    run(program, "write", s, "-");
    list(folder, &f);
    CHECK(f.count > 5);
    return f;
}

/* Nothing of the folder is used, all is computed, the answer is right; `reason` says why. */
static void nothing_used(const setting *s, uint32_t reason)
{
    static answer want, got;
    world w;
    if (open_world(&w, s)) {
        for (size_t c = 0; c < CASES; c++) {
            ask(&w, c, NULL, &want);
            ask(&w, c, w.cache, &got);
            CHECK(same(&want, &got));
            CHECK_INT(got.cached, 0);
            CHECK(got.encoded > 0);
            if (!CHECK_INT(got.reason, reason))
                fprintf(stderr, "    case %zu\n", c);
        }
    }
    close_world(&w);
}

static void not_believed(const char *program, setting s)
{
    char folder[512], spare[600];
    s.compute = PC_DTYPE_F32;
    s.flags = PC_CACHE_ALWAYS_LOAD;
    /* every record gets the name of another one */
    files f = fill(program, &s, folder, "renamed", 0);
    snprintf(spare, sizeof spare, "%s/spare", pc_test_folder());
    for (size_t i = 0; i + 1 < f.count; i++) {
        CHECK(!rename(f.path[i], spare) && !rename(f.path[i + 1], f.path[i])
              && !rename(spare, f.path[i + 1]));
    }
    nothing_used(&s, PC_REASON_DAMAGED);
    /* one bit of every record's last block */
    f = fill(program, &s, folder, "flipped", 0);
    for (size_t i = 0; i < f.count; i++) {
        FILE *file = chmod(f.path[i], 0600) ? NULL : fopen(f.path[i], "r+b");
        int byte = -1;
        if (!CHECK(file != NULL))
            continue;
        CHECK(!fseek(file, -900, SEEK_END));
        byte = fgetc(file);
        CHECK(byte >= 0 && !fseek(file, -900, SEEK_END) && fputc(byte ^ 0x10, file) >= 0);
        fclose(file);
    }
    nothing_used(&s, PC_REASON_DAMAGED);
    /* the same weights with another format of K and V: other names */
    fill(program, &s, folder, "other-kv", 0);
    s.kv = PC_DTYPE_F16;
    nothing_used(&s, PC_REASON_FIRST_USE);
}

/* The number of mapped records of a folder; -1: the system does not say. */
static int mappings(const char *folder)
{
    char line[1024];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps))
        count += strstr(line, folder) && strstr(line, ".pcr");
    fclose(maps);
    return count;
}

/* Records that are mapped instead of read, and sealed ones: the same bits. */
static void other_ways(const char *program, setting s)
{
    static answer got;
    static const uint8_t key[32] = {1, 2, 3};
    char folder[512];
    world w;
    s.compute = PC_DTYPE_BF16;
    for (int sealed = 0; sealed < 2; sealed++) {
        s.flags = PC_CACHE_ALWAYS_LOAD | (sealed ? PC_CACHE_ZERO_MEMORY : PC_CACHE_MMAP);
        s.seal_key = sealed ? key : NULL;
        if (sealed) {
            snprintf(folder, sizeof folder, "%s/sealed", pc_test_folder());
            s.folder = folder;
            write_all(&s); /* a process of its own would need the key */
        } else {
            fill(program, &s, folder, "mapped", PC_CODEC_RAW);
        }
        if (open_world(&w, &s)) {
            answer *want = computed_here(&w);
            for (size_t c = 0; c < CASES; c++) {
                ask(&w, c, w.cache, &got);
                is_right(&w, &want[c], &got, PC_TIER_DISK, c, sealed ? "sealed" : "mapped");
            }
            free(want);
            int mapped = mappings(folder);
            CHECK(mapped < 0 || (mapped > 0) == !sealed);
        }
        close_world(&w);
        CHECK(mappings(folder) <= 0);
    }
}

/* States from a lossy codec are used, say so, and are never exact. */
static void lossy(const char *program, setting s)
{
    static answer want, got;
    char folder[512];
    world w;
    s.compute = PC_DTYPE_F32;
    s.flags = PC_CACHE_ALWAYS_LOAD;
    for (uint32_t codec = PC_CODEC_I8; codec <= PC_CODEC_I4; codec++) {
        fill(program, &s, folder, codec == PC_CODEC_I8 ? "int8" : "int4", codec);
        if (open_world(&w, &s)) {
            for (size_t c = 0; c < CASES; c++)
                for (int again = 0; again < 2; again++) { /* then from RAM */
                    ask(&w, c, NULL, &want);
                    ask(&w, c, w.cache, &got);
                    CHECK(got.cached > 0);
                    CHECK_INT(got.encoded, 0);
                    CHECK_INT(got.lossy, 1);
                    CHECK_INT(got.exactness, PC_APPROXIMATE);
                    CHECK(!same(&want, &got));
                }
        }
        close_world(&w);
    }
}

/* ------------------------------------------------------------ a server that goes */

static void ask_all(const world *w, const answer *want, const char *when)
{
    static answer got;
    for (size_t c = 0; c < CASES; c++) {
        double started = pc__now();
        ask(w, c, w->cache, &got);
        if (!CHECK(same(&want[c], &got)) || !CHECK(pc__now() - started < 10))
            fprintf(stderr, "    %s, case %zu\n", when, c);
    }
}

static uint64_t tier_hits(const world *w)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(w->cache, PC_TIER_REMOTE, &stats));
    return stats.hits;
}

static void server_goes(const char *program, setting s, pc_redis *server)
{
    world w;
    uint64_t hits;
    s.compute = PC_DTYPE_F32;
    run(program, "write", &s, "-");
    s.deadline = 0.5;
    s.flags = PC_CACHE_ALWAYS_LOAD;
    if (open_world(&w, &s)) {
        answer *want = computed_here(&w);
        ask_all(&w, want, "while it is there");
        CHECK((hits = tier_hits(&w)) > 0);
        pc_test_forget(w.cache);
        pc_redis_freeze(server);
        ask_all(&w, want, "while it stands still");
        pc_redis_thaw(server);
        pc_test_forget(w.cache);
        pc_redis_kill(server);
        ask_all(&w, want, "when it was killed");
        CHECK_INT(tier_hits(&w), hits);
        pc_test_forget(w.cache);
        pc_redis_again(server);
        ask_all(&w, want, "when it is back, and empty");
        free(want);
    }
    close_world(&w);
}

int main(int argc, char **argv)
{
    char address[64];
    const char *remote = NULL;
    setting s = {.compute = PC_DTYPE_F32};
    pc_redis server = {0};
    if (argc == 9)
        return other_process(argv);
    if (PC_REDIS_IS_THERE) {
        server = pc_redis_start("");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        remote = address;
    } else {
        printf("no redis-server, or no hiredis: REMOTE is left out\n");
    }
    set_model(&s, PC_SOURCE_DIR "/models/demo/demo.gguf");
    for (uint32_t compute = PC_DTYPE_F32; compute <= PC_DTYPE_BF16; compute++)
        for (uint32_t kv = 0; kv <= PC_DTYPE_I8; kv += PC_DTYPE_I8) {
            s.compute = compute;
            s.kv = kv;
            restart(argv[0], s, remote);
        }
    s.kv = 0;
    not_believed(argv[0], s);
    lossy(argv[0], s);
    other_ways(argv[0], s);
    for (size_t i = 0; i < GOLDEN_MODELS; i++) {
        char path[256];
        snprintf(path, sizeof path, "golden/%s", golden_models[i]);
        set_model(&s, pc_test_data(path));
        s.compute = PC_DTYPE_F32;
        restart(argv[0], s, remote);
    }
    if (remote) {
        set_model(&s, PC_SOURCE_DIR "/models/demo/demo.gguf");
        s.remote = remote;
        server_goes(argv[0], s, &server);
        pc_redis_kill(&server);
    }
    return pc_test_end();
}

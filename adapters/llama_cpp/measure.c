/* Time until the first token, three ways in turns: through the adapter with all but NEW tokens in
 * the cache; by llama.cpp with a kept prefix of the same length (llama_memory_seq_rm, then NEW
 * tokens); by llama.cpp with all tokens. Each way has a context of its own with the same params.
 *
 *   llama_measure MODEL.gguf [TOKENS NEW ROUNDS FULL_ROUNDS THREADS]    (4096 64 9 3 2)
 *
 * Prints medians, and the lowest and highest, of seconds by the clock and of processor time (user
 * and system, all threads): the latter says what was computed where others use the machine too. */
#include <llama.h>
#include <promptcache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "promptcache_llama.h"

enum { MOST_ROUNDS = 99, ADAPTER = 0, KEPT = 1, FULL = 2, WAYS = 3 };
static const char *const names[WAYS] = {"adapter, cached", "llama.cpp, kept prefix",
                                        "llama.cpp, all tokens"};

typedef struct times {
    double wall[MOST_ROUNDS], processor[MOST_ROUNDS];
    int count;
} times;

typedef struct bench {
    struct llama_model *weights;
    struct llama_context *plain, *memory;
    struct llama_context_params params;
    pc_model *model;
    pc_cache *cache;
    int32_t *tokens;
    int count, fresh, vocab;
    times of[WAYS];
    int32_t first[WAYS]; /* the token that the way chose */
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processor(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec)
           + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void note(times *t, double wall, double cpu)
{
    if (t->count < MOST_ROUNDS) {
        t->wall[t->count] = now() - wall;
        t->processor[t->count++] = processor() - cpu;
    }
}

/* The prefix is always the same; the new tokens are other ones in each round. */
static void choose_tokens(bench *b, int round)
{
    unsigned long long seed = 1;
    for (int i = 0; i < b->count; i++) {
        if (i == b->count - b->fresh)
            seed = 1000003ull * (unsigned)(round + 2);
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        b->tokens[i] = (int32_t)(300 + (seed >> 33) % (unsigned)(b->vocab - 300));
    }
}

static int plain_decode(bench *b, int from, int to)
{
    struct llama_batch batch = llama_batch_init((int32_t)b->params.n_batch, 0, 1);
    int good = 1;
    for (int i = from; i < to && good; i++) {
        int n = batch.n_tokens++;
        batch.token[n] = b->tokens[i];
        batch.pos[n] = i;
        batch.n_seq_id[n] = 1;
        batch.seq_id[n][0] = 0;
        batch.logits[n] = i + 1 == to;
        if (batch.n_tokens == (int32_t)b->params.n_batch || i + 1 == to) {
            good = !llama_decode(b->plain, batch);
            batch.n_tokens = 0;
        }
    }
    llama_synchronize(b->plain);
    llama_batch_free(batch);
    return good;
}

static int32_t likeliest(const float *logits, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static int by_llama(bench *b, int way)
{
    llama_memory_t cells = llama_get_memory(b->plain);
    int from = way == KEPT ? b->count - b->fresh : 0;
    double wall = now(), cpu = processor();
    llama_memory_seq_rm(cells, 0, from, -1);
    if (!plain_decode(b, from, b->count))
        return 0;
    b->first[way] = likeliest(llama_get_logits_ith(b->plain, -1), b->vocab);
    note(&b->of[way], wall, cpu);
    return 1;
}

static int32_t note_first(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)sample;
    *(int32_t *)user = likeliest(logits, (int)count);
    return 0;
}

static int by_adapter(bench *b, int counts)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    pc_prompt_options how = PC_PROMPT_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    double wall = now(), cpu = processor();
    pc_status status;
    o.max_tokens = 1;
    o.on_logits = note_first;
    o.on_logits_user = &b->first[ADAPTER];
    status = pc_prompt_from_tokens(&prompt, b->model, b->tokens, (size_t)b->count, &how);
    if (status >= 0)
        status = pc_generate(prompt, b->cache, &o, &stats);
    pc_prompt_free(prompt);
    if (status < 0) {
        fprintf(stderr, "llama_measure: %s\n", pc_error_text());
        return 0;
    }
    if (!counts)
        return 1;
    note(&b->of[ADAPTER], wall, cpu);
    if (stats.tokens_cached != (uint64_t)(b->count - b->fresh))
        fprintf(stderr, "llama_measure: %llu tokens were cached\n",
                (unsigned long long)stats.tokens_cached);
    return 1;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double print_one(const char *what, double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    printf("  %s %.3f s (%.3f to %.3f)", what, values[count / 2], values[0], values[count - 1]);
    return values[count / 2];
}

static void print_all(bench *b)
{
    double wall[WAYS], cpu[WAYS];
    for (int w = 0; w < WAYS; w++) {
        printf("%-24s", names[w]);
        wall[w] = print_one("clock", b->of[w].wall, b->of[w].count);
        cpu[w] = print_one("processor", b->of[w].processor, b->of[w].count);
        printf("  %d rounds\n", b->of[w].count);
    }
    printf("all tokens / adapter: %.1f by the clock, %.1f by processor time\n",
           wall[FULL] / wall[ADAPTER], cpu[FULL] / cpu[ADAPTER]);
    printf("adapter / kept prefix: %.3f by the clock, %.3f by processor time\n",
           wall[ADAPTER] / wall[KEPT], cpu[ADAPTER] / cpu[KEPT]);
}

static int rounds(bench *b, int count, int full)
{
    int equal = 0;
    choose_tokens(b, -1);
    if (!plain_decode(b, 0, b->count) || !by_adapter(b, 0))
        return 0;
    for (int r = 0; r < count; r++) {
        choose_tokens(b, r);
        /* who goes first changes from round to round */
        if (!(r % 2 ? by_llama(b, KEPT) && by_adapter(b, 1) : by_adapter(b, 1) && by_llama(b, KEPT))
            || (r < full && !by_llama(b, FULL)))
            return 0;
        equal += b->first[ADAPTER] == b->first[KEPT];
    }
    print_all(b);
    printf("the same first token in %d of %d rounds\n", equal, count);
    return 1;
}

static pc_status open_model(bench *b, pc_context *context, const char *path)
{
    pc_llama_options options = PC_LLAMA_OPTIONS_INIT;
    static const uint8_t fingerprint[32] = "measured in memory alone";
    (void)path;
    options.params = &b->params;
    options.fingerprint = fingerprint;
    pc_status status = pc_llama_model_new(&b->model, context, b->weights, b->memory, &options);
    return status < 0 ? status : pc_cache_new(&b->cache, context, NULL);
}

static void errors_only(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int number(int argc, char **argv, int i, int otherwise)
{
    return argc > i ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    bench b = {.count = number(argc, argv, 2, 4096), .fresh = number(argc, argv, 3, 64)};
    int count = number(argc, argv, 4, 9), full = number(argc, argv, 5, 3), good = 0;
    pc_context *context = NULL;
    if (argc < 2 || b.fresh < 1 || b.count <= b.fresh || count < 1 || full < 1 || full > count
        || count > MOST_ROUNDS) {
        fprintf(stderr, "usage: llama_measure MODEL.gguf [TOKENS NEW ROUNDS FULL_ROUNDS "
                        "THREADS]\n");
        return 2;
    }
    llama_log_set(errors_only, NULL);
    b.params = llama_context_default_params();
    b.params.n_ctx = (uint32_t)(b.count + 16 * b.fresh + 2048);
    b.params.n_threads = b.params.n_threads_batch = number(argc, argv, 6, 2);
    pc_llama_params(&b.params);
    b.weights = llama_model_load_from_file(argv[1], llama_model_default_params());
    b.tokens = calloc((size_t)b.count, sizeof *b.tokens);
    if (b.weights && b.tokens) {
        b.vocab = llama_vocab_n_tokens(llama_model_get_vocab(b.weights));
        b.plain = llama_init_from_model(b.weights, b.params);
        b.memory = llama_init_from_model(b.weights, b.params);
    }
    if (b.plain && b.memory && b.vocab > 300 && pc_context_new(&context, NULL) >= 0) {
        if (open_model(&b, context, argv[1]) >= 0)
            good = rounds(&b, count, full);
        else
            fprintf(stderr, "llama_measure: %s\n", pc_error_text());
    }
    pc_cache_free(b.cache);
    pc_model_free(b.model);
    pc_context_free(context);
    llama_free(b.plain);
    llama_free(b.memory);
    llama_model_free(b.weights);
    free(b.tokens);
    return !good;
}

/* Catches: a sequence whose answer depends on the other sequences of its batch. A thousand
 * sequences of the demo model, over many prompts that share modules and over forks of each other (a
 * forest of shared segments), join and leave one batch at random; some leave for good in the middle
 * of their answer, some come back. Tokens are drawn at temperature 1, so that one different bit of
 * a logit shows sooner or later. Every sequence must give the answer that it gives alone, and
 * nothing may leak. tools/test.sh --all runs it under ThreadSanitizer. */
#include <promptcache/sampling.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"
#include "testing.h"

#if defined(__SANITIZE_THREAD__) /* twenty times slower */
enum { SEQUENCES = 60, PROMPTS = 6 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SEQUENCES = 200, PROMPTS = 16 };
#else
enum { SEQUENCES = 1000, PROMPTS = 40 };
#endif
enum { SEEDS = 3, ENDINGS = 3, MOST = 9, MOST_LIVE = 48, PEOPLE = 16, FORK_AT = 3 };

typedef struct answer {
    int32_t tokens[MOST];
    size_t count;
} answer;

/* A fork makes a segment of the tail so far, for both sequences. Their sums are then divided
 * differently from those of a sequence that was never forked, and may round differently. */
enum { WHOLE, FORKED, FORK };

typedef struct live {
    pc_sequence *sequence;
    size_t prompt, seed, ending; /* FORKED, FORK: after FORK_AT tokens */
    int joined;
} live;

typedef struct world {
    pc_test_memory memory;
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
    pc_prompt *prompts[PROMPTS];
    answer alone[PROMPTS][SEEDS][ENDINGS];
    pc_test_rng rng;
    live sequences[MOST_LIVE];
    size_t count, started, finished, left, forked;
} world;

static const char *const people[PEOPLE] = {
    "anna-reed",  "oscar-baker", "rosa-silva", "peter-novak", "clara-holt",  "ivan-keller",
    "hugo-brook", "nina-tanaka", "sara-lopez", "felix-weber", "olga-hughes", "tom-archer",
    "kate-wade",  "liam-turner", "mona-diaz",  "vera-marsh"};

static size_t below(world *w, size_t n)
{
    return (size_t)(pc_test_bits(&w->rng) % n);
}

/* Some people in the order of the schema, and a question of its own. */
static void make_prompt(world *w, size_t index)
{
    static const char *const asked[] = {"desk", "job", "team", "phone", "hobby"};
    char text[2048];
    size_t n = (size_t)snprintf(text, sizeof text, "<prompt schema=\"employees\">");
    for (size_t p = 0; p < PEOPLE; p++)
        if (p == index % PEOPLE || below(w, 3) == 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "<%s/>", people[p]);
    n += (size_t)snprintf(text + n, sizeof text - n, "<user>What is the %s of %s?</user></prompt>",
                          asked[index % 5], people[index % PEOPLE]);
    CHECK_OK(pc_prompt_parse(&w->prompts[index], &w->schema, 1, text, n, NULL));
}

static pc_sampling sampling_of(size_t seed)
{
    pc_sampling s = PC_SAMPLING_INIT;
    s.temperature = 1.0f;
    s.seed = seed;
    return s;
}

static pc_generate_options options_of(const pc_sampling *sampling)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    options.max_tokens = MOST;
    options.sampling = sampling;
    return options;
}

static void copy_answer(const pc_sequence *sequence, answer *to)
{
    const int32_t *tokens = pc_sequence_tokens(sequence, &to->count);
    if (CHECK(to->count <= MOST) && to->count)
        memcpy(to->tokens, tokens, to->count * sizeof *tokens);
}

static void finish_alone(world *w, pc_sequence *sequence, answer *to)
{
    pc_batch *batch;
    pc_status status = PC_OK;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, sequence));
    while (status == PC_OK)
        status = pc_batch_step(batch);
    CHECK_INT(status, PC_END);
    copy_answer(sequence, to);
    pc_batch_free(batch);
}

static void run_alone(world *w, size_t prompt, size_t seed)
{
    pc_sampling first = sampling_of(100 + seed), sampling = sampling_of(900 + seed);
    pc_generate_options options = options_of(&first);
    const pc_fork_options how = {sizeof how, &sampling};
    pc_sequence *sequence, *fork = NULL;
    pc_batch *batch;
    CHECK_OK(pc_sequence_new(&sequence, w->prompts[prompt], w->cache, &options));
    finish_alone(w, sequence, &w->alone[prompt][seed][WHOLE]);
    pc_sequence_free(sequence);
    if (w->alone[prompt][seed][WHOLE].count <= FORK_AT)
        return;
    CHECK_OK(pc_sequence_new(&sequence, w->prompts[prompt], w->cache, &options));
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    CHECK_OK(pc_batch_add(batch, sequence));
    for (size_t i = 0; i < FORK_AT; i++)
        CHECK(pc_batch_step(batch) >= 0);
    CHECK_OK(pc_sequence_fork(&fork, sequence, &how));
    CHECK_OK(pc_batch_remove(batch, sequence));
    pc_batch_free(batch);
    finish_alone(w, fork, &w->alone[prompt][seed][FORK]);
    finish_alone(w, sequence, &w->alone[prompt][seed][FORKED]);
    pc_sequence_free(fork);
    pc_sequence_free(sequence);
}

/* The answer so far has to be the beginning of the answer alone; a sequence that has ended has all
 * of it. */
static void check_answer(world *w, const live *l)
{
    const answer *want = &w->alone[l->prompt][l->seed][l->ending];
    answer got;
    copy_answer(l->sequence, &got);
    if (pc_sequence_finish(l->sequence) != PC_FINISH_NONE)
        CHECK_INT(got.count, want->count);
    CHECK(got.count <= want->count
          && !memcmp(got.tokens, want->tokens, got.count * sizeof *got.tokens));
}

static void drop(world *w, size_t i)
{
    check_answer(w, &w->sequences[i]);
    pc_sequence_free(w->sequences[i].sequence); /* it leaves its batch by itself */
    w->sequences[i] = w->sequences[--w->count];
}

static void start(world *w)
{
    live l = {.prompt = below(w, PROMPTS), .seed = below(w, SEEDS)};
    pc_sampling sampling = sampling_of(100 + l.seed);
    pc_generate_options options = options_of(&sampling);
    CHECK_OK(pc_sequence_new(&l.sequence, w->prompts[l.prompt], w->cache, &options));
    w->sequences[w->count++] = l;
    w->started++;
}

static void maybe_fork(world *w, size_t i)
{
    live l = w->sequences[i];
    pc_sampling sampling = sampling_of(900 + l.seed);
    const pc_fork_options how = {sizeof how, &sampling};
    size_t count;
    pc_sequence_tokens(l.sequence, &count);
    if (count != FORK_AT || l.ending != WHOLE || w->count == MOST_LIVE
        || pc_sequence_finish(l.sequence) != PC_FINISH_NONE || below(w, 3))
        return;
    CHECK_OK(pc_sequence_fork(&l.sequence, l.sequence, &how));
    w->sequences[i].ending = FORKED;
    l.ending = FORK;
    l.joined = 0;
    w->sequences[w->count++] = l;
    w->started++;
    w->forked++;
}

/* Between two steps: some join, some leave to come back, some leave for good, some are forked. */
static void shuffle(world *w, pc_batch *batch)
{
    for (size_t n = below(w, 8); n && w->count < MOST_LIVE && w->started < SEQUENCES; n--)
        start(w);
    for (size_t i = 0; i < w->count; i++) {
        live *l = &w->sequences[i];
        if (pc_sequence_finish(l->sequence) != PC_FINISH_NONE) {
            drop(w, i--);
            w->finished++;
        } else if (l->joined && below(w, 60) == 0) {
            drop(w, i--);
            w->left++;
        } else if (l->joined && below(w, 12) == 0) {
            CHECK_OK(pc_batch_remove(batch, l->sequence));
            l->joined = 0;
        } else if (!l->joined && below(w, 2)) {
            CHECK_OK(pc_batch_add(batch, l->sequence));
            l->joined = 1;
        } else {
            maybe_fork(w, i);
        }
    }
}

static void run_together(world *w)
{
    pc_batch *batch;
    size_t steps = 0;
    CHECK_OK(pc_batch_new(&batch, w->model, NULL));
    for (; w->started < SEQUENCES || w->count; steps++) {
        shuffle(w, batch);
        if (!CHECK(pc_batch_step(batch) >= 0) || !CHECK(steps < 100000))
            break;
    }
    while (w->count)
        drop(w, 0);
    pc_batch_free(batch);
    CHECK(w->started >= SEQUENCES && w->finished > SEQUENCES / 2 && w->left > SEQUENCES / 50
          && w->forked > SEQUENCES / 50);
    printf("%zu sequences, %zu of them forks, %zu left early, %zu steps\n", w->started, w->forked,
           w->left, steps);
}

static void set_up(world *w)
{
    w->rng.state = 20;
    w->context = pc_test_counted_context(&w->memory, 2);
    CHECK_OK(pc_model_load(&w->model, w->context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    CHECK_OK(pc_cache_new(&w->cache, w->context, NULL));
    CHECK_OK(
        pc_schema_load(&w->schema, w->model, PC_SOURCE_DIR "/examples/pml/employees.pml", NULL));
    for (size_t i = 0; i < PROMPTS; i++)
        make_prompt(w, i);
}

int main(void)
{
    static world w;
    set_up(&w);
    for (size_t p = 0; p < PROMPTS; p++)
        for (size_t s = 0; s < SEEDS; s++)
            run_alone(&w, p, s);
    run_together(&w);
    for (size_t i = 0; i < PROMPTS; i++)
        pc_prompt_free(w.prompts[i]);
    pc_schema_free(w.schema);
    pc_cache_free(w.cache);
    pc_model_free(w.model);
    pc_context_free(w.context);
    CHECK_INT(w.memory.live_blocks, 0);
    return pc_test_end();
}

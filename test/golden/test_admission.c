/* Admission to a batch by max_own_tokens. Catches: sequences that together may come to hold more
 * than the limit; a small one that overtakes the one that waits for room; one that waits for ever;
 * one that fails where it could wait, or waits where it can never have room; a place that a
 * finished, cancelled or removed sequence keeps; a cancelled or late one that waits for room only
 * to end, and keeps others out; an answer that counts with more than the context holds. */
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"
#include "testing.h"

enum { MOST = 40, LONGEST = 200, CONTEXT = 1024 };

typedef struct world {
    pc_model *model;
    pc_batch *batch;
    pc_prompt *prompt[MOST];
    pc_sequence *sequence[MOST];
    size_t need[MOST];
    size_t count;
} world;

static size_t below(pc_test_rng *rng, size_t n)
{
    return (size_t)(pc_test_bits(rng) >> 20) % n;
}

static pc_sequence *add(world *w, size_t tokens, uint32_t answer, int32_t priority)
{
    static int32_t text[LONGEST];
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_test_rng rng = {w->count + 1};
    size_t n = w->count++;
    for (size_t i = 0; i < tokens; i++)
        text[i] = (int32_t)below(&rng, RANDOM_VOCAB);
    o.max_tokens = answer;
    o.priority = priority;
    o.flags = PC_GENERATE_IGNORE_END;
    w->need[n] = tokens + answer;
    CHECK_OK(pc_prompt_from_tokens(&w->prompt[n], w->model, text, tokens, NULL));
    CHECK_OK(pc_sequence_new(&w->sequence[n], w->prompt[n], NULL, &o));
    CHECK_OK(pc_batch_add(w->batch, w->sequence[n]));
    return w->sequence[n];
}

static void begin(world *w, pc_model *model, uint64_t most, uint32_t step_tokens)
{
    pc_batch_options options = PC_BATCH_OPTIONS_INIT;
    *w = (world){.model = model};
    options.max_own_tokens = most;
    options.step_tokens = step_tokens;
    CHECK_OK(pc_batch_new(&w->batch, model, &options));
}

static void end(world *w)
{
    pc_batch_free(w->batch);
    for (size_t i = 0; i < w->count; i++) {
        pc_sequence_free(w->sequence[i]);
        pc_prompt_free(w->prompt[i]);
    }
}

static size_t length_of(const pc_sequence *s)
{
    size_t count;
    pc_sequence_tokens(s, &count);
    return count;
}

static pc_batch_stats stats_of(const world *w)
{
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    CHECK_OK(pc_batch_get_stats(w->batch, &stats));
    return stats;
}

/* All of them finish, in whatever order; the limit holds in every step. */
static void keeps_the_limit(pc_model *model, uint64_t seed)
{
    static const uint32_t budgets[] = {0, 1, 30, UINT32_MAX};
    enum { LIMIT = 260 };
    pc_test_rng rng = {seed + 1};
    pc_status status = PC_OK;
    size_t steps = 0, waited = 0, count = 2 + below(&rng, 10);
    world w;
    begin(&w, model, LIMIT, budgets[below(&rng, 4)]);
    while ((status == PC_OK || w.count < count) && CHECK(++steps < 20000)) {
        if (w.count < count && !below(&rng, 4))
            add(&w, 1 + below(&rng, 150), 1 + (uint32_t)below(&rng, 20), (int32_t)below(&rng, 2));
        status = pc_batch_step(w.batch);
        pc_batch_stats stats = stats_of(&w);
        CHECK(stats.own_tokens <= LIMIT);
        CHECK(stats.tokens_stored <= stats.own_tokens);
        CHECK(stats.waiting <= stats.running);
        waited += stats.waiting > 0;
    }
    for (size_t i = 0; i < w.count; i++)
        CHECK_INT(pc_sequence_finish(w.sequence[i]), PC_FINISH_LENGTH);
    CHECK(seed || waited);
    end(&w);
}

static void names_what_never_fits(pc_model *model)
{
    const char *text = NULL;
    world w;
    begin(&w, model, 100, 0);
    pc_sequence *large = add(&w, 91, 10, 0), *fits = add(&w, 90, 10, 0);
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK_STATUS(pc_sequence_error(large, &text), PC_ERR_LIMIT);
    CHECK(strstr(text, "100") && strstr(text, "101") && strstr(text, "max_own_tokens"));
    CHECK_INT(length_of(fits), 1);
    end(&w);
}

/* An answer without a limit ends with the model's context, and counts up to there. */
static void counts_to_the_end_of_the_context(pc_model *model)
{
    world w;
    begin(&w, model, CONTEXT, 0);
    pc_sequence *s = add(&w, 24, UINT32_MAX, 0);
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK_INT(length_of(s), 1);
    CHECK_INT(stats_of(&w).own_tokens, CONTEXT);
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK_INT(stats_of(&w).own_tokens, CONTEXT);
    end(&w);
    begin(&w, model, CONTEXT - 1, 0);
    s = add(&w, 24, UINT32_MAX, 0);
    CHECK_STATUS(pc_batch_step(w.batch), PC_END);
    CHECK_STATUS(pc_sequence_error(s, NULL), PC_ERR_LIMIT);
    end(&w);
}

/* Priority and joining decide, not size; who leaves makes room. */
static void keeps_the_order(pc_model *model)
{
    world w;
    begin(&w, model, 100, 0);
    pc_sequence *first = add(&w, 60, 20, 0), *second = add(&w, 50, 10, 0),
                *small = add(&w, 5, 5, 0), *high = add(&w, 30, 5, 1);
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK_INT(length_of(high), 1); /* and beside it 65 tokens are left: too few for the first */
    CHECK_INT(length_of(first) + length_of(second) + length_of(small), 0);
    CHECK_INT(stats_of(&w).waiting, 3);
    CHECK_OK(pc_sequence_cancel(high));
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK(length_of(first) > 0);
    CHECK_INT(length_of(second) + length_of(small), 0);
    CHECK_OK(pc_batch_remove(w.batch, first));
    CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    CHECK(length_of(second) > 0 && length_of(small) > 0);
    CHECK_INT(stats_of(&w).waiting, 0);
    end(&w);
}

/* Those of higher priority keep coming, and fill the batch. */
static void admits_the_lowest(pc_model *model)
{
    world w;
    size_t steps = 0;
    begin(&w, model, 60, 0);
    add(&w, 20, 10, 5);
    pc_sequence *lowest = add(&w, 40, 20, -5);
    while (!length_of(lowest) && ++steps < 200) {
        if (!(steps % 7) && w.count < MOST)
            add(&w, 20, 10, 5);
        CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
    }
    CHECK(length_of(lowest) && steps > 60 && steps < 90);
    end(&w);
}

static int32_t says_stop(void *user)
{
    return *(int *)user;
}

/* Frees its sequence, which waits. */
static int32_t frees(void *user)
{
    pc_sequence **sequence = user;
    pc_sequence_free(*sequence);
    *sequence = NULL;
    return 1;
}

/* One that waits ends in the next step, however it is cancelled, and those behind it come. */
static void ends_while_it_waits(pc_model *model)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    for (int how = 0; how < 4; how++) {
        int stop = 0;
        world w;
        begin(&w, model, 100, 0);
        pc_sequence *first = add(&w, 30, 20, 0);
        CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
        pc_sequence *waits = add(&w, 50, 20, 0), *small = add(&w, 5, 5, 0);
        o.max_tokens = 20;
        o.deadline_seconds = how == 1 ? 1e-9 : 0;
        o.cancelled = how == 2 ? says_stop : how == 3 ? frees : NULL;
        o.cancel_user = how == 2 ? (void *)&stop : (void *)&w.sequence[1];
        if (how != 1 && how != 3) {
            CHECK_OK(pc_sequence_set_options(waits, &o));
            CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
            CHECK_INT(length_of(small), 0);
            CHECK_INT(pc_sequence_finish(waits), PC_FINISH_NONE);
            stop = 1;
            if (!how)
                CHECK_OK(pc_sequence_cancel(waits));
        } else {
            CHECK_OK(pc_sequence_set_options(waits, &o));
        }
        CHECK_STATUS(pc_batch_step(w.batch), PC_OK);
        if (how == 3) {
            CHECK(!w.sequence[1]);
        } else {
            CHECK_INT(pc_sequence_finish(waits), PC_FINISH_CANCELLED);
            CHECK_STATUS(pc_sequence_error(waits, NULL), PC_ERR_CANCELLED);
        }
        CHECK_INT(length_of(small), 1);
        CHECK_INT(pc_sequence_finish(first), PC_FINISH_NONE);
        CHECK_INT(stats_of(&w).waiting, 0);
        end(&w);
    }
}

int main(void)
{
    random_model shape = {.scheme = PC_POSITION_ROPE,
                          .compute = PC_DTYPE_F32,
                          .kv = PC_DTYPE_F32,
                          .head_dim = 16,
                          .context_length = CONTEXT};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    options.backend = getenv("PC_BACKEND");
    if (CHECK_OK(pc_context_new(&context, &options))
        && CHECK_OK(random_model_new(&model, context, &shape))) {
        model->info.context_length = CONTEXT;
        for (uint64_t seed = 0; seed < 60; seed++)
            keeps_the_limit(model, seed);
        names_what_never_fits(model);
        counts_to_the_end_of_the_context(model);
        keeps_the_order(model);
        admits_the_lowest(model);
        ends_while_it_waits(model);
    }
    pc_model_free(model);
    pc_context_free(context);
    return pc_test_end();
}

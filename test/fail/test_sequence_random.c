/* Random calls on sequences and batches: add, remove, step, cancel, push, truncate, fork, new
 * options, free, with callbacks that stop, models that fail and allocations that fail. Catches: a
 * call that changes a sequence although it fails; a step that changes a sequence without naming it;
 * states that do not fit the tokens any more, however the sequence came there: every token that was
 * sampled must be the one that a fresh request over the same history gives. */
#include "random_model.h"
#include "toy_schema.h"
#include <promptcache/batch.h>

enum { CALLS = 2000, LIVE = 10, BATCHES = 2, CONTEXT = 90, ASKED = 20 };

typedef struct live {
    pc_sequence *s;
    pc_batch *in;
    int32_t tokens[CONTEXT + 8];
    uint8_t given[CONTEXT + 8]; /* 1: pushed, 0: sampled */
    size_t count;
    uint64_t keep;
} live;

typedef struct world {
    pc_test_memory memory;
    pc_allocator mem;
    pc_context *context;
    pc_toy *toy; /* NULL: a native model */
    pc_model *model;
    pc_cache *cache;
    pc_prompt *prompt;
    pc_batch *batch[BATCHES];
    live live[LIVE];
    size_t checked, failed, resumed;
} world;

static pc_test_rng rng;
static int calm; /* callbacks say nothing */
static int32_t asked[ASKED];
static const uint32_t step_tokens[] = {0, 1, 5, 16, UINT32_MAX};

static size_t below(size_t n)
{
    return (size_t)(pc_test_bits(&rng) % n);
}

static int32_t speak(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample, (void)text, (void)size;
    return calm || below(12) ? 0 : below(2) ? 1 : PC_ERR_IO;
}

static int32_t maybe_cancel(void *user)
{
    (void)user;
    return !calm && !below(900);
}

static pc_status make_model(pc_model **out, pc_context *context, pc_toy **toy, int native)
{
    const random_model shape = {.scheme = PC_POSITION_ROPE,
                                .compute = PC_DTYPE_F32,
                                .kv = PC_DTYPE_F32,
                                .head_dim = 16,
                                .context_length = CONTEXT};
    pc_model_ops ops = pc_toy_ops();
    if (native) {
        pc_status status = random_model_new(out, context, &shape);
        if (status >= 0)
            (*out)->info.context_length = CONTEXT;
        return status;
    }
    ops.flags = below(2) ? PC_CUTS_PROMPTS : 0;
    *toy = pc_toy_new(7, 0, CONTEXT);
    return pc_model_from_ops(out, context, &ops, *toy, pc_toy_free, NULL);
}

/* ------------------------------------------------------------------------- the slow reference */

static pc_context *plain_context;
static pc_model *plain_model;

/* `count` greedy tokens behind these, by a request of its own without a cache. */
static void fresh(const int32_t *tokens, size_t n, size_t count, int32_t *out)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_prompt *prompt = NULL;
    pc_batch *batch = NULL;
    pc_sequence *s = NULL;
    size_t made = 0;
    o.max_tokens = (uint32_t)count;
    o.flags = PC_GENERATE_KEEP;
    CHECK_OK(pc_prompt_from_tokens(&prompt, plain_model, tokens, n, NULL));
    CHECK_OK(pc_sequence_new(&s, prompt, NULL, &o));
    CHECK_OK(pc_batch_new(&batch, plain_model, NULL));
    CHECK_OK(pc_batch_add(batch, s));
    for (size_t i = 0; i < 2 * count + 2 && made < count; i++) {
        CHECK(pc_batch_step(batch) >= 0);
        pc_sequence_tokens(s, &made);
        if (made < count && pc_sequence_finish(s)) /* a stop token */
            CHECK_OK(pc_sequence_push(s, NULL, 0));
    }
    if (CHECK_INT(made, count))
        memcpy(out, pc_sequence_tokens(s, NULL), count * sizeof *out);
    pc_sequence_free(s);
    pc_batch_free(batch);
    pc_prompt_free(prompt);
}

static void check_history(world *w, const live *l)
{
    int32_t all[ASKED + CONTEXT + 8], want[CONTEXT + 8];
    memcpy(all, asked, sizeof asked);
    memcpy(all + ASKED, l->tokens, l->count * sizeof *all);
    for (size_t i = 0, end; i < l->count; i = end) {
        end = i + 1;
        if (l->given[i])
            continue;
        while (end < l->count && !l->given[end])
            end++;
        fresh(all, ASKED + i, end - i, want);
        CHECK(!memcmp(want, l->tokens + i, (end - i) * sizeof *want));
        w->checked += end - i;
    }
}

/* ------------------------------------------------------------------------- the calls */

/* The tokens are those of the mirror. */
static void is_mirrored(const live *l)
{
    size_t count;
    const int32_t *tokens = pc_sequence_tokens(l->s, &count);
    CHECK_INT(count, l->count);
    CHECK(count == l->count && (!count || !memcmp(tokens, l->tokens, count * sizeof *tokens)));
}

static pc_generate_options some_options(void)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 1 + (uint32_t)below(12);
    o.flags = below(8) ? PC_GENERATE_KEEP : 0;
    o.priority = (int32_t)below(3) - 1;
    o.on_text = below(2) ? speak : NULL;
    o.cancelled = below(2) ? maybe_cancel : NULL;
    return o;
}

static live *unused(world *w)
{
    for (size_t i = 0; i < LIVE; i++)
        if (!w->live[i].s)
            return &w->live[i];
    return NULL;
}

static void drop(world *w, live *l)
{
    check_history(w, l);
    pc_sequence_free(l->s);
    memset(l, 0, sizeof *l);
}

static int may_fail(const world *w, pc_status status)
{
    return status == PC_ERR_NOMEM && w->memory.fail_at && w->memory.calls >= w->memory.fail_at;
}

static void make(world *w)
{
    live *l = unused(w);
    pc_generate_options o = some_options();
    pc_status status;
    if (!l)
        return;
    memset(l, 0, sizeof *l);
    status = pc_sequence_new(&l->s, w->prompt, w->cache, &o);
    l->keep = o.flags;
    CHECK(status >= 0 || may_fail(w, status));
}

static void copy(world *w, const live *l)
{
    live *to = unused(w);
    pc_status status;
    if (!to)
        return;
    *to = *l;
    to->in = NULL;
    status = pc_sequence_fork(&to->s, l->s, NULL);
    CHECK(status >= 0 || status == PC_ERR_STATE || may_fail(w, status));
    if (status < 0)
        memset(to, 0, sizeof *to);
}

static void push(world *w, live *l)
{
    int32_t tokens[3] = {(int32_t)below(90) + 3, (int32_t)below(90) + 3, (int32_t)below(90) + 3};
    size_t count = below(4);
    pc_status status = pc_sequence_push(l->s, tokens, count);
    CHECK(status >= 0 || status == PC_ERR_LIMIT || status == PC_ERR_STATE || status == PC_ERR_IO
          || may_fail(w, status));
    CHECK(status != PC_ERR_STATE || (pc_sequence_finish(l->s) && !l->keep));
    if (status < 0)
        return;
    w->resumed += !count;
    for (size_t i = 0; i < count; i++) {
        l->given[l->count] = 1;
        l->tokens[l->count++] = tokens[i];
    }
}

static void truncate(world *w, live *l)
{
    size_t count = l->count - below(l->count < 6 ? l->count + 1 : 6);
    pc_status status = pc_sequence_truncate(l->s, count);
    CHECK(status >= 0 || status == PC_ERR_STATE || may_fail(w, status));
    if (status >= 0)
        l->count = count;
}

/* At most one token for each that runs; all that have changed are named, and no others. */
static void step(world *w, pc_batch *batch)
{
    uint32_t before[LIVE];
    size_t changed_count, count;
    pc_sequence *const *changed;
    pc_status status;
    for (size_t i = 0; i < LIVE; i++)
        before[i] = pc_sequence_finish(w->live[i].s);
    status = pc_batch_step(batch);
    CHECK(status >= 0 || may_fail(w, status));
    changed = pc_batch_changed(batch, &changed_count);
    for (size_t i = 0; i < LIVE; i++) {
        live *l = &w->live[i];
        const int32_t *tokens = pc_sequence_tokens(l->s, &count);
        int differs = count != l->count || pc_sequence_finish(l->s) != before[i], named = 0;
        for (size_t k = 0; l->s && k < changed_count; k++)
            named += changed[k] == l->s;
        CHECK_INT(named, differs);
        CHECK(!differs || (l->in == batch && !before[i]));
        w->failed += differs && pc_sequence_error(l->s, NULL) < 0;
        if (!CHECK(count == l->count || count == l->count + 1) || count == l->count)
            continue;
        l->given[l->count] = 0;
        l->tokens[l->count] = tokens[l->count];
        l->count++;
    }
}

static void change(world *w, live *l)
{
    pc_generate_options o = some_options();
    pc_status status;
    o.flags = l->keep;
    status = pc_sequence_set_options(l->s, &o);
    CHECK(status >= 0 || status == PC_ERR_STATE || may_fail(w, status));
    CHECK(status != PC_ERR_STATE || (pc_sequence_finish(l->s) && !l->keep));
}

static void join(world *w, live *l)
{
    pc_batch *batch = w->batch[below(BATCHES)];
    pc_status status = l->in ? pc_batch_remove(l->in, l->s) : pc_batch_add(batch, l->s);
    CHECK(status >= 0 || may_fail(w, status));
    if (status >= 0)
        l->in = l->in ? NULL : batch;
}

static void call(world *w)
{
    live *l = &w->live[below(LIVE)];
    if (!below(3)) {
        step(w, w->batch[below(BATCHES)]);
        return;
    }
    if (!l->s) {
        make(w);
        return;
    }
    switch (below(12)) {
    case 0:
        copy(w, l);
        break;
    case 1:
    case 2:
    case 3:
        push(w, l);
        break;
    case 4:
        truncate(w, l);
        break;
    case 5:
        CHECK_OK(pc_sequence_cancel(l->s));
        break;
    case 6:
        change(w, l);
        break;
    case 7:
        if (!below(3))
            drop(w, l);
        break;
    default:
        if (!l->in || !below(4))
            join(w, l);
    }
}

/* All that can go on does so, undisturbed. */
static void finish(world *w)
{
    calm = 1;
    w->memory.fail_at = 0;
    for (size_t i = 0; i < LIVE; i++)
        if (w->live[i].s && pc_sequence_push(w->live[i].s, NULL, 0) >= 0 && !w->live[i].in)
            join(w, &w->live[i]);
    for (int round = 0; round < 3; round++)
        for (size_t b = 0; b < BATCHES; b++)
            step(w, w->batch[b]);
    for (size_t i = 0; i < LIVE; i++)
        if (w->live[i].s)
            drop(w, &w->live[i]);
}

static void play(uint64_t seed, int native)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    world w = {.checked = 0};
    pc_toy *toy;
    rng = (pc_test_rng){seed};
    calm = 0;
    o.threads = 1;
    CHECK_OK(pc_context_new(&plain_context, &o));
    CHECK_OK(make_model(&plain_model, plain_context, &toy, native));
    w.mem = pc_test_allocator(&w.memory);
    o.allocator = &w.mem;
    CHECK_OK(pc_context_new(&w.context, &o));
    CHECK_OK(make_model(&w.model, w.context, &w.toy, native));
    CHECK_OK(pc_cache_new(&w.cache, w.context, NULL));
    for (int i = 0; i < ASKED; i++)
        asked[i] = (int32_t)below(90) + 3;
    CHECK_OK(pc_prompt_from_tokens(&w.prompt, w.model, asked, ASKED, NULL));
    for (size_t i = 0; i < BATCHES; i++) {
        pc_batch_options pieces = PC_BATCH_OPTIONS_INIT;
        pieces.step_tokens = step_tokens[below(sizeof step_tokens / sizeof *step_tokens)];
        CHECK_OK(pc_batch_new(&w.batch[i], w.model, &pieces));
    }
    for (int i = 0; i < CALLS; i++) {
        w.memory.fail_at = below(4) ? 0 : w.memory.calls + 1 + below(30);
        if (w.toy)
            pc_toy_count(w.toy)->fail_step_at = below(8) ? 0 : pc_toy_count(w.toy)->step_calls + 1;
        call(&w);
        w.memory.fail_at = 0;
        for (size_t k = 0; k < LIVE; k++)
            is_mirrored(&w.live[k]);
    }
    if (w.toy)
        pc_toy_count(w.toy)->fail_step_at = 0;
    finish(&w);
    CHECK(w.checked > 300 && w.failed > 20 && w.resumed > 20);
    for (size_t i = 0; i < BATCHES; i++)
        pc_batch_free(w.batch[i]);
    pc_prompt_free(w.prompt);
    pc_cache_free(w.cache);
    if (w.toy)
        CHECK_INT(pc_toy_count(w.toy)->live_sequences, 0);
    pc_model_free(w.model);
    pc_context_free(w.context);
    CHECK_INT(w.memory.live_blocks, 0);
    pc_model_free(plain_model);
    pc_context_free(plain_context);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        play(seed, 0);
        play(seed, 1);
    }
    return pc_test_end();
}

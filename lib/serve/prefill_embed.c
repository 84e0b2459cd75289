/* pc_embed. Prompts that reuse nothing go through prefill batches, as those of pc_prefill. Prompts
 * of which segments are at hand, and all of an application's model, become sequences, and what is
 * left to compute of several is one step. */
#include <promptcache/embed.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "model/forward/heads.h"
#include "model/forward/prefill_batch.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/request.h"

enum { STEP_TOKENS = 4096 }; /* of a step; a prompt with more has one of its own */

/* A prompt as a sequence, of which some rows are to be computed. */
typedef struct embed_lane {
    size_t prompt; /* its number */
    pc__request request;
    void *sequence;
    pc__prompt_row *rows; /* [count] */
    size_t count, last;
    int distinct;
    size_t wanted; /* rows whose hidden states are pooled: `last`, or all */
} embed_lane;

typedef struct embedding {
    const pc_model *model;
    pc_prompt *const *prompts;
    size_t count;
    pc_cache *cache; /* NULL: nothing is reused */
    pc_embed_options options;
    pc__request_owners owners;
    pc__generation generation; /* the options as of a request */
    uint32_t pool;
    int normalize;
    size_t hidden;
    float *embeddings;
    embed_lane *lanes; /* [count] those that the next step computes */
    size_t lane_count, lane_rows;
    pc__prefill_input *whole; /* [count] prompts that are computed whole */
    pc_input *inputs;         /* [count] of them */
    size_t whole_count;
    pc_embed_stats stats;
} embedding;

static size_t token_count(const pc_prompt *prompt)
{
    size_t count = 0;
    for (size_t p = 0; p < prompt->part_count; p++)
        count += prompt->parts[p].count;
    return count;
}

/* ------------------------------------------------------------------ arguments */

static pc_status check_prompts(const embedding *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->prompts[i]->model != e->model)
            return pc__fail(PC_ERR_MISMATCH,
                            "pc_embed: prompt %zu is of another model than the "
                            "first",
                            i);
    for (size_t i = 0; e->options.types && pc__model_is_causal(e->model) && i < e->count; i++)
        if (e->options.types[i])
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "pc_embed: prompt %zu: token types are for encoders", i);
    return PC_OK;
}

static pc_status check_model(const pc_model *model)
{
    PC__TRY_RETURN(pc__model_can_compute(model));
    if (!model->ops.step_hidden)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_embed: the model gives no hidden states (no ops.step_hidden)");
    if (model->info.hidden <= 0)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_embed: the model does not say how wide its hidden states are "
                        "(pc_model_info.hidden)");
    return PC_OK;
}

static pc_status read_embed_options(embedding *e, const pc_embed_options *options)
{
    pc_embed_options *o = &e->options;
    PC__TRY_RETURN(pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_embed_options, cancel_user),
                                    options, "pc_embed_options"));
    PC__TRY_RETURN(pc__check_flags("pc_embed_options", o->flags, PC_EMBED_NORMALIZE));
    PC__TRY_RETURN(pc__check_enum("pc_embed_options", "pool", o->pool, PC_POOL_LAST));
    return pc__check_enum("pc_embed_options", "encoding", o->encoding, PC_ENCODE_EXACT);
}

/* The first prompt names the model. */
static pc_status begin_embedding(embedding *e)
{
    const pc_embed_options *o = &e->options;
    const pc_allocator *mem = &e->model->context->mem;
    PC__TRY_RETURN(check_prompts(e));
    PC__TRY_RETURN(check_model(e->model));
    PC__TRY_RETURN(pc__request_owners_read(&e->owners, e->model, "pc_embed", o->salts,
                                           o->salt_stride, o->salt_count, o->adapter));
    e->pool = pc__model_pool(e->model, o->pool);
    e->normalize = (o->flags & PC_EMBED_NORMALIZE) || pc__model_normalizes(e->model);
    e->hidden = (size_t)e->model->info.hidden;
    e->generation.options = (pc_generate_options){.struct_size = sizeof(pc_generate_options),
                                                  .encoding = o->encoding,
                                                  .cancelled = o->cancelled,
                                                  .cancel_user = o->cancel_user,
                                                  .salts = e->owners.salts,
                                                  .salt_stride = sizeof *o->salts,
                                                  .salt_count = o->salt_count,
                                                  .rope_regime_length = o->rope_regime_length,
                                                  .adapter = o->adapter,
                                                  .tag = o->tag};
    e->lanes = pc__calloc(mem, e->count, sizeof *e->lanes);
    e->whole = pc__calloc(mem, e->count, sizeof *e->whole);
    e->inputs = pc__calloc(mem, e->count, sizeof *e->inputs);
    return e->lanes && e->whole && e->inputs ? PC_OK : PC_ERR_NOMEM;
}

/* ------------------------------------------------------------------ whole prompts */

static void add_whole(embedding *e, size_t i)
{
    const pc_prompt *prompt = e->prompts[i];
    pc_input *input = &e->inputs[e->whole_count];
    *input = (pc_input){prompt->tokens, token_count(prompt),
                        e->options.types ? e->options.types[i] : NULL};
    e->whole[e->whole_count++] = (pc__prefill_input){.input = input,
                                                     .embedding = e->embeddings + i * e->hidden};
    e->stats.tokens += input->count;
    e->stats.tokens_computed += input->count;
}

static pc_status run_whole(embedding *e)
{
    const pc__prefill_batch_options how = {.pool = e->pool,
                                           .normalize = e->normalize,
                                           .cancelled = e->options.cancelled,
                                           .cancel_user = e->options.cancel_user};
    return pc__prefill_batch_run(e->model, e->whole, e->whole_count, &how);
}

/* Positions 0, 1, 2 …, and the RoPE regime of its own length: what a prefill batch computes. */
static int may_go_whole(const embedding *e, const pc_prompt *prompt)
{
    uint64_t length = e->options.rope_regime_length;
    return pc__model_is_native(e->model) && !prompt->schema && !prompt->given
           && (!length
               || pc__model_rope_regime(e->model, length)
                      == pc__model_rope_regime(e->model, token_count(prompt)));
}

/* ------------------------------------------------------------------ sequences */

static void end_lanes(embedding *e)
{
    for (size_t l = 0; l < e->lane_count; l++) {
        embed_lane *one = &e->lanes[l];
        pc__call_drop(e->model, one->sequence); /* before what it reads */
        pc__request_end(&one->request);
        pc__free(&e->model->context->mem, one->rows);
    }
    e->lane_count = e->lane_rows = 0;
}

static int has_segments(const pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++)
        if (r->parts[p].segment)
            return 1;
    return 0;
}

static void count_lane(embedding *e, const pc__request *r)
{
    const pc_stats *s = &r->stats;
    e->stats.tokens += r->tokens;
    e->stats.tokens_cached += s->tokens_cached;
    e->stats.tokens_computed += r->tokens - s->tokens_cached;
    if (s->exactness > e->stats.exactness)
        e->stats.exactness = s->exactness;
    if (e->stats.miss_reason == PC_REASON_NONE)
        e->stats.miss_reason = s->miss_reason;
}

static pc_status place_lane(embed_lane *one, int wants_all)
{
    const pc__request *r = &one->request;
    PC__TRY_RETURN(pc__request_rows(r, &one->rows, &one->count, &one->last, &one->distinct));
    one->wanted = wants_all ? one->count : 1;
    PC__TRY_RETURN(pc__request_sequence_new(r, &one->sequence));
    return pc__request_attach(r, one->sequence);
}

static void unplace_lane(const embedding *e, embed_lane *one)
{
    pc__call_drop(e->model, one->sequence);
    pc__free(&e->model->context->mem, one->rows);
    one->sequence = NULL;
    one->rows = NULL;
    one->count = 0;
}

static pc_status run_lanes(embedding *e);

/* Computes the lanes so far. The next one becomes the first, on failure too. */
static pc_status run_before(embedding *e)
{
    embed_lane next = e->lanes[e->lane_count];
    pc_status status = run_lanes(e);
    e->lanes[0] = next;
    return status;
}

/* A step has one RoPE regime, and a lane of several steps goes alone. */
static int goes_along(const embedding *e)
{
    const embed_lane *next = &e->lanes[e->lane_count], *first = e->lanes;
    return !e->lane_count
           || (first->request.regime.length == next->request.regime.length && first->distinct
               && next->distinct && e->lane_rows + next->count <= STEP_TOKENS);
}

/* Makes the next lane a sequence. */
static pc_status join_lanes(embedding *e, int wants_all)
{
    pc_status status = place_lane(&e->lanes[e->lane_count], wants_all);
    if (status == PC_ERR_LIMIT && e->lane_count) { /* an own model has no room for all of them */
        unplace_lane(e, &e->lanes[e->lane_count]);
        PC__TRY_RETURN(run_before(e));
        status = place_lane(e->lanes, wants_all);
    }
    return status >= 0 && !goes_along(e) ? run_before(e) : status;
}

static pc_status add_prompt(embedding *e, size_t i)
{
    const pc_prompt *prompt = e->prompts[i];
    embed_lane *one = &e->lanes[e->lane_count];
    int reuses = e->pool == PC_POOL_LAST;
    double begun = pc__now();
    pc_status status;
    if (!pc__model_is_causal(e->model) || (may_go_whole(e, prompt) && (!reuses || !e->cache))) {
        add_whole(e, i);
        return PC_OK;
    }
    *one = (embed_lane){.prompt = i};
    status = pc__request_init(&one->request, prompt, e->cache, &e->generation, 0);
    if (status >= 0 && reuses)
        status = pc__request_gather(&one->request);
    if (status >= 0 && may_go_whole(e, prompt) && !has_segments(&one->request)) {
        add_whole(e, i);
        pc__request_end(&one->request);
        return PC_OK;
    }
    e->stats.seconds_gather += pc__now() - begun;
    if (status >= 0)
        status = join_lanes(e, !reuses);
    one = &e->lanes[e->lane_count++]; /* to be ended from now on */
    e->lane_rows += one->count;
    if (status >= 0)
        count_lane(e, &one->request);
    return status;
}

static pc_status compute_rows(const embedding *e, const pc_step_row *rows, size_t count,
                              float *hidden)
{
    const pc_step_args args = {.struct_size = sizeof args,
                               .rows = rows,
                               .row_stride = sizeof *rows,
                               .count = count,
                               .visibility = PC_VISIBLE_BY_POSITION,
                               .rope_regime_length = e->lanes[0].request.regime.length,
                               .cancelled = pc__request_must_stop,
                               .cancel_user = (void *)(uintptr_t)&e->lanes[0].request};
    return count ? pc__call_step_hidden(e->model, e->cache, &args, hidden) : PC_OK;
}

/* Rows [first, end) of a lane behind those of the call. Returns how many of them are wanted. */
static size_t add_rows(const embed_lane *one, size_t first, size_t end, pc_step_row *rows)
{
    size_t wanted = 0;
    for (size_t i = first; i < end; i++) {
        uint32_t wants = one->wanted == one->count || i == one->last;
        *rows++ = (pc_step_row){one->sequence, one->rows[i].position, one->rows[i].token, wants};
        wanted += wants;
    }
    return wanted;
}

/* A step for each part. hidden: the wanted rows of them all. */
static pc_status compute_by_part(const embedding *e, const embed_lane *one, pc_step_row *rows,
                                 float *hidden)
{
    for (size_t first = 0, end; first < one->count; first = end) {
        size_t wanted;
        for (end = first + 1; end < one->count && one->rows[end].part == one->rows[first].part;)
            end++;
        wanted = add_rows(one, first, end, rows);
        PC__TRY_RETURN(compute_rows(e, rows, end - first, hidden));
        hidden += wanted * e->hidden;
    }
    return PC_OK;
}

static pc_status pool_lane(const embedding *e, const embed_lane *one, const float *rows)
{
    float *to = e->embeddings + one->prompt * e->hidden;
    pc__pool_rows(e->pool, rows, one->wanted, e->hidden, to);
    if (e->normalize)
        pc__normalize(to, e->hidden);
    return pc__model_check_row(e->model, to, e->hidden, "embedding", "prompt", one->prompt,
                               one->rows[one->last].position);
}

/* Lanes [first, end) in one step, or one lane by part. */
static pc_status run_some(const embedding *e, size_t first, size_t end, pc_step_row *rows,
                          float *hidden)
{
    size_t count = 0;
    for (size_t l = first; l < end; l++)
        count += e->lanes[l].count;
    if (!e->lanes[first].distinct) {
        PC__TRY_RETURN(compute_by_part(e, &e->lanes[first], rows, hidden));
    } else {
        pc_step_row *to = rows;
        for (size_t l = first; l < end; to += e->lanes[l++].count)
            add_rows(&e->lanes[l], 0, e->lanes[l].count, to);
        PC__TRY_RETURN(compute_rows(e, rows, count, hidden));
    }
    for (size_t l = first; l < end; hidden += e->lanes[l++].wanted * e->hidden)
        PC__TRY_RETURN(pool_lane(e, &e->lanes[l], hidden));
    return PC_OK;
}

/* An own model has no room for the tokens of all of them at once. */
static pc_status run_each(embedding *e, pc_step_row *rows, float *hidden)
{
    pc_status status = PC_OK;
    for (size_t l = 0; l < e->lane_count && status >= 0; l++) {
        status = run_some(e, l, l + 1, rows, hidden);
        pc__call_drop(e->model, e->lanes[l].sequence);
        e->lanes[l].sequence = NULL;
    }
    return status;
}

/* Computes the lanes so far and ends them. */
static pc_status run_lanes(embedding *e)
{
    const pc_allocator *mem = &e->model->context->mem;
    pc_step_row *rows = pc__calloc(mem, e->lane_rows, sizeof *rows);
    size_t wanted = 0;
    float *hidden;
    double begun = pc__now();
    pc_status status = PC_ERR_NOMEM;
    for (size_t l = 0; l < e->lane_count; l++)
        wanted += e->lanes[l].wanted;
    hidden = pc__calloc(mem, wanted, e->hidden * sizeof *hidden);
    if (rows && hidden) {
        pc__cache_request_running(e->cache, 1);
        status = run_some(e, 0, e->lane_count, rows, hidden);
        if (status == PC_ERR_LIMIT && e->lane_count > 1)
            status = run_each(e, rows, hidden);
        pc__cache_request_running(e->cache, -1);
    }
    pc__free(mem, rows);
    pc__free(mem, hidden);
    end_lanes(e);
    e->stats.seconds_forward += pc__now() - begun;
    return status;
}

/* ------------------------------------------------------------------ the call */

static pc_status embed_all(embedding *e)
{
    double begun;
    e->model = e->prompts[0]->model;
    PC__TRY_RETURN(begin_embedding(e));
    e->stats.exactness = PC_EXACT;
    for (size_t i = 0; i < e->count; i++)
        PC__TRY_RETURN(add_prompt(e, i));
    if (e->lane_count)
        PC__TRY_RETURN(run_lanes(e));
    begun = pc__now();
    PC__TRY_RETURN(run_whole(e));
    e->stats.seconds_forward += pc__now() - begun;
    return PC_OK;
}

static void end_embedding(embedding *e)
{
    const pc_allocator *mem = &e->model->context->mem;
    if (e->lanes)
        end_lanes(e);
    pc__request_owners_end(&e->owners, mem);
    pc__free(mem, e->lanes);
    pc__free(mem, e->whole);
    pc__free(mem, e->inputs);
}

static pc_status check_pointers(pc_prompt *const *prompts, size_t count, const float *embeddings)
{
    PC__TRY_RETURN(pc__check_array("pc_embed", "prompts", prompts, count, sizeof(*prompts)));
    if (count && !embeddings)
        return pc__fail(PC_ERR_INVALID, "pc_embed: embeddings is NULL");
    for (size_t i = 0; i < count; i++)
        if (!prompts[i])
            return pc__fail(PC_ERR_INVALID, "pc_embed: prompt %zu is NULL", i);
    return PC_OK;
}

pc_status pc_embed(pc_prompt *const *prompts, size_t count, pc_cache *cache,
                   const pc_embed_options *options, float *embeddings, pc_embed_stats *stats)
{
    PC__HOLD(pc_cache, cache);
    embedding e = {.prompts = prompts,
                   .count = count,
                   .cache = cache,
                   .embeddings = embeddings,
                   .stats = {.struct_size = sizeof e.stats, .prompts = count}};
    pc_status status;
    PC__TRY_RETURN(check_pointers(prompts, count, embeddings));
    PC__TRY_RETURN(read_embed_options(&e, options));
    for (size_t i = 0; i < count; i++)
        pc__prompt_ref(prompts[i]);
    status = count ? embed_all(&e) : PC_OK;
    if (count)
        end_embedding(&e);
    for (size_t i = 0; i < count; i++)
        pc_prompt_free(prompts[i]);
    if (status >= 0 && stats)
        status = pc__result_write(stats, PC__V1_SIZE(pc_embed_stats, seconds_forward), &e.stats,
                                  sizeof e.stats, "pc_embed_stats");
    return status < 0 ? status : PC_OK;
}

/* The shared state of a request: made, checked against the model's limits, reset, freed. */
#include <string.h>

#include "base/clock.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/request_internal.h"

int32_t pc__request_must_stop(void *request)
{
    return pc__generation_must_stop(((const pc__request *)request)->generation);
}

pc_status pc__request_poll(const pc__request *r)
{
    return pc__generation_poll(r->generation);
}

size_t pc__request_last_part(const pc__request *r, int64_t *next_position)
{
    const pc_prompt *prompt = r->prompt;
    size_t at = SIZE_MAX;
    int64_t highest = -1;
    for (size_t p = 0; p < prompt->part_count; p++) {
        size_t count = prompt->parts[p].count;
        int64_t last = count ? pc__prompt_position(prompt, p, count - 1) : -1;
        if (count && last >= highest) {
            highest = last;
            at = p;
        }
    }
    *next_position = highest >= prompt->end ? highest + 1 : prompt->end;
    return at;
}

/* Decided by the length that the request may reach; given segments have one already. */
static pc__request_regime choose_regime(const pc__request *r, int64_t reach)
{
    const pc_generate_options *o = r->options;
    if (r->prompt->given_count && pc__model_is_native(r->model) && !o->rope_regime_length) {
        const pc_segment *segment = r->prompt->given->segment;
        const pc__kv *run = segment->payload;
        return pc__regime_of_key(r->model, run->rope_regime);
    }
    return pc__regime_for_length(r->model, o->rope_regime_length, reach + (int64_t)o->max_tokens);
}

static pc_status check_length(const pc__request *r, int64_t next, size_t pushed)
{
    int32_t limit = r->model->info.context_length;
    if (!r->tokens)
        return pc__fail(PC_ERR_INVALID, "the prompt has no tokens");
    if (limit && next > limit)
        return pc__fail(PC_ERR_LIMIT, "the prompt reaches position %lld, the model's context is %d",
                        (long long)next, limit);
    if (next + (int64_t)pushed > r->regime.end)
        return pc__fail(PC_ERR_LIMIT,
                        "the prompt reaches position %lld, but the RoPE regime for a length of "
                        "%llu ends at %lld: set pc_generate_options.rope_regime_length",
                        (long long)next + (long long)pushed, (unsigned long long)r->regime.decided,
                        (long long)r->regime.end);
    return PC_OK;
}

static void start_stats(pc__request *r)
{
    r->missed_part = SIZE_MAX;
    r->stats = (pc_stats)PC__STATS_START;
    r->stats.tokens_prompt = r->tokens;
    r->stats.rope_regime_length = r->regime.decided;
    r->stats.rope_regime = r->regime.key;
}

/* Keys of a schema's modules go by its own positions, but for exact ones. */
static pc_status check_salts(const pc__request *r)
{
    const pc_generate_options *o = r->options;
    if (!r->prompt->resolved || !r->prompt->resolved->moved || o->encoding == PC_ENCODE_EXACT)
        return PC_OK;
    for (size_t i = 0; i < o->salt_count; i++)
        if (o->salts[i].first > 0)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "salt %zu holds from position %lld on, but modules of this prompt do "
                            "not stand where the schema has them: give all of it one salt, or "
                            "PC_ENCODE_EXACT",
                            i, (long long)o->salts[i].first);
    return PC_OK;
}

pc_status pc__request_init(pc__request *r, const pc_prompt *prompt, pc_cache *cache,
                           const pc__generation *generation, size_t pushed)
{
    const pc_allocator *mem = &prompt->model->context->mem;
    int64_t next, reach;
    *r = (pc__request){.prompt = prompt,
                       .model = prompt->model,
                       .cache = cache,
                       .generation = generation,
                       .options = &generation->options,
                       .bench = &generation->bench,
                       .stats = PC__STATS_START};
    PC__TRY_RETURN(check_salts(r));
    r->parts = pc__calloc(mem, prompt->part_count + 1, sizeof *r->parts);
    if (!r->parts)
        return PC_ERR_NOMEM;
    for (size_t p = 0; p < prompt->part_count; p++)
        r->parts[p + 1].first = r->parts[p].first + prompt->parts[p].count;
    r->tokens = r->parts[prompt->part_count].first;
    pc__request_last_part(r, &next);
    reach = r->bench->baseline == PC_BASELINE_CONTIGUOUS ? (int64_t)r->tokens : next;
    r->regime = choose_regime(r, reach + (int64_t)pushed);
    start_stats(r);
    r->again = pc__calloc(mem, r->tokens, 1);
    return r->again ? check_length(r, next, pushed) : PC_ERR_NOMEM;
}

static void drop_segments(pc__request *r)
{
    for (size_t p = 0; r->parts && p < r->prompt->part_count; p++) {
        pc__segment_unref(r->parts[p].segment);
        r->parts[p].segment = NULL;
        r->parts[p].hit = r->parts[p].tier = 0;
    }
    pc__fetch_end(&r->streams); /* after the segments that its loads write to */
}

void pc__request_end(pc__request *r)
{
    if (!r->model)
        return;
    drop_segments(r);
    pc__free(&r->model->context->mem, r->parts);
    pc__free(&r->model->context->mem, r->again);
    memset(r, 0, sizeof *r);
}

void pc__request_reset(pc__request *r, double started, uint32_t stream_failure)
{
    drop_segments(r);
    memset(r->again, 0, r->tokens);
    start_stats(r);
    r->stats.seconds_load = pc__now() - started;
    if (r->draws)
        pc__drawn_at(r->draws, 0)->outcome = PC__NOT_DRAWN;
    r->stream_failure = stream_failure;
}

pc__request_owners pc__request_owners_of(const pc__request *r)
{
    return (pc__request_owners){r->options->salts, r->options->salt_count, r->options->adapter,
                                NULL};
}

/* Of the tenant that owns what stands behind the prompt. */
static const void *last_salt(const pc__request *r, size_t *size)
{
    const pc_generate_options *o = r->options;
    int64_t behind;
    size_t count = o->salt_count;
    pc__request_last_part(r, &behind);
    while (count && o->salts[count - 1].first > behind)
        count--;
    *size = count ? o->salts[count - 1].size : 0;
    return count ? o->salts[count - 1].data : r->cache ? pc__cache_salt(r->cache, size) : NULL;
}

pc_status pc__request_sequence_new(const pc__request *r, void **sequence)
{
    pc_sequence_args args = {.struct_size = sizeof args,
                             .adapter = r->options->adapter,
                             .rope_regime_length = r->regime.length,
                             .tag = r->options->tag};
    args.salt = last_salt(r, &args.salt_size);
    return pc__call_sequence_new(r->model, r->cache, &args, sequence);
}

int pc__request_reuses_nothing(const pc__request *r)
{
    return r->bench->baseline == PC_BASELINE_PREFILL
           || r->bench->baseline == PC_BASELINE_CONTIGUOUS;
}

int pc__request_is_fresh(const pc__request *r)
{
    return r->bench->baseline == PC_BASELINE_PLAN || r->options->repair == PC_REPAIR_FULL;
}

int pc__request_sees_all(const pc__request *r)
{
    return pc__request_is_fresh(r) || r->options->encoding == PC_ENCODE_EXACT || !r->prompt->schema;
}

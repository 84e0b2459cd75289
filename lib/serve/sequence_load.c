/* pc_sequence_load: reads the head, then all parts at once, then makes the sequence. Nothing of it
 * exists before everything is there. */
#include <promptcache/batch.h>
#include <string.h>

#include "attn/kv_device.h"
#include "base/clock.h"
#include "base/options.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/sequence.h"
#include "serve/sequence_saved.h"

/* A run that is loaded: parts into its own memory, or a segment as a whole. */
typedef struct load_run {
    pc__kv *kv;             /* counted; not of a shared run */
    pc_segment *segment;    /* counted; of a run that the sequence only reads */
    pc__entry_load **loads; /* [parts] */
    size_t parts;
    uint32_t tier;
} load_run;

typedef struct load_work {
    pc__saved saved;
    pc__saved_head head;
    pc__generation generation;
    load_run *runs;   /* [head.run_count] */
    uint64_t *bytes;  /* [layers] of a part */
    uint8_t **blocks; /* [layers] of a part */
    uint32_t lossy, other_kernels, reason;
    uint64_t loaded; /* bytes of records */
    double started;
} load_work;

static const pc_allocator *mem_of(const load_work *w)
{
    return &w->saved.model->context->mem;
}

/* ------------------------------------------------------------------ options */

/* Salts, adapter and memo are for computing a prompt. This one is computed. */
static void drop_owners(pc__generation *g, const pc_allocator *mem)
{
    pc__generation_drop_memo(g);
    pc__free(mem, g->owners);
    pc__free(mem, g->memo_threshold);
    g->owners = NULL;
    g->memo_threshold = NULL;
    g->memo = 0;
    g->options.adapter = NULL;
    g->options.salts = NULL;
    g->options.salt_count = 0;
    g->options.memo_threshold = NULL;
}

static pc_status read_options(load_work *w, const pc_generate_options *options)
{
    pc__generation *g = &w->generation;
    PC__TRY_RETURN(pc__generation_init(g, w->saved.model, options, w->saved.call));
    if (g->options.samples > 1)
        return pc__fail(PC_ERR_INVALID, "%s: a sequence is one sample; use pc_sequence_fork",
                        w->saved.call);
    drop_owners(g, mem_of(w));
    g->options.flags |= PC_GENERATE_KEEP;
    return pc__saved_check_model(&w->saved);
}

/* As if the options of the saved sequence were changed by new ones. */
static pc_status use_options(load_work *w)
{
    const pc__saved_head *h = &w->head;
    pc__generation *g = &w->generation, was = {.strings = NULL};
    uint32_t percent = (uint32_t)h->repair_percent;
    was.options = (pc_generate_options){.encoding = (uint32_t)h->encoding,
                                        .repair = (uint32_t)h->repair,
                                        .repair_tokens = (uint32_t)h->repair_tokens,
                                        .visibility = (uint32_t)h->visibility,
                                        .rope_regime_length = h->rope_regime_length,
                                        .flags = g->options.flags,
                                        .tag = g->options.tag};
    memcpy(&was.options.repair_percent, &percent, sizeof percent);
    return pc__generation_take_over(g, &was, w->saved.call);
}

/* ------------------------------------------------------------------ the runs */

static pc_status damaged(load_work *w, const char *what)
{
    w->reason = PC_REASON_DAMAGED;
    pc__log(w->saved.model->context, PC_LOG_WARN, "%s: a saved sequence is damaged: %s",
            w->saved.call, what);
    return PC_MISS;
}

static int are_ids(const pc_model *model, const int32_t *ids, size_t count, int drawn)
{
    for (size_t i = 0; i < count; i++) {
        int32_t id = drawn && ids[i] < 0 ? ~ids[i] : ids[i];
        if (id < 0 || id >= model->info.vocab)
            return 0;
    }
    return 1;
}

/* What is used as an index. */
static pc_status check_head(load_work *w)
{
    const pc__saved_head *h = &w->head;
    const pc_model *model = w->saved.model;
    int ids = are_ids(model, h->tokens, (size_t)h->token_count, 0)
              && are_ids(model, h->own, (size_t)h->own_count, 0)
              && are_ids(model, h->history, (size_t)h->history_count, 1);
    uint64_t own = 0;
    for (size_t r = 0; r < h->run_count; r++)
        ids = ids && are_ids(model, h->runs[r].ids, h->runs[r].tokens, 0);
    for (size_t i = 0; i < h->span_count; i++) {
        const pc__saved_span *s = &h->spans[i];
        if (s->own && h->runs[s->run].flags & PC__RUN_SHARED)
            return damaged(w, "a run of its own is shared");
        own += s->own ? s->hi : 0;
    }
    if (!ids)
        return damaged(w, "tokens beyond the vocabulary");
    if (own + (h->again ? 1 : 0) != h->own_count + (h->token_count - h->pending))
        return damaged(w, "tokens and states do not agree");
    return h->next_position < h->token_count - h->pending ? damaged(w, "positions") : PC_OK;
}

/* An empty run with the tokens of a saved one. */
static pc_status make_run(load_work *w, size_t r)
{
    const pc__saved_run *run = &w->head.runs[r];
    pc__kv_shape shape = pc__model_run_shape(w->saved.model);
    int64_t *relative = run->relative;
    pc_status status;
    if (run->dtype != shape.dtype)
        return damaged(w, "a run of another number format");
    if (!relative)
        relative = pc__calloc(mem_of(w), run->tokens, sizeof *relative);
    if (!relative)
        return PC_ERR_NOMEM;
    for (size_t i = 0; !run->relative && i < run->tokens; i++)
        relative[i] = (int64_t)i;
    status = pc__kv_new(&w->runs[r].kv, mem_of(w), &shape, run->tokens);
    if (status >= 0)
        status = pc__kv_append(w->runs[r].kv, relative, run->tokens);
    if (relative != run->relative)
        pc__free(mem_of(w), relative);
    if (status < 0)
        return status;
    w->runs[r].kv->rope_regime = run->regime;
    w->runs[r].kv->origin = run->origin;
    return PC_OK;
}

/* A part into the memory of its run. */
static pc_status start_part(load_work *w, size_t r, size_t k)
{
    const pc__saved_run *run = &w->head.runs[r];
    pc__kv *kv = w->runs[r].kv;
    pc_segment *found = NULL;
    pc__image want;
    uint32_t tiers = (uint32_t)w->saved.options.tiers;
    pc__load_request request = {.image = &want, .tiers = tiers};
    size_t first;
    uint32_t in_ram = PC_REASON_FIRST_USE;
    pc_status status = PC_MISS;
    pc__saved_part_image(&w->saved, &w->head, run, k, &kv->shape, &run->keys[k], &want, w->bytes);
    pc__saved_part_tokens(&w->head, run, k, &first);
    for (size_t l = 0; l < want.block_count; l++)
        w->blocks[l] = kv->layer[l] + first / PC__PAGE * pc__kv_layer_page_bytes(&kv->shape);
    request.bytes = pc__image_bytes(&want);
    if (pc__tiers_have(tiers, PC_TIER_RAM))
        status = pc__cache_get_entry(w->saved.cache, &want.key, want.token_ids, want.tokens, &found,
                                     &in_ram);
    if (status < 0)
        return status;
    if (!found)
        pc__saved_await(&w->saved, &want.key);
    request.deadline = w->saved.until;
    status = pc__cache_load_into(w->saved.cache, &request, w->blocks, found, &w->runs[r].loads[k],
                                 &w->reason);
    if (status == PC_MISS)
        w->reason = pc__miss_reason(in_ram, w->reason);
    return status;
}

/* A run that other sequences read too: its segment, from RAM or into RAM. */
static pc_status start_shared(load_work *w, size_t r)
{
    const pc__saved_run *run = &w->head.runs[r];
    const pc_model *model = w->saved.model;
    pc__kv_shape shape = pc__model_segment_shape(model);
    pc__image want;
    pc__entry_desc desc = {.key = run->keys[0], .salt = &w->saved.salt};
    uint32_t tiers = (uint32_t)w->saved.options.tiers;
    pc__load_request request = {.image = &want,
                                .tiers = tiers,
                                .ops = pc__model_payload(model),
                                .owner = (void *)(uintptr_t)model,
                                .ref_owner = pc__model_ref_owner,
                                .desc = &desc};
    pc_status status = PC_MISS;
    if (run->dtype != shape.dtype)
        return damaged(w, "a shared run of another number format");
    if (pc__tiers_have(tiers, PC_TIER_RAM))
        status = pc__segment_find(model, w->saved.cache, &run->keys[0], run->ids, run->tokens,
                                  &w->runs[r].segment);
    w->runs[r].tier = PC_TIER_RAM;
    if (status != PC_MISS)
        return status;
    pc__saved_await(&w->saved, &run->keys[0]);
    request.deadline = w->saved.until;
    pc__saved_part_image(&w->saved, &w->head, run, 0, &shape, &run->keys[0], &want, w->bytes);
    request.bytes = pc__segment_bytes(model, run->tokens);
    return pc__cache_lookup_async(w->saved.cache, &request, &w->runs[r].loads[0], &w->reason);
}

static pc_status start_run(load_work *w, size_t r)
{
    load_run *l = &w->runs[r];
    pc_status status = PC_OK;
    l->parts = pc__saved_keys(&w->head, &w->head.runs[r]);
    l->loads = pc__calloc(mem_of(w), l->parts, sizeof(*l->loads));
    if (!l->loads)
        return PC_ERR_NOMEM;
    if (w->head.runs[r].flags & PC__RUN_SHARED)
        return start_shared(w, r);
    status = make_run(w, r);
    for (size_t k = 0; k < l->parts && status == PC_OK; k++)
        status = start_part(w, r, k);
    return status;
}

static pc_status finish_part(load_work *w, size_t r, size_t k)
{
    load_run *l = &w->runs[r];
    int shared = w->head.runs[r].flags & PC__RUN_SHARED;
    uint32_t lossy = 0, other_kernels = 0;
    pc_status status;
    if (!l->loads[k])
        return PC_OK; /* RAM had it */
    (void)pc__load_await(l->loads[k], w->saved.until + 60, 0);
    status = shared ? pc__entry_load_wait(l->loads[k], 0, &l->segment, &w->reason)
                    : pc__load_filled(l->loads[k], &lossy, &other_kernels, &w->reason);
    if (status == PC_AGAIN || (status == PC_MISS && !w->reason)) {
        w->reason = PC_REASON_DEADLINE;
        status = PC_MISS;
    }
    l->tier = pc__load_tier(l->loads[k]);
    w->loaded += l->tier == PC_TIER_RAM ? 0 : pc__load_bytes(l->loads[k]);
    w->lossy |= lossy;
    w->other_kernels |= other_kernels;
    return status;
}

/* The segment of a run that the sequence only reads. */
static pc_status make_segment(load_work *w, size_t r)
{
    const pc__saved_run *run = &w->head.runs[r];
    load_run *l = &w->runs[r];
    if (!l->segment)
        PC__TRY_RETURN(pc__wrap_segment(&l->segment, w->saved.model, pc__kv_ref(l->kv), 0, run->ids,
                                        run->tokens));
    if (!(run->flags & PC__RUN_SHARED)) {
        l->segment->lossy = w->lossy || run->flags & PC__RUN_LOSSY;
        l->segment->other_kernels = (run->flags & PC__RUN_OTHER_KERNELS) != 0;
    }
    w->lossy |= l->segment->lossy && !(run->flags & PC__RUN_LOSSY);
    w->other_kernels |= l->segment->other_kernels;
    if (run->flags & PC__RUN_HAS_VISIBILITY && !l->segment->lossy)
        return pc__segment_set_visibility(l->segment, &run->visibility);
    return PC_OK;
}

/* All parts of all runs, or PC_MISS. */
static pc_status load_runs(load_work *w)
{
    size_t layers = (size_t)pc__model_run_shape(w->saved.model).layers;
    pc_status status = PC_OK;
    w->runs = pc__calloc(mem_of(w), (size_t)w->head.run_count, sizeof *w->runs);
    w->bytes = pc__calloc(mem_of(w), layers, sizeof *w->bytes);
    w->blocks = pc__calloc(mem_of(w), layers, sizeof(*w->blocks));
    if (!w->runs || !w->bytes || !w->blocks)
        return PC_ERR_NOMEM;
    for (size_t r = 0; r < w->head.run_count && status == PC_OK; r++)
        status = start_run(w, r);
    for (size_t r = 0; r < w->head.run_count && status == PC_OK; r++)
        for (size_t k = 0; k < w->runs[r].parts && status == PC_OK; k++)
            status = finish_part(w, r, k);
    for (size_t r = 0; r < w->head.run_count && status == PC_OK; r++)
        for (size_t l = 0; w->runs[r].kv && l < layers; l++)
            pc__kv_clear_tail(w->runs[r].kv, l); /* a lossy codec may leave something there */
    for (size_t i = 0; i < w->head.span_count && status == PC_OK; i++)
        if (!w->head.spans[i].own)
            status = make_segment(w, w->head.spans[i].run);
    return status;
}

static void end_runs(load_work *w)
{
    for (size_t r = 0; w->runs && r < w->head.run_count; r++) {
        load_run *l = &w->runs[r];
        for (size_t k = 0; l->loads && k < l->parts; k++)
            if (!(w->head.runs[r].flags & PC__RUN_SHARED))
                pc__load_give_up(l->loads[k]);
        for (size_t k = 0; l->loads && k < l->parts; k++)
            if (w->head.runs[r].flags & PC__RUN_SHARED)
                pc__load_drop(l->loads[k]);
            else
                pc__load_end(l->loads[k]); /* it writes to the run */
        pc__free(mem_of(w), l->loads);
        pc__segment_unref(l->segment);
        pc__kv_unref(l->kv);
    }
    pc__free(mem_of(w), w->runs);
    pc__free(mem_of(w), w->bytes);
    pc__free(mem_of(w), w->blocks);
}

/* ------------------------------------------------------------------ the sequence */

/* An own run where the model computes its runs, so that it can grow on. */
typedef struct placing {
    const pc_sequence *sequence;
    pc__kv *kv;
    pc__kv *placed;
} placing;

static pc_status place_run(void *work)
{
    placing *p = work;
    pc_status status;
    /* Without memory for tokens: it is only to see where it lies. */
    PC__TRY_RETURN(
        pc__model_run_new(p->sequence->model, 0, p->sequence->regime.length, &p->placed));
    if (!p->placed->home) {
        pc__kv_unref(p->placed);
        p->placed = pc__kv_ref(p->kv);
        return PC_OK;
    }
    p->placed->rope_regime = p->kv->rope_regime;
    p->placed->origin = p->kv->origin;
    status = pc__kv_to_device(p->placed, p->kv);
    if (status < 0)
        pc__kv_unref(p->placed);
    return status;
}

static pc_status place_own(load_work *w, pc_sequence *s, const pc__saved_span *span)
{
    placing p = {.sequence = s, .kv = w->runs[span->run].kv};
    PC__TRY_RETURN(pc__model_work(s->model, place_run, &p, 0));
    return pc__model_sequence_add(s->model, s->placed.sequence, p.placed, span->start,
                                  (int)span->grows);
}

static pc_status place_states(load_work *w, pc_sequence *s)
{
    pc__placed_prompt *placed = &s->placed;
    const pc_sequence_args args = {.struct_size = sizeof args,
                                   .rope_regime_length = s->regime.length,
                                   .tag = s->generation.options.tag};
    placed->segments = pc__calloc(s->mem, (size_t)w->head.run_count, sizeof(*placed->segments));
    if (!placed->segments)
        return PC_ERR_NOMEM;
    for (size_t r = 0; r < w->head.run_count; r++)
        if (w->runs[r].segment)
            placed->segments[placed->segment_count++] = pc__segment_ref(w->runs[r].segment);
    PC__TRY_RETURN(pc__call_sequence_new(s->model, s->cache, &args, &placed->sequence));
    for (size_t i = 0; i < w->head.span_count; i++) {
        const pc__saved_span *span = &w->head.spans[i];
        const load_run *l = &w->runs[span->run];
        if (span->own)
            PC__TRY_RETURN(place_own(w, s, span));
        else
            PC__TRY_RETURN(pc__call_attach(s->model, s->cache, placed->sequence, l->segment,
                                           span->start, span->lo, span->hi));
    }
    placed->next_position = (int64_t)w->head.next_position;
    placed->own = (pc__own_tokens){w->head.own, (size_t)w->head.own_count,
                                   (int64_t)w->head.own_last};
    w->head.own = NULL;
    return PC_OK;
}

static pc_status set_tokens(load_work *w, pc_sequence *s)
{
    pc__saved_head *h = &w->head;
    const pc__sampler history = {.history = h->history, .history_count = (size_t)h->history_count};
    s->tokens = h->tokens;
    s->count = s->capacity = (size_t)h->token_count;
    h->tokens = NULL;
    s->pending = (size_t)h->pending;
    s->turn = (size_t)h->turn;
    s->again = (int)h->again;
    PC__TRY_RETURN(pc__sampler_replay(&s->sampler, &history));
    if (s->sampler.options.seed == h->seed)
        memcpy(s->sampler.state, h->random, sizeof h->random);
    pc__stream_end(&s->text);
    PC__TRY_RETURN(pc__sequence_rebuild_text(s, s->turn, s->count, &s->text));
    s->finish = (uint32_t)h->finish;
    int stopped = s->finish == PC_FINISH_STOP_TOKEN; /* the last token is none of the answer */
    PC__TRY_RETURN(pc__guide_load(&s->guide, w->saved.call, s->tokens, s->count - (size_t)stopped,
                                  s->turn, stopped || s->finish == PC_FINISH_GRAMMAR));
    if (s->finish && s->finish != PC_FINISH_STOP_STRING)
        pc__stream_flush(&s->text);
    if (!s->finish && pc__sequence_is_full(s))
        s->finish = PC_FINISH_LENGTH;
    return PC_OK;
}

static void set_stats(const load_work *w, pc_sequence *s)
{
    const pc__saved_head *h = &w->head;
    pc_stats *t = &s->stats;
    for (size_t i = 0; i < h->span_count; i++) {
        uint64_t tokens = h->spans[i].hi - h->spans[i].lo;
        t->tokens_cached += tokens;
        t->tokens_tier[w->runs[h->spans[i].run].tier] += tokens;
    }
    for (size_t r = 0; r < h->run_count; r++)
        t->bytes_reused += w->runs[r].segment ? w->runs[r].segment->bytes
                                              : pc__kv_bytes(w->runs[r].kv);
    t->tokens_new = h->pending + h->again;
    t->tokens_prompt = t->tokens_cached + t->tokens_new;
    t->tokens_memo = h->tokens_memo;
    t->exactness = w->lossy ? PC_APPROXIMATE : (uint32_t)h->exactness;
    t->lossy = w->lossy || h->lossy;
    t->other_kernels = w->other_kernels || h->other_kernels;
    t->finish = s->finish;
    t->bytes_loaded = w->loaded;
    t->seconds_load = pc__now() - w->started;
    t->rope_regime = h->regime;
    t->rope_regime_length = h->regime_decided;
}

static pc_status make_sequence(load_work *w, pc_sequence **out)
{
    const pc__saved_head *h = &w->head;
    pc_prompt *prompt = pc__prompt_new(w->saved.model);
    pc_sequence *s = NULL;
    pc_status status;
    if (!prompt)
        return PC_ERR_NOMEM;
    prompt->end = (int64_t)(h->next_position - (h->token_count - h->pending));
    PC__TRY(pc__sequence_make(&s, prompt, w->saved.cache, &w->generation), done);
    s->regime = pc__regime_of_key(s->model, h->regime);
    s->regime.decided = h->regime_decided;
    s->started = pc__now();
    PC__TRY(place_states(w, s), done);
    PC__TRY(set_tokens(w, s), done);
    set_stats(w, s);
    *out = s;
    s = NULL;
done:
    pc_sequence_free(s);
    pc_prompt_free(prompt);
    return status;
}

static pc_status load_sequence(load_work *w, pc_sequence **out)
{
    pc__saved_head heads[PC__SAVED_SLOTS];
    uint64_t slot;
    pc_status status = pc__saved_read(&w->saved, heads, &slot, &w->reason);
    w->head = heads[0];
    for (size_t i = 1; i < PC__SAVED_SLOTS; i++)
        pc__saved_head_free(&heads[i], mem_of(w));
    if (status != PC_OK)
        return status;
    PC__TRY_RETURN(use_options(w));
    status = check_head(w);
    if (status == PC_OK)
        status = load_runs(w);
    return status == PC_OK ? make_sequence(w, out) : status;
}

pc_status pc_sequence_load(pc_sequence **out, const pc_model *model, pc_cache *cache,
                           const uint8_t key[32], const pc_generate_options *options,
                           const pc_save_options *save, uint32_t *reason)
{
    PC__HOLD(pc_model, model);
    PC__HOLD(pc_cache, cache);
    load_work w = {.started = pc__now()};
    pc_status status;
    if (reason)
        *reason = PC_REASON_NONE;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_load: out is NULL");
    *out = NULL;
    PC__TRY_RETURN(pc__saved_init(&w.saved, "pc_sequence_load", model, cache, key, save));
    status = read_options(&w, options);
    if (status >= 0)
        status = load_sequence(&w, out);
    if (reason)
        *reason = status == PC_MISS ? w.reason : PC_REASON_NONE;
    end_runs(&w);
    pc__generation_end(&w.generation, mem_of(&w));
    pc__saved_head_free(&w.head, mem_of(&w));
    return status;
}

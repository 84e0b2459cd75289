/* pc_sequence_save: which runs a sequence reads, their parts under keys, what of it is new. */
#include <promptcache/batch.h>
#include <string.h>

#include "attn/kv_device.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/sequence.h"
#include "serve/sequence_saved.h"

/* Bytes of a part: enough for a file of its own, few enough to wait for the lower tiers. */
enum { PART_BYTES = 2 << 20, MOST_PAGES = 64 };

/* A run while it is saved. */
typedef struct save_run {
    pc__kv *kv;
    pc_segment *segment; /* counted; of a run that the sequence has not computed */
    pc__kv *copy;        /* counted: of a run that holds more tokens than the sequence reads */
    uint8_t **layers;    /* [layers] pages that the host sees */
    uint8_t **fetched;   /* to be freed */
} save_run;

typedef struct save_work {
    pc_sequence *sequence;
    pc__saved saved;
    pc__saved_head head;
    save_run *runs; /* [head.run_count] */
    pc__id *keys;   /* [key_count] of all parts that are not shared */
    uint32_t *has;  /* [key_count] tiers that have them */
    size_t key_count;
    uint64_t *bytes;     /* [layers] of a part */
    uint8_t **blocks;    /* [layers] of a part */
    uint32_t persistent; /* the tiers below RAM that may have it: DISK and REMOTE */
    int lost;            /* a part had no room in any tier */
} save_work;

static const pc_allocator *mem_of(const save_work *w)
{
    return &w->sequence->model->context->mem;
}

/* ------------------------------------------------------------------ the runs */

static pc_status set_tokens(save_work *w, size_t r, size_t own)
{
    pc__saved_run *run = &w->head.runs[r];
    const save_run *s = &w->runs[r];
    run->ids = pc__calloc(mem_of(w), run->tokens, sizeof *run->ids);
    if (!run->ids)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < run->tokens; i++)
        run->ids[i] = s->segment ? s->segment->token_ids[i]
                                 : pc__sequence_own_token(w->sequence, own + i);
    if (!s->kv->relative)
        return PC_OK;
    run->relative = pc__calloc(mem_of(w), run->tokens, sizeof *run->relative);
    if (!run->relative)
        return PC_ERR_NOMEM;
    memcpy(run->relative, s->kv->relative, run->tokens * sizeof *run->relative);
    return PC_OK;
}

/* Notes the run of a span; `own`: number of its first own token. */
static pc_status add_run(save_work *w, const pc__sequence_span *span, size_t own, uint32_t *index)
{
    pc__saved_run *run;
    save_run *s;
    size_t r = 0;
    const pc__kv_shape shared = pc__model_segment_shape(w->sequence->model);
    while (!span->own && r < w->head.run_count && w->runs[r].kv != span->kv)
        r++;
    *index = (uint32_t)(span->own ? w->head.run_count : r);
    if (!span->own && r < w->head.run_count)
        return PC_OK;
    r = (size_t)w->head.run_count++;
    run = &w->head.runs[r];
    s = &w->runs[r];
    s->kv = span->kv;
    run->tokens = span->own ? span->hi : span->kv->tokens;
    run->dtype = span->kv->shape.dtype;
    run->regime = span->kv->rope_regime;
    run->origin = span->kv->origin;
    if (span->kv->values_only)
        return pc__fail(PC_ERR_STATE, "pc_sequence_save: a run has values only");
    if (!span->own) {
        s->segment = pc__sequence_attached(w->sequence, span->kv);
        if (!s->segment)
            return pc__fail(PC_ERR_INTERNAL, "pc_sequence_save: a run has no segment");
        if (!memcmp(&span->kv->shape, &shared, sizeof shared))
            run->flags |= PC__RUN_SHARED;
        run->flags |= s->segment->lossy ? PC__RUN_LOSSY : 0;
        run->flags |= s->segment->other_kernels ? PC__RUN_OTHER_KERNELS : 0;
        if (pc__segment_visibility(s->segment)) {
            run->flags |= PC__RUN_HAS_VISIBILITY;
            run->visibility = *pc__segment_visibility(s->segment);
        }
    }
    return set_tokens(w, r, own);
}

static pc_status collect_runs(save_work *w)
{
    void *sequence = w->sequence->placed.sequence;
    size_t n = pc__model_sequence_spans(sequence, NULL), own = 0;
    pc__sequence_span *seen = pc__calloc(mem_of(w), n, sizeof *seen);
    pc_status status = PC_OK;
    w->head.runs = pc__calloc(mem_of(w), n, sizeof *w->head.runs);
    w->head.spans = pc__calloc(mem_of(w), n, sizeof *w->head.spans);
    w->runs = pc__calloc(mem_of(w), n, sizeof *w->runs);
    if (!seen || !w->head.runs || !w->head.spans || !w->runs)
        status = PC_ERR_NOMEM;
    else
        pc__model_sequence_spans(sequence, seen);
    for (size_t i = 0; i < n && status >= 0; i++) {
        pc__saved_span *span = &w->head.spans[w->head.span_count];
        if (seen[i].hi <= seen[i].lo)
            continue;
        *span = (pc__saved_span){.lo = seen[i].lo,
                                 .hi = seen[i].hi,
                                 .own = seen[i].own != 0,
                                 .grows = seen[i].grows != 0,
                                 .start = seen[i].start};
        status = add_run(w, &seen[i], own, &span->run);
        own += seen[i].own ? seen[i].hi : 0;
        w->head.span_count++;
    }
    pc__free(mem_of(w), seen);
    return status;
}

/* Pages that the host sees, with zeros behind the last token. */
static pc_status show_run(save_work *w, size_t r)
{
    save_run *s = &w->runs[r];
    pc__kv *kv = s->kv;
    if (w->head.runs[r].tokens < kv->tokens) {
        PC__TRY_RETURN(pc__kv_copy(&s->copy, kv));
        pc__kv_truncate(s->copy, w->head.runs[r].tokens);
        kv = s->copy;
    }
    s->layers = kv->layer;
    if (!kv->home)
        return PC_OK;
    PC__TRY_RETURN(pc__kv_fetch(kv, &s->fetched));
    s->layers = s->fetched;
    return PC_OK;
}

/* A part of a run, in w->blocks. */
static pc__saved_part part_of(save_work *w, size_t r, size_t k)
{
    const pc__saved_run *run = &w->head.runs[r];
    const pc__kv_shape *shape = &w->runs[r].kv->shape;
    pc__saved_part part = {.run = run, .blocks = w->blocks, .layers = (size_t)shape->layers};
    part.count = pc__saved_part_tokens(&w->head, run, k, &part.first);
    part.layer_bytes = pc__kv_layer_bytes(shape, part.count);
    for (size_t l = 0; l < part.layers; l++)
        w->blocks[l] = w->runs[r].layers[l]
                       + part.first / PC__PAGE * pc__kv_layer_page_bytes(shape);
    return part;
}

static pc_status name_parts(save_work *w, size_t r)
{
    pc__saved_run *run = &w->head.runs[r];
    size_t count = pc__saved_keys(&w->head, run);
    run->keys = pc__calloc(mem_of(w), count, sizeof *run->keys);
    if (!run->keys)
        return PC_ERR_NOMEM;
    for (size_t k = 0; k < count; k++) {
        pc__saved_part part = part_of(w, r, k);
        run->keys[k] = pc__saved_part_key(&w->saved, &part);
    }
    w->key_count += run->flags & PC__RUN_SHARED ? 0 : count;
    return PC_OK;
}

/* Which tiers have which parts already. */
static pc_status find_parts(save_work *w)
{
    size_t n = 0;
    w->keys = pc__calloc(mem_of(w), w->key_count, sizeof *w->keys);
    w->has = pc__calloc(mem_of(w), w->key_count, sizeof *w->has);
    if (!w->keys || !w->has)
        return PC_ERR_NOMEM;
    for (size_t r = 0; r < w->head.run_count; r++) {
        const pc__saved_run *run = &w->head.runs[r];
        for (size_t k = 0; !(run->flags & PC__RUN_SHARED) && k < pc__saved_keys(&w->head, run); k++)
            w->keys[n++] = run->keys[k];
    }
    return pc__cache_find_keys(w->saved.cache, w->keys, w->key_count,
                               (uint32_t)w->saved.options.tiers, w->saved.until, w->has);
}

/* ------------------------------------------------------------------ storing */

/* `tokens`: that computing it anew would take. */
static pc__entry_desc desc_of(const save_work *w, const pc__id *key, uint32_t tiers, size_t tokens,
                              double ttl)
{
    const pc_save_options *o = &w->saved.options;
    return (pc__entry_desc){.key = *key,
                            .salt = &w->saved.salt,
                            .cost = pc__estimate_compute(pc__cache_estimate(w->saved.cache),
                                                         w->saved.model->info.fingerprint, tokens),
                            .ttl = ttl,
                            .priority = o->priority,
                            .wait_for_room = 1,
                            .tiers = tiers};
}

/* A copy of a part, for the tiers that lack it. Old parts do not come back into RAM. */
static pc_status store_part(save_work *w, size_t r, size_t k, uint32_t has)
{
    uint32_t tiers = (uint32_t)w->saved.options.tiers, reason,
             ram = pc__tiers_have(tiers, PC_TIER_RAM) && !has ? 1u << PC_TIER_RAM : 0;
    const pc__id *key = &w->head.runs[r].keys[k];
    pc__saved_part part;
    pc__image image;
    pc__entry_desc desc;
    pc_status status;
    if (w->persistent ? !(w->persistent & ~has) : has)
        return PC_OK;
    if (w->persistent)
        tiers = (w->persistent & ~has) | ram;
    part = part_of(w, r, k);
    pc__saved_part_image(&w->saved, &w->head, part.run, k, &w->runs[r].kv->shape, key, &image,
                         w->bytes);
    image.blocks = w->blocks;
    desc = desc_of(w, key, tiers, part.count, pc__saved_part_ttl(&w->saved));
    status = pc__cache_put_entry_copy(w->saved.cache, &desc, &image, &reason);
    w->lost |= status == PC_MISS && reason;
    return status;
}

/* A run of others: the cache keeps the segment itself. It is in RAM under its own key, too. */
static pc_status store_shared(save_work *w, size_t r)
{
    const pc__saved_run *run = &w->head.runs[r];
    pc_segment *segment = w->runs[r].segment;
    uint32_t tiers = (uint32_t)w->saved.options.tiers, reason;
    pc__image image;
    pc__entry_desc desc = desc_of(w, &run->keys[0], w->persistent ? w->persistent : tiers,
                                  run->tokens, pc__saved_part_ttl(&w->saved));
    pc_status status;
    pc__saved_part_image(&w->saved, &w->head, run, 0, &w->runs[r].kv->shape, &run->keys[0], &image,
                         w->bytes);
    image.block_count = 0;
    image.block_bytes = NULL;
    status = pc__cache_put_entry(w->saved.cache, &desc, &image, segment, NULL, &reason);
    w->lost |= status == PC_MISS && reason && !pc__cache_has_lower(w->saved.cache);
    w->lost |= status == PC_MISS && reason && w->persistent;
    return status;
}

static pc_status store_runs(save_work *w)
{
    size_t n = 0;
    for (size_t r = 0; r < w->head.run_count && !w->lost; r++) {
        const pc__saved_run *run = &w->head.runs[r];
        if (run->flags & PC__RUN_SHARED) {
            PC__TRY_RETURN(store_shared(w, r));
            continue;
        }
        for (size_t k = 0; k < pc__saved_keys(&w->head, run) && !w->lost; k++)
            PC__TRY_RETURN(store_part(w, r, k, w->has[n++]));
    }
    return PC_OK;
}

/* ------------------------------------------------------------------ the head */

static pc_status copy_ids(const pc_allocator *mem, int32_t **out, const int32_t *from, size_t count)
{
    *out = pc__calloc(mem, count, sizeof **out);
    if (!*out)
        return PC_ERR_NOMEM;
    if (count)
        memcpy(*out, from, count * sizeof **out);
    return PC_OK;
}

static uint64_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* How many pages of this model make a part. */
static uint64_t pages_of_part(const pc_model *model)
{
    pc__kv_shape shape = pc__model_run_shape(model);
    size_t page = pc__kv_layer_page_bytes(&shape) * (size_t)shape.layers,
           pages = (PART_BYTES + page - 1) / page;
    return pages < MOST_PAGES ? pages : MOST_PAGES;
}

static pc_status fill_head(save_work *w)
{
    const pc_sequence *s = w->sequence;
    const pc_generate_options *o = &s->generation.options;
    const pc__own_tokens *own = &s->placed.own;
    pc__saved_head *h = &w->head;
    int failed = s->finish == PC_FINISH_ERROR || s->finish == PC_FINISH_CANCELLED;
    h->version = PC__SAVED_VERSION;
    h->chunk_pages = pages_of_part(s->model);
    h->next_position = (uint64_t)s->placed.next_position;
    h->own_last = (uint64_t)own->last;
    h->regime = s->regime.key;
    h->regime_decided = s->regime.decided;
    h->encoding = o->encoding;
    h->repair = o->repair;
    h->repair_tokens = o->repair_tokens;
    h->repair_percent = float_bits(o->repair_percent);
    h->visibility = o->visibility;
    h->rope_regime_length = o->rope_regime_length;
    h->exactness = s->stats.exactness;
    h->lossy = s->stats.lossy;
    h->other_kernels = s->stats.other_kernels;
    h->tokens_memo = s->stats.tokens_memo;
    h->finish = failed ? PC_FINISH_NONE : s->finish;
    h->pending = s->pending;
    h->turn = s->turn;
    h->again = s->again != 0;
    h->seed = s->sampler.options.seed;
    memcpy(h->random, s->sampler.state, sizeof h->random);
    h->token_count = s->count;
    h->own_count = own->count;
    h->history_count = s->sampler.history_count;
    PC__TRY_RETURN(copy_ids(mem_of(w), &h->tokens, s->tokens, s->count));
    PC__TRY_RETURN(copy_ids(mem_of(w), &h->own, own->tokens, own->count));
    return copy_ids(mem_of(w), &h->history, s->sampler.history, s->sampler.history_count);
}

/* The slot of the save before the last one gets the head. Both of its records are never gone. */
static pc_status store_head(save_work *w, uint64_t slot)
{
    pc__id key = pc__saved_slot(&w->saved, slot);
    uint32_t tiers = (uint32_t)w->saved.options.tiers, reason;
    pc__entry_desc desc = desc_of(w, &key, tiers, (size_t)w->head.next_position,
                                  w->saved.options.ttl_seconds);
    pc__bytes bytes = {.mem = mem_of(w)};
    uint8_t *block;
    uint64_t size;
    pc__image image;
    pc_status status;
    PC__TRY(pc__saved_head_write(&w->head, &bytes), done);
    /* from every tier: one that may not have this save must not answer with an older one */
    PC__TRY(pc__cache_remove_entry(w->saved.cache, &key, 0), done);
    pc__saved_head_image(&w->saved, &key, &image);
    block = (uint8_t *)bytes.data;
    size = bytes.size;
    image.most_block = 0;
    image.blocks = &block;
    image.block_bytes = &size;
    if (size > PC__SAVED_MOST) {
        status = pc__fail(PC_ERR_LIMIT, "pc_sequence_save: a head of %zu bytes", bytes.size);
        goto done;
    }
    status = pc__cache_put_entry_copy(w->saved.cache, &desc, &image, &reason);
    w->lost |= status == PC_MISS && reason;
done:
    pc__bytes_free(&bytes);
    return status;
}

static int has_key(const pc__saved_head *head, const pc__id *key)
{
    for (size_t r = 0; r < head->run_count; r++)
        for (size_t k = 0; k < pc__saved_keys(head, &head->runs[r]); k++)
            if (pc__id_equal(&head->runs[r].keys[k], key))
                return 1;
    return 0;
}

/* Parts of the save before the last one that neither that nor this one has. */
static void remove_old_parts(save_work *w, const pc__saved_head *older, const pc__saved_head *last)
{
    for (size_t r = 0; r < older->run_count; r++) {
        const pc__saved_run *run = &older->runs[r];
        for (size_t k = 0; !(run->flags & PC__RUN_SHARED) && k < pc__saved_keys(older, run); k++)
            if (!has_key(&w->head, &run->keys[k]) && !has_key(last, &run->keys[k]))
                (void)pc__cache_remove_entry(w->saved.cache, &run->keys[k], 0);
    }
}

/* ------------------------------------------------------------------ the call */

static pc_status begin_save(save_work *w)
{
    size_t layers = (size_t)w->sequence->model->info.layers;
    const pc__kv_shape shape = pc__model_run_shape(w->sequence->model);
    layers = (size_t)shape.layers > layers ? (size_t)shape.layers : layers;
    w->bytes = pc__calloc(mem_of(w), layers, sizeof *w->bytes);
    w->blocks = pc__calloc(mem_of(w), layers, sizeof(*w->blocks));
    w->persistent = pc__cache_persistent(w->saved.cache, (uint32_t)w->saved.options.tiers);
    return w->bytes && w->blocks ? PC_OK : PC_ERR_NOMEM;
}

static pc_status save_states(save_work *w)
{
    PC__TRY_RETURN(begin_save(w));
    PC__TRY_RETURN(fill_head(w));
    PC__TRY_RETURN(collect_runs(w));
    for (size_t r = 0; r < w->head.run_count; r++) {
        PC__TRY_RETURN(show_run(w, r));
        PC__TRY_RETURN(name_parts(w, r));
    }
    PC__TRY_RETURN(find_parts(w));
    return store_runs(w);
}

static void end_save(save_work *w)
{
    const pc_allocator *mem = mem_of(w);
    for (size_t r = 0; w->runs && r < w->head.run_count; r++) {
        pc__segment_unref(w->runs[r].segment);
        pc__free(mem, w->runs[r].fetched);
        pc__kv_unref(w->runs[r].copy);
    }
    pc__free(mem, w->runs);
    pc__free(mem, w->keys);
    pc__free(mem, w->has);
    pc__free(mem, w->bytes);
    pc__free(mem, w->blocks);
    pc__saved_head_free(&w->head, mem);
}

static pc_status check_sequence(pc_sequence *s)
{
    PC__TRY_RETURN(pc__sequence_check(s, 1, "pc_sequence_save"));
    if (s->generation.bench.baseline == PC_BASELINE_NO_ATTENTION)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_sequence_save: a sequence without attention is for measuring only");
    return PC_OK;
}

/* COMPRESSED is the process's own, as RAM: a read-only cache writes to both. */
static pc_status check_writable(const pc__saved *saved)
{
    const uint64_t own = 1u << PC_TIER_RAM | 1u << PC_TIER_COMPRESSED;
    return pc__cache_flags(saved->cache) & PC_CACHE_READ_ONLY && saved->options.tiers
                   && !(saved->options.tiers & own)
               ? pc__fail(PC_ERR_STATE,
                          "pc_sequence_save: the cache is read-only, and options.tiers has neither "
                          "RAM nor COMPRESSED")
               : PC_OK;
}

pc_status pc_sequence_save(pc_sequence *sequence, pc_cache *cache, const uint8_t key[32],
                           const pc_save_options *options)
{
    PC__HOLD(pc_sequence, sequence);
    PC__HOLD(pc_cache, cache);
    save_work w = {.sequence = sequence};
    pc__saved everywhere;
    pc__saved_head before[PC__SAVED_SLOTS] = {{0}};
    uint64_t slot;
    uint32_t reason;
    pc_status status;
    PC__TRY_RETURN(pc__saved_init(&w.saved, "pc_sequence_save", sequence ? sequence->model : NULL,
                                  cache, key, options));
    PC__TRY_RETURN(pc__saved_check_model(&w.saved));
    PC__TRY_RETURN(check_writable(&w.saved));
    PC__TRY_RETURN(check_sequence(sequence));
    everywhere = w.saved; /* saves before this one may be in other tiers */
    everywhere.options.tiers = 0;
    PC__TRY(pc__saved_read(&everywhere, before, &slot, &reason), done);
    PC__TRY(save_states(&w), done);
    w.head.counter = pc__saved_next_counter(before[0].counter);
    status = PC_OK;
    if (!w.lost)
        PC__TRY(store_head(&w, slot + 1), done);
    if (!w.lost && before[1].counter)
        remove_old_parts(&w, &before[1], &before[0]);
    status = w.lost ? PC_MISS : PC_OK;
done:
    for (size_t i = 0; i < PC__SAVED_SLOTS; i++)
        pc__saved_head_free(&before[i], mem_of(&w));
    end_save(&w);
    return status;
}

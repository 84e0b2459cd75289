/* Names and records of saved sequences; pc_sequence_forget. */
#include "serve/sequence_saved.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/kernels.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/options.h"
#include "model/model_states.h"
#include "serve/unit_keys.h"
#include "store/raw_states.h"

static pc_status read_save_options(pc__saved *saved, const pc_save_options *options)
{
    pc_save_options *o = &saved->options;
    PC__TRY_RETURN(pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_save_options, reserved), options,
                                    "pc_save_options"));
    if (o->reserved || !o->salt != !o->salt_size)
        return pc__fail(PC_ERR_INVALID,
                        "%s: reserved is not 0, or only one of salt and salt_size is given",
                        saved->call);
    PC__TRY_RETURN(pc__check_array(saved->call, "salt", o->salt, o->salt_size, 1));
    if (!(o->ttl_seconds >= 0 && (o->ttl_seconds < 1e18 || isinf(o->ttl_seconds)))
        || !(o->deadline_seconds >= 0 && o->deadline_seconds < 1e18))
        return pc__fail(PC_ERR_INVALID, "%s: ttl_seconds is %g, deadline_seconds %g", saved->call,
                        o->ttl_seconds, o->deadline_seconds);
    return pc__cache_check_tiers(saved->cache, o->tiers, saved->call);
}

static void set_names(pc__saved *saved, const uint8_t *key)
{
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    pc_save_options *o = &saved->options;
    if (!o->salt)
        o->salt = pc__cache_salt(saved->cache, &o->salt_size);
    parts.model = saved->model->info.fingerprint;
    parts.tokenizer = saved->model->tokenizer_id.bytes;
    parts.position_scheme = saved->model->info.position_scheme;
    parts.dtype = pc__model_format(saved->model);
    parts.layout = pc__model_layout(saved->model);
    parts.encoding = PC_ENCODE_EXACT;
    parts.salt = o->salt;
    parts.salt_size = o->salt_size;
    saved->base = pc__base_key(&parts);
    saved->salt = pc__salt_digest(o->salt, o->salt_size);
    memcpy(saved->key.bytes, key, sizeof saved->key.bytes);
}

static void set_period(pc__saved *saved)
{
    double ttl = saved->options.ttl_seconds;
    saved->ttl = ttl > 0 ? ttl : pc__cache_ttl(saved->cache);
    if (isinf(saved->ttl))
        saved->ttl = 0;
    saved->period = saved->ttl < 1 ? 1 : saved->ttl;
    saved->number = saved->ttl > 0 ? (uint64_t)((double)pc__now_date() / saved->period) : 0;
}

pc_status pc__saved_check_model(const pc__saved *saved)
{
    PC__TRY_RETURN(pc__model_can_go_on(saved->model));
    return pc__model_check_native(saved->model, saved->call);
}

pc_status pc__saved_init(pc__saved *saved, const char *call, const pc_model *model, pc_cache *cache,
                         const uint8_t *key, const pc_save_options *options)
{
    double seconds;
    *saved = (pc__saved){.model = model, .cache = cache, .call = call};
    if (!model || !cache || !key)
        return pc__fail(PC_ERR_INVALID, "%s: model or sequence, cache or key is NULL", call);
    PC__TRY_RETURN(pc__cache_check(cache, call));
    PC__TRY_RETURN(read_save_options(saved, options));
    set_names(saved, key);
    seconds = saved->options.deadline_seconds;
    saved->until = pc__now() + (seconds > 0 ? seconds : pc__cache_deadline(cache));
    set_period(saved);
    return PC_OK;
}

double pc__saved_part_ttl(const pc__saved *saved)
{
    /* one second more: dates are whole seconds */
    return saved->ttl > 0 ? saved->ttl + saved->period + 1 : saved->options.ttl_seconds;
}

/* ------------------------------------------------------------------ keys, images */

pc__id pc__saved_slot(const pc__saved *saved, uint64_t slot)
{
    pc__digest d;
    pc__digest_start(&d, "sequence/1");
    pc__digest_bytes(&d, saved->base.bytes, sizeof saved->base.bytes);
    pc__digest_bytes(&d, saved->key.bytes, sizeof saved->key.bytes);
    pc__digest_u64(&d, slot % PC__SAVED_SLOTS);
    return pc__digest_end(&d);
}

pc__id pc__saved_part_key(const pc__saved *saved, const pc__saved_part *part)
{
    const pc__saved_run *run = part->run;
    int shared = run->flags & PC__RUN_SHARED;
    uint8_t sum[PC__CHECKSUM];
    pc__checksum checksum;
    pc__digest d;
    pc__checksum_start(&checksum);
    for (size_t l = 0; l < part->layers; l++)
        pc__checksum_add(&checksum, part->blocks[l], (size_t)part->layer_bytes);
    pc__checksum_end(&checksum, sum);
    pc__digest_start(&d, "part/1");
    pc__digest_bytes(&d, saved->base.bytes, sizeof saved->base.bytes);
    pc__digest_bytes(&d, saved->key.bytes, shared ? 0 : sizeof saved->key.bytes);
    pc__digest_u64(&d, run->dtype);
    pc__digest_u64(&d, run->regime);
    pc__digest_u64(&d, (uint64_t)run->origin);
    pc__digest_i32(&d, run->ids + part->first, part->count);
    pc__digest_u64(&d, run->relative ? part->count : 0);
    for (size_t i = 0; run->relative && i < part->count; i++)
        pc__digest_u64(&d, (uint64_t)run->relative[part->first + i]);
    pc__digest_bytes(&d, sum, sizeof sum);
    if (saved->ttl > 0) {
        uint64_t bits;
        memcpy(&bits, &saved->ttl, sizeof bits);
        pc__digest_u64(&d, bits);
        pc__digest_u64(&d, saved->number);
    }
    return pc__digest_end(&d);
}

static void set_model(const pc__saved *saved, pc__image *image)
{
    const pc_model_info *info = &saved->model->info;
    memset(image, 0, sizeof *image);
    memcpy(image->form.model, info->fingerprint, sizeof image->form.model);
    memcpy(image->form.architecture, info->architecture,
           strnlen(info->architecture, sizeof image->form.architecture - 1));
    image->form.position_scheme = info->position_scheme;
    image->salt = saved->salt;
    image->encoding = PC_ENCODE_EXACT;
}

void pc__saved_head_image(const pc__saved *saved, const pc__id *key, pc__image *image)
{
    static const int32_t token[1];
    set_model(saved, image);
    image->key = *key;
    image->form.layout = PC_LAYOUT_SEQUENCE;
    image->form.shape.dtype = saved->model->info.compute;
    image->tokens = 1;
    image->token_ids = token;
    image->block_count = 1;
    image->most_block = PC__SAVED_MOST;
}

size_t pc__saved_part_tokens(const pc__saved_head *head, const pc__saved_run *run, size_t part,
                             size_t *first)
{
    size_t most = (size_t)head->chunk_pages * PC__PAGE;
    *first = part * most;
    if (run->flags & PC__RUN_SHARED)
        return run->tokens;
    return run->tokens - *first < most ? run->tokens - *first : most;
}

void pc__saved_part_image(const pc__saved *saved, const pc__saved_head *head,
                          const pc__saved_run *run, size_t part, const pc__kv_shape *shape,
                          const pc__id *key, pc__image *image, uint64_t *block_bytes)
{
    size_t first, count = pc__saved_part_tokens(head, run, part, &first);
    set_model(saved, image);
    image->key = *key;
    image->form.layout = pc__model_layout(saved->model);
    image->form.regime = run->regime;
    image->form.origin = pc__key_offset(saved->model, run->origin);
    image->form.shape = *shape;
    image->lossy = (run->flags & PC__RUN_LOSSY) != 0;
    snprintf(image->kernels, sizeof image->kernels, "%s", pc__kernels_class());
    image->tokens = count;
    image->token_ids = run->ids + first;
    image->relative = run->relative ? run->relative + first : NULL;
    image->block_count = (size_t)shape->layers;
    image->block_bytes = block_bytes;
    for (size_t l = 0; l < image->block_count; l++)
        block_bytes[l] = pc__kv_layer_bytes(shape, count);
}

/* ------------------------------------------------------------------ heads */

static void ref_context(void *owner)
{
    pc__context_ref(owner);
}

void pc__saved_await(pc__saved *saved, const pc__id *key)
{
    double begun = pc__now();
    pc__cache_await_key(saved->cache, key);
    saved->until += pc__now() - begun;
}

/* A record of one key, in RAM or below it. */
static pc_status find_record(pc__saved *saved, const pc__image *want, pc_segment **out,
                             uint32_t *reason)
{
    uint32_t tiers = (uint32_t)saved->options.tiers;
    pc__entry_desc desc = {.key = want->key, .salt = &saved->salt};
    pc__load_request request = {.image = want,
                                .ops = &pc__raw_payload,
                                .owner = saved->model->context,
                                .ref_owner = ref_context,
                                .desc = &desc,
                                .tiers = tiers};
    pc__entry_load *load;
    uint32_t in_ram = PC_REASON_FIRST_USE;
    pc_status status = PC_MISS;
    *out = NULL;
    *reason = PC_REASON_FIRST_USE;
    if (pc__tiers_have(tiers, PC_TIER_RAM))
        status = pc__cache_get_entry(saved->cache, &want->key, want->token_ids, want->tokens, out,
                                     &in_ram);
    if (status != PC_MISS)
        return status;
    /* RAM may have had no room for it: without it, the save before would be taken for the last */
    pc__saved_await(saved, &want->key);
    request.deadline = saved->until;
    status = pc__cache_lookup_async(saved->cache, &request, &load, reason);
    if (status == PC_MISS)
        *reason = pc__miss_reason(in_ram, *reason);
    if (status != PC_OK)
        return status;
    status = pc__entry_load_wait(load, saved->until + 1, out, reason);
    pc__load_drop(load);
    if (status == PC_AGAIN)
        *reason = PC_REASON_DEADLINE;
    return status == PC_AGAIN ? PC_MISS : status;
}

pc_status pc__saved_read_slot(pc__saved *saved, uint64_t slot, pc__saved_head *head,
                              uint32_t *reason)
{
    pc__id key = pc__saved_slot(saved, slot);
    pc__image want, have = {.tokens = 0};
    pc_segment *segment;
    void *release_me = NULL;
    pc_status status;
    memset(head, 0, sizeof *head);
    pc__saved_head_image(saved, &key, &want);
    status = find_record(saved, &want, &segment, reason);
    if (status != PC_OK)
        return status;
    if (segment->ops != &pc__raw_payload)
        status = pc__fail(PC_ERR_FORMAT, "%s: the entry under this key is not a head", saved->call);
    else
        status = segment->ops->describe(segment->owner, segment->payload, &have, &release_me);
    if (status >= 0 && (have.form.layout != PC_LAYOUT_SEQUENCE || have.block_count != 1))
        status = pc__fail(PC_ERR_FORMAT, "%s: the entry under this key is not a head", saved->call);
    if (status >= 0)
        status = pc__saved_head_read(head, &saved->model->context->mem, have.blocks[0],
                                     (size_t)have.block_bytes[0]);
    pc__segment_unref(segment);
    if (status < 0 && status != PC_ERR_NOMEM) { /* it contradicts itself: as if it were damaged */
        *reason = PC_REASON_DAMAGED;
        pc__log(saved->model->context, PC_LOG_WARN, "%s: %s", saved->call, pc_error_text());
        status = PC_MISS;
    }
    if (status != PC_OK)
        pc__saved_head_free(head, &saved->model->context->mem);
    return status;
}

uint64_t pc__saved_next_counter(uint64_t last)
{
    uint64_t now = (uint64_t)pc__now_date() << 20;
    return last + 1 > now ? last + 1 : now;
}

pc_status pc__saved_read(pc__saved *saved, pc__saved_head heads[PC__SAVED_SLOTS],
                         uint64_t *newer_slot, uint32_t *reason)
{
    uint32_t why[PC__SAVED_SLOTS] = {PC_REASON_NONE};
    memset(heads, 0, PC__SAVED_SLOTS * sizeof *heads);
    for (uint64_t slot = 0; slot < PC__SAVED_SLOTS; slot++)
        PC__TRY_RETURN(pc__saved_read_slot(saved, slot, &heads[slot], &why[slot]));
    *newer_slot = heads[0].counter < heads[1].counter;
    if (*newer_slot) {
        pc__saved_head newer = heads[1];
        heads[1] = heads[0];
        heads[0] = newer;
    }
    *reason = PC_REASON_NONE;
    if (heads[0].counter)
        return PC_OK;
    /* the less usual reason says more */
    *reason = why[0] == PC_REASON_FIRST_USE ? why[1] : why[0];
    return PC_MISS;
}

/* ------------------------------------------------------------------ forgetting */

/* All parts of a head that only this sequence has. */
static pc_status remove_parts(const pc__saved *saved, const pc__saved_head *head)
{
    pc_status worst = PC_OK;
    for (size_t r = 0; r < head->run_count; r++) {
        const pc__saved_run *run = &head->runs[r];
        for (size_t k = 0; !(run->flags & PC__RUN_SHARED) && k < pc__saved_keys(head, run); k++) {
            pc_status status = pc__cache_remove_entry(saved->cache, &run->keys[k],
                                                      (uint32_t)saved->options.tiers);
            worst = status < 0 ? status : worst;
        }
    }
    return worst;
}

pc_status pc_sequence_forget(const pc_model *model, pc_cache *cache, const uint8_t key[32],
                             const pc_save_options *options)
{
    PC__HOLD(pc_model, model);
    PC__HOLD(pc_cache, cache);
    pc__saved saved;
    pc__saved_head heads[PC__SAVED_SLOTS] = {{0}};
    uint64_t newer;
    uint32_t reason;
    pc_status worst = PC_MISS, status;
    PC__TRY_RETURN(pc__saved_init(&saved, "pc_sequence_forget", model, cache, key, options));
    PC__TRY_RETURN(pc__saved_check_model(&saved));
    status = pc__saved_read(&saved, heads, &newer, &reason);
    for (uint64_t slot = 0; slot < PC__SAVED_SLOTS; slot++) {
        pc__id id = pc__saved_slot(&saved, slot);
        pc_status removed = pc__cache_remove_entry(cache, &id, (uint32_t)saved.options.tiers);
        if (removed != PC_MISS && worst >= 0)
            worst = removed;
    }
    for (size_t i = 0; i < PC__SAVED_SLOTS && status >= 0; i++)
        status = remove_parts(&saved, &heads[i]);
    for (size_t i = 0; i < PC__SAVED_SLOTS; i++)
        pc__saved_head_free(&heads[i], &model->context->mem);
    return status < 0 ? status : worst;
}

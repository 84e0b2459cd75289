/* The cache for applications that have their own runtime: keys, put and get of raw states. */
#include "store/cache_internal.h"

#include <math.h>
#include <promptcache/cache.h>
#include <string.h>

#include "store/raw_states.h"

static pc__id to_id(const uint8_t *bytes)
{
    pc__id id;
    memcpy(id.bytes, bytes, sizeof id.bytes);
    return id;
}

static pc_status check_key_parts(const pc_key_parts *p)
{
    if (!p->model)
        return pc__fail(PC_ERR_INVALID, "pc_key_base: parts.model is NULL");
    if (p->position_scheme > PC_POSITION_LEARNED || p->encoding > PC_ENCODE_EXACT)
        return pc__fail(PC_ERR_INVALID, "pc_key_base: unknown position_scheme %u or encoding %u",
                        p->position_scheme, p->encoding);
    PC__TRY_RETURN(pc__check_kv_dtype("pc_key_parts", "dtype", p->dtype));
    if (p->layout > PC_LAYOUT_MODEL_PAGES && p->layout < PC_LAYOUT_APPLICATION)
        return pc__fail(PC_ERR_INVALID, "pc_key_base: layout %u is reserved", p->layout);
    return pc__check_array("pc_key_base", "parts.salt", p->salt, p->salt_size, 1);
}

pc_status pc_key_base(uint8_t base[32], const pc_key_parts *parts)
{
    pc_key_parts p;
    pc__id id;
    if (!base || !parts)
        return pc__fail(PC_ERR_INVALID, "pc_key_base: base or parts is NULL");
    PC__TRY_RETURN(pc__options_read(&p, sizeof p, PC__V1_SIZE(pc_key_parts, salt_size), parts,
                                    "pc_key_parts"));
    PC__TRY_RETURN(check_key_parts(&p));
    id = pc__base_key(&p);
    memcpy(base, id.bytes, sizeof id.bytes);
    return PC_OK;
}

/* 0, 1, 2 … have one key, whether they are written out or not: *holes says which. */
static pc_status check_relative(const pc_key_segment_args *args, int *holes)
{
    *holes = 0;
    for (size_t i = 0; args->relative && i < args->count; i++) {
        const int64_t *relative = args->relative;
        if (i ? relative[i] <= relative[i - 1] : relative[i] != 0)
            return pc__fail(PC_ERR_INVALID,
                            "pc_key_segment: token %zu has relative position %lld; they start at 0 "
                            "and increase",
                            i, (long long)relative[i]);
        *holes |= relative[i] != (int64_t)i;
    }
    return PC_OK;
}

pc_status pc_key_segment(uint8_t key[32], const pc_key_segment_args *args)
{
    pc_key_segment_args read;
    pc__id base, parent = {{0}}, id;
    int holes;
    PC__TRY_RETURN(pc__options_read(&read, sizeof read, PC__V1_SIZE(pc_key_segment_args, count),
                                    args, "pc_key_segment_args"));
    if (!key || !read.base)
        return pc__fail(PC_ERR_INVALID, "pc_key_segment: key or args.base is NULL");
    PC__TRY_RETURN(pc__check_array("pc_key_segment", "args.tokens", read.tokens, read.count,
                                   sizeof *read.tokens));
    PC__TRY_RETURN(check_relative(&read, &holes));
    base = to_id(read.base);
    if (read.parent)
        parent = to_id(read.parent);
    id = pc__segment_key(&base, read.parent ? &parent : NULL, read.distance, read.offset,
                         read.tokens, holes ? read.relative : NULL, read.count);
    memcpy(key, id.bytes, sizeof id.bytes);
    return PC_OK;
}

static pc_status read_put_options(pc_put_options *o, const pc_put_options *options,
                                  const pc_cache *cache, const char *call)
{
    PC__TRY_RETURN(pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_put_options, tiers), options,
                                    "pc_put_options"));
    PC__TRY_RETURN(pc__check_flags("pc_put_options", o->flags, PC_PUT_WAIT));
    if (o->reserved || !o->salt != !o->salt_size)
        return pc__fail(PC_ERR_INVALID,
                        "%s: reserved is not 0, or only one of salt and salt_size is given", call);
    PC__TRY_RETURN(pc__check_array(call, "salt", o->salt, o->salt_size, 1));
    if (!(o->cost_seconds >= 0 && o->cost_seconds < 1e18)
        || !(o->ttl_seconds >= 0 && (o->ttl_seconds < 1e18 || isinf(o->ttl_seconds))))
        return pc__fail(PC_ERR_INVALID, "%s: cost_seconds is %g, ttl_seconds %g", call,
                        o->cost_seconds, o->ttl_seconds);
    return pc__cache_check_tiers(cache, o->tiers, call);
}

/* An entry as the options of a put describe it. */
typedef struct put_entry {
    pc__entry_desc desc; /* points to the others */
    pc__id parent, salt;
} put_entry;

static pc_status make_entry(put_entry *e, const uint8_t *key, const pc_put_options *options,
                            const pc_cache *cache, const char *call)
{
    pc_put_options o;
    PC__TRY_RETURN(read_put_options(&o, options, cache, call));
    e->desc = (pc__entry_desc){.key = to_id(key),
                               .cost = o.cost_seconds,
                               .ttl = o.ttl_seconds,
                               .priority = o.priority,
                               .tiers = (uint32_t)o.tiers,
                               .wait_for_room = o.flags & PC_PUT_WAIT ? 1 : 0};
    if (o.parent) {
        e->parent = to_id(o.parent);
        e->desc.parent = &e->parent;
    }
    if (o.salt) {
        e->salt = pc__salt_digest(o.salt, o.salt_size);
        e->desc.salt = &e->salt;
    }
    return PC_OK;
}

pc_status pc_cache_put(pc_cache *cache, const uint8_t key[32], pc_segment *segment,
                       const pc_put_options *options)
{
    PC__HOLD(pc_cache, cache);
    PC__HOLD(pc_segment, segment);
    put_entry e;
    pc__image image = {0}; /* pc__cache_put_entry adds what the entry says */
    pc_raw raw = PC_RAW_INIT;
    if (!cache || !key || !segment)
        return pc__fail(PC_ERR_INVALID, "pc_cache_put: cache, key or segment is NULL");
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_put"));
    PC__TRY_RETURN(make_entry(&e, key, options, cache, "pc_cache_put"));
    if (segment->ops->raw && segment->ops->raw(segment->owner, segment->payload, &raw) >= 0)
        image.relative = raw.relative;
    image.lossy = segment->lossy;
    return pc__cache_put_entry(cache, &e.desc, segment->ops->describe ? &image : NULL, segment,
                               NULL, NULL);
}

pc_status pc_cache_put_copy(pc_cache *cache, const uint8_t key[32], const pc_raw *raw,
                            const pc_put_options *options)
{
    PC__HOLD(pc_cache, cache);
    static const char call[] = "pc_cache_put_copy";
    put_entry e;
    pc_raw r;
    pc__image image;
    uint32_t reason;
    if (!cache || !key || !raw)
        return pc__fail(PC_ERR_INVALID, "%s: cache, key or raw is NULL", call);
    PC__TRY_RETURN(pc__cache_check(cache, call));
    PC__TRY_RETURN(make_entry(&e, key, options, cache, call));
    PC__TRY_RETURN(pc__options_read(&r, sizeof r, PC__V1_SIZE(pc_raw, block_count), raw, "pc_raw"));
    PC__TRY_RETURN(pc__raw_image(&image, &r, 0, call));
    image.blocks = (uint8_t *const *)(uintptr_t)r.blocks;
    return pc__cache_put_entry_copy(cache, &e.desc, &image, &reason);
}

static void ref_context(void *owner)
{
    pc__context_ref(owner);
}

/* A look-up in RAM, then below it. */
typedef struct state_lookup {
    pc_cache *cache;
    const pc__image *want;
    uint64_t bytes;
    double cost, until; /* pc__now clock */
    uint32_t tiers;
    pc_segment *found;
    uint32_t tier, reason;
} state_lookup;

static pc_status wait_for_load(state_lookup *s, pc__entry_load *load, double started)
{
    double until = s->cost > 0 && started + s->cost < s->until ? started + s->cost : s->until + 1;
    pc_status status = pc__entry_load_wait(load, until, &s->found, &s->reason);
    if (status == PC_OK)
        s->tier = pc__load_tier(load);
    if (status == PC_AGAIN) {
        s->reason = PC_REASON_SLOW;
        status = PC_MISS;
    }
    pc__load_drop(load);
    return status;
}

static pc_status lookup_below(state_lookup *s, double started)
{
    pc__entry_desc desc = {.key = s->want->key, .cost = s->cost};
    pc__load_request want = {.image = s->want,
                             .ops = &pc__raw_payload,
                             .owner = s->cache->context,
                             .ref_owner = ref_context,
                             .bytes = s->bytes,
                             .desc = &desc,
                             .cost = s->cost,
                             .tiers = s->tiers,
                             .deadline = s->until};
    pc__entry_load *load;
    pc_status status = pc__cache_lookup_async(s->cache, &want, &load, &s->reason);
    return status == PC_OK ? wait_for_load(s, load, started) : status;
}

static pc_status lookup_states(state_lookup *s, double started)
{
    const pc__image *want = s->want;
    uint32_t in_ram = PC_REASON_FIRST_USE;
    pc_status status = PC_MISS;
    if (pc__tiers_have(s->tiers, PC_TIER_RAM))
        status = pc__cache_get_entry(s->cache, &want->key, want->token_ids, want->tokens, &s->found,
                                     &in_ram);
    else
        atomic_fetch_add(&s->cache->counts.lookups, 1);
    s->tier = PC_TIER_RAM;
    s->reason = PC_REASON_FIRST_USE;
    if (status == PC_MISS && pc__cache_has_lower(s->cache))
        status = lookup_below(s, started);
    s->reason = pc__miss_reason(in_ram, s->reason);
    if (status == PC_OK && pc__raw_check_segment(s->found, want) < 0) {
        pc__segment_unref(s->found);
        s->found = NULL;
        s->reason = PC_REASON_FOREIGN;
        status = PC_MISS;
    }
    return status;
}

static pc_status check_get_arguments(pc_cache *cache, const uint8_t *key, const pc_raw *expect,
                                     const pc_get_info *info)
{
    if (!cache || !key || !expect)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get: cache, key or expect is NULL");
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_get"));
    return info && info->struct_size < PC__V1_SIZE(pc_get_info, seconds) ? pc__fail(
               PC_ERR_INVALID, "pc_cache_get: pc_get_info was not set up with its INIT macro")
                                                                         : PC_OK;
}

pc_status pc_cache_get(pc_segment **out, pc_cache *cache, const uint8_t key[32],
                       const pc_raw *expect, const pc_get_options *options, pc_get_info *info)
{
    PC__HOLD(pc_cache, cache);
    pc_raw r;
    pc__image want;
    pc_get_options o;
    state_lookup s = {.cache = cache, .want = &want};
    pc_get_info result = PC_GET_INFO_INIT;
    double started = pc__now();
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get: out is NULL");
    *out = NULL;
    PC__TRY_RETURN(check_get_arguments(cache, key, expect, info));
    PC__TRY_RETURN(pc__cache_get_options(&o, options, cache, "pc_cache_get"));
    PC__TRY_RETURN(
        pc__options_read(&r, sizeof r, PC__V1_SIZE(pc_raw, block_count), expect, "pc_raw"));
    PC__TRY_RETURN(pc__raw_image(&want, &r, 1, "pc_cache_get"));
    want.key = to_id(key);
    s.bytes = pc__image_bytes(&want);
    s.cost = o.cost_seconds;
    s.until = started + (o.deadline_seconds > 0 ? o.deadline_seconds : cache->deadline);
    s.tiers = (uint32_t)o.tiers;
    status = lookup_states(&s, started);
    if (status < 0)
        return status;
    *out = s.found;
    result.tier = s.found ? s.tier : PC_TIER_NONE;
    result.reason = s.found ? PC_REASON_NONE : s.reason;
    result.lossy = s.found ? s.found->lossy : 0;
    result.seconds = pc__now() - started;
    if (info)
        PC__TRY_RETURN(pc__result_write(info, PC__V1_SIZE(pc_get_info, seconds), &result,
                                        sizeof result, "pc_get_info"));
    return status;
}

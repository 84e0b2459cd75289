/* pc_cache_get_many: many loads behind one handle; and prefetches by key. */
#include "store/cache_internal.h"

#include <string.h>

#include "base/options.h"
#include "store/raw_states.h"

typedef struct many_entry {
    pc__entry_load *load; /* NULL: done at once, or settled */
    pc__image *want;      /* of an entry that becomes a segment; what a joined load must be */
    pc_segment *segment;  /* counted */
    uint32_t tier, reason, lossy;
    int into; /* it has blocks */
    int is_done;
    double seconds;
} many_entry;

struct pc_load {
    pc_allocator mem;
    pc_cache *cache;
    double started, until; /* pc__now clock */
    size_t count;
    many_entry entries[];
};

/* What a call asks for, checked. */
typedef struct many_request {
    const char *call;
    pc_cache *cache;
    pc_raw expect;
    pc_get_options options;
    const pc_get_entry *entries; /* dense */
    void *copy;                  /* of them, or NULL */
    size_t count;
} many_request;

static pc_status make_image(const many_request *r, size_t i, pc__image *image)
{
    const pc_get_entry *e = &r->entries[i];
    pc_raw raw = r->expect;
    raw.tokens = e->tokens;
    raw.relative = e->relative;
    raw.token_count = e->token_count;
    raw.blocks = NULL;
    if (e->block_bytes)
        raw.block_bytes = e->block_bytes;
    PC__TRY_RETURN(pc__raw_image(image, &raw, 1, "what is expected"));
    memcpy(image->key.bytes, e->key, sizeof image->key.bytes);
    return PC_OK;
}

static pc_status check_entry(const many_request *r, size_t i)
{
    const pc_get_entry *e = &r->entries[i];
    pc__image image;
    pc_status status;
    if (!e->key)
        return pc__fail(PC_ERR_INVALID, "%s: entry %zu: key is NULL", r->call, i);
    PC__TRY_RETURN(pc__check_array(r->call, "an entry's tokens", e->tokens, e->token_count,
                                   sizeof *e->tokens));
    status = make_image(r, i, &image);
    if (status < 0)
        return pc__fail_in(status, "%s: entry %zu", r->call, i);
    for (size_t b = 0; e->blocks && b < image.block_count; b++)
        if (!e->blocks[b])
            return pc__fail(PC_ERR_INVALID, "%s: entry %zu: block %zu is NULL", r->call, i, b);
    return PC_OK;
}

pc_status pc__cache_get_options(pc_get_options *o, const pc_get_options *options, pc_cache *cache,
                                const char *call)
{
    PC__TRY_RETURN(pc__options_read(o, sizeof *o, PC__V1_SIZE(pc_get_options, tiers), options,
                                    "pc_get_options"));
    if (!(o->cost_seconds >= 0 && o->cost_seconds < 1e18)
        || !(o->deadline_seconds >= 0 && o->deadline_seconds < 1e18))
        return pc__fail(PC_ERR_INVALID, "%s: cost_seconds is %g, deadline_seconds %g", call,
                        o->cost_seconds, o->deadline_seconds);
    return pc__cache_check_tiers(cache, o->tiers, call);
}

/* To be ended by end_request, on failure too. */
static pc_status read_request(many_request *r, const char *call, pc_cache *cache,
                              const pc_raw *expect, const pc_get_entry *entries, size_t stride,
                              size_t count, const pc_get_options *options)
{
    const void *dense;
    *r = (many_request){.call = call, .cache = cache, .count = count};
    if (!cache || !expect)
        return pc__fail(PC_ERR_INVALID, "%s: cache or expect is NULL", call);
    PC__TRY_RETURN(pc__cache_check(cache, call));
    PC__TRY_RETURN(pc__cache_get_options(&r->options, options, cache, call));
    PC__TRY_RETURN(pc__options_read(&r->expect, sizeof r->expect, PC__V1_SIZE(pc_raw, block_count),
                                    expect, "pc_raw"));
    PC__TRY_RETURN(pc__array_in(&dense, &r->copy, &cache->context->mem,
                                PC__ARRAY(call, "wanted", pc_get_entry, blocks), entries, stride,
                                count));
    r->entries = dense;
    for (size_t i = 0; i < count; i++)
        PC__TRY_RETURN(check_entry(r, i));
    return PC_OK;
}

static void end_request(many_request *r)
{
    if (r->copy)
        pc__free(&r->cache->context->mem, r->copy);
}

static void ref_context(void *owner)
{
    pc__context_ref(owner);
}

static pc__load_request load_request(const many_request *r, const pc__image *want,
                                     const pc__entry_desc *desc, double until)
{
    return (pc__load_request){.image = want,
                              .ops = &pc__raw_payload,
                              .owner = r->cache->context,
                              .ref_owner = ref_context,
                              .bytes = pc__image_bytes(want),
                              .desc = desc,
                              .cost = desc->cost,
                              .tiers = (uint32_t)r->options.tiers,
                              .deadline = until};
}

static void settle(const pc_load *l, many_entry *e, uint32_t tier, uint32_t reason)
{
    e->is_done = 1;
    e->tier = reason ? PC_TIER_NONE : tier;
    e->reason = reason;
    e->seconds = pc__now() - l->started;
}

/* RAM has it: PC_OK, settled or being copied. PC_MISS: look below; *reason says why. */
static pc_status start_from_ram(const many_request *r, pc_load *l, size_t i, const pc__image *want,
                                const pc__load_request *below, uint32_t *reason)
{
    many_entry *e = &l->entries[i];
    pc_segment *found = NULL;
    pc_status status = PC_MISS;
    if (pc__tiers_have((uint32_t)r->options.tiers, PC_TIER_RAM))
        status = pc__cache_get_entry(r->cache, &want->key, want->token_ids, want->tokens, &found,
                                     reason);
    else
        atomic_fetch_add(&r->cache->counts.lookups, 1);
    if (status != PC_OK)
        return status;
    if (pc__raw_check_segment(found, want) < 0) {
        pc__segment_unref(found);
        settle(l, e, PC_TIER_NONE, PC_REASON_FOREIGN);
        return PC_OK;
    }
    if (e->into)
        return pc__cache_load_into(r->cache, below, (uint8_t *const *)r->entries[i].blocks, found,
                                   &e->load, &e->reason);
    e->segment = found;
    e->lossy = found->lossy;
    settle(l, e, PC_TIER_RAM, PC_REASON_NONE);
    return PC_OK;
}

static pc_status start_entry(const many_request *r, pc_load *l, size_t i)
{
    many_entry *e = &l->entries[i];
    pc__image want;
    pc__entry_desc desc;
    pc__load_request below;
    uint32_t in_ram = PC_REASON_FIRST_USE, reason = PC_REASON_FIRST_USE;
    pc_status status;
    PC__TRY_RETURN(make_image(r, i, &want));
    desc = (pc__entry_desc){.key = want.key, .cost = r->options.cost_seconds};
    below = load_request(r, &want, &desc, l->until);
    e->into = r->entries[i].blocks != NULL;
    status = start_from_ram(r, l, i, &want, &below, &in_ram);
    if (status != PC_MISS || !pc__cache_has_lower(r->cache)) {
        if (status == PC_MISS)
            settle(l, e, PC_TIER_NONE, pc__miss_reason(in_ram, reason));
        return status < 0 ? status : PC_OK;
    }
    if (!e->into && !(e->want = pc__image_copy(&l->mem, &want)))
        return PC_ERR_NOMEM;
    status = e->into ? pc__cache_load_into(r->cache, &below, (uint8_t *const *)r->entries[i].blocks,
                                           NULL, &e->load, &reason)
                     : pc__cache_lookup_async(r->cache, &below, &e->load, &reason);
    if (status == PC_MISS)
        settle(l, e, PC_TIER_NONE, pc__miss_reason(in_ram, reason));
    return status < 0 ? status : PC_OK;
}

pc_status pc_cache_get_many(pc_load **out, pc_cache *cache, const pc_raw *expect,
                            const pc_get_entry *wanted, size_t wanted_stride, size_t count,
                            const pc_get_options *options)
{
    PC__HOLD(pc_cache, cache);
    many_request r;
    pc_load *l = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_cache_get_many: out is NULL");
    *out = NULL;
    PC__TRY(
        read_request(&r, "pc_cache_get_many", cache, expect, wanted, wanted_stride, count, options),
        done);
    l = pc__calloc(&cache->context->mem, 1, sizeof *l + count * sizeof l->entries[0]);
    status = l ? PC_OK : PC_ERR_NOMEM;
    if (!l)
        goto done;
    l->mem = cache->context->mem;
    l->cache = pc__cache_ref(cache);
    l->count = count;
    l->started = pc__now();
    l->until = l->started
               + (r.options.deadline_seconds > 0 ? r.options.deadline_seconds : cache->deadline);
    for (size_t i = 0; i < count && status >= 0; i++)
        status = start_entry(&r, l, i);
    *out = l;
    if (status < 0) {
        pc_load_free(l);
        *out = NULL;
    }
done:
    end_request(&r);
    return status;
}

/* A load that has ended. */
static void finish_entry(pc_load *l, many_entry *e)
{
    uint32_t reason, other_kernels, tier = pc__load_tier(e->load);
    pc_status status = e->into ? pc__load_filled(e->load, &e->lossy, &other_kernels, &reason)
                               : pc__entry_load_wait(e->load, 0, &e->segment, &reason);
    if (status == PC_OK && e->segment && pc__raw_check_segment(e->segment, e->want) < 0) {
        pc__segment_unref(e->segment);
        e->segment = NULL;
        status = PC_MISS;
        reason = PC_REASON_FOREIGN;
    }
    if (e->segment)
        e->lossy = e->segment->lossy;
    if (status != PC_OK && !reason)
        reason = PC_REASON_SLOW;
    settle(l, e, tier, status == PC_OK ? PC_REASON_NONE : reason);
    if (e->into)
        pc__load_end(e->load);
    else
        pc__load_drop(e->load);
    e->load = NULL;
}

/* 1: done. */
static int await_entry(pc_load *l, many_entry *e, double until)
{
    if (!e->is_done && pc__load_await(e->load, until, 0))
        finish_entry(l, e);
    return e->is_done;
}

/* How many entries from the first on are done. */
static size_t await_entries(pc_load *l, double until)
{
    size_t done = 0;
    while (done < l->count && await_entry(l, &l->entries[done], until))
        done++;
    return done;
}

pc_status pc_load_wait(pc_load *load, double seconds)
{
    if (!load || !(seconds >= 0))
        return pc__fail(PC_ERR_INVALID, "pc_load_wait: load is NULL, or seconds is %g", seconds);
    PC__TRY_RETURN(pc__cache_check(load->cache, "pc_load_wait"));
    if (seconds > 0 && pc__io_is_own_thread(load->cache->io))
        return pc__fail(PC_ERR_STATE,
                        "pc_load_wait: a callback on a thread of the cache cannot wait for it");
    return await_entries(load, seconds > 0 ? pc__now() + (seconds < 1e9 ? seconds : 1e9) : 0)
                   == load->count
               ? PC_OK
               : PC_AGAIN;
}

pc_status pc_load_poll(pc_load *load, size_t *done)
{
    size_t first;
    if (done)
        *done = 0;
    if (!load)
        return pc__fail(PC_ERR_INVALID, "pc_load_poll: load is NULL");
    PC__TRY_RETURN(pc__cache_check(load->cache, "pc_load_poll"));
    first = await_entries(load, 0);
    if (done)
        *done = first;
    return first == load->count ? PC_OK : PC_AGAIN;
}

pc_status pc_load_result(pc_load *load, size_t index, pc_segment **segment, pc_get_info *info)
{
    pc_get_info result = PC_GET_INFO_INIT;
    many_entry *e;
    if (segment)
        *segment = NULL;
    if (!load)
        return pc__fail(PC_ERR_INVALID, "pc_load_result: load is NULL");
    if (index >= load->count)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_load_result: entry %zu of %zu", index, load->count);
    PC__TRY_RETURN(pc__cache_check(load->cache, "pc_load_result"));
    e = &load->entries[index];
    if (!await_entry(load, e, 0))
        return PC_AGAIN;
    result.tier = e->tier;
    result.reason = e->reason;
    result.lossy = e->reason ? 0 : e->lossy;
    result.seconds = e->seconds;
    if (info)
        PC__TRY_RETURN(pc__result_write(info, PC__V1_SIZE(pc_get_info, seconds), &result,
                                        sizeof result, "pc_get_info"));
    if (segment && e->segment)
        *segment = pc__segment_ref(e->segment);
    return e->reason ? PC_MISS : PC_OK;
}

void pc_load_free(pc_load *load)
{
    pc_allocator mem;
    pc_cache *cache;
    if (!load)
        return;
    mem = load->mem;
    cache = load->cache;
    if (!pc__cache_is_inherited(cache)) {
        /* All are given up before any of them is waited for. */
        for (size_t i = 0; i < load->count; i++)
            if (load->entries[i].into)
                pc__load_give_up(load->entries[i].load);
        for (size_t i = 0; i < load->count; i++)
            if (load->entries[i].into)
                pc__load_end(load->entries[i].load);
            else
                pc__load_drop(load->entries[i].load);
    }
    for (size_t i = 0; i < load->count; i++) {
        pc__segment_unref(load->entries[i].segment);
        pc__free(&mem, load->entries[i].want);
    }
    pc__free(&mem, load);
    pc__cache_unref(cache);
}

pc_status pc_cache_prefetch(pc_cache *cache, const pc_raw *expect, const pc_get_entry *wanted,
                            size_t wanted_stride, size_t count, const pc_get_options *options,
                            size_t *started)
{
    PC__HOLD(pc_cache, cache);
    many_request r;
    pc_status status;
    if (started)
        *started = 0;
    status = read_request(&r, "pc_cache_prefetch", cache, expect, wanted, wanted_stride, count,
                          options);
    for (size_t i = 0; i < count && status >= 0; i++) {
        pc__image want;
        pc__entry_desc desc;
        pc__load_request request;
        PC__TRY(make_image(&r, i, &want), done);
        desc = (pc__entry_desc){.key = want.key, .cost = r.options.cost_seconds};
        request = load_request(&r, &want, &desc, 0);
        status = pc__cache_prefetch_entry(cache, &request);
        if (started)
            *started += status == PC_OK;
    }
    status = status < 0 ? status : PC_OK;
done:
    end_request(&r);
    return status;
}

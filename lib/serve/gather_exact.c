/* Segments that saw all that stands before them in this prompt: mode EXACT, PC_BASELINE_PLAN,
 * repair FULL, and the blocks of a prompt without PML. All of them come through here, so that they
 * are the same computation: one segment for every part up to the last one whose states are kept,
 * cut and placed alike, whether a part comes from the store or not.
 *
 * What RAM does not have is sought in the tiers below; what has not come when it is needed is
 * computed, unless it comes meanwhile and saves more than has been spent on it by then. */
#include <string.h>

#include "serve/gather.h"

/* The tiers below RAM get blocks of a prompt without PML at once if it has so many tokens: to
 * compute them again would take long, and a text that long is likely to be gone on with. */
enum { LONG_PROMPT = 512 };

typedef struct chain {
    pc__request *request;
    pc_cache *cache;
    pc__request_tenants scopes;
    pc__id *keys;  /* [parts] */
    size_t needed; /* parts [0, needed) get a segment */
    size_t kept_tokens;
    pc__request_loads loads;
    uint32_t *reasons; /* [parts] why it was not reused */
    double cost;       /* seconds a token, as expected */
    /* the group under way */
    size_t first, end;
    double group_started;
    int overtaken;
    int32_t *tokens;
    int64_t *positions;
    pc_token_range *cuts;
    pc_span *visible;
    pc_segment **made;
} chain;

static void name_parts(chain *c)
{
    const pc_prompt *prompt = c->request->prompt;
    const pc__part *last = NULL;
    pc__id last_key;
    for (size_t p = 0; p < prompt->part_count; p++)
        if (prompt->parts[p].count && pc__part_is_kept(&prompt->parts[p]))
            c->needed = p + 1;
    for (size_t p = 0; p < prompt->part_count; p++)
        c->kept_tokens += pc__part_is_kept(&prompt->parts[p]) ? prompt->parts[p].count : 0;
    for (size_t p = 0; p < c->needed; p++) {
        const pc__part *part = &prompt->parts[p];
        if (!part->count)
            continue;
        c->keys[p] = pc__segment_key(&pc__request_tenant_at(&c->scopes, part->start)->base,
                                     last ? &last_key : NULL, last ? part->start - last->start : 0,
                                     pc__key_offset(c->request->model, part->start), part->tokens,
                                     NULL, part->count);
        last_key = c->keys[p];
        last = part;
    }
}

static pc__id content_key(const chain *c, const pc__part *part)
{
    return pc__segment_key(&pc__request_tenant_at(&c->scopes, part->start)->base, NULL, 0, 0,
                           part->tokens, NULL, part->count);
}

static pc_status look_up(chain *c)
{
    pc__request *r = c->request;
    for (size_t p = 0; c->cache && p < c->needed; p++) {
        const pc__part *part = &r->prompt->parts[p];
        pc_status status;
        if (!part->count || !pc__part_is_kept(part))
            continue;
        status = pc__segment_find(r->model, c->cache, &c->keys[p], part->tokens, part->count,
                                  &r->segments[p]);
        if (status < 0)
            return status;
        r->hit[p] = status == PC_OK;
        r->tier[p] = PC_TIER_RAM;
    }
    return PC_OK;
}

static int is_missing(const void *user, size_t p)
{
    const chain *c = user;
    const pc__part *part = &c->request->prompt->parts[p];
    return p < c->needed && part->count && !c->request->segments[p];
}

static const pc__id *key_before(const chain *c, size_t p)
{
    while (p--)
        if (c->request->prompt->parts[p].count)
            return &c->keys[p];
    return NULL;
}

static pc__segment_facts facts_of(const chain *c, size_t p, const pc__id *content)
{
    const pc__part *part = &c->request->prompt->parts[p];
    return (pc__segment_facts){.key = &c->keys[p],
                               .content = content,
                               .parent = key_before(c, p),
                               .salt = &pc__request_tenant_at(&c->scopes, part->start)->salt,
                               .encoding = PC_ENCODE_EXACT,
                               .regime = c->request->regime.key,
                               .start = part->start,
                               .tokens = part->tokens,
                               .count = part->count};
}

static pc_status seek(chain *c)
{
    pc__request *r = c->request;
    size_t tokens = 0;
    pc_status status = pc__fetch_start(&c->loads.fetch, r->model, c->cache, c->needed);
    for (size_t p = 0; p < c->needed; p++)
        tokens += is_missing(c, p) ? r->prompt->parts[p].count : 0;
    if (c->cache && tokens)
        c->cost = pc__fetch_cost(r->model, c->cache, tokens) / (double)tokens;
    for (size_t p = 0; status >= 0 && c->loads.fetch.count && p < c->needed; p++) {
        const pc__part *part = &r->prompt->parts[p];
        pc__segment_facts facts;
        pc__id content;
        if (!is_missing(c, p) || !pc__part_is_kept(part))
            continue;
        content = content_key(c, part);
        facts = facts_of(c, p, &content);
        status = pc__fetch_look_up(&c->loads.fetch, p, &facts, c->cost * (double)part->count);
    }
    return status;
}

/* Of the first part that is missing: has something before it changed? Asked before anything new is
 * kept. */
static void judge_prefix(chain *c)
{
    for (size_t p = 0; c->cache && p < c->needed; p++) {
        const pc__part *part = &c->request->prompt->parts[p];
        pc__id content;
        if (!is_missing(c, p) || !pc__part_is_kept(part))
            continue;
        content = content_key(c, part);
        if (pc__fetch_reason(&c->loads.fetch, p) == PC_REASON_FIRST_USE
            && pc__cache_has_content(c->cache, &content))
            c->reasons[p] = PC_REASON_PREFIX;
        return;
    }
}

/* Missing parts in a row whose positions ascend are one call; the rows of it see what separate
 * calls would show them. It ends before parts that are being loaded, which may be there by then. */
static size_t group_end(const chain *c, size_t first)
{
    const pc__part *parts = c->request->prompt->parts;
    int64_t last = INT64_MIN;
    size_t p = first;
    for (; p < c->needed && !c->request->segments[p]; p++) {
        if (!parts[p].count)
            continue;
        if (parts[p].start <= last
            || (pc__fetch_is_pending(&c->loads.fetch, p)
                && !pc__fetch_is_pending(&c->loads.fetch, first)))
            break;
        last = parts[p].start + (int64_t)parts[p].count - 1;
    }
    return p;
}

/* Loads of the group have come, and save more than has been spent on it. */
static int is_overtaken(const chain *c)
{
    size_t tokens = 0;
    for (size_t p = c->first; c->loads.fetch.pending && p < c->end; p++) {
        if (pc__fetch_is_there(&c->loads.fetch, p))
            tokens += c->request->prompt->parts[p].count;
        else if (pc__fetch_is_pending(&c->loads.fetch, p))
            return 0;
    }
    return tokens && c->cost * (double)tokens > pc__now() - c->group_started;
}

/* Asked by the model now and then. */
static int32_t must_stop(void *user)
{
    chain *c = user;
    const pc_generate_options *o = c->request->options;
    c->overtaken |= is_overtaken(c);
    return c->overtaken || (o->cancelled && o->cancelled(o->cancel_user));
}

static pc_status encode_group(chain *c, size_t first, size_t end, double *seconds_per_token)
{
    pc__request *r = c->request;
    const pc__part *parts = r->prompt->parts;
    pc_encode_args args = {.struct_size = sizeof args};
    double started = pc__now();
    pc_status status;
    for (size_t p = 0; p < first; p++)
        if (r->segments[p])
            c->visible[args.visible_count++] = (pc_span){r->segments[p]->payload, parts[p].start, 0,
                                                         (uint32_t)r->segments[p]->tokens};
    for (size_t p = first; p < end; p++) {
        if (!parts[p].count)
            continue;
        c->cuts[args.range_count++] = (pc_token_range){args.count, parts[p].count};
        memcpy(c->tokens + args.count, parts[p].tokens, parts[p].count * sizeof *c->tokens);
        for (size_t t = 0; t < parts[p].count; t++)
            c->positions[args.count++] = parts[p].start + (int64_t)t;
    }
    args.tokens = c->tokens;
    args.positions = c->positions;
    args.visible = c->visible;
    args.ranges = c->cuts;
    args.rope_regime_length = r->regime.length;
    args.cancelled = must_stop;
    args.cancel_user = c;
    c->first = first;
    c->end = end;
    c->group_started = started;
    c->overtaken = 0;
    if (c->cache)
        pc__cache_request_running(c->cache, 1);
    status = pc__request_is_fresh(r)
                 ? pc__call_encode_as_computed(r->model, c->cache, &args, c->made)
                 : pc__call_encode(r->model, c->cache, &args, c->made);
    if (c->cache)
        pc__cache_request_running(c->cache, -1);
    if (status >= 0 && c->cache)
        pc__cache_report_compute(c->cache, r->model->info.fingerprint, args.count,
                                 pc__now() - started);
    for (size_t p = first, cut = 0; status >= 0 && p < end; p++)
        if (parts[p].count)
            r->segments[p] = c->made[cut++];
    *seconds_per_token = args.count ? (pc__now() - started) / (double)args.count : 0;
    return status;
}

static pc_status keep_part(chain *c, size_t p, double seconds_per_token)
{
    pc__request *r = c->request;
    const pc__part *part = &r->prompt->parts[p];
    pc__id content = content_key(c, part);
    pc__segment_facts facts = facts_of(c, p, &content);
    const pc__entry_desc desc = {.key = *facts.key,
                                 .content = facts.content,
                                 .parent = facts.parent,
                                 .salt = facts.salt,
                                 .cost = seconds_per_token * (double)part->count,
                                 .write_on_reuse = !r->prompt->schema
                                                   && c->kept_tokens < LONG_PROMPT};
    pc__image image;
    pc_segment *winner = NULL;
    uint32_t reason = PC_REASON_NONE;
    pc_status status = pc__cache_put(c->cache, &desc,
                                     pc__fetch_image(&image, r->model, c->cache, &facts),
                                     r->segments[p], &winner, &reason);
    if (status == PC_MISS)
        c->reasons[p] = reason;
    if (winner) {
        pc__segment_unref(r->segments[p]);
        r->segments[p] = winner;
    }
    return status;
}

static pc_status keep(chain *c, size_t first, size_t end, double seconds_per_token)
{
    pc_status status = PC_OK;
    for (size_t p = first; c->cache && p < end && status >= 0; p++) {
        const pc__part *part = &c->request->prompt->parts[p];
        if (part->count && pc__part_is_kept(part)) {
            if (c->reasons[p] == PC_REASON_NONE)
                c->reasons[p] = pc__fetch_reason(&c->loads.fetch, p);
            status = keep_part(c, p, seconds_per_token);
        }
    }
    return status;
}

static pc_status encode_missing(chain *c)
{
    for (size_t p = 0, end; p < c->needed; p = end) {
        double seconds_per_token;
        pc_status status;
        pc__loads_take_all(&c->loads);
        end = group_end(c, p);
        if (end == p || !c->request->prompt->parts[p].count) {
            end = p + 1;
            continue;
        }
        if ((status = pc__request_poll(c->request)) < 0)
            return status;
        status = encode_group(c, p, end, &seconds_per_token);
        if (status < 0 && c->overtaken) {
            end = p; /* once more, with what has come */
            continue;
        }
        if (status < 0 || (status = keep(c, p, end, seconds_per_token)) < 0)
            return status;
    }
    return PC_OK;
}

static void judge(chain *c)
{
    pc__request *r = c->request;
    for (size_t p = 0; p < c->needed; p++)
        if (r->prompt->parts[p].count && pc__part_is_kept(&r->prompt->parts[p]) && !r->hit[p])
            pc__request_missed(r, p, c->reasons[p] ? c->reasons[p] : PC_REASON_FIRST_USE);
    r->stats.exactness = PC_EXACT;
    r->stats.repair = PC_REPAIR_NONE;
}

static pc_status reserve(chain *c)
{
    const pc_allocator *mem = &c->request->model->context->mem;
    size_t parts = c->request->prompt->part_count;
    c->keys = pc__calloc(mem, parts, sizeof *c->keys);
    c->reasons = pc__calloc(mem, parts, sizeof *c->reasons);
    return c->keys && c->reasons ? PC_OK : PC_ERR_NOMEM;
}

static pc_status reserve_calls(chain *c)
{
    const pc_allocator *mem = &c->request->model->context->mem;
    size_t parts = c->request->prompt->part_count, tokens = c->request->tokens;
    c->tokens = pc__calloc(mem, tokens, sizeof *c->tokens);
    c->positions = pc__calloc(mem, tokens, sizeof *c->positions);
    c->cuts = pc__calloc(mem, parts, sizeof *c->cuts);
    c->visible = pc__calloc(mem, parts, sizeof *c->visible);
    c->made = pc__calloc(mem, parts, sizeof(*c->made));
    return c->tokens && c->positions && c->cuts && c->visible && c->made ? PC_OK : PC_ERR_NOMEM;
}

static void finish(chain *c)
{
    const pc_allocator *mem = &c->request->model->context->mem;
    pc__request_tenants_end(&c->scopes, mem);
    pc__fetch_end(&c->loads.fetch);
    pc__free(mem, c->keys);
    pc__free(mem, c->reasons);
    pc__free(mem, c->tokens);
    pc__free(mem, c->positions);
    pc__free(mem, c->cuts);
    pc__free(mem, c->visible);
    pc__free(mem, c->made);
}

static int all_there(const chain *c)
{
    for (size_t p = 0; p < c->needed; p++)
        if (!c->request->segments[p] && c->request->prompt->parts[p].count)
            return 0;
    return 1;
}

/* What the tiers below RAM give. */
static pc_status load_missing(chain *c)
{
    pc__request *r = c->request;
    double started = pc__now(), waited = 0;
    pc_status status = seek(c);
    if (status >= 0) {
        waited = pc__loads_wait_and_take(&c->loads);
        judge_prefix(c);
    }
    r->stats.seconds_load += waited;
    r->stats.seconds_encode += pc__now() - started - waited;
    return status;
}

/* Computes the rest. */
static pc_status fill_missing(chain *c)
{
    pc__request *r = c->request;
    double started = pc__now();
    pc_status status = reserve_calls(c);
    if (status >= 0)
        status = encode_missing(c);
    r->stats.seconds_encode += pc__now() - started;
    return status;
}

/* Only where nothing is at hand: exact states are better than any map. */
static pc_status ask_memo(chain *c)
{
    pc__request *r = c->request;
    for (size_t p = 0; p < c->needed; p++)
        if (r->hit[p]) {
            r->stats.memo.reason = PC_REASON_AT_HAND;
            return PC_OK;
        }
    return pc__request_ask_memo(r);
}

pc_status pc__gather_exact(pc__request *r, pc_cache *cache)
{
    chain c = {.request = r, .cache = cache};
    double started = pc__now();
    pc_status status = reserve(&c);
    if (status >= 0)
        status = pc__request_tenants_init(&c.scopes, r->model, cache, PC_ENCODE_EXACT,
                                          r->regime.key, r->options->salts, r->options->salt_count);
    if (status >= 0) {
        name_parts(&c);
        c.loads = (pc__request_loads){
            .request = r, .parts = c.needed, .is_missing = is_missing, .gathering = &c};
        status = look_up(&c);
    }
    r->stats.seconds_assemble += pc__now() - started;
    if (status >= 0 && !all_there(&c))
        status = load_missing(&c);
    if (status >= 0 && r->asks_memo)
        status = ask_memo(&c);
    if (status >= 0 && !r->run && !all_there(&c))
        status = fill_missing(&c);
    r->stats.bytes_loaded += c.loads.fetch.bytes;
    if (status >= 0)
        judge(&c);
    finish(&c);
    return status;
}

/* Segments that saw all that stands before them in this prompt: mode EXACT, PC_BASELINE_PLAN,
 * repair FULL, and the blocks of a prompt without PML. All of them come through here, so that they
 * are the same computation: one segment for every part up to the last one whose states are kept,
 * cut and placed alike, whether a part comes from the store or not. */
#include <string.h>

#include "serve/request.h"

typedef struct chain {
    pc__request *request;
    pc_cache *cache;
    pc__scopes scopes;
    pc__id *keys;  /* [parts] */
    size_t needed; /* parts [0, needed) get a segment */
    int32_t *tokens;
    int64_t *positions;
    pc_cut *cuts;
    pc_placement *visible;
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
    for (size_t p = 0; p < c->needed; p++) {
        const pc__part *part = &prompt->parts[p];
        if (!part->count)
            continue;
        c->keys[p] = pc__segment_key(
            &pc__scope_at(&c->scopes, part->start)->base, last ? &last_key : NULL, last ? part->start - last->start : 0,
            pc__key_offset(c->request->model, part->start), part->tokens, NULL, part->count);
        last_key = c->keys[p];
        last = part;
    }
}

static pc__id content_key(const chain *c, const pc__part *part)
{
    return pc__segment_key(&pc__scope_at(&c->scopes, part->start)->base, NULL, 0, 0, part->tokens, NULL,
                           part->count);
}

static pc_status look_up(chain *c)
{
    pc__request *r = c->request;
    for (size_t p = 0; c->cache && p < c->needed; p++) {
        const pc__part *part = &r->prompt->parts[p];
        pc_status status;
        if (!part->count || !pc__part_is_kept(part))
            continue;
        status = pc__cache_get(c->cache, &c->keys[p], part->tokens, part->count, &r->segments[p]);
        if (status < 0)
            return status;
        r->hit[p] = status == PC_OK;
        if (!r->hit[p] && p < r->missed_part) {
            pc__id content = content_key(c, part);
            pc__request_missed(
                r, p, pc__cache_knows(c->cache, &content) ? PC_REASON_PREFIX : PC_REASON_FIRST_USE);
        }
    }
    return PC_OK;
}

/* Missing parts in a row whose positions ascend are one call; the rows of it see what separate
 * calls would show them. */
static size_t group_end(const chain *c, size_t first)
{
    const pc__part *parts = c->request->prompt->parts;
    int64_t last = INT64_MIN;
    size_t p = first;
    for (; p < c->needed && !c->request->segments[p]; p++) {
        if (!parts[p].count)
            continue;
        if (parts[p].start <= last)
            break;
        last = parts[p].start + (int64_t)parts[p].count - 1;
    }
    return p;
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
            c->visible[args.visible_count++] = (pc_placement){
                r->segments[p]->payload, parts[p].start, 0, (uint32_t)r->segments[p]->tokens};
    for (size_t p = first; p < end; p++) {
        if (!parts[p].count)
            continue;
        c->cuts[args.cut_count++] = (pc_cut){args.count, parts[p].count};
        memcpy(c->tokens + args.count, parts[p].tokens, parts[p].count * sizeof *c->tokens);
        for (size_t t = 0; t < parts[p].count; t++)
            c->positions[args.count++] = parts[p].start + (int64_t)t;
    }
    args.tokens = c->tokens;
    args.positions = c->positions;
    args.visible = c->visible;
    args.cuts = c->cuts;
    args.regime_length = r->regime.length;
    args.cancelled = r->options->cancelled;
    args.cancel_user = r->options->cancel_user;
    status = pc__request_is_fresh(r) ? pc__encode_as_computed(r->model, &args, c->made)
                                     : pc__encode(r->model, &args, c->made);
    for (size_t p = first, cut = 0; status >= 0 && p < end; p++)
        if (parts[p].count)
            r->segments[p] = c->made[cut++];
    *seconds_per_token = args.count ? (pc__now() - started) / (double)args.count : 0;
    return status;
}

static pc_status keep(chain *c, size_t first, size_t end, double seconds_per_token)
{
    pc__request *r = c->request;
    for (size_t p = first; c->cache && p < end; p++) {
        const pc__part *part = &r->prompt->parts[p];
        pc_segment *winner = NULL;
        pc__id content;
        pc_status status;
        if (!part->count || !pc__part_is_kept(part))
            continue;
        content = content_key(c, part);
        status = pc__cache_put(c->cache,
                               &(pc__naming){.key = c->keys[p],
                                             .content = &content,
                                             .before = p ? &c->keys[p - 1] : NULL,
                                             .salt = &pc__scope_at(&c->scopes, part->start)->salt,
                                             .cost = seconds_per_token * (double)part->count},
                               NULL, r->segments[p], &winner, NULL);
        if (status < 0)
            return status;
        if (status == PC_MISS && r->missed_part == p)
            r->stats.miss_reason = PC_REASON_NO_ROOM;
        if (winner) {
            pc__segment_unref(r->segments[p]);
            r->segments[p] = winner;
        }
    }
    return PC_OK;
}

static pc_status encode_missing(chain *c)
{
    for (size_t p = 0, end; p < c->needed; p = end) {
        double seconds_per_token;
        pc_status status;
        end = group_end(c, p);
        if (end == p || !c->request->prompt->parts[p].count) {
            end = p + 1;
            continue;
        }
        if ((status = pc__request_poll(c->request)) < 0
            || (status = encode_group(c, p, end, &seconds_per_token)) < 0
            || (status = keep(c, p, end, seconds_per_token)) < 0)
            return status;
    }
    return PC_OK;
}

static void judge(chain *c)
{
    pc__request *r = c->request;
    for (size_t p = 0; p < c->needed; p++)
        if (r->prompt->parts[p].count && pc__part_is_kept(&r->prompt->parts[p]) && !r->hit[p])
            pc__request_missed(r, p, PC_REASON_FIRST_USE);
    r->stats.exactness = PC_EXACT;
    r->stats.repair = PC_REPAIR_NONE;
}

static pc_status reserve(chain *c)
{
    const pc_allocator *mem = &c->request->model->context->mem;
    size_t parts = c->request->prompt->part_count;
    c->keys = pc__calloc(mem, parts, sizeof *c->keys);
    return c->keys ? PC_OK : PC_ERR_NOMEM;
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
    pc__scopes_end(&c->scopes, mem);
    pc__free(mem, c->keys);
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

pc_status pc__gather_exact(pc__request *r, pc_cache *cache)
{
    chain c = {.request = r, .cache = cache};
    double started = pc__now();
    pc_status status = reserve(&c);
    if (status >= 0)
        status = pc__scopes_init(&c.scopes, r->model, cache, PC_ENCODE_EXACT, r->regime.key,
                                 r->options->salts, r->options->salt_count);
    if (status >= 0) {
        name_parts(&c);
        status = look_up(&c);
    }
    r->stats.seconds_assemble += pc__now() - started;
    started = pc__now();
    if (status >= 0 && !all_there(&c)) {
        status = reserve_calls(&c);
        if (status >= 0)
            status = encode_missing(&c);
    }
    r->stats.seconds_encode += pc__now() - started;
    if (status >= 0)
        judge(&c);
    finish(&c);
    return status;
}

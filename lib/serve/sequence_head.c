/* The head of a saved sequence as bytes. */
#include "serve/sequence_head.h"

#include <string.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "base/mem.h"

enum { NUMBERS = offsetof(pc__saved_head, tokens) / sizeof(uint64_t) };

size_t pc__saved_keys(const pc__saved_head *head, const pc__saved_run *run)
{
    size_t pages = (run->tokens + PC__PAGE - 1) / PC__PAGE;
    return run->flags & PC__RUN_SHARED
               ? 1
               : (pages + head->chunk_pages - 1) / (size_t)head->chunk_pages;
}

/* ------------------------------------------------------------------ writing */

static pc_status add_u64(pc__bytes *out, uint64_t value)
{
    uint8_t bytes[8];
    pc__put_u64(bytes, value);
    return pc__bytes_add(out, bytes, sizeof bytes);
}

static pc_status add_ids(pc__bytes *out, const int32_t *ids, size_t count)
{
    uint8_t bytes[4];
    for (size_t i = 0; i < count; i++) {
        pc__put_u32(bytes, (uint32_t)ids[i]);
        PC__TRY_RETURN(pc__bytes_add(out, bytes, sizeof bytes));
    }
    return PC_OK;
}

static pc_status add_run(pc__bytes *out, const pc__saved_head *head, const pc__saved_run *run)
{
    PC__TRY_RETURN(add_u64(out, run->flags));
    PC__TRY_RETURN(add_u64(out, run->dtype));
    PC__TRY_RETURN(add_u64(out, run->regime));
    PC__TRY_RETURN(add_u64(out, (uint64_t)run->origin));
    PC__TRY_RETURN(add_u64(out, run->tokens));
    PC__TRY_RETURN(add_u64(out, run->relative ? run->tokens : 0));
    PC__TRY_RETURN(pc__bytes_add(out, run->visibility.bytes, sizeof run->visibility.bytes));
    PC__TRY_RETURN(add_ids(out, run->ids, run->tokens));
    for (size_t i = 0; run->relative && i < run->tokens; i++)
        PC__TRY_RETURN(add_u64(out, (uint64_t)run->relative[i]));
    return pc__bytes_add(out, run->keys, pc__saved_keys(head, run) * sizeof *run->keys);
}

pc_status pc__saved_head_write(const pc__saved_head *head, pc__bytes *out)
{
    const uint64_t *numbers = &head->version;
    for (size_t i = 0; i < NUMBERS; i++)
        PC__TRY_RETURN(add_u64(out, numbers[i]));
    PC__TRY_RETURN(add_ids(out, head->tokens, (size_t)head->token_count));
    PC__TRY_RETURN(add_ids(out, head->own, (size_t)head->own_count));
    PC__TRY_RETURN(add_ids(out, head->history, (size_t)head->history_count));
    for (size_t i = 0; i < head->run_count; i++)
        PC__TRY_RETURN(add_run(out, head, &head->runs[i]));
    for (size_t i = 0; i < head->span_count; i++) {
        const pc__saved_span *s = &head->spans[i];
        PC__TRY_RETURN(add_u64(out, s->run));
        PC__TRY_RETURN(add_u64(out, s->lo));
        PC__TRY_RETURN(add_u64(out, s->hi));
        PC__TRY_RETURN(add_u64(out, s->own | s->grows << 1));
        PC__TRY_RETURN(add_u64(out, (uint64_t)s->start));
    }
    return PC_OK;
}

/* ------------------------------------------------------------------ reading */

typedef struct reader {
    const pc_allocator *mem;
    const uint8_t *at;
    size_t left;
} reader;

static pc_status cut_short(void)
{
    return pc__fail(PC_ERR_FORMAT, "the head of a saved sequence is cut short");
}

static pc_status get_u64(reader *r, uint64_t *value)
{
    if (r->left < 8)
        return cut_short();
    *value = pc__get_u64(r->at);
    r->at += 8;
    r->left -= 8;
    return PC_OK;
}

/* At most `most`. */
static pc_status get_number(reader *r, uint64_t most, uint64_t *value)
{
    PC__TRY_RETURN(get_u64(r, value));
    return *value <= most ? PC_OK
                          : pc__fail(PC_ERR_FORMAT,
                                     "the head of a saved sequence has %llu, at "
                                     "most %llu are possible",
                                     (unsigned long long)*value, (unsigned long long)most);
}

static pc_status get_ids(reader *r, uint64_t count, int32_t **out)
{
    if (count > r->left / 4)
        return cut_short();
    *out = pc__calloc(r->mem, (size_t)count, sizeof **out);
    if (!*out)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        (*out)[i] = (int32_t)pc__get_u32(r->at + 4 * i);
    r->at += 4 * count;
    r->left -= 4 * (size_t)count;
    return PC_OK;
}

static pc_status get_relative(reader *r, pc__saved_run *run, uint64_t count)
{
    if (!count)
        return PC_OK;
    if (count != run->tokens || count > r->left / 8)
        return cut_short();
    run->relative = pc__calloc(r->mem, (size_t)count, sizeof *run->relative);
    if (!run->relative)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        PC__TRY_RETURN(get_number(r, UINT64_C(1) << 40, &value));
        run->relative[i] = (int64_t)value;
        if (i && run->relative[i] <= run->relative[i - 1])
            return pc__fail(PC_ERR_FORMAT, "the head of a saved sequence: positions do not ascend");
    }
    return PC_OK;
}

static pc_status get_bytes(reader *r, void *out, size_t size)
{
    if (size > r->left)
        return cut_short();
    if (size)
        memcpy(out, r->at, size);
    r->at += size;
    r->left -= size;
    return PC_OK;
}

static pc_status get_run(reader *r, const pc__saved_head *head, pc__saved_run *run)
{
    uint64_t flags, dtype, origin, tokens, relative;
    size_t keys;
    PC__TRY_RETURN(get_number(r, PC__RUN_FLAGS, &flags));
    PC__TRY_RETURN(get_number(r, UINT32_MAX, &dtype));
    PC__TRY_RETURN(get_u64(r, &run->regime));
    PC__TRY_RETURN(get_number(r, UINT64_C(1) << 60, &origin));
    PC__TRY_RETURN(get_number(r, UINT32_MAX, &tokens));
    PC__TRY_RETURN(get_number(r, tokens, &relative));
    if (!tokens)
        return cut_short();
    run->flags = (uint32_t)flags;
    run->dtype = (uint32_t)dtype;
    run->origin = (int64_t)origin;
    run->tokens = (size_t)tokens;
    PC__TRY_RETURN(get_bytes(r, run->visibility.bytes, sizeof run->visibility.bytes));
    PC__TRY_RETURN(get_ids(r, tokens, &run->ids));
    PC__TRY_RETURN(get_relative(r, run, relative));
    keys = pc__saved_keys(head, run);
    if (keys > r->left / sizeof *run->keys)
        return cut_short();
    run->keys = pc__calloc(r->mem, keys, sizeof *run->keys);
    return run->keys ? get_bytes(r, run->keys, keys * sizeof *run->keys) : PC_ERR_NOMEM;
}

static pc_status get_span(reader *r, const pc__saved_head *head, pc__saved_span *s)
{
    uint64_t run, lo, hi, bits, start;
    PC__TRY_RETURN(get_number(r, head->run_count ? head->run_count - 1 : 0, &run));
    if (!head->run_count)
        return cut_short();
    PC__TRY_RETURN(get_number(r, head->runs[run].tokens, &lo));
    PC__TRY_RETURN(get_number(r, head->runs[run].tokens, &hi));
    PC__TRY_RETURN(get_number(r, 3, &bits));
    PC__TRY_RETURN(get_number(r, UINT64_C(1) << 60, &start));
    if (lo >= hi || (bits & 1 && (lo || hi != head->runs[run].tokens)))
        return pc__fail(PC_ERR_FORMAT, "the head of a saved sequence: tokens %llu to %llu",
                        (unsigned long long)lo, (unsigned long long)hi);
    *s = (pc__saved_span){.run = (uint32_t)run,
                          .lo = (uint32_t)lo,
                          .hi = (uint32_t)hi,
                          .own = bits & 1,
                          .grows = (bits & 3) == 3,
                          .start = (int64_t)start};
    return PC_OK;
}

static pc_status check_numbers(const pc__saved_head *h)
{
    if (h->version != PC__SAVED_VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the head of a saved sequence has version %llu, this library reads %d",
                        (unsigned long long)h->version, PC__SAVED_VERSION);
    if (!h->chunk_pages || h->chunk_pages > 1 << 20 || h->pending > h->token_count
        || h->turn > h->token_count || h->next_position > UINT64_C(1) << 60
        || (h->own_last > UINT64_C(1) << 60 && h->own_last != UINT64_MAX)
        || (h->finish > PC_FINISH_CALLBACK && h->finish != PC_FINISH_GRAMMAR)
        || h->exactness < PC_EXACT || h->exactness > PC_APPROXIMATE
        || h->visibility > PC_VISIBLE_ALL || h->again > 1 || (h->again && !h->own_count)
        || h->token_count > UINT32_MAX)
        return pc__fail(PC_ERR_FORMAT, "the head of a saved sequence contradicts itself");
    return PC_OK;
}

pc_status pc__saved_head_read(pc__saved_head *head, const pc_allocator *mem, const void *data,
                              size_t size)
{
    enum { LEAST_RUN = 6 * 8, LEAST_SPAN = 5 * 8 }; /* bytes */
    reader r = {mem, data, size};
    uint64_t *numbers = &head->version;
    memset(head, 0, sizeof *head);
    for (size_t i = 0; i < NUMBERS; i++)
        PC__TRY_RETURN(get_u64(&r, &numbers[i]));
    PC__TRY_RETURN(check_numbers(head));
    PC__TRY_RETURN(get_ids(&r, head->token_count, &head->tokens));
    PC__TRY_RETURN(get_ids(&r, head->own_count, &head->own));
    PC__TRY_RETURN(get_ids(&r, head->history_count, &head->history));
    if (head->run_count > r.left / LEAST_RUN || head->span_count > r.left / LEAST_SPAN)
        return cut_short();
    head->runs = pc__calloc(mem, (size_t)head->run_count, sizeof *head->runs);
    head->spans = pc__calloc(mem, (size_t)head->span_count, sizeof *head->spans);
    if (!head->runs || !head->spans)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < head->run_count; i++)
        PC__TRY_RETURN(get_run(&r, head, &head->runs[i]));
    for (size_t i = 0; i < head->span_count; i++)
        PC__TRY_RETURN(get_span(&r, head, &head->spans[i]));
    return r.left ? pc__fail(PC_ERR_FORMAT, "the head of a saved sequence is too long") : PC_OK;
}

void pc__saved_head_free(pc__saved_head *head, const pc_allocator *mem)
{
    for (size_t i = 0; head->runs && i < head->run_count; i++) {
        pc__free(mem, head->runs[i].ids);
        pc__free(mem, head->runs[i].relative);
        pc__free(mem, head->runs[i].keys);
    }
    pc__free(mem, head->runs);
    pc__free(mem, head->spans);
    pc__free(mem, head->tokens);
    pc__free(mem, head->own);
    pc__free(mem, head->history);
    memset(head, 0, sizeof *head);
}

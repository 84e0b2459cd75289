/* Segments: computed into shelves of the context, as bytes, and back. */
#include <stdlib.h>
#include <string.h>

#include "host.h"

static segment *segment_make(size_t count)
{
    segment *s = calloc(1, sizeof *s);
    if (s && !(s->pos = malloc(count * sizeof *s->pos))) {
        free(s);
        return NULL;
    }
    if (s) {
        s->count = (uint32_t)count;
        s->at.shelf = -1;
    }
    return s;
}

void segment_release(void *user, void *x)
{
    segment *s = x;
    if (!s)
        return;
    moved_drop(user, s);
    shelf_give(user, &s->at);
    free(s->pos);
    free(s);
}

pc_status segment_size(void *user, void *x, uint64_t *bytes)
{
    *bytes = ((const segment *)x)->count * ((const host *)user)->form.token_bytes;
    return PC_OK;
}

/* ---------------------------------------------------------------- encode */

typedef struct encoding {
    harvest harvest; /* first */
    const pc_encode_args *args;
    void **segments;
    sequence *whole;
} encoding;

static pc_token_range range_at(const pc_encode_args *a, size_t i)
{
    return *(const pc_token_range *)((const char *)a->ranges + i * a->range_stride);
}

/* At this moment nothing else of the sequence stands at these positions. */
static void take_cells(host *h, harvest *self, size_t first, size_t end)
{
    encoding *e = (encoding *)self;
    for (size_t i = 0; i < e->args->range_count; i++) {
        pc_token_range range = range_at(e->args, i);
        size_t lo = range.first > first ? range.first : first,
               hi = range.first + range.count < end ? range.first + range.count : end;
        if (lo < hi)
            cells_share(h, e->whole->id, shelf_id(h, &((segment *)e->segments[i])->at),
                        (llama_pos)e->args->positions[lo],
                        (llama_pos)e->args->positions[hi - 1] + 1);
    }
}

static pc_status make_segments(host *h, encoding *e)
{
    const pc_encode_args *a = e->args;
    pc_status status = PC_OK;
    for (size_t i = 0; i < a->range_count && status >= 0; i++) {
        pc_token_range range = range_at(a, i);
        segment *s = segment_make(range.count);
        if (!s)
            return PC_ERR_NOMEM;
        e->segments[i] = s;
        for (size_t t = 0; t < range.count; t++)
            s->pos[t] = (llama_pos)a->positions[range.first + t];
        status = shelf_take(h, s->pos[0], s->pos[range.count - 1], &s->at);
    }
    return status;
}

static pc_status compute_whole(host *h, encoding *e)
{
    const pc_encode_args *a = e->args;
    pc_step_row *list = calloc(a->count ? a->count : 1, sizeof *list);
    rows r = {list, sizeof *list, a->count, NULL, NULL, &e->harvest};
    pc_status status = list ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < a->visible_count && status >= 0; i++)
        status = sequence_attach(
            h, e->whole, (const pc_span *)((const char *)a->visible + i * a->visible_stride));
    for (size_t i = 0; i < a->count && status >= 0; i++)
        list[i] = (pc_step_row){e->whole, a->positions[i], a->tokens[i], 0};
    if (status >= 0) {
        h->cancelled = a->cancelled;
        h->cancel_user = a->cancel_user;
        status = rows_compute(h, &r);
        h->cancelled = NULL;
    }
    free(list);
    return status;
}

pc_status segment_encode(void *user, const pc_encode_args *args, void **segments)
{
    encoding e = {{take_cells}, args, segments, NULL};
    pc_sequence_args how = {.struct_size = sizeof how, .adapter = args->adapter};
    void *whole;
    pc_status status = sequence_new(user, &how, &whole);
    if (status < 0)
        return status;
    e.whole = whole;
    for (size_t i = 0; i < args->range_count; i++)
        segments[i] = NULL;
    status = make_segments(user, &e);
    if (status >= 0)
        status = compute_whole(user, &e);
    for (size_t i = 0; status < 0 && i < args->range_count; i++) {
        segment_release(user, segments[i]);
        segments[i] = NULL;
    }
    sequence_drop(user, whole);
    return status;
}

/* ----------------------------------------------------------------- bytes */

/* u32 magic, u32 tokens, i32 positions; then runs: u32 tokens, u32 0, u64 size, state bytes. */
enum { MAGIC = 0x314c4350, HEAD = 8, RUN_HEAD = 16 };

/* The end of the run that begins at token i: one run, or a window each. */
static uint32_t run_end(const host *h, const segment *s, uint32_t i)
{
    uint32_t end = i + 1;
    if (!h->window)
        return s->count;
    while (end < s->count && s->pos[end] / h->window == s->pos[i] / h->window)
        end++;
    return end;
}

static pc_status take_run(host *h, const segment *s, uint32_t i, uint32_t end, size_t *size)
{
    pc_status status;
    llama_memory_seq_cp(h->cells, shelf_id(h, &s->at), h->source, s->pos[i], s->pos[end - 1] + 1);
    status = state_take(h, h->source, size);
    llama_memory_seq_rm(h->cells, h->source, -1, -1);
    return status;
}

pc_status segment_export(void *user, void *x, void *data, size_t capacity, size_t *size)
{
    host *h = user;
    const segment *s = x;
    uint8_t *out = data;
    uint32_t magic = MAGIC, end;
    size_t at = HEAD + s->count * sizeof *s->pos;
    pc_status intact = segment_intact(h, s);
    if (intact < 0)
        return intact;
    for (uint32_t i = 0; i < s->count; i = end) {
        uint32_t head[2] = {(end = run_end(h, s, i)) - i, 0};
        size_t bytes;
        uint64_t long_bytes;
        pc_status status = take_run(h, s, i, end, &bytes);
        if (status < 0)
            return status;
        long_bytes = bytes;
        if (data && at + RUN_HEAD + bytes <= capacity) {
            memcpy(out + at, head, sizeof head);
            memcpy(out + at + sizeof head, &long_bytes, sizeof long_bytes);
            memcpy(out + at + RUN_HEAD, h->bytes, bytes);
        }
        at += RUN_HEAD + bytes;
    }
    *size = at;
    if (!data)
        return PC_OK;
    if (at > capacity)
        return PC_ERR_LIMIT;
    memcpy(out, &magic, sizeof magic);
    memcpy(out + sizeof magic, &s->count, sizeof s->count);
    memcpy(out + HEAD, s->pos, s->count * sizeof *s->pos);
    return PC_OK;
}

static int ascends(const llama_pos *pos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pos[i] < 0 || (i && pos[i] <= pos[i - 1]))
            return 0;
    return 1;
}

/* Checks all of the bytes before any of them reaches llama.cpp. */
static pc_status check_bytes(host *h, const segment *s, const uint8_t *data, size_t size)
{
    size_t at = HEAD + s->count * sizeof *s->pos;
    llama_pos *pos = malloc(s->count * sizeof *pos);
    pc_status status = pos ? PC_OK : PC_ERR_NOMEM;
    for (uint32_t i = 0; i < s->count && status >= 0;) {
        uint32_t count = 0;
        uint64_t bytes = 0;
        if (size - at >= RUN_HEAD) {
            memcpy(&count, data + at, sizeof count);
            memcpy(&bytes, data + at + 8, sizeof bytes);
            at += RUN_HEAD;
        }
        if (!count || count != run_end(h, s, i) - i || bytes > size - at
            || state_read(h, data + at, bytes, count, NULL, pos) < 0
            || memcmp(pos, s->pos + i, count * sizeof *pos))
            status = PC_ERR_FORMAT;
        i += count;
        at += bytes;
    }
    free(pos);
    return status < 0 ? status : at == size ? PC_OK : PC_ERR_FORMAT;
}

static pc_status put_runs(host *h, segment *s, const uint8_t *data)
{
    size_t at = HEAD + s->count * sizeof *s->pos;
    pc_status status = shelf_take(h, s->pos[0], s->pos[s->count - 1], &s->at);
    for (uint32_t i = 0, end; i < s->count && status >= 0; i = end) {
        uint64_t bytes;
        end = run_end(h, s, i);
        memcpy(&bytes, data + at + 8, sizeof bytes);
        status = state_put(h, h->target, data + at + RUN_HEAD, bytes);
        if (status >= 0)
            cells_share(h, h->target, shelf_id(h, &s->at), -1, -1);
        llama_memory_seq_rm(h->cells, h->target, -1, -1);
        at += RUN_HEAD + bytes;
    }
    return status;
}

pc_status segment_import(void *user, const void *data, size_t size, const int32_t *tokens,
                         size_t count, void **out)
{
    uint32_t head[2] = {0, 0};
    segment *s;
    pc_status status;
    (void)tokens;
    *out = NULL;
    if (size >= HEAD)
        memcpy(head, data, sizeof head);
    if (!count || head[0] != MAGIC || head[1] != count || (size - HEAD) / sizeof *s->pos < count)
        return host_fail(PC_ERR_FORMAT, "these are no states of %zu tokens", count);
    if (!(s = segment_make(count)))
        return PC_ERR_NOMEM;
    memcpy(s->pos, (const uint8_t *)data + HEAD, count * sizeof *s->pos);
    status = ascends(s->pos, count) ? check_bytes(user, s, data, size) : PC_ERR_FORMAT;
    if (status == PC_ERR_FORMAT)
        host_fail(status, "states of another form than this context's");
    if (status >= 0)
        status = put_runs(user, s, data);
    if (status < 0)
        segment_release(user, s);
    else
        *out = s;
    return status;
}

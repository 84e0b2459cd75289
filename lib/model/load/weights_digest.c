/* The check of weights and their digest, in one pass over the data: BLAKE2b of pieces of fixed
 * size, in parallel; then of names, types, shapes and the pieces' digests, by name. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest_lanes.h"
#include "base/threads.h"
#include "model/load/dequant.h"

/* ------------------------------------------------------------------ the check */

/* Index of the first number that is not finite in fp32; count: none. */
static uint64_t find_f32(const uint8_t *data, uint64_t count)
{
    uint64_t i = 0;
    uint32_t bits, bad;
    while (i < count) {
        uint64_t end = count - i > 4096 ? i + 4096 : count, first = i;
        for (bad = 0; i < end; i++) {
            memcpy(&bits, data + i * 4, 4);
            bad |= (bits & 0x7f800000u) == 0x7f800000u;
        }
        for (i = bad ? first : end; i < end; i++) {
            memcpy(&bits, data + i * 4, 4);
            if ((bits & 0x7f800000u) == 0x7f800000u)
                return i;
        }
    }
    return count;
}

/* The same for 16-bit floats, `stride` bytes apart. */
static uint64_t find_16(const uint8_t *data, uint64_t count, size_t stride, unsigned exponent)
{
    for (uint64_t i = 0; i < count; i++)
        if ((pc__load_u16(data + i * stride) & exponent) == exponent)
            return i;
    return count;
}

/* The largest value of a 4-bit float, 6, times 2^125 is the last power that fits fp32; 255 is the
 * NaN of E8M0. */
static uint64_t find_mxfp4(const uint8_t *data, uint64_t count, size_t stride)
{
    for (uint64_t i = 0; i < count; i++)
        if (data[i * stride] > 252)
            return i;
    return count;
}

static uint64_t find_f64(const uint8_t *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, data + i * 8, 8);
        if (!(fabs(value) <= (double)FLT_MAX))
            return i;
    }
    return count;
}

/* A quantised value is finite if the scales of its block are: the largest, 65504 * 63 * 127, fits
 * fp32. */
pc_status pc__tensor_check(const pc__tensor *tensor, const char *path)
{
    const pc__ttype_info *info = &pc__ttypes[tensor->type];
    uint64_t count = tensor->bytes / info->block_bytes, at = count, found;
    if (tensor->type == PC__T_F32)
        at = find_f32(tensor->data, count);
    else if (tensor->type == PC__T_F16)
        at = find_16(tensor->data, count, 2, 0x7c00);
    else if (tensor->type == PC__T_BF16)
        at = find_16(tensor->data, count, 2, 0x7f80);
    else if (tensor->type == PC__T_F64)
        at = find_f64(tensor->data, count);
    else if (tensor->type == PC__T_MXFP4)
        at = find_mxfp4(tensor->data, count, info->block_bytes);
    else if (tensor->type == PC__T_MXFP4_APART)
        at = find_mxfp4(tensor->scales, count, 1);
    for (uint32_t s = 0; s < info->scales; s++) {
        found = find_16(tensor->data + info->scale_at[s], count, info->block_bytes, 0x7c00);
        at = found < at ? found : at;
    }
    if (at < count)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' (%s): %s element %llu is NaN or infinite",
                        path, tensor->name, info->name,
                        info->block > 1 ? "the scale of" : "the value of",
                        (unsigned long long)(at * info->block));
    return PC_OK;
}

/* ------------------------------------------------------------------ the digest */

pc_status pc__load_tell(const pc__load_progress *progress, const char *what, uint64_t done,
                        uint64_t total)
{
    pc__callback_begin();
    return progress && progress->call && progress->call(progress->user, what, done, total)
               ? pc__callback_cancelled("cancelled while %s", what)
               : PC_OK;
}

/* Part of the definition of the digest. */
static const uint64_t piece_bytes = UINT64_C(32) << 20;

static const char piece_domain[] = "weights-piece/1";

typedef struct piece {
    const pc__tensor *tensor;
    uint64_t first;
    int first_of_tensor; /* 1: also checks the tensor's numbers */
    pc_status status;
    pc__id id;
} piece;

typedef struct digest_work {
    const pc__weights *weights;
    piece *pieces;
    const char *path;
    piece **order; /* the large ones first */
    size_t count;
    atomic_size_t next;
    const pc__load_progress *progress;
    pthread_t caller;
    atomic_ullong done; /* bytes */
    uint64_t bytes;
    atomic_int cancelled; /* 1: the caller's progress says so; the threads leave the rest */
} digest_work;

/* One more piece is done. Progress is told on the caller's thread. */
static void tell_digested(digest_work *w, size_t size)
{
    uint64_t done = atomic_fetch_add(&w->done, size) + size;
    if (pthread_equal(w->caller, pthread_self()) && !atomic_load(&w->cancelled)
        && pc__load_tell(w->progress, "checking weights", done, w->bytes) < 0)
        atomic_store(&w->cancelled, 1);
}

static size_t pieces_of(const pc__tensor *tensor)
{
    return (size_t)(tensor->bytes / piece_bytes) + 1;
}

static size_t piece_size(const piece *p)
{
    uint64_t rest = p->tensor->bytes - p->first;
    return (size_t)(rest < piece_bytes ? rest : piece_bytes);
}

static void digest_piece(void *arg, size_t index)
{
    digest_work *w = arg;
    piece *p = &w->pieces[index];
    pc__digest digest;
    if (atomic_load(&w->cancelled))
        return;
    pc__digest_start(&digest, piece_domain);
    pc__digest_bytes(&digest, p->tensor->data + p->first, piece_size(p));
    if (p->first_of_tensor && p->tensor->scales)
        pc__digest_bytes(&digest, p->tensor->scales, (size_t)(p->tensor->bytes / 16));
    p->id = pc__digest_end(&digest);
    p->status = p->first_of_tensor ? pc__tensor_check(p->tensor, w->path) : PC_OK;
    if (piece_size(p) == piece_bytes)
        pc__weights_release(w->weights);
    tell_digested(w, piece_size(p));
}

static int larger_first(const void *a, const void *b)
{
    const piece *x = *(piece *const *)a, *y = *(piece *const *)b;
    size_t i = piece_size(x), j = piece_size(y);
    return i != j ? (i < j) - (i > j) : (x > y) - (x < y);
}

static int next_piece(void *user, pc__digest_item *item)
{
    digest_work *w = user;
    size_t i = atomic_fetch_add(&w->next, 1);
    if (i >= w->count || atomic_load(&w->cancelled))
        return 0;
    *item = (pc__digest_item){w->order[i]->tensor->data + w->order[i]->first,
                              piece_size(w->order[i]), w->order[i]};
    return 1;
}

static void end_piece(void *user, const pc__digest_item *item, const pc__id *id)
{
    digest_work *w = user;
    piece *p = item->user;
    p->id = *id;
    p->status = p->first_of_tensor ? pc__tensor_check(p->tensor, w->path) : PC_OK;
    tell_digested(w, item->size);
}

static void digest_in_lanes(void *arg, size_t thread)
{
    const pc__digest_source source = {piece_domain, arg, next_piece, end_piece};
    (void)thread;
    pc__digest_in_lanes(pc__lane_code_best(), &source);
}

/* A lane alone takes twice the time of a digest without lanes: they are worth it where there are
 * many pieces for each. Lanes digest one run of bytes each, so scales apart are left out. */
static int lanes_help(const digest_work *w, size_t threads)
{
    uint64_t bytes = 0, largest = piece_size(w->order[0]);
    for (size_t i = 0; i < w->count; i++) {
        if (w->order[i]->tensor->scales)
            return 0;
        bytes += piece_size(w->order[i]);
    }
    return pc__lane_code_best() && bytes >= 4 * threads * largest;
}

static pc_status digest_pieces(digest_work *w, const pc_context *context)
{
    if (!(w->order = pc__calloc(&context->mem, w->count, sizeof *w->order)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < w->count; i++)
        w->order[i] = &w->pieces[i];
    if (w->count)
        qsort(w->order, w->count, sizeof *w->order, larger_first);
    if (w->count && lanes_help(w, context->threads))
        pc__parallel(context, context->threads, digest_in_lanes, w);
    else
        pc__parallel(context, w->count, digest_piece, w);
    pc__free(&context->mem, w->order);
    pc__weights_release(w->weights);
    if (atomic_load(&w->cancelled)) /* with the text that the caller's thread has */
        return PC_ERR_CANCELLED;
    return pc__load_tell(w->progress, "checking weights", w->bytes, w->bytes);
}

static size_t cut_pieces(const pc__weights *weights, piece *pieces)
{
    size_t n = 0;
    for (size_t t = 0; t < pc__weights_count(weights); t++) {
        const pc__tensor *tensor = pc__weights_at(weights, t);
        for (size_t i = 0; i < pieces_of(tensor); i++, n++)
            if (pieces)
                pieces[n] = (piece){
                    .tensor = tensor, .first = i * piece_bytes, .first_of_tensor = i == 0};
    }
    return n;
}

static pc__id combine(const piece *pieces, size_t count, size_t tensors)
{
    pc__digest digest;
    pc__digest_start(&digest, "weights/1");
    pc__digest_u64(&digest, tensors);
    for (size_t i = 0; i < count; i++) {
        const pc__tensor *tensor = pieces[i].tensor;
        if (pieces[i].first_of_tensor) {
            pc__digest_text(&digest, tensor->name);
            pc__digest_text(&digest, pc__ttypes[tensor->type].name);
            pc__digest_u64(&digest, tensor->rank);
            for (uint32_t d = 0; d < tensor->rank; d++)
                pc__digest_u64(&digest, tensor->shape[d]);
        }
        pc__digest_bytes(&digest, pieces[i].id.bytes, sizeof pieces[i].id.bytes);
    }
    return pc__digest_end(&digest);
}

pc_status pc__weights_digest(const pc__weights *weights, pc_context *context,
                             const pc__load_progress *progress, pc__id *out)
{
    size_t count = cut_pieces(weights, NULL);
    digest_work w = {.weights = weights,
                     .pieces = pc__calloc(&context->mem, count, sizeof *w.pieces),
                     .path = pc__weights_path(weights),
                     .count = count,
                     .progress = progress,
                     .caller = pthread_self()};
    pc_status status;
    memset(out, 0, sizeof *out);
    if (!w.pieces)
        return PC_ERR_NOMEM;
    cut_pieces(weights, w.pieces);
    for (size_t i = 0; i < count; i++)
        w.bytes += piece_size(&w.pieces[i]);
    status = digest_pieces(&w, context);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (w.pieces[i].status < 0) /* again, for this thread's error text */
            status = pc__tensor_check(w.pieces[i].tensor, w.path);
    if (status >= 0)
        *out = combine(w.pieces, count, pc__weights_count(weights));
    pc__free(&context->mem, w.pieces);
    return status;
}

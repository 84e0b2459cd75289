/* The digest of weights: BLAKE2b of pieces of fixed size, in parallel; then of names, types, shapes
 * and the pieces' digests, by name. Checks all numbers in the same pass over the data. */
#include "base/threads.h"
#include "model/load/weights.h"

#include <string.h>

/* Part of the definition of the digest. */
static const uint64_t piece_bytes = UINT64_C(32) << 20;

typedef struct piece {
    const pc__tensor *tensor;
    uint64_t first;
    int first_of_tensor; /* 1: also checks the tensor's numbers */
    pc_status status;
    pc__id id;
} piece;

typedef struct digest_work {
    piece *pieces;
    const char *path;
} digest_work;

static size_t pieces_of(const pc__tensor *tensor)
{
    return (size_t)(tensor->bytes / piece_bytes) + 1;
}

static void digest_piece(void *arg, size_t index)
{
    const digest_work *w = arg;
    piece *p = &w->pieces[index];
    uint64_t rest = p->tensor->bytes - p->first;
    pc__digest digest;
    pc__digest_start(&digest, "weights-piece/1");
    pc__digest_bytes(&digest, p->tensor->data + p->first,
                     (size_t)(rest < piece_bytes ? rest : piece_bytes));
    p->id = pc__digest_end(&digest);
    p->status = p->first_of_tensor ? pc__tensor_check(p->tensor, w->path) : PC_OK;
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
            pc__digest_text(&digest, pc__ttype_name(tensor->type));
            pc__digest_u64(&digest, tensor->rank);
            for (uint32_t d = 0; d < tensor->rank; d++)
                pc__digest_u64(&digest, tensor->shape[d]);
        }
        pc__digest_bytes(&digest, pieces[i].id.bytes, sizeof pieces[i].id.bytes);
    }
    return pc__digest_end(&digest);
}

pc_status pc__weights_digest(const pc__weights *weights, pc_context *context, pc__id *out)
{
    size_t count = cut_pieces(weights, NULL);
    digest_work w = {pc__calloc(&context->mem, count, sizeof *w.pieces), pc__weights_path(weights)};
    pc_status status = PC_OK;
    memset(out, 0, sizeof *out);
    if (!w.pieces)
        return PC_ERR_NOMEM;
    cut_pieces(weights, w.pieces);
    pc__parallel(context, count, digest_piece, &w);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (w.pieces[i].status < 0) /* again, for this thread's error text */
            status = pc__tensor_check(w.pieces[i].tensor, w.path);
    if (status >= 0)
        *out = combine(w.pieces, count, pc__weights_count(weights));
    pc__free(&context->mem, w.pieces);
    return status;
}

/* Angles are found by value, because a RoPE object may be gone while its angles are kept. */
#include "cuda/backend_cuda_angles.h"

#include "base/mem.h"
#include "base/threads.h"

enum { ROWS_AT_ONCE = 16 };

typedef struct computing {
    const pc__rotation *rope;
    const int64_t *positions;
    size_t rows, half;
    float *cosine, *sine; /* [rows][half] each, one behind the other */
} computing;

static void compute_rows(void *arg, size_t index)
{
    const computing *c = arg;
    for (size_t r = index * ROWS_AT_ONCE; r < (index + 1) * ROWS_AT_ONCE && r < c->rows; r++)
        pc__rope_angles(c->rope, c->positions[r], c->cosine + r * c->half, c->sine + r * c->half);
}

static const float *compute(pc__cuda_stream *stream, pc_context *context, const pc__cuda_key *key,
                            computing *c)
{
    size_t count = 2 * c->rows * c->half;
    const float *device;
    if (!(c->cosine = pc__calloc(&context->mem, count, sizeof(float)))) {
        pc__cuda_note(stream, PC_ERR_NOMEM);
        return NULL;
    }
    c->sine = c->cosine + count / 2;
    pc__parallel(context, (c->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, compute_rows, c);
    device = pc__cuda_kept_add(stream, key, c->cosine, count * sizeof(float));
    pc__free(&context->mem, c->cosine);
    return device;
}

pc__cuda_angles pc__cuda_angles_of(pc__cuda_stream *stream, pc_context *context,
                                   const pc__rotation *rope, const int64_t *positions, size_t rows)
{
    struct {
        int32_t dims, interleaved;
        float factor;
    } values = {rope->dims, rope->interleaved, rope->factor};
    computing c = {
        .rope = rope, .positions = positions, .rows = rows, .half = (size_t)rope->dims / 2};
    pc__cuda_key key = {PC__CUDA_KEY_ANGLES,
                        {{&values, sizeof values},
                         {rope->frequency, c.half * sizeof *rope->frequency},
                         {positions, rows * sizeof *positions}}};
    const float *device = pc__cuda_kept_find(stream, &key);
    if (!device && rows && c.half && stream->status == PC_OK)
        device = compute(stream, context, &key, &c);
    return (pc__cuda_angles){device, device ? device + rows * c.half : NULL, (uint32_t)rope->dims,
                             (uint32_t)rope->interleaved};
}

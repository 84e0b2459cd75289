/* Angles are compared by value, because a RoPE object may be gone while its angles are kept. */
#include "cuda/backend_cuda_angles.h"

#include <string.h>

#include "base/mem.h"
#include "base/threads.h"

enum { ROWS_AT_ONCE = 16, MOST_TABLES = 32 };

struct pc__cuda_angle_table {
    struct pc__cuda_angle_table *next;
    pc__rotation rope; /* its frequencies lie in `values` */
    size_t rows, half;
    float *device;      /* cosines, then sines, [rows][half] each; scratch of the stream */
    int64_t *positions; /* [rows], behind the frequencies */
    double frequency[]; /* [half] */
};
typedef struct pc__cuda_angle_table angle_table;

static void free_table(pc__cuda_backend_stream *stream, angle_table *table)
{
    pc__cuda_scratch_give(stream->cuda, table->device);
    pc__free(&stream->cuda->device->mem, table);
}

void pc__cuda_angles_drop(pc__cuda_backend_stream *stream)
{
    for (angle_table *table; (table = stream->angles);) {
        stream->angles = table->next;
        free_table(stream, table);
    }
    stream->angle_count = 0;
}

static int is_of(const angle_table *table, const pc__rotation *rope, const int64_t *positions,
                 size_t rows)
{
    return table->rows == rows && table->rope.dims == rope->dims
           && table->rope.interleaved == rope->interleaved
           && !memcmp(&table->rope.factor, &rope->factor, sizeof rope->factor)
           && !memcmp(table->positions, positions, rows * sizeof *positions)
           && !memcmp(table->frequency, rope->frequency, table->half * sizeof *table->frequency);
}

/* ------------------------------------------------------------------- making */

typedef struct computing {
    const angle_table *table;
    float *cosine, *sine;
} computing;

static void compute_rows(void *arg, size_t index)
{
    const computing *c = arg;
    const angle_table *t = c->table;
    for (size_t r = index * ROWS_AT_ONCE; r < (index + 1) * ROWS_AT_ONCE && r < t->rows; r++)
        pc__rope_angles(&t->rope, t->positions[r], c->cosine + r * t->half, c->sine + r * t->half);
}

/* The angles of a table that has all but these. */
static pc_status compute(pc__stream *stream, angle_table *table)
{
    pc__cuda_stream *cuda = pc__cuda_stream_of(stream);
    size_t count = table->rows * table->half;
    computing c = {table, pc__calloc(&cuda->device->mem, 2 * count, sizeof(float)), NULL};
    void *device;
    if (!c.cosine)
        return PC_ERR_NOMEM;
    c.sine = c.cosine + count;
    pc_status status = pc__cuda_scratch_take(cuda, 2 * count * sizeof(float), &device);
    if (status == PC_OK) {
        table->device = device;
        pc__parallel(stream->context, (table->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, compute_rows,
                     &c);
        pc__cuda_upload(cuda, device, c.cosine, 2 * count * sizeof(float));
    }
    pc__free(&cuda->device->mem, c.cosine);
    return status;
}

static pc_status make(angle_table **out, pc__stream *stream, const pc__rotation *rope,
                      const int64_t *positions, size_t rows)
{
    size_t half = (size_t)rope->dims / 2, frequencies = half * sizeof(double);
    angle_table *table = *out = pc__calloc(&pc__cuda_stream_of(stream)->device->mem, 1,
                                           sizeof *table + frequencies + rows * sizeof *positions);
    if (!table)
        return PC_ERR_NOMEM;
    table->rope = *rope;
    table->rope.frequency = table->frequency;
    table->rows = rows;
    table->half = half;
    table->positions = (int64_t *)(void *)(table->frequency + half);
    memcpy(table->frequency, rope->frequency, frequencies);
    memcpy(table->positions, positions, rows * sizeof *positions);
    pc_status status = compute(stream, table);
    if (status < 0)
        free_table((pc__cuda_backend_stream *)stream, table);
    return status;
}

static pc_status find_or_make(angle_table **out, pc__stream *stream, const pc__rotation *rope,
                              const int64_t *positions, size_t rows)
{
    pc__cuda_backend_stream *own = (pc__cuda_backend_stream *)stream;
    for (*out = own->angles; *out && !is_of(*out, rope, positions, rows);)
        *out = (*out)->next;
    if (*out)
        return PC_OK;
    if (own->angle_count == MOST_TABLES)
        pc__cuda_angles_drop(own);
    PC__TRY_RETURN(make(out, stream, rope, positions, rows));
    (*out)->next = own->angles;
    own->angles = *out;
    own->angle_count++;
    return PC_OK;
}

pc_status pc__cuda_angles_of(pc__cuda_angles *out, pc__stream *stream, const pc__rotation *rope,
                             const int64_t *positions, size_t rows)
{
    angle_table *table;
    PC__TRY_RETURN(find_or_make(&table, stream, rope, positions, rows));
    *out = (pc__cuda_angles){table->device, table->device + rows * table->half,
                             (uint32_t)rope->dims, (uint32_t)rope->interleaved};
    return PC_OK;
}

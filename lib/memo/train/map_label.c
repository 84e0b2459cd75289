/* Distances between attention maps, row by row, or a whole head at once where both have one length.
 */
#include "memo/train/map_label.h"

#include <math.h>

#include "memo/train/vector_ops.h"

/* Scales behind the weights of a map: more bytes than a loop may read too far. */
enum { SCALES_BEHIND = 4 };

static const size_t value_bytes[] = {[PC_MAP_F32] = 4, [PC_MAP_F16] = 2, [PC_MAP_U8] = 1};

/* First weight of a row, counted from the start of its map. */
static size_t row_start(const pc__map_shape *s, size_t head, size_t row)
{
    if (s->causal)
        return head * (s->tokens * (s->tokens + 1) / 2) + row * (row + 1) / 2;
    return (head * s->tokens + row) * s->tokens;
}

static size_t row_keys(const pc__map_shape *s, size_t row)
{
    if (row >= s->tokens)
        return 0;
    return s->causal ? row + 1 : s->tokens;
}

typedef struct map_row {
    const void *weights;
    const float *scales; /* U8: from this row on */
    size_t keys;
} map_row;

static map_row map_row_of(const pc__map_shape *s, const void *map, size_t head, size_t row)
{
    map_row r = {map, NULL, row_keys(s, row)};
    if (!r.keys)
        return r;
    r.weights = (const uint8_t *)map + row_start(s, head, row) * value_bytes[s->format];
    if (s->format == PC_MAP_U8) {
        size_t all = row_start(s, (size_t)s->heads, 0);
        const float *scales = (const void *)((const uint8_t *)map + (all + 3) / 4 * 4);
        r.scales = scales + head * s->tokens + row;
    }
    return r;
}

/* Distance of `keys` weights that both rows have. */
static double row_distance(const pc__vector_ops *loops, uint32_t format, const map_row *a,
                           const map_row *b, size_t keys, int squared)
{
    if (format == PC_MAP_F16)
        return loops->distance_f16(a->weights, b->weights, keys, squared);
    if (format == PC_MAP_U8)
        return loops->distance_u8(a->weights, *a->scales, b->weights, *b->scales, keys, squared);
    return loops->distance_f32(a->weights, b->weights, keys, squared);
}

/* Weights [from, keys) of one row, against zeros. */
static double unmatched_distance(const pc__vector_ops *loops, uint32_t format, const map_row *row,
                                 size_t from, int squared)
{
    enum { ZEROS = 256 };
    static const float zeros[ZEROS];
    map_row none = {zeros, zeros, ZEROS}, rest = *row;
    double sum = 0;
    for (size_t now; from < row->keys; from += now) {
        now = row->keys - from < ZEROS ? row->keys - from : ZEROS;
        rest.weights = (const uint8_t *)row->weights + from * value_bytes[format];
        sum += row_distance(loops, format, &rest, &none, now, squared);
    }
    return sum;
}

static double head_distance(const pc__label_rule *rule, const pc__map_shape *a_shape, const void *a,
                            const pc__map_shape *b_shape, const void *b, size_t head)
{
    const pc__vector_ops *loops = pc__vector_ops_get();
    size_t rows = a_shape->tokens > b_shape->tokens ? a_shape->tokens : b_shape->tokens,
           step = rule->row_step ? rule->row_step : 1;
    int squared = rule->measure == PC__MAP_EUCLIDEAN;
    double sum = 0;
    if (a_shape->tokens == b_shape->tokens
        && step == 1) { /* the usual case: a whole head at once */
        map_row x = map_row_of(a_shape, a, head, 0), y = map_row_of(b_shape, b, head, 0);
        if (a_shape->format == PC_MAP_U8 && (size_t)a_shape->heads * rows >= SCALES_BEHIND)
            return loops->distance_u8_rows(x.weights, x.scales, y.weights, y.scales, rows,
                                           a_shape->causal ? 1 : rows, a_shape->causal ? 1 : 0,
                                           squared);
        if (a_shape->format != PC_MAP_U8)
            return row_distance(loops, a_shape->format, &x, &y, row_start(a_shape, 1, 0), squared);
    }
    for (size_t row = 0; row < rows; row += step) {
        map_row x = map_row_of(a_shape, a, head, row), y = map_row_of(b_shape, b, head, row);
        size_t both = x.keys < y.keys ? x.keys : y.keys;
        if (both)
            sum += row_distance(loops, a_shape->format, &x, &y, both, squared);
        sum += unmatched_distance(loops, a_shape->format, &x, both, squared)
               + unmatched_distance(loops, a_shape->format, &y, both, squared);
    }
    return sum;
}

double pc__map_distance(const pc__label_rule *rule, const pc__map_shape *a_shape, const void *a,
                        const pc__map_shape *b_shape, const void *b)
{
    size_t rows = a_shape->tokens > b_shape->tokens ? a_shape->tokens : b_shape->tokens,
           step = rule->row_step ? rule->row_step : 1;
    double sum = 0, heads = (double)a_shape->heads, seen = (double)((rows + step - 1) / step);
    for (size_t h = 0; h < (size_t)a_shape->heads; h++) {
        double head = head_distance(rule, a_shape, a, b_shape, b, h);
        sum += rule->measure == PC__MAP_EUCLIDEAN ? sqrt(head / seen) : head / seen;
    }
    return rows && heads > 0 ? 0.5 * sum / heads : 0;
}

float pc__map_label(const pc__label_rule *rule, size_t layers, const pc__map_shape *a_shape,
                    const void *const *a, const pc__map_shape *b_shape, const void *const *b)
{
    size_t longer = a_shape->tokens > b_shape->tokens ? a_shape->tokens : b_shape->tokens;
    size_t shorter = a_shape->tokens + b_shape->tokens - longer;
    double maps = 0;
    for (size_t l = 0; l < layers; l++)
        maps += pc__map_distance(rule, a_shape, a[l], b_shape, b[l]);
    double far = longer ? (double)(longer - shorter) / (double)longer : 0;
    return (float)((layers ? (double)rule->alpha * maps / (double)layers : 0)
                   + (double)rule->length * far);
}

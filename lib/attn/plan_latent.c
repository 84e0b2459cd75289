/* V blocks of latent pages. The values of token t are channels of K that lie a row of K apart; in V
 * they are neighbours. Blocks of 16 tokens keep the reads and writes of a pass over the channels on
 * few cache lines. */
#include "attn/plan_latent.h"

#include <string.h>

#include "attn/kv_page.h"

enum { BLOCK = 16 };

typedef float four __attribute__((vector_size(16)));
typedef uint16_t eight __attribute__((vector_size(16)));

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t pc__latent_scratch(const pc__kv_shape *shape)
{
    return round_up(pc__page_floats(shape) * sizeof(float));
}

/* Channels [d, d + 4) of tokens [t, t + 4). */
static void turn_4x4(const float *k, float *v, size_t v_dim)
{
    four a, b, c, d;
    memcpy(&a, k, sizeof a);
    memcpy(&b, k + PC__PAGE, sizeof b);
    memcpy(&c, k + 2 * PC__PAGE, sizeof c);
    memcpy(&d, k + 3 * PC__PAGE, sizeof d);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
         cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
         ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7),
         cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    four row[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                   __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                   __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5),
                   __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
    for (size_t t = 0; t < 4; t++)
        memcpy(v + t * v_dim, &row[t], sizeof row[t]);
}

static void turn_f32(const float *k, size_t v_dim, float *v)
{
    for (size_t first = 0; first < PC__PAGE; first += BLOCK) {
        size_t d = 0;
        for (; d + 4 <= v_dim; d += 4)
            for (size_t t = first; t < first + BLOCK; t += 4)
                turn_4x4(k + d * PC__PAGE + t, v + t * v_dim + d, v_dim);
        for (; d < v_dim; d++)
            for (size_t t = first; t < first + BLOCK; t++)
                v[t * v_dim + d] = k[d * PC__PAGE + t];
    }
}

/* Channels d and d + 1 (d even) of tokens [t, t + 4): pairs of channels become pairs of tokens. */
static void turn_pairs(const uint16_t *k, uint16_t *v, size_t v_dim)
{
    eight x;
    memcpy(&x, k, sizeof x);
    x = __builtin_shufflevector(x, x, 0, 2, 1, 3, 4, 6, 5, 7);
    memcpy(v, &x, 8);
    memcpy(v + 2 * v_dim, (const uint8_t *)&x + 8, 8);
}

/* Value d of a token is channel first + d of its K. */
static void turn_16(const uint16_t *k, size_t first_channel, size_t v_dim, uint16_t *v)
{
    size_t whole = first_channel % 2 ? 0 : v_dim / 2 * 2;
    const uint16_t *from = k + first_channel * PC__PAGE;
    for (size_t first = 0; first < PC__PAGE; first += BLOCK) {
        for (size_t d = 0; d < whole; d += 2)
            for (size_t t = first; t < first + BLOCK; t += 4)
                turn_pairs(from + d * PC__PAGE + 2 * t, v + t * v_dim + 2 * d, v_dim);
        for (size_t d = whole; d < v_dim; d++)
            for (size_t t = first; t < first + BLOCK; t++) {
                size_t c = first_channel + d;
                v[(t / 2 * v_dim + d) * 2 + t % 2] = k[(c / 2 * PC__PAGE + t) * 2 + c % 2];
            }
    }
}

void pc__latent_values(const pc__kv_shape *shape, const uint8_t *page, uint8_t *values)
{
    size_t v_dim = (size_t)shape->v_dim, first = (size_t)shape->k_dim - v_dim;
    if (shape->dtype == PC_DTYPE_F32)
        turn_f32((const float *)(const void *)page + first * PC__PAGE, v_dim,
                 (float *)(void *)values);
    else
        turn_16((const uint16_t *)(const void *)page, first, v_dim, (uint16_t *)(void *)values);
}

pc__attend_fn pc__latent_kernel(const pc__kernels *kernels, uint32_t dtype)
{
    return pc__attend_of(kernels, dtype == PC_DTYPE_I8 ? PC_DTYPE_F32 : dtype);
}

/* An I8 page as an fp32 one, K and V. */
static void open_page(const pc__kv_shape *shape, const uint8_t *page, uint8_t *scratch,
                      pc__attn_task *task)
{
    float *k = (float *)(void *)scratch, *v = k + PC__PAGE * (size_t)shape->k_dim;
    pc__page_read(shape, page, k, v);
    task->pages = scratch;
    task->page_stride = 0;
    task->values = (const uint8_t *)v;
}

void pc__latent_attend(const pc__kv_shape *shape, pc__attend_fn attend, const pc__attn_task *task,
                       size_t from, size_t to, uint8_t *scratch)
{
    size_t pages = to - from;
    for (size_t i = 0; i < pages; i++) {
        const uint8_t *page = task->pages + (from + i) * task->page_stride;
        size_t first = i * task->prefetch_count / pages,
               end = (i + 1) * task->prefetch_count / pages;
        pc__attn_task one = *task;
        one.prefetch_pages = task->prefetch_pages ? task->prefetch_pages + first : NULL;
        one.prefetch_count = end - first;
        one.goes_on = task->goes_on || i + 1 < pages;
        one.values = scratch;
        if (shape->dtype == PC_DTYPE_I8)
            open_page(shape, page, scratch, &one);
        else
            pc__latent_values(shape, page, scratch);
        attend(&one, from + i, from + i + 1);
    }
}

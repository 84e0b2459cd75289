/* Zeros the bytes of a page that belong to no token, or checks that they are zero. */
#include <string.h>

#include "attn/kv_tail.h"

/* Zeros the bytes, or (look) returns whether they are zero. */
static int zero(uint8_t *at, size_t size, int look)
{
    size_t i = 0;
    if (!look) {
        memset(at, 0, size);
        return 1;
    }
    while (i < size && !at[i])
        i++;
    return i == size;
}

/* Tokens [from, to) of V of one head: groups of `by` tokens are interleaved, element by element. */
static int zero_v(uint8_t *v, size_t dim, size_t from, size_t to, size_t by, int look)
{
    size_t size = 4 / by;
    int clear = 1;
    while (from < to && clear) {
        size_t place = from % by;
        uint8_t *group = v + from / by * dim * 4;
        if (!place && to - from >= by) {
            size_t groups = (to - from) / by;
            clear = zero(group, groups * dim * 4, look);
            from += groups * by;
            continue;
        }
        for (size_t d = 0; d < dim && clear; d++)
            clear = zero(group + (d * by + place) * size, size, look);
        from++;
    }
    return clear;
}

/* Tokens [from, to) of one page of one head. In every format a token has 4 bytes in each row of K.
 */
static int zero_page(const pc__kv_shape *shape, uint8_t *page, size_t from, size_t to, int look)
{
    size_t by = shape->dtype == PC_DTYPE_F32 ? 1 : shape->dtype == PC_DTYPE_I8 ? 4 : 2;
    size_t rows = ((size_t)shape->k_dim + by - 1) / by, dim = (size_t)shape->v_dim;
    uint8_t *v = page + pc__kv_k_bytes(shape);
    int clear = 1;
    for (size_t r = 0; r < rows && clear; r++)
        clear = zero(page + (r * PC__PAGE + from) * 4, (to - from) * 4, look);
    if (clear)
        clear = zero_v(v, dim, from, to, by, look);
    if (clear && shape->dtype == PC_DTYPE_I8)
        clear = zero(v + pc__i8_v_scales(dim) + 2 * from, 2 * (to - from), look);
    return clear;
}

static int zero_layer(const pc__kv *kv, size_t layer, size_t from, size_t to, int look)
{
    size_t bytes = pc__kv_page_bytes(&kv->shape), heads = (size_t)kv->shape.kv_heads;
    int clear = 1;
    for (size_t at = from, end; at < to && clear; at = end) {
        size_t page = at / PC__PAGE, first = page * PC__PAGE;
        end = to < first + PC__PAGE ? to : first + PC__PAGE;
        for (size_t h = 0; h < heads && clear; h++)
            clear = zero_page(&kv->shape, kv->layer[layer] + (page * heads + h) * bytes, at - first,
                              end - first, look);
    }
    return clear;
}

static size_t page_end(size_t tokens)
{
    return (tokens + PC__PAGE - 1) / PC__PAGE * PC__PAGE;
}

void pc__kv_clear_tokens(pc__kv *kv, size_t from, size_t to)
{
    for (size_t l = 0; l < (size_t)kv->shape.layers; l++)
        zero_layer(kv, l, from, to, 0);
}

/* Borrowed pages are checked first: writing to a mapped file's page makes a private copy of it. */
void pc__kv_clear_tail(pc__kv *kv, size_t layer)
{
    size_t end = page_end(kv->tokens);
    if (!kv->release_owner || !zero_layer(kv, layer, kv->tokens, end, 1))
        zero_layer(kv, layer, kv->tokens, end, 0);
}

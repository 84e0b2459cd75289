/* Makes and fills the pool of bench attend: the same numbers as in the packed pages. */
#include "attend_pool.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "machine.h"
#include "program.h"

/* Every run begins with the first token of a packed page. */
static size_t pages_of(const attend_pool *pool, size_t tokens)
{
    tokens = (tokens + PC_PAGE_TOKENS - 1) / PC_PAGE_TOKENS * PC_PAGE_TOKENS;
    return (tokens + pool->shape.page_tokens - 1) / pool->shape.page_tokens;
}

static size_t element_bytes(const attend_pool *pool)
{
    return pool->shape.dtype == PC_DTYPE_F32 ? 4 : 2;
}

/* The runs repeat what PC_PAGE_TOKENS tokens hold. So may the pool: page i begins with the token
 * i * page_tokens of them. */
static int fill_layer(const attend_pool *pool, const pc_attend_shape *shape, const void *page,
                      unsigned char *k)
{
    size_t tokens = pool->shape.page_tokens, element = element_bytes(pool),
           bytes = tokens * (size_t)shape->kv_heads * (size_t)shape->k_dim * element;
    pc_pages_args args = PC_PAGES_ARGS_INIT;
    args.shape = shape;
    args.pages = (void *)(uintptr_t)page; /* only read */
    args.dtype = pool->shape.dtype;
    args.layout = pool->shape.layout;
    for (size_t i = 0; i < pool->shape.page_count; i++)
        for (size_t t = 0; t < tokens; t += args.count) {
            size_t step = pool->shape.layout == PC_KV_HND ? (size_t)shape->k_dim
                                                          : bytes / element / tokens;
            args.first = (i * tokens + t) % PC_PAGE_TOKENS;
            args.count = tokens < PC_PAGE_TOKENS ? tokens : PC_PAGE_TOKENS;
            args.k = k + i * bytes + t * step * element;
            args.v = k + pool->part_bytes + i * bytes + t * step * element;
            args.k_head_stride = args.v_head_stride = pool->shape.layout == PC_KV_HND
                                                          ? tokens * (size_t)shape->k_dim
                                                          : 0;
            if (pc_pages_read(&args) < 0)
                return input_error("pool", NULL);
        }
    return EXIT_OK;
}

/* Shuffles the pages, in groups of those that hold the tokens of a packed page. */
static void scatter(attend_pool *pool)
{
    size_t tokens = pool->shape.page_tokens,
           size = tokens < PC_PAGE_TOKENS ? PC_PAGE_TOKENS / tokens : 1,
           groups = pool->shape.page_count / size;
    uint64_t random = 1;
    for (size_t i = 0; i < pool->shape.page_count; i++)
        pool->table[i] = (int32_t)i;
    for (size_t i = groups; i > 1; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t other = (size_t)(random >> 33) % i;
        for (size_t p = 0; p < size; p++) {
            int32_t *a = &pool->table[(i - 1) * size + p], *b = &pool->table[other * size + p],
                    c = *a;
            *a = *b;
            *b = c;
        }
    }
}

int attend_pool_open(attend_pool *pool, const pc_attend_shape *shape, const void *page,
                     const pc_run *runs, size_t run_count, size_t layers)
{
    size_t pages = 0;
    int code = EXIT_OK;
    for (size_t i = 0; i < run_count; i++)
        pages += pages_of(pool, runs[i].tokens);
    pool->shape.page_count = pages;
    pool->layers = layers;
    pool->part_bytes = pages * pool->shape.page_tokens * (size_t)shape->kv_heads
                       * (size_t)shape->k_dim * element_bytes(pool);
    pool->memory = machine_memory(2 * layers * pool->part_bytes);
    pool->table = calloc(pages + 1, sizeof *pool->table);
    if (!pool->memory || !pool->table)
        return plain_error("no memory for a pool of %zu pages", pages);
    scatter(pool);
    code = fill_layer(pool, shape, page, pool->memory);
    for (size_t l = 1; l < layers; l++)
        memcpy(pool->memory + 2 * l * pool->part_bytes, pool->memory, 2 * pool->part_bytes);
    return code;
}

void attend_pool_place(const attend_pool *pool, pc_run *runs, size_t run_count)
{
    size_t at = 0;
    for (size_t i = 0; i < run_count; i++) {
        runs[i].pages = pool->table + at;
        at += pages_of(pool, runs[i].tokens);
    }
}

void attend_pool_set(const attend_pool *pool, size_t layer, pc_attend_args *args)
{
    args->pool_k = pool->memory + 2 * layer * pool->part_bytes;
    args->pool_v = (const unsigned char *)args->pool_k + pool->part_bytes;
}

void attend_pool_close(attend_pool *pool)
{
    free(pool->memory), free(pool->table);
    pool->memory = NULL, pool->table = NULL;
}

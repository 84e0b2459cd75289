/* Expansion of latents on the CPU: their pages to fp32, and pages of heads from what was projected
 * of them. */
#include <string.h>

#include "attn/cpu/backend_cpu.h"
#include "attn/kv_page.h"
#include "base/threads.h"

/* Tokens that are turned at once, so that their rows stay on a few cache lines. */
enum { BLOCK = 16 };

typedef struct head_pages {
    const pc__latent_pages *pages;
    size_t heads, rotated, plain, v_dim;
    atomic_size_t next;
} head_pages;

static void open_page(void *arg, size_t page)
{
    const pc__latent_pages *p = arg;
    const pc__kv_shape *shape = &p->from->shape;
    pc__page_read(shape, p->from->layer[p->layer] + (p->first + page) * pc__kv_page_bytes(shape),
                  pc__cpu_floats(p->opened) + page * PC__PAGE * (size_t)shape->k_dim,
                  pc__cpu_floats(p->latents) + page * PC__PAGE * (size_t)shape->v_dim);
}

void pc__cpu_open_latents(pc__stream *stream, const pc__latent_pages *pages)
{
    pc__parallel(stream->context, pages->pages, open_page, (void *)(uintptr_t)pages);
}

/* to [plain][PC__PAGE] of from [PC__PAGE][plain] */
static void turn(const float *from, size_t plain, float *to)
{
    for (size_t first = 0; first < PC__PAGE; first += BLOCK)
        for (size_t d = 0; d < plain; d++)
            for (size_t t = first; t < first + BLOCK; t++)
                to[d * PC__PAGE + t] = from[t * plain + d];
}

static void fill_page(const head_pages *f, size_t page, size_t head, float *k)
{
    const pc__latent_pages *p = f->pages;
    size_t at = (head * p->pages + page) * PC__PAGE, number = p->first + page,
           left = p->to->tokens - number * PC__PAGE;
    memcpy(k, pc__cpu_floats(p->opened) + page * PC__PAGE * (size_t)p->from->shape.k_dim,
           f->rotated * PC__PAGE * sizeof *k);
    turn(pc__cpu_values(p->plain) + at * f->plain, f->plain, k + f->rotated * PC__PAGE);
    pc__page_write(&p->to->shape,
                   p->to->layer[0] + (number * f->heads + head) * pc__kv_page_bytes(&p->to->shape),
                   left < PC__PAGE ? left : PC__PAGE, k, pc__cpu_values(p->values) + at * f->v_dim);
}

static void fill_pages(void *arg, size_t thread)
{
    head_pages *f = arg;
    float *k = pc__cpu_floats(f->pages->scratch) + thread * PC__PAGE * (f->rotated + f->plain);
    size_t i;
    while ((i = atomic_fetch_add_explicit(&f->next, 1, memory_order_relaxed))
           < f->pages->pages * f->heads)
        fill_page(f, i / f->heads, i % f->heads, k);
}

void pc__cpu_fill_heads(pc__stream *stream, const pc__latent_pages *pages)
{
    const pc__kv_shape *from = &pages->from->shape, *to = &pages->to->shape;
    head_pages f = {.pages = pages,
                    .heads = (size_t)to->kv_heads,
                    .rotated = (size_t)(from->k_dim - from->v_dim),
                    .plain = (size_t)(to->k_dim - (from->k_dim - from->v_dim)),
                    .v_dim = (size_t)to->v_dim};
    atomic_init(&f.next, 0);
    pc__parallel(stream->context, stream->context->threads, fill_pages, &f);
}

/* The images of test/golden/records, by formula: the contents that those files must always give.
 * Values are small whole numbers times a power of two, with the smallest and the largest of every
 * channel and token among them, so that lossy codecs too must give back every bit. */
#ifndef PC_GOLDEN_RECORDS_H
#define PC_GOLDEN_RECORDS_H

#include <promptcache/cache.h>
#include "records.h"

enum {
    GOLDEN_LAYERS = 2,
    GOLDEN_HEADS = 2,
    GOLDEN_K = 8,
    GOLDEN_V = 8,
    GOLDEN_PAGE = 64,
    GOLDEN_MOST = 96
};

typedef struct golden_case {
    const char *name; /* of the file */
    uint32_t codec, layout, dtype;
    uint32_t sealed; /* the major version of a sealed record; 0: not sealed */
    uint32_t relative, lossy;
    size_t tokens;
    int least, most;     /* whole numbers that the codec's scales represent exactly */
    const char *kernels; /* NULL: written in version 1.0, which did not name them */
} golden_case;

static const golden_case golden_cases[] = {
    {"raw-bf16", PC_CODEC_RAW, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 0, 0, 0, 70, -100, 100, NULL},
    {"raw-f32-relative", PC_CODEC_RAW, PC_LAYOUT_PAGES, PC_DTYPE_F32, 0, 1, 0, 3, -100, 100, NULL},
    {"raw-bf16-sealed", PC_CODEC_RAW, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 1, 1, 0, 70, -100, 100, NULL},
    {"raw-host", PC_CODEC_RAW, PC_LAYOUT_APPLICATION + 7, PC_DTYPE_F16, 0, 0, 1, 5, -100, 100,
     NULL},
    {"zstd-bf16", PC_CODEC_ZSTD, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 0, 0, 0, 70, -100, 100, NULL},
    {"zstd-f32-sealed", PC_CODEC_ZSTD, PC_LAYOUT_PAGES, PC_DTYPE_F32, 1, 1, 0, 70, -100, 100, NULL},
    {"zstd-f16", PC_CODEC_ZSTD, PC_LAYOUT_PAGES, PC_DTYPE_F16, 0, 0, 0, 64, -100, 100, NULL},
    {"zstd-host", PC_CODEC_ZSTD, PC_LAYOUT_APPLICATION + 7, PC_DTYPE_F32, 0, 1, 0, 9, -100, 100,
     NULL},
    {"i8-bf16", PC_CODEC_I8, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 0, 0, 1, 70, -127, 127, NULL},
    {"i8-f32-sealed", PC_CODEC_I8, PC_LAYOUT_PAGES, PC_DTYPE_F32, 1, 1, 1, 70, -127, 127, NULL},
    {"i4-bf16", PC_CODEC_I4, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 0, 0, 1, 70, -8, 7, NULL},
    {"i4-f16-sealed", PC_CODEC_I4, PC_LAYOUT_PAGES, PC_DTYPE_F16, 1, 1, 1, 70, -8, 7, NULL},
    {"raw-f32-kernels", PC_CODEC_RAW, PC_LAYOUT_PAGES, PC_DTYPE_F32, 0, 0, 0, 3, -100, 100,
     "avx512bf16"},
    {"zstd-bf16-kernels-sealed", PC_CODEC_ZSTD, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 1, 0, 0, 70, -100,
     100, "c+dnn3.1.1-7f"},
    {"raw-f32-latent", PC_CODEC_RAW, PC_LAYOUT_LATENT, PC_DTYPE_F32, 0, 0, 0, 70, -100, 100, "c"},
    {"zstd-bf16-latent", PC_CODEC_ZSTD, PC_LAYOUT_LATENT, PC_DTYPE_BF16, 0, 0, 0, 70, -100, 100,
     "c"},
    {"i8-bf16-latent", PC_CODEC_I8, PC_LAYOUT_LATENT, PC_DTYPE_BF16, 0, 0, 1, 70, -127, 127, "c"},
    {"raw-bf16-sealed-2", PC_CODEC_RAW, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 2, 1, 0, 70, -100, 100,
     "avx2"},
    {"zstd-f32-sealed-2", PC_CODEC_ZSTD, PC_LAYOUT_PAGES, PC_DTYPE_F32, 2, 0, 0, 70, -100, 100,
     "c"},
    {"i8-f32-sealed-2", PC_CODEC_I8, PC_LAYOUT_PAGES, PC_DTYPE_F32, 2, 1, 1, 70, -127, 127, ""},
    {"i4-f16-sealed-2", PC_CODEC_I4, PC_LAYOUT_PAGES, PC_DTYPE_F16, 2, 0, 1, 70, -8, 7, "c"},
    {"zstd-bf16-own-sealed-2", PC_CODEC_ZSTD, PC_LAYOUT_PAGES, PC_DTYPE_BF16, 2, 1, 0, 70, -100,
     100, "c+dnn3.1.1-7f"},
};

enum { GOLDEN_CASES = sizeof golden_cases / sizeof golden_cases[0] };

static inline const uint8_t *golden_key(void)
{
    static uint8_t key[32];
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(0xa0 + i);
    return key;
}

/* "-own-" in the name: for readers with these kernels alone. */
static inline pc__record_options golden_options(const golden_case *c, const pc__codecs *codecs)
{
    return (pc__record_options){.codecs = codecs,
                                .codec = c->codec,
                                .kernels = strstr(c->name, "-own-") ? c->kernels : NULL,
                                .seal_key = c->sealed ? golden_key() : NULL};
}

typedef struct golden_image {
    pc__image image;
    int32_t ids[GOLDEN_MOST];
    int64_t relative[GOLDEN_MOST];
    uint8_t *blocks[GOLDEN_LAYERS];
    uint64_t block_bytes[GOLDEN_LAYERS];
} golden_image;

/* K or V of a token: a whole number of least … most, times 1/16. */
static inline float golden_value(const golden_case *c, int v, size_t layer, size_t head, size_t t,
                                 size_t d)
{
    size_t x = t * 5 + d * 3 + layer * 11 + head * 7 + (size_t)v * 13;
    size_t in_group =
        v ? d : t % GOLDEN_PAGE; /* scales are those of a channel of K in a page, of V in a token */
    int n = (int)(x % (size_t)(c->most - c->least + 1)) + c->least;
    return (float)(in_group == 0 ? c->least : in_group == 1 ? c->most : n) / 16;
}

static inline uint32_t golden_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact for the values that there are. */
static inline uint32_t golden_f16(float value)
{
    uint32_t bits = golden_f32(value), sign = bits >> 16 & 0x8000;
    if (!(bits & 0x7fffffff))
        return sign;
    return sign | (((bits >> 23 & 0xff) - 127 + 15) << 10 & 0x7c00) | (bits >> 13 & 0x3ff);
}

static inline size_t golden_element(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? 4 : 2;
}

/* doc/format.md, "K/V pages": where K or V [t][d] stands in the page, in elements. */
static inline size_t golden_place(uint32_t dtype, int v, size_t t, size_t d)
{
    if (dtype == PC_DTYPE_F32)
        return v ? (size_t)GOLDEN_K * GOLDEN_PAGE + GOLDEN_V * t + d : GOLDEN_PAGE * d + t;
    return v ? (size_t)GOLDEN_K * GOLDEN_PAGE + 2 * (GOLDEN_V * (t / 2) + d) + t % 2
             : 2 * (GOLDEN_PAGE * (d / 2) + t) + d % 2;
}

static inline void golden_put(uint8_t *at, uint32_t dtype, float value)
{
    uint32_t bits = dtype == PC_DTYPE_F32    ? golden_f32(value)
                    : dtype == PC_DTYPE_BF16 ? golden_f32(value) >> 16
                                             : golden_f16(value);
    for (size_t i = 0; i < golden_element(dtype); i++)
        at[i] = (uint8_t)(bits >> (8 * i));
}

/* Dimensions of a head in a page. */
static inline size_t golden_dims(const golden_case *c)
{
    return GOLDEN_K + (c->layout == PC_LAYOUT_LATENT ? 0 : GOLDEN_V);
}

static inline void golden_pages(const golden_case *c, size_t layer, uint8_t *block)
{
    const size_t element = golden_element(c->dtype), page = golden_dims(c) * GOLDEN_PAGE * element;
    for (size_t t = 0; t < c->tokens; t++)
        for (size_t head = 0; head < GOLDEN_HEADS; head++)
            for (size_t d = 0; d < GOLDEN_K; d++)
                for (int v = 0; v < (c->layout == PC_LAYOUT_LATENT ? 1 : 2); v++) {
                    uint8_t *at = block + (t / GOLDEN_PAGE * GOLDEN_HEADS + head) * page;
                    golden_put(at + element * golden_place(c->dtype, v, t % GOLDEN_PAGE, d),
                               c->dtype, golden_value(c, v, layer, head, t, d));
                }
}

static inline size_t golden_bytes(const golden_case *c, size_t layer)
{
    if (!pc__layout_has_pages(c->layout))
        return c->tokens * (50 + layer); /* an application's: odd sizes too */
    return (c->tokens + GOLDEN_PAGE - 1) / GOLDEN_PAGE * GOLDEN_HEADS * golden_dims(c) * GOLDEN_PAGE
           * golden_element(c->dtype);
}

static inline void golden_describe(const golden_case *c, golden_image *g)
{
    pc__image *image = &g->image;
    memset(g, 0, sizeof *g);
    toy_names(image, (uint32_t)(c - golden_cases));
    snprintf(image->form.architecture, sizeof image->form.architecture, "golden");
    snprintf(image->kernels, sizeof image->kernels, "%s", c->kernels ? c->kernels : "");
    image->form.position_scheme = PC_POSITION_ROPE;
    image->form.shape.dtype = c->dtype;
    image->form.layout = c->layout;
    image->encoding = PC_ENCODE_JOINT;
    image->form.regime = c->relative ? 4096 : 0;
    image->form.origin = c->relative ? -3 : 0;
    image->form.shape.layers = GOLDEN_LAYERS;
    image->form.shape.kv_heads = GOLDEN_HEADS;
    image->form.shape.k_dim = GOLDEN_K;
    image->form.shape.v_dim = GOLDEN_V;
    image->form.shape.latent = c->layout == PC_LAYOUT_LATENT;
    image->lossy = c->lossy;
    image->cost = 0.0625;
    image->ttl = c->relative ? 3600 : 0;
    image->priority = c->relative ? -2 : 3;
    image->expires = c->relative ? INT64_C(4102444800) : 0;
    image->tokens = c->tokens;
    image->token_ids = g->ids;
    image->relative = c->relative ? g->relative : NULL;
    image->block_count = GOLDEN_LAYERS;
    image->blocks = g->blocks;
    image->block_bytes = g->block_bytes;
}

static inline void golden_make(const golden_case *c, golden_image *g)
{
    golden_describe(c, g);
    for (size_t i = 0; i < c->tokens; i++) {
        g->ids[i] = (int32_t)(i * 257) - 2;
        g->relative[i] = (int64_t)(i + i / 7);
    }
    for (size_t layer = 0; layer < GOLDEN_LAYERS; layer++) {
        size_t bytes = golden_bytes(c, layer);
        g->block_bytes[layer] = bytes;
        g->blocks[layer] = calloc(1, bytes);
        if (pc__layout_has_pages(c->layout))
            golden_pages(c, layer, g->blocks[layer]);
        for (size_t i = 0; !pc__layout_has_pages(c->layout) && i < bytes; i++)
            g->blocks[layer][i] = (uint8_t)(i % 4 < 2 ? i * 37 : 64 + layer);
    }
}

static inline void golden_free(golden_image *g)
{
    for (size_t layer = 0; layer < GOLDEN_LAYERS; layer++)
        free(g->blocks[layer]);
}

#endif

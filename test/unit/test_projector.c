/* Catches: pooling that leaves out a token or dimension, or reads beyond the input; features that
 * depend on the batch, or differ from two layers with a norm; invalid shapes that are accepted;
 * files that do not come back bit for bit; damaged or invalid files that are read; leaks when
 * memory runs out. */
#include "memo/train/projector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "memo/train/projector_internal.h"
#include "testing.h"

enum { DIM = PC__FEATURE_DIM };
static const pc_allocator *const mem = &pc__libc_allocator;

static pc__projector *new_projector(pc__projector_shape shape, uint64_t seed)
{
    pc__projector *p;
    CHECK_OK(pc__projector_new(&p, mem, &shape, seed));
    return p;
}

static void shapes(void)
{
    static const pc__projector_shape bad[] = {{0, 1, 8, 0, 0, 0},
                                              {64, 0, 8, 0, 0, 0},
                                              {64, 9, 8, 0, 0, 0},
                                              {64, 1, 0, 0, 0, 0},
                                              {64, 1, 8, 8, 65, 0},
                                              {64, 1, 8, 0, 0, 24},
                                              {64, 1, 8, 0, 0, 2048},
                                              {4096, 1, 8, 64, 2048, 0},
                                              {SIZE_MAX, 1, 8, 1, 1, 16},
                                              {64, 1, SIZE_MAX, 1, 1, 16},
                                              {64, 1, 8, SIZE_MAX / 2, 4, 16}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pc__projector *p = (pc__projector *)&bad;
        CHECK_STATUS(pc__projector_new(&p, mem, &bad[i], 1), PC_ERR_INVALID);
        CHECK(!p);
        CHECK_ERROR_HAS("projector: ");
    }
    static const size_t want[][5] = {/* hidden, most tokens: rows, columns, cells */
                                     {384, 128, 16, 64, 1024},
                                     {384, 8, 8, 128, 1024},
                                     {768, 512, 16, 128, 2048},
                                     {4096, 2048, 32, 128, 4096},
                                     {48, 16, 16, 48, 768}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        pc__projector *p = new_projector((pc__projector_shape){want[i][0], 1, want[i][1], 0, 0, 0},
                                         1);
        const pc__projector_shape *s = pc__projector_shape_of(p);
        CHECK_INT(s->rows, want[i][2]);
        CHECK_INT(s->columns, want[i][3]);
        CHECK_INT(pc__projector_pooled(p), want[i][4]);
        CHECK_INT(s->inner, 128);
        pc__projector_free(p);
    }
    pc__projector_free(NULL);
}

static void pool_naively(const pc__projector_shape *s, const float *x, size_t tokens, float *out)
{
    for (size_t r = 0; r < s->rows; r++)
        for (size_t c = 0; c < s->columns; c++) {
            float most = -INFINITY;
            for (size_t t = 0; t < tokens; t++) /* Do the token's range [t, t + 1) of tokens and the
                                                   band's range [r, r + 1) of rows overlap? */
                for (size_t d = c; t * s->rows < (r + 1) * tokens && (t + 1) * s->rows > r * tokens
                                   && d < s->hidden;
                     d += s->columns)
                    most = x[t * s->hidden + d] > most ? x[t * s->hidden + d] : most;
            out[r * s->columns + c] = most;
        }
}

static void pooling(void)
{
    static const pc__projector_shape cases[] = {{384, 1, 40, 16, 64, 16},
                                                {30, 1, 40, 7, 11, 16},
                                                {1300, 1, 40, 3, 600, 16},
                                                {33, 1, 40, 40, 33, 16},
                                                {1, 1, 40, 1, 1, 16}};
    pc_test_rng rng = {1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pc__projector_shape *s = &cases[i];
        pc__projector *p = new_projector(*s, 1);
        float *want = malloc(s->rows * s->columns * sizeof *want),
              *got = malloc(s->rows * s->columns * sizeof *got);
        for (size_t tokens = 1; tokens <= 40; tokens++) {
            float *x = malloc(tokens * s->hidden
                              * sizeof *x); /* up to its last byte, for the sanitizer */
            for (size_t k = 0; k < tokens * s->hidden; k++)
                x[k] = pc_test_normal(&rng) - 3;
            pool_naively(s, x, tokens, want);
            CHECK_OK(pc__projector_pool(p, x, tokens, got));
            CHECK(!memcmp(got, want, s->rows * s->columns * sizeof *got));
            x[tokens * s->hidden - 1] = INFINITY;
            CHECK_STATUS(pc__projector_pool(p, x, tokens, got), PC_ERR_INVALID);
            CHECK_ERROR_HAS("not finite");
            free(x);
        }
        CHECK_STATUS(pc__projector_pool(p, want, 0, got), PC_ERR_INVALID);
        CHECK_STATUS(pc__projector_pool(p, want, 41, got), PC_ERR_INVALID);
        CHECK_ERROR_HAS("41 tokens are not in its bucket of 1 to 40");
        free(want);
        free(got);
        pc__projector_free(p);
    }
}

/* Several chunks of cells, a norm, a bias. */
static pc__projector *normed_projector(float **pooled, size_t count)
{
    pc__projector *p = new_projector((pc__projector_shape){700, 1, 64, 1, 700, 48}, 3);
    pc_test_rng rng = {2};
    *pooled = malloc(count * 700 * sizeof **pooled);
    for (size_t i = 0; i < count * 700; i++)
        (*pooled)[i] = 2 + 3 * pc_test_normal(&rng);
    CHECK_OK(pc__projector_norm(p, *pooled, count));
    for (size_t k = 0; k < 48; k++)
        p->first[700 * 48 + k] = pc_test_normal(&rng);
    return p;
}

static void norm(void)
{
    pc__projector *p = new_projector((pc__projector_shape){3, 1, 4, 1, 3, 16}, 1);
    float items[4 * 3] = {1, 5, -2, 3, 5, -2, 1, 5, -8, 3, 5, -8}, features[DIM];
    CHECK_OK(pc__projector_norm(p, items, 4));
    CHECK(p->mean[0] == 2 && p->mean[1] == 5 && p->mean[2] == -5);
    CHECK(p->scale[0] == 1 && p->scale[2] == (float)(1.0 / 3));
    CHECK(fabsf(p->scale[1] - 75) < 1e-4f);    /* constant: counts as a hundredth of 4/3 */
    CHECK_OK(pc__projector_norm(p, items, 1)); /* all cells are constant */
    CHECK(p->scale[0] == 1);
    items[7] = NAN;
    CHECK_STATUS(pc__projector_norm(p, items, 4), PC_ERR_INVALID);
    CHECK_ERROR_HAS("item 2");
    CHECK_STATUS(pc__projector_norm(p, items, 0), PC_ERR_INVALID);
    for (size_t i = 0; i < 12; i++)
        items[i] = i % 2 ? 3e38f : -3e38f;
    CHECK_OK(pc__projector_norm(p, items, 4));
    for (size_t i = 0; i < 12; i++)
        items[i] = i % 2 ? 1e-45f : 0;
    CHECK_OK(pc__projector_norm(p, items, 4));
    pc__projector_features(p, items, 1, features);
    for (size_t d = 0; d < DIM; d++)
        CHECK(isfinite(features[d]));
    pc__projector_free(p);
}

static void features_are_the_two_layers(void)
{
    float *pooled, got[DIM];
    pc__projector *p = normed_projector(&pooled, 5);
    for (size_t item = 0; item < 5; item++) {
        double inner[48];
        pc__projector_features(p, pooled + item * 700, 1, got);
        for (size_t k = 0; k < 48; k++) {
            inner[k] = (double)p->first[700 * 48 + k];
            for (size_t c = 0; c < 700; c++)
                inner[k] += (double)((pooled[item * 700 + c] - p->mean[c]) * p->scale[c])
                            * (double)p->first[c * 48 + k];
        }
        for (size_t d = 0; d < DIM; d++) {
            double want = 0;
            for (size_t k = 0; k < 48; k++)
                want += inner[k] > 0 ? inner[k] * (double)p->second[k * DIM + d] : 0;
            CHECK(fabs(want - (double)got[d]) < 1e-5);
        }
    }
    pc__projector_free(p);
    free(pooled);
}

static void alone_or_together(void)
{
    enum { MOST = 11 };
    float *pooled, alone[MOST * DIM], together[MOST * DIM];
    pc__projector *p = normed_projector(&pooled, MOST);
    for (size_t i = 0; i < MOST; i++)
        pc__projector_features(p, pooled + i * 700, 1, alone + i * DIM);
    for (size_t count = 0; count <= MOST; count++) {
        pc__projector_features(p, pooled + (MOST - count) * 700, count, together);
        CHECK(!memcmp(together, alone + (MOST - count) * DIM, count * DIM * sizeof *alone));
    }
    pc__projector_free(p);
    free(pooled);
}

/* Weights depend on the seed only, not on machine or CPU level (PC_CPU_MASK). */
static void seeds(void)
{
    pc__projector_shape shape = {24, 2, 9, 4, 6, 32};
    pc__projector *a = new_projector(shape, 5), *b = new_projector(shape, 5),
                  *c = new_projector(shape, 6);
    CHECK(!memcmp(a->first, b->first, a->weights * sizeof *a->first));
    CHECK(memcmp(a->first, c->first, a->weights * sizeof *a->first));
    float pooled[24], features[DIM];
    for (size_t i = 0; i < 24; i++)
        pooled[i] = (float)i * 0.37f - 3;
    pc__projector_features(a, pooled, 1, features);
    CHECK(XXH3_64bits(features, sizeof features) == 0xe42fcaabaa853f72u);
    pc__projector_free(a);
    pc__projector_free(b);
    pc__projector_free(c);
}

static void refused(uint8_t *data, size_t size, const char *cause)
{
    pc__projector *p = (pc__projector *)data;
    CHECK(pc__projector_read(&p, mem, data, size, "dir/x.pcp") < 0);
    CHECK(!p);
    CHECK_ERROR_HAS("dir/x.pcp: projector: ");
    CHECK_ERROR_HAS(cause);
}

/* A changed number with a matching checksum. */
static void refused_u32(const pc__bytes *file, size_t at, uint32_t value, const char *cause)
{
    uint8_t *data = malloc(file->size);
    memcpy(data, file->data, file->size);
    pc__put_u32(data + at, value);
    pc__put_u64(data + file->size - 8, XXH3_64bits(data, file->size - 8));
    refused(data, file->size, cause);
    free(data);
}

static void files(void)
{
    float *pooled, want[3 * DIM], got[3 * DIM];
    pc__projector *p = normed_projector(&pooled, 3),
                  *small = new_projector((pc__projector_shape){4, 3, 9, 2, 2, 16}, 1), *back;
    pc__bytes bytes = {.mem = mem};
    CHECK_OK(pc__projector_write(p, &bytes));
    CHECK_OK(pc__projector_read(&back, mem, bytes.data, bytes.size, "x"));
    CHECK(!memcmp(&p->shape, &back->shape, sizeof p->shape));
    pc__projector_features(p, pooled, 3, want);
    pc__projector_features(back, pooled, 3, got);
    CHECK(!memcmp(want, got, sizeof want));
    pc__projector_free(back);
    pc__projector_free(p);
    free(pooled);

    CHECK_OK(pc__projector_write(small, &bytes)); /* over existing bytes */
    uint8_t *data = (uint8_t *)bytes.data;
    CHECK_INT(bytes.size, 56 + 4 * (2 * 4 + 5 * 16 + 16 * 128) + 8);
    for (size_t i = 0; i < bytes.size; i++) {
        data[i] ^= (uint8_t)(1 << i % 8);
        refused(data, bytes.size, "");
        data[i] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t size = 0; size < bytes.size; size += size < 80 ? 1 : 97) {
        uint8_t *cut = malloc(size + 1);
        memcpy(cut, data, size);
        refused(cut, size, "");
        free(cut);
    }
    refused_u32(&bytes, 8, 2, "offset 8: version 2");
    refused_u32(&bytes, 12, 2, "offset 12: kind 2");
    refused_u32(&bytes, 24, 0, "0 hidden dimensions");
    refused_u32(&bytes, 28, 10, "bucket of 10 to 9 tokens");
    refused_u32(&bytes, 36, 0, "0 x 2 cells");
    refused_u32(&bytes, 36, 0xffffffffu, "cells");
    refused_u32(&bytes, 40, 5, "5 columns of 4");
    refused_u32(&bytes, 44, 32, "do not hold 2 x 2 cells with inner size 32");
    refused_u32(&bytes, 48, 64, "features of 64 numbers");
    refused_u32(&bytes, 52, 1, "offset 52: 1, not 0");
    refused_u32(&bytes, 56, 0x7f800000u, "offset 56: mean 0 is inf");
    refused_u32(&bytes, 76, 0, "offset 76: scale 1 is 0");
    refused_u32(&bytes, bytes.size - 12, 0xffc00000u, "weight 2127 is");
    CHECK_OK(pc__projector_read(&back, mem, bytes.data, bytes.size, "x"));
    pc__projector_free(back);
    pc__projector_free(small);
    pc__bytes_free(&bytes);
}

/* Makes, trains, writes and reads a projector on an allocator that fails. */
static pc_status life(const pc_allocator *failing)
{
    pc__projector_shape shape = {4, 3, 9, 2, 2, 16};
    pc__projector *p = NULL, *back = NULL;
    pc__bytes bytes = {.mem = failing};
    float items[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    pc_status status;
    PC__TRY(pc__projector_new(&p, failing, &shape, 1), done);
    PC__TRY(pc__projector_norm(p, items, 2), done);
    PC__TRY(pc__projector_write(p, &bytes), done);
    PC__TRY(pc__projector_read(&back, failing, bytes.data, bytes.size, "x"), done);
done:
    CHECK((status == PC_OK) == (back != NULL));
    pc__projector_free(p);
    pc__projector_free(back);
    pc__bytes_free(&bytes);
    return status;
}

static void without_memory(void)
{
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 1; status != PC_OK && at < 100; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator failing = pc_test_allocator(&memory);
        status = life(&failing);
        CHECK(status == PC_OK ? memory.calls < at : status == PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
}

int main(void)
{
    shapes();
    pooling();
    norm();
    features_are_the_two_layers();
    alone_or_together();
    seeds();
    files();
    without_memory();
    return pc_test_end();
}

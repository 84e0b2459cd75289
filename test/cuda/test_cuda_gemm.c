/* Catches: linear layers on a device that differ from plain sums by more than rounding; a row whose
 * bits change with the other rows of its class; an algorithm that adds parts of sums in any order
 * or wants more workspace than it may have; a shape for which cuBLASLt has none, and that is given
 * up instead of computed otherwise; inputs that are rounded otherwise than to nearest even, or once
 * for each product; two products of one call where one would do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernel_table.h"
#include "cuda/gemm.h"
#include "attn/half.h"
#include "cuda_testing.h"
#include "fake_kernels.h"

typedef struct layer {
    pc__cuda_gemm_shape shape;
    float *weights; /* rounded to the format */
    float *bias;    /* NULL: none */
    void *device_weights, *device_bias;
    pc__cuda_gemm *gemm;
} layer;

typedef struct place {
    pc_cuda_place p;
    pc__cuda_blas *blas;
} place;

static void open_place(place *at)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.late_us = 20;
    memset(at, 0, sizeof *at);
    CHECK_OK(pc_cuda_open(&at->p, &options, 0));
    CHECK_OK(pc__cuda_blas_new(&at->blas, at->p.pool));
}

static void close_place(place *at)
{
    pc__cuda_blas_free(at->blas);
    pc_cuda_close(&at->p);
}

static uint16_t bits16(float x, uint32_t dtype)
{
    return dtype == PC_DTYPE_F16 ? pc__half_from(x) : pc__bf16_from(x);
}

static float rounded(float x, uint32_t dtype)
{
    if (dtype == PC_DTYPE_F32)
        return x;
    uint16_t bits = bits16(x, dtype);
    return dtype == PC_DTYPE_F16 ? pc__half_to(bits) : pc__bf16_to(bits);
}

static void *to_device(place *at, const void *data, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(pc__cuda_pool_take(at->p.pool, bytes, &memory));
    pc__cuda_upload(at->p.stream, memory, data, bytes);
    return memory;
}

static void fill(float *numbers, size_t count, uint64_t seed)
{
    pc_test_rng rng = {seed};
    for (size_t i = 0; i < count; i++)
        numbers[i] = pc_test_normal(&rng);
}

static void weights_to_device(place *at, layer *l)
{
    size_t count = (size_t)l->shape.in * l->shape.out;
    uint16_t *bits = malloc(count * 2);
    for (size_t i = 0; i < count; i++) {
        bits[i] = bits16(l->weights[i], l->shape.dtype);
        l->weights[i] = rounded(l->weights[i], l->shape.dtype);
    }
    l->device_weights = l->shape.dtype == PC_DTYPE_F32 ? to_device(at, l->weights, count * 4)
                                                       : to_device(at, bits, count * 2);
    CHECK_OK(pc__cuda_finish(at->p.stream)); /* a layer may copy them at once */
    free(bits);
}

static layer make_layer(place *at, uint32_t in, uint32_t out, uint32_t dtype, int bias)
{
    layer l = {.shape = {.in = in, .out = out, .dtype = dtype, .bias = bias != 0}};
    l.weights = malloc((size_t)in * out * 4);
    fill(l.weights, (size_t)in * out, in + out);
    weights_to_device(at, &l);
    if (bias) {
        l.bias = malloc(out * 4);
        fill(l.bias, out, out);
        l.device_bias = to_device(at, l.bias, out * 4);
    }
    CHECK_OK(pc__cuda_gemm_new(&l.gemm, at->blas, &l.shape, l.device_weights, l.device_bias));
    return l;
}

static void free_layer(place *at, layer *l)
{
    pc__cuda_gemm_free(l->gemm);
    pc__cuda_pool_give(at->p.pool, l->device_weights);
    pc__cuda_pool_give(at->p.pool, l->device_bias);
    free(l->weights);
    free(l->bias);
}

/* y of one layer for x of this process. */
static void run(place *at, const layer *l, const float *x, size_t rows, float *y)
{
    float *in = to_device(at, x, rows * l->shape.in * 4);
    void *out;
    CHECK_OK(pc__cuda_pool_take(at->p.pool, rows * l->shape.out * 4, &out));
    pc__cuda_product product = {l->gemm, out};
    pc__cuda_gemm_run(at->p.stream, &product, 1, in, rows);
    pc__cuda_copy(at->p.stream, y, out, rows * l->shape.out * 4);
    CHECK_OK(pc__cuda_finish(at->p.stream));
    pc__cuda_pool_give(at->p.pool, in);
    pc__cuda_pool_give(at->p.pool, out);
}

/* The largest error of one output, in units of what rounding sums of these magnitudes may give. */
static double worst(const layer *l, const float *x, size_t rows, const float *y)
{
    double most = 0;
    for (size_t row = 0; row < rows; row++)
        for (size_t o = 0; o < l->shape.out; o++) {
            double sum = l->bias ? l->bias[o] : 0, size = fabs(sum);
            for (size_t i = 0; i < l->shape.in; i++) {
                double term = (double)l->weights[o * l->shape.in + i]
                              * rounded(x[row * l->shape.in + i], l->shape.dtype);
                sum += term;
                size += fabs(term);
            }
            double error = fabs(y[row * l->shape.out + o] - sum) / (size * 0x1p-23);
            most = error > most || isnan(error) ? error : most;
        }
    return most;
}

static void one_case(place *at, uint32_t in, uint32_t out, uint32_t dtype, int bias, size_t rows)
{
    layer l = make_layer(at, in, out, dtype, bias);
    float *x = malloc(rows * in * 4), *y = malloc(rows * out * 4);
    fill(x, rows * in, rows);
    run(at, &l, x, rows, y);
    double error = worst(&l, x, rows, y);
    /* A sum of n terms, in any order, is off by less than n halves of a place of their sizes. */
    if (!CHECK(error <= 1 + in / 2.0))
        printf("    %u x %u, dtype %u, %zu rows: error %g\n", in, out, dtype, rows, error);
    free(x);
    free(y);
    free_layer(at, &l);
}

static void products(void)
{
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16};
    place at;
    open_place(&at);
    for (int i = 0; i < 3; i++) {
        one_case(&at, 64, 96, dtypes[i], 1, 1);
        one_case(&at, 64, 96, dtypes[i], 0, 17);
        one_case(&at, 40, 33, dtypes[i], 1, 70);
        one_case(&at, 40, 33, dtypes[i], 0, 130);
        one_case(&at, 5, 3, dtypes[i], 1, 3); /* rows that are aligned to 4 bytes alone */
    }
    close_place(&at);
}

/* The same rows alone and among others, within each class. */
static void same_bits_in_a_class(uint32_t dtype)
{
    enum { IN = 144, OUT = 24, ROWS = 200 };
    static const size_t classes[PC__CUDA_ROW_CLASSES][3] = {
        {1, 7, 16}, {17, 40, 64}, {65, 100, 128}, {129, 150, ROWS}};
    static float x[ROWS * IN], y[3][ROWS * OUT];
    place at;
    open_place(&at);
    layer l = make_layer(&at, IN, OUT, dtype, 1);
    fill(x, ROWS * IN, 1);
    for (size_t c = 0; c < PC__CUDA_ROW_CLASSES; c++) {
        for (size_t i = 0; i < 3; i++) {
            CHECK_INT(pc__cuda_gemm_class(classes[c][i]), c);
            run(&at, &l, x, classes[c][i], y[i]);
        }
        CHECK(!memcmp(y[0], y[1], classes[c][0] * OUT * 4));
        CHECK(!memcmp(y[1], y[2], classes[c][1] * OUT * 4));
        const pc__cuda_gemm_choice *choice = pc__cuda_gemm_look(l.gemm, (int)c);
        printf("dtype %u, class %zu: algorithm %d, tile %d, stages %d, splits %d, workspace %zu\n",
               (unsigned)dtype, c, choice->id, choice->tile, choice->stages, choice->splits,
               choice->workspace);
        CHECK(c == 0 || choice->splits <= 1); /* the fake one has one without in each class */
    }
    free_layer(&at, &l);
    close_place(&at);
}

/* ------------------------------------------------------- where cuBLASLt has none */

enum { SPLIT = 1, PADDED, OURS };

/* How a layer is computed if cuBLASLt lacks something, and that it is right. */
static void one_lack(uint32_t lacks, uint32_t in, uint32_t dtype, int bias, int wanted)
{
    enum { OUT = 11, ROWS = 20 };
    float *x = malloc(ROWS * in * sizeof *x), y[ROWS * OUT];
    place at;
    open_place(&at);
    pc_fake_blas(lacks);
    layer l = make_layer(&at, in, OUT, dtype, bias);
    uint64_t padded = pc_fake_count("cudaMemcpy2DAsync");
    const pc__cuda_gemm_choice *choice = pc__cuda_gemm_look(l.gemm, 1);
    CHECK(wanted == OURS ? !choice : choice != NULL);
    CHECK_INT(choice && choice->splits > 1, wanted == SPLIT);
    CHECK_INT(padded > 0, wanted == PADDED || (wanted == OURS && in % 8)); /* it was tried */
    fill(x, ROWS * in, 3);
    for (size_t rows = 3; rows <= ROWS; rows += 17) {
        run(&at, &l, x, rows, y);
        if (!CHECK(worst(&l, x, rows, y) <= 1 + in / 2.0))
            printf("    lacks %u, %u inputs, dtype %u, %zu rows\n", lacks, in, dtype, rows);
    }
    CHECK_INT(pc_fake_count("cudaMemcpy2DAsync") - padded, wanted == PADDED ? 2 : 0);
    free_layer(&at, &l);
    close_place(&at);
    free(x);
}

static void lacks(void)
{
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16};
    for (uint32_t empty = 0; empty <= PC_FAKE_BLAS_NO_RESULTS; empty += PC_FAKE_BLAS_NO_RESULTS)
        for (int i = 0; i < 3; i++)
            for (int bias = 0; bias < 2; bias++) {
                one_lack(PC_FAKE_BLAS_WHOLE_SUMS | empty, 24, dtypes[i], bias, SPLIT);
                one_lack(PC_FAKE_BLAS_UNALIGNED | empty, 24, dtypes[i], bias, 0);
                one_lack(PC_FAKE_BLAS_UNALIGNED | empty, 21, dtypes[i], bias, PADDED);
                one_lack(PC_FAKE_BLAS_ALL | empty, 24, dtypes[i], bias, OURS);
                one_lack(PC_FAKE_BLAS_ALL | empty, 21, dtypes[i], bias, OURS);
            }
}

/* Layers of one shape have one algorithm, whenever they are made. */
static void one_choice_a_shape(void)
{
    place at;
    open_place(&at);
    layer a = make_layer(&at, 32, 16, PC_DTYPE_F16, 0);
    layer other = make_layer(&at, 16, 32, PC_DTYPE_F16, 0);
    uint64_t calls = pc_cuda_real() ? 0 : pc_fake_calls();
    layer b = make_layer(&at, 32, 16, PC_DTYPE_F16, 0);
    if (!pc_cuda_real())
        CHECK(pc_fake_calls() - calls < 20); /* nothing was asked for again */
    for (int c = 0; c < PC__CUDA_ROW_CLASSES; c++)
        CHECK(!memcmp(pc__cuda_gemm_look(a.gemm, c), pc__cuda_gemm_look(b.gemm, c),
                      sizeof(pc__cuda_gemm_choice)));
    free_layer(&at, &a);
    free_layer(&at, &b);
    free_layer(&at, &other);
    close_place(&at);
}

/* Layers with one input: it is rounded once a format, and two of one shape are one product while
 * rows are few; not so one with a bias, and one that lies before the first in memory. */
static void products_share_their_input(size_t rows, size_t wanted)
{
    enum { IN = 24, OUT = 8, MOST = 150, COUNT = 5 };
    static float x[MOST * IN], y[COUNT][MOST * OUT];
    place at;
    pc__cuda_product list[COUNT];
    layer layers[COUNT];
    open_place(&at);
    fill(x, rows * IN, 9);
    float *in = to_device(&at, x, sizeof x), *out;
    CHECK_OK(pc__cuda_pool_take(at.p.pool, sizeof y, (void **)&out));
    for (int i = 0; i < COUNT; i++) {
        layers[i] = make_layer(&at, IN, OUT, i > 2 ? PC_DTYPE_BF16 : PC_DTYPE_F16, i == 4);
        list[i] = (pc__cuda_product){layers[i].gemm, out + i * MOST * OUT};
    }
    CHECK_OK(pc__cuda_finish(at.p.stream));
    uint64_t before = pc_cuda_real() ? 0 : pc_fake_operations();
    pc__cuda_gemm_run(at.p.stream, list, COUNT, in, rows);
    pc__cuda_gemm_run(at.p.stream, list, COUNT, in, 0);
    CHECK_OK(pc__cuda_finish(at.p.stream));
    if (!pc_cuda_real())
        CHECK_INT(pc_fake_operations() - before, wanted);
    for (int i = 0; i < COUNT; i++) {
        pc__cuda_copy(at.p.stream, y[i], list[i].y, rows * OUT * 4);
        CHECK_OK(pc__cuda_finish(at.p.stream));
        CHECK(worst(&layers[i], x, rows, y[i]) <= 1 + IN / 2.0);
        free_layer(&at, &layers[i]);
    }
    pc__cuda_pool_give(at.p.pool, out);
    pc__cuda_pool_give(at.p.pool, in);
    close_place(&at);
}

/* Every kind of number, and every length of the last block. */
static void rounding(uint32_t dtype)
{
    static const float special[] = {0.f,      -0.f,    1.f + 0x1p-8f, 1.f + 0x3p-8f, 1.f + 0x1p-11f,
                                    65504.f,  65520.f, -65519.99f,    0x1p-24f,      0x1p-25f,
                                    0x3p-26f, 3.4e38f, INFINITY,      -INFINITY,     0x1p-140f};
    enum { MOST = 2100 };
    static float x[MOST];
    static uint16_t got[MOST];
    place at;
    const pc__cuda_kernel *kernel = dtype == PC_DTYPE_F16 ? &pc__cuda_kernels.convert_f16
                                                          : &pc__cuda_kernels.convert_bf16;
    open_place(&at);
    fill(x, MOST, 4);
    memcpy(x, special, sizeof special);
    for (size_t count = 1; count <= MOST; count += count < 20 ? 1 : 520) {
        void *out, *in = to_device(&at, x, count * 4);
        CHECK_OK(pc__cuda_pool_take(at.p.pool, count * 2, &out));
        pc__cuda_convert_task task = {in, out, count};
        pc__cuda_grid grid = {(uint32_t)(count + 2047) / 2048, 1, 1};
        pc__cuda_launch(at.p.stream, kernel, grid, &task);
        pc__cuda_copy(at.p.stream, got, out, count * 2);
        CHECK_OK(pc__cuda_finish(at.p.stream));
        size_t right = 0;
        for (size_t i = 0; i < count; i++)
            right += got[i] == bits16(x[i], dtype);
        CHECK_INT(right, count);
        pc__cuda_pool_give(at.p.pool, in);
        pc__cuda_pool_give(at.p.pool, out);
    }
    close_place(&at);
}

static void refusals(void)
{
    const pc__cuda_gemm_shape bytes = {.in = 8, .out = 8, .dtype = PC_DTYPE_I8},
                              empty = {.in = 8, .dtype = PC_DTYPE_F32};
    place at;
    pc__cuda_gemm *gemm;
    open_place(&at);
    CHECK_STATUS(pc__cuda_gemm_new(&gemm, at.blas, &bytes, &at, NULL), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(pc__cuda_gemm_new(&gemm, at.blas, &empty, &at, NULL), PC_ERR_INTERNAL);
    CHECK(gemm == NULL);
    close_place(&at);
}

/* Every call fails once; afterwards nothing is left. While weights are padded, things are given
 * back: if the device cannot be entered for that, the next call tells it; and the calls that wait
 * then wait for the second time. */
static void one_failure(uint64_t n, uint32_t lack, uint64_t *calls)
{
    static float numbers[64 * 8];
    float y[24];
    uint32_t in = lack == PC_FAKE_BLAS_UNALIGNED ? 7 : 8;
    place at = {.blas = NULL};
    layer l = {.shape = {.in = in, .out = 8, .dtype = PC_DTYPE_BF16, .bias = 1}};
    CHECK_OK(pc_cuda_open(&at.p, NULL, 0));
    pc_fake_blas(lack);
    float *x = to_device(&at, numbers, sizeof numbers);
    void *out = to_device(&at, numbers, sizeof y);
    CHECK_OK(pc__cuda_finish(at.p.stream));
    uint64_t before = pc_fake_calls();
    pc_fake_fail_call(n, cudaErrorInvalidValue);
    pc_status status = pc__cuda_blas_new(&at.blas, at.p.pool);
    if (status == PC_OK)
        status = pc__cuda_gemm_new(&l.gemm, at.blas, &l.shape, x, x);
    if (status == PC_OK) {
        pc__cuda_product product = {l.gemm, out};
        pc__cuda_gemm_run(at.p.stream, &product, 1, x, 3);
        status = pc__cuda_finish(at.p.stream);
    }
    *calls = pc_fake_calls() - before;
    const char *failed = pc_fake_failed();
    int padded = failed && lack == PC_FAKE_BLAS_UNALIGNED;
    if (!n || pc_fake_failed_giving())
        CHECK_OK(status);
    else if (!(padded && status >= 0 && strstr(failed, "Synchronize"))
             && !CHECK(status < 0
                       && (strstr(pc_error_text(), failed) || (padded && pc_cuda_enters(failed)))))
        printf("    call %llu, %s: %s\n", (unsigned long long)n, failed, pc_error_text());
    pc__cuda_gemm_free(l.gemm);
    pc__cuda_pool_give(at.p.pool, x);
    pc__cuda_pool_give(at.p.pool, out);
    close_place(&at);
}

static void failures(uint32_t lack)
{
    uint64_t calls, unused;
    one_failure(0, lack, &calls);
    CHECK(calls > 30);
    for (uint64_t n = 1; n <= calls; n++)
        one_failure(n, lack, &unused);
}

int main(void)
{
    pc_fake_kernels_add();
    products();
    same_bits_in_a_class(PC_DTYPE_F32);
    same_bits_in_a_class(PC_DTYPE_BF16);
    same_bits_in_a_class(PC_DTYPE_F16);
    one_choice_a_shape();
    products_share_their_input(5, 2 + 4);
    products_share_their_input(128, 2 + 4);
    products_share_their_input(150, 2 + 5);
    rounding(PC_DTYPE_F16);
    rounding(PC_DTYPE_BF16);
    refusals();
    if (!pc_cuda_real()) {
        lacks();
        failures(0);
        failures(PC_FAKE_BLAS_UNALIGNED);
        failures(PC_FAKE_BLAS_ALL);
    }
    return pc_test_end();
}

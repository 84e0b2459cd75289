/* Layers, the choice of their algorithms, and the products that are queued for them. cuBLASLt
 * counts columns first: its matrix A is W [in x out], transposed; B is x [in x rows]; C and D are y
 * [out x rows]. */
#include "cuda/gemm.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/kernel_table.h"

enum { PROPOSALS = 16, WORKSPACE = 32 << 20 };

typedef struct gemm_choices {
    pc__cuda_gemm_shape shape;
    int none; /* 1: cuBLASLt has no algorithm for some class */
    pc__cuda_gemm_choice of[PC__CUDA_ROW_CLASSES];
} gemm_choices;

struct pc__cuda_blas {
    pc__cuda_pool *pool;
    const pc__cuda_device *device;
    cublasLtHandle_t handle;
    pthread_mutex_t lock;
    gemm_choices **choices; /* one a shape; they stay where they are */
    size_t count, capacity;
};

struct pc__cuda_gemm {
    pc__cuda_blas *blas;
    pc__cuda_gemm_shape shape;
    const gemm_choices *choices; /* NULL: by our own kernel */
    const gemm_choices *pairs;   /* of two such layers; NULL: they are not paired */
    const void *weights;
    const void *given; /* the caller's weights and bias */
    const float *bias;
    void *own; /* `weights` where they are a padded copy; NULL: they are the given ones */
    cublasLtMatmulDesc_t matmul;
};

/* ------------------------------------------------------------------- layouts */

/* Of one product, or of two; they own nothing. */
typedef struct gemm_layouts {
    cublasLtMatrixLayoutOpaque_t a, b, d;
} gemm_layouts;

/* From the first product of a pair to the second one, in elements. */
typedef struct gemm_distance {
    int64_t weights, y;
} gemm_distance;

static cudaDataType_t type_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_BF16 ? CUDA_R_16BF : dtype == PC_DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static size_t element_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? 4 : 2;
}

static size_t stride_of(const pc__cuda_gemm_shape *shape)
{
    return shape->stride ? shape->stride : shape->in;
}

static pc_status set_batch(cublasLtMatrixLayout_t layout, int64_t distance)
{
    const int32_t two = 2;
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatrixLayoutSetAttribute,
                              (layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two)));
    return PC__CUBLAS(
        cublasLtMatrixLayoutSetAttribute,
        (layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance));
}

static pc_status make_layouts(gemm_layouts *l, const pc__cuda_gemm_shape *s, size_t rows,
                              gemm_distance distance)
{
    cudaDataType_t type = type_of(s->dtype);
    int64_t stride = (int64_t)stride_of(s);
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatrixLayoutInit, (&l->a, type, s->in, s->out, stride)));
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatrixLayoutInit, (&l->b, type, s->in, rows, stride)));
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatrixLayoutInit, (&l->d, CUDA_R_32F, s->out, rows, s->out)));
    if (!s->pair)
        return PC_OK;
    PC__TRY_RETURN(set_batch(&l->a, distance.weights));
    PC__TRY_RETURN(set_batch(&l->b, 0));
    return set_batch(&l->d, distance.y);
}

/* Any distance will do to choose an algorithm: one behind the other. */
static gemm_distance usual_distance(const pc__cuda_gemm_shape *shape, size_t rows)
{
    return (gemm_distance){(int64_t)(stride_of(shape) * shape->out), (int64_t)(rows * shape->out)};
}

/* ------------------------------------------------------------------- choices */

/* The number of rows that a class is tuned for, and those that are tried. splits: 1: sums may be
 * split from the start, because a product of few rows has too few blocks for the device. */
static const struct row_class {
    size_t typical, least, most;
    int splits;
} row_classes[PC__CUDA_ROW_CLASSES] = {
    {8, 1, 16, 1}, {64, 17, 64, 0}, {128, 65, 128, 0}, {512, 129, 1 << 16, 0}};

int pc__cuda_gemm_class(size_t rows)
{
    int row_class = 0;
    while (row_class + 1 < PC__CUDA_ROW_CLASSES && rows > row_classes[row_class].most)
        row_class++;
    return row_class;
}

/* Rows begin at multiples of this. */
static uint32_t alignment(size_t row_bytes)
{
    return row_bytes % 16 == 0 ? 16 : row_bytes % 8 == 0 ? 8 : row_bytes % 4 == 0 ? 4 : 2;
}

/* A layer that is being described, and what its algorithms are asked for. */
typedef struct gemm_search {
    pc__cuda_blas *blas;
    const pc__cuda_gemm_shape *shape;
    cublasLtMatmulDesc_t matmul;
    uint32_t reductions; /* that are allowed: none, or parts in fp32 that a second step adds */
} gemm_search;

static pc_status set_wishes(const gemm_search *s, cublasLtMatmulPreference_t wish)
{
    const size_t workspace = WORKSPACE;
    const uint32_t x = alignment(stride_of(s->shape) * element_of(s->shape->dtype)),
                   y = alignment((size_t)s->shape->out * sizeof(float));
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &s->reductions, sizeof s->reductions},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &x, sizeof x},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &x, sizeof x},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &y, sizeof y},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &y, sizeof y},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        PC__TRY_RETURN(PC__CUBLAS(cublasLtMatmulPreferenceSetAttribute,
                                  (wish, wishes[i].attribute, wishes[i].value, wishes[i].bytes)));
    return PC_OK;
}

/* What an algorithm is, as far as it is looked at. */
typedef struct algorithm_facts {
    int32_t id, tile, splits, reduction, stages;
} algorithm_facts;

static pc_status read_facts(const cublasLtMatmulAlgo_t *algorithm, algorithm_facts *facts)
{
    const struct {
        int32_t attribute;
        int32_t *value;
    } wanted[] = {
        {CUBLASLT_ALGO_CONFIG_ID, &facts->id},
        {CUBLASLT_ALGO_CONFIG_TILE_ID, &facts->tile},
        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &facts->splits},
        {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &facts->reduction},
        {CUBLASLT_ALGO_CONFIG_STAGES_ID, &facts->stages},
    };
    size_t written;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        PC__TRY_RETURN(PC__CUBLAS(
            cublasLtMatmulAlgoConfigGetAttribute,
            (algorithm, wanted[i].attribute, wanted[i].value, sizeof *wanted[i].value, &written)));
    return PC_OK;
}

/* Whether the algorithm computes this many rows; then the workspace that it needs. */
static pc_status try_rows(const gemm_search *s, const cublasLtMatmulAlgo_t *algorithm, size_t rows,
                          int *fits, size_t *workspace)
{
    gemm_layouts l;
    cublasLtMatmulHeuristicResult_t answer = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    PC__TRY_RETURN(make_layouts(&l, s->shape, rows, usual_distance(s->shape, rows)));
    cublasStatus_t result = cublasLtMatmulAlgoCheck(s->blas->handle, s->matmul, &l.a, &l.b, &l.d,
                                                    &l.d, algorithm, &answer);
    *fits = !result && !answer.state && answer.workspaceSize <= WORKSPACE;
    if (*fits && answer.workspaceSize > *workspace)
        *workspace = answer.workspaceSize;
    if (result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_INVALID_VALUE)
        return PC_OK; /* it does not */
    return pc__cublas_check(result, "cublasLtMatmulAlgoCheck");
}

/* Whether a proposal is good for its class; then the choice is filled. Parts that are added in
 * place are added in the order in which blocks are done. */
static pc_status try_proposal(const gemm_search *s, const struct row_class *rows,
                              const cublasLtMatmulHeuristicResult_t *proposal, int *fits,
                              pc__cuda_gemm_choice *choice)
{
    algorithm_facts facts = {0, 0, 0, 0, 0};
    const size_t tried[] = {rows->typical, rows->least, rows->most};
    size_t workspace = 0;
    PC__TRY_RETURN(read_facts(&proposal->algo, &facts));
    *fits = !((uint32_t)facts.reduction & ~s->reductions) && (facts.splits <= 1 || facts.reduction);
    for (size_t i = 0; i < sizeof tried / sizeof *tried && *fits; i++)
        PC__TRY_RETURN(try_rows(s, &proposal->algo, tried[i], fits, &workspace));
    if (*fits)
        *choice = (pc__cuda_gemm_choice){proposal->algo, workspace,    facts.id,
                                         facts.tile,     facts.stages, facts.splits};
    return PC_OK;
}

static pc_status propose(const gemm_search *s, cublasLtMatmulPreference_t wish, size_t rows,
                         cublasLtMatmulHeuristicResult_t *proposals, int *count)
{
    gemm_layouts l;
    PC__TRY_RETURN(make_layouts(&l, s->shape, rows, usual_distance(s->shape, rows)));
    cublasStatus_t result = cublasLtMatmulAlgoGetHeuristic(
        s->blas->handle, s->matmul, &l.a, &l.b, &l.d, &l.d, wish, PROPOSALS, proposals, count);
    if (result == CUBLAS_STATUS_NOT_SUPPORTED)
        *count = 0;
    return result == CUBLAS_STATUS_NOT_SUPPORTED
               ? PC_OK
               : pc__cublas_check(result, "cublasLtMatmulAlgoGetHeuristic");
}

static pc_status try_proposals(const gemm_search *s, cublasLtMatmulPreference_t wish,
                               const struct row_class *rows, int *fits,
                               pc__cuda_gemm_choice *choice)
{
    cublasLtMatmulHeuristicResult_t proposals[PROPOSALS];
    int count = 0;
    memset(proposals, 0, sizeof proposals);
    PC__TRY_RETURN(set_wishes(s, wish));
    PC__TRY_RETURN(propose(s, wish, rows->typical, proposals, &count));
    for (int i = 0; i < count && !*fits; i++)
        if (!proposals[i].state)
            PC__TRY_RETURN(try_proposal(s, rows, &proposals[i], fits, choice));
    return PC_OK;
}

static pc_status choose_class(gemm_search *s, cublasLtMatmulPreference_t wish, int row_class,
                              gemm_choices *choices)
{
    const struct row_class *rows = &row_classes[row_class];
    int fits = 0;
    for (int splits = rows->splits; splits <= 1 && !fits; splits++) {
        s->reductions = splits ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                               : CUBLASLT_REDUCTION_SCHEME_NONE;
        PC__TRY_RETURN(try_proposals(s, wish, rows, &fits, &choices->of[row_class]));
    }
    choices->none |= !fits;
    return PC_OK;
}

static pc_status choose_all(gemm_search *s, gemm_choices *choices)
{
    cublasLtMatmulPreference_t wish;
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatmulPreferenceCreate, (&wish)));
    pc_status status = PC_OK;
    for (int i = 0; i < PC__CUDA_ROW_CLASSES && status == PC_OK && !choices->none; i++)
        status = choose_class(s, wish, i, choices);
    cublasLtMatmulPreferenceDestroy(wish);
    return status;
}

static const gemm_choices *find(const pc__cuda_blas *blas, const pc__cuda_gemm_shape *shape)
{
    for (size_t i = 0; i < blas->count; i++)
        if (!memcmp(&blas->choices[i]->shape, shape, sizeof *shape))
            return blas->choices[i];
    return NULL;
}

static pc_status choose_new(gemm_search *s, const gemm_choices **out)
{
    pc__cuda_blas *blas = s->blas;
    const pc_allocator *mem = &blas->device->mem;
    PC__TRY_RETURN(pc__grow(mem, (void **)&blas->choices, &blas->capacity, blas->count + 1,
                            sizeof *blas->choices));
    gemm_choices *made = pc__calloc(mem, 1, sizeof *made);
    if (!made)
        return PC_ERR_NOMEM;
    made->shape = *s->shape;
    pc_status status = choose_all(s, made);
    if (status < 0)
        pc__free(mem, made);
    else
        *out = blas->choices[blas->count++] = made;
    return status;
}

/* The choices of a shape, made now if it is the first of it; NULL: there are none. */
static pc_status choose(const gemm_choices **out, const pc__cuda_gemm *gemm,
                        const pc__cuda_gemm_shape *shape)
{
    gemm_search s = {.blas = gemm->blas, .shape = shape, .matmul = gemm->matmul};
    pthread_mutex_lock(&s.blas->lock);
    *out = find(s.blas, shape);
    pc_status status = *out ? PC_OK : choose_new(&s, out);
    pthread_mutex_unlock(&s.blas->lock);
    if (*out && (*out)->none)
        *out = NULL;
    return status;
}

/* -------------------------------------------------------------------- layers */

static pc_status set_bias(cublasLtMatmulDesc_t matmul, const float *bias)
{
    const int32_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatmulDescSetAttribute,
                              (matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)));
    if (!bias)
        return PC_OK;
    return PC__CUBLAS(cublasLtMatmulDescSetAttribute,
                      (matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

/* A copy of the weights whose rows begin at multiples of 16 bytes. */
static pc_status pad(pc__cuda_gemm *gemm)
{
    const pc__cuda_gemm_shape *shape = &gemm->shape;
    size_t each = element_of(shape->dtype), row = shape->in * each, step = (row + 15) / 16 * 16;
    pc__cuda_stream *stream;
    PC__TRY_RETURN(pc__cuda_pool_take(gemm->blas->pool, shape->out * step, &gemm->own));
    PC__TRY_RETURN(pc__cuda_stream_new(&stream, gemm->blas->pool));
    pc__cuda_copy_rows(stream, gemm->own, step, gemm->given, row, row, shape->out);
    pc_status status = pc__cuda_finish(stream);
    pc__cuda_stream_free(stream);
    gemm->weights = gemm->own;
    gemm->shape.stride = (uint32_t)(step / each);
    return status;
}

static pc_status choose_layer(pc__cuda_gemm *gemm)
{
    PC__TRY_RETURN(choose(&gemm->choices, gemm, &gemm->shape));
    if (!gemm->choices && gemm->shape.in * element_of(gemm->shape.dtype) % 16) {
        PC__TRY_RETURN(pad(gemm));
        PC__TRY_RETURN(choose(&gemm->choices, gemm, &gemm->shape));
    }
    if (!gemm->choices) { /* our own kernel takes what was given */
        pc__cuda_pool_give(gemm->blas->pool, gemm->own);
        gemm->own = NULL;
        return PC_OK;
    }
    pc__cuda_gemm_shape two = gemm->shape;
    two.pair = 1;
    return gemm->bias ? PC_OK : choose(&gemm->pairs, gemm, &two);
}

static pc_status describe(pc__cuda_gemm *gemm)
{
    const int32_t transposed = CUBLAS_OP_T;
    PC__TRY_RETURN(
        PC__CUBLAS(cublasLtMatmulDescCreate, (&gemm->matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    PC__TRY_RETURN(
        PC__CUBLAS(cublasLtMatmulDescSetAttribute,
                   (gemm->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed)));
    PC__TRY_RETURN(set_bias(gemm->matmul, gemm->bias));
    return choose_layer(gemm);
}

static pc_status check_shape(const pc__cuda_gemm_shape *shape, const float *bias)
{
    if (!shape->in || !shape->out || !shape->bias != !bias)
        return pc__fail(PC_ERR_INTERNAL, "a linear layer without inputs, outputs or its bias");
    if (shape->dtype < PC_DTYPE_F32 || shape->dtype > PC_DTYPE_F16)
        return pc__fail(PC_ERR_UNSUPPORTED, "weights are fp32, bf16 or fp16 on a CUDA device");
    return PC_OK;
}

pc_status pc__cuda_gemm_new(pc__cuda_gemm **out, pc__cuda_blas *blas,
                            const pc__cuda_gemm_shape *shape, const void *weights,
                            const float *bias)
{
    *out = NULL;
    PC__TRY_RETURN(check_shape(shape, bias));
    pc__cuda_gemm *gemm = pc__calloc(&blas->device->mem, 1, sizeof *gemm);
    if (!gemm)
        return PC_ERR_NOMEM;
    gemm->blas = blas;
    gemm->shape = *shape;
    gemm->weights = gemm->given = weights;
    gemm->bias = bias;
    pc_status status;
    PC__CUDA_ON(blas->device, status, describe(gemm));
    if (status < 0) {
        pc__fail_in(status, "linear layer of %u inputs, %u outputs", (unsigned)shape->in,
                    (unsigned)shape->out);
        pc__cuda_fail_in(blas->device, status);
    }
    if (status < 0)
        pc__cuda_gemm_free(gemm);
    else
        *out = gemm;
    return status;
}

void pc__cuda_gemm_free(pc__cuda_gemm *gemm)
{
    if (!gemm)
        return;
    const pc__cuda_device *device = gemm->blas->device;
    if (gemm->matmul)
        cublasLtMatmulDescDestroy(gemm->matmul);
    pc__cuda_pool_give(gemm->blas->pool, gemm->own);
    pc__free(&device->mem, gemm);
}

const pc__cuda_gemm_choice *pc__cuda_gemm_look(const pc__cuda_gemm *gemm, int row_class)
{
    return gemm->choices ? &gemm->choices->of[row_class] : NULL;
}

/* -------------------------------------------------------------------- inputs */

/* x as cuBLASLt gets it: rounded, padded. Products of a run share it. */
typedef struct gemm_input {
    uint32_t dtype;
    size_t stride;
    void *x; /* scratch; NULL: not made yet */
} gemm_input;

static pc_status round_rows(pc__cuda_stream *stream, const pc__cuda_gemm_shape *shape,
                            const float *x, size_t rows, void **out)
{
    uint64_t count = (uint64_t)rows * shape->in;
    const uint64_t block = (uint64_t)PC__CUDA_CONVERT_THREADS * PC__CUDA_CONVERT_EACH;
    PC__TRY_RETURN(pc__cuda_scratch_take(stream, count * 2, out));
    pc__cuda_convert_task task = {x, *out, count};
    pc__cuda_grid grid = {(uint32_t)((count + block - 1) / block), 1, 1};
    pc__cuda_launch(stream,
                    shape->dtype == PC_DTYPE_BF16 ? &pc__cuda_kernels.convert_bf16
                                                  : &pc__cuda_kernels.convert_f16,
                    grid, &task);
    return PC_OK;
}

static pc_status pad_rows(pc__cuda_stream *stream, const pc__cuda_gemm_shape *shape, const void *x,
                          size_t rows, void **out)
{
    size_t each = element_of(shape->dtype), row = shape->in * each, step = shape->stride * each;
    PC__TRY_RETURN(pc__cuda_scratch_take(stream, rows * step, out));
    pc__cuda_copy_rows(stream, *out, step, x, row, row, rows);
    return PC_OK;
}

static pc_status make_input(pc__cuda_stream *stream, const pc__cuda_gemm_shape *shape,
                            const float *x, size_t rows, gemm_input *made)
{
    void *rounded = NULL;
    *made = (gemm_input){shape->dtype, stride_of(shape), NULL};
    if (shape->dtype != PC_DTYPE_F32)
        PC__TRY_RETURN(round_rows(stream, shape, x, rows, &rounded));
    if (!shape->stride) {
        made->x = rounded;
        return PC_OK;
    }
    pc_status status = pad_rows(stream, shape, rounded ? rounded : x, rows, &made->x);
    pc__cuda_scratch_give(stream, rounded);
    return status;
}

static pc_status input_of(pc__cuda_stream *stream, const pc__cuda_gemm_shape *shape, const float *x,
                          size_t rows, gemm_input *made, const void **out)
{
    if (made->dtype != shape->dtype || made->stride != stride_of(shape)) {
        pc__cuda_scratch_give(stream, made->x);
        PC__TRY_RETURN(make_input(stream, shape, x, rows, made));
    }
    *out = made->x ? made->x : (const void *)x;
    return PC_OK;
}

/* ------------------------------------------------------------------ products */

/* One product, or two at once. */
typedef struct gemm_call {
    const pc__cuda_product *first;
    const pc__cuda_gemm_shape *shape;
    const pc__cuda_gemm_choice *choice;
    gemm_distance distance;
} gemm_call;

static pc_status multiply(const pc__cuda_stream *stream, const gemm_call *call, const void *x,
                          size_t rows, void *workspace)
{
    const pc__cuda_gemm *gemm = call->first->gemm;
    const float one = 1, zero = 0;
    float *y = call->first->y;
    gemm_layouts l;
    PC__TRY_RETURN(make_layouts(&l, call->shape, rows, call->distance));
    pc_status status = PC__CUBLAS(cublasLtMatmul,
                                  (gemm->blas->handle, gemm->matmul, &one, gemm->weights, &l.a, x,
                                   &l.b, &zero, y, &l.d, y, &l.d, &call->choice->algorithm,
                                   workspace, call->choice->workspace, stream->queue));
    return status;
}

static pc_status run_call(pc__cuda_stream *stream, const gemm_call *call, const float *x,
                          size_t rows, gemm_input *made)
{
    const void *input;
    void *workspace = NULL;
    pc_status status;
    PC__TRY_RETURN(input_of(stream, call->shape, x, rows, made, &input));
    if (call->choice->workspace)
        PC__TRY_RETURN(pc__cuda_scratch_take(stream, call->choice->workspace, &workspace));
    PC__CUDA_QUEUED(stream->device, status, multiply(stream, call, input, rows, workspace));
    pc__cuda_scratch_give(stream, workspace);
    return status;
}

/* Our own kernel, that of experts, with one expert. */
static pc_status run_plain(pc__cuda_stream *stream, const pc__cuda_product *product, const float *x,
                           size_t rows)
{
    const pc__cuda_gemm *gemm = product->gemm;
    const struct expert {
        uint64_t weights, bias;
        uint32_t first[2];
    } host = {
        (uint64_t)(uintptr_t)gemm->given, (uint64_t)(uintptr_t)gemm->bias, {0, (uint32_t)rows}};
    void *memory;
    PC__TRY_RETURN(pc__cuda_scratch_take(stream, sizeof host, &memory));
    const struct expert *device = memory;
    pc__cuda_upload(stream, memory, &host, sizeof host);
    pc__cuda_expert_linear task = {.weights = &device->weights,
                                   .bias = gemm->bias ? &device->bias : NULL,
                                   .x = x,
                                   .first = device->first,
                                   .y = product->y,
                                   .experts = 1,
                                   .in = gemm->shape.in,
                                   .out = gemm->shape.out};
    pc__cuda_launch(
        stream, pc__cuda_for_dtype(&pc__cuda_kernels.expert_linear_f32, gemm->shape.dtype),
        (pc__cuda_grid){(task.out + PC__CUDA_EXPERT_OUT - 1) / PC__CUDA_EXPERT_OUT, 1, 1}, &task);
    pc__cuda_scratch_give(stream, memory);
    return PC_OK;
}

/* Whether two products can be one: with few rows, and the second behind the first in memory. */
static int pairs_with(const pc__cuda_product *a, const pc__cuda_product *b, int row_class)
{
    return row_class + 1 < PC__CUDA_ROW_CLASSES && a->gemm->pairs
           && a->gemm->pairs == b->gemm->pairs && a->gemm->weights < b->gemm->weights
           && a->y < b->y;
}

static gemm_call single(const pc__cuda_product *product, int row_class)
{
    const pc__cuda_gemm *gemm = product->gemm;
    return (gemm_call){
        .first = product, .shape = &gemm->shape, .choice = &gemm->choices->of[row_class]};
}

static gemm_call pair(const pc__cuda_product *a, const pc__cuda_product *b, int row_class)
{
    const pc__cuda_gemm *gemm = a->gemm;
    const uint8_t *from = gemm->weights, *to = b->gemm->weights;
    return (gemm_call){
        .first = a,
        .shape = &gemm->pairs->shape,
        .choice = &gemm->pairs->of[row_class],
        .distance = {(to - from) / (ptrdiff_t)element_of(gemm->shape.dtype), b->y - a->y}};
}

/* The product at `i`, with one of those behind it if they go together; that one is then done. */
static gemm_call call_of(const pc__cuda_product *products, size_t count, size_t i, int row_class,
                         uint64_t *done)
{
    const pc__cuda_product *one = &products[i];
    for (size_t j = i + 1; j < count && j < 64; j++) {
        const pc__cuda_product *other = &products[j];
        int before = pairs_with(one, other, row_class);
        if (*done >> j & 1 || (!before && !pairs_with(other, one, row_class)))
            continue;
        *done |= UINT64_C(1) << j;
        return before ? pair(one, other, row_class) : pair(other, one, row_class);
    }
    return single(one, row_class);
}

void pc__cuda_gemm_run(pc__cuda_stream *stream, const pc__cuda_product *products, size_t count,
                       const float *x, size_t rows)
{
    gemm_input made = {0};
    uint64_t done = 0;
    int row_class = pc__cuda_gemm_class(rows);
    for (size_t i = 0; i < count && rows && stream->status == PC_OK; i++) {
        if (i < 64 && done >> i & 1)
            continue;
        if (!products[i].gemm->choices) {
            pc__cuda_note(stream, run_plain(stream, &products[i], x, rows));
            continue;
        }
        gemm_call call = call_of(products, count, i, row_class, &done);
        pc__cuda_note(stream, run_call(stream, &call, x, rows, &made));
    }
    pc__cuda_scratch_give(stream, made.x);
}

/* -------------------------------------------------------------------- handle */

pc_status pc__cuda_blas_new(pc__cuda_blas **out, pc__cuda_pool *pool)
{
    const pc__cuda_device *device = pc__cuda_pool_device(pool);
    pc__cuda_blas *blas = *out = pc__calloc(&device->mem, 1, sizeof *blas);
    pc_status status;
    if (!blas)
        return PC_ERR_NOMEM;
    blas->pool = pool;
    blas->device = device;
    pthread_mutex_init(&blas->lock, NULL);
    PC__CUDA_ON(device, status, PC__CUBLAS(cublasLtCreate, (&blas->handle)));
    if (status < 0) {
        pc__cuda_fail_in(device, status);
        pc__cuda_blas_free(blas);
        *out = NULL;
    }
    return status;
}

void pc__cuda_blas_free(pc__cuda_blas *blas)
{
    if (!blas)
        return;
    const pc__cuda_device *device = blas->device;
    pc__cuda_caller before;
    if (blas->handle && pc__cuda_enter(&before, device) == PC_OK) {
        cublasLtDestroy(blas->handle);
        pc__cuda_leave(&before);
    }
    pthread_mutex_destroy(&blas->lock);
    for (size_t i = 0; i < blas->count; i++)
        pc__free(&device->mem, blas->choices[i]);
    pc__free(&device->mem, blas->choices);
    pc__free(&device->mem, blas);
}

/* Layers, the choice of their algorithms, and the products that are queued for them. cuBLASLt
 * counts columns first: its matrix A is W [in x out], transposed; B is x [in x rows]; C and D are y
 * [out x rows]. */
#include "cuda/gemm.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/dense_kernels.h"

enum { PROPOSALS = 16, WORKSPACE = 32 << 20 };

typedef struct gemm_choices {
    pc__cuda_gemm_shape shape;
    pc__cuda_gemm_choice of[PC__CUDA_ROW_CLASSES];
} gemm_choices;

struct pc__cuda_blas {
    const pc__cuda_device *device;
    cublasLtHandle_t handle;
    pthread_mutex_t lock;
    gemm_choices *choices; /* one a shape */
    size_t count, capacity;
};

struct pc__cuda_gemm {
    pc__cuda_blas *blas;
    gemm_choices choices;
    const void *weights;
    cublasLtMatmulDesc_t matmul;
    cublasLtMatrixLayout_t a;
};

/* The layouts that depend on the number of rows. */
typedef struct gemm_sides {
    cublasLtMatrixLayout_t b, d;
} gemm_sides;

static cudaDataType_t type_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_BF16 ? CUDA_R_16BF : dtype == PC_DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static pc_status sides_new(gemm_sides *out, const pc__cuda_gemm *gemm, size_t rows)
{
    const pc__cuda_gemm_shape *shape = &gemm->choices.shape;
    *out = (gemm_sides){NULL, NULL};
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatrixLayoutCreate,
                              (&out->b, type_of(shape->dtype), shape->in, rows, shape->in)));
    pc_status status = PC__CUBLAS(cublasLtMatrixLayoutCreate,
                                  (&out->d, CUDA_R_32F, shape->out, rows, shape->out));
    if (status < 0)
        cublasLtMatrixLayoutDestroy(out->b);
    return status;
}

static void sides_free(gemm_sides *sides)
{
    cublasLtMatrixLayoutDestroy(sides->b);
    cublasLtMatrixLayoutDestroy(sides->d);
}

/* ------------------------------------------------------------------- choices */

/* The number of rows that a class is tuned for, and those that are tried. */
static const struct row_class {
    size_t typical, least, most;
} row_classes[PC__CUDA_ROW_CLASSES] = {
    {PC__CUDA_FEW_ROWS, 1, PC__CUDA_FEW_ROWS},
    {PC__CUDA_SOME_ROWS, PC__CUDA_FEW_ROWS + 1, PC__CUDA_SOME_ROWS},
    {512, PC__CUDA_SOME_ROWS + 1, 1 << 16},
};

int pc__cuda_gemm_class(size_t rows)
{
    return rows <= PC__CUDA_FEW_ROWS ? 0 : rows <= PC__CUDA_SOME_ROWS ? 1 : 2;
}

/* Rows begin at multiples of this. */
static uint32_t alignment(size_t row_bytes)
{
    return row_bytes % 16 == 0 ? 16 : row_bytes % 8 == 0 ? 8 : 4;
}

static pc_status set_wishes(const pc__cuda_gemm *gemm, cublasLtMatmulPreference_t wish)
{
    const pc__cuda_gemm_shape *shape = &gemm->choices.shape;
    const size_t workspace = WORKSPACE;
    const uint32_t none = 0, sixteen = 16, y = alignment((size_t)shape->out * 4);
    const uint32_t x = shape->dtype == PC_DTYPE_F32 ? alignment((size_t)shape->in * 4) : 16;
    const struct {
        int32_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof none},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &sixteen, sizeof sixteen},
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
static pc_status try_rows(const pc__cuda_gemm *gemm, const cublasLtMatmulAlgo_t *algorithm,
                          size_t rows, int *fits, size_t *workspace)
{
    gemm_sides sides;
    cublasLtMatmulHeuristicResult_t answer = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    PC__TRY_RETURN(sides_new(&sides, gemm, rows));
    cublasStatus_t result = cublasLtMatmulAlgoCheck(gemm->blas->handle, gemm->matmul, gemm->a,
                                                    sides.b, sides.d, sides.d, algorithm, &answer);
    sides_free(&sides);
    *fits = !result && !answer.state && answer.workspaceSize <= WORKSPACE;
    if (*fits && answer.workspaceSize > *workspace)
        *workspace = answer.workspaceSize;
    if (result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_INVALID_VALUE)
        return PC_OK; /* it does not */
    return pc__cublas_check(result, "cublasLtMatmulAlgoCheck");
}

/* Whether a proposal is good for its class; then the choice is filled. */
static pc_status try_proposal(const pc__cuda_gemm *gemm, const struct row_class *rows,
                              const cublasLtMatmulHeuristicResult_t *proposal, int *fits,
                              pc__cuda_gemm_choice *choice)
{
    algorithm_facts facts = {0, 0, 0, 0, 0};
    const size_t tried[] = {rows->typical, rows->least, rows->most};
    size_t workspace = 0;
    PC__TRY_RETURN(read_facts(&proposal->algo, &facts));
    *fits = facts.splits <= 1 && !facts.reduction;
    for (size_t i = 0; i < sizeof tried / sizeof *tried && *fits; i++)
        PC__TRY_RETURN(try_rows(gemm, &proposal->algo, tried[i], fits, &workspace));
    if (*fits)
        *choice = (pc__cuda_gemm_choice){proposal->algo, workspace, facts.id, facts.tile,
                                         facts.stages};
    return PC_OK;
}

static pc_status propose(const pc__cuda_gemm *gemm, cublasLtMatmulPreference_t wish, size_t rows,
                         cublasLtMatmulHeuristicResult_t *proposals, int32_t *count)
{
    gemm_sides sides;
    PC__TRY_RETURN(sides_new(&sides, gemm, rows));
    pc_status status = PC__CUBLAS(cublasLtMatmulAlgoGetHeuristic,
                                  (gemm->blas->handle, gemm->matmul, gemm->a, sides.b, sides.d,
                                   sides.d, wish, PROPOSALS, proposals, count));
    sides_free(&sides);
    return status;
}

static pc_status choose_class(pc__cuda_gemm *gemm, cublasLtMatmulPreference_t wish, int row_class)
{
    const struct row_class *rows = &row_classes[row_class];
    cublasLtMatmulHeuristicResult_t proposals[PROPOSALS];
    int32_t count = 0;
    memset(proposals, 0, sizeof proposals);
    PC__TRY_RETURN(propose(gemm, wish, rows->typical, proposals, &count));
    for (int32_t i = 0; i < count; i++) {
        int fits = 0;
        if (!proposals[i].state)
            PC__TRY_RETURN(
                try_proposal(gemm, rows, &proposals[i], &fits, &gemm->choices.of[row_class]));
        if (fits)
            return PC_OK;
    }
    return pc__fail(PC_ERR_UNSUPPORTED,
                    "none of %d algorithms of cuBLASLt computes %zu to %zu rows without splitting "
                    "sums",
                    (int)count, rows->least, rows->most);
}

static pc_status choose_all(pc__cuda_gemm *gemm)
{
    cublasLtMatmulPreference_t wish;
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatmulPreferenceCreate, (&wish)));
    pc_status status = set_wishes(gemm, wish);
    for (int i = 0; i < PC__CUDA_ROW_CLASSES && status == PC_OK; i++)
        status = choose_class(gemm, wish, i);
    cublasLtMatmulPreferenceDestroy(wish);
    return status;
}

static const gemm_choices *find(const pc__cuda_blas *blas, const pc__cuda_gemm_shape *shape)
{
    for (size_t i = 0; i < blas->count; i++)
        if (!memcmp(&blas->choices[i].shape, shape, sizeof *shape))
            return &blas->choices[i];
    return NULL;
}

static pc_status choose_locked(pc__cuda_gemm *gemm)
{
    pc__cuda_blas *blas = gemm->blas;
    const gemm_choices *known = find(blas, &gemm->choices.shape);
    if (known) {
        gemm->choices = *known;
        return PC_OK;
    }
    PC__TRY_RETURN(pc__grow(&blas->device->mem, (void **)&blas->choices, &blas->capacity,
                            blas->count + 1, sizeof *blas->choices));
    PC__TRY_RETURN(choose_all(gemm));
    blas->choices[blas->count++] = gemm->choices;
    return PC_OK;
}

static pc_status choose(pc__cuda_gemm *gemm)
{
    pthread_mutex_lock(&gemm->blas->lock);
    pc_status status = choose_locked(gemm);
    pthread_mutex_unlock(&gemm->blas->lock);
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

static pc_status describe(pc__cuda_gemm *gemm, const float *bias)
{
    const pc__cuda_gemm_shape *shape = &gemm->choices.shape;
    const int32_t transposed = CUBLAS_OP_T;
    PC__TRY_RETURN(
        PC__CUBLAS(cublasLtMatmulDescCreate, (&gemm->matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    PC__TRY_RETURN(
        PC__CUBLAS(cublasLtMatmulDescSetAttribute,
                   (gemm->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed)));
    PC__TRY_RETURN(set_bias(gemm->matmul, bias));
    PC__TRY_RETURN(PC__CUBLAS(cublasLtMatrixLayoutCreate,
                              (&gemm->a, type_of(shape->dtype), shape->in, shape->out, shape->in)));
    return choose(gemm);
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
    gemm->choices.shape = *shape;
    gemm->weights = weights;
    pc_status status;
    PC__CUDA_ON(blas->device, status, describe(gemm, bias));
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
    if (gemm->a)
        cublasLtMatrixLayoutDestroy(gemm->a);
    if (gemm->matmul)
        cublasLtMatmulDescDestroy(gemm->matmul);
    pc__free(&device->mem, gemm);
}

const pc__cuda_gemm_choice *pc__cuda_gemm_look(const pc__cuda_gemm *gemm, int row_class)
{
    return &gemm->choices.of[row_class];
}

/* ------------------------------------------------------------------ products */

/* x in one of the formats, for all products of a run that need it. */
typedef struct rounded {
    void *x[2]; /* bf16, fp16; NULL: not made yet */
} rounded;

static pc_status round_to(pc__cuda_stream *stream, const pc__cuda_gemm *gemm, const float *x,
                          size_t rows, void **out)
{
    uint64_t count = (uint64_t)rows * gemm->choices.shape.in;
    const uint64_t block = (uint64_t)PC__CUDA_CONVERT_THREADS * PC__CUDA_CONVERT_EACH;
    PC__TRY_RETURN(pc__cuda_scratch_take(stream, count * 2, out));
    pc__cuda_convert_task task = {x, *out, count};
    pc__cuda_grid grid = {(uint32_t)((count + block - 1) / block), 1, 1};
    pc__cuda_launch(stream,
                    gemm->choices.shape.dtype == PC_DTYPE_BF16 ? &pc__cuda_dense.convert_bf16
                                                               : &pc__cuda_dense.convert_f16,
                    grid, &task);
    return PC_OK;
}

static pc_status input_of(pc__cuda_stream *stream, const pc__cuda_gemm *gemm, const float *x,
                          size_t rows, rounded *made, const void **out)
{
    *out = x;
    if (gemm->choices.shape.dtype == PC_DTYPE_F32)
        return PC_OK;
    void **mine = &made->x[gemm->choices.shape.dtype == PC_DTYPE_F16];
    if (!*mine)
        PC__TRY_RETURN(round_to(stream, gemm, x, rows, mine));
    *out = *mine;
    return PC_OK;
}

/* With the context current and all that cuBLASLt needs. */
static pc_status multiply(const pc__cuda_stream *stream, const pc__cuda_product *product,
                          const void *x, size_t rows, void *workspace)
{
    const pc__cuda_gemm *gemm = product->gemm;
    const pc__cuda_gemm_choice *choice = &gemm->choices.of[pc__cuda_gemm_class(rows)];
    const float one = 1, zero = 0;
    gemm_sides sides;
    PC__TRY_RETURN(sides_new(&sides, gemm, rows));
    pc_status status = PC__CUBLAS(
        cublasLtMatmul, (gemm->blas->handle, gemm->matmul, &one, gemm->weights, gemm->a, x, sides.b,
                         &zero, product->y, sides.d, product->y, sides.d, &choice->algorithm,
                         workspace, choice->workspace, stream->queue));
    sides_free(&sides);
    return status;
}

static pc_status run_one(pc__cuda_stream *stream, const pc__cuda_product *product, const float *x,
                         size_t rows, rounded *made)
{
    size_t bytes = product->gemm->choices.of[pc__cuda_gemm_class(rows)].workspace;
    const void *input;
    void *workspace = NULL;
    PC__TRY_RETURN(input_of(stream, product->gemm, x, rows, made, &input));
    if (bytes)
        PC__TRY_RETURN(pc__cuda_scratch_take(stream, bytes, &workspace));
    pc_status status;
    PC__CUDA_ON(stream->device, status, multiply(stream, product, input, rows, workspace));
    pc__cuda_scratch_give(stream, workspace);
    return status;
}

void pc__cuda_gemm_run(pc__cuda_stream *stream, const pc__cuda_product *products, size_t count,
                       const float *x, size_t rows)
{
    rounded made = {{NULL, NULL}};
    for (size_t i = 0; i < count && rows && stream->status == PC_OK; i++)
        pc__cuda_note(stream, run_one(stream, &products[i], x, rows, &made));
    pc__cuda_scratch_give(stream, made.x[0]);
    pc__cuda_scratch_give(stream, made.x[1]);
}

/* -------------------------------------------------------------------- handle */

pc_status pc__cuda_blas_new(pc__cuda_blas **out, const pc__cuda_device *device)
{
    pc__cuda_blas *blas = *out = pc__calloc(&device->mem, 1, sizeof *blas);
    if (!blas)
        return PC_ERR_NOMEM;
    blas->device = device;
    pthread_mutex_init(&blas->lock, NULL);
    pc_status status;
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
    if (blas->handle) {
        pc__cuda_caller before;
        int entered = pc__cuda_enter(&before, device) == PC_OK;
        cublasLtDestroy(blas->handle);
        if (entered)
            pc__cuda_leave(&before);
    }
    pthread_mutex_destroy(&blas->lock);
    pc__free(&device->mem, blas->choices);
    pc__free(&device->mem, blas);
}

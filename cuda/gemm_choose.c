/* Chooses the algorithms of a shape: for each class of rows, the first that cuBLASLt proposes which
 * does not split sums and computes every number of rows of the class. */
#include "cuda/gemm_internal.h"

#include <string.h>

#include "base/mem.h"

enum { PROPOSALS = 16, WORKSPACE = 32 << 20 };

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

static pc_status set_wishes(const pc__cuda_gemm *gemm, pc__cublas_wish wish)
{
    const pc__cuda_driver *driver = gemm->blas->device->driver;
    const pc__cuda_gemm_shape *shape = &gemm->choices.shape;
    const size_t workspace = WORKSPACE;
    const uint32_t none = 0, sixteen = 16, y = alignment((size_t)shape->out * 4);
    const uint32_t x = shape->dtype == PC_DTYPE_F32 ? alignment((size_t)shape->in * 4) : 16;
    const struct {
        int32_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {PC__CUBLAS_WISH_WORKSPACE, &workspace, sizeof workspace},
        {PC__CUBLAS_WISH_REDUCTIONS, &none, sizeof none},
        {PC__CUBLAS_WISH_ALIGNMENT_A, &sixteen, sizeof sixteen},
        {PC__CUBLAS_WISH_ALIGNMENT_B, &x, sizeof x},
        {PC__CUBLAS_WISH_ALIGNMENT_C, &y, sizeof y},
        {PC__CUBLAS_WISH_ALIGNMENT_D, &y, sizeof y},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        PC__TRY_RETURN(PC__CUBLAS(driver, cublasLtMatmulPreferenceSetAttribute,
                                  (wish, wishes[i].attribute, wishes[i].value, wishes[i].bytes)));
    return PC_OK;
}

/* What an algorithm is, as far as it is looked at. */
typedef struct algorithm_facts {
    int32_t id, tile, splits, reduction, stages;
} algorithm_facts;

static pc_status read_facts(const pc__cuda_driver *driver, const pc__cublas_algorithm *algorithm,
                            algorithm_facts *facts)
{
    const struct {
        int32_t attribute;
        int32_t *value;
    } wanted[] = {
        {PC__CUBLAS_ALGORITHM_ID, &facts->id},
        {PC__CUBLAS_ALGORITHM_TILE, &facts->tile},
        {PC__CUBLAS_ALGORITHM_SPLITS, &facts->splits},
        {PC__CUBLAS_ALGORITHM_REDUCTION, &facts->reduction},
        {PC__CUBLAS_ALGORITHM_STAGES, &facts->stages},
    };
    size_t written;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        PC__TRY_RETURN(PC__CUBLAS(
            driver, cublasLtMatmulAlgoConfigGetAttribute,
            (algorithm, wanted[i].attribute, wanted[i].value, sizeof *wanted[i].value, &written)));
    return PC_OK;
}

/* Whether the algorithm computes this many rows; then the workspace that it needs. */
static pc_status try_rows(const pc__cuda_gemm *gemm, const pc__cublas_algorithm *algorithm,
                          size_t rows, int *fits, size_t *workspace)
{
    const pc__cuda_driver *driver = gemm->blas->device->driver;
    pc__cuda_gemm_sides sides;
    pc__cublas_choice answer = {.status = PC__CUBLAS_NOT_SUPPORTED};
    PC__TRY_RETURN(pc__cuda_gemm_sides_new(&sides, gemm, rows));
    pc__cublas_status result = driver->cublasLtMatmulAlgoCheck(
        gemm->blas->handle, gemm->matmul, gemm->a, sides.b, sides.d, sides.d, algorithm, &answer);
    pc__cuda_gemm_sides_free(&sides, gemm);
    *fits = !result && !answer.status && answer.workspace <= WORKSPACE;
    if (*fits && answer.workspace > *workspace)
        *workspace = answer.workspace;
    if (result == PC__CUBLAS_NOT_SUPPORTED || result == PC__CUBLAS_INVALID_VALUE)
        return PC_OK; /* it does not */
    return pc__cublas_check(driver, result, "cublasLtMatmulAlgoCheck");
}

/* Whether a proposal is good for its class; then the choice is filled. */
static pc_status try_proposal(const pc__cuda_gemm *gemm, const struct row_class *rows,
                              const pc__cublas_choice *proposal, int *fits,
                              pc__cuda_gemm_choice *choice)
{
    algorithm_facts facts = {0, 0, 0, 0, 0};
    const size_t tried[] = {rows->typical, rows->least, rows->most};
    size_t workspace = 0;
    PC__TRY_RETURN(read_facts(gemm->blas->device->driver, &proposal->algorithm, &facts));
    *fits = facts.splits <= 1 && !facts.reduction;
    for (size_t i = 0; i < sizeof tried / sizeof *tried && *fits; i++)
        PC__TRY_RETURN(try_rows(gemm, &proposal->algorithm, tried[i], fits, &workspace));
    if (*fits)
        *choice = (pc__cuda_gemm_choice){proposal->algorithm, workspace, facts.id, facts.tile,
                                         facts.stages};
    return PC_OK;
}

static pc_status propose(const pc__cuda_gemm *gemm, pc__cublas_wish wish, size_t rows,
                         pc__cublas_choice *proposals, int32_t *count)
{
    pc__cuda_gemm_sides sides;
    PC__TRY_RETURN(pc__cuda_gemm_sides_new(&sides, gemm, rows));
    pc_status status = PC__CUBLAS(gemm->blas->device->driver, cublasLtMatmulAlgoGetHeuristic,
                                  (gemm->blas->handle, gemm->matmul, gemm->a, sides.b, sides.d,
                                   sides.d, wish, PROPOSALS, proposals, count));
    pc__cuda_gemm_sides_free(&sides, gemm);
    return status;
}

static pc_status choose_class(pc__cuda_gemm *gemm, pc__cublas_wish wish, int row_class)
{
    const struct row_class *rows = &row_classes[row_class];
    pc__cublas_choice proposals[PROPOSALS];
    int32_t count = 0;
    memset(proposals, 0, sizeof proposals);
    PC__TRY_RETURN(propose(gemm, wish, rows->typical, proposals, &count));
    for (int32_t i = 0; i < count; i++) {
        int fits = 0;
        if (!proposals[i].status)
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
    const pc__cuda_driver *driver = gemm->blas->device->driver;
    pc__cublas_wish wish;
    PC__TRY_RETURN(PC__CUBLAS(driver, cublasLtMatmulPreferenceCreate, (&wish)));
    pc_status status = set_wishes(gemm, wish);
    for (int i = 0; i < PC__CUDA_ROW_CLASSES && status == PC_OK; i++)
        status = choose_class(gemm, wish, i);
    driver->cublasLtMatmulPreferenceDestroy(wish);
    return status;
}

static const pc__cuda_gemm_choices *find(const pc__cuda_blas *blas,
                                         const pc__cuda_gemm_shape *shape)
{
    for (size_t i = 0; i < blas->count; i++)
        if (!memcmp(&blas->choices[i].shape, shape, sizeof *shape))
            return &blas->choices[i];
    return NULL;
}

static pc_status choose_locked(pc__cuda_gemm *gemm)
{
    pc__cuda_blas *blas = gemm->blas;
    const pc__cuda_gemm_choices *known = find(blas, &gemm->choices.shape);
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

pc_status pc__cuda_gemm_choose(pc__cuda_gemm *gemm)
{
    pthread_mutex_lock(&gemm->blas->lock);
    pc_status status = choose_locked(gemm);
    pthread_mutex_unlock(&gemm->blas->lock);
    return status;
}

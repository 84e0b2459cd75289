/* Layers, and the products that are queued for them. */
#include "cuda/gemm_internal.h"

#include "cuda/kernels/convert.h"
#include "base/mem.h"

static int32_t type_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_BF16  ? PC__CUBLAS_BF16
           : dtype == PC_DTYPE_F16 ? PC__CUBLAS_F16
                                   : PC__CUBLAS_F32;
}

/* -------------------------------------------------------------------- layers */

pc_status pc__cuda_gemm_sides_new(pc__cuda_gemm_sides *out, const pc__cuda_gemm *gemm, size_t rows)
{
    const pc__cuda_driver *driver = gemm->blas->device->driver;
    const pc__cuda_gemm_shape *shape = &gemm->choices.shape;
    *out = (pc__cuda_gemm_sides){NULL, NULL};
    PC__TRY_RETURN(PC__CUBLAS(driver, cublasLtMatrixLayoutCreate,
                              (&out->b, type_of(shape->dtype), shape->in, rows, shape->in)));
    pc_status status = PC__CUBLAS(driver, cublasLtMatrixLayoutCreate,
                                  (&out->d, PC__CUBLAS_F32, shape->out, rows, shape->out));
    if (status < 0)
        driver->cublasLtMatrixLayoutDestroy(out->b);
    return status;
}

void pc__cuda_gemm_sides_free(pc__cuda_gemm_sides *sides, const pc__cuda_gemm *gemm)
{
    gemm->blas->device->driver->cublasLtMatrixLayoutDestroy(sides->b);
    gemm->blas->device->driver->cublasLtMatrixLayoutDestroy(sides->d);
}

static pc_status set_bias(const pc__cuda_driver *driver, pc__cublas_matmul matmul,
                          const float *bias)
{
    const int32_t epilogue = bias ? PC__CUBLAS_EPILOGUE_BIAS : PC__CUBLAS_EPILOGUE_NONE;
    PC__TRY_RETURN(PC__CUBLAS(driver, cublasLtMatmulDescSetAttribute,
                              (matmul, PC__CUBLAS_EPILOGUE, &epilogue, sizeof epilogue)));
    if (!bias)
        return PC_OK;
    return PC__CUBLAS(driver, cublasLtMatmulDescSetAttribute,
                      (matmul, PC__CUBLAS_BIAS, &bias, sizeof bias));
}

static pc_status describe(pc__cuda_gemm *gemm, const float *bias)
{
    const pc__cuda_driver *driver = gemm->blas->device->driver;
    const pc__cuda_gemm_shape *shape = &gemm->choices.shape;
    const int32_t transposed = PC__CUBLAS_TRANSPOSED;
    PC__TRY_RETURN(PC__CUBLAS(driver, cublasLtMatmulDescCreate,
                              (&gemm->matmul, PC__CUBLAS_COMPUTE_F32, PC__CUBLAS_F32)));
    PC__TRY_RETURN(
        PC__CUBLAS(driver, cublasLtMatmulDescSetAttribute,
                   (gemm->matmul, PC__CUBLAS_TRANSPOSE_A, &transposed, sizeof transposed)));
    PC__TRY_RETURN(set_bias(driver, gemm->matmul, bias));
    PC__TRY_RETURN(PC__CUBLAS(driver, cublasLtMatrixLayoutCreate,
                              (&gemm->a, type_of(shape->dtype), shape->in, shape->out, shape->in)));
    return pc__cuda_gemm_choose(gemm);
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
    pc_status status = pc__cuda_enter(blas->device);
    if (status == PC_OK) {
        status = describe(gemm, bias);
        pc__cuda_leave(blas->device);
        if (status < 0) {
            pc__fail_in(status, "linear layer of %u inputs, %u outputs", (unsigned)shape->in,
                        (unsigned)shape->out);
            pc__cuda_fail_in(blas->device, status);
        }
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
        device->driver->cublasLtMatrixLayoutDestroy(gemm->a);
    if (gemm->matmul)
        device->driver->cublasLtMatmulDescDestroy(gemm->matmul);
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
                    gemm->choices.shape.dtype == PC_DTYPE_BF16 ? &gemm->blas->to_bf16
                                                               : &gemm->blas->to_f16,
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
    pc__cuda_gemm_sides sides;
    PC__TRY_RETURN(pc__cuda_gemm_sides_new(&sides, gemm, rows));
    pc_status status = PC__CUBLAS(stream->device->driver, cublasLtMatmul,
                                  (gemm->blas->handle, gemm->matmul, &one, gemm->weights, gemm->a,
                                   x, sides.b, &zero, product->y, sides.d, product->y, sides.d,
                                   &choice->algorithm, workspace, choice->workspace,
                                   stream->queue));
    pc__cuda_gemm_sides_free(&sides, gemm);
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
    pc_status status = pc__cuda_enter(stream->device);
    if (status == PC_OK) {
        status = multiply(stream, product, input, rows, workspace);
        pc__cuda_leave(stream->device);
    }
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

static pc_status find_kernels(pc__cuda_blas *blas, const pc__cuda_module *module)
{
    const pc__cuda_kernel_kind to_bf16 = {"pc__cuda_convert_bf16", sizeof(pc__cuda_convert_task),
                                          PC__CUDA_CONVERT_THREADS, 0};
    const pc__cuda_kernel_kind to_f16 = {"pc__cuda_convert_f16", sizeof(pc__cuda_convert_task),
                                         PC__CUDA_CONVERT_THREADS, 0};
    PC__TRY_RETURN(pc__cuda_kernel_find(&blas->to_bf16, module, &to_bf16));
    return pc__cuda_kernel_find(&blas->to_f16, module, &to_f16);
}

static pc_status open_handle(pc__cuda_blas *blas)
{
    PC__TRY_RETURN(pc__cuda_enter(blas->device));
    pc_status status = PC__CUBLAS(blas->device->driver, cublasLtCreate, (&blas->handle));
    pc__cuda_leave(blas->device);
    return status < 0 ? pc__cuda_fail_in(blas->device, status) : PC_OK;
}

pc_status pc__cuda_blas_new(pc__cuda_blas **out, const pc__cuda_device *device,
                            const pc__cuda_module *module)
{
    *out = NULL;
    if (device->driver->no_cublas[0])
        return pc__fail(PC_ERR_UNSUPPORTED, "%s", device->driver->no_cublas);
    pc__cuda_blas *blas = pc__calloc(&device->mem, 1, sizeof *blas);
    if (!blas)
        return PC_ERR_NOMEM;
    blas->device = device;
    pthread_mutex_init(&blas->lock, NULL);
    pc_status status = find_kernels(blas, module);
    if (status == PC_OK)
        status = open_handle(blas);
    if (status < 0)
        pc__cuda_blas_free(blas);
    else
        *out = blas;
    return status;
}

void pc__cuda_blas_free(pc__cuda_blas *blas)
{
    if (!blas)
        return;
    const pc__cuda_device *device = blas->device;
    if (blas->handle) {
        int entered = pc__cuda_enter(device) == PC_OK;
        device->driver->cublasLtDestroy(blas->handle);
        if (entered)
            pc__cuda_leave(device);
    }
    pthread_mutex_destroy(&blas->lock);
    pc__free(&device->mem, blas->choices);
    pc__free(&device->mem, blas);
}

/* cuBLASLt of the fake devices: products by plain loops. What it proposes first splits sums, which
 * must be refused. The order in which an algorithm sums depends on its tile and its splits, and the
 * tile on the number of rows that it was asked for, so that bits tell which algorithm has computed
 * a row. */
#include "fake_device.h"

#include "attn/half.h" /* before NVIDIA's, which have a type `half` */

#include <cstring>
#include <cublasLt.h>

namespace fake {
namespace {

struct Handle {
    Device *device;
};

struct Matmul {
    bool transposed_a = false, bias = false;
    const float *bias_at = nullptr;
};

/* In the caller's memory. */
struct Layout {
    uint64_t mark; /* LAYOUT */
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
    int32_t batch = 1;
    int64_t distance = 0; /* of the matrices of a batch */
};

const uint64_t LAYOUT = 0x4c41594f55544c54;
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout is too large");

struct Wish {
    size_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

/* In an algorithm's words. */
enum { ID, TILE, SPLITS, REDUCTION, STAGES, WORKSPACE };
enum { OURS = 66 };

/* cuBLASLt has a runtime of its own, so that the program's knows nothing of its failures; but a
 * lost device is lost to both. */
cublasStatus_t status_of(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
        return CUBLAS_STATUS_ALLOC_FAILED;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
        return CUBLAS_STATUS_NOT_INITIALIZED;
    default:
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

template <class Body> cublasStatus_t blas_call(const char *name, unsigned kind, Body body)
{
    Guard guard = first();
    cudaError_t failed;
    if (!begin(guard, name, kind, &failed))
        return status_of(failed);
    cublasStatus_t status = body();
    return status ? status : status_of(failed);
}

template <class Object, class Opaque> void make(Opaque *out, Object object, const char *what)
{
    Object *made = new Object(object);
    machine->cublas[made] = what;
    *out = reinterpret_cast<Opaque>(made);
}

template <class Object, class Opaque> Object *look(Opaque handle)
{
    Object *object = reinterpret_cast<Object *>(handle);
    return machine->cublas.count(object) ? object : nullptr;
}

template <> Layout *look<Layout>(cublasLtMatrixLayout_t handle)
{
    Layout *layout = reinterpret_cast<Layout *>(handle);
    return layout && layout->mark == LAYOUT ? layout : nullptr;
}

template <class Object, class Opaque> cublasStatus_t drop(const char *name, Opaque handle)
{
    return blas_call(name, GIVES, [=] {
        Object *object = look<Object>(handle);
        if (!object)
            return CUBLAS_STATUS_INVALID_VALUE;
        machine->cublas.erase(object);
        delete object;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t set(Matmul *matmul, cublasLtMatmulDescAttributes_t attribute, const void *value,
                   size_t bytes)
{
    int32_t number = 0;
    if (matmul && attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof(void *)) {
        memcpy(&matmul->bias_at, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (!matmul || bytes != sizeof number)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&number, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
        matmul->transposed_a = number == CUBLAS_OP_T;
    else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
        matmul->bias = number == CUBLASLT_EPILOGUE_BIAS;
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(Layout *layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                   size_t bytes)
{
    if (layout && attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof layout->batch)
        memcpy(&layout->batch, value, bytes);
    else if (layout && attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
             && bytes == sizeof layout->distance)
        memcpy(&layout->distance, value, bytes);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(Wish *wish, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                   size_t bytes)
{
    if (!wish)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof wish->workspace)
        memcpy(&wish->workspace, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
             && bytes == sizeof wish->reductions)
        memcpy(&wish->reductions, value, bytes);
    else if (bytes != sizeof(uint32_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* y = W x as cuBLASLt sees it: A [in x out] transposed, B [in x rows], D [out x rows]. */
bool fit(const Matmul *matmul, const Layout *a, const Layout *b, const Layout *d)
{
    return matmul && a && b && d && matmul->transposed_a && a->type == b->type
           && d->type == CUDA_R_32F && a->rows == b->rows && a->columns == d->rows
           && b->columns == d->columns && a->batch == b->batch && b->batch == d->batch
           && a->stride >= int64_t(a->rows) && b->stride >= int64_t(b->rows)
           && d->stride >= int64_t(d->rows);
}

size_t number_bytes(const Layout &layout)
{
    return layout.type == CUDA_R_32F ? 4 : 2;
}

bool is_aligned(const Layout &layout)
{
    return size_t(layout.stride) * number_bytes(layout) % 16 == 0;
}

cublasLtMatmulHeuristicResult_t choice_of(uint64_t tile, uint64_t splits,
                                          cublasLtReductionScheme_t reduction, size_t workspace)
{
    cublasLtMatmulHeuristicResult_t choice = {};
    choice.algo = {{OURS, tile, splits, uint64_t(reduction), 3, workspace, 0, 0}};
    choice.workspaceSize = workspace;
    return choice;
}

/* The first two are never what was asked for: parts of sums that are added in any order, and more
 * workspace. */
std::vector<cublasLtMatmulHeuristicResult_t> choices_for(const Wish &wish, const Layout &a,
                                                         const Layout &b)
{
    uint32_t lacks = machine->options.blas;
    uint64_t tile = b.columns <= 16 ? 16 : b.columns <= 64 ? 32 : 64;
    bool splits = wish.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    std::vector<cublasLtMatmulHeuristicResult_t> all = {
        choice_of(tile, 4, CUBLASLT_REDUCTION_SCHEME_INPLACE, 0),
        choice_of(8, 1, CUBLASLT_REDUCTION_SCHEME_NONE, wish.workspace + 1)};
    if ((lacks & PC_FAKE_BLAS_ALL)
        || ((lacks & PC_FAKE_BLAS_UNALIGNED) && !(is_aligned(a) && is_aligned(b)))
        || ((lacks & PC_FAKE_BLAS_WHOLE_SUMS) && !splits))
        return {};
    if (splits)
        all.push_back(choice_of(tile, 3, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 8192));
    if (!(lacks & PC_FAKE_BLAS_WHOLE_SUMS))
        all.push_back(choice_of(tile, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 4096));
    return all;
}

float number(const void *numbers, cudaDataType type, size_t i)
{
    if (type == CUDA_R_32F)
        return static_cast<const float *>(numbers)[i];
    uint16_t bits = static_cast<const uint16_t *>(numbers)[i];
    return type == CUDA_R_16F ? pc__half_to(bits) : pc__bf16_to(bits);
}

struct Product {
    Layout a, b, d;
    const void *a_at, *b_at;
    const float *bias;
    float *d_at;
    uint64_t tile, splits;

    /* Sums of `tile` products each, then the sum of these. */
    float part(size_t out, size_t row, size_t from, size_t to) const
    {
        float sum = 0;
        for (size_t start = from; start < to; start += tile) {
            float few = 0;
            for (size_t i = start; i < std::min<size_t>(to, start + tile); i++)
                few += number(a_at, a.type, out * size_t(a.stride) + i)
                       * number(b_at, b.type, row * size_t(b.stride) + i);
            sum += few;
        }
        return sum;
    }
    float dot(size_t out, size_t row) const
    {
        size_t each = (a.rows + splits - 1) / splits;
        float sum = 0;
        for (size_t from = 0; from < a.rows; from += each)
            sum += part(out, row, from, std::min<size_t>(a.rows, from + each));
        return sum;
    }
    void run() const
    {
        for (size_t row = 0; row < d.columns; row++)
            for (size_t out = 0; out < d.rows; out++)
                d_at[row * size_t(d.stride) + out] = dot(out, row) + (bias ? bias[out] : 0);
    }
};

/* Of one matrix. */
size_t bytes_of(const Layout &layout)
{
    return ((layout.columns - 1) * size_t(layout.stride) + layout.rows) * number_bytes(layout);
}

template <class Pointer> Pointer *reach(Device *device, Pointer *address, size_t bytes)
{
    void *found = device->memory.find(reinterpret_cast<uint64_t>(address), bytes);
    return static_cast<Pointer *>(found);
}

/* The matrix `i` of a batch; all have the same type. */
template <class Pointer> Pointer *one_of(Pointer *first, const Layout &layout, int32_t i)
{
    int64_t bytes = layout.distance * i * int64_t(number_bytes(layout));
    return reinterpret_cast<Pointer *>(reinterpret_cast<uint64_t>(first) + uint64_t(bytes));
}

/* On the devices' thread. */
cudaError_t run_one(Device *device, Product product, const void *workspace, size_t workspace_bytes)
{
    float *y = product.d_at;
    size_t bytes = bytes_of(product.d);
    product.a_at = reach(device, product.a_at, bytes_of(product.a));
    product.b_at = reach(device, product.b_at, bytes_of(product.b));
    product.d_at = reach(device, y, bytes);
    bool all = product.a_at && product.b_at && product.d_at;
    if (product.bias)
        all = (product.bias = reach(device, product.bias, product.d.rows * 4)) && all;
    if (!all || (workspace_bytes && !reach(device, workspace, workspace_bytes)))
        return cudaErrorIllegalAddress;
    product.run();
    watcher().written(y, bytes);
    return cudaSuccess;
}

cudaError_t run(Device *device, const Product &all, const void *workspace, size_t workspace_bytes)
{
    std::lock_guard<std::mutex> inner(lock);
    cudaError_t error = cudaSuccess;
    for (int32_t i = 0; i < all.d.batch && !error; i++) {
        Product one = all;
        one.a_at = one_of(all.a_at, all.a, i);
        one.b_at = one_of(all.b_at, all.b, i);
        one.d_at = one_of(all.d_at, all.d, i);
        error = run_one(device, one, workspace, workspace_bytes);
    }
    return error;
}

} // namespace
} // namespace fake

using namespace fake;

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    default:
        return "CUBLAS_STATUS_INVALID_VALUE";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status ? "an error of the fake device" : "success";
}

/* ------------------------------------------------------------------- objects */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    return blas_call("cublasLtCreate", ON_DEVICE, [=] {
        make(out, Handle{current()}, "handle");
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return drop<Handle>("cublasLtDestroy", handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    return blas_call("cublasLtMatmulDescCreate", ANY_TIME, [=] {
        if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
            return CUBLAS_STATUS_NOT_SUPPORTED;
        make(out, Matmul(), "matmul");
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul)
{
    return drop<Matmul>("cublasLtMatmulDescDestroy", matmul);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    return blas_call("cublasLtMatmulDescSetAttribute", ANY_TIME,
                     [=] { return set(look<Matmul>(matmul), attribute, value, bytes); });
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t stride)
{
    return blas_call("cublasLtMatrixLayoutInit", ANY_TIME, [=] {
        if (size < sizeof(Layout))
            return CUBLAS_STATUS_ALLOC_FAILED;
        new (layout) Layout{LAYOUT, type, rows, columns, stride};
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    return blas_call("cublasLtMatrixLayoutSetAttribute", ANY_TIME,
                     [=] { return set(look<Layout>(layout), attribute, value, bytes); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return blas_call("cublasLtMatmulPreferenceCreate", ANY_TIME, [=] {
        make(out, Wish(), "preference");
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish)
{
    return drop<Wish>("cublasLtMatmulPreferenceDestroy", wish);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    return blas_call("cublasLtMatmulPreferenceSetAttribute", ANY_TIME,
                     [=] { return set(look<Wish>(wish), attribute, value, bytes); });
}

/* ---------------------------------------------------------------- algorithms */

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t choices[], int *count)
{
    return blas_call("cublasLtMatmulAlgoGetHeuristic", ANY_TIME, [=] {
        const Layout *al = look<Layout>(a), *bl = look<Layout>(b), *dl = look<Layout>(d);
        const Wish *wish = look<Wish>(preference);
        *count = 0;
        if (!look<Handle>(handle) || !wish || !fit(look<Matmul>(matmul), al, bl, dl))
            return CUBLAS_STATUS_INVALID_VALUE;
        for (const auto &choice : choices_for(*wish, *al, *bl))
            if (*count < most)
                choices[(*count)++] = choice;
        return *count || (machine->options.blas & PC_FAKE_BLAS_NO_RESULTS)
                   ? CUBLAS_STATUS_SUCCESS
                   : CUBLAS_STATUS_NOT_SUPPORTED;
    });
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t matmul,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *choice)
{
    return blas_call("cublasLtMatmulAlgoCheck", ANY_TIME, [=] {
        if (!fit(look<Matmul>(matmul), look<Layout>(a), look<Layout>(b), look<Layout>(d)))
            return CUBLAS_STATUS_INVALID_VALUE;
        choice->algo = *algorithm;
        choice->workspaceSize = algorithm->data[WORKSPACE];
        choice->state = CUBLAS_STATUS_SUCCESS;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written)
{
    static const std::map<int, int> words = {{CUBLASLT_ALGO_CONFIG_ID, ID},
                                             {CUBLASLT_ALGO_CONFIG_TILE_ID, TILE},
                                             {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, SPLITS},
                                             {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, REDUCTION},
                                             {CUBLASLT_ALGO_CONFIG_STAGES_ID, STAGES}};
    return blas_call("cublasLtMatmulAlgoConfigGetAttribute", ANY_TIME, [=] {
        auto word = words.find(attribute);
        if (word == words.end() || bytes != sizeof(int32_t))
            return CUBLAS_STATUS_INVALID_VALUE;
        int32_t number = int32_t(algorithm->data[word->second]);
        memcpy(value, &number, sizeof number);
        *written = sizeof number;
        return CUBLAS_STATUS_SUCCESS;
    });
}

/* ------------------------------------------------------------------- product */

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                              cudaStream_t stream)
{
    return blas_call("cublasLtMatmul", ON_DEVICE, [=] {
        const Handle *blas = look<Handle>(handle);
        const Matmul *matmul = look<Matmul>(desc);
        const Layout *al = look<Layout>(a_layout), *bl = look<Layout>(b_layout),
                     *dl = look<Layout>(d_layout);
        Queue *queue = find_queue(stream);
        float one, zero;
        memcpy(&one, alpha, sizeof one);
        memcpy(&zero, beta, sizeof zero);
        if (!blas || blas->device != current() || !queue || queue->device != current()
            || !fit(matmul, al, bl, dl) || c != d || c_layout != d_layout || one != 1 || zero != 0
            || !algorithm || algorithm->data[ID] != OURS || bytes < algorithm->data[WORKSPACE])
            return CUBLAS_STATUS_INVALID_VALUE;
        Product product = {*al,
                           *bl,
                           *dl,
                           a,
                           b,
                           matmul->bias ? matmul->bias_at : nullptr,
                           static_cast<float *>(d),
                           algorithm->data[TILE],
                           algorithm->data[SPLITS]};
        Operation operation;
        operation.run = [=] { return run(queue->device, product, workspace, bytes); };
        return status_of(submit(queue, std::move(operation)));
    });
}

/* cuBLASLt of the fake device: products by plain loops. What it proposes first splits sums, which
 * must be refused. The order in which an algorithm sums depends on its tile, and its tile on the
 * number of rows that it was asked for, so that bits tell which algorithm has computed a row. */
#include "fake_device.h"

#include <cstring>

#include "attn/half.h"

namespace fake {
namespace {

struct Matmul {
    bool transposed_a = false, bias = false;
    const float *bias_at = nullptr;
};

struct Layout {
    int32_t type;
    uint64_t rows, columns;
    int64_t stride;
};

struct Wish {
    size_t workspace = 0;
    uint32_t reductions = 7;
};

/* In an algorithm's words. */
enum { ID, TILE, SPLITS, REDUCTION, STAGES, WORKSPACE };
const int32_t OURS = 66;

/* Statuses of cuBLASLt for a failure on order. */
bool fails_blas(const char *name, bool giving, pc__cublas_status *status)
{
    bool failed = fails(name, giving, status);
    if (failed)
        *status = *status == PC__CUDA_OUT_OF_MEMORY ? PC__CUBLAS_ALLOC_FAILED
                                                    : PC__CUBLAS_EXECUTION_FAILED;
    return failed;
}

#define BEGIN(name)                                   \
    std::unique_lock<std::mutex> guard(device->lock); \
    pc__cublas_status status;                         \
    if (fails_blas(name, false, &status))             \
        return status;
#define GIVES(name)                                   \
    std::unique_lock<std::mutex> guard(device->lock); \
    pc__cublas_status status;                         \
    fails_blas(name, true, &status);

template <class Object, class Handle> void make(Handle *out, Object object, const char *what)
{
    Object *made = new Object(object);
    device->cublas[made] = what;
    *out = reinterpret_cast<Handle>(made);
}

template <class Object, class Handle> pc__cublas_status drop(Handle handle)
{
    Object *object = reinterpret_cast<Object *>(handle);
    if (!device->cublas.erase(object))
        return PC__CUBLAS_INVALID_VALUE;
    delete object;
    return 0;
}

template <class Object, class Handle> const Object *look(Handle handle)
{
    Object *object = reinterpret_cast<Object *>(handle);
    return device->cublas.count(object) ? object : nullptr;
}

pc__cublas_status create(pc__cublas_handle *handle)
{
    BEGIN("cublasLtCreate");
    make(handle, int(0), "handle");
    return 0;
}

pc__cublas_status destroy(pc__cublas_handle handle)
{
    GIVES("cublasLtDestroy");
    pc__cublas_status dropped = drop<int>(handle);
    return dropped ? dropped : status;
}

pc__cublas_status matmul_new(pc__cublas_matmul *matmul, int32_t compute, int32_t scale)
{
    BEGIN("cublasLtMatmulDescCreate");
    if (compute != PC__CUBLAS_COMPUTE_F32 || scale != PC__CUBLAS_F32)
        return PC__CUBLAS_NOT_SUPPORTED;
    make(matmul, Matmul(), "matmul");
    return 0;
}

pc__cublas_status matmul_free(pc__cublas_matmul matmul)
{
    GIVES("cublasLtMatmulDescDestroy");
    pc__cublas_status dropped = drop<Matmul>(matmul);
    return dropped ? dropped : status;
}

pc__cublas_status matmul_set(pc__cublas_matmul handle, int32_t attribute, const void *value,
                             size_t bytes)
{
    BEGIN("cublasLtMatmulDescSetAttribute");
    Matmul *matmul = reinterpret_cast<Matmul *>(handle);
    int32_t number = 0;
    if (attribute == PC__CUBLAS_BIAS && bytes == sizeof(void *)) {
        memcpy(&matmul->bias_at, value, bytes);
        return 0;
    }
    if (bytes != sizeof number)
        return PC__CUBLAS_INVALID_VALUE;
    memcpy(&number, value, bytes);
    if (attribute == PC__CUBLAS_TRANSPOSE_A)
        matmul->transposed_a = number == PC__CUBLAS_TRANSPOSED;
    else if (attribute == PC__CUBLAS_EPILOGUE)
        matmul->bias = number == PC__CUBLAS_EPILOGUE_BIAS;
    else
        return PC__CUBLAS_INVALID_VALUE;
    return 0;
}

pc__cublas_status layout_new(pc__cublas_layout *layout, int32_t type, uint64_t rows,
                             uint64_t columns, int64_t stride)
{
    BEGIN("cublasLtMatrixLayoutCreate");
    make(layout, Layout{type, rows, columns, stride}, "layout");
    return 0;
}

pc__cublas_status layout_free(pc__cublas_layout layout)
{
    GIVES("cublasLtMatrixLayoutDestroy");
    pc__cublas_status dropped = drop<Layout>(layout);
    return dropped ? dropped : status;
}

pc__cublas_status wish_new(pc__cublas_wish *wish)
{
    BEGIN("cublasLtMatmulPreferenceCreate");
    make(wish, Wish(), "preference");
    return 0;
}

pc__cublas_status wish_free(pc__cublas_wish wish)
{
    GIVES("cublasLtMatmulPreferenceDestroy");
    pc__cublas_status dropped = drop<Wish>(wish);
    return dropped ? dropped : status;
}

pc__cublas_status wish_set(pc__cublas_wish handle, int32_t attribute, const void *value,
                           size_t bytes)
{
    BEGIN("cublasLtMatmulPreferenceSetAttribute");
    Wish *wish = reinterpret_cast<Wish *>(handle);
    if (attribute == PC__CUBLAS_WISH_WORKSPACE && bytes == sizeof wish->workspace)
        memcpy(&wish->workspace, value, bytes);
    else if (attribute == PC__CUBLAS_WISH_REDUCTIONS && bytes == sizeof wish->reductions)
        memcpy(&wish->reductions, value, bytes);
    else if (bytes != sizeof(uint32_t))
        return PC__CUBLAS_INVALID_VALUE;
    return 0;
}

/* y = W x as cuBLASLt sees it: A [in x out] transposed, B [in x rows], D [out x rows]. */
bool fit(const Matmul *matmul, const Layout *a, const Layout *b, const Layout *d)
{
    return matmul && a && b && d && matmul->transposed_a && a->type == b->type
           && d->type == PC__CUBLAS_F32 && a->rows == b->rows && a->columns == d->rows
           && b->columns == d->columns && a->stride >= int64_t(a->rows)
           && b->stride >= int64_t(b->rows) && d->stride >= int64_t(d->rows);
}

pc__cublas_choice choice_of(uint64_t tile, uint64_t splits, size_t workspace)
{
    pc__cublas_choice choice = {};
    choice.algorithm = {{uint64_t(OURS), tile, splits, splits > 1 ? 2u : 0u, 3, workspace, 0, 0}};
    choice.workspace = workspace;
    return choice;
}

pc__cublas_status heuristic(pc__cublas_handle, pc__cublas_matmul matmul, pc__cublas_layout a,
                            pc__cublas_layout b, pc__cublas_layout, pc__cublas_layout d,
                            pc__cublas_wish handle, int32_t most, pc__cublas_choice *choices,
                            int32_t *count)
{
    BEGIN("cublasLtMatmulAlgoGetHeuristic");
    const Layout *rows = look<Layout>(d);
    const Wish *wish = look<Wish>(handle);
    if (!wish || !fit(look<Matmul>(matmul), look<Layout>(a), look<Layout>(b), rows))
        return PC__CUBLAS_INVALID_VALUE;
    uint64_t tile = rows->columns <= 16 ? 16 : rows->columns <= 64 ? 32 : 64;
    const pc__cublas_choice all[] = {choice_of(tile, 4, 0), choice_of(8, 1, wish->workspace + 1),
                                     choice_of(tile, 1, 4096)};
    *count = std::min(most, 3);
    for (int32_t i = 0; i < *count; i++)
        choices[i] = all[i];
    return 0;
}

pc__cublas_status check(pc__cublas_handle, pc__cublas_matmul matmul, pc__cublas_layout a,
                        pc__cublas_layout b, pc__cublas_layout, pc__cublas_layout d,
                        const pc__cublas_algorithm *algorithm, pc__cublas_choice *choice)
{
    BEGIN("cublasLtMatmulAlgoCheck");
    if (!fit(look<Matmul>(matmul), look<Layout>(a), look<Layout>(b), look<Layout>(d)))
        return PC__CUBLAS_INVALID_VALUE;
    choice->algorithm = *algorithm;
    choice->workspace = algorithm->data[WORKSPACE];
    choice->status = 0;
    return 0;
}

pc__cublas_status get(const pc__cublas_algorithm *algorithm, int32_t attribute, void *value,
                      size_t bytes, size_t *written)
{
    BEGIN("cublasLtMatmulAlgoConfigGetAttribute");
    static const std::map<int, int> words = {{PC__CUBLAS_ALGORITHM_ID, ID},
                                             {PC__CUBLAS_ALGORITHM_TILE, TILE},
                                             {PC__CUBLAS_ALGORITHM_SPLITS, SPLITS},
                                             {PC__CUBLAS_ALGORITHM_REDUCTION, REDUCTION},
                                             {PC__CUBLAS_ALGORITHM_STAGES, STAGES}};
    auto word = words.find(attribute);
    if (word == words.end() || bytes != sizeof(int32_t))
        return PC__CUBLAS_INVALID_VALUE;
    int32_t number = int32_t(algorithm->data[word->second]);
    memcpy(value, &number, sizeof number);
    *written = sizeof number;
    return 0;
}

float number(const void *numbers, int32_t type, size_t i)
{
    if (type == PC__CUBLAS_F32)
        return static_cast<const float *>(numbers)[i];
    uint16_t bits = static_cast<const uint16_t *>(numbers)[i];
    return type == PC__CUBLAS_F16 ? pc__half_to(bits) : pc__bf16_to(bits);
}

struct Product {
    Layout a, b, d;
    const void *a_at, *b_at;
    const float *bias;
    float *d_at;
    uint64_t tile;

    /* Sums of `tile` products each, then the sum of these. */
    float dot(size_t out, size_t row) const
    {
        float sum = 0;
        for (size_t start = 0; start < a.rows; start += tile) {
            float part = 0;
            for (size_t i = start; i < std::min<size_t>(a.rows, start + tile); i++)
                part += number(a_at, a.type, out * size_t(a.stride) + i)
                        * number(b_at, b.type, row * size_t(b.stride) + i);
            sum += part;
        }
        return sum;
    }
    void run() const
    {
        for (size_t row = 0; row < d.columns; row++)
            for (size_t out = 0; out < d.rows; out++)
                d_at[row * size_t(d.stride) + out] = dot(out, row) + (bias ? bias[out] : 0);
    }
};

size_t bytes_of(const Layout &layout)
{
    size_t each = layout.type == PC__CUBLAS_F32 ? 4 : 2;
    return ((layout.columns - 1) * size_t(layout.stride) + layout.rows) * each;
}

template <class Pointer> Pointer *reach(Pointer *address, size_t bytes)
{
    void *found = device->memory.find(reinterpret_cast<uint64_t>(address), bytes);
    return static_cast<Pointer *>(found);
}

/* On the device's thread. */
pc__cuda_result run(Product product, const void *workspace, size_t workspace_bytes)
{
    std::lock_guard<std::mutex> inner(device->lock);
    float *y = product.d_at;
    size_t bytes = bytes_of(product.d);
    product.a_at = reach(product.a_at, bytes_of(product.a));
    product.b_at = reach(product.b_at, bytes_of(product.b));
    product.d_at = reach(y, bytes);
    bool all = product.a_at && product.b_at && product.d_at;
    if (product.bias)
        all = (product.bias = reach(product.bias, product.d.rows * 4)) && all;
    if (!all || (workspace_bytes && !reach(workspace, workspace_bytes)))
        return PC__CUDA_ILLEGAL_ADDRESS;
    product.run();
    watcher().written(y, bytes);
    return 0;
}

pc__cublas_status multiply(pc__cublas_handle handle, pc__cublas_matmul desc, const void *alpha,
                           const void *a, pc__cublas_layout a_layout, const void *b,
                           pc__cublas_layout b_layout, const void *beta, const void *c,
                           pc__cublas_layout c_layout, void *d, pc__cublas_layout d_layout,
                           const pc__cublas_algorithm *algorithm, void *workspace, size_t bytes,
                           pc__cuda_queue where)
{
    BEGIN("cublasLtMatmul");
    Queue *queue = where ? reinterpret_cast<Queue *>(where) : &device->standard;
    const Matmul *matmul = look<Matmul>(desc);
    const Layout *al = look<Layout>(a_layout), *bl = look<Layout>(b_layout),
                 *dl = look<Layout>(d_layout);
    float one, zero;
    memcpy(&one, alpha, sizeof one);
    memcpy(&zero, beta, sizeof zero);
    if (!look<int>(handle) || !fit(matmul, al, bl, dl) || c != d || c_layout != d_layout || one != 1
        || zero != 0 || !device->knows(queue) || algorithm->data[ID] != uint64_t(OURS)
        || bytes < algorithm->data[WORKSPACE])
        return PC__CUBLAS_INVALID_VALUE;
    if (device->lost)
        return PC__CUBLAS_EXECUTION_FAILED;
    Product product = {*al,
                       *bl,
                       *dl,
                       a,
                       b,
                       matmul->bias ? matmul->bias_at : nullptr,
                       static_cast<float *>(d),
                       algorithm->data[TILE]};
    Operation operation;
    operation.run = [=] { return run(product, workspace, bytes); };
    device->add(queue, std::move(operation));
    return 0;
}

const char *status_name(pc__cublas_status status)
{
    return status == PC__CUBLAS_ALLOC_FAILED ? "CUBLAS_STATUS_ALLOC_FAILED"
                                             : "CUBLAS_STATUS_OF_THE_FAKE";
}

} // namespace

void fill_cublas(pc__cuda_driver *table)
{
    table->cublasLtCreate = create;
    table->cublasLtDestroy = destroy;
    table->cublasLtMatmulDescCreate = matmul_new;
    table->cublasLtMatmulDescDestroy = matmul_free;
    table->cublasLtMatmulDescSetAttribute = matmul_set;
    table->cublasLtMatrixLayoutCreate = layout_new;
    table->cublasLtMatrixLayoutDestroy = layout_free;
    table->cublasLtMatmulPreferenceCreate = wish_new;
    table->cublasLtMatmulPreferenceDestroy = wish_free;
    table->cublasLtMatmulPreferenceSetAttribute = wish_set;
    table->cublasLtMatmulAlgoGetHeuristic = heuristic;
    table->cublasLtMatmulAlgoCheck = check;
    table->cublasLtMatmulAlgoConfigGetAttribute = get;
    table->cublasLtMatmul = multiply;
    table->cublasLtGetStatusName = status_name;
}

} // namespace fake

/* The backend "cuda": the operations of attn/backend.h on one device. backend_cuda.c has the
 * instance, its memory, its streams and the table of kernels; backend_cuda_attend.c and
 * backend_cuda_maps.c have attention, also in queues of the application; the other files have the
 * operations on rows, and linear layers. */
#ifndef PC_CUDA_BACKEND_CUDA_H
#define PC_CUDA_BACKEND_CUDA_H

#include "attn/backend.h"
#include "cuda/gemm.h"
#include "cuda/kernel_table.h"

/* Kernels of attention by number: the pc__cuda_attend_… kernels, a format after the other, then
 * that for all shapes. */
#define PC__CUDA_ONE_SHAPE(format, k_dim, v_dim) +1
enum {
    PC__CUDA_ATTEND_SHAPES = 0 PC__CUDA_SHAPES(PC__CUDA_ONE_SHAPE, ), /* of a format */
    PC__CUDA_ATTEND_NAIVE = 4 * PC__CUDA_ATTEND_SHAPES,
    PC__CUDA_ATTEND_KERNELS
};

typedef struct pc__cuda_ready { /* a kernel that is prepared when it is first launched */
    pc__cuda_kernel kernel;
    int blocks_at_once; /* on a multiprocessor; 0: it is not prepared */
} pc__cuda_ready;

typedef struct pc__cuda_backend {
    pc__backend base;
    pc__cuda_device *device;
    pc__cuda_pool *pool;
    pc__cuda_blas *blas; /* NULL: not needed yet */
    pc__cuda_ready attention[PC__CUDA_ATTEND_KERNELS];
    pthread_mutex_t lock;      /* of these, and of the next two */
    pc__cuda_stream *visitors; /* those without a plan, the longest idle first */
    size_t visitor_count;
    pthread_mutex_t idle_lock;            /* of the next two; also where memory is short */
    struct pc__cuda_backend_stream *idle; /* streams that are kept */
    size_t idle_count;
} pc__cuda_backend;

typedef struct pc__cuda_backend_stream {
    pc__stream base;
    pc__cuda_stream *cuda;
    struct pc__cuda_backend_stream *next; /* of those that are idle */
} pc__cuda_backend_stream;

static inline pc__cuda_backend *pc__cuda_backend_of(const pc__backend *backend)
{
    return (pc__cuda_backend *)(uintptr_t)backend;
}

static inline pc__cuda_stream *pc__cuda_stream_of(const pc__stream *stream)
{
    return ((const pc__cuda_backend_stream *)stream)->cuda;
}

/* Opens the context's device. limit: bytes of device memory that it may hold; 0: what there is.
 * PC_ERR_UNSUPPORTED: why not. */
pc_status pc__cuda_backend_new(pc__backend **out, pc_context *context, size_t limit);

/* cuBLASLt, opened at first use: attention alone does without it. Any thread. As pc__cuda_blas_new.
 */
pc_status pc__cuda_backend_blas(pc__cuda_blas **out, pc__backend *backend);

extern const pc__plan_limits pc__cuda_plan_limits; /* backend_cuda_attend.c */
/* Frees the visitors that were put back; waits for their work. */
void pc__cuda_visitors_free(pc__cuda_backend *backend);

/* The operations of the other files: pc__cuda_op_NAME is the NAME of pc__backend_ops. */
#define PC__CUDA_OPS(X) \
    X(linear_new)       \
    X(linear_free)      \
    X(linear_bytes)     \
    X(linear_run)       \
    X(linear_join)      \
    X(table_new)        \
    X(table_of)         \
    X(table_free)       \
    X(table_bytes)      \
    X(look_up)          \
    X(experts_scratch)  \
    X(experts)          \
    X(pointwise)        \
    X(add)              \
    X(activate)         \
    X(gate)             \
    X(rms_norm)         \
    X(layer_norm)       \
    X(gather)           \
    X(scale_rows)       \
    X(neighbours)       \
    X(store_kv)         \
    X(sample)           \
    X(attend)           \
    X(attend_queued)    \
    X(mark_queue)       \
    X(await_mark)       \
    X(attention_map)    \
    X(apply_maps)       \
    X(record_maps)
#define PC__CUDA_DECLARE_OP(name) __typeof__(*((pc__backend_ops *)NULL)->name) pc__cuda_op_##name;
PC__CUDA_OPS(PC__CUDA_DECLARE_OP)
#undef PC__CUDA_DECLARE_OP

/* ------------------------------------------------------------------ shared by operations */

static inline float *pc__cuda_floats(const pc__floats *x)
{
    return (float *)(uintptr_t)x;
}

static inline int pc__cuda_aligned(const void *x)
{
    return ((uintptr_t)x & 15) == 0;
}

pc__cuda_page_shape pc__cuda_page_shape_of(const pc__kv_shape *shape);

/* A launch with blocks in x alone. */
void pc__cuda_launch_rows(pc__stream *stream, const pc__cuda_kernel *kernel, size_t blocks,
                          const void *task);
/* Scratch of the stream; after an error NULL, and the stream has the error. Given back by
 * pc__cuda_done_with, once the work that uses it is queued. */
void *pc__cuda_scratch_of(pc__stream *stream, size_t bytes);
void pc__cuda_done_with(pc__stream *stream, const void *scratch); /* NULL does nothing */
/* Host memory for a list; NULL: the stream has the error. Freed by pc__free. */
void *pc__cuda_host_list(pc__stream *stream, size_t count, size_t bytes);

/* The angles of `rows` positions, [row][dims / 2]: kept lists, because all layers of a forward pass
 * rotate by the same positions, and those of a plan of pc_attend by the same distances. They are
 * computed now, on the threads of the context, unless the stream has them for equal values of
 * `rope` and `positions`. */
pc__cuda_angles pc__cuda_angles_of(pc__cuda_stream *stream, pc_context *context,
                                   const pc__rotation *rope, const int64_t *positions, size_t rows);

/* ------------------------------------------------------------------ linear layers */

typedef struct pc__cuda_linear { /* what a pc__linear is here */
    pc__backend *backend;
    size_t out, in;
    void *weights; /* [out][in] in `dtype`, or quantised panels */
    size_t bytes;  /* of them */
    float *bias;   /* [out]; NULL: none */
    uint32_t dtype;
    pc__cuda_gemm *gemm;          /* NULL: quantised */
    pc__cuda_panel_format format; /* of quantised weights; bits 0: not quantised */
    size_t groups, panel_bytes;
    uint32_t code_bytes; /* 2: all groups of quantised inputs are wide; 1: those that stand out */
    /* of expert 0, of the device: addresses of the weights of all experts, then of their biases */
    const uint64_t *experts;
} pc__cuda_linear;

static inline const pc__cuda_linear *pc__cuda_linear_of(const pc__linear *linear)
{
    return (const pc__cuda_linear *)(const void *)linear;
}

/* Quantised rows that are multiplied with several layers; {0} before the first. */
typedef struct pc__cuda_codes {
    pc__cuda_quantised_rows
        rows;                  /* one block of scratch, `codes`; NULL: the stream has the error */
    const pc__cuda_linear *of; /* a layer that wants these codes */
} pc__cuda_codes;

/* Quantises rows as the layer wants them, unless the layer before wanted the same. x at a multiple
 * of 16 bytes, the same rows in every call. `end` gives the scratch back. */
const pc__cuda_quantised_rows *pc__cuda_codes_for(pc__stream *stream, pc__cuda_codes *codes,
                                                  const pc__cuda_linear *linear, const float *x,
                                                  size_t rows);
void pc__cuda_codes_end(pc__stream *stream, pc__cuda_codes *codes);
/* What a launch says of the layer itself; y and rows are the caller's. */
pc__cuda_quantised_task pc__cuda_quantised_layer(const pc__cuda_linear *linear,
                                                 const pc__cuda_quantised_rows *x);

#endif

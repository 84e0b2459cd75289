/* pc_attend on a GPU, for a runtime that has memory and a stream of its own there: queued between
 * the runtime's copies, and compared with the CPU. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <promptcache.h>
#include <promptcache/attend.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 8, TOKENS = 200, HEADS = 4, DIM = 64, VALUES = ROWS * HEADS * DIM };

static const pc_attend_shape shape = {sizeof shape, HEADS, HEADS, DIM, DIM, PC_DTYPE_F16, 0};
static float keys[TOKENS * HEADS * DIM], values[TOKENS * HEADS * DIM];
static _Alignas(64) unsigned char pages[1 << 18];
static float queries[VALUES], wanted[VALUES], got[VALUES];
static cudaError_t failed; /* the first error; after it nothing is called */
#define CUDA(call) failed = failed ? failed : (call)

static void fill(float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
}

/* Rows that share a run; row r sees all of it but its last r tokens. The plan may go at once. */
static pc_status attend(pc_context *at, const void *run, const float *q, float *out, cudaStream_t s)
{
    const pc_run tokens = {TOKENS, NULL, NULL};
    pc_plan_args rows = PC_PLAN_ARGS_INIT;
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    pc_plan *plan = NULL; /* serves all layers */
    pc_row_span spans[ROWS];
    uint32_t first[ROWS + 1] = {0};
    int64_t positions[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        spans[r] = (pc_row_span){0, 0, 0, TOKENS - r, 0};
        first[r + 1] = r + 1, positions[r] = TOKENS;
    }
    rows.shape = &shape, rows.runs = &tokens, rows.run_stride = sizeof tokens, rows.run_count = 1,
    rows.row_count = ROWS;
    rows.positions = positions, rows.first = first, rows.spans = spans;
    rows.span_stride = sizeof *spans;
    pc_status status = pc_plan_new(&plan, at, &rows);
    args.pages = &run, args.q = q, args.out = out;
    args.stream = s, args.flags = s ? PC_ATTEND_QUEUE : 0; /* the CPU has no streams */
    if (status >= 0)
        status = pc_attend(plan, &args);
    pc_plan_free(plan);
    return status;
}

/* All in one stream: attention begins after the copies before it, and returns at once. */
static pc_status attend_there(pc_context *context)
{
    char *there = NULL;
    cudaStream_t stream = NULL;
    pc_status status = PC_OK;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&there, sizeof pages + sizeof queries + sizeof got));
    float *q = (float *)(there + sizeof pages), *out = q + VALUES;
    CUDA(cudaMemcpyAsync(there, pages, sizeof pages, cudaMemcpyDefault, stream));
    CUDA(cudaMemcpyAsync(q, queries, sizeof queries, cudaMemcpyDefault, stream));
    if (!failed)
        status = attend(context, there, q, out, stream);
    if (status >= 0)
        CUDA(cudaMemcpyAsync(got, out, sizeof got, cudaMemcpyDefault, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaFree(there));
    CUDA(cudaStreamDestroy(stream));
    return status;
}

int main(void)
{
    pc_context *here = NULL, *there = NULL;
    pc_context_options cpu = PC_CONTEXT_OPTIONS_INIT, gpu = PC_CONTEXT_OPTIONS_INIT;
    pc_pages_args write = PC_PAGES_ARGS_INIT;
    float most = 0;
    cpu.backend = "cpu", gpu.backend = "cuda";
    fill(keys, TOKENS * HEADS * DIM), fill(values, TOKENS * HEADS * DIM), fill(queries, VALUES);
    write.shape = &shape, write.pages = pages, write.count = TOKENS;
    write.k = keys, write.v = values;
    pc_status status = pc_pages_write(&write);
    if (status >= 0 && (status = pc_context_new(&here, &cpu)) >= 0
        && (status = attend(here, pages, queries, wanted, NULL)) >= 0
        && (status = pc_context_new(&there, &gpu)) >= 0)
        status = attend_there(there);
    for (int i = 0; i < VALUES; i++)
        most = fmaxf(most, fabsf(wanted[i] - got[i]));
    pc_context_free(here), pc_context_free(there);
    if (status < 0)
        fprintf(stderr, "attend_cuda: %s: %s\n", pc_status_name(status), pc_error_text());
    else if (failed)
        fprintf(stderr, "attend_cuda: %s\n", cudaGetErrorString(failed));
    else
        printf("%d rows over %d shared keys: at most %.1e off\n", ROWS, TOKENS, (double)most);
    return status < 0 || failed || !(most < 1e-3f);
}

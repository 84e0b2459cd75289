/* pc_calibrate: measures the costs of reading K and V by the number of rows, with the kernels
 * themselves, on one head of 128 dimensions. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "attn/costs.h"
#include "attn/kernels.h"

enum { DIM = 128, TOKENS = 1024, TIMES = 5, MOST_ROWS = 1 << (PC_COST_COUNT - 1), BEHIND = 4096 };
static const size_t memory_bytes = (size_t)128 << 20; /* larger than any cache */

typedef struct cost_trial {
    const pc__kernels *kernels;
    pc__attend_fn attend;
    uint8_t *pages, *tables;
    size_t page_bytes, run_bytes; /* bytes of TOKENS tokens */
    pc__attn_task task;
} cost_trial;

static double thread_seconds(void)
{
    struct timespec t;
    /* time of other threads and processes does not count */
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill_task(cost_trial *t)
{
    uint8_t *at = t->tables;
    float *q = pc__carve(&at, (size_t)MOST_ROWS * DIM * sizeof *q);
    uint16_t *q16 = pc__carve(&at, (size_t)MOST_ROWS * DIM * sizeof *q16);
    uint32_t *lo = pc__carve(&at, MOST_ROWS * sizeof *lo),
             *hi = pc__carve(&at, MOST_ROWS * sizeof *hi);
    t->task = (pc__attn_task){.page_stride = t->page_bytes,
                              .v_offset = t->page_bytes / 2,
                              .k_dim = DIM,
                              .v_dim = DIM,
                              .q = q,
                              .q16 = q16,
                              .lo = lo,
                              .hi = hi};
    t->task.m = pc__carve(&at, MOST_ROWS * sizeof(float));
    t->task.l = pc__carve(&at, MOST_ROWS * sizeof(float));
    t->task.acc = pc__carve(&at, (size_t)MOST_ROWS * DIM * sizeof(float));
    for (size_t i = 0; i < (size_t)MOST_ROWS * DIM; i++)
        q[i] = (float)((i * 37) % 101) * 0.002f - 0.1f;
    t->kernels->to_bf16(q, (size_t)MOST_ROWS * DIM, q16);
    for (size_t r = 0; r < MOST_ROWS; r++) {
        lo[r] = 0;
        hi[r] = TOKENS;
    }
}

static size_t trial_bytes(void)
{
    return (size_t)MOST_ROWS * (DIM * (4 + 2 + 4) + 4 * 4) + 7 * 64;
}

/* Nanoseconds per token when `rows` rows read `runs` different K/V runs. */
static double time_pass(cost_trial *t, size_t rows, size_t runs)
{
    double began = thread_seconds();
    t->task.rows = rows;
    for (size_t s = 0; s < runs; s++) {
        for (size_t r = 0; r < rows; r++) {
            t->task.m[r] = -INFINITY;
            t->task.l[r] = 0.0f;
        }
        memset(t->task.acc, 0, rows * DIM * sizeof *t->task.acc);
        t->task.pages = t->pages + s * t->run_bytes;
        t->task.goes_on = s + 1 < runs;
        t->attend(&t->task, 0, TOKENS / PC__PAGE);
    }
    return 1e9 * (thread_seconds() - began) / (double)(runs * TOKENS);
}

static double middle(double *values)
{
    for (size_t i = 1; i < TIMES; i++)
        for (size_t j = i; j && values[j] < values[j - 1]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    return values[TIMES / 2];
}

static void time_rows(cost_trial *t, size_t index, pc_costs *costs)
{
    size_t rows = (size_t)1 << index, all = memory_bytes / t->run_bytes,
           some = all / (1 + rows / 8);
    double cached[TIMES], memory[TIMES];
    for (size_t i = 0; i < TIMES; i++) {
        /* not all: the last runs of one pass must not be the first of the next */
        memory[i] = time_pass(t, rows, some ? some : 1);
        t->task.goes_on = 0;
        time_pass(t, rows, 1);
        cached[i] = time_pass(t, rows, 1);
    }
    costs->cached_ns[index] = middle(cached);
    costs->memory_ns[index] = middle(memory);
    if (costs->memory_ns[index] < costs->cached_ns[index])
        costs->memory_ns[index] = costs->cached_ns[index];
}

static pc_status measure_costs(pc_context *context, const pc_calibrate_options *options,
                               pc_costs *costs)
{
    cost_trial t = {.kernels = pc__kernels_get()};
    pc__kv_shape shape = {1, 1, DIM, DIM, t.kernels->bf16_dot ? PC_DTYPE_BF16 : PC_DTYPE_F32, 0};
    pc_status status = PC_ERR_NOMEM;
    t.attend = t.kernels->bf16_dot ? t.kernels->attend_bf16 : t.kernels->attend_f32;
    t.page_bytes = pc__kv_page_bytes(&shape);
    t.run_bytes = t.page_bytes * (TOKENS / PC__PAGE);
    t.pages = pc__alloc_aligned(&context->mem, memory_bytes + BEHIND, 64);
    t.tables = pc__alloc_aligned(&context->mem, trial_bytes(), 64);
    if (!t.pages || !t.tables)
        goto done;
    memset(t.pages, 0x3c, memory_bytes + BEHIND); /* 0.0115 in bf16 and in fp32 */
    fill_task(&t);
    snprintf(costs->kernels, sizeof costs->kernels, "%s", t.kernels->name);
    pc__cpu_name(costs->cpu, sizeof costs->cpu);
    status = PC_OK;
    for (size_t i = 0; i < PC_COST_COUNT && status >= 0; i++) {
        pc__callback_begin();
        if (options->progress
            && options->progress(options->progress_user, "measuring attention", i, PC_COST_COUNT))
            status = pc__callback_cancelled("cancelled while measuring %zu rows", (size_t)1 << i);
        else
            time_rows(&t, i, costs);
    }
done:
    pc__free(&context->mem, t.pages);
    pc__free(&context->mem, t.tables);
    return status;
}

pc_status pc_calibrate(pc_context *context, const pc_calibrate_options *options)
{
    PC__HOLD(pc_context, context);
    pc_calibrate_options o;
    pc_costs costs = PC_COSTS_INIT;
    char path[PC__COSTS_PATH];
    if (!context)
        return pc__fail(PC_ERR_INVALID, "pc_calibrate: context is NULL");
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_calibrate_options, progress_user),
                                    options, "pc_calibrate_options"));
    costs.source = PC_COSTS_MEASURED;
    PC__TRY_RETURN(measure_costs(context, &o, &costs));
    pc__costs_path(path, sizeof path);
    PC__TRY_RETURN(pc__costs_use(context, &costs));
    if (!o.path)
        o.path = path;
    return *o.path ? pc__costs_write(&context->mem, o.path, &costs) : PC_OK;
}

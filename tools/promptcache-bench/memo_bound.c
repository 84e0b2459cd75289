/* Times the attention of one layer, and derives the parts of a prefill from it. */
#include "memo_bound.h"

#include <stdlib.h>
#include <string.h>

#include "machine.h"

int is_encoder(const pc_model_info *info)
{
    return info->bidirectional != 0;
}

/* Pairs (row, key) of the whole batch in which the row attends to the key. */
static double pairs_of(const memo_shape *s)
{
    double n = (double)s->length;
    return (double)s->batch * (s->causal ? n * (n + 1) / 2 : n * n);
}

/* Of one token. */
static double qk_flops(const bench_model *b)
{
    return 2.0 * b->info.hidden * (b->info.heads + b->info.kv_heads) * b->info.head_dim
           * b->info.layers;
}

static int fill(bound_attention *t, const memo_shape *s)
{
    size_t bytes = pc_pages_bytes(&t->shape, s->length),
           width = (size_t)t->shape.kv_heads * (size_t)t->shape.k_dim;
    float *values = malloc(s->length * width * sizeof *values);
    int code = EXIT_OK;
    t->memory = machine_memory(s->batch * bytes);
    if (!values || !t->memory) {
        free(values);
        return plain_error("no memory for attention of %zu times %zu tokens", s->batch, s->length);
    }
    memset(t->memory, 0, s->batch * bytes);
    for (size_t i = 0; i < s->length * width; i++)
        values[i] = (float)(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    for (size_t i = 0; i < s->batch && code == EXIT_OK; i++) {
        pc_pages_args args = PC_PAGES_ARGS_INIT;
        args.shape = &t->shape;
        args.pages = (char *)t->memory + i * bytes;
        args.count = s->length;
        args.k = args.v = values;
        t->pages[i] = args.pages;
        if (pc_pages_write(&args) < 0)
            code = input_error("pages", NULL);
    }
    free(values);
    return code;
}

static int make_plan(bound_attention *t, pc_context *context, const memo_shape *s)
{
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    size_t rows = s->batch * s->length;
    pc_run *runs = calloc(s->batch, sizeof *runs);
    pc_row_span *spans = calloc(rows, sizeof *spans);
    uint32_t *first = calloc(rows + 1, sizeof *first);
    int64_t *positions = calloc(rows, sizeof *positions);
    pc_status status = PC_ERR_NOMEM;
    if (runs && spans && first && positions) {
        for (size_t i = 0; i < s->batch; i++)
            runs[i].tokens = s->length;
        for (size_t r = 0; r < rows; r++) {
            size_t at = r % s->length;
            spans[r] = (pc_row_span){0, (uint32_t)(r / s->length), 0,
                                     (uint32_t)(s->causal ? at + 1 : s->length), 0};
            first[r + 1] = (uint32_t)(r + 1);
            positions[r] = (int64_t)at;
        }
        args.shape = &t->shape;
        args.runs = runs;
        args.run_stride = sizeof(pc_run);
        args.run_count = s->batch;
        args.positions = positions;
        args.first = first;
        args.spans = spans;
        args.span_stride = sizeof(pc_row_span);
        args.row_count = rows;
        status = pc_plan_new(&t->plan, context, &args);
    }
    free(runs), free(spans), free(first), free(positions);
    return status < 0 ? input_error("plan", NULL) : EXIT_OK;
}

int bound_attention_time(bound_attention *t, double *us)
{
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    double began = 0;
    args.q = t->q;
    args.out = t->out;
    args.pages = t->pages;
    for (int i = 0; i < 2;
         i++) { /* the second time counts: in a prefill, the inputs are in the caches */
        began = machine_now();
        if (pc_attend(t->plan, &args) < 0)
            return input_error("attend", NULL);
    }
    *us = 1e6 * (machine_now() - began);
    return EXIT_OK;
}

int bound_attention_open(bound_attention *t, const bench_model *b, const memo_shape *s)
{
    size_t width = s->batch * s->length * (size_t)b->info.heads * (size_t)b->info.head_dim;
    pc_context *cpu;
    int code;
    *t = (bound_attention){.shape = PC_ATTEND_SHAPE_INIT};
    t->shape.heads = b->info.heads;
    t->shape.kv_heads = b->info.kv_heads;
    t->shape.k_dim = t->shape.v_dim = b->info.head_dim;
    t->shape.dtype = b->info.compute == PC_DTYPE_BF16 ? PC_DTYPE_BF16 : PC_DTYPE_F32;
    t->pages = calloc(s->batch, sizeof *t->pages);
    t->q = malloc(2 * width * sizeof *t->q);
    if (!t->pages || !t->q)
        return plain_error("no memory for %zu times %zu queries", s->batch, s->length);
    t->out = t->q + width;
    for (size_t i = 0; i < width; i++)
        t->q[i] = (float)(i * 2246822519u % 1999) * 1e-3f - 1.0f;
    if ((code = open_backend(&cpu, "cpu")) >= 0)
        return code;
    if ((code = fill(t, s)) == EXIT_OK)
        code = make_plan(t, cpu, s);
    pc_context_free(cpu);
    return code;
}

void bound_attention_close(bound_attention *t)
{
    pc_plan_free(t->plan);
    free(t->memory);
    free(t->pages);
    free(t->q);
}

void memo_parts_of(const bench_model *b, const memo_shape *s, double full_us, double layer_us,
                   memo_parts *out)
{
    double layers = b->info.layers, pairs = pairs_of(s), tokens = (double)(s->batch * s->length);
    double value_bytes = tokens * b->info.kv_heads * b->info.head_dim
                         * (b->info.compute == PC_DTYPE_BF16 ? 2 : 4);
    double flops = 2 * pairs * b->info.heads * b->info.head_dim,
           bytes = pairs * b->info.heads * s->map_bytes + value_bytes;
    out->attend_us = layers * layer_us;
    if (out->attend_us > full_us) /* a very short prefill */
        out->attend_us = full_us;
    out->qk_us = (full_us - out->attend_us) * qk_flops(b) / (double)b->info.token_flops;
    flops *= layers / b->machine.flop_rate;
    bytes *= layers / b->machine.read_rate;
    out->values_us = 1e6 * (flops > bytes ? flops : bytes);
    out->bound_us = full_us - out->attend_us - out->qk_us + out->values_us;
}

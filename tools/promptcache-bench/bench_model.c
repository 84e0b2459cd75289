/* Opens the model of a benchmark, measures the machine, computes bounds. */
#include "bench_model.h"

#include <promptcache/bench.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_device.h"
#include "input.h"
#include "machine.h"

static int measure_device(bench_machine *m)
{
    bench_device device;
    int code = bench_device_open(&device);
    snprintf(m->name, sizeof m->name, "%.79s", device.name);
    if (code == EXIT_OK)
        code = bench_device_byte_rate(&device, &m->read_rate);
    if (code == EXIT_OK)
        code = bench_device_flop_rate(&device, &m->flop_rate);
    bench_device_close(&device);
    return code;
}

int bench_machine_measure(bench_machine *m, uint32_t compute)
{
    const char *backend = program_variable("PC_BACKEND");
    m->is_peak = compute == PC_DTYPE_BF16;
    if (backend && !strncmp(backend, "cuda", 4)) {
        int code = measure_device(m);
        m->is_peak = m->is_peak && isfinite(m->flop_rate);
        m->is_device = 1;
        return code;
    }
    m->is_peak = m->is_peak || compute == PC_DTYPE_F32;
    snprintf(m->name, sizeof m->name, "%u threads", machine_threads());
    m->read_rate = machine_read_rate(machine_threads());
    m->flop_rate = machine_flop_rate(machine_threads(), compute);
    return EXIT_OK;
}

int bench_model_open(bench_model *b, const bench_model_options *options, const command *about)
{
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    int code;
    *b = (bench_model){.info = PC_MODEL_INFO_INIT, .path = options->model};
    if (options->shape && options->model)
        return usage_error(about, "--shape and --model exclude each other");
    o.compute = COMPUTE_DTYPE(options->compute);
    o.kv = (uint32_t)options->kv;
    o.progress = stop_loading;
    if ((code = open_context(&b->context)) >= 0)
        return code;
    if (options->model) {
        if (pc_model_load(&b->model, b->context, options->model, &o) < 0)
            return model_error(options->model, MODEL_HINT);
    } else if (pc_model_new_shape(&b->model, b->context,
                                  options->shape ? options->shape : "llama-1b", 0, &o)
               < 0) {
        return input_error("shape", NULL);
    }
    pc_model_get_info(b->model, &b->info);
    if (b->info.vocab < 1)
        return plain_error("the model has no vocabulary");
    if (options->tokenizer) {
        o.flags = PC_MODEL_VOCAB_ONLY;
        if (pc_model_load(&b->tokenizer, b->context, options->tokenizer, &o) < 0)
            return model_error(options->tokenizer, "--tokenizer takes what --model takes");
    }
    return bench_machine_measure(&b->machine, b->info.compute);
}

void bench_model_close(bench_model *b)
{
    pc_model_free(b->tokenizer);
    pc_model_free(b->model);
    pc_context_free(b->context);
    *b = (bench_model){.context = NULL};
}

double bench_layer_bytes(const pc_model_info *info, double rows)
{
    double all = info->experts, used = info->experts_used, others = 0;
    if (all > 0)
        others = all * (1 - pow(1 - used / all, rows)) - used;
    return (double)info->token_bytes + others * (double)info->expert_bytes;
}

double bench_bound(const bench_model *b, const pass_work *w)
{
    const pc_model_info *info = &b->info;
    double width = (double)info->heads * info->head_dim * info->layers;
    double head = w->logits > 0 ? (double)info->head_bytes : 0;
    double flops = w->rows * (double)info->token_flops + w->logits * (double)info->head_flops;
    return machine_bound_of(bench_layer_bytes(info, w->rows) + head, b->machine.read_rate, flops,
                            b->machine.flop_rate)
               .least
           + machine_bound_of((double)info->kv_bytes_per_token * w->keys, b->machine.read_rate,
                              4 * w->pairs * width, b->machine.flop_rate)
                 .least;
}

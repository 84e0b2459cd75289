#include "bench_model.h"

#include "machine.h"

int bench_model_open(bench_model *b, const bench_model_options *options, const command *about)
{
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    *b = (bench_model){.info = PC_MODEL_INFO_INIT};
    if (options->shape && options->model)
        return usage_error(about, "--shape and --model exclude each other");
    o.compute = COMPUTE_DTYPE(options->compute);
    o.kv = (uint32_t)options->kv;
    o.progress = stop_loading;
    if (pc_context_new(&b->context, NULL) < 0)
        return input_error("set-up", NULL);
    if (options->model) {
        if (pc_model_load(&b->model, b->context, options->model, &o) < 0)
            return model_error(options->model, MODEL_HINT);
    } else if (pc_model_new_shape(&b->model, b->context,
                                  options->shape ? options->shape : "llama-1b", &o) < 0) {
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
    b->read_rate = machine_read_rate(machine_threads());
    b->flop_rate = machine_flop_rate(machine_threads(), b->info.compute);
    return EXIT_OK;
}

void bench_model_close(bench_model *b)
{
    pc_model_free(b->tokenizer);
    pc_model_free(b->model);
    pc_context_free(b->context);
    *b = (bench_model){.context = NULL};
}

static double weight_size(const bench_model *b)
{
    return b->info.compute == PC_DTYPE_BF16 ? 2 : 4;
}

static double table_weights(const bench_model *b)
{
    return (double)b->info.vocab * b->info.hidden;
}

double bench_layer_weights(const bench_model *b)
{
    double all = (double)b->info.weight_bytes / weight_size(b) - 2 * table_weights(b);
    return all > 0 ? all : 0;
}

static double larger(const bench_model *b, double bytes, double flops)
{
    double x = bytes / b->read_rate, y = flops / b->flop_rate;
    return x > y ? x : y;
}

double bench_bound(const bench_model *b, const pass_work *w)
{
    double layers = bench_layer_weights(b), head = w->logits > 0 ? table_weights(b) : 0;
    double width = (double)b->info.heads * b->info.head_dim * b->info.layers;
    return larger(b, (layers + head) * weight_size(b), 2 * (layers * w->rows + head * w->logits)) +
           larger(b, (double)b->info.kv_bytes_per_token * w->keys, 4 * w->pairs * width);
}

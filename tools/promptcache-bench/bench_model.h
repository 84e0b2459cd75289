/* The model of a benchmark, and lower bounds of its times on this machine. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <stdint.h>

#include "program.h"

typedef struct bench_model_options {
    const char *model, *shape, *tokenizer; /* NULL: none given */
    long compute, kv;
} bench_model_options;
/* clang-format off */
#define BENCH_MODEL_ROWS(o) \
    {"shape", OPTION_FILE, &(o).shape, \
     "named shape or config.json, with random weights (llama-1b)", NULL, 0, 0}, \
        {"model", OPTION_PATH, &(o).model, "a real model instead", NULL, 0, 0}, \
        {"compute", OPTION_CHOICE, &(o).compute, "number format (default)", COMPUTE_CHOICES, 0, \
         0}, \
        {"kv", OPTION_CHOICE, &(o).kv, "number format of K and V (default)", KV_CHOICES, 0, 0}, \
        THREADS_ROW
/* clang-format on */

/* clang-format off */
#define TOKENIZER_ROW(o) \
    { \
        "tokenizer", OPTION_PATH, &(o).tokenizer, \
            "a model whose tokenizer is used for the text (--model's own)", NULL, 0, 0 \
    }
/* clang-format on */

/* What computes: the CPU, or the first GPU where PC_BACKEND says cuda. */
typedef struct bench_machine {
    char name[80];
    double read_rate, flop_rate; /* bytes, operations a second, measured (machine.h) */
    int is_peak; /* 0: operations in another format are faster than those of the model */
    int is_device;
} bench_machine;
/* compute: the number format of the products. An exit code. */
int bench_machine_measure(bench_machine *machine, uint32_t compute);

typedef struct bench_model {
    pc_context *context;
    pc_model *model;
    pc_model *tokenizer; /* NULL: the model itself */
    const char *path;    /* of the model; NULL: random weights */
    pc_model_info info;
    bench_machine machine;
} bench_model;

/* An exit code; close the model in any case. */
int bench_model_open(bench_model *b, const bench_model_options *options, const command *about);
void bench_model_close(bench_model *b);

/* The work of one pass of the model, or of a whole workload: therefore doubles. */
typedef struct pass_work {
    double rows;   /* new tokens */
    double logits; /* rows with logits */
    double keys;   /* tokens whose K and V must be read, each once */
    double pairs;  /* (row, key): the row attends to the key */
} pass_work;

/* Bytes of the layers' weights that a pass over `rows` tokens reads; of experts, the mean number
 * that uniform routing selects. */
double bench_layer_bytes(const pc_model_info *info, double rows);
/* The least seconds of a pass: linear layers, then attention; of each the longer of two times, its
 * bytes at the bandwidth and its arithmetic at the peak. */
double bench_bound(const bench_model *b, const pass_work *work);

#endif

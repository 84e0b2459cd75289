/* What the formats of `eval` share: options, and the modes in which a question is asked. */
#ifndef EVAL_H
#define EVAL_H

#include <promptcache/bench.h>

#include "bench.h"

typedef struct eval_mode {
    const char *name;
    uint32_t encoding;
    pc_bench_options bench;
} eval_mode;

enum { EVAL_MODE_COUNT = 7 };
#define EVAL_MODES "causal,gaps,independent,sink,joint,exact,copies"
extern const eval_mode eval_modes[EVAL_MODE_COUNT];

typedef struct eval_options {
    const char *files[MOST_FILES];
    size_t file_count;
    const char *model;
    unsigned modes;  /* bit m: eval_modes[m] */
    unsigned codecs; /* bit c: eval_codec_names[c] */
    pml_options pml;
    long limit, compute, kv;
    int json;
    /* of the formats longbench and predictions */
    const char *templates, *dataset, *results;
    long metric; /* 0: the template's; else a measure + 1 */
    int csv, by_length;
    /* of longbench */
    long max_length, ram, repair, repair_tokens;
    double repair_percent;
    /* of votes and candidates; a number that is 0, or a real below 0, is not given */
    long samples, batch, repeats, shots, top_k, seed;
    double temperature, top_p;
    const char *methods, *prefix, *examples, *ks, *save;
    /* of candidates */
    const char *checker, *run;
    double checker_seconds;
} eval_options;

/* Options of pc_generate for mode m, with a check for Ctrl-C. */
pc_generate_options eval_generate_options(size_t m);
/* The context, and the model that --model names. An exit code. */
int eval_open_model(const eval_options *o, pc_context **context, pc_model **model);

/* The formats. Each gives an exit code. */
int eval_questions(const eval_options *o);
int eval_longbench(const eval_options *o);
int eval_predictions(const eval_options *o);
int eval_samples(const eval_options *o, int votes); /* votes: 0: candidates */

#endif

/* A model beside golden vectors: what the cases of `check` share. Each file check_*.c has cases, or
 * what they use. */
#ifndef CHECK_H
#define CHECK_H

#include "golden_file.h"
#include "program.h"

#include <promptcache/bench.h>
#include <promptcache/extend.h>

typedef struct stage { /* a traced tensor, all layers */
    float *data[256];
    int64_t shape[4];
    uint32_t rank;
    int layers;
} stage;

/* stages of latent attention, then of routers, then of encoders alone */
enum { STAGES = 15, FIRST_OF_LATENT = 6, LATENT = 7, FIRST_OF_ROUTER = 10, DECODER_STAGES = 13 };

typedef struct checking {
    golden_file golden;
    pc_model *model;
    pc_model_info info;
    int json, missed, code;
    stage stages[STAGES];
    float *finals; /* [lane][hidden] of a pass with one token a lane; NULL: not wanted */
    const float *const *const *maps; /* for evaluations; NULL: none */
} checking;

/* --------------------------------------------------------- check_compare.c */

/* Print the line of a tensor, and count it in `missed` if it differs. */
void check_tensor(checking *c, const golden_tensor *want, const float *got, size_t count);
void check_ids(checking *c, const golden_tensor *want, const int32_t *got);
/* For pc_eval_args.trace: keeps the stages of lane 0. check_forget frees them. */
void check_keep(void *user, const pc_trace *t);
void check_forget(checking *c);
/* The layers of stage s, one after the other, beside `want` (NULL: nothing to do), or beside the
 * tensor prefix/stage of the file. */
void check_layers(checking *c, const golden_tensor *want, size_t s);
void check_stage(checking *c, const char *prefix, size_t s);
/* The choices of the routers of a model with experts, and the layers that have one. */
void check_routers(checking *c, const char *prefix);
/* The output of the last layer, beside prefix/hidden_last. */
void check_last_hidden(checking *c, const char *prefix);

/* ----------------------------------------------------------- check_cases.c */

/* One pass. 0: it failed, now or before, and c->code is set. */
int check_eval(checking *c, const pc_lane *lanes, size_t count, uint32_t visibility,
               uint64_t rope_length, float *logits, pc_segment **segments, int trace);
/* [rows][vocab], to be freed; NULL: out of memory. */
float *check_new_logits(const checking *c, size_t rows);
int32_t check_largest(const float *logits, size_t count);
void check_plain(checking *c, const char *prefix);   /* one text */
void check_encoder(checking *c, const char *prefix); /* one text, padded or not */
void check_modular(checking *c);
void check_relocate(checking *c);
void check_map_reuse(checking *c); /* a text with the attention maps of another */

/* ---------------------------------------------- check_shared.c, check_cross.c */

void check_shared(checking *c); /* a tree of shared prefixes */
/* A prompt and a continuation that crosses the length at which the RoPE regime changes. */
void check_cross(checking *c);

#endif

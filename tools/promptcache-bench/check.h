/* A model beside golden vectors: what the cases of `promptcache check` share. */
#ifndef CHECK_H
#define CHECK_H

#include "golden_file.h"

#include <promptcache.h>

typedef struct stage { /* a traced tensor, all layers */
    float *data[256];
    int64_t shape[4];
    uint32_t rank;
    int layers;
} stage;

enum { STAGES = 11, FIRST_OF_ROUTER = 6, DECODER_STAGES = 9 };

typedef struct checking {
    golden_file golden;
    pc_model *model;
    pc_model_info info;
    int json, missed, code;
    stage stages[STAGES];
    float *finals; /* [lane][hidden] of a pass of one token a lane; NULL: not wanted */
    const float *const *const *maps; /* of evaluations; NULL: none */
} checking;

/* Prints a tensor's line; a miss is counted. */
void check_tensor(checking *c, const golden_tensor *want, const float *got, size_t count);
void check_ids(checking *c, const golden_tensor *want, const int32_t *got);
/* One pass; 0: it failed, now or before, and c->code is set. */
int check_eval(checking *c, const pc_lane *lanes, size_t count, uint32_t see, uint64_t regime,
               float *logits, pc_segment **segments, int trace);
float *check_new_logits(const checking *c,
                        size_t rows); /* [rows][vocab], to be freed; NULL: no memory */
int32_t check_largest(const float *logits, size_t count);

/* Case `cross`: a prompt and a continuation that leaves the length at which the frequencies change.
 */
void check_cross(checking *c);

#endif

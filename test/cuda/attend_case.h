/* A case of attention: runs in pages, rows with spans, the tables that the kernels of
 * cuda/kernels/attend.h take, and the results of the library's C reference. */
#ifndef PC_TEST_ATTEND_CASE_H
#define PC_TEST_ATTEND_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/kernels/attend.h"

/* What the rows of a case look like. */
typedef enum attend_kind {
    CASE_TREE,    /* all share a run, halves share another, each has one of its own */
    CASE_PREFILL, /* a shared run, then rows that see each other causally */
    CASE_RAGGED,  /* spans with random ends, some empty, some rows without any */
    CASE_SINGLE,  /* one span a row: results without a merge */
    CASE_KINDS
} attend_kind;

enum { CASE_NO_ROPE, CASE_HALVES, CASE_PAIRS, CASE_PARTIAL, CASE_ODD, CASE_ROPES };

typedef struct attend_spec {
    attend_kind kind;
    uint32_t format, k_dim, v_dim, kv_heads, group, rows;
    uint32_t tokens;        /* of the longest run */
    uint32_t section_pages; /* most pages of a call */
    uint32_t rope;
    int64_t window, chunk;
    float soft_cap;
    int slopes, sinks, holes; /* holes: positions with gaps */
    uint64_t seed;
} attend_spec;

typedef struct attend_array {
    const char *name;
    void *data;
    size_t bytes;
} attend_array;

typedef struct attend_case {
    attend_spec spec;
    struct attend_world *world;
    pc__cuda_attend task;
    pc__cuda_merge merge;
    float *want, *want_lse;   /* as task.out and task.lse */
    size_t vectors;           /* rows * heads */
    size_t slots;             /* states of the merge */
    size_t needed_bytes;      /* of pages that some vector of a tile sees, by tiles and K/V heads */
    attend_array inputs[160]; /* everything that kernels read, for regions */
    size_t input_count;
} attend_case;

void attend_case_new(attend_case *made, const attend_spec *spec);
void attend_case_free(attend_case *made);
/* The largest error of out, relative to the largest value, and of lse; infinite if one is NaN or
 * only one of both LSE is infinite. */
double attend_case_error(const attend_case *made);
/* The error that a format's rounding explains. */
double attend_case_tolerance(const attend_spec *spec);
/* Case `index` of a fixed list of all formats, shapes and options. */
attend_spec attend_spec_of(size_t index, uint64_t seed);
/* The attention map of a row: a task for each of its spans, at most CASE_SPANS, except `weights`
 * and `stride`; `want` [heads][keys], to be freed. Gives the number of spans. */
enum { CASE_SPANS = 4 };
size_t attend_case_map(const attend_case *made, size_t row, pc__cuda_map_row *spans, float **want,
                       size_t *keys);
/* One line that says what a case is. */
const char *attend_spec_text(const attend_spec *spec);

#endif

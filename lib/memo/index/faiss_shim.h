/* FAISS behind C functions. Debian's package (1.7.3) has the headers of FAISS's C interface but not
 * its code; and FAISS's own functions to search, add and train run OpenMP regions in which a failed
 * allocation ends the process. So this uses its parts: IndexFlat; the graph HNSW with its search
 * and its linking; the inverted lists of IVF, whose centres are found here. Distances of the last
 * two are computed by our kernels, because packages of FAISS are compiled for the oldest processor
 * (lib/memo/index/scan_kernels.h; measured in test/kernel/test_index_recall.c).
 *
 * Exceptions end here. FAISS starts no threads: what would run in parallel is told that there is
 * one. Its memory comes from operator new, not from the context's allocator. Places count from 0 in
 * the order in which vectors were added; none is ever removed.
 *
 * Threads: functions that take a const pc__faiss may run at the same time as each other, others
 * alone. */
#ifndef PC_MEMO_FAISS_SHIM_H
#define PC_MEMO_FAISS_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pc__scan_kernels;

enum { PC__FAISS_FLAT, PC__FAISS_HNSW, PC__FAISS_IVF };
enum { PC__FAISS_OK, PC__FAISS_NOMEM, PC__FAISS_FAILED }; /* the last with a text */
enum { PC__FAISS_TEXT = 200 };

typedef struct pc__faiss pc__faiss;
typedef struct pc__faiss_setup {
    int kind;
    size_t dim;
    int links, build, search; /* HNSW: M, efConstruction, efSearch */
    uint64_t seed;
    const struct pc__scan_kernels *kernels;
} pc__faiss_setup;

int pc__faiss_new(pc__faiss **out, const pc__faiss_setup *setup, char *text);
void pc__faiss_free(pc__faiss *index); /* NULL does nothing */

/* IVF, before anything is added: finds `lists` centres (at most count) among the vectors. */
int pc__faiss_train(pc__faiss *index, size_t count, const float *vectors, size_t lists, char *text);
/* After a failure there may be more places than before, of vectors that were meant to come (HNSW
 * cannot take back); they must be left out of results. */
int pc__faiss_add(pc__faiss *index, size_t count, const float *vectors, char *text);
size_t pc__faiss_count(const pc__faiss *index);

/* The `want` nearest that it finds, squared distances, nearest first; then infinity and -1. probes:
 * lists to look into (IVF). With want >= count (and all lists) they are all found. */
int pc__faiss_search(const pc__faiss *index, const float *query, size_t want, size_t probes,
                     float *distances, int64_t *places, char *text);
size_t pc__faiss_lists(const pc__faiss *index);          /* 0: not of that kind, or not trained */
void pc__faiss_rows(const pc__faiss *index, float *out); /* [count][dim] */

/* What a file keeps beside the vectors. Numbers of the parts: levels [count] and neighbours of
 * HNSW; the list of each vector [count] of IVF, whose centres are floats [lists][dim]. Pointers
 * into the index, until it changes. */
typedef struct pc__faiss_structure {
    const int32_t *levels, *neighbours;
    size_t neighbour_count;
    int32_t entry, top_level;
    const float *centres;
    size_t lists;
    const int32_t *list_of;
} pc__faiss_structure;
/* `list_of` is written by the caller's room [count] for IVF. */
void pc__faiss_export(const pc__faiss *index, int32_t *list_room, pc__faiss_structure *out);
/* Into an index in which nothing is yet. Everything is checked: parts that do not fit together are
 * PC__FAISS_FAILED, never undefined. */
int pc__faiss_import(pc__faiss *index, size_t count, const float *vectors,
                     const pc__faiss_structure *structure, char *text);

#ifdef __cplusplus
}
#endif
#endif

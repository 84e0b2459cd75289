/* FAISS behind C functions, in a plug-in module. Debian's package (1.7.3) has the headers of
 * FAISS's C interface but not its code. FAISS's own search, add and train run OpenMP regions in
 * which a failed allocation ends the process. So this uses parts of FAISS: IndexFlat; the graph of
 * HNSW with its search and linking; the inverted lists of IVF, whose centres are found here. Our
 * kernels compute the distances of the last two, because packages of FAISS are compiled for the
 * oldest processor (scan_kernels.h; test/kernel/test_index_recall.c).
 *
 * Exceptions end here. FAISS starts no threads: no OpenMP region is entered. Memory comes from
 * operator new, not from the context's allocator. Positions count from 0 in the order of adding;
 * none is ever removed.
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

/* What a file has beside the vectors: levels [count] and neighbours of HNSW; the list of each
 * vector [count] and the centres [lists][dim] of IVF. Pointers into the index, valid until it
 * changes. */
typedef struct pc__faiss_structure {
    const int32_t *levels, *neighbours;
    size_t neighbour_count;
    int32_t entry, top_level;
    const float *centres;
    size_t lists;
    const int32_t *list_of;
} pc__faiss_structure;

/* The table of the plug-in module faiss. */
typedef struct pc__faiss_functions {
    int (*create)(pc__faiss **out, const pc__faiss_setup *setup, char *text);
    void (*destroy)(pc__faiss *index); /* NULL does nothing */

    /* IVF, before the first vector is added: finds `lists` centres (at most count) among the
     * vectors. */
    int (*train)(pc__faiss *index, size_t count, const float *vectors, size_t lists, char *text);
    /* After a failure there may be more positions than before (HNSW cannot undo); the caller leaves
     * them out of results. */
    int (*add)(pc__faiss *index, size_t count, const float *vectors, char *text);
    size_t (*count)(const pc__faiss *index);

    /* Finds the `want` nearest: squared distances, nearest first, then infinity and -1. probes:
     * lists of IVF to search. With want >= count, and probes of all lists, the result is exact. */
    int (*search)(const pc__faiss *index, const float *query, size_t want, size_t probes,
                  float *distances, int64_t *positions, char *text);
    size_t (*lists)(const pc__faiss *index);          /* 0: not of that kind, or not trained */
    void (*rows)(const pc__faiss *index, float *out); /* [count][dim] */

    /* out->list_of points to list_room [count], which is used for IVF only. */
    void (*export_structure)(const pc__faiss *index, int32_t *list_room, pc__faiss_structure *out);
    /* Fills an empty index. A structure that is not valid is PC__FAISS_FAILED, and never undefined
     * behaviour. */
    int (*import_structure)(pc__faiss *index, size_t count, const float *vectors,
                            const pc__faiss_structure *structure, char *text);
} pc__faiss_functions;

#ifdef __cplusplus
}
#endif
#endif

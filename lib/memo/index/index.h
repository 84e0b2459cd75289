/* Nearest neighbours of feature vectors, by Euclidean distance: the built-in exact scan, or FAISS
 * (Flat, HNSW, IVF). One index holds inputs of one length, so that a hit has the same length.
 *
 * Threads: internally locked. Searches run at the same time, each on its caller's thread; an index
 * starts no threads. Adding and searching wait for each other. FAISS keeps removed vectors. When
 * they are more than half, the thread that removed the last one rebuilds the index without them
 * (HNSW: tens of seconds for 100,000 vectors, test/kernel/test_index_recall.c). Searches go on
 * meanwhile; adding and removing wait.
 *
 * Memory: the scan allocates from `mem`, FAISS with operator new. */
#ifndef PC_MEMO_INDEX_H
#define PC_MEMO_INDEX_H

#include "base/context.h"

enum { PC__FEATURE_DIM = 128, PC__NO_NEIGHBOUR = -1 };
typedef enum pc__index_kind {
    PC__INDEX_SCAN = 0,   /* built in, exact; AVX-512, AVX2 or C */
    PC__INDEX_FAISS_FLAT, /* PC_ERR_UNSUPPORTED without FAISS, as the next two */
    PC__INDEX_FAISS_HNSW,
    PC__INDEX_FAISS_IVF
} pc__index_kind;

typedef struct pc__index_options {
    pc__index_kind kind;
    uint32_t dim;
    int32_t hnsw_links, hnsw_build,
        hnsw_search;               /* M (2 to 256), efConstruction, efSearch; 0: default */
    int32_t ivf_lists, ivf_probes; /* 0: default by the number of vectors */
    uint64_t seed;
} pc__index_options;

typedef struct pc__index pc__index;
int pc__index_has_faiss(void); /* opens its plug-in module */
pc_status pc__index_new(pc__index **out, const pc_allocator *mem, const pc__index_options *options);
void pc__index_free(pc__index *index); /* NULL does nothing */
/* Copies the vectors. PC_ERR_INVALID: an id below 0 or not new; a number not finite or beyond 1e16.
 * An IVF index is trained on the first vectors, and again when it has grown fourfold. All or
 * nothing. */
pc_status pc__index_add(pc__index *index, size_t count, const float *vectors /* [count][dim] */,
                        const int64_t *ids);
/* PC_MISS: there is no such id. */
pc_status pc__index_remove(pc__index *index, int64_t id);
size_t pc__index_count(const pc__index *index);
int pc__index_has(const pc__index *index, int64_t id);
pc__index_kind pc__index_kind_of(const pc__index *index);
/* Finds the k nearest of each query, nearest first, ties by the smaller id. distances [queries][k],
 * Euclidean, not squared; ids [queries][k]. Where there are fewer: PC__NO_NEIGHBOUR and infinity.
 * HNSW and IVF may miss some, but return k if there are k. */
pc_status pc__index_search(const pc__index *index, size_t queries, const float *vectors, size_t k,
                           float *distances, int64_t *ids);

/* The index as bytes, appended to `out`, and back, with the graph of HNSW and the lists of IVF. The
 * caller keeps a checksum; but even without one any bytes are safe to read. PC_ERR_FORMAT: the text
 * begins with `where`. PC_ERR_UNSUPPORTED: a kind of FAISS, without FAISS. */
pc_status pc__index_write(const pc__index *index, pc__bytes *out);
pc_status pc__index_read(pc__index **out, const pc_allocator *mem, const void *data, size_t size,
                         const char *where);

#endif

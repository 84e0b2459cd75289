/* Nearest neighbours of feature vectors, by Euclidean distance: the built-in exact scan, or FAISS
 * (Flat, HNSW, IVF). One index holds inputs of one length of one bucket, so that no hit can be of
 * another length.
 *
 * Threads: internally locked; searches run at the same time, on the thread that asks: none is
 * started here. Adding waits for the searches that are under way, and they for it. What FAISS's
 * kinds hold of removed vectors is dropped when it is more than half: they are then made anew by
 * the thread that removed (of 100,000 vectors HNSW takes tens of seconds,
 * test/kernel/test_index_recall.c), while searches go on and other adds and removes wait.
 *
 * Memory: the scan's all comes from `mem`; FAISS's own (vectors, graph, lists) from operator new.
 */
#ifndef PC_MEMO_INDEX_H
#define PC_MEMO_INDEX_H

#include "base/context.h"

enum { PC__FEATURE_DIM = 128, PC__NO_NEIGHBOUR = -1 };
typedef enum pc__index_kind {
    PC__INDEX_SCAN,       /* ours: exact, AVX-512 / AVX2 / C by what the CPU has */
    PC__INDEX_FAISS_FLAT, /* PC_ERR_UNSUPPORTED without FAISS, as the next two */
    PC__INDEX_FAISS_HNSW,
    PC__INDEX_FAISS_IVF
} pc__index_kind;

typedef struct pc__index_options {
    pc__index_kind kind;
    size_t dim;
    int32_t hnsw_links, hnsw_build,
        hnsw_search;               /* M (2 to 256), efConstruction, efSearch; 0: default */
    int32_t ivf_lists, ivf_probes; /* 0: default by the number of vectors */
    uint64_t seed;
} pc__index_options;

typedef struct pc__index pc__index;
int pc__index_has_faiss(void);
pc_status pc__index_new(pc__index **out, const pc_allocator *mem, const pc__index_options *options);
void pc__index_free(pc__index *index); /* NULL does nothing */
/* Copies the vectors. Ids are >= 0 and unique; numbers finite and within 1e16, or PC_ERR_INVALID.
 * An IVF index trains itself with what comes first and again when it has grown fourfold. All or
 * nothing. */
pc_status pc__index_add(pc__index *index, size_t count, const float *vectors /* [count][dim] */,
                        const int64_t *ids);
/* Is never found again. PC_MISS: not there. */
pc_status pc__index_remove(pc__index *index, int64_t id);
size_t pc__index_count(const pc__index *index);
int pc__index_has(const pc__index *index, int64_t id);
pc__index_kind pc__index_kind_of(const pc__index *index);
/* The k nearest of each query, nearest first, ties by the smaller id: distances [queries][k]
 * (Euclidean, not squared), ids likewise; where there are fewer, PC__NO_NEIGHBOUR and infinity.
 * HNSW and IVF may miss some, but always find as many as there are. */
pc_status pc__index_search(const pc__index *index, size_t queries, const float *vectors, size_t k,
                           float *distances, int64_t *ids);

/* The whole index as bytes, added to `out`, and back: with HNSW's graph and IVF's lists, so that
 * opening costs what reading costs. The caller keeps a checksum beside them. PC_ERR_FORMAT (names
 * `where` and what is wrong) also without one: whatever the bytes are, nothing undefined happens.
 * PC_ERR_UNSUPPORTED: of a kind of FAISS's, without FAISS. */
pc_status pc__index_write(const pc__index *index, pc__bytes *out);
pc_status pc__index_read(pc__index **out, const pc_allocator *mem, const void *data, size_t size,
                         const char *where);

#endif

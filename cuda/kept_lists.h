/* Lists on the device that a stream keeps until it is finished: most are the same in all layers of
 * a pass, and are uploaded once. They are found again by their bytes, because the caller's memory
 * may hold something else by then. */
#ifndef PC_CUDA_KEPT_LISTS_H
#define PC_CUDA_KEPT_LISTS_H

#include "cuda/device_stream.h"

enum { PC__CUDA_KEPT_LISTS = 32 }; /* the most; the one that was asked for longest ago goes */

enum { PC__CUDA_KEY_LIST, PC__CUDA_KEY_ANGLES };

/* What a list is found by: a copy is kept. */
typedef struct pc__cuda_key {
    uint32_t kind; /* PC__CUDA_KEY_LIST, … */
    struct {
        const void *at;
        size_t bytes;
    } part[3];
} pc__cuda_key;

/* A copy of a list. As what the other functions return, it is there for work that is queued before
 * so many others are asked for. NULL: the stream has the error. */
const void *pc__cuda_kept_list(pc__cuda_stream *stream, const void *list, size_t bytes);
/* What was added with this key. NULL: nothing. */
const void *pc__cuda_kept_find(pc__cuda_stream *stream, const pc__cuda_key *key);
/* Uploads a list that is not kept yet; it may be changed at once, as may the key. */
const void *pc__cuda_kept_add(pc__cuda_stream *stream, const pc__cuda_key *key, const void *list,
                              size_t bytes);
/* Gives all back. */
void pc__cuda_kept_drop(pc__cuda_stream *stream);

#endif

/* Packed weights in a file of a folder of the user's, so that a model is packed and digested
 * once. The next load maps the packed file, and its panels stay there. Layout of the file:
 * packed_weights.c.
 *
 * The weights are known again by the state of their files (path, size, time of change, inode),
 * and their digest stands in the packed file. A packed file of another state, fingerprint, class
 * of kernels or version of the library is replaced. Each block has a checksum: sets of panels in
 * damaged blocks are packed from the weights, and the file is removed, so that the next load
 * writes it anew.
 *
 * Nothing here fails a load: what goes wrong is logged, and the weights are packed as ever. One
 * thread uses a handle at a time. */
#ifndef PC_ATTN_PACKED_WEIGHTS_H
#define PC_ATTN_PACKED_WEIGHTS_H

#include "attn/packed_map.h"
#include "base/context.h"
#include "base/digest.h"

typedef struct pc__packed pc__packed;

typedef struct pc__packed_key {
    const char *folder; /* made if it is missing */
    const char *path;   /* of the model; names the packed file, with `compute` and the kernels */
    uint32_t compute;   /* as asked for */
    pc__id files;       /* state of the model's files */
    int64_t changed;    /* seconds since 1970: their last change */
} pc__packed_key;

/* Looks for the packed file. NULL: neither reading nor writing is possible. */
pc__packed *pc__packed_open(pc_context *context, const pc__packed_key *key);
/* 1: the digest of the weights is known. */
int pc__packed_weights(const pc__packed *packed, pc__id *weights);
/* Before the first set. With another digest or fingerprint than the file's, it is written anew. */
void pc__packed_begin(pc__packed *packed, const pc__id *weights, const pc__id *fingerprint);
/* The next set of panels, [bytes], which `tag` describes: readable until *holder is dropped.
 * NULL: it has to be packed. */
const uint8_t *pc__packed_find(pc__packed *packed, uint64_t tag, size_t bytes,
                               pc__packed_map **holder);
/* The next set of panels, as it was packed. */
void pc__packed_write(pc__packed *packed, uint64_t tag, const uint8_t *from, size_t bytes);
/* Publishes what was written if `complete`. NULL does nothing. */
void pc__packed_close(pc__packed *packed, int complete);

#endif

/* Many digests at once: vector registers hold the states of several BLAKE2b computations, one in
 * each lane. A core digests four to eight byte strings in little more than the time of two. */
#ifndef PC_BASE_DIGEST_LANES_H
#define PC_BASE_DIGEST_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

enum { PC__MOST_LANES = 8 };

typedef struct pc__digest_item {
    const uint8_t *data;
    size_t size;
    void *user;
} pc__digest_item;

/* Gives the items of one thread; several threads may share a source. */
typedef struct pc__digest_source {
    const char *domain; /* of at most 47 bytes */
    void *user;
    int (*next)(void *user, pc__digest_item *item); /* 0: no more */
    void (*done)(void *user, const pc__digest_item *item, const pc__id *id);
} pc__digest_source;

/* Blocks of 128 bytes of each lane, one after the other. Of a lane: h its state, t the bytes up to
 * the end of its first block, final all ones in its last block (then blocks is 1), data. */
typedef struct pc__lane_blocks {
    uint64_t h[8][PC__MOST_LANES], t[PC__MOST_LANES], final[PC__MOST_LANES];
    const uint8_t *data[PC__MOST_LANES];
    size_t blocks;
} pc__lane_blocks;

typedef struct pc__lane_code {
    size_t lanes;
    void (*compress)(pc__lane_blocks *blocks);
} pc__lane_code;

extern const uint64_t pc__lane_start[8]; /* BLAKE2b's initial values */
extern const pc__lane_code pc__lane_code_avx2, pc__lane_code_avx512;

/* The code of this CPU's level; NULL: it has none. */
const pc__lane_code *pc__lane_code_best(void);
/* Digests every item until `next` has none: pc__digest_start(domain), pc__digest_bytes(data, size).
 */
void pc__digest_in_lanes(const pc__lane_code *code, const pc__digest_source *source);

#endif

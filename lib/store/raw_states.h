/* Attention states of an application as payloads of segments: in its own memory (pc_segment_wrap),
 * in ours, or in a mapped record. The owner is the pc_context. */
#ifndef PC_STORE_RAW_STATES_H
#define PC_STORE_RAW_STATES_H

#include <promptcache/cache.h>
#include "store/segment.h"

extern const pc__payload_ops pc__raw_payload;

/* Checks states that an application describes; `call` begins the error text. `expected`: of states
 * that are looked up, so blocks are not checked. On success *image describes them (borrowed, no
 * names). */
pc_status pc__raw_image(pc__image *image, const pc_raw *raw, int expected, const char *call);
/* PC_ERR_MISMATCH: a segment is not what is expected. */
pc_status pc__raw_check_segment(const pc_segment *segment, const pc__image *want);
/* A segment with a copy of the blocks of `image`; and the bytes that it counts. */
pc_status pc__raw_copy(pc_segment **out, pc_context *context, const pc__image *image);
uint64_t pc__raw_copy_bytes(const pc__image *image);
/* The reverse: borrows the image's pointers; without tokens and lossy. */
void pc__image_raw(pc_raw *raw, const pc__image *image);

#endif

/* Attention states of a host's runtime as payloads of segments: in its own memory
 * (pc_segment_wrap), in ours or in a mapped record (loads). The owner is the pc_context. */
#ifndef PC_STORE_RAW_STATES_H
#define PC_STORE_RAW_STATES_H

#include "store/segment.h"

extern const pc__payload_ops pc__raw_payload;

/* Checks what a host says about states; `call` stands in error texts. `expected`: of states that
 * are sought, whose blocks are not looked at. On success *image holds it (views, no names). */
pc_status pc__raw_image(pc__image *image, const pc_raw *raw, int expected, const char *call);

#endif

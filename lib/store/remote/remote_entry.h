/* How a record lies on a server: one value a piece, all in one hash slot (doc/format.md, "A
 * server"). Blocks carry a random tag of their writer in their names, so that the pieces of two
 * writers never mix; the value of the header begins with an envelope that names the tag. */
#ifndef PC_STORE_REMOTE_ENTRY_H
#define PC_STORE_REMOTE_ENTRY_H

#include "store/spot.h"

typedef struct pc__entry {
    uint64_t tag;
    uint64_t header_bytes; /* of piece 0, behind the envelope */
    uint64_t bytes;        /* of all values */
    uint32_t pieces;       /* header included */
    uint32_t ttl;          /* seconds that a hit moves the end to; 0: it does not */
    uint32_t tokens;
    uint32_t has_content;
    pc__id content;
    uint32_t is_ours; /* not in the envelope: this process has written the record, or opened it */
} pc__entry;

enum {
    PC__ENVELOPE_BYTES = 96,
    PC__HEADER_NAME = 72 + PC__VARIANT,
    PC__BLOCK_NAME = PC__HEADER_NAME + 24
};

typedef struct pc__entry_name {
    char text[PC__BLOCK_NAME];
    size_t size;
} pc__entry_name;

pc__entry_name pc__header_name(const pc__spot *spot);
pc__entry_name pc__block_name(const pc__spot *spot, uint64_t tag, size_t piece); /* piece >= 1 */

void pc__envelope_write(uint8_t out[PC__ENVELOPE_BYTES], const pc__entry *entry);
/* PC_ERR_FORMAT: no envelope, or damaged; PC_ERR_UNSUPPORTED: of another version. */
pc_status pc__envelope_read(pc__entry *out, const uint8_t *data, size_t size);

#endif

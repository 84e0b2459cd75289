/* How a record lies on a server: one value a piece, all in one hash slot (doc/format.md, "A
 * server"). Blocks carry a random tag of their writer in their names, so that the pieces of two
 * writers never mix; the value of the header begins with an envelope that names the tag. */
#ifndef PC_STORE_REMOTE_ENTRY_H
#define PC_STORE_REMOTE_ENTRY_H

#include "store/record/record_name.h"

typedef struct pc__remote_entry {
    uint64_t tag;
    uint64_t header_bytes; /* of piece 0, behind the envelope */
    uint64_t bytes;        /* of all values */
    uint32_t pieces;       /* header included */
    uint32_t ttl;          /* seconds that a hit moves the end to; 0: it does not */
    uint32_t tokens;
    uint32_t has_content;
    pc__id content;
    uint32_t is_usable; /* not in the envelope: this process has written the record, or opened it */
} pc__remote_entry;

enum {
    PC__REMOTE_ENVELOPE_BYTES = 96,
    PC__REMOTE_HEADER_NAME = 72 + PC__VARIANT,
    PC__REMOTE_BLOCK_NAME = PC__REMOTE_HEADER_NAME + 24
};

typedef struct pc__remote_name {
    char text[PC__REMOTE_BLOCK_NAME];
    size_t size;
} pc__remote_name;

pc__remote_name pc__remote_header_name(const pc__record_name *record_name);
pc__remote_name pc__remote_block_name(const pc__record_name *record_name, uint64_t tag,
                                      size_t piece); /* piece >= 1 */

void pc__remote_envelope_write(uint8_t out[PC__REMOTE_ENVELOPE_BYTES],
                               const pc__remote_entry *entry);
/* PC_ERR_FORMAT: no envelope, or damaged; PC_ERR_UNSUPPORTED: of another version. */
pc_status pc__remote_envelope_read(pc__remote_entry *out, const uint8_t *data, size_t size);

#endif

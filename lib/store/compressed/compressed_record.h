/* One record of the tier COMPRESSED: its pieces, each a block of memory of its own, so that none
 * has to move while it grows. */
#ifndef PC_STORE_COMPRESSED_RECORD_H
#define PC_STORE_COMPRESSED_RECORD_H

#include "store/record/record.h"
#include "store/eviction.h"

typedef struct pc__compressed_piece {
    void *data;
    uint64_t offset; /* of the record as a file */
    size_t size;
} pc__compressed_piece;

typedef struct pc__compressed_record {
    pc__eviction_item item; /* its bytes: all that is allocated for it */
    pc__hash_link by_content;
    pc__heap_node expiry;
    pc__id content;
    int has_content;
    int in_table; /* in the table */
    uint32_t tokens;
    size_t readers;      /* each holds the item */
    double ttl, expires; /* by pc__now; 0: no end */
    uint32_t gone;       /* PC_EVENT_…, once it is out of the table */
    uint32_t reason;     /* with it */
    struct pc__compressed_record *next;
    uint64_t bytes; /* of the record as a file */
    size_t count;
    pc__compressed_piece pieces[]; /* [count] the header, then the blocks */
} pc__compressed_record;

/* Empty, with `blocks` + 1 pieces to come. */
pc_status pc__compressed_record_new(pc__compressed_record **out, const pc_allocator *mem,
                                    const pc__image *image);
uint64_t pc__compressed_record_own_bytes(
    size_t blocks);                               /* of an empty one, and what it takes in tables */
uint64_t pc__compressed_piece_bytes(size_t size); /* that a piece takes from the allocator */
pc_status pc__compressed_record_set(pc__compressed_record *record, const pc_allocator *mem,
                                    size_t piece, uint64_t offset, const void *data, size_t size);
void pc__compressed_record_free(pc__compressed_record *record,
                                const pc_allocator *mem); /* NULL does nothing */
/* Bytes of a piece where they lie; NULL with PC_ERR_FORMAT or PC_ERR_NOT_FOUND. */
const void *pc__compressed_record_bytes(const pc__compressed_record *record, size_t piece,
                                        uint64_t offset, uint64_t at, size_t size,
                                        pc_status *status);

#endif

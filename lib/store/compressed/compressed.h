/* One record of the COMPRESSED tier. Each piece is its own block of memory, so that none moves
 * while the record grows. */
#ifndef PC_STORE_COMPRESSED_H
#define PC_STORE_COMPRESSED_H

#include "store/record/record.h"
#include "store/tenants.h"

typedef struct pc__compressed_piece {
    void *data;
    uint64_t offset; /* in the record as a file */
    size_t size;
} pc__compressed_piece;

typedef struct pc__compressed_record {
    pc__eviction_item item; /* its bytes: all memory of the record */
    pc__heap_node expiry;
    pc__id salt; /* of its tenant */
    int in_table;
    int disputed; /* the last reader expected something else: the next put replaces it */
    uint32_t tokens;
    size_t readers;      /* each holds the item */
    double ttl, expires; /* pc__now clock; 0: never */
    uint32_t gone;       /* PC_EVENT_…, once it is removed */
    uint32_t reason;     /* of the removal */
    struct pc__compressed_record *next;
    uint64_t bytes; /* of the record as a file */
    size_t count;
    pc__compressed_piece pieces[]; /* [count] the header, then the blocks */
} pc__compressed_record;

/* Makes an empty record for the pieces of an image. */
pc_status pc__compressed_record_new(pc__compressed_record **out, const pc_allocator *mem,
                                    const pc__image *image);
/* Bytes of an empty record and its slots in tables. */
uint64_t pc__compressed_record_own_bytes(size_t blocks);
uint64_t pc__compressed_piece_bytes(size_t size); /* with what the allocator adds */
pc_status pc__compressed_record_set(pc__compressed_record *record, const pc_allocator *mem,
                                    size_t piece, uint64_t offset, const void *data, size_t size);
void pc__compressed_record_free(pc__compressed_record *record,
                                const pc_allocator *mem); /* NULL does nothing */
/* Bytes of a piece in place; NULL: PC_ERR_FORMAT or PC_ERR_NOT_FOUND. */
const void *pc__compressed_record_bytes(const pc__compressed_record *record, size_t piece,
                                        uint64_t offset, uint64_t at, size_t size,
                                        pc_status *status);

#endif

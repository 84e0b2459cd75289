/* The bytes of a folder of maps (doc/format.md, "A memo's maps"): maps.log says what is there,
 * maps.data holds the records. Nothing here touches files. */
#ifndef PC_MEMO_MAP_FORMAT_H
#define PC_MEMO_MAP_FORMAT_H

#include "base/checksum.h"
#include "memo/maps/map_store.h"

#define PC__MAPS_LOCK "maps.lock"
#define PC__MAPS_LOG "maps.log"
#define PC__MAPS_LOG_NEW "maps.log.new"
#define PC__MAPS_DATA "maps.data"

enum {
    PC__MAPS_PAGE =
        4096, /* records begin at multiples of it; the data file's own header has the first */
    PC__MAPS_ALIGN = 64, /* of the parts of a record */
    PC__MAPS_LOG_HEADER = 128,
    PC__MAPS_DATA_HEADER = 48,
    PC__MAPS_MARK_AT = 64, /* in the data file */
    PC__MAPS_MARK = 32,
    PC__MAPS_ENTRY = 128,  /* of the log */
    PC__MAPS_HEADER = 128, /* of a record, before its table */
    PC__MAPS_HEADER_SUM = 112,
    PC__MAPS_ROW = 32, /* of a record's table, a layer */
    PC__MAPS_NONCE = 16
};
#define PC__MAPS_MOST_TOKENS (UINT32_C(1) << 25)
#define PC__MAPS_MOST_METADATA (UINT32_C(1) << 26)
#define PC__MAPS_MOST_ID (INT64_MAX / 2)
#define PC__MAPS_MOST_BYTES (UINT64_C(1) << 48) /* of a data file */

typedef struct pc__map_log_header {
    pc__map_signature signature;
    uint8_t nonce[PC__MAPS_NONCE]; /* of the store: its data file and records have it too */
    int64_t next_id;               /* ids below were given out */
    uint64_t generation; /* how often the log was written anew; 0: by a version that set no marks */
} pc__map_log_header;

enum { PC__MAPS_STORED = 1, PC__MAPS_REMOVED = 2 };
enum { PC__MAPS_COMPRESSED = 1 }; /* flags of STORED */
typedef enum pc__map_removal {
    PC__MAPS_BY_HAND = 1,
    PC__MAPS_EVICTED = 2,
    PC__MAPS_DAMAGED = 3
} pc__map_removal; /* flags of REMOVED */

typedef struct pc__map_log_entry {
    uint32_t kind, flags;
    int64_t id;
    /* of STORED only, zeros otherwise */
    uint64_t at,
        bytes; /* in the data file; from the record's header to the end of its last layer */
    double log_uses, clock; /* of eviction, both as of this entry */
    int64_t used;           /* last use or writing, seconds since 1970 */
    uint32_t tokens, metadata;
    pc__id tokens_id;
    uint8_t sum[PC__CHECKSUM]; /* of the record's header */
} pc__map_log_entry;

/* Where the parts of a record are, of a face and a number of tokens and bytes of note; from the
 * record's start. */
typedef struct pc__map_layout {
    uint64_t layer_bytes;      /* of one layer, not packed */
    uint64_t header;           /* bytes of header and table */
    uint64_t metadata, layers; /* where they begin */
    uint64_t bytes;            /* of the whole record, not packed */
} pc__map_layout;
/* 0: beyond the limits. */
int pc__map_layout_of(const pc__map_signature *signature, uint32_t tokens, uint32_t metadata,
                      pc__map_layout *out);

static inline uint64_t pc__map_round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

void pc__map_log_header_put(const pc__map_log_header *header, uint8_t out[PC__MAPS_LOG_HEADER]);
/* PC_ERR_FORMAT, PC_ERR_UNSUPPORTED (a later version); the text begins with `where`. */
pc_status pc__map_log_header_get(const uint8_t *data, size_t size, const char *where,
                                 pc__map_log_header *out);
/* PC_ERR_MISMATCH names what differs. */
pc_status pc__map_signature_check(const pc__map_signature *there, const pc__map_signature *wanted,
                                  const char *where);

void pc__map_data_header_put(const uint8_t nonce[PC__MAPS_NONCE],
                             uint8_t out[PC__MAPS_DATA_HEADER]);
pc_status pc__map_data_header_get(const uint8_t *data, size_t size,
                                  const uint8_t nonce[PC__MAPS_NONCE], const char *where);

/* How many entries the log had when it was last added to, in the data file's first page: a log that
 * was cut since has fewer. */
typedef struct pc__map_log_mark {
    uint64_t generation; /* of the log that it is about */
    uint64_t entries;
} pc__map_log_mark;
void pc__map_log_mark_put(const pc__map_log_mark *mark, uint8_t out[PC__MAPS_MARK]);
int pc__map_log_mark_get(const uint8_t data[PC__MAPS_MARK],
                         pc__map_log_mark *out); /* 0: there is none, or it is damaged */

void pc__map_log_entry_put(const pc__map_log_entry *entry, uint8_t out[PC__MAPS_ENTRY]);
/* 0: no such entry can have been written for this face, or it is damaged. */
int pc__map_log_entry_get(const uint8_t data[PC__MAPS_ENTRY], const pc__map_signature *signature,
                          pc__map_log_entry *out);

/* Header and table, [layout.header]: rows as in pc__map_record_row_put are there already; their sum
 * is set in entry->sum. */
void pc__map_record_put(uint8_t *header, pc__map_log_entry *entry, const pc__map_layout *layout,
                        int32_t layers, const uint8_t nonce[PC__MAPS_NONCE],
                        const uint8_t metadata_sum[PC__CHECKSUM]);
void pc__map_record_row_put(uint8_t *header, int32_t layer, uint64_t at, uint64_t bytes,
                            const uint8_t sum[PC__CHECKSUM]);
void pc__map_record_row_get(const uint8_t *header, int32_t layer, uint64_t *at, uint64_t *bytes,
                            const uint8_t **sum);
/* Does the header belong to the entry, whole, and is its table one that can be? data: the record,
 * entry->bytes of it. NULL, or what is wrong. */
const char *pc__map_record_check(const uint8_t *data, const pc__map_log_entry *entry,
                                 const pc__map_layout *layout, int32_t layers);
const uint8_t *pc__map_record_metadata_sum(const uint8_t *header);

#endif

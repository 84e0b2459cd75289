/* The bytes of log and data file (doc/format.md, "A memo's maps"). Nothing here touches files. */
#ifndef PC_MEMO_MAP_FORMAT_H
#define PC_MEMO_MAP_FORMAT_H

#include "base/checksum.h"
#include "memo/maps/map_store.h"

#define PC__MAPS_LOCK "maps.lock"
#define PC__MAPS_LOG "maps.log"
#define PC__MAPS_LOG_NEW "maps.log.new"
#define PC__MAPS_DATA "maps.data"

enum {
    /* Alignment of records; the header of the data file is in the first page. */
    PC__MAPS_PAGE = 4096,
    PC__MAPS_ALIGN = 64, /* alignment of the parts of a record */
    PC__MAPS_LOG_HEADER = 128,
    PC__MAPS_DATA_HEADER = 48,
    PC__MAPS_MARK_AT = 64, /* offset in the data file */
    PC__MAPS_MARK = 32,
    PC__MAPS_ENTRY = 128,  /* an entry of the log */
    PC__MAPS_HEADER = 128, /* of a record, without its table */
    PC__MAPS_HEADER_SUM = 112,
    PC__MAPS_ROW = 32, /* of a record's table, for one layer */
    PC__MAPS_NONCE = 16
};
#define PC__MAPS_MOST_TOKENS (UINT32_C(1) << 25)
#define PC__MAPS_MOST_METADATA (UINT32_C(1) << 26)
#define PC__MAPS_MOST_ID (INT64_MAX / 2)
#define PC__MAPS_MOST_BYTES (UINT64_C(1) << 48) /* in a data file */

typedef struct pc__map_log_header {
    pc__map_signature signature;
    uint8_t nonce[PC__MAPS_NONCE]; /* of the store; data file and records have the same */
    int64_t next_id;               /* smaller ids were given out */
    /* How often the log was written anew; 0: by an early version, which wrote no marks. */
    uint64_t generation;
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
    /* The rest only for STORED, otherwise 0. */
    /* Offset in the data file; bytes from the record's header to the end of its last layer. */
    uint64_t at, bytes;
    double log_uses, clock; /* of the eviction score, as of this entry */
    int64_t used;           /* last use, or writing; seconds since 1970 */
    uint32_t tokens, metadata;
    pc__id tokens_id;
    uint8_t sum[PC__CHECKSUM]; /* of the record's header */
} pc__map_log_entry;

/* Offsets of the parts of a record, from its start. */
typedef struct pc__map_layout {
    uint64_t layer_bytes;      /* of one layer, not compressed */
    uint64_t header;           /* bytes of header and table */
    uint64_t metadata, layers; /* their offsets */
    uint64_t bytes;            /* of the record, not compressed */
} pc__map_layout;
/* 0: a limit is exceeded. */
int pc__map_layout_of(const pc__map_signature *signature, uint32_t tokens, uint32_t metadata,
                      pc__map_layout *out);

static inline uint64_t pc__map_round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

void pc__map_log_header_put(const pc__map_log_header *header, uint8_t out[PC__MAPS_LOG_HEADER]);
/* PC_ERR_FORMAT, PC_ERR_UNSUPPORTED (a later version). The text begins with `where`. */
pc_status pc__map_log_header_get(const uint8_t *data, size_t size, const char *where,
                                 pc__map_log_header *out);
int pc__map_signature_valid(const pc__map_signature *signature);
/* PC_ERR_MISMATCH: the text names the difference. */
pc_status pc__map_signature_check(const pc__map_signature *there, const pc__map_signature *wanted,
                                  const char *where);

void pc__map_data_header_put(const uint8_t nonce[PC__MAPS_NONCE],
                             uint8_t out[PC__MAPS_DATA_HEADER]);
pc_status pc__map_data_header_get(const uint8_t *data, size_t size,
                                  const uint8_t nonce[PC__MAPS_NONCE], const char *where);

/* The mark: how many entries the log has, in the first page of the data file. It reveals a log that
 * was cut off. */
typedef struct pc__map_log_mark {
    uint64_t generation; /* of that log */
    uint64_t entries;
} pc__map_log_mark;
void pc__map_log_mark_put(const pc__map_log_mark *mark, uint8_t out[PC__MAPS_MARK]);
int pc__map_log_mark_get(const uint8_t data[PC__MAPS_MARK],
                         pc__map_log_mark *out); /* 0: no mark, or a damaged one */

void pc__map_log_entry_put(const pc__map_log_entry *entry, uint8_t out[PC__MAPS_ENTRY]);
/* 0: the entry is damaged, or not valid for this signature. */
int pc__map_log_entry_get(const uint8_t data[PC__MAPS_ENTRY], const pc__map_signature *signature,
                          pc__map_log_entry *out);

/* Writes a record's header and sets entry->sum. header: [layout.header] bytes, in which
 * pc__map_row_put has written the table. */
void pc__map_record_put(uint8_t *header, pc__map_log_entry *entry, const pc__map_layout *layout,
                        int32_t layers, const uint8_t nonce[PC__MAPS_NONCE],
                        const uint8_t metadata_sum[PC__CHECKSUM]);
/* A row of a record's table. */
typedef struct pc__map_row {
    uint64_t at, bytes;
    uint8_t sum[PC__CHECKSUM];
} pc__map_row;
void pc__map_row_put(uint8_t *header, int32_t layer, const pc__map_row *row);
pc__map_row pc__map_row_get(const uint8_t *header, int32_t layer);
/* Checks that the header belongs to the entry and is not damaged, and that its table is valid.
 * data: entry->bytes of the record. Returns NULL, or what is wrong. */
const char *pc__map_record_check(const uint8_t *data, const pc__map_log_entry *entry,
                                 const pc__map_layout *layout, int32_t layers);
const uint8_t *pc__map_record_metadata_sum(const uint8_t *header);

#endif

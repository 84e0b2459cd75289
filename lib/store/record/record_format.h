/* The bytes of a record's header (tables in doc/format.md, "Records"); all numbers are
 * little-endian.
 *
 *   prologue [64] · face [232] · table, 72 bytes for each block · body, fields with tags
 *
 * Prologue, face and table are never encrypted: a tier needs them of records that it cannot open.
 * The body is, if the record is sealed; it holds the ids that the face of such a record shows
 * keyed. Sealed records are of version 2, others of version 1. A later minor version may make face
 * and table entries longer and add tags. A reader uses the sizes of the prologue and ignores the
 * rest. */
#ifndef PC_STORE_RECORD_FORMAT_H
#define PC_STORE_RECORD_FORMAT_H

#include "base/checksum.h"
#include "store/record/record.h"
#include "store/record/seal.h"

enum {
    PC__RECORD_PLAIN = 1, /* major versions: without a seal, and sealed */
    PC__RECORD_SEALED_MAJOR = 2,
    PC__RECORD_PLAIN_MINOR = 1,
    PC__RECORD_SEALED_MINOR = 0,
    PC__RECORD_PROLOGUE = 64,
    PC__RECORD_FACE = 232,
    PC__RECORD_ENTRY = 72,
    PC__RECORD_DESCRIPTION = 112,   /* of version 1.0 */
    PC__RECORD_DESCRIPTION_1 = 144, /* since 1.1: with the kernels */
    PC__RECORD_ALIGN = 4096,        /* of blocks in the file */
    PC__RECORD_SUM_AT = 48,    /* checksum of the header, in the prologue; zeros in its own input */
    PC__RECORD_NONCE_AT = 272, /* nonce of the body, in the face; zeros for the seal */
    PC__RECORD_CODEC_NAME = 32, /* with a NUL */
    PC__RECORD_TAG_LENGTH = 16  /* of a field of the body, before its bytes */
};

#define PC__RECORD_MAX_TOKENS (UINT64_C(1) << 25)
#define PC__RECORD_MAX_HEADER (UINT32_C(1) << 29)
#define PC__RECORD_MAX_BLOCK (UINT64_C(1) << 40)
#define PC__RECORD_MAX_BYTES (UINT64_C(1) << 57)
/* Largest ratio of a block to its stored bytes: a small file cannot claim much memory. */
#define PC__RECORD_MAX_RATIO (UINT64_C(1) << 18)

/* flags of the prologue: a reader refuses unknown ones of the lower half */
#define PC__RECORD_SEALED UINT32_C(1)
/* bits of the face */
#define PC__RECORD_HAS_CONTENT UINT32_C(1)
#define PC__RECORD_HAS_PARENT UINT32_C(2)
#define PC__RECORD_LOSSY UINT32_C(4)
/* tags of the body, ascending; an unknown tag with PC__RECORD_TAG_NEEDED makes the record
 * unreadable */
enum {
    PC__RECORD_TAG_DESCRIPTION = 1,
    PC__RECORD_TAG_TOKENS = 2,
    PC__RECORD_TAG_RELATIVE = 3,
    PC__RECORD_TAG_CODEC = 4,
    PC__RECORD_TAG_IDS = 5, /* of sealed records */
    PC__RECORD_TAG_VISIBILITY = 6
};
enum { PC__RECORD_IDS = 4 * 32 + PC__RECORD_CLASS };
#define PC__RECORD_TAG_NEEDED (UINT32_C(1) << 31)

/* Prologue and face. */
typedef struct pc__record_head {
    uint32_t major, minor, header_bytes, flags, face_bytes, blocks, entry_bytes, body_bytes;
    uint64_t bytes; /* of the record as a file */
    pc__shown shown;
    uint32_t bits;
    int32_t priority;
    double cost, ttl;
    int64_t expires, written;
    uint64_t state_bytes, tokens;
    uint32_t codec;
    uint8_t key_id[PC__SEAL_KEY_ID], nonce[PC__SEAL_NONCE]; /* zeros without a seal */
} pc__record_head;

/* Of the table. */
typedef struct pc__record_entry {
    uint64_t offset, stored, raw; /* stored: with the tag of the seal */
    uint32_t codec;
    uint8_t sum[PC__CHECKSUM];
    uint8_t nonce[PC__SEAL_NONCE];
} pc__record_entry;

static inline uint64_t pc__record_align(uint64_t bytes)
{
    return (bytes + PC__RECORD_ALIGN - 1) / PC__RECORD_ALIGN * PC__RECORD_ALIGN;
}

/* Writes prologue and face; the checksum stays zero. */
void pc__record_head_put(const pc__record_head *head,
                         uint8_t at[PC__RECORD_PROLOGUE + PC__RECORD_FACE]);
/* `available`: bytes of the file, 0: unknown. PC_ERR_FORMAT. Of a later major version only major
 * and header_bytes are set; pc__record_known refuses it once the checksum is right. */
pc_status pc__record_prologue_get(pc__record_head *head, const uint8_t at[PC__RECORD_PROLOGUE],
                                  uint64_t available);
pc_status pc__record_known(const pc__record_head *head); /* PC_ERR_UNSUPPORTED: version or flags */
pc_status pc__record_face_get(pc__record_head *head, const uint8_t *at);
void pc__record_entry_put(const pc__record_entry *entry, uint8_t at[PC__RECORD_ENTRY]);
/* Entry `index`; its block begins at `from` or later. */
pc_status pc__record_entry_get(pc__record_entry *entry, const pc__record_head *head,
                               const uint8_t *at, size_t index, uint64_t from);

/* The field of the body that says what the states are. put: `at` is zero before. get:
 * PC_ERR_FORMAT. */
void pc__record_description_put(const pc__image *image, uint8_t at[PC__RECORD_DESCRIPTION_1]);
pc_status pc__record_description_get(pc__image *image, const uint8_t *at, uint64_t size);
/* The field of the body of a sealed record with the ids that its face shows keyed, and the class of
 * kernels whose readers alone it is for. get: PC_ERR_FORMAT. */
void pc__record_ids_put(const pc__image *image, const char *kernels, uint8_t at[PC__RECORD_IDS]);
pc_status pc__record_ids_get(pc__image *image, char kernels[PC__RECORD_CLASS], const uint8_t *at,
                             uint64_t size);

/* Most bytes of the header of a record of an image, with room for what later minor versions add. */
uint64_t pc__record_most_header(const pc__image *wanted);

/* Of a header whose checksum counts as zeros. */
void pc__record_header_sum(const uint8_t *header, size_t size, uint8_t out[PC__CHECKSUM]);
/* Bytes that the seal of block `index` authenticates beside the block. */
enum { PC__RECORD_BESIDE = 64 };
void pc__record_beside(const pc__record_head *head, const pc__record_entry *entry, size_t index,
                       uint8_t out[PC__RECORD_BESIDE]);

#endif

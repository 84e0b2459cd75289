/* Records: the states of a segment as bytes that outlive the process (doc/format.md, "Records").
 * Piece 0 of a record is its header, piece 1 + i its block i. A file holds them in this order, at
 * offsets that the header tells (blocks at multiples of 4096). A server or a tier in memory may
 * hold each piece by itself. The header is written last: a record without it does not exist. All
 * input is checked (length, checksum, seal) before it is used. */
#ifndef PC_STORE_RECORD_H
#define PC_STORE_RECORD_H

#include <promptcache/admin.h>
#include <stdatomic.h>

#include "store/codec/codec.h"
#include "store/record/shown.h"

typedef struct pc__record pc__record; /* the header of a record that is being read. Immutable:
                                         several threads may read blocks */

/* Takes the pieces of a record, each once and whole; piece 0 last, at offset 0. */
typedef struct pc__sink {
    pc_status (*write)(struct pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                       size_t size);
} pc__sink;

/* Gives the bytes of a record: `size` bytes at `at` of a piece that begins at `offset` of the file.
 * Several threads may call at once.
 *
 * read     PC_ERR_FORMAT ("cut short"): beyond the end. PC_ERR_NOT_FOUND: the piece is gone.
 *          Timeout: PC_ERR_IO, and timed_out is 1.
 * borrow   (may be NULL) the bytes in place, valid until the source is closed; NULL: they are
 *          not in memory.
 * map      (may be NULL) 1: all bytes are in memory now and can be borrowed. They are private:
 *          writing to them changes no record. 0: they are not.
 * touch    (may be NULL) brings borrowed bytes into memory, so that a read error is an error
 *          here, and not a signal later.
 * close_rest  (may be NULL) the bytes stay in use, nothing more is read. */
typedef struct pc__source {
    pc_status (*read)(struct pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                      void *data, size_t size);
    const void *(*borrow)(struct pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                          size_t size);
    int (*map)(struct pc__source *source);
    pc_status (*touch)(struct pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                       size_t size);
    void (*close_rest)(struct pc__source *source);
    void (*close)(struct pc__source *source);
    uint64_t bytes; /* of the whole record; 0: unknown */
    atomic_int timed_out;
} pc__source;

enum { PC__RECORD_CLASS = 32 }; /* of a class of kernels, with a NUL */

typedef struct pc__record_options {
    const pc__codecs *codecs;
    /* To write with. Blocks that it cannot take, or would not make smaller, are RAW. */
    uint32_t codec;
    uint32_t reserved;
    /* Class of kernels: states of other classes are PC_ERR_UNSUPPORTED, and so are sealed records
     * that were not written with this option. NULL: any. */
    const char *kernels;
    /* 32 bytes: seals what is written and opens what is read. Records without a seal, or with
     * another key, are PC_ERR_UNSUPPORTED. NULL: no seal; sealed records are PC_ERR_UNSUPPORTED. */
    const uint8_t *seal_key;
    /* For reading: what the record has to be. A header that claims more blocks or bytes than a
     * record of these tokens has is PC_ERR_FORMAT, before memory is allocated for it. NULL: any. */
    const pc__image *wanted;
} pc__record_options;

/* Writes the record of an image. Allocates and frees memory for one block. *bytes (may be NULL):
 * its size as a file. */
pc_status pc__record_write(const pc_allocator *mem, const pc__image *image,
                           const pc__record_options *options, pc__sink *sink, uint64_t *bytes);
/* Largest size of the record as a file, and the memory that writing it needs beside the image. */
uint64_t pc__record_bound(const pc__image *image, const pc__record_options *options,
                          uint64_t *scratch);

/* Reads and checks the header. Keeps `source` (not owned) and what the options point to.
 * PC_ERR_FORMAT: damaged, the text says where. PC_ERR_UNSUPPORTED: a later major version, a missing
 * codec or seal key, other kernels. PC_ERR_IO. */
pc_status pc__record_open(pc__record **out, const pc_allocator *mem,
                          const pc__record_options *options, pc__source *source);
/* The same for a caller that may lack the seal key or the codec, or that has a key although the
 * record is not sealed. Without the key of a sealed record only these are known: what it shows,
 * lossy, cost, times, number of tokens and sizes of blocks; all else is zero. */
pc_status pc__record_open_frame(pc__record **out, const pc_allocator *mem,
                                const pc__record_options *options, pc__source *source);
/* Reads and checks only what lies in the clear up to the table, which takes little memory whatever
 * the header claims. No blocks are known, and nothing can be read from it. */
pc_status pc__record_open_face(pc__record **out, const pc_allocator *mem, pc__source *source);
/* What pc__record_open would say: PC_OK, or PC_ERR_UNSUPPORTED with its text. */
pc_status pc__record_usable(const pc__record *record);
/* PC_OK: its blocks can be read. PC_ERR_UNSUPPORTED: the seal key or the codec is missing. */
pc_status pc__record_readable(const pc__record *record);
void pc__record_free(pc__record *record); /* NULL does nothing; the source stays open */
/* Without blocks. lossy is set if the record or its codec is. */
const pc__image *pc__record_image(const pc__record *record);
/* With or without the key. */
const pc__shown *pc__record_shown(const pc__record *record);
/* [PC__SEAL_KEY_ID]; NULL: not sealed. */
const uint8_t *pc__record_seal_id(const pc__record *record);
void pc__record_describe(const pc__record *record, pc_record_info *info); /* all but file_bytes */
/* Reads, checks and decodes block `index` into `out` [block_bytes[index]]. Any threads at once.
 * After a failure `out` is undefined. */
pc_status pc__record_block(const pc__record *record, size_t index, void *out);
/* Blocks in place. is_plain: all blocks are RAW and not sealed. block_address: NULL if that is
 * impossible: only RAW blocks without a seal, of sources that can be borrowed from; checks nothing.
 * check: of a block that has an address; any threads at once. */
int pc__record_is_plain(const pc__record *record);
const void *pc__record_block_address(const pc__record *record, size_t index);
pc_status pc__record_check(const pc__record *record, size_t index);
/* Reads all and checks all that can be checked; decodes where codec and key are known. For a source
 * that is one file (`bytes` known) also that the gaps are empty. PC_ERR_UNSUPPORTED ("frame only"):
 * no fault found, but the seal key or the codec is missing. */
pc_status pc__record_verify(const pc__record *record);

#endif

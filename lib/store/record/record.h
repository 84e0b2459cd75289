/* Records: the states of a segment as bytes that outlive the process (doc/format.md, "Records",
 * version 1). A record is made of pieces: piece 0 is the header, piece 1 + i block i. A file holds
 * them one after the other at offsets that the header tells (blocks at multiples of 4096); a server
 * or a tier in memory may hold each piece by itself. The header is written last: without it there
 * is no record. Everything that is read is checked (length, checksum, seal) before anything
 * believes it. */
#ifndef PC_STORE_RECORD_H
#define PC_STORE_RECORD_H

#include <promptcache/admin.h>
#include <stdatomic.h>

#include "store/codec/codec.h"

typedef struct pc__record pc__record; /* the header of one that is being read. Immutable: blocks may
                                         be read by several threads */

/* Where the bytes go. Each piece comes whole, once; piece 0 last, with offset 0. */
typedef struct pc__sink {
    pc_status (*write)(struct pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                       size_t size);
} pc__sink;

/* Where they come from: `size` bytes at `at` of a piece that begins at `offset` of the file.
 * Reading beyond the end is PC_ERR_FORMAT ("cut short"), a piece that is gone PC_ERR_NOT_FOUND,
 * what took too long PC_AGAIN is not: PC_ERR_IO with *timed_out set. May be called from several
 * threads. `borrow` (may be NULL): the same bytes without copying, valid until the source is
 * closed, or NULL where they do not lie in memory.
 *
 * `map` (may be NULL): 1: from now on all bytes lie in memory, where `borrow` finds them, private
 * to this process: whoever writes there changes no record. 0: they do not. `touch` (may be NULL:
 * they are there) brings borrowed bytes into memory before they are looked at, so that what cannot
 * be read is an error as of `read` and no signal. `keep` (may be NULL): there is nothing more to
 * read, the bytes stay in use: lets go of the rest. */
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
    uint64_t bytes; /* of the whole record, 0: unknown */
    atomic_int timed_out;
} pc__source;

typedef struct pc__record_options {
    const pc__codecs *codecs;
    uint32_t
        codec; /* to write with; a block that it does not take or does not make smaller is RAW */
    uint32_t reserved;
    const char *kernels; /* states that other kernels of ours have computed are PC_ERR_UNSUPPORTED.
                            NULL: whoever has computed them */
    const uint8_t *seal_key; /* 32 bytes: sealed when written, opened when read; one that is not
                                sealed, or with another key, is PC_ERR_UNSUPPORTED. NULL: not
                                sealed; a sealed record is PC_ERR_UNSUPPORTED */
} pc__record_options;

/* Writes the record of an image. `scratch` memory of one block's bound is allocated and given back.
 * *bytes (may be NULL): of the record as a file. */
pc_status pc__record_write(const pc_allocator *mem, const pc__image *image,
                           const pc__record_options *options, pc__sink *sink, uint64_t *bytes);
/* Largest size that pc__record_write can come to, as a file; and the memory that it needs beside
 * the image. */
uint64_t pc__record_bound(const pc__image *image, const pc__record_options *options,
                          uint64_t *scratch);

/* Reads and checks the header. Keeps `source` (not owned) and what options point to. PC_ERR_FORMAT
 * (damaged, says what and where), PC_ERR_UNSUPPORTED (a later major version, a codec or seal that
 * is not there, other kernels), PC_ERR_IO. */
pc_status pc__record_open(pc__record **out, const pc_allocator *mem,
                          const pc__record_options *options, pc__source *source);
/* The same of a record whose seal or codec this caller has not got, or that is not sealed though a
 * key is given: of one that is sealed only key, salt, content, before, lossy, cost, times, number
 * of tokens (without ids) and sizes of blocks are known then, the other fields are zero. */
pc_status pc__record_open_frame(pc__record **out, const pc_allocator *mem,
                                const pc__record_options *options, pc__source *source);
/* What pc__record_open would have said of it: PC_OK, or PC_ERR_UNSUPPORTED with its text. */
pc_status pc__record_usable(const pc__record *record);
/* PC_OK: its blocks can be read; PC_ERR_UNSUPPORTED: key or codec are not here. */
pc_status pc__record_readable(const pc__record *record);
void pc__record_free(pc__record *record); /* NULL does nothing; the source stays open */
const pc__image *pc__record_image(
    const pc__record *record); /* without blocks; lossy is set too if the codec is */
const uint8_t *pc__record_seal_id(
    const pc__record *record); /* [PC__SEAL_KEY_ID]; NULL: it is not sealed */
void pc__record_describe(const pc__record *record, pc_record_info *info); /* all but file_bytes */
/* Reads, checks and decodes block `index` to `out` [block_bytes[index]]. Any threads at once. On
 * failure `out` holds nothing of use. */
pc_status pc__record_block(const pc__record *record, size_t index, void *out);
/* The block as it lies in the source, checked, without copying: only of RAW blocks that are not
 * sealed, of sources that lend; else NULL with PC_OK. */
pc_status pc__record_borrow(const pc__record *record, size_t index, const void **data);
/* The same in two steps, for who has to know the place before the check. is_plain: 1: all blocks
 * are RAW and not sealed. place: NULL as above, nothing is looked at. check: of a block that has a
 * place; any threads at once. */
int pc__record_is_plain(const pc__record *record);
const void *pc__record_block_address(const pc__record *record, size_t index);
pc_status pc__record_check(const pc__record *record, size_t index);
/* Reads all and checks all that can be, decoding included where codec and key are there; of a
 * source that is one file (`bytes` known) also that nothing is stored between the pieces.
 * PC_ERR_UNSUPPORTED ("frame only"): nothing is wrong with what could be checked, but key or codec
 * are not here. */
pc_status pc__record_verify(const pc__record *record);

#endif

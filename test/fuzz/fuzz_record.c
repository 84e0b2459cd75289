/* Catches: a record that crashes the reader, makes it allocate memory that the file does not
 * account for, or is accepted with a header that contradicts itself.
 *
 * The input is the record as a file. Bytes 44 and 45, which a reader ignores, say how it is read:
 * bit 0 the source knows its size, bit 1 it lets the reader borrow memory, bit 2 no key is given,
 * bit 3 there are no codecs. Blind changes would all end at the first checksum. So the mutator
 * below opens seals, changes the contents, and then makes lengths, checksums and seals agree again.
 * Most of its results are read to their end. */
#include <sodium.h>
#include <stdlib.h>

#include "base/little_endian.h"
#include "fuzz.h"
#include "golden_records.h"
#include "store/record/record_format.h"

enum { HOW = 44, KNOWN = 1, LENDS = 2, NO_KEY = 4, NO_CODECS = 8, MOST_BLOCK = 1 << 18 };

/* ------------------------------------------------------------------ reading */

static const pc__codecs *codecs(void)
{
    static pc__codecs *made;
    pc_codec_ops half = half_ops(NULL);
    if (!made)
        FUZZ_CHECK(pc__codecs_new(&made, &fuzz_memory, &half, 1) == PC_OK);
    return made;
}

static void check_read(const pc__record *record, size_t size)
{
    const pc__image *image = pc__record_image(record);
    pc_record_info info = PC_RECORD_INFO_INIT;
    uint64_t bytes = 0;
    pc__record_describe(record, &info);
    FUZZ_CHECK(memchr(image->form.architecture, 0, sizeof image->form.architecture)
               && info.version / 256 >= 1 && info.version / 256 <= 2);
    FUZZ_CHECK(image->cost >= 0 && image->ttl >= 0 && image->lossy <= 1
               && image->block_count <= PC__MAX_BLOCKS && !image->blocks);
    for (size_t i = 0; i < image->block_count; i++)
        bytes += image->block_bytes[i];
    FUZZ_CHECK(bytes == info.state_bytes && bytes <= (size + 1) * PC__RECORD_MAX_RATIO);
    FUZZ_CHECK(!image->token_ids || image->tokens <= size / 4);
    FUZZ_CHECK((pc__image_match(image, image) == PC_OK)
               == (image->token_ids || !image->tokens)); /* reads all of it */
}

static void read_blocks(const pc__record *record)
{
    const pc__image *image = pc__record_image(record);
    uint64_t most = 0;
    for (size_t i = 0; i < image->block_count; i++) {
        size_t bytes = (size_t)image->block_bytes[i];
        const void *lent = pc__record_block_address(record, i);
        uint8_t *out;
        most = image->block_bytes[i] > most ? image->block_bytes[i] : most;
        if (bytes > MOST_BLOCK)
            continue;
        out = malloc(bytes + !bytes);
        FUZZ_CHECK(out);
        memset(out, 0, bytes + !bytes);
        int read = fuzz_ok(pc__record_block(record, i, out)),
            lends = lent && fuzz_ok(pc__record_check(record, i));
        FUZZ_CHECK(!lends || (read && !memcmp(lent, out, bytes)));
        free(out);
    }
    if (most <= MOST_BLOCK)
        fuzz_ok(pc__record_verify(record));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned how = size > HOW ? data[HOW] : 0;
    pc__record_options options = {.codecs = codecs(),
                                  .seal_key = how & NO_KEY ? NULL : golden_key()};
    record_bytes bytes = record_bytes_of(data, size, how & KNOWN, how & LENDS);
    size_t blocks = fuzz_blocks();
    pc__record *record;
    if (how & NO_CODECS)
        options.codecs = NULL;
    if (size > 24 && !(data[24] & 1) && !(how & NO_KEY))
        options.seal_key = NULL;
    int opened = fuzz_ok(pc__record_open(&record, &fuzz_memory, &options, &bytes.source));
    FUZZ_CHECK(opened == (record != NULL));
    if (!opened)
        FUZZ_CHECK(fuzz_ok(pc__record_open_frame(&record, &fuzz_memory, &options, &bytes.source))
                   == (record != NULL));
    if (record) {
        check_read(record, size);
        read_blocks(record);
    }
    pc__record_free(record);
    fuzz_no_leak(blocks);
    return 0;
}

/* ------------------------------------------------------------------ changing */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
    __attribute__((weak)); /* replaying needs none */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* The parts of an input, at their places in it. */
typedef struct parts {
    uint32_t face, blocks, entry, body, sealed;
    size_t header, clear;
} parts;

static int parts_of(parts *p, const uint8_t *data, size_t size)
{
    if (size < PC__RECORD_PROLOGUE + PC__RECORD_FACE)
        return 0;
    p->sealed = data[24] & 1;
    p->face = pc__get_u32(data + 28);
    p->blocks = pc__get_u32(data + 32);
    p->entry = pc__get_u32(data + 36);
    p->body = pc__get_u32(data + 40);
    if (p->face < PC__RECORD_FACE || p->face > 4096 || p->entry < PC__RECORD_ENTRY
        || p->entry > 4096 || p->blocks > 64)
        return 0;
    p->clear = PC__RECORD_PROLOGUE + p->face + (size_t)p->blocks * p->entry;
    p->header = p->clear + p->body;
    return p->clear <= size && p->body <= size - p->clear
           && (!p->sealed || p->body >= PC__SEAL_TAG);
}

static uint8_t *entry_of(uint8_t *data, const parts *p, uint32_t block)
{
    return data + PC__RECORD_PROLOGUE + p->face + (size_t)block * p->entry;
}

/* The place of a block's stored bytes; NULL: not inside of the input, or over its header. */
static uint8_t *stored_of(uint8_t *data, size_t size, const parts *p, uint32_t block, size_t *bytes)
{
    uint64_t offset = pc__get_u64(entry_of(data, p, block)),
             stored = pc__get_u64(entry_of(data, p, block) + 8);
    *bytes = (size_t)stored;
    return offset >= p->header && offset <= size && stored <= size - offset
                   && (!p->sealed || stored >= PC__SEAL_TAG)
               ? data + offset
               : NULL;
}

static const uint8_t *piece_key(void)
{
    static uint8_t key[PC__SEAL_KEY];
    crypto_kdf_derive_from_key(key, sizeof key, PC__SEAL_PIECES, "pcrecord", golden_key());
    return key;
}

/* The bytes inside of a seal and back, without a look at the tag: one keystream does both. */
static void cross(uint8_t *bytes, size_t sealed, const uint8_t *nonce)
{
    crypto_stream_xchacha20_xor_ic(bytes, bytes, sealed - PC__SEAL_TAG, nonce, 1, piece_key());
}

static void open_seals(uint8_t *data, size_t size)
{
    parts p;
    size_t bytes;
    if (!parts_of(&p, data, size) || !p.sealed)
        return;
    cross(data + p.clear, p.body, data + PC__RECORD_NONCE_AT);
    for (uint32_t b = 0; b < p.blocks; b++) {
        uint8_t *stored = stored_of(data, size, &p, b, &bytes);
        if (stored)
            cross(stored, bytes, entry_of(data, &p, b) + 48);
    }
}

static void close_block(uint8_t *data, const parts *p, uint32_t block, uint8_t *stored,
                        size_t bytes)
{
    uint8_t *entry = entry_of(data, p, block), beside[PC__RECORD_BESIDE];
    pc__record_head head;
    pc__record_entry e = {.raw = pc__get_u64(entry + 16), .codec = pc__get_u32(entry + 24)};
    memcpy(head.shown.key.bytes, data + PC__RECORD_PROLOGUE, 32);
    head.major = data[8];
    pc__record_beside(&head, &e, block, beside);
    crypto_aead_xchacha20poly1305_ietf_encrypt(stored, NULL, stored, bytes - PC__SEAL_TAG, beside,
                                               sizeof beside, NULL, entry + 48, piece_key());
}

static void close_body(uint8_t *data, const parts *p)
{
    uint8_t nonce[PC__SEAL_NONCE];
    memcpy(nonce, data + PC__RECORD_NONCE_AT, sizeof nonce);
    memset(data + PC__RECORD_NONCE_AT, 0, sizeof nonce);
    memset(data + PC__RECORD_SUM_AT, 0, PC__CHECKSUM);
    crypto_aead_xchacha20poly1305_ietf_encrypt(data + p->clear, NULL, data + p->clear,
                                               p->body - PC__SEAL_TAG, data, p->clear, NULL, nonce,
                                               piece_key());
    memcpy(data + PC__RECORD_NONCE_AT, nonce, sizeof nonce);
}

/* Lengths, checksums and seals agree with what is there. */
static void repair(uint8_t *data, size_t size, unsigned seed)
{
    parts p;
    size_t bytes;
    if (!parts_of(&p, data, size))
        return;
    pc__put_u32(data + 12, (uint32_t)p.header);
    if (seed % 8)
        pc__put_u64(data + 16, size);
    if (p.sealed)
        pc__seal_key_id(golden_key(), data + PC__RECORD_PROLOGUE + 192);
    for (uint32_t b = 0; b < p.blocks; b++) {
        uint8_t *stored = stored_of(data, size, &p, b, &bytes);
        if (stored && p.sealed)
            close_block(data, &p, b, stored, bytes);
        if (stored)
            pc__checksum_of(stored, bytes, entry_of(data, &p, b) + 32);
    }
    if (p.sealed)
        close_body(data, &p);
    pc__record_header_sum(data, p.header, data + PC__RECORD_SUM_AT);
}

/* Changes the header up to the first block; its length goes into the body's. */
static size_t change_header(uint8_t *data, size_t size, const parts *p)
{
    size_t room = size, now;
    for (uint32_t b = 0; b < p->blocks; b++) {
        uint64_t offset = pc__get_u64(entry_of(data, p, b));
        if (offset >= p->header && offset < room)
            room = (size_t)offset;
    }
    now = LLVMFuzzerMutate(data, p->header, room) / 8 * 8;
    if (now < room)
        memset(data + now, 0, room - now);
    if (now >= p->clear)
        pc__put_u32(data + 40, (uint32_t)(now - p->clear));
    return size;
}

static size_t change_block(uint8_t *data, size_t size, const parts *p, unsigned seed)
{
    uint32_t block = seed / 7 % p->blocks;
    size_t bytes, tag = p->sealed ? PC__SEAL_TAG : 0, now;
    uint8_t *stored = stored_of(data, size, p, block, &bytes);
    if (!stored || bytes <= tag)
        return size;
    now = LLVMFuzzerMutate(stored, bytes - tag, bytes - tag) + tag;
    pc__put_u64(entry_of(data, p, block) + 8, now);
    return stored + bytes == data + size ? size - (bytes - now) : size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    parts p;
    open_seals(data, size);
    if (!parts_of(&p, data, size) || seed % 5 == 0)
        size = LLVMFuzzerMutate(data, size, most);
    else if (seed % 5 < 3 || !p.blocks)
        size = change_header(data, size, &p);
    else
        size = change_block(data, size, &p, seed);
    if (seed % 16)
        repair(data, size, seed / 16);
    return size;
}

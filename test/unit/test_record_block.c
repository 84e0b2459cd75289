/* Catches: blocks read wrongly by several threads at once, or when larger than one part; blocks
 * borrowed although they must be opened or decoded first; copies where borrowing would do; damage
 * between pieces that verify misses. */
#include <pthread.h>

#include "records.h"
#include "store/record/record_internal.h"
#include "testing.h"

static const uint8_t key[32] = {7, 7, 7};
static pc__codecs *codecs;

typedef struct sample {
    toy_image toy;
    record_file file;
    pc__record_options options;
    record_bytes bytes;
    pc__record *record;
} sample;

static void sample_make(sample *s, size_t bytes, uint32_t codec, int sealed, int lends)
{
    s->options = (pc__record_options){
        .codecs = codecs, .codec = codec, .seal_key = sealed ? key : NULL};
    s->file = record_file_new();
    toy_image_make(&s->toy, 3, 6, bytes, codec == HALF);
    CHECK_OK(
        pc__record_write(&pc__libc_allocator, &s->toy.image, &s->options, &s->file.sink, NULL));
    s->bytes = record_bytes_of(s->file.data, s->file.size, 1, lends);
    CHECK_OK(pc__record_open(&s->record, &pc__libc_allocator, &s->options, &s->bytes.source));
}

static void sample_free(sample *s)
{
    pc__record_free(s->record);
    record_file_free(&s->file);
    toy_image_free(&s->toy);
}

/* Sizes around that of a part: each block is right, read in parts, and nothing is written behind
 * its end. */
static void test_parts(void)
{
    enum { PART = 512 << 10 };
    static const size_t sizes[] = {PART - 8, PART, PART + 8, 3 * PART};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int kind = 0; kind < 8; kind++) {
            sample s;
            sample_make(&s, sizes[i], kind & 1 ? HALF : PC_CODEC_RAW, kind & 2, kind & 4);
            size_t n = (size_t)s.toy.block_bytes[0], before = atomic_load(&s.bytes.reads);
            uint8_t *out = malloc(n + 1);
            out[n] = 0xee;
            CHECK_OK(pc__record_block(s.record, 0, out));
            CHECK(!memcmp(out, s.toy.blocks[0], n) && out[n] == 0xee);
            CHECK_INT(atomic_load(&s.bytes.reads) - before,
                      kind & 4 ? 0 : (s.record->entries[0].stored + PART - 1) / PART);
            free(out);
            sample_free(&s);
        }
}

static void test_borrow(void)
{
    for (int kind = 0; kind < 8; kind++) {
        sample s;
        const void *data;
        int plain = !(kind & 3) && kind & 4;
        sample_make(&s, 64, kind & 1 ? HALF : PC_CODEC_RAW, kind & 2, kind & 4);
        data = pc__record_block_address(s.record, 1);
        CHECK_INT(data != NULL, plain);
        if (plain) {
            CHECK_OK(pc__record_check(s.record, 1));
            CHECK(data == s.file.data + s.record->entries[1].offset
                  && !memcmp(data, s.toy.blocks[1], 72));
            s.file.data[s.record->entries[1].offset + 71] ^= 1;
            CHECK_STATUS(pc__record_check(s.record, 1), PC_ERR_FORMAT);
        }
        CHECK(!pc__record_block_address(s.record, TOY_BLOCKS));
        CHECK_STATUS(pc__record_block(s.record, TOY_BLOCKS, NULL), PC_ERR_INVALID);
        sample_free(&s);
    }
}

/* The decoder gets the block's description; its error is passed on. */
static void test_decoder(void)
{
    sample s;
    uint8_t out[128];
    sample_make(&s, 64, HALF, 0, 0);
    s.record->entries[0].stored--; /* fits neither checksum nor codec */
    CHECK_STATUS(pc__record_block(s.record, 0, out), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("damaged");
    pc__checksum_of(s.file.data + s.record->entries[0].offset, (size_t)s.record->entries[0].stored,
                    s.record->entries[0].sum);
    CHECK_STATUS(pc__record_block(s.record, 0, out), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("codec half, block 0 of a record: decode: 31 bytes are no half");
    sample_free(&s);
}

static void test_gaps(void)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        sample s;
        sample_make(&s, 64, PC_CODEC_RAW, sealed, 0);
        for (size_t b = 0; b < TOY_BLOCKS; b++) {
            uint64_t end = b ? s.record->entries[b - 1].offset + s.record->entries[b - 1].stored
                             : s.record->head.header_bytes;
            uint64_t at[] = {end, (end + s.record->entries[b].offset) / 2,
                             s.record->entries[b].offset - 1};
            for (size_t i = 0; i < 3; i++) {
                s.file.data[at[i]] ^= 0x40;
                CHECK_STATUS(pc__record_verify(s.record), PC_ERR_FORMAT);
                CHECK_ERROR_HAS("is not empty");
                s.file.data[at[i]] ^= 0x40;
            }
        }
        CHECK_OK(pc__record_verify(s.record));
        sample_free(&s);
    }
}

typedef struct reader {
    const sample *sample;
    int bad;
} reader;

static void *read_often(void *arg)
{
    reader *r = arg;
    const sample *s = r->sample;
    for (size_t i = 0; i < 60; i++) {
        size_t b = i % TOY_BLOCKS, n = (size_t)s->toy.block_bytes[b];
        uint8_t *out = malloc(n);
        r->bad |= pc__record_block(s->record, b, out) != PC_OK
                  || memcmp(out, s->toy.blocks[b], n) != 0;
        free(out);
    }
    return NULL;
}

static void test_threads(void)
{
    for (int kind = 0; kind < 4; kind++) {
        sample s;
        pthread_t threads[4];
        reader readers[4];
        sample_make(&s, 20000, kind & 1 ? HALF : PC_CODEC_RAW, kind & 2, 0);
        for (int t = 0; t < 4; t++) {
            readers[t] = (reader){&s, 0};
            CHECK(!pthread_create(&threads[t], NULL, read_often, &readers[t]));
        }
        for (int t = 0; t < 4; t++) {
            pthread_join(threads[t], NULL);
            CHECK(!readers[t].bad);
        }
        sample_free(&s);
    }
}

int main(void)
{
    pc_codec_ops ops = half_ops(NULL);
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, &ops, 1));
    test_parts();
    test_borrow();
    test_decoder();
    test_gaps();
    test_threads();
    pc__codecs_free(codecs);
    return pc_test_end();
}

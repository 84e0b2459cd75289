/* Catches: a record that does not give back what was written, or is larger than its bound; pieces
 * in the wrong order or place; a codec used where it does not help, or not refused where it breaks
 * its promise; leaks when memory or the sink fails. */
#include "records.h"
#include "testing.h"

static const uint8_t key[32] = {1, 2, 3, 4, 5};

static void check_record(const record_file *file, const pc__image *want,
                         const pc__record_options *options)
{
    for (int kind = 0; kind < 4; kind++) {
        record_bytes bytes = record_bytes_of(file->data, file->size, kind & 1, kind & 2);
        pc__record *record;
        if (!CHECK_OK(pc__record_open(&record, &pc__libc_allocator, options, &bytes.source)))
            return;
        check_image(pc__record_image(record), want);
        for (size_t b = 0; b < want->block_count; b++) {
            size_t n = (size_t)want->block_bytes[b];
            uint8_t *out = malloc(n + 1);
            memset(out, 0xee, n + 1);
            CHECK_OK(pc__record_block(record, b, out));
            CHECK(!memcmp(out, want->blocks[b], n) && out[n] == 0xee);
            free(out);
        }
        CHECK_OK(pc__record_verify(record));
        pc__record_free(record);
    }
}

/* Every size around the alignment of blocks, with and without codec, seal, relative positions. */
static void test_round_trip(const pc__codecs *codecs)
{
    static const size_t sizes[] = {0, 2, 16, 4088, 4096, 4104, 70000};
    for (uint32_t seed = 1; seed < 5; seed++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int sealed = 0; sealed < 2; sealed++) {
                pc__record_options options = {.codecs = codecs,
                                              .codec = seed > 2 ? HALF : PC_CODEC_RAW,
                                              .seal_key = sealed ? key : NULL};
                toy_image toy;
                record_file file = record_file_new();
                uint64_t bytes, scratch;
                toy_image_make(&toy, seed, seed == 4 ? 0 : TOY_TOKENS - seed, sizes[s],
                               sizes[s] && seed > 2);
                CHECK_OK(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink,
                                          &bytes));
                CHECK_INT(bytes, file.size);
                CHECK(bytes <= pc__record_bound(&toy.image, &options, &scratch));
                CHECK(options.codec != PC_CODEC_RAW
                      || bytes == pc__record_bound(&toy.image, &options, NULL));
                CHECK_INT(file.writes, TOY_BLOCKS + 1);
                CHECK(sizes[s] == 0 || file.alone);
                CHECK_INT(file.last_piece, 0);
                check_record(&file, &toy.image, &options);
                record_file_free(&file);
                toy_image_free(&toy);
            }
}

static void test_empty(const pc__codecs *codecs)
{
    pc__record_options options = {.codecs = codecs};
    pc__image image = {.form.architecture = "none"};
    record_file file = record_file_new();
    CHECK_OK(pc__record_write(&pc__libc_allocator, &image, &options, &file.sink, NULL));
    check_record(&file, &image, &options);
    record_file_free(&file);
}

/* A block that the codec does not take or make smaller is RAW; a codec that breaks its promise is
 * an error. */
static void test_codec_answers(void)
{
    static const struct {
        half_codec codec;
        int twice;
        pc_status want;
        uint32_t stored_as;
    } cases[] = {{{0, 0}, 1, PC_OK, HALF},
                 {{0, 0}, 0, PC_OK, PC_CODEC_RAW},
                 {{PC_ERR_UNSUPPORTED, 0}, 1, PC_OK, PC_CODEC_RAW},
                 {{PC_MISS, 0}, 1, PC_OK, PC_CODEC_RAW},
                 {{PC_ERR_NOMEM, 0}, 1, PC_ERR_NOMEM, 0},
                 {{0, 100000}, 1, PC_OK, HALF},
                 {{0, 7}, 1, PC_ERR_LIMIT, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        half_codec user = cases[c].codec;
        pc_codec_ops ops = half_ops(&user);
        pc__codecs *codecs;
        pc__record_options options = {.codec = HALF};
        toy_image toy;
        record_file file = record_file_new();
        uint64_t bytes = 1;
        CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, &ops, 1));
        options.codecs = codecs;
        toy_image_make(&toy, 3, 5, 64, cases[c].twice);
        CHECK_STATUS(
            pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, &bytes),
            cases[c].want);
        if (cases[c].want == PC_OK) {
            const uint8_t *codec = file.data + 64 + 232
                                   + 24; /* of the first block, by doc/format.md */
            CHECK_INT(codec[0] | codec[1] << 8, cases[c].stored_as);
            check_record(&file, &toy.image, &options);
        } else {
            CHECK_ERROR_HAS("block 0");
            CHECK_INT(bytes, 0);
            CHECK_INT(file.writes, 0);
        }
        record_file_free(&file);
        toy_image_free(&toy);
        pc__codecs_free(codecs);
    }
}

static void test_lossy(void)
{
    pc_codec_ops ops = half_ops(NULL);
    pc__codecs *codecs;
    pc__record_options options = {.codec = HALF};
    ops.lossy = 1;
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, &ops, 1));
    options.codecs = codecs;
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t before = 0; before < 2; before++) {
            toy_image toy;
            record_file file = record_file_new();
            toy_image_make(&toy, 2, 5, 64, twice);
            toy.image.lossy = before;
            CHECK_OK(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL));
            toy.image.lossy = before || twice; /* blocks that it did not take are as they were */
            check_record(&file, &toy.image, &options);
            record_file_free(&file);
            toy_image_free(&toy);
        }
    pc__codecs_free(codecs);
}

static void test_refusals(const pc__codecs *codecs)
{
    pc__record_options options = {.codecs = codecs, .codec = 999};
    toy_image toy;
    record_file file = record_file_new();
    toy_image_make(&toy, 1, 5, 64, 0);
    CHECK_STATUS(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("999");
    options.codec = PC_CODEC_RAW;
    toy.image.tokens = (1 << 25) + 1;
    CHECK_STATUS(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                 PC_ERR_LIMIT);
    toy.image.tokens = 5;
    toy.image.block_count = PC__MAX_BLOCKS + 1;
    CHECK_STATUS(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                 PC_ERR_LIMIT);
    toy.image.block_count = TOY_BLOCKS;
    toy.block_bytes[1] = (UINT64_C(1) << 40) + 1;
    CHECK_STATUS(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                 PC_ERR_LIMIT);
    toy.block_bytes[1] = 72;
    toy.image.cost = -1;
    CHECK_STATUS(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                 PC_ERR_INVALID);
    toy.image.cost = 0;
    memset(toy.image.form.architecture, 'x', sizeof toy.image.form.architecture);
    CHECK_STATUS(pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                 PC_ERR_INVALID);
    CHECK_INT(file.writes, 0);
    toy_image_free(&toy);
}

/* No header is written when anything fails, and nothing is leaked. */
static void test_failures(const pc__codecs *codecs)
{
    toy_image toy;
    toy_image_make(&toy, 3, 9, 64, 1);
    for (int sealed = 0; sealed < 2; sealed++) {
        pc__record_options options = {
            .codecs = codecs, .codec = HALF, .seal_key = sealed ? key : NULL};
        for (uint64_t at = 1; at < 20; at++) {
            pc_test_memory memory = {.fail_at = at};
            pc_allocator mem = pc_test_allocator(&memory);
            record_file file = record_file_new();
            pc_status status = pc__record_write(&mem, &toy.image, &options, &file.sink, NULL);
            CHECK_STATUS(status, memory.calls >= at ? PC_ERR_NOMEM : PC_OK);
            CHECK(status == PC_OK || !file.size || file.last_piece);
            CHECK_INT(memory.live_blocks, 0);
            record_file_free(&file);
        }
        for (size_t at = 1; at <= TOY_BLOCKS + 1; at++) {
            record_file file = record_file_new();
            file.fail_at = at;
            CHECK_STATUS(
                pc__record_write(&pc__libc_allocator, &toy.image, &options, &file.sink, NULL),
                PC_ERR_IO);
            CHECK_INT(file.writes, at);
            record_file_free(&file);
        }
    }
    toy_image_free(&toy);
}

/* No more scratch memory is taken than promised. */
static void test_scratch(const pc__codecs *codecs)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        pc__record_options options = {
            .codecs = codecs, .codec = HALF, .seal_key = sealed ? key : NULL};
        toy_image toy;
        record_file file = record_file_new();
        pc_test_memory memory = {0};
        pc_allocator mem = pc_test_allocator(&memory);
        uint64_t scratch;
        toy_image_make(&toy, 3, 9, 5000, 1);
        pc__record_bound(&toy.image, &options, &scratch);
        CHECK_OK(pc__record_write(&mem, &toy.image, &options, &file.sink, NULL));
        CHECK_INT(memory.calls, 2);
        CHECK(scratch > 5016 && scratch < 5016 + 1500);
        record_file_free(&file);
        toy_image_free(&toy);
    }
}

int main(void)
{
    pc_codec_ops ops = half_ops(NULL);
    pc__codecs *codecs;
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, &ops, 1));
    test_round_trip(codecs);
    test_empty(codecs);
    test_codec_answers();
    test_lossy();
    test_refusals(codecs);
    test_failures(codecs);
    test_scratch(codecs);
    pc__codecs_free(codecs);
    return pc_test_end();
}

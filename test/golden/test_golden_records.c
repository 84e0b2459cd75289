/* Catches: a reader that no longer reads what an earlier version of the library wrote, or reads
 * other values from it; one that takes sealed records of version 1, which show their ids. The files
 * of test/golden/records were written once (test/support/write_records.c) and never change. Their
 * contents follow from formulas (golden_records.h). */
#include "base/little_endian.h"
#include "golden_records.h"
#include "testing.h"

static void check_fields(const pc__record *record, const golden_case *c, const pc__image *want)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    check_image(pc__record_image(record), want);
    pc__record_describe(record, &info);
    CHECK_INT(info.version, c->sealed ? 512 : c->kernels ? 257 : 256);
    CHECK_STR(info.kernels, c->kernels ? c->kernels : "");
    CHECK_INT(info.codec, c->codec);
    CHECK_INT(info.sealed, c->sealed != 0);
    CHECK(info.written > 1700000000);
}

static void check_blocks(const pc__record *record, const pc__image *want)
{
    for (size_t b = 0; b < want->block_count; b++) {
        size_t bytes = (size_t)want->block_bytes[b];
        uint8_t *out = malloc(bytes);
        memset(out, 0xee, bytes);
        CHECK_OK(pc__record_block(record, b, out));
        CHECK(!memcmp(out, want->blocks[b], bytes));
        free(out);
    }
    CHECK_OK(pc__record_verify(record));
}

/* Codec of a block, by doc/format.md: in the clear in every record. */
static uint32_t codec_of(const char *data, size_t block)
{
    return pc__get_u32((const uint8_t *)data + 64 + 232 + 72 * block + 24);
}

static void check_case(const golden_case *c, const pc__codecs *codecs)
{
    pc__record_options options = golden_options(c, codecs);
    char path[1024];
    size_t size = 0;
    golden_image want;
    pc__record *record;
    snprintf(path, sizeof path, "%s/test/golden/records/%s.pcr", PC_SOURCE_DIR, c->name);
    char *data = pc_test_read(path, &size);
    if (!pc_test_check(data != NULL, __FILE__, __LINE__, path))
        return;
    record_bytes bytes = record_bytes_of(data, size, 1, 0);
    golden_make(c, &want);
    if (c->sealed == 1) { /* it shows its ids: refused, not read and not damaged */
        CHECK_STATUS(pc__record_open(&record, &pc__libc_allocator, &options, &bytes.source),
                     PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS("sealed in format 1");
        CHECK_OK(pc__record_open_frame(&record, &pc__libc_allocator, &options, &bytes.source));
        CHECK(pc__record_seal_id(record) && !pc__record_image(record)->token_ids);
    } else if (CHECK_OK(pc__record_open(&record, &pc__libc_allocator, &options, &bytes.source))) {
        check_fields(record, c, &want.image);
        check_blocks(record, &want.image);
        for (size_t b = 0; b < GOLDEN_LAYERS; b++) /* the codec's own coding is in the file */
            CHECK_INT(codec_of(data, b), c->codec);
    }
    pc__record_free(record);
    golden_free(&want);
    free(data);
}

int main(void)
{
    pc__codecs *codecs;
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, NULL, 0));
    for (size_t i = 0; i < GOLDEN_CASES; i++)
        check_case(&golden_cases[i], codecs);
    pc__codecs_free(codecs);
    return pc_test_end();
}

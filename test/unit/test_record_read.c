/* Catches: a damaged record that is not found to be (any bit, any length, pieces of others); sizes
 * near their limits that lead to a wrong allocation; a wrong key taken for damage; later versions
 * refused without need, or read against the rules. */
#include "base/little_endian.h"
#include "records.h"
#include "store/record/record_format.h"
#include "testing.h"

static const uint8_t key[32] = {7, 7, 7}, other_key[32] = {7, 7, 8};
static pc__codecs *codecs;

typedef struct sample {
    toy_image toy;
    record_file file;
    pc__record_options options;
} sample;

static void sample_make(sample *s, uint32_t seed, size_t bytes, uint32_t codec, int sealed)
{
    s->options = (pc__record_options){
        .codecs = codecs, .codec = codec, .seal_key = sealed ? key : NULL};
    s->file = record_file_new();
    toy_image_make(&s->toy, seed, 6, bytes, codec == HALF);
    CHECK_OK(
        pc__record_write(&pc__libc_allocator, &s->toy.image, &s->options, &s->file.sink, NULL));
}

static void sample_free(sample *s)
{
    record_file_free(&s->file);
    toy_image_free(&s->toy);
}

/* Reads everything and compares what comes with what was written. PC_OK: all is there and right;
 * PC_ERR_INTERNAL: something wrong was accepted. */
static pc_status read_all(const uint8_t *data, size_t size, int known, const sample *s, int verify)
{
    record_bytes bytes = record_bytes_of(data, size, known, 0);
    const pc__image *want = &s->toy.image;
    uint8_t out[512];
    pc__record *record;
    pc_status status = pc__record_open(&record, &pc__libc_allocator, &s->options, &bytes.source);
    for (size_t b = 0; status >= 0 && b < want->block_count; b++) {
        status = b < pc__record_image(record)->block_count
                         && pc__record_image(record)->block_bytes[b] == want->block_bytes[b]
                     ? pc__record_block(record, b, out)
                     : PC_ERR_INTERNAL;
        if (status == PC_OK && memcmp(out, want->blocks[b], (size_t)want->block_bytes[b]))
            status = PC_ERR_INTERNAL;
    }
    if (status >= 0 && pc__image_match(want, pc__record_image(record)) < 0)
        status = PC_ERR_INTERNAL;
    if (status >= 0 && verify)
        status = pc__record_verify(record);
    pc__record_free(record);
    return status;
}

static int is_refusal(pc_status status)
{
    return status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED;
}

/* The sanitizers' builds are ten times slower and look for wrong reads only: there a bit of each
 * byte, every one of them in turn. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { BIT_STEP = 9 };
#else
enum { BIT_STEP = 1 };
#endif

/* Bits between pieces change nothing that is read: verify finds them. Reading finds all others, as
 * damage; a record that seems to have another version, key or codec would stay in the folder. */
static void test_every_bit(uint32_t seed, uint32_t codec, int sealed)
{
    sample s;
    long missed = 0, wrong = 0, gaps = 0;
    sample_make(&s, seed, 40, codec, sealed);
    CHECK_OK(read_all(s.file.data, s.file.size, 1, &s, 1));
    for (size_t bit = 0; bit < 8 * s.file.size; bit += BIT_STEP) {
        pc_status status;
        s.file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        status = read_all(s.file.data, s.file.size, 1, &s, 0);
        if (status == PC_OK) {
            gaps++;
            status = read_all(s.file.data, s.file.size, 1, &s, 1);
        }
        missed += status == PC_OK;
        wrong += status != PC_OK && status != PC_ERR_FORMAT;
        s.file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CHECK_INT(missed, 0);
    CHECK_INT(wrong, 0);
    CHECK(gaps > 0 && gaps < (long)(8 * s.file.size));
    CHECK_OK(read_all(s.file.data, s.file.size, 1, &s, 1));
    sample_free(&s);
}

static void test_lengths(int sealed)
{
    sample s;
    long missed = 0;
    sample_make(&s, 1, 40, HALF, sealed);
    for (size_t size = 0; size < s.file.size; size++) {
        uint8_t *exact = malloc(size + !size); /* so that a read behind it is seen */
        memcpy(exact, s.file.data, size);
        for (int known = 0; known < 2; known++)
            missed += read_all(exact, size, known, &s, 0) != PC_ERR_FORMAT;
        free(exact);
    }
    CHECK_INT(missed, 0);
    for (size_t more = 1; more < 5000; more = more * 3 + 1) {
        uint8_t *longer = malloc(s.file.size + more);
        memcpy(longer, s.file.data, s.file.size);
        memset(longer + s.file.size, (int)more & 0xff, more);
        CHECK_STATUS(read_all(longer, s.file.size + more, 1, &s, 0), PC_ERR_FORMAT);
        CHECK_ERROR_HAS("too long");
        free(longer);
    }
    sample_free(&s);
}

/* Makes header and block checksums right again, as one could who wants to. */
static void repair(uint8_t *data)
{
    uint32_t blocks = pc__get_u32(data + 32);
    uint8_t *entry = data + PC__RECORD_PROLOGUE + pc__get_u32(data + 28);
    for (uint32_t b = 0; b < blocks; b++, entry += pc__get_u32(data + 36))
        pc__checksum_of(data + pc__get_u64(entry), (size_t)pc__get_u64(entry + 8), entry + 32);
    pc__record_header_sum(data, pc__get_u32(data + 12), data + PC__RECORD_SUM_AT);
}

static uint8_t *entry_of(const sample *s, size_t block)
{
    return s->file.data + PC__RECORD_PROLOGUE + PC__RECORD_FACE + block * PC__RECORD_ENTRY;
}

static void swap_bytes(uint8_t *a, uint8_t *b, size_t size)
{
    while (size--) {
        uint8_t t = a[size];
        a[size] = b[size];
        b[size] = t;
    }
}

/* Blocks exchanged, of one record and between two writings of the same image. */
static void test_exchanged(int sealed)
{
    sample a, b;
    sample_make(&a, 1, 64, PC_CODEC_RAW, sealed);
    sample_make(&b, 2, 64, PC_CODEC_RAW, sealed);
    uint8_t *first = a.file.data + pc__get_u64(entry_of(&a, 0)),
            *second = a.file.data + pc__get_u64(entry_of(&a, 1)),
            *foreign = b.file.data + pc__get_u64(entry_of(&b, 0));
    swap_bytes(first, second, 64);
    CHECK_STATUS(read_all(a.file.data, a.file.size, 1, &a, 0), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("block 0");
    swap_bytes(first, second, 64);
    swap_bytes(first, foreign, 64);
    CHECK_STATUS(read_all(a.file.data, a.file.size, 1, &a, 0), PC_ERR_FORMAT);
    swap_bytes(first, foreign, 64);
    CHECK_OK(read_all(a.file.data, a.file.size, 1, &a, 1));
    if (sealed) { /* with checksums put right and the nonces brought along only the seal is left to
                     find it */
        swap_bytes(first, foreign, 64 + PC__SEAL_TAG);
        repair(a.file.data);
        CHECK_STATUS(read_all(a.file.data, a.file.size, 1, &a, 0), PC_ERR_FORMAT);
        CHECK_ERROR_HAS("seal");
        swap_bytes(entry_of(&a, 0) + 48, entry_of(&b, 0) + 48, PC__SEAL_NONCE);
        repair(a.file.data);
        CHECK_STATUS(read_all(a.file.data, a.file.size, 1, &a, 0), PC_ERR_FORMAT);
        CHECK_ERROR_HAS("header of a record: the seal");
    }
    sample_free(&a);
    sample_free(&b);
}

/* The tenth bit of everything in the clear, with checksums that agree: the seal of the body
 * vouches for it. */
static void test_clear_part_is_sealed(void)
{
    sample s;
    size_t clear;
    sample_make(&s, 1, 64, HALF, 1);
    clear = PC__RECORD_PROLOGUE + PC__RECORD_FACE + TOY_BLOCKS * PC__RECORD_ENTRY;
    for (size_t at = 8; at < clear; at++) {
        uint8_t *copy = malloc(s.file.size);
        memcpy(copy, s.file.data, s.file.size);
        copy[at] ^= 4;
        pc__record_header_sum(copy, pc__get_u32(s.file.data + 12), copy + PC__RECORD_SUM_AT);
        pc_status status = read_all(copy, s.file.size, 1, &s, 0);
        CHECK((at >= PC__RECORD_SUM_AT && at < PC__RECORD_PROLOGUE) ? status == PC_OK
                                                                    : is_refusal(status));
        free(copy);
    }
    sample_free(&s);
}

/* Nobody who knows the ids finds them in what a sealed record shows. */
static void check_shows_nothing(const pc__shown *shown, const pc__image *image)
{
    CHECK(!pc__id_equal(&shown->key, &image->key) && !pc__id_equal(&shown->salt, &image->salt)
          && !pc__id_equal(&shown->content, &image->content)
          && !pc__id_equal(&shown->parent, &image->parent));
}

static void test_keys(void)
{
    sample sealed, open;
    pc__record *record;
    record_bytes bytes;
    sample_make(&sealed, 1, 64, HALF, 1);
    sample_make(&open, 1, 64, HALF, 0);
    sealed.options.seal_key = other_key;
    CHECK_STATUS(read_all(sealed.file.data, sealed.file.size, 1, &sealed, 0), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("another key");
    sealed.options.seal_key = NULL;
    CHECK_STATUS(read_all(sealed.file.data, sealed.file.size, 1, &sealed, 0), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("no key");
    open.options.seal_key = key;
    CHECK_STATUS(read_all(open.file.data, open.file.size, 1, &open, 0), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("not sealed");
    CHECK(!memmem(sealed.file.data, sealed.file.size, sealed.toy.ids, 24)
          && memmem(open.file.data, open.file.size, open.toy.ids, 24));
    for (int k = 0; k < 2; k++) { /* its frame tells what is in the clear */
        sealed.options.seal_key = k ? other_key : NULL;
        bytes = record_bytes_of(sealed.file.data, sealed.file.size, 1, 0);
        CHECK_OK(
            pc__record_open_frame(&record, &pc__libc_allocator, &sealed.options, &bytes.source));
        const pc__image *image = pc__record_image(record);
        uint8_t out[128];
        check_shows_nothing(pc__record_shown(record), &sealed.toy.image);
        CHECK(pc__id_equal(&image->key, &pc__record_shown(record)->key));
        CHECK(image->tokens == 6 && !image->token_ids && image->block_count == TOY_BLOCKS
              && image->block_bytes[1] == 72 && !*image->form.architecture);
        CHECK_STATUS(pc__image_match(&sealed.toy.image, image), PC_ERR_MISMATCH);
        CHECK_STATUS(pc__record_block(record, 0, out), PC_ERR_UNSUPPORTED);
        CHECK_STATUS(pc__record_verify(record),
                     PC_ERR_UNSUPPORTED); /* nothing is wrong with its frame */
        CHECK_ERROR_HAS(k ? "frame only: record is sealed with another key" : "frame only");
        pc__record_free(record);
    }
    sealed.file.data[sealed.file.size - 1] ^= 1;
    CHECK_OK(pc__record_open_frame(&record, &pc__libc_allocator, &sealed.options, &bytes.source));
    CHECK_STATUS(pc__record_verify(record), PC_ERR_FORMAT);
    pc__record_free(record);
    sample_free(&sealed);
    sample_free(&open);
}

/* The face takes no memory for what the header claims, and is checked like all of it. What a reader
 * wants bounds what it believes. */
static void test_bounds(void)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__record *record;
    pc__image other;
    sample s;
    sample_make(&s, 1, 64, HALF, 1);
    record_bytes bytes = record_bytes_of(s.file.data, s.file.size, 1, 0);
    CHECK_OK(pc__record_open_face(&record, &mem, &bytes.source));
    CHECK_INT(memory.calls, 1); /* of the record itself */
    CHECK_INT(pc__record_image(record)->tokens, 6);
    CHECK(pc__record_seal_id(record) && pc__record_image(record)->block_count == 0);
    CHECK_STATUS(pc__record_readable(record), PC_ERR_UNSUPPORTED);
    pc__record_free(record);
    s.file.data[pc__get_u32(s.file.data + 12) - 1] ^= 1;
    CHECK_STATUS(pc__record_open_face(&record, &mem, &bytes.source), PC_ERR_FORMAT);
    s.file.data[pc__get_u32(s.file.data + 12) - 1] ^= 1;
    other = s.toy.image;
    s.options.wanted = &other;
    CHECK_OK(pc__record_open(&record, &mem, &s.options, &bytes.source));
    pc__record_free(record);
    other.block_count++;
    CHECK_STATUS(pc__record_open(&record, &mem, &s.options, &bytes.source), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("blocks");
    pc__put_u32(s.file.data + 12, 1 << 28);
    pc__put_u32(s.file.data + 40, (1 << 28) - 64 - 232 - TOY_BLOCKS * 72);
    pc__put_u64(s.file.data + 16, 1 << 29);
    bytes.source.bytes = 0;
    other.block_count--;
    memory.calls = 0;
    CHECK_STATUS(pc__record_open(&record, &mem, &s.options, &bytes.source), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("at most");
    CHECK_INT(memory.calls, 1);
    CHECK_INT(memory.live_blocks, 0);
    sample_free(&s);
}

/* Numbers at and beyond their limits, with a header that is right otherwise. */
static void test_numbers(void)
{
    static const struct {
        size_t at;
        int wide;
        uint64_t value;
        pc_status want;
    } cases[] = {
        {8, 0, 3, PC_ERR_UNSUPPORTED},
        {8, 0, 0, PC_ERR_FORMAT},
        {12, 0, 0xffffffff, PC_ERR_FORMAT},
        {12, 0, 0, PC_ERR_FORMAT},
        {16, 1, UINT64_MAX, PC_ERR_FORMAT},
        {16, 1, 0, PC_ERR_FORMAT},
        {24, 0, 2, PC_ERR_UNSUPPORTED},
        {24, 0, 0x8000, PC_ERR_UNSUPPORTED},
        {24, 0, 0x10000, PC_OK},
        {28, 0, 0xfffffff8, PC_ERR_FORMAT},
        {28, 0, 224, PC_ERR_FORMAT},
        {28, 0, 233, PC_ERR_FORMAT},
        {32, 0, 65537, PC_ERR_FORMAT},
        {32, 0, 0xffffffff, PC_ERR_FORMAT},
        {36, 0, 64, PC_ERR_FORMAT},
        {36, 0, 0xfffffff8, PC_ERR_FORMAT},
        {40, 0, 0xfffffff8, PC_ERR_FORMAT},
        {44, 0, 77, PC_OK},
        {64 + 136, 1, UINT64_C(0x7ff0000000000000), PC_ERR_FORMAT},
        {64 + 136, 1, UINT64_C(0x7ff8000000000000), PC_ERR_FORMAT},
        {64 + 144, 1, UINT64_C(0xbff0000000000000), PC_ERR_FORMAT},
        {64 + 128, 0, 0xfffffff0, PC_OK},
        {64 + 168, 1, 1, PC_ERR_FORMAT},
        {64 + 176, 1, 5, PC_ERR_FORMAT},
        {64 + 176, 1, UINT64_C(1) << 62, PC_ERR_FORMAT},
        {64 + 176, 1, (UINT64_C(1) << 25) + 1, PC_ERR_FORMAT},
        {64 + 184, 0, 2, PC_OK},
        {64 + 188, 0, 1, PC_OK},
        {296, 1, 0, PC_ERR_FORMAT},
        {296, 1, 4097, PC_ERR_FORMAT},
        {296, 1, UINT64_MAX - 4095, PC_ERR_FORMAT},
        {296 + 8, 1, UINT64_MAX, PC_ERR_FORMAT},
        {296 + 8, 1, 63, PC_ERR_FORMAT},
        {296 + 16, 1, UINT64_MAX, PC_ERR_FORMAT},
        {296 + 16, 1, 65, PC_ERR_FORMAT},
        {296 + 24, 0, 9, PC_ERR_FORMAT},
        {296 + 24, 0, 0, PC_ERR_FORMAT},
        {296 + 72, 1, 4096, PC_ERR_FORMAT},
        {296 + 72, 1, 1 << 20, PC_ERR_FORMAT},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        sample s;
        pc_status got;
        sample_make(&s, 1, 64, PC_CODEC_RAW, 0);
        size_t header = pc__get_u32(s.file.data + 12);
        if (cases[c].wide)
            pc__put_u64(s.file.data + cases[c].at, cases[c].value);
        else
            pc__put_u32(s.file.data + cases[c].at, (uint32_t)cases[c].value);
        pc__record_header_sum(s.file.data, header, s.file.data + PC__RECORD_SUM_AT);
        got = read_all(s.file.data, s.file.size, 1, &s, 0);
        if (got != cases[c].want)
            fprintf(stderr, "case %zu: at %zu: %s (%s)\n", c, cases[c].at, pc_status_name(got),
                    pc_error_text());
        CHECK_INT(got, cases[c].want);
        sample_free(&s);
    }
}

/* A header that claims too much gets no memory for it, whether the source knows its size or not. */
static void test_claims(void)
{
    for (int known = 0; known < 2; known++) {
        sample s;
        pc_test_memory memory = {0};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__record *record;
        sample_make(&s, 1, 64, PC_CODEC_RAW, 0);
        pc__put_u32(s.file.data + 40, 400u << 20);
        pc__put_u32(s.file.data + 12, 64 + 232 + 3 * 72 + (400u << 20));
        pc__put_u64(s.file.data + 16, known ? s.file.size : UINT64_C(1) << 30);
        record_bytes bytes = record_bytes_of(s.file.data, s.file.size, known, 0);
        CHECK_STATUS(pc__record_open(&record, &mem, &s.options, &bytes.source), PC_ERR_FORMAT);
        CHECK(!record);
        CHECK_INT(memory.calls, 1);
        sample_free(&s);
    }
}

/* A header as a later minor version could write it: a longer face, longer entries, a longer
 * description, tags that we do not know. */
static void later_minor(const sample *s, uint32_t tag, record_file *out)
{
    enum { MORE_FACE = 24, MORE_ENTRY = 16, MORE_DESCRIPTION = 32 };
    const uint8_t *in = s->file.data;
    uint8_t header[4096] = {0}, *at = header + PC__RECORD_PROLOGUE, *body;
    size_t blocks = TOY_BLOCKS, old_body = pc__get_u32(in + 40),
           clear = PC__RECORD_PROLOGUE + PC__RECORD_FACE + blocks * PC__RECORD_ENTRY;
    memcpy(header, in, PC__RECORD_PROLOGUE + PC__RECORD_FACE);
    at += PC__RECORD_FACE;
    memset(at, 0x5a, MORE_FACE);
    at += MORE_FACE;
    for (size_t b = 0; b < blocks; b++, at += PC__RECORD_ENTRY + MORE_ENTRY) {
        memset(at, 0x5b, PC__RECORD_ENTRY + MORE_ENTRY);
        memcpy(at, entry_of(s, b), PC__RECORD_ENTRY);
    }
    body = at;
    memcpy(at, in + clear, 16 + PC__RECORD_DESCRIPTION_1);
    pc__put_u64(at + 8, PC__RECORD_DESCRIPTION_1 + MORE_DESCRIPTION);
    at += 16 + PC__RECORD_DESCRIPTION_1 + MORE_DESCRIPTION;
    memcpy(at, in + clear + 16 + PC__RECORD_DESCRIPTION_1,
           old_body - 16 - PC__RECORD_DESCRIPTION_1);
    at += old_body - 16 - PC__RECORD_DESCRIPTION_1;
    pc__put_u32(at, tag);
    pc__put_u64(at + 8, 3);
    at += 24;
    header[10] = 9;
    pc__put_u32(header + 12, (uint32_t)(at - header));
    pc__put_u32(header + 28, PC__RECORD_FACE + MORE_FACE);
    pc__put_u32(header + 36, PC__RECORD_ENTRY + MORE_ENTRY);
    pc__put_u32(header + 40, (uint32_t)(at - body));
    pc__record_header_sum(header, (size_t)(at - header), header + PC__RECORD_SUM_AT);
    *out = record_file_new();
    out->sink.write(&out->sink, 1, 0, in, s->file.size);
    memcpy(out->data, header, sizeof header);
}

static void test_later_minor(void)
{
    static const struct {
        uint32_t tag;
        pc_status want;
    } cases[] = {{5, PC_OK},
                 {0x7fffffff, PC_OK},
                 {0x80000005, PC_ERR_UNSUPPORTED},
                 {4, PC_ERR_FORMAT},
                 {1, PC_ERR_FORMAT}};
    sample s;
    sample_make(&s, 1, 64, HALF, 0);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        record_file later;
        later_minor(&s, cases[c].tag, &later);
        CHECK_STATUS(read_all(later.data, later.size, 1, &s, 1), cases[c].want);
        if (cases[c].want == PC_OK) {
            record_bytes bytes = record_bytes_of(later.data, later.size, 1, 0);
            pc__record *record;
            pc_record_info info = PC_RECORD_INFO_INIT;
            CHECK_OK(pc__record_open(&record, &pc__libc_allocator, &s.options, &bytes.source));
            pc__record_describe(record, &info);
            CHECK_INT(info.version, 256 + 9);
            pc__record_free(record);
        }
        record_file_free(&later);
    }
    sample_free(&s);
}

/* A codec that is missing, or is another one of the same number. */
static void test_codec_list(void)
{
    sample s;
    pc_codec_ops ops = half_ops(NULL);
    pc__codecs *others;
    ops.name = "other";
    CHECK_OK(pc__codecs_new(&others, &pc__libc_allocator, &ops, 1));
    sample_make(&s, 1, 64, HALF, 0);
    s.options.codecs = others;
    CHECK_STATUS(read_all(s.file.data, s.file.size, 1, &s, 0), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("257 (half)");
    s.options.codecs = NULL;
    CHECK_STATUS(read_all(s.file.data, s.file.size, 1, &s, 0), PC_ERR_UNSUPPORTED);
    record_bytes bytes = record_bytes_of(s.file.data, s.file.size, 1, 0);
    pc__record *record;
    uint8_t out[128];
    CHECK_OK(pc__record_open_frame(&record, &pc__libc_allocator, &s.options, &bytes.source));
    CHECK_OK(pc__image_match(&s.toy.image, pc__record_image(record)));
    CHECK_STATUS(pc__record_block(record, 0, out), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(pc__record_verify(record), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("frame only: record of codec 257 (half)");
    pc__record_free(record);
    pc__codecs_free(others);
    sample_free(&s);
}

static void test_memory(void)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        sample s;
        sample_make(&s, 1, 64, HALF, sealed);
        for (uint64_t at = 1; at < 12; at++) {
            pc_test_memory memory = {.fail_at = at};
            pc_allocator mem = pc_test_allocator(&memory);
            record_bytes bytes = record_bytes_of(s.file.data, s.file.size, 1, 0);
            uint8_t out[128];
            pc__record *record;
            pc_status status = pc__record_open(&record, &mem, &s.options, &bytes.source);
            CHECK((status == PC_OK) == (record != NULL));
            if (status == PC_OK)
                status = pc__record_block(record, 1, out);
            if (status == PC_OK)
                status = pc__record_verify(record);
            CHECK_STATUS(status, memory.calls >= at ? PC_ERR_NOMEM : PC_OK);
            pc__record_free(record);
            CHECK_INT(memory.live_blocks, 0);
        }
        sample_free(&s);
    }
}

int main(void)
{
    pc_codec_ops ops = half_ops(NULL);
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, &ops, 1));
    test_every_bit(1, PC_CODEC_RAW, 0);
    test_every_bit(2, HALF, 0);
    test_every_bit(1, PC_CODEC_RAW, 1);
    test_every_bit(4, HALF, 1);
    for (int sealed = 0; sealed < 2; sealed++) {
        test_lengths(sealed);
        test_exchanged(sealed);
    }
    test_clear_part_is_sealed();
    test_bounds();
    test_keys();
    test_numbers();
    test_claims();
    test_later_minor();
    test_codec_list();
    test_memory();
    pc__codecs_free(codecs);
    return pc_test_end();
}

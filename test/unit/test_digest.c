/* Catches: digests that are not BLAKE2b or differ between machines, two inputs with one encoding,
 * input that is lost at the border of a block, hexadecimal bytes that are misread. */
#include <sodium.h>
#include <string.h>

#include "base/digest.h"
#include "testing.h"

static const char *hex_of(pc__id id)
{
    static char hex[4][65];
    static unsigned next;
    char *out = hex[next++ % 4];
    pc__id_hex(&id, out);
    return out;
}

/* RFC 7693, appendix A, and the published digest of the empty message. */
static void published(void)
{
    static const char abc_512[] =
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
        "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923";
    unsigned char out[64];
    char hex[129];
    crypto_generichash(out, 64, (const unsigned char *)"abc", 3, NULL, 0);
    sodium_bin2hex(hex, sizeof hex, out, 64);
    CHECK_STR(hex, abc_512);
    crypto_generichash(out, 32, NULL, 0, NULL, 0);
    sodium_bin2hex(hex, sizeof hex, out, 32);
    CHECK_STR(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    crypto_generichash(out, 32, (const unsigned char *)"abc", 3, NULL, 0);
    sodium_bin2hex(hex, sizeof hex, out, 32);
    CHECK_STR(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

/* What Python's hashlib.blake2b(..., digest_size=32) gives for the same encoding:
 *   run = lambda b: struct.pack("<Q", len(b)) + b */
static void encoded(void)
{
    static const int32_t values[] = {0, 1, -1, 0x01020304, INT32_MIN, INT32_MAX};
    pc__digest d;
    pc__digest_start(&d, "");
    CHECK_STR(hex_of(pc__digest_end(&d)), /* run(b"") */
              "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c");
    pc__digest_start(&d, "test/1");
    pc__digest_u64(&d, UINT64_C(0x0102030405060708));
    pc__digest_bytes(&d, "a\0b", 3);
    pc__digest_text(&d, "text");
    pc__digest_i32(&d, values, 6);
    CHECK_STR(hex_of(pc__digest_end(&d)), /* all of it, numbers packed "<Q" and "<i" */
              "184470010ed331766e20eef8fc5da36576aa2ec1669de010c9601fce8f5cf28d");
    pc__digest_start(&d, "test/1");
    for (uint64_t i = 0; i < 1000; i++)
        pc__digest_u64(&d, i);
    CHECK_STR(hex_of(pc__digest_end(&d)), /* many blocks of 128 bytes */
              "4ed1766a52374d25c2b414ba49b907622b1b44e28b22d71150d20ad077ac41fe");
}

static pc__id two(const char *domain, const char *a, const char *b)
{
    pc__digest d;
    pc__digest_start(&d, domain);
    pc__digest_text(&d, a);
    pc__digest_text(&d, b);
    return pc__digest_end(&d);
}

static void no_collisions(void)
{
    const pc__id ids[] = {two("x", "a", "bc"), two("x", "ab", "c"), two("x", "abc", ""),
                          two("x", "", "abc"), two("xa", "", "bc"), two("", "xa", "bc"),
                          two("y", "a", "bc")};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        for (size_t j = 0; j < sizeof ids / sizeof *ids; j++)
            CHECK_INT(pc__id_equal(&ids[i], &ids[j]), i == j);
}

static void lists(void)
{
    int32_t values[200];
    pc__digest d;
    pc__id a, b, c;
    for (int i = 0; i < 200; i++)
        values[i] = i * 1234567 - 99;
    pc__digest_start(&d, "l");
    pc__digest_i32(&d, values, 200);
    a = pc__digest_end(&d);
    pc__digest_start(&d,
                     "l"); /* the count, then four bytes each: as 800 bytes with another length */
    pc__digest_u64(&d, 200);
    for (int i = 0; i < 200; i += 2) {
        uint64_t pair;
        memcpy(&pair, &values[i], sizeof pair);
        pc__digest_u64(&d, pair); /* little-endian machines only, like the file readers */
    }
    b = pc__digest_end(&d);
    CHECK(pc__id_equal(&a, &b));
    pc__digest_start(&d, "l");
    pc__digest_i32(&d, values, 199);
    c = pc__digest_end(&d);
    CHECK(!pc__id_equal(&a, &c));
    pc__digest_start(&d, "l");
    pc__digest_i32(&d, NULL, 0);
    b = pc__digest_end(&d);
    pc__digest_start(&d, "l");
    pc__digest_bytes(&d, NULL, 0); /* an empty list is an empty run of bytes */
    c = pc__digest_end(&d);
    CHECK(pc__id_equal(&b, &c));
}

static void ids(void)
{
    pc__id a = {{0}}, b = {{0}};
    CHECK_STR(hex_of(a), "0000000000000000000000000000000000000000000000000000000000000000");
    CHECK(pc__id_equal(&a, &b));
    for (size_t i = 0; i < 32; i++) {
        b.bytes[i] = 1;
        CHECK(!pc__id_equal(&a, &b));
        b.bytes[i] = 0;
    }
    b.bytes[0] = 0xab;
    b.bytes[31] = 0x0f;
    CHECK_STR(hex_of(b), "ab0000000000000000000000000000000000000000000000000000000000000f");
}

static void hex_bytes(void)
{
    CHECK_INT(pc__hex_byte("00"), 0);
    CHECK_INT(pc__hex_byte("9aF"), 0x9a);
    CHECK_INT(pc__hex_byte("Bf"), 0xbf);
    CHECK_INT(pc__hex_byte(""), -1);
    CHECK_INT(pc__hex_byte("1"), -1);
    CHECK_INT(pc__hex_byte("1g"), -1);
    CHECK_INT(pc__hex_byte("@0"), -1);
}

int main(void)
{
    published();
    hex_bytes();
    encoded();
    no_collisions();
    lists();
    ids();
    return pc_test_end();
}

/* Catches: seals and keyed digests that another implementation cannot make, nonces that repeat, an
 * unnoticed change of any bit of piece, nonce, key or authenticated data. */
#include <string.h>

#include "store/record/seal.h"
#include "testing.h"

static const char message[] = "Ladies and Gentlemen of the class of '99: If I could offer you only "
                              "one tip for the future, sunscreen would be it.";

static uint8_t unhex_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static size_t unhex(const char *hex, uint8_t *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(unhex_digit(hex[2 * i]) << 4 | unhex_digit(hex[2 * i + 1]));
    return n;
}

/* The message and the numbers of draft-irtf-cfrg-xchacha-03, appendix A.3.1, with the subkey for
 * pieces; computed with PyNaCl and hashlib. */
static void test_vector(void)
{
    uint8_t key[32], nonce[24], beside[12], sealed[256], out[256];
    size_t size;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(0x80 + i);
    for (int i = 0; i < 24; i++)
        nonce[i] = (uint8_t)(0x40 + i);
    unhex("50515253c0c1c2c3c4c5c6c7", beside);
    size = unhex("ad568e56ce2b1c5c32b6d621fa039f445982d50f98d4a44baf0cd08b36bdbb4069fea8f7"
                 "7703e4df0c35f3b6359a5c97c309e5690b20a490b18c036722339c2feba1f90514e69290"
                 "e82c1fefd9deab9d837942699143a61249e91397ac2226bf7fda259b0e8626d9389fd5b6"
                 "961cb370dfedeac0fdd4d93795ab237ca9f9024f3f3c",
                 sealed);
    CHECK_INT(size, sizeof message - 1 + PC__SEAL_TAG);
    CHECK_OK(pc__seal_open(out, sealed, size, beside, sizeof beside, nonce, key));
    CHECK(!memcmp(out, message, sizeof message - 1));
}

static int opens(const uint8_t *sealed, size_t size, const uint8_t *beside, const uint8_t *nonce,
                 const uint8_t *key)
{
    uint8_t out[64];
    return pc__seal_open(out, sealed, size, beside, 5, nonce, key) == PC_OK;
}

static void test_changes(void)
{
    uint8_t key[32] = {9}, nonce[24], beside[5] = {1, 2, 3, 4, 5}, sealed[20 + PC__SEAL_TAG];
    struct {
        uint8_t *bytes;
        size_t size;
    } parts[] = {
        {sealed, sizeof sealed}, {nonce, sizeof nonce}, {key, sizeof key}, {beside, sizeof beside}};
    CHECK_OK(pc__seal_close(sealed, message, 20, beside, sizeof beside, nonce, key));
    CHECK(opens(sealed, sizeof sealed, beside, nonce, key));
    for (size_t p = 0; p < 4; p++)
        for (size_t bit = 0; bit < 8 * parts[p].size; bit++) {
            parts[p].bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK(!opens(sealed, sizeof sealed, beside, nonce, key));
            parts[p].bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    for (size_t size = 0; size < sizeof sealed; size++)
        CHECK(!opens(sealed, size, beside, nonce, key));
    CHECK_STATUS(pc__seal_open(sealed, sealed, 3, beside, sizeof beside, nonce, key),
                 PC_ERR_FORMAT);
    CHECK_ERROR_HAS("seal");
}

static void test_in_place(void)
{
    uint8_t key[32] = {9}, first[24], second[24], data[sizeof message + PC__SEAL_TAG];
    memcpy(data, message, sizeof message);
    CHECK_OK(pc__seal_close(data, data, sizeof message, NULL, 0, first, key));
    CHECK(memcmp(data, message, sizeof message));
    CHECK_OK(pc__seal_open(data, data, sizeof data, NULL, 0, first, key));
    CHECK(!memcmp(data, message, sizeof message));
    CHECK_OK(pc__seal_close(data, data, sizeof message, NULL, 0, second, key));
    CHECK(memcmp(first, second, sizeof first));
    CHECK_OK(pc__seal_close(data, NULL, 0, NULL, 0, first, key));
    CHECK_OK(pc__seal_open(NULL, data, PC__SEAL_TAG, NULL, 0, first, key));
}

/* By doc/format.md: computed with Python's hashlib. */
static void test_subkeys(void)
{
    static const char *const digests[] = {
        "ce50bd7895664eb391d425801ff203891b1db0f362a9fa3e7a659cafb564de10",
        "b8db57010e1369d3a6179e42fa2829eb260b5195a626a3781a713a2dc89e9e45",
        "924fc3fed65638fcd76593abc8302f3031945684ad7a22a0131f35d83a8c170c"};
    uint8_t key[32], data[64], id[PC__SEAL_KEY_ID], want[32];
    for (int i = 0; i < 64; i++)
        data[i] = key[i % 32] = (uint8_t)(i % 32);
    for (int i = 32; i < 64; i++)
        data[i] = (uint8_t)i;
    unhex("d041032e395ac073d211b07c5270fe0f", want);
    pc__seal_key_id(key, id);
    CHECK(!memcmp(id, want, sizeof id));
    for (uint32_t i = 0; i < 3; i++) {
        pc__id digest = pc__seal_digest(key, PC__SEAL_NAMES + i, data, sizeof data);
        unhex(digests[i], want);
        CHECK(!memcmp(digest.bytes, want, sizeof want));
    }
}

int main(void)
{
    test_vector();
    test_changes();
    test_in_place();
    test_subkeys();
    return pc_test_end();
}

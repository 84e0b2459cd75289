/* Catches: seals that another implementation cannot open, nonces that repeat, an unnoticed change
 * of any bit of piece, nonce, key or authenticated data. */
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

/* draft-irtf-cfrg-xchacha-03, appendix A.3.1 */
static void test_vector(void)
{
    uint8_t key[32], nonce[24], beside[12], sealed[256], out[256];
    size_t size;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(0x80 + i);
    for (int i = 0; i < 24; i++)
        nonce[i] = (uint8_t)(0x40 + i);
    unhex("50515253c0c1c2c3c4c5c6c7", beside);
    size = unhex("bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440"
                 "bf3a82f4eda7e39ae64c6708c54c216"
                 "cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff92"
                 "1f9664c97637da9768812f615c68b13"
                 "b52ec0875924c1c7987947deafd8780acf49",
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
static void test_key_id(void)
{
    uint8_t key[32], id[PC__SEAL_KEY_ID], want[PC__SEAL_KEY_ID];
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    unhex("7ec6a2f8fc0e8a924827f1d0a1f39d7d", want);
    pc__seal_key_id(key, id);
    CHECK(!memcmp(id, want, sizeof id));
}

int main(void)
{
    test_vector();
    test_changes();
    test_in_place();
    test_key_id();
    return pc_test_end();
}

/* BLAKE2b by libsodium. */
#include "base/digest.h"

#include <sodium.h>
#include <string.h>

#include "base/little_endian.h"

_Static_assert(sizeof(crypto_generichash_state) <= sizeof(((pc__digest *)0)->state),
               "libsodium's state fits");

static crypto_generichash_state *sodium_state(pc__digest *digest)
{
    return (crypto_generichash_state *)(void *)digest->state;
}

void pc__digest_part(pc__digest *digest, const void *data, size_t size)
{
    if (size)
        crypto_generichash_update(sodium_state(digest), data, size);
}

void pc__digest_start(pc__digest *digest, const char *domain)
{
    crypto_generichash_init(sodium_state(digest), NULL, 0, sizeof(pc__id));
    pc__digest_text(digest, domain);
}

void pc__digest_u64(pc__digest *digest, uint64_t value)
{
    uint8_t bytes[8];
    pc__put_u64(bytes, value);
    pc__digest_part(digest, bytes, sizeof bytes);
}

void pc__digest_bytes(pc__digest *digest, const void *data, size_t size)
{
    pc__digest_u64(digest, size);
    pc__digest_part(digest, data, size);
}

void pc__digest_text(pc__digest *digest, const char *text)
{
    pc__digest_bytes(digest, text, strlen(text));
}

void pc__digest_i32(pc__digest *digest, const int32_t *values, size_t count)
{
    pc__digest_u64(digest, count);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    pc__digest_part(digest, values, 4 * count);
#else
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        pc__put_u32(bytes, (uint32_t)values[i]);
        pc__digest_part(digest, bytes, sizeof bytes);
    }
#endif
}

pc__id pc__digest_end(pc__digest *digest)
{
    pc__id id;
    crypto_generichash_final(sodium_state(digest), id.bytes, sizeof id.bytes);
    return id;
}

int pc__id_equal(const pc__id *a, const pc__id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void pc__id_hex(const pc__id *id, char hex[65])
{
    sodium_bin2hex(hex, 65, id->bytes, sizeof id->bytes);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int pc__hex_byte(const char *digits)
{
    int high = hex_digit(digits[0]), low = high < 0 ? -1 : hex_digit(digits[1]);
    return low < 0 ? -1 : 16 * high + low;
}

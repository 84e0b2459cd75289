/* Seals and keyed digests, by libsodium (seal.h). */
#include "store/record/seal.h"

#include <sodium.h>
#include <string.h>

#include "base/fail.h"

_Static_assert(PC__SEAL_KEY == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "as libsodium has it");
_Static_assert(PC__SEAL_NONCE == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
               "as libsodium has it");
_Static_assert(PC__SEAL_KEY == crypto_kdf_KEYBYTES, "as libsodium has it");
_Static_assert(PC__SEAL_TAG == crypto_aead_xchacha20poly1305_ietf_ABYTES, "as libsodium has it");

static void derive(uint8_t subkey[PC__SEAL_KEY], const uint8_t key[PC__SEAL_KEY], uint32_t purpose)
{
    crypto_kdf_derive_from_key(subkey, PC__SEAL_KEY, purpose, "pcrecord", key);
}

void pc__seal_key_id(const uint8_t key[PC__SEAL_KEY], uint8_t id[PC__SEAL_KEY_ID])
{
    crypto_kdf_derive_from_key(id, PC__SEAL_KEY_ID, PC__SEAL_ID, "pcrecord", key);
}

pc__id pc__seal_digest(const uint8_t key[PC__SEAL_KEY], uint32_t purpose, const void *data,
                       size_t size)
{
    uint8_t subkey[PC__SEAL_KEY];
    pc__id out;
    derive(subkey, key, purpose);
    crypto_generichash(out.bytes, sizeof out.bytes, data, size, subkey, sizeof subkey);
    sodium_memzero(subkey, sizeof subkey);
    return out;
}

pc_status pc__seal_close(void *out, const void *data, size_t size, const void *beside,
                         size_t beside_size, uint8_t nonce[PC__SEAL_NONCE],
                         const uint8_t key[PC__SEAL_KEY])
{
    uint8_t subkey[PC__SEAL_KEY];
    if (sodium_init() < 0) /* once a process; also picks the code for this CPU */
        return pc__fail(PC_ERR_INTERNAL, "seal: libsodium cannot start");
    randombytes_buf(nonce, PC__SEAL_NONCE);
    derive(subkey, key, PC__SEAL_PIECES);
    crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, data, size, beside, beside_size, NULL,
                                               nonce, subkey);
    sodium_memzero(subkey, sizeof subkey);
    return PC_OK;
}

pc_status pc__seal_open(void *out, const void *data, size_t size, const void *beside,
                        size_t beside_size, const uint8_t nonce[PC__SEAL_NONCE],
                        const uint8_t key[PC__SEAL_KEY])
{
    uint8_t subkey[PC__SEAL_KEY];
    int refused;
    if (sodium_init() < 0)
        return pc__fail(PC_ERR_INTERNAL, "seal: libsodium cannot start");
    derive(subkey, key, PC__SEAL_PIECES);
    refused = crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, data, size, beside,
                                                         beside_size, nonce, subkey);
    sodium_memzero(subkey, sizeof subkey);
    if (refused)
        return pc__fail(
            PC_ERR_FORMAT,
            "the seal does not open: the piece was changed or moved, or the key is wrong");
    return PC_OK;
}

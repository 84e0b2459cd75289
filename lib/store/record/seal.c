/* Seals, by libsodium (seal.h). */
#include "store/record/seal.h"

#include <sodium.h>
#include <string.h>

#include "base/digest.h"
#include "base/fail.h"

_Static_assert(PC__SEAL_KEY == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "as libsodium has it");
_Static_assert(PC__SEAL_NONCE == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
               "as libsodium has it");
_Static_assert(PC__SEAL_TAG == crypto_aead_xchacha20poly1305_ietf_ABYTES, "as libsodium has it");

void pc__seal_key_id(const uint8_t key[PC__SEAL_KEY], uint8_t id[PC__SEAL_KEY_ID])
{
    pc__digest d;
    pc__digest_start(&d, "seal-key/1");
    pc__digest_bytes(&d, key, PC__SEAL_KEY);
    pc__id whole = pc__digest_end(&d);
    memcpy(id, whole.bytes, PC__SEAL_KEY_ID);
}

pc_status pc__seal_close(void *out, const void *data, size_t size, const void *beside,
                         size_t beside_size, uint8_t nonce[PC__SEAL_NONCE],
                         const uint8_t key[PC__SEAL_KEY])
{
    if (sodium_init() < 0) /* once a process; also picks the code for this CPU */
        return pc__fail(PC_ERR_INTERNAL, "seal: libsodium cannot start");
    randombytes_buf(nonce, PC__SEAL_NONCE);
    crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, data, size, beside, beside_size, NULL,
                                               nonce, key);
    return PC_OK;
}

pc_status pc__seal_open(void *out, const void *data, size_t size, const void *beside,
                        size_t beside_size, const uint8_t nonce[PC__SEAL_NONCE],
                        const uint8_t key[PC__SEAL_KEY])
{
    if (sodium_init() < 0)
        return pc__fail(PC_ERR_INTERNAL, "seal: libsodium cannot start");
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, data, size, beside, beside_size,
                                                   nonce, key))
        return pc__fail(
            PC_ERR_FORMAT,
            "the seal does not open: the piece was changed or moved, or the key is wrong");
    return PC_OK;
}

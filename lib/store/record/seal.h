/* Seals: XChaCha20-Poly1305 (libsodium) of one piece, with its own nonce and with data beside it
 * that is authenticated and not hidden. Without the key nobody can read, change or move a piece.
 * Keyed digests (BLAKE2b), for what must be compared without the key. Every purpose has a subkey of
 * its own, derived from the seal key (doc/format.md, "A sealed record"). */
#ifndef PC_STORE_SEAL_H
#define PC_STORE_SEAL_H

#include "base/digest.h"

enum { PC__SEAL_KEY = 32, PC__SEAL_NONCE = 24, PC__SEAL_TAG = 16, PC__SEAL_KEY_ID = 16 };

/* Purposes of subkeys: those of the file format, never given out again. */
enum {
    PC__SEAL_PIECES = 1,
    PC__SEAL_NAMES = 2,
    PC__SEAL_SALTS = 3,
    PC__SEAL_CONTENTS = 4,
    PC__SEAL_ID = 5
};

/* Names a key without revealing it, so that a wrong key is not taken for damage. */
void pc__seal_key_id(const uint8_t key[PC__SEAL_KEY], uint8_t id[PC__SEAL_KEY_ID]);
/* A digest that nobody can compute without the key. */
pc__id pc__seal_digest(const uint8_t key[PC__SEAL_KEY], uint32_t purpose, const void *data,
                       size_t size);

/* Draws `nonce` and writes size + PC__SEAL_TAG bytes to `out`, which may be `data`.
 * PC_ERR_INTERNAL: libsodium has no random numbers. */
pc_status pc__seal_close(void *out, const void *data, size_t size, const void *beside,
                         size_t beside_size, uint8_t nonce[PC__SEAL_NONCE],
                         const uint8_t key[PC__SEAL_KEY]);
/* Opens: `size` includes the tag, `out` may be `data`. PC_ERR_FORMAT: changed, or sealed with
 * another key. */
pc_status pc__seal_open(void *out, const void *data, size_t size, const void *beside,
                        size_t beside_size, const uint8_t nonce[PC__SEAL_NONCE],
                        const uint8_t key[PC__SEAL_KEY]);

#endif

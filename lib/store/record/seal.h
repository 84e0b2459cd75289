/* Seals: XChaCha20-Poly1305 (libsodium) of one piece, with its own nonce and with data beside it
 * that is authenticated and not hidden. Without the key nobody can read, change or move a piece. */
#ifndef PC_STORE_SEAL_H
#define PC_STORE_SEAL_H

#include <promptcache.h>

enum { PC__SEAL_KEY = 32, PC__SEAL_NONCE = 24, PC__SEAL_TAG = 16, PC__SEAL_KEY_ID = 16 };

/* Names a key without revealing it (doc/format.md), so that a wrong key is not taken for damage. */
void pc__seal_key_id(const uint8_t key[PC__SEAL_KEY], uint8_t id[PC__SEAL_KEY_ID]);

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

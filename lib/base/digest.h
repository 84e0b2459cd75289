/* 256-bit identity digests: BLAKE2b over a canonical encoding in which every field carries its
 * length, so that no two different inputs share an encoding. Equal on every machine. */
#ifndef PC_BASE_DIGEST_H
#define PC_BASE_DIGEST_H

#include <promptcache.h>

typedef struct pc__id {
    uint8_t bytes[32];
} pc__id;

typedef struct pc__digest {
    _Alignas(64) unsigned char state[384];
} pc__digest;

/* `domain` says what is named, e.g. "segment/1". */
void pc__digest_start(pc__digest *digest, const char *domain);
void pc__digest_u64(pc__digest *digest, uint64_t value); /* 8 bytes, little-endian */
/* u64 length, then the bytes. */
void pc__digest_bytes(pc__digest *digest, const void *data, size_t size);
/* Bytes alone, of a text whose length was added by pc__digest_u64. */
void pc__digest_part(pc__digest *digest, const void *data, size_t size);
void pc__digest_text(pc__digest *digest, const char *text); /* as bytes, without the NUL */
/* u64 count, then 4 bytes each, little-endian. */
void pc__digest_i32(pc__digest *digest, const int32_t *values, size_t count);
pc__id pc__digest_end(pc__digest *digest);

int pc__id_equal(const pc__id *a, const pc__id *b);
void pc__id_hex(const pc__id *id, char hex[65]);
int pc__hex_byte(const char *digits); /* of two digits; -1: others */

#endif

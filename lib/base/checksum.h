/* Checksums of records in files and on servers: XXH3 with 128 bits and seed 0, stored as a
 * little-endian number. They detect damage; malice is detected by store/record/seal.h. */
#ifndef PC_BASE_CHECKSUM_H
#define PC_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum { PC__CHECKSUM = 16 };

typedef struct pc__checksum {
    _Alignas(64) unsigned char state[576];
} pc__checksum;

void pc__checksum_start(pc__checksum *checksum);
void pc__checksum_add(pc__checksum *checksum, const void *data, size_t size);
void pc__checksum_end(const pc__checksum *checksum, uint8_t out[PC__CHECKSUM]);
void pc__checksum_of(const void *data, size_t size, uint8_t out[PC__CHECKSUM]);

/* XXH3 with 64 bits, for small files; seed 0 where none is given. */
uint64_t pc__checksum64(const void *data, size_t size);
uint64_t pc__checksum64_seeded(const void *data, size_t size, uint64_t seed);

#endif

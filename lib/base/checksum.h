/* Checksums of what lies on disks and servers: XXH3 with 128 bits, seed 0, stored as a
 * little-endian number. They find damage, not malice (store/record/seal.h does). */
#ifndef PC_BASE_CHECKSUM_H
#define PC_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum { PC__CHECKSUM = 16 };

typedef struct pc__checksum {
    _Alignas(64) unsigned char state[576];
} pc__checksum;

void pc__checksum_start(pc__checksum *sum);
void pc__checksum_add(pc__checksum *sum, const void *data, size_t size);
void pc__checksum_end(const pc__checksum *sum, uint8_t out[PC__CHECKSUM]);
void pc__checksum_of(const void *data, size_t size, uint8_t out[PC__CHECKSUM]);

#endif

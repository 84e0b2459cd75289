/* Checksums of what lies on disks and servers: XXH3 with 128 bits, seed 0, stored as a
 * little-endian number. They find damage, not malice (store/record/seal.h does). */
#ifndef PC_BASE_SUM_H
#define PC_BASE_SUM_H

#include <stddef.h>
#include <stdint.h>

enum { PC__SUM = 16 };

typedef struct pc__sum {
    _Alignas(64) unsigned char state[576];
} pc__sum;

void pc__sum_start(pc__sum *sum);
void pc__sum_add(pc__sum *sum, const void *data, size_t size);
void pc__sum_end(const pc__sum *sum, uint8_t out[PC__SUM]);
void pc__sum_of(const void *data, size_t size, uint8_t out[PC__SUM]);

#endif

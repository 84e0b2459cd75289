/* The compression of BLAKE2b (RFC 7693) in lanes, compiled into every file that includes this. Set
 * PC__LANES first. */
#ifndef PC_BASE_DIGEST_LANES_CODE_H
#define PC_BASE_DIGEST_LANES_CODE_H

#include <string.h>

#include "base/digest_lanes.h"

typedef uint64_t pc__lane_words __attribute__((vector_size(PC__LANES * 8), aligned(8)));

static const uint8_t pc__message_order[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};

static inline pc__lane_words pc__turned(pc__lane_words x, int by)
{
    return x >> by | x << (64 - by);
}

static inline __attribute__((always_inline)) void pc__mix(pc__lane_words *v, int a, int b, int c,
                                                          int d, pc__lane_words x, pc__lane_words y)
{
    v[a] += v[b] + x;
    v[d] = pc__turned(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = pc__turned(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = pc__turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = pc__turned(v[b] ^ v[c], 63);
}

static inline __attribute__((always_inline)) void pc__mix_round(pc__lane_words *v,
                                                                const pc__lane_words *m,
                                                                const uint8_t *order)
{
    pc__mix(v, 0, 4, 8, 12, m[order[0]], m[order[1]]);
    pc__mix(v, 1, 5, 9, 13, m[order[2]], m[order[3]]);
    pc__mix(v, 2, 6, 10, 14, m[order[4]], m[order[5]]);
    pc__mix(v, 3, 7, 11, 15, m[order[6]], m[order[7]]);
    pc__mix(v, 0, 5, 10, 15, m[order[8]], m[order[9]]);
    pc__mix(v, 1, 6, 11, 12, m[order[10]], m[order[11]]);
    pc__mix(v, 2, 7, 8, 13, m[order[12]], m[order[13]]);
    pc__mix(v, 3, 4, 9, 14, m[order[14]], m[order[15]]);
}

static inline void pc__load_messages(const pc__lane_blocks *blocks, size_t block, pc__lane_words *m)
{
    for (size_t w = 0; w < 16; w++)
        for (size_t lane = 0; lane < PC__LANES; lane++) {
            uint64_t word;
            memcpy(&word, blocks->data[lane] + block * 128 + 8 * w, sizeof word);
            m[w][lane] = word;
        }
}

static void pc__compress_lanes(pc__lane_blocks *blocks)
{
    pc__lane_words h[8], t, final, m[16], v[16];
    for (size_t i = 0; i < 8; i++)
        memcpy(&h[i], blocks->h[i], sizeof h[i]);
    memcpy(&t, blocks->t, sizeof t);
    memcpy(&final, blocks->final, sizeof final);
    for (size_t block = 0; block < blocks->blocks; block++, t += 128) {
        pc__load_messages(blocks, block, m);
        for (size_t i = 0; i < 8; i++) {
            v[i] = h[i];
            v[8 + i] = pc__lane_start[i] - (pc__lane_words){0};
        }
        v[12] ^= t;
        v[14] ^= final;
#pragma GCC unroll 12
        for (size_t r = 0; r < 12; r++)
            pc__mix_round(v, m, pc__message_order[r]);
        for (size_t i = 0; i < 8; i++)
            h[i] ^= v[i] ^ v[8 + i];
    }
    for (size_t i = 0; i < 8; i++)
        memcpy(blocks->h[i], &h[i], sizeof h[i]);
}

#endif

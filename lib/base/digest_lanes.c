/* Feeds lanes with the blocks of byte strings, and chooses the code of this CPU's level. */
#include "base/digest_lanes.h"

#include <string.h>

#include "base/cpu_mask.h"
#include "base/little_endian.h"

const uint64_t pc__lane_start[8] = {UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b),
                                    UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1),
                                    UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
                                    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

enum { BLOCK = 128, PREFIX = 64 };

const pc__lane_code *pc__lane_code_best(void)
{
#if defined(__x86_64__)
    size_t level = pc__cpu_mask();
    if (level <= PC__CPU_AVX512 && pc__cpu_has_avx512())
        return &pc__lane_code_avx512;
    if (level <= PC__CPU_AVX2 && pc__cpu_has_avx2())
        return &pc__lane_code_avx2;
#endif
    return NULL;
}

/* What a lane digests: the domain and the size of the data, each as pc__digest_bytes encodes it,
 * then the data. */
typedef struct lane {
    pc__digest_item item;
    uint8_t prefix[PREFIX], edge[BLOCK]; /* edge: a block that is not all in the data */
    size_t prefix_size;
    uint64_t size, block, blocks; /* bytes with the prefix; next block; their number */
    int busy;
} lane;

static void start_lane(lane *l, const char *domain)
{
    size_t n = strlen(domain);
    pc__put_u64(l->prefix, n);
    memcpy(l->prefix + 8, domain, n);
    pc__put_u64(l->prefix + 8 + n, l->item.size);
    l->prefix_size = 16 + n;
    l->size = l->prefix_size + l->item.size;
    l->block = 0;
    l->blocks = (l->size + BLOCK - 1) / BLOCK;
    l->busy = 1;
}

/* The state of a BLAKE2b without key, of 32 bytes. */
static void start_state(pc__lane_blocks *b, size_t at)
{
    for (size_t i = 0; i < 8; i++)
        b->h[i][at] = pc__lane_start[i];
    b->h[0][at] ^= 0x01010000 ^ sizeof(pc__id);
}

/* The next block; blocks inside the data are read where they are. */
static const uint8_t *next_block(lane *l)
{
    uint64_t from = l->block * BLOCK;
    size_t prefix = 0, left;
    if (l->block && from + BLOCK <= l->size)
        return l->item.data + (from - l->prefix_size);
    memset(l->edge, 0, sizeof l->edge);
    if (!l->block) {
        prefix = l->prefix_size;
        memcpy(l->edge, l->prefix, prefix);
        from = prefix;
    }
    left = (size_t)(l->size - from);
    if (left > BLOCK - prefix)
        left = BLOCK - prefix;
    if (left)
        memcpy(l->edge + prefix, l->item.data + (from - l->prefix_size), left);
    return l->edge;
}

/* Blocks from the next one on that follow each other in the data and are not the last. */
static uint64_t run_of(const lane *l)
{
    return !l->block || l->block + 1 == l->blocks ? 1 : l->blocks - 1 - l->block;
}

/* 0: no lane has anything left. */
static int set_blocks(pc__lane_blocks *b, lane *lanes, size_t count)
{
    const uint8_t *any = NULL;
    uint64_t run = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        lane *l = &lanes[i];
        uint64_t end = (l->block + 1) * BLOCK;
        if (!l->busy)
            continue;
        run = run_of(l) < run ? run_of(l) : run;
        b->t[i] = end < l->size ? end : l->size;
        b->final[i] = l->block + 1 == l->blocks ? UINT64_MAX : 0;
        any = b->data[i] = next_block(l);
    }
    for (size_t i = 0; i < count; i++) /* idle lanes repeat what another one does */
        if (!lanes[i].busy)
            b->data[i] = any;
    b->blocks = (size_t)run;
    return any != NULL;
}

static void end_blocks(const pc__lane_blocks *b, const pc__digest_source *source, lane *l,
                       size_t at)
{
    pc__id id;
    l->block += b->blocks;
    if (l->block < l->blocks)
        return;
    for (size_t i = 0; i < 4; i++)
        pc__put_u64(id.bytes + 8 * i, b->h[i][at]);
    l->busy = 0;
    source->done(source->user, &l->item, &id);
}

void pc__digest_in_lanes(const pc__lane_code *code, const pc__digest_source *source)
{
    lane lanes[PC__MOST_LANES];
    pc__lane_blocks b;
    int more = 1;
    memset(lanes, 0, sizeof lanes);
    memset(&b, 0, sizeof b);
    for (;;) {
        for (size_t i = 0; i < code->lanes; i++)
            if (!lanes[i].busy && more && (more = source->next(source->user, &lanes[i].item))) {
                start_lane(&lanes[i], source->domain);
                start_state(&b, i);
            }
        if (!set_blocks(&b, lanes, code->lanes))
            return;
        code->compress(&b);
        for (size_t i = 0; i < code->lanes; i++)
            if (lanes[i].busy)
                end_blocks(&b, source, &lanes[i], i);
    }
}

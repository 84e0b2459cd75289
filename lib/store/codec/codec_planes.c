/* Encodes and decodes byte planes. A run is split into chunks of PC__CHUNK values. A chunk holds
 * its planes from the highest byte to the lowest, each with a word before it (little-endian;
 * highest bit: a zstd frame follows, else plain bytes; other bits: how many bytes). Bytes after the
 * last whole value follow the last chunk. */
#define ZSTD_STATIC_LINKING_ONLY /* custom memory, Huffman codes at negative levels */
#include "store/codec/codec_internal.h"

#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/fail.h"
#include "base/little_endian.h"

enum { HUFFMAN_LEVEL = -1000, REPEATS_LEVEL = 1 };
#define CODED 0x80000000u

struct pc__planes {
    pc_allocator mem;
    size_t value;
    int find_repeats;
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
    uint8_t planes[]; /* [value][PC__CHUNK] */
};

static void *zstd_alloc(void *mem, size_t size)
{
    return pc__alloc(mem, size);
}

static void zstd_free(void *mem, void *ptr)
{
    pc__free(mem, ptr);
}

static int set_level(ZSTD_CCtx *encoder, int find_repeats)
{
    return !ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_compressionLevel,
                                                find_repeats ? REPEATS_LEVEL : HUFFMAN_LEVEL))
           && !ZSTD_isError(
               ZSTD_CCtx_setParameter(encoder, ZSTD_c_literalCompressionMode, ZSTD_ps_enable));
}

pc_status pc__planes_new(pc__planes **out, const pc_allocator *mem, size_t value, int find_repeats,
                         int decode)
{
    pc__planes *p = pc__alloc(mem, sizeof *p + value * PC__CHUNK);
    ZSTD_customMem memory;
    *out = NULL;
    if (!p)
        return PC_ERR_NOMEM;
    p->mem = *mem;
    p->value = value;
    p->find_repeats = find_repeats;
    memory = (ZSTD_customMem){zstd_alloc, zstd_free, &p->mem};
    p->decoder = decode ? ZSTD_createDCtx_advanced(memory) : NULL;
    p->encoder = decode ? NULL : ZSTD_createCCtx_advanced(memory);
    if (!p->decoder && !p->encoder) {
        pc__planes_free(p);
        return pc__fail(PC_ERR_NOMEM, "out of memory (zstd)");
    }
    if (p->encoder && !set_level(p->encoder, find_repeats)) {
        pc__planes_free(p);
        return pc__fail(PC_ERR_UNSUPPORTED, "this zstd (%s) has no literal compression mode",
                        ZSTD_versionString());
    }
    *out = p;
    return PC_OK;
}

void pc__planes_free(pc__planes *planes)
{
    if (planes) {
        pc_allocator mem = planes->mem;
        ZSTD_freeCCtx(planes->encoder);
        ZSTD_freeDCtx(planes->decoder);
        pc__free(&mem, planes);
    }
}

size_t pc__planes_bound(size_t value, size_t bytes)
{
    return bytes + (bytes / value + PC__CHUNK - 1) / PC__CHUNK * value * 4;
}

static void split_2(const uint8_t *data, size_t count, uint8_t *restrict high,
                    uint8_t *restrict low)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t x;
        memcpy(&x, data + 2 * i, 2);
        high[i] = (uint8_t)(x >> 7);
        low[i] = (uint8_t)(x << 1 | x >> 15);
    }
}

static void join_2(uint8_t *restrict data, size_t count, const uint8_t *high, const uint8_t *low)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t x = (uint16_t)((low[i] & 1u) << 15 | (uint32_t)high[i] << 7 | low[i] >> 1);
        memcpy(data + 2 * i, &x, 2);
    }
}

static void split_4(const uint8_t *data, size_t count, uint8_t *restrict planes)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x;
        memcpy(&x, data + 4 * i, 4);
        x = x << 1 | x >> 31;
        planes[i] = (uint8_t)(x >> 24);
        planes[PC__CHUNK + i] = (uint8_t)(x >> 16);
        planes[2 * PC__CHUNK + i] = (uint8_t)(x >> 8);
        planes[3 * PC__CHUNK + i] = (uint8_t)x;
    }
}

static void join_4(uint8_t *restrict data, size_t count, const uint8_t *planes)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x = (uint32_t)planes[i] << 24 | (uint32_t)planes[PC__CHUNK + i] << 16
                     | (uint32_t)planes[2 * PC__CHUNK + i] << 8 | planes[3 * PC__CHUNK + i];
        x = x >> 1 | x << 31;
        memcpy(data + 4 * i, &x, 4);
    }
}

/* 1: compressing this plane is not worth trying. No code saves 2 % of fractions, and finding that
 * out takes as long as coding exponents. Counts equal pairs among SAMPLES bytes from eight places:
 * noise has as many as 256 equally frequent values would, or a fifth more (a code would save a
 * fortieth). */
static int is_noise(const uint8_t *plane, size_t count)
{
    enum { SAMPLES = 4096, WINDOWS = 8, FEWEST = 2 * SAMPLES, PART = SAMPLES / WINDOWS };
    uint16_t seen[256] = {0};
    uint32_t squares = 0;
    if (count < FEWEST)
        return 0;
    for (size_t place = 0; place < WINDOWS; place++) {
        const uint8_t *at = plane + place * (count / WINDOWS);
        for (size_t i = 0; i < PART; i++)
            seen[at[i]]++;
    }
    for (size_t i = 0; i < 256; i++)
        squares += (uint32_t)seen[i] * seen[i];
    return squares - SAMPLES < SAMPLES / 256 * SAMPLES / 5 * 6;
}

/* Writes one plane to *out, compressed if that is smaller. */
static pc_status put_plane(pc__planes *p, const uint8_t *plane, size_t count, uint8_t **out,
                           const uint8_t *end)
{
    size_t room = (size_t)(end - *out), coded;
    if (room < count + 4)
        return pc__fail(PC_ERR_LIMIT, "byte planes: %zu bytes of room for %zu", room, count + 4);
    coded = !p->find_repeats && is_noise(plane, count)
                ? count
                : ZSTD_compress2(p->encoder, *out + 4, room - 4, plane, count);
    if (ZSTD_isError(coded) && ZSTD_getErrorCode(coded) == ZSTD_error_memory_allocation)
        return pc__fail(PC_ERR_NOMEM, "out of memory (zstd)");
    if (ZSTD_isError(coded) || coded >= count) { /* no room for it is one of the errors */
        pc__put_u32(*out, (uint32_t)count);
        memcpy(*out + 4, plane, count);
        *out += 4 + count;
    } else {
        pc__put_u32(*out, (uint32_t)coded | CODED);
        *out += 4 + coded;
    }
    return PC_OK;
}

pc_status pc__planes_encode(pc__planes *planes, const uint8_t *data, size_t bytes, uint8_t **out,
                            const uint8_t *end)
{
    size_t left = bytes / planes->value, odd = bytes % planes->value;
    while (left) {
        size_t count = left < PC__CHUNK ? left : PC__CHUNK;
        if (planes->value == 2)
            split_2(data, count, planes->planes, planes->planes + PC__CHUNK);
        else if (planes->value == 4)
            split_4(data, count, planes->planes);
        for (size_t i = 0; i < planes->value; i++) {
            PC__TRY_RETURN(put_plane(planes,
                                     planes->value == 1 ? data : planes->planes + i * PC__CHUNK,
                                     count, out, end));
        }
        data += count * planes->value;
        left -= count;
    }
    if ((size_t)(end - *out) < odd)
        return pc__fail(PC_ERR_LIMIT, "byte planes: no room for the last %zu bytes", odd);
    memcpy(*out, data, odd);
    *out += odd;
    return PC_OK;
}

/* Reads one plane of `count` bytes; *plane points into the input or to `to`. */
static pc_status get_plane(pc__planes *p, const uint8_t **in, const uint8_t *end, size_t count,
                           uint8_t *to, const uint8_t **plane)
{
    uint32_t word;
    size_t size, coded;
    if (end - *in < 4)
        return pc__fail(PC_ERR_FORMAT, "byte planes: cut short");
    word = pc__get_u32(*in);
    size = word & ~CODED;
    *in += 4;
    if (size > (size_t)(end - *in) || (!(word & CODED) && size != count))
        return pc__fail(PC_ERR_FORMAT,
                        "byte planes: a plane of %zu bytes, %zu are left, %zu expected", size,
                        (size_t)(end - *in), count);
    *plane = word & CODED ? to : *in;
    if (word & CODED) {
        coded = ZSTD_decompressDCtx(p->decoder, to, count, *in, size);
        if (ZSTD_isError(coded))
            return pc__fail(PC_ERR_FORMAT, "byte planes: %s", ZSTD_getErrorName(coded));
        if (coded != count)
            return pc__fail(PC_ERR_FORMAT, "byte planes: a plane gave %zu bytes, %zu expected",
                            coded, count);
    }
    *in += size;
    return PC_OK;
}

/* The four planes must lie at equal distances. */
static pc_status get_4(pc__planes *p, const uint8_t **in, const uint8_t *end, size_t count,
                       uint8_t *data)
{
    for (size_t i = 0; i < 4; i++) {
        uint8_t *to = p->planes + i * PC__CHUNK;
        const uint8_t *plane = NULL;
        PC__TRY_RETURN(get_plane(p, in, end, count, to, &plane));
        if (plane != to)
            memcpy(to, plane, count);
    }
    join_4(data, count, p->planes);
    return PC_OK;
}

static pc_status get_2(pc__planes *p, const uint8_t **in, const uint8_t *end, size_t count,
                       uint8_t *data)
{
    const uint8_t *high = NULL, *low = NULL;
    pc_status status = get_plane(p, in, end, count, p->planes, &high);
    if (status >= 0 && (status = get_plane(p, in, end, count, p->planes + PC__CHUNK, &low)) >= 0)
        join_2(data, count, high, low);
    return status;
}

static pc_status get_1(pc__planes *p, const uint8_t **in, const uint8_t *end, size_t count,
                       uint8_t *data)
{
    const uint8_t *plane = NULL;
    pc_status status = get_plane(p, in, end, count, data, &plane);
    if (status >= 0 && plane != data)
        memcpy(data, plane, count);
    return status;
}

pc_status pc__planes_decode(pc__planes *planes, const uint8_t **in, const uint8_t *end,
                            uint8_t *data, size_t bytes)
{
    size_t left = bytes / planes->value, odd = bytes % planes->value;
    while (left) {
        size_t count = left < PC__CHUNK ? left : PC__CHUNK;
        PC__TRY_RETURN((planes->value == 1   ? get_1
                        : planes->value == 2 ? get_2
                                             : get_4)(planes, in, end, count, data));
        data += count * planes->value;
        left -= count;
    }
    if ((size_t)(end - *in) < odd)
        return pc__fail(PC_ERR_FORMAT, "byte planes: cut short");
    memcpy(data, *in, odd);
    *in += odd;
    return PC_OK;
}

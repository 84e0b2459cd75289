/* Catches: maps packed in another layout than the header describes, weights that rounding moves
 * farther than half a step, sizes that overflow, products with the wrong head's values, rows or
 * lanes, rows that depend on their neighbours, maps and runs that do not fit each other taken all
 * the same. */
#include "attn/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"
#include "unpack_map.h"

enum { MOST = 200, HEADS = 4, KV_HEADS = 2, V_DIM = 20, LANES = 3 };

/* Rows that sum to one, of very different sizes; zero where causal maps have nothing. */
static float *draw(const pc__map_shape *shape, pc_test_rng *rng)
{
    size_t n = shape->tokens;
    float *dense = calloc((size_t)shape->heads * n * n + 1, sizeof *dense);
    for (size_t r = 0; r < (size_t)shape->heads * n; r++) {
        size_t keys = pc__map_row_keys(shape, r % n);
        float sum = 0.0f;
        for (size_t t = 0; t < keys; t++)
            sum += dense[r * n + t] = expf(3.0f * pc_test_normal(rng));
        for (size_t t = 0; t < keys; t++)
            dense[r * n + t] /= sum;
    }
    return dense;
}

/* The largest rounding error of a weight in a row whose largest weight is `most`. */
static float step_of(uint32_t format, float weight, float most)
{
    return format == PC_MAP_F32   ? 0.0f
           : format == PC_MAP_F16 ? weight * 0x1p-11f + 0x1p-25f
                                  : most / 255.0f * 0.501f;
}

static void packing(pc_test_rng *rng)
{
    static const size_t lengths[] = {1, 2, 3, 63, 64, 65, 130};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths * 6; i++) {
        pc__map_shape shape = {(uint32_t)(i % 3), HEADS, lengths[i / 6], i % 6 > 2};
        size_t n = shape.tokens, bytes = pc__map_bytes(&shape),
               weights = HEADS * (shape.causal ? n * (n + 1) / 2 : n * n);
        float *dense = draw(&shape, rng), *back = malloc(HEADS * n * n * sizeof *back);
        uint8_t *map = malloc(bytes + 8);
        CHECK(bytes
              == (shape.format == PC_MAP_U8 ? (weights + 3) / 4 * 4 + HEADS * n * 4
                                            : weights * (shape.format ? 2 : 4)));
        memset(map, 0xA5, bytes + 8);
        pc__map_pack(&shape, dense, map);
        for (size_t k = bytes; k < bytes + 8; k++)
            CHECK(map[k] == 0xA5);
        unpack_map(&shape, map, back);
        for (size_t r = 0; r < HEADS * n; r++) {
            float most = 0.0f, worst = 0.0f;
            for (size_t t = 0; t < n; t++)
                most = fmaxf(most, dense[r * n + t]);
            for (size_t t = 0; t < n; t++)
                worst = fmaxf(worst, fabsf(back[r * n + t] - dense[r * n + t])
                                         - step_of(shape.format, dense[r * n + t], most));
            CHECK(worst <= 0.0f);
        }
        free(dense);
        free(back);
        free(map);
    }
}

/* Byte by byte, a causal U8 map of two tokens. */
static void layout(void)
{
    static const float dense[2 * 2 * 2] = {1.0f, 9.0f, 0.25f, 0.75f, 0.5f, 9.0f, 0.0f, 0.0f};
    pc__map_shape shape = {PC_MAP_U8, 2, 2, 1};
    uint8_t map[24];
    float scales[4];
    memset(map, 0xA5, sizeof map);
    CHECK(pc__map_bytes(&shape) == 24);
    pc__map_pack(&shape, dense, map);
    CHECK(map[0] == 255 && map[1] == 85 && map[2] == 255 && map[3] == 255 && map[4] == 0
          && map[5] == 0 && map[6] == 0 && map[7] == 0);
    memcpy(scales, map + 8, sizeof scales);
    CHECK(scales[0] == 1.0f / 255.0f && scales[1] == 0.75f / 255.0f && scales[2] == 0.5f / 255.0f
          && scales[3] == 0.0f);
}

static void sizes(void)
{
    pc__map_shape shape = {3, 4, 16, 0};
    CHECK(pc__map_bytes(&shape) == 0);
    shape = (pc__map_shape){PC_MAP_F32, 0, 16, 0};
    CHECK(pc__map_bytes(&shape) == 0);
    shape = (pc__map_shape){PC_MAP_F32, 4, (size_t)1 << 40, 0};
    CHECK(pc__map_bytes(&shape) == 0);
    shape = (pc__map_shape){PC_MAP_F32, INT32_MAX, ((size_t)1 << 24) - 1, 0};
    CHECK(pc__map_bytes(&shape) == 0);
}

typedef struct lane_of {
    pc__map_lane lane;
    float *dense, *values; /* as stored: [head][row][token], [token][kv_head][v_dim] */
    void *map;
} lane_of;

static lane_of lane_new(pc_context *context, uint32_t format, uint32_t dtype, size_t tokens,
                        int causal, pc_test_rng *rng)
{
    pc__kv_shape kv = {2, KV_HEADS, 6, V_DIM, dtype, 0};
    lane_of l = {.lane = {.shape = {format, HEADS, tokens, causal}}};
    pc__kv *run = NULL;
    float k[KV_HEADS * 6] = {0};
    CHECK_OK(pc__kv_new(&run, &context->mem, &kv, tokens + 3));
    l.values = malloc(tokens * KV_HEADS * V_DIM * sizeof *l.values);
    for (size_t t = 0; t < tokens; t++) {
        float *v = l.values + t * KV_HEADS * V_DIM;
        int64_t at = (int64_t)t;
        CHECK_OK(pc__kv_append(run, &at, 1));
        for (size_t d = 0; d < KV_HEADS * V_DIM; d++)
            v[d] = pc_test_normal(rng);
        pc__kv_write(run, 1, t, k, v);
        pc__kv_read(run, 1, t, k, v);
    }
    l.dense = draw(&l.lane.shape, rng);
    l.map = malloc(pc__map_bytes(&l.lane.shape));
    pc__map_pack(&l.lane.shape, l.dense, l.map);
    unpack_map(&l.lane.shape, l.map, l.dense);
    l.lane.map = l.map;
    l.lane.kv = run;
    return l;
}

static void lane_free(lane_of *l)
{
    pc__kv_unref((pc__kv *)(uintptr_t)l->lane.kv);
    free(l->dense);
    free(l->values);
    free(l->map);
}

static void compare(const lane_of *l, const float *out, double share)
{
    size_t n = l->lane.shape.tokens;
    for (size_t r = 0; r < n; r++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t d = 0; d < V_DIM; d++) {
                double sum = 0.0, size = 0.0;
                for (size_t t = 0; t < n; t++) {
                    double term =
                        (double)l->dense[(h * n + r) * n + t]
                        * (double)l->values[(t * KV_HEADS + h / (HEADS / KV_HEADS)) * V_DIM + d];
                    sum += term;
                    size += fabs(term);
                }
                CHECK(fabs((double)out[((l->lane.first_row + r) * HEADS + h) * V_DIM + d] - sum)
                      <= share * size + 1e-30);
            }
}

/* Lanes of several lengths in one call, against plain sums; the same lanes alone give the same
 * bits. */
static void products(pc_context *context, uint32_t format, uint32_t dtype, int causal,
                     pc_test_rng *rng)
{
    static const size_t lengths[LANES] = {97, 1, MOST};
    double share = dtype == PC_DTYPE_BF16 ? 0x1p-8 : 1e-5;
    lane_of l[LANES];
    pc__map_lane lanes[LANES];
    size_t rows = 0;
    for (size_t i = 0; i < LANES; i++) {
        l[i] = lane_new(context, format, dtype, lengths[i], causal, rng);
        l[i].lane.first_row = rows + 2;
        rows += lengths[i];
        lanes[i] = l[i].lane;
    }
    size_t count = (rows + 4) * HEADS * V_DIM;
    float *out = malloc(count * sizeof *out), *alone = malloc(count * sizeof *alone);
    for (size_t i = 0; i < count; i++)
        out[i] = alone[i] = 77.0f;
    CHECK_OK(pc__map_apply(context, lanes, LANES, 1, out));
    for (size_t i = 0; i < LANES; i++) {
        compare(&l[i], out, share);
        CHECK_OK(pc__map_apply(context, &lanes[i], 1, 1, alone));
    }
    CHECK(!memcmp(out, alone, count * sizeof *out));
    for (size_t i = 0; i < 2 * HEADS * V_DIM; i++)
        CHECK(out[i] == 77.0f && out[count - 1 - i] == 77.0f);
    for (size_t i = 0; i < LANES; i++)
        lane_free(&l[i]);
    free(out);
    free(alone);
}

/* Values that lie in no page: every row's sum, and nothing written beside it. */
static void plain(size_t tokens, pc_test_rng *rng)
{
    enum { WIDTH = 12, STRIDE = 17 };
    size_t room = (tokens + PC__PAGE - 1) / PC__PAGE * PC__PAGE * WIDTH;
    float *weights = malloc(tokens * tokens * sizeof *weights),
          *out = malloc(tokens * STRIDE * sizeof *out),
          *values = aligned_alloc(64, (room * sizeof *values + 63) / 64 * 64);
    for (size_t i = 0; i < tokens * tokens; i++)
        weights[i] = pc_test_uniform(rng);
    for (size_t i = 0; i < room; i++)
        values[i] = i < tokens * WIDTH ? pc_test_normal(rng) : 0.0f;
    for (size_t i = 0; i < tokens * STRIDE; i++)
        out[i] = 77.0f;
    for (size_t first = 0; first < tokens; first += 24)
        pc__map_apply_plain(weights, tokens, first, tokens - first < 24 ? tokens - first : 24,
                            values, WIDTH, out + first * STRIDE, STRIDE);
    for (size_t r = 0; r < tokens; r++)
        for (size_t d = 0; d < STRIDE; d++) {
            double want = d < WIDTH ? 0.0 : 77.0, size = 0.0;
            for (size_t t = 0; t < tokens && d < WIDTH; t++) {
                want += (double)weights[r * tokens + t] * (double)values[t * WIDTH + d];
                size += fabs((double)weights[r * tokens + t] * (double)values[t * WIDTH + d]);
            }
            if (fabs((double)out[r * STRIDE + d] - want) > 1e-5 * size)
                CHECK(fabs((double)out[r * STRIDE + d] - want) <= 1e-5 * size);
        }
    free(weights);
    free(values);
    free(out);
}

static void refusals(pc_context *context, pc_test_memory *memory, pc_test_rng *rng)
{
    lane_of l = lane_new(context, PC_MAP_U8, PC_DTYPE_F32, 10, 1, rng);
    float out[10 * HEADS * V_DIM];
    pc__map_lane bad = l.lane;
    pc__kv *i8 = NULL;
    bad.shape.tokens = 11;
    CHECK(pc__map_apply(context, &bad, 1, 1, out) == PC_ERR_MISMATCH);
    bad.shape = (pc__map_shape){PC_MAP_U8, 3, 10, 1};
    CHECK(pc__map_apply(context, &bad, 1, 1, out) == PC_ERR_MISMATCH);
    bad.shape = (pc__map_shape){9, HEADS, 10, 1};
    CHECK(pc__map_apply(context, &bad, 1, 1, out) == PC_ERR_MISMATCH);
    CHECK(pc__map_apply(context, &l.lane, 1, 2, out) == PC_ERR_MISMATCH);
    CHECK_OK(pc__kv_convert(&i8, context, l.lane.kv, PC_DTYPE_I8));
    bad = l.lane;
    bad.kv = i8;
    CHECK(pc__map_apply(context, &bad, 1, 1, out) == PC_ERR_UNSUPPORTED);
    CHECK_OK(pc__map_apply(context, NULL, 0, 0, out));
    memory->fail_at = memory->calls + 1;
    CHECK(pc__map_apply(context, &l.lane, 1, 1, out) == PC_ERR_NOMEM);
    memory->fail_at = 0;
    pc__kv_unref(i8);
    lane_free(&l);
}

int main(void)
{
    pc_test_rng rng = {7};
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 2);
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16};
    packing(&rng);
    layout();
    sizes();
    for (uint32_t format = 0; format <= PC_MAP_U8; format++)
        for (size_t d = 0; d < 3; d++)
            for (int causal = 0; causal < 2; causal++)
                products(context, format, dtypes[d], causal, &rng);
    plain(1, &rng);
    plain(25, &rng);
    plain(PC__PAGE + 1, &rng);
    plain(150, &rng);
    refusals(context, &memory, &rng);
    pc_context_free(context);
    CHECK(memory.live_blocks == 0);
    return pc_test_end();
}

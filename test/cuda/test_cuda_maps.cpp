// Catches: maps whose rows, heads, scales or pages are mixed up, in every format of map and values;
// weights beyond a causal row that are used or written; values of another page, head or layer;
// dimensions that a tile does not fill; products and recorded weights that are less exact than
// promised; codes of int8 keys that are multiplied by the scale of another dimension or page;
// windows, chunks, ALiBi, soft caps; U8 scales that are not of the largest weight of the row;
// several lanes in a launch; copies in flight, races between the warps of a block.
#include "cuda/kernels/maps.h"

#include <algorithm>
#include <vector>

#include "dense_case.h"
#include "dense_reference.h"
extern "C" {
#include "attn/half.h"
}

extern "C" {
void pc__cuda_map_apply_f32(pc__cuda_map_task), pc__cuda_map_apply_bf16(pc__cuda_map_task),
    pc__cuda_map_apply_f16(pc__cuda_map_task), pc__cuda_map_record_f32(pc__cuda_map_task),
    pc__cuda_map_record_bf16(pc__cuda_map_task), pc__cuda_map_record_f16(pc__cuda_map_task),
    pc__cuda_map_record_i8(pc__cuda_map_task);
}

namespace {

const size_t PAGE = PC__CUDA_KV_PAGE;

struct shape {
    uint32_t heads, kv_heads, k_dim, v_dim;
};

// One lane: a run with random K and V, two layers on the device of which layer 1 counts.
struct lane {
    reference_map map;
    reference_kv *kv;
    std::vector<float> k, v; // [token][kv_head][dim], as they were before rounding
    size_t each, pages;
    device<uint8_t> memory, packed;
    device<uint64_t> table;
    lane(random_numbers &random, const shape &s, uint32_t format, const reference_map &m,
         gpu_model::region_use use)
        : map(m), kv(reference_kv_new(format, s.kv_heads, s.k_dim, s.v_dim, m.tokens)),
          k(m.tokens * s.kv_heads * s.k_dim), v(m.tokens * s.kv_heads * s.v_dim),
          each((size_t)reference_kv_shape(kv).page_bytes * s.kv_heads),
          pages(reference_kv_bytes(kv) / each), memory("pages", 2 * pages * each),
          packed("map", reference_map_bytes(&m), use), table("page table", pages)
    {
        for (float &x : k)
            x = random.normal();
        for (float &x : v)
            x = random.normal();
        write(s, format);
    }
    ~lane()
    {
        reference_kv_free(kv);
    }
    // k and v into the pages of layer 1, of which the last comes first
    void write(const shape &s, uint32_t format)
    {
        bool i8 = format == REFERENCE_I8; // whole pages only
        for (size_t t = 0; t < map.tokens; t += i8 ? PAGE : 1) {
            const float *key = &k[t * s.kv_heads * s.k_dim], *value = &v[t * s.kv_heads * s.v_dim];
            if (i8)
                reference_kv_write_i8(kv, t / PAGE, std::min(map.tokens - t, PAGE), key, value);
            else
                reference_kv_write(kv, t, key, value);
        }
        for (size_t i = 0; i < pages; i++) {
            uint8_t *at = memory.data() + (pages - 1 - i) * each;
            table[i] = (uint64_t)(uintptr_t)at;
            memset(at, 0xff, each); // NaN
            memcpy(at + pages * each, reference_kv_pages(kv) + i * each, each);
        }
    }
    pc__cuda_map_lane task(uint32_t first_row) const
    {
        return {(uint64_t)(uintptr_t)packed.data(),
                table.data(),
                pages * each,
                (uint32_t)map.tokens,
                map.causal,
                first_row,
                0,
                nullptr,
                nullptr,
                nullptr};
    }
    size_t keys(size_t row) const
    {
        return map.causal ? row + 1 : map.tokens;
    }
    size_t at(size_t head, size_t row) const // of the row's first weight
    {
        size_t before = map.causal ? row * (row + 1) / 2 : row * map.tokens,
               all = map.causal ? map.tokens * (map.tokens + 1) / 2 : map.tokens * map.tokens;
        return head * all + before;
    }
};

std::vector<pc__cuda_map_block> blocks_of(const std::vector<size_t> &tokens)
{
    std::vector<pc__cuda_map_block> blocks;
    for (uint32_t l = 0; l < tokens.size(); l++)
        for (uint32_t first = 0; first < tokens[l]; first += PC__CUDA_MAP_ROWS)
            blocks.push_back({l, first});
    return blocks;
}

// Weights of a softmax: [head][row][tokens]
std::vector<float> softmax_rows(random_numbers &random, const lane &l)
{
    std::vector<float> dense(l.map.heads * l.map.tokens * l.map.tokens);
    for (size_t r = 0; r < l.map.heads * l.map.tokens; r++) {
        float *row = &dense[r * l.map.tokens], sum = 0.0f;
        for (size_t k = 0; k < l.keys(r % l.map.tokens); k++)
            sum += row[k] = expf(random.normal(2.0f));
        for (size_t k = 0; k < l.keys(r % l.map.tokens); k++)
            row[k] /= sum;
    }
    return dense;
}

// How far the product of a row may be off: its sum of |weight * value| gives the unit.
double room_of(const lane &l, const shape &s, const float *weights, size_t keys, size_t head,
               size_t d, uint32_t format)
{
    double sum = 0, values = 0,
           each = format == REFERENCE_BF16  ? 0x1p-8
                  : format == REFERENCE_F16 ? 0x1p-11
                                            : 0;
    for (size_t t = 0; t < keys; t++) {
        double v = fabs(
            (double)l.v[(t * s.kv_heads + head / (s.heads / s.kv_heads)) * s.v_dim + d]);
        sum += (double)weights[t] * v;
        values += v;
    }
    return sum * (each + (double)(keys + 8) * 0x1p-23) * 1.01
           + (format == REFERENCE_F16 ? values * 0x1p-25 : 0);
}

void launch_apply(uint32_t format, const pc__cuda_map_task &t)
{
    gpu_model::extent grid = {t.count, t.heads,
                              (t.shape.v_dim + PC__CUDA_MAP_DIMS - 1) / PC__CUDA_MAP_DIMS};
    if (format == REFERENCE_F32)
        run_kernel<pc__cuda_map_apply_f32>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED);
    else if (format == REFERENCE_BF16)
        run_kernel<pc__cuda_map_apply_bf16>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED);
    else
        run_kernel<pc__cuda_map_apply_f16>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED);
}

// Two lanes in one launch.
void apply(random_numbers &random, const shape &s, uint32_t format, uint32_t map_format,
           uint32_t causal, size_t tokens)
{
    lane a(random, s, format, {map_format, s.heads, causal, tokens}, gpu_model::READ_ONLY);
    size_t others = tokens == PAGE ? PAGE : 5;
    lane b(random, s, format, {map_format, s.heads, causal, others}, gpu_model::READ_ONLY);
    lane *lanes[] = {&a, &b};
    size_t rows = tokens + others, width = s.heads * s.v_dim, wrong = 0, row = 0;
    device<float> out("out", rows * width, gpu_model::UNWRITTEN), want("want", rows * width);
    device<pc__cuda_map_lane> tasks("lanes", 2);
    std::vector<pc__cuda_map_block> list = blocks_of({tokens, others});
    device<pc__cuda_map_block> blocks("blocks", list.size());
    std::vector<float> dense[] = {softmax_rows(random, a), softmax_rows(random, b)};
    blocks.fill([&](size_t i) { return list[i]; });
    for (size_t l = 0; l < 2; row += lanes[l]->map.tokens, l++) {
        tasks[l] = lanes[l]->task((uint32_t)row);
        reference_map_pack(&lanes[l]->map, dense[l].data(), lanes[l]->packed.data());
        reference_map_apply(&lanes[l]->map, lanes[l]->packed.data(), lanes[l]->kv,
                            want.data() + row * width);
    }
    launch_apply(format,
                 {tasks.data(), blocks.data(), reference_kv_shape(a.kv), map_format, s.heads, 1,
                  (uint32_t)list.size(), out.data(), nullptr, nullptr, nullptr, 0, 0});
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < s.heads; h++)
            for (size_t d = 0; d < s.v_dim; d++) {
                size_t l = r >= tokens, own = l ? r - tokens : r,
                       at = (r * s.heads + h) * s.v_dim + d;
                const float *weights =
                    &dense[l][(h * lanes[l]->map.tokens + own) * lanes[l]->map.tokens];
                double room = room_of(*lanes[l], s, weights, lanes[l]->keys(own), h, d, format);
                wrong += !(fabs((double)out[at] - (double)want[at]) <= room);
            }
    CHECK_INT(wrong, 0);
    if (tokens == PAGE && !causal && s.v_dim % 8 == 0) // else rows begin within a sector
        check_traffic();
    gpu_model::forget_traffic();
}

struct terms {
    float soft_cap;
    bool slopes;
    int64_t window, chunk;
};

// Score of a row and key in double, and the sum of its products' sizes.
double score(const lane &l, const shape &s, const float *q, size_t key, size_t head, double scale,
             double *size)
{
    const float *k = &l.k[(key * s.kv_heads + head / (s.heads / s.kv_heads)) * s.k_dim];
    double sum = 0;
    *size = 0;
    for (size_t d = 0; d < s.k_dim; d++) {
        sum += (double)q[d] * (double)k[d] * scale;
        *size += fabs((double)q[d] * (double)k[d] * scale);
    }
    return sum;
}

// The scale of a row of a U8 map.
float step_of(const lane &l, const uint8_t *map, size_t head, size_t row)
{
    size_t all = (l.at(l.map.heads, 0) + 3) & ~(size_t)3;
    float scale;
    memcpy(&scale, map + all + (head * l.map.tokens + row) * sizeof scale, sizeof scale);
    return scale;
}

float unpacked(const lane &l, const uint8_t *map, size_t head, size_t row, size_t key)
{
    size_t at = l.at(head, row) + key;
    if (l.map.format == PC__CUDA_MAP_F32)
        return ((const float *)(const void *)map)[at];
    if (l.map.format == PC__CUDA_MAP_F16)
        return pc__half_to(((const uint16_t *)(const void *)map)[at]);
    return step_of(l, map, head, row) * (float)map[at];
}

void launch_record(uint32_t format, const pc__cuda_map_task &t)
{
    gpu_model::extent grid = {t.count, t.heads};
    if (format == REFERENCE_F32)
        run_kernel<pc__cuda_map_record_f32>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED);
    else if (format == REFERENCE_BF16)
        run_kernel<pc__cuda_map_record_bf16>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED);
    else if (format == REFERENCE_F16)
        run_kernel<pc__cuda_map_record_f16>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED);
    else
        run_kernel<pc__cuda_map_record_i8>(t, grid, PC__CUDA_MAP_THREADS, PC__CUDA_MAP_SHARED_I8);
}

void record(random_numbers &random, const shape &s, uint32_t format, uint32_t map_format,
            uint32_t causal, size_t tokens, const terms &terms)
{
    lane l(random, s, format, {map_format, s.heads, causal, tokens}, gpu_model::UNWRITTEN);
    const size_t FIRST = 3; // row of q where the lane begins
    const float scale = 0.125f;
    device<float> q("q", (FIRST + tokens) * s.heads * s.k_dim),
        lse("lse", (FIRST + tokens) * s.heads), slopes("slopes", s.heads);
    device<int64_t> distance("distance", tokens);
    device<uint32_t> seen("seen", 2 * tokens);
    std::vector<pc__cuda_map_block> list = blocks_of({tokens});
    device<pc__cuda_map_block> blocks("blocks", list.size());
    device<pc__cuda_map_lane> task("lanes", 1);
    std::vector<uint8_t> want(l.packed.size + 4);
    size_t wrong = 0;
    q.fill([&](size_t) { return random.normal(); });
    lse.fill([&](size_t) { return 4.0f + random.normal(0.2f); });
    slopes.fill([&](size_t i) { return 0.01f * (float)(i + 1); });
    blocks.fill([&](size_t i) { return list[i]; });
    for (size_t r = 0; r < tokens; r++) {
        distance[r] = (int64_t)r;
        int64_t from = terms.window > 0 ? (int64_t)r - terms.window + 1 : 0,
                begin = terms.chunk > 0 ? (int64_t)r / terms.chunk * terms.chunk : 0;
        from = from > begin ? from : begin;
        seen[2 * r] = from > 0 ? (uint32_t)from : 0;
        seen[2 * r + 1] = terms.chunk > 0 ? (uint32_t)(begin + terms.chunk) : UINT32_MAX;
    }
    task[0] = l.task(FIRST);
    task[0].distance = distance.data();
    task[0].seen = terms.window > 0 || terms.chunk > 0 ? seen.data() : nullptr;
    reference_map_record(&l.map, l.kv, q.data() + FIRST * s.heads * s.k_dim,
                         lse.data() + FIRST * s.heads, distance.data(), scale, terms.soft_cap,
                         terms.slopes ? slopes.data() : nullptr, terms.window, terms.chunk,
                         want.data());
    launch_record(format, {task.data(), blocks.data(), reference_kv_shape(l.kv), map_format,
                           s.heads, 1, (uint32_t)list.size(), nullptr, q.data(), lse.data(),
                           terms.slopes ? slopes.data() : nullptr, scale, terms.soft_cap});
    for (size_t h = 0; h < s.heads; h++)
        for (size_t r = 0; r < tokens; r++) {
            float step = map_format == PC__CUDA_MAP_U8 ? step_of(l, want.data(), h, r) : 0.0f;
            if (step > 0.0f)
                wrong += !(fabsf(step_of(l, l.packed.data(), h, r) / step - 1.0f) < 1e-4f);
            for (size_t k = 0; k < l.keys(r); k++) {
                double size, got = unpacked(l, l.packed.data(), h, r, k),
                             expected = unpacked(l, want.data(), h, r, k), room;
                score(l, s, &q[((FIRST + r) * s.heads + h) * s.k_dim], k, h, scale, &size);
                room = expected * (size * (s.k_dim + 16) * 0x1p-23 + 1e-6) + 1e-37;
                if (map_format == PC__CUDA_MAP_F16)
                    room += expected * 0x1p-10 + 0x1p-24;
                room += 1.001 * (double)step; // of U8, where the reference is between two
                wrong += !(fabs(got - expected) <= room);
            }
        }
    CHECK_INT(wrong, 0);
    if (tokens == PAGE && !causal && s.k_dim % 8 == 0)
        check_traffic();
    gpu_model::forget_traffic();
}

// Equal queries and keys in all dimensions, so that what rounding takes from a query adds up.
// Scores are exact to 2^-20 of their products, if keys are.
void record_exactly(random_numbers &random, uint32_t format)
{
    const shape s = {1, 1, 64, 64};
    lane l(random, s, format, {PC__CUDA_MAP_F32, 1, 0, PAGE}, gpu_model::UNWRITTEN);
    device<float> q("q", PAGE * s.k_dim), lse("lse", PAGE);
    device<pc__cuda_map_block> blocks("blocks", 1);
    device<pc__cuda_map_lane> task("lanes", 1);
    const float scale = 0.125f;
    size_t wrong = 0;
    for (size_t t = 0; t < PAGE; t++) // the scale of each dimension is 1 / 128
        std::fill_n(&l.k[t * s.k_dim], s.k_dim, (float)(t + PAGE) / 128.0f);
    for (size_t r = 0; r < PAGE; r++)
        std::fill_n(&q[r * s.k_dim], s.k_dim, 0.5f + (float)random.below(1 << 20) * 0x1p-22f);
    l.write(s, format);
    lse.fill([](size_t) { return 4.0f; });
    blocks[0] = {0, 0};
    task[0] = l.task(0);
    launch_record(format, {task.data(), blocks.data(), reference_kv_shape(l.kv), PC__CUDA_MAP_F32,
                           1, 1, 1, nullptr, q.data(), lse.data(), nullptr, scale, 0.0f});
    for (size_t r = 0; r < PAGE; r++)
        for (size_t k = 0; k < PAGE; k++) {
            double size, expected = exp(score(l, s, &q[r * s.k_dim], k, 0, scale, &size) - 4.0),
                         got = unpacked(l, l.packed.data(), 0, r, k);
            wrong += !(fabs(got - expected) <= expected * (size * 0x1p-20 + 1e-6));
        }
    CHECK_INT(wrong, 0);
}

} // namespace

int main()
{
    static const shape shapes[] = {{2, 1, 64, 64}, {2, 2, 33, 21}, {1, 1, 20, 136}};
    static const terms all[] = {
        {0.0f, false, 0, 0}, {5.0f, true, 0, 19}, {0.0f, false, 30, 0}, {0.0f, true, 30, 50}};
    setenv("PC_CPU_MASK", "c", 1); // the reference in plain C
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        record_exactly(random, REFERENCE_F16);
        record_exactly(random, REFERENCE_I8);
        for (uint32_t format = REFERENCE_F32; format <= REFERENCE_I8; format++)
            for (uint32_t map = PC__CUDA_MAP_F32; map <= PC__CUDA_MAP_U8; map++) {
                const shape &s = shapes[random.below(3)];
                uint32_t causal = random.below(2);
                if (format != REFERENCE_I8) {
                    apply(random, s, format, map, causal, 1 + random.below(100));
                    apply(random, s, format, map, !causal, PAGE);
                    apply(random, shapes[0], format, map, 0, PAGE);
                }
                record(random, s, format, map, causal, 1 + random.below(100), all[random.below(4)]);
                record(random, shapes[0], format, map, 0, PAGE, all[0]);
            }
    }
    return pc_test_end();
}

// Catches: a wrapper of gpu.h that computes, moves or orders something else than its promise: in
// the model, and on a device (gpu_test_…), where its assembly runs; a wrapper that no kernel here
// uses. Those of a warp are in test_cuda_model_tensor.cpp.
#include "attn/half.h"
#include "model_wrappers.h"
#include "planted.h"
#include <algorithm>
#include <math.h>
#include <regex>
#include <set>
#include <sstream>

extern "C" {
void model_numbers(struct numbers_task);
void model_moves(struct moves_task);
void model_atomics(struct atomics_task);
void model_message(struct atomics_task);
}
namespace model = gpu_model;
enum { THREADS = WRAPPERS_THREADS };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// fp16 that has infinity
static uint32_t half_of(float x)
{
    if (fabsf(x) >= 65520)
        return x < 0 ? 0xfc00 : 0x7c00;
    return pc__half_from(x);
}

static uint32_t half_product(uint32_t a, uint32_t b)
{
    return half_of(pc__half_to((uint16_t)a) * pc__half_to((uint16_t)b)); // exact before half_of
}

static uint32_t bytes_as_f16(uint32_t word)
{
    return pc__half_of((float)(int8_t)word)
           | (uint32_t)pc__half_of((float)(int8_t)(word >> 8)) << 16;
}

static void wanted_numbers(const float *x, const uint32_t *a, uint32_t thread, uint32_t *want)
{
    want[F16_OF] = half_of(x[0]);
    want[FLOAT_OF_F16] = bits_of(pc__half_to((uint16_t)a[0]));
    want[BF16_OF] = pc__bf16_from(x[0]);
    want[FLOAT_OF_BF16] = a[0] << 16;
    want[PACKED_F16] = half_of(x[0]) | half_of(x[1]) << 16;
    want[PACKED_BF16] = pc__bf16_from(x[0]) | (uint32_t)pc__bf16_from(x[1]) << 16;
    want[UNPACKED_BF16] = a[0] << 16;
    want[UNPACKED_BF16 + 1] = a[0] & 0xffff0000;
    want[PRODUCT_F16] = half_product(a[0], a[1]) | half_product(a[0] >> 16, a[1] >> 16) << 16;
    want[UNPACKED_I8] = bytes_as_f16(a[0]);
    want[UNPACKED_I8 + 1] = bytes_as_f16(a[0] >> 16);
    want[EXP2] = bits_of(exp2f(x[0]));
    want[SUM_OVER_4] = thread / 4 * 16 + 6;
    want[MAX_OVER_32] = thread | 31;
}

// exp2_fast: 2 units in the last place; subnormal results are 0.
static bool right(uint32_t which, uint32_t got, uint32_t want)
{
    if (which != EXP2 || got == want)
        return got == want;
    if (fabsf(float_of(want)) < 0x1p-126f)
        return got == 0;
    return fabsf(float_of(got) - float_of(want)) <= 2 * 0x1p-23f * fabsf(float_of(want));
}

static float number(pc_test_rng *rng, uint32_t i)
{
    static const float odd[] = {0,      -0.0f, 1,       65519,    65520,  -65536,
                                1e-8f,  6e-8f, 1.5e-5f, INFINITY, 3e38f,  -INFINITY,
                                1e-40f, 0.5f,  1.001f,  -127.5f,  -149.0f};
    return i % 3 ? pc_test_normal(rng) * 30 : odd[i / 3 % (sizeof odd / sizeof *odd)];
}

// The bits of two fp16 that are no NaN, and no NaN as bf16.
static uint32_t halves(pc_test_rng *rng)
{
    uint32_t word = (uint32_t)pc_test_bits(rng);
    for (uint32_t half : {0x7c00u, 0x7c000000u})
        if ((word & half) == half)
            word ^= half & 0x40004000u;
    return word;
}

static void check_numbers(uint64_t seed)
{
    pc_test_rng rng = {seed};
    std::vector<float> x(THREADS * 2);
    std::vector<uint32_t> a(THREADS * 2), result(THREADS * NUMBER_RESULTS);
    for (uint32_t i = 0; i < THREADS * 2; i++) {
        x[i] = number(&rng, i + (uint32_t)seed);
        a[i] = halves(&rng);
    }
    model::reset();
    model::region("x", x.data(), x.size() * 4, model::READ_ONLY);
    model::region("a", a.data(), a.size() * 4, model::READ_ONLY);
    model::region("result", result.data(), result.size() * 4, model::UNWRITTEN);
    CHECK(model::launch<model_numbers>(numbers_task{x.data(), a.data(), result.data()},
                                       {{1}, {THREADS}, 0, seed}));
    for (uint32_t i = 0; i < THREADS; i++) {
        uint32_t want[NUMBER_RESULTS];
        wanted_numbers(&x[i * 2], &a[i * 2], i, want);
        for (uint32_t r = 0; r < NUMBER_RESULTS; r++)
            if (!CHECK(right(r, result[i * NUMBER_RESULTS + r], want[r])))
                fprintf(stderr, "    result %u of %g %g %08x %08x: %08x, not %08x\n", r,
                        (double)x[i * 2], (double)x[i * 2 + 1], a[i * 2], a[i * 2 + 1],
                        result[i * NUMBER_RESULTS + r], want[r]);
    }
    CHECK_INT(model::reports(), 0);
}

static void check_moves(uint64_t seed)
{
    pc_test_rng rng = {seed};
    std::vector<uint32_t> from(THREADS * 4), to(MOVES * THREADS * 4);
    size_t shared = THREADS * 16 * (MOVES - MOVE_ASYNC_4);
    for (uint32_t &word : from)
        word = (uint32_t)pc_test_bits(&rng);
    // 16-byte accesses need addresses of that kind
    uint32_t *own = (uint32_t *)aligned_alloc(64, from.size() * 4),
             *result = (uint32_t *)aligned_alloc(64, to.size() * 4);
    memcpy(own, from.data(), from.size() * 4);
    model::reset();
    model::region("from", own, from.size() * 4, model::READ_ONLY);
    model::region("to", result, to.size() * 4, model::UNWRITTEN);
    CHECK(model::launch<model_moves>(moves_task{own, result}, {{1}, {THREADS}, shared, seed}));
    for (uint32_t way = 0; way < MOVES; way++)
        for (uint32_t i = 0; i < THREADS; i++) {
            uint32_t want[4], bytes = way == MOVE_PART ? i % 17 : 16;
            memset(want, 0, sizeof want);
            memcpy(want, &from[i * 4], bytes);
            CHECK(!memcmp(want, result + (way * THREADS + i) * 4, 16));
        }
    CHECK_INT(model::reports(), 0);
    free(own), free(result);
}

enum { ALL = 2 * THREADS };

struct atomics {
    std::vector<uint32_t> word, before, data, flag, seen;
    atomics() : word(ATOMICS), before(ATOMICS * ALL), data(THREADS), flag(2), seen(THREADS)
    {
        model::reset();
        model::region("word", word.data(), word.size() * 4, model::WRITTEN);
        model::region("before", before.data(), before.size() * 4, model::UNWRITTEN);
        model::region("data", data.data(), data.size() * 4, model::UNWRITTEN);
        model::region("flag", flag.data(), flag.size() * 4, model::WRITTEN);
        model::region("seen", seen.data(), seen.size() * 4, model::UNWRITTEN);
    }
    atomics_task task()
    {
        return {word.data(), before.data(), data.data(), flag.data(), seen.data()};
    }
    std::multiset<uint32_t> of(atomic which) const // what was there at any time
    {
        std::multiset<uint32_t> all(before.begin() + which * ALL,
                                    before.begin() + (which + 1) * ALL);
        all.insert(word[which]);
        return all;
    }
};

static void check_atomics(uint64_t seed)
{
    atomics a;
    std::multiset<uint32_t> every;
    for (uint32_t i = 0; i <= ALL; i++)
        every.insert(i);
    CHECK(model::launch<model_atomics>(a.task(), {{2}, {THREADS}, 0, seed}));
    for (atomic which : {ADD_RELAXED, ADD_RELEASE, ADD_ACQ_REL})
        CHECK(a.of(which) == every);
    CHECK_INT(a.word[ADD_RELAXED], ALL);
    CHECK_INT(model::reports(), 0);
}

static void check_message(uint64_t seed)
{
    atomics a;
    CHECK(model::launch<model_message>(a.task(), {{2}, {THREADS}, 0, seed}));
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK_INT(a.seen[i], i * 3 + 6);
    CHECK_INT(model::reports(), 0);
}

static std::string text_of(const std::string &path)
{
    std::ifstream file(PC_SOURCE_DIR + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

static void check_all_are_here()
{
    std::string header = text_of("/cuda/kernels/gpu.h"),
                used = text_of("/test/cuda_model/model_wrappers.cu")
                       + text_of("/test/cuda_model/model_tensor.cu");
    std::regex wrapper("GPU_INLINE \\w+ \\*?(\\w+)\\(");
    size_t count = 0;
    if (header.empty()) // on a machine without the sources
        return;
    for (std::sregex_iterator i(header.begin(), header.end(), wrapper), end; i != end; ++i) {
        std::string name = (*i)[1];
        count++;
        if (!CHECK(name == "shared_address" // of the others
                   || std::regex_search(used, std::regex("\\b" + name + "\\b"))))
            fprintf(stderr, "    no kernel here uses %s\n", name.c_str());
    }
    CHECK(count > 25);
}

int main()
{
    check_all_are_here();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        check_numbers(seed);
        check_moves(seed);
        check_atomics(seed);
        check_message(seed);
    }
    return pc_test_end();
}

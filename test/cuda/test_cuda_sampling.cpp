// Catches: another token than the CPU's sampler gives for the same random number: ties, NaN,
// infinities, penalties, top k and top p, alone and together, at their borders; rows with other
// options beside each other; more tokens than the sorted list takes; a token beyond the vocabulary
// of a wider row; races between the threads of a row.
#include "cuda/kernels/sampling.h"

#include <vector>

#include "dense_case.h"
#include "sampling_reference.h"

extern "C" void pc__cuda_sample(pc__cuda_sample_task);

namespace {

enum kind { WIDE, NARROW, TIES, ODD, EQUAL, NOTHING, INFINITE };

float logit(random_numbers &random, int kind, uint32_t i)
{
    if (kind == TIES)
        return (float)random.below(6);
    if (kind == ODD)
        return random.below(4)   ? random.normal(2.0f)
               : random.below(2) ? NAN
               : random.below(2) ? -INFINITY
                                 : -0.0f;
    if (kind == EQUAL)
        return 1.5f;
    if (kind == NOTHING)
        return i % 2 ? NAN : -INFINITY;
    if (kind == INFINITE)
        return i == 3 ? INFINITY : random.normal();
    return random.normal(kind == WIDE ? 8.0f : 1.0f);
}

struct options {
    float temperature, top_p, penalty;
    uint32_t top_k;
};

options any_options(random_numbers &random)
{
    static const float temperatures[] = {0.0f, 0.3f, 1.0f, 1.0f, 2.0f},
                       shares[] = {0.0f, 1.0f, 0.5f, 0.9f, 0.999f};
    static const uint32_t tops[] = {0, 0, 1, 5, 50, 1000000};
    return {temperatures[random.below(5)], shares[random.below(5)], random.below(2) ? 1.3f : 0.7f,
            tops[random.below(6)]};
}

// One launch of `rows` rows, each with its own options and kind of logits.
void sample(random_numbers &random, uint32_t rows, uint32_t vocab, int kinds, const options *fixed)
{
    uint32_t stride = vocab + 3;
    device<float> logits("logits", rows * stride, gpu_model::WRITTEN);
    device<uint8_t> penalised("penalised", rows * vocab, gpu_model::WRITTEN);
    device<pc__cuda_sampling> tasks("options", rows);
    device<int32_t> token("token", rows, gpu_model::UNWRITTEN);
    std::vector<int32_t> want(rows);
    std::vector<float> copy(rows * stride);
    std::vector<uint8_t> noted(rows * vocab);
    size_t wrong = 0;
    for (uint32_t r = 0; r < rows; r++) {
        options o = fixed ? *fixed : any_options(random);
        int kind = (int)random.below((uint32_t)kinds);
        uint64_t bits = pc_test_bits(&random.rng);
        bool penalty = !fixed && random.below(2);
        for (uint32_t i = 0; i < stride; i++)
            copy[r * stride + i] = logits[r * stride + i] = i < vocab ? logit(random, kind, i)
                                                                      : 1000.0f;
        for (uint32_t i = 0; i < vocab; i++)
            noted[r * vocab + i] = penalised[r * vocab + i] = random.below(3) == 0;
        tasks[r] = {(double)(bits >> 11) * 0x1p-53,
                    penalty ? (uint64_t)(uintptr_t)(penalised.data() + r * vocab) : 0,
                    o.temperature,
                    o.top_p,
                    o.penalty,
                    o.top_k};
        want[r] = reference_sample(&copy[r * stride], vocab, bits, o.temperature, o.top_k, o.top_p,
                                   o.penalty, penalty ? &noted[r * vocab] : nullptr);
    }
    run_kernel<pc__cuda_sample>(
        pc__cuda_sample_task{logits.data(), tasks.data(), token.data(), stride, rows, vocab},
        {rows}, PC__CUDA_SAMPLE_THREADS, PC__CUDA_SAMPLE_SHARED);
    for (uint32_t r = 0; r < rows; r++)
        wrong += token[r] != want[r];
    for (size_t i = 0; i < copy.size(); i++)
        wrong += !same(copy[i], logits[i]);
    for (size_t i = 0; i < noted.size(); i++)
        wrong += noted[i] != penalised[i];
    CHECK_INT(wrong, 0);
    gpu_model::forget_traffic();
}

// Random numbers and shares that lie exactly on a border between tokens of equal logits; top k
// above the number of tokens that can be drawn.
void borders()
{
    enum { VOCAB = 16 };
    static const uint64_t draws[] = {0, (uint64_t)1 << 62, ((uint64_t)1 << 62) - 1,
                                     (uint64_t)1 << 63, ~(uint64_t)0};
    static const options all[] = {{1.0f, 0.5f, 1.0f, 0},
                                  {1.0f, 0.0f, 1.0f, 4},
                                  {1.0f, 0.0f, 1.0f, 0},
                                  {1.0f, 0.25f, 1.0f, 8},
                                  {1.0f, 0.0f, 1.0f, 12}};
    device<float> logits("logits", VOCAB, gpu_model::WRITTEN);
    device<pc__cuda_sampling> task("options", 1);
    device<int32_t> token("token", 1, gpu_model::WRITTEN);
    for (const options &o : all)
        for (uint64_t bits : draws) {
            for (size_t i = 0; i < VOCAB; i++) // with the last options 8 tokens can be drawn
                logits[i] = i % 2 ? 1.0f : o.top_k == 12 ? -INFINITY : 1.0f;
            if (o.top_k == 12)
                logits[1] = 0.5f;
            task[0] = {
                (double)(bits >> 11) * 0x1p-53, 0, o.temperature, o.top_p, o.penalty, o.top_k};
            run_kernel<pc__cuda_sample>(
                pc__cuda_sample_task{logits.data(), task.data(), token.data(), VOCAB, 1, VOCAB},
                {1}, PC__CUDA_SAMPLE_THREADS, PC__CUDA_SAMPLE_SHARED);
            CHECK_INT(token[0], reference_sample(logits.data(), VOCAB, bits, o.temperature, o.top_k,
                                                 o.top_p, o.penalty, nullptr));
        }
}

} // namespace

int main()
{
    static const options many = {50.0f, 0.99f, 1.0f, 0}, // more tokens than the list takes
        many_first = {1.0f, 0.0f, 1.0f, 4500};
    borders();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        sample(random, 4, 1, INFINITE + 1, nullptr);
        sample(random, 10, 7, INFINITE + 1, nullptr);
        sample(random, 10, 700, EQUAL + 1, nullptr);
        sample(random, 2, 2001, ODD, nullptr);
        if (seed < 3)
            sample(random, 1, 4801, NARROW + 1, seed == 1 ? &many_first : &many);
    }
    return pc_test_end();
}

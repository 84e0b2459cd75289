// Catches: another token than the CPU's sampler gives for the same random number: ties, NaN,
// infinities, min p, top k and top p, alone and together, at their borders; changes of logits that
// are rounded otherwise, made in another order, or not made; rows with other options beside each
// other, in another order than their logits; more tokens than the sorted list takes; a token beyond
// the vocabulary of a wider row; log-probabilities of changed logits; likeliest tokens in a wrong
// order or number; a row without a token that is not told so; races between the threads of a row.
#include "cuda/kernels/sampling.h"

#include <vector>

#include "dense_case.h"
#include "host_sample.h"

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

double number_from(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

pc__draw any_options(random_numbers &random)
{
    static const float temperatures[] = {0.0f, 0.3f, 1.0f, 1.0f, 2.0f},
                       shares[] = {0.0f, 1.0f, 0.5f, 0.9f, 0.999f},
                       least[] = {0.0f, 0.0f, 0.0f, 0.02f, 0.3f, 1.0f};
    static const uint32_t tops[] = {0, 0, 1, 5, 50, 1000000}, likely[] = {0, 0, 1, 3, 9};
    pc__draw o = {};
    o.random = number_from(pc_test_bits(&random.rng));
    o.temperature = temperatures[random.below(5)];
    o.top_p = shares[random.below(5)];
    o.min_p = least[random.below(6)];
    o.top_k = tops[random.below(6)];
    o.logprob = random.below(2);
    o.likely = o.logprob ? likely[random.below(5)] : 0;
    return o;
}

// Some tokens twice, also with another kind; forbidden ones, and numbers that go beyond fp32.
std::vector<pc__logit_change> any_changes(random_numbers &random, uint32_t vocab)
{
    std::vector<pc__logit_change> changes(random.below(3) ? random.below(2 * vocab + 1) : 0);
    for (pc__logit_change &c : changes) {
        c.token = (int32_t)random.below(vocab);
        c.kind = random.below(3);
        c.a = c.kind == PC__CHANGE_DIVIDE ? (double)(random.below(2) ? 1.3f : 0.7f)
                                          : (double)random.normal();
        c.b = c.kind == PC__CHANGE_SUBTRACT && random.below(2) ? (double)random.normal() : 0;
        if (!random.below(8))
            c.a = c.kind == PC__CHANGE_ADD      ? -(double)INFINITY
                  : c.kind == PC__CHANGE_DIVIDE ? 1e-38
                                                : 3e38;
    }
    return changes;
}

// As cuda/backend_cuda_rows.c lists them.
pc__cuda_sampling row_of(const pc__draw &o, size_t changes, size_t changed)
{
    pc__cuda_sampling row = {};
    row.random = o.random;
    row.log_min_p = o.min_p > 0 ? log((double)o.min_p) : -(double)INFINITY;
    row.row = o.row;
    row.changes = changes;
    row.changed = changed;
    row.change_count = (uint32_t)o.change_count;
    row.vocab = (uint32_t)o.vocab;
    row.temperature = o.temperature;
    row.top_p = o.top_p;
    row.top_k = o.top_k;
    row.logprob = o.logprob;
    row.likely = o.likely;
    return row;
}

// The room: several sums in another order, each of terms that are off by some units in the last
// place.
bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (1 + fabs(b));
}

size_t wrong_logprobs(const pc__draw &o, const pc__drawn *got, const pc__drawn *want)
{
    const pc__likely *mine = pc__likely_of(got), *theirs = pc__likely_of(want);
    size_t wrong = !near(got->logprob, want->logprob);
    for (uint32_t i = 0; i < o.likely; i++)
        wrong += mine[i].token != theirs[i].token
                 || (mine[i].token >= 0 && !near(mine[i].logprob, theirs[i].logprob));
    return wrong;
}

// One launch of these draws from `logits`, which must stay as they are.
void run(std::vector<pc__draw> &list, device<float> &logits, uint32_t stride)
{
    uint32_t count = (uint32_t)list.size();
    size_t changes = 0, changed = 0, wrong = 0;
    pc__draws draws = {list.data(), count, 0, 0, nullptr};
    for (const pc__draw &o : list) {
        changes += o.change_count;
        changed += o.change_count > 0;
        draws.likely = o.likely > draws.likely ? o.likely : draws.likely;
    }
    size_t each = pc__drawn_bytes(draws.likely);
    std::vector<float> before(logits.data(), logits.data() + logits.size);
    std::vector<double> want(count * each / sizeof(double));
    device<pc__cuda_sampling> rows("rows", count);
    device<pc__logit_change> all("changes", changes);
    device<float> work("changed", changed * stride, gpu_model::UNWRITTEN);
    device<double> drawn("drawn", count * each / sizeof(double), gpu_model::UNWRITTEN);
    changes = changed = 0;
    for (uint32_t r = 0; r < count; r++) {
        rows[r] = row_of(list[r], changes, changed);
        for (size_t i = 0; i < list[r].change_count; i++)
            memcpy(&all[changes++], &list[r].changes[i], sizeof(pc__logit_change));
        changed += list[r].change_count > 0;
    }
    run_kernel<pc__cuda_sample>(pc__cuda_sample_task{logits.data(), work.data(), rows.data(),
                                                     all.data(), (uint8_t *)drawn.data(), stride,
                                                     count, (uint32_t)each},
                                {count}, PC__CUDA_SAMPLE_THREADS, PC__CUDA_SAMPLE_SHARED);
    draws.drawn = want.data();
    host_sample(before.data(), stride, &draws);
    for (uint32_t r = 0; r < count; r++) {
        const pc__drawn *expected = pc__drawn_at(&draws, r),
                        *got = (const pc__drawn *)(drawn.data() + r * each / sizeof(double));
        wrong += got->outcome != expected->outcome;
        if (expected->outcome == PC__DRAWN || expected->outcome == PC__DRAWN_INFINITE)
            wrong += got->token != expected->token;
        if (list[r].logprob && expected->outcome == PC__DRAWN)
            wrong += wrong_logprobs(list[r], got, expected);
    }
    for (size_t i = 0; i < logits.size; i++)
        wrong += !same(before[i], logits[i]);
    CHECK_INT(wrong, 0);
    gpu_model::forget_traffic();
}

// `rows` rows, each with its own options and kind of logits.
void sample(random_numbers &random, uint32_t rows, uint32_t vocab, int kinds, const pc__draw *fixed)
{
    uint32_t stride = vocab + 3;
    device<float> logits("logits", rows * stride, gpu_model::WRITTEN);
    std::vector<std::vector<pc__logit_change>> changes(rows);
    std::vector<pc__draw> list(rows);
    for (uint32_t r = 0; r < rows; r++) {
        int kind = (int)random.below((uint32_t)kinds);
        for (uint32_t i = 0; i < stride; i++)
            logits[r * stride + i] = i < vocab ? logit(random, kind, i) : 1000.0f;
        list[r] = fixed ? *fixed : any_options(random);
        list[r].row = rows - 1 - r;
        list[r].vocab = vocab;
        if (!fixed)
            changes[r] = any_changes(random, vocab);
        list[r].changes = changes[r].data();
        list[r].change_count = changes[r].size();
    }
    run(list, logits, stride);
}

// Random numbers and shares that lie exactly on a border between tokens of equal logits; top k
// above the number of tokens that can be drawn.
void borders()
{
    enum { VOCAB = 16 };
    static const uint64_t bits[] = {0, (uint64_t)1 << 62, ((uint64_t)1 << 62) - 1,
                                    (uint64_t)1 << 63, ~(uint64_t)0};
    struct {
        float top_p, min_p;
        uint32_t top_k;
    } static const all[] = {{0.5f, 0, 0},  {0, 0, 4},  {0, 0, 0},
                            {0.25f, 0, 8}, {0, 0, 12}, {0, 1, 0}};
    device<float> logits("logits", VOCAB, gpu_model::WRITTEN);
    for (const auto &o : all)
        for (uint64_t b : bits) {
            std::vector<pc__draw> list(1);
            for (size_t i = 0; i < VOCAB; i++) // with top k 12, 8 tokens can be drawn
                logits[i] = i % 2 ? 1.0f : o.top_k == 12 ? -INFINITY : 1.0f;
            if (o.top_k == 12)
                logits[1] = 0.5f;
            list[0].vocab = VOCAB;
            list[0].random = number_from(b);
            list[0].temperature = 1.0f;
            list[0].top_p = o.top_p;
            list[0].min_p = o.min_p;
            list[0].top_k = o.top_k;
            run(list, logits, VOCAB);
        }
}

// Min p at logits that lie just within it, and just outside.
void least_likely(random_numbers &random)
{
    enum { VOCAB = 64 };
    device<float> logits("logits", VOCAB, gpu_model::WRITTEN);
    for (int round = 0; round < 8; round++) {
        std::vector<pc__draw> list(1);
        float temperature = 0.2f + 2 * pc_test_uniform(&random.rng),
              most = random.normal(round % 2 ? 0.5f : 20.0f),
              min_p = 0.01f + 0.9f * pc_test_uniform(&random.rng),
              border = most + temperature * logf(min_p);
        for (int i = 0; i < VOCAB; i++, border = nextafterf(border, i < 32 ? -INFINITY : INFINITY))
            logits[(size_t)(i * 7 % VOCAB)] = border;
        logits[5] = most;
        list[0].vocab = VOCAB;
        list[0].temperature = temperature;
        list[0].min_p = min_p;
        for (int draw = 0; draw < 4; draw++) {
            list[0].random = number_from(pc_test_bits(&random.rng));
            run(list, logits, VOCAB);
        }
    }
}

} // namespace

int main()
{
    pc__draw many = {}, many_first = {};
    many.temperature = 50.0f; // more tokens than the list takes
    many.top_p = 0.99f;
    many_first.temperature = 1.0f;
    many_first.top_k = 4500;
    borders();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_numbers random(seed);
        least_likely(random);
        many.random = many_first.random = number_from(pc_test_bits(&random.rng));
        sample(random, 4, 1, INFINITE + 1, nullptr);
        sample(random, 20, 7, INFINITE + 1, nullptr);
        sample(random, 12, 700, INFINITE + 1, nullptr);
        sample(random, 2, 2001, ODD, nullptr);
        if (seed < 3)
            sample(random, 1, 4801, NARROW + 1, seed == 1 ? &many_first : &many);
    }
    return pc_test_end();
}

/* Catches: log-probabilities that are not those of a softmax in double precision, also with large
 * logits and with numbers that are not finite; a list of the likeliest that misses one, or is in
 * another order. */
#include "serve/logprobs.h"

#include <math.h>
#include <stdlib.h>

#include "testing.h"

enum { VOCAB = 3000 };

/* Logits of many sizes, some equal, some not finite. */
static size_t fill(pc_test_rng *rng, float *logits)
{
    size_t vocab = 1 + pc_test_bits(rng) % VOCAB;
    float scale = (float[]){0, 0.1f, 1, 10, 1e4f, 1e37f}[pc_test_bits(rng) % 6];
    uint64_t rare = pc_test_bits(rng) % 3 ? 0 : 2 + pc_test_bits(rng) % 50;
    for (size_t i = 0; i < vocab; i++) {
        logits[i] = scale * pc_test_normal(rng);
        if (pc_test_bits(rng) % 4 == 0)
            logits[i] = scale * (float)(pc_test_bits(rng) % 5);
        if (rare && pc_test_bits(rng) % rare == 0)
            logits[i] = pc_test_bits(rng) % 2 ? NAN : -INFINITY;
    }
    logits[pc_test_bits(rng) % vocab] = scale;
    return vocab;
}

static double reference_total(const float *logits, size_t vocab)
{
    double most = (double)-INFINITY, total = 0;
    for (size_t i = 0; i < vocab; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (size_t i = 0; i < vocab; i++)
        total += isnan(logits[i]) ? 0 : exp((double)logits[i] - most);
    return most + log(total);
}

static int nearly(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (1 + fabs(b));
}

static void as_softmax(void)
{
    static float logits[VOCAB];
    pc_test_rng rng = {31};
    for (int round = 0; round < 2000; round++) {
        size_t vocab = fill(&rng, logits);
        uint32_t top = (uint32_t)(pc_test_bits(&rng) % (PC__MOST_LOGPROBS + 1)), possible = 0;
        double total = reference_total(logits, vocab);
        pc__logprobs got;
        int good = 1;
        pc__logprobs_of(&got, logits, vocab, top);
        for (size_t i = 0; i < vocab; i++) {
            uint32_t before = 0;
            double want = isnan(logits[i]) ? (double)-INFINITY : (double)logits[i] - total;
            possible += logits[i] > -INFINITY;
            good &= isinf(want) ? isinf(pc__logprob(&got, logits[i]))
                                : nearly(pc__logprob(&got, logits[i]), want);
            if (round % 20 || !(logits[i] > -INFINITY))
                continue;
            for (size_t j = 0; j < vocab; j++)
                before += logits[j] > logits[i] || (j < i && logits[j] >= logits[i]);
            if (before < top)
                good &= got.tokens[before] == (int32_t)i && nearly(got.logprobs[before], want);
        }
        CHECK_INT(got.count, top < possible ? top : possible);
        if (!CHECK(good)) {
            fprintf(stderr, "    round %d\n", round);
            break;
        }
    }
}

int main(void)
{
    as_softmax();
    return pc_test_end();
}

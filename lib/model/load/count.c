/* The ranges of the numbers of a model file. They are above any model, and low enough that nothing
 * overflows. */
#include "model/load/count.h"

#include <math.h>
#include <stdio.h>

#include "attn/kv.h"
#include "base/fail.h"
#include "text/tokenizer.h"

static const struct {
    const char *words;
    int64_t most;
} counts[] = {[PC__COUNT_LAYERS] = {"a number of layers", PC__MAX_LAYERS},
              [PC__COUNT_LAYER] = {"a layer", INT32_MAX},
              [PC__COUNT_HEADS] = {"a number of heads", 1 << 16},
              [PC__COUNT_HEAD_DIM] = {"the width of a head", PC__MAX_HEAD},
              [PC__COUNT_WIDTH] = {"a width", 1 << 24},
              [PC__COUNT_VOCABULARY] = {"a number of tokens", PC__MOST_TOKENS},
              [PC__COUNT_POSITIONS] = {"a number of positions", INT32_MAX},
              [PC__COUNT_DISTANCE] = {"a distance", 1 << 20},
              [PC__COUNT_EXPERTS] = {"a number of experts", 1 << 16},
              [PC__COUNT_FEW] = {"a number", 1024}};

int64_t pc__count_most(pc__count kind)
{
    return counts[kind].most;
}

int pc__count_has(pc__count kind, int64_t value)
{
    return value >= 1 && value <= counts[kind].most;
}

const char *pc__count_words(pc__count kind, char words[PC__COUNT_WORDS])
{
    snprintf(words, PC__COUNT_WORDS, "%s from 1 to %lld", counts[kind].words,
             (long long)counts[kind].most);
    return words;
}

pc_status pc__count_check(pc__count kind, int64_t value, const char *where, const char *what)
{
    char words[PC__COUNT_WORDS];
    if (pc__count_has(kind, value))
        return PC_OK;
    return pc__fail(PC_ERR_FORMAT, "%s: %s: %lld is not %s", where, what, (long long)value,
                    pc__count_words(kind, words));
}

int pc__factor_has(double value)
{
    return value == 0 || (fabs(value) >= 1e-18 && fabs(value) <= 1e18);
}

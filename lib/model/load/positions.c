/* RoPE frequencies of every scaling, RoPE regimes, ALiBi slopes. */
#include "model/load/positions.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

uint64_t pc__rope_regime(const pc__rope_config *config, uint64_t length)
{
    if (config->scaling == PC__ROPE_DYNAMIC)
        return (double)length > config->max_length ? length : 1;
    if (config->scaling == PC__ROPE_LONG)
        return (double)length > config->original_length ? 2 : 1;
    return 0;
}

int64_t pc__rope_regime_end(const pc__rope_config *config, uint64_t regime)
{
    if (config->scaling == PC__ROPE_DYNAMIC)
        return regime > 1 ? (int64_t)regime : (int64_t)config->max_length;
    return config->scaling == PC__ROPE_LONG && regime == 1 ? (int64_t)config->original_length
                                                           : INT64_MAX;
}

int32_t pc__rope_context(const pc__rope_config *config)
{
    double length = config->max_length, stretched = config->original_length * config->factor;
    if (config->scaling == PC__ROPE_DYNAMIC)
        return 0;
    if ((config->scaling == PC__ROPE_LINEAR || config->scaling == PC__ROPE_YARN)
        && stretched > length)
        length = stretched;
    return length < INT32_MAX ? (int32_t)length : INT32_MAX;
}

static void plain_frequencies(double theta, int32_t dims, double *frequency)
{
    for (int32_t i = 0; i < dims / 2; i++)
        frequency[i] = pow(theta, -2.0 * i / dims);
}

/* NTK-aware scaling of the base. The RoPE regime is the length, or 1 up to the trained length. */
static double dynamic_theta(const pc__rope_config *config, uint64_t regime)
{
    double stretch = config->factor * (double)regime / config->max_length - (config->factor - 1.0);
    if ((double)regime <= config->max_length || config->dims <= 2)
        return config->theta;
    return config->theta * pow(stretch, (double)config->dims / (config->dims - 2));
}

/* The dimension whose pair makes `turns` rotations within the original length (YaRN, equation 17
 * solved for it). */
static double yarn_dimension(const pc__rope_config *config, double turns)
{
    return config->dims * log(config->original_length / (turns * two_pi))
           / (2.0 * log(config->theta));
}

static void yarn_frequencies(const pc__rope_config *config, double *frequency)
{
    double low = yarn_dimension(config, config->beta_fast > 0 ? config->beta_fast : 32.0);
    double high = yarn_dimension(config, config->beta_slow > 0 ? config->beta_slow : 1.0);
    if (config->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > config->dims - 1 ? config->dims - 1 : high;
    if (low == high)
        high += 0.001; /* makes the ramp a step */
    for (int32_t i = 0; i < config->dims / 2; i++) {
        double ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        frequency[i] *= (1.0 - ramp) + ramp / config->factor;
    }
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double yarn_attention(const pc__rope_config *config)
{
    if (config->attention_factor > 0)
        return config->attention_factor;
    if (config->mscale != 0 && config->mscale_all_dim != 0)
        return yarn_mscale(config->factor, config->mscale)
               / yarn_mscale(config->factor, config->mscale_all_dim);
    return yarn_mscale(config->factor, 1.0);
}

/* Stretches long wavelengths by the factor, keeps short ones, blends between. */
static void llama3_frequencies(const pc__rope_config *config, double *frequency)
{
    double low = config->low_freq_factor, high = config->high_freq_factor;
    for (int32_t i = 0; i < config->dims / 2; i++) {
        double turns = config->original_length * frequency[i]
                       / two_pi; /* within the original length */
        if (turns < low) {
            frequency[i] /= config->factor;
        } else if (turns <= high && high > low) {
            double smooth = (turns - low) / (high - low);
            frequency[i] *= (1.0 - smooth) / config->factor + smooth;
        }
    }
}

static double long_attention(const pc__rope_config *config)
{
    double factor = config->factor > 0 ? config->factor
                                       : config->max_length / config->original_length;
    if (config->attention_factor > 0)
        return config->attention_factor;
    return factor <= 1.0 ? 1.0 : sqrt(1.0 + log(factor) / log(config->original_length));
}

static void long_frequencies(const pc__rope_config *config, uint64_t regime, double *frequency)
{
    const double *factors = regime == 2 ? config->long_factors : config->short_factors;
    for (int32_t i = 0; i < config->dims / 2; i++)
        frequency[i] /= factors[i];
}

static void scale_frequencies(pc__rotation *rope, const pc__rope_config *config, uint64_t regime)
{
    switch (config->scaling) {
    case PC__ROPE_LINEAR:
        for (int32_t i = 0; i < config->dims / 2; i++)
            rope->frequency[i] /= config->factor;
        break;
    case PC__ROPE_YARN:
        yarn_frequencies(config, rope->frequency);
        rope->factor = (float)yarn_attention(config);
        break;
    case PC__ROPE_LLAMA3:
        llama3_frequencies(config, rope->frequency);
        break;
    case PC__ROPE_LONG:
        long_frequencies(config, regime, rope->frequency);
        rope->factor = (float)long_attention(config);
        break;
    case PC__ROPE_FACTORS:
        long_frequencies(config, 1, rope->frequency);
        break;
    case PC__ROPE_PLAIN:
    case PC__ROPE_DYNAMIC:
        break;
    }
}

/* Parameters that are valid alone can give frequencies that are not finite together. */
static pc_status check_frequencies(const pc__rotation *rope, const pc__rope_config *config)
{
    int finite = isfinite(rope->factor);
    for (int32_t i = 0; i < rope->dims / 2; i++)
        finite &= isfinite(rope->frequency[i]) != 0;
    return finite ? PC_OK
                  : pc__fail(PC_ERR_FORMAT,
                             "RoPE with base %g and factor %g: a frequency or the attention factor "
                             "is not finite",
                             config->theta, config->factor);
}

pc_status pc__rope_new(pc__rotation **out, const pc_allocator *mem, const pc__rope_config *config,
                       uint64_t regime)
{
    double theta = config->scaling == PC__ROPE_DYNAMIC ? dynamic_theta(config, regime)
                                                       : config->theta;
    pc__rotation *rope = pc__calloc(mem, 1, sizeof *rope);
    *out = NULL;
    if (!rope)
        return PC_ERR_NOMEM;
    rope->frequency = pc__calloc(mem, (size_t)config->dims / 2 + 1, sizeof *rope->frequency);
    if (!rope->frequency) {
        pc__free(mem, rope);
        return PC_ERR_NOMEM;
    }
    rope->dims = config->dims;
    rope->interleaved = config->interleaved;
    rope->factor = 1.0f;
    plain_frequencies(theta, config->dims, rope->frequency);
    scale_frequencies(rope, config, regime);
    pc_status status = check_frequencies(rope, config);
    if (status < 0)
        pc__rope_free(mem, rope);
    else
        *out = rope;
    return status;
}

void pc__rope_free(const pc_allocator *mem, pc__rotation *rope)
{
    if (rope)
        pc__free(mem, rope->frequency);
    pc__free(mem, rope);
}

float pc__attention_scale(const pc__arch *arch)
{
    return arch->attention_scale > 0 ? arch->attention_scale
                                     : (float)(1.0 / sqrt((double)arch->head_dim));
}

float pc__query_factor(const pc__query_scale *config, int64_t position)
{
    if (config->scale == 0) /* and step may be 0 */
        return 1;
    double steps = floor((double)(position + config->offset) / config->step);
    return (float)(1.0 + config->scale * log1p(steps > 0 ? steps : 0.0));
}

/* Element of the geometric series of the ALiBi paper for n heads (a power of two): 2^(-max/n),
 * 2^(-2 max/n), … */
static double series(int32_t n, int32_t index, double max)
{
    return exp2(-max * (index + 1) / n);
}

static int32_t power_below(int32_t heads)
{
    int32_t n = 1;
    while (n * 2 <= heads)
        n *= 2;
    return n;
}

/* For a head count that is not a power of two, MPT takes every second slope of the next power, odd
 * ones first. The others take the series of the power below, then every second slope of its doubled
 * series. */
static double slope_of(const pc__arch *arch, int32_t head)
{
    int32_t below = power_below(arch->heads);
    double max = arch->alibi_max > 0 ? (double)arch->alibi_max : 8.0;
    if (below == arch->heads)
        return series(below, head, max);
    if (arch->alibi_mpt)
        return series(2 * below, head < below ? 2 * head + 1 : 2 * (head - below), max);
    return head < below ? series(below, head, max) : series(2 * below, 2 * (head - below), max);
}

void pc__alibi_slopes(const pc__arch *arch, float scale, float *slopes)
{
    for (int32_t h = 0; h < arch->heads; h++)
        slopes[h] = (float)(slope_of(arch, h) * (arch->alibi_before_scale ? (double)scale : 1.0));
}

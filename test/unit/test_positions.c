/* Catches: wrong frequencies or attention factor of a RoPE scaling, a wrong RoPE regime at its
 * border, frequencies that are not finite, wrong ALiBi slopes for head counts that are not powers
 * of two. Expected values: the published formulas, computed apart from this code. */
#include "model/load/positions.h"

#include <math.h>
#include <string.h>

#include "testing.h"

static void frequencies(const pc__rope_config *config, uint64_t regime, const double *want,
                        float factor)
{
    pc__rotation *rope = NULL;
    if (!CHECK_OK(pc__rope_new(&rope, &pc__libc_allocator, config, regime)))
        return;
    CHECK_INT(rope->dims, config->dims);
    CHECK(fabsf(rope->factor - factor) < 1e-6f);
    for (int32_t i = 0; i < config->dims / 2; i++)
        if (!CHECK(fabs(rope->frequency[i] / want[i] - 1) < 1e-12))
            fprintf(stderr, "    pair %d: %.17g, want %.17g\n", i, rope->frequency[i], want[i]);
    pc__rope_free(&pc__libc_allocator, rope);
}

static void plain_and_linear(void)
{
    pc__rope_config config = {.theta = 10000, .dims = 4};
    frequencies(&config, 0, (const double[]){1, 0.01}, 1);
    config.scaling = PC__ROPE_LINEAR;
    config.factor = 4;
    frequencies(&config, 0, (const double[]){0.25, 0.0025}, 1);
    CHECK_INT(pc__rope_regime(&config, 1000000), 0);
    CHECK(pc__rope_regime_end(&config, 0) == INT64_MAX);
    config.max_length = config.original_length = 4096;
    CHECK_INT(pc__rope_context(&config), 16384); /* as Vicuna's files have it */
    config.max_length = 20000;
    CHECK_INT(pc__rope_context(&config), 20000);
    config.factor = 1e9;
    CHECK_INT(pc__rope_context(&config), INT32_MAX);
    config.scaling = PC__ROPE_PLAIN;
    CHECK_INT(pc__rope_context(&config), 20000);
}

static void dynamic(void)
{
    pc__rope_config config = {
        .scaling = PC__ROPE_DYNAMIC, .theta = 10000, .dims = 8, .factor = 2, .max_length = 16};
    CHECK_INT(pc__rope_regime(&config, 16), 1);
    CHECK_INT(pc__rope_regime(&config, 17), 17);
    CHECK_INT(pc__rope_regime_end(&config, 1), 16);
    CHECK_INT(pc__rope_regime_end(&config, 17), 17);
    CHECK_INT(pc__rope_context(&config), 0);
    frequencies(&config, 1, (const double[]){1, 0.1, 0.01, 0.001}, 1);
    frequencies(&config, 40,
                (const double[]){1, 0.06299605249474366, 0.003968502629920499, 0.00025}, 1);
}

static void yarn(void)
{
    pc__rope_config config = {.scaling = PC__ROPE_YARN,
                              .theta = 10000,
                              .dims = 16,
                              .factor = 4,
                              .original_length = 4096,
                              .max_length = 16384,
                              .truncate = 1};
    static const double whole[] = {1.0,     0.31622776601683794,  0.1,     0.02569350598886808,
                                   0.00625, 0.001383496476323666, 0.00025, 7.905694150420948e-05};
    static const double parts[] = {1.0,
                                   0.31622776601683794,
                                   0.1,
                                   0.02861360881198889,
                                   0.006556971521129435,
                                   0.0012856320307266882,
                                   0.00025,
                                   7.905694150420948e-05};
    frequencies(&config, 0, whole, 1.138629436111989f);
    config.truncate = 0;
    config.attention_factor = 0.5;
    frequencies(&config, 0, parts, 0.5f);
    config.attention_factor = 0;
    config.mscale = 1;
    config.mscale_all_dim = 1;
    frequencies(&config, 0, parts, 1);
}

static void llama3(void)
{
    pc__rope_config config = {.scaling = PC__ROPE_LLAMA3,
                              .theta = 500000,
                              .dims = 16,
                              .factor = 8,
                              .low_freq_factor = 1,
                              .high_freq_factor = 4,
                              .original_length = 8192};
    static const double want[] = {1.0,
                                  0.19392274474868576,
                                  0.03760603093086393,
                                  0.007292664737217109,
                                  0.0005248461609929547,
                                  3.428102195952591e-05,
                                  6.647869871181235e-06,
                                  1.2891731721515574e-06};
    frequencies(&config, 0, want, 1);
}

static void longrope(void)
{
    double shorter[2] = {1, 2}, longer[2] = {4, 5};
    pc__rope_config config = {.scaling = PC__ROPE_LONG,
                              .theta = 10000,
                              .dims = 4,
                              .original_length = 4096,
                              .max_length = 131072,
                              .short_factors = shorter,
                              .long_factors = longer};
    CHECK_INT(pc__rope_regime(&config, 4096), 1);
    CHECK_INT(pc__rope_regime(&config, 4097), 2);
    CHECK_INT(pc__rope_regime_end(&config, 1), 4096);
    CHECK(pc__rope_regime_end(&config, 2) == INT64_MAX);
    CHECK_INT(pc__rope_context(&config), 131072);
    frequencies(&config, 1, (const double[]){1, 0.005}, 1.1902380714238083f);
    frequencies(&config, 2, (const double[]){0.25, 0.002}, 1.1902380714238083f);
    config.attention_factor = 1.5;
    frequencies(&config, 2, (const double[]){0.25, 0.002}, 1.5f);
}

static void refused(const pc__rope_config *config, uint64_t regime)
{
    pc__rotation *rope = (pc__rotation *)(uintptr_t)config;
    CHECK_STATUS(pc__rope_new(&rope, &pc__libc_allocator, config, regime), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("not finite");
    CHECK(!rope);
}

/* Every parameter is above zero, but the frequencies are infinite. */
static void infinite(void)
{
    double shorter[2] = {1, 2}, longer[2] = {1e-320, 5};
    pc__rope_config config = {.scaling = PC__ROPE_LINEAR,
                              .theta = 10000,
                              .dims = 4,
                              .factor = 1e-320,
                              .original_length = 4096};
    refused(&config, 0);
    config.scaling = PC__ROPE_YARN;
    config.factor = 4;
    config.attention_factor = 1e300;
    refused(&config, 0);
    config.scaling = PC__ROPE_LONG;
    config.attention_factor = 1;
    config.short_factors = shorter;
    config.long_factors = longer;
    frequencies(&config, 1, (const double[]){1, 0.005}, 1);
    refused(&config, 2);
}

static void slopes(const pc__arch *arch, float scale, const float *want)
{
    float got[16];
    pc__alibi_slopes(arch, scale, got);
    for (int32_t h = 0; h < arch->heads; h++)
        if (!CHECK(fabsf(got[h] - want[h]) < 1e-6f))
            fprintf(stderr, "    head %d: %g, want %g\n", h, (double)got[h], (double)want[h]);
}

static void alibi(void)
{
    pc__arch arch = {.heads = 4, .head_dim = 64};
    slopes(&arch, 0.125f, (const float[]){0.25f, 0.0625f, 0.015625f, 0.00390625f});
    arch.alibi_before_scale = 1;
    slopes(&arch, 0.125f, (const float[]){0.03125f, 0.0078125f, 0.001953125f, 0.00048828125f});
    arch.alibi_before_scale = 0;
    arch.heads = 6;
    slopes(&arch, 1, (const float[]){0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f});
    arch.alibi_mpt = 1;
    arch.alibi_max = 4;
    slopes(&arch, 1, (const float[]){0.5f, 0.25f, 0.125f, 0.0625f, 0.70710678f, 0.35355339f});
    CHECK(fabsf(pc__attention_scale(&arch) - 0.125f) < 1e-7f);
}

/* Factors of a GGUF file: one regime, no attention factor. */
static void factors(void)
{
    pc__rope_config config = {
        .scaling = PC__ROPE_FACTORS, .theta = 10000, .dims = 4, .short_factors = (double[]){1, 8}};
    frequencies(&config, 0, (const double[]){1, 0.00125}, 1);
    CHECK_INT(pc__rope_regime(&config, 1000000), 0);
}

static void out_of_memory(void)
{
    pc__rope_config config = {.theta = 10000, .dims = 4};
    for (uint64_t at = 1; at <= 2; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__rotation *rope = (pc__rotation *)&config;
        CHECK_STATUS(pc__rope_new(&rope, &mem, &config, 0), PC_ERR_NOMEM);
        CHECK(!rope);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    plain_and_linear();
    dynamic();
    yarn();
    llama3();
    longrope();
    infinite();
    factors();
    alibi();
    out_of_memory();
    return pc_test_end();
}

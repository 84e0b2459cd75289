/* Catches: a named shape with wrong sizes (by the model's published number of parameters), a shape
 * that fails the readers' checks, an unknown name without the list of names. */
#include "model/load/arch.h"
#include "testing.h"

#include <string.h>

static double latent_parameters(const pc__arch *a)
{
    const pc__latent_config *l = &a->latent;
    double hidden = a->hidden, heads = a->heads;
    return hidden * (heads * a->head_dim + l->rank + l->rotated)
           + heads * (l->rank * (double)(l->plain + a->v_dim) + a->v_dim * hidden);
}

static double parameters(const pc__arch *a)
{
    double hidden = a->hidden, q = (double)a->heads * a->head_dim,
           kv = (double)a->kv_heads * a->head_dim;
    double layer = a->latent.rank ? latent_parameters(a) : hidden * (2 * q + 2 * kv),
           matrices = hidden * (a->gated ? 3 : 2);
    if (pc__has_experts(a, a->layers - 1))
        layer += matrices * ((double)a->experts.count * a->experts.width + a->experts.shared)
                 + hidden * (a->experts.count + a->experts.shared_gated);
    else
        layer += matrices * a->ffn;
    double positions = a->position_scheme == PC_POSITION_LEARNED ? hidden * a->context_length : 0;
    return a->layers * layer + hidden * a->vocab * (a->tied ? 1 : 2) + positions;
}

int main(void)
{
    /* millions of parameters, without norms and biases, as the models' cards give them */
    static const struct {
        const char *name;
        double millions;
        int32_t heads, kv_heads, head_dim;
    } known[] = {{"llama-1b", 1100, 32, 4, 64},
                 {"llama-7b", 6738, 32, 32, 128},
                 {"llama-8b", 8030, 32, 8, 128},
                 {"mistral-7b", 7242, 32, 8, 128},
                 {"qwen2-0.5b", 494, 14, 2, 64},
                 {"gpt2", 124.4, 12, 12, 64},
                 {"llama-7b-slice", 667, 32, 32, 128},
                 {"llama-8b-slice", 1487, 32, 8, 128},
                 {"qwen2-moe", 14316, 16, 16, 128},
                 {"qwen2-moe-slice", 1763, 16, 16, 128},
                 {"mixtral-slice", 3165, 32, 8, 128},
                 {"qwen2-moe-0.6b", 636, 8, 8, 128},
                 {"deepseek-v2-lite-slice", 581.5, 16, 16, 192}};
    pc__arch a;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!CHECK_OK(pc__arch_from_shape(&a, known[i].name)))
            continue;
        double ratio = parameters(&a) / 1e6 / known[i].millions;
        if (!CHECK(ratio > 0.995 && ratio < 1.005))
            fprintf(stderr, "    %s: %.1f million\n", known[i].name, parameters(&a) / 1e6);
        CHECK(a.heads == known[i].heads && a.kv_heads == known[i].kv_heads
              && a.head_dim == known[i].head_dim);
        CHECK(a.v_dim == (a.latent.rank ? 128 : a.head_dim) && a.embedding_dim == a.hidden
              && a.causal && a.final_norm && a.context_length > 0);
        CHECK_OK(pc__arch_check(&a, known[i].name));
    }
    CHECK_OK(pc__arch_from_shape(&a, "tiny"));
    CHECK(parameters(&a) < 2e5);
    CHECK_OK(pc__arch_from_shape(&a, "mistral-7b"));
    CHECK_INT(a.window, 4096);
    static const char *const encoders[] = {"bert-base", "bert-large", "minilm-l6",
                                           "deberta-v3-base"};
    static const double encoder_millions[] = {109, 335, 22.7, 184};
    for (size_t i = 0; i < 4; i++) {
        if (!CHECK_OK(pc__arch_from_shape(&a, encoders[i])))
            continue;
        double ratio = parameters(&a) / 1e6 / encoder_millions[i];
        if (!CHECK(ratio > 0.98 && ratio < 1.02))
            fprintf(stderr, "    %s: %.1f million\n", encoders[i], parameters(&a) / 1e6);
        CHECK(!a.causal && !a.final_norm && a.embedding_norm && !a.gated);
        CHECK_OK(pc__arch_check(&a, encoders[i]));
    }
    CHECK_STATUS(pc__arch_from_shape(&a, "llama-9b"), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("'llama-9b'");
    CHECK_ERROR_HAS("llama-8b-slice");
    CHECK_ERROR_HAS("qwen2-0.5b");
    CHECK_INT(a.layers, 0);
    return pc_test_end();
}

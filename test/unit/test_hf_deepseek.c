/* Catches: keys of DeepSeek V2 and V3 that are read wrongly or ignored (sizes of latent attention,
 * YaRN's factor in the scale of scores, groups and scores of experts), and values that would change
 * the result but are not implemented. */
#include <math.h>

#include "hf_configs.h"
#include "model/load/tensor_role.h"

#define LATENT(type)                                                                          \
    SIZES "\"model_type\":\"" type "\",\"max_position_embeddings\":4096,\"kv_lora_rank\":48," \
          "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":12"
#define EXPERTS                                                                                  \
    ",\"n_routed_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":24,\"n_shared_" \
    "experts\":2,\"first_k_dense_replace\":1"
#define YARN                                                                                   \
    ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"original_max_position_embeddings\":" \
    "1024,\"mscale\":0.707,\"mscale_all_dim\":0.707}"

static void sizes(void)
{
    pc__arch a;
    if (parsed(&a, LATENT("deepseek_v2") ",\"q_lora_rank\":null,\"head_dim\":8")) {
        CHECK(a.latent.rank == 48 && a.latent.q_rank == 0 && a.latent.plain == 16
              && a.latent.rotated == 8 && a.latent.norm_eps == 1e-6f);
        CHECK(a.head_dim == 24 && a.v_dim == 12 && a.heads == 8 && a.kv_heads == 8);
        CHECK(a.rope.dims == 8 && a.rope.interleaved && a.rope.scaling == PC__ROPE_PLAIN);
        CHECK(fabsf(a.attention_scale - 1.0f / sqrtf(24.0f)) < 1e-7f);
        CHECK(!a.experts.count && !a.bias_roles);
    }
    if (parsed(&a, LATENT("deepseek_v2") ",\"q_lora_rank\":40,\"attention_bias\":true" YARN)) {
        double m = 0.1 * 0.707 * log(40.0) + 1.0;
        CHECK_INT(a.latent.q_rank, 40);
        CHECK(fabs((double)a.attention_scale - m * m / sqrt(24.0)) < 1e-6);
        CHECK(a.bias_roles
              == (UINT64_C(1) << PC__ROLE_Q_A | UINT64_C(1) << PC__ROLE_KV_A
                  | UINT64_C(1) << PC__ROLE_O));
    }
    if (parsed(&a, LATENT("deepseek_v3") EXPERTS ",\"n_group\":1,\"rope_scaling\":{\"rope_type\":"
                                                 "\"linear\",\"factor\":4,\"mscale_all_dim\":1}")) {
        double m = 0.1 * log(4.0) + 1.0;
        CHECK(fabs((double)a.attention_scale - m * m / sqrt(24.0)) < 1e-6);
    }
    if (parsed(&a, LATENT("deepseek_v2") ",\"rope_interleave\":null"))
        CHECK(!a.rope.interleaved); /* null is false */
    if (parsed(&a, LATENT("deepseek_v2") ",\"rope_interleave\":false"))
        CHECK(!a.rope.interleaved);
}

static void experts(void)
{
    pc__arch a;
    if (parsed(&a, LATENT("deepseek_v2") EXPERTS
               ",\"routed_scaling_factor\":16,\"topk_method\":\"group_limited_greedy\",\"n_group\":"
               "4,\"topk_group\":2,\"norm_topk_prob\":false")) {
        const pc__expert_config *e = &a.experts;
        CHECK(e->count == 8 && e->used == 3 && e->width == 24 && e->shared == 48 && !e->sigmoid);
        CHECK(e->groups == 4 && e->groups_used == 2 && e->group_best == 1 && e->scale == 16.0f);
        CHECK(!e->renormalise && !e->selection_bias);
        CHECK(!pc__layer_in(&a.expert_layers, 0) && pc__layer_in(&a.expert_layers, 3));
    }
    if (parsed(&a, LATENT("deepseek_v2") EXPERTS ",\"topk_method\":\"greedy\",\"n_group\":4,"
                                                 "\"topk_group\":2"))
        CHECK_INT(a.experts.groups, 0);
    if (parsed(&a, LATENT("deepseek_v3") EXPERTS
               ",\"routed_scaling_factor\":2.5,\"n_group\":4,\"topk_group\":2,\"norm_topk_prob\":"
               "true,\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\"")) {
        const pc__expert_config *e = &a.experts;
        CHECK(e->sigmoid && e->selection_bias && e->renormalise && e->scale == 2.5f);
        CHECK(e->groups == 4 && e->groups_used == 2 && e->group_best == 2);
        CHECK(a.bias_roles == UINT64_C(1) << PC__ROLE_SELECTION_BIAS);
    }
}

/* What a class says of keys that are missing. */
static void missing(void)
{
    static const char few[] =
        ",\"n_routed_experts\":16,\"moe_intermediate_size\":24,\"num_experts_per_tok\":";
    char body[512];
    pc__arch a;
    snprintf(body, sizeof body, "%s%s%s", LATENT("deepseek_v3"), few, "1");
    if (parsed(&a, body))
        CHECK(a.experts.groups == 8 && a.experts.groups_used == 4 && a.experts.scale == 2.5f
              && a.experts.shared == 24 && a.experts.renormalise && a.expert_layers.word[0] == 8);
    snprintf(body, sizeof body, "%s%s%s", LATENT("deepseek_v2"), few, "1");
    if (parsed(&a, body))
        CHECK(!a.experts.groups && a.experts.scale == 1 && a.experts.shared == 48
              && !a.experts.renormalise && a.expert_layers.word[0] == 15);
}

static void refusals(void)
{
    refused(KIN("deepseek_v2"), PC_ERR_FORMAT, "kv_lora_rank");
    refused(LATENT("deepseek_v2") ",\"kv_lora_rank\":1020", PC_ERR_FORMAT, "duplicate");
    refused(SIZES
            "\"model_type\":\"deepseek_v3\",\"max_position_embeddings\":4096,\"kv_lora_rank\":"
            "1020,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":12" EXPERTS,
            PC_ERR_FORMAT, "latent");
    refused(LATENT("deepseek_v3"), PC_ERR_FORMAT, "n_routed_experts");
    refused(LATENT("deepseek_v2") EXPERTS ",\"norm_topk_prob\":true", PC_ERR_UNSUPPORTED,
            "norm_topk_prob");
    refused(LATENT("deepseek_v2") EXPERTS ",\"topk_method\":\"noaux_tc\"", PC_ERR_UNSUPPORTED,
            "\"noaux_tc\"");
    refused(LATENT("deepseek_v3") EXPERTS ",\"scoring_func\":\"softmax\"", PC_ERR_UNSUPPORTED,
            "\"softmax\"");
    refused(LATENT("deepseek_v3") EXPERTS ",\"n_group\":3,\"topk_group\":2", PC_ERR_UNSUPPORTED,
            "n_group");
    refused(LATENT("deepseek_v3") EXPERTS ",\"n_group\":4,\"topk_group\":5", PC_ERR_UNSUPPORTED,
            "topk_group");
    refused(LATENT("deepseek_v3") EXPERTS ",\"routed_scaling_factor\":0", PC_ERR_UNSUPPORTED,
            "routed_scaling_factor");
}

int main(void)
{
    sizes();
    experts();
    missing();
    refusals();
    return pc_test_end();
}

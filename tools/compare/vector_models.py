"""The models whose vectors vectors.py writes: a family of variant_families.py and the keys in which
the model differs from the family's. Every family has one; some keys that decide how positions,
windows, experts or norms are computed have one more. `_cases` names cases that not every model
has; `_legacy: False` leaves out the older spelling."""
from variant_families import FULL, SLIDING, rope

CHUNKED = "chunked_attention"
SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)
WIDE = dict(head_dim=12)  # more than hidden_size / num_attention_heads
TEXT = dict(SMALL, pad_token_id=0)
LLAMA4 = dict(num_hidden_layers=3, head_dim=8, intermediate_size=20, intermediate_size_mlp=48,
              num_local_experts=5, num_experts_per_tok=2, attention_chunk_size=10, floor_scale=8,
              attn_scale=0.3, interleave_moe_layer_step=2, no_rope_layers=[1, 0, 1],
              layer_types=[CHUNKED, FULL, CHUNKED])
ENCODER = dict(SMALL, _cases=("mapreuse",))
PARTIAL = rope("default", partial_rotary_factor=0.5)
YARN = dict(factor=4.0, original_max_position_embeddings=32)
LONG = [1.4, 2.3, 3.2, 4.1]
SHORT = [1.0, 1.08, 1.16, 1.24]
FALCON = dict(ffn_hidden_size=96)
EXPERTS = dict(num_experts=8, moe_intermediate_size=16)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=32, q_lora_rank=20, qk_nope_head_dim=8,
              qk_rope_head_dim=8, v_head_dim=8, moe_intermediate_size=12, n_shared_experts=2)
GROUPS = dict(n_group=4, topk_group=2)


def usual(**keys):
    """RoPE with the base that GGUF files of StableLM leave to the reader."""
    return {"rope_parameters": dict(rope_type="default", rope_theta=10000.0, **keys)}


def longrope(original, longest):
    scaling = rope("longrope", short_factor=SHORT, long_factor=LONG,
                   original_max_position_embeddings=original)
    return dict(scaling, original_max_position_embeddings=original,
                max_position_embeddings=longest)


MODELS = {
    "llama_mha": ("llama", dict(num_key_value_heads=4)),
    "llama_gqa": ("llama", dict(num_hidden_layers=3, hidden_size=64, vocab_size=320, head_dim=16,
                                rms_norm_eps=1e-5, _cases=("mapreuse",))),
    "llama_rope_linear": ("llama", rope("linear", factor=2.0)),
    "llama_rope_dynamic": ("llama", dict(rope("dynamic", factor=2.0), max_position_embeddings=16)),
    "llama_rope_yarn": ("llama", dict(rope("yarn", **YARN), head_dim=16, hidden_size=64)),
    "llama_rope_llama3": ("llama", rope("llama3", factor=8.0, low_freq_factor=1.0,
                                        high_freq_factor=4.0, original_max_position_embeddings=64)),
    "llama_rope_dynamic_cross": ("llama", dict(rope("dynamic", factor=8.0), _cases=("cross",),
                                               max_position_embeddings=36)),
    "phi3": ("phi3", rope("default", partial_rotary_factor=0.75)),
    "phi3_longrope_cross": ("phi3", dict(longrope(36, 144), _cases=("cross",))),
    "phi3_longrope_short": ("phi3", longrope(128, 512)),
    "phi3_longrope_long": ("phi3", longrope(16, 128)),
    "mistral_swa": ("mistral", dict(sliding_window=20, _cases=("mapreuse",))),
    "ministral": ("ministral", dict(WIDE, sliding_window=11, layer_types=[SLIDING, FULL])),
    "ministral3": ("ministral3", dict(WIDE, _legacy=False, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=12, mscale=1.0, mscale_all_dim=1.0,
        beta_fast=2.0, beta_slow=0.25, llama_4_scaling_beta=0.35))),
    "qwen2": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2_window": ("qwen2", dict(use_sliding_window=True, sliding_window=9,
                                   max_window_layers=1)),
    "qwen2_moe": ("qwen2_moe", dict(EXPERTS, shared_expert_intermediate_size=24, _seed="-b",
                                    _cases=("mapreuse",))),
    "qwen3": ("qwen3", WIDE),
    "qwen3_moe": ("qwen3_moe", dict(WIDE, moe_intermediate_size=12, norm_topk_prob=True)),
    "mixtral": ("mixtral", dict(head_dim=None, num_experts_per_tok=2)),
    "gemma": ("gemma", dict(WIDE, num_key_value_heads=1)),
    "gemma2": ("gemma2", dict(
        WIDE, num_hidden_layers=3, sliding_window=8, attn_logit_softcapping=5.0,
        final_logit_softcapping=12.0, query_pre_attn_scalar=24,
        layer_types=[SLIDING, FULL, SLIDING])),
    "gemma3_text": ("gemma3_text", dict(
        WIDE, num_hidden_layers=3, sliding_window=9, query_pre_attn_scalar=16,
        layer_types=[SLIDING, SLIDING, FULL], rope_parameters={
            FULL: dict(rope_type="linear", rope_theta=5e4, factor=8.0),
            SLIDING: dict(rope_type="default", rope_theta=800.0)})),
    "gpt_neox": ("gpt_neox", rope("default", partial_rotary_factor=0.25)),
    "phi": ("phi", dict(PARTIAL, num_key_value_heads=4)),
    "phi_qknorm": ("phi", dict(PARTIAL, qk_layernorm=True)),
    "opt": ("opt", dict(ffn_dim=48)),
    "opt_postnorm_proj": ("opt", dict(ffn_dim=48, do_layer_norm_before=False,
                                      word_embed_proj_dim=16)),
    "gpt2": ("gpt2", dict(n_embd=32, n_layer=2, n_positions=128)),
    "falcon_new": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2,
                                  num_attention_heads=8)),
    "falcon_new_1ln": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2,
                                      num_ln_in_parallel_attn=1)),
    "falcon_mq": ("falcon", FALCON),
    "falcon_rw": ("falcon", dict(FALCON, multi_query=False, parallel_attn=False, alibi=True,
                                 bias=True)),
    "bloom": ("bloom", dict(n_layer=2)),
    "mpt": ("mpt", dict(d_model=32, n_layers=2, max_seq_len=128)),
    "olmo2": ("olmo2", {}),
    "granite": ("granite", dict(embedding_multiplier=3.0, attention_multiplier=0.25,
                                residual_multiplier=0.6, logits_scaling=0.5,
                                tie_word_embeddings=True)),
    "cohere": ("cohere", dict(use_qk_norm=True, logit_scale=1.6)),
    "cohere2": ("cohere2", dict(num_hidden_layers=3, sliding_window=9, logit_scale=1.6,
                                layer_types=[SLIDING, FULL, SLIDING])),
    "starcoder2": ("starcoder2", dict(sliding_window=11)),
    "stablelm": ("stablelm", dict(num_attention_heads=2, num_key_value_heads=1, use_qkv_bias=True,
                                  **usual(partial_rotary_factor=0.25))),
    "stablelm_parallel": ("stablelm", dict(
        usual(partial_rotary_factor=0.5), use_parallel_residual=True, qk_layernorm=True)),
    "glm": ("glm", dict(WIDE, **PARTIAL)),
    "glm4": ("glm4", dict(WIDE, attention_bias=True, **PARTIAL)),
    "nemotron": ("nemotron", dict(WIDE, **PARTIAL)),
    "smollm3": ("smollm3", dict(num_hidden_layers=3, no_rope_layers=[1, 0, 1],
                                tie_word_embeddings=True)),
    "deepseek_v1": ("deepseek", dict(num_hidden_layers=3, _legacy=False)),
    "deepseek_v2": ("deepseek_v2", dict(LATENT, q_lora_rank=None)),
    "deepseek_v2_yarn": ("deepseek_v2", dict(LATENT, **rope(
        "yarn", mscale=0.707, mscale_all_dim=0.707, **YARN))),
    "deepseek_v2_group": ("deepseek_v2", dict(
        LATENT, topk_method="group_limited_greedy", routed_scaling_factor=2.0, **GROUPS)),
    "deepseek_v3": ("deepseek_v3", dict(
        LATENT, _seed="-g", kv_lora_rank=16, n_routed_experts=8, routed_scaling_factor=2.5,
        **GROUPS, **rope(
            "yarn", mscale=1.0, mscale_all_dim=1.0, beta_fast=8.0, beta_slow=1.0, **YARN))),
    "llama4": ("llama4", dict(LLAMA4, _seed="-a")),
    "gpt_oss": ("gpt_oss", dict(
        WIDE, intermediate_size=12, sliding_window=11, swiglu_limit=2.0,
        layer_types=[SLIDING, FULL], _cases=("mapreuse",), **rope(
            "yarn", beta_fast=4.0, beta_slow=0.2, truncate=False, **YARN))),
    "gemma3_images": ("gemma3", dict(text_config=dict(
        TEXT, **WIDE, num_hidden_layers=3, sliding_window=9,
        layer_types=[SLIDING, SLIDING, FULL]))),
    "llama4_images": ("llama4_images", dict(text_config=dict(TEXT, **LLAMA4))),
    "mistral3_images": ("mistral3", dict(text_config=dict(
        TEXT, **WIDE, model_type="mistral", sliding_window=None))),
    "bert": ("bert", dict(ENCODER, vocab_size=320)),
    "roberta": ("roberta", dict(ENCODER, type_vocab_size=1)),
    "deberta": ("deberta", ENCODER),
    "deberta_v2": ("deberta_v2", ENCODER),
    "deberta_v2_conv": ("deberta_v2", dict(ENCODER, conv_kernel_size=3, conv_act="gelu")),
}

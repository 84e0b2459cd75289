"""The families that variants.py compares: a class of transformers, the keys of its small model
("base"), and for each axis the values that are tried. An axis that starts with * has dicts of keys
that belong together; _class, _dtype and _shard are variants.py's own."""
SHORT, LONG = 7, 16  # a window, and a trained length, below the 26 tokens of the text


def rope(kind, **keys):
    return {"rope_parameters": dict({"rope_type": kind, "rope_theta": 5000.0}, **keys)}


def ropes(dims, partial=None, keys=()):
    """Every scaling. `dims`: dimensions that turn; `partial`: their share, where it is a key."""
    more = dict(keys, **({} if partial is None else {"partial_rotary_factor": partial}))
    yarn = dict(more, factor=4.0, original_max_position_embeddings=LONG)
    long = dict(more, original_max_position_embeddings=LONG,
                short_factor=[1 + 0.1 * i for i in range(dims // 2)],
                long_factor=[2 + 0.5 * i for i in range(dims // 2)])
    return [rope("default", **more), rope("linear", factor=2.5, **more),
            dict(rope("dynamic", factor=3.0, **more), max_position_embeddings=LONG),
            rope("dynamic", factor=3.0, **more), rope("yarn", **yarn),
            rope("yarn", **yarn, beta_fast=8.0, beta_slow=0.5),
            rope("yarn", **yarn, attention_factor=1.3),
            rope("yarn", **yarn, mscale=0.7, mscale_all_dim=0.9),
            rope("yarn", **yarn, mscale=0.7), rope("yarn", **yarn, mscale_all_dim=0.9),
            rope("yarn", **yarn, mscale=1.0, mscale_all_dim=1.0), rope("yarn", **yarn, mscale=0),
            rope("yarn", **yarn, truncate=False), rope("yarn", **dict(more, factor=4.0)),
            rope("yarn", **dict(yarn, factor=None)),
            rope("llama3", **more, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=64),
            rope("longrope", **long), rope("longrope", **long, factor=3.0),
            rope("longrope", **long, factor=3.0, attention_factor=1.2),
            rope("longrope", **dict(long, original_max_position_embeddings=64))]


BODY = dict(vocab_size=128, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
            pad_token_id=0)
LLAMA = dict(BODY, intermediate_size=96, num_key_value_heads=2, max_position_embeddings=256)
ACTS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "gelu_fast", "tanh",
        "gelu_python", "swish", "gelu_accurate"]
TIED = {"tie_word_embeddings": [True, False]}
FILES = [{"_dtype": "bfloat16"}, {"_dtype": "float16"}, {"_shard": "20KB"}, {
    "_base": True, "tie_word_embeddings": True}]
ODD = [dict(hidden_size=60, intermediate_size=50, num_attention_heads=3, num_key_value_heads=3,
            vocab_size=131), dict(hidden_size=72, intermediate_size=33, num_attention_heads=6,
                                  num_key_value_heads=3, vocab_size=130)]
COMMON = dict(TIED, hidden_act=ACTS, num_key_value_heads=[1, 4], max_position_embeddings=[20],
              **{"*files": FILES, "*odd": ODD})
RMS = dict(COMMON, rms_norm_eps=[1e-3])
BIAS = {"attention_bias": [True, False]}
WIDE = {"head_dim": [24, 8]}
FULL, SLIDING = "full_attention", "sliding_attention"
TYPES = {"layer_types": [[FULL, SLIDING, SLIDING], [SLIDING, FULL, SLIDING], [FULL] * 3,
                         [SLIDING] * 3]}
WINDOWS_ON = dict(use_sliding_window=True, sliding_window=SHORT)
QWEN_WINDOWS = {"*windows": [dict(WINDOWS_ON, max_window_layers=n) for n in (0, 1, 28)]
                + [dict(WINDOWS_ON, layer_types=t) for t in TYPES["layer_types"]]
                + [dict(WINDOWS_ON, use_sliding_window=False), dict(
                    WINDOWS_ON, sliding_window=None, max_window_layers=0)]}
TYPED_WINDOWS = {"sliding_window": [SHORT, 1, 100], "*types": [
    dict(sliding_window=SHORT, layer_types=t) for t in TYPES["layer_types"]]}


def family(name, base, *axes, rotary=None):
    merged = {}
    for a in axes:
        merged.update(a)
    if rotary:
        merged["*rope"] = rotary
    return {"class": name, "base": base, "axes": merged}


MOE = dict(num_experts_per_tok=[1, 4], decoder_sparse_step=[2, 3],
           mlp_only_layers=[[0], [1, 2], [0, 1, 2]], norm_topk_prob=[True, False])
QWEN_MOE = dict(LLAMA, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24)
LATENT = dict(LLAMA, num_key_value_heads=4, kv_lora_rank=32, q_lora_rank=40, qk_nope_head_dim=16,
              qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8, num_experts_per_tok=3,
              moe_intermediate_size=24, first_k_dense_replace=1)
LATENT_AXES = dict(
    **TIED, **BIAS, **{"*files": FILES}, q_lora_rank=[None, 24], v_head_dim=[16, 24],
    first_k_dense_replace=[0, 3],
    n_shared_experts=[1, 2], routed_scaling_factor=[1.0, 2.0], rms_norm_eps=[1e-3],
    norm_topk_prob=[True, False], num_experts_per_tok=[1, 8], hidden_act=["gelu"],
    qk_nope_head_dim=[8, 24])
PHI3_LONG = [p for p in ropes(16) if p["rope_parameters"]["rope_type"] in ("default", "longrope")]
ENCODER = dict(BODY, num_hidden_layers=2, intermediate_size=96, max_position_embeddings=64,
               num_labels=3)
ENCODER_AXES = dict(**{"*files": FILES[:3], "*odd": [dict(
    hidden_size=60, intermediate_size=50, num_attention_heads=3)]}, hidden_act=["gelu",
    "gelu_new", "relu", "silu", "gelu_python"],
                    layer_norm_eps=[1e-3], type_vocab_size=[1, 2, 4], num_labels=[1, 2, 5])
DEBERTA_TERMS = [["c2p"], ["p2c"], ["c2p", "p2c"], [], "c2p|p2c", None]
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=LONG)
M3_YARN = dict(YARN, llama_4_scaling_beta=0.1)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
              image_size=28, patch_size=14)

FAMILIES = {
    "llama": family("LlamaForCausalLM", LLAMA, RMS, BIAS, WIDE, {"mlp_bias": [True]},
                    rotary=ropes(16) + [rope("default", partial_rotary_factor=0.5)] + [dict(
                        p, original_max_position_embeddings=8) for p in ropes(16)[4:]]),
    "mistral": family("MistralForCausalLM", LLAMA, RMS, WIDE,
                      {"sliding_window": [None, SHORT, 1]}, rotary=ropes(16)),
    "ministral": family("MinistralForCausalLM", dict(LLAMA, head_dim=16), RMS, WIDE, TYPED_WINDOWS,
                        rotary=ropes(16)),
    "ministral3": family("Ministral3ForCausalLM", dict(LLAMA, head_dim=16, rope_parameters=M3_YARN),
                         RMS, {"head_dim": [24], "sliding_window": [SHORT],
                               "rope_parameters": [None]},
                         rotary=[{"rope_parameters": dict(M3_YARN, **k)} for k in (
                             dict(mscale=1.0, mscale_all_dim=1.0), dict(llama_4_scaling_beta=0.5),
                             dict(original_max_position_embeddings=4),
                             dict(mscale=0.5, mscale_all_dim=1.0))]),
    "mixtral": family("MixtralForCausalLM", dict(LLAMA, num_local_experts=4, head_dim=16), RMS,
                      {"head_dim": [24, None], "sliding_window": [SHORT, None],
                       "num_experts_per_tok": [1, 3, 4],
                       "num_local_experts": [2, 5]}, rotary=ropes(16)),
    "qwen2": family("Qwen2ForCausalLM", LLAMA, RMS, QWEN_WINDOWS, rotary=ropes(16)),
    "qwen2_moe": family("Qwen2MoeForCausalLM",
                        dict(QWEN_MOE, shared_expert_intermediate_size=40), RMS, MOE,
                        QWEN_WINDOWS, {"qkv_bias": [False],
                                       "shared_expert_intermediate_size": [24]}, rotary=ropes(16)),
    "qwen3": family("Qwen3ForCausalLM", dict(LLAMA, head_dim=16), RMS, BIAS, WIDE, QWEN_WINDOWS,
                    {"*head128": [dict(head_dim=128)]}, rotary=ropes(16)),
    "qwen3_moe": family("Qwen3MoeForCausalLM", dict(QWEN_MOE, head_dim=16), RMS, BIAS, WIDE, MOE,
                        {"*windows": [WINDOWS_ON]},
                        rotary=ropes(16)),
    "gemma": family("GemmaForCausalLM", dict(LLAMA, head_dim=16), RMS, BIAS, WIDE,
                    rotary=ropes(16)),
    "gemma2": family("Gemma2ForCausalLM", dict(LLAMA, head_dim=16, sliding_window=SHORT),
                     TIED, BIAS, WIDE, {
                         "*files": FILES, "*odd": ODD, "hidden_activation": ACTS,
                         "num_key_value_heads": [1, 4],
                         "query_pre_attn_scalar": [16, 40],
                         "attn_logit_softcapping": [None, 1.0, 20.0],
                         "final_logit_softcapping": [None, 1.0, 5.0]}, TYPES, rotary=ropes(16)),
    "gemma3_text": family(
        "Gemma3ForCausalLM", dict(LLAMA, head_dim=16, sliding_window=SHORT, num_hidden_layers=7),
        TIED, BIAS, WIDE, {
            "*files": FILES, "*odd": ODD, "hidden_activation": ["gelu_pytorch_tanh", "silu"],
            "num_key_value_heads": [1, 4],
            "query_pre_attn_scalar": [16, 40], "attn_logit_softcapping": [1.0],
            "final_logit_softcapping": [1.0], "sliding_window": [3],
            "*pattern": [dict(sliding_window_pattern=2), dict(sliding_window_pattern=3)],
            "layer_types": [[FULL, SLIDING] * 3 + [FULL], [SLIDING] * 7]},
        rotary=[{"rope_parameters": {FULL: f["rope_parameters"], SLIDING: {
            "rope_type": "default", "rope_theta": 800.0}}} for f in ropes(16)
            if "max_position_embeddings" not in f] + [
            {"rope_parameters": {FULL: rope("default")["rope_parameters"],
                                 SLIDING: f["rope_parameters"]}} for f in ropes(16)]),
    "gpt_neox": family("GPTNeoXForCausalLM", {k: v for k, v in LLAMA.items()
                                              if k != "num_key_value_heads"}, TIED, BIAS, {
        "*files": FILES, "hidden_act": ACTS, "use_parallel_residual": [False],
        "layer_norm_eps": [1e-3]},
        rotary=ropes(8, 0.5) + [rope("default", partial_rotary_factor=1.0)]),
    "phi": family("PhiForCausalLM", LLAMA, COMMON, {"qk_layernorm": [True],
                                                    "layer_norm_eps": [1e-3]},
                  rotary=ropes(8, 0.5) + [rope("default", partial_rotary_factor=1.0)]),
    "phi3": family("Phi3ForCausalLM", dict(LLAMA, original_max_position_embeddings=LONG), RMS, {
        "sliding_window": [SHORT], "original_max_position_embeddings": [64, 4096]},
        rotary=PHI3_LONG + [rope("default", partial_rotary_factor=0.75)] + [
            p for p in ropes(12, 0.75) if p["rope_parameters"]["rope_type"] == "longrope"]),
    "falcon": family("FalconForCausalLM", BODY, TIED, {
        "*files": FILES, "bias": [True], "activation": ["gelu", "relu", "gelu_new"],
        "ffn_hidden_size": [96],
        "layer_norm_epsilon": [1e-3], "*kind": [
            dict(new_decoder_architecture=True, num_kv_heads=2),
            dict(new_decoder_architecture=True, num_kv_heads=1),
            dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1),
            dict(new_decoder_architecture=True, num_kv_heads=2, alibi=True),
            dict(new_decoder_architecture=True, num_kv_heads=2, parallel_attn=False),
            dict(new_decoder_architecture=True), dict(multi_query=False),
            dict(multi_query=False, parallel_attn=False, alibi=True, bias=True),
            dict(multi_query=False, parallel_attn=False), dict(multi_query=False, alibi=True),
            dict(parallel_attn=False), dict(alibi=True), dict(num_ln_in_parallel_attn=2),
            dict(alibi=True, num_attention_heads=3, hidden_size=48), dict(num_kv_heads=1)]},
        rotary=ropes(16)),
    "bloom": family("BloomForCausalLM", dict(vocab_size=128, hidden_size=64, n_layer=3, n_head=4,
                                             pad_token_id=0), TIED, {
        "*files": FILES, "n_head": [1, 2, 8], "layer_norm_epsilon": [1e-3],
        "apply_residual_connection_post_layernorm": [True], "slow_but_exact": [True],
        "*heads": [dict(hidden_size=96, n_head=6), dict(hidden_size=96, n_head=3)]}),
    "mpt": family("MptForCausalLM", dict(vocab_size=128, d_model=64, n_layers=3, n_heads=4,
                                         max_seq_len=64, pad_token_id=0), TIED, {
        "*files": FILES, "n_heads": [1, 2, 8], "layer_norm_epsilon": [1e-3], "*heads": [
            dict(d_model=96, n_heads=6), dict(d_model=96, n_heads=3)],
        "attn_config": [dict(clip_qkv=0.7), dict(softmax_scale=0.3), dict(qk_ln=True),
                        dict(alibi=False), dict(prefix_lm=True)],
        "no_bias": [False], "logit_scale": [0.5]}),
    "opt": family("OPTForCausalLM", dict(BODY, ffn_dim=96, max_position_embeddings=64), TIED, {
        "*files": FILES, "do_layer_norm_before": [False], "_remove_final_layer_norm": [True],
        "word_embed_proj_dim": [32], "activation_function": ACTS, "enable_bias": [False],
        "layer_norm_elementwise_affine": [False]}),
    "gpt2": family("GPT2LMHeadModel", dict(vocab_size=128, n_embd=64, n_layer=3, n_head=4,
                                           n_positions=64, pad_token_id=0), TIED, {
        "*files": FILES, "n_inner": [96], "activation_function": ACTS, "layer_norm_epsilon": [1e-3],
        "scale_attn_weights": [False], "scale_attn_by_inverse_layer_idx": [True],
        "reorder_and_upcast_attn": [True]}),
    "olmo2": family("Olmo2ForCausalLM", LLAMA, RMS, BIAS, rotary=ropes(16)),
    "granite": family("GraniteForCausalLM", LLAMA, RMS, BIAS, {
        "mlp_bias": [True], "embedding_multiplier": [3, 12.0], "logits_scaling": [8, 0.5],
        "residual_multiplier": [0.22], "attention_multiplier": [0.1, 0.0078125]},
        rotary=ropes(16)),
    "cohere": family("CohereForCausalLM", LLAMA, COMMON, BIAS, {
        "use_qk_norm": [True], "logit_scale": [1.0, 0.5, None], "layer_norm_eps": [1e-3]},
        rotary=ropes(16)),
    "cohere2": family("Cohere2ForCausalLM", dict(LLAMA, num_hidden_layers=5), COMMON, BIAS, {
        "logit_scale": [1.0, 0.5], "sliding_window": [SHORT, None], "layer_norm_eps": [1e-3],
        "*types": [dict(sliding_window=SHORT, layer_types=t) for t in (
            [SLIDING] * 5, [FULL] * 5, [FULL, SLIDING, SLIDING, FULL, FULL])],
        "*pattern": [dict(sliding_window=SHORT, sliding_window_pattern=n) for n in (2, 3)]},
        rotary=ropes(16)),
    "starcoder2": family("Starcoder2ForCausalLM", LLAMA, COMMON, {
        "use_bias": [False], "norm_epsilon": [1e-3], "sliding_window": [SHORT]},
        rotary=ropes(16)),
    "stablelm": family("StableLmForCausalLM", LLAMA, COMMON, {
        "use_qkv_bias": [True], "qk_layernorm": [True], "use_parallel_residual": [True],
        "layer_norm_eps": [1e-3]}, rotary=ropes(8, 0.5)),
    "glm": family("GlmForCausalLM", dict(LLAMA, head_dim=16), RMS, BIAS, WIDE,
                  rotary=ropes(8, 0.5) + [rope("default", partial_rotary_factor=1.0)]),
    "glm4": family("Glm4ForCausalLM", dict(LLAMA, head_dim=16), RMS, BIAS, WIDE,
                   rotary=ropes(8, 0.5)),
    "nemotron": family("NemotronForCausalLM", LLAMA, COMMON, BIAS, WIDE, {
        "mlp_bias": [True], "norm_eps": [1e-3]}, rotary=ropes(8, 0.5)),
    "smollm3": family("SmolLM3ForCausalLM", LLAMA, RMS, BIAS, {
        "mlp_bias": [True], "no_rope_layers": [[1, 0, 1], [0, 0, 0], [1, 1, 1]],
        "no_rope_layer_interval": [2, 3], "*windows": [
            dict(WINDOWS_ON, **k) for k in (
                {}, dict(no_rope_layers=[1, 0, 1]), dict(layer_types=[FULL, SLIDING, SLIDING]),
                dict(no_rope_layer_interval=2))] + [dict(use_sliding_window=True)]},
        rotary=ropes(16)),
    "deepseek_v2": family("DeepseekV2ForCausalLM", LATENT, LATENT_AXES, {
        "*groups": [dict(topk_method="group_limited_greedy", n_group=4, topk_group=2),
                    dict(topk_method="group_limited_greedy", n_group=2, topk_group=1),
                    dict(topk_method="greedy", n_group=4, topk_group=2)]}, rotary=ropes(8)),
    "deepseek_v3": family("DeepseekV3ForCausalLM", dict(
        LATENT, n_routed_experts=16, n_group=4, topk_group=2), LATENT_AXES, {
        "*groups": [dict(n_group=1, topk_group=1), dict(n_group=2, topk_group=1),
                    dict(n_group=8, topk_group=4, num_experts_per_tok=8, num_hidden_layers=4,
                         first_k_dense_replace=3)],
        "rope_interleave": [False]}, rotary=ropes(8)),
    "llama4": family("Llama4ForCausalLM", dict(
        LLAMA, num_hidden_layers=4, head_dim=16, intermediate_size_mlp=96, intermediate_size=24,
        num_local_experts=4, attention_chunk_size=SHORT), TIED, BIAS, WIDE, {
        "*files": FILES, "num_experts_per_tok": [1, 2, 4], "interleave_moe_layer_step": [2, 3],
        "moe_layers": [[], [0, 3]], "use_qk_norm": [False], "rms_norm_eps": [1e-3],
        "attention_chunk_size": [1, 100, None], "num_key_value_heads": [1, 4],
        "no_rope_layers": [[1, 0, 1, 0], [1] * 4, [0] * 4, []], "no_rope_layer_interval": [2, 3],
        "attn_temperature_tuning": [False], "*scale": [dict(floor_scale=4, attn_scale=0.3)],
        "layer_types": [[FULL] * 4, ["chunked_attention"] * 4]}, rotary=ropes(16)),
    "gpt_oss": family("GptOssForCausalLM", dict(
        LLAMA, head_dim=16, intermediate_size=24, num_local_experts=6, num_experts_per_tok=3,
        sliding_window=SHORT, rope_parameters=YARN), TIED, WIDE, TYPES, {
        "*files": FILES, "num_experts_per_tok": [1, 6], "swiglu_limit": [1.0, 0.3],
        "swiglu_alpha": [1.0, 3.0],
        "sliding_window": [3, 128], "num_key_value_heads": [1, 4], "rope_parameters": [None],
        "attention_bias": [False], "rms_norm_eps": [1e-3]}, rotary=ropes(16)),
    "bert": family("BertForSequenceClassification", ENCODER, ENCODER_AXES, {
        "_class": ["BertModel", "BertForMaskedLM", "BertForTokenClassification"]}),
    "roberta": family("RobertaForSequenceClassification", dict(ENCODER, pad_token_id=1),
                      ENCODER_AXES, {"pad_token_id": [0, 1, 2],
                                     "_class": ["RobertaModel", "RobertaForMaskedLM",
                                                "RobertaForTokenClassification"]}),
    "deberta": family("DebertaForSequenceClassification", dict(
        ENCODER, relative_attention=True, position_biased_input=False, type_vocab_size=0,
        pos_att_type=["c2p", "p2c"]), ENCODER_AXES, {
        "pos_att_type": DEBERTA_TERMS, "position_biased_input": [True],
        "relative_attention": [False], "max_relative_positions": [8, 100, -1],
        "type_vocab_size": [0, 2], "talking_head": [True], "pooler_hidden_act": ["tanh"],
        "_class": ["DebertaModel", "DebertaForMaskedLM", "DebertaForTokenClassification"]}),
    "deberta_v2": family("DebertaV2ForSequenceClassification", dict(
        ENCODER, relative_attention=True, position_biased_input=False, type_vocab_size=0,
        pos_att_type=["c2p", "p2c"], share_att_key=True, norm_rel_ebd="layer_norm",
        position_buckets=8), ENCODER_AXES, {
        "pos_att_type": DEBERTA_TERMS, "position_biased_input": [True],
        "relative_attention": [False], "max_relative_positions": [8, 100, -1],
        "type_vocab_size": [0, 2], "share_att_key": [False], "position_buckets": [-1, 4, 32],
        "norm_rel_ebd": ["none"], "pooler_hidden_act": ["tanh"], "_class": [
            "DebertaV2Model", "DebertaV2ForMaskedLM", "DebertaV2ForTokenClassification"],
        "*conv": [dict(conv_kernel_size=3), dict(conv_kernel_size=5, conv_act="gelu"),
                  dict(conv_kernel_size=3, conv_groups=2)]}),
    "gemma3": family("Gemma3ForConditionalGeneration", dict(
        text_config=dict(LLAMA, head_dim=16, sliding_window=SHORT, num_hidden_layers=7),
        vision_config=dict(VISION, model_type="siglip_vision_model"), mm_tokens_per_image=4), {
        "tie_word_embeddings": [False], "text_config": [
            dict(LLAMA, head_dim=16, tie_word_embeddings=False), dict(LLAMA, head_dim=16),
            dict(LLAMA)]}),
    "llama4_images": family("Llama4ForConditionalGeneration", dict(
        text_config=dict(LLAMA, num_hidden_layers=4, head_dim=16, intermediate_size_mlp=96,
                         intermediate_size=24, num_local_experts=4, attention_chunk_size=SHORT),
        vision_config=dict(VISION, vision_output_dim=16, projector_input_dim=16,
                           projector_output_dim=16, pixel_shuffle_ratio=1.0)), {
        "tie_word_embeddings": [True]}),
    "mistral3": family("Mistral3ForConditionalGeneration", dict(
        text_config=dict(LLAMA, model_type="mistral", sliding_window=None),
        vision_config=dict(VISION, model_type="pixtral", head_dim=8)), {
        "tie_word_embeddings": [True, False], "text_config": [
            dict(LLAMA, model_type="mistral", tie_word_embeddings=True),
            dict(LLAMA, model_type="mistral", sliding_window=SHORT, head_dim=24),
            dict(LLAMA, model_type="ministral3", head_dim=16, rope_parameters=M3_YARN),
            dict(LLAMA, model_type="ministral3", head_dim=16)]}),
}
for _name in ("deepseek_v2", "deepseek_v3"):
    FAMILIES[_name]["axes"]["*rope"] += [dict(r, rope_parameters=dict(
        r["rope_parameters"], mscale_all_dim=0.9)) for r in ropes(8)[1:4] + ropes(8)[15:18]]

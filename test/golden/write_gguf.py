#!/usr/bin/env python3
"""Writes Hugging Face folders of golden models as the GGUF files that the usual converter would
make of them: names, order of rows, gains, keys and their types.

write_gguf.py [--form FORM] [--experts TYPE] FOLDER FILE
write_gguf.py --all OUT GOLDEN...

--form old: the spelling of earlier converters (DeepSeek's K and V in one matrix).
--form fused: queries, keys and values in one matrix, gate and up of experts too.
--form after: with a layer behind the last one that guesses further tokens.
--form granitemoe: Mixtral as Granite's models with experts, all factors 1.
--experts: type of the experts' matrices whose rows fit its blocks: f32, q8_0, mxfp4.
--all: every model of the folders GOLDEN that has a converter, as OUT/golden/NAME[.FORM].gguf, and
for some of them OUT/released/NAME.gguf with the folder OUT/released/NAME. Of models of one name the
first folder's counts, as for the tests in C; PC_TEST_DATA stands before all.

Where a converter leaves a value to the reader, because all released models have the same one, and
a golden model has another, the file has a key that readers know from other architectures (window
pattern, chunk size, scale of scores, limit of the gate). What no key can say ends with status 77.
OUT/released has these models with the values and the layers of released ones, so that the file has
no such key: it must compute what the folder computes.
"""
import argparse
import json
import math
import os
import re
import shutil
import struct
import sys
from array import array
from pathlib import Path
from random import Random

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPES = {"f32": 0, "q8_0": 8, "mxfp4": 39}
ALIGNMENT = 32


class Lossy(Exception):
    """GGUF cannot say it."""


# ------------------------------------------------------------------ tensors


class Tensor:
    """fp32, row-major."""

    def __init__(self, shape, data):
        self.shape, self.data = list(shape), data

    def rows(self):
        width = self.shape[-1] if len(self.shape) > 1 else 1
        return [self.data[i:i + width] for i in range(0, len(self.data), width)]

    def take(self, order):
        """The rows in this order; of vectors the values."""
        rows = self.rows()
        data = array("f")
        for i in order:
            data.extend(rows[i])
        return Tensor([len(order)] + self.shape[1:], data)

    def plus(self, offset):
        """Rounded to fp32, as the converter's sum is."""
        return Tensor(self.shape, array("f", (v + offset for v in self.data)))

    def blocks(self):
        """The matrices of a tensor of rank 3."""
        size = self.shape[1] * self.shape[2]
        return [Tensor(self.shape[1:], self.data[i:i + size])
                for i in range(0, len(self.data), size)]

    def transposed(self):
        rows, cols = self.shape
        data = array("f", bytes(4 * rows * cols))
        for c in range(cols):
            data[c * rows:(c + 1) * rows] = self.data[c::cols]
        return Tensor([cols, rows], data)


def stack(tensors):
    data = array("f")
    for tensor in tensors:
        data.extend(tensor.data)
    return Tensor([len(tensors)] + tensors[0].shape, data)


def load(folder):
    raw = (Path(folder) / "model.safetensors").read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            sys.exit(f"{folder}: tensor '{name}' is {entry['dtype']}, not F32")
        first, last = entry["data_offsets"]
        tensors[name] = Tensor(entry["shape"], array("f", raw[8 + size + first:8 + size + last]))
    return json.loads((Path(folder) / "config.json").read_text()), tensors


def permuted(tensor, heads):
    """Rows of each head from halves to neighbours: row 2i of the result is row i."""
    dim = tensor.shape[0] // heads
    inside = [i // 2 + (i % 2) * (dim // 2) for i in range(dim)]
    return tensor.take([h * dim + i for h in range(heads) for i in inside])


# ------------------------------------------------------------------ block formats


def q8_0(values):
    out = bytearray()
    for i in range(0, len(values), 32):
        block = values[i:i + 32]
        scale = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 127))[0]
        out += struct.pack("<e", scale)
        out += struct.pack("<32b", *(max(-127, min(127, round(v / scale))) if scale else 0
                                     for v in block))
    return bytes(out)


FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def mxfp4(values):
    """A scale of 8 bits, then the codes of values i (low bits) and i + 16."""
    out = bytearray()
    for i in range(0, len(values), 32):
        block = values[i:i + 32]
        largest = max(map(abs, block))
        exponent = max(-126, math.floor(math.log2(largest)) - 2) if largest else -126
        codes = []
        for v in block:
            near = min(range(8), key=lambda c: abs(FP4[c] * 2.0 ** exponent - abs(v)))
            codes.append(near | (8 if v < 0 and near else 0))
        out.append(exponent + 127)
        out += bytes(codes[j] | codes[j + 16] << 4 for j in range(16))
    return bytes(out)


ENCODERS = {"f32": lambda values: values.tobytes(), "q8_0": q8_0, "mxfp4": mxfp4}


# ------------------------------------------------------------------ the file


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<B"}[kind], value)


class File:
    def __init__(self, architecture):
        self.architecture, self.keys, self.tensors = architecture, {}, []
        self.put("general.architecture", STRING, architecture)
        self.put("general.type", STRING, "model")
        self.put("general.quantization_version", U32, 2)
        self.put("general.file_type", U32, 0)

    def put(self, key, kind, value):
        self.keys[key] = (kind, value)

    def key(self, name, kind, value):
        if value is not None:
            self.put(f"{self.architecture}.{name}", kind, value)

    def list(self, name, kind, values):
        self.put(f"{self.architecture}.{name}", ARRAY, (kind, values))

    def add(self, name, tensor, kind="f32"):
        fits = kind == "f32" or tensor.shape[-1] % 32 == 0
        self.tensors.append((name, tensor, kind if fits else "f32"))

    def write(self, path):
        out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)))
        for name, (kind, value) in self.keys.items():
            out += text(name) + struct.pack("<I", kind)
            if kind == ARRAY:
                out += struct.pack("<IQ", value[0], len(value[1]))
                for each in value[1]:
                    out += scalar(value[0], each)
            else:
                out += scalar(kind, value)
        data = bytearray()
        for name, tensor, kind in self.tensors:
            out += text(name) + struct.pack("<I", len(tensor.shape))
            out += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
            out += struct.pack("<IQ", TYPES[kind], len(data))
            data += ENCODERS[kind](tensor.data)
            data += bytes(-len(data) % ALIGNMENT)
        out += bytes(-len(out) % ALIGNMENT)
        Path(path).write_bytes(out + data)


# ------------------------------------------------------------------ keys


def base_keys(file, c, rope):
    """What the converter writes for every model of text."""
    for name, kind, keys in (
            ("block_count", U32, ["num_hidden_layers"]),
            ("context_length", U32, ["max_position_embeddings"]),
            ("embedding_length", U32, ["hidden_size"]),
            ("feed_forward_length", U32, ["intermediate_size"]),
            ("attention.head_count", U32, ["num_attention_heads"]),
            ("attention.head_count_kv", U32, ["num_key_value_heads"]),
            ("attention.layer_norm_rms_epsilon", F32, ["rms_norm_eps", "norm_eps"]),
            ("attention.layer_norm_epsilon", F32, ["layer_norm_eps", "norm_epsilon"]),
            ("expert_count", U32, ["num_local_experts", "num_experts"]),
            ("expert_used_count", U32, ["num_experts_per_tok"]),
            ("expert_group_count", U32, ["n_group"]),
            ("expert_group_used_count", U32, ["topk_group"]),
            ("attention.key_length", U32, ["head_dim"]),
            ("attention.value_length", U32, ["head_dim"]),
            ("vocab_size", U32, ["vocab_size"])):
        file.key(name, kind, next((c[k] for k in keys if c.get(k) is not None), None))
    rope_keys(file, rope)


def rope_keys(file, rope):
    full = rope.get("full_attention", rope)
    kind = full.get("rope_type")
    if kind in ("linear", "yarn"):
        file.key("rope.scaling.type", STRING, kind)
        file.key("rope.scaling.factor", F32, full["factor"])
    if kind == "yarn":
        file.key("rope.scaling.original_context_length", U32,
                 full["original_max_position_embeddings"])
        file.key("rope.scaling.yarn_beta_fast", F32, full.get("beta_fast"))
        file.key("rope.scaling.yarn_beta_slow", F32, full.get("beta_slow"))
    file.key("rope.freq_base", F32, full.get("rope_theta"))
    file.key("rope.freq_base_swa", F32, rope.get("sliding_attention", {}).get("rope_theta"))


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def rope_dims(file, c, rope):
    file.key("rope.dimension_count", U32, int(head_dim(c) * rope.get("partial_rotary_factor", 1)))


def windows(file, c, period):
    """The window, and its layers where they are not what the architecture says anyway."""
    file.key("attention.sliding_window", U32, c.get("sliding_window"))
    near = [t != "full_attention" for t in c["layer_types"]]
    if period and near != [i % period < period - 1 for i in range(len(near))]:
        file.list("attention.sliding_window_pattern", BOOL, near)


def scores(file, c, usual):
    scale = c.get("query_pre_attn_scalar", usual)
    if scale != usual:
        file.key("attention.scale", F32, scale ** -0.5)


def llama(file, c, rope):
    base_keys(file, c, rope)
    rope_dims(file, c, rope)
    if c.get("sliding_window"):
        file.key("attention.sliding_window", U32, c["sliding_window"])


def ministral(file, c, rope):
    llama(file, c, rope)
    windows(file, c, len(c["layer_types"]) + 1)


def ministral3(file, c, rope):
    llama(file, c, rope)
    file.key("rope.scaling.yarn_log_multiplier", F32, rope["mscale_all_dim"])
    file.key("attention.temperature_scale", F32, rope["llama_4_scaling_beta"])


def smollm3(file, c, rope):
    llama(file, c, rope)
    if c["no_rope_layers"] != [int((i + 1) % 4 != 0) for i in range(c["num_hidden_layers"])]:
        raise Lossy("which layers do not turn")


def granite(file, c, rope):
    llama(file, c, rope)
    file.key("attention.scale", F32, c["attention_multiplier"])
    file.key("embedding_scale", F32, c["embedding_multiplier"])
    file.key("residual_scale", F32, c["residual_multiplier"])
    file.key("logit_scale", F32, c["logits_scaling"])


def granitemoe(file, c, rope):
    llama(file, c, rope)
    for name in ("embedding_scale", "residual_scale", "logit_scale"):
        file.key(name, F32, 1.0)


def llama4(file, c, rope):
    llama(file, {**c, "intermediate_size": c["intermediate_size_mlp"]}, rope)
    file.key("interleave_moe_layer_step", U32, c["interleave_moe_layer_step"])
    file.key("expert_feed_forward_length", U32, c["intermediate_size"])
    windows(file, c, 4)
    if c["attention_chunk_size"] != 8192:
        file.key("attention.chunk_size", U32, c["attention_chunk_size"])
    if (c["attn_scale"], c["floor_scale"]) != (0.1, 8192):
        file.key("attention.temperature_scale", F32, c["attn_scale"])
        file.key("attention.temperature_length", U32, c["floor_scale"])


def moe(file, c, rope):
    base_keys(file, c, rope)
    file.key("expert_feed_forward_length", U32, c["moe_intermediate_size"])


def gemma(file, c, rope):
    base_keys(file, c, rope)
    for name in ("rope.freq_base", "vocab_size"):
        file.keys.pop(f"{file.architecture}.{name}", None)


def gemma2(file, c, rope):
    gemma(file, c, rope)
    file.key("attn_logit_softcapping", F32, c["attn_logit_softcapping"])
    file.key("final_logit_softcapping", F32, c["final_logit_softcapping"])
    windows(file, c, 2)
    scores(file, c, c["head_dim"])


def gemma3(file, c, rope):
    base_keys(file, c, rope)
    windows(file, c, 6)
    scores(file, c, c["head_dim"])


def gpt_neox(file, c, rope):
    for name, key in (("context_length", "max_position_embeddings"),
                      ("embedding_length", "hidden_size"), ("block_count", "num_hidden_layers"),
                      ("feed_forward_length", "intermediate_size"),
                      ("attention.head_count", "num_attention_heads")):
        file.key(name, U32, c[key])
    rope_dims(file, c, rope)
    file.key("use_parallel_residual", BOOL, c["use_parallel_residual"])
    file.key("attention.layer_norm_epsilon", F32, c["layer_norm_eps"])


def phi2(file, c, rope):
    base_keys(file, c, rope)
    rope_dims(file, c, rope)


def gpt_oss(file, c, rope):
    base_keys(file, c, rope)
    windows(file, c, 2)
    file.key("expert_feed_forward_length", U32, c["intermediate_size"])
    if c["swiglu_limit"] != 7:
        file.list("swiglu_clamp_exp", F32, [c["swiglu_limit"]] * c["num_hidden_layers"])


def cohere(file, c, rope):
    base_keys(file, c, rope)
    file.key("logit_scale", F32, c["logit_scale"])
    file.key("rope.scaling.type", STRING, "none")


def cohere2(file, c, rope):
    cohere(file, c, rope)
    windows(file, c, 4)
    rope_dims(file, c, rope)


def stablelm(file, c, rope):
    base_keys(file, c, rope)
    file.keys.pop("stablelm.rope.freq_base")
    rope_dims(file, c, rope)
    file.key("use_parallel_residual", BOOL, c["use_parallel_residual"])


def starcoder2(file, c, rope):
    base_keys(file, c, rope)
    file.key("attention.sliding_window", U32, c["sliding_window"])


def nemotron(file, c, rope):
    base_keys(file, c, rope)
    file.key("attention.layer_norm_epsilon", F32, c["norm_eps"])
    rope_dims(file, c, rope)
    file.key("rope.scaling.type", STRING, "none")


def glm4(file, c, rope):
    base_keys(file, c, rope)
    rope_dims(file, c, rope)


def deepseek2(file, c, rope, old):
    rank, turned = c["kv_lora_rank"], c["qk_rope_head_dim"]
    whole = c["qk_nope_head_dim"] + turned
    base_keys(file, c, rope)
    file.key("leading_dense_block_count", U32, c["first_k_dense_replace"])
    file.key("attention.q_lora_rank", U32, c["q_lora_rank"])
    file.key("attention.kv_lora_rank", U32, rank)
    file.key("attention.head_count_kv", U32, c["num_attention_heads"] if old else 1)
    file.key("attention.key_length", U32, whole if old else rank + turned)
    file.key("attention.value_length", U32, c["v_head_dim"] if old else rank)
    if not old:
        file.key("attention.key_length_mla", U32, whole)
        file.key("attention.value_length_mla", U32, c["v_head_dim"])
    file.key("expert_feed_forward_length", U32, c["moe_intermediate_size"])
    file.key("expert_count", U32, c["n_routed_experts"])
    file.key("expert_shared_count", U32, c["n_shared_experts"])
    file.key("expert_weights_scale", F32, c["routed_scaling_factor"])
    if c["norm_topk_prob"]:
        file.key("expert_weights_norm", BOOL, True)
    if c["model_type"] == "deepseek_v3":
        file.key("expert_gating_func", U32, 2)
    file.key("rope.dimension_count", U32, turned)
    if rope.get("mscale_all_dim"):
        file.key("rope.scaling.yarn_log_multiplier", F32, 0.1 * rope["mscale_all_dim"])


# ------------------------------------------------------------------ names

ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
        "model.final_layernorm": "output_norm", "lm_head": "output",
        "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm",
        "embed_out": "output"}
PARTS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.dense": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks", "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "self_attn.k_b_proj": "attn_k_b",
    "self_attn.v_b_proj": "attn_v_b",
    "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp", "mlp.gate.e_score_correction": "exp_probs_b",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps", "mlp.experts.w1": "ffn_gate_exps",
    "mlp.experts.w3": "ffn_up_exps", "mlp.experts.w2": "ffn_down_exps"}
# Architectures that have no norm of the MLP's input beside it, or call that one so.
POST_ATTENTION = ("gemma2", "gemma3", "olmo2", "gpt-oss")


def gguf_name(architecture, name):
    stem, ending = name.rsplit(".", 1)
    if stem in ENDS:
        return f"{ENDS[stem]}.{ending}"
    layer, part = re.fullmatch(r"(?:model|gpt_neox)\.layers\.(\d+)\.(.+)", stem).groups()
    if part == "post_attention_layernorm" and architecture in POST_ATTENTION:
        return f"blk.{layer}.post_attention_norm.{ending}"
    shared = re.fullmatch(r"(?:mlp|feed_forward)\.shared_experts?\.(gate|up|down)_proj", part)
    if shared:
        return f"blk.{layer}.ffn_{shared.group(1)}_shexp.{ending}"
    part = part.replace("feed_forward.router", "mlp.router").replace("feed_forward.", "mlp.")
    return f"blk.{layer}.{PARTS[part]}.{ending}"


# ------------------------------------------------------------------ rows


def merge_numbered(tensors, pattern, merged):
    """Tensors numbered within a layer as one, in the order of their numbers."""
    groups, out = {}, {}
    for name, tensor in tensors.items():
        match = re.fullmatch(pattern, name)
        if match:
            parts = match.groupdict()
            group = merged.format(**{k: v for k, v in parts.items() if k != "number"})
            groups.setdefault(group, {})[int(parts["number"])] = tensor
        else:
            out[name] = tensor
    for name, parts in groups.items():
        out[name] = stack([parts[i] for i in sorted(parts)])
    return out


def split_gate_up(tensors, interleaved):
    """Llama 4 and gpt-oss: experts' matrices are transposed, gate and up are one."""
    out = {}
    for name, tensor in tensors.items():
        stem = name.removesuffix("_bias")
        ending = "bias" if stem != name else "weight"
        if not re.search(r"\.experts\.(gate_up|down)_proj$", stem):
            out[name] = tensor
            continue
        if ending == "weight":
            tensor = stack([block.transposed() for block in tensor.blocks()])
        if stem.endswith("down_proj"):
            out[f"{stem}.{ending}"] = tensor
            continue
        vectors = ending == "bias"
        blocks = ([Tensor([tensor.shape[1]], array("f", row)) for row in tensor.rows()] if vectors
                  else tensor.blocks())
        rows = blocks[0].shape[0]
        for part, first in (("gate", 0), ("up", 1)):
            order = range(first, rows, 2) if interleaved else range(first * (rows // 2),
                                                                    (first + 1) * (rows // 2))
            out[stem.replace("gate_up", part) + "." + ending] = stack(
                [block.take(order) for block in blocks])
    return out


def split_kv_b(tensors, c):
    """DeepSeek: keys and values of all heads apart; the matrix of keys is transposed."""
    out, plain = {}, c["qk_nope_head_dim"]
    each = plain + c["v_head_dim"]
    for name, tensor in tensors.items():
        if not name.endswith("kv_b_proj.weight"):
            out[name] = tensor
            continue
        heads = [tensor.take(range(i, i + each)) for i in range(0, tensor.shape[0], each)]
        out[name.replace("kv_b", "k_b")] = stack(
            [head.take(range(plain)).transposed() for head in heads])
        out[name.replace("kv_b", "v_b")] = stack([head.take(range(plain, each)) for head in heads])
    return out


def ungroup_qkv(tensor, heads):
    """GPT-NeoX: from q, k, v of each head to all q, all k, all v."""
    dim = tensor.shape[0] // heads // 3
    return tensor.take([(h * 3 + part) * dim + i
                        for part in range(3) for h in range(heads) for i in range(dim)])


NUMBERED_EXPERTS = (r"(?P<layer>model\.layers\.\d+)\.(?:mlp|block_sparse_moe)\.experts\."
                    r"(?P<number>\d+)\.(?P<part>\w+)\.weight")
NUMBERED_NORMS = (r"(?P<layer>model\.layers\.\d+)\.self_attn\.(?P<part>[qk]_layernorm)\.norms\."
                  r"(?P<number>\d+)\.weight")


def convert_tensors(architecture, c, tensors, old):
    tensors = merge_numbered(tensors, NUMBERED_EXPERTS, "{layer}.mlp.experts.{part}.weight")
    tensors = merge_numbered(tensors, NUMBERED_NORMS, "{layer}.self_attn.{part}.weight")
    if architecture in ("llama4", "gpt-oss"):
        tensors = split_gate_up(tensors, architecture == "gpt-oss")
    if architecture == "deepseek2" and not old:
        tensors = split_kv_b(tensors, c)
    for name, tensor in tensors.items():
        name = name.replace("self_attn.sinks", "self_attn.sinks.weight")
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        if name == "lm_head.weight" and c.get("tie_word_embeddings"):
            continue
        if architecture in PERMUTED and re.search(r"\.[qk]_proj\.", name):
            tensor = permuted(tensor, c["num_attention_heads" if ".q_" in name else
                                        "num_key_value_heads"])
        if architecture in GAIN_PLUS_ONE and name.endswith("norm.weight"):
            tensor = tensor.plus(1)
        if "query_key_value" in name:
            tensor = ungroup_qkv(tensor, c["num_attention_heads"])
        yield gguf_name(architecture, name), tensor


PERMUTED = ("llama", "mistral3", "smollm3", "granite", "granitemoe")
GAIN_PLUS_ONE = ("gemma", "gemma2", "gemma3", "nemotron")
MODELS = {
    "qwen3": ("qwen3", base_keys), "qwen3_moe": ("qwen3moe", moe), "gemma": ("gemma", gemma),
    "gemma2": ("gemma2", gemma2), "gemma3_text": ("gemma3", gemma3),
    "gpt_neox": ("gptneox", gpt_neox), "phi": ("phi2", phi2),
    "deepseek_v2": ("deepseek2", deepseek2), "deepseek_v3": ("deepseek2", deepseek2),
    "llama4_text": ("llama4", llama4), "gpt_oss": ("gpt-oss", gpt_oss),
    "olmo2": ("olmo2", base_keys), "granite": ("granite", granite),
    "cohere": ("command-r", cohere), "cohere2": ("cohere2", cohere2),
    "starcoder2": ("starcoder2", starcoder2), "stablelm": ("stablelm", stablelm),
    "glm4": ("glm4", glm4), "nemotron": ("nemotron", nemotron), "smollm3": ("smollm3", smollm3),
    "granitemoe": ("granitemoe", granitemoe), "mixtral": ("llama", llama),
    "ministral": ("llama", ministral), "ministral3": ("mistral3", ministral3)}




FUSED = (("attn_qkv", ("attn_q", "attn_k", "attn_v")),
         ("ffn_gate_up_exps", ("ffn_gate_exps", "ffn_up_exps")))


def fuse(tensors):
    """The matrices of FUSED as one, rows below rows, of experts each."""
    tensors = dict(tensors)
    for whole, parts in FUSED:
        for name in [n for n in tensors if re.fullmatch(rf"blk\.\d+\.{parts[0]}\.\w+", n)]:
            found = [tensors.pop(name.replace(f".{parts[0]}.", f".{part}.")) for part in parts]
            if len(found[0].shape) < 3:
                rows = Tensor([sum(t.shape[0] for t in found)] + found[0].shape[1:],
                              sum((t.data for t in found), array("f")))
            else:
                rows = stack([Tensor([2 * a.shape[0], a.shape[1]], a.data + b.data)
                              for a, b in zip(*(t.blocks() for t in found))])
            tensors[name.replace(f".{parts[0]}.", f".{whole}.")] = rows
    return tensors.items()


def add_layer_after(file, config):
    count = config["num_hidden_layers"]
    file.key("block_count", U32, count + 1)
    file.key("nextn_predict_layers", U32, 1)
    for part in ("attn_norm", "nextn.eh_proj"):
        file.add(f"blk.{count}.{part}.weight", Tensor([32], array("f", [1.0] * 32)))


def convert(config, tensors, form, experts, path):
    architecture, keys = MODELS["granitemoe" if form == "granitemoe" else config["model_type"]]
    file = File(architecture)
    rope = config.get("rope_parameters") or {}
    if architecture == "deepseek2":
        keys(file, config, rope, form == "old")
    else:
        keys(file, config, rope)
    named = convert_tensors(architecture, config, tensors, form == "old")
    for name, tensor in fuse(named) if form == "fused" else named:
        file.add(name, tensor, experts if "_exps.weight" in name else "f32")
    if form == "after":
        add_layer_after(file, config)
    file.write(path)


# ------------------------------------------------------------------ released models

LAYERS = 7


def types_of(period, near):
    return [near if i % period < period - 1 else "full_attention" for i in range(LAYERS)]


RELEASED = {
    "gemma2": {"query_pre_attn_scalar": 16, "layer_types": types_of(2, "sliding_attention")},
    "gemma3_text": {"layer_types": types_of(6, "sliding_attention")},
    "cohere2": {"layer_types": types_of(4, "sliding_attention")},
    "gpt_oss": {"swiglu_limit": 7.0, "layer_types": types_of(2, "sliding_attention"),
                "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
                                    "original_max_position_embeddings": 4096, "beta_fast": 32.0,
                                    "beta_slow": 1.0, "truncate": False}},
    "smollm3": {"no_rope_layers": [1, 1, 1, 0, 1, 1, 1],
                "layer_types": ["full_attention"] * LAYERS},
    "llama4": {"attention_chunk_size": 8192, "attn_scale": 0.1, "floor_scale": 8192,
               "no_rope_layers": [1, 1, 1, 0, 1, 1, 1], "moe_layers": [1, 3, 5],
               "layer_types": types_of(4, "chunked_attention"),
               "max_position_embeddings": 1 << 20}}


def lengthen(config, tensors):
    """More layers, each a copy of one that has experts where it must have them."""
    count, out = config["num_hidden_layers"], {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"(model\.layers\.)(\d+)(\..*)", name)
        if not match:
            out[name] = tensor
            continue
        for layer in range(LAYERS):
            source = layer % 2 if count == 3 and "moe_layers" in config else layer % count
            if source == int(match.group(2)):
                out[f"{match.group(1)}{layer}{match.group(3)}"] = tensor
    return out


def exact_experts(config, tensors):
    """gpt-oss with experts of random values that MXFP4 holds exactly, in rows of whole blocks."""
    random, width = Random(7), 32
    count, hidden = config["num_local_experts"], config["hidden_size"]
    shapes = {"gate_up_proj": [count, hidden, 2 * width], "down_proj": [count, width, hidden],
              "gate_up_proj_bias": [count, 2 * width], "down_proj_bias": [count, hidden]}
    out = {}
    for name, tensor in tensors.items():
        shape = shapes.get(name.rsplit(".", 1)[1]) if ".experts." in name else None
        if not shape:
            out[name] = tensor
            continue
        data = array("f", (random.choice((-1, 1)) * random.choice(FP4) / 16
                           for _ in range(math.prod(shape))))
        for first in range(0, len(data), math.prod(shape[1:])):
            for i in range(shape[-1]):
                data[first + i] = 4 / 16  # the largest of its block, so that its scale is known
        out[name] = Tensor(shape, data)
    config["intermediate_size"] = width
    return out


def save(config, tensors, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, at = {}, 0
    for name, tensor in tensors.items():
        size = 4 * len(tensor.data)
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    data = b"".join(tensor.data.tobytes() for tensor in tensors.values())
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + data)


def release(config, tensors, experts, folder):
    save(config, tensors, folder)
    convert(config, tensors, "", experts, folder.with_suffix(".gguf"))


FORMS = {"deepseek_v2": ("", "old"), "deepseek_v2_yarn": ("", "old"),
         "deepseek_v2_group": ("", "old"), "deepseek_v3": ("", "old", "after", "fused"),
         "qwen3_moe": ("", "fused"), "granite": ("", "fused"), "glm4": ("", "fused"),
         "mixtral": ("", "granitemoe")}


def models_of(roots):
    """The folders of models, the first of each name."""
    if os.environ.get("PC_TEST_DATA"):
        roots = [Path(os.environ["PC_TEST_DATA"]) / "golden"] + roots[1:]
    found = {f.name: f for root in reversed(roots) if root.is_dir() for f in root.iterdir()}
    return [found[name] for name in sorted(found)]


def convert_all(roots, out):
    for part in ("golden", "released"):
        shutil.rmtree(out / part, ignore_errors=True)
        (out / part).mkdir(parents=True)
    for folder in models_of(roots):
        path = folder / "config.json"
        if not path.is_file() or json.loads(path.read_text())["model_type"] not in MODELS:
            continue
        config, tensors = load(folder)
        for form in FORMS.get(folder.name, ("",)):
            name = f"{folder.name}.{form}.gguf".replace("..", ".")
            try:
                convert(config, tensors, form, "f32", out / "golden" / name)
            except Lossy as lost:
                print(f"{folder}: GGUF cannot say {lost}")
        if folder.name in RELEASED:
            config.update(RELEASED[folder.name])
            tensors = lengthen(config, tensors)
            config["num_hidden_layers"] = LAYERS
            release(config, tensors, "f32", out / "released" / folder.name)
        if folder.name == "gpt_oss":
            release(config, exact_experts(config, tensors), "mxfp4", out / "released" / "mxfp4")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=("", "old", "fused", "after", "granitemoe"), default="")
    parser.add_argument("--experts", choices=TYPES, default="f32")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("paths", nargs="+", type=Path)
    options = parser.parse_args()
    if options.all:
        convert_all(options.paths[1:], options.paths[0])
        return
    source, out = options.paths
    config, tensors = load(source)
    try:
        convert(config, tensors, options.form, options.experts, out)
    except Lossy as lost:
        print(f"{source}: GGUF cannot say {lost}")
        sys.exit(77)


if __name__ == "__main__":
    main()

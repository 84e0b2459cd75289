#!/usr/bin/env python3
"""Writes the vectors of quantised GGUF files: vector_ggufs.py OUT (test/golden/models/gguf).

OUT/llama.json describes a small Llama in each block format: keys, tensors, and how their bytes
follow from their names. test/support/write_models.c writes the files. OUT/NAME.safetensors has the
logits of transformers, in double precision, for the weights that the public reader of the format
(gguf 0.19.0 from PyPI) makes of the same bytes.
"""
import argparse
import json

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

import seeded
from variants import double

HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, LAYERS, TOKENS = 256, 8, 4, 256, 512, 2, 8


def half(value):
    return int(np.float16(value).view(np.uint16))


def scale(at, value):
    """An fp16 scale whose low bits are random: up to a quarter more."""
    return [at, 0x00FF, half(value) & 0xFF00]


# Values and bytes of a block; then [byte, mask, bits] of 16-bit words: of the random word there
# only the bits of the mask stay, the others are given.
TYPES = {
    "f32": [0, 1, 4, []],
    "f16": [1, 1, 2, [[0, 0x8FFF, 8 << 10]]],
    "bf16": [30, 1, 2, [[0, 0x81FF, 120 << 7]]],
    "q8_0": [8, 32, 34, [scale(0, 0.0006)]],
    "q4_0": [2, 32, 18, [scale(0, 0.0096)]],
    "q4_1": [3, 32, 20, [scale(0, 0.0096), scale(2, -0.072)]],
    "q5_0": [6, 32, 22, [scale(0, 0.0048)]],
    "q5_1": [7, 32, 24, [scale(0, 0.0048), scale(2, -0.0744)]],
    "q2_k": [10, 256, 84, [scale(80, 0.00324), scale(82, 0.00486)]],
    "q3_k": [11, 256, 110, [scale(108, 0.00102)]],
    "q4_k": [12, 256, 144, [scale(0, 0.000174), scale(2, 0.00132)]],
    "q5_k": [13, 256, 176, [scale(0, 8.7e-05), scale(2, 0.00132)]],
    "q6_k": [14, 256, 210, [scale(208, 3.6e-05)]],
    "iq4_nl": [20, 32, 18, [scale(0, 0.000642)]],
    "iq4_xs": [23, 256, 136, [scale(0, 3.6e-05)]],
}


def tensors():
    kv = HIDDEN // HEADS * KV_HEADS
    yield "token_embd.weight", [VOCAB, HIDDEN], "embed_tokens.weight"
    for layer in range(LAYERS):
        for name, shape, theirs in (
                ("attn_norm", [HIDDEN], "input_layernorm"),
                ("attn_q", [HIDDEN, HIDDEN], "self_attn.q_proj"),
                ("attn_k", [kv, HIDDEN], "self_attn.k_proj"),
                ("attn_v", [kv, HIDDEN], "self_attn.v_proj"),
                ("attn_output", [HIDDEN, HIDDEN], "self_attn.o_proj"),
                ("ffn_norm", [HIDDEN], "post_attention_layernorm"),
                ("ffn_gate", [FFN, HIDDEN], "mlp.gate_proj"),
                ("ffn_up", [FFN, HIDDEN], "mlp.up_proj"),
                ("ffn_down", [HIDDEN, FFN], "mlp.down_proj")):
            yield f"blk.{layer}.{name}.weight", shape, f"layers.{layer}.{theirs}.weight"
    yield "output_norm.weight", [HIDDEN], "norm.weight"
    yield "output.weight", [VOCAB, HIDDEN], "lm_head.weight"


def type_of(kind, name, shape):
    if len(shape) == 1:
        return "f32"
    if kind == "q4_k_m":
        more = name == "output.weight" or name.startswith("blk.1.") and (
            "attn_v" in name or "ffn_down" in name)
        return "q6_k" if more else "q4_k"
    return kind


def block_bytes(name, shape, kind):
    _, values, size, words = TYPES[kind]
    count = int(np.prod(shape)) // values
    raw = seeded.hashes(seeded.name_seed(name), (count * size + 7) // 8).view(np.uint8)
    blocks = raw[:count * size].copy().reshape(count, size)
    for at, mask, bits in words:
        word = blocks[:, at].astype(np.uint16) | blocks[:, at + 1].astype(np.uint16) << 8
        word = word & mask | bits
        blocks[:, at], blocks[:, at + 1] = word & 0xFF, word >> 8
    return blocks.reshape(shape[0], -1)


def weights(file, name, shape, kind):
    if kind == "f32":
        one_row = len(shape) == 1
        return seeded.values(f"{file}/{name}", shape, 0.3 if one_row else 0.075, float(one_row))
    blocks = block_bytes(f"{file}/{name}", shape, kind)
    if kind == "bf16":
        return (blocks.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return quants.dequantize(blocks, GGMLQuantizationType(TYPES[kind][0])).astype(
        np.float32).reshape(shape)


def unpermuted(rows, heads):
    """From neighbours to halves: GGUF has row i of a head at 2i, row i + dim/2 at 2i + 1."""
    parts = rows.reshape(heads, -1, 2, rows.shape[1])
    return parts.transpose(0, 2, 1, 3).reshape(rows.shape)


def logits(file, plan, ids):
    state = {}
    for name, shape, theirs, kind in plan:
        rows = weights(file, name, shape, kind)
        if "attn_q" in name or "attn_k" in name:
            rows = unpermuted(rows, HEADS if "attn_q" in name else KV_HEADS)
        state["lm_head.weight" if theirs.startswith("lm_head") else "model." + theirs] = (
            torch.from_numpy(np.ascontiguousarray(rows)))
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN,
                         num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                         num_key_value_heads=KV_HEADS, rms_norm_eps=1e-5,
                         tie_word_embeddings=False)
    config._attn_implementation = "eager"
    with double(), torch.no_grad():
        model = LlamaForCausalLM(config).double().eval()
        model.load_state_dict(state)
        return model(torch.tensor([ids])).logits[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    out = parser.parse_args().out
    ids = [3 + h % (VOCAB - 3) for h in seeded.hashes(1, TOKENS).tolist()]
    files = {}
    for kind in list(TYPES) + ["q4_k_m"]:
        file = "llama-" + kind
        plan = [(n, s, t, type_of(kind, n, s)) for n, s, t in tensors()]
        files[file] = {name: used for name, shape, _, used in plan if len(shape) > 1}
        result = logits(file, plan, ids)
        print(file, float(result.abs().max()))
        save_file({"plain/ids": torch.tensor(ids, dtype=torch.int32),
                   "plain/pos": torch.arange(TOKENS, dtype=torch.int32),
                   "plain/logits": result.to(torch.float32)},
                  f"{out}/{file}.safetensors")
    keys = [["general.architecture", "llama"], ["llama.block_count", LAYERS],
            ["llama.context_length", 256], ["llama.embedding_length", HIDDEN],
            ["llama.feed_forward_length", FFN], ["llama.attention.head_count", HEADS],
            ["llama.attention.head_count_kv", KV_HEADS],
            ["llama.attention.layer_norm_rms_epsilon", 1e-5],
            ["llama.rope.freq_base", 10000.0], ["llama.rope.dimension_count", HIDDEN // HEADS],
            ["llama.vocab_size", VOCAB], ["general.quantization_version", 2]]
    description = {"keys": keys, "vocabulary": VOCAB, "types": TYPES, "files": files,
                   "tensors": [[n, s] for n, s, _ in tensors()]}
    with open(f"{out}/llama.json", "w") as file:
        json.dump(description, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()

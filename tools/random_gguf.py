#!/usr/bin/env python3
"""Writes a GGUF file of the shape of a Llama with 1.1 billion weights, all random, to measure
memory, loading and speed with: random_gguf.py FILE q4_k_m|q4_k [LAYERS]

q4_k: Q4_K everywhere. q4_k_m: Q6_K in half of attn_v and ffn_down and in the output, as in the
mixture of llama.cpp of that name. Needs numpy."""
import struct
import sys

import numpy as np

HIDDEN, WIDTH, VOCAB, HEADS, KV_HEADS = 2048, 5632, 32000, 32, 4
TYPES = {"f32": (0, 1, 4), "q4_k": (12, 256, 144), "q6_k": (14, 256, 210)}  # number, block, bytes
U32, F32, TEXT, ARRAY, I32 = 4, 6, 8, 9, 5


def more_bits(layer, layers):
    """The layers whose attn_v and ffn_down have more bits: the outer ones, and every third."""
    inner = layer - layers // 8
    return inner < 0 or layer >= 7 * layers // 8 or inner % 3 == 2


def tensors(mixture, layers):
    most = "q6_k" if mixture == "q4_k_m" else "q4_k"
    kv = HIDDEN // HEADS * KV_HEADS
    yield "token_embd.weight", (VOCAB, HIDDEN), "q4_k"
    for layer in range(layers):
        some = most if more_bits(layer, layers) else "q4_k"
        for name, shape, kind in (
            ("attn_norm", (HIDDEN,), "f32"),
            ("attn_q", (HIDDEN, HIDDEN), "q4_k"),
            ("attn_k", (kv, HIDDEN), "q4_k"),
            ("attn_v", (kv, HIDDEN), some),
            ("attn_output", (HIDDEN, HIDDEN), "q4_k"),
            ("ffn_norm", (HIDDEN,), "f32"),
            ("ffn_gate", (WIDTH, HIDDEN), "q4_k"),
            ("ffn_up", (WIDTH, HIDDEN), "q4_k"),
            ("ffn_down", (HIDDEN, WIDTH), some),
        ):
            yield f"blk.{layer}.{name}.weight", shape, kind
    yield "output_norm.weight", (HIDDEN,), "f32"
    yield "output.weight", (VOCAB, HIDDEN), most


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def keys(layers):
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    words += [f"t{i}" for i in range(VOCAB - len(words))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259)

    scores = -np.arange(VOCAB, dtype=np.float32)

    def array(kind, data):
        return struct.pack("<IQ", kind, VOCAB) + data

    numbers = {
        "llama.context_length": 2048, "llama.embedding_length": HIDDEN,
        "llama.block_count": layers, "llama.feed_forward_length": WIDTH,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.dimension_count": HIDDEN // HEADS, "llama.vocab_size": VOCAB,
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    result = [("general.architecture", TEXT, text("llama"))]
    result += [(name, U32, struct.pack("<I", value)) for name, value in numbers.items()]
    result += [
        ("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        ("tokenizer.ggml.model", TEXT, text("llama")),
        ("tokenizer.ggml.tokens", ARRAY, array(TEXT, b"".join(map(text, words)))),
        ("tokenizer.ggml.scores", ARRAY, array(F32, scores.tobytes())),
        ("tokenizer.ggml.token_type", ARRAY, array(I32, np.array(kinds, np.int32).tobytes())),
    ]
    return result


def values(shape, kind, rng):
    """Random blocks with scales that make weights of about 0.02."""
    if kind == "f32":
        return np.ones(shape, np.float32).tobytes()
    _, block, size = TYPES[kind]
    blocks = rng.integers(0, 256, (int(np.prod(shape)) // block, size), dtype=np.uint8)
    places = {"q4_k": ((0, 1.6e-4), (2, 1.2e-3)), "q6_k": ((208, 2e-5),)}[kind]
    for at, scale in places:
        blocks[:, at : at + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    return blocks.tobytes()


def padded(data):
    return data + b"\0" * (-len(data) % 32)


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in ("q4_k_m", "q4_k"):
        sys.exit(__doc__)
    layers = int(sys.argv[3]) if len(sys.argv) == 4 else 22
    all_tensors, all_keys = list(tensors(sys.argv[2], layers)), keys(layers)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(all_keys))
    head += b"".join(text(name) + struct.pack("<I", kind) + data for name, kind, data in all_keys)
    offset = 0
    for name, shape, kind in all_tensors:
        number, block, size = TYPES[kind]
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *reversed(shape), number, offset)
        offset += (int(np.prod(shape)) // block * size + 31) // 32 * 32
    rng = np.random.default_rng(1)
    with open(sys.argv[1], "wb") as out:
        out.write(padded(head))
        for _, shape, kind in all_tensors:
            out.write(padded(values(shape, kind, rng)))


main()

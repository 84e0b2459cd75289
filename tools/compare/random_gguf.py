"""Writes Llama models with random weights as GGUF files, to measure speed where no trained weights
are at hand.

    random_gguf.py OUT.gguf [--type bf16|q8_0|f32] [--shape llama-1b|tiny] [--seed N]

The same seed and shape give the same weights before rounding, whatever the type. Weights are
normal, scaled so that activations stay near one; the
vocabulary is made up (bytes and numbered words). Needs numpy. The format is described in GGUF's
own document (ggml/docs/gguf.md).
"""
import argparse
import os
import struct

import numpy as np

SHAPES = {  # layers, width, heads, K/V heads, FFN width, vocabulary
    "llama-1b": (22, 2048, 32, 4, 5632, 32000),
    "tiny": (2, 256, 8, 2, 704, 1000),
}
CONTEXT = 32768
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9
ALIGN = 32


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind, value):
    return text(value) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32: "<f"}[kind],
                                                          value)


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + scalar(kind, value)


def array(key, kind, values):
    head = text(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(scalar(kind, v) for v in values)


def vocabulary(size):
    """Three special tokens, 256 bytes, numbered words."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    kinds = [2, 3, 3] + [6] * 256  # unknown, control, byte
    tokens += [f"\u2581w{i}" for i in range(size - len(tokens))]
    kinds += [1] * (size - len(kinds))
    return tokens, [-float(i) for i in range(size)], kinds


def metadata(name, shape, kind):
    layers, width, heads, kv_heads, ffn, size = SHAPES[shape]
    tokens, scores, kinds = vocabulary(size)
    return [
        pair("general.architecture", STRING, "llama"),
        pair("general.name", STRING, name),
        pair("general.file_type", U32, {"f32": 0, "q8_0": 7, "bf16": 32}[kind]),
        pair("llama.context_length", U32, CONTEXT),
        pair("llama.embedding_length", U32, width),
        pair("llama.block_count", U32, layers),
        pair("llama.feed_forward_length", U32, ffn),
        pair("llama.attention.head_count", U32, heads),
        pair("llama.attention.head_count_kv", U32, kv_heads),
        pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        pair("llama.rope.dimension_count", U32, width // heads),
        pair("llama.rope.freq_base", F32, 10000.0),
        pair("llama.vocab_size", U32, size),
        pair("tokenizer.ggml.model", STRING, "llama"),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.scores", F32, scores),
        array("tokenizer.ggml.token_type", I32, kinds),
        pair("tokenizer.ggml.bos_token_id", U32, 1),
        pair("tokenizer.ggml.eos_token_id", U32, 2),
        pair("tokenizer.ggml.unknown_token_id", U32, 0),
    ]


def tensors(shape):
    """(name, rows, columns, scale); rows 0: a norm, all ones."""
    layers, width, heads, kv_heads, ffn, size = SHAPES[shape]
    kv = width // heads * kv_heads
    deep = (2 * layers) ** -0.5  # keeps the residual stream from growing with depth
    yield "token_embd.weight", size, width, 1.0
    yield "output_norm.weight", 0, width, 1.0
    yield "output.weight", size, width, width**-0.5
    for i in range(layers):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", 0, width, 1.0
        yield at + "attn_q.weight", width, width, width**-0.5
        yield at + "attn_k.weight", kv, width, width**-0.5
        yield at + "attn_v.weight", kv, width, width**-0.5
        yield at + "attn_output.weight", width, width, deep * width**-0.5
        yield at + "ffn_norm.weight", 0, width, 1.0
        yield at + "ffn_gate.weight", ffn, width, width**-0.5
        yield at + "ffn_up.weight", ffn, width, width**-0.5
        yield at + "ffn_down.weight", width, ffn, deep * ffn**-0.5


def bf16(values):
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def q8_0(values):
    """Blocks of 32: an fp16 scale (largest magnitude / 127), then 32 bytes."""
    blocks = values.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    out = np.empty(len(blocks), dtype=[("scale", "<f2"), ("codes", "i1", 32)])
    out["scale"] = scale
    out["codes"] = np.rint(blocks * inverse[:, None])
    return out.tobytes()


TYPES = {  # id, bytes a block, values a block, conversion
    "f32": (0, 4, 1, lambda v: v.astype("<f4").tobytes()),
    "q8_0": (8, 34, 32, q8_0),
    "bf16": (30, 2, 1, bf16),
}


def write(path, kind, shape, seed):
    table, offset, plan = b"", 0, list(tensors(shape))
    for name, rows, columns, _ in plan:
        number, size, values, _ = TYPES[kind if rows else "f32"]
        dims = (columns, rows) if rows else (columns,)
        table += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset)
        offset += (columns * max(rows, 1) // values * size + ALIGN - 1) // ALIGN * ALIGN
    pairs = metadata(os.path.basename(path), shape, kind)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(plan), len(pairs)) + b"".join(pairs) + table
    random = np.random.default_rng(seed)
    with open(path + ".part", "wb") as file:
        file.write(head + bytes(-len(head) % ALIGN))
        for name, rows, columns, scale in plan:
            if rows:
                values = random.standard_normal(rows * columns,
                                                dtype=np.float32) * np.float32(scale)
                if name == "output.weight":
                    values[: 3 * columns] = 0  # the special tokens, so that no text ends by chance
                raw = TYPES[kind][3](values)
            else:
                raw = np.ones(columns, dtype="<f4").tobytes()
            file.write(raw + bytes(-len(raw) % ALIGN))
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--type", choices=TYPES, default="q8_0")
    parser.add_argument("--shape", choices=SHAPES, default="llama-1b")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.out, options.type, options.shape, options.seed)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets: small valid inputs and each kind of damage, in one
folder for each target.

    make_corpus.py [FOLDER]      (default: corpus/ beside this file)

Files that a fuzzer found (found_*) stay."""
import base64
import hashlib
import json
import os
import struct
import sys

ROOT = (sys.argv[1] if len(sys.argv) > 1
        else os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus"))
MARK = "\u2581"


def save(target, name, data):
    folder = os.path.join(ROOT, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


# ---------------------------------------------------------------------- GGUF

U8, U32, I32, F32, BOOL, STR, ARR, U64, F64 = 0, 4, 5, 6, 7, 8, 9, 10, 12
PACK = {U8: "<B", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", F64: "<d"}


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value_of(kind, value):
    return text(value) if kind == STR else struct.pack(PACK[kind], value)


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value_of(kind, value)


def array(name, kind, values, count=None):
    head = text(name) + struct.pack("<IIQ", ARR, kind, len(values) if count is None else count)
    return head + b"".join(value_of(kind, v) for v in values)


def tensor(name, dims, kind, offset, rank=None):
    head = text(name) + struct.pack("<I", len(dims) if rank is None else rank)
    return head + b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset)


def gguf(keys, tensors=(), data=b"", version=3, magic=b"GGUF", key_count=None, tensor_count=None):
    head = (magic
            + struct.pack("<IQQ", version, len(tensors) if tensor_count is None else tensor_count,
                          len(keys) if key_count is None else key_count))
    head += b"".join(keys) + b"".join(tensors)
    if tensors:
        head += b"\0" * (-len(head) % 32)
    return head + data


TOKENS = ["<unk>", "<s>", "</s>", MARK, "a", "b", MARK + "a", "ab"]
TYPES = [2, 3, 3, 1, 1, 1, 1, 1]


def vocabulary(model="llama", tokens=TOKENS, types=TYPES, **more):
    keys = [key("tokenizer.ggml.model", STR, model), array("tokenizer.ggml.tokens", STR, tokens),
            array("tokenizer.ggml.token_type", I32, types),
            array("tokenizer.ggml.scores", F32, [-float(i) for i in range(len(tokens))]),
            key("tokenizer.ggml.bos_token_id", U32, 1), key("tokenizer.ggml.eos_token_id", U32, 2),
            key("tokenizer.ggml.unknown_token_id", U32, 0)]
    return keys + [key(name, *pair) for name, pair in more.items()]


# (type number, bytes a block, elements a block)
BLOCKS = {"F32": (0, 4, 1), "F16": (1, 2, 1), "Q4_0": (2, 18, 32), "Q8_0": (8, 34, 32),
          "Q4_K": (12, 144, 256), "Q6_K": (14, 210, 256), "BF16": (30, 2, 1)}


def weights(shapes, fill):
    """Descriptions and data of named tensors; fill(kind, bytes) gives the contents."""
    out, data = [], b""
    for name, dims, kind in shapes:
        number, size, block = BLOCKS[kind]
        elements = 1
        for d in dims:
            elements *= d
        out.append(tensor(name, dims, number, len(data)))
        data += fill(kind, elements // block * size)
        data += b"\0" * (-len(data) % 32)
    return out, data


def gentle(kind, size):
    """Finite and small in every type: zeros but for a pattern in the low bits of the mantissas."""
    if kind == "F32":
        return b"".join(struct.pack("<f", ((i * 37) % 19 - 9) / 64) for i in range(size // 4))
    if kind == "F16":
        return b"".join(struct.pack("<e", ((i * 37) % 19 - 9) / 64) for i in range(size // 2))
    if kind in ("Q8_0", "Q4_0"):
        block = 34 if kind == "Q8_0" else 18
        return ((struct.pack("<e", 1 / 64) + bytes((i * 7) % 256 for i in range(block - 2)))
                * (size // block))
    return bytes(size)


def llama_keys(**change):
    keys = {"llama.block_count": (U32, 1), "llama.embedding_length": (U32, 32),
            "llama.feed_forward_length": (U32, 32), "llama.context_length": (U32, 64),
            "llama.attention.head_count": (U32, 4), "llama.attention.head_count_kv": (U32, 2),
            "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
            "llama.rope.dimension_count": (U32, 8)}
    keys.update(change)
    return [key("general.architecture", STR, "llama")] + [key(k, *v) for k, v in keys.items() if v]


def llama_shapes(kind="F16"):
    return [("token_embd.weight", (32, 8), "F32"), ("output_norm.weight", (32,), "F32"),
            ("output.weight", (32, 8), kind), ("blk.0.attn_norm.weight", (32,), "F32"),
            ("blk.0.ffn_norm.weight", (32,), "F32"), ("blk.0.attn_q.weight", (32, 32), kind),
            ("blk.0.attn_k.weight", (32, 16), kind), ("blk.0.attn_v.weight", (32, 16), kind),
            ("blk.0.attn_output.weight", (32, 32), kind), ("blk.0.ffn_gate.weight", (32, 32), kind),
            ("blk.0.ffn_up.weight", (32, 32), kind), ("blk.0.ffn_down.weight", (32, 32), kind)]


def gpt2():
    keys = [key("general.architecture", STR, "gpt2"), key("gpt2.block_count", U32, 1),
            key("gpt2.embedding_length", U32, 32), key("gpt2.feed_forward_length", U32, 32),
            key("gpt2.context_length", U32, 16), key("gpt2.attention.head_count", U32, 2),
            key("gpt2.attention.layer_norm_epsilon", F32, 1e-5)]
    shapes = [("token_embd.weight", (32, 8), "F16"), ("position_embd.weight", (32, 16), "F16")]
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        shapes += [(name + ".weight", (32,), "F32"), (name + ".bias", (32,), "F32")]
    for name, out in (("attn_qkv", 96), ("attn_output", 32), ("ffn_up", 32), ("ffn_down", 32)):
        shapes += [("blk.0." + name + ".weight", (32, out), "Q8_0"),
                   ("blk.0." + name + ".bias", (out,), "F32")]
    return gguf(keys, *weights(shapes, gentle))


def make_gguf():
    save("gguf", "llama_q8_0", gguf(llama_keys(), *weights(llama_shapes("Q8_0"), gentle)))
    good = gguf(llama_keys() + vocabulary(), *weights(llama_shapes("Q4_0"), gentle))
    save("gguf", "llama_q4_0", good)
    save("gguf", "gpt2", gpt2())
    for end in (0, 3, 7, 12, 20, 24, 30, 60, 400, 1000, 2000, len(good) - 1):
        save("gguf", "truncated_%d" % end, good[:end])
    save("gguf", "vocabulary", gguf(vocabulary()))
    save("gguf", "vocabulary_bpe",
         gguf(vocabulary("gpt2", ["a", "b", "ab", "\u0120", "\u0120a", "<s>", "x", "y"],
                         [1, 1, 1, 1, 1, 3, 4, 1])
              + [array("tokenizer.ggml.merges", STR, ["a b", "\u0120 a"]),
                 key("tokenizer.ggml.pre", STR, "llama-bpe")]))
    save("gguf", "vocabulary_bert", gguf(vocabulary(
        "bert", ["[UNK]", "[CLS]", "[SEP]", MARK + "a", "b", MARK + "b", "c", "d"])))
    save("gguf", "vocabulary_t5",
         gguf(vocabulary("t5") + [array("tokenizer.ggml.precompiled_charsmap", U8, CHARSMAP),
                                  key("tokenizer.ggml.remove_extra_whitespaces", BOOL, 1)]))
    save("gguf", "charsmap_bad",
         gguf(vocabulary("t5") + [array("tokenizer.ggml.precompiled_charsmap", U8, b"\xff" * 9)]))
    save("gguf", "charsmap_text",
         gguf(vocabulary("t5") + [key("tokenizer.ggml.precompiled_charsmap", STR, "x")]))
    save("gguf", "merge_unknown", gguf(vocabulary("gpt2", ["a", "b", "c", "d"], [1] * 4)
                                       + [array("tokenizer.ggml.merges", STR, ["a b"])]))
    save("gguf", "merge_odd", gguf(vocabulary("gpt2", ["a", "b"], [1] * 2) + [
        array("tokenizer.ggml.merges", STR, ["", " ", "a", "a ", " a", "a  b"])]))
    save("gguf", "pre_unknown", gguf(vocabulary("gpt2", **{"tokenizer.ggml.pre": (STR, "nobody")})))
    save("gguf", "kind_unknown", gguf(vocabulary("rwkv")))
    save("gguf", "score_nan",
         gguf(vocabulary()[:3] + [array("tokenizer.ggml.scores", F64, [float("nan")] * 8)]))
    save("gguf", "score_huge",
         gguf(vocabulary()[:3] + [array("tokenizer.ggml.scores", F64, [1e300] * 8)]))
    save("gguf", "types_short", gguf(vocabulary(types=TYPES[:3])))
    save("gguf", "type_unknown", gguf(vocabulary(types=[77] * 8)))
    save("gguf", "id_beyond", gguf(vocabulary()[:4] + [key("tokenizer.ggml.bos_token_id", U32, 8)]))
    save("gguf", "tokens_no_strings", gguf([key("tokenizer.ggml.model", STR, "llama"),
                                            array("tokenizer.ggml.tokens", U32, [1, 2, 3])]))
    save("gguf", "special_long", gguf(vocabulary(tokens=["<unk>", "a" * 3000], types=[2, 3])))
    # counts and lengths beyond the file
    save("gguf", "many_tensors", gguf(llama_keys(), tensor_count=1 << 63))
    save("gguf", "many_keys", gguf(llama_keys(), key_count=(1 << 64) - 1))
    save("gguf", "key_length", gguf([struct.pack("<Q", (1 << 64) - 1) + b"abc"], key_count=1))
    save("gguf", "string_length", gguf([text("k") + struct.pack("<IQ", STR, 1 << 62)]))
    save("gguf", "array_overflow", gguf([array("k", U64, [1], 1 << 61)]))
    save("gguf", "array_strings", gguf([array("k", STR, ["a"], (1 << 64) - 1)]))
    save("gguf", "array_nested",
         gguf([text("k") + struct.pack("<IIQ", ARR, ARR, 1) + struct.pack("<IQ", U32, 0)]))
    save("gguf", "value_type", gguf([text("k") + struct.pack("<I", 99)]))
    save("gguf", "version_1", gguf(llama_keys(), version=1))
    save("gguf", "big_endian", gguf(llama_keys(), version=0x03000000))
    save("gguf", "magic", gguf(llama_keys(), magic=b"GGUX"))
    save("gguf", "key_twice", gguf([key("k", U32, 1)] * 2))
    save("gguf", "key_empty", gguf([key("", U32, 1)]))
    save("gguf", "key_nul", gguf([key("a\0b", U32, 1)]))
    for alignment in (0, 3, 64, 1 << 31):
        save("gguf", "alignment_%d" % alignment, gguf(
            [key("general.alignment", U32, alignment)], [tensor("t", (4,), 0, 0)], bytes(256)))
    save("gguf", "split", gguf([key("split.count", U32, 3)]))
    # tensors
    one = [key("general.architecture", STR, "llama")]
    save("gguf", "tensor_twice",
         gguf(one, [tensor("t", (8,), 0, 0), tensor("t", (8,), 0, 32)], bytes(64)))
    save("gguf", "tensor_rank_5", gguf(one, [tensor("t", (1,) * 5, 0, 0)], bytes(64)))
    save("gguf", "tensor_rank_0", gguf(one, [tensor("t", (), 0, 0)], bytes(64)))
    save("gguf", "tensor_overflow", gguf(one, [tensor("t", (1 << 40, 1 << 40), 0, 0)], bytes(64)))
    save("gguf", "tensor_zero", gguf(one, [tensor("t", (0, 1 << 60), 0, 0)], bytes(64)))
    save("gguf", "tensor_part_block", gguf(one, [tensor("t", (33,), 8, 0)], bytes(64)))
    save("gguf", "tensor_type", gguf(one, [tensor("t", (32,), 16, 0)], bytes(64)))
    save("gguf", "tensor_beyond", gguf(one, [tensor("t", (32,), 0, 1 << 40)], bytes(64)))
    save("gguf", "tensor_unaligned", gguf(one, [tensor("t", (8,), 0, 4)], bytes(64)))
    save("gguf", "tensor_overlap",
         gguf(one, [tensor("t", (16,), 0, 0), tensor("u", (8,), 0, 32)], bytes(96)))
    # numbers that are none
    for kind, bad in (("F32", struct.pack("<f", float("nan"))),
                      ("F16", struct.pack("<e", float("inf")))):
        save("gguf", "nan_" + kind.lower(),
             gguf(one, [tensor("t", (8,), BLOCKS[kind][0], 0)], bad * 8 + bytes(32)))
    for kind in ("Q4_0", "Q8_0", "Q4_K", "Q6_K"):
        number, size, block = BLOCKS[kind]
        save("gguf", "nan_scale_" + kind.lower(),
             gguf(one, [tensor("t", (block,), number, 0)], b"\xff\x7f" * (size // 2)))
    # sizes of a model
    shapes = weights(llama_shapes("Q4_0"), gentle)
    for name, change in {"heads_0": {"llama.attention.head_count": (U32, 0)},
                         "heads_5": {"llama.attention.head_count": (U32, 5)},
                         "kv_heads_3": {"llama.attention.head_count_kv": (U32, 3)},
                         "layers_huge": {"llama.block_count": (U32, 0x7fffffff)},
                         "hidden_huge": {"llama.embedding_length": (U32, 0xffffffff)},
                         "no_layers": {"llama.block_count": None},
                         "eps_nan": {"llama.attention.layer_norm_rms_epsilon": (F32, float("nan"))},
                         "theta_0": {"llama.rope.freq_base": (F32, 0.0)},
                         "rope_odd": {"llama.rope.dimension_count": (U32, 7)},
                         "rope_wide": {"llama.rope.dimension_count": (U32, 64)},
                         "context_huge": {"llama.context_length": (U32, 0x7fffffff)},
                         "yarn": {"llama.rope.scaling.type": (STR, "yarn"),
                                  "llama.rope.scaling.factor": (F32, 4.0),
                                  "llama.rope.scaling.original_context_length": (U32, 16)},
                         "yarn_factor_0": {"llama.rope.scaling.type": (STR, "yarn"),
                                           "llama.rope.scaling.factor": (F32, 0.0)},
                         "scaling_unknown": {"llama.rope.scaling.type": (STR, "twist")},
                         "experts": {"llama.expert_count": (U32, 8)},
                         "window": {"llama.attention.sliding_window": (U32, 1)},
                         "scale": {"llama.attention.scale": (F32, -1.0)}}.items():
        save("gguf", "llama_" + name,
             gguf(llama_keys(**change), shapes[0], shapes[1]) if name in ("yarn", "window")
             else gguf(llama_keys(**change), [tensor("token_embd.weight", (32, 2), 1, 0)],
                       gentle("F16", 128)))


# --------------------------------------------------------------- safetensors

def safetensors(header, data=b"", length=None):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    good = safetensors({"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 3], 0, 24),
                        "b": entry("BF16", [4], 24, 32)},
                       gentle("F32", 24) + bytes(8))
    save("safetensors", "good", good)
    for end in (0, 4, 8, 20, len(good) - 1):
        save("safetensors", "truncated_%d" % end, good[:end])
    save("safetensors", "empty_header", safetensors({}))
    save("safetensors", "scalar", safetensors({"a": entry("F32", [], 0, 4)}, bytes(4)))
    save("safetensors", "length_huge", safetensors({}, length=(1 << 64) - 1))
    save("safetensors", "length_7f", safetensors({}, length=1 << 62))
    save("safetensors", "no_json", safetensors(b"{\"a\":"))
    save("safetensors", "no_object", safetensors([1, 2]))
    save("safetensors", "deep", safetensors(b"[" * 3000))
    save("safetensors", "twice",
         safetensors(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                     b'"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)))
    for name, info, size in (
        ("gap", entry("F32", [1], 4, 8), 8), ("beyond", entry("F32", [4], 0, 16), 8),
        ("short", entry("F32", [4], 0, 8), 8), ("reversed", entry("F32", [1], 8, 4), 8),
        ("negative", entry("F32", [-1], 0, 4), 4),
        ("overflow", entry("F32", [1 << 40, 1 << 40], 0, 4), 4),
        ("zero", entry("F32", [0, 1 << 62], 0, 0), 0), ("rank_5", entry("F32", [1] * 5, 0, 4), 4),
        ("dtype", entry("F8_E4M3", [4], 0, 4), 4), ("bool", entry("BOOL", [4], 0, 4), 4),
        ("no_dtype", {"shape": [1], "data_offsets": [0, 4]}, 4),
        ("shape_text", {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}, 4),
        ("offsets_3", {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}, 4),
        ("number", 5, 4),
        ("huge_int", {"dtype": "F32", "shape": [1], "data_offsets": [0, 9223372036854775807]}, 4)):
        save("safetensors", name, safetensors({"a": info}, bytes(size)))
    save("safetensors", "nan",
         safetensors({"a": entry("F32", [1], 0, 4)}, struct.pack("<f", float("nan"))))
    save("safetensors", "f64_inf",
         safetensors({"a": entry("F64", [1], 0, 8)}, struct.pack("<d", 1e300)))
    save("safetensors", "overlap",
         safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, bytes(12)))


# -------------------------------------------------------------------- config

LLAMA = {"model_type": "llama", "vocab_size": 32, "hidden_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
         "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
         "hidden_act": "silu"}


def make_config():
    def case(name, change=None, base=LLAMA, drop=()):
        config = dict(base, **(change or {}))
        for k in drop:
            config.pop(k, None)
        save("config", name, json.dumps(config))

    case("llama")
    case("mistral", {"model_type": "mistral", "sliding_window": 16})
    case("qwen2",
         {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1,
          "sliding_window": 8})
    case("qwen2_types", {"model_type": "qwen2", "use_sliding_window": True,
                         "layer_types": ["full_attention", "sliding_attention"]})
    case("phi3",
         {"model_type": "phi3", "head_dim": 8, "original_max_position_embeddings": 32,
          "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4,
                           "long_factor": [2.0] * 4}})
    case("phi", {"model_type": "phi", "partial_rotary_factor": 0.5, "layer_norm_eps": 1e-5})
    case("falcon",
         {"model_type": "falcon", "multi_query": True, "parallel_attn": True,
          "new_decoder_architecture": False, "bias": False, "alibi": False})
    case("falcon_new",
         {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2,
          "num_ln_in_parallel_attn": 2})
    save("config", "gpt2", json.dumps({
        "model_type": "gpt2", "vocab_size": 32, "n_embd": 64, "n_layer": 2, "n_head": 4,
        "n_positions": 64, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}))
    save("config", "bloom", json.dumps({"model_type": "bloom", "vocab_size": 32, "hidden_size": 64,
                                        "n_layer": 2, "n_head": 4, "layer_norm_epsilon": 1e-5}))
    save("config", "mpt", json.dumps({
        "model_type": "mpt", "vocab_size": 32, "d_model": 64, "n_layers": 2, "n_heads": 4,
        "expansion_ratio": 4, "max_seq_len": 64, "attn_config": {"alibi": True, "clip_qkv": 4}}))
    save("config", "opt", json.dumps({"model_type": "opt", "vocab_size": 32, "hidden_size": 64,
                                      "num_hidden_layers": 2, "num_attention_heads": 4,
                                      "ffn_dim": 128, "max_position_embeddings": 64,
                                      "word_embed_proj_dim": 64, "do_layer_norm_before": True}))
    encoder = {"vocab_size": 32, "hidden_size": 64, "num_hidden_layers": 2,
               "num_attention_heads": 4, "intermediate_size": 8, "max_position_embeddings": 64}
    distances = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                 "position_biased_input": False}
    case("bert",
         {"model_type": "bert", "type_vocab_size": 2, "position_embedding_type": "absolute"},
         encoder)
    case("deberta", {"model_type": "deberta", "max_relative_positions": -1, **distances}, encoder)
    case("deberta_v2_conv",
         {"model_type": "deberta-v2", "position_buckets": 8, "share_att_key": True,
          "norm_rel_ebd": "layer_norm", "conv_kernel_size": 3, "conv_act": "gelu", **distances},
         encoder)
    case("deberta_far",
         {"model_type": "deberta-v2", "max_position_embeddings": 2147483647,
          "relative_attention": True, "pos_att_type": "p2c|c2p", "position_buckets": 1e30,
          "max_relative_positions": -1e300}, encoder)
    for kind in ("linear", "dynamic", "yarn", "llama3", "longrope", "su", "default", "twist"):
        case("rope_" + kind,
             {"rope_scaling": {"rope_type": kind, "factor": 4.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
                               "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}})
    case("rope_text", {"rope_scaling": "yarn"})
    case("rope_nested", {"rope_parameters": {"full_attention": {"rope_theta": 10}}})
    case("rope_factors_short",
         {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}})
    case("rope_factor_0", {"rope_scaling": {"type": "linear", "factor": 0}})
    case("partial_tiny", {"partial_rotary_factor": 1e-9})
    case("heads_0", {"num_attention_heads": 0})
    case("heads_7", {"num_attention_heads": 7})
    case("kv_heads_3", {"num_key_value_heads": 3})
    case("kv_heads_0", {"num_key_value_heads": 0})
    case("size_huge", {"hidden_size": 2147483647, "num_attention_heads": 1})
    case("size_64", {"hidden_size": 1 << 40})
    case("size_text", {"hidden_size": "64"})
    case("size_null", {"hidden_size": None})
    case("size_real", {"hidden_size": 64.5})
    case("head_dim_huge", {"head_dim": 2147483646})
    case("layers_huge", {"num_hidden_layers": 2147483647})
    case("layer_types_short", {"layer_types": ["full_attention"]})
    case("layer_types_numbers", {"layer_types": [1, 2]})
    case("eps_negative", {"rms_norm_eps": -1})
    case("theta_0", {"rope_theta": 0})
    case("act_unknown", {"hidden_act": "wave"})
    case("act_long", {"hidden_act": "w" * 500})
    case("quantised", {"quantization_config": {"bits": 4, "deep": [[[[[1] * 50]]]]}})
    case("type_unknown", {"model_type": "nobody"})
    case("type_number", {"model_type": 5})
    case("no_type", drop=["model_type"])
    case("tokens", {"bos_token_id": [1, 2], "eos_token_id": 1 << 40, "pad_token_id": -1})
    save("config", "empty", "")
    save("config", "array", "[]")
    save("config", "deep", "[" * 2500)
    save("config", "truncated", json.dumps(LLAMA)[:60])
    save("config", "twice", '{"model_type":"llama","model_type":"phi"}')
    save("config", "int_overflow", '{"model_type":"llama","vocab_size":99999999999999999999}')
    save("config", "bad_utf8", b'{"model_type":"ll\xffama"}')


# -------------------------------------------------------------------- folder

def norms(*names):
    return [(n + part, [8]) for n in names for part in (".weight", ".bias")]


def linear(names, bias=True, turned=False):
    out = []
    for name, rows, cols in names:
        out += ([(name + ".weight", [cols, rows] if turned else [rows, cols])]
                + ([(name + ".bias", [rows])] if bias else []))
    return out


SIZES = {"vocab_size": 4, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 1, "intermediate_size": 8, "max_position_embeddings": 8,
         "rms_norm_eps": 1e-5}


def folder_models():
    """name -> (config, [(tensor, shape)]), one layer of width 8 each."""
    layer = "model.layers.0."
    llama = [("model.embed_tokens.weight", [4, 8]), ("model.norm.weight", [8]),
             ("lm_head.weight", [4, 8]), (layer + "input_layernorm.weight", [8]),
             (layer + "post_attention_layernorm.weight", [8])]
    apart = [(layer + "self_attn.q_proj", 8, 8), (layer + "self_attn.k_proj", 4, 8),
             (layer + "self_attn.v_proj", 4, 8)]
    mlp = [(layer + "self_attn.o_proj", 8, 8), (layer + "mlp.gate_proj", 8, 8),
           (layer + "mlp.up_proj", 8, 8), (layer + "mlp.down_proj", 8, 8)]
    yield "llama", dict(SIZES, model_type="llama"), llama + linear(apart + mlp, False)
    yield "qwen2", dict(SIZES, model_type="qwen2"), llama + linear(apart) + linear(mlp, False)
    fused = [(layer + "self_attn.qkv_proj", 16, 8), (layer + "self_attn.o_proj", 8, 8),
             (layer + "mlp.gate_up_proj", 16, 8), (layer + "mlp.down_proj", 8, 8)]
    yield "phi3", dict(SIZES, model_type="phi3"), llama + linear(fused, False)
    h = "transformer.h.0."
    yield ("gpt2",
           {"model_type": "gpt2", "vocab_size": 4, "n_embd": 8, "n_layer": 1, "n_head": 2,
            "n_positions": 8},
           [("transformer.wte.weight", [4, 8]), ("transformer.wpe.weight", [8, 8])]
           + norms("transformer.ln_f", h + "ln_1", h + "ln_2")
           + linear([(h + "attn.c_attn", 24, 8), (h + "attn.c_proj", 8, 8), (h + "mlp.c_fc", 32, 8),
                     (h + "mlp.c_proj", 8, 32)], turned=True))
    attention = [(h + "self_attention.query_key_value", 24, 8), (h + "self_attention.dense", 8, 8),
                 (h + "mlp.dense_h_to_4h", 32, 8), (h + "mlp.dense_4h_to_h", 8, 32)]
    yield ("bloom",
           {"model_type": "bloom", "vocab_size": 4, "hidden_size": 8, "n_layer": 1, "n_head": 2},
           [("transformer.word_embeddings.weight", [4, 8])]
           + norms("transformer.word_embeddings_layernorm", "transformer.ln_f",
                   h + "input_layernorm", h + "post_attention_layernorm") + linear(attention))
    falcon = [(h + "self_attention.query_key_value", 16, 8)] + attention[1:]
    yield ("falcon",
           {"model_type": "falcon", "vocab_size": 4, "hidden_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 2, "multi_query": True, "parallel_attn": True,
            "new_decoder_architecture": False, "bias": False, "alibi": False},
           [("transformer.word_embeddings.weight", [4, 8])]
           + norms("transformer.ln_f", h + "input_layernorm") + linear(falcon, False))
    block = "transformer.blocks.0."
    yield ("mpt",
           {"model_type": "mpt", "vocab_size": 4, "d_model": 8, "n_layers": 1, "n_heads": 2,
            "expansion_ratio": 1, "max_seq_len": 8, "no_bias": True,
            "attn_config": {"alibi": True}},
           [("transformer.wte.weight", [4, 8]), ("transformer.norm_f.weight", [8]),
            (block + "norm_1.weight", [8]), (block + "norm_2.weight", [8])]
           + linear([(block + "attn.Wqkv", 24, 8), (block + "attn.out_proj", 8, 8),
                     (block + "ffn.up_proj", 8, 8), (block + "ffn.down_proj", 8, 8)], False))
    o = "model.decoder."
    yield ("opt",
           {"model_type": "opt", "vocab_size": 4, "hidden_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 2, "ffn_dim": 8, "max_position_embeddings": 8,
            "word_embed_proj_dim": 8, "do_layer_norm_before": True},
           [(o + "embed_tokens.weight", [4, 8]), (o + "embed_positions.weight", [10, 8])]
           + norms(o + "final_layer_norm", o + "layers.0.self_attn_layer_norm",
                   o + "layers.0.final_layer_norm")
           + linear([(o + "layers.0." + n, 8, 8)
                     for n in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                               "self_attn.out_proj", "fc1", "fc2")]))


def folder(config, shapes, change=None):
    header, data = {}, b""
    for name, shape in shapes:
        shape = (change or {}).get(name, shape)
        size = 2
        for n in shape:
            size *= n
        header[name] = entry("F16", shape, len(data), len(data) + size)
        data += gentle("F16", size)
    return json.dumps(config).encode() + b"\0" + safetensors(header, data)


def make_golden():
    """The name of a golden model, then a configuration for its weights."""
    body = {"model_type": "deepseek_v2", "hidden_size": 64, "num_hidden_layers": 4,
            "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 320,
            "max_position_embeddings": 512, "kv_lora_rank": 32, "q_lora_rank": None,
            "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
            "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
            "n_shared_experts": 1}
    for name, key, value in (("few", "vocab_size", 320),
                             ("layers_huge", "num_hidden_layers", 100000000),
                             ("shared_huge", "n_shared_experts", 2000000000),
                             ("head_negative", "v_head_dim", -16)):
        save("golden", name, "deepseek_v2\n" + json.dumps({**body, key: value}))


def make_folder():
    for name, config, shapes in folder_models():
        save("folder", name, folder(config, shapes))
        if name != "llama":
            continue
        layer = "model.layers.0.self_attn."
        save("folder", "wide_q", folder(config, shapes, {layer + "q_proj.weight": [16, 8]}))
        save("folder", "narrow_k", folder(config, shapes, {layer + "k_proj.weight": [2, 8]}))
        save("folder", "vector_v", folder(config, shapes, {layer + "v_proj.weight": [32]}))
        save("folder", "empty_o", folder(config, shapes, {layer + "o_proj.weight": [0, 8]}))
        save("folder", "missing", folder(config, shapes[:-1]))
        save("folder", "extra", folder(config, shapes + [("model.nobody.weight", [2])]))
        save("folder", "two_layers", folder(dict(config, num_hidden_layers=2), shapes))
        save("folder", "large_vocabulary", folder(dict(config, vocab_size=1 << 30), shapes))
        save("folder", "no_weights", json.dumps(config))


# ------------------------------------------------------------ tokenizer.json

def byte_alphabet():
    out, extra = [], 256
    for b in range(256):
        printable = 33 <= b <= 126 or 161 <= b <= 172 or b >= 174
        out.append(chr(b) if printable else chr(extra))
        extra += not printable
    return out


BPE_VOCAB = {c: i for i, c in enumerate(["a", "b", "ab", "\u0120", "\u0120a", "t", "h", "e", "th",
                                         "the"])}
BPE = {"version": "1.0",
       "added_tokens": [
           {"id": 10, "content": "<s>", "special": True, "lstrip": False, "rstrip": True},
           {"id": 11, "content": "<x>", "special": False, "lstrip": True, "rstrip": False}],
       "normalizer": {"type": "NFC"},
       "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
           {"type": "Split", "pattern": {"Regex": " ?\\p{L}+|\\s+"}, "behavior": "Isolated"},
           {"type": "Digits", "individual_digits": True},
           {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
       "post_processor": {"type": "TemplateProcessing",
                          "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]},
       "model": {"type": "BPE", "vocab": BPE_VOCAB, "merges": ["a b", "\u0120 a", "t h", "th e"],
                 "unk_token": None}}
SPM = {"added_tokens": [{"id": 0, "content": "<unk>", "special": True},
                        {"id": 1, "content": "<s>", "special": True}],
       "normalizer": {"type": "Sequence", "normalizers": [
           {"type": "Prepend", "prepend": MARK},
           {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]},
       "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>",
                 "merges": [[MARK, "a"], ["a", "b"]],
                 "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xFF>": 3, MARK: 4, "a": 5, "b": 6,
                           MARK + "a": 7, "ab": 8}}}
# "A" becomes "a"
CHARSMAP = struct.pack("<4I", 12, 0x40 << 10, 0x41 | 0x100 | 3 << 10, 1 << 31) + b"a\0"
UNIGRAM = {"added_tokens": [{"id": 1, "content": "<s>", "special": True},
                            {"id": 11, "content": "<x>", "lstrip": True}],
           "normalizer": {"type": "Sequence", "normalizers": [
               {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Nmt"},
               {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
               {"type": "Replace", "pattern": {"String": "``"}, "content": "\""},
               {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(CHARSMAP).decode()},
               {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
           "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
               {"type": "WhitespaceSplit"},
               {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always",
                "split": True}]},
           "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [
               ["<unk>", 0], ["<s>", 0], [MARK, -1.5], ["a", -2.25], [MARK + "the", -3], ["th", -4],
               ["e", -5], ["<0x0A>", -9], ["<0xFF>", -9]]}}
WORDPIECE = {"normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None,
                            "handle_chinese_chars": True},
             "pre_tokenizer": {"type": "BertPreTokenizer"},
             "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                       "vocab": {"[UNK]": 0, "a": 1, "##b": 2, "the": 3, "\u4e2d": 4, "!": 5}}}


def make_tokenizer_json():
    def case(name, base=BPE, **change):
        save("tokenizer_json", name, json.dumps(dict(base, **change)))

    def model(name, base=BPE, **change):
        case(name, base, model=dict(base["model"], **change))

    case("bpe")
    case("spm", SPM)
    case("wordpiece", WORDPIECE)
    case("unigram", UNIGRAM)
    unigram = json.dumps(UNIGRAM)
    save("tokenizer_json", "unigram_truncated", unigram[:len(unigram) // 2])
    model("unigram_no_unk", UNIGRAM, unk_id=None)
    model("unigram_unk_beyond", UNIGRAM, unk_id=9)
    model("unigram_vocab_object", UNIGRAM, vocab={"a": 0})
    model("unigram_no_score", UNIGRAM, vocab=[["a"]])
    model("unigram_score_text", UNIGRAM, vocab=[["a", "0"]])
    model("unigram_score_huge", UNIGRAM,
          vocab=[["<unk>", 0], ["<s>", 0], ["a", 1e308], ["aa", 1e308]])
    model("unigram_twice", UNIGRAM,
          vocab=[["<unk>", 0], ["<s>", 0], ["a", -1], ["a", -2], ["", -1]])
    model("unigram_long", UNIGRAM,
          vocab=[["<unk>", 0], ["<s>", 0], ["a" * 5000, -1], ["a" * 4999, -2]])
    for name, step in (
        ("grow", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}),
        ("nul", {"type": "Prepend", "prepend": "\0"}),
        ("empty", {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "y"}),
        ("slow", {"type": "Replace", "pattern": {"Regex": "(a+)+$|(a|aa)+$"}, "content": ""})):
        case("unigram_step_" + name, UNIGRAM,
             normalizer={"type": "Sequence", "normalizers": [step] * 12})
    for name, data in (("short", CHARSMAP[:3]), ("trie", CHARSMAP[:9]),
                       ("huge", b"\xfc" + b"\xff" * 3 + CHARSMAP[4:]), ("no_texts", CHARSMAP[:16]),
                       ("beyond", CHARSMAP[:12] + b"\xff" * 4 + b"a\0"),
                       ("children", CHARSMAP[:8] + b"\x41\xff\xff\xff" + CHARSMAP[12:])):
        case("unigram_map_" + name, UNIGRAM, normalizer={
            "type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()})
    good = json.dumps(BPE)
    for end in (0, 1, 100, len(good) // 2, len(good) - 1):
        save("tokenizer_json", "truncated_%d" % end, good[:end])
    save("tokenizer_json", "deep", "[" * 2500)
    save("tokenizer_json", "deep_sequence", json.dumps(dict(BPE, normalizer=None)).replace(
        '"normalizer": null',
        '"normalizer": ' + '{"type":"Sequence","normalizers":[' * 200 + "]}" * 200))
    model("type_unknown", type="WordLevel")
    model("no_vocab", vocab={})
    model("vocab_list", vocab=["a", "b"])
    model("id_negative", vocab={"a": -1})
    model("id_huge", vocab={"a": 16000000})
    model("id_beyond", vocab={"a": 1 << 40})
    model("id_text", vocab={"a": "0"})
    model("id_twice", vocab={"a": 0, "b": 0})
    model("merge_unknown", merges=["a z"])
    model("merge_no_sides", merges=["ab", "", " "])
    model("merge_triple", merges=[["a", "b", "ab"]])
    model("merge_numbers", merges=[1, [2, 3]])
    model("merges_text", merges="a b")
    model("merges_long", merges=["a" * 5000 + " b"])
    model("empty_token", vocab=dict(BPE_VOCAB, **{"": 12}))
    model("nul_token", vocab=dict(BPE_VOCAB, **{"a\0b": 12}))
    case("added_no_id", added_tokens=[{"content": "<s>"}])
    case("added_twice", added_tokens=[{"id": 10, "content": "<s>"}, {"id": 10, "content": "<t>"}])
    case("added_text", added_tokens="x")
    case("added_empty", added_tokens=[{"id": 10, "content": "", "special": True}])
    case("added_long", added_tokens=[{"id": 10, "content": "a" * 3000, "special": True}])
    for name, expression in (("empty", ""), ("bad", "(a"), ("nested", "(" * 300 + ")" * 300),
                             ("slow", "(a+)+$|(a|aa)+$"), ("slow_2", "^(([a-z])+.)+[A-Z]([a-z])+$"),
                             ("back", "(a*)\\1*b"), ("keep", "a\\Kb|a\\K"),
                             ("look", "(?=a)|(?<=a)b*"), ("recurse", "(a|(?R)b)*"),
                             ("big", "a{1000}{60}"), ("verb", "(*ACCEPT)a|b(*SKIP)"),
                             ("utf", "\\x{110000}"), ("newline", "(*CRLF)(*NO_JIT)a.b"),
                             ("limit", "(*LIMIT_MATCH=4294967295)(a+)+$")):
        case("regex_" + name, pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated"},
            {"type": "ByteLevel", "use_regex": False}]})
    case("regex_many",
         pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}] * 12})
    case("pre_unknown", pre_tokenizer={"type": "Whitespace"})
    case("pre_number", pre_tokenizer=5)
    case("normalizer_unknown", normalizer={"type": "NFKD"})
    case("normalizer_text", normalizer="NFC")
    case("metaspace", SPM, normalizer=None,
         pre_tokenizer={"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first"})
    case("post_odd", post_processor={"type": "Sequence", "processors": [
        {"type": "ByteLevel"},
        {"type": "TemplateProcessing", "single": [1, {"SpecialToken": {"id": "nobody"}}]}]})
    save("tokenizer_json", "array", "[1]")
    save("tokenizer_json", "bad_utf8", b'{"model":{"type":"BPE","vocab":{"\xff":0}}}')
    save("tokenizer_json", "nul_content",
         json.dumps(dict(BPE, added_tokens=[{"id": 10, "content": "a\0b", "special": True}])))


# ------------------------------------------------- tokenizer.model, tiktoken

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def blob(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(token, score=0.0, kind=1):
    return blob(1, blob(1, token.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score)
                   + number(3, kind))


PIECES = (piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0x0A>", 0, 6)
          + piece("<0xFF>", 0, 6) + piece(MARK, -1) + piece("a", -2) + piece("b", -3)
          + piece(MARK + "a", -1.5) + piece("ab", -0.5) + piece("<x>", 0, 4))


def trainer(kind=2, unk=0, bos=1, eos=2, pad=-1):
    return blob(2, number(3, kind) + number(40, unk) + number(41, bos) + number(42, eos)
                   + number(43, pad))


def make_tokenizer_model():
    normal = blob(3, blob(1, b"identity") + number(3, 1) + number(4, 0))
    good = PIECES + trainer() + normal
    save("tokenizer_model", "good", good)
    for end in (0, 1, 2, 10, 60, len(PIECES), len(good) - 1):
        save("tokenizer_model", "truncated_%d" % end, good[:end])
    save("tokenizer_model", "unigram", PIECES + trainer(1) + normal)
    save("tokenizer_model", "unigram_map",
         PIECES + trainer(1) + blob(3, blob(2, CHARSMAP) + number(3, 1)))
    save("tokenizer_model", "unigram_map_bad", PIECES + trainer(1) + blob(3, blob(2, CHARSMAP[:9])))
    save("tokenizer_model", "map", PIECES + trainer() + blob(3, blob(2, CHARSMAP)))
    save("tokenizer_model", "no_trainer", PIECES + normal)
    save("tokenizer_model", "no_pieces", b"\x0a\x00" + trainer() + normal)
    save("tokenizer_model", "id_beyond", PIECES + trainer(bos=11) + normal)
    save("tokenizer_model", "id_64", PIECES + trainer(bos=1 + (1 << 32)) + normal)
    save("tokenizer_model", "piece_type", piece("a", 0, 9) + trainer() + normal)
    save("tokenizer_model", "score_nan", piece("a", float("nan")) + trainer() + normal)
    save("tokenizer_model", "score_varint",
         blob(1, blob(1, b"a") + number(2, 7)) + trainer() + normal)
    save("tokenizer_model", "text_varint", blob(1, number(1, 7)) + trainer() + normal)
    save("tokenizer_model", "length_huge", b"\x0a" + b"\xff" * 9 + b"\x01" + good)
    save("tokenizer_model", "varint_long", b"\x0a" + b"\xff" * 11)
    save("tokenizer_model", "fixed64", PIECES + varint(9 << 3 | 1) + bytes(3))
    save("tokenizer_model", "group", PIECES + varint(9 << 3 | 3) + trainer() + normal)
    save("tokenizer_model", "special_long",
         piece("<unk>", 0, 2) + piece("a" * 2000, 0, 3) + trainer(bos=1, eos=1) + normal)
    save("tokenizer_model", "twice", PIECES + piece("a", -9) + trainer() + normal)

    lines = [base64.b64encode(bytes([b])).decode() + " %d\n" % b for b in range(256)]
    lines += [base64.b64encode(t).decode() + " %d\n" % (256 + i)
              for i, t in enumerate([b"th", b"the", b" th", b" the", b"12"])]
    full = "".join(lines)
    save("tiktoken", "good", full)
    save("tiktoken", "no_newline", full[:-1])
    save("tiktoken", "crlf", full.replace("\n", "\r\n"))
    for end in (1, 5, 6, 7, 100):
        save("tiktoken", "truncated_%d" % end, full[:end])
    page = "".join(base64.b64encode(bytes([i % 256, i // 256])).decode() + " %d\n" % i
                   for i in range(450))
    page = page[:4096].rsplit("\n", 1)[0]
    last = page.count("\n") + 1
    page += "\n" + "eHh4" * ((4096 - len(page) - len(str(last)) - 2) // 4) + " "
    save("tiktoken", "page_end", page + str(last).rjust(4096 - len(page), "0"))
    for name, line in (("rank_skipped", "AA== 1\n"), ("rank_negative", "AA== -0\n"),
                       ("rank_plus", "AA== +0\n"), ("rank_next_line", "AA== \n0\n"),
                       ("rank_text", "AA== 0x\n"), ("rank_huge", "AA== 18446744073709551616\n"),
                       ("no_rank", "AA==\n"), ("no_token", " 0\n"), ("no_base64", "A*== 0\n"),
                       ("padding", "A=== 0\n"), ("twice", "AA== 0\nAA== 1\n"),
                       ("blank_lines", "\n\nAA== 0\n\n"), ("nul", "AA==\0 0\n")):
        save("tiktoken", name, ("\r" if line[0] == "\n" else "") + line)
    make_tekken()


def make_tekken():
    vocab = [{"rank": b, "token_bytes": base64.b64encode(bytes([b])).decode()} for b in range(256)]
    vocab += [{"rank": 256, "token_bytes": base64.b64encode(b"th").decode()}]
    good = {"config": {"pattern": "[^ ]+| ", "default_vocab_size": 261,
                       "default_num_special_tokens": 4},
            "vocab": vocab,
            "special_tokens": [{"rank": 1, "token_str": "<s>"}, {"rank": 2, "token_str": "</s>"}]}

    def tekken(name, **changed):
        save("tiktoken", "tekken_" + name, json.dumps(dict(good, **changed),
                                                      separators=(",", ":")))
    tekken("good")
    tekken("older", special_tokens=None)
    tekken("rank_beyond", special_tokens=[{"rank": 4, "token_str": "<s>"}])
    tekken("vocab_short", vocab=vocab[:9])
    tekken("pattern", config=dict(good["config"], pattern="[a&&[^\\p{Han}]]+|(?=1)|[b[c]]|\\b"))
    tekken("pattern_open", config=dict(good["config"], pattern="[a&&[^b"))
    tekken("pattern_slash", config=dict(good["config"], pattern="\\"))


# ------------------------------------------------------------------ llama2.c

def make_llama2c():
    def sizes(dim=8, ffn=8, layers=1, heads=2, kv=1, vocab=4, length=4):
        return struct.pack("<7i", dim, ffn, layers, heads, kv, vocab, length)

    def floats(n):
        return gentle("F32", 4 * n)

    body = 4 * 8 + 8 + 64 + 32 + 32 + 64 + 8 + 3 * 64 + 8
    tables = 4 * 4
    good = sizes() + floats(body + tables)
    save("llama2c", "version_0", good)
    save("llama2c", "version_0_head", sizes(vocab=-4) + floats(body + tables + 32))
    one = (struct.pack("<ii", 0x616b3432, 1) + sizes() + b"\1").ljust(256, b"\0") + floats(body)
    save("llama2c", "version_1", one)
    save("llama2c", "version_2", one[:4] + struct.pack("<i", 2) + one[8:])
    for end in (0, 27, 28, 100, len(good) - 4):
        save("llama2c", "truncated_%d" % end, good[:end])
    save("llama2c", "truncated_1", one[:200])
    save("llama2c", "too_long", good + bytes(4))
    for name, change in (("dim_0", {"dim": 0}), ("dim_huge", {"dim": 0x7ffffffe}),
                         ("dim_negative", {"dim": -8}), ("heads_0", {"heads": 0}),
                         ("heads_3", {"heads": 3}), ("kv_0", {"kv": 0}),
                         ("kv_huge", {"kv": 0x7fffffff}), ("layers_huge", {"layers": 0x7fffffff}),
                         ("layers_0", {"layers": 0}), ("vocab_0", {"vocab": 0}),
                         ("vocab_min", {"vocab": -(1 << 31)}), ("length_0", {"length": 0}),
                         ("length_huge", {"length": 0x7fffffff}), ("ffn_huge", {"ffn": 0x7fffffff}),
                         ("head_dim_1", {"dim": 2}), ("one_layer_a_float", {"dim": 2, "heads": 1})):
        save("llama2c", name, sizes(**change) + floats(200))
    save("llama2c", "nan", sizes() + struct.pack("<f", float("nan")) * (body + tables))

    def vocabulary(tokens, count=None, longest=8):
        data = struct.pack("<i", longest)
        for i, token in enumerate(tokens):
            data += struct.pack("<fi", -float(i), len(token)) + token
        return struct.pack("<H", len(tokens) if count is None else count) + data

    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"<0x00>", b"<0xFF>", b" ", b"a", b" a", b"ab",
              b"\xc3\xa9"]
    good = vocabulary(tokens)
    save("llama2c_vocab", "good", good)
    for end in (1, 2, 5, 10, 30, len(good) - 1):
        save("llama2c_vocab", "truncated_%d" % end, good[:end])
    save("llama2c_vocab", "count_less", vocabulary(tokens, 5))
    save("llama2c_vocab", "count_more", vocabulary(tokens, 12))
    save("llama2c_vocab", "count_0", vocabulary(tokens, 0))
    save("llama2c_vocab", "count_most", vocabulary(tokens, 0xffff))
    save("llama2c_vocab", "size_negative", good[:6] + struct.pack("<fi", 0, -1) + good[14:])
    save("llama2c_vocab", "size_huge", good[:6] + struct.pack("<fi", 0, 0x7fffffff) + good[14:])
    save("llama2c_vocab", "score_nan", good[:6] + struct.pack("<f", float("nan")) + good[10:])
    save("llama2c_vocab", "bad_byte", vocabulary([b"<unk>", b"", b"", b"<0xZZ>", b"\xff\xfe", b""]))


# ------------------------------------------------------------------- options

def make_options():
    def struct_of(kind, size, *words):
        return (bytes([kind]) + struct.pack("<Q", size)
                + b"".join(struct.pack("<Q", w) for w in words))

    for kind, name, sizes in (
        (0, "read", (0, 8, 39, 40, 48, 72, 73, 4095)), (1, "write", (0, 16, 24, 64, 65, 500)),
        (2, "context", (8, 55, 56, 64)), (3, "cache", (8, 39, 40, 48)),
        (4, "schema", (8, 31, 32, 40)), (5, "generate", (8, 100, 136, 144, 200))):
        for size in sizes:
            save("options", "%s_%d" % (name, size), struct_of(kind, size))
        save("options", name + "_tail", struct_of(kind, 400, *[0] * 30, 1))
        save("options", name + "_garbage",
             struct_of(kind, 200, *[0x8000000080000001 * (i + 1) % (1 << 64) for i in range(20)]))
    save("options", "context_threads", struct_of(2, 56, 0, 0, 0, 0, 0, 0xffffffff))
    save("options", "cache_flags", struct_of(3, 40, 1, 0, 5, 1))
    save("options", "cache_salt", struct_of(3, 40, 1 << 63, 0, 1 << 63, 0))
    save("options", "schema_flags", struct_of(4, 32, 8, 0, 0))
    save("options", "generate_floats", struct_of(
        5, 136, 0x100000001, 0, 0x7fc0000000000000, 0, 0x7fc000007fc00000, 0xff800000ff800000))


# ----------------------------------------------------------------- chat, PML

def make_chat():
    keys = ["name", "system_open", "system_close", "system_empty", "user_open", "user_close",
            "assistant_open", "assistant_close"]
    good = {k: "<s>" + k for k in keys}
    save("chat", "good", json.dumps(dict(good, stop_strings=["ab", "b"], stop_tokens=["</s>"])))
    save("chat", "part", json.dumps({"name": "x"}))
    save("chat", "joins", json.dumps(dict(good, generation="<s>x", system_joins_user=True)))
    save("chat", "joins_text", json.dumps({"system_joins_user": "yes"}))
    save("chat", "empty", "{}")
    save("chat", "no_token", json.dumps({"stop_tokens": ["nobody"]}))
    save("chat", "stop_text", json.dumps({"stop_strings": "ab"}))
    save("chat", "stop_numbers", json.dumps({"stop_strings": [1]}))
    save("chat", "stop_many", json.dumps({"stop_strings": ["a"] * 17}))
    save("chat", "stop_empty", json.dumps({"stop_strings": [""], "stop_tokens": [""]}))
    save("chat", "key_unknown", json.dumps({"sytem_open": ""}))
    save("chat", "key_number", json.dumps({"user_open": 5}))
    save("chat", "key_null", json.dumps({"user_open": None}))
    save("chat", "array", "[]")
    save("chat", "deep", "[" * 3000)
    save("chat", "long", json.dumps({"user_open": "the " * 500}))
    save("chat", "nul", '{"name":"a\\u0000b"}')
    save("chat", "bad_utf8", b'{"name":"\xff"}')
    loop = "{% for m in messages %}"
    asked = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    for name, jinja in (
        ("chatml",
         loop + "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
         + asked),
        ("no_content", loop + "<|im_start|>{{ m.role }}{% endfor %}"), ("plain", "[INST] <<SYS>>"),
        ("nothing", "hello"),
        ("no_system",
         loop
         + "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
         "{{ m.content }}</s>{% endfor %}"),
        ("macros",
         "{%- set ns = namespace(n=0, a=[1, {'b': 'c'}]) -%}"
         "{%- macro t(x, y='<s>') -%}{{ y ~ x | trim }}{%- endmacro -%}"
         + loop
         + "{% set ns.n = ns.n + loop.index0 * 2 - 1 %}"
         "{{ t(m['content'], y='</s>' if loop.first else ns.a[1].b) }}{% endfor %}"
         + asked),
        ("filters",
         "{{ bos_token }}" + loop
         + "{{ messages[::-1] | selectattr('role', 'in', ['user']) | map(attribute='content') "
         "| join(',') }}"
         "{{ m.content.split('e')[-1].strip('a') | replace('b', 'x') | upper }}{% endfor %}"),
        ("blocks", "{% set a %}x{% endset %}{# {{ #}" + loop
                   + "{% generation %}{{ a }}{{ m.content }}{% endgeneration %}"
                   "{% if loop.last %}{% break %}{% endif %}{% else %}none{% endfor %}"),
        ("endless",
         "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
        ("deep", "{{ " + "(" * 300 + "1" + ")" * 300 + " }}"),
        ("not_closed", loop + "{{ m.content }}"), ("half", "{{ 'a")):
        save("chat", "jinja_" + name, jinja)


def make_pml():
    good = ('<schema name="s"><system>the a</system>text '
            '<module name="m">a <parameter name="x" length="4" scaffold="b"/> b</module>'
            '<union scaffold="v"><module name="u">a</module>'
            '<module name="v" cache="false">the the</module></union>'
            '<user>b <module name="n">ab<module name="o"/></module></user>'
            '<scaffold modules="m n n/o"/><!-- c --><![CDATA[<&]]>&lt;&#233;</schema>')
    save("schema", "good", good)
    save("schema", "bom", b"\xef\xbb\xbf" + good.encode())
    for end in (0, 1, 10, 60, len(good) // 2, len(good) - 1):
        save("schema", "truncated_%d" % end, good[:end])

    def body(name, inner):
        save("schema", name, '<schema name="s">%s</schema>' % inner)

    body("empty", "")
    body("deep", '<module name="m">' * 200 + "</module>" * 200)
    body("deep_127", '<module name="m">' * 126 + "a" + "</module>" * 126)
    body("deep_unclosed", '<module name="m">' * 300)
    body("deep_chat", "<user>" * 120 + "</user>" * 120)
    body("long_name", '<module name="%s">a<module name="b">%s</module></module>'
                      % ("n" * 4000, '<module name="b">' * 20 + "</module>" * 20))
    body("long_attribute", '<module name="m" nobody="%s"/>' % ("v" * 4000))
    body("many_attributes", "<module %s/>" % " ".join('a%d="1"' % i for i in range(500)))
    body("many_modules", "".join('<module name="m%d"/>' % i for i in range(150)))
    body("many_parameters", '<module name="m">%s</module>' % "".join(
        '<parameter name="p%d" length="16777216"/>' % i for i in range(40)))
    for length in ("0", "-1", "16777216", "16777217", "99999999999999999999", "4x", "", " 5",
                   "0x10", "1e3"):
        body("length_" + (length.strip() or "empty"),
             '<module name="m"><parameter name="p" length="%s"/></module>' % length)
    body("parameter_root", '<parameter name="p" length="2"/>')
    body("parameter_long_scaffold",
         '<module name="m"><parameter name="p" length="1" scaffold="the the the"/></module>')
    body("union_text", "<union>a</union>")
    body("union_empty", "<union></union>")
    body("union_default", '<union scaffold="z"><module name="a"/></union>')
    body("module_twice", '<module name="a"/><union><module name="a"/></union>')
    body("name_bad", '<module name="1&#x1F600;"/>')
    body("name_tag", '<module name="user"/>')
    body("src", '<module name="m" src="/etc/passwd"/>')
    body("scaffold_exclusive",
         '<union><module name="a"/><module name="b"/></union><scaffold modules="a b"/>')
    body("scaffold_unknown", '<scaffold modules="x   y"/>')
    body("scaffold_one", '<module name="a"/><scaffold modules="a"/>')
    body("special_text", "<user>the &lt;|im_end|> b</user>&lt;s>")
    body("unknown_tag", "a < b & c")
    body("entity", "&nobody;")
    body("control", "&#1;&#0;")
    body("surrogate", "&#xD800;")
    body("blanks", " \n\t <user> \n </user> \n ")
    body("long_text", "the ab " * 300)
    save("schema", "no_xml", "hello")
    save("schema", "other_root", "<prompt/>")
    save("schema", "laughs",
         '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
         '<schema name="s">&b;</schema>')
    save("schema", "external", '<!DOCTYPE x SYSTEM "file:///etc/passwd"><schema name="s"/>')
    save("schema", "encoding", '<?xml version="1.0" encoding="UTF-16"?><schema name="s"/>')
    save("schema", "latin",
         b'<?xml version="1.0" encoding="ISO-8859-1"?><schema name="s">\xe9</schema>')
    save("schema", "bad_utf8", b'<schema name="s">\xff</schema>')
    save("schema", "nul", b'<schema name="s">\0</schema>')

    def prompt(name, inner):
        save("prompt", name, '<prompt schema="s">%s</prompt>' % inner)

    prompt("good", '<m x="the" y="a"/>and <v/>no')
    prompt("all",
           '<system>a</system><m x="the"/><u2><w/></u2><n>b<o><p z="a"/></o></n><c/>'
           '<user>what</user><assistant>x</assistant>')
    prompt("empty", "")
    prompt("blank", "  \n ")
    prompt("text", "the ab")
    prompt("twice", "<m/><m/>")
    prompt("union_both", "<u1/><u2/>")
    prompt("nested_union", "<u2><v/><w/></u2>")
    prompt("unknown", "<nobody/>")
    prompt("elsewhere", "<o/>")
    prompt("argument_long", '<m x="the the the the the the the the"/>')
    prompt("argument_huge", '<m x="%s"/>' % ("a b " * 1000))
    prompt("argument_unknown", '<m z="a"/>')
    prompt("argument_empty", '<m x=""/>')
    prompt("argument_special", '<m x="&lt;s>&lt;|im_end|>"/>')
    prompt("module_text", "<n>the <o>a</o> b</n> c")
    prompt("chat_attribute", '<user x="1">a</user>')
    prompt("chat_nested", "<user>a <m/> b<user>c</user></user>")
    prompt("deep", "<user>" * 200)
    prompt("order", "<c/>a<m/>b<n/>c")
    save("prompt", "other_schema", '<prompt schema="t">a</prompt>')
    save("prompt", "no_schema", "<prompt>a</prompt>")
    save("prompt", "attribute", '<prompt schema="s" model="x">a</prompt>')
    save("prompt", "other_root", "<schema name='s'/>")
    save("prompt", "truncated", '<prompt schema="s"><m x="a')
    save("prompt", "zero", "")


def make_tokenize():
    for name, data in (("empty", b""), ("words", b"the ab  the\na 12 1212"),
                       ("special", b"<s>the</s> <|im_start|>a<|im_end|>"),
                       ("special_part", b"<|im_star <s <|im_end|"), ("bytes", bytes(range(256))),
                       ("blanks", b" " * 300 + b"\n" * 50 + b"\t "), ("long_word", b"a" * 3000),
                       ("unicode", "\u00e9\u4e2d\u6587 \U0001f600 e\u0301 \u0130 \ufb01".encode()),
                       ("broken",
                        b"\xe4\xb8 \xf0\x9f\x98 \xc3(\xed\xa0\x80 \xf5\x80\x80\x80 \xc0\x80"),
                       ("mark", "\u2581a \u2581".encode()), ("digits", b"1234567890 12345 1"),
                       ("contractions", b"it's we'LL I'm"), ("crlf", b"a\r\n\r\nb \r\n"),
                       ("combining", "e".encode() + "\u0301".encode() * 400), ("nul", b"a\0b\0\0"),
                       ("hangul", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab".encode()),
                       ("chinese", ("\u4e2d\u6587" * 200).encode()),
                       ("punctuation", b"!?.,;:-_()[]{}<>|\\/@#$%^&*~`\"'" * 5)):
        save("tokenize", name, data)


def make_relay():
    """A schema string, a system prompt and a request, NUL bytes between them."""
    llama = "<s>[INST] <<SYS>>\n{__SYS_PROMPT}\n<</SYS>>\n\n{__USR_PROMPT} [/INST]"
    for name, texts in (
        ("llama", (llama, "the a", "b the")),
        ("plain", ("{__SYS_PROMPT}{__USR_PROMPT}", "the", "a")), ("nothing", ("", "", "")),
        ("special",
         ("<|im_start|>{__SYS_PROMPT}<|im_end|>{__USR_PROMPT}<|im_end|>", "<s></s><|im_end|>",
          "<|im_start|><s>")),
        ("braces", ("{{{__SYS_PROMPT}}}{{{__USR_PROMPT}}}", "{}", "{__USR_PROMPT}")),
        ("single", ("{__SYS_PROMPT}{{__USR_PROMPT}", "a", "b")),
        ("turned", ("{__USR_PROMPT}{__SYS_PROMPT}", "a", "b")),
        ("twice", ("{__SYS_PROMPT}{__SYS_PROMPT}{__USR_PROMPT}", "a", "b")),
        ("unknown", ("{__SYS_PROMPT}{__OTHER}", "a", "b")),
        ("cut", ("{__SYS_PROMPT}{__USR_PROMPT", "a", "b")), ("one", ("{__SYS_PROMPT}", "a", "b")),
        ("lines", ("a\n\n{__SYS_PROMPT}\n}", "a", "b")),
        ("blanks", (" {__SYS_PROMPT} \n\t{__USR_PROMPT} ", " \n ", "\t \n")),
        ("long", ("the{__SYS_PROMPT}a{__USR_PROMPT}b", "the " * 300, "a " * 300)),
        ("unicode", ("\u00e9{__SYS_PROMPT}\u4e2d{__USR_PROMPT}", "\u2581 a\u0301", "\U0001f600"))):
        save("system_format", name, "\0".join(texts))
    save("system_format", "broken", b"\xff{__SYS_PROMPT}\xe4\xb8{__USR_PROMPT}\0\xc3\0\xf0\x9f")
    save("system_format", "no_tokens",
         b"a\n\xff{__SYS_PROMPT}{__USR_PROMPT}\0\x9f\xff\xab\x82\x82\x82\xf9{}<|user|>_")
    save("system_format", "more_nul", b"{__SYS_PROMPT}{__USR_PROMPT}\0a\0b\0\0c")


def make_serve():
    """Three bytes, then a prompt. The bytes say: encoding, repair and visibility; how much is
    repaired; length, sampling and budget."""
    prompts = ['<a x="some"/><b/><u2/>what is it?', "<b/>and what is that?",
               "<a/><b/><u1/><n><in/></n><c/> then?", '<a x="one of"/><n/>',
               "<a/> well, <b/> so what is it", "only this", "<b/>", "<n>we <in/> can</n><u1/>",
               "<system>a</system><u2/><user>it</user><c/>", "<c/>", "<n/>" + "all of it " * 15]
    for i, prompt in enumerate(prompts):
        for mode in range(4):
            how = bytes([mode | (i + mode) % 5 << 2 | (i & 1) << 7, 37 * (i + 1) % 256,
                         (i * 5 + mode * 3) % 16])
            save("serve", "%02d_%d" % (i, mode),
                 how + b'<prompt schema="t">' + prompt.encode() + b"</prompt>")


def index_row(key, content=0, before=0, flags=5, tokens=7, priority=0, size=4096, cost=0.1, ttl=0.0,
              expires=0, last=1700000000, uses=2, heat=-3.5, variant=b""):
    return (bytes([key]) * 32 + bytes([content]) * 32 + bytes([before]) * 32
            + struct.pack("<IIiIQddqqIId", flags, tokens, priority, 0, size, cost, ttl, expires,
                          last, uses, 0, heat)
            + variant.ljust(64, b"\0"))


def disk_index(rows, magic=b"PCINDEX1", version=2, row=232, count=None, clock=1.5, dates=0,
               first=0):
    head = (magic + struct.pack("<IIQd", version, row, len(rows) if count is None else count, clock)
            + struct.pack("<q", dates) * 256)
    return bytes([first]) + head + b"".join(rows)


def make_disk_index():
    """A byte (bit 0: no checksum is added), then an index of a folder of records without its
    checksum."""
    nan = float("nan")
    chain = [index_row(1), index_row(2, before=1, flags=6), index_row(3, before=2, flags=6)]
    for name, data in (
        ("none", disk_index([])), ("one", disk_index([index_row(1, content=9)])),
        ("chain", disk_index(chain)), ("chain_back", disk_index(chain[::-1])),
        ("ring", disk_index([index_row(1, before=2, flags=6), index_row(2, before=1, flags=6)])),
        ("itself", disk_index([index_row(1, before=1, flags=6)])),
        ("twice", disk_index([index_row(1), index_row(1)])), ("no_sum", disk_index(chain, first=1)),
        ("nan", disk_index([index_row(1, heat=nan)])),
        ("nan_cost", disk_index([index_row(1, cost=nan), index_row(2, ttl=nan)])),
        ("huge", disk_index([index_row(1, size=1 << 63)])),
        ("negative", disk_index([index_row(1, cost=-1.0), index_row(2, ttl=-1.0)])),
        ("state", disk_index([index_row(1, flags=12)])),
        ("unread", disk_index([index_row(1, flags=0), index_row(2, flags=8)])),
        ("expired", disk_index([index_row(1, expires=-5, last=-5, ttl=10.0)])),
        ("clock", disk_index(chain, clock=nan)), ("clock_back", disk_index(chain, clock=-1e300)),
        ("count", disk_index(chain, count=1 << 60)), ("version", disk_index(chain, version=1)),
        ("row", disk_index(chain, row=0)), ("magic", disk_index(chain, magic=b"PCINDEX2")),
        ("short", disk_index(chain)[:-1]), ("head", disk_index([])[:60]),
        ("uses", disk_index([index_row(1, uses=0), index_row(2, uses=0xffffffff)])),
        ("sealed", disk_index([index_row(1, variant=b"0123456789abcdef" * 2),
                               index_row(2, before=1, flags=6, variant=b"0123456789abcdef" * 2),
                               index_row(1)])),
        ("variant",
         disk_index([index_row(1, variant=b"/../x"), index_row(2, variant=b"a" * 64),
                     index_row(3, variant=b"a" * 63), index_row(4, variant=b"v2+x.y-z")])),
        ("many", disk_index([index_row(k, content=k % 7, before=k // 2, flags=7, priority=k % 3 - 1)
                             for k in range(1, 200)], dates=17 * 10**17))):
        save("disk_index", name, data)


def projector(shape=(4, 1, 8, 1, 4, 16, 128, 0), kind=1, version=1, magic=b"\x89PCP\r\n\x1a\n",
              middle=b"", scale=1.0, weight=0.25, sets=1, size=None, first=0):
    cells, inner = shape[3] * shape[4], shape[5]
    norm = struct.pack("<f", 0.5) * cells + struct.pack("<f", scale) * cells
    weights = (struct.pack("<f", weight) * ((cells + 1) * inner + inner * 128)) * sets
    whole = 56 + len(middle) + len(norm) + len(weights) + 8
    return (bytes([first]) + magic
            + struct.pack("<IIQ8I", version, kind, whole if size is None else size, *shape) + middle
            + norm + weights)


def training(epochs=2, done=1, unit=2.0, loss=0.5, seed=1):
    return struct.pack("<4Q2d2Q3d", 4, 4, epochs, seed, 0.125, 0.5, 0, done, unit, loss, loss)


def make_projector():
    """A byte (bit 0: no checksum is added; bit 1: a training goes on), then a projector or the
    state of a training without its checksum."""
    nan, narrow = float("nan"), (4, 1, 8, 1, 4, 0, 128, 0)
    for name, data in (
        ("whole", projector()), ("no_sum", projector(first=1, size=8600)),
        ("head", projector()[:57]), ("short", projector()[:-4]),
        ("magic", projector(magic=b"PCPROJ12")), ("version", projector(version=2)),
        ("kind", projector(kind=2)), ("nan", projector(weight=nan)),
        ("scale", projector(scale=-1.0)), ("narrow", projector(shape=narrow)),
        ("huge", projector(shape=narrow, size=128)[:25] + struct.pack("<8I", *[0xffffffff] * 8)
                 + bytes(64)),
        ("spare", projector(shape=(4, 1, 8, 1, 4, 16, 128, 7))),
        ("bucket", projector(shape=(4, 9, 8, 1, 4, 16, 128, 0))), ("size", projector(size=1 << 40)),
        ("training", projector(kind=2, middle=training(), sets=2, weight=0.01, first=2)),
        ("done", projector(kind=2, middle=training(done=3), sets=2, first=2)),
        ("unit", projector(kind=2, middle=training(unit=nan), sets=2, first=2)),
        ("large", projector(kind=2, middle=training(unit=2.0**100), sets=2, weight=1e30, first=2)),
        ("far", projector(kind=2, middle=training(), sets=2, weight=3e38, first=2)),
        ("seed", projector(kind=2, middle=training(seed=2), sets=2, first=2))):
        save("projector", name, data)


def maps_log(entries, magic=b"PCMAPLOG", version=1, layers=2, form=1, model=0, following=9):
    return (magic + struct.pack("<8I", version, 128, 128, form, layers, 1, 1, 0)
            + bytes([model]) * 32 + b"n" * 16 + struct.pack("<q", following) + bytes(32)
            + b"".join(entries))


def maps_entry(number, at=4096, size=340, tokens=4, note=10, kind=1, flags=0, heat=0.5, clock=1.0):
    return (struct.pack("<IIqQQdII", kind, flags, number, at, size, heat, tokens, note) + bytes(48)
            + struct.pack("<qd", 1700000000, clock) + bytes(16))


def maps_record(number, size=340, tokens=4, note=10, flags=0, layers=(b"a" * 20, b"b" * 20),
                header=192, move=0):
    table, body, at = b"", b"", 256
    for layer in layers:
        table += struct.pack("<QQ", at + move, len(layer)) + bytes(16)
        body += layer + bytes(-len(layer) % 64)
        at += 64
    head = (b"PCMAPREC" + struct.pack("<qIIIIIIQ", number, header, 2, tokens, note, flags, 0, size)
            + bytes(32) + b"n" * 16 + bytes(32))
    return (head + table + b"note" * 3)[:192 + 10] + bytes(54) + body


def maps_store(entries, records, flags=0, **more):
    log = maps_log(entries, **more)
    return (bytes([flags]) + struct.pack("<H", len(log)) + log
            + b"".join(r + bytes(-len(r) % 4096) for r in records[:-1])
            + (records[-1] if records else b""))


def make_map_store():
    """A byte (bit 0: no checksum is corrected; bit 1: a reader), the size of the log, a log of
    attention maps, and records from 4096 on."""
    nan, one, frame = float("nan"), [maps_entry(1)], bytes.fromhex("28b52ffd2014a3000061")
    record = maps_record(1)
    for name, data in (
        ("none", maps_store([], [])), ("one", maps_store(one, [record])),
        ("reader", maps_store(one, [record], flags=2)),
        ("no_sums", maps_store(one, [record], flags=1)),
        ("two", maps_store([maps_entry(1), maps_entry(2, at=8192)], [record, maps_record(2)])),
        ("removed", maps_store([maps_entry(1), maps_entry(1, kind=2)], [record])),
        ("back", maps_store([maps_entry(1, kind=2), maps_entry(1)], [record])),
        ("overlap", maps_store([maps_entry(1), maps_entry(2)], [maps_record(2)])),
        ("moved", maps_store([maps_entry(1, at=8192), maps_entry(1)], [record, record])),
        ("beyond", maps_store([maps_entry(1, at=1 << 40)], [record])),
        ("order", maps_store([maps_entry(5, at=8192), maps_entry(1)], [record, maps_record(5)])),
        ("kind", maps_store([maps_entry(1, kind=3)], [record])),
        ("nan", maps_store([maps_entry(1, heat=nan), maps_entry(2, clock=nan)], [record])),
        ("huge", maps_store([maps_entry(1, tokens=1 << 24)], [record])),
        ("note", maps_store([maps_entry(1, note=1 << 26, size=(1 << 26) + 300)], [record])),
        ("negative", maps_store([maps_entry(-1)], [record])),
        ("table", maps_store(one, [maps_record(1, move=64)])),
        ("header", maps_store(one, [maps_record(1, header=160)])),
        ("zeros", maps_store(one, [bytes(400)])),
        ("packed", maps_store([maps_entry(1, size=256 + 64 + 10, flags=1)],
                              [maps_record(1, size=330, flags=1, layers=(b"a" * 20, frame))])),
        ("no_frame", maps_store([maps_entry(1, size=256 + 64 + 9, flags=1)],
                                [maps_record(1, size=329, flags=1, layers=(b"a" * 9, b"b" * 9))])),
        ("last", maps_store([maps_entry((1 << 62) - 2)], [maps_record((1 << 62) - 2)])),
        ("version", maps_store(one, [record], version=2)),
        ("layers", maps_store(one, [record], layers=3)),
        ("format", maps_store(one, [record], form=9)),
        ("magic", maps_store(one, [record], magic=b"PCMAPLOX")),
        ("short", maps_store(one, [record])[:90]),
        ("torn", maps_store([maps_entry(1), maps_entry(2)[:77]], [record])),
        ("following", maps_store(one, [record], following=-1))):
        save("map_store", name, data)


def memo_index(kind, ids=(4, 9, -1, 7), dim=4, options=(2, 8, 8, 0, 0, 0), parts=b"",
               magic=b"pcindex\x01", places=None, values=None):
    rows = values or [float(i % 5) - 2 for i in range(len(ids) * dim)]
    return (magic
            + struct.pack("<II6iQQ", kind, dim, *options, 3, len(ids) if places is None else places)
            + struct.pack("<%dq" % len(ids), *ids) + struct.pack("<%df" % len(rows), *rows) + parts)


def graph(levels=(1, 1, 2, 1), links=None, entry=2, top=1, neighbours=None):
    """Two links a vector on upper levels, four on the lowest, all to the entry's and back."""
    links = links or [(1, 2, 3, -1), (0, 2, 3, -1), (0, 1, 3, -1, -1, -1), (0, 1, 2, -1)]
    flat = [link for some in links for link in some]
    return (struct.pack("<QQQii", 0, len(flat) if neighbours is None else neighbours, 0, entry, top)
            + struct.pack("<%di" % len(levels), *levels) + struct.pack("<%di" % len(flat), *flat))


def lists(of=(0, 1, 1, 0), centres=(0.0, 1.0) * 4, count=2):
    return (struct.pack("<QQQii", 4, 0, count, 0, 0) + struct.pack("<%di" % len(of), *of)
            + struct.pack("<%df" % len(centres), *centres))


def index_file_bytes(sections, magic=b"PCMEMIDX", version=1, count=None, size=None, spare=0,
                     move=0):
    at = 48 + 32 * len(sections) + 8
    whole, rows = at + sum(len(data) for _, _, data in sections), b""
    for tokens, unit, data in sections:
        rows += struct.pack("<IIQQQ", tokens, unit, at + move, len(data), 0)
        at += len(data)
    head = (magic + struct.pack("<IIQQQQ", version, len(sections) if count is None else count,
                                whole if size is None else size, 77, spare, 0))
    return head + rows + bytes(8) + b"".join(data for _, _, data in sections)


def make_index_file():
    """A byte (bit 0: checksums are not corrected; bit 1: the bytes of one index), then a memo's
    file of indexes."""
    nan, scan, far = float("nan"), memo_index(0, ids=(4, 9, 7)), [1e30] * 16
    hnsw, ivf = memo_index(2, parts=graph()), memo_index(3, parts=lists())
    flat = memo_index(1, parts=struct.pack("<QQQii", 0, 0, 0, 0, 0))
    for name, data in (
        ("scan", scan), ("flat", flat), ("hnsw", hnsw), ("ivf", ivf), ("removed", memo_index(0)),
        ("twice", memo_index(0, ids=(4, 4))), ("empty", memo_index(0, ids=())),
        ("empty_hnsw", memo_index(2, ids=(), parts=graph(levels=(), links=[()], entry=-1, top=-1))),
        ("empty_ivf", memo_index(3, ids=(), parts=lists(of=(), centres=(), count=0))),
        ("kind", memo_index(9)), ("magic", memo_index(0, magic=b"pcindex\x02")),
        ("dim", memo_index(0, dim=0, ids=())), ("places", memo_index(0, places=1 << 61)),
        ("nan", memo_index(0, ids=(4, 9), values=[nan] * 8)),
        ("far", memo_index(2, parts=graph(), values=far)), ("negative", memo_index(0, ids=(-5,))),
        ("levels", memo_index(2, parts=graph(levels=(1, 1, 99, 1)))),
        ("link", memo_index(2, parts=graph(links=[
            (1, 2, 3, 4), (0, 2, 3, -1), (0, 1, 3, -1, -1, -1), (0, 1, 2, -1)]))),
        ("upper", memo_index(2, parts=graph(
            links=[(1, 2, 3, -1), (0, 2, 3, -1), (0, 1, 3, -1, 0, -1), (0, 1, 2, -1)]))),
        ("entry", memo_index(2, parts=graph(entry=4))), ("top", memo_index(2, parts=graph(top=0))),
        ("neighbours", memo_index(2, parts=graph(neighbours=1 << 62))),
        ("list", memo_index(3, parts=lists(of=(0, 2, 1, 0)))),
        ("centre", memo_index(3, parts=lists(centres=(nan,) * 8))),
        ("options", memo_index(2, options=(-1, 8, 8, 0, 0, 0), parts=graph())),
        ("behind", scan + b"more"), ("cut", hnsw[:-3]), ("head", scan[:55])):
        save("index_file", name, b"\2" + data)
    prompts = b"prompts." * 4
    both = [(5, 0, scan + b"prompts." * 3), (6, 0, hnsw + b"prompts." * 4)]
    for name, data in (
        ("file", index_file_bytes(both)),
        ("file_units", index_file_bytes([(5, 0, ivf + prompts), (5, 1, ivf + prompts)])),
        ("file_none", index_file_bytes([])), ("file_order", index_file_bytes(both[::-1])),
        ("file_twice", index_file_bytes(both[:1] * 2)),
        ("file_magic", index_file_bytes(both, magic=b"PCMEMIDY")),
        ("file_version", index_file_bytes(both, version=2)),
        ("file_count", index_file_bytes(both, count=1 << 31)),
        ("file_fewer", index_file_bytes(both, count=1)),
        ("file_size", index_file_bytes(both, size=1 << 50)),
        ("file_spare", index_file_bytes(both, spare=1)),
        ("file_move", index_file_bytes(both, move=8)), ("file_short", index_file_bytes(both)[:-1]),
        ("file_head", index_file_bytes(both)[:50]),
        ("file_more", index_file_bytes(both) + b"more")):
        save("index_file", name, b"\0" + data)
    save("index_file", "file_no_sums", b"\1" + index_file_bytes(both))


# ---------------------------------------------------------------------- calls

def make_calls():
    """Bytes by chance: each chooses a call or an argument."""
    for i in range(24):
        save("builder", f"chance_{i:02}", b"".join(hashlib.sha256(b"b%d %d" % (i, part)).digest()
                                                   for part in range(4 + i)))
    for i in range(16):
        data = b"".join(hashlib.sha256(b"%d %d" % (i, part)).digest() for part in range(4 + 2 * i))
        save("calls", f"chance_{i:02}", data)


for make in (make_gguf, make_safetensors, make_config, make_golden, make_folder,
             make_tokenizer_json, make_tokenizer_model, make_llama2c, make_options, make_chat,
             make_pml, make_relay, make_serve, make_tokenize, make_disk_index, make_projector,
             make_map_store, make_index_file, make_calls):
    make()

"""Hugging Face folder -> GGUF v3:  python export_gguf.py FOLDER OUT.gguf [bf16|f16|q8_0]"""
import json
import sys

import gguf
from gguf import GGMLQuantizationType as Q
from safetensors.torch import load_file

TENSORS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj":
    "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj":
    "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"
}

TYPES = {"bf16": Q.BF16, "f16": Q.F16, "q8_0": Q.Q8_0}
FILE_TYPES = {"bf16": gguf.LlamaFileType.MOSTLY_BF16, "f16": gguf.LlamaFileType.MOSTLY_F16,
              "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}


def permute(w, heads):
    """Half-split rotary pairs -> the interleaved pairs of GGUF's llama."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).transpose(1,
                                                                               2).reshape(w.shape)


def gguf_name(name):
    """Name of a Hugging Face tensor in a GGUF file."""
    parts = name.split(".")
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    return f"blk.{parts[2]}.{TENSORS['.'.join(parts[3:-1])]}.weight"


def heads_to_permute(name, c):
    """Query and key rows are reordered head by head; 0: the tensor stays as it is."""
    if name.endswith("q_proj.weight"):
        return c["num_attention_heads"]
    return c["num_key_value_heads"] if name.endswith("k_proj.weight") else 0


def add_shape(w, c, kind):
    w.add_name("promptcache demo")
    w.add_license("Apache-2.0")
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_vocab_size(c["vocab_size"])
    w.add_file_type(FILE_TYPES[kind])


def add_tokenizer(w, c, folder):
    with open(folder + "/tokenizer.json") as f:
        t = json.load(f)
    with open(folder + "/tokenizer_config.json") as f:
        chat = json.load(f)["chat_template"]
    vocab = sorted(t["model"]["vocab"].items(), key=lambda kv: kv[1])
    special = {x["id"] for x in t["added_tokens"] if x["special"]}
    normal = gguf.TokenType.NORMAL
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([k for k, _ in vocab])
    w.add_token_types([
        gguf.TokenType.UNKNOWN if i == 0 else gguf.TokenType.CONTROL if i in special else normal
        for _, i in vocab
    ])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]])
    w.add_bos_token_id(c["bos_token_id"])
    w.add_eos_token_id(c["eos_token_id"])
    w.add_unk_token_id(0)
    w.add_pad_token_id(c["pad_token_id"])
    w.add_add_bos_token(False)                          # the chat template writes it
    w.add_chat_template(chat)


def export(folder, out, kind):
    with open(folder + "/config.json") as f:
        c = json.load(f)
    w = gguf.GGUFWriter(out, "llama")
    add_shape(w, c, kind)
    add_tokenizer(w, c, folder)
    for name, x in load_file(folder + "/model.safetensors").items():
        heads = heads_to_permute(name, c)
        x = permute(x.float(), heads) if heads else x.float()
        a = x.contiguous().numpy()
        if a.ndim == 1:
            w.add_tensor(gguf_name(name), a)
        else:
            w.add_tensor(gguf_name(name),
                         gguf.quants.quantize(a, TYPES[kind]),
                         raw_dtype=TYPES[kind])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    export(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "bf16")

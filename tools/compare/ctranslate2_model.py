"""CTranslate2's form of a Q8_0 file of random_gguf.py, quantised to 8 bits by CTranslate2.

    ctranslate2_model.py MODEL.gguf FOLDER [--shape llama-1b|tiny]

Needs ctranslate2 and numpy.
"""
import argparse
import os

import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

from random_gguf import SHAPES
from random_gguf_read import Weights


def fill(spec, w):
    decoder = spec.decoder
    decoder.embeddings.weight = w.matrix("token_embd.weight")
    decoder.layer_norm.gamma = w.gains("output_norm.weight")
    decoder.projection.weight = w.matrix("output.weight")
    decoder.scale_embeddings = False
    for i, layer in enumerate(decoder.layer):
        at = f"blk.{i}."
        attention, ffn = layer.self_attention, layer.ffn
        attention.layer_norm.gamma = w.gains(at + "attn_norm.weight")
        ffn.layer_norm.gamma = w.gains(at + "ffn_norm.weight")
        attention.linear[0].weight = np.concatenate(
            [w.matrix(f"{at}attn_{part}.weight") for part in "qkv"])
        attention.linear[1].weight = w.matrix(at + "attn_output.weight")
        ffn.linear_0.weight = w.matrix(at + "ffn_gate.weight")
        ffn.linear_0_noact.weight = w.matrix(at + "ffn_up.weight")
        ffn.linear_1.weight = w.matrix(at + "ffn_down.weight")


def write(path, folder, shape):
    w = Weights(path, shape)
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        w.layers, w.heads, activation=common_spec.Activation.SWISH, pre_norm=True, ffn_glu=True,
        rms_norm=True, rotary_dim=0, rotary_interleave=False, rotary_base=10000.0,
        num_heads_kv=w.kv_heads)
    fill(spec, w)
    spec.register_vocabulary(["<unk>", "<s>", "</s>"] + [f"t{i}" for i in range(3, w.vocab)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize(quantization="int8")
    os.makedirs(folder, exist_ok=True)
    spec.save(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf")
    parser.add_argument("folder")
    parser.add_argument("--shape", choices=SHAPES, default="llama-1b")
    options = parser.parse_args()
    write(options.gguf, options.folder, options.shape)


if __name__ == "__main__":
    main()

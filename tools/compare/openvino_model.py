"""OpenVINO's form of a Q8_0 file of random_gguf.py.

    openvino_model.py MODEL.gguf FOLDER [--weights asym|g32] [--shape llama-1b|tiny]

asym: 8 bits with one scale and zero point for each output, which OpenVINO's own converter makes by
default; g32: the numbers of the file, with its scale for each 32. The graph has the form of that
converter (a stateful decoder with input_ids, attention_mask, position_ids, beam_idx), so that
OpenVINO finds its fused RMS norm, RoPE and paged attention. Needs openvino and numpy.
"""
import argparse
import json
import os

import numpy as np
import openvino
from openvino import opset13 as op

from random_gguf import CONTEXT, SHAPES
from random_gguf_read import Weights

FARTHEST = 9223372036854775807


def ints(*values):
    return op.constant(np.array(values, np.int64))


def one(value):
    return op.constant(np.array(value, np.int64))


def number(value):
    return op.constant(np.array(value, np.float32))


def by_output(values):
    """8 bits with a scale and a zero point for each row."""
    low = np.minimum(values.min(1, keepdims=True), 0)
    high = np.maximum(values.max(1, keepdims=True), 1e-5)
    scale = ((high - low) / 255).astype(np.float16)
    exact = scale.astype(np.float32)
    zero = np.clip(np.rint(-low / exact), 0, 255).astype(np.uint8)
    codes = np.clip(np.rint(values / exact) + zero, 0, 255).astype(np.uint8)
    centred = op.subtract(op.convert(op.constant(codes), np.float16),
                          op.convert(op.constant(zero), np.float16))
    return op.convert(op.multiply(centred, op.constant(scale)), np.float32)


class Graph:
    def __init__(self, weights, kind):
        self.w, self.kind, self.sinks = weights, kind, []

    def matrix(self, name):
        # a look-up in groups is not fused: the embedding has a scale for each row in both forms
        if self.kind == "asym" or name == "token_embd.weight":
            return by_output(self.w.matrix(name))
        scales, codes = self.w.blocks(name)
        whole = op.multiply(op.convert(op.constant(codes), np.float16),
                            op.constant(scales[:, :, None]))
        whole = op.reshape(whole, ints(codes.shape[0], codes.shape[1] * 32), False)
        return op.convert(whole, np.float32)

    def linear(self, x, name):
        return op.matmul(x, self.matrix(name), False, True)

    def norm(self, x, name):
        gains = self.w.gains(name).reshape(1, 1, -1)
        mean = op.reduce_mean(op.power(x, number(2.0)), ints(-1), True)
        epsilon = op.constant(np.full((1, 1, 1), 1e-5, np.float32))
        scale = op.divide(number(1.0), op.sqrt(op.add(mean, epsilon)))
        return op.multiply(op.constant(gains), op.multiply(x, scale))

    def inputs(self):
        kinds = {"input_ids": (np.int64, 2), "attention_mask": (np.int64, 2),
                 "position_ids": (np.int64, 2), "beam_idx": (np.int32, 1)}
        found = []
        for name, (kind, rank) in kinds.items():
            parameter = op.parameter([-1] * rank, kind, name)
            parameter.output(0).set_names({name})
            parameter.set_friendly_name(name)
            found.append(parameter)
        return found

    def angles(self, positions):
        half = np.arange(0, self.w.head, 2, dtype=np.float64) / self.w.head
        inverse = op.constant((1.0 / 10000**half).astype(np.float32).reshape(1, -1, 1))
        inverse = op.broadcast(inverse, op.concat([self.batch, ints(1), ints(1)], 0),
                               broadcast_spec="BIDIRECTIONAL")
        place = op.convert(op.unsqueeze(positions, one(1)), np.float32)
        angles = op.transpose(op.matmul(inverse, place, False, False),
                              op.constant(np.array([0, 2, 1], np.int32)))
        both = op.concat([angles, angles], -1)
        return op.unsqueeze(op.cos(both), one(1)), op.unsqueeze(op.sin(both), one(1))

    def rotate(self, x):
        half = self.w.head // 2
        second = op.slice(x, ints(half), ints(FARTHEST), ints(1), ints(3))
        first = op.slice(x, ints(0), ints(half), ints(1), ints(3))
        turned = op.concat([op.multiply(second, number(-1.0)), first], -1)
        return op.add(op.multiply(x, self.cos), op.multiply(turned, self.sin))

    def by_head(self, x, heads):
        split = op.reshape(x, ints(0, 0, heads, self.w.head), True)
        return op.transpose(split, op.constant(np.array([0, 2, 1, 3], np.int32)))

    def kept(self, layer, kind, fresh):
        """Earlier K or V of the state and the new ones, one for each query head."""
        w, name = self.w, f"past_key_values.{layer}.{kind}present.{layer}.{kind}"
        empty = op.broadcast(number(0.0), op.concat([self.batch, ints(w.kv_heads, 0, w.head)], 0))
        old = op.read_value(empty, name, openvino.Type.f32, [-1, w.kv_heads, -1, w.head])
        both = op.concat([op.gather(old, self.beam, one(0)), fresh], 2)
        self.sinks.append(op.assign(both, name))
        shape = op.shape_of(both, "i64")
        wide = op.concat([op.gather(shape, ints(0, 1), one(0)), ints(w.heads // w.kv_heads),
                          op.gather(shape, ints(2, 3), one(0))], 0)
        wide = op.broadcast(op.unsqueeze(both, one(2)), wide, broadcast_spec="BIDIRECTIONAL")
        return op.reshape(wide, ints(0, w.heads, -1, w.head), True)

    def causal(self, ids, mask):
        fresh = op.gather(op.shape_of(ids, "i64"), one(1), one(0))
        total = op.gather(op.shape_of(mask, "i64"), one(1), one(0))
        columns = op.unsqueeze(op.range(one(0), total, one(1), "i64"), one(0))
        rows = op.range(op.subtract(total, fresh), total, one(1), "i64")
        seen = op.select(op.greater(columns, op.unsqueeze(rows, one(1))), number(-65504.0),
                         number(0.0))
        return op.unsqueeze(op.unsqueeze(seen, one(0)), one(0))

    def layer(self, i, x):
        w, at = self.w, f"blk.{i}."
        h = self.norm(x, at + "attn_norm.weight")
        q, k, v = (self.linear(h, f"{at}attn_{part}.weight") for part in "qkv")
        q, k = self.rotate(self.by_head(q, w.heads)), self.rotate(self.by_head(k, w.kv_heads))
        k, v = self.kept(i, "key", k), self.kept(i, "value", self.by_head(v, w.kv_heads))
        seen = op.scaled_dot_product_attention(q, k, v, self.mask)
        seen = op.transpose(seen, op.constant(np.array([0, 2, 1, 3], np.int32)))
        seen = op.reshape(seen, ints(0, 0, w.width), True)
        x = op.add(x, self.linear(seen, at + "attn_output.weight"))
        h = self.norm(x, at + "ffn_norm.weight")
        gate = op.swish(self.linear(h, at + "ffn_gate.weight"))
        up = self.linear(h, at + "ffn_up.weight")
        return op.add(x, self.linear(op.multiply(gate, up), at + "ffn_down.weight"))

    def model(self):
        ids, mask, positions, self.beam = inputs = self.inputs()
        x = op.gather(self.matrix("token_embd.weight"), op.convert(ids, np.int32), one(0))
        self.batch = op.gather(op.shape_of(ids, "i64"), ints(0), one(0))
        self.mask = self.causal(ids, mask)
        self.cos, self.sin = self.angles(positions)
        for i in range(self.w.layers):
            x = self.layer(i, x)
        logits = self.linear(self.norm(x, "output_norm.weight"), "output.weight")
        result = op.result(logits)
        for node in (logits, result):
            node.output(0).set_names({"logits"})
        return openvino.Model([result], self.sinks, inputs, "llama")


def write(path, folder, kind, shape):
    w = Weights(path, shape)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": w.width,
            "intermediate_size": w.ffn, "num_hidden_layers": w.layers,
            "num_attention_heads": w.heads, "num_key_value_heads": w.kv_heads,
            "head_dim": w.head, "vocab_size": w.vocab, "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2
        }, file)
    with open(os.path.join(folder, "generation_config.json"), "w") as file:
        json.dump({"bos_token_id": 1, "eos_token_id": 2}, file)
    openvino.save_model(Graph(w, kind).model(), os.path.join(folder, "openvino_model.xml"),
                        compress_to_fp16=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf")
    parser.add_argument("folder")
    parser.add_argument("--weights", choices=("asym", "g32"), default="asym")
    parser.add_argument("--shape", choices=SHAPES, default="llama-1b")
    options = parser.parse_args()
    write(options.gguf, options.folder, options.weights, options.shape)


if __name__ == "__main__":
    main()

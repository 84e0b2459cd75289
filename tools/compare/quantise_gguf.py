#!/usr/bin/env python3
"""Writes a GGUF file whose matrices are in fp32, fp16 or bf16 once more for each quantised type, to
measure what a type loses (promptcache-bench inputs). ggml quantises, through its C interface.

    quantise_gguf.py IN.gguf OUT_FOLDER --ggml libggml-base.so [--types q8_0,q4_k,...]

Matrices whose rows do not fit the blocks of a type stay as they are; a type that fits none is left
out. Needs numpy.
"""
import argparse
import ctypes
import os
import struct

import numpy as np

ALIGN = 32
KINDS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
         11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
TYPES = {  # number, values of a block, bytes of a block
    "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24),
    "q8_0": (8, 32, 34), "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "iq4_nl": (20, 32, 18),
    "iq4_xs": (23, 256, 136), "mxfp4": (39, 32, 17)}
PLAIN = {0: "<f4", 1: "<f2", 30: "<u2"}  # fp32, fp16, bf16


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            for _ in range(count):
                self.skip(inner)
        else:
            self.number(KINDS[kind])


def read(path):
    """The key-value part as bytes, their count, and [name, shape, type, bytes of data]."""
    data = open(path, "rb").read()
    r = Reader(data)
    if r.number("<I") != 0x46554747:
        raise SystemExit(f"{path} is no GGUF file")
    r.number("<I")
    count, pairs = r.number("<Q"), r.number("<Q")
    first = r.at
    for _ in range(pairs):
        r.text()
        r.skip(r.number("<I"))
    head, found = data[first:r.at], []
    for _ in range(count):
        name = r.text()
        shape = [r.number("<Q") for _ in range(r.number("<I"))]
        found.append([name, shape, r.number("<I"), r.number("<Q")])
    base = (r.at + ALIGN - 1) // ALIGN * ALIGN
    for tensor in found:
        kind, start = tensor[2], base + tensor[3]
        if kind not in PLAIN:
            raise SystemExit(f"{path}: {tensor[0].decode()} is quantised already")
        size = int(np.prod(tensor[1])) * np.dtype(PLAIN[kind]).itemsize
        tensor[3] = data[start:start + size]
    return head, pairs, found


def floats(kind, raw):
    values = np.frombuffer(raw, PLAIN[kind])
    if kind == 30:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def quantised(ggml, kind, shape, tensor):
    number, block, size = kind
    values = np.ascontiguousarray(floats(tensor[2], tensor[3]))
    out = ctypes.create_string_buffer(values.size // block * size)
    ggml.ggml_quantize_chunk(number, values.ctypes.data_as(ctypes.c_void_p), out, 0,
                             values.size // shape[0], shape[0], None)
    return [tensor[0], shape, number, out.raw]


def write(path, head, pairs, tensors):
    infos, at = b"", 0
    for name, shape, kind, raw in tensors:
        infos += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, at)
        at += (len(raw) + ALIGN - 1) // ALIGN * ALIGN
    with open(path, "wb") as file:
        file.write(struct.pack("<IIQQ", 0x46554747, 3, len(tensors), pairs) + head + infos)
        file.write(b"\0" * (-file.tell() % ALIGN))
        for _, _, _, raw in tensors:
            file.write(raw + b"\0" * (-len(raw) % ALIGN))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source")
    parser.add_argument("folder")
    parser.add_argument("--ggml", required=True)
    parser.add_argument("--types", default=",".join(TYPES))
    args = parser.parse_args()
    ggml = ctypes.CDLL(args.ggml)
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [
        ctypes.c_int64] * 3 + [ctypes.c_void_p]
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    head, pairs, tensors = read(args.source)
    os.makedirs(args.folder, exist_ok=True)
    stem = os.path.splitext(os.path.basename(args.source))[0]
    for name in args.types.split(","):
        kind = TYPES[name]
        fits = [len(t[1]) == 2 and t[1][0] % kind[1] == 0 for t in tensors]
        if any(fits):
            write(os.path.join(args.folder, f"{stem}-{name}.gguf"), head, pairs,
                  [quantised(ggml, kind, t[1], t) if fit else t for t, fit in zip(tensors, fits)])


if __name__ == "__main__":
    main()

"""Reads the Q8_0 files that random_gguf.py writes, for peers that have formats of their own."""
import numpy as np

import random_gguf

BLOCK = np.dtype([("scale", "<f2"), ("codes", "i1", 32)])


def halves(values, head):
    """Rows of Q and K: GGUF's Llama rotates neighbours, Hugging Face's the halves of a head."""
    rows = values.shape[0]
    paired = values.reshape(rows // head, head // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(paired.swapaxes(1, 2).reshape(values.shape))


class Weights:
    def __init__(self, path, shape):
        (self.layers, self.width, self.heads, self.kv_heads, self.ffn,
         self.vocab) = random_gguf.SHAPES[shape]
        self.head = self.width // self.heads
        self.places, end = {}, 0
        align = random_gguf.ALIGN
        for name, rows, columns, _ in random_gguf.tensors(shape):
            self.places[name] = (end, rows, columns)
            size = rows * columns // 32 * BLOCK.itemsize if rows else columns * 4
            end += (size + align - 1) // align * align
        self.raw = np.memmap(path, dtype=np.uint8, mode="r")
        self.base = len(self.raw) - end

    def blocks(self, name):
        """Scales (rows, blocks) and codes (rows, blocks, 32) of a matrix, rows in Hugging Face's
        order."""
        at, rows, columns = self.places[name]
        found = np.frombuffer(self.raw, BLOCK, rows * columns // 32, self.base + at)
        scales = found["scale"].reshape(rows, columns // 32)
        codes = found["codes"].reshape(rows, columns // 32, 32)
        if ".attn_q." in name or ".attn_k." in name:
            return halves(scales, self.head), halves(codes, self.head)
        return scales.copy(), codes.copy()

    def matrix(self, name):
        scales, codes = self.blocks(name)
        values = codes.astype(np.float32) * scales.astype(np.float32)[:, :, None]
        return values.reshape(scales.shape[0], -1)

    def gains(self, name):
        at, _, columns = self.places[name]
        return np.frombuffer(self.raw, "<f4", columns, self.base + at).copy()

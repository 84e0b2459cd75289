"""Weights that follow from a seed, equal to the last bit here and in test/support/seeded.h.

Value i of a tensor is the sum of the four 16-bit parts of a hash of seed and i, about normal, then
scaled and shifted: each step is one rounding of IEEE arithmetic."""
import numpy as np

MEAN, DEVIATION = 4 * 65535 / 2, 37837.0  # of the sum; the deviation rounded to a whole number


def mixed(x):
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashes(seed, count):
    with np.errstate(over="ignore"):
        at = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return mixed(at + np.uint64(seed))


def name_seed(name):
    """FNV-1a, so that each tensor has its own seed, whatever the order."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    return seed


def values(name, shape, scale, shift):
    """fp32 values of one tensor."""
    bits = hashes(name_seed(name), int(np.prod(shape)))
    total = sum(((bits >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.float64)
                for i in range(4))
    scaled = (total - MEAN) / DEVIATION * scale
    return (scaled + shift).astype(np.float32).reshape(shape)


def digest(tensors):
    """FNV-1a over the 32-bit words of all values, in the order of the list."""
    state = 0xCBF29CE484222325
    for tensor in tensors:
        for word in tensor.ravel().view(np.uint32).tolist():
            state = (state ^ word) * 0x100000001B3 % 2**64
    return f"{state:016x}"

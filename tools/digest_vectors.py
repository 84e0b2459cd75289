#!/usr/bin/env python3
"""Recomputes the identity digests of doc/format.md with nothing but hashlib and compares them with
its table.

usage: digest_vectors.py [doc/format.md]     exit 0: all equal, 1: a difference, 2: usage
"""
import hashlib
import pathlib
import re
import struct
import sys

ZERO = bytes(32)


def u64(value):
    return struct.pack("<Q", value & (2**64 - 1))


def run(data):
    return u64(len(data)) + data


def digest(domain, *fields):
    return hashlib.blake2b(run(domain.encode()) + b"".join(fields), digest_size=32).digest()


def base(model, adapter, tokenizer, scheme, regime, dtype, layout, encoding, salt):
    return digest("base/1", run(model), run(adapter), run(tokenizer), u64(scheme), u64(regime),
                  u64(dtype), u64(layout), u64(encoding), run(salt))


def segment(base_id, parent, distance, offset, tokens, relative=()):
    return digest("seg/1", run(base_id), run(parent), u64(distance), u64(offset),
                  u64(len(tokens)), b"".join(struct.pack("<i", t) for t in tokens),
                  u64(len(relative)), b"".join(u64(r) for r in relative))


def files(*contents):
    return digest("files/1", u64(len(contents)), *(run(content) for content in contents))


def shown(seal_key, purpose, data):
    subkey = hashlib.blake2b(b"", digest_size=32, key=seal_key, person=b"pcrecord",
                             salt=u64(purpose)).digest()
    return hashlib.blake2b(data, digest_size=32, key=subkey).digest()


def vectors():
    a = base(bytes(range(32)), b"", bytes(range(32, 64)), 1, 0, 1, 1, 0, b"")
    b = base(bytes(range(32)), bytes(range(64, 96)), ZERO, 3, 4096, 2, 0, 3, b"tenant-7")
    a1 = segment(a, ZERO, 0, 0, [1, 2, 3])
    a2 = segment(a, a1, 3, 0, [4, -1, 2147483647, 0])
    seal, an_id = bytes(range(32)), bytes(range(64, 96))
    return {
        "base-a": a, "base-b": b, "segment-a1": a1, "segment-a2": a2, "segment-a3": segment(
            a, a2, -2, 0, [1]),
        "segment-gap": segment(a, ZERO, 0, 0, [1, 2, 3], [0, 1, 5]), "segment-empty": segment(
            b, ZERO, 0, 17, []), "files-one": files(b"weights"), "files-two": files(
                b"weights", b""), "shown-key": shown(seal, 2, an_id + ZERO),
        "shown-key-own": shown(seal, 2, an_id + b"avx2".ljust(32, b"\0")), "shown-salt": shown(
            seal, 3, an_id), "shown-content": shown(seal, 4, an_id)
    }


def main():
    if len(sys.argv) > 2:
        print(__doc__)
        return 2
    path = pathlib.Path(sys.argv[1]) if len(
        sys.argv) == 2 else pathlib.Path(__file__).parent.parent / "doc/format.md"
    written = dict(
        re.findall(r"^\| `([a-z0-9-]+)` \|.*\| `([0-9a-f]{64})` \|$", path.read_text(), re.M))
    wrong = 0
    for name, value in vectors().items():
        ok = written.get(name) == value.hex()
        wrong += not ok
        print("ok   " if ok else "WRONG", name, value.hex())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

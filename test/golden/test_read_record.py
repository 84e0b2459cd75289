#!/usr/bin/env python3
"""Catches: records that are not as doc/format.md says. tools/read_record.py, made from that page, and the library's reader must see the same in records that
the library writes now and in those of test/golden/records, field by field; and both must find damage.

usage: test_read_record.py WRITE_RECORDS SOURCE_DIR     exit: 0, 1, or 77 where the modules nacl, xxhash and zstandard are missing
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KEY = bytes(range(0xa0, 0xc0))
checks = {True: 0, False: 0}


def check(condition, what):
    checks[bool(condition)] += 1
    if not condition:
        print("FAILED:", what)


def interpreter():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and not subprocess.run([python, "-c", "import nacl, xxhash, zstandard"], capture_output=True).returncode:
            return python
    print("skipped: no Python with the modules nacl, xxhash and zstandard (Debian: python3-nacl python3-xxhash python3-zstandard)")
    sys.exit(77)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return "%016x" % value


class Readers:
    def __init__(self, program, source, folder):
        self.program, self.tool, self.folder = program, source / "tools/read_record.py", folder
        self.python = interpreter()

    def library(self, path):
        done = subprocess.run([self.program, "--json", str(path)], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def document(self, path, *options):
        done = subprocess.run([self.python, str(self.tool), *options, str(path)], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None


def compare(readers, path):
    key = ["--key", KEY.hex()] if path.read_bytes()[24] & 1 else []
    blocks = readers.folder / (path.stem + "-blocks")
    want, have = readers.library(path), readers.document(path, *key, "--blocks", str(blocks))
    check(want and have, "%s is read by both" % path.name)
    if not want or not have:
        return
    hashes = want.pop("blocks_fnv")
    for name in want:
        check(have.get(name) == want[name], "%s: %s is %r for the library, %r by the document" % (path.name, name, want[name], have.get(name)))
    check(have["checked"] == {"checksums": True, "seals": bool(key), "zstd": True}, "%s: all is checked" % path.name)
    for i in [i for i, b in enumerate(have["blocks"]) if b["codec"] in (1, 2)]:
        check(fnv((blocks / ("block-%d" % i)).read_bytes()) == hashes[i], "%s: block %d" % (path.name, i))
    if key:
        closed = readers.document(path)
        check(closed and "model" not in closed and closed["key"] == want["key"], "%s: without its key only the face is told" % path.name)


def damage(readers, path):
    data = path.read_bytes()
    header = int.from_bytes(data[12:16], "little")
    bad = readers.folder / "damaged.pcr"
    key = ["--key", KEY.hex()] if data[24] & 1 else []
    for at in [3, 9, 45, 50, 64, 200, header - 1, header + 1, 4096, len(data) - 1]:
        changed = bytearray(data)
        changed[at] ^= 0x10
        bad.write_bytes(changed)
        check(readers.document(bad, *key) is None, "%s: byte %d is damaged, which the tool finds" % (path.name, at))
    for changed in (data[:-1], data + b"\0", data[:63], data[:header]):
        bad.write_bytes(changed)
        check(readers.document(bad, *key) is None, "%s: %d bytes of %d" % (path.name, len(changed), len(data)))
        check(readers.library(bad) is None, "%s: %d bytes of %d" % (path.name, len(changed), len(data)))


def main():
    program, source = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        readers = Readers(program, source, pathlib.Path(name))
        check(not subprocess.run([program, name]).returncode, "records are written")
        records = sorted(pathlib.Path(name).glob("*.pcr")) + sorted((source / "test/golden/records").glob("*.pcr"))
        check(len(records) > 4, "there are records")
        for path in records:
            compare(readers, path)
        damage(readers, pathlib.Path(name) / "raw-host.pcr")
        damage(readers, pathlib.Path(name) / "raw-bf16-sealed.pcr")
    print("checks: %d passed, %d failed" % (checks[True], checks[False]))
    return 1 if checks[False] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Catches: a store of attention maps that is not as doc/format.md says. tools/read_maps.py, made from that page, and the library's reader must see the same in a
store that the library writes now and in the one of test/golden/maps, record by record; and both must find damage.

usage: test_read_maps.py WRITE_MAPS SOURCE_DIR     exit: 0, 1, or 77 where the modules xxhash and zstandard are missing
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

checks = {True: 0, False: 0}


def check(condition, what):
    checks[bool(condition)] += 1
    if not condition:
        print("FAILED:", what)


def interpreter():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and not subprocess.run([python, "-c", "import xxhash, zstandard"], capture_output=True).returncode:
            return python
    print("skipped: no Python with the modules xxhash and zstandard (Debian: python3-xxhash python3-zstandard)")
    sys.exit(77)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return "%016x" % value


class Readers:
    def __init__(self, program, source):
        self.program, self.tool, self.python = program, source / "tools/read_maps.py", interpreter()

    def library(self, folder):
        done = subprocess.run([self.program, "--json", str(folder)], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def document(self, folder, *options):
        done = subprocess.run([self.python, str(self.tool), *options, str(folder)], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None


def compare(readers, folder, out):
    want, have = readers.library(folder), readers.document(folder, "--out", str(out))
    check(want and have, "%s is read by both" % folder)
    if not want or not have:
        return
    for name in ("model", "layers", "heads", "causal", "format"):
        check(want[name] == have[name], "%s: %s" % (folder, name))
    check(have["checked"] == {"checksums": True, "zstd": True}, "%s: all is checked" % folder)
    check([r["id"] for r in want["records"]] == [r["id"] for r in have["records"]], "%s: the same records" % folder)
    check(len({r["packed"] for r in have["records"]}) == 2, "%s: packed and plain ones" % folder)
    for ours, theirs in zip(want["records"], have["records"]):
        for name in ("tokens", "note", "bytes", "tokens_id"):
            check(ours[name] == theirs[name], "%s: record %d: %s" % (folder, ours["id"], name))
        check(fnv((out / ("note-%d" % ours["id"])).read_bytes()) == ours["note_fnv"], "%s: record %d: note" % (folder, ours["id"]))
        for i, value in enumerate(ours["layers_fnv"]):
            check(fnv((out / ("layer-%d-%d" % (ours["id"], i))).read_bytes()) == value, "%s: record %d: layer %d" % (folder, ours["id"], i))


def damage(readers, folder, scratch):
    first = readers.document(folder)["records"][0]["at"]
    for name, places in (("maps.log", (0, 9, 45, 80, 115, 130, 250)), ("maps.data", (3, 20, 40, first, first + 20, first + 120, first + 140, first + 300, first + 700))):
        for at in places:
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(folder, scratch)
            data = bytearray((scratch / name).read_bytes())
            data[at] ^= 0x10
            (scratch / name).write_bytes(data)
            check(readers.document(scratch) is None, "%s: byte %d is damaged, which the tool finds" % (name, at))
            check(readers.library(scratch) is None, "%s: byte %d is damaged, which the library finds" % (name, at))


def main():
    program, source = sys.argv[1], pathlib.Path(sys.argv[2])
    readers = Readers(program, source)
    with tempfile.TemporaryDirectory() as name:
        made = pathlib.Path(name) / "made"
        check(not subprocess.run([program, str(made)]).returncode, "a store is written")
        compare(readers, made, pathlib.Path(name) / "out-made")
        compare(readers, source / "test/golden/maps", pathlib.Path(name) / "out-golden")
        damage(readers, made, pathlib.Path(name) / "damaged")
    print("checks: %d passed, %d failed" % (checks[True], checks[False]))
    return 1 if checks[False] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Catches: a store of attention maps that is not as doc/format.md says. tools/read_maps.py was made
from that page. It and the library's reader must see the same records in a store that the library
writes now and in the one of test/golden/maps. Both must find damage. tools/read_maps.py must also
read the file of indexes that the library writes for a memo.

usage: test_read_maps.py WRITE_MAPS SOURCE_DIR
exit: 0, 1, or 77 if the modules xxhash and zstandard are missing
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from second_reader import Readers, check, finish, fnv  # noqa: E402


def compare(readers, folder, out):
    want, have = readers.library(folder), readers.document(folder, "--out", str(out))
    check(want and have, "%s is read by both" % folder)
    if not want or not have:
        return
    for name in ("model", "layers", "heads", "causal", "format"):
        check(want[name] == have[name], "%s: %s" % (folder, name))
    check(have["checked"] == {"checksums": True, "zstd": True}, "%s: all is checked" % folder)
    check([r["id"] for r in want["records"]] == [r["id"] for r in have["records"]],
          "%s: the same records" % folder)
    check(len({r["compressed"] for r in have["records"]}) == 2,
          "%s: compressed and plain ones" % folder)
    for ours, theirs in zip(want["records"], have["records"]):
        for name in ("tokens", "metadata", "bytes", "tokens_id"):
            check(ours[name] == theirs[name], "%s: record %d: %s" % (folder, ours["id"], name))
        check(fnv((out / ("metadata-%d" % ours["id"])).read_bytes()) == ours["metadata_fnv"],
              "%s: record %d: metadata" % (folder, ours["id"]))
        for i, value in enumerate(ours["layers_fnv"]):
            check(fnv((out / ("layer-%d-%d" % (ours["id"], i))).read_bytes()) == value,
                  "%s: record %d: layer %d" % (folder, ours["id"], i))


def damage(readers, folder, scratch):
    first = readers.document(folder)["records"][0]["at"]
    for name, places in (("maps.log", (0, 9, 45, 80, 115, 130, 250)),
                         ("maps.data", (3, 20, 40, first, first + 20, first + 120, first + 140,
                                        first + 300, first + 700))):
        for at in places:
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(folder, scratch)
            data = bytearray((scratch / name).read_bytes())
            data[at] ^= 0x10
            (scratch / name).write_bytes(data)
            check(readers.document(scratch) is None,
                  "%s: byte %d is damaged, which the tool finds" % (name, at))
            check(readers.library(scratch) is None,
                  "%s: byte %d is damaged, which the library finds" % (name, at))


def cut(readers, folder, scratch):
    """A log without its last entries, whole or not."""
    size = (folder / "maps.log").stat().st_size
    for end in (size - 1, size - 64, size - 127, size - 128, size - 200, size - 256, 129, 128, 127,
                64, 0):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        (scratch / "maps.log").write_bytes((folder / "maps.log").read_bytes()[:end])
        check(readers.document(scratch) is None,
              "maps.log is cut to %d of %d bytes, which the tool finds" % (end, size))
        check(readers.library(scratch) is None,
              "maps.log is cut to %d of %d bytes, which the library finds" % (end, size))


def compare_indexes(readers, path):
    check(not subprocess.run([readers.program, "--indexes", str(path)]).returncode,
          "indexes are written")
    told, records = readers.document(path), [3 * i for i in range(300) if i % 10]
    check(told and told["projector"] == "%016x" % 77 and len(told["indexes"]) in (1, 4),
          "indexes are read")
    for index, kind in zip(told["indexes"] if told else (), ("scan", "flat", "hnsw", "ivf")):
        check((index["kind"], index["tokens"], index["positions"])
              == (kind, 8, 270 if kind == "scan" else 300), "the index %s" % kind)
        check(index["records"] == records, "records of the index %s" % kind)
    whole = path.read_bytes()
    for at in list(range(0, 250, 20)) + list(range(300, len(whole), len(whole) // 20)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        check(readers.document(path) is None,
              "byte %d of indexes is damaged, which the tool finds" % at)


def main():
    program, source = sys.argv[1], pathlib.Path(sys.argv[2])
    readers = Readers(program, source / "tools/read_maps.py", ("xxhash", "zstandard"))
    with tempfile.TemporaryDirectory() as name:
        made = pathlib.Path(name) / "made"
        check(not subprocess.run([program, str(made)]).returncode, "a store is written")
        compare(readers, made, pathlib.Path(name) / "out-made")
        compare(readers, source / "test/golden/maps", pathlib.Path(name) / "out-golden")
        damage(readers, made, pathlib.Path(name) / "damaged")
        cut(readers, made, pathlib.Path(name) / "cut")
        compare_indexes(readers, pathlib.Path(name) / "index-16.pci")
    return finish()


if __name__ == "__main__":
    sys.exit(main())

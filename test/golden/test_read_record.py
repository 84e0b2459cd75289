#!/usr/bin/env python3
"""Catches: records that are not as doc/format.md says. tools/read_record.py was made from that
page. It and the library's reader must see the same fields in records that the library writes now
and in those of test/golden/records. Both must find damage.

usage: test_read_record.py WRITE_RECORDS SOURCE_DIR
exit: 0, 1, or 77 if the modules nacl, xxhash and zstandard are missing
"""
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from second_reader import Readers, check, finish, fnv  # noqa: E402

KEY = bytes(range(0xa0, 0xc0))


def refused(readers, path):
    """A sealed record of version 1 shows its ids: nobody writes or reads it any more."""
    check(readers.library(path) is None and readers.document(path, "--key", KEY.hex()) is None,
          "%s is refused by both" % path.name)


def compare(readers, folder, path):
    if path.read_bytes()[24] & 1 and path.read_bytes()[8] == 1:
        return refused(readers, path)
    key = ["--key", KEY.hex()] if path.read_bytes()[24] & 1 else []
    blocks = folder / (path.stem + "-blocks")
    want, have = readers.library(path), readers.document(path, *key, "--blocks", str(blocks))
    check(want and have, "%s is read by both" % path.name)
    if not want or not have:
        return
    hashes = want.pop("blocks_fnv")
    for name in want:
        check(have.get(name) == want[name],
              "%s: %s is %r for the library, %r by the document"
              % (path.name, name, want[name], have.get(name)))
    check(have["checked"] == {"checksums": True, "seals": bool(key), "zstd": True},
          "%s: all is checked" % path.name)
    for i in [i for i, b in enumerate(have["blocks"]) if b["codec"] in (1, 2)]:
        check(fnv((blocks / ("block-%d" % i)).read_bytes()) == hashes[i],
              "%s: block %d" % (path.name, i))
    if key:
        closed = readers.document(path)
        check(closed and "model" not in closed,
              "%s: without its key only the face is told" % path.name)
        for name in ("key", "salt", "content", "parent"):
            check(not want[name] or closed[name] != want[name],
                  "%s: it does not show its %s" % (path.name, name))


def damage(readers, folder, path):
    data = path.read_bytes()
    header = int.from_bytes(data[12:16], "little")
    bad = folder / "damaged.pcr"
    key = ["--key", KEY.hex()] if data[24] & 1 else []
    for at in [3, 9, 45, 50, 64, 200, header - 1, header + 1, 4096, len(data) - 1]:
        changed = bytearray(data)
        changed[at] ^= 0x10
        bad.write_bytes(changed)
        check(readers.document(bad, *key) is None,
              "%s: byte %d is damaged, which the tool finds" % (path.name, at))
    for changed in (data[:-1], data + b"\0", data[:63], data[:header]):
        bad.write_bytes(changed)
        check(readers.document(bad, *key) is None,
              "%s: %d bytes of %d" % (path.name, len(changed), len(data)))
        check(readers.library(bad) is None,
              "%s: %d bytes of %d" % (path.name, len(changed), len(data)))


def main():
    program, source = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        readers = Readers(program, source / "tools/read_record.py", ("nacl", "xxhash", "zstandard"))
        check(not subprocess.run([program, name]).returncode, "records are written")
        records = (sorted(folder.glob("*.pcr"))
                   + sorted((source / "test/golden/records").glob("*.pcr")))
        check(len(records) > 4, "there are records")
        for path in records:
            compare(readers, folder, path)
        damage(readers, folder, folder / "raw-host.pcr")
        damage(readers, folder, folder / "raw-bf16-sealed-2.pcr")
    return finish()


if __name__ == "__main__":
    sys.exit(main())

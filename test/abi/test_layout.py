#!/usr/bin/env python3
"""Catches: a header that breaks what a release has frozen, padding that the compiler adds, a frozen
file that does not notice a field or constant that moves, widens or changes.

test/abi/released/layout_vX_Y.c (freeze.py) freezes a release. Before the first release the file is
made of the header as it is. The test moves, widens and renumbers things in a copy of the headers;
the frozen file must notice."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from freeze import freeze
from public_header import Header

here = os.path.dirname(os.path.abspath(__file__))
header_path, compiler = sys.argv[1], sys.argv[2]
frozen = sorted(glob.glob(os.path.join(here, "released", "layout_v*.c")),
                key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
failures = []


def compiles(source, folder):
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpadded", "-Werror", "-fsyntax-only",
               "-I", folder, source]
    return subprocess.run(command, capture_output=True, text=True)


def check_frozen(path):
    result = compiles(path, os.path.dirname(header_path))
    if result.returncode:
        failures.append(f"{os.path.basename(path)}: {result.stderr}")


lines = freeze(header_path, compiler)
want = [line for line in lines.splitlines() if line.startswith(("GROWS", "AT", "SAME"))]
made = tempfile.TemporaryDirectory()
if frozen:
    have = set(open(frozen[-1], encoding="utf-8").read().splitlines())
    failures += [f"not frozen by {os.path.basename(frozen[-1])}: {line}" for line in want
                 if line not in have]
else:
    frozen = [os.path.join(made.name, "layout.c")]
    with open(frozen[0], "w", encoding="utf-8") as file:
        file.write(lines + "\n")
for source in frozen:
    check_frozen(source)

# Without comments, which may change.
text = re.sub(r"[ \t]+$", "", Header(header_path).each["promptcache.h"], flags=re.M)
for old, new in [
    ("", ""),  # an unchanged copy compiles
    ("    int32_t layers;\n    int32_t heads;\n", "    int32_t heads;\n    int32_t layers;\n"),
    ("    uint64_t bytes_loaded;\n", "    uint64_t added;\n    uint64_t bytes_loaded;\n"),
    ("    uint32_t repair_tokens;\n", "    uint64_t repair_tokens;\n"),
    ("PC_REASON_PREFIX = 6", "PC_REASON_PREFIX = 7"),
    ("X(PC_ERR_IO, -3,", "X(PC_ERR_IO, -33,"),
    ("PC_PML_OVERLAP = 4", "PC_PML_OVERLAP = 8"),
    ("PC_TIER_ROOM = 16", "PC_TIER_ROOM = 17"),
    ("PC_TIER_COUNT = 6", "PC_TIER_COUNT = 7"),  # may grow
]:
    if old and text.count(old) != 1:
        failures.append(f"the header has no single '{old.strip()}' to change")
        continue
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "promptcache.h"), "w", encoding="utf-8") as file:
            file.write(text.replace(old, new) if old else text)
        shutil.copytree(os.path.join(os.path.dirname(header_path), "promptcache"),
                        os.path.join(folder, "promptcache"))
        refused = bool(compiles(frozen[-1], folder).returncode)
        if refused != (bool(old) and "_COUNT" not in old):
            failures.append(f"refused: '{new.strip()}'" if refused
                            else f"nobody notices '{new.strip()}'")

print("\n".join(failures)
      or f"{len(want)} sizes, offsets and values are as frozen; "
         f"{len(Header(header_path).structs)} structs")
sys.exit(bool(failures))

#!/usr/bin/env python3
"""Catches: an option or result struct without struct_size at its start or without an INIT macro, an INIT macro that forgets a field (in C or
C++), a public function without PC_API, types in the header that differ between compilers, a code that doc/errors.md does not explain or explains
with other words than the header."""
import os
import re
import subprocess
import sys
import tempfile

from public_header import GIVEN_BY_LIBRARY, Header

root, c_compiler, cxx_compiler = sys.argv[1], sys.argv[2], sys.argv[3]
path = os.path.join(root, "include", "promptcache.h")
header = Header(path)
failures = []

sized = [name for name, fields in header.structs.items() if fields[0] == "struct_size"]
for name, fields in header.structs.items():
    if re.search(r"_(options|stats|info|args|ops)$", name) and name not in sized:
        failures.append(f"{name} does not start with struct_size")
    if "struct_size" in fields[1:]:
        failures.append(f"{name}: struct_size is not the first field")
for name in sized:
    if (name.upper() + "_INIT" in header.inits) == (name in GIVEN_BY_LIBRARY):
        failures.append(f"{name} has no INIT macro, or one that nobody needs")
tried = "".join(open(os.path.join(root, "test", "abi", name), encoding="utf-8").read()
                for name in sorted(os.listdir(os.path.join(root, "test", "abi"))) if re.fullmatch(r"test_\w+_abi\.c", name))
failures += [f"no test of test/abi tries the rules of struct_size on {name}" for name in sized
             if name not in GIVEN_BY_LIBRARY and f"sizeof({name})" not in tried and f"CASE({name}," not in tried]
if len(sized) < 10:
    failures.append("the header was not understood")

# Every macro sets struct_size and names every field: -Wextra reports missing ones.
lines = ["#include <promptcache.h>"]
for name in sized:
    if name not in GIVEN_BY_LIBRARY:
        lines.append(f"extern const {name} {name}_default; const {name} {name}_default = {name.upper()}_INIT;")
for compiler, language, standard in [(c_compiler, "c", "c11"), (cxx_compiler, "c++", "c++17")]:
    if not compiler:
        continue
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "inits." + ("c" if language == "c" else "cc"))
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        command = [compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Wmissing-field-initializers",
                   "-Werror", "-fsyntax-only", "-I", os.path.dirname(path), source]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            failures.append(result.stderr)

for found in re.findall(r"\b(?:bool|long|inline|wchar_t|time_t|FILE|va_list)\b", header.code):
    failures.append(f"the header uses {found}")
if re.findall(r"#include <(.*?)>", header.code) != ["stddef.h", "stdint.h"]:
    failures.append("the header includes more than stddef.h and stdint.h")
functions = re.findall(r"^(?!typedef|#)(.*?)\b(pc_\w+)\(", header.code, flags=re.M)
failures += [f"{name} is not marked PC_API" for before, name in functions if "PC_API" not in before and "(*" not in before]

# | `PC_ERR_IO` | -3 | input or output failed | ...
page = open(os.path.join(root, "doc", "errors.md"), encoding="utf-8").read()
rows = {name: (int(value), text.strip()) for name, value, text in
        re.findall(r"^\| `(PC_\w+)` \| (-?\d+) \| ([^|]+)\|", page, flags=re.M)}
for name in sorted(header.codes.keys() | rows.keys()):
    if header.codes.get(name) != rows.get(name):
        failures.append(f"doc/errors.md: {name} is {rows.get(name)}, in the header {header.codes.get(name)}")

print("\n".join(failures) or f"{len(sized)} structs, {len(functions)} functions and {len(header.codes)} codes are as promised")
sys.exit(bool(failures))

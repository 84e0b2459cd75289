#!/usr/bin/env python3
"""Catches: an option or result struct without struct_size at its start, without an INIT macro or
without an init function (what that writes: test_extremes), an array of structs without a
stride, an INIT macro that forgets a field (in C or C++) or sets one to anything but zero, a
public function without PC_API, types in the header that differ between compilers, a constant
that generators of bindings (cffi, bindgen) do not see because it is a macro with a cast or a
call in it, flags that warn when somebody sets them, a code that doc/errors.md does not explain
or explains with other words than the header, a field, constant or function for measuring
outside bench.h."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from public_header import GIVEN_BY_LIBRARY, Header

root, c_compiler, cxx_compiler = sys.argv[1], sys.argv[2], sys.argv[3]
path = os.path.join(root, "include", "promptcache.h")
header = Header(path)
failures = []

sized = header.sized()
for name, fields in header.structs.items():
    if re.search(r"_(options|stats|info|args|ops)$", name) and name not in sized:
        failures.append(f"{name} does not start with struct_size")
    if "struct_size" in fields[1:]:
        failures.append(f"{name}: struct_size is not the first field")
for name in sized:
    if (name.upper() + "_INIT" in header.inits) == (name in GIVEN_BY_LIBRARY):
        failures.append(f"{name} has no INIT macro, or one that nobody needs")
# For languages without macros. The caller's size: the library's may be another.
declared = {item["name"]: item for item in header.of("function")}
for struct in header.of("struct"):
    name = struct["name"]
    init = declared.get(name + "_init")
    if (init is not None) != (name in sized and name not in GIVEN_BY_LIBRARY):
        failures.append(f"{name} has no init function, or one that nobody needs")
    elif init and ((init["header"], init["result"], [a["type"] for a in init["arguments"]])
                   != (struct["header"], "void", [name + " *", "size_t"])):
        failures.append(f"not void {name}_init({name} *, size_t) in {struct['header']}")
tried = "".join(open(os.path.join(root, "test", "abi", name), encoding="utf-8").read()
                for name in sorted(os.listdir(os.path.join(root, "test", "abi")))
                if re.fullmatch(r"test_\w+_abi\.c", name))
failures += [f"no test of test/abi tries the rules of struct_size on {name}" for name in sized
             if name not in GIVEN_BY_LIBRARY and f"sizeof({name})" not in tried
             and f"CASE({name}," not in tried]
# Every other struct is an element of arrays, which have a stride beside them, so that it can grow.
# An own model gets one pc_span by itself; the library has made it, so that it is long enough.
elements = set(header.structs) - set(sized)
for item in header.of("function") + header.of("struct") + header.of("function_type"):
    lists = [(item["name"], item.get("fields", item.get("arguments", [])))]
    lists += [(f"{item['name']}.{field['name']}", field["function"]["arguments"])
              for field in item.get("fields", []) if "function" in field]
    for place, declared in lists:
        names = [one["name"] for one in declared]
        for one in declared:
            of = re.fullmatch(r"(?:const )?(\w+) \*", one["type"])
            if of and of[1] in elements and place != "pc_model_ops.attach" and not any(
                    name.endswith("_stride") and one["name"].startswith(name[:-len("_stride")])
                    for name in names):
                failures.append(f"{place}: {one['name']} has no stride beside it")
            if one["type"] in elements:
                failures.append(f"{place}: {one['name']} is a {one['type']} that cannot grow")
if len(sized) < 10:
    failures.append("the header was not understood")

# Generators of bindings read enumerators and macros that are one decimal number, nothing else.
failures += [f"{name} is the macro '{value}', which bindings do not see: "
             "an enumerator, or one decimal number"
             for name, value in header.macros.items()
             if name != "PC_API" and not name.endswith("_INIT")
             and not re.fullmatch(r"-?[0-9]+", value)]
failures += [f"{item['name']} is a macro: an enumerator, unless #if needs it"
             for item in header.of("macro")
             if not re.match("PC_(?:VERSION|ABI_VERSION)", item["name"])]


def check(source, warnings, compilers):
    """Compiles the lines as C11 and as C++17 with each compiler."""
    for compiler, language, standard in compilers:
        with tempfile.TemporaryDirectory() as folder:
            path_c = os.path.join(folder, "tried." + ("c" if language == "c" else "cc"))
            with open(path_c, "w", encoding="utf-8") as file:
                file.write("\n".join(header.includes + source) + "\n")
            command = [compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra",
                       "-Wpedantic", *warnings, "-Werror", "-fsyntax-only", "-I",
                       os.path.dirname(path), path_c]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode:
                failures.append(f"{compiler}: {result.stderr}")


def check_alone(name, compilers):
    for compiler, language, standard in compilers:
        command = [compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic",
                   "-Werror", "-fsyntax-only", "-include",
                   os.path.join(os.path.dirname(path), name), os.devnull]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            failures.append(f"{compiler}: {name} alone: {result.stderr}")


configured = [(c_compiler, "c", "c11")] + ([(cxx_compiler, "c++", "c++17")] if cxx_compiler else [])
found = [(shutil.which(name), language, standard)
         for name, language, standard in [("gcc", "c", "c11"), ("clang", "c", "c11"),
                                          ("g++", "c++", "c++17"), ("clang++", "c++", "c++17")]
         if shutil.which(name)]

for name in header.names:
    check_alone(name, configured)
# Every macro sets struct_size and names every field: -Wextra reports missing ones.
check([f"extern const {name} {name}_default; const {name} {name}_default = {name.upper()}_INIT;"
       for name in sized if name not in GIVEN_BY_LIBRARY],
      ["-Wmissing-field-initializers"], configured)
# The bytes of an INIT macro are zeros with struct_size: what bindings make without the macros.
lines = header.includes + ["#include <stdio.h>", "#include <string.h>", "int main(void) {"]
for name in sized:
    if name not in GIVEN_BY_LIBRARY:
        lines.append(f"{{ {name} made = {name.upper()}_INIT, zeros; "
                     "memset(&zeros, 0, sizeof zeros); zeros.struct_size = sizeof zeros; "
                     "if (memcmp(&made, &zeros, sizeof made)) "
                     f'puts("{name}_INIT is not all zeros behind struct_size"); }}')
with tempfile.TemporaryDirectory() as folder:
    program = os.path.join(folder, "zeros")
    with open(program + ".c", "w", encoding="utf-8") as file:
        file.write("\n".join(lines + ["return 0; }"]))
    subprocess.run([c_compiler, "-std=c11", "-I", os.path.dirname(path), program + ".c",
                    "-o", program], check=True)
    failures += subprocess.run([program], check=True, capture_output=True,
                               text=True).stdout.splitlines()

# Constants of one enumeration are joined and go into fields of 64 and of 32 bits without a word.
joined = [" | ".join(names) for names in header.enums]
check(["uint64_t wide(uint64_t flags);", "uint64_t wide(uint64_t flags) {",
       *[f"flags |= {all_of}; flags &= {all_of}; flags &= ~(uint64_t)({all_of});"
         for all_of in joined],
       "return flags; }", "uint32_t narrow(uint32_t flags);", "uint32_t narrow(uint32_t flags) {",
       *[f"flags |= {all_of};" for all_of in joined],
       *[f"if (flags & {name} || flags == {name}) flags = flags ? {name} : 0;"
         for name in header.constants], "return flags; }"],
      ["-Wconversion", "-Wsign-conversion"], configured + found)

for found in re.findall(r"\b(?:bool|long|inline|wchar_t|time_t|FILE|va_list)\b", header.code):
    failures.append(f"the header uses {found}")
# A header of the folder has the first one, or has it through another of the folder.
siblings = {f'"{name.split("/")[1]}"' for name in header.names if "/" in name}
for name, code in header.each.items():
    included = re.findall(r"#include (.*)", code)
    if included != ["<stddef.h>", "<stdint.h>"] if name == "promptcache.h" else \
            len(included) != 1 or not set(included) <= siblings | {'"../promptcache.h"'}:
        failures.append(f"{name} includes {' and '.join(included)}")
# What exists for measuring is in bench.h alone: no other header names its constants, and
# promptcache.h has one pointer to it and no other field, constant or function for measuring.
measuring = set(re.findall(r"\bPC_\w+", header.each["promptcache/bench.h"])) - {"PC_API"}
failures += [f"{name} has {constant}, which is for measuring"
             for name, code in header.each.items() if name != "promptcache/bench.h"
             for constant in sorted(measuring) if re.search(rf"\b{constant}\b", code)]
BENCH = "const struct pc_bench_options *bench;"
if header.each["promptcache.h"].count(BENCH) != 1:
    failures.append(f"promptcache.h has not one '{BENCH}'")
failures += [f"promptcache.h has {name}: what is for measuring belongs to bench.h"
             for name in re.findall(r"\w+", header.each["promptcache.h"].replace(BENCH, ""))
             if re.search("baseline|bench|compar|copies|measur|no_attention"
                          "|per_row|random|shape|shared|trace", name, re.IGNORECASE)]
functions = re.findall(r"^(?!typedef|#)(.*?)\b(pc_\w+)\(", header.code, flags=re.M)
failures += [f"{name} is not marked PC_API" for before, name in functions
             if "PC_API" not in before and "(*" not in before]

# | `PC_ERR_IO` | -3 | input or output failed | ...
page = open(os.path.join(root, "doc", "errors.md"), encoding="utf-8").read()
rows = {name: (int(value), text.strip()) for name, value, text in
        re.findall(r"^\| `(PC_\w+)` \| (-?\d+) \| ([^|]+)\|", page, flags=re.M)}
for name in sorted(header.codes.keys() | rows.keys()):
    if header.codes.get(name) != rows.get(name):
        failures.append(f"doc/errors.md: {name} is {rows.get(name)}, in the header "
                        f"{header.codes.get(name)}")

print("\n".join(failures)
      or f"{len(sized)} structs, {len(functions)} functions and {len(header.codes)} codes "
         "are as promised")
sys.exit(bool(failures))

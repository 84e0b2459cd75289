#!/usr/bin/env python3
"""Catches: a change of the interface that breaks programs of an earlier release: a function that is
gone, or has other arguments or another result (fields and constants: test_layout). abidiff compares
the headers with the description of the interface that each release has left in test/abi/released.

The description is of a library with the exported functions of lib/promptcache.map, the types of the
headers, and empty bodies: so nothing of the real library has to be built with debug information.

usage: test_growth.py ROOT COMPILER        compares; exit 77: there is no abidiff
       test_growth.py ROOT COMPILER --new  writes the description of the headers as they are"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from public_header import Header

root, compiler = sys.argv[1], sys.argv[2]
include = os.path.join(root, "include")
released = os.path.join(root, "test", "abi", "released")
# What later releases may do (doc/abi.md). Whatever else abidiff finds is a break. With this rule it
# sees no changed fields, which test_layout sees.
GROWTH = """[suppress_type]
  type_kind = struct
  has_data_member_inserted_at = end
"""


def stub(function):
    arguments = []
    for index, one in enumerate(function["arguments"]):
        if "function" in one:
            arguments.append(one["type"].replace("(*)", f"(*a{index})", 1))
        elif "length" in one:
            arguments.append(f"{one['type']} a{index}[{one['length']}]")
        else:
            arguments.append(f"{one['type']} a{index}")
    result = function["result"]
    body = "" if result == "void" else "return 0;"
    return f"{result} {function['name']}({', '.join(arguments) or 'void'}) {{ {body} }}"


def describe(headers, path):
    """The interface of a folder of headers, as abidw writes it."""
    header = Header(os.path.join(headers, "promptcache.h"))
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "stub.c"), os.path.join(folder, "stub.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(header.includes + [stub(f) for f in header.of("function")]))
        subprocess.run([compiler, "-w", "-g", "-O0", "-std=c11", "-shared", "-fPIC", "-I", headers,
                        "-fdebug-prefix-map=" + headers + "=include",
                        "-fdebug-prefix-map=" + folder + "=.",
                        "-Wl,--version-script=" + os.path.join(root, "lib", "promptcache.map"),
                        "-Wl,--undefined-version", "-Wl,-soname,libpromptcache.so.1", source,
                        "-o", library], check=True)
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
                        "--out-file", path, library], check=True)


def compare(old, new):
    with tempfile.NamedTemporaryFile("w", suffix=".suppr") as file:
        file.write(GROWTH)
        file.flush()
        result = subprocess.run(["abidiff", "--no-show-locs", "--no-added-syms", "--suppressions",
                                 file.name, old, new], capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


if "--new" in sys.argv:
    version = "%d.%d" % Header(os.path.join(include, "promptcache.h")).version
    os.makedirs(released, exist_ok=True)
    describe(include, os.path.join(released, f"interface-{version}.abi"))
    sys.exit(0)
if not shutil.which("abidiff") or not shutil.which("abidw"):
    print("skipped: there is no abidiff (abigail-tools)")
    sys.exit(77)

failures = []
with tempfile.TemporaryDirectory() as work:
    now = os.path.join(work, "now.abi")
    describe(include, now)
    olds = sorted(glob.glob(os.path.join(released, "interface-*.abi")))
    for old in olds:
        code, text = compare(old, now)
        if code:
            failures.append(f"{os.path.basename(old)}: abidiff says {code}\n{text}")
    # It notices what breaks programs, and lets pass what does not.
    for name, old, new, breaks in [
        ("promptcache.h", "pc_generate(const pc_prompt *prompt, pc_cache *cache,",
         "pc_generate(pc_cache *cache, const pc_prompt *prompt,", 1),
        ("promptcache.h", "PC_API int64_t pc_schema_length(",
         "PC_API int32_t pc_schema_length(", 1),
        ("promptcache.h", "PC_API void pc_schema_free(", "PC_API void pc_schema_free2(", 1),
        ("promptcache.h", "} pc_schema_options;", "    uint64_t added; } pc_schema_options;", 0),
        ("promptcache.h", "PC_API void pc_schema_free(",
         "PC_API pc_status pc_added(void);\nPC_API void pc_schema_free(", 0),
    ]:
        with tempfile.TemporaryDirectory() as changed:
            shutil.copytree(include, changed, dirs_exist_ok=True)
            path = os.path.join(changed, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if old not in text:
                failures.append(f"{name} has no '{old}' to change")
                continue
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))
            other = os.path.join(work, "other.abi")
            describe(changed, other)
            code, text = compare(now, other)
            if bool(code) != bool(breaks):
                failures.append(f"'{new.strip()}': abidiff says {code}\n{text}")
print("\n".join(failures) or f"{len(olds)} released interfaces still hold")
sys.exit(bool(failures))

#!/usr/bin/env python3
"""Catches: a private word of doc/glossary.md's third table in a name, type names that are not
unique in lib, a .c file of lib or tools without an opening comment, a .c file of lib without a
header of its own or a family, lines over 100 columns, C that clang-format 14 would write otherwise.

    python3 house.py SOURCE_FOLDER
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = sys.argv[1]
os.chdir(ROOT)
faults = []

# Parts of names (between underscores) that doc/glossary.md does not allow.
WORDS = {"worth", "bundle", "lend", "lender", "adopt", "resident", "wiping", "wipe", "unweave",
         "woven", "seek", "sight", "trouble", "told", "places", "scope", "scopes", "ahead"}
ALLOWED = {"SEEK_SET", "read_ahead", "READ_AHEAD", "look_ahead"}  # terms of the system


NARROW = (".c", ".h", ".cpp", ".py", ".sh", ".cmake", "CMakeLists.txt", ".in", ".ci/run", ".md")


def tracked(*folders):
    names = subprocess.run(["git", "ls-files", "-z", *folders], capture_output=True,
                           text=True).stdout.split("\0")
    if names == [""]:  # no repository: an unpacked release
        names = [os.path.join(where, name) for folder in folders
                 for where, _, found in os.walk(folder) for name in found]
    return [name for name in names if name and os.path.isfile(name)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


C = {path: read(path) for path in tracked("lib", "include", "tools", "test", "examples")
     if path.endswith((".c", ".h", ".cpp"))}
LIB = {path: text for path, text in C.items() if path.startswith("lib/")}


def private_words():
    for path, text in C.items():
        if not path.startswith(("lib/", "include/", "tools/")):
            continue
        for name in sorted(set(re.findall(r"[A-Za-z_]\w*", without_comments(text)))):
            if name in ALLOWED:
                continue
            hit = WORDS & set(name.lower().split("_"))
            if hit:
                faults.append(f"{path}: {name}: the glossary has another word for '{hit.pop()}'")


def unique_types():
    where = {}
    for path, text in LIB.items():
        code = without_comments(text)
        found = set(re.findall(
            r"^typedef (?:struct|enum|union)[^;{]*\{(?:[^{}]|\{[^{}]*\})*\} (\w+);", code, re.M))
        found |= set(re.findall(r"^(?:static )?(?:struct|enum|union) (\w+) \{", code, re.M))
        for name in found:
            where.setdefault(name, set()).add(path)
    for name, paths in sorted(where.items()):
        if len(paths) > 1:
            faults.append(f"the type {name} is defined {len(paths)} times: "
                          f"{', '.join(sorted(paths))}")


def opening_comments():
    for path, text in C.items():
        if path.endswith(".c") and path.startswith(("lib/", "tools/")):
            if not text.startswith("/*"):
                faults.append(f"{path}: no opening comment")


def own_headers():
    headers = {}
    for path in LIB:
        if path.endswith(".h"):
            headers.setdefault(os.path.dirname(path), set()).add(
                os.path.basename(path)[:-2].replace("_internal", ""))
    for path in LIB:
        if not path.endswith(".c"):
            continue
        folder, stem = os.path.split(path)
        parts = stem[:-2].split("_")
        near = headers.get(folder, set())
        if not any("_".join(parts[:n]) in near for n in range(len(parts), 0, -1)):
            faults.append(f"{path}: neither {stem[:-2]}.h nor a header of a family beside it")


def free_lines(path, lines):
    """The numbers of lines that may be long: tables and fenced text of a page."""
    free, fenced = set(), False
    for number, line in enumerate(lines if path.endswith(".md") else (), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or line.startswith("|"):
            free.add(number)
    return free


def widths():
    for path in tracked("."):
        if not path.endswith(NARROW) or path.startswith(("models/", "./models/", "./build/")):
            continue
        lines = read(path).split("\n")
        free = free_lines(path, lines)
        for number, line in enumerate(lines, 1):
            if len(line) > 100 and number not in free:
                faults.append(f"{path}:{number}: {len(line)} columns")


def formatted():
    program = next((name for name in ("clang-format-14", "clang-format") if shutil.which(name)),
                   None)
    version = program and subprocess.run([program, "--version"], capture_output=True,
                                         text=True).stdout
    if not program or " 14." not in version:
        print("clang-format 14 is not installed: the layout of C files was not looked at")
        return
    paths = [path for path in C if not re.match(r"test/abi/layout_v\d", path)]
    result = subprocess.run([program, "--dry-run", "--ferror-limit=1", *paths], capture_output=True,
                            text=True)
    found = re.findall(r"^(\S+?):\d+:\d+: (?:warning|error): code should be clang-formatted",
                       result.stderr, re.M)
    faults.extend(f"{path}: clang-format -i {path} would change it" for path in sorted(set(found)))


for rule in (private_words, unique_types, opening_comments, own_headers, widths, formatted):
    rule()
print("\n".join(faults) or f"{len(C)} files keep the rules of the house")
sys.exit(bool(faults))

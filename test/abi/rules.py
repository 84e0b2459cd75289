#!/usr/bin/env python3
"""Checks the rules of the tree and says for each fault the file, the line, the cause and a remedy.

    rules.py FOLDER             all rules, on the sources in FOLDER
    rules.py FOLDER RULE...     some of them
    rules.py --help             this, and the list of rules
"""
import os
import re
import shutil
import subprocess
import sys

import page_rules
from page_rules import line_of, read

# What a folder of lib may include (lib/README.md).
MAY_USE = {
    "base": "base",
    "text": "base text",
    "pml": "base text pml",
    "attn": "base attn",
    "model": "base text attn model",
    "store": "base attn store",
    "memo": "base attn model memo",
    "serve": "base text pml attn model store memo serve",
}

# What the backend for NVIDIA GPUs may include of lib, besides itself.
LIB_FOR_CUDA = ("base/", "attn/backend.h", "attn/draw.h", "attn/plan_view.h")

# Folders of the library's code.
LIBRARY = ("lib/", "cuda/")

# Parts of names, between underscores, with the words of doc/glossary.md that replace them.
PRIVATE_WORDS = {
    "worth": "eviction score", "bundle": "prefill batch", "lend": "borrow", "lender": "owner",
    "adopt": "wrap", "resident": "in RAM", "wiping": "zeroing", "wipe": "zero",
    "unweave": "un-permute", "woven": "permuted", "seek": "look up", "sight": "visibility",
    "trouble": "first error", "told": "status", "places": "id map", "scope": "tenant",
    "scopes": "tenants", "ahead": "prefetch",
}
SYSTEM_NAMES = {"SEEK_SET", "read_ahead", "READ_AHEAD", "look_ahead"}

COLUMNS, FILE_LINES, FUNCTION_LINES = 100, 1200, 100
LONGER_FILES = {"include/promptcache.hpp": 2200}
SOURCES = (".c", ".h", ".hpp", ".cpp", ".cu", ".cuh")
NARROW = SOURCES + (".cc", ".py", ".sh", ".cmake", ".txt", ".in", ".md")
NARROW_NAMES = {"Makefile", "GNUmakefile", "CMakePresets.json"}


def is_frozen_layout(path):
    """test/abi/freeze.py prints these files; nobody edits them."""
    return re.match(r"test/abi/released/layout_v\d+_\d+\.c$", path)


def files_of_tree():
    """All files that git does not ignore; all files of a folder without a repository."""
    listed = [""]
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], capture_output=True, text=True,
                                check=False).stdout.split("\0")
    if listed == [""]:
        listed = [os.path.relpath(os.path.join(where, name), ".")
                  for where, _, names in os.walk(".") for name in names]
    return sorted(path for path in set(listed)
                  if path and os.path.isfile(path) and not re.match(r"build[^/]*/", path))


def code_of(text):
    """C without comments and literals; every line stays where it is."""
    return re.sub(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
                  lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)


class Tree:
    """The sources, read once."""

    def __init__(self):
        self.files = files_of_tree()
        folders = (*LIBRARY, "include/", "tools/", "test/", "examples/", "bindings/", "adapters/")
        self.c = {path: read(path) for path in self.files
                  if path.startswith(folders) and path.endswith(SOURCES)}
        self.code = {path: code_of(text) for path, text in self.c.items()}

    def below(self, *folders):
        return [path for path in self.c if path.startswith(folders)]


def includes(tree):
    """A folder of lib includes only from the folders that it may use."""
    for path in tree.below("lib/"):
        folder = path.split("/")[1]
        for number, line in enumerate(tree.c[path].split("\n"), 1):
            used = re.match(r'#include "([a-z]*)/', line)
            if used and used[1] not in MAY_USE[folder].split():
                yield (path, number, f"{folder}/ includes from {used[1]}/",
                       f"it may use: {MAY_USE[folder]}")


def cuda_folder(tree):
    """cuda/ sees the contract of backends, with what is drawn, the view of a plan and base; all of
    CUDA comes from NVIDIA's headers, and nothing is looked for at run time."""
    lib = re.compile(r'#include ["<]((?:%s|promptcache)[/.][^">]*)' % "|".join(MAY_USE))
    own = re.compile(r"\b(dlopen|dlsym|cu[A-Z]\w*|CU_\w+|CUDA_ERROR_\w+)\b"
                     r"|\btypedef\b[^;{]*(?:\{[^}]*\})?[^;]*\b(cu(?:da|blas)[A-Z]\w*);"
                     r"|^#define (cu(?:da|blas)[A-Z]\w*|CUBLAS\w*|CUDA\w*)", re.M)
    for path in tree.below("cuda/"):
        for found in lib.finditer(tree.c[path]):
            if not found[1].startswith(LIB_FOR_CUDA):
                yield (path, line_of(tree.c[path], found.start()), f"includes {found[1]}",
                       f"it may use: {', '.join(LIB_FOR_CUDA)}")
        for found in own.finditer(tree.code[path]):
            yield (path, line_of(tree.code[path], found.start()),
                   f"has {found[1] or found[2] or found[3]} of its own",
                   "use cuda_runtime_api.h and cublasLt.h")


def native_models(tree):
    """lib/memo and lib/serve do not know which models are native."""
    for path in tree.below("lib/memo/", "lib/serve/"):
        for found in re.finditer(r"(->|\.)native(?![a-z_])|pc__native", tree.code[path]):
            yield (path, line_of(tree.code[path], found.start()), "looks at a native model",
                   "ask through model/model_states.h or pc_model_ops")


def activations(tree):
    """Only backends look at activations: others neither cast pc__floats nor copy or free them."""
    declared = re.compile(r"pc__floats \*(?:const \*)?(\w+)((?:, \*\w+)*)")
    members = re.search(r"typedef struct pc__forward_work \{(.*?)\n\}",
                        tree.code["lib/model/forward/forward_internal.h"], re.S)[1]
    fields = {name for found in declared.finditer(members)
              for name in re.findall(r"\w+", found[1] + found[2])}
    for path in tree.below("lib/"):
        if path.startswith("lib/attn/"):
            continue
        code = tree.code[path]
        names = {name for found in declared.finditer(code)
                 for name in re.findall(r"\w+", found[1] + found[2])}
        for found in re.finditer(r'#include "(?:attn/cpu|cuda)/', tree.c[path]):
            yield (path, line_of(code, found.start()), "knows one backend",
                   "use the operations of attn/backend.h")
        if not names and "forward_internal.h" not in tree.c[path]:
            continue
        for found in re.finditer(r"\((?:const )?float \*\)|"
                                 r"(?<!\w)(?:mem\w+|pc__free|pc__realloc)\(([^;]*);", code):
            used = set(re.findall(r"work->(\w+)", found[1] or "")) & fields
            used |= {name for name in names if re.search(rf"(?<![\w>.]){name}\b", found[1] or "")}
            if used or not found[1]:
                yield (path, line_of(code, found.start()),
                       f"looks at activations ({', '.join(sorted(used)) or 'cast'})",
                       "an operation of attn/backend.h does it, or pc__stream_show")


def public_header(tree):
    """Tools, examples, bindings and adapters include public headers only."""
    inside = re.compile(r'#include "(%s)/' % "|".join(MAY_USE))
    for path in tree.below("tools/", "examples/", "bindings/", "adapters/"):
        for number, line in enumerate(tree.c[path].split("\n"), 1):
            if inside.match(line):
                yield path, number, "includes a header of lib", "use <promptcache.h> only"


def file_length(tree):
    """No file of C or C++ has over 1,200 lines."""
    for path, text in tree.c.items():
        lines, most = text.count("\n"), LONGER_FILES.get(path, FILE_LINES)
        if lines > most and not is_frozen_layout(path):
            yield path, most + 1, f"{lines} lines, at most {most}", "move a concept to its own file"


def function_length(tree):
    """No function of lib, cuda or tools has over 100 lines."""
    program = shutil.which("ctags")
    version = program and subprocess.run([program, "--version"], capture_output=True, text=True,
                                         check=False).stdout
    if not program or "Universal" not in version:
        print("universal-ctags is not installed: the length of functions was not checked")
        return
    paths = [path for path in tree.below(*LIBRARY, "tools/") if not path.endswith(".cpp")]
    tags = subprocess.run([program, "--languages=C,C++", "--map-C++=+.cu",
                           "--kinds-C=f", "--kinds-C++=f", "--fields=+ne", "-f", "-",
                           *paths], capture_output=True, text=True, check=True).stdout
    for tag in tags.splitlines():
        name, path, *rest = tag.split("\t")
        at = dict(field.split(":", 1) for field in rest if re.match(r"(line|end):\d+$", field))
        lines = int(at.get("end", 0)) - int(at.get("line", 0)) + 1
        if "end" in at and lines > FUNCTION_LINES:
            yield (path, at["line"], f"{name} has {lines} lines, at most {FUNCTION_LINES}",
                   "split it")


def file_names(tree):
    """Every .c file of lib, cuda and tools has a name of its own."""
    seen = {}
    for path in tree.below(*LIBRARY, "tools/"):
        name = os.path.basename(path)
        if name.endswith(".c"):
            if name in seen:
                yield path, 1, f"{seen[name]} has the same name", "rename one of them"
            seen.setdefault(name, path)


def memory(tree):
    """Only lib/base/mem.c calls the allocator of libc."""
    for path in tree.below(*LIBRARY):
        if path == "lib/base/mem.c" or path.endswith(".cpp"):
            continue
        for found in re.finditer(r"(?<![\w>.])(malloc|calloc|realloc|free)\(", tree.code[path]):
            yield (path, line_of(tree.code[path], found.start()), f"calls {found[1]}",
                   "use lib/base/mem.h")


def environment(tree):
    """lib and tools read the environment in one file each; nothing there changes it."""
    readers = {"lib/": "lib/base/environment.c", "cuda/": "lib/base/environment.c",
               "tools/": "tools/common/input.c"}
    for path in tree.below(*readers):
        reader = readers[path.split("/")[0] + "/"]
        for found in re.finditer(r"\b(\w*getenv|setenv|putenv|unsetenv|clearenv|environ)\b",
                                 tree.code[path]):
            if path != reader or found[1] != "secure_getenv":
                yield (path, line_of(tree.code[path], found.start()), f"uses {found[1]}",
                       f"read variables through {reader}, by secure_getenv")


def private_words(tree):
    """Names in lib, cuda, include and tools have no private word of doc/glossary.md's third
    table."""
    for path in tree.below(*LIBRARY, "include/", "tools/"):
        reported = set()
        for found in re.finditer(r"[A-Za-z_]\w*", tree.code[path]):
            name = found[0]
            words = PRIVATE_WORDS.keys() & set(name.lower().split("_"))
            if words and name not in SYSTEM_NAMES and name not in reported:
                reported.add(name)
                word = min(words)
                yield (path, line_of(tree.code[path], found.start()),
                       f"{name} has the private word '{word}'", f"say '{PRIVATE_WORDS[word]}'")


def type_names(tree):
    """Every type of lib and cuda has a name of its own."""
    definition = re.compile(
        r"^typedef (?:struct|enum|union)[^;{]*\{(?:[^{}]|\{[^{}]*\})*\} (\w+);"
        r"|^(?:static )?(?:struct|enum|union) (\w+) \{", re.M)
    seen = {}
    for path in tree.below(*LIBRARY):
        for found in definition.finditer(tree.code[path]):
            name = found[1] or found[2]
            other = seen.setdefault(name, path)
            if other != path:
                yield (path, line_of(tree.code[path], found.start()),
                       f"the type {name} is also defined in {other}", "rename one of them")


def opening_comment(tree):
    """Every .c and .cu file of lib, cuda and tools opens with a comment."""
    for path in tree.below(*LIBRARY, "tools/"):
        if path.endswith((".c", ".cu")) and not tree.c[path].startswith(("/*", "//")):
            yield path, 1, "no opening comment", "say what the file is for and what it owns"


def own_header(tree):
    """Every .c file of lib and cuda has the header of its stem or of a family beside it."""
    headers = {}
    for path in tree.below(*LIBRARY):
        if path.endswith(".h"):
            folder, name = os.path.split(path)
            headers.setdefault(folder, set()).add(name[:-2].replace("_internal", ""))
    for path in tree.below(*LIBRARY):
        if not path.endswith(".c"):
            continue
        folder, name = os.path.split(path)
        parts = name[:-2].split("_")
        stems = {"_".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if not stems & headers.get(folder, set()):
            yield (path, 1, f"there is neither {name[:-2]}.h nor a header of a family beside it",
                   "add one, or give the file the name of its family")


def is_narrow(path):
    name = os.path.basename(path)
    return (path.endswith(NARROW) or name.startswith(".") or path.startswith(".ci/")
            or name in NARROW_NAMES) and not path.startswith(("models/", "test/fuzz/corpus/"))


def columns(tree):
    """No line of code, build files, dot files or pages has over 100 columns, but for tables."""
    for path in filter(is_narrow, tree.files):
        fenced = False
        for number, line in enumerate(read(path).split("\n"), 1):
            if path.endswith(".md") and line.lstrip().startswith("```"):
                fenced = not fenced
            free = path.endswith(".md") and (fenced or line.startswith("|"))
            if len(line) > COLUMNS and not free:
                yield path, number, f"{len(line)} columns, at most {COLUMNS}", "break the line"


def layout(tree):
    """C is written as clang-format 14 lays it out."""
    for program in ("clang-format-14", "clang-format"):
        if shutil.which(program):
            version = subprocess.run([program, "--version"], capture_output=True, text=True,
                                     check=False).stdout
            if " 14." in version:
                break
    else:
        print("clang-format 14 is not installed: the layout of C files was not checked")
        return
    paths = [path for path in tree.c if not is_frozen_layout(path)]
    result = subprocess.run([program, "--dry-run", "--ferror-limit=1", *paths], capture_output=True,
                            text=True, check=False)
    for path, line in re.findall(
            r"^(\S+?):(\d+):\d+: (?:warning|error): code should be clang-formatted",
            result.stderr, re.M):
        yield path, line, "another layout than clang-format 14's", f"run {program} -i {path}"


def left_out_tests(tree):
    """Every test that tools/test.sh leaves out of a build exists."""
    text = read("tools/test.sh")
    names = {os.path.basename(path).split(".")[0] for path in tree.files
             if path.startswith("test/")}
    for path in tree.files:
        if re.match(r"test/.*CMakeLists\.txt$", path):
            names |= set(re.findall(r"NAME (\w+)", read(path)))
    for block in re.finditer(r'any_of "\n(.*?)"\)', text, re.S):
        for word in re.finditer(r"\S+", block[1]):
            if not any(re.fullmatch("test_" + word[0], name) for name in names):
                yield ("tools/test.sh", line_of(text, block.start(1) + word.start()),
                       f"leaves out test_{word[0]}, which is not a test", "remove the name")


def map_of_lib(tree):
    """lib/README.md says what each folder may use, as the rule on includes does."""
    return page_rules.map_of_lib(tree, MAY_USE)


def limits(tree):
    """CONTRIBUTING.md has the limits of these rules."""
    longer = [f"{os.path.basename(path)} {most}" for path, most in LONGER_FILES.items()]
    return page_rules.limits(tree, [f"at most {COLUMNS} columns",
                                    f"at most {FUNCTION_LINES} lines",
                                    f"at most {FILE_LINES} ", *longer])


RULES = (includes, cuda_folder, native_models, activations, public_header, file_length,
         function_length, file_names, memory, environment, private_words, type_names,
         opening_comment, own_header, columns, layout, left_out_tests, map_of_lib, limits,
         *page_rules.PAGE_RULES)


def main():
    arguments = sys.argv[1:]
    unknown = set(arguments[1:]) - {rule.__name__ for rule in RULES}
    if not arguments or arguments[0].startswith("-") or unknown:
        print(__doc__)
        for rule in RULES:
            print(f"    {rule.__name__:16} {rule.__doc__}")
        sys.exit(0 if arguments == ["--help"] else 2)
    os.chdir(arguments[0])
    tree, faults = Tree(), []
    chosen = [rule for rule in RULES if rule.__name__ in (arguments[1:] or [rule.__name__])]
    for rule in chosen:
        faults += [f"{path}:{line}: {cause}; {remedy} ({rule.__name__})"
                   for path, line, cause, remedy in rule(tree)]
    print("\n".join(faults) or f"{len(tree.files)} files, {len(chosen)} rules: no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

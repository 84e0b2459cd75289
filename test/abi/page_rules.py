"""The rules that compare the pages with what the code knows. rules.py runs them with its own."""
import glob
import os
import re

PAGES = r"(?:README|CONTRIBUTING)\.md|lib/README\.md|doc/\w+\.md"
ROOTS = ("lib", "doc", "test", "tools", "examples", "include", "cmake", "models", ".ci")
# Words in pages that look like names of ours: of formats, of other programs, of no single thing.
OTHER_NAMES = {"pc__x", "pc_noun_verb"}
# What a build or a release makes.
MADE = ("test/abi/released/layout_vX_Y.c", "test/cuda/on_model")
# Options of other programs in inline code.
OTHER_OPTIONS = {"preset", "build", "target", "install", "prefix", "list-presets", "cflags", "libs",
                 "static", "scan", "pattern", "pure", "test-dir", "output-on-failure"}
# The number that a file has in its code, and what the page calls it.
VERSIONS = (
    ("lib/memo/maps/map_format.c", r"\bVERSION = (\d+)", r"u32 version \((\d+)\), u32 page"),
    ("lib/memo/index/index_file.c", r"\bVERSION = (\d+)", r"\.pci`\), version (\d+)"),
    ("lib/memo/memo_head.c", r"\bVERSION = (\d+)", r"version: (\d+)\. Version 1 is read, too"),
    ("lib/store/disk/disk_index.c", r"\bVERSION = (\d+)", r"\| version, (\d+) \|(?!.*\| version,)"),
    ("lib/store/remote/remote_entry.c", r"\bVERSION = (\d+)",
     r"version of the envelope: (\d+)"))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def pages_of(tree):
    return {path: read(path) for path in tree.files if re.fullmatch(PAGES, path)}


def inline_code(text):
    """(offset, words) of `words`; fenced blocks are left out."""
    blank = re.sub(r"^```.*?^```", lambda f: re.sub(r"[^\n]", " ", f[0]), text, flags=re.S | re.M)
    for found in re.finditer(r"`([^`]+)`", blank):
        yield found.start(1), found[1]


def section(text, heading):
    found = re.search(rf"^#+ {heading}[^\n]*\n(.*?)(?=^#+ |\Z)", text, re.S | re.M)
    return found[1] if found else ""


def fault(text, part, cause, remedy, path):
    return path, line_of(text, max(text.find(part), 0)), cause, remedy


def named_files(tree):
    """Files that pages name are there, and so are the places that their links lead to."""
    for path, text in pages_of(tree).items():
        beside = os.path.dirname(path)
        for offset, words in inline_code(text):
            if words.startswith(MADE) or not re.fullmatch(
                    rf"(?:{'|'.join(map(re.escape, ROOTS))})/[\w./*{{}},-]*", words):
                continue
            tried = re.sub(r"\{[^}]*\}", "*", words)
            if not glob.glob(tried) and not glob.glob("lib/" + tried):
                yield path, line_of(text, offset), f"there is no {words}", "name what there is"
        for found in re.finditer(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", text):
            to = os.path.normpath(os.path.join(beside, found[1])) if found[1] else path
            if not os.path.exists(to):
                yield (path, line_of(text, found.start()), f"a link to {found[1]}, which is not "
                       "there", "correct it")
            elif found[2] and to.endswith(".md"):
                heads = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
                         for head in re.findall(r"^#+ (.+)$", read(to), re.M)}
                if found[2][1:] not in heads:
                    yield (path, line_of(text, found.start()), f"{to} has no heading {found[2]}",
                           "correct the link")


def named_things(tree):
    """Functions, types, constants and settings that pages name are in the code."""
    known = set()
    for path in tree.files:
        if path.startswith(("lib/", "cuda/", "include/", "tools/", "test/", "cmake/", "examples/",
                            "adapters/")) or (
                path in ("CMakeLists.txt", "CMakePresets.json")):
            if path.endswith((".c", ".h", ".cpp", ".cu", ".py", ".sh", ".txt", ".cmake")):
                known |= set(re.findall(r"\b(?:pc|PC)_\w+", read(path)))
    for path, text in pages_of(tree).items():
        for offset, words in inline_code(text):
            for name in re.findall(r"(?<![\w-])(?:pc|PC)_\w+", words):
                prefix = name.endswith("_")
                if name in known or name in OTHER_NAMES or any(
                        k.startswith(name) for k in known if prefix):
                    continue
                yield (path, line_of(text, offset), f"the code has no {name}", "name what there is")


def named_options(tree):
    """Options of programs that pages name are known to a program."""
    known = set()
    for path in tree.files:
        if path.startswith("tools/") or re.match(r"test/.*\.(py|sh)$", path):
            if path.endswith((".c", ".h")):
                known |= set(re.findall(r'"([a-z][a-z0-9-]*)"', read(path)))
            elif path.endswith((".py", ".sh")):
                known |= set(re.findall(r"--([a-z][a-z0-9-]*)", read(path)))
    for path, text in pages_of(tree).items():
        for offset, words in inline_code(text):
            for name in re.findall(r"(?<!\S)--([a-z][a-z0-9-]*)", words):
                if name not in known | OTHER_OPTIONS:
                    yield (path, line_of(text, offset), f"no program has the option --{name}",
                           "name what there is")


def environment(tree):
    """doc/building.md lists the variables that the library reads, and no others."""
    code = tree.c["lib/base/environment.c"]
    read_ones = set(re.findall(r'= \{"(PC_\w+)"', code))
    text = read("doc/building.md")
    listed = set(re.findall(r"^\| `(PC_\w+)` \|", text.split("Settings at run time")[1], re.M))
    for name in sorted(read_ones ^ listed):
        yield fault(text, name, f"{name} is {'not listed' if name in read_ones else 'not read'}",
                    "the table of settings has what lib/base/environment.c reads",
                    "doc/building.md")
    text_of_programs = read("doc/program.md")
    for name in re.findall(r'_VARIABLE "(PC_\w+)"', tree.c["tools/common/input.h"]):
        if f"`{name}`" not in text_of_programs:
            yield ("doc/program.md", 1, f"{name} is missing", "the programs read it")
    levels = re.search(r'"none of ([^"]*avx2[^"]*)"', code)[1].split(", ")
    row = re.search(r"^\| `PC_CPU_MASK` \|.*$", text, re.M)[0]
    if sorted(levels) != sorted(set(re.findall(r"`([a-z0-9]+)`", row))):
        yield fault(text, row, f"the levels are {', '.join(levels)}", "list them",
                    "doc/building.md")


def build_options(tree):
    """doc/building.md lists the options of CMake, and no others."""
    found = set()
    for path in ["CMakeLists.txt"] + [
            f for f in tree.files
            if re.match(r"cmake/[^/]*\.cmake|adapters/[^/]*/CMakeLists.txt", f)]:
        text = read(path)
        hidden = set(re.findall(r"mark_as_advanced\((\w+)", text))
        found |= set(re.findall(r"option\((PC_\w+)", text)) - hidden
        found |= set(re.findall(r"set\((PC_\w+) [^)]*?CACHE (?:STRING|PATH)", text)) - hidden
    text = read("doc/building.md")
    listed = set(re.findall(r"`(PC_\w+)", section(text, "Options").split("Settings at run")[0]))
    for name in sorted(found ^ listed):
        yield fault(text, name, f"{name} is {'not listed' if name in found else 'no option'}",
                    "the table of options has what CMake offers", "doc/building.md")


def families(tree):
    """doc/models.md names every family and type of tensor that is read, and no page plans one."""
    text = read("doc/models.md")
    kinds = set(re.findall(r'\.name = "([^"]+)"', tree.c["lib/model/load/gguf_families.c"]))
    listed = set(re.findall(r"`([^`]+)`", re.search(
        r"`general\.architecture` is (.*?)\.\s", text, re.S)[1]))
    for name in sorted(kinds ^ listed):
        yield fault(text, "`general.architecture`",
                    f"{name} is {'not listed' if name in kinds else 'not read'}",
                    "list what lib/model/load/gguf_families.c has", "doc/models.md")
    table = "".join(re.findall(r"^\| (?:decoders|encoders).*$", text, re.M))
    plain = re.sub(r"[^a-z0-9]", "", table.lower())
    planned = set(re.findall(r"[\w-]+(?: \d+)?", section(read("doc/design.md"), "Planned")))
    planned = {re.sub(r"[^a-z0-9]", "", word.lower()) for word in planned}
    for words in re.findall(r'\{"[^"]+", "([^"]+)", NULL\}', tree.c["lib/model/load/families.c"]):
        whole = re.sub(r"[^a-z0-9]", "", words.lower())
        first = re.sub(r"[^a-z0-9]", "", re.split(r"[ -]V?(?=[0-9])|MoE|R7B", words)[0].lower())
        if first and first not in plain:
            yield fault(text, "| decoders |", f"{words} is read and not in the table", "add it",
                        "doc/models.md")
        if whole in planned or (whole == "deepseekv2" and "mla" in planned):
            yield fault(read("doc/design.md"), "## Planned", f"{words} is planned, and read",
                        "leave it out", "doc/design.md")
    types = [name for name, used in re.findall(
        r'\{"(\w+)", (\d)', tree.c["lib/model/load/gguf.c"]) if int(used)]
    named = re.search(r"GGUF v2 and v3 \((.*?)\)", text, re.S)[1]
    covered = set(re.findall(r"\w+", named))
    for low, high in re.findall(r"(\w+) to (\w+)", named):
        covered |= set(types[types.index(low):types.index(high) + 1])
    for name in types:
        if name not in covered and not re.fullmatch(r"I\d+|F64", name):
            yield fault(text, "GGUF v2", f"{name} is read and not listed", "list it",
                        "doc/models.md")


def commands(tree):
    """doc/program.md names every command."""
    text = read("doc/program.md")
    for path in tree.below("tools/promptcache/", "tools/promptcache-bench/"):
        for name in re.findall(r"^(?:static )?const command \w+ = \{\s*\.name = \"([\w -]+)\"",
                               tree.c[path], re.M):
            if not re.search(rf"`(?:[\w ]+ )?{re.escape(name.split()[-1])}\b", text):
                yield "doc/program.md", 1, f"the command {name} is missing", "add it"


def examples(tree):
    """doc/examples.md lists the examples, and no longer ones than it says."""
    text = read("doc/examples.md")
    there = {os.path.basename(f) for f in tree.files if re.fullmatch(r"examples/\w+\.c", f)}
    for name in sorted(there ^ set(re.findall(r"^\| `(\w+\.c)`", text, re.M))):
        if f"`{name}`" not in text or name not in there:
            yield fault(text, name, f"{name} is not there, or not listed", "list the examples",
                        "doc/examples.md")
    most = int((re.search(r"at most (\d+) lines", text) or [0, 0])[1])
    for name in sorted(there):
        if tree.c["examples/" + name].count("\n") > most:
            yield "examples/" + name, most, "is longer", f"doc/examples.md says {most} lines"


def map_of_lib(tree, may_use):
    """lib/README.md says what each folder may use, as the rule on includes does."""
    text = read("lib/README.md")
    rows = dict(re.findall(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", text, re.M))
    for folder, allowed in may_use.items():
        named = set(re.findall(r"\w+", rows.get(folder, ""))) & set(may_use)
        wanted = set(allowed.split()) - {folder}
        if rows.get(folder) != "all" and named != wanted:
            yield fault(text, f"`{folder}/`", f"{folder}/ may use {', '.join(sorted(wanted))}",
                        "say so", "lib/README.md")


def versions(tree):
    """doc/format.md has the versions of files that the code writes."""
    text = read("doc/format.md")
    for path, constant, page in VERSIONS:
        code, said = re.search(constant, tree.c[path]), re.search(page, text, re.S)
        if not code or not said or code[1] != said[1]:
            yield ("doc/format.md", line_of(text, said.start(1)) if said else 1,
                   f"{path} has version {code and code[1]}", "say so")
    header = tree.c["include/promptcache.h"]
    abi = re.search(r"define PC_ABI_VERSION (\d+)", header)[1]
    release = ".".join(re.search(rf"define PC_VERSION_{part} (\d+)", header)[1]
                       for part in ("MAJOR", "MINOR"))
    for page, words in (("doc/abi.md", f"libpromptcache.so.{abi}"),
                        ("doc/abi.md", f"PROMPTCACHE_{release}"),
                        ("doc/building.md", f"find_package(promptcache {release})"),
                        ("CHANGELOG.md", f"## {release}.")):
        if words not in read(page):
            yield page, 1, f"'{words}' is missing", "the header has these versions"
    least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
    if f"CMake {least}" not in read("doc/building.md"):
        yield "doc/building.md", 1, f"'CMake {least}' is missing", "CMakeLists.txt asks for it"


# A number of the code, and the words around it in a page.
CONSTANTS = (
    ("lib/store/disk/disk_source.c", r"MOST_MAPPED = (\d+)", "doc/store.md", "beyond {} mappings"),
    ("lib/serve/gather_exact.c", r"LONG_PROMPT = (\d+)", "doc/store.md",
     "at once if the prompt has {} tokens"),
    ("lib/serve/prefill_tune.c", r"LEAST_HITS = (\d+)", "doc/memo.md", "At least {} hits"),
    ("lib/store/estimate.c", r"TRUST_GAIN = 1\.0 / (\d+)", "doc/design.md", "raises it by 1/{}"))


def defaults(tree):
    """Pages have the numbers of the code: budgets by default, limits."""
    for path, constant, page, words in CONSTANTS:
        number = re.search(constant, tree.c[path])
        wanted = words.format(number and number[1])
        if wanted not in " ".join(read(page).split()):
            yield page, 1, f"'{wanted}' is missing", f"{path} says so"
    text, code = read("doc/store.md"), tree.c["lib/store/cache_new.c"]
    for constant, option in (("DEFAULT_BYTES", "ram_bytes"), ("DEFAULT_DISK_BYTES", "disk_bytes")):
        unit, shift = re.search(rf"{constant} \(UINT64_C\((\d+)\) << (\d+)\)", code).groups()
        words = f"`{option}` ({int(unit) << (int(shift) - 30)} GiB)"
        if words not in text:
            yield "doc/store.md", 1, f"'{words}' is missing", f"{constant} says so"


NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()


def counts(tree):
    """Numbers of things in pages are those of the code."""
    attend = tree.c["cuda/kernels/attend.h"]
    shapes = re.search(r"#define PC__CUDA_SHAPES\(.*?\n\n", attend, re.S)[0].count("X(format")
    libraries = int(re.search(r"count <= (\d+)", read("test/abi/footprint.sh"))[1])
    for page, words, count in (("doc/design.md", "shapes of heads", shapes),
                               ("doc/building.md", "libraries of", libraries)):
        text = read(page)
        found = re.search(rf"(\w+)\s+{words}", text)
        if not found or found[1] != NUMBERS[count]:
            yield (page, line_of(text, found.start()) if found else 1,
                   f"not '{NUMBERS[count]} {words}'", "the code has so many")


def backends(tree):
    """README.md's limits name every device that a backend computes on."""
    text = section(read("README.md"), "Limits")
    for folder, device in (("lib/attn/cpu/", "CPU"), ("cuda/", "NVIDIA")):
        if any(path.startswith(folder) for path in tree.c) and device not in text:
            yield "README.md", 1, f"the limits do not name {device}", f"{folder} is there"


def reserved(tree):
    """A code of which doc/errors.md says 'no call gives it' is given by no file of lib or cuda."""
    text = read("doc/errors.md")
    for name in re.findall(r"^\| `(PC_\w+)` .*no call gives it", text, re.M):
        for path in tree.below("lib/", "cuda/"):
            if re.search(rf"(?:return|\?|:|=) {name}\b", tree.code[path]):
                yield fault(text, f"`{name}`", f"{path} gives {name}", "say when", "doc/errors.md")
                break


def limits(tree, most):
    """CONTRIBUTING.md has the limits of these rules."""
    text = " ".join(read("CONTRIBUTING.md").split())
    for words in most:
        if words not in text:
            yield "CONTRIBUTING.md", 1, f"'{words}' is missing", "the rules have this limit"


PAGE_RULES = (named_files, named_things, named_options, environment, build_options, families,
              commands, examples, versions, defaults, counts, backends,
              reserved)

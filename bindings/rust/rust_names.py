"""The description of the interface as Rust sees it: types, names, documentation."""
import re

BENCH = "promptcache/bench.h"
KEYWORDS = {"as", "box", "const", "fn", "in", "loop", "match", "mod", "move", "ref", "self", "type",
            "use", "where"}
NUMBERS = {"int8_t": "i8", "uint8_t": "u8", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64",
           "uint64_t": "u64", "size_t": "usize", "float": "f32", "double": "f64",
           "char": "c_char", "void": "c_void"}


def rust_name(name):
    return "r#" + name if name in KEYWORDS else name


class Names:
    """Entries of all headers but bench.h, and what their names are."""

    def __init__(self, api):
        def outside(kind):
            return [item for item in api[kind] if item["header"] != BENCH]

        self.api = api
        self.headers = [header for header in api["headers"] if header["name"] != BENCH]
        self.macros, self.enums = outside("macros"), outside("enums")
        self.handles, self.callbacks = outside("handles"), outside("function_types")
        self.structs, self.functions = outside("structs"), outside("functions")
        # Headers name two structs of bench.h; without that header, they are opaque.
        self.opaque = [item for item in api["structs"] if item["header"] == BENCH
                       and self.is_used(item["name"])]
        self.items = {item["name"] for kind in (self.macros, self.handles, self.callbacks,
                                                self.structs, self.functions, self.opaque)
                      for item in kind} | {"pc_status"}
        self.constants = {entry["name"] for enum in self.enums for entry in enum["enumerators"]}
        self.callback_names = {item["name"] for item in self.callbacks}
        self.field_types = {field["constants"]: field["type"] for item in self.structs
                            for field in item["fields"] if "constants" in field}

    def is_used(self, name):
        word = re.compile(rf"\b{name}\b")
        return any(word.search(field["type"]) for item in self.structs for field in item["fields"])

    def constant_type(self, enum, name):
        """The type of the fields and arguments that take this constant."""
        if name.endswith(("_ROOM", "_COUNT")) or name == "PC_PAGE_TOKENS":
            return "usize"
        if enum["enumerators"][0]["name"] == "PC_OK":
            return "pc_status"
        if re.search(r"\bflags\b", enum["comment"], re.I):
            return "u64"
        begins = [prefix for prefix in self.field_types if name.startswith(prefix)]
        return NUMBERS[self.field_types[max(begins, key=len)]] if begins else "u32"

    def plain_type(self, c_type):
        """A C type without functions: const pc_span *const * and the like."""
        base, *pointers = c_type.split("*")
        const = "const" in base.split()
        base = base.replace("const", "").replace("struct", "").strip()
        made = NUMBERS.get(base, base)
        if base in self.callback_names:
            assert not pointers and not const
        for pointer in pointers:
            made = f"*{'const' if const else 'mut'} {made}"
            const = "const" in pointer
        return made

    def function_type(self, function):
        arguments = ", ".join(f"{rust_name(argument['name'])}: {self.type_of(argument)}"
                              for argument in function["arguments"])
        return f"unsafe extern \"C\" fn({arguments}){self.result(function)}"

    def result(self, function):
        return "" if function["result"] == "void" else f" -> {self.plain_type(function['result'])}"

    def type_of(self, declared, field=False):
        if "function" in declared:
            return f"Option<{self.function_type(declared['function'])}>"
        made = self.plain_type(declared["type"])
        if "length" not in declared:
            return made
        if field:
            return f"[{made}; {declared.get('length_name', declared['length'])}]"
        return f"*{'const' if 'const' in declared['type'].split() else 'mut'} {made}"


def indented_as_text(text):
    """Fences lines that are set with blanks, which Markdown would run together or take for code."""
    lines, listed, fenced = [], False, False
    for line in text.split("\n"):
        if line and not line.startswith("  "):
            listed = line.startswith("- ")
        fence = line.startswith("  ") and not listed
        if fence != fenced and (fence or line):
            lines.append("```text" if fence else "```")
            fenced = fence
        lines.append(line[2:] if fenced else line)
    if fenced:
        while lines[-1] == "":
            lines.pop()
        lines.append("```")
    return lines


WORD = re.compile(r"`[^`\n]+`|\b(?:pc|PC)_\w+(?:\.\w+)?…?|\w*_\w*|[\\*\[\]<>_`~#]")


def markdown(text, link):
    """A comment as Markdown. link(name): where a name of ours leads, or None."""
    def word(found):
        part = found[0]
        if part.startswith("`"):
            return part if len(part) > 1 else "\\`"
        if re.match(r"(pc|PC)_", part):
            target = link(part.split(".")[0])
            return f"[`{part}`]({target})" if target else f"`{part}`"
        if len(part) > 1:
            return f"`{part}`"
        return "\\" + part

    fenced, lines = False, []
    for line in indented_as_text(text):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            line = WORD.sub(word, line)
        lines.append(line)
    return lines


def doc_lines(lines, indent="", mark="///"):
    return [f"{indent}{mark} {line}".rstrip() for line in lines]

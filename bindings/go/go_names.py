"""Names and comments of the headers as Go has them, and the constants."""
import re
import textwrap

import bindings as table


def camel(name):
    """max_tokens, MAX_TOKENS -> MaxTokens"""
    return "".join(table.WORDS.get(word, word[:1].upper() + word[1:])
                   for word in name.lower().split("_") if word)


def constant(name):
    return camel(name[3:])


def struct(name):
    return camel(name[3:])


def words(name):
    """What String says for a constant: FIRST_USE -> "first use"."""
    return name.lower().replace("_", " ")


def shared_start(names):
    """PC_TIER_RAM, PC_TIER_DISK -> PC_TIER_"""
    if len(names) == 1:
        return re.match(r"PC_[A-Z]+_", names[0])[0]
    start = names[0]
    while not all(name.startswith(start) for name in names):
        start = start[:-1]
    return start[:start.rfind("_") + 1]


# What Go has not: sizes and strides of arrays; texts that are NULL beside empty ones.
ONLY_C = (r"(?<=\bNULL) with\s+\w*size\s+0\b", r';\s+""\s+is\s+PC_ERR_INVALID',
          r"\s+Arrays\s+have\s+a\s+stride,[^.]*\.")


class Names:
    """What becomes of a name of the headers in a comment."""

    def __init__(self, api, functions):
        self.functions = functions
        self.constants = {item["name"] for enum in api["enums"] if type_of(enum) is not None
                          for item in enum["enumerators"]}
        self.types = {}
        for enum in api["enums"]:
            kind = type_of(enum)
            if kind and enum["prefix"] not in ("", "PC_"):
                self.types[enum["prefix"]] = kind
            elif kind:
                start = shared_start([item["name"] for item in enum["enumerators"]])
                if start != "PC_":
                    self.types.setdefault(start, kind)
        self.structs = {item["name"]: item for item in api["structs"]
                        if item["name"] in table.STRUCTS}
        self.handles = {item["name"] for item in api["handles"]}

    def one(self, found):
        name = found[0]
        if name.endswith("…"):
            return self.types.get(name[:-1], name)
        if name in self.constants:
            return constant(name)
        if name in self.functions:
            return self.functions[name]
        if found[1] and found[1] in self.structs and found[2]:
            return struct(found[1]) + "." + camel(found[2])
        if name in self.structs or name in self.handles:
            return struct(name)
        return name

    def in_text(self, text, fields):
        for only_c in ONLY_C:
            text = re.sub(only_c, "", text)
        text = re.sub(r"PC_[A-Z0-9_]+…?|\b(pc_\w+)\.(\w+)|\bpc_\w+", self.one, text)
        text = re.sub(r"\bNULL\b", "nil", text)
        for field in sorted(fields, key=len, reverse=True):
            if "_" in field:
                text = re.sub(rf"(?<![\w.]){field}(?![\w(])", camel(field), text)
        return text


def comment(text, names, indent, fields=()):
    """Lines of a comment, in paragraphs as in the header."""
    text = names.in_text(text, fields).replace("*/", "")
    width = 96 - len(indent)
    out = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.split("\n")
        if any(line.startswith(("- ", "  ")) for line in lines):
            wrapped = lines
        else:
            wrapped = textwrap.wrap(" ".join(lines), width, break_long_words=False,
                                    break_on_hyphens=False) or [""]
        out.append("\n".join(f"{indent}// {line}".rstrip() for line in wrapped))
    return f"\n{indent}//\n".join(out)


def type_of(enum):
    """The Go type of a group of constants; "" of lengths; None: it is not offered."""
    first = enum["enumerators"][0]["name"]
    if first in table.ENUMS:
        return table.ENUMS[first]
    if first in table.LEFT_OUT_ENUMS or enum["header"] in table.LEFT_OUT_HEADERS:
        return None
    raise SystemExit(f"generate.py: {first} is in no table of bindings.py")


def constants(api, names):
    out = ["package promptcache\n"]
    types, lengths = {}, []
    for enum in api["enums"]:
        kind = type_of(enum)
        if kind is None:
            continue
        if kind == "":
            lengths.append(enum)
        else:
            types.setdefault(kind, []).append(enum)
    out.append("\n// Lengths of arrays.\nconst (")
    for enum in lengths:
        for item in enum["enumerators"]:
            said = item["comment"] or enum["comment"]
            out.append(comment(said, names, "\t"))
            out.append(f"\t{constant(item['name'])} = {item['value']}")
    out.append(")\n\n// The release that the package was generated for.\nconst (")
    for item in api["macros"]:
        said = {"PC_ABI_VERSION": "\t// the soname of the library\n"}.get(item["name"], "")
        out.append(f"{said}\t{constant(item['name'])} = {item['value']}")
    out.append(")")
    for kind, enums in types.items():
        out.append(one_type(kind, enums, names))
    return "\n".join(out) + "\n"


def one_type(kind, enums, names):
    base = "int32" if kind == "Status" else "uint64" if kind in table.FLAGS else "uint32"
    said = "; ".join(enum["comment"] for enum in enums if enum["comment"]
                     and len(enum["enumerators"]) > 1)
    if kind == "Status":
        said = ("How a call ended: 0 is success, > 0 a normal outcome with another meaning, < 0 an "
                "error. As an error it is what errors.Is compares an *Error with.")
    elif not said:
        said = enums[0]["comment"].split(" flags ")[0] or kind
    out = ["\n" + comment(f"{kind}: {said}", names, "") + f"\ntype {kind} {base}\n", "const ("]
    items = [item for enum in enums for item in enum["enumerators"]]
    for item in items:
        text = item["comment"]
        if not text and len(items) == 1:
            text = enums[0]["comment"]
        if text:
            out.append(comment(text, names, "\t"))
        out.append(f"\t{constant(item['name'])} {kind} = {item['value']}")
    out.append(")\n")
    start = "PC_" if kind in ("Status", "Exactness") else None
    lines = []
    for enum in enums:
        begin = start or enum["prefix"] or shared_start([i["name"] for i in enum["enumerators"]])
        for item in enum["enumerators"]:
            short = constant(item["name"]) if kind == "Status" else words(
                item["name"][len(begin):])
            lines.append(f'\t{constant(item["name"])}: "{short}",')
    name = kind[0].lower() + kind[1:] + "Names"
    out.append(f"var {name} = map[{kind}]string{{\n" + "\n".join(lines) + "\n}\n")
    call = "flagsString" if kind in table.FLAGS else "enumString"
    out.append(f"// String says it in words.\nfunc (v {kind}) String() string {{ "
               f'return {call}("{kind}", v, {name}) }}')
    if kind == "Status":
        texts = [f'\t{constant(item["name"])}: "{item["comment"]}",' for item in items]
        out.append("\nvar statusTexts = map[Status]string{\n" + "\n".join(texts) + "\n}")
    return "\n".join(out)


"""What the public headers declare (promptcache.h and those in the folder promptcache beside it),
with the comment of every declaration. The checks beside this file use it; describe.py writes it
down.

The headers keep to a few forms. A comment right above a declaration, or behind it on its line, is
about that declaration. Functions right below each other without a blank line share the comment of
the first. In a struct or an enumeration, a comment above a member that has one of its own heads
that member and those that follow. A comment between blank lines is about its section."""
import glob
import os
import re

# The library fills these and gives them to a callback. The caller never sets them up, so they need
# neither an INIT macro nor an init function.
GIVEN_BY_LIBRARY = {"pc_codec_block", "pc_deviation_args", "pc_encode_args", "pc_event",
                    "pc_layer_states", "pc_sequence_args", "pc_step_args", "pc_token", "pc_trace"}

COMMENT = re.compile(r"/\*.*?\*/", re.S)
NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|[0-9]+)")


class Header:
    def __init__(self, path):
        more = sorted(glob.glob(os.path.join(os.path.dirname(path), "promptcache", "*.h")))
        self.names = ["promptcache.h"] + ["promptcache/" + os.path.basename(name) for name in more]
        texts = {}
        for name, file in zip(self.names, [path] + more):
            with open(file, encoding="utf-8") as opened:
                texts[name] = opened.read()
        self.each = {name: COMMENT.sub("", text) for name, text in texts.items()}
        self.code = "\n".join(self.each.values())
        self.includes = [f"#include <{name}>" for name in self.names]
        self.macros = dict(re.findall(r"^#define (PC_[A-Z0-9_]+)[ \t]+(.*?)[ \t]*$", self.code,
                                      flags=re.M))
        self.codes = {name: (int(value), text) for name, value, text in
                      re.findall(r'X\((PC_\w+), (-?\d+), "(.*?)"\)', self.code)}
        self.inits = set(re.findall(r"#define (PC_\w+_INIT)\b", self.code))
        self.version = tuple(int(v) for v in re.findall(
            r"#define PC_VERSION_M(?:AJOR|INOR) (\d+)", self.code))

        # Everything, in the order of the headers. Each item is a dictionary with header, section
        # and comment.
        self.sections, self.items = [], []
        for name, text in texts.items():
            _File(name, text, self)
        self.values = {entry["name"]: entry["value"] for item in self.of("enum")
                       for entry in item["enumerators"]}
        self.values.update({item["name"]: item["value"] for item in self.of("macro")})
        for declared in self._declared():
            if "length" in declared and not isinstance(declared["length"], int):
                if not declared["length"].isdigit():
                    declared["length_name"] = declared["length"]
                declared["length"] = int(self.values.get(declared["length"], declared["length"]))
        self.structs = {item["name"]: [field["name"] for field in item["fields"]]
                        for item in self.of("struct")}
        self.enums = [[entry["name"] for entry in item["enumerators"]
                       if entry["name"] not in self.codes] for item in self.of("enum")]
        self.enums = [names for names in self.enums if names]
        self.constants = [name for names in self.enums for name in names]

    def of(self, kind):
        return [item for item in self.items if item["kind"] == kind]

    def sized(self):
        """Names of the structs that start with struct_size."""
        return [name for name, fields in self.structs.items() if fields[0] == "struct_size"]

    def _declared(self):
        """All fields and arguments."""
        for item in self.items:
            for one in item.get("fields", []) + item.get("arguments", []):
                yield one
                yield from one.get("function", {}).get("arguments", [])


def squeeze(text):
    return re.sub(r"\s+", " ", COMMENT.sub(" ", text)).strip()


def prose(comments):
    """Comments as plain lines."""
    lines = []
    for comment in comments:
        for line in comment[2:-2].split("\n"):
            lines.append(re.sub(r"^ *\* ?|^ +", "", line).rstrip())
    return "\n".join(lines).strip()


def split_list(text):
    """At the commas outside of parentheses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def function_of(result, text):
    text = text.strip()
    arguments = [] if text == "void" else [declare(part)[0] for part in split_list(text)]
    return {"result": result.strip(), "arguments": arguments}


def declare(text):
    """What one declaration declares: a pointer to a function, or any number of others."""
    pointer = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", text)
    if pointer:
        function = function_of(pointer[1], pointer[3])
        result = function["result"] + ("" if function["result"].endswith("*") else " ")
        return [{"name": pointer[2], "type": f"{result}(*)({pointer[3]})", "function": function}]
    first, *more = split_list(text)
    found = re.fullmatch(r"(.*?)(\w+)((?:\[\w+\])?)", first)
    made = []
    for name, length in [(found[2], found[3])] + [(name, "") for name in more]:
        made.append({"name": name, "type": found[1].strip()})
        if length:
            made[-1]["length"] = length[1:-1]
    return made


class _File:
    """Reads one header into the lists of a Header."""

    def __init__(self, name, text, header):
        self.name, self.header, self.codes = name, header, header.codes
        self.section = None
        self.shared = None  # the function above without a blank line: its name, comment, last line
        # Lines stay where they are.
        text = re.sub(r"#ifdef __cplusplus.*?#endif", lambda found: re.sub(r"[^\n]", "", found[0]),
                      text, flags=re.S)
        self.opening(text)
        at, pending = 0, []
        token = re.compile(r"\s*(?:(/\*.*?\*/)|(#(?:[^\n]*\\\n)*[^\n]*)|(?=\S))", re.S)
        while at < len(text) and text[at:].strip():
            found = token.match(text, at)
            start = found.end() if not (found[1] or found[2]) else found.start(1 if found[1] else 2)
            line = text.count("\n", 0, start) + 1
            if found[1]:
                at = found.end()
                if "clang-format" not in found[1]:
                    pending.append((found[1], line, text.count("\n", 0, at) + 1))
                continue
            at = found.end() if found[2] else self.end_of(text, start)
            behind = re.match(r"[ \t]*(/\*.*?\*/)", text[at:], re.S)
            last = text.count("\n", 0, at) + 1
            own = []
            if pending and pending[-1][2] + 1 == line:
                own = [pending.pop()[0]]
            self.loose(pending)
            pending = []
            if behind and "clang-format" not in behind[1]:
                own.append(behind[1])
                at += behind.end()
            self.add(text[start:at] if found[2] else text[start:self.end_of(text, start)],
                     prose(own), line, last)
        self.loose(pending)

    @staticmethod
    def end_of(text, at):
        """Behind the semicolon outside of all braces."""
        depth = 0
        for part in re.compile(r"/\*.*?\*/|[{};]", re.S).finditer(text, at):
            depth += (part[0] == "{") - (part[0] == "}")
            if part[0] == ";" and not depth:
                return part.end()
        raise ValueError(f"a declaration without an end: {text[at:at + 60]}")

    def opening(self, text):
        comment = next(found[0] for found in COMMENT.finditer(text)
                       if "clang-format" not in found[0])
        self.header.sections.append({"header": self.name, "title": "", "comment": prose([comment])})

    def loose(self, comments):
        """Comments that stand alone: titles of sections, and what is said about a section."""
        for comment, _, _ in comments:
            title = re.match(r"/\* ---- (.*?) \*/", comment, re.S)
            if title:
                self.section = squeeze(title[1])
                self.header.sections.append({"header": self.name, "title": self.section,
                                             "comment": ""})
            elif self.section:
                of = self.header.sections[-1]
                of["comment"] = (of["comment"] + "\n\n" + prose([comment])).strip()

    def put(self, kind, name, comment, **more):
        item = {"kind": kind, "name": name, "header": self.name, "section": self.section, **more}
        item["comment"] = comment
        self.header.items.append(item)

    def add(self, source, comment, line, last):
        text = squeeze(source)
        define = re.fullmatch(r"#define (PC_\w+) (\S+)", text)
        call = re.fullmatch(r"PC_API (.*?)(pc_\w+)\((.*)\);", text)
        pointer = re.fullmatch(r"typedef (.*?)\(\*(pc_\w+)\)\((.*)\);", text)
        struct = re.fullmatch(r"(?:typedef )?struct (pc_\w+) \{.*\}(?: \1)?;", text)
        alone = re.fullmatch(r"(?:typedef )?struct (pc_\w+)(?: \1)?;", text)
        alias = re.fullmatch(r"typedef (.*?)(pc_\w+);", text)
        if text.startswith("#"):
            if define and NUMBER.fullmatch(define[2]):
                behind = COMMENT.findall(source)
                self.put("macro", define[1], "\n".join(filter(None, [comment, prose(behind)])),
                         value=int(define[2], 0))
        elif text.startswith("enum {"):
            self.enum(source, comment)
        elif call:
            more = function_of(call[1], call[3])
            if not comment and self.shared and self.shared[2] + 1 == line:
                more["shares_comment_of"], comment = self.shared[:2]
            self.shared = (more.get("shares_comment_of", call[2]), comment, last)
            self.put("function", call[2], comment, **more)
        elif pointer:
            self.put("function_type", pointer[2], comment, **function_of(pointer[1], pointer[3]))
        elif struct:
            fields = []
            for own, head, declaration in self.members(source, ";"):
                for field in declare(declaration):
                    fields.append({**field, "comment": own, "heading": head})
            self.put("struct", struct[1], comment, fields=fields,
                     typedef=text.startswith("typedef"))
        elif alone and not text.startswith("typedef"):
            pass  # of another header
        elif alone:
            self.put("handle", alone[1], comment, typedef=text.startswith("typedef"))
        elif alias:
            self.put("alias", alias[2], comment, type=alias[1].strip())
        else:
            raise ValueError(f"{self.name}:{line}: not a form of our headers: {text[:80]}")

    def enum(self, source, comment):
        entries = []
        if "PC_STATUS_LIST(" in source:
            entries = [{"name": name, "value": value, "comment": text, "heading": ""}
                       for name, (value, text) in self.codes.items()]
            source = re.sub(r"PC_STATUS_LIST\(\w+\)", "", source)
        for own, head, declaration in self.members(source, ","):
            name, value = declaration.split(" = ")
            if name.endswith("_"):  # of the header's own
                continue
            entries.append({"name": name, "value": int(value, 0), "comment": own, "heading": head})
        prefix = os.path.commonprefix([entry["name"] for entry in entries])
        self.put("enum", prefix[:prefix.rfind("_") + 1] if len(entries) > 1 else "", comment,
                 enumerators=entries)

    @staticmethod
    def members(source, end):
        """Comment, heading and declaration of each member between the braces."""
        body = source[source.index("{") + 1:source.rindex("}")]
        member = r"\s*(?:(/\*.*?\*/)|((?:[^%s/(]|\((?:[^()]|\(.*?\))*\))+%s?))" % (end, end)
        parts = [(found[1], found[2], "\n" in found[0][:found.start(1) - found.start()])
                 for found in re.finditer(member, body, re.S)]
        made, above, head = [], [], ""
        for comment, code, starts_line in parts:
            if comment and made and not starts_line and not above:
                made[-1][0].append(comment)
            elif comment:
                above.append(comment)
            elif code and code.strip():
                made.append([[], above, squeeze(code).rstrip(end)])
                above = []
        members = []
        for behind, above, declaration in made:
            if above and (behind or len(above) > 1):
                head = prose(above if behind else above[:-1])
            own = behind if behind else above[-1:]
            members.append((prose(own), head, declaration))
        return members

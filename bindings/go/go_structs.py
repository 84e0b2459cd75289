"""The structs of the headers in Go, with the conversions to C and from it."""
import re

import bindings as table
from go_names import camel, comment, struct as struct_name

NUMBERS = {"int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
           "size_t": "int", "float": "float32", "double": "float64", "uint8_t": "byte"}
HANDLES = {"pc_memo": "Memo", "pc_schema": "Schema", "pc_model": "Model"}


class Fault(Exception):
    """A field of a kind that has no rule."""


class Field:
    """One field of a Go struct: declaration and conversions."""

    def __init__(self, name, kind, to_c="", from_c=""):
        self.name, self.kind, self.to_c, self.from_c = name, kind, to_c, from_c
        self.comment = ""


class Struct:
    """Decides what each field of a C struct becomes."""

    def __init__(self, item):
        self.item = item
        self.name = item["name"]
        self.fields = {field["name"]: field for field in item["fields"]}
        self.counts = self.find_counts()
        self.companions = self.find_companions()

    def find_counts(self):
        """array -> its count"""
        counts = {}
        for field in self.item["fields"]:
            if "*" not in field["type"] or "function" in field:
                continue
            found = re.match(r"\[(\w+)\]", field["comment"])
            if found and found[1] in self.fields:
                counts[field["name"]] = found[1]
        for field in self.item["fields"]:
            found = re.match(r"length of (.*)", field["comment"])
            if found and field["type"] == "size_t":
                listed = re.findall(r"\w+", found[1])
                if listed[:1] == ["both"]:
                    listed = ["top_tokens", "top_logprobs"]
                for name in listed:
                    if name in self.fields and "*" in self.fields[name]["type"]:
                        counts[name] = field["name"]
        return counts

    def find_companions(self):
        """Fields that are no fields in Go: counts, strides, sizes, the user of a callback."""
        found = {"struct_size", "reserved"} | set(self.counts.values())
        for name, field in self.fields.items():
            if name.endswith("_stride"):
                found.add(name)
            if name.endswith("_size") and name[:-5] in self.fields:
                found.add(name)
            if re.match(r"given to \w+$", field["comment"]) and name.endswith("_user"):
                found.add(name)
            if (self.name, name) == ("pc_salt", "size"):
                found.add(name)
        return found

    def go_fields(self):
        """Field objects, with comments; a heading stands before the first of its fields."""
        taken = {camel(name) for name in self.fields if not re.search(r"(^|_)seconds(_|$)", name)}
        for field in self.item["fields"]:
            name = field["name"]
            if name in self.companions or f"{self.name}.{name}" in table.LEFT_OUT_FIELDS:
                continue
            made = self.convert(field, taken)
            made.comment = field["comment"]
            if field.get("heading"):
                made.comment = field["heading"] + "\n\n" + made.comment
            yield made

    def convert(self, field, taken):
        name, kind = field["name"], field["type"]
        go_name = camel(name)
        for rule in (self.callback, self.fixed_array, self.text, self.bytes, self.key,
                     self.handle, self.array, self.nested, self.scalar):
            made = rule(field, go_name, taken)
            if made:
                return made
        raise Fault(f"{self.name}.{name}: no rule for {kind}")

    def callback(self, field, go, _):
        for key in (field["type"], field["name"]):
            if key in table.CALLBACKS:
                kind, short = table.CALLBACKS[key]
                user = next(name for name, other in self.fields.items()
                            if other["comment"] == f"given to {field['name']}")
                cast = f"C.{field['type']}" if key == field["type"] else "(*[0]byte)"
                made = Field(go, kind, (
                    f"if o.{go} != nil {{\na.calls().{short} = o.{go}\n"
                    f"c.{field['name']} = {cast}(C.go_on_{short})\na.setUser(&c.{user})\n}}"))
                return made
        return None

    def fixed_array(self, field, go, _):
        if "length" not in field:
            return None
        name, kind = field["name"], field["type"]
        if kind == "char":
            return Field(go, "string", f'a.fixedText("{go}", c.{name}[:], o.{go})',
                         f"o.{go} = fixedText(c.{name}[:])")
        if kind == "uint8_t" and field["length"] == 32:
            return Field(go, "Key", "", f"o.{go} = keyFrom(&c.{name}[0])")
        length = camel(field["length_name"][3:]) if field.get("length_name") else field["length"]
        return Field(go, f"[{length}]{NUMBERS[kind]}", "",
                     f"for i := range o.{go} {{\no.{go}[i] = {NUMBERS[kind]}(c.{name}[i])\n}}")

    def text(self, field, go, _):
        name, kind = field["name"], field["type"]
        if kind == "const char *const *":
            return Field(go, "[]string", f'c.{name} = a.texts("{go}", o.{go})\n'
                         f"c.{self.counts[name]} = C.size_t(len(o.{go}))")
        if kind != "const char *":
            return None
        size = name + "_size"
        if size in self.fields:
            condition = f'o.{go} != ""'
            if (self.name, name) == ("pc_message", "content"):
                condition += ' || o.ToolCalls == ""'
            return Field(go, "string", f"if {condition} {{\nc.{name} = a.text(o.{go})\n"
                         f"c.{size} = C.size_t(len(o.{go}))\n}}",
                         f"o.{go} = C.GoStringN(c.{name}, C.int(c.{size}))")
        return Field(go, "string", f'c.{name} = a.name("{go}", o.{go})',
                     f"o.{go} = C.GoString(c.{name})")

    def bytes(self, field, go, _):
        name = field["name"]
        if field["type"] != "const void *":
            return None
        size = "size" if name == "data" else name + "_size"
        if size not in self.fields:
            return None
        return Field(go, "[]byte", f"c.{name} = a.bytes(o.{go})\nc.{size} = C.size_t(len(o.{go}))")

    def key(self, field, go, _):
        if field["type"] == "const uint8_t *":
            return Field(go, "*Key", f"c.{field['name']} = a.key(o.{go})",
                         f"o.{go} = keyPointer(c.{field['name']})")
        return None

    def handle(self, field, go, _):
        kind = table.HANDLE_FIELDS.get(f"{self.name}.{field['name']}")
        if kind:
            return Field(go, f"*{kind}", f"if o.{go} != nil {{\n"
                         f"c.{field['name']} = a.hold(o.{go}.handle)\n}}")
        found = re.fullmatch(r"(?:const )?(pc_\w+) \*", field["type"])
        if not found or found[1] not in HANDLES:
            return None
        kind = HANDLES[found[1]]
        return Field(go, f"*{kind}", f"if o.{go} != nil {{\n"
                     f"c.{field['name']} = (*C.{found[1]})(a.hold(o.{go}.handle))\n}}")

    def array(self, field, go, _):
        name, kind = field["name"], field["type"]
        found = re.fullmatch(r"const (\w+) \*", kind)
        count = self.counts.get(name)
        if (self.name, name) == ("pc_raw", "block_bytes"):
            return Field(go, "[]uint64",
                         f"c.{name}, c.{count} = a.blockBytes(o.Blocks, o.{go})",
                         f"o.{go} = copyFrom[uint64](unsafe.Pointer(c.{name}), int(c.{count}))")
        if kind == "const void *const *":  # blocks of pc_raw
            return Field(go, "[][]byte", f"c.{name} = a.blockList(o.{go})",
                         f"o.{go} = blockViews(c.{name}, c.block_bytes, c.{count})")
        if kind == "const int32_t *const *":
            return Field(go, "[][]int32", f"c.{name} = a.rows(o.{go})")
        if not found or (not count and not field["comment"].startswith("[")):
            return None
        first = next((other for other, its in self.counts.items() if its == count), name)
        length = f"c.{count} = C.size_t(len(o.{go}))" if count else ""
        if first != name:
            first_go = camel(first)
            length = (f'a.same("{struct_name(self.name)}.{go}", len(o.{go}), '
                      f'"{first_go}", len(o.{first_go}))')
        if found[1] in NUMBERS:
            number = NUMBERS[found[1]]
            return Field(go, f"[]{number}",
                         f"c.{name} = (*C.{found[1]})(copyOf(a, o.{go}))\n{length}".rstrip(),
                         f"o.{go} = copyFrom[{number}](unsafe.Pointer(c.{name}), "
                         f"int(c.{count}))" if count else "")
        if found[1] in table.STRUCTS:
            other, stride = found[1], name[:-1] + "_stride"
            return Field(go, f"[]{struct_name(other)}",
                         f"c.{name} = {camel_low(other)}Array(a, o.{go})\n{length}\n"
                         f"c.{stride} = C.sizeof_{other}")
        return None

    def nested(self, field, go, _):
        kind = field["type"]
        if kind == "const double *":
            return Field(go, "*float64", f"if o.{go} != nil {{\nc.{field['name']} = "
                         f"(*C.double)(copyOf(a, []float64{{*o.{go}}}))\n}}")
        found = re.fullmatch(r"const (pc_\w+) \*", kind)
        if found and found[1] in table.STRUCTS:
            return Field(go, f"*{struct_name(found[1])}",
                         f"if o.{go} != nil {{\nc.{field['name']} = o.{go}.c(a)\n}}")
        return None

    def scalar(self, field, go, taken):
        name, kind, said = field["name"], field["type"], field["comment"]
        named = table.FIELD_TYPES.get(f"{self.name}.{name}") or self.types.get(
            field.get("constants"))
        if named:
            return Field(go, named, f"c.{name} = C.{kind}(o.{go})", f"o.{go} = {named}(c.{name})")
        if kind == "double" and re.search(r"(^|_)seconds(_|$)", name):
            go = self.time_name(name, taken)
            return Field(go, "time.Duration", f"c.{name} = seconds(o.{go})",
                         f"o.{go} = duration(c.{name})")
        if kind == "int64_t" and "seconds since 1970" in said:
            return Field(go, "time.Time", f"c.{name} = unixOf(o.{go})",
                         f"o.{go} = unixTime(c.{name})")
        if kind in ("uint32_t", "int32_t") and re.match(r"1: ", said):
            return Field(go, "bool", f"if o.{go} {{\nc.{name} = 1\n}}", f"o.{go} = c.{name} != 0")
        if kind in NUMBERS:
            return Field(go, NUMBERS[kind], f"c.{name} = C.{kind}(o.{go})",
                         f"o.{go} = {NUMBERS[kind]}(c.{name})")
        return None

    @staticmethod
    def time_name(name, taken):
        """ttl_seconds -> TTL, seconds_ttft -> TimeTTFT"""
        if name == "seconds":
            return "Time"
        if name.startswith("seconds_"):
            return "Time" + camel(name[8:])
        short = camel(name[:-8])
        return short + "Duration" if short in taken else short


def camel_low(name):
    text = struct_name(name)
    return text[0].lower() + text[1:]


class Structs:
    """The two files of structs."""

    def __init__(self, api, names):
        self.names = names
        self.functions = api["functions"]
        Struct.types = names.types
        self.items = [Struct(item) for item in api["structs"] if item["name"] in table.STRUCTS]

    def declaration(self, item, fields):
        go = struct_name(item.name)
        said = item.item["comment"] or self.use_of(item.name)
        out = ["\n" + comment(f"{go}: {said}", self.names, "", item.fields) +
               f"\ntype {go} struct {{"]
        for field in fields:
            text = self.said(field)
            for kind, short in table.CALLBACKS.values():
                if field.kind == kind and short in table.CALLBACK_COMMENTS:
                    text += "\n\n" + table.CALLBACK_COMMENTS[short]
            if text.strip():
                out.append(comment(text, self.names, "\t", item.fields))
            out.append(f"\t{field.name} {field.kind}")
        return "\n".join(out) + "\n}\n"

    def use_of(self, name):
        """What a struct is for that the headers say nothing about."""
        takers = sorted({self.names.functions[function["name"]] for function in self.functions
                         if function["name"] in self.names.functions and any(
                             re.search(rf"\b{name}\b", argument["type"])
                             for argument in function["arguments"])})
        if table.STRUCTS[name] == "out":
            return f"of {' and '.join(takers)}."
        return f"of {', '.join(takers)}. Zero is the default of every field." if takers else (
            "zero is the default of every field.")

    def said(self, field):
        """The comment of a field, without what its type in Go says already."""
        text = re.sub(r"^\[\w+\] ", "", field.comment)
        if field.kind == "time.Duration":
            text = text.replace("INFINITY", "Forever")
        if field.kind == "string":
            text = re.sub(r"\bNULL\b", '""', text)
        if re.fullmatch(r"PC_[A-Z_]+…", text) and self.names.types.get(text[:-1]) == field.kind:
            return ""
        return text

    def to_c(self, item, fields):
        go, name = struct_name(item.name), item.name
        body = "\n".join(field.to_c for field in fields if field.to_c)
        if item.item["sized"]:
            out = (f"\nfunc (o *{go}) c(a *arena) *C.{name} {{\n"
                    f"c := (*C.{name})(a.alloc(C.sizeof_{name}))\n"
                    f"c.struct_size = C.sizeof_{name}\nif o != nil {{\no.fill(c, a)\n}}\n"
                    f"return c\n}}\n")
        else:
            out = (f"\nfunc {camel_low(name)}Array(a *arena, list []{go}) *C.{name} {{\n"
                   f"if len(list) == 0 {{\nreturn nil\n}}\n"
                   f"p := (*C.{name})(a.alloc(len(list) * C.sizeof_{name}))\n"
                   f"for i := range list {{\n"
                   f"list[i].fill(&unsafe.Slice(p, len(list))[i], a)\n}}\nreturn p\n}}\n")
        return out + f"\nfunc (o *{go}) fill(c *C.{name}, a *arena) {{\n{body}\n}}\n"

    def from_c(self, item, fields):
        go, name = struct_name(item.name), item.name
        body = "\n".join(field.from_c for field in fields if field.from_c)
        return f"\nfunc (o *{go}) from(c *C.{name}) {{\n{body}\n}}\n"

    def file(self, which):
        out = ""
        for item in self.items:
            side = table.STRUCTS[item.name]
            if side != which and side != "both":
                continue
            fields = list(item.go_fields())
            if which == "in":
                out += self.declaration(item, fields) + self.to_c(item, fields)
            else:
                out += ("" if side == "both" else self.declaration(item, fields)) + self.from_c(
                    item, fields)
        imports = ""
        if "time." in out:
            imports += 'import "time"\n'
        if "unsafe." in out:
            imports += 'import "unsafe"\n'
        return f'package promptcache\n\n// #include "bridge.h"\nimport "C"\n{imports}{out}'

    def options(self):
        return self.file("in")

    def results(self):
        return self.file("out")

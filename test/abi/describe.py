#!/usr/bin/env python3
"""Describes the public interface for generators of bindings (doc/abi.md, "Bindings"):

    describe.py include/promptcache.h FOLDER

promptcache.json: everything that the headers declare, with its comments. promptcache.cdef.h: all
headers but bench.h in the form that Python's cffi takes, without lines of the preprocessor;
promptcache-bench.cdef.h: bench.h, to be read after it."""
import json
import os
import re
import sys

from public_header import GIVEN_BY_LIBRARY, Header

# What the conventions at the top of promptcache.h say once for all.
OF_FIELD = {"struct_size": "Bytes of the struct, as the caller was compiled.",
            "reserved": "Must be 0."}
OF_FREE = "Releases the caller's reference. NULL does nothing."
BENCH = "promptcache/bench.h"
PREFIX = re.compile(r"\b(PC_[A-Z0-9_]*_)…")  # how a comment names the constants of its field


def c_name(declared):
    """A field, argument or type of the description as C."""
    name, c_type = declared["name"], declared["type"]
    if "function" in declared:
        return c_type.replace("(*)", f"(*{name})", 1)
    length = f"[{declared['length']}]" if "length" in declared else ""
    return c_type + ("" if c_type.endswith("*") else " ") + name + length


def of_function(function):
    arguments = ", ".join(map(c_name, function["arguments"]))
    return function["result"], f"({arguments or 'void'})"


def describe_struct(item):
    name = item["name"]
    sized = item["fields"][0]["name"] == "struct_size"
    made = {"name": name, "header": item["header"], "section": item["section"],
            "comment": item["comment"], "sized": sized}
    if sized:
        made["given_by_library"] = name in GIVEN_BY_LIBRARY
    if sized and name not in GIVEN_BY_LIBRARY:
        made.update(init=f"{name}_init", init_macro=f"{name.upper()}_INIT")
    made["fields"] = []
    for field in item["fields"]:
        field = dict(field, comment=field["comment"] or OF_FIELD.get(field["name"], ""))
        named = set(PREFIX.findall(field["comment"]))
        if len(named) == 1 and "length" not in field and re.fullmatch(r"u?int\d+_t", field["type"]):
            field["constants"] = named.pop()
        if not field["heading"]:
            del field["heading"]
        made["fields"].append(field)
    return made


def describe_function(item):
    made = {key: value for key, value in item.items() if key != "kind"}
    if made["name"].endswith("_free") and "shares_comment_of" in made:
        del made["shares_comment_of"]
        made["comment"] = OF_FREE
    return made


def describe_enum(item):
    entries = [{key: value for key, value in entry.items() if value != "" or key == "comment"}
               for entry in item["enumerators"]]
    return {"prefix": item["name"], "header": item["header"], "section": item["section"],
            "comment": item["comment"], "enumerators": entries}


def describe(header):
    def plain(kind):
        return [{key: value for key, value in item.items() if key not in ("kind", "typedef")}
                for item in header.of(kind)]

    values = header.values
    return {
        "version": ".".join(str(values[f"PC_VERSION_{part}"])
                            for part in ("MAJOR", "MINOR", "PATCH")),
        "abi_version": values["PC_ABI_VERSION"],
        "library": f"libpromptcache.so.{values['PC_ABI_VERSION']}",
        "headers": [{"name": name, "sections": [
            {key: section[key] for key in ("title", "comment")}
            for section in header.sections if section["header"] == name]}
            for name in header.names],
        "types": plain("alias"),
        "macros": plain("macro"),
        "enums": [describe_enum(item) for item in header.of("enum")],
        "handles": [item for item in plain("handle") if item["name"] not in header.structs],
        "function_types": plain("function_type"),
        "structs": [describe_struct(item) for item in header.of("struct")],
        "functions": [describe_function(item) for item in header.of("function")],
    }


def enum_lines(entries):
    return ["enum {"] + [f"    {name} = {value}," for name, value in entries] + ["};"]


def cdef(header, wanted):
    """C declarations of the items of the wanted headers, as cffi reads them."""
    lines = []
    macros = [(item["name"], item["value"]) for item in header.of("macro") if wanted(item)]
    if macros:
        lines += enum_lines(macros)
    for item in filter(wanted, header.items):
        kind, name = item["kind"], item["name"]
        prefix = "typedef " if item.get("typedef") else ""
        behind = f" {name}" if item.get("typedef") else ""
        if kind == "alias":
            lines.append(f"typedef {item['type']} {name};")
        elif kind == "enum":
            lines += enum_lines((entry["name"], entry["value"]) for entry in item["enumerators"])
        elif kind == "handle":
            lines.append(f"{prefix}struct {name}{behind};")
        elif kind == "struct":
            lines += [f"{prefix}struct {name} {{",
                      *(f"    {c_name(field)};" for field in item["fields"]), f"}}{behind};"]
        elif kind == "function_type":
            result, arguments = of_function(item)
            lines.append(f"typedef {result} (*{name}){arguments};")
        elif kind == "function":
            result, arguments = of_function(item)
            lines.append(f"{result}{'' if result.endswith('*') else ' '}{name}{arguments};")
    return "\n".join(lines) + "\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    header, folder = Header(sys.argv[1]), sys.argv[2]
    made = describe(header)
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, "promptcache.json"),
          json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    head = f"/* promptcache {made['version']}: {{}} for ffi.cdef() of Python's cffi. */\n"
    write(os.path.join(folder, "promptcache.cdef.h"), head.format("all headers but bench.h,")
          + cdef(header, lambda item: item["header"] != BENCH))
    write(os.path.join(folder, "promptcache-bench.cdef.h"),
          head.format("bench.h, after promptcache.cdef.h,")
          + cdef(header, lambda item: item["header"] == BENCH))


if __name__ == "__main__":
    main()

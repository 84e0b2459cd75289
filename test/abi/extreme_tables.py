#!/usr/bin/env python3
"""Writes C tables of all public functions with their parameters, and of all public structs with
their fields, for test_extremes.c:

    extreme_tables.py include/promptcache.h OUTPUT.h
"""
import re
import sys

from public_header import Header

header = Header(sys.argv[1])
sys.stdout = open(sys.argv[2], "w", encoding="utf-8")
ENUMS = {"compute", "kv", "encoding", "repair", "visibility", "position_scheme", "dtype",
         "baseline", "pool", "output_pool", "outputs", "map_format", "index", "tier", "loss",
         "compressed_codec", "disk_codec", "remote_codec"}


def kind_of(c_type, name):
    """What extreme values a parameter or field of this type and name gets."""
    if "*" in c_type or c_type.endswith("_fn") or "[" in c_type:
        return "POINTER"
    if c_type == "size_t":
        if name in ("index", "first"):
            return "INDEX"
        return "ROOM" if name == "capacity" else "COUNT"
    if c_type == "uint64_t":
        return "FLAGS" if name == "flags" else "BYTES"
    if c_type == "uint32_t":
        return "ENUM" if name in ENUMS else "RESERVED" if name == "reserved" else "BYTES"
    return {"int64_t": "POSITION", "int32_t": "NUMBER", "double": "SECONDS", "float": "FLOAT",
            "pc_status": "NUMBER"}.get(c_type, "OTHER")


def split(declaration):
    """Type and name of a parameter."""
    pointer = re.match(r".*\(\*(\w+)\)\(.*\)$", declaration)
    if pointer:
        return "function *", pointer.group(1)
    found = re.match(r"(.*?)(\w+)((\[\w+\])*)$", declaration)
    c_type = re.sub(r"\bstruct ", "", found.group(1)).strip()
    return c_type + (" *" if found.group(3) else ""), found.group(2)


def split_list(text):
    """At the commas outside parentheses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [re.sub(r"\s+", " ", part).strip() for part in parts]


READ = {"POINTER": "p", "SECONDS": "d", "FLOAT": "d", "POSITION": "i", "NUMBER": "i"}
CAST = {"COUNT": "(size_t)", "INDEX": "(size_t)", "ROOM": "(size_t)", "NUMBER": "(int32_t)"}
calls = []
for returned, name, text in re.findall(r"PC_API ([\w ]+?(?:\*const )?\**)\s*\*?(pc_\w+)\((.*?)\);",
                                       header.code, flags=re.S):
    returned = re.search(r"PC_API (.*?)" + name + r"\(", header.code).group(1).strip()
    params = [] if text.strip() == "void" else [split(p) for p in split_list(text)]
    args = []
    for i, (c_type, param) in enumerate(params):
        kind = kind_of(c_type, param)
        if c_type == "function *" or c_type.endswith("_fn"):
            args.append("NULL")
        elif kind == "POINTER":
            args.append(f"v[{i}].p")
        else:
            cast = "(uint32_t)" if c_type == "uint32_t" else CAST.get(kind, "")
            args.append(f"{cast}v[{i}].{READ.get(kind, 'u')}")
    call = f"{name}({', '.join(args)})"
    gives = "STATUS" if returned == "pc_status" and name != "pc_error_set" else "OTHER"
    body = f"{call};\n    return 0;" if returned == "void" else (
        f"return (int64_t)(intptr_t){call};" if "*" in returned else f"return (int64_t){call};")
    print(f"static int64_t call_{name}(const value *v)\n{{\n    (void)v;\n    {body}\n}}\n")
    rows = "".join(f'    {{"{t}", "{n}", {kind_of(t, n)}}},\n' for t, n in params)
    print(f"static const param of_{name}[] = {{\n{rows}    {{NULL, NULL, OTHER}}}};\n")
    calls.append(f'    {{"{name}", call_{name}, of_{name}, {len(params)}, {gives}}},')
print("static const call calls[] = {\n" + "\n".join(calls) + "\n};\n")

structs = []
for name, body in re.findall(r"struct (pc_\w+) \{(.*?)\n\}(?: \1)?;", header.code, flags=re.S):
    rows = []
    for line in body.split(";"):
        line = re.sub(r"\s+", " ", line).strip()
        if not line:
            continue
        first, *more = split_list(line)
        c_type, field = split(first)
        for one in [field] + [re.sub(r"\W.*", "", m) for m in more]:
            if one != "struct_size":
                rows.append(f'    {{"{one}", offsetof({name}, {one}), '
                            f"sizeof((({name} *)0)->{one}), {kind_of(c_type, one)}}},")
    print(f"static const field fields_of_{name}[] = {{\n" + "\n".join(rows) + "\n};\n")
    structs.append(f'    {{"{name}", sizeof({name}), fields_of_{name}, {len(rows)}}},')
print("static const layout layouts[] = {\n" + "\n".join(structs) + "\n};")

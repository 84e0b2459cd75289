#!/usr/bin/env python3
"""Writes C tables of all public functions with their parameters, of all public structs with their
fields, and of all INIT macros and init functions, for test_extremes.c:

    extreme_tables.py include/promptcache.h OUTPUT.h
"""
import sys

from public_header import GIVEN_BY_LIBRARY, Header

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
        if name.endswith("_stride"):
            return "STRIDE"
        return "ROOM" if name == "capacity" else "COUNT"
    if c_type == "uint64_t":
        return "FLAGS" if name == "flags" else "BYTES"
    if c_type == "uint32_t":
        return "ENUM" if name in ENUMS else "RESERVED" if name == "reserved" else "BYTES"
    return {"int64_t": "POSITION", "int32_t": "NUMBER", "double": "SECONDS", "float": "FLOAT",
            "pc_status": "NUMBER"}.get(c_type, "OTHER")


def split(declared):
    """Type and name of a parameter or field."""
    if "function" in declared:
        return "function *", declared["name"]
    c_type = declared["type"].replace("struct ", "")
    return c_type + (" *" if "length" in declared else ""), declared["name"]


READ = {"POINTER": "p", "SECONDS": "d", "FLOAT": "d", "POSITION": "i", "NUMBER": "i"}
CAST = {"COUNT": "(size_t)", "STRIDE": "(size_t)", "INDEX": "(size_t)", "ROOM": "(size_t)",
        "NUMBER": "(int32_t)"}
calls = []
for function in header.of("function"):
    name, returned = function["name"], function["result"]
    params = [split(p) for p in function["arguments"]]
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
for struct in header.of("struct"):
    name, rows = struct["name"], []
    for c_type, one in map(split, struct["fields"]):
        if one != "struct_size":
            rows.append(f'    {{"{one}", offsetof({name}, {one}), '
                        f"sizeof((({name} *)0)->{one}), {kind_of(c_type, one)}}},")
    print(f"static const field fields_of_{name}[] = {{\n" + "\n".join(rows) + "\n};\n")
    structs.append(f'    {{"{name}", sizeof({name}), fields_of_{name}, {len(rows)}}},')
print("static const layout layouts[] = {\n" + "\n".join(structs) + "\n};\n")

inits = []
for name in header.sized():
    if name not in GIVEN_BY_LIBRARY:
        print(f"static const {name} made_{name} = {name.upper()}_INIT;")
        print(f"static void init_{name}(void *at, size_t size)\n"
              f"{{\n    {name}_init(at, size);\n}}\n")
        inits.append(f'    {{"{name}", sizeof({name}), &made_{name}, init_{name}}},')
print("static const init inits[] = {\n" + "\n".join(inits) + "\n};")

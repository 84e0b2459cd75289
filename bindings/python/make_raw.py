#!/usr/bin/env python3
"""Makes the C source of promptcache._raw, the raw layer of the Python package:

    make_raw.py API OUT.c

API: folder of promptcache.json and promptcache.cdef.h. The module has every function, struct and
constant of the headers but bench.h. Each callback type pc_x_fn has a C function py_x_fn, and each
function field f of a struct pc_x has py_x_f: ffi.def_extern gives them a Python function."""
import json
import os
import sys

import cffi


def extern(name, function):
    arguments = ", ".join(argument["type"] for argument in function["arguments"])
    return f"{function['result']} {name}({arguments or 'void'});"


def callbacks(api):
    """C declarations of the functions that Python implements, of each signature one."""
    for item in api["function_types"]:
        yield extern("py_" + item["name"][3:], item)
    for struct in api["structs"]:
        for field in struct["fields"]:
            if "function" in field and struct["header"] != "promptcache/bench.h":
                yield extern(f"py_{struct['name'][3:]}_{field['name']}", field["function"])
    for function in api["functions"]:
        for argument in function["arguments"]:
            if "function" in argument and function["header"] != "promptcache/bench.h":
                yield extern(f"py_{function['name'][3:]}_{argument['name']}", argument["function"])


def main():
    folder, out = sys.argv[1:3]
    with open(os.path.join(folder, "promptcache.json"), encoding="utf-8") as file:
        api = json.load(file)
    with open(os.path.join(folder, "promptcache.cdef.h"), encoding="utf-8") as file:
        declarations = file.read()
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    ffi.cdef('extern "Python" {\n' + "\n".join(callbacks(api)) + "\n}\n")
    headers = [f"#include <{header['name']}>\n" for header in api["headers"]
               if header["name"] != "promptcache/bench.h"]
    ffi.set_source("promptcache._raw", "".join(headers))
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main()

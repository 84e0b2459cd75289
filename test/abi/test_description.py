#!/usr/bin/env python3
"""Catches: a description of the interface (describe.py) that is not that of the headers: a symbol
that the library exports and that is not described, a struct of another layout, a function of
another type, a constant of another value; a field, constant or function that nothing is said about;
a comment about constants that do not exist; a text for cffi with lines of the preprocessor; files
in the build that are not made anew.

usage: test_description.py SOURCE COMPILER FOLDER"""
import json
import os
import re
import subprocess
import sys
import tempfile
from types import SimpleNamespace

from describe import BENCH, cdef, describe
from freeze import measure
from public_header import Header

source, compiler, folder = sys.argv[1:4]
path = os.path.join(source, "include", "promptcache.h")
header = Header(path)
failures = []


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


made = json.loads(read(os.path.join(folder, "promptcache.json")))
texts = [read(os.path.join(folder, name))
         for name in ("promptcache.cdef.h", "promptcache-bench.cdef.h")]
if made != describe(header):
    failures.append("promptcache.json is not made of the headers as they are")
if [cdef(header, lambda item, of=of: (item["header"] == BENCH) == of) for of in (False, True)] != [
        text.split("\n", 1)[1] for text in texts]:
    failures.append("the texts for cffi are not made of the headers as they are")
failures += [f"a line of the preprocessor for cffi: {line}" for line in "".join(texts).split("\n")
             if line.lstrip().startswith("#")]

# Every symbol, with a comment; every field and constant, with one of its own or of its group.
exported = set(re.findall(r"^    (pc_\w+);$", read(os.path.join(source, "lib", "promptcache.map")),
                          re.M))
described = {function["name"]: function for function in made["functions"]}
failures += [f"{name} is either exported or described" for name in exported ^ described.keys()]
for kind in ("functions", "function_types", "enums"):
    failures += [f"nothing is said about {item.get('name') or item['enumerators'][0]['name']}"
                 for item in made[kind] if not item["comment"]
                 and not ("enumerators" in item
                          and all(entry["comment"] for entry in item["enumerators"]))]
failures += [f"nothing is said about {struct['name']}.{field['name']}" for struct in made["structs"]
             for field in struct["fields"] if not field["comment"] and "heading" not in field]
failures += [f"{struct['name']}: its init function is not described" for struct in made["structs"]
             if struct.get("init", "pc_version") not in described]

# What the compiler makes of the headers and of the texts.
of_headers = measure(header, path, compiler)
of_texts = measure(SimpleNamespace(includes=["#include <stddef.h>", "#include <stdint.h>", *texts],
                                   structs=header.structs, constants=header.constants),
                   path, compiler)
if list(of_headers) != list(of_texts):
    failures.append("the compiler lays the headers and the texts for cffi out differently")
values = {entry["name"]: entry["value"] for enum in made["enums"] for entry in enum["enumerators"]}
values.update({macro["name"]: macro["value"] for macro in made["macros"]})
checks = [f'_Static_assert({name} == ({value}), "{name}");' for name, value in values.items()]
again = cdef(header, lambda item: item["kind"] in ("alias", "function", "function_type"))
with tempfile.TemporaryDirectory() as place:
    again_c = os.path.join(place, "again.c")
    with open(again_c, "w", encoding="utf-8") as file:
        file.write("\n".join(header.includes + [again] + checks))
    result = subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                             "-fsyntax-only", "-I", os.path.dirname(path), again_c],
                            capture_output=True, text=True)
    if result.returncode:
        failures.append(f"what is described is not what the headers declare: {result.stderr}")
missing = set(header.constants) | header.codes.keys()
failures += [f"{name} is not described" for name in sorted(missing - values.keys())]
# What a comment calls "PC_CODEC_…" is there, and a field that has values of it says so.
fields = [(f"{struct['name']}.{field['name']}", field) for struct in made["structs"]
          for field in struct["fields"]]
failures += [f"{name}: there is no {field['constants']}…" for name, field in fields
             if not any(value.startswith(field.get("constants", "")) for value in values)]
if not any(field.get("constants") == "PC_REASON_" for _, field in fields):
    failures.append("no field has constants: comments are not understood")

print("\n".join(failures)
      or f"{len(described)} functions, {len(made['structs'])} structs and {len(values)} constants "
         "are described")
sys.exit(bool(failures))

#!/usr/bin/env python3
"""The headers as generators of bindings see them: Python's cffi reads the texts of describe.py.
Catches: a declaration that a strict C parser does not take, a constant that bindings do not see, a
struct whose init function does not make defaults, an error of a callback that does not arrive.

usage: test_cffi.py HEADER LIBRARY API     exit 77: cffi is not installed
  API: folder of the texts"""
import os
import sys

from public_header import Header

try:
    import cffi
except ImportError:
    print("skipped: Python's cffi is not installed (python3-cffi)")
    sys.exit(77)

path, library, api = sys.argv[1:4]
header = Header(path)
failures = []

ffi = cffi.FFI()
for name in ("promptcache.cdef.h", "promptcache-bench.cdef.h"):
    with open(os.path.join(api, name), encoding="utf-8") as file:
        ffi.cdef(file.read())
lib = ffi.dlopen(library)


def check(what, good):
    if not good:
        failures.append(what)


def text():
    return ffi.string(lib.pc_error_text()).decode()


def options(name, **fields):
    made = ffi.new(name + " *")
    getattr(lib, name + "_init")(made, ffi.sizeof(name))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


for name in header.constants + [name for name in header.macros
                                if name != "PC_API" and not name.endswith("_INIT")]:
    check(f"{name} is not visible to cffi", hasattr(lib, name))
for name, (value, _) in header.codes.items():
    check(f"{name} is not {value}", getattr(lib, name, None) == value)
for name, fields in header.structs.items():
    check(f"{name} has other fields", [field for field, _ in ffi.typeof(name).fields] == fields)

# A context, a cache with flags, an application's model: made by init functions and constants only.
context, cache, model = ffi.new("pc_context **"), ffi.new("pc_cache **"), ffi.new("pc_model **")
check("pc_context_new: " + text(),
      lib.pc_context_new(context, options("pc_context_options", threads=1)) == lib.PC_OK)
flags = getattr(lib, "PC_CACHE_ZERO_MEMORY", 0) | getattr(lib, "PC_CACHE_READ_ONLY", 0)
check("pc_cache_new: " + text(),
      lib.pc_cache_new(cache, context[0], options("pc_cache_options", flags=flags)) == lib.PC_OK)


@ffi.callback("pc_status(void *, pc_model_info *)")
def describe(user, info):
    info.vocab = 10
    return lib.PC_OK


@ffi.callback("pc_status(void *, const char *, size_t, uint64_t, int32_t *, size_t, size_t *)")
def tokenize(user, words, size, flags, tokens, capacity, count):
    lib.pc_error_set(b"KeyError: no such word")
    return lib.PC_ERR_NOT_FOUND


ops = options("pc_model_ops", describe=describe, tokenize=tokenize)
for name in ("encode", "release", "sequence_new", "attach", "step", "drop"):
    setattr(ops, name, ffi.cast(ffi.typeof(getattr(ops, name)), lib.pc_version)) # never called
check("pc_model_from_ops: " + text(),
      lib.pc_model_from_ops(model, context[0], ops, ffi.NULL, ffi.NULL, ffi.NULL) == lib.PC_OK)
count = ffi.new("size_t *")
check("tokenize does not fail",
      lib.pc_tokenize(model[0], b"x", 1, 0, ffi.NULL, 0, count) == lib.PC_ERR_NOT_FOUND)
check("the callback's error text does not arrive: " + text(),
      text() == "the application's model: tokenize: KeyError: no such word")
lib.pc_model_free(model[0])
lib.pc_cache_free(cache[0])
lib.pc_context_free(context[0])

print("\n".join(failures)
      or f"cffi {cffi.__version__} sees {len(header.structs)} structs and "
         f"{len(header.values)} constants")
sys.exit(bool(failures))

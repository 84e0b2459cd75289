#!/usr/bin/env python3
"""A program in Python, as a user writes it: it reads the ready text for cffi, makes every struct by
its init function, and asks the demo model. Catches: an interface that a language without a C
compiler and without macros cannot use from loading a model to the answer.

usage: test_cffi_demo.py LIBRARY API MODEL PML      exit 77: cffi is not installed
  API: folder of promptcache.cdef.h; PML: folder of the example schemas"""
import os
import sys

try:
    import cffi
except ImportError:
    print("skipped: Python's cffi is not installed (python3-cffi)")
    sys.exit(77)

library, api, model_file, pml = sys.argv[1:5]
ffi = cffi.FFI()
with open(os.path.join(api, "promptcache.cdef.h"), encoding="utf-8") as text:
    ffi.cdef(text.read())
lib = ffi.dlopen(library)


def check(status):
    if status < 0:
        sys.exit(ffi.string(lib.pc_error_text()).decode())


def new(name):
    """A struct with its defaults, whatever was in its memory."""
    struct = ffi.new(name + " *")
    ffi.buffer(struct)[:] = b"\xff" * ffi.sizeof(name)
    getattr(lib, name + "_init")(struct, ffi.sizeof(name))
    return struct


def made(function, name, *arguments):
    """The object that pc_x_new(&out, …) or its like makes; it is freed with the last reference."""
    out = ffi.new(name + " **")
    check(function(out, *arguments))
    return ffi.gc(out[0], getattr(lib, name + "_free"))


answer = []


@ffi.callback("pc_text_fn")
def on_text(_user, _sample, chars, size):
    answer.append(ffi.buffer(chars, size)[:])
    return 0


context_options, model_options = new("pc_context_options"), new("pc_model_options")
cache_options, schema_options = new("pc_cache_options"), new("pc_schema_options")
options, stats, info = new("pc_generate_options"), new("pc_stats"), new("pc_model_info")
context_options.threads = 1
cache_options.ram_bytes = 64 << 20
options.max_tokens = 40
options.on_text = on_text
context = made(lib.pc_context_new, "pc_context", context_options)
model = made(lib.pc_model_load, "pc_model", context, model_file.encode(), model_options)
check(lib.pc_model_get_info(model, info))
cache = made(lib.pc_cache_new, "pc_cache", context, cache_options)
schema = made(lib.pc_schema_load, "pc_schema", model,
              os.path.join(pml, "employees.pml").encode(), schema_options)
prompt = made(lib.pc_prompt_load, "pc_prompt", ffi.new("pc_schema *[]", [schema]), 1,
              os.path.join(pml, "employees-prompt.pml").encode(), new("pc_prompt_options"))
for again in (False, True):
    answer.clear()
    check(lib.pc_generate(prompt, cache, options, stats))
    print(f"{b''.join(answer).decode()}\n{stats.tokens_cached} of {stats.tokens_prompt} tokens of "
          f"{ffi.string(info.architecture).decode()} came from the cache")
    assert "The desk of Peter Novak is 368." in b"".join(answer).decode()
    assert bool(stats.tokens_cached) == again
    assert list(stats.tokens_tier) == [stats.tokens_cached if tier == lib.PC_TIER_RAM else 0
                                       for tier in range(lib.PC_TIER_ROOM)]

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

# Functions in C, for what is called too often for Python.
SHIMS = """
int32_t pcpy_poll(void *user);
void pcpy_poll_reset(void);
pc_status pcpy_stream(pc_batch *batch, pc_sequence *sequence, size_t done, const char **text,
                      size_t *size, int64_t wait_us);
"""
# pcpy_poll is the `cancelled` of calls that were given none: so that Ctrl-C ends them. It asks
# Python, which looks for signals then, once in 5 ms; what asks it may ask it thousands of times.
# After Python said stop it goes on saying so, in this thread, until the call is over.
# pcpy_stream steps until the sequence has more than `done` bytes of text, or the batch has ended.
# Behind the first text it goes on for wait_us: a small model draws tokens faster than Python, whose
# code has left the CPU's caches between two steps, should be asked to take them one by one.
SHIMS_SOURCE = """
#include <time.h>

static int32_t py_poll(void);
static __thread int64_t pcpy_next;
static __thread int32_t pcpy_stopped;

static int64_t pcpy_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int32_t pcpy_poll(void *user)
{
    int64_t us;
    (void)user;
    if (pcpy_stopped)
        return 1;
    us = pcpy_us(CLOCK_MONOTONIC_COARSE);
    if (us < pcpy_next)
        return 0;
    pcpy_next = us + 5000;
    pcpy_stopped = py_poll();
    return pcpy_stopped;
}

static void pcpy_poll_reset(void)
{
    pcpy_stopped = 0;
}

static pc_status pcpy_stream(pc_batch *batch, pc_sequence *sequence, size_t done,
                             const char **text, size_t *size, int64_t wait_us)
{
    const int64_t begun = done ? pcpy_us(CLOCK_MONOTONIC) : 0;
    for (;;) {
        pc_status status = pc_batch_step(batch);
        *text = pc_sequence_text(sequence, size);
        if (status != PC_OK)
            return status;
        if (*size > done && (!done || pcpy_us(CLOCK_MONOTONIC) - begun >= wait_us))
            return status;
    }
}
"""


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
    ffi.cdef(SHIMS)
    ffi.cdef('extern "Python" {\nint32_t py_poll(void);\n' + "\n".join(callbacks(api)) + "\n}\n")
    headers = [f"#include <{header['name']}>\n" for header in api["headers"]
               if header["name"] != "promptcache/bench.h"]
    ffi.set_source("promptcache._raw", "".join(headers) + SHIMS_SOURCE)
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main()

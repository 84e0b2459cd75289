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
void pcpy_end(void);
void pcpy_task_free(pc_task **task);
"""
# pcpy_poll is the `cancelled` of calls that were given none: so that Ctrl-C ends them. It asks
# Python, which looks for signals then, once in 5 ms; what asks it may ask it thousands of times.
# After Python said stop it goes on saying so, in this thread, until the call is over.
# pcpy_stream steps until the sequence has more than `done` bytes of text, or the batch has ended.
# Behind the first text it goes on for wait_us: a small model draws tokens faster than Python, whose
# code has left the CPU's caches between two steps, should be asked to take them one by one.
# pcpy_end is called when the interpreter is about to end: from then on Python stops any other
# thread that asks for the GIL, so a thread of the library in a callback would never come back, and
# what waits for it would wait forever. No function that any thread may call is called any more, and
# those that have begun end first (one that takes longer than two seconds is left alone).
# pcpy_task_free frees the task in a box, into which pc_batch_step_async puts it before its work
# begins.
SHIMS_SOURCE = """
#include <stdatomic.h>
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

static atomic_int pcpy_ended;
static atomic_int pcpy_inside;

static void pcpy_end(void)
{
    const struct timespec pause = {0, 1000000};
    atomic_store(&pcpy_ended, 1);
    for (int i = 0; i < 2000 && atomic_load(&pcpy_inside); i++)
        nanosleep(&pause, NULL);
}

static void pcpy_task_free(pc_task **task)
{
    pc_task_free(*task);
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


def any_thread(name, function):
    """Whether any thread may call it: a function that is told something, and no operation of an
    engine."""
    return function["result"] == "void" and "model_ops" not in name and not any(
        "(*)" in argument["type"] for argument in function["arguments"])


def guarded(name, function):
    """The function in front of one that any thread may call: it returns nothing, so it can be left
    out. Declaration and source."""
    types = [argument["type"] for argument in function["arguments"]]
    named = ", ".join(f"{kind} a{index}" for index, kind in enumerate(types))
    given = ", ".join(f"a{index}" for index in range(len(types)))
    head = f"void pc{name}({named or 'void'})"
    return f"{head};", f"""
static void {name}({', '.join(types) or 'void'});

static {head}
{{
    atomic_fetch_add(&pcpy_inside, 1);
    if (!atomic_load(&pcpy_ended))
        {name}({given});
    atomic_fetch_sub(&pcpy_inside, 1);
}}
"""


def callbacks(api):
    """Names and types of the functions that Python implements, of each signature one."""
    for item in api["function_types"]:
        yield "py_" + item["name"][3:], item
    for struct in api["structs"]:
        for field in struct["fields"]:
            if "function" in field and struct["header"] != "promptcache/bench.h":
                yield f"py_{struct['name'][3:]}_{field['name']}", field["function"]
    for function in api["functions"]:
        for argument in function["arguments"]:
            if "function" in argument and function["header"] != "promptcache/bench.h":
                yield f"py_{function['name'][3:]}_{argument['name']}", argument["function"]


def main():
    folder, out = sys.argv[1:3]
    with open(os.path.join(folder, "promptcache.json"), encoding="utf-8") as file:
        api = json.load(file)
    with open(os.path.join(folder, "promptcache.cdef.h"), encoding="utf-8") as file:
        declarations = file.read()
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    ffi.cdef(SHIMS)
    known = list(callbacks(api))
    ffi.cdef('extern "Python" {\nint32_t py_poll(void);\n'
             + "\n".join(extern(*one) for one in known) + "\n}\n")
    guards = [guarded(*one) for one in known if any_thread(*one)]
    ffi.cdef("\n".join(declaration for declaration, _ in guards))
    headers = [f"#include <{header['name']}>\n" for header in api["headers"]
               if header["name"] != "promptcache/bench.h"]
    ffi.set_source("promptcache._raw", "".join(headers) + SHIMS_SOURCE
                   + "".join(source for _, source in guards))
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main()

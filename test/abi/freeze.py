#!/usr/bin/env python3
"""Prints the file that freezes the binary interface of a release.

    freeze.py HEADER COMPILER > released/layout_vX_Y.c

Static assertions hold the sizes and offsets of every struct and the values of every code and
constant. The file is made once for a release and then left alone: later headers must still satisfy
it (doc/abi.md)."""
import os
import subprocess
import sys
import tempfile

from public_header import Header

TOP = """/* The binary interface of release %d.%d on 64-bit machines, as test/abi/freeze.py printed
 * it. Catches: a field that was moved, removed, put in between or given another size, a constant
 * with another value. Structs may have grown at their end in later releases. */
%s

#define SAME(what, value) _Static_assert((what) == (value), #what)
#define AT(type, field, offset) SAME(offsetof(type, field), offset)
#if PC_VERSION_MAJOR == %d && PC_VERSION_MINOR == %d
#define GROWS(type, size) SAME(sizeof(type), size)
#else
#define GROWS(type, size) _Static_assert(sizeof(type) >= (size), #type)
#endif

#if UINTPTR_MAX == UINT64_MAX"""


def frozen(header):
    """The constants that keep their values. A count of what a release has may grow."""
    return [name for name in header.constants if not name.endswith("_COUNT")]


def measure(header, path, compiler):
    """Sizes and offsets as the compiler sees them, in the header's order; then the constants."""
    lines = header.includes + ["#include <stdio.h>", "int main(void) {"]
    for name, fields in header.structs.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field in fields]
    lines += [f'printf("%lld\\n", (long long){name});' for name in frozen(header)]
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as folder:
        probe = os.path.join(folder, "probe")
        with open(probe + ".c", "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        subprocess.run([compiler, "-I", os.path.dirname(path), probe + ".c", "-o", probe],
                       check=True)
        return iter(subprocess.run([probe], check=True, capture_output=True,
                                   text=True).stdout.split())


def freeze(path, compiler):
    header = Header(path)
    values = measure(header, path, compiler)
    lines = [TOP % (header.version + ("\n".join(header.includes),) + header.version)]
    for name, fields in header.structs.items():
        lines.append(f"\nGROWS({name}, {next(values)});")
        lines += [f"AT({name}, {field}, {next(values)});" for field in fields]
    lines.append("\n#endif\n")
    lines += [f"SAME({name}, {value});" for name, (value, _) in header.codes.items()]
    lines += [f"SAME({name}, {next(values)});" for name in frozen(header)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(freeze(sys.argv[1], sys.argv[2]))

#!/usr/bin/env python3
"""Writes the fake device's table of the kernels of one file: their names, tasks and most threads.

    kernel_table.py SOURCE OUTPUT COMPILER ARGUMENTS...    the compiler and where it finds headers
"""
import re
import subprocess
import sys

KERNEL = re.compile(r'extern "C" KERNEL_ void\s+(?:BOUNDS_\s+(.*?)\s+_BOUNDS\s+)?'
                    r"(\w+)\s*\(\s*const\s+(?:struct\s+)?(\w+)\s+\w+\s*\)\s*\{", re.S)


def kernels_of(source, compiler):
    """[(most threads, name, task)]; most threads is an expression, or "" if there is no bound."""
    text = subprocess.run([*compiler, "-E", "-P", "-x", "c++", source], check=True,
                          capture_output=True, text=True).stdout
    found = KERNEL.findall(text)
    entries = text.count("KERNEL_")
    if len(found) != entries:
        sys.exit(f"{source}: {entries} kernels, of which {len(found)} are read: a kernel is "
                 'extern "C" __global__ void __launch_bounds__(n) name(PARAM struct task t)')
    return found


def main():
    source, output, *compiler = sys.argv[1:]
    found = kernels_of(source, compiler)
    with open(source, encoding="utf-8") as file:
        includes = re.findall(r'^#include "(.*\.(?:h|cuh))"', file.read(), re.M)
    stem = re.search(r"(\w+)\.cu$", source)[1]
    lines = [f"// The kernels of {stem}.cu, by test/cuda/kernel_table.py."]
    lines += [f'#include "{include}"' for include in includes]
    lines += ['#include "fake_kernel_table.h"', 'extern "C" {']
    lines += [f"void {name}(const {task} task);" for _, name, task in found]
    lines += ["}", f"extern const pc_fake_kernel fake_kernels_{stem}[];",
              f"const pc_fake_kernel fake_kernels_{stem}[] = {{"]
    lines += [f'    fake::kernel<{name}>("{name}", {bounds or 1024}),'
              for bounds, name, _ in found]
    lines += ["    {nullptr, nullptr, 0, 0, 0, nullptr}};", ""]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main()

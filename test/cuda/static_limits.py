#!/usr/bin/env python3
"""Checks compiled kernels against cuda/kernels/limits.txt: registers are not spilled,
enough blocks fit into a multiprocessor, tensor-core instructions are as many as they should be, and
main loops load in the widths that they should.

    static_limits.py KERNELS FATBINS TOOLS CC CXX [--table]

KERNELS: folder of the sources; FATBINS: where they were compiled; TOOLS: folder of cuobjdump and
nvdisasm; CC, CXX: compilers; --table: prints what was found instead. Skipped (77) where nothing was
compiled; without the tools, instructions are not looked at. Those of sm_80 are; with PC_TEST_LONG
in the environment, all.
"""
import collections
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile

import kernel_table

# Of a multiprocessor: shared memory in KiB; the rest is the same for all three.
SHARED = {"sm_80": 164, "sm_90": 228, "sm_100": 228}
REGISTERS, WARPS, BLOCKS, RESERVED = 65536, 64, 32, 1024


def up(number, step):
    return (number + step - 1) // step * step


def blocks_at_once(arch, threads, registers, shared):
    """Registers are given to warps by 256, warps to blocks by 4, shared memory by 128 bytes."""
    warps = up(threads, 32) // 32
    by_registers = REGISTERS // up(registers * 32, 256) // 4 * 4 // warps
    by_shared = SHARED[arch] * 1024 // (up(shared, 128) + RESERVED)
    return min(BLOCKS, WARPS // warps, by_registers, by_shared)


def read_logs(folder):
    """What ptxas says: {(kernel, arch): {registers, shared, spilled}}."""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.fatbin.log")):
        with open(path, encoding="utf-8") as file:
            parts = re.split(r"Compiling entry function '(\w+)' for '(\w+)'", file.read())
        for kernel, arch, text in zip(parts[1::3], parts[2::3], parts[3::3]):
            shared = re.search(r"(\d+) bytes smem", text)
            # also of functions that are not part of the kernel, behind it
            spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text)
            found[kernel, arch] = {
                "registers": int(re.search(r"Used (\d+) registers", text)[1]),
                "shared": int(shared[1]) if shared else 0,
                "spilled": sum(int(stores) + int(loads) for stores, loads in spilled)}
    return found


def width(instruction):
    """Bytes of a load of global memory; 0: it is none."""
    words = instruction.split()[0].split(".")
    if words[0] not in ("LDG", "LDGSTS", "LD"):
        return 0
    for word, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if word in words:
            return size
    return 4


def is_tensor(instruction):
    return re.match(r"[HIBDQ]?MMA\b|[HIBDQ]MMA\.|[HIBDQ]GMMA", instruction) is not None


def inner_loops(code):
    """Ranges of addresses between a branch back and its target that hold no other such range."""
    loops = {(int(target[1], 16), at) for at, text in code
             for target in [re.match(r"BRA\S*\s.*?0x([0-9a-f]+)", text)]
             if target and int(target[1], 16) < at}
    return [loop for loop in loops
            if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1]
                       for other in loops)]


def look_at(code):
    """Tensor-core instructions, and the loads of the main loops by width: of the inner loops with
    tensor-core instructions, or all inner loops of a kernel without any."""
    loops = [[text for at, text in code if first <= at <= last]
             for first, last in inner_loops(code)]
    main = [loop for loop in loops if any(map(is_tensor, loop))] or loops
    loads = collections.Counter(width(text) for loop in main for text in loop)
    del loads[0]
    return {"tensor": sum(is_tensor(text) for _, text in code), "loads": loads}


def too_many(loads, column):
    """Whether there are loads that a column like "16 4:2" does not allow: any number of 16 bytes,
    at most 2 of 4."""
    allowed = dict((part + ":").split(":")[:2] for part in column.split())
    return any(str(size) not in allowed or count > int(allowed[str(size)] or count)
               for size, count in loads.items())


def as_column(loads):
    return " ".join(f"{size}:{count}" for size, count in sorted(loads.items(), reverse=True))


def disassemble(folder, tools):
    """{(kernel, arch): what look_at finds}; empty without the tools."""
    program = os.path.join(tools, "cuobjdump")
    found, environment = {}, dict(os.environ, PATH=tools + ":" + os.environ["PATH"])
    if not os.path.exists(program):
        print("no cuobjdump: instructions are not looked at (tools/setup.sh --tests fetches it)")
        return found
    arches = list(SHARED) if os.environ.get("PC_TEST_LONG") else ["sm_80"]
    for path in sorted(glob.glob(os.path.join(folder, "*.fatbin"))):
        for arch in arches:
            text = subprocess.run([program, "-sass", "-arch", arch, path], env=environment,
                                  check=True, capture_output=True, text=True).stdout
            parts = re.split(r"Function : (\w+)", text)
            for kernel, body in zip(parts[1::2], parts[2::2]):
                code = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?\w+\s+)?([A-Z][^;]*);", body)
                found[kernel, arch] = look_at([(int(at, 16), words) for at, words in code])
    return found


def read_limits(path):
    """Lines of five columns; the first that fits a kernel counts."""
    limits = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if line:
                columns = [column.strip() for column in line.split("|")]
                if len(columns) != 5:
                    sys.exit(f"{path}:{number}: five columns are needed")
                limits.append((number, *columns))
    return limits


def is_plain(compiler, root, path):
    """Whether a header is C; those with code of the device are not."""
    return subprocess.run([compiler, "-std=c11", "-fsyntax-only", "-x", "c", "-I", root, path],
                          capture_output=True, check=False).returncode == 0


def evaluate(compiler, root, expressions):
    """Values of expressions of C, over the headers that the CPU's part includes, too."""
    headers = [os.path.relpath(path, root)
               for path in sorted(glob.glob(os.path.join(root, "cuda/kernels/*.h")))
               if is_plain(compiler, root, path)]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "values.c"), "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\n")
            file.writelines(f'#include "{header}"\n' for header in headers)
            file.write("int main(void)\n{\n")
            file.writelines(f'    printf("%ld\\n", (long)({expression}));\n'
                            for expression in expressions)
            file.write("    return 0;\n}\n")
        program = os.path.join(folder, "values")
        subprocess.run([compiler, "-std=c11", "-I", root, "-o", program, program + ".c", "-lm"],
                       check=True)
        values = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(zip(expressions, map(int, values.split())))


class Kernels:
    """What is known of all kernels."""

    def __init__(self, sources, fatbins, tools, cc, cxx):
        root = os.path.abspath(os.path.join(sources, "../../.."))
        stub = os.path.join(os.path.dirname(os.path.abspath(__file__)), "entries")
        compiler = [cxx, "-std=c++17", "-I", stub, "-I", root, "-I", sources]
        self.bounds = {}
        for path in sorted(glob.glob(os.path.join(sources, "*.cu"))):
            stem = os.path.basename(path)[:-3]
            if not os.path.exists(os.path.join(fatbins, stem + ".fatbin")):
                print(f"skipped: {stem}.cu is not compiled (target promptcache_cuda_image)")
                sys.exit(77)
            for bounds, name, _ in kernel_table.kernels_of(path, compiler):
                self.bounds[name] = bounds
        self.limits = read_limits(os.path.join(sources, "limits.txt"))
        self.values = evaluate(cc, root, sorted(
            {bounds for bounds in self.bounds.values() if bounds}
            | {limit[2] for limit in self.limits}))
        self.compiled, self.code = read_logs(fatbins), disassemble(fatbins, tools)

    def limit_of(self, kernel):
        return next((limit for limit in self.limits if fnmatch.fnmatch(kernel, limit[1])), None)

    def faults_of(self, kernel):
        """Every way in which a kernel misses its line."""
        limit, bounds = self.limit_of(kernel), self.bounds[kernel]
        if not limit:
            yield f"{kernel}: no line of limits.txt fits it"
            return
        if not bounds:
            yield f"{kernel}: it has no __launch_bounds__"
            return
        _, _, shared, blocks, tensor, loads = limit
        for arch in SHARED:
            built = self.compiled.get((kernel, arch))
            if not built:
                yield f"{kernel}, {arch}: not compiled"
                continue
            if built["spilled"]:
                yield f"{kernel}, {arch}: {built['spilled']} bytes of registers are spilled"
            fit = blocks_at_once(arch, self.values[bounds], built["registers"],
                                 built["shared"] + self.values[shared])
            if fit < int(blocks):
                yield (f"{kernel}, {arch}: {fit} blocks at once, not {blocks} "
                       f"({built['registers']} registers, "
                       f"{built['shared'] + self.values[shared]} bytes of shared memory)")
            code = self.code.get((kernel, arch))
            if code and tensor != "-" and str(code["tensor"]) not in tensor.split():
                yield f"{kernel}, {arch}: {code['tensor']} tensor instructions, not {tensor}"
            if code and loads != "-" and too_many(code["loads"], loads):
                yield (f"{kernel}, {arch}: main loops load {as_column(code['loads'])} (bytes: "
                       f"loads), not {loads}")

    def print_table(self):
        for kernel in sorted(self.bounds):
            for arch in SHARED:
                built = self.compiled.get((kernel, arch), {})
                code = self.code.get((kernel, arch), {})
                print(f"{kernel:34} {arch:6} {built.get('registers', '?'):>4} registers "
                      f"{built.get('spilled', '?'):>5} spilled {code.get('tensor', '?'):>4} tensor "
                      f"loads {as_column(code.get('loads', {}))}")


def main():
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    kernels = Kernels(*sys.argv[1:6])
    if sys.argv[6:] == ["--table"]:
        kernels.print_table()
        return
    faults = [fault for kernel in sorted(kernels.bounds) for fault in kernels.faults_of(kernel)]
    faults += [f"limits.txt:{number}: no kernel is called {pattern}"
               for number, pattern, *_ in kernels.limits
               if not fnmatch.filter(kernels.bounds, pattern)]
    print("\n".join(faults) or f"{len(kernels.bounds)} kernels on {len(SHARED)} devices: no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

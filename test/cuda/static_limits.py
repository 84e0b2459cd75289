#!/usr/bin/env python3
"""Checks compiled kernels against cuda/kernels/limits.txt: registers are not spilled, enough blocks
fit into a multiprocessor, tensor-core instructions are as many as they should be, and main loops
load in the widths that they should.

    static_limits.py SOURCES COMPILED TOOLS CC [--table]

SOURCES: folder of the kernels; COMPILED: the archive of their objects; TOOLS: folder of cuobjdump
and nvdisasm; CC: the compiler of C; --table: prints what was found instead. Skipped (77) where
kernels were not compiled, or there is no cuobjdump. Instructions are looked at for sm_80; with
PC_TEST_LONG in the environment, for all devices.
"""
import collections
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Of a multiprocessor: KiB of shared memory, warps, blocks; registers are the same for all. Then the
# bytes of registers that a kernel may spill: on sm_120 attention over heads of 256 does, outside of
# its inner loops.
Device = collections.namedtuple("Device", "shared warps blocks spilled")
DEVICES = {"sm_80": Device(164, 64, 32, 0), "sm_90": Device(228, 64, 32, 0),
           "sm_100": Device(228, 64, 32, 0), "sm_120": Device(100, 48, 24, 8)}
REGISTERS, RESERVED = 65536, 1024 # bytes of shared memory that each block loses


def up(number, step):
    return (number + step - 1) // step * step


def blocks_at_once(arch, threads, registers, shared):
    """Registers are given to warps by 256, warps to blocks by 4, shared memory by 128 bytes."""
    device, warps = DEVICES[arch], up(threads, 32) // 32
    by_registers = REGISTERS // up(registers * 32, 256) // 4 * 4 // warps
    by_shared = device.shared * 1024 // (up(shared, 128) + RESERVED)
    return min(device.blocks, device.warps // warps, by_registers, by_shared)


def wanted_blocks(arch, blocks):
    """One is enough where shared memory is that of a consumer's device."""
    return 1 if DEVICES[arch].shared < 128 else int(blocks)


def parts_by_arch(text, heading):
    """(arch, name, what follows the heading) of what cuobjdump prints; the heading has one group,
    the name of a function."""
    for part in re.split(r"^arch = ", text, flags=re.M)[1:]:
        found = re.split(heading, part)
        for name, body in zip(found[1::2], found[2::2]):
            yield part.split()[0], name, body


def read_usage(text):
    """Of `cuobjdump -res-usage`: {(kernel, arch): {registers, shared, stack}}. From sm_90 on, what
    a block loses of shared memory is counted."""
    found = {}
    for arch, kernel, body in parts_by_arch(text, r"Function (\w+):"):
        registers, stack, shared = (int(re.search(rf"{word}:(\d+)", body)[1])
                                    for word in ("REG", "STACK", "SHARED"))
        lost = RESERVED if shared and arch != "sm_80" else 0
        found[kernel, arch] = {"registers": registers, "shared": shared - lost, "stack": stack}
    return found


def read_threads(text):
    """Of `cuobjdump -elf`: {kernel: most threads of a block, or 0 without __launch_bounds__}."""
    found = {}
    for _, kernel, body in parts_by_arch(text, r"\n\.nv\.info\.(\w+)\n"):
        threads = re.search(r"EIATTR_MAX_THREADS\s+Format:\s+\w+\s+Value:\s+0x([0-9a-f]+)",
                            body.split("\n.")[0])
        found[kernel] = int(threads[1], 16) if threads else 0
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


def read_code(text):
    """Of `cuobjdump -sass`: {(kernel, arch): what look_at finds}."""
    found = {}
    for arch, kernel, body in parts_by_arch(text, r"Function : (\w+)"):
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
    return subprocess.run([compiler, "-std=c11", "-fsyntax-only", "-x", "c", "-I", root,
                           "-I", os.path.join(root, "lib"), path],
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
        subprocess.run([compiler, "-std=c11", "-I", root, "-I", os.path.join(root, "lib"),
                        "-o", program, program + ".c", "-lm"], check=True)
        values = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(zip(expressions, map(int, values.split())))


class Kernels:
    """What is known of all kernels."""

    def __init__(self, sources, compiled, tools, cc):
        root = os.path.abspath(os.path.join(sources, "../.."))
        self.tools, self.compiled = tools, compiled
        self.limits = read_limits(os.path.join(sources, "limits.txt"))
        self.values = evaluate(cc, root, sorted({limit[2] for limit in self.limits}))
        self.usage = read_usage(self.dump("-res-usage"))
        self.threads = read_threads(self.dump("-elf", "-arch", "sm_80"))
        chosen = DEVICES if os.environ.get("PC_TEST_LONG") else ["sm_80"]
        self.code = {}
        for arch in chosen:
            self.code |= read_code(self.dump("-sass", "-arch", arch))

    def dump(self, *options):
        environment = dict(os.environ, PATH=self.tools + ":" + os.environ["PATH"])
        return subprocess.run(["cuobjdump", *options, self.compiled], env=environment, check=True,
                              capture_output=True, text=True).stdout

    def limit_of(self, kernel):
        return next((limit for limit in self.limits if fnmatch.fnmatch(kernel, limit[1])), None)

    def faults_of(self, kernel):
        """Every way in which a kernel misses its line."""
        limit, threads = self.limit_of(kernel), self.threads[kernel]
        if not limit:
            yield f"{kernel}: no line of limits.txt fits it"
            return
        if not threads:
            yield f"{kernel}: it has no __launch_bounds__"
            return
        _, _, shared, blocks, tensor, loads = limit
        for arch in DEVICES:
            built = self.usage.get((kernel, arch))
            if not built:
                yield f"{kernel}, {arch}: not compiled"
                continue
            if built["stack"] > DEVICES[arch].spilled:
                yield f"{kernel}, {arch}: {built['stack']} bytes of registers are spilled"
            fit = blocks_at_once(arch, threads, built["registers"],
                                 built["shared"] + self.values[shared])
            if fit < wanted_blocks(arch, blocks):
                yield (f"{kernel}, {arch}: {fit} blocks at once, not {wanted_blocks(arch, blocks)} "
                       f"({built['registers']} registers, "
                       f"{built['shared'] + self.values[shared]} bytes of shared memory)")
            code = self.code.get((kernel, arch))
            if code and tensor != "-" and str(code["tensor"]) not in tensor.split():
                yield f"{kernel}, {arch}: {code['tensor']} tensor instructions, not {tensor}"
            if code and loads != "-" and too_many(code["loads"], loads):
                yield (f"{kernel}, {arch}: main loops load {as_column(code['loads'])} (bytes: "
                       f"loads), not {loads}")

    def print_table(self):
        for kernel in sorted(self.threads):
            for arch in DEVICES:
                built = self.usage.get((kernel, arch), {})
                code = self.code.get((kernel, arch), {})
                print(f"{kernel:34} {arch:6} {built.get('registers', '?'):>4} registers "
                      f"{built.get('stack', '?'):>5} spilled {code.get('tensor', '?'):>4} tensor "
                      f"loads {as_column(code.get('loads', {}))}")


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    sources, compiled, tools, cc = sys.argv[1:5]
    if not os.path.exists(compiled):
        print("skipped: kernels are not compiled (target promptcache_cuda_kernels)")
        sys.exit(77)
    if not shutil.which("cuobjdump", path=tools + ":" + os.environ["PATH"]):
        print("skipped: no cuobjdump (tools/setup.sh --tests fetches it)")
        sys.exit(77)
    kernels = Kernels(sources, compiled, tools, cc)
    if sys.argv[5:] == ["--table"]:
        kernels.print_table()
        return
    faults = [fault for kernel in sorted(kernels.threads) for fault in kernels.faults_of(kernel)]
    faults += [f"limits.txt:{number}: no kernel is called {pattern}"
               for number, pattern, *_ in kernels.limits
               if not fnmatch.filter(kernels.threads, pattern)]
    print("\n".join(faults) or
          f"{len(kernels.threads)} kernels on {len(DEVICES)} devices: no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Catches: an operand of a wrapper's assembly (cuda/kernels/gpu.h) at the wrong place, an
instruction of another order, width or rounding, a wrapper without a line here. ptxas checks no more
than the syntax, and the model of the machine replaces the wrappers.

test_wrappers_ptx.py NVCC SOURCE_FOLDER: compiles wrappers.cu to PTX and follows its registers from
the parameter to each instruction, and from there to `out`."""
import os
import re
import struct
import subprocess
import sys
import tempfile

# Of each wrapper, by the PTX ISA: x0 is the place of the parameter that the wrapper's promise asks
# for; outN is its N-th result; shared(to) is the address of `to` in shared memory.
D, OUT, A = "f0,f1,f2,f3", "out0,out1,out2,out3", "a0,a1,a2,a3"
INTS = "i0,i1,i2,i3"
WANTED = {
    "mma_f16": f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{OUT}}},{{{A}}},{{b0,b1}},"
               f"{{{D}}};",
    "mma_bf16": f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{OUT}}},{{{A}}},{{b0,b1}},"
                f"{{{D}}};",
    "mma_s8": f"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{{OUT}}},{{{A}}},{{b0,b1}},"
              f"{{{INTS}}};",
    "mma_s8_half": f"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {{{OUT}}},{{a0,a1}},{{b0}},"
                   f"{{{INTS}}};",
    "copy16": "cp.async.cg.shared.global.L2::128B [shared(to)],[from],16;",
    "copy16_part": "cp.async.cg.shared.global.L2::128B [shared(to)],[from],16,a0;",
    "copy8": "cp.async.ca.shared.global [shared(to)],[from],8;",
    "copy4": "cp.async.ca.shared.global [shared(to)],[from],4;",
    "copy_commit": "cp.async.commit_group;",
    "copy_wait": "cp.async.wait_group 3;",
    # the first source goes to the upper half
    "pack_f16": "cvt.rn.f16x2.f32 out0,f1,f0;",
    "pack_bf16": "cvt.rn.bf16x2.f32 out0,f1,f0;",
    "multiply_f16": "mul.rn.f16x2 out0,a0,a1;",
    "exp2_fast": "ex2.approx.ftz.f32 out0,f0;",
    "load_relaxed": "ld.relaxed.gpu.u32 out0,[from];",
    "load_acquire": "ld.acquire.gpu.u32 out0,[from];",
    "store_relaxed": "st.relaxed.gpu.u32 [to],a0;",
    "store_release": "st.release.gpu.u32 [to],a0;",
    "add_relaxed": "atom.relaxed.gpu.add.u32 out0,[to],a0;",
    "add_release": "atom.release.gpu.add.u32 out0,[to],a0;",
    "add_acq_rel": "atom.acq_rel.gpu.add.u32 out0,[to],a0;",
    "load16_once": f"ld.global.nc.L1::no_allocate.v4.b32 {{{OUT}}},[from];",
}
PARAMETER = [letter + number for letter in "fiab" for number in "0123"] + [
    "from", None, "to", None, "out"]
REGISTER = r"%[a-z]+\d+"


class Kernel:
    """What the registers of one kernel hold, and its assembly."""

    def __init__(self, body):
        self.name_of, self.results, self.assembly = {}, {}, []
        inside = False
        for line in (line.strip() for line in body.split("\n")):
            if line.startswith("//"):
                inside = "begin inline asm" in line or inside and "end inline asm" not in line
            elif inside:
                self.assembly.append(line)
            elif line:
                self.follow(line)

    def follow(self, line):
        registers = re.findall(REGISTER, line)
        load = re.match(r"ld\.param\.\S+\s+(.*), \[\w+_param_0(?:\+(\d+))?\];", line)
        store = re.match(rf"st\.global\.\S+\s+\[({REGISTER})(?:\+(\d+))?\], (.*);", line)
        if load:
            for number, register in enumerate(re.findall(REGISTER, load[1])):
                self.name_of[register] = PARAMETER[int(load[2] or 0) // 4 + number]
        elif store and self.name_of.get(store[1]) == "out":
            for number, register in enumerate(re.findall(REGISTER, store[3])):
                self.results[register] = f"out{int(store[2] or 0) // 4 + number}"
        elif re.match(r"(mov|cvta\.to\.global)\.\S+\s", line) and len(registers) == 2:
            self.name_of[registers[0]] = self.name_of.get(registers[1])
        elif re.match(rf"mov\.[bu]32\s+{REGISTER}, -?\d+;", line):
            self.name_of[registers[0]] = int(re.search(r"-?\d+;", line)[0][:-1]) & 0xffffffff
        elif "cvta.to.shared" in line:  # in braces, with a register of its own
            self.name_of["%tmp"] = f"shared({self.name_of.get(registers[-1])})"
        elif line.startswith("cvt.u32.u64") and "%tmp" in line:
            self.name_of[registers[0]] = self.name_of["%tmp"]

    def text(self):
        """The assembly with names for registers; the first operand is what it writes, if any."""
        code = re.sub(r"\s*,\s*", ",", re.sub(r"\s+", " ", " ".join(self.assembly)))
        writes = re.match(r"[\w.:]+ (\{[^}]*\}|%\w+),", code)
        end = writes.end(1) if writes and not code.startswith(("st.", "red.", "cp.")) else 0
        first = re.sub(REGISTER, lambda r: self.results.get(r[0], "?"), code[:end])
        return first + re.sub(REGISTER, lambda r: str(self.name_of.get(r[0], "?")), code[end:])


def compiled(nvcc, root):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "wrappers.ptx")
        here = os.path.join(root, "test/cuda_model")
        subprocess.run([nvcc, "-std=c++17", "-arch=compute_80", "-ptx", "-I" + here,
                        "-I" + os.path.join(root, "cuda/kernels"), "-o", out,
                        os.path.join(here, "wrappers.cu")], check=True)
        with open(out, encoding="utf-8") as file:
            return file.read()


def half(number):
    return struct.unpack("<H", struct.pack("<e", number))[0]


def permuted(a, b, selector):
    """prmt.b32: byte i of the result is the byte of b:a that nibble i names."""
    source = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    return int.from_bytes(bytes(source[selector >> 4 * i & 7] for i in range(4)), "little")


def unpack_fault(kernel):
    """unpack_i8 as its instructions say, on all bytes."""
    code = " ".join(kernel.assembly)
    found = re.match(
        r"\{\.reg \.b32 x, y; xor\.b32 x, (%r\d+), (\w+); prmt\.b32 y, x, (\w+), (\w+); "
        r"prmt\.b32 x, x, (\w+), (\w+); sub\.rn\.f16x2 (%r\d+), y, (%r\d+); "
        r"sub\.rn\.f16x2 (%r\d+), x, (%r\d+);\}", re.sub(r"\s+", " ", code))
    if not found:
        return "other instructions than those that are checked here: " + code
    if kernel.name_of.get(found[1]) != "a0" or kernel.results.get(found[7]) != "out0" \
            or kernel.results.get(found[9]) != "out1" or found[8] != found[10]:
        return "operands at other places"
    if kernel.name_of.get(found[8]) != half(1152) * 0x10001:
        return "subtracts something else than 1152"
    flip, low, low_bytes, high, high_bytes = (int(found[i], 0) for i in range(2, 7))
    for byte in range(256):
        word = byte | (byte ^ 0x55) << 8 | (255 - byte) << 16 | (byte + 3 & 255) << 24
        x = word ^ flip
        for pair, constant, selector in ((0, low, low_bytes), (2, high, high_bytes)):
            words = permuted(x, constant, selector)
            for i in range(2):
                number = struct.unpack("<e", struct.pack("<H", words >> 16 * i & 0xffff))[0]
                want = struct.unpack("<b", bytes([word >> 8 * (pair + i) & 255]))[0]
                if number - 1152 != want:
                    return f"byte {want} becomes {number - 1152}"
    return None


def faults(ptx, header):
    bodies = dict(re.findall(r"\.entry wrap_(\w+)\(.*?\)\s*\{(.*?)\n\}", ptx, re.S))
    kernels = {name: Kernel(body) for name, body in bodies.items()}
    for name, wanted in WANTED.items():
        got = kernels[name].text() if name in kernels else "no kernel in wrappers.cu"
        if got != wanted:
            yield f"{name}:\n    wanted {wanted}\n    got    {got}"
    fault = unpack_fault(kernels["unpack_i8"])
    if fault:
        yield f"unpack_i8: {fault}"
    for width, vector in ((8, "v2"), (16, "v4")):
        body = bodies[f"copy_by_{width}"]
        for pattern in (rf"\tld(\.global)?\.{vector}\.\w+", rf"\tst(\.global)?\.{vector}\.\w+"):
            if len(re.findall(pattern, body)) != 1:
                yield f"load{width} or store{width} is not one instruction:\n{body}"
    for name, body in re.findall(r"GPU_INLINE \w+ (\w+)\([^)]*\)[^{]*\{(.*?)\n\}", header, re.S):
        if re.search(r"\basm\b", body) and name not in kernels:
            yield f"{name} of gpu.h is checked nowhere: add a kernel to wrappers.cu and a line here"


def main():
    nvcc, root = sys.argv[1:]
    if not os.access(nvcc, os.X_OK):
        print("skipped: no nvcc")
        sys.exit(77)
    with open(os.path.join(root, "cuda/kernels/gpu.h"), encoding="utf-8") as file:
        header = file.read()
    found = list(faults(compiled(nvcc, root), header))
    print("\n".join(found) or f"{len(WANTED) + 3} wrappers are what they promise")
    sys.exit(bool(found))


main()

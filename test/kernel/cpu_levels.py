#!/usr/bin/env python3
"""Catches: instructions that a CPU may lack in an object that is not meant for CPUs that have
them: a flag that reaches too far, an intrinsic in the wrong file, an inline function that the
linker may take from an object of a higher level.

cpu_levels.py OBJDUMP NM LIBRARY: a static library whose objects tell their level by their names
(cmake/kernels.cmake)."""
import re
import subprocess
import sys

LEVELS = ["base", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"]
NAMES = [("amx", r"^kernels_amx|_amx\."), ("avx512bf16", r"_avx512bf16\."),
         ("avx512vnni", r"_avx512vnni\."), ("avx512", r"_avx512\."), ("avx2", r"_avx2\.")]
# Legacy prefixes and REX, then the first byte of the opcode.
PREFIXES = {"66", "f2", "f3", "f0", "2e", "36", "3e", "26", "64", "65", "67"}
# Beyond SSE2, though neither VEX nor in the maps 0F38 and 0F3A. A CPU without tzcnt runs it as bsf.
OTHERS = re.compile(r"^(addsub|haddp|hsubp|lddqu|fisttp|movddup|movshdup|movsldup|popcnt|lzcnt|"
                    r"cmpxchg16b|xsave|xrstor|rdrand|rdseed|prefetchw)")
# By VEX, but not of AVX, AVX2, FMA or F16C.
NOT_AVX2 = re.compile(r"^(andn|bextr|bls|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|vpdp|vaes|vpclmul|"
                      r"vgf2p8|vpmadd52|vcvtne|kmov|kand|kor|kxor|kxnor|kun|kadd|kshift|kt)")
TILES = re.compile(r"^(ldtilecfg|sttilecfg|tile|tdp)")
VNNI = re.compile(r"^vpdp(bu|wu|ws)")
BF16 = re.compile(r"^v(dpbf16ps|cvtne)")
# By EVEX, but not of AVX512F, BW, DQ or VL.
NOT_AVX512 = re.compile(
    r"^(vpermb|vperm[it]2b|vpmultishift|vpcompress[bw]|vpexpand[bw]|vpsh[lr]d|"
    r"vpopcnt|vpshufbitqmb|vpmadd52|vp2intersect|vgf2p8|vaes|vpclmul|vpconflict|"
    r"vplzcnt|vpbroadcastm|vexp2|vrcp28|vrsqrt28|vpdp(bs|wss)|v[a-z0-9]*(ph|sh)$)")
KNOWN_HALF = re.compile(r"^vcvt(ps2ph|ph2ps)$|^vpackush|^vpshuf|^vpunpck")


def level_of_object(name):
    return next((level for level, pattern in NAMES if re.search(pattern, name)), "base")


def level_of_instruction(code, text):
    """The lowest level that has it; "above" where none has."""
    code = list(code)
    while code and (code[0] in PREFIXES or (code[0][0] == "4" and len(code) > 1)):
        code.pop(0)
    name = text.split()[0] if text else ""
    if not code or name in ("", "(bad)"):
        return "base"
    if name.startswith("{"):  # {vex}, {evex}
        name = text.split()[1]
    if TILES.match(name):
        return "amx"
    if BF16.match(name):
        return "avx512bf16"
    if VNNI.match(name):
        return "avx512vnni" if code[0] == "62" else "above"
    if code[0] == "62":
        return "above" if NOT_AVX512.match(name) and not KNOWN_HALF.match(name) else "avx512"
    if code[0] in ("c4", "c5"):
        if name.startswith("k"):
            return "avx512"
        return "above" if NOT_AVX2.match(name) else "avx2"
    if OTHERS.match(name) or (code[0] == "0f" and code[1:2] and code[1] in ("38", "3a")):
        return "above"
    return "base"


def instructions(objdump, library):
    """(object, function, level, text) of each."""
    command = [objdump, "-d", "-w", "--insn-width=16", library]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True,
                           text=True).stdout.splitlines()
    name = function = ""
    seen = {}
    for line in lines:
        if line.startswith(" "):
            parts = line.split("\t")
            if len(parts) < 3:
                continue
            key = (parts[1], parts[2].split(None, 1)[0] if parts[2].strip() else "")
            if key not in seen:
                seen[key] = level_of_instruction(parts[1].split(), parts[2].strip())
            yield name, function, seen[key], parts[2].strip()
        elif ":     file format" in line:
            name = line.split(":")[0]
        elif line.endswith(">:"):
            function = line.split("<")[1][:-2]


def symbols(nm, library):
    """(object, type, name) of what is defined."""
    text = subprocess.run([nm, "--defined-only", library], stdout=subprocess.PIPE, check=True,
                          text=True).stdout
    name = ""
    for line in text.splitlines():
        parts = line.split()
        if line.endswith(":"):
            name = line[:-1]
        elif len(parts) == 3:
            yield name, parts[1], parts[2]


def main():
    objdump, nm, library = sys.argv[1:]
    faults, own = [], set()
    name = None
    for name, function, level, text in instructions(objdump, library):
        at = level_of_object(name)
        if level == at:
            own.add(level)
        elif level == "above" or LEVELS.index(level) > LEVELS.index(at):
            faults.append(f"{name}: {function}: {level}: {text}")
    if name is None:
        print("skipped: objects without code, of a build with -flto")
        sys.exit(77)
    for name, kind, symbol in symbols(nm, library):
        if level_of_object(name) != "base" and kind in "WVu":
            faults.append(f"{name}: the linker may take {symbol} from here for all")
    for fault in faults[:40]:
        print(fault)
    missing = [level for level in LEVELS if level not in own]
    print(f"{len(faults)} faults; levels with instructions of their own: {len(own)}; "
          f"without: {' '.join(missing) or 'none'}")
    sys.exit(1 if faults or missing else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Catches: kernels that one compiler turns into much slower code than another, such as a loop over
registers that clang does not unroll, so that sums live in memory (lib/base/unroll.h).

compare_builds.py PROGRAM PROGRAM: the promptcache program of two builds, both optimised. Answers
the demo prompt with each in turn, on one core, and compares the least processor time of several
runs. Exits 1 where it differs by more than LIMIT, 77 where the CPU lacks AVX2."""
import os
import subprocess
import sys

LIMIT = 1.25
RUNS, MOST_RUNS = 5, 15  # more runs where a busy machine may have been in the way
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PML = os.path.join(SOURCE, "examples", "pml", "employees")
COMMAND = ["run", "--model", os.path.join(SOURCE, "models", "demo", "demo.gguf"),
           "--schema", PML + ".pml", "--prompt", PML + "-prompt.pml", "--compare", "--repeats", "5"]
CASES = [("avx2", "f32"), ("avx2", "bf16"), ("avx2", "int8"), (None, "f32"), (None, "bf16")]


def processor_time(program, level, compute):
    """Seconds in user mode. One core: threads that wait for each other would count too."""
    environment = dict(os.environ, PC_LINEAR="own")
    environment.pop("PC_CPU_MASK", None)
    if level:
        environment["PC_CPU_MASK"] = level
    core = min(os.sched_getaffinity(0))
    child = subprocess.Popen([program] + COMMAND + ["--compute", compute], env=environment,
                             stdout=subprocess.DEVNULL,
                             preexec_fn=lambda: os.sched_setaffinity(0, [core]))
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{program} ended with {child.returncode}")
    return used.ru_utime


def apart(times):
    return max(times) / min(times)


def least_times(programs, level, compute):
    least = [float("inf")] * 2
    for run in range(MOST_RUNS):
        for i, program in enumerate(programs):
            least[i] = min(least[i], processor_time(program, level, compute))
        if run + 1 >= RUNS and apart(least) <= LIMIT:
            break
    return least


def main():
    programs = [os.path.abspath(p) for p in sys.argv[1:]]
    if len(programs) != 2:
        sys.exit(__doc__)
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        if " avx2 " not in info.read():
            print("skipped: this CPU has no AVX2")
            sys.exit(77)
    bad = 0
    for level, compute in CASES:
        least = least_times(programs, level, compute)
        verdict = "" if apart(least) <= LIMIT else f", more than {LIMIT} apart"
        bad += apart(least) > LIMIT
        print(f"{level or 'best'} {compute}: {least[0]:.3f} s and {least[1]:.3f} s of processor "
              f"time, ratio {least[1] / least[0]:.2f}{verdict}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Gets what test_transformers.py needs: torch and transformers of PyPI, for this Python.

usage: fetch_transformers.py FOLDER

About a minute and 1.5 GB. torch's package for Linux wants the libraries of CUDA (3 GB more), which
a CPU has no use for: small libraries that only have their names and functions stand in for them.
Needs pip, gcc and binutils."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TORCH = "torch==2.15.0"
OTHERS = ["transformers==5.23.0", "numpy", "filelock", "typing-extensions", "sympy", "networkx",
          "jinja2", "fsspec", "setuptools"]
CUDA = re.compile(r"lib(cu|nccl|nvrtc|nvshmem|nvJit)")
# What is called without a device. Everything else says "no device" (100).
ANSWERS = {
    "cudaStreamIsCapturing":
        "int cudaStreamIsCapturing(void *s, int *status) { *status = 0; return 0; }",
    "cudaGetErrorString": 'const char *cudaGetErrorString(int e) { return "no CUDA"; }',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int e) { return "no CUDA"; }',
}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted(folder):
    """({library: versions of its symbols}, {version: functions}) that torch wants of CUDA."""
    libraries, symbols = {}, {}
    own = [f for f in os.listdir(folder) if f.startswith(("libtorch", "libc10", "libcaffe2"))]
    for path in (os.path.join(folder, f) for f in own):
        text, library = output("readelf", "-dVW", path), None
        for name in re.findall(r"NEEDED\).*\[(.*)\]", text):
            if CUDA.match(name):
                libraries.setdefault(name, set())
        for line in text.splitlines():
            library = (re.findall(r"File: (\S+)", line) or [library])[0]
            version = re.findall(r"Name: (\S+)\s+Flags", line)
            if version and library and CUDA.match(library):
                libraries.setdefault(library, set()).add(version[0])
        for name in re.findall(r" [Uw] (\S+)", output("nm", "-D", "--undefined-only", path)):
            name, _, version = name.partition("@")
            symbols.setdefault(version.lstrip("@"), set()).add(name)
    plain = re.compile(r"(cu|nccl|nvrtc|nvshmem|__cuda)")
    symbols[""] = {s for s in symbols.get("", ()) if plain.match(s)}
    return libraries, symbols


def stand_in(folder, library, versions, symbols, scratch):
    names = set().union(*[symbols.get(v, set()) for v in versions])
    if library.startswith("libcudart"):
        names |= symbols[""]
    with open(scratch + "/stand_in.c", "w", encoding="utf-8") as file:
        for name in sorted(names):
            file.write(ANSWERS.get(name, f"int {name}(void) {{ return 100; }}") + "\n")
    with open(scratch + "/stand_in.map", "w", encoding="utf-8") as file:
        for version in sorted(versions):
            listed = "".join(f" {s};" for s in sorted(symbols.get(version, ["none"])))
            file.write(f"{version} {{ global:{listed} }};\n")
    command = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", scratch + "/stand_in.c",
               "-Wl,-soname," + library, "-o", os.path.join(folder, library)]
    if versions:
        command.append(f"-Wl,--version-script={scratch}/stand_in.map")
    subprocess.run(command, check=True)


def fetch(folder):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as scratch:
        others = subprocess.Popen(pip + ["install", "-q", "--root-user-action=ignore",
                                         "--target", scratch + "/all"] + OTHERS, **quiet)
        subprocess.run(pip + ["download", "-q", "--no-deps", "-d", scratch, TORCH], check=True,
                       **quiet)
        wheel = next(f for f in os.listdir(scratch) if f.endswith(".whl"))
        subprocess.run([sys.executable, "-m", "zipfile", "-e", f"{scratch}/{wheel}",
                        scratch + "/torch"], check=True)
        os.remove(f"{scratch}/{wheel}")
        if others.wait():
            raise subprocess.CalledProcessError(others.returncode, "pip install")
        for name in os.listdir(scratch + "/torch"):
            if not os.path.exists(f"{scratch}/all/{name}"):
                shutil.move(f"{scratch}/torch/{name}", scratch + "/all")
        libraries = scratch + "/all/torch/lib"
        needed, symbols = wanted(libraries)
        for library, versions in sorted(needed.items()):
            stand_in(libraries, library, versions, symbols, scratch)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(scratch + "/all", folder)


def works(folder):
    """Also compiles what an import reads, once for all."""
    environment = dict(os.environ, PYTHONPATH=folder)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    code = ("import torch, transformers; from transformers import AutoModelForCausalLM, "
            "AutoTokenizer; print(torch.ones(2) @ torch.ones(2))")
    return not subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=environment).returncode


def main():
    folder = os.path.abspath(sys.argv[1])
    if works(folder):
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        fetch(folder)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        sys.exit(f"fetch_transformers: {error}")
    if not works(folder):
        sys.exit(f"fetch_transformers: torch in {folder} cannot be imported")


if __name__ == "__main__":
    main()

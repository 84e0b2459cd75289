#!/usr/bin/env python3
"""Catches: a benchmark without --yaml; output that is not YAML, or says something else than the
JSON: other rows or keys, a number read as a text, a text read as something else.

    python3 test_bench_yaml.py SOURCE_FOLDER PROGRAM

The module yaml reads the output if it is installed, and a strict reader of our few rules always.
"""
import json
import os
import re
import subprocess
import sys

from checking import check, run_in_folder

try:
    import yaml
except ImportError:
    yaml = None

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
MODEL = SOURCE + "/models/demo/demo.gguf"
COMMON = "--shape tiny --scale 0.05 --batch 2 --methods"
CASES = {
    "attend": "--rows 1,3 --prefix 64 --suffix 16 --heads 4 --kv-heads 2 --head-dim 33 --repeats 1",
    "calibrate": "--show",
    "decode": f"--model {MODEL} --batch 1,2 --prefix 1024 --suffix 16 --repeats 2",
    "inputs": f"--exact {MODEL} --file {MODEL} --text text --window 32 --tokens 64",
    "memo": "--shape tiny --length 48 --batch 2 --repeats 2 --folder .",
    "mmlu": f"--subjects 1 --questions 2 {COMMON} shared,recompute",
    "needles": "--shape tiny --questions 1,2 --document 128 --methods shared,no-attention",
    "samples":
    "--shape tiny --samples 1,2 --few-shot 128 --question 8 --answer 3 "
    "--methods two-levels,no-attention",
    "serve": "--shape tiny --prompts 9 --answers 3 --load 2 --requests 2 --methods shared,pieces",
    "store": f"--model {MODEL} --tokens 70 --segments 2 --repeats 1 --tier compressed --codec zstd",
    "trace": "--trace trace --share 1/2,1 --block-bytes 1024",
    "ttft": f"--model {MODEL} --context 128 --new 32 --repeats 1",
}


class Strict:
    """Block lists and mappings by indentation, values on the key's line."""

    NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*([eE][-+][0-9]+)?)?\Z")

    def __init__(self, text):
        self.lines = [line for line in text.split("\n") if line]
        self.at = 0

    def value(self, text):
        if text in ("null", "true", "false", "[]",
                    "{}") or text[0] == '"' or self.NUMBER.match(text):
            return json.loads(text)
        raise ValueError(text)

    def block(self, indent):
        return self.list(indent) if self.lines[self.at][indent:indent +
                                                        1] == "-" else self.mapping(indent)

    def list(self, indent):
        items = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(" " * indent + "- "):
            line = self.lines[self.at]
            if re.match(r'[a-z_][a-z_0-9]*:|"[^"]*":', line[indent + 2:]):
                self.lines[self.at] = " " * (indent + 2) + line[indent + 2:]
                items.append(self.mapping(indent + 2))
            else:
                items.append(self.value(line[indent + 2:]))
                self.at += 1
        return items

    def mapping(self, indent):
        found = {}
        while self.at < len(self.lines) and re.match(" " * indent + "[^ ]", self.lines[self.at]):
            key, colon, rest = self.lines[self.at][indent:].partition(":")
            if not colon or key in found:
                raise ValueError(self.lines[self.at])
            self.at += 1
            inner = len(self.lines[self.at]) - len(
                self.lines[self.at].lstrip(" ")) if not rest else 0
            found[key.strip('"')] = self.value(rest[1:]) if rest else self.block(inner)
        return found


def read_strictly(text):
    reader = Strict(text)
    value = reader.list(0)
    if reader.at != len(reader.lines):
        raise ValueError(reader.lines[reader.at])
    return value


def run(command, arguments, form):
    done = subprocess.run([PROGRAM, "bench", command, *arguments.split(), form],
                          capture_output=True,
                          text=True,
                          timeout=300)
    check(done.returncode == 0,
          f"bench {command} {form}: exit code {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def kind(value):
    if isinstance(value, dict):
        return {key: kind(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [kind(inner) for inner in value]
    return type(value).__name__


MEASURED = {"bound_by"}  # follows from the times of a run


def texts(row):
    return {k: v for k, v in row.items() if isinstance(v, (str, bool)) and k not in MEASURED}


def compare(command, arguments):
    rows = [json.loads(line) for line in run(command, arguments, "--json").splitlines()]
    text = run(command, arguments, "--yaml")
    readings = [read_strictly(text)] + ([yaml.safe_load(text)] if yaml else [])
    check(readings[0] == readings[-1], f"bench {command}: both readers of YAML see the same")
    check(
        rows and kind(readings[-1]) == kind(rows),
        f"bench {command}: rows and kinds of their values: {kind(readings[-1])}, "
        f"in JSON {kind(rows)}")
    check(all(texts(a) == texts(b)
              for a, b in zip(rows, readings[-1] or [])), f"bench {command}: texts")
    if command == "calibrate": # what was measured before is the same each time
        check(readings[-1] == rows, "bench calibrate: values")


def main():
    listed = re.findall(
        r"^  ([a-z]+) ",
        subprocess.run([PROGRAM, "bench", "--help"], capture_output=True, text=True).stdout, re.M)
    listed = sorted(set(listed) - {"check", "eval"})
    check(listed == sorted([*CASES, "device"]), # which needs a GPU
          f"all benchmarks are tried: {listed}")
    with open("trace", "w") as out:
        out.write('{"hash_ids":[7]}\n{"hash_ids":[9]}\n{"hash_ids":[7]}\n')
    with open("text", "w") as out:
        out.write("The desk of Peter Novak is 368. " * 20)
    for command, arguments in CASES.items():
        compare(command, arguments)
    both = subprocess.run([PROGRAM, "bench", "serve", "--json", "--yaml"],
                          capture_output=True,
                          text=True)
    check(both.returncode == 2 and "exclude each other" in both.stderr,
          "--json and --yaml exclude each other")


if __name__ == "__main__":
    run_in_folder(main)

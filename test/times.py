#!/usr/bin/env python3
"""Prints the kind and the time of each test as a page, test/times.md:

    ctest --test-dir build/test --output-junit junit.xml
    test/times.py build/test build/test/junit.xml >test/times.md

Times are those of one run, from ctest's own report; kinds are the labels of the tests."""
import collections
import json
import subprocess
import sys
import xml.etree.ElementTree

KINDS = {
    "unit": "one file of lib, linked with its folder only",
    "kernel": "kernels and what is computed with them, against references",
    "golden": "models, records and texts against recorded results",
    "fail": "faults: full disks, killed processes, broken servers, damaged files",
    "program": "the programs, their options, messages and files",
    "abi": "header, layout of structs, symbols, rules of the tree",
    "consumer": "an installed library, used from outside",
    "example": "the examples",
    "bindings": "the library from other languages",
    "packages": "the recipes of packages, and the packages themselves",
    "fuzz": "the committed corpora, replayed",
    "levels": "tests of above once more, for each level of CPU instructions",
    "modules": "tests of above once more, with plug-in modules from files, and without",
    "cuda": "the CUDA backend: kernels over a model of the machine, host part on a fake device",
    "far": "tests of above once more, on a backend whose memory the library cannot see",
    "emulated": "older CPUs, emulated",
}


def kinds_of_tests(build):
    """{name: kind}; levels and emulated runs are kinds of their own."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                           capture_output=True, text=True).stdout
    kinds = {}
    for test in json.loads(shown)["tests"]:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        labels = labels[0] if labels else []
        own = [label for label in labels if label in ("levels", "emulated")]
        kinds[test["name"]] = (own or labels or ["none"])[0]
    return kinds


def times_of_tests(report):
    """{name: (seconds, skipped)}"""
    root = xml.etree.ElementTree.parse(report).getroot()
    return {case.get("name"): (float(case.get("time")), case.find("skipped") is not None)
            for case in root.iter("testcase")}


def print_kind(kind, tests, times):
    rows = sorted(tests, key=lambda name: (-times.get(name, (0, 0))[0], name))
    print(f"\n## {kind}\n\n| test | seconds |\n|---|---:|")
    for name in rows:
        seconds, skipped = times.get(name, (None, False))
        text = "not run" if seconds is None else "skipped" if skipped else f"{seconds:.2f}"
        print(f"| {name} | {text} |")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    kinds, times = kinds_of_tests(sys.argv[1]), times_of_tests(sys.argv[2])
    groups = collections.defaultdict(list)
    for name, kind in kinds.items():
        groups[kind].append(name)
    if "none" in groups:
        sys.exit(f"tests without a label: {' '.join(groups['none'])}")
    print("# Times of the tests\n\nSeconds of one run of all tests, made by `test/times.py`"
          " from the report of ctest.\n")
    print("| kind | tests | seconds | what they test |\n|---|---:|---:|---|")
    for kind, about in KINDS.items():
        seconds = sum(times.get(name, (0, 0))[0] for name in groups[kind])
        print(f"| {kind} | {len(groups[kind])} | {seconds:.0f} | {about} |")
    total = sum(times.get(name, (0, 0))[0] for name in kinds)
    print(f"| all | {len(kinds)} | {total:.0f} | |")
    for kind in KINDS:
        print_kind(kind, groups[kind], times)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes what the Rust crates take from the description of the interface (doc/abi.md, "Bindings"):

    generate.py promptcache.json FOLDER     writes the files below FOLDER (bindings/rust)
    generate.py --check promptcache.json FOLDER   compares them instead; 1: some are not current

promptcache-sys/src/bindings.rs   everything that the headers but bench.h declare
promptcache-sys/tests/layout.rs   its sizes, offsets and values, compared with the C compiler's
promptcache/src/generated.rs      enums, flags, options and results of the safe crate
promptcache/src/docs.rs           comments of functions, for the methods that call them
"""
import json
import os
import re
import sys

import rust_names
import rust_safe
import rust_sys


def files_of(api):
    names = rust_names.Names(api)
    return {
        "promptcache-sys/src/bindings.rs": rust_sys.bindings(names),
        "promptcache-sys/tests/layout.rs": rust_sys.layout(names),
        "promptcache/src/generated.rs": rust_safe.types(names),
        "promptcache/src/docs.rs": rust_safe.docs(names),
    }


def versions(api, folder):
    """What Cargo.toml of the crates says against the library's version."""
    for crate in ("promptcache-sys", "promptcache"):
        with open(os.path.join(folder, crate, "Cargo.toml"), encoding="utf-8") as file:
            for found in re.findall(r'(?<!-)version = "([^"]+)"', file.read()):
                if found != api["version"]:
                    yield f"bindings/rust/{crate}/Cargo.toml: version {found}, the library " \
                          f"is {api['version']}"


def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ["--check"]
    path, folder = arguments[check:]
    with open(path, encoding="utf-8") as file:
        api = json.load(file)
    stale = []
    for name, text in files_of(api).items():
        target = os.path.join(folder, name)
        if not check:
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(target, encoding="utf-8") as file:
            if file.read() != text:
                stale.append(name)
    for name in stale:
        print(f"bindings/rust/{name} is not that of the headers: run "
              "bindings/rust/generate.py BUILD/api/promptcache.json bindings/rust")
    wrong = list(versions(api, folder))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if stale or wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The examples in the documentation of the package. Catches: an example that does not run, or that
prints something else than it says.

usage: test_doctests.py ROOT     ROOT: of the project; PYTHONPATH has the package"""
import doctest
import importlib
import os
import pkgutil
import sys

import promptcache

NEEDS_NUMPY = {"_array", "attention", "_compute", "_memo", "_segment"}
OTHERS = {"programs", "transformers"}  # with tests of their own


def main():
    os.chdir(sys.argv[1])
    try:
        import numpy
    except ImportError:
        numpy = None
    names = ["promptcache"]
    for module in pkgutil.iter_modules(promptcache.__path__):
        if module.name in OTHERS or module.name in ("_raw", "__main__"):
            continue
        if numpy is None and module.name in NEEDS_NUMPY:
            print(f"skipped: {module.name} (numpy is not installed)")
            continue
        names.append(f"promptcache.{module.name}")
    tried = failed = 0
    for name in names:
        result = doctest.testmod(importlib.import_module(name))
        tried += result.attempted
        failed += result.failed
    print(f"{tried} lines of examples, {failed} failures")
    if tried < 20:
        sys.exit("the examples were not found")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

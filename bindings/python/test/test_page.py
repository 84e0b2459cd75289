#!/usr/bin/env python3
"""The snippets of doc/python.md, of the package's README and of the project's, as one program each.
Catches: a snippet that does not run, or that prints something else than the page says.

usage: test_page.py ROOT     ROOT: of the project; PYTHONPATH has the package"""
import contextlib
import io
import linecache
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../test/support"))
from page_blocks import blocks_of  # pylint: disable=wrong-import-position


def run_page(path, shown=("text",)):
    """Runs the Python blocks; a block of `shown` behind one is what it prints. Returns the faults,
    and how many blocks were compared."""
    blocks = blocks_of(path)
    space, faults, count, compared = {"__name__": "page"}, [], 0, 0
    for (kind, _, code, line), behind in zip(blocks, blocks[1:] + [None]):
        if kind != "python":
            continue
        count += 1
        out, name = io.StringIO(), f"{path}:{line}"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # as in a notebook
        with contextlib.redirect_stdout(out):
            exec(compile(code, name, "exec"), space)  # pylint: disable=exec-used
        if behind and behind.kind in shown:
            compared += 1
            if out.getvalue() != behind.text:
                faults.append(f"{name}: prints\n{out.getvalue()}instead of\n{behind.text}")
    print(f"{os.path.basename(path)}: {count} snippets, {len(faults)} faults")
    return faults, compared


def main():
    os.chdir(sys.argv[1])
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: numpy is not installed, which the page's arrays need")
        sys.exit(77)
    pml = "examples/pml/employees"
    sys.argv[1:] = ["models/demo/demo.gguf", pml + ".pml", pml + "-prompt.pml"]
    pages = ("README.md", "bindings/python/README.md", "doc/python.md")
    faults = [fault for page in pages for fault in run_page(page)[0]]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

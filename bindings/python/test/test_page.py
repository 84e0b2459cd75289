#!/usr/bin/env python3
"""The snippets of doc/python.md, of the package's README and of the project's, as one program each.
Catches: a snippet that does not run, or that prints something else than the page says.

usage: test_page.py ROOT     ROOT: of the project; PYTHONPATH has the package"""
import contextlib
import io
import os
import re
import sys

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(path):
    """Runs the Python blocks; a text block behind one is what it prints. Returns the faults."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = [(match.group(1), match.group(2), text[:match.start()].count("\n") + 1)
              for match in BLOCK.finditer(text)]
    space, faults, count = {"__name__": "page"}, [], 0
    for index, (kind, code, line) in enumerate(blocks):
        if kind != "python":
            continue
        count += 1
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * line + code, path, "exec"), space)  # pylint: disable=exec-used
        follows = blocks[index + 1] if index + 1 < len(blocks) else ("", "", 0)
        expected = follows[1] if follows[0] == "text" else None
        if expected is not None and out.getvalue() != expected:
            faults.append(f"{path}:{line}: prints\n{out.getvalue()}instead of\n{expected}")
    print(f"{os.path.basename(path)}: {count} snippets, {len(faults)} faults")
    return faults


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
    faults = [fault for page in pages for fault in run_page(page)]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

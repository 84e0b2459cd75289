"""Shared by the tests of the second readers: checks that count, a Python that has the modules, and
both readers of one thing."""
import json
import os
import subprocess
import sys

checks = {True: 0, False: 0}


def check(condition, what):
    checks[bool(condition)] += 1
    if not condition:
        print("FAILED:", what)


def interpreter(modules):
    for python in (sys.executable, "/usr/bin/python3"):
        imports = [python, "-c", "import " + ", ".join(modules)]
        if os.path.exists(python) and not subprocess.run(imports, capture_output=True).returncode:
            return python
    print("skipped: no Python with the modules %s (Debian: %s)"
          % (" ".join(modules), " ".join("python3-" + m for m in modules)))
    sys.exit(77)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return "%016x" % value


class Readers:
    """The library's reader, behind a program that prints JSON, and the reader of tools/ that was
    made from the document."""

    def __init__(self, program, tool, modules):
        self.program, self.tool, self.python = program, tool, interpreter(modules)

    def library(self, path):
        return self._read([self.program, "--json", str(path)])

    def document(self, path, *options):
        return self._read([self.python, str(self.tool), *options, str(path)])

    @staticmethod
    def _read(command):
        done = subprocess.run(command, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None


def finish():
    print("checks: %d passed, %d failed" % (checks[True], checks[False]))
    return 1 if checks[False] else 0

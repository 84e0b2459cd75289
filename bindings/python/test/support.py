"""What the tests of the package share."""
import os
import sys
import unittest

import promptcache

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
MODEL = os.path.join(ROOT, "models", "demo", "demo.gguf")
PML = os.path.join(ROOT, "examples", "pml")

try:
    import numpy
except ImportError:
    numpy = None
needs_numpy = unittest.skipIf(numpy is None, "numpy is not installed")

_model = None


def model():
    """The demo model, loaded once."""
    global _model
    if _model is None:
        _model = promptcache.Model.load(MODEL)
    return _model


def text_prompt(text="The desk of Anna Reed"):
    return promptcache.Prompt.from_text(model(), text)


def employees():
    schema = promptcache.Schema.load(model(), os.path.join(PML, "employees.pml"))
    return schema, promptcache.Prompt.load(schema, os.path.join(PML, "employees-prompt.pml"))


def modules(schema):
    return [item.path for item in schema.items
            if item.kind is promptcache.ItemKind.MODULE]


def run():
    """Runs the tests of the calling program. Exit 77: all of them were skipped."""
    program = unittest.main(exit=False, verbosity=1)
    result = program.result
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)

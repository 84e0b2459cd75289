"""Catches: the module `evaluation` of the Python package loses, changes or reorders what the
program prints, or hides its errors.

    python3 test_python_evaluation.py SOURCE_FOLDER PROGRAM
"""
import importlib
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fail"))
from checking import check, run_in_folder  # pylint: disable=wrong-import-position
from link_evaluation import link_evaluation  # pylint: disable=wrong-import-position
import reference_scores as reference  # pylint: disable=wrong-import-position

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
DATA = SOURCE + "/examples/longbench/"


def load():
    """The module without the rest of the package, which needs cffi."""
    link_evaluation(SOURCE)
    sys.path.insert(0, os.path.abspath("python"))
    return importlib.import_module("promptcache.evaluation")


def error_of(module, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except module.EvaluationError as error:
        return str(error)
    return "no error"


def main():
    m = load()
    check(m.score("The cat.", ["dog", "a cat"], program=PROGRAM) == 1, "one score")
    check(m.score("a dog, loc", "loc", "classification", classes=["dog", "loc"],
                  program=PROGRAM) == 0.5, "classes")
    rows = [{"pred": text, "answers": ["one two\n three"], "metric": metric}
            for metric in ("f1", "rouge-l", "exact") for text in ("two", "", "one\u2028two three")]
    for got, row in zip(m.scores(rows, program=PROGRAM), rows):
        check(reference.near(got, reference.best(row["metric"], row["pred"], row["answers"])), row)
    check(m.scores([], program=PROGRAM) == [], "no rows")
    table = m.evaluate(DATA + "demo.jsonl", model=SOURCE + "/models/demo/demo.gguf",
                       templates=DATA + "demo-templates.json", program=PROGRAM,
                       options=["--limit", "4"])
    check({row["mode"] for row in table} == {"causal", "independent"}
          and all(row["score"] > 90 for row in table), table)
    check("metric: it is none of" in error_of(m, m.score, "a", "b", "bleu", program=PROGRAM),
          "bleu")
    check("/nowhere: No such file" in error_of(m, m.score, "a", "b", program="/nowhere"),
          "program")
    check(all(m.score("1", "1", metric, classes=["1"], program=PROGRAM) > 0.999
              for metric in m.METRICS), "all measures")


run_in_folder(main)

"""Accuracy as LongBench measures it: scores of answers, and evaluations of a model with cached
modules beside a full prefill (doc/evaluation.md).

There is one implementation, in the program `promptcache`. These functions start it and read what it
prints: the one that `python -m promptcache` is, or that `program` names.
"""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from .__main__ import program as find_program

__all__ = ["METRICS", "EvaluationError", "evaluate", "score", "scores"]

METRICS = ("f1", "f1-zh", "rouge-l", "rouge-l-zh", "exact", "exact-zh", "retrieval", "count",
           "classification", "code")
"""The measures that `score` knows."""


class EvaluationError(RuntimeError):
    """The program is not there, or refused what it was given. The text names file, line and
    cause."""


def _run(arguments: Sequence[str], program: Optional[str]) -> str:
    path = program or find_program()
    if path is None:
        raise EvaluationError("promptcache: there is no such program in PATH; install it, or name "
                              "it by program=")
    try:
        done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror}") from error
    if done.returncode:
        raise EvaluationError(done.stderr.strip() or f"{path}: exit code {done.returncode}")
    return done.stdout


def scores(rows: Iterable[Dict[str, Any]], *, program: Optional[str] = None) -> List[float]:
    """The score of each row, from 0 to 1. A row has `pred`, `answers` and `metric`, for
    "classification" also `all_classes`: the names of all classes. The best answer counts."""
    with tempfile.TemporaryDirectory() as folder:
        data, results = (os.path.join(folder, name) for name in ("rows.jsonl", "results.jsonl"))
        count = 0
        with open(data, "w", encoding="utf-8") as f:
            for row in rows:
                f.write(json.dumps(row) + "\n")
                count += 1
        if not count:
            return []
        _run(["eval", data, "--format", "predictions", "--results", results, "--json"], program)
        with open(results, encoding="utf-8") as f:
            next(f)  # what the results depend on
            return [float(json.loads(line)["score"]) for line in f]


def score(answer: str, references: Union[str, Sequence[str]], metric: str = "f1", *,
          classes: Optional[Sequence[str]] = None, program: Optional[str] = None) -> float:
    """The score of one answer, from 0 to 1: the best over the references."""
    answers = [references] if isinstance(references, str) else list(references)
    row = {"pred": answer, "answers": answers, "metric": metric,
           "all_classes": None if classes is None else list(classes)}
    return scores([row], program=program)[0]


def evaluate(files: Union[str, Sequence[str]], *, model: str, templates: str,
             modes: Sequence[str] = ("causal", "independent"), results: Optional[str] = None,
             program: Optional[str] = None, options: Sequence[str] = ()) -> List[Dict[str, Any]]:
    """Runs LongBench's items with a full prefill and with cached modules. Each member of the list
    is a row of the table that the program prints, with the keys of its JSON. options: further
    ones, as ["--limit", "20"]."""
    names = [files] if isinstance(files, str) else list(files)
    arguments = ["eval", *names, "--format", "longbench", "--model", model,
                 "--templates", templates, "--modes", ",".join(modes), "--json", *options]
    if results is not None:
        arguments += ["--results", results]
    return [json.loads(line) for line in _run(arguments, program).splitlines()]

"""Catches: a measure of `promptcache eval` that is not LongBench's: other normalisation, another
longest common subsequence, another line of code, a missing maximum over the references.

    python3 test_eval_scores.py SOURCE_FOLDER PROGRAM

Thousands of random pairs of texts, and worked examples, against reference_scores.py.
"""
import json
import os
import random
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fail"))
from checking import check, run_in_folder  # pylint: disable=wrong-import-position
import reference_scores as reference  # pylint: disable=wrong-import-position

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
PAIRS = 2000 if os.environ.get("PC_TEST_LONG") else 400
METRICS = ("f1 f1-zh rouge-l rouge-l-zh exact exact-zh retrieval count classification code".split())
WORDS = ["a", "an", "the", "The", "cat", "dog", "sat", "on", "mat.", "Mat,", "it's", "U.S.", "12",
         "3.5", "7", "\u201cthe\u201d", "caf\u00e9", "CAF\u00c9", "\u2014", "foo_bar", "don't",
         "end.", ".", "..", "\n", "x=1;", "{", "}", "# note", "// c", "`q`", "\u00dcn\u00ef",
         "\u3000", "\t", "\u5317\u4eac", "\u5927\u5b66", "\uff0c", "\u3002", "Paragraph 3",
         "\u6bb5\u843d7", "\u4e00", "A\u5317b", "loc", "location", "loc:city", "(a)", "\U00020000"]
CLASSES = ["loc", "location", "loc:city", "cat", "a cat", "dog"]

# metric, answer, references, classes, score by hand
EXAMPLES = [
    ("f1", "The  Cat, sat.", ["a cat"], None, 2 / 3),
    ("f1", "a the an", ["the"], None, 0.0),
    ("f1", "dog cat cat", ["cat cat cat", "bird"], None, 2 / 3),
    ("f1-zh", "\u5317\u4eac\u5927\u5b66\u3002", ["\u5317\u4eac"], None, 2 / 3),
    ("exact", "The  Cat.", ["dog", "cat"], None, 1.0),
    ("exact", "cats", ["cat"], None, 0.0),
    ("exact-zh", "\u5317 \u4eac\uff0c", ["\u5317\u4eac"], None, 1.0),
    ("rouge-l", "one two three", ["one three"], None, 2 * (2 / 3 / (5 / 3 + 1e-8))),
    ("rouge-l", "...", ["one"], None, 0.0),
    ("rouge-l", "", ["one"], None, 0.0),
    ("retrieval", "It is Paragraph 3, or 4", ["Paragraph 3"], None, 0.5),
    ("retrieval", "\u6bb5\u843d7", ["\u6bb5\u843d7"], None, 1.0),
    ("retrieval", "none", ["Paragraph 3"], None, 0.0),
    ("count", "12", ["1"], None, 0.0),
    ("classification", "a loc:city", ["loc:city"], ["loc", "loc:city", "dog"], 1.0),
    ("classification", "dog, loc:city", ["loc:city"], ["dog", "loc:city"], 0.5),
    ("code", "\n\n# no\nreturn x\nreturn y", ["return x"], None, 1.0),
    ("code", "// no", ["return x"], None, 0.0),
    ("code", "ab", ["bc"], None, 0.5),
]


def run(rows, *arguments):
    """The scores that the program gives to the rows."""
    with open("rows.jsonl", "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")
    if os.path.exists("results"):
        os.remove("results")
    done = subprocess.run([PROGRAM, "eval", "rows.jsonl", "--format", "predictions", "--results",
                           "results", "--json", *arguments], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")
    with open("results", encoding="utf-8") as f:
        scores = [json.loads(line)["score"] for line in list(f)[1:]]
    check(len(scores) == len(rows), f"{len(scores)} scores of {len(rows)} rows")
    return scores, [json.loads(line) for line in done.stdout.splitlines()]


def row_of(metric, answer, references, names):
    return {"pred": answer, "answers": references, "metric": metric, "all_classes": names}


def random_text(draw, most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(0, most)))


def random_reference(draw, metric, answer):
    if metric == "count":
        return draw.choice(["3", "7", "12"])
    if metric == "retrieval":
        return draw.choice(["Paragraph 3", "\u6bb5\u843d7", "Paragraph 12"])
    if metric == "classification":
        return draw.choice(CLASSES)
    if draw.random() < 0.3: # something like the answer
        words = answer.split(" ")
        draw.shuffle(words[:draw.randint(0, 4)])
        del words[draw.randrange(len(words))]
        return " ".join(words) or "x"
    return random_text(draw, 20) or "x"


def test_random():
    draw = random.Random(11)
    for metric in METRICS:
        rows, wanted = [], []
        for _ in range(PAIRS):
            answer = random_text(draw, 25)
            references = [random_reference(draw, metric, answer)
                          for _ in range(draw.randint(1, 3))]
            names = draw.sample(CLASSES, len(CLASSES)) if metric == "classification" else None
            rows.append(row_of(metric, answer, references, names))
            wanted.append(reference.best(metric, answer, references, names or ()))
        scores, _ = run(rows)
        for row, got, want in zip(rows, scores, wanted):
            check(reference.near(got, want), f"{row}: {got}, not {want}")
        check(sum(0 < w for w in wanted) > PAIRS / 20, f"{metric}: all scores are 0")
        check(sum(w < 1 for w in wanted) > PAIRS / 20, f"{metric}: all scores are 1")


def test_examples():
    scores, summary = run([row_of(*example[:4]) for example in EXAMPLES])
    for example, got in zip(EXAMPLES, scores):
        check(reference.near(got, example[4]), f"{example}: {got}")
        check(reference.near(reference.best(*example[:3], example[3] or ()), example[4]),
              f"reference_scores: {example}")
    for row in summary:
        mine = [got for got, example in zip(scores, EXAMPLES) if example[0] == row["metric"]]
        check(row["items"] == len(mine), f"{row}: not {len(mine)} items")
        check(abs(row["score"] - 100 * sum(mine) / len(mine)) < 1e-6, f"{row}: the mean of {mine}")
    check(len(summary) == len({example[0] for example in EXAMPLES}), "a row for each measure")


def test_templates():
    """The measure, and whether only the first line counts, by data set."""
    with open("t.json", "w", encoding="utf-8") as f:
        json.dump({"one": {"prompt": "{context}", "metric": "exact", "max_tokens": 1,
                           "first_line": True},
                   "all": {"prompt": "{context}", "metric": "exact", "max_tokens": 1}}, f)
    answer = {"prediction": "\ncat\ndog", "answers": ["cat"]}
    rows = [{**answer, "dataset": name} for name in ("one", "all", "one_e")]
    scores, summary = run(rows, "--templates", "t.json")
    check(scores == [1, 0, 1], f"first lines: {scores}")
    check([row["dataset"] for row in summary] == ["one", "all", "one_e"], "a row for each data set")
    scores, _ = run([answer], "--templates", "t.json", "--dataset", "one", "--metric", "f1")
    check(scores == [1], f"--metric goes before the template's: {scores}")


def main():
    test_examples()
    test_random()
    test_templates()


run_in_folder(main)

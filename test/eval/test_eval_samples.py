"""Catches: a runner of many samples whose majorities or pass@k are not those of the samples that it
saves; whose samples depend on the batch or on what is shared; a checker that hangs, floods, kills
itself or leaves processes and folders behind; bad input that is taken.

    python3 test_eval_samples.py SOURCE_FOLDER PROGRAM     (PC_TEST_LONG=1: all demo questions)
"""
import json
import math
import os
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fail"))
from checking import check, run_in_folder  # pylint: disable=wrong-import-position

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
LONG = os.environ.get("PC_TEST_LONG") == "1"
DEMO = SOURCE + "/examples/samples/demo-"
NOTES = ("Employee: Nina Quill. The phone of Nina Quill is 698. The city of Nina Quill is Talmira."
         "\n\nCity guide: Talmira. The room in Talmira is 394 euros. The tram in Talmira is 45 "
         "minutes.\n\nCity guide: Vesmira. The room in Vesmira is 291 euros. The tram in Vesmira "
         "is 74 minutes.")
TASK = {"prompt": "Answer from the notes.{context}{input}", "documents": "paragraphs",
        "chat": "turns", "max_tokens": 32}
VOTES = [{"question": "What is the room in Talmira?", "answer": "It is 3 #### $0,394.00"},
         {"question": "What is the tram in the city of Nina Quill?", "answer": 45},
         {"question": "What is the phone of Nina Quill?", "answer": "698.0"}]
RIGHT = "The room in Talmira is 394 euros."
CANDIDATES = [{"prompt": "What is the room in Talmira?", "tests": [{"output": RIGHT}]},
              {"prompt": "Which city has the tram 74 minutes?",
               "tests": [{"output": "The tram in  Vesmira\nis 74 minutes. "}]}]


def write(name, rows):
    with open(name, "w", encoding="utf-8") as f:
        for row in rows:
            f.write((row if isinstance(row, str) else json.dumps(row)) + "\n")


def write_text(name, text):
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)


def command(form, *arguments, rows=None, task=None):
    if rows is not None:
        write("q.jsonl", rows)
    write("t.json", [{"t": {**TASK, **(task or {})}}])
    return [PROGRAM, "eval", "q.jsonl", "--format", form, "--templates", "t.json", "--dataset", "t",
            "--model", SOURCE + "/models/demo/demo.gguf", *arguments]


def run(form, *arguments, rows=None, task=None, code=0, text=None, prefix=True):
    """The rows of the output, and standard error."""
    shared = ["--prefix", "notes.txt"] if prefix else []
    done = subprocess.run(command(form, *shared, "--json", *arguments, rows=rows, task=task),
                          capture_output=True, text=True, check=False)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr[:400]}")
    if text:
        check(text in done.stderr, f"{arguments}: not '{text}' but '{done.stderr[:400]}'")
    if code:
        check(not done.stdout, f"{arguments}: an error, and output")
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def saved(name="s.jsonl"):
    with open(name, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def samples_by_line(rows):
    lines = {}
    for row in rows:
        lines.setdefault(row["line"], []).append(row)
    return list(lines.values())


def majority_of(answers):
    """Of equally many, the first one."""
    counts = {}
    for answer in answers:
        if answer is not None:
            counts[answer] = counts.get(answer, 0) + 1
    return max(counts, key=counts.get) if counts else None


def expected(questions, wanted, k):
    """In percent, from the saved samples."""
    shares = []
    for samples, answer in zip(questions, wanted):
        if answer is None:
            n, c = len(samples), sum(s["right"] for s in samples)
            shares.append(1 - math.comb(n - c, k) / math.comb(n, k))
        else:
            groups = [samples[i:i + k]
                      for i in range(0, len(samples) - k + 1, k)]
            hits = [majority_of([s["answer"] for s in group]) == answer
                    for group in groups]
            shares.append(sum(hits) / len(hits))
    return 100 * sum(shares) / len(shares)


def check_scores(rows, questions, wanted):
    scores = {row["k"]: row["score"] for row in rows if "k" in row}
    for k, score in scores.items():
        check(abs(score - expected(questions, wanted, k)) < 1e-6,
              f"k {k}: {score}, by the samples {expected(questions, wanted, k)}")
    return scores


def test_votes():
    """Majorities are those of the samples, which do not depend on what is shared."""
    rows, _ = run("votes", "--samples", "10", "--temperature", "1.6", "--k", "1,2,3,10",
                  "--methods", "two-levels,per-row,one-level,no-level,recompute,one-by-one",
                  "--save", "s.jsonl", "--repeats", "2", rows=VOTES)
    questions = samples_by_line(saved())
    scores = check_scores(rows, questions, ["394", "45", "698"])
    check(0 < scores[1] < 100, f"scores {scores}")
    for samples, wanted in zip(questions, ["394", "45", "698"]):
        check([s["sample"] for s in samples] == list(range(10)), "the numbers of the samples")
        for s in samples:
            check(s["right"] == (s["answer"] == wanted), f"{s}")
            check(s["answer"] is None or s["answer"] in s["text"], f"{s}")
    methods = {row["method"]: row for row in rows if "method" in row}
    check(len(methods) == 6 and rows[-1]["broken"] == 0, f"{rows[-1]}")
    check(methods["two-levels"]["different"] == methods["per-row"]["different"] == 0, f"{methods}")
    check(methods["recompute"]["different"] == methods["one-by-one"]["different"], f"{methods}")
    check(rows[-1]["compared"] == 11 * 30 and rows[-1]["different"] <= 0.2 * 11 * 30,
          f"{rows[-1]}")
    check(methods["one-by-one"]["tokens_computed"] == methods["one-by-one"]["tokens_prompt"]
          and methods["two-levels"]["tokens_computed"] < 200, f"{methods}")


def test_batches():
    """A batch that is smaller than the samples of a question, and one sequence, draw the same."""
    texts = []
    for batch in ("64", "3", "1"):
        run("votes", "--samples", "7", "--temperature", "1.2", "--methods", "two-levels", "--batch",
            batch, "--save", "s.jsonl", rows=VOTES)
        texts.append([row["text"] for row in saved()])
    check(texts[0] == texts[1] == texts[2], "samples depend on the batch")
    run("votes", "--samples", "7", "--temperature", "1.2", "--methods", "two-levels", "--seed", "2",
        "--save", "s.jsonl", rows=VOTES)
    check(texts[0] != [row["text"] for row in saved()], "--seed changes nothing")
    run("votes", "--samples", "3", "--temperature", "0", "--methods", "recompute", "--save",
        "s.jsonl", rows=VOTES)
    check(all(len({s["text"] for s in q}) == 1 for q in samples_by_line(saved())),
          "greedy samples differ")


def test_rules():
    """The last number, and a regular expression; examples in front of the question."""
    rows = [{"question": VOTES[0]["question"], "answer": "Talmira"}]
    run("votes", "--samples", "2", "--temperature", "0", "--methods", "two-levels", "--save",
        "s.jsonl", rows=rows, task={"answer": "(Tal[a-z]+|Ves[a-z]+)"})
    check([s["answer"] for s in saved()] == ["Talmira"] * 2, f"{saved()}")
    plain = {"prompt": "{context}Q: {input}\nA:", "documents": "whole", "chat": "plain"}
    examples = [VOTES[0], {**VOTES[1], "answer": "The tram #### 45"}]
    write("e.jsonl", examples)
    write_text("examples.txt", "".join(f"Q: {e['question']}\nA: {e['answer']}\n\n"
                                       for e in examples))
    lengths = [run("votes", *shared, "--samples", "1", "--methods", "two-levels", rows=VOTES[2:],
                   task=plain, prefix=False)[0][-1]["tokens_prompt"]
               for shared in (["--examples", "e.jsonl", "--shots", "2"],
                              ["--prefix", "examples.txt"])]
    check(lengths[0] == lengths[1], f"examples have other words: {lengths}")


def test_candidates():
    """pass@k is that of the samples; by default texts are compared, blanks apart."""
    rows, _ = run("candidates", "--samples", "9", "--temperature", "1.4", "--k", "1,4,9",
                  "--methods", "two-levels", "--save", "s.jsonl", rows=CANDIDATES)
    questions = samples_by_line(saved())
    scores = check_scores(rows, questions, [None, None])
    check(0 < scores[1] < 100 and scores[1] <= scores[4] <= scores[9], f"scores {scores}")
    for samples, row in zip(questions, CANDIDATES):
        for s in samples:
            check(s["right"] == (s["text"].split() == row["tests"][0]["output"].split()), f"{s}")


def judge(*arguments, rows=None, **more):
    """Which samples are right, and standard error."""
    _, error = run("candidates", "--samples", "2", "--temperature", "0", "--methods", "two-levels",
                   "--save", "s.jsonl", *arguments, rows=rows or CANDIDATES[:1], **more)
    return [s["right"] for s in saved()] if not more.get("code") else None, error


def gone(pid):
    """A killed process is gone soon."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            if f.read().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.02)
    return False


def test_commands():
    """A command's exit code and its output decide; it has folder, problem and few variables."""
    here = os.getcwd()
    check(judge("--checker", f"grep -q '{RIGHT}' && grep -q '{RIGHT}' candidate")[0] == [True] * 2,
          "the candidate as input and as file")
    check(judge("--checker", "! grep -q Talmira candidate")[0] == [False] * 2, "exit code 1")
    check(judge("--checker", "grep -q tests problem.json && [ -z \"$PC_SALT$SECRET\" ] && "
                "[ $PWD = $TMPDIR ] && [ $PWD = $HOME ]")[0] == [True] * 2, "problem, variables")
    tests = [{"input": "a b", "output": "b a"}, {"input": "c d\n", "output": "d  c"}]
    pairs = [{**CANDIDATES[0], "tests": tests}]
    check(judge("--run", "read x y; echo $y $x", rows=pairs)[0] == [True] * 2, "--run")
    check(judge("--run", "read x y; echo $y $x; exit 1", rows=pairs)[0] == [False] * 2,
          "exit code of --run")
    check(judge("--run", "echo b a", rows=pairs)[0] == [False] * 2, "the second test")
    check(judge("--run", "read x y; echo $y $x", "--checker", "false", rows=pairs)[0]
          == [False] * 2, "both")
    check(judge("--checker", f"echo x > {here}/there; pwd > {here}/folder")[0] == [True] * 2, "cwd")
    with open("folder", encoding="utf-8") as f:
        check(not os.path.exists(f.read().strip()), "the folder stays")


def test_bad_commands():
    """Whatever a command does, it ends, and so does what it has started."""
    here = os.getcwd()
    began = time.monotonic()
    right, error = judge("--checker", f"sleep 600 & echo $! > {here}/pid; sleep 600",
                         "--checker-seconds", "0.5")
    check(right == [False] * 2 and "1 out of time" in error, error)
    check(time.monotonic() - began < 60, "a checker that hangs")
    with open("pid", encoding="utf-8") as f:
        check(gone(int(f.read())), "a process of the checker is left")
    right, _ = judge("--checker", f"sleep 600 & echo $! > {here}/pid")
    with open("pid", encoding="utf-8") as f:
        check(right == [True] * 2 and gone(int(f.read())), "a process behind the checker is left")
    right, error = judge("--checker", "kill -9 $$")
    check(right == [False] * 2 and "1 by a signal" in error, error)
    began = time.monotonic()
    right, error = judge("--run", "yes", rows=[{**CANDIDATES[0], "tests": [
        {"input": "", "output": "y"}]}])
    check(right == [False] * 2 and "1 with too much output" in error, error)
    right, error = judge("--checker", "yes | head -c 50000000; yes >&2 | head -c 5; true",
                         "--checker-seconds", "2")
    check(right == [False] * 2 and "1 out of time" in error, error)
    right, error = judge("--checker", "head -c 100000000 /dev/zero > big")
    check(right == [False] * 2, "a file of any size")
    check(time.monotonic() - began < 60, "a checker that floods")
    judge("--checker", "no-such-command", code=3, text="'no-such-command' cannot be run")
    check(not [name for name in os.listdir(os.environ["TMPDIR"])
               if name.startswith("promptcache-check")], "a folder stays")


def test_interrupt():
    """Ctrl-C ends the command too."""
    write("q.jsonl", CANDIDATES[:1])
    os.remove("pid")
    here = os.getcwd()
    with subprocess.Popen(
            command("candidates", "--prefix", "notes.txt", "--samples", "2", "--methods",
                    "two-levels", "--checker",
                    f"echo $$ > {here}/new; mv {here}/new {here}/pid; sleep 600"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not os.path.exists("pid") and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    check(process.returncode == 130 and "interrupted" in error, f"{process.returncode}: {error}")
    with open("pid", encoding="utf-8") as f:
        check(gone(int(f.read())), "the checker outlives Ctrl-C")


def test_faults():
    """Rows, files and flags that are wrong."""
    good = VOTES[0]
    for rows, text in [
            ([good, '{"question": '], "q.jsonl:2: "),
            ([good, "[]"], "q.jsonl:2: not a JSON object"),
            ([good, {"question": "x"}], "q.jsonl:2: answer: "),
            ([{"answer": "1"}], "q.jsonl:1: question: a text is needed; it is missing"),
            ([good, {**good, "answer": "none"}], "q.jsonl:2: answer: it has no number"),
            ([{**good, "answer": ["1"]}], "q.jsonl:1: answer: a text or a number is needed"),
            ([{**good, "context": 1}], "q.jsonl:1: context: a text is needed, not a number"),
            ([{**good, "dataset": "u"}], "q.jsonl:1: dataset: there is no template of 'u'"),
            ([{**good, "context": "word " * 3000}], "q.jsonl:1: the prompt and an answer of"),
            ([], "q.jsonl: there is no question in it")]:
        run("votes", rows=rows, code=3, text=text)
    run("votes", rows=[good], code=3, text="q.jsonl:1: context: there is none", prefix=False)
    run("votes", rows=[good], code=3, text="t.json: t: answer: ", task={"answer": "(a"})
    run("votes", rows=[good], code=3, text="a regular expression is needed", task={"answer": 1})
    write("e.jsonl", [good, {"question": "x", "answer": 3}])
    run("votes", "--examples", "e.jsonl", rows=[good], code=3, text="e.jsonl:2: answer: ")
    write("e.jsonl", [good])
    run("votes", "--examples", "e.jsonl", rows=[good], code=3, text="1 examples, and --shots asks")
    row = CANDIDATES[0]
    for tests, text in [(None, "tests: a list of objects is needed"),
                        ([], "tests: the list is empty"),
                        ([1], "tests: a list of objects is needed, not a number"),
                        ([{"input": ""}], "tests: output: a text is needed; it is missing"),
                        ([{"output": "a"}, {"output": "b"}],
                         "tests: an answer that is not run can have one")]:
        run("candidates", rows=[row, {**row, "tests": tests}], code=3, text="q.jsonl:2: " + text)
    run("candidates", "--run", "true", rows=[row], code=3, text="tests: input: a text is needed")
    run("candidates", "--save", "no/folder", rows=[row], code=3, text="no/folder: ")
    for arguments, text in [
            (["--k", "0"], "--k: 1 to 32"), (["--k", "33"], "--k: 1 to 32"), (["--k", "x"], "--k"),
            (["--methods", "both"], "'both' is none of two-levels"),
            (["--methods", ","], "is none"),
            (["--methods", "no-level,no-level"], "twice"), (["--shots", "2"], "--examples"),
            (["--checker", "true"], "--checker does not go with --format votes"),
            (["--codecs", "raw"], "--codecs does not go with --format votes"),
            (["--samples", "0"], "--samples"), (["--temperature", "-1"], "--temperature")]:
        run("votes", *arguments, rows=[good], code=2, text=text)
    run("candidates", "--checker-seconds", "1", rows=[row], code=2, text="--checker or --run")
    run("pml", "--seed", "1", rows=[good], code=2, text="does not go with --format pml",
        prefix=False)


def test_demo():
    """The demo's questions: the majority of 32 beats one sample."""
    for form, more in (("votes", 24), ("candidates", 16)):
        limit = more if LONG else 4
        done = subprocess.run(
            [PROGRAM, "eval", f"{DEMO}{form}.jsonl", "--format", form, "--templates",
             DEMO + "templates.json", "--prefix", DEMO + "notes.txt", "--limit", str(limit),
             "--model", SOURCE + "/models/demo/demo.gguf", "--methods", "two-levels", "--json"],
            capture_output=True, text=True, check=True)
        scores = [json.loads(line) for line in done.stdout.splitlines()]
        check(scores[0]["score"] > 10, f"{scores}")


def main():
    os.environ["TMPDIR"] = os.getcwd()
    os.environ["SECRET"] = os.environ["PC_SALT"] = "hidden"
    write_text("notes.txt", NOTES)
    for test in (test_faults, test_votes, test_batches, test_rules, test_candidates, test_commands,
                 test_bad_commands, test_interrupt, test_demo):
        test()


run_in_folder(main)

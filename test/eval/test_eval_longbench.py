"""Catches: a runner of LongBench's items that asks something else than the file says, splits or
shortens contexts wrongly, scores otherwise than `predictions`, computes what is cached, asks again
what a file of results has, or takes bad input.

    python3 test_eval_longbench.py SOURCE_FOLDER PROGRAM     (PC_TEST_LONG=1: all demo questions)
"""
import csv
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fail"))
from checking import check, run_in_folder  # pylint: disable=wrong-import-position
import reference_scores as reference  # pylint: disable=wrong-import-position

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
MODEL = SOURCE + "/models/demo/demo.gguf"
LONG = os.environ.get("PC_TEST_LONG") == "1"
DEMO, DEMO_TEMPLATES = (SOURCE + "/examples/longbench/" + name
                        for name in ("demo.jsonl", "demo-templates.json"))
NOTES = ["Employee: Nina Quill. The phone of Nina Quill is 698. The job of Nina Quill is nurse.",
         "City guide: Talmira. The hotel in Talmira is Rain Palace. The dish in Talmira is soup.",
         "Train: Snow Express. The goal of the Snow Express is Talmira."]
QUESTION = "What is the hotel in Talmira?"
TASK = {"prompt": "Answer from the notes.{context}{input}", "metric": "exact", "max_tokens": 24,
        "documents": "paragraphs", "chat": "turns"}
ROW = {"input": QUESTION, "context": "\n\n".join(NOTES), "dataset": "t", "_id": "one",
       "answers": ["The hotel in Talmira is Rain Palace."], "length": 30, "all_classes": None,
       "language": "en"}


def run(*arguments, code=0, text=None, model=MODEL, form="longbench"):
    done = subprocess.run([PROGRAM, "eval", *arguments, "--format", form,
                           *(["--model", model] if model else [])], capture_output=True, text=True,
                          check=False)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr[:300]}")
    if text:
        check(text in done.stderr, f"{arguments}: not '{text}' but '{done.stderr[:300]}'")
        check(not done.stdout, f"{arguments}: an error, and output")
    return done.stdout


def write(name, rows):
    with open(name, "w", encoding="utf-8", errors="surrogateescape") as f:
        for row in rows if isinstance(rows, list) else [rows]:
            f.write((row if isinstance(row, str) else json.dumps(row)) + "\n")


def ask(rows, task=None, *arguments):
    """The rows of results."""
    write("d.jsonl", rows)
    write("t.json", {"t": {**TASK, **(task or {})}})
    if os.path.exists("r.jsonl"):
        os.remove("r.jsonl")
    run("d.jsonl", "--templates", "t.json", "--results", "r.jsonl", "--json", *arguments)
    return results()


def results(path="r.jsonl"):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in list(f)[1:]]


def test_demo():
    """The demo model answers its own questions both ways; the scores are those of the reference.
    Some of the questions: the test of the page asks all of them."""
    with open(DEMO, encoding="utf-8") as f:
        write("demo-part.jsonl", [line.strip() for line in f][::1 if LONG else 3])
    out = run("demo-part.jsonl", "--templates", DEMO_TEMPLATES, "--results", "demo.jsonl", "--json",
              "--modes", "causal,independent,exact,copies")
    rows = [json.loads(line) for line in out.splitlines()]
    check({row["mode"] for row in rows} == {"causal", "independent", "exact", "copies"}, "modes")
    check(len({row["dataset"] for row in rows}) == 4, "data sets")
    for row in rows:
        least = 70 if row["dataset"] == "demo_two_hop" else 95
        check(row["score"] >= least, f"{row}: the score is below {least}")
        check(row["tokens_cached"] == 0 if row["mode"] == "causal"
              else row["tokens_cached"] > 0.9 * row["tokens"], f"{row}: cached")
        check((row["difference"] is None) == (row["mode"] == "causal"), f"{row}: difference")
    with open(DEMO, encoding="utf-8") as f:
        items = {item["_id"]: item for item in map(json.loads, f)}
    for row in results("demo.jsonl"):
        item = items[row["id"]]
        want = reference.best(row["metric"], row["answer"], item["answers"],
                              item["all_classes"] or ())
        check(reference.near(row["score"], want), f"{row}: the reference says {want}")
    return rows


def test_resume(whole):
    """What a file of results has is not asked again; the summary is that of both runs."""
    with open("demo.jsonl", encoding="utf-8") as f:
        lines = list(f)
    kept = len(lines) * 3 // 4
    with open("part.jsonl", "w", encoding="utf-8") as f:
        f.writelines(lines[:kept] + [lines[kept][:25]]) # killed while it wrote
    common = ("--templates", DEMO_TEMPLATES, "--results", "part.jsonl", "--json", "--modes",
              "causal,independent,exact,copies")
    again = [json.loads(line) for line in run("demo-part.jsonl", *common).splitlines()]
    key = lambda row: (row["dataset"], row["mode"], row["items"], round(row["score"], 6))
    check(sorted(map(key, again)) == sorted(map(key, whole)), "the summary of two runs is another")
    with open("part.jsonl", encoding="utf-8") as f:
        check(list(f)[:kept] == lines[:kept], "rows were written anew")
    check(len(results("part.jsonl")) == len(lines) - 1, "rows are missing, or there twice")
    size = os.path.getsize("part.jsonl")
    run("demo-part.jsonl", *common)
    check(os.path.getsize("part.jsonl") == size, "a finished evaluation was asked again")
    run("demo-part.jsonl", *common, "--repair", "full", code=3, text="another run (repair differs)")
    run("demo-part.jsonl", *common, "--max-length", "512", code=3,
        text="another run (max_length differs)")
    os.makedirs("other", exist_ok=True)
    write("other/demo-part.jsonl", [{**ROW, "dataset": "demo_lookup", "_id": "another"}])
    run("other/demo-part.jsonl", *common, code=3,
        text="part.jsonl has results of another item")


def test_results_of_others():
    """Results of other answers, measures or items are not taken for those that are wanted."""
    def score(*arguments, **how):
        return run(*arguments, "--csv", model=None, form="predictions", **how)
    os.makedirs("one", exist_ok=True)
    os.makedirs("two", exist_ok=True)
    write("one/p.jsonl", [{"pred": "The cat sat.", "answers": ["a cat"]},
                          {"pred": "bird", "answers": ["dog"]}])
    write("two/p.jsonl", [{"pred": "cat", "answers": ["a cat"]}, {"pred": "dog",
                                                                  "answers": ["dog"]}])
    score("one/p.jsonl", "two/p.jsonl", "--metric", "f1", code=2,
          text="two files are named p.jsonl")
    common = ("--metric", "f1", "--results", "p.results")
    first = score("one/p.jsonl", *common)
    check(score("one/p.jsonl", *common) == first, "scored twice")
    score("two/p.jsonl", *common, code=3, text="two/p.jsonl:1: p.results has results of another")
    score("one/p.jsonl", "--metric", "exact", "--results", "p.results", code=3,
          text="another run (metric differs)")
    write("t.json", {"t": TASK})
    score("one/p.jsonl", *common, "--templates", "t.json", code=3, text="(templates differs)")
    without = {key: value for key, value in ROW.items() if key != "_id"}
    common = ("d.jsonl", "--templates", "t.json", "--results", "d.results")
    write("d.jsonl", without)
    run(*common)
    write("d.jsonl", {**without, "language": "xx"}) # is not read
    run(*common)
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}! {% endfor %}<|assistant|>"
    run(*common, "--chat-template", template, code=3, text="another run (chat differs)")
    for key, value in (("input", "Why?"), ("context", "x"), ("answers", ["x"]), ("_id", "two"),
                       ("all_classes", ["x"])):
        write("d.jsonl", {**without, key: value})
        run(*common, code=3, text="d.jsonl:1: d.results has results of another item")


def test_damaged_results():
    write("p.jsonl", [{"pred": "x", "answers": ["x"]}] * 2)
    common = ("p.jsonl", "--metric", "f1", "--results", "q.results")
    if os.path.exists("q.results"):
        os.remove("q.results")
    run(*common, model=None, form="predictions")
    with open("q.results", encoding="utf-8") as f:
        about, row, other = list(f)
    for change in ({"item": None}, {"file": 3}, {"line": 1.5}, {"score": "1"}, {"item": 7}):
        write("q.results", [about.strip(), json.dumps({**json.loads(row), **change})])
        run(*common, model=None, form="predictions", code=3,
            text="q.results:2: not a row of results")
    write("q.results", [about.strip(), row[:-1] + "\0" * 40, other.strip()])
    run(*common, model=None, form="predictions", code=3, text="q.results:2: a NUL byte")
    for mine in ("a line that is not ended", "a line\nanother"): # a file of somebody's
        with open("notes", "w", encoding="utf-8") as f:
            f.write(mine)
        run("p.jsonl", "--metric", "f1", "--results", "notes", model=None, form="predictions",
            code=3, text="notes: not a file of results")
        with open("notes", encoding="utf-8") as f:
            check(f.read() == mine, "a file of others was cut")
    with open("q.results", "w", encoding="utf-8") as f:
        f.write(about[:9]) # killed while it wrote its first line
    run(*common, model=None, form="predictions")
    for name, at in (("p.jsonl", 2), ("t.json", 1)):
        write("p.jsonl", [{"pred": "x", "answers": ["x"]}])
        write("t.json", {"t": TASK})
        with open(name, "a", encoding="utf-8") as f:
            f.write("\0" + json.dumps({"pred": "y", "answers": ["x"]}) + "\n")
        run("p.jsonl", "--metric", "f1", "--templates", "t.json", model=None, form="predictions",
            code=3, text=f"{name}:{at}: a NUL byte" if name == "p.jsonl" else f"{name}: a NUL byte")


def test_two_at_once():
    """A file of results is one evaluation's at a time."""
    write("p.jsonl", [{"pred": "x", "answers": ["x"]}])
    write("busy.results", [])
    with open("busy.results", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        run("p.jsonl", "--metric", "f1", "--results", "busy.results", model=None,
            form="predictions", code=3, text="busy.results: another evaluation writes to it")
    run("p.jsonl", "--metric", "f1", "--results", "busy.results", model=None, form="predictions")


def test_documents():
    def count(context, rule):
        return ask({**ROW, "context": context}, {"documents": rule}, "--modes",
                   "independent")[0]["documents"]
    passages = "intro\nPassage 1:\nx\nPassage 22:\ny\nPassage of time:\nPassage : z\n"
    check(count(passages, "Passage #:") == 3, "passages")
    check(count(passages[6:], "Passage #:") == 2, "passages from the first byte on")
    check(count("a\n\nb\n\n\n\nc\r\n\r\nd\n", "paragraphs") == 4, "paragraphs")
    check(count("a\n\nb", "whole") == 1, "whole")
    check(count("\u6587\u7ae01\nx\n\u6587\u7ae02\ny", "\u6587\u7ae0#") == 2, "Chinese")


def test_chat():
    """Each form of chat gives the same tokens in both modes, and answers."""
    for chat in ("message", "turns", "plain"):
        rows = ask(ROW, {"chat": chat})
        check(len(rows) == 2 and rows[0]["tokens"] == rows[1]["tokens"], f"{chat}: tokens")
        check(rows[1]["tokens_cached"] > 40, f"{chat}: {rows[1]['tokens_cached']} cached")
        check(chat != "turns" or rows[1]["score"] == 1, f"{chat}: {rows[1]['answer']}")
        check(rows[0]["documents"] == 3 and not rows[0]["cut"], f"{chat}: documents")
    repaired = ask(ROW, None, "--repair", "full")
    check(repaired[0]["answer"] == repaired[1]["answer"], "repaired in full, another answer")
    check(repaired[1]["tokens_cached"] == 0, "repaired in full, and cached")
    rows = ask({**ROW, "input": ""}, {"prompt": "{context}", "chat": "plain"})
    check(len(rows) == 2, "a prompt without a question")


def test_lines():
    """Stop strings, and the first line of an answer."""
    one = ask(ROW, {"stop": [" is"]}, "--modes", "independent")[0]
    check(one["answer"] == "The hotel in Talmira", f"stopped: {one['answer']}")
    check(ask(ROW, {"max_tokens": 3}, "--modes", "independent")[0]["answer"] in one["answer"],
          "max_tokens")


def test_shorten():
    """A context that is too long loses its middle, as many tokens at either end."""
    many = [f"Timetable: Line {i}. The fare of Line {i} is {i} euros." for i in range(120)]
    many[0], many[60], many[119] = NOTES[0], "City guide: Vesmira. The hotel in Vesmira is Mill "\
        "Court.", NOTES[1]
    row = {**ROW, "context": "\n\n".join(many)}
    rows = ask(row, None, "--max-length", "400")
    check(all(r["cut"] and 340 < r["tokens"] <= 400 - 24 for r in rows), f"{rows}: lengths")
    check(4 < rows[0]["documents"] < 30, f"{rows[0]['documents']} documents are left")
    # the notes at both ends are there, those in the middle are not
    for question, want, there in (("What is the phone of Nina Quill?", "698", True),
                                  ("What is the hotel in Talmira?", "Rain Palace", True),
                                  ("What is the hotel in Vesmira?", "Mill Court", False)):
        got = ask({**row, "input": question}, None, "--max-length", "400", "--modes", "causal")
        check((want in got[0]["answer"]) == there, f"{question} {got[0]['answer']}")
        got = ask({**row, "input": question}, None, "--modes", "causal")
        check(not got[0]["cut"], "there is room for all")
    whole = ask(row, {"documents": "whole"}, "--max-length", "400")
    check(all(r["cut"] and r["documents"] == 1 for r in whole), "one document loses its middle")
    chinese = ask({**ROW, "context": "\u5317\u4eac\u5927\u5b66" * 400}, {"documents": "whole"},
                  "--max-length", "300", "--modes", "causal")
    check(chinese[0]["cut"] and chinese[0]["tokens"] <= 300 - 24, "Chinese, cut between characters")
    # the question alone is too long: the item is skipped and counted
    write("d.jsonl", [{**ROW, "input": "word " * 600}, ROW])
    out = run("d.jsonl", "--templates", "t.json", "--max-length", "200", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    check(all(r["items"] == 1 and r["skipped"] == 1 for r in lines), f"{lines}: skipped")


def test_output():
    write("d.jsonl", [{**ROW, "length": n} for n in (10, 4000, 9000)] + [{**ROW, "length": None}])
    write("t.json", {"t": TASK})
    out = run("d.jsonl", "--templates", "t.json", "--csv", "--by-length", "--modes", "sink")
    rows = list(csv.DictReader(out.splitlines()))
    check([r["lengths"] for r in rows] == ["below 4000", "4000 to 7999", "8000 and more",
                                           "not told"], f"{rows}: lengths")
    check(all(r["score"] == "100" and r["difference"] == "" and float(r["ttft_ms"]) > 0
              for r in rows), f"{rows}: columns")
    table = run("d.jsonl", "--templates", "t.json")
    check("causal          4 100.00       -" in table and "independent     4 100.00   +0.00 100.0%"
          in table, table)
    write("e.jsonl", {**ROW, "dataset": None})
    table = run("d.jsonl", "e.jsonl", "--templates", "t.json", "--dataset", "t", "--limit", "1",
                "--json", "--modes", "gaps")
    check(json.loads(table)["items"] == 2, "two files, one item of each")


def test_bad_rows():
    write("t.json", {"t": TASK, "n": {**TASK, "metric": "count"},
                     "c": {**TASK, "metric": "classification"},
                     "p": {**TASK, "metric": "retrieval"}})
    without = lambda key: {k: v for k, v in ROW.items() if k != key}
    cases = [
        ("{", "d.jsonl:2: "), ("[1]", "d.jsonl:2: not a JSON object"),
        ('{"input": "\udcff"}', "d.jsonl:2: "), # no UTF-8
        ('{"a":' * 3000, "d.jsonl:2: "), ('{"input": "\\u0000"}', "d.jsonl:2: "),
        (without("input"), "d.jsonl:2: input: a text is needed; it is missing"),
        (without("context"), "d.jsonl:2: context: a text is needed; it is missing"),
        (without("answers"), "d.jsonl:2: answers: a list of texts is needed; it is missing"),
        (without("dataset"), "d.jsonl:2: dataset: a text is needed, or --dataset"),
        ({**ROW, "context": 3}, "d.jsonl:2: context: a text is needed, not a number"),
        ({**ROW, "context": ""}, "d.jsonl:2: context: it is empty"),
        ({**ROW, "input": None}, "d.jsonl:2: input: a text is needed, not null"),
        ({**ROW, "answers": []}, "d.jsonl:2: answers: the list is empty"),
        ({**ROW, "answers": "x"}, "d.jsonl:2: answers: a list of texts is needed, not a text"),
        ({**ROW, "answers": [["x"]]}, "d.jsonl:2: answers: a list of texts is needed, not a list"),
        ({**ROW, "answers": ["", ""]}, "d.jsonl:2: answers: all of them are empty"),
        ({**ROW, "length": "long"}, "d.jsonl:2: length: a whole number is needed, not a text"),
        ({**ROW, "dataset": "other"}, "d.jsonl:2: dataset: there is no template of 'other'"),
        ({**ROW, "dataset": "n"}, "d.jsonl:2: answers: answer 1 is not a number"),
        ({**ROW, "dataset": "p"}, "d.jsonl:2: answers: answer 1 has no number"),
        ({**ROW, "dataset": "c"}, "d.jsonl:2: answers: answer 1 is a class, but all_classes"),
        ({**ROW, "dataset": "c", "all_classes": [1]}, "d.jsonl:2: all_classes: a list of texts"),
        ({**ROW, "dataset": "c", "all_classes": "x"}, "d.jsonl:2: all_classes: a list of texts"),
    ]
    for row, text in cases: # found before the model is loaded, and the first row is not asked
        write("d.jsonl", [ROW, row])
        run("d.jsonl", "--templates", "t.json", code=3, text=text, model="nowhere")
    write("d.jsonl", "")
    run("d.jsonl", "--templates", "t.json", code=3, text="d.jsonl: there is no item in it")


def test_bad_templates():
    write("d.jsonl", ROW)
    cases = [
        ("{", "t.json:"), ("[]", "an object with a member for each data set"),
        ("{}", "an object with a member for each data set"), ('{"t": 3}', "t: an object is needed"),
        ({"t": {**TASK, "metric": "bleu"}}, "t: metric: it is none of f1"),
        ({"t": {**TASK, "prompt": "x"}}, "t: prompt: it has no {context}"),
        ({"t": {**TASK, "prompt": "{context}{context}"}}, "t: prompt: {context} is there twice"),
        ({"t": {**TASK, "prompt": "{input}{context}"}}, "t: prompt: {input} must stand behind"),
        ({"t": {**TASK, "max_tokens": 0}}, "t: max_tokens: a number from 1"),
        ({"t": {**TASK, "max_tokens": "9"}}, "t: max_tokens: a number from 1"),
        ({"t": {**TASK, "documents": ""}}, "t: documents: "),
        ({"t": {**TASK, "chat": "loud"}}, "t: chat: it is none of message turns plain"),
        ({"t": {**TASK, "stop": "x"}}, "t: stop: a list of at most 8"),
        ({"t": {**TASK, "stop": [""]}}, "t: stop: its members"),
        ({"t": {**TASK, "first_line": 1}}, "t: first_line: true or false"),
        ({"t": {**TASK, "promt": "x"}}, "t: promt: there is no such key"),
        ({"t": {"prompt": "{context}"}}, "t: prompt, metric and max_tokens are needed"),
    ]
    for file, text in cases:
        write("t.json", file)
        run("d.jsonl", "--templates", "t.json", code=3, text=text)
    run("d.jsonl", "--templates", "nowhere.json", code=3, text="nowhere.json: No such file")


def test_usage():
    write("d.jsonl", ROW)
    write("t.json", {"t": TASK})
    good = ("d.jsonl", "--templates", "t.json")
    run("d.jsonl", code=2, text="--templates is needed")
    run(*good, model=None, code=2, text="--model is needed")
    run("--templates", "t.json", code=2, text="a JSONL file is needed")
    run(*good, "--codecs", "int8", code=2, text="--codecs does not go with --format longbench")
    run(*good, "--compact", code=2, text="--compact does not go with --format longbench")
    run(*good, "--json", "--csv", code=2, text="exclude each other")
    run(*good, "--results", "/nowhere/r", code=3, text="/nowhere/r: cannot be written")
    write("foreign", "hello")
    run(*good, "--results", "foreign", code=3, text="foreign:1: ")
    write("foreign", '{"results": "longbench"}')
    run(*good, "--results", "foreign", code=3, text="foreign:1: these results are of another run")
    with open("foreign", encoding="utf-8") as f:
        check(len(f.read()) < 40, "a file of others was written to")


def test_interrupt():
    """Ctrl-C ends the work with 130; what was answered stays, and the next run goes on."""
    write("many.jsonl", [{**ROW, "dataset": "t", "_id": str(i)} for i in range(4000)])
    write("t.json", {"t": TASK})
    common = ["many.jsonl", "--templates", "t.json", "--results", "many.results", "--model", MODEL,
              "--format", "longbench"]
    with subprocess.Popen([PROGRAM, "eval", *common], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as work:
        while work.poll() is None and (not os.path.exists("many.results")
                                       or os.path.getsize("many.results") < 1000):
            time.sleep(0.05)
        work.send_signal(signal.SIGINT)
        check(": interrupted" in work.stderr.read() and work.wait() == 130, "Ctrl-C")
    done = results("many.results")
    check(0 < len(done) < 8000, f"{len(done)} rows")
    run("many.jsonl", "--templates", "t.json", "--results", "many.results", "--limit", "3")
    check(results("many.results")[:len(done)] == done, "the rows of the first run")


def main():
    whole = test_demo()
    test_resume(whole)
    for test in (test_results_of_others, test_damaged_results, test_two_at_once, test_documents,
                 test_chat, test_lines, test_shorten, test_output, test_bad_rows,
                 test_bad_templates, test_usage, test_interrupt):
        test()


run_in_folder(main)

"""Catches: an example of doc/evaluation.md that does not work, or prints something else than the
page, times apart; a page whose templates have lost a data set of LongBench.

    python3 test_evaluation_page.py SOURCE_FOLDER PROGRAM
"""
import json
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fail"))
from checking import check, run_in_folder  # pylint: disable=wrong-import-position
from link_evaluation import link_evaluation  # pylint: disable=wrong-import-position
from test_pml_document import commands_of  # pylint: disable=wrong-import-position
from page_blocks import blocks_of  # pylint: disable=wrong-import-position

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
SETS = ("narrativeqa qasper multifieldqa_en multifieldqa_zh hotpotqa 2wikimqa musique dureader "
        "gov_report qmsum multi_news vcsum trec triviaqa samsum lsht passage_count "
        "passage_retrieval_en passage_retrieval_zh lcc repobench-p squad").split()


def without_times(text):
    """Times, what is computed from them, and scores that rounding may change."""
    text = re.sub(r"[\d.]+ \([\d.]+ to [\d.]+\)", "TIME", text)
    text = re.sub(r"^demo_(two_hop|reverse).*",
                  lambda row: re.sub(r"[-+]?\d+\.\d+", "N", row[0]), text, flags=re.M)
    text = re.sub(r"^(two-levels|no-level|per-row) .*", r"\1", text, flags=re.M)
    text = re.sub(r"^answers equal: (no|yes .768).*", "answers compared", text, flags=re.M)
    text = re.sub(r"[\d.]+x|#+ [\d.]+|from [\d.]+ to [\d.]+", "GAIN", text)
    return re.sub(r"[ -]+", " ", text).strip()


def main():
    blocks = blocks_of(SOURCE + "/doc/evaluation.md")
    for name in ("models", "examples"):
        os.symlink(os.path.join(SOURCE, name), name)
    link_evaluation(SOURCE)
    env = {**os.environ, "PATH": os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"],
           "PYTHONPATH": os.path.abspath("python"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = 0
    for kind, name, text, _ in blocks:
        if name:
            with open(name, "w", encoding="utf-8") as f:
                f.write(text)
        for command, wanted in commands_of(text) if kind == "console" else []:
            done = subprocess.run(command, shell=True, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            ran += 1
            check(without_times(done.stdout) == without_times(wanted),
                  f"$ {command}\nprints\n{done.stdout}\nthe page says\n{wanted}")
    check(ran >= 7, f"{ran} commands")
    with open("examples/longbench/templates.json", encoding="utf-8") as f:
        check(sorted(json.load(f)) == sorted(SETS), "the data sets of the templates")


run_in_folder(main)

"""Catches: an example schema of the paper's use cases that does not load, has a module that cannot
be used or encoded, lost a part that its use case is about; code in it that does not run.

    python3 test_example_schemas.py SOURCE_FOLDER PROGRAM

(examples/CMakeLists.txt asks each of them twice, the second time from the cache.)
"""
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fail"))
from checking import check, run_in_folder  # pylint: disable=wrong-import-position

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
MODEL = SOURCE + "/models/demo/demo.gguf"
PML = SOURCE + "/examples/pml/"
# Unions and parameters of each.
SCHEMAS = {"code": (0, 0), "travel": (5, 2), "persona": (6, 0), "education": (6, 0),
           "mbti": (4, 0), "game": (2, 2)}


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments, "--model", MODEL], capture_output=True, text=True,
                          check=False)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr}")
    return done.stdout if code == 0 else done.stderr


def paths_of(element, around=()):
    """The path of every module."""
    for child in element:
        if child.tag == "module":
            yield around + (child.get("name"),)
            yield from paths_of(child, around + (child.get("name"),))
        elif child.tag == "union":
            yield from paths_of(child, around)


def prompt_of(name, path):
    text = "<user>Go on.</user>"
    used = "".join(f"<{m}>" for m in path) + "".join(f"</{m}>" for m in reversed(path))
    return f'<prompt schema="{name}">{used}{text}</prompt>'


def test_schema(name):
    schema = f"{PML}{name}.pml"
    root = ET.parse(schema).getroot()
    counts = len(root.findall(".//union")), len(root.findall(".//parameter"))
    check(counts == SCHEMAS[name], f"{name}: {counts} unions and parameters")
    check(f"schema {name}: " in run("show", schema), f"{name}: name")
    for encoding in ("independent", "sink", "joint"):
        run("encode", "--schema", schema, "--disk", "store", "--encoding", encoding)
    whole = json.loads(run("run", "--schema", schema, "--prompt", f"{PML}{name}-prompt.pml",
                           "--json", "--max-tokens", "8"))
    check(whole["tokens_encoded"] > 100 and whole["text"], f"{name}: {whole}")
    # every module alone; the questions of one run share the schema
    with open("each.jsonl", "w", encoding="utf-8") as f:
        for path in paths_of(root):
            f.write(json.dumps({"schema_file": schema, "prompt": prompt_of(name, path),
                                "expect": ""}) + "\n")
    run("eval", "each.jsonl", "--modes", "independent", "--json")


def test_code():
    """The modules are the files of a program that runs."""
    space = {}
    for module in ET.parse(PML + "code.pml").getroot().iter("module"):
        exec(compile(module.text, module.get("name"), "exec"), space) # pylint: disable=exec-used
    board = space["Board"](["o|~", "o~|"])
    heron, pond = space["Heron"](0, 0), space["Pond"](board, 2)
    game = space["Game"](board, heron, pond)
    check([game.turn(way) for way in "nese"] == ["stopped", "caught", "moved", "caught"]
          and game.is_over() and heron.fish == 2 and heron.breath == 9, f"the game: {vars(heron)}")


def test_faults():
    """What the schemas do not allow is refused at its place."""
    with open("long.pml", "w", encoding="utf-8") as f:
        f.write('<prompt schema="travel"><journey duration="as long as the summer lasts and then '
                'some more weeks"/>Go.</prompt>')
    check("duration" in run("run", "--schema", PML + "travel.pml", "--prompt", "long.pml", code=3),
          "an argument that is too long")
    with open("two.pml", "w", encoding="utf-8") as f:
        f.write('<prompt schema="education"><rivers/><verbs/>Go.</prompt>')
    check("union" in run("run", "--schema", PML + "education.pml", "--prompt", "two.pml", code=3),
          "two members of a union")


def main():
    for name in SCHEMAS:
        test_schema(name)
    test_code()
    test_faults()


run_in_folder(main)

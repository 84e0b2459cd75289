#!/usr/bin/env python3
"""Catches: a command or an option that the man pages or the shell completion do not know, a man
page that is not valid roff, a program that does not find promptcache-bench or does not say so.

    python3 test_help.py SOURCE_FOLDER PROMPTCACHE PROMPTCACHE_BENCH
"""
import os
import re
import shutil
import subprocess
import sys

from checking import check, run_in_folder

SOURCE, PROGRAM, BENCH = map(os.path.abspath, sys.argv[1:4])
COMPLETION = os.path.join(SOURCE, "tools", "completion", "promptcache.bash")
EXTERNAL = ("bench", "check", "eval")  # of promptcache: commands of promptcache-bench


def output(*command, code=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    check(done.returncode == code, f"{command}: exit code {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def option_names(text):
    return set(re.findall(r"^(?:  )?(--[a-z0-9-]+)", text, re.M))


def commands(program, path=()):
    """Every command of a program, those of families by their parts."""
    words = output(program, *path, "--words").split("\n")[:-1]
    if words and words[0].startswith("--"):
        return [path]
    check(words, f"{program} {path}: names no command")
    return [found for word in words for found in commands(program, path + (word,))]


def complete(program, *words):
    """What bash offers for the last word."""
    script = (f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _promptcache; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(output("bash", "-c", script, "bash", program, *words).split())


def sections(page):
    """{command: options} of a man page."""
    found = {}
    for part in re.split(r'^\.SS "', page.replace("\\-", "-").replace("\\e", "\\"), flags=re.M)[1:]:
        title, _, text = part.partition("\n")
        found[title] = set(re.findall(r"^\\fB(--[a-z0-9-]+)", text, re.M))
    return found


def check_program(program, left_out=()):
    name = os.path.basename(program)
    page = output(program, "--manual")
    parts = sections(page)
    for path in commands(program):
        text = output(program, *path, "--help")
        options = option_names(text)
        check(options == option_names(output(program, *path, "--words")), f"{path}: --words")
        if path[0] in left_out:
            continue
        titles = [t for t in parts if (t + " ").startswith(" ".join((name,) + path) + " ")]
        check(len(titles) == 1, f"{path}: {len(titles)} sections of the man page")
        check(titles and parts[titles[0]] | {"--help"} == options, f"{path}: options of the page")
    for external in left_out:
        check(any(t.startswith(f"{name} {external} ") for t in parts), f"{external}: on the page")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Kutf8"], input=page, text=True,
                              capture_output=True, check=False)
        check(done.returncode == 0 and not done.stderr, f"{name}.1: {done.stderr[:300]}")


def check_completion(program):
    if not shutil.which("bash"):
        print("without bash")
        return
    for path in commands(program):
        for n in range(len(path)):
            check(path[n] in complete(program, *path[:n], ""), f"completion of {path[:n + 1]}")
        options = option_names(output(program, *path, "--help"))
        check(complete(program, *path, "--") == options, f"completion of the options of {path}")


def check_values():
    raw = complete(PROGRAM, "run", "--codec", "")
    check(raw == {"default", "raw", "zstd", "int8", "int4"}, f"completion of --codec: {raw}")
    check(complete(PROGRAM, "run", "--codec", "=", "z") == {"zstd"}, "completion of --codec=z")
    check(complete(PROGRAM, "bench", "attend", "--dtype", "f") == {"f32", "f16"}, "--dtype f")
    open("here.gguf", "w", encoding="ascii").close()
    os.mkdir("heritage")
    check(complete(PROGRAM, "run", "--model", "her") == {"here.gguf", "heritage"}, "files")
    check(complete(PROGRAM, "run", "--disk", "her") == {"heritage"}, "folders")
    check(complete(PROGRAM, "run", "--text", "her") == set(), "a text has no completion")


def check_start():
    """promptcache starts the program beside it, then that of PATH; both answer for themselves."""
    lone = os.path.join(os.getcwd(), "bin", "promptcache")
    os.mkdir("bin")
    shutil.copy(PROGRAM, lone)
    environment = {k: v for k, v in os.environ.items() if k != "PATH"}
    for command in EXTERNAL:
        done = subprocess.run([lone, command, "--help"], capture_output=True, text=True,
                              env={**environment, "PATH": "/nowhere"}, check=False)
        check(done.returncode == 3 and "not beside this program" in done.stderr,
              f"{command} without promptcache-bench: {done.returncode}, {done.stderr}")
    os.mkdir("path")
    with open("path/promptcache-bench", "w", encoding="ascii") as script:
        script.write('#!/bin/sh\necho "$@"\nexit 42\n')
    os.chmod("path/promptcache-bench", 0o755)
    path = {**environment, "PATH": os.path.abspath("path") + ":/usr/bin:/bin"}
    check(output(lone, "bench", "ttft", "--x", code=42, env=path) == "ttft --x\n", "bench ttft")
    check(output(lone, "eval", "a b", code=42, env=path) == "eval a b\n", "eval 'a b'")
    check(output(lone, "help", "check", code=42, env=path) == "check --help\n", "help check")
    check(output(PROGRAM, "bench", "ttft", "--help", env=path)
          == output(BENCH, "ttft", "--help"), "the program beside it comes first")


def main():
    check_program(PROGRAM, EXTERNAL)
    check_program(BENCH)
    check_completion(PROGRAM)
    check_completion(BENCH)
    check_values()
    check_start()


if __name__ == "__main__":
    run_in_folder(main)

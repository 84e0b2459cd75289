"""Catches: an example of doc/pml.md that does not work or prints something else than the page; a
page without examples.

A block with a file name becomes a file. In a console block a line after "$ " is a command, and the
lines below it are its output.

    python3 test_pml_document.py SOURCE_FOLDER PROGRAM
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from page_blocks import blocks_of  # pylint: disable=wrong-import-position


def commands_of(text):
    """(command, expected output) of a console block."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def main(source, program):
    blocks = blocks_of(os.path.join(source, "doc/pml.md"))
    ran = bad = files = 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(source, "models"), os.path.join(folder, "models"))
        env = {**os.environ, "PATH": os.path.dirname(program) + os.pathsep + os.environ["PATH"]}
        for kind, name, text, _ in blocks:
            if name:
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(text)
                files += 1
            for command, wanted in commands_of(text) if kind == "console" else []:
                run = subprocess.run(command,
                                     shell=True,
                                     cwd=folder,
                                     env=env,
                                     stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT,
                                     text=True,
                                     check=False)
                ran += 1
                if run.stdout.rstrip() != wanted.rstrip():
                    bad += 1
                    print(f"$ {command}\nprints\n{run.stdout}\nthe page says\n{wanted}")
    print(f"{files} files, {ran} commands, {bad} print something else")
    return 1 if bad or files < 4 or ran < 4 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

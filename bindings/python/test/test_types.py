#!/usr/bin/env python3
"""Type hints: mypy --strict of the package and of a program that uses it. Catches: a hint that is
missing or wrong, an option whose keyword a type checker does not know.

usage: test_types.py FOLDER     FOLDER: that holds the package promptcache"""
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import promptcache
import promptcache.evaluation
import promptcache.programs
from promptcache import Batch, Cache, Finish, Model, Prompt, Schema, Sequence

model = Model.load("x.gguf", compute="f32")
schema = Schema.load(model, "x.pml")
prompt = Prompt.load(schema, "y.pml")
cache = Cache(disk_path="z", ram_bytes=1 << 30)
answer = prompt.generate(cache, max_tokens=3, temperature=0.5, stop_strings=["a"],
                         on_text=lambda sample, text: None)
text: str = answer.text
cached: int = answer.stats.tokens_cached
finish: Finish = answer.finish
for piece in prompt.stream(cache, keep=True):
    length: int = len(piece)


async def main() -> None:
    async for piece in prompt.stream(cache):
        print(piece.upper())
    goes_on: bool = await batch.step_async()
    await batch.run_async()


batch = Batch(model)
sequence = batch.add(Sequence(prompt, cache, keep=True))
going_on: bool = batch.step()
tokens: list[int] = sequence.tokens
"""
# Each line is an error that a type checker must find.
WRONG = ['prompt.generate(cache, max_token=3)', 'prompt.generate(cache, max_tokens="3")',
         'Cache(disk_path=3)', 'number: int = answer.text', 'prompt.stream().nothing()']


def mypy(folder, *files):
    options = ["--strict", "--no-error-summary", "--cache-dir", os.path.join(folder, "cache")]
    version = subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True,
                             text=True).stdout.split()[1]
    if tuple(map(int, version.split(".")[:2])) < (1, 7):
        options.append("--enable-incomplete-feature=Unpack")
    # Not PYTHONPATH: mypy says nothing about faults of packages that Python itself finds.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-m", "mypy", *options, *files], capture_output=True,
                          text=True, env={**kept, "MYPYPATH": sys.argv[1]})
    return [line for line in (done.stdout + done.stderr).splitlines() if "error" in line]


def main():
    if subprocess.run([sys.executable, "-m", "mypy", "--version"],
                      capture_output=True).returncode:
        print("skipped: mypy is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        right, wrong = (os.path.join(folder, name) for name in ("right.py", "wrong.py"))
        for path, text in ((right, PROGRAM), (wrong, PROGRAM + "\n".join(WRONG) + "\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        # Modules that the package imports are checked with what imports them.
        found = mypy(folder, right, wrong)
        first = PROGRAM.count("\n") + 1
        faults = [line for line in found if "wrong.py:" not in line]
        faults += [f"not found: {line}" for index, line in enumerate(WRONG)
                   if not any(f"wrong.py:{first + index}: error" in one for one in found)]
        print("\n".join(faults) or "no fault")
        sys.exit(bool(faults))


if __name__ == "__main__":
    main()

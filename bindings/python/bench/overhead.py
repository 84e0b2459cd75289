#!/usr/bin/env python3
"""What Python costs over C: of a call, and of a streamed answer of the demo model.

    overhead.py ROOT BUILD [ROUNDS]

ROOT: of the project. BUILD: its build folder, with the library; PYTHONPATH has the package. Times
the same calls in C (calls.c, compiled here) and in Python, in turns, and prints medians and
quartiles. Calls are timed by the clock of their thread, so that other work of the machine counts
little. Of the answer it prints the time on the wall, and the share that is outside of the library's
steps: what Python takes, with making and ending the stream."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import promptcache
from promptcache import _generate

TOKENS = 200


def spread(values, unit=""):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:9.3f}{unit} ({low:.3f} to {high:.3f})"


def timed(count, call):
    begun = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - begun) / count * 1e9


class Timed:
    """The steps of a stream, with the time that they take."""

    def __init__(self, step):
        self._step, self.seconds = step, 0.0

    def __call__(self, *arguments):
        begun = time.perf_counter()
        status = self._step(*arguments)
        self.seconds += time.perf_counter() - begun
        return status


def in_c(program, files):
    said = subprocess.run([program, *files, "1", str(TOKENS)], check=True, capture_output=True,
                          text=True).stdout
    return {name: float(value) for name, value in map(str.split, said.splitlines())}


def main():
    root, build = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    files = [os.path.join(root, "models/demo/demo.gguf")] + [
        os.path.join(root, "examples/pml", name)
        for name in ("employees.pml", "employees-prompt.pml")]
    model = promptcache.Model.load(files[0])
    schema = promptcache.Schema.load(model, files[1])
    prompt = promptcache.Prompt.load(schema, files[2])
    cache = promptcache.Cache()
    batch = promptcache.Batch(model)
    sequence = batch.add(promptcache.Sequence(prompt, cache, max_tokens=4))
    batch.run()
    text = "What is the desk of Peter Novak?"
    calls = {
        "schema.length": (20000, lambda: schema.length),
        "sequence.finish": (20000, lambda: sequence.finish),
        "sequence.text": (20000, lambda: sequence.text),
        "batch.step": (20000, batch.step),
        "cache.stats": (20000, lambda: cache.stats),
        "model.tokenize": (2000, lambda: model.tokenize(text)),
    }
    c, python, share, outside = {}, {}, [], []
    step = _generate._Run.step
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "calls")
        subprocess.run(["cc", "-O2", "-I", os.path.join(root, "include"), "-o", program,
                        os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.c"),
                        "-L", build, "-lpromptcache", f"-Wl,-rpath,{os.path.abspath(build)}"],
                       check=True)
        for _ in range(rounds):
            for name, value in in_c(program, files).items():
                c.setdefault(name, []).append(value)
            for name, (count, call) in calls.items():
                python.setdefault(name, []).append(timed(count, call))
            timer = _generate._Run.step = Timed(step)
            begun = time.perf_counter()
            pieces = list(prompt.stream(cache, max_tokens=TOKENS, ignore_end=True))
            ended = time.perf_counter() - begun
            python.setdefault("answer", []).append(ended)
            share.append((ended - timer.seconds) / ended * 100)
            outside.append((ended - timer.seconds) / len(pieces) * 1e6)
    print(f"{rounds} rounds; medians, with quartiles")
    for name in calls:
        over = [(b - a) / 1e3 for a, b in zip(c[name], python[name])]
        print(f"{name:16} C {statistics.median(c[name]) / 1e3:8.3f} us, Python over C "
              f"{spread(over, ' us')}")
    print(f"answer of {TOKENS} tokens in {len(pieces)} pieces:")
    print(f"  C      {spread([value * 1e3 for value in c['answer']], ' ms')}")
    print(f"  C, by steps of a batch {spread([value * 1e3 for value in c['steps']], ' ms')}")
    print(f"  Python {spread([value * 1e3 for value in python['answer']], ' ms')}")
    print(f"  outside of the library's steps {spread(share, ' %')}, of a piece "
          f"{spread(outside, ' us')}")


if __name__ == "__main__":
    main()

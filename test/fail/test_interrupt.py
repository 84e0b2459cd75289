"""Catches: Ctrl-C that does not end a command while it reads a model, or ends it as if it had
worked. The signal comes as soon as the command listens, and at later moments.

    python3 test_interrupt.py SOURCE_FOLDER PROGRAM
"""
import os
import signal
import subprocess
import sys
import time

from checking import check, run_in_folder

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
DEMO = os.path.join(SOURCE, "models", "demo", "demo.gguf")


def listens(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            caught = [line.split()[1] for line in file if line.startswith("SigCgt")][0]
    except (OSError, IndexError):
        return False
    return int(caught, 16) >> (signal.SIGINT - 1) & 1


def interrupt(arguments, wait, may_finish):
    """Starts the command and sends it SIGINT. It waits for its input, if it gets that far."""
    with subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        while process.poll() is None and not listens(process.pid):
            time.sleep(0.001)
        time.sleep(wait)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        while process.poll() is None and time.monotonic() - start < 60:
            time.sleep(0.002)
        seconds = time.monotonic() - start
        if process.poll() is None:
            process.kill()
        said = process.stderr.read()
        codes = (130, 0) if may_finish else (130,)
        check(process.returncode in codes,
              f"{arguments} after {wait} s: exit code {process.returncode} after {seconds:.1f} s: "
              f"{said}")
        if process.returncode == 130:
            check(b"nterrupted" in said, f"{arguments}: {said}")


def main():
    for wait in (0, 0.01, 0.05, 0.2):
        interrupt(("tokenize", "--model", DEMO), wait, False)
        interrupt(("info", DEMO), wait, True)


if __name__ == "__main__":
    run_in_folder(main)

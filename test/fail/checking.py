"""The tests in Python that run the programs share this: checks that are counted, and a folder."""
import os
import sys
import tempfile

made = failed = 0


def check(condition, what):
    global made, failed
    made += 1
    if not condition:
        failed += 1
        print("FAILED:", what)


def run_in_folder(main):
    """Runs the test in an empty folder and ends the process by its checks."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
        print(f"checks: {made}, {failed} failed")
        sys.exit(1 if failed else 0)

"""`python -m promptcache` is the program `promptcache`."""
from __future__ import annotations

import os
import shutil
import sys
from typing import Optional


def program() -> Optional[str]:
    """The program beside this package; else the one that PROMPTCACHE_PROGRAM names, or that is in
    PATH."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "promptcache")
    if os.access(beside, os.X_OK):
        return beside
    return os.environ.get("PROMPTCACHE_PROGRAM") or shutil.which("promptcache")


def main() -> int:
    path = program()
    if path is None:
        print("promptcache: this package was built without the program, and none is in PATH",
              file=sys.stderr)
        return 127
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

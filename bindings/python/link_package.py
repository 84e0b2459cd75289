#!/usr/bin/env python3
"""Puts the files of a package into a build folder as symbolic links:

    link_package.py SOURCE TARGET

Links whose file is gone are removed. What the build has made there stays."""
import os
import sys


def main():
    source, target = (os.path.abspath(path) for path in sys.argv[1:3])
    for folder, folders, files in os.walk(target):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.islink(path) and not os.path.exists(path):
                os.unlink(path)
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if name != "__pycache__"]
        made = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(made, exist_ok=True)
        for name in files:
            path, link = os.path.join(folder, name), os.path.join(made, name)
            if os.path.islink(link) and os.readlink(link) == path:
                continue
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(path, link)


if __name__ == "__main__":
    main()

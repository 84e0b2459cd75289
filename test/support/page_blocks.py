"""The fenced blocks of a page, for tests that run what pages show."""
import re
from typing import NamedTuple

FENCED = re.compile(r"^```([^\s`]*) ?([^\n`]*)\n(.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    kind: str  # the language
    name: str  # what stands behind it: a file's name, for one
    text: str
    line: int  # of the fence, from 1


def blocks_of(path):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    return [Block(*found.groups(), page.count("\n", 0, found.start()) + 1)
            for found in FENCED.finditer(page)]

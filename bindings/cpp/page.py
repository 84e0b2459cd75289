#!/usr/bin/env python3
"""Makes programs of the blocks of C++ in a page, or of the example of the header.

    page.py doc/cpp.md OUT             OUT/page.cpp and OUT/results.cpp, OUT/page.txt: what page.cpp
                                       prints (the blocks of text)
    page.py include/promptcache.hpp OUT   OUT/readme.cpp

Blocks of one program stand one behind the other in main, as the page has them; those that begin
with #, class or struct, stand before it. Blocks called `cpp results` are a program
of their own."""
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/support"))
from page_blocks import blocks_of  # pylint: disable=wrong-import-position


def program(blocks):
    before, inside = [], []
    for block in blocks:
        (before if re.match(r"#|class |struct ", block) else inside).append(block)
    lines = "".join(inside).rstrip("\n").split("\n")
    body = "\n".join("    " + line if line else "" for line in lines)
    return ("".join(before)
            + "\nint main(int argc, char **argv)\n{\n    (void)argc;\n" + body + "\n}\n")


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    page, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    if page.endswith(".hpp"):
        with open(page, encoding="utf-8") as file:
            text = file.read()
        example = re.search(r"\[example\]\n(.*?) \* \[/example\]", text, re.S)[1]
        write(folder, "readme.cpp", re.sub(r"^ \* ?(?:  )?", "", example, flags=re.M))
        return
    blocks = {("cpp", ""): [], ("cpp", "results"): [], ("text", ""): []}
    for block in blocks_of(page):
        blocks[block.kind, block.name].append(block.text)
    write(folder, "page.cpp", program(blocks["cpp", ""]))
    write(folder, "results.cpp", program(blocks["cpp", "results"]))
    write(folder, "page.txt", "".join(blocks["text", ""]))


if __name__ == "__main__":
    main()

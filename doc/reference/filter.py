#!/usr/bin/env python3
"""Turns the plain comments of a public header into those that doxygen reads: filter.py HEADER.

A section line makes a group. A comment above a declaration documents it; a comment behind a field
documents that field."""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
stem = re.sub(r"\W", "_", sys.argv[1].rsplit("include/", 1)[-1].removesuffix(".h"))

# The opening comment is the page of the header.
opening = re.search(r"/\*\n \* (promptcache[^\n]*)\n(.*?)\*/", text, re.S)
body = re.sub(r"^ \* ?", "", opening.group(2), flags=re.M)
body = re.sub(r"\[example\](.*?)\[/example\]", r"@code{.c}\1@endcode", body, flags=re.S)
before = f"/** @file\n@brief {opening.group(1).split(': ', 1)[-1]}\n{body}*/\n"
text = before + text[opening.end():]

groups = []


def section(match):
    title = match.group(1)
    if title == "INIT macros":
        return "/** @} */\n/** @cond */"
    name = stem + "_" + "_".join(re.findall(r"[a-z0-9]+", title.lower())[:3])
    groups.append(name)
    end = "/** @} */\n" if len(groups) > 1 else ""
    return f"{end}/** @defgroup {name} {title}\n@{{ */"


text = re.sub(r"/\* ---- (.*?) \*/", section, text, flags=re.S)
# Comments behind fields.
text = re.sub(r"([;,}]|\d|\)) /\* (?!clang-format)(.*?)\*/", r"\1 /**< \2*/", text, flags=re.S)
text = re.sub(r"^( *)/\* (?!clang-format)", r"\1/** ", text, flags=re.M)
text = re.sub(r"^ \* Returns ", " * @return ", text, flags=re.M)
text = re.sub(r"^ \* Handle: ", " * @note Handle: ", text, flags=re.M)
text = text.rstrip() + ("\n/** @endcond */\n" if "@cond" in text else "\n/** @} */\n")
print(text)

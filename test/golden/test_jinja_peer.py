#!/usr/bin/env python3
"""Catches: templates of which the library's interpreter makes something else than Jinja.

    test_jinja_peer.py PROGRAM [SEED [COUNT]]

PROGRAM is run_jinja. Random templates and expressions are run by both: what the library makes must
be what Jinja makes; it may refuse. With PC_TEST_LONG=1 there are many more of them.
"""
import os
import random
import sys

from jinja_peer import Jinja, ask

TALK = [["system", "Be brief."], ["user", " Hi\nthere "], ["assistant", "<think>a</think>Yes?\n"],
        ["user", "Who, b\u00e4r \u01c6 stra\u00dfe A?"], ["assistant", ""], ["user", "x"]]

BATCH = 500  # templates that one process runs

NAMES = ["messages", "m", "x", "y", "ns", "bos_token", "eos_token", "tools", "nothing",
         "add_generation_prompt", "loop", "mac", "lst", "mp", "txt", "it"]
ATTRIBUTES = ["role", "content", "x", "y", "items", "index", "index0", "first", "last", "length",
              "previtem", "nextitem", "nope", "revindex", "upper", "keys", "name"]
STRINGS = ["", "a", "b", "ab", "abc abc", " a b ", "system", "user", "assistant", "content", "role",
           "</think>", "<think>", "\\n", "x\\ty", "\u00e9t\u00e9", "\u01c6ab", "\u0130x", "\u00df",
           "A-b c", "\u2003q\u00a0", "1", "\\x41", "\\u00e9", "\\q", "it\\'s", "Yes?", "{{", "%}"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "count", "first", "last",
           "list", "string", "join", "join(',')", "default('d')", "default('e', true)", "d",
           "replace('a', 'Z')", "replace('a', 'Z', 1)", "map('upper')", "map(attribute='role')",
           "map(attribute='x', default='q')", "selectattr('role', 'equalto', 'user')",
           "selectattr('content')", "rejectattr('role', '==', 'system')", "select", "reject",
           "select('string')", "reject('none')", "items", "join(', ', attribute='role')",
           "trim('a')", "selectattr('x', 'defined')", "select('in', ['a', 'user'])",
           "map('length')", "default(boolean=true, default_value='k')", "replace(1, 2)",
           "trim(none)", "safe"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number",
         "integer", "boolean", "true", "false", "odd", "even", "callable", "equalto('a')", "eq 1",
         "ne 'a'", "in ['a', 1]", "in 'abc'", "== 'user'", "gt 1", "lt('b')", "not defined",
         "not string", "divisibleby 2", "float"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "split()", "split('a')",
           "split('</think>')", "split(' ', 1)", "split(none)", "upper()", "lower()", "title()",
           "capitalize()", "startswith('a')", "startswith(('a', 'b'))", "endswith('b')",
           "endswith(('c', ''))", "replace('a', 'b')", "replace('b', 'c', 1)", "items()", "keys()",
           "values()", "get('role')", "get('x', 'dflt')", "get('x')", "append(1)", "find('b')",
           "count('a')", "join(['a', 'b'])", "pop()", "rstrip('\\n')", "strip(none)", "index('a')",
           "split(sep='a')", "isdigit()"]


class Maker:
    """Makes random templates. `r`: the source of chance."""

    def __init__(self, r):
        self.r = r

    def constant(self):
        r = self.r
        kind = r.randrange(10)
        if kind < 5:
            return "'" + r.choice(STRINGS) + "'"
        if kind < 8:
            return str(r.choice([0, 1, 2, 3, 7, 10, 100]))
        return r.choice(["true", "false", "none", "True", "None", "[]", "{}", "()", "(1,)"])

    def name(self):
        return self.r.choice(NAMES)

    def container(self, depth):
        r, count = self.r, self.r.randrange(4)
        items = [self.expression(depth - 1) for _ in range(count)]
        kind = r.randrange(3)
        if kind == 0:
            return "[" + ", ".join(items) + "]"
        if kind == 1:
            return "(" + ", ".join(items) + ("," if count == 1 else "") + ")"
        return "{" + ", ".join(self.constant() + ": " + i for i in items) + "}"

    def subscript(self, depth):
        r = self.r

        def part():
            return r.choice(["", "", "0", "1", "-1", "2", "-2", self.expression(depth - 2)])
        kind = r.randrange(4)
        if kind == 0:
            return "[" + r.choice(["0", "1", "-1", "'role'", "'content'",
                                   self.expression(depth - 1)]) + "]"
        if kind == 1:
            return "[" + part() + ":" + part() + "]"
        if kind == 2:
            return "[" + part() + ":" + part() + ":" + r.choice(["1", "-1", "2", "-2", ""]) + "]"
        return "." + r.choice(ATTRIBUTES)

    def postfix(self, depth):
        r, text = self.r, self.primary(depth - 1)
        for _ in range(r.randrange(1, 3)):
            kind = r.randrange(4)
            if kind == 0:
                text += "." + r.choice(METHODS)
            else:
                text += self.subscript(depth)
        return text

    def primary(self, depth):
        kind = self.r.randrange(8)
        if depth <= 0 or kind < 3:
            return self.name() if self.r.randrange(2) else self.constant()
        if kind == 3:
            return self.container(depth)
        if kind == 4:
            return "(" + self.expression(depth - 1) + ")"
        if kind == 5:
            return self.r.choice(["range(3)", "range(1, 7, 2)", "namespace(x=1)", "dict(a=1, b=2)",
                                  "messages[0]", "messages[-1]", "messages[1:]", "mac('p')",
                                  "mac(1, b=2)", "mac()", "loop.cycle('a', 'b')"])
        return self.postfix(depth)

    def expression(self, depth):
        r = self.r
        kind = r.randrange(22)
        if depth <= 0 or kind < 5:
            return self.primary(depth)
        sub = self.expression
        if kind < 8:
            return sub(depth - 1) + " | " + r.choice(FILTERS)
        if kind < 10:
            return sub(depth - 1) + " is " + r.choice(TESTS)
        if kind < 12:
            return sub(depth - 1) + r.choice([" + ", " - ", " * ", " ~ ", " ~ ", " // ", " % ",
                                              " ** ", " + "]) + sub(depth - 1)
        if kind < 15:
            text = sub(depth - 1)
            for _ in range(r.choice([1, 1, 1, 2])):
                text += r.choice([" == ", " != ", " < ", " <= ", " > ", " >= ", " in ",
                                  " not in "]) + sub(depth - 1)
            return text
        if kind < 17:
            return sub(depth - 1) + r.choice([" and ", " or "]) + sub(depth - 1)
        if kind == 17:
            return "not " + sub(depth - 1)
        if kind == 18:
            return r.choice(["-", "+"]) + sub(depth - 1)
        if kind < 21:
            other = " else " + sub(depth - 1) if r.randrange(4) else ""
            return sub(depth - 1) + " if " + sub(depth - 1) + other
        return self.postfix(depth)

    def tag(self, text, print_=False):
        r = self.r
        left, right = ("{{", "}}") if print_ else ("{%", "%}")
        signs = ["", "", "", "-", "-", "+" if not print_ else ""]
        return left + r.choice(signs) + " " + text + " " + r.choice(signs) + right

    def text(self):
        return self.r.choice(["", "a", " ", "\n", "  \n", " b\n  ", "<|x|>", "\n\n", "\t",
                              "\u00a0\n", "{", "}", "\r\n", "c "])

    def printed(self, e):
        """What can be printed more often than not: lists cannot."""
        r = self.r
        return r.choice([e, e, "(" + e + ") is " + r.choice(TESTS), "(" + e + ") | length",
                         "[" + e + "] | map('string') | first", "(" + e + ") == "
                         + self.expression(1), "1 if " + e + " else 2", "(" + e + ") | join('+')"])

    def statement(self, depth, loop):
        r = self.r
        kind = r.randrange(16)
        e = self.expression(r.choice([0, 1, 1, 1, 2, 3]))
        if depth <= 0 or kind < 5:
            return self.tag(self.printed(e), True)
        if kind < 7:
            return (self.tag("if " + e) + self.body(depth - 1, loop)
                    + (self.tag("elif " + self.expression(1)) + self.body(depth - 1, loop)
                       if r.randrange(3) == 0 else "")
                    + (self.tag("else") + self.body(depth - 1, loop) if r.randrange(2) else "")
                    + self.tag("endif"))
        if kind < 10:
            over = r.choice(["messages", "messages", "messages[1:]", "range(3)", "'abc'", "lst",
                             "{'a': 1, 'b': 2}.items()", e])
            target = "k, v" if "items()" in over else r.choice(["m", "m", "x", "it"])
            test = " if " + self.expression(1) if r.randrange(4) == 0 else ""
            return (self.tag("for " + target + " in " + over + test) + self.body(depth - 1, True)
                    + (self.tag("else") + self.body(depth - 1, loop) if r.randrange(3) == 0 else "")
                    + self.tag("endfor"))
        if kind < 12:
            return self.tag("set " + r.choice(["x", "y", "txt", "lst", "mp", "ns.x", "ns.y", "x, y",
                                               "it"]) + " = " + e)
        if kind == 12:
            return (self.tag("set " + r.choice(["txt", "x"])) + self.body(depth - 1, False)
                    + self.tag("endset"))
        if kind == 13:
            return (self.tag("macro mac(" + r.choice(["", "a", "a, b=1", "a='q', b=x"]) + ")")
                    + self.body(depth - 1, False) + self.tag("endmacro"))
        if kind == 14 and loop:
            return self.tag(r.choice(["break", "continue"]))
        if kind == 14:
            return "{#" + r.choice(["", "-", "+"]) + " note " + r.choice(["", "-", "+"]) + "#}"
        return self.tag("generation") + self.body(depth - 1, False) + self.tag("endgeneration")

    def body(self, depth, loop):
        made = ""
        for _ in range(self.r.randrange(1, 4)):
            made += self.text() + self.statement(depth, loop)
        return made + self.text()

    def template(self):
        begin = self.r.choice(["", "{% set ns = namespace(x=0, y='') %}",
                               "{% set lst = ['a', 'b', 'c'] %}{% set mp = {'x': 1, 'y': 'z'} %}"])
        return begin + self.body(self.r.choice([0, 1, 2, 3]), False)


def compare(answer, text, talk, generate):
    """0: equal, 1: refused, 2: both refuse, 3: different"""
    jinja = Jinja(text)
    want = jinja.render(talk, "<s>", None, generate)
    if "made" not in answer:
        return 2 if want is None else 1, answer["refused"]
    if want == answer["made"]:
        return 0, ""
    return 3, "%r\n  ours  %r\n  jinja %r\n  %s" % (text, answer["made"], want, jinja.error)


def questions(seed, first, count):
    made = []
    for i in range(first, first + count):
        maker = Maker(random.Random(seed * 1000003 + i))
        text = maker.template()
        made.append((text, TALK[:maker.r.randrange(7)], "<s>", None, maker.r.randrange(2) == 1))
    return made


def main():
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = int(sys.argv[3]) if len(sys.argv) > 3 else \
        200000 if os.environ.get("PC_TEST_LONG") == "1" else 1500
    counts, causes, wrong = [0] * 4, {}, 0
    for first in range(0, count, BATCH):
        batch = questions(seed, first, min(BATCH, count - first))
        for number, (question, answer) in enumerate(zip(batch, ask(program, batch)), first):
            text, talk, _, _, generate = question
            how, cause = compare(answer, text, talk, generate)
            counts[how] += 1
            if how == 1:
                causes[cause] = causes.get(cause, 0) + 1
            if how == 3:
                wrong += 1
                if wrong <= 10:
                    print("different, number %d: %s" % (number, cause))
    print("%d equal, %d refused by the library alone, %d by both, %d different" % tuple(counts))
    if os.environ.get("PC_TEST_VERBOSE"):
        for cause, n in sorted(causes.items(), key=lambda c: -c[1])[:40]:
            print("%6d %s" % (n, cause))
    # a library that refuses all would pass the comparison
    return 1 if wrong or counts[0] < count // 12 else 0


if __name__ == "__main__":
    sys.exit(main())

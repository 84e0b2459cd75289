#!/usr/bin/env python3
"""Prompt programs. Catches: a program whose schema or prompt is not what its source means (compared
with an interpreter of its own, and with PML written by hand); a text that is altered on its way; a
faulty program that is compiled, or whose error names another line or cause; a call with wrong
arguments that makes a prompt; snippets of the page that do not run.

usage: test_programs.py ROOT     ROOT: of the project; PYTHONPATH has the package
PC_TEST_LONG=1: more random programs. PC_TEST_SEED=N: begins with another."""
import collections
import doctest
import linecache
import os
import pickle
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import typing
import unittest
import warnings
from collections.abc import Collection
from typing import Annotated, Literal
from xml.etree import ElementTree

if sys.version_info < (3, 10):
    print("skipped: before 3.10, Python has no match statement")
    sys.exit(77)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import program_meaning as meaning
from program_faults import FAULTS, PRELUDE
from program_meaning import Season
from test_page import blocks_of, run_page

import promptcache
from promptcache import programs
from promptcache.programs import ProgramError

ROOT = sys.argv.pop(1) if len(sys.argv) > 1 else "."
LONG = os.environ.get("PC_TEST_LONG") == "1"
SEED = int(os.environ.get("PC_TEST_SEED", "1"))
KNOWN = {**{name: getattr(programs, name) for name in programs.__all__}, "Annotated": Annotated,
         "Literal": Literal, "Collection": Collection, "Season": Season, "typing": typing}


def run(source, **names):
    """Runs source as a file; gives its names."""
    run.count += 1
    filename = f"<program {run.count}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = {**KNOWN, **names, "__name__": filename}
    exec(compile(source, filename, "exec"), scope)
    return scope


run.count = 0
MODEL_FILE = os.path.abspath(os.path.join(ROOT, "models/demo/demo.gguf"))
MODEL = promptcache.Model.load(MODEL_FILE)


def layout(schema):
    return [(item.kind, item.path, item.depth, item.text, item.start, item.length, item.flags)
            for item in schema.items]


def parts(prompt):
    return [(part.kind, part.path, part.start, list(part.tokens)) for part in prompt.parts]


def outcome(make):
    """What a call gives, or the error that it ends with."""
    try:
        return make()
    except promptcache.Error as error:
        return type(error).__name__


def build(builder, elements):
    """A meaning without PML."""
    for e in elements:
        if e[0] == "text":
            builder.text(e[1])
        elif e[0] == "room":
            builder.parameter(e[1], e[2].length, e[2].scaffold)
        elif e[0] == "module":
            with builder.module(e[1], uncached=not e[2]):
                build(builder, e[3])
        elif e[0] == "union":
            with builder.union(e[1]):
                build(builder, e[2])
        else:
            with builder.turn(e[1]):
                build(builder, e[2])


class Random(unittest.TestCase):
    """Programs against the interpreter of their meaning."""

    def make(self, seed, exact):
        generator = meaning.Generator(seed, exact)
        made = generator.programs()
        writer = meaning.Writer(generator.rng)
        for program in made:
            writer.program(program)
        self.source = "\n".join(writer.lines)
        try:
            compiled = run(self.source)[made[-1].name]
        except SyntaxError as error:
            self.fail(f"seed {seed}: line {error.lineno}: {error}\n{self.source}")
        return generator, made[-1], compiled, meaning.Meaning(made[-1]).root()

    def check_prompts(self, seed, generator, program, compiled, elements, schema, mine):
        for _ in range(6 if LONG else 4):
            values = {name: kind.random_value(generator.rng)
                      for name, kind in program.kinds.items()}
            filled = compiled(**values)
            pml = meaning.prompt_text(program.name, elements, values, program.last)
            wanted = outcome(lambda: parts(promptcache.Prompt.parse(mine, pml)))
            got = outcome(lambda: parts(promptcache.Prompt.parse(schema, filled.pml)))
            self.assertEqual(got, wanted, f"seed {seed}\n{self.source}\n{pml}\n{filled.pml}")
            built = outcome(lambda: parts(filled.prompt(schema)))
            if wanted != "LimitError":  # positions of PML's errors are others
                self.assertEqual(built, wanted, f"seed {seed}\n{self.source}\n{pml}")
            self.count[wanted if isinstance(wanted, str) else "prompts"] = \
                self.count.get(wanted if isinstance(wanted, str) else "prompts", 0) + 1

    def test_meaning(self):
        """Layouts and prompts are those of PML that is written from the same tree."""
        self.count = {}
        for seed in range(SEED, SEED + (3000 if LONG else 300)):
            generator, program, compiled, elements = self.make(seed, exact=False)
            hand = meaning.schema_text(program.name, elements)
            mine = outcome(lambda: promptcache.Schema.parse(MODEL, hand))
            theirs = outcome(lambda: promptcache.Schema.parse(MODEL, compiled.schema))
            built = outcome(lambda: compiled.compile(MODEL))
            if isinstance(mine, str):
                self.assertEqual((theirs, built), (mine, mine), f"seed {seed}\n{self.source}")
                self.count[mine] = self.count.get(mine, 0) + 1
                continue
            wanted = layout(mine)
            for schema in (theirs, built):
                self.assertNotIsInstance(schema, str, f"seed {seed}\n{self.source}\n{hand}")
                self.assertEqual(layout(schema), wanted, f"seed {seed}\n{self.source}\n{hand}"
                                                         f"\n{compiled.schema}")
            self.check_prompts(seed, generator, program, compiled, elements, theirs, mine)
        print(self.count)
        self.assertGreater(self.count["prompts"], 800)

    def test_exact_texts(self):
        """compile() keeps every character; PML is refused, or has the same layout."""
        refused = 0
        for seed in range(10000, 10000 + (600 if LONG else 45)):
            _, program, compiled, elements = self.make(seed, exact=True)
            builder = promptcache.SchemaBuilder(MODEL, program.name)
            build(builder, elements)
            wanted = outcome(lambda: layout(builder.schema()))
            self.assertEqual(outcome(lambda: layout(compiled.compile(MODEL))), wanted,
                             f"seed {seed}\n{self.source}")
            try:
                pml = compiled.schema
            except ProgramError as error:
                refused += 1
                self.assertRegex(error.reason, "^PML ")
                self.assertGreater(error.lineno, 0)
                continue
            self.assertEqual(outcome(lambda: layout(promptcache.Schema.parse(MODEL, pml))), wanted)
        self.assertGreater(refused, 10)


class Faults(unittest.TestCase):
    """Programs that cannot be compiled."""

    def test_line_and_reason(self):
        for reason, parameters, body in FAULTS:
            source = (PRELUDE + f"@prompt_program\ndef faulty({parameters}):\n"
                      + textwrap.indent(body, "    "))
            lines = source.split("\n")
            first = next(n for n, line in enumerate(lines) if line.startswith("def faulty"))
            marked = [n for n, line in enumerate(lines) if line.endswith("#!")] or [first]
            with self.subTest(parameters=parameters, body=body):
                with self.assertRaises(ProgramError) as caught:
                    run(source)
                error = caught.exception
                said = re.sub(r"LINE\+(\d+)", lambda n: str(first + 1 + int(n[1])), reason)
                self.assertRegex(error.reason, said)
                self.assertEqual(error.lineno, marked[0] + 1, error.reason)
                self.assertEqual(error.text, lines[marked[0]])
                self.assertTrue(error.filename.startswith("<program"))
                self.assertTrue(1 <= error.offset <= len(error.text))
        self.assertGreaterEqual(len(FAULTS), 60)


def file(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as text:
        return text.read()


class FromPML:
    """The source of a program that says what a schema says: modules are there if `used` has their
    paths, members of unions are branches of one `if`."""

    def __init__(self, text):
        self.root = ElementTree.fromstring(text)
        self.lines, self.rooms, self.scaffolds = [], {}, []
        self.body(self.root, "", 1)
        words = ["used: Collection[str]", "question: str"] + [
            f"{name}: Annotated[str, {kind}] = ''" for name, kind in self.rooms.items()]
        self.source = "\n".join(
            [f"@prompt_program(name={self.root.get('name')!r})", f"def made({', '.join(words)}):"]
            + self.lines + [f"    scaffold{paths!r}" for paths in self.scaffolds]
            + ["    user(question)", ""])

    def put(self, depth, line):
        self.lines.append("    " * depth + line)

    def say(self, text, behind, before, depth):
        """Text between two elements (None: an end of the one around it), as PML reads blanks."""
        turns = ("system", "user", "assistant")
        if before == "system":
            text = text.rstrip()
        if behind not in turns and text[:1].isspace():
            text = " " + text.lstrip()
        if before not in turns and text[-1:].isspace():
            text = text.rstrip() + " "
        if text:
            self.put(depth, f"text({text!r})")

    def body(self, element, path, depth):
        children = [child for child in element if child.tag != "scaffold"]
        self.scaffolds += [tuple(child.get("modules").split()) for child in element
                           if child.tag == "scaffold"]
        tags = [None] + [child.tag for child in children] + [None]
        texts = [element.text] + [child.tail for child in element if child in children]
        for at, text in enumerate(texts):
            self.say(text or "", tags[at], tags[at + 1], depth)
            if at < len(children):
                self.element(children[at], path, depth)

    def module(self, element, path, depth, word, default=None):
        name = element.get("name")
        self.put(depth, f"{word} {path + name!r} in used:")
        cache = ", cache=False" if element.get("cache") == "false" else ""
        self.put(depth + 1, f"named({name!r}{cache}{', default=True' * (name == default)})")
        before = len(self.lines)
        self.body(element, f"{path}{name}/", depth + 1)
        if len(self.lines) == before:
            self.put(depth + 1, '""')

    def element(self, element, path, depth):
        if element.tag == "module":
            self.module(element, path, depth, "if")
        elif element.tag == "union":
            for at, member in enumerate(element):
                self.module(member, path, depth, "elif" if at else "if", element.get("scaffold"))
            self.put(depth, "else: pass")
        elif element.tag in ("parameter", "param"):
            length = element.get("length") or element.get("len")
            self.rooms[element.get("name")] = f"Text({length}, {element.get('scaffold')!r})"
            self.put(depth, element.get("name"))
        else:
            self.put(depth, f"{element.tag}({element.text!r})")


def used_by(element, path=""):
    """Paths of the modules that a prompt uses, and its arguments."""
    for child in element:
        if child.tag != "user":
            yield path + child.tag, child.attrib
            yield from used_by(child, f"{path}{child.tag}/")


class Examples(unittest.TestCase):
    """Programs that say what the examples of PML say."""

    def check(self, schema, hand, filled, prompt):
        self.assertEqual(layout(schema), layout(hand))
        self.assertEqual(parts(filled.prompt(schema)), parts(prompt))
        self.assertEqual(parts(promptcache.Prompt.parse(hand, filled.pml)), parts(prompt))

    def test_city_guide(self):
        pml = os.path.join(ROOT, "examples/pml")
        hand = promptcache.Schema.load(MODEL, os.path.join(pml, "city-guide.pml"))
        texts = dict(re.findall(r'name="(\w+)">([^<]+)</module>',
                                file("examples/pml/city-guide.pml")))
        guide = run("""
@prompt_program(name="city-guide")
def guide(city: Literal["lisbon", "oslo", "kyoto"], days: Text[4] = "", museum: bool = False,
          cafe: bool = False, train: bool = False, guide: bool = False, question: str = ""):
    system("Answer from the notes.")
    " "
    with module("trip"):
        f"Trip plan. The length of the trip is {days} days. The budget of the trip is 900 euros. "
        "The leader of the trip is Clara Holt."
    " "
    match city:
        case "lisbon":
            named("lisbon")
            TEXTS["lisbon"]
        case "oslo":
            named("oslo")
            TEXTS["oslo"]
        case "kyoto":
            named("kyoto")
            TEXTS["kyoto"]
    " "
    if museum:
        TEXTS["museum"]
    " "
    if cafe:
        TEXTS["cafe"]
    " "
    if train:
        TEXTS["train"]
    " "
    if guide:
        TEXTS["guide"]
    " "
    user(question)
""", TEXTS=texts)["guide"]
        schema = guide.compile(MODEL)
        for name, filled in (
                ("city-guide-prompt.pml",
                 guide("lisbon", "5", True, True, True, True, "What is the hotel in Lisbon?")),
                ("city-guide-days-prompt.pml",
                 guide("kyoto", "12", True, train=True, question="How many days is the trip?"))):
            self.check(schema, hand, filled, promptcache.Prompt.load(hand, os.path.join(pml, name)))
        self.assertEqual(layout(promptcache.Schema.parse(MODEL, guide.schema)), layout(hand))

    def test_employees(self):
        """A loop over data, of which a prompt chooses some."""
        text = re.sub(r">\s+<", "><", file("examples/pml/employees.pml"))
        hand = promptcache.Schema.parse(MODEL, text)
        staff = re.findall(r'name="([\w-]+)">([^<]+)</module>', text)
        employees = run("""
@prompt_program
def employees(chosen: Collection[str], question: str):
    system("Use the notes to answer.")
    for name, text_of in STAFF:
        named(name)
        if name in chosen:
            text_of
    user(question)
""", STAFF=staff)["employees"]
        asked = file("examples/pml/employees-prompt.pml")
        schema = employees.compile(MODEL)
        filled = employees(re.findall(r"<([\w-]+)/>", asked), "What is the desk of Peter Novak?")
        self.check(schema, hand, filled, promptcache.Prompt.parse(hand, asked))
        self.assertEqual(filled.prompt(schema).generate().text, "The desk of Peter Novak is 368.")

    def test_all_schemas(self):
        """Programs that are written from the schemas of examples/pml."""
        folder = os.path.join(ROOT, "examples/pml")
        schemas = sorted(name[:-4] for name in os.listdir(folder)
                         if name.endswith(".pml") and not name.endswith("-prompt.pml"))
        for name in schemas:
            path = os.path.join(folder, name)
            program = run(FromPML(file(path + ".pml")).source)["made"]
            hand = promptcache.Schema.load(MODEL, path + ".pml")
            schema = program.compile(MODEL)
            root = ElementTree.fromstring(file(path + "-prompt.pml"))
            used = dict(used_by(root))
            arguments = {key: text for given in used.values() for key, text in given.items()}
            with self.subTest(schema=name):
                filled = program(list(used), root.find("user").text, **arguments)
                self.check(schema, hand, filled,
                           promptcache.Prompt.load(hand, path + "-prompt.pml"))
        self.assertGreater(len(schemas), 2)

    def test_example(self):
        """examples/python/travel_program.py answers."""
        done = subprocess.run([sys.executable, "examples/python/travel_program.py", MODEL_FILE],
                              cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[-1], "The hotel in Lisbon is Harbor House.")


TRAVEL = """
@prompt_program
def travel(city: Literal["lisbon", "oslo"], season: Season, days: Text[4] = "", *,
           museum: bool = False, chosen: Collection[str] = (), level: Literal[2, True, "x"] = 2,
           question: str = "?"):
    with module("trip"):
        f"A trip of {days} days."
        if days:
            "It is not long."
    if city == "lisbon":
        "Lisbon."
    match season:
        case Season.SPRING:
            "Spring."
    if museum:
        "Museum."
    for name in ("anna", "bob"):
        if name in chosen:
            f"{name} comes."
    match level:
        case True:
            "True."
    f"{question!r:.>5} {level}"
"""


class Calls(unittest.TestCase):
    """Arguments of prompts."""

    def setUp(self):
        self.travel = run(TRAVEL)["travel"]

    def refused(self, kind, reason, *args, **kwargs):
        with self.assertRaises(kind) as caught:
            self.travel(*args, **kwargs)
        self.assertRegex(str(caught.exception), reason)

    def test_modules(self):
        filled = self.travel("lisbon", Season.SPRING, "5", museum=True, chosen={"bob"})
        self.assertEqual(filled.modules, ("trip", "trip/days-2", "city-lisbon", "season-SPRING",
                                          "museum", "name-2"))
        self.assertEqual(filled.arguments["days"], "5")
        self.assertIn("..'?' 2\n", filled.pml)
        filled = self.travel("oslo", Season.WINTER, level=True)
        self.assertEqual(filled.modules, ("trip", "level-True"))
        self.assertNotIn("days=", filled.pml)
        self.assertEqual(filled, self.travel("oslo", Season.WINTER, level=True))
        self.assertNotEqual(filled, self.travel("oslo", Season.WINTER))
        self.assertEqual(len({filled, self.travel("oslo", Season.WINTER, level=True)}), 1)
        self.assertEqual(self.travel.modules[:2], ("trip", "trip/days-2"))

    def test_kinds(self):
        """Every way to write a type, with the values that it takes and those that it does not."""
        for annotation, condition, good, wrong in (
                ("bool", "p", True, 1), ("bool", "p is not False", True, None),
                ("Season", "p is Season.SPRING", Season.SPRING, "spring"),
                ("Season", "p in (Season.SPRING, Season.WINTER)", Season.SPRING, Season),
                ("Literal['a', 'b'] | None", "p == 'a'", "a", "c"),
                ("Literal['a'] | None", "p is None", None, "None"),
                ("typing.Optional[Season]", "p is not None", Season.WINTER, 3),
                ("Literal[1, 2, 3]", "p <= 2", 2, True), ("Literal[2, False]", "p == 2", 2, 0),
                ("Literal[b'a', b'b', 'a']", None, None, None),
                ("list[Season]", "Season.SPRING in p", [Season.SPRING], [3]),
                ("set[Literal[1, 2]]", "1 in p", {1}, {True}),
                ("frozenset[str]", "'a' in p", ["a", "a"], b"a"),
                ("tuple[Literal['a', 'b'], ...]", "'b' not in p", ("a",), ("c",)),
                ("tuple[str, str]", None, None, None), ("dict[str, str]", None, None, None),
                ("typing.Sequence[str]", "'a' in p", iter("a"), 5),
                ("typing.Any", None, None, None), ("int", None, None, None)):
            source = (f"@prompt_program\ndef f(p: {annotation}):\n    if {condition or 'p'}:\n"
                      "        'x'\n    \"\"\n")
            with self.subTest(annotation=annotation):
                if condition is None:
                    with self.assertRaisesRegex(ProgramError, "'p' has the type"):
                        run(source)
                    continue
                compiled = run(source)["f"]
                self.assertEqual(len(compiled(good).modules), 1)
                with self.assertRaises((TypeError, ValueError)):
                    compiled(wrong)

    def test_wrong_arguments(self):
        spring = Season.SPRING
        self.refused(TypeError, r"travel\(\): missing a required argument: 'city'")
        self.refused(TypeError, "unexpected keyword argument 'cities'", "oslo", spring, cities=1)
        self.refused(TypeError, "too many positional", "oslo", spring, "5", True)
        self.refused(ValueError, "'city' cannot be 'rome'; there are 'lisbon', 'oslo'", "rome",
                     spring)
        self.refused(TypeError, "'city' takes str, not bool", True, spring)
        self.refused(TypeError, "'season' takes Season, not str", "oslo", "spring")
        self.refused(TypeError, "'days' takes a str, not int", "oslo", spring, 5)
        self.refused(ValueError, r"'days' has a lone surrogate \(U\+DC80\)", "oslo", spring,
                     "\udc80")
        self.refused(TypeError, "'museum' takes a bool, not int", "oslo", spring, museum=1)
        self.refused(ValueError, "'chosen' cannot have 'eve'; there are 'anna', 'bob'", "oslo",
                     spring, chosen=["eve"])
        self.refused(TypeError, "'chosen' takes a collection of str, not str", "oslo", spring,
                     chosen="anna")
        self.refused(TypeError, "'question' takes a str, not NoneType", "oslo", spring,
                     question=None)

    def test_errors_of_the_library(self):
        """An argument that is too long names its module; a text that is too long, its line."""
        filled = self.travel("oslo", Season.SPRING, "a b c d e f g h")
        with self.assertRaisesRegex(promptcache.PMLError,
                                    "travel: module 'trip': the argument of 'days' has"):
            filled.prompt(self.travel.compile(MODEL))
        long = run("@prompt_program\ndef long():\n    with module('a'):\n"
                   "        'word ' * 3000\n")["long"]
        with self.assertRaises(promptcache.LimitError) as caught:
            long.compile(MODEL)
        self.assertEqual(caught.exception.line, 4)
        self.assertRegex(str(caught.exception), r"^<program \d+>:4:9: the schema spans")

    def test_what_pml_cannot_carry(self):
        odd = run(r"""
@prompt_program
def odd(n: Text[20], q: str):
    with module('m'):
        f"{n}"
        "\x1b, and a bell"
    f"{q}"
""")["odd"]
        with self.assertRaises(ProgramError) as caught:
            odd.schema
        self.assertEqual((caught.exception.lineno, caught.exception.reason),
                         (6, "PML cannot carry U+001B; compile() can: it needs no PML"))
        filled = odd("\0\f", " \n?")
        self.assertEqual([part.kind for part in filled.prompt(odd.compile(MODEL)).parts],
                         [promptcache.PartKind.ARGUMENT, promptcache.PartKind.CACHED,
                          promptcache.PartKind.TEXT])
        with self.assertRaisesRegex(ValueError, r"argument 'm/n': PML cannot carry U\+0000"):
            odd("\0", "x").pml
        with self.assertRaisesRegex(ValueError, "PML drops the blanks"):
            odd("x", " \n?").pml

    def test_blanks_that_pml_alters(self):
        for line, body in ((3, ["text('a\\n')", "if f: 'b'"]), (4, ["if f: 'a'", "'  b'"]),
                           (3, ["if f: 'a\\n'"]), (4, ["text('a ')", "' '", "if f: 'b'"]),
                           (3, ["text('a ')", "system('b')", "if f: 'c'"]),
                           (4, ["system('b')", "'\\t'", "if f: 'c'"]),
                           (4, ["text('a')", "user('\\nb\\n')", "'\\n'", "if f: 'c'"])):
            source = "@prompt_program\ndef p(f: bool):\n    " + "\n    ".join(body) + "\n"
            line += body[0] == "text('a')"
            with self.subTest(source=source):
                made = run(source)["p"]
                with self.assertRaises(ProgramError) as caught:
                    made.schema
                self.assertEqual(caught.exception.lineno, line)
                self.assertRegex(caught.exception.reason, "^PML (makes one space|drops)")
                self.assertGreater(made.compile(MODEL).length, 0)
        kept = run("@prompt_program\ndef p(f: bool):\n    user('\\na\\n')\n    ' '\n"
                   "    if f: ' b '\n    text(' c')\n")["p"]
        self.assertEqual(layout(promptcache.Schema.parse(MODEL, kept.schema)),
                         layout(kept.compile(MODEL)))


class Forms(unittest.TestCase):
    """How programs are defined."""

    def test_scopes(self):
        """Nested functions, closures, annotations as text, aliases, a class's body."""
        names = run("""
from __future__ import annotations
import promptcache.programs as pc
GLOBAL = "of the globals"
def outer(word):
    Choice = Literal["a", "b"]
    @pc.prompt_program
    def part(n: pc.Text[4]):
        f"Part {n} {word}."
    @pc.prompt_program(name="inner-one")
    def inner(c: Choice, n: Annotated[str, pc.Text(3)]):
        pc.system("System.")
        if c == "a":
            f'''Text
at the margin {word}, {GLOBAL}'''
        part(n)
    return inner
class Box:
    @prompt_program
    def inside(flag: bool):
        if flag:
            "x"
first, second = outer("one"), outer("two")
""")
        self.assertIn("at the margin two, of the globals", names["second"].schema)
        self.assertIn("at the margin one, of the globals", names["first"].schema)
        self.assertEqual(names["first"].modules, ("c-a", "part"))
        self.assertEqual(names["first"].name, "inner-one")
        self.assertEqual(names["Box"].inside(True).modules, ("flag",))

    def test_nearest_annotation(self):
        """A type whose name is a text is the one of the function or class around, as in Python."""
        names = run("""
from __future__ import annotations
City = Literal["global"]
def outer():
    City = Literal["function"]
    @prompt_program
    def inner(city: City | None):
        if city == "function":
            "x"
    return inner
class Box:
    City = Literal["class"]
    @prompt_program
    def inside(city: City | None):
        if city == "class":
            "x"
def plain(city: City | None):
    if city == "global":
        "x"
def compiled():
    City = Literal["of another function"]
    return prompt_program(plain)
inner, other = outer(), compiled()
""")
        for program, value in ((names["inner"], "function"), (names["Box"].inside, "class"),
                               (names["other"], "global")):
            self.assertEqual(program(value).modules, (f"city-{value}",))

    def test_method_of_the_same_name(self):
        """A class's body does not hide names from the functions in it."""
        names = run("@prompt_program\ndef hotel(a: bool):\n    if a: 'x'\nclass Box:\n"
                    "    @prompt_program\n    def hotel(a: bool):\n        hotel(a)\n")
        self.assertEqual(names["Box"].hotel(True).modules, ("hotel", "hotel/a"))

    def test_long_sources(self):
        """Work that grows with the square of a file's programs, or doubles with each call in a
        constant."""
        began = time.process_time()
        names = run("".join(f"@prompt_program\ndef p{at}(a: bool):\n    if a: 'x'\n"
                            for at in range(1000)))
        self.assertLess(time.process_time() - began, 4)
        self.assertEqual(names["p999"](True).modules, ("a",))
        began = time.process_time()
        calls = run("@prompt_program\ndef p():\n    text('a'" + ".strip()" * 60 + ")\n    f'{"
                    + "str(" * 40 + "1" + ")" * 40 + "}'\n")
        self.assertLess(time.process_time() - began, 2)
        self.assertIn(">a1<", calls["p"].schema)

    def test_odd_line_ends(self):
        """Cells whose lines were split at characters that Python does not split at."""
        source = ("@prompt_program\ndef p(x: bool, y: bool):\n    text('a\\u2028')\n    'b\u2028'\n"
                  "    if x:\n        'a'\n    elif y:\n        'b'\n")
        filename = "<odd lines>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope = dict(KNOWN)
        exec(compile(source, filename, "exec"), scope)
        self.assertEqual(scope["p"].modules, ("x", "y"))

    def test_texts_of_objects(self):
        """An object is refused for the text that is used, not for another one that it has."""
        made = run("class Shown:\n    def __str__(self):\n        return 'shown'\n"
                   "class Formatted:\n    def __format__(self, how):\n        return 'formatted'\n"
                   "A, B = Shown(), Formatted()\n@prompt_program\ndef p():\n"
                   "    f'{A} {B} {str(A)} {\"at 0x12\"}'\n")["p"]
        self.assertIn(">shown formatted shown at 0x12<", made.schema)
        for use in ("{A!r}", "{[A]}", "{repr(A)}", "{B!s}"):
            with self.assertRaisesRegex(ProgramError, "is its address"):
                run("class Shown:\n    def __str__(self):\n        return 'shown'\n"
                    "class Formatted:\n    def __format__(self, how):\n        return 'x'\n"
                    "A, B = Shown(), Formatted()\n@prompt_program\ndef p():\n"
                    f"    f'{use}'\n")

    def test_surrogate_in_a_scaffold(self):
        with self.assertRaisesRegex(ValueError, r"scaffold has a lone surrogate \(U\+D800\)"):
            programs.Text(4, scaffold="a\ud800")

    def test_wrapped_functions(self):
        for inner in ("functools.lru_cache", "wrapping"):
            with self.assertRaisesRegex(TypeError, "stands directly over a function"):
                run("import functools\ndef wrapping(f):\n    @functools.wraps(f)\n"
                    "    def g():\n        return f()\n    return g\n"
                    f"@prompt_program\n@{inner}\ndef f():\n    'x'\n")
        names = run("def keep(p):\n    return p\n@keep\n@prompt_program\ndef f():\n    text('x')\n")
        self.assertEqual(names["f"].schema, '<schema name="f">x</schema>\n')

    def test_not_a_program(self):
        for source, line, reason in (
                ("def same(f):\n    return f\n@prompt_program\n@same\ndef f():\n    text('x')\n",
                 4, "stands directly over the function"),
                ("f = prompt_program(lambda: 'x')\n", 1, "a lambda"),
                ("@prompt_program\nasync def f():\n    text('x')\n", 2, "async def"),
                ("@prompt_program(name='a b')\ndef f():\n    text('x')\n", 2, "cannot name"),
                ("@prompt_program(name='')\ndef f():\n    text('x')\n", 2, "cannot name")):
            with self.assertRaises(ProgramError) as caught:
                run(source)
            self.assertEqual(caught.exception.lineno, line, source)
            self.assertRegex(caught.exception.reason, reason)
        with self.assertRaisesRegex(ProgramError, "has no source that can be read"):
            exec("@prompt_program\ndef f():\n    text('x')\n", dict(KNOWN))
        with self.assertRaisesRegex(RuntimeError, "only in the source of a prompt program"):
            programs.system("x")
        for length in (0, True, "4", 1 << 25):
            with self.assertRaisesRegex(ValueError, f"from 1 to 16777216, not {length!r}"):
                programs.Text[length]

    def test_changed_file(self):
        """The file is another one than was imported."""
        name = "<changed>"
        linecache.cache[name] = (1, None, ["@prompt_program\n", "def g():\n", "    'x'\n"], name)
        with self.assertRaisesRegex(ProgramError, "not where it was compiled from"):
            exec(compile("@prompt_program\ndef f():\n    text('x')\n", name, "exec"), dict(KNOWN))

    def test_error_in_another_process(self):
        with self.assertRaises(ProgramError) as caught:
            run("@prompt_program\ndef f():\n    while 1: pass\n")
        error, same = caught.exception, pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(same), str(same), same.reason, same.lineno, same.text),
                         (ProgramError, str(error), error.reason, 3, "    while 1: pass"))

    def test_columns(self):
        """Places within f-strings; columns count characters."""
        for line, text in ((5, 'f"""First é\n        two {n}\n         3 {nowhere}"""'),
                           (3, '"üé"; f"Übel {n} "; f"{nowhere}"')):
            with self.assertRaises(ProgramError) as caught:
                run(f"@prompt_program\ndef f(n: Text[4]):\n    text('a'); {text}\n")
            error = caught.exception
            self.assertEqual(error.text[error.offset - 1:error.end_offset - 1], "nowhere")
            self.assertEqual(error.lineno, line)

    def test_quotes(self):
        names = run(r"""
@prompt_program
def f():
    'it\'s' ' "quoted"' r"\d" f'{"in" + 'side'!r} {{braces}} {1.5:.2f}'
    '''triple "one" \'two\' '''
""" if sys.version_info >= (3, 12) else r"""
@prompt_program
def f():
    'it\'s' ' "quoted"' r"\d" f'{"in" + "side"!r} {{braces}} {1.5:.2f}'
    '''triple "one" \'two\' '''
""")
        text = "".join(node.text for node in names["f"]._tree.children)
        self.assertEqual(text, "it's \"quoted\"\\d'inside' {braces} 1.50triple \"one\" 'two' ")

    def test_large(self):
        """1,000 modules of each construct, and the deepest nest."""
        started = time.process_time()
        values = ", ".join(f"'v{n}'" for n in range(1000))
        ifs = "".join(f"    if 'm{n}' in c:\n        'Text {n}.'\n" for n in range(1000))
        same = "".join(f"    if f:\n        'Text {n}.'\n" for n in range(1000))
        chain = "".join(f"    {'elif' if n else 'if'} v == 'v{n}':\n        'Text {n}.'\n"
                        for n in range(999))
        calls = "".join(f"    part('{n}')\n" for n in range(1000))
        names = run(f"""
@prompt_program
def part(n: Text[4]):
    f"Part {{n}}."
@prompt_program
def large(c: Collection[str], f: bool, v: Literal[{values}]):
{ifs}{same}{chain}{calls}    for x in range(1000):
        f"Text {{x}}"
""")
        large = names["large"]
        self.assertEqual(len(large.modules), 1000 + 1000 + 999 + 1000 + 1000)
        self.assertEqual(len(large(["m5", "m999"], True, "v7").modules), 2 + 1000 + 1 + 2000)
        self.assertEqual(large.schema.count("<module "), 4999)
        self.assertLess(time.process_time() - started, 20)

    def test_deep(self):
        deep = "@prompt_program\ndef p0():\n    text('x')\n" + "".join(
            f"@prompt_program\ndef p{n}():\n    p{n - 1}()\n" for n in range(1, 121))
        names = run(deep)
        self.assertEqual(names["p120"].compile(MODEL).items[-1].depth, 120)
        self.assertEqual(layout(promptcache.Schema.parse(MODEL, names["p120"].schema)),
                         layout(names["p120"].compile(MODEL)))
        with self.assertRaisesRegex(ProgramError, "in 'p1', line 6: modules are nested more than"):
            run(deep + "@prompt_program\ndef p121():\n    p120()\n")

    def test_without_the_library(self):
        """Schemas and prompts as PML are made where the library cannot be loaded."""
        code = f"""
import linecache, sys, types
package = types.ModuleType("promptcache")
package.__path__ = {list(promptcache.__path__)!r}
sys.modules["promptcache"] = package
sys.modules["promptcache._raw"] = None
source = '''
from promptcache.programs import *
@prompt_program
def f(n: Text[4], q: str):
    f"{{n}} days."
    user(f"{{q}}")
'''
linecache.cache["f"] = (1, None, source.splitlines(True), "f")
scope = {{}}
exec(compile(source, "f", "exec"), scope)
print(scope["f"].schema + scope["f"]("5", "Where?").pml)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=True)
        self.assertIn('<parameter name="n" length="4"/> days.', done.stdout)
        self.assertIn("<user>Where?</user>", done.stdout)

    def test_doctests(self):
        result = doctest.testmod(programs)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 3)


class Page(unittest.TestCase):
    """doc/programs.md as it stands: a block behind Python is what that prints."""

    def test_page(self):
        before = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, before)
        kinds = [block.kind for block in blocks_of("doc/programs.md")]
        faults, compared = run_page("doc/programs.md", {*kinds} - {"python"})
        self.assertEqual(faults, [])
        self.assertEqual(compared, len(kinds) - kinds.count("python"))  # each stands behind Python
        self.assertGreater(compared, 5)


class Mutations(unittest.TestCase):
    """Random changes to random programs: they are refused in the way of all faults, or mean one
    thing, with PML or without."""

    def mutate(self, rng, lines):
        lines = list(lines)
        at = rng.randrange(len(lines))
        how = rng.randrange(7)
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(rng.randrange(len(lines)), lines[at])
        elif how == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == 3:
            lines[at] = "    " + lines[at] if rng.random() < 0.5 else lines[at][4:]
        elif how == 4:
            words = re.findall(r"[A-Za-z_]\w*|'[^']*'|\d+", "\n".join(lines)) or ["x"]
            old = rng.choice(re.findall(r"[A-Za-z_]\w*|'[^']*'|\d+", lines[at]) or ["x"])
            lines[at] = lines[at].replace(old, rng.choice(words), 1)
        elif how == 5:
            body = rng.choice(FAULTS)[2].replace(" #!", "").split("\n")
            indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
            lines[at:at] = [indent + line for line in body]
        else:
            lines[at] = re.sub(r"[\[\](){}:='\",]",
                               lambda c: rng.choice([c[0], c[0], "", "(", "'"]), lines[at])
        return lines

    def check(self, rng, lines, program):
        source = "\n".join(lines) + "\n"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(source, "<mutation>", "exec")
        except (SyntaxError, ValueError):
            return "no Python"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = run(source)[program.name]
        except ProgramError as error:
            self.assertTrue(error.reason and error.text, source)
            self.assertEqual(error.text, source.split("\n")[error.lineno - 1], source)
            return "refused"
        except Exception as error:
            if "stands directly over a function" in str(error):
                return "refused"
            frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            self.assertFalse({"define", "compile_program"} & set(frames), f"{error!r}\n{source}")
            return "fails by itself"
        if not isinstance(compiled, promptcache.Program):
            return "no program"
        built = outcome(lambda: layout(compiled.compile(MODEL)))
        try:
            parsed = outcome(lambda: layout(promptcache.Schema.parse(MODEL, compiled.schema)))
        except ProgramError as error:
            self.assertRegex(error.reason, "^PML ")
            return "not in PML"
        self.assertEqual(built, parsed, source)
        values = {name: kind.random_value(rng) for name, kind in program.kinds.items()}
        try:
            compiled(**values).pml
        except (TypeError, ValueError):
            return "other parameters"
        return "compiled"

    def test_mutations(self):
        count = collections.Counter()
        for seed in range(SEED + 20000, SEED + 20000 + (600 if LONG else 30)):
            generator = meaning.Generator(seed, deepest=2)
            made = generator.programs()
            writer = meaning.Writer(generator.rng)
            for program in made:
                writer.program(program)
            for _ in range(25):
                lines = writer.lines
                for _ in range(generator.rng.choice([1, 1, 2])):
                    lines = self.mutate(generator.rng, lines)
                count[self.check(generator.rng, lines, made[-1])] += 1
        print(dict(count))
        self.assertGreater(count["refused"], 50)
        self.assertGreater(count["compiled"], 50)


class Types(unittest.TestCase):
    """mypy --strict of the compiler and of a program. Catches: hints that are missing or wrong."""

    def test_types(self):
        version = subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True,
                                 text=True, check=False).stdout
        if not version:
            self.skipTest("mypy is not installed")
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < (1, 7):
            self.skipTest("mypy is older than 1.7, and finds faults where newer ones find none")
        with tempfile.TemporaryDirectory() as folder:
            example = os.path.abspath(os.path.join(ROOT, "examples/python/travel_program.py"))
            wrong = os.path.join(folder, "wrong.py")
            lines = file(example).splitlines() + [
                "travel('rome', '5', question='?')", "travel('oslo', 5, question='?')",
                "days: int = travel('oslo', '5', question='?').pml"]
            with open(wrong, "w", encoding="utf-8") as out:
                out.write("\n".join(lines) + "\n")
            # Modules that the example imports are checked with it.
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports",
                 "--cache-dir", folder, wrong], capture_output=True, text=True, check=False,
                cwd=folder, env={**os.environ,
                                 "MYPYPATH": os.path.dirname(promptcache.__path__[0])})
            found = [line for line in done.stdout.splitlines() if "program" in line]
            self.assertEqual([line for line in found if not line.startswith("wrong.py")], [])
            found = [line for line in done.stdout.splitlines() if line.startswith("wrong.py")]
            self.assertEqual({int(line.split(":")[1]) for line in found},
                             {len(lines) - 2, len(lines) - 1, len(lines)}, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2 if os.environ.get("PC_TEST_VERBOSE") else 1)

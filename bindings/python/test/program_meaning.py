"""Random prompt programs and what they mean, for test_programs.py. Nothing here calls the compiler.

A program is made as a tree of statements. Two things are made of the tree: its Python source, and,
by an interpreter of its own, the elements of its schema, from which PML is written and prompts are
made. Conditions are evaluated as Python evaluates their source."""
import dataclasses
import enum
import random
from xml.sax.saxutils import escape, quoteattr


class Season(enum.Enum):
    """For parameters; the source names it."""
    SPRING = "spring"
    AUTUMN = "autumn"
    WINTER = 3


WORDS = ["the", "hotel", "in", "Lisbon", "Rain Lodge", "notes & more", "<b>", "a < b > c", "]]>",
         "Zürich", "東京", "🙂", "\"quoted\"", "it's", "{x}", "tab\there", "line\nbreak", "&amp;",
         "</module>", "<|end|>", "<s>", "a  b", "\\n", "%d", "é", "'''", '"""', "#", "café"]
LITERALS = [("a", "b"), ("lisbon", "oslo", "kyoto"), (1, 2, 3), (True, "x", 2), ("é e", "z", "z-z"),
            tuple(Season), ("one", 2, "three", 4)]
MEMBERS = ["anna", "bob", "c d", "über"]


@dataclasses.dataclass
class Kind:
    """A parameter: "room" (with a length), "flag", "choice", "set" or "new"."""
    kind: str
    length: int = 0
    values: tuple = ()
    scaffold: str = None

    def annotation(self):
        if self.kind == "room" and self.scaffold is not None:
            return f"Annotated[str, Text({self.length}, scaffold={self.scaffold!r})]"
        if self.kind == "room":
            return f"Text[{self.length}]"
        if self.kind == "choice" and isinstance(self.values[0], Season):
            return "Season"
        if self.kind == "choice":
            return f"Literal[{', '.join(map(repr, self.values))}]"
        return {"flag": "bool", "set": "Collection[str]", "new": "str"}[self.kind]

    def random_value(self, rng):
        if self.kind == "room":
            return rng.choice(["", "5", "a", "7 & 8", "<x>", "\"", "\n", "é", "'"])
        if self.kind == "flag":
            return rng.random() < 0.5
        if self.kind == "choice":
            return rng.choice(self.values)
        if self.kind == "set":
            return rng.sample(self.values, rng.randrange(len(self.values) + 1))
        return rng.choice(["What?", "Where is <it> & why?", "東京 🙂", "a\n\nb"])


def source_of(value):
    return f"Season.{value.name}" if isinstance(value, Season) else repr(value)


def label(value):
    return value.name if isinstance(value, Season) else str(value)


# ---- Statements. A text is a list of pieces: str, ("const", NAME), ("parameter", NAME).

@dataclasses.dataclass
class Say:
    pieces: list


@dataclasses.dataclass
class Let:
    name: str
    value: str


@dataclasses.dataclass
class Name:
    name: str = None
    cache: bool = True
    default: bool = False


@dataclasses.dataclass
class If:
    branches: list          # (condition, body)
    otherwise: list = None


@dataclasses.dataclass
class Match:
    parameter: str
    cases: list             # (values or None, body)


@dataclasses.dataclass
class For:
    names: tuple
    values: list
    body: list
    iterable: str


@dataclasses.dataclass
class With:
    name: str
    cache: bool
    body: list


@dataclasses.dataclass
class Turn:
    role: str
    body: list
    short: bool = False


@dataclasses.dataclass
class Call:
    program: object
    arguments: dict         # name: ("parameter", NAME) or ("value", value)


@dataclasses.dataclass
class Program:
    name: str
    kinds: dict
    body: list
    last: list              # new texts: (role or None, pieces)
    has_turn: bool = False


# ---- Conditions: (operator, ...); the source is what Python evaluates, too.

def condition_source(c):
    op = c[0]
    if op in ("flag", "given"):
        return c[1]
    if op == "not":
        return f"not ({condition_source(c[1])})"
    if op in ("and", "or"):
        return f" {op} ".join(f"({condition_source(part)})" for part in c[1])
    if op == "member":
        return f"{c[1] if c[3] else repr(c[1])} {'not ' if c[4] else ''}in {c[2]}"
    if op in ("in", "not in"):
        return f"{c[1]} {op} ({', '.join(map(source_of, c[2]))},)"
    return f"{c[1]} {op} {source_of(c[2])}"


def condition_name(c, constants):
    op = c[0]
    if op in ("flag", "given"):
        return c[1]
    if op == "not":
        return "not-" + condition_name(c[1], constants)
    if op in ("and", "or"):
        return f"-{op}-".join(condition_name(part, constants) for part in c[1])
    if op == "member":
        return f"{c[2]}-{'not-' if c[4] else ''}{constants[c[1]] if c[3] else c[1]}"
    if op in ("in", "not in"):
        return (f"{c[1]}-{'not-' if op == 'not in' else ''}"
                + "-or-".join(map(label, c[2])))
    words = {"==": "", "!=": "not-", "<": "lt-", ">=": "ge-"}
    return f"{c[1]}-{words[op]}{label(c[2])}"


def subject(c):
    """The parameter of a condition that asks for one value, or for some."""
    return c[1] if c[0] in ("flag", "given", "==", "in") else None


# ---- Source

class Writer:
    """Python text of a program, with the forms of one meaning chosen at random."""

    def __init__(self, rng):
        self.rng = rng
        self.lines = []

    def literal(self, text):
        forms = [repr(text)]
        escaped = text.translate(ESCAPES).replace("'", "\\'")
        if escaped.isprintable():
            forms.append(f"'{escaped}'")
        if '"' not in text and "\\" not in text and text.replace("\n", "").isprintable():
            forms.append('"""' + text + '"""')
        if len(text) > 3:
            forms.append(f"{text[:2]!r} {text[2:]!r}")
        if text and "\\" not in text and "'" not in text and text.isprintable():
            forms.append(f"r'{text}'")
        if text:
            forms.append("f" + repr(text).replace("{", "{{").replace("}", "}}"))
        return self.rng.choice(forms)

    def text(self, pieces):
        if all(isinstance(piece, str) for piece in pieces):
            return self.literal("".join(pieces))
        if len(pieces) == 1:
            return pieces[0][1] if self.rng.random() < 0.5 else f"f'{{{pieces[0][1]}}}'"
        out = []
        for piece in pieces:
            if isinstance(piece, str):
                out.append("f" + repr(piece).replace("{", "{{").replace("}", "}}"))
            else:
                out.append(f"f'{{{piece[1]}}}'")
        return " ".join(out)

    def put(self, depth, line):
        self.lines.append("    " * depth + line)

    def body(self, body, depth):
        if not body:
            self.put(depth, self.rng.choice(["pass", "..."]))
        for statement in body:
            getattr(self, type(statement).__name__)(statement, depth)

    def Say(self, s, depth):
        text = self.text(s.pieces)
        self.put(depth, f"text({text})" if self.rng.random() < 0.2 else text)

    def Let(self, s, depth):
        self.put(depth, f"{s.name} = {s.value!r}")

    def Name(self, s, depth):
        words = [repr(s.name)] if s.name else []
        words += ["cache=False"] * (not s.cache) + ["default=True"] * s.default
        self.put(depth, f"named({', '.join(words)})")

    def If(self, s, depth):
        for at, (condition, body) in enumerate(s.branches):
            self.put(depth, f"{'elif' if at else 'if'} {condition_source(condition)}:")
            self.body(body, depth + 1)
        if s.otherwise is not None:
            self.put(depth, "else:")
            self.body(s.otherwise, depth + 1)

    def Match(self, s, depth):
        self.put(depth, f"match {s.parameter}:")
        for values, body in s.cases:
            pattern = "_" if values is None else " | ".join(map(source_of, values))
            self.put(depth + 1, f"case {pattern}:")
            self.body(body, depth + 2)

    def For(self, s, depth):
        self.put(depth, f"for {', '.join(s.names)} in {s.iterable}:")
        self.body(s.body, depth + 1)

    def With(self, s, depth):
        self.put(depth, f"with module({s.name!r}{'' if s.cache else ', cache=False'}):")
        self.body(s.body, depth + 1)

    def Turn(self, s, depth):
        if s.short:
            self.put(depth, f"{s.role}({self.text(s.body[0].pieces) if s.body else ''})")
        else:
            self.put(depth, f"with {s.role}():")
            self.body(s.body, depth + 1)

    def Call(self, s, depth):
        words = [f"{name}={value[1] if value[0] == 'parameter' else source_of(value[1])}"
                 for name, value in s.arguments.items()]
        self.put(depth, f"{s.program.name}({', '.join(words)})")

    def program(self, program):
        self.put(0, "@prompt_program")
        words = [f"{name}: {kind.annotation()}" for name, kind in program.kinds.items()]
        self.put(0, f"def {program.name}({', '.join(words)}):")
        if self.rng.random() < 0.3:
            self.put(1, '"""What it is for: no text."""')
        elif isinstance(program.body[0], Say):
            self.put(1, f"text({self.text(program.body[0].pieces)})")
            self.body(program.body[1:], 1) if program.body[1:] else None
            self.last(program.last)
            return
        self.body(program.body, 1)
        self.last(program.last)

    def last(self, last):
        for role, pieces in last:
            self.put(1, self.text(pieces) if role is None else f"{role}({self.text(pieces)})")
        self.put(0, "")


ESCAPES = {ord("\n"): "\\n", ord("\t"): "\\x09", ord("\\"): "\\\\", 0xe9: "\\xe9",
           0x1f642: "\\U0001f642"}


# ---- Meaning: ("text", t), ("room", name, kind, source), ("module", name, cached, children, used),
# ("union", default, [modules]), ("turn", role, children). used(values) -> bool.

TAGS = "schema module union parameter param scaffold prompt system user assistant".split()


def clean(text):
    """The name of a module that conditions and values give."""
    decomposed = {"é": "e", "ü": "u", "ö": "o"}
    kept = "".join(decomposed.get(c, c) for c in text)
    kept = "".join(c for c in kept if ord(c) < 128)
    out = ""
    for c in kept:
        good = c.isalnum() or c in "_.-"
        out += c if good else "" if out.endswith("\0") else "\0"
    out = out.replace("\0", "-").strip("-.")[:48]
    return out


class Meaning:
    """The elements that a program stands for."""

    def __init__(self, program, given=None):
        self.program = program
        self.given = given or {name: (name, None) for name in program.kinds}

    def environment(self, values, constants):
        scope = {"Season": Season, **constants}
        for name, (source, constant) in self.given.items():
            scope[name] = values[source] if source else constant
        return scope

    def holds(self, source, constants):
        constants = dict(constants)
        return lambda values: bool(eval(source, self.environment(values, constants)))

    def root(self):
        return self.body(self.program.body, {}, {"root": True, "names": {}, "loops": {}})

    def free_name(self, wanted, scope):
        name, number = clean(wanted), 1
        rooms = [] if scope["root"] else [n for n, k in self.program.kinds.items()
                                          if k.kind == "room"]
        base = name
        while name in scope["names"] or name in TAGS or name in rooms:
            number += 1
            name = f"{base}-{number}"
        scope["names"][name] = True
        return name

    def body(self, body, constants, scope):
        out = []
        for statement in body:
            if isinstance(statement, Let):
                constants = {**constants, statement.name: statement.value}
            elif not isinstance(statement, Name):
                out += getattr(self, type(statement).__name__)(statement, constants, scope)
        return out

    def module(self, body, constants, scope, derived, used=None):
        told = [s for s in body if isinstance(s, Name)]
        children = self.body(body, constants, {"root": False, "names": {}, "loops": {}})
        if told and told[0].name:
            name = told[0].name
            scope["names"][name] = True
        else:
            name = self.free_name(derived, scope)
        cached = not told or told[0].cache
        return ("module", name, cached, children, used or (lambda values: True)), told

    def say(self, pieces, constants):
        out = []
        for piece in pieces:
            if isinstance(piece, str):
                out.append(("text", piece))
            elif piece[0] == "const":
                out.append(("text", str(constants[piece[1]])))
            else:
                source, constant = self.given[piece[1]]
                out.append(("room", piece[1], self.program.kinds[piece[1]], source) if source
                           else ("text", constant))
        return out

    def Say(self, s, constants, scope):
        out = self.say(s.pieces, constants)
        rooms = [e for e in out if e[0] == "room"]
        if rooms and scope["root"]:
            return [("module", self.free_name(rooms[0][1], scope), True, out, lambda values: True)]
        return out

    def If(self, s, constants, scope):
        sources = [condition_source(c) for c, _ in s.branches]
        if len(s.branches) == 1 and s.otherwise is None:
            condition, body = s.branches[0]
            return [self.module(body, constants, scope, condition_name(condition, constants),
                                self.holds(sources[0], constants))[0]]
        members, default = [], None
        names = [condition_name(c, constants) for c, _ in s.branches]
        bodies = [body for _, body in s.branches]
        if s.otherwise is not None:
            subjects = {subject(c) for c, _ in s.branches}
            if len(sources) == 1 and s.branches[0][0][0] in ("flag", "given"):
                names.append("not-" + names[0])
            elif len(subjects) == 1 and None not in subjects:
                names.append(f"{subjects.pop()}-else")
            else:
                names.append(f"{names[0]}-else")
            bodies.append(s.otherwise)
        for at, body in enumerate(bodies):
            earlier = [f"not ({source})" for source in sources[:at]]
            test = " and ".join(earlier + [f"({source})" for source in sources[at:at + 1]])
            if body:
                made, told = self.module(body, constants, scope, names[at],
                                         self.holds(test, constants))
                members.append(made)
                default = made[1] if told and told[0].default else default
        return [("union", default, members)]

    def Match(self, s, constants, scope):
        members, default, seen = [], None, []
        flag = self.program.kinds[s.parameter].kind == "flag"
        for values, body in s.cases:
            # `is_it` compares as match on a Literal does: True is not 1
            test = " or ".join(f"is_it({s.parameter}, {source_of(v)})" for v in values or [])
            test = test or "True"
            whole = f"not ({' or '.join(seen) or 'False'}) and ({test})"
            seen.append(f"({test})")
            if values is None:
                name = f"{s.parameter}-else"
            elif flag:
                name = s.parameter if values == [True] else f"not-{s.parameter}"
            else:
                name = f"{s.parameter}-" + "-or-".join(map(label, values))
            if body:
                made, told = self.module(body, {**constants, "is_it": is_it}, scope, name,
                                         self.holds(whole, {**constants, "is_it": is_it}))
                members.append(made)
                default = made[1] if told and told[0].default else default
        return [("union", default, members)]

    def For(self, s, constants, scope):
        out = []
        for value in s.values:
            bound = dict(constants)
            bound.update(zip(s.names, value if len(s.names) > 1 else [value]))
            scope["loops"][s.names[0]] = scope["loops"].get(s.names[0], 0) + 1
            derived = f"{s.names[0]}-{scope['loops'][s.names[0]]}"
            body, used = list(s.body), None
            rest = [x for x in body if not isinstance(x, (Let, Name))]
            if len(rest) == 1 and isinstance(rest[0], If) and len(rest[0].branches) == 1 \
                    and rest[0].otherwise is None:
                condition, inner = rest[0].branches[0]
                lets = {x.name: x.value for x in body if isinstance(x, Let)}
                used = self.holds(condition_source(condition), {**bound, **lets})
                body = [x for x in body if x is not rest[0]] + inner
            out.append(self.module(body, bound, scope, derived, used)[0])
        return out

    def With(self, s, constants, scope):
        children = self.body(s.body, constants, {"root": False, "names": {}, "loops": {}})
        scope["names"][s.name] = True
        return [("module", s.name, s.cache, children, lambda values: True)]

    def Turn(self, s, constants, scope):
        return [("turn", s.role, self.body(s.body, constants, scope))]

    def Call(self, s, constants, scope):
        given = {}
        for name, (how, what) in s.arguments.items():
            given[name] = self.given[what] if how == "parameter" else (None, what)
        inner = Meaning(s.program, given)
        children = inner.body(s.program.body, {}, {"root": False, "names": {}, "loops": {}})
        name = self.free_name(s.program.name, scope)
        return [("module", name, True, children, lambda values: True)]


def is_it(a, b):
    return type(a) is type(b) and a == b


# ---- PML and builders of a meaning

def schema_text(name, elements):
    def write(e):
        if e[0] == "text":
            return escape(e[1])
        if e[0] == "room":
            more = "" if e[2].scaffold is None else f" scaffold={attribute(e[2].scaffold)}"
            return f'<param name="{e[1]}" len="{e[2].length}"{more}/>'
        if e[0] == "module":
            cache = "" if e[2] else ' cache="false"'
            return f'<module name="{e[1]}"{cache}>{"".join(map(write, e[3]))}</module>'
        if e[0] == "union":
            default = f' scaffold="{e[1]}"' if e[1] else ""
            return f'<union{default}>\n{"".join(write(m) + chr(10) for m in e[2])}</union>'
        return f'<{e[1]}>{"".join(map(write, e[2]))}</{e[1]}>'
    return f'<schema name="{name}">{"".join(map(write, elements))}</schema>'


def attribute(text):
    return quoteattr(text, {"\n": "&#10;", "\t": "&#9;"})


def own(elements, kind):
    """The elements of a kind that belong to one parent, in turns and unions, too."""
    for e in elements:
        if e[0] == kind:
            yield e
        elif e[0] == "turn":
            yield from own(e[2], kind)
        elif e[0] == "union" and kind == "module":
            yield from e[2]


def used_modules(elements, values):
    """(name, arguments, inner) of the modules that a prompt uses."""
    for e in own(elements, "module"):
        if e[4](values):
            yield (e[1], {room[1]: values[room[3]] for room in own(e[3], "room")},
                   list(used_modules(e[3], values)))


def prompt_text(name, elements, values, last):
    def write(use):
        words = "".join(f" {key}={attribute(text)}" for key, text in use[1].items())
        return f'<{use[0]}{words}>{"".join(map(write, use[2]))}</{use[0]}>'
    out = "".join(map(write, used_modules(elements, values)))
    for role, pieces in last:
        text = "".join(piece if isinstance(piece, str) else format(values[piece[1]])
                       for piece in pieces)
        out += escape(text) if role is None else f"<{role}>{escape(text)}</{role}>"
    return f'<prompt schema="{name}">{out}</prompt>'


# ---- Random programs

class Generator:
    """Programs, nested up to `deepest`; their texts are such as PML can carry, unless `exact`."""

    def __init__(self, seed, exact=False, deepest=4):
        self.rng = random.Random(seed)
        self.exact = exact
        self.deepest = deepest
        self.counter = 0

    def number(self):
        self.counter += 1
        return self.counter

    def words(self):
        text = " ".join(self.rng.choice(WORDS) for _ in range(self.rng.randrange(1, 5))).strip()
        if self.exact:
            return self.rng.choice(["", "\n", " ", "\t\n "]) + text + self.rng.choice(
                ["", "\n", "\n\n", "\f", "\0", "\x1b"])
        return text + self.rng.choice(["", "", " "])

    def programs(self):
        """A program, behind those that it calls."""
        called = []
        for at in range(self.rng.choice([0, 0, 1, 1, 2])):
            called.append(self.program(f"part_{at}", called, new_texts=False))
        return called + [self.program(f"whole_{self.rng.randrange(10)}", called, new_texts=True)]

    def program(self, name, called, new_texts):
        self.kinds, self.used, self.called = {}, set(), called
        self.strict = not new_texts  # where it is called, its texts share one module
        self.wild = self.rng.random() < 0.05  # turns anywhere, which chat templates may refuse
        self.next_role = "user"
        for at in range(self.rng.randrange(1, 3)):
            self.kinds[f"room_{at}"] = Kind("room", self.rng.randrange(4, 13), scaffold=(
                self.rng.choice([None, None, "x", ""])))
        for at in range(self.rng.randrange(3)):
            self.kinds[f"flag_{at}"] = Kind("flag")
        for at in range(self.rng.randrange(3)):
            self.kinds[f"choice_{at}"] = Kind("choice", values=self.rng.choice(LITERALS))
        if self.rng.random() < 0.4:
            self.kinds["chosen"] = Kind("set", values=())
        program = Program(name, {}, [], [])
        self.asked, self.has_turn = [], False
        if self.rng.random() < 0.4 and new_texts:
            program.body.append(Turn("system", [Say([self.words().strip()])], short=True))
            self.has_turn = True
        program.body += self.block(0, set(), (), top=True)
        if new_texts and self.rng.random() < 0.6:
            program.last = self.last()
        program.kinds = {key: kind for key, kind in self.kinds.items() if key in self.used}
        if "chosen" in program.kinds:
            program.kinds["chosen"].values = tuple(dict.fromkeys(self.asked))
        program.has_turn = self.has_turn
        return program

    def last(self):
        self.kinds["question"] = Kind("new")
        self.used.add("question")
        role = self.rng.choice(["user", None]) if self.next_role == "user" else None
        pieces = [["Q: "], [("parameter", "question")], [" -"]]
        chosen = self.rng.choice([pieces[1], pieces[0] + pieces[1], sum(pieces, [])])
        out = [(role, chosen)]
        if role == "user" and self.rng.random() < 0.3:
            out = [("user", ["First."]), ("assistant", ["Yes."]), (role, chosen)]
            out[0], out[2] = out[2], out[0]
        return out

    # rooms: names that the open module has; loops: names of constants that can be said
    def block(self, depth, rooms, loops, top=False, turn=False):
        out = []
        for _ in range(self.rng.randrange(1, 4 if depth == 0 else 3)):
            out += self.statement(depth, rooms, loops, turn)
        if not any(isinstance(s, (Say, If, Match, For, With, Call, Turn)) for s in out):
            out.append(Say([self.words()]))
        return out

    def statement(self, depth, rooms, loops, turn):
        make = [self.say, self.say, self.say]
        if depth < self.deepest:
            make += [self.if_, self.if_else, self.loop, self.with_]
            if any(k.kind in ("choice", "flag") for k in self.kinds.values()):
                make.append(self.match)
            if self.called:
                make.append(self.call)
            in_order = depth == 0 and not self.strict
            if not turn and (self.wild or in_order) and self.rng.random() < 0.15:
                make = [self.turn]
        return self.rng.choice(make)(depth, rooms, loops, turn)

    def say(self, depth, rooms, loops, turn):
        out, pieces = [], [self.words()]
        if self.rng.random() < 0.3:
            pieces.append(("const", self.rng.choice(loops))) if loops else None
            pieces.append(self.words())
        if self.rng.random() < 0.15:
            name = f"k{self.number()}"
            out.append(Let(name, self.words()))
            pieces.append(("const", name))
        free = [n for n, k in self.kinds.items() if k.kind == "room" and n not in rooms]
        if free and self.rng.random() < 0.3:
            name = self.rng.choice(free)
            self.used.add(name)
            if depth or self.rng.random() < 0.5:
                pieces.append(("parameter", name))
                pieces += [self.words()] * (self.rng.random() < 0.5)
            else:
                pieces = [("parameter", name)]
            if depth or turn or self.strict:
                rooms.add(name)
        return out + [Say(pieces)]

    def condition(self, loops, simple=False):
        kinds = [n for n, k in self.kinds.items() if k.kind != "new"]
        draw = self.rng.random()
        if not simple and draw < 0.1:
            return ("not", self.condition(loops, True))
        if not simple and draw < 0.25:
            return (self.rng.choice(["and", "or"]),
                    [self.condition(loops, True) for _ in range(self.rng.choice([2, 2, 3]))])
        name = self.rng.choice(kinds)
        kind = self.kinds[name]
        self.used.add(name)
        if kind.kind == "flag":
            return ("flag", name)
        if kind.kind == "room":
            return ("given", name)
        if kind.kind == "set":
            variables = [v for v in loops if v.startswith("who")]
            if variables and draw < 0.7:
                self.asked += MEMBERS
                return ("member", self.rng.choice(variables), name, True, draw < 0.35)
            self.asked.append(self.rng.choice(MEMBERS))
            return ("member", self.asked[-1], name, False, draw < 0.4)
        value = self.rng.choice(kind.values)
        ordered = all(type(v) is int for v in kind.values)
        if draw < 0.3 and ordered and value != min(kind.values):
            return (self.rng.choice(["<", ">="]), name, value)
        if draw < 0.5:
            return (self.rng.choice(["in", "not in"]), name,
                    self.rng.sample(kind.values, self.rng.randrange(1, len(kind.values))))
        return (self.rng.choice(["==", "==", "!="]), name, value)

    def inner(self, depth, loops, member=False, turn=False):
        body = self.block(depth + 1, set(), loops, turn=turn)
        if self.rng.random() < 0.2:
            told = Name(f"n{self.number()}" if self.rng.random() < 0.7 else None,
                        cache=self.rng.random() < 0.7)
            lets = [s for s in body[:1] if isinstance(s, Let)]
            body[len(lets):len(lets)] = [told]
        return body

    def if_(self, depth, rooms, loops, turn):
        return [If([(self.condition(loops), self.inner(depth, loops, turn=turn))])]

    def with_default(self, bodies):
        full = [body for body in bodies if body]
        if full and self.rng.random() < 0.3:
            body = self.rng.choice(full)
            told = [s for s in body if isinstance(s, Name)]
            if not told:
                body.insert(0, Name())
                told = body[:1]
            told[0].default = True

    def if_else(self, depth, rooms, loops, turn):
        branches = [(self.condition(loops), self.inner(depth, loops, turn=turn))
                    for _ in range(self.rng.choice([1, 1, 2, 3]))]
        if len(branches) > 1 and self.rng.random() < 0.3:
            otherwise = None
        elif self.rng.random() < 0.15:
            otherwise = []
        else:
            otherwise = self.inner(depth, loops, turn=turn)
        self.with_default([body for _, body in branches] + [otherwise or []])
        return [If(branches, otherwise)]

    def match(self, depth, rooms, loops, turn):
        name = self.rng.choice([n for n, k in self.kinds.items() if k.kind in ("choice", "flag")])
        self.used.add(name)
        values = list(self.kinds[name].values or (True, False))
        self.rng.shuffle(values)
        cases = []
        while values and (not cases or self.rng.random() < 0.8):
            count = 1 if self.kinds[name].kind == "flag" else self.rng.choice([1, 1, 2])
            cases.append((values[:count], self.inner(depth, loops, turn=turn)))
            values = values[count:]
        if self.rng.random() < 0.5:
            cases.append((None, self.inner(depth, loops, turn=turn)
                          if self.rng.random() < 0.7 else []))
        self.with_default([body for _, body in cases])
        return [Match(name, cases)]

    def loop(self, depth, rooms, loops, turn):
        who = "chosen" in self.kinds and self.rng.random() < 0.6
        base = "who" if who else self.rng.choice(["x", "item", "größe"])
        name = f"{base}{self.number()}"
        if who:
            values, iterable = MEMBERS, repr(tuple(MEMBERS))
        else:
            values, iterable = self.rng.choice([
                ([0, 1, 2], "range(3)"), (["a", "b"], "'a', 'b'"), (list("xy"), "'xy'"),
                ([7], "[7]"), ([1, 2], "sorted({2, 1})")])
        names = (name,)
        if self.rng.random() < 0.2:
            names = (f"i{self.number()}", name)
            values = list(enumerate(values))
            iterable = f"enumerate(({iterable}))"
        body = self.inner(depth, loops + names, turn=turn)
        if self.rng.random() < 0.4:
            body = [If([(self.condition(loops + names), body)])]
        rest = [s for s in body if not isinstance(s, (Let, Name))]
        if len(rest) == 1 and isinstance(rest[0], If) and len(rest[0].branches) == 1 \
                and rest[0].otherwise is None:
            body = [s for s in body if not isinstance(s, Name)]  # the `if` may have one
        if len(values) > 1:
            forget_names(body)
        return [For(names, values, body, iterable)]

    def with_(self, depth, rooms, loops, turn):
        body = [s for s in self.inner(depth, loops, turn=turn) if not isinstance(s, Name)]
        return [With(f"w{self.number()}", self.rng.random() < 0.8, body)]

    def turn(self, depth, rooms, loops, turn):
        self.has_turn = True
        role = self.next_role
        self.next_role = "user" if role == "assistant" else "assistant"
        if self.rng.random() < 0.4:
            return [Turn(role, [Say([self.words()])], short=True)]
        return [Turn(role, self.turn_block(depth, rooms, loops))]

    def turn_block(self, depth, rooms, loops):
        out = []
        for _ in range(self.rng.randrange(1, 3)):
            out += self.statement(depth, rooms, loops, True)
        return out

    def call(self, depth, rooms, loops, turn):
        program = self.rng.choice(self.called)
        if turn and program.has_turn:
            return [Say([self.words()])]
        self.has_turn |= program.has_turn
        arguments = {}
        for name, kind in program.kinds.items():
            mine = [n for n, k in self.kinds.items() if self.may_pass(k, kind)]
            if mine and self.rng.random() < 0.7:
                arguments[name] = ("parameter", self.rng.choice(mine))
                self.used.add(arguments[name][1])
                if kind.kind == "set":
                    self.asked += kind.values
            elif kind.kind == "set":
                arguments[name] = ("value", tuple(kind.random_value(self.rng)))
            elif kind.kind == "room":
                arguments[name] = ("value", self.words().strip())
            else:
                arguments[name] = ("value", kind.random_value(self.rng))
        return [Call(program, arguments)]

    @staticmethod
    def may_pass(mine, theirs):
        if mine.kind != theirs.kind:
            return False
        if mine.kind == "room":
            return mine.length <= theirs.length
        return mine.kind != "choice" or all(any(is_it(v, w) for w in theirs.values)
                                            for v in mine.values)


def forget_names(body):
    """In a loop's body and its single `if`, names would be the same in every round."""
    for statement in body:
        if isinstance(statement, Name):
            statement.name = None
        if isinstance(statement, If) and len(statement.branches) == 1:
            forget_names([s for s in statement.branches[0][1] if isinstance(s, Name)])

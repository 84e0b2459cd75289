"""Faulty prompt programs for test_programs.py: what the error must say, the parameters, the body.
The error must name the line that ends with '#!'; without one, the line of `def`. LINE in a reason
is that line."""

# Names that the programs see.
PRELUDE = '''
import dataclasses, math, random
FIRST = True
PLACES = ("lisbon", "oslo")
ORDERLESS = {"a", "b"}
class Thing:
    pass
THING = Thing()
@dataclasses.dataclass
class Holder:
    held: object
PAIR = (1, {"a": THING})
HOLDING, HELD_SET, BOUND = Holder(THING), [Holder(ORDERLESS)], type("T", (), {
    "__repr__": lambda self: f"<T of {THING!r}>"})()
class Unready:
    def __iter__(self):
        raise RuntimeError("not ready")
    def __repr__(self):
        raise RuntimeError("not ready")
UNREADY = Unready()
ONCE = iter("ab")
UNKNOWN_YET: str
def helper(x="a"):
    return x
@prompt_program
def hotel(name: Text[8], stars: Literal[3, 4] = 4):
    f"The hotel {name}."
    if stars == 3:
        "Three stars."
@prompt_program
def ask(question: str):
    "About hotels."
    user(f"{question}")
@prompt_program
def people(who: Collection[Literal["anna", "bob"]]):
    if "anna" in who:
        "Anna."
@prompt_program
def anyone(who: Collection[str]):
    if "carl" in who:
        "Carl."
@prompt_program
def turned():
    user("Hello")
@prompt_program
def scaffolded():
    with module("a"):
        "A"
    with module("b"):
        "B"
    scaffold("a", "b")
'''

FAULTS = [
    # ---- statements
    ("'while'", "a: bool", "while a: #!\n    'x'"),
    ("'return'", "", "'doc'\n'text'\nreturn 'x' #!"),
    ("'try'", "", "text('a')\ntry: #!\n    'x'\nfinally:\n    'y'"),
    ("'raise'", "", "text('a')\nraise ValueError #!"),
    ("'assert'", "a: bool", "text('a')\nassert a #!"),
    ("'del'", "", "x = 1\ndel x #!\ntext('a')"),
    ("'global'", "", "global FIRST #!\ntext('a')"),
    ("'import'", "", "import os #!\ntext('a')"),
    ("'import'", "", "from os import path #!\ntext('a')"),
    ("'def'", "", "def inner(): #!\n    pass\ntext('a')"),
    ("'class'", "", "class Inner: #!\n    pass\ntext('a')"),
    ("'break'", "", "for x in PLACES:\n    f'{x}'\n    break #!"),
    ("'continue'", "", "for x in PLACES:\n    f'{x}'\n    continue #!"),
    ("'yield'", "", "text('a')\nyield 'x' #!"),
    ("one value|variable that changes", "", "x = 'a'\nx += 'b' #!\ntext(x)"),
    ("has a value already \\(line LINE+1\\)", "", "x = 'a'\nx = 'b' #!\ntext(x)"),
    ("has a value already", "", "x = 'a'\nfor x in PLACES: #!\n    f'{x}'"),
    ("is a parameter and cannot be assigned", "a: bool", "a = True #!\nif a:\n    'x'"),
    ("is a parameter: its value is not known", "a: bool", "b = a #!\nif a:\n    'x'"),
    ("only names can be assigned", "", "THING.x = 1 #!\ntext('a')"),
    ("cannot unpack a Unready: not ready", "", "a, b = UNREADY #!\ntext(a)"),
    ("cannot unpack 2 values to 3", "", "a, b, c = PLACES #!\ntext(a)"),
    # ---- text
    ("no text: its first string is the docstring", "", "'only this' #!"),
    ("no text", "", "pass #!"),
    ("this is a int, not text", "", "text('a')\n42 #!"),
    ("this is a tuple, not text", "", "text('a')\nPLACES #!"),
    ("'nowhere' is not known", "", "text('a')\nf'{nowhere}' #!"),
    ("'UNKNOWN_YET' is not known", "", "text('a')\nf'{UNKNOWN_YET}' #!"),
    ("ZeroDivisionError", "", "text('a')\nf'{1 / 0}' #!"),
    ("'random.random' cannot be compiled", "", "text('a')\nf'{random.random()}' #!"),
    ("'helper' cannot be compiled", "", "text(helper()) #!"),
    ("'helper' is no prompt program", "", "text('a')\nhelper() #!"),
    ("'print' is not known", "", "text('a')\nprint('x') #!"),
    ("a comprehension", "", "text(' '.join(x for x in PLACES)) #!"
     .replace("x for x in PLACES", "[x for x in PLACES]")),
    ("a generator", "", "text(' '.join(x for x in PLACES)) #!"),
    ("a lambda", "", "text('a')\nf = lambda: 'x' #!"),
    ("':='", "", "text(x := 'a') #!"),
    ("lone surrogate \\(U\\+D800\\)", "", "text('a')\n'b \\ud800' #!"),
    ("its address", "", "text('a')\nf'{THING}' #!"),
    ("the order of a set", "", "text('a')\nf'{ORDERLESS}' #!"),
    ("the order of a set", "", "text(', '.join(ORDERLESS)) #!"),
    ("the order of a set", "", "text(str([ORDERLESS])) #!"),
    ("the order of a set", "", "text('a')\n'%s' % ORDERLESS #!"),
    ("its address", "", "text('{}'.format(THING)) #!"),
    ("its address", "", "text('a')\nf'{PAIR}' #!"),
    ("its address", "", "text('a')\nf'{HOLDING}' #!"),
    ("the order of a set", "", "text('a')\nf'{HELD_SET}' #!"),
    ("its address", "", "text('a')\nf'{BOUND}' #!"),
    ("with key=, equal ones keep the order of the set", "",
     "for x in sorted(ORDERLESS, key=len): #!\n    f'{x}'"),
    ("with key=", "", "text(max(ORDERLESS, key=len)) #!"),
    ("is an iterator", "", "for x in ONCE: #!\n    f'{x}'"),
    ("is an iterator", "", "for x in enumerate(ONCE): #!\n    f'{x}'"),
    ("'b' cannot have this format", "q: str, c: Literal['b']", "f'{q}'\nf'{c:d}' #!"),
    ("lone surrogate", "q: str, c: Literal['a', '\\ud800']", "f'{q}'\nf'{c}' #!"),
    ("private", "", "text(THING.__doc__ or 'x') #!"),
    ("depends on the parameter 'n'", "n: Text[4]", "with module('m'):\n    f'{n.upper()}' #!"),
    ("without a format", "n: Text[4]", "with module('m'):\n    f'{n:>10}' #!"),
    ("depends on the parameter 'n'", "n: Text[4]", "with module('m'):\n    'a' + n #!"),
    ("depends on the parameter 'a'", "a: bool", "text('x' if a else 'y') #!"),
    ("value only in the branch or loop", "a: bool",
     "if a:\n    x = 'b'\n    f'{x}'\nf'{x}' #!"),
    ("value only in the branch or loop", "", "for x in PLACES:\n    f'{x}'\nf'{x}' #!"),
    # ---- parameters
    ("'a' has no type", "a", "f'{a}'"),
    ("'a' has no length: write Text\\[16\\]", "a: Text", "f'{a}'"),
    ("has no length", "a: Annotated[str, Text]", "f'{a}'"),
    ("write Text\\[3\\]", "a: Text(3)", "f'{a}'"),
    ("has the type float", "a: float", "if a > 1:\n    'x'"),
    ("has a length, so it is a str", "a: Annotated[int, Text(3)]", "f'{a}'"),
    ("'\\*rest': every parameter", "*rest: str", "text('a')"),
    ("'\\*\\*rest': every parameter", "**rest: str", "text('a')"),
    ("'größe' cannot name a parameter", "größe: Text[4]", "f'{größe}'"),
    ("has the values 1 and True, which are equal", "a: Literal[1, True]", "if a == 1:\n    'x'"),
    ("has the values 0 and False, which are equal", "a: set[Literal[0, False]]",
     "if 0 in a:\n    'x'"),
    ("'a' is not used", "a: bool", "text('x')"),
    ("the default of 'a': it takes a bool, not int", "a: bool = 1", "if a:\n    'x'"),
    ("the default of 'c': it cannot be 'c'", "c: Literal['a', 'b'] = 'c'",
     "if c == 'a':\n    'x'"),
    ("the type of 'a' cannot be computed: NameError", "a: 'Nothing'", "if a:\n    'x'"),
    ("used twice in one module \\(line LINE+2\\)", "n: Text[4]",
     "with module('m'):\n    f'{n}'\n    f'{n}' #!"),
    ("'q' has no length: in a module write q: Text\\[16\\]", "q: str",
     "with module('m'):\n    f'{q}' #!"),
    ("stands behind new text", "q: str, a: bool", "f'{q}'\nif a: #!\n    'x'"),
    ("a turn with new text", "q: str, a: bool",
     "text('x')\nwith user():\n    f'{q}'\n    if a: #!\n        'x'"),
    ("is a choice and no text", "c: Literal['a', 'b']", "text('x')\nf'{c}' #!"),
    # ---- conditions
    ("has no parameter, so it is the same", "", "text('x')\nif FIRST: #!\n    'y'"),
    ("has no parameter, so it is the same", "",
     "for x in PLACES:\n    if x == 'oslo': #!\n        'y'"),
    ("a call in a condition", "", "text('x')\nif helper(): #!\n    'y'"),
    ("compares a parameter with constants", "c: Literal['a', 'b']",
     "if c.startswith('a'): #!\n    'y'"),
    ("'c' cannot be 'z'; there are 'a', 'b'", "c: Literal['a', 'b']", "if c == 'z': #!\n    'y'"),
    ("'c' takes str, not int", "c: Literal['a', 'b']", "if c == 1: #!\n    'y'"),
    ("is always true", "c: Literal['a', 'b']", "if c in ('a', 'b'): #!\n    'y'"),
    ("is never true", "c: Literal[1, 2]", "if c > 5: #!\n    'y'"),
    ("is a choice: compare it with a value", "c: Literal['a', 'b']", "if c: #!\n    'y'"),
    ("is a collection: ask for a member", "c: Collection[str]", "if c: #!\n    'y'"),
    ("'c' cannot have 'z'", "c: set[Literal['a', 'b']]", "if 'z' in c: #!\n    'y'"),
    ("texts cannot depend on what it is", "n: Text[4]", "if n == 'x': #!\n    f'{n}'"),
    ("a chain of comparisons", "c: Literal[1, 2, 3]", "if 1 < c < 3: #!\n    'y'"),
    ("two parameters are compared", "c: Literal[1, 2], d: Literal[1, 2]",
     "if c == d: #!\n    'y'"),
    ("must stand by itself on the left", "c: Literal[1, 2, 3]", "if c + 1 == 2: #!\n    'y'"),
    ("match needs a parameter", "", "match FIRST: #!\n    case True:\n        'y'"),
    ("match needs a Literal", "n: Text[4]", "match n: #!\n    case 'a':\n        f'{n}'"),
    ("a case with 'if'", "c: Literal['a', 'b'], d: bool",
     "match c:\n    case 'a' if d: #!\n        'y'"),
    ("a case is a value", "c: Literal['a', 'b']", "match c:\n    case other: #!\n        'y'"),
    ("'c' cannot be 'z'", "c: Literal['a', 'b']", "match c:\n    case 'z': #!\n        'y'"),
    ("has a case already", "c: Literal['a', 'b']",
     "match c:\n    case 'a':\n        'y'\n    case 'a': #!\n        'z'"),
    ("no branch has text", "a: bool", "text('x')\nif a: #!\n    pass\nelse:\n    pass"),
    ("the module has no text", "a: bool", "text('x')\nif a: #!\n    pass"),
    # ---- loops
    ("loop over a constant", "c: Collection[str]", "for x in c: #!\n    f'{x}'"),
    ("the order of a set", "", "for x in ORDERLESS: #!\n    f'{x}'"),
    ("cannot be looped over", "", "for x in 7: #!\n    f'{x}'"),
    ("'else' of a loop", "", "for x in PLACES:\n    f'{x}'\nelse:\n    'y' #!"),
    ("'math.factorial' cannot be compiled", "", "for x in math.factorial(3): #!\n    f'{x}'"),
    # ---- names, modules, turns
    ("a module 'm' is there already \\(line LINE+1\\)", "",
     "with module('m'):\n    'x'\nwith module('m'): #!\n    'y'"),
    ("a module 'm' is there already", "a: bool",
     "if a:\n    named('m')\n    'x'\nelse:\n    named('m') #!\n    'y'"),
    ("cannot name a module", "", "with module('9 lives'): #!\n    'x'"),
    ("a Unready cannot name a module", "", "with module(UNREADY): #!\n    'x'"),
    ("is a tag of PML", "", "with module('union'): #!\n    'x'"),
    ("takes a name, cache", "", "with module(): #!\n    'x'"),
    ("cache is True or False", "", "with module('m', cache=1): #!\n    'x'"),
    ("stands in a with", "", "text('x')\nmodule('m') #!"),
    ("named\\(\\) stands once", "", "named('x') #!\n'x'"),
    ("named\\(\\) stands once", "a: bool", "if a:\n    'x'\n    named('m') #!"),
    ("default=True is for a member of a union", "a: bool",
     "if a:\n    named(default=True) #!\n    'x'"),
    ("has a default already", "a: bool", "if a:\n    named(default=True)\n    'x'\nelse:\n"
     "    named(default=True) #!\n    'y'"),
    ("has the name of a module beside it", "n: Text[4]",
     "with module('m'):\n    with module('n'):\n        'x'\n    f'{n}' #!"),
    ("a turn in a turn", "", "with user():\n    assistant('x') #!"),
    ("a turn in a turn", "", "with user():\n    turned() #!"),
    ("not in both", "", "with user('x'): #!\n    'y'"),
    ("'with' is for module", "", "text('x')\nwith open('f'): #!\n    'y'"),
    ("without 'as'", "", "with module('m') as m: #!\n    'x'"),
    ("'user' takes one text", "", "user('x', 'y') #!"),
    ("there is no module 'n'", "", "with module('m'):\n    'x'\nscaffold('m', 'n') #!"),
    ("two modules or more", "", "with module('m'):\n    'x'\nscaffold('m') #!"),
    ("named twice", "", "with module('m'):\n    'x'\nscaffold('m', 'm') #!"),
    ("stands directly in the program", "", "with module('m'):\n    'x'\n    scaffold('m', 'm') #!"),
    # ---- calls of programs
    ("calls itself", "", "text('x')\nfaulty() #!"),
    ("missing a required argument: 'name'", "", "hotel() #!"),
    ("unexpected keyword argument 'rooms'", "", "hotel('x', rooms=3) #!"),
    ("'stars' of 'hotel' cannot be 5; there are 3, 4", "", "hotel('x', 5) #!"),
    ("'name' of 'hotel' takes a str, not int", "", "hotel(3) #!"),
    ("'n' may have 9 tokens, 'name' of 'hotel' takes 8", "n: Text[9]", "hotel(n) #!"),
    ("'q' has no length, and 'name' of 'hotel' has 8", "q: str", "hotel(q) #!"),
    ("is of another kind", "a: bool", "hotel(a) #!"),
    ("may be 5, which 'stars' of 'hotel' cannot be", "s: Literal[4, 5]", "hotel('x', s) #!"),
    ("depends on the parameter 'n'", "n: Text[4]", "hotel(n + 'x') #!"),
    ("'question' of 'ask' has no length", "n: Text[4]", "ask(n) #!"),
    ("'who' of 'people' cannot have 'carl'", "", "people(['carl']) #!"),
    ("'who' of 'anyone' cannot have 'carla'; there is 'carl'", "", "anyone(['carla']) #!"),
    ("asks for 'carl', which 'w' cannot have", "w: set[Literal['anna']]", "anyone(w) #!"),
    ("'\\*': write the arguments", "", "hotel(*PLACES) #!"),
    ("'\\*\\*': write the arguments", "", "hotel(**{}) #!"),
    ("has a scaffold", "", "scaffolded() #!"),
    ("'later' is not known", "", "text('x')\nlater() #!"),
]

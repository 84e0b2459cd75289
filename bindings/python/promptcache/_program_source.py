"""The source of a prompt program: finding it, places in it, and the constants that it names."""
from __future__ import annotations

import ast
import builtins
import collections.abc
import dataclasses
import functools
import inspect
import linecache
import re
import textwrap
import types
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, NoReturn, Sequence, cast

from ._program_language import Place, ProgramError

Function = types.FunctionType

_FUNCTIONS: dict[str, object] = {
    name: getattr(builtins, name)
    for name in ("abs bool chr dict enumerate float format int len list max min ord range repr "
                 "reversed round sorted str sum tuple zip").split()}
_PURE = list(_FUNCTIONS.values()) + [textwrap.dedent, textwrap.indent, textwrap.fill,
                                     inspect.cleandoc]
# What they give does not depend on the order of a set, but with key=, which may hold two equal.
_ORDERLESS = (len, max, min, sorted)
_ADDRESS = re.compile(" at 0x[0-9A-Fa-f]+")
_METHODS = {dict: {"items", "keys", "values", "get"}, list: {"index", "count"},
            tuple: {"index", "count"}}

_CONSTANT_NODES = (
    ast.Constant, ast.Name, ast.Load, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp,
    ast.operator, ast.UnaryOp, ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop,
    ast.IfExp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr, ast.FormattedValue,
    ast.Call, ast.keyword)

_REFUSED: dict[type[ast.AST], str] = {
    ast.Await: "'await': a program is compiled, not run",
    ast.Yield: "'yield': a program is compiled, not run",
    ast.YieldFrom: "'yield from': a program is compiled, not run",
    ast.Lambda: "a lambda: a program has no functions of its own",
    ast.NamedExpr: "':=' would make a variable: assign constants in statements of their own",
    ast.ListComp: "a comprehension: compute the list outside of the program, as a constant",
    ast.SetComp: "a comprehension: compute the set outside of the program, as a constant",
    ast.DictComp: "a comprehension: compute the dict outside of the program, as a constant",
    ast.GeneratorExp: "a generator: compute the list outside of the program, as a constant",
    ast.Starred: "'*': write the arguments one by one",
}


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def refusal(node: ast.AST) -> str:
    """Why an expression of this kind cannot be compiled."""
    return _REFUSED.get(type(node), f"an expression of the kind {type(node).__name__} cannot be "
                                    "compiled")


@dataclass(frozen=True)
class Source:
    """A file, and the definition of one function in it."""

    filename: str
    lines: tuple[str, ...]
    node: ast.FunctionDef

    def _column(self, line: int, offset: int) -> int:
        """Characters from 1, of an offset in bytes of UTF-8."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace")) + 1

    def place(self, node: ast.AST) -> Place:
        line = getattr(node, "lineno", self.node.lineno)
        end = getattr(node, "end_lineno", None) or line
        column = self._column(line, getattr(node, "col_offset", 0))
        end_column = self._column(end, getattr(node, "end_col_offset", None) or 0)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return Place(self.filename, line, column, end, end_column, text.rstrip("\n"))

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        raise ProgramError(reason, self.place(node))


# ---- Finding the source


def _lost(function: Function, reason: str, line: int = 0, lines: Sequence[str] = ()) -> NoReturn:
    line = line or function.__code__.co_firstlineno
    text = lines[line - 1].rstrip("\n") if line <= len(lines) else ""
    raise ProgramError(reason, Place(function.__code__.co_filename, line, 1, line, 1, text))


@functools.lru_cache(maxsize=8)
def _definitions(text: str) -> dict[tuple[str, int],
                                    list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of a file, by their names and first lines."""
    found: dict[tuple[str, int], list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault((node.name, _starts(node)), []).append(node)
    return found


def _starts(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])


def _is_definition_of(function: Function, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    code, arguments = function.__code__, node.args
    names = [a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    known = list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])
    return (len(names) == len(known)
            and all(known[i].endswith(name) for i, name in enumerate(names)))


def find_source(function: Function) -> Source:
    """The definition of a function in its file, notebook cell or doctest. ProgramError if there is
    no source."""
    code = function.__code__
    if code.co_name == "<lambda>":
        _lost(function, "a lambda cannot be a prompt program: define a function")
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        _lost(function, f"'{code.co_name}' has no source that can be read: a prompt program is "
                        "compiled from the text of its function, so define it in a file or a "
                        "notebook")
    try:
        definitions = _definitions("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _lost(function, f"the file of '{code.co_name}' has changed since it was imported")
    found = [node for node in definitions.get((code.co_name, code.co_firstlineno), ())
             if _is_definition_of(function, node)]
    if len(found) != 1:
        _lost(function, f"the source of '{code.co_name}' is not where it was compiled from: the "
                        "file has changed, or holds several on one line")
    node = found[0]
    if isinstance(node, ast.AsyncFunctionDef):
        _lost(function, "'async def': a program is compiled, not run", node.lineno, lines)
    return Source(code.co_filename, tuple(lines), node)


# ---- Constants


class Names:
    """What names mean: constants that blocks of the program assign, then what the function sees."""

    def __init__(self, outer: Mapping[str, object], local: frozenset[str]) -> None:
        self.outer = outer    # closure and globals
        self.local = local    # names that the program assigns
        self.blocks: list[dict[str, object]] = [{}]

    def get(self, name: str) -> object:
        """LookupError with the reason, if it has no value."""
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        if name in self.local:
            raise LookupError(f"'{name}' has a value only in the branch or loop that assigns it, "
                              "behind its assignment")
        if name in self.outer:
            return self.outer[name]
        if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        raise LookupError(f"'{name}' is not known: it must be a parameter, or have its value where "
                          "the program is defined")


def outer_names(function: Function) -> dict[str, object]:
    """Globals, and variables of the functions around, as far as they have values."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        names.pop(name, None)
        try:
            names[name] = cell.cell_contents
        except ValueError:
            pass  # no value yet
    return names


def has_address(value: object, show: Callable[[Any], str] = str) -> bool:
    """The text that `show` makes of it has the address of an object, which differs from run to
    run."""
    kind = type(value)
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType,
                          types.GeneratorType)):
        return True
    if kind.__module__ == "builtins" or isinstance(value, str):
        return (kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__
                and kind.__format__ is object.__format__)
    try:
        return bool(_ADDRESS.search(show(value)))
    except Exception:
        return False  # it has no text: who computes it finds out


def is_unordered(value: object) -> bool:
    return isinstance(value, (set, frozenset))


def _parts(value: Any) -> Iterable[object]:
    """What stands in the text of a value, by repr()."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    kind, plain_str = type(value), cast(object, object.__str__)
    if (dataclasses.is_dataclass(kind) and kind.__str__ is plain_str
            and hasattr(kind.__repr__, "__wrapped__")):  # made by dataclass
        return [getattr(value, one.name, None) for one in dataclasses.fields(kind) if one.repr]
    return ()


def why_unstable(value: object, show: Callable[[Any], str] = str) -> str | None:
    """Why the text of a value differs from run to run; None: it does not."""
    if has_address(value, show):
        return (f"the text of a {type(value).__name__} is its address, which differs from run to "
                "run")
    if is_unordered(value):
        return "the order of a set differs from run to run: use sorted()"
    return next(filter(None, (why_unstable(part, repr) for part in _parts(value))), None)


class Constants:
    """Computes expressions that have no parameters of the program."""

    def __init__(self, source: Source, names: Names, parameters: Mapping[str, object]) -> None:
        self.source = source
        self.names = names
        self.parameters = parameters
        self._known: dict[int, Any] | None = None  # values of parts of the node that is computed

    def value(self, node: ast.expr) -> Any:
        """The value, or ProgramError. Checks ask for the values of parts, each of which is computed
        once: otherwise work would double with each call in a call."""
        if isinstance(node, ast.Constant):
            return node.value
        if self._known is not None:
            if id(node) not in self._known:
                self._known[id(node)] = self._computed(node)
            return self._known[id(node)]
        self._known = {}
        try:
            return self._computed(node)
        finally:
            self._known = None

    def _computed(self, node: ast.expr) -> Any:
        used: dict[str, object] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id in self.parameters:
                self.source.fail(inner, f"depends on the parameter '{inner.id}': a parameter "
                                        "stands alone, in an f-string or a condition")
        for inner in ast.walk(node):
            self._check(inner, used)
        code = compile(ast.fix_missing_locations(ast.Expression(node)), self.source.filename,
                       "eval")
        try:
            value = eval(code, {"__builtins__": {}, **used})
        except Exception as error:
            self.source.fail(node, f"cannot be computed: {type(error).__name__}: {error}")
        return value

    def named(self, node: ast.expr) -> Any:
        """What a name, or names with dots, stand for; None: it is something else, or unknown."""
        try:
            if isinstance(node, ast.Name):
                return None if node.id in self.parameters else self.names.get(node.id)
            if isinstance(node, ast.Attribute):
                return getattr(self.named(node.value), node.attr, None)
        except LookupError:
            pass
        return None

    def is_pure_call(self, node: ast.Call) -> bool:
        """A call that is computed: of a function without effects, or a method of a text."""
        if any(self.named(node.func) is known for known in _PURE):
            return True
        if not isinstance(node.func, ast.Attribute) or not self._is_constant(node.func.value):
            return False
        value = self.value(node.func.value)
        if type(value) is str:
            return True
        return any(type(value) is kind and node.func.attr in methods
                   for kind, methods in _METHODS.items())

    def _is_constant(self, node: ast.expr) -> bool:
        try:
            self.value(node)
        except ProgramError:
            return False
        return True

    def _check(self, node: ast.AST, used: dict[str, object]) -> None:
        if not isinstance(node, _CONSTANT_NODES):
            self.source.fail(node, refusal(node))
        if isinstance(node, ast.Name):
            try:
                used[node.id] = self.names.get(node.id)
            except LookupError as error:
                self.source.fail(node, str(error))
            if isinstance(used[node.id], collections.abc.Iterator):
                self.source.fail(node, f"'{node.id}' is an iterator, which can be read only once: "
                                       "make a list of it")
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            self.source.fail(node, f"'{node.attr}' is private")
        elif isinstance(node, ast.Call) and not self.is_pure_call(node):
            self.source.fail(node, f"the call of '{ast.unparse(node.func)[:60]}' cannot be "
                                   "compiled: its result might differ from run to run; compute it "
                                   "outside of the program, as a constant")
        elif isinstance(node, ast.Call) and any(self.named(node.func) is one
                                                for one in _ORDERLESS):
            if any(word.arg == "key" for word in node.keywords) and any(
                    is_unordered(self.value(one)) for one in node.args):
                self.source.fail(node, "with key=, equal ones keep the order of the set, which "
                                       "differs from run to run: use sorted() on it before")
        elif isinstance(node, ast.Call):
            show: Callable[[Any], str] = str
            if self.named(node.func) is repr:
                show = repr
            for argument in node.args + [word.value for word in node.keywords]:
                self._check_stable(argument, show)
        elif isinstance(node, ast.FormattedValue):
            shows: dict[int, Callable[[Any], str]] = {-1: format, ord("s"): str}
            self._check_stable(node.value, shows.get(node.conversion, repr))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            self._check_stable(node.right)

    def _check_stable(self, node: ast.expr, show: Callable[[Any], str] = str) -> None:
        reason = why_unstable(self.value(node), show)
        if reason:
            self.source.fail(node, reason)


def check_decorators(source: Source, function: Function, decorator: object) -> None:
    """Another decorator between `decorator` and the function would have no effect on the source."""
    if source.node.decorator_list:
        last = source.node.decorator_list[-1]
        names = Names(outer_names(function), frozenset())
        found = Constants(source, names, {}).named(last.func if isinstance(last, ast.Call)
                                                   else last)
        if found is not None and found is not decorator:
            source.fail(last, "prompt_program stands directly over the function: other decorators "
                              "do not change the text that is compiled")

"""Compiles the source of a prompt program to its tree (_program_tree.py). doc/programs.md says what
becomes what."""
from __future__ import annotations

import ast
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence, cast

from . import _program_language as language
from ._program_conditions import Conditions, Test, always, else_slug
from ._program_language import (ChoiceKind, FlagKind, NewTextKind, Place, ProgramError, RoomKind,
                                SetKind, Values, is_pml_name, has, label)
from ._program_parameters import Definition, Parameter, Passing, check_defaults, check_used
from ._program_source import Constants, Names, Source, is_unordered, names_in, outer_names
from ._program_tree import (Condition, ModuleNode, NewText, Node, RoomNode, TextNode, Tree,
                            TurnNode, UnionNode, paths_in)

_TAGS = frozenset("schema module union parameter param scaffold prompt system user assistant"
                  .split())
_ROLES: dict[Any, str] = {language.system: "system", language.user: "user",
                          language.assistant: "assistant"}
_MATCH: Any = getattr(ast, "Match", ())  # of Python 3.10
_MOST_DEEP = 120  # modules, unions and turns; PML takes 128 elements

_STATEMENTS = {
    ast.While: "'while': its number of rounds is not known before it runs; loop over a constant",
    ast.AugAssign: "a variable that changes: a name has one value in a program",
    ast.Return: "'return': the text of a program is its strings",
    ast.Try: "'try': a program is compiled, not run",
    ast.Raise: "'raise': a program is compiled, not run",
    ast.Assert: "'assert': a program is compiled, not run",
    ast.Delete: "'del': a name has one value in a program",
    ast.Global: "'global': a program has no variables of others",
    ast.Nonlocal: "'nonlocal': a program has no variables of others",
    ast.Import: "'import': import outside of the program",
    ast.ImportFrom: "'import': import outside of the program",
    ast.FunctionDef: "'def': define programs beside each other, and call them",
    ast.AsyncFunctionDef: "'async def': a program is compiled, not run",
    ast.ClassDef: "'class': a program has no classes",
    ast.AsyncFor: "'async for': a program is compiled, not run",
    ast.AsyncWith: "'async with': a program is compiled, not run",
    ast.Break: "'break': a loop becomes one module for each value; choose the values before",
    ast.Continue: "'continue': a loop becomes one module for each value; choose the values before",
}


@dataclass
class Module:
    """A module that is being filled, or the schema itself (name None and outermost)."""

    place: Place
    is_root: bool = False
    children: list[Node] = field(default_factory=list)
    taken: dict[str, Place] = field(default_factory=dict)   # names of modules
    rooms: dict[str, Place] = field(default_factory=dict)   # names of parameters
    counts: dict[str, int] = field(default_factory=dict)    # of loops' names
    has_text: bool = False
    name: str | None = None    # by named()
    name_place: Place | None = None
    cached: bool = True
    default: bool = False


class _Union(Module):
    """The members of a union; their names are those of modules of the parent."""

    def __init__(self, parent: Module) -> None:
        super().__init__(parent.place, parent.is_root, taken=parent.taken)


def slug(text: str) -> str:
    """A text as a part of a name of PML."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", plain).strip("-.")[:48]


def module_name(text: str) -> str:
    name = slug(text)
    return name if is_pml_name(name) else "m-" + name if name else "module"


def role_of(function: object) -> str | None:
    return next((role for call, role in _ROLES.items() if call is function), None)


def _in_order(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """All statements in them, in the order of their lines."""
    found = [node for one in body for node in ast.walk(one) if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _is_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr)
                                          and isinstance(node.value, ast.Constant)
                                          and node.value.value is Ellipsis)


def _is_elif(node: ast.stmt, above: ast.If) -> bool:
    """It stands as far left as the `if` above; in an `else`, it would be indented."""
    return isinstance(node, ast.If) and node.col_offset == above.col_offset


def conversion(value: object, how: int) -> object:
    """!s, !r and !a of an f-string."""
    ways: dict[int, Callable[[object], str]] = {115: str, 114: repr, 97: ascii}
    return ways[how](value) if how in ways else value


class Compiler:
    """Compiles one program, or a program that another one calls: then `given` has what its
    parameters stand for, and `depth` counts the elements around it."""

    def __init__(self, definition: Definition, given: Mapping[str, Parameter] | None = None,
                 depth: int = 0, in_turn: bool = False) -> None:
        self.definition = definition
        self.source = definition.source
        self.parameters = dict(given or definition.parameters)
        self.nested = given is not None
        self.depth = depth
        self.in_turn = in_turn
        self.names = Names(outer_names(definition.function), self._assigned())
        self.constants = Constants(self.source, self.names, self.parameters)
        self.conditions = Conditions(self.source, self.constants, self.parameters)
        self.tree = Tree(definition.name, [], self.source.place(self.source.node))
        self.scaffold_places: list[tuple[tuple[str, ...], ast.Call]] = []

    def compile(self) -> Tree:
        root = Module(self.tree.place, is_root=True)
        self.body_into(root)
        self.tree.children = root.children
        self._check_scaffolds()
        if not root.has_text and not self.tree.new_texts:
            first = self.source.node.body[0]
            self.fail(first, "the program has no text" + (
                ": its first string is the docstring; write text(\"...\")"
                if self._is_docstring(first) else ""))
        return self.tree

    def body_into(self, module: Module) -> None:
        body = self.source.node.body
        self.block(body[1:] if self._is_docstring(body[0]) else body, module)

    @staticmethod
    def _is_docstring(statement: ast.stmt) -> bool:
        return (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str))

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        self.source.fail(node, reason)

    # -- names that the program assigns

    def _targets(self, node: ast.AST) -> Iterator[ast.Name]:
        if isinstance(node, ast.Name):
            yield node
        elif isinstance(node, (ast.Tuple, ast.List)):
            for part in node.elts:
                yield from self._targets(part)
        else:
            self.fail(node, "only names can be assigned in a program")

    def _assigned(self) -> frozenset[str]:
        """Names that statements and loops of the program assign; each has one meaning."""
        assigned: dict[str, int] = {}
        loops: dict[str, int] = {}
        for node in _in_order(self.source.node.body):
            if isinstance(node, ast.Assign):
                targets, into = [t for one in node.targets for t in self._targets(one)], assigned
            elif isinstance(node, ast.AnnAssign):
                targets, into = list(self._targets(node.target)), assigned
            elif isinstance(node, ast.For):
                targets, into = list(self._targets(node.target)), loops
            else:
                continue
            for target in targets:
                if target.id in self.definition.parameters:
                    self.fail(target, f"'{target.id}' is a parameter and cannot be assigned")
                if target.id in assigned or (into is assigned and target.id in loops):
                    line = assigned.get(target.id) or loops[target.id]
                    self.fail(target, f"'{target.id}' has a value already (line {line}): a name "
                                      "has one value in a program")
                into[target.id] = target.lineno
        return frozenset(assigned) | frozenset(loops)

    # -- blocks and statements

    def block(self, body: Sequence[ast.stmt], module: Module) -> None:
        self.names.blocks.append({})
        try:
            for statement in body:
                if self.tree.new_texts:
                    self.after_new_text(statement, module)
                else:
                    self.statement(statement, module)
        finally:
            self.names.blocks.pop()

    def statement(self, node: ast.stmt, module: Module) -> None:
        if isinstance(node, ast.Expr):
            self.expression(node.value, module)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self.assign(node)
        elif isinstance(node, ast.If):
            self.if_chain(node, module)
        elif isinstance(node, _MATCH):
            self.match(node, module)
        elif isinstance(node, ast.For):
            self.loop(node, module)
        elif isinstance(node, ast.With):
            self.with_block(node, module)
        elif not isinstance(node, ast.Pass):
            self.fail(node, _STATEMENTS.get(type(node), f"'{type(node).__name__}' cannot be "
                                                        "compiled"))

    def assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is None:
            return
        if isinstance(node.value, ast.Name) and node.value.id in self.parameters:
            self.fail(node.value, f"'{node.value.id}' is a parameter: its value is not known when "
                                  "the program is compiled; use it by its own name")
        value = self.constants.value(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.bind(target, value)

    def bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names.blocks[-1][target.id] = value
            return
        assert isinstance(target, (ast.Tuple, ast.List))
        if is_unordered(value):
            self.fail(target, "the order of a set differs from run to run: use sorted()")
        try:
            parts = list(value)
        except Exception as error:
            self.fail(target, f"cannot unpack a {type(value).__name__}: {error}")
        if len(parts) != len(target.elts):
            self.fail(target, f"cannot unpack {len(parts)} values to {len(target.elts)} names")
        for part, one in zip(target.elts, parts):
            self.bind(part, one)

    # -- text

    def expression(self, node: ast.expr, module: Module) -> None:
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return
        if isinstance(node, ast.Call) and not self.constants.is_pure_call(node):
            self.call(node, module)
        elif self.begins_new_text(node, module):
            self.add_new_text(None, [node])
        else:
            self.text(node, module)

    def text(self, node: ast.expr, module: Module) -> None:
        """A text, or an f-string with parameters."""
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        into = module
        rooms = [name.id for name in map(self.parameter_in, pieces) if name]
        if rooms and module.is_root:
            into = Module(self.source.place(node))
        for piece in pieces:
            name = self.parameter_in(piece)
            if name is None:
                self.add_text(self.constant_text(piece), piece, into)
            else:
                self.room(name, piece, into)
        if into is not module:
            self.add_module(into, rooms[0], module)
        module.has_text = True

    def parameter_in(self, piece: ast.expr) -> ast.Name | None:
        """The parameter that a piece of an f-string is, or an expression."""
        inner = piece.value if isinstance(piece, ast.FormattedValue) else piece
        if not isinstance(inner, ast.Name) or inner.id not in self.parameters:
            return None
        parameter = self.parameters[inner.id]
        if isinstance(piece, ast.FormattedValue) and (piece.format_spec or piece.conversion >= 0):
            self.fail(inner, f"'{inner.id}' is a parameter: it stands in the text as it is, "
                             "without a format")
        if isinstance(parameter.kind, (RoomKind, NewTextKind)) and parameter.source is None:
            return None  # a called program's, which got a constant
        return inner

    def constant_text(self, piece: ast.expr) -> str:
        inner = piece.value if isinstance(piece, ast.FormattedValue) else piece
        if isinstance(inner, ast.Name) and inner.id in self.parameters:
            return str(self.parameters[inner.id].constant)
        if isinstance(piece, ast.FormattedValue):
            return str(self.constants.value(ast.copy_location(ast.JoinedStr([piece]), piece)))
        value = self.constants.value(piece)
        if not isinstance(value, str):
            self.fail(piece, f"this is a {type(value).__name__}, not text: write an f-string")
        return value

    def add_text(self, text: str, node: ast.AST, module: Module) -> None:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            self.fail(node, f"has a lone surrogate (U+{ord(text[error.start]):04X}), which is no "
                            "text")
        module.has_text = True
        if text:
            module.children.append(TextNode(text, self.source.place(node)))

    def room(self, name: ast.Name, piece: ast.expr, module: Module) -> None:
        parameter = self.parameters[name.id]
        if isinstance(parameter.kind, NewTextKind):
            self.fail(name, f"'{name.id}' has no length: in a module write {name.id}: Text[16]; a "
                            "str is new text, which stands behind all modules")
        if not isinstance(parameter.kind, RoomKind) or parameter.source is None:
            self.fail(name, f"'{name.id}' is a choice and no text: choose by if or match, and "
                            "write the texts there")
        if name.id in module.rooms:
            self.fail(name, f"the parameter '{name.id}' is used twice in one module (line "
                            f"{module.rooms[name.id].line})")
        place = self.source.place(name)
        module.rooms[name.id] = place
        module.has_text = True
        module.children.append(RoomNode(name.id, parameter.kind.length, parameter.kind.scaffold,
                                        parameter.source, place))

    # -- modules and their names

    def add_module(self, made: Module, derived: str, parent: Module,
                   condition: Condition | None = None) -> None:
        parent.children.append(self.finish_module(made, derived, parent, condition))

    def finish_module(self, made: Module, derived: str, parent: Module,
                      condition: Condition | None = None) -> ModuleNode:
        """derived: its name if named() says none; a number is put behind if it is taken."""
        if not made.has_text:
            raise ProgramError("the module has no text: write \"\" if that is meant", made.place)
        for room, place in made.rooms.items():
            if room in made.taken:
                raise ProgramError(f"the parameter '{room}' has the name of a module beside it "
                                   f"(line {made.taken[room].line})", place)
        if made.default and not isinstance(parent, _Union):
            assert made.name_place
            raise ProgramError("default=True is for a member of a union", made.name_place)
        name = made.name
        if name is None:
            name = self.derive(derived, parent)
        elif name in parent.taken:
            raise ProgramError(f"a module '{name}' is there already (line "
                               f"{parent.taken[name].line})", made.name_place or made.place)
        parent.taken[name] = made.place
        parent.has_text = True
        return ModuleNode(name, made.children, made.place, condition, made.cached, made.default)

    def derive(self, derived: str, parent: Module) -> str:
        base = name = module_name(derived)
        number = 1
        while name in parent.taken or name in _TAGS or (not parent.is_root and self.is_room(name)):
            number += 1
            name = f"{base}-{number}"
        return name

    def is_room(self, name: str) -> bool:
        return name in self.parameters and isinstance(self.parameters[name].kind, RoomKind)

    def deeper(self, node: ast.AST) -> None:
        self.depth += 1
        if self.depth > _MOST_DEEP:
            self.fail(node, f"modules are nested more than {_MOST_DEEP} deep")

    def member(self, body: Sequence[ast.stmt], node: ast.AST,
               made: Module | None = None) -> Module:
        """The module that a block becomes."""
        made = made or Module(self.source.place(node))
        self.deeper(node)
        self.block(body, made)
        self.depth -= 1
        return made

    # -- branches

    def if_chain(self, node: ast.If, module: Module) -> None:
        tests: list[Test] = []
        branches: list[tuple[ast.AST, Sequence[ast.stmt]]] = []
        last: ast.If = node
        while True:
            tests.append(self.conditions.condition(last.test))
            branches.append((last, last.body))
            if len(last.orelse) == 1 and _is_elif(last.orelse[0], last):
                last = cast(ast.If, last.orelse[0])
                continue
            break
        if last.orelse:
            tests.append(Test(always, else_slug(tests)))
            branches.append((last.orelse[0], last.orelse))
        if len(branches) == 1:
            self.add_module(self.member(node.body, node), tests[0].slug, module, tests[0].holds)
        else:
            self.union(node, tests, branches, module)

    def union(self, node: ast.AST, tests: Sequence[Test],
              branches: Sequence[tuple[ast.AST, Sequence[ast.stmt]]], module: Module) -> None:
        members: list[ModuleNode | None] = []
        parent = _Union(module)
        self.deeper(node)
        for test, (at, body) in zip(tests, branches):
            if all(_is_nothing(statement) for statement in body):
                members.append(None)
                continue
            made = self.member(body, at)
            if made.default and any(other and other.default for other in members):
                raise ProgramError("the union has a default already", made.name_place or made.place)
            members.append(self.finish_module(made, test.slug, parent))
        self.depth -= 1
        module.has_text = True
        if not any(members):
            self.fail(node, "no branch has text")
        module.children.append(UnionNode([test.holds for test in tests], members,
                                         self.source.place(node)))

    def match(self, node: ast.Match, module: Module) -> None:
        if not isinstance(node.subject, ast.Name) or node.subject.id not in self.parameters:
            self.fail(node.subject, "match needs a parameter: a Literal, an Enum or a bool")
        parameter = self.parameters[node.subject.id]
        if not isinstance(parameter.kind, (ChoiceKind, FlagKind)):
            self.fail(node.subject, f"match needs a Literal, an Enum or a bool; "
                                    f"'{parameter.name}' is none")
        tests: list[Test] = []
        seen: list[object] = []
        for case in node.cases:
            if case.guard:
                self.fail(case.guard, "a case with 'if': write if and elif")
            values = self.conditions.pattern(case.pattern, parameter)
            for value in values or ():
                if has(seen, value):
                    self.fail(case.pattern, f"{value!r} has a case already")
                seen.append(value)
            tests.append(Test(always, f"{parameter.name}-else") if values is None else
                         self.conditions.is_one_of(parameter, values,
                                                   "-or-".join(map(label, values))))
        self.union(node, tests, [(case.pattern, case.body) for case in node.cases], module)

    # -- loops

    def loop(self, node: ast.For, module: Module) -> None:
        if node.orelse:
            self.fail(node.orelse[0], "'else' of a loop")
        base = next(self._targets(node.target)).id
        for value in self.rounds(node):
            self.names.blocks.append({})
            self.bind(node.target, value)
            self.round(node, base, module)
            self.names.blocks.pop()

    def rounds(self, node: ast.For) -> list[Any]:
        if isinstance(node.iter, ast.Name) and node.iter.id in self.parameters:
            self.fail(node.iter, f"'{node.iter.id}' is a parameter: loop over a constant, and ask "
                                 f"for each value with if")
        values = self.constants.value(node.iter)
        if is_unordered(values):
            self.fail(node.iter, "the order of a set differs from run to run: use sorted()")
        try:
            return list(values)
        except Exception as error:
            self.fail(node.iter, f"cannot be looped over: {error}")

    def round(self, node: ast.For, base: str, module: Module) -> None:
        """One module. A body that is one `if` makes the module one that is there or not."""
        rest = [statement for statement in node.body if not self.is_preparation(statement)]
        condition: Condition | None = None
        made = Module(self.source.place(node))
        self.deeper(node)
        if len(rest) == 1 and isinstance(rest[0], ast.If) and not rest[0].orelse:
            self.names.blocks.append({})
            for statement in node.body:
                if statement is rest[0]:
                    condition = self.conditions.condition(rest[0].test).holds
                    self.block(rest[0].body, made)
                else:
                    self.statement(statement, made)
            self.names.blocks.pop()
        else:
            self.block(node.body, made)
        self.depth -= 1
        number = module.counts.get(base, 0) + 1
        module.counts[base] = number
        self.add_module(made, f"{base}-{number}", module, condition)

    def is_preparation(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self.constants.named(node.value.func) is language.named
        return isinstance(node, (ast.Assign, ast.AnnAssign)) or _is_nothing(node)

    # -- with, and calls

    def with_block(self, node: ast.With, module: Module) -> None:
        if len(node.items) > 1 or node.items[0].optional_vars:
            self.fail(node, "'with' has one item, without 'as'")
        call = node.items[0].context_expr
        function = self.constants.named(call.func) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and function is language.module:
            made = Module(self.source.place(node))
            self.name_module(call, made, required=True)
            self.add_module(self.member(node.body, node, made), "", module)
        elif isinstance(call, ast.Call) and (role := role_of(function)):
            if call.args or call.keywords:
                self.fail(call, f"the text of a turn stands in it, or in {role}(...), not in both")
            if self.begins_new_text(node, module):
                self.add_new_text(role, self.new_body(node.body))
            else:
                self.turn(role, node, module, lambda: self.block(node.body, module))
        else:
            self.fail(call, "'with' is for module(...), system(), user() and assistant()")

    def turn(self, role: str, node: ast.AST, module: Module, fill: Callable[[], None]) -> None:
        if self.in_turn:
            self.fail(node, "a turn in a turn")
        outer, module.children = module.children, []
        self.in_turn = True
        self.deeper(node)
        fill()
        self.depth -= 1
        self.in_turn = False
        inner, module.children = module.children, outer
        module.children.append(TurnNode(role, inner, self.source.place(node)))
        module.has_text = True

    def call(self, node: ast.Call, module: Module) -> None:
        function = self.constants.named(node.func)
        role = role_of(function)
        if role or function is language.text:
            texts = self.plain_arguments(node, 0 if role else 1, 1)
            if self.begins_new_text(node, module):
                self.add_new_text(role, texts)
            elif role:
                self.turn(role, node, module, lambda: self.texts(texts, module))
            else:
                self.texts(texts, module)
        elif function is language.named:
            self.name_module(node, module, required=False)
        elif function is language.module:
            self.fail(node, "module(...) stands in a with: 'with module(\"name\"):'")
        elif function is language.scaffold:
            self.note_scaffold(node, module)
        elif isinstance(node.func, ast.Name) and self.is_own_name(node.func.id):
            self.fail(node, f"'{node.func.id}' calls itself: a program cannot be part of itself")
        elif isinstance(getattr(function, "definition", None), Definition):
            self.call_program(node, function.definition, module)
        else:
            self.unknown_call(node)

    def is_own_name(self, name: str) -> bool:
        """In a class's body, names of the class are not those that its functions see."""
        around = self.definition.function.__qualname__.split(".")[:-1]
        return name == self.source.node.name and (not around or around[-1] == "<locals>")

    def texts(self, texts: Sequence[ast.expr], module: Module) -> None:
        for text in texts:
            self.text(text, module)

    def unknown_call(self, node: ast.Call) -> NoReturn:
        called = ast.unparse(node.func)[:60]
        if isinstance(node.func, ast.Name) and node.func.id not in self.parameters:
            try:
                self.names.get(node.func.id)
            except LookupError as error:
                self.fail(node, f"{error} ('{called}' is called)")
        self.fail(node, f"'{called}' is no prompt program: a program calls programs, text(), "
                        "turns, module(), named() and scaffold()")

    def plain_arguments(self, node: ast.Call, least: int, most: int) -> list[ast.expr]:
        if node.keywords or not least <= len(node.args) <= most:
            self.fail(node, f"'{ast.unparse(node.func)}' takes {most} text" if least == most else
                      f"'{ast.unparse(node.func)}' takes one text, or none")
        return node.args

    def name_module(self, node: ast.Call, module: Module, required: bool) -> None:
        """The arguments of module() and named()."""
        allowed = {"cache"} if required else {"cache", "default"}
        options = {word.arg: self.constants.value(word.value) for word in node.keywords}
        wrong = [str(word) for word in options if word not in allowed]
        if wrong or len(node.args) > 1 or (required and not node.args):
            self.fail(node, "takes a name" + ", cache" + (" and default" if not required else ""))
        for word, value in options.items():
            if type(value) is not bool:
                self.fail(node, f"{word} is True or False")
        if not required and (module.is_root or module.name_place or module.has_text
                             or module.children):
            self.fail(node, "named() stands once, before the texts of the branch or loop that it "
                            "names; with prompt_program(name=...) a program has another name")
        if node.args:
            name = self.constants.value(node.args[0])
            if not isinstance(name, str) or not is_pml_name(name):
                given = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
                self.fail(node.args[0], f"{given} cannot name a module: begin with a letter or "
                                        "'_', go on with letters (a to z), digits, '_', '.', '-'")
            if name in _TAGS:
                self.fail(node.args[0], f"'{name}' is a tag of PML and cannot name a module")
            module.name = name
        module.name_place = self.source.place(node)
        module.cached = bool(options.get("cache", True))
        module.default = bool(options.get("default", False))

    # -- programs that are called

    def call_program(self, node: ast.Call, called: Definition, module: Module) -> None:
        given = Passing(self.source, self.constants, self.parameters, called).arguments(node)
        made = Module(self.source.place(node))
        self.deeper(node)
        inner = Compiler(called, given, self.depth, self.in_turn)
        try:
            inner.body_into(made)
        except ProgramError as error:  # it compiles by itself, so it is this call that is faulty
            reason = error.reason if error.called else (f"in '{called.name}', line {error.lineno}: "
                                                        f"{error.reason}")
            raise ProgramError(reason, self.source.place(node), called=True) from None
        self.depth -= 1
        if inner.scaffold_places:
            self.fail(node, f"'{called.name}' has a scaffold, which stands in a schema only, so it "
                            "cannot be called")
        self.add_module(made, called.name, module)

    # -- new text

    def begins_new_text(self, node: ast.AST, module: Module) -> bool:
        """It has new text, and stands where new text may."""
        return (module.is_root and not self.in_turn and not isinstance(module, _Union)
                and any(isinstance(self.parameters[name].kind, NewTextKind)
                        and self.parameters[name].source is not None
                        for name in names_in(node) & set(self.parameters)))

    def after_new_text(self, node: ast.stmt, module: Module) -> None:
        """Behind the first new text all is text of the prompt."""
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            self.assign(node)
        elif isinstance(node, ast.With) and len(node.items) == 1:
            call = node.items[0].context_expr
            role = role_of(self.constants.named(call.func)) if isinstance(call, ast.Call) else None
            if not role or not isinstance(call, ast.Call) or call.args or call.keywords:
                self.behind_new_text(node)
            self.add_new_text(role, self.new_body(node.body))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) \
                and not self.constants.is_pure_call(node.value):
            self.call_behind_new_text(node.value, module)
        elif isinstance(node, ast.Expr) and not _is_nothing(node):
            self.add_new_text(None, [node.value])
        elif not _is_nothing(node):
            self.behind_new_text(node)

    def call_behind_new_text(self, node: ast.Call, module: Module) -> None:
        function = self.constants.named(node.func)
        role = role_of(function)
        if function is language.scaffold:
            self.note_scaffold(node, module)
        elif role or function is language.text:
            self.add_new_text(role, self.plain_arguments(node, 0 if role else 1, 1))
        else:
            self.behind_new_text(node)

    def behind_new_text(self, node: ast.AST) -> NoReturn:
        self.fail(node, "stands behind new text (a str without a length): there only texts and "
                        "turns may stand, as modules come first")

    def new_body(self, body: Sequence[ast.stmt]) -> list[ast.expr]:
        """The texts of a turn with new text."""
        texts = []
        for statement in body:
            if isinstance(statement, ast.Expr) and not _is_nothing(statement):
                texts.append(statement.value)
            elif not _is_nothing(statement):
                self.fail(statement, "a turn with new text (a str without a length) has only texts")
        return texts

    def add_new_text(self, role: str | None, texts: Sequence[ast.expr]) -> None:
        pieces = []
        for text in texts:
            if isinstance(text, ast.Call) and self.constants.named(text.func) is language.text:
                text = self.plain_arguments(text, 1, 1)[0]
            for piece in text.values if isinstance(text, ast.JoinedStr) else [text]:
                pieces.append(self.new_piece(piece))
        self.tree.new_texts.append(NewText(role, pieces))

    def new_piece(self, piece: ast.expr) -> Callable[[Values], str]:
        inner = piece.value if isinstance(piece, ast.FormattedValue) else piece
        parameter = self.conditions.as_parameter(inner)
        if parameter is None:
            text = self.constant_text(piece)
            self.add_text(text, piece, Module(self.tree.place))  # checks it
            return lambda values: text
        if isinstance(parameter.kind, SetKind):
            self.fail(inner, f"'{parameter.name}' is a collection and no text")
        how, spec = -1, ""
        if isinstance(piece, ast.FormattedValue):
            how = piece.conversion
            spec = self.constants.value(piece.format_spec) if piece.format_spec else ""
        elif not isinstance(parameter.kind, (RoomKind, NewTextKind)):
            self.fail(inner, f"'{parameter.name}' is no text: write an f-string")
        kind = parameter.kind
        for value in (kind.values if isinstance(kind, ChoiceKind) else
                      (True, False) if isinstance(kind, FlagKind) else ("",)):
            try:
                self.add_text(format(conversion(value, how), spec), inner,
                              Module(self.tree.place))  # checks it
            except (TypeError, ValueError) as error:
                self.fail(inner, f"{value!r} cannot have this format: {error}")
        get = parameter.get
        return lambda values: format(conversion(get(values), how), spec)

    # -- scaffolds

    def note_scaffold(self, node: ast.Call, module: Module) -> None:
        if self.in_turn or (not self.nested and not module.is_root):
            self.fail(node, "scaffold() stands directly in the program, not in a branch, loop or "
                            "turn")
        paths = tuple(self.constants.value(argument) for argument in node.args)
        if node.keywords or len(paths) < 2 or not all(isinstance(path, str) for path in paths):
            self.fail(node, "scaffold() takes the paths of two modules or more")
        self.scaffold_places.append((paths, node))

    def _check_scaffolds(self) -> None:
        known = set(paths_in(self.tree.children))
        for paths, node in self.scaffold_places:
            for path, argument in zip(paths, node.args):
                if path not in known:
                    self.fail(argument, f"there is no module '{path}'")
            if len(set(paths)) < len(paths):
                self.fail(node, "a module is named twice")
            self.tree.scaffolds.append(paths)


def compile_program(definition: Definition) -> Tree:
    """The tree of a program. Raises ProgramError."""
    check_used(definition)
    try:
        tree = Compiler(definition).compile()
    except RecursionError:
        definition.source.fail(definition.source.node, "the program is nested too deeply")
    check_defaults(definition.source, definition.parameters)
    return tree

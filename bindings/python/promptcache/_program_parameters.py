"""The parameters of a prompt program: reading them, and passing them on to a called program."""
from __future__ import annotations

import ast
import inspect
import types
from dataclasses import dataclass
from typing import Mapping, NoReturn, Sequence

from ._program_language import (ChoiceKind, Kind, NewTextKind, ProgramError, RoomKind, SetKind,
                                Values, is_pml_name, kind_of)
from ._program_source import Constants, Source, find_source, names_in, outer_names


@dataclass
class Parameter:
    """A parameter of a program. source: the parameter of the outermost program that is passed on;
    else constant is what it was given."""

    name: str
    kind: Kind
    node: ast.arg
    default: object = inspect.Parameter.empty
    source: str | None = None
    constant: object = None

    def get(self, values: Values) -> object:
        return self.constant if self.source is None else values[self.source]


def _annotation(function: types.FunctionType, name: str, local: Mapping[str, object]) -> object:
    value = function.__annotations__[name]
    if isinstance(value, str):
        value = eval(value, {**outer_names(function), **local})
    return value


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return node.args.posonlyargs + node.args.args + node.args.kwonlyargs


def _check_signature(source: Source) -> None:
    node = source.node
    for star, of in ((node.args.vararg, "*"), (node.args.kwarg, "**")):
        if star:
            source.fail(star, f"'{of}{star.arg}': every parameter of a program has a name")
    if getattr(node, "type_params", None):
        source.fail(node, "a program has no type parameters")


def read_parameters(function: types.FunctionType, source: Source,
                    local: Mapping[str, object]) -> dict[str, Parameter]:
    """The parameters of a program, with their kinds. local: variables where it is defined, for
    annotations that are text."""
    _check_signature(source)
    signature = inspect.signature(function)
    found: dict[str, Parameter] = {}
    for node in _arguments(source.node):
        if node.annotation is None:
            source.fail(node, f"'{node.arg}' has no type: write Text[16], str, bool, Literal[...] "
                              "or an Enum")
        try:
            kind = kind_of(_annotation(function, node.arg, local))
        except TypeError as error:
            source.fail(node, f"'{node.arg}' {error}")
        except ProgramError:
            raise
        except Exception as error:
            source.fail(node.annotation, f"the type of '{node.arg}' cannot be computed: "
                                         f"{type(error).__name__}: {error}")
        if isinstance(kind, RoomKind) and not is_pml_name(node.arg):
            source.fail(node, f"'{node.arg}' cannot name a parameter of PML, whose names have the "
                              "letters a to z and A to Z")
        found[node.arg] = Parameter(node.arg, kind, node, signature.parameters[node.arg].default,
                                    source=node.arg)
    return found


def check_defaults(source: Source, parameters: Mapping[str, Parameter]) -> None:
    """When the values of open sets are known."""
    for parameter in parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            try:
                parameter.kind.check(parameter.default)
            except (TypeError, ValueError) as error:
                source.fail(parameter.node, f"the default of '{parameter.name}': it {error}")


@dataclass
class Definition:
    """What is known of a program before its body is compiled."""

    name: str
    function: types.FunctionType
    source: Source
    parameters: dict[str, Parameter]


def define(function: types.FunctionType, name: str, local: Mapping[str, object]) -> Definition:
    source = find_source(function)
    if not is_pml_name(name):
        source.fail(source.node, f"'{name}' cannot name a schema: begin with a letter or '_', go "
                                 "on with letters (a to z), digits, '_', '.', '-'")
    return Definition(name, function, source, read_parameters(function, source, local))


def check_used(definition: Definition) -> None:
    used = {name for statement in definition.source.node.body for name in names_in(statement)}
    for parameter in definition.parameters.values():
        if parameter.name not in used:
            definition.source.fail(parameter.node, f"the parameter '{parameter.name}' is not used")


def check_value(source: Source, parameter: Parameter, value: object, node: ast.AST) -> None:
    """A value that a program compares with is one that the parameter can have. Open sets note it.
    """
    kind = parameter.kind
    if isinstance(kind, SetKind) and kind.open:
        if not isinstance(value, str):
            source.fail(node, f"'{parameter.name}' has only str, not {value!r}")
        if not kind.find(value):
            kind.values.append(value)
        return
    try:
        kind.check((value,) if isinstance(kind, SetKind) else value)
    except (TypeError, ValueError) as error:
        source.fail(node, f"'{parameter.name}' {error}")


class Passing:
    """What the parameters of a called program stand for, by the arguments of the call."""

    def __init__(self, source: Source, constants: Constants, parameters: Mapping[str, Parameter],
                 called: Definition) -> None:
        self.source = source
        self.constants = constants
        self.parameters = parameters
        self.called = called

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        self.source.fail(node, reason)

    def arguments(self, node: ast.Call) -> dict[str, Parameter]:
        for word in node.keywords:
            if word.arg is None:
                self.fail(word.value, "'**': write the arguments one by one")
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.fail(argument, "'*': write the arguments one by one")
        try:
            bound = inspect.signature(self.called.function).bind(
                *node.args, **{str(word.arg): word.value for word in node.keywords}).arguments
        except TypeError as error:
            self.fail(node, f"'{self.called.name}': {error}")
        return {name: self.argument(parameter, bound.get(name))
                for name, parameter in self.called.parameters.items()}

    def argument(self, theirs: Parameter, node: ast.expr | None) -> Parameter:
        if node is None:
            return Parameter(theirs.name, theirs.kind, theirs.node,
                             constant=theirs.kind.check(theirs.default))
        mine = self.parameters.get(node.id) if isinstance(node, ast.Name) else None
        if mine is not None and mine.source is not None:
            return Parameter(theirs.name, self.passed_kind(theirs, mine, node), theirs.node,
                             source=mine.source)
        value = mine.constant if mine is not None else self.constants.value(node)
        try:
            value = theirs.kind.check(value)
        except (TypeError, ValueError) as error:
            self.fail(node, f"'{theirs.name}' of '{self.called.name}' {error}")
        return Parameter(theirs.name, theirs.kind, theirs.node, constant=value)

    def passed_kind(self, theirs: Parameter, mine: Parameter, node: ast.expr) -> Kind:
        """The kind of a parameter that is passed on as it is."""
        named = f"'{theirs.name}' of '{self.called.name}'"
        kind, passed = theirs.kind, mine.kind
        if isinstance(kind, NewTextKind):
            self.fail(node, f"{named} has no length, so it takes constants here: give it one, "
                            "Text[16]")
        if isinstance(kind, RoomKind) and isinstance(passed, NewTextKind):
            self.fail(node, f"'{mine.name}' has no length, and {named} has {kind.length}: write "
                            f"{mine.name}: Text[{kind.length}]")
        if type(kind) is not type(passed):
            self.fail(node, f"'{mine.name}' is of another kind than {named}")
        if isinstance(kind, RoomKind) and isinstance(passed, RoomKind):
            if passed.length > kind.length:
                self.fail(node, f"'{mine.name}' may have {passed.length} tokens, {named} takes "
                                f"{kind.length}")
        elif isinstance(kind, ChoiceKind) and isinstance(passed, ChoiceKind):
            self.check_passed(mine.name, passed.values, named, kind, node)
        elif isinstance(kind, SetKind) and isinstance(passed, SetKind):
            return self.passed_set(mine, kind, passed, named, node)
        return kind

    def check_passed(self, mine: str, values: Sequence[object], named: str,
                     kind: ChoiceKind | SetKind, node: ast.expr) -> None:
        for value in values:
            if not kind.find(value):
                self.fail(node, f"'{mine}' may be {value!r}, which {named} cannot be")

    def passed_set(self, mine: Parameter, kind: SetKind, passed: SetKind, named: str,
                   node: ast.expr) -> SetKind:
        """With an open set, what one may have and what the other asks for come together."""
        if not kind.open and not passed.open:
            self.check_passed(mine.name, passed.values, named, kind, node)
        elif not passed.open:
            for value in kind.values:
                if not passed.find(value):
                    self.fail(node, f"{named} asks for {value!r}, which '{mine.name}' cannot have")
            return passed
        elif not kind.open:
            for value in kind.values:
                check_value(self.source, mine, value, node)
        else:
            return passed
        return kind

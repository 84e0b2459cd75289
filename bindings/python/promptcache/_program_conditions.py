"""The conditions of a prompt program: tests of its parameters, and the names they give modules."""
from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import Any, Callable, Mapping, NoReturn, Sequence, cast

from ._program_language import (ChoiceKind, FlagKind, NewTextKind, RoomKind, SetKind, Values,
                                has, label)
from ._program_parameters import Parameter, check_value
from ._program_source import Constants, Source, is_unordered, names_in
from ._program_tree import Condition

_COMPARISONS: dict[type[ast.cmpop], tuple[Callable[[Any, Any], bool], str]] = {
    ast.Eq: (operator.eq, ""), ast.NotEq: (operator.ne, "not-"),
    ast.Is: (operator.eq, ""), ast.IsNot: (operator.ne, "not-"),
    ast.Lt: (operator.lt, "lt-"), ast.LtE: (operator.le, "le-"),
    ast.Gt: (operator.gt, "gt-"), ast.GtE: (operator.ge, "ge-"),
    ast.In: (lambda a, b: a in b, ""), ast.NotIn: (lambda a, b: a not in b, "not-"),
}

_CONSTANT = ("the condition has no parameter, so it is the same for every prompt; for a constant "
             "use a text such as ('a' if FIRST else 'b')")


@dataclass
class Test:
    """A condition. subject: the one choice or flag that it compares, if that is all it does."""

    holds: Condition
    slug: str
    subject: str | None = None


def always(values: Values) -> bool:
    return True


def else_slug(tests: Sequence[Test]) -> str:
    """The name of the branch behind these."""
    subjects = {test.subject for test in tests}
    if len(tests) == 1 and tests[0].subject == tests[0].slug:
        return "not-" + tests[0].slug  # a flag
    if len(subjects) == 1 and None not in subjects:
        return f"{tests[0].subject}-else"
    return f"{tests[0].slug}-else"


class Conditions:
    """Compiles conditions and cases."""

    def __init__(self, source: Source, constants: Constants,
                 parameters: Mapping[str, Parameter]) -> None:
        self.source = source
        self.constants = constants
        self.parameters = parameters

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        self.source.fail(node, reason)

    def pattern(self, node: ast.pattern, parameter: Parameter) -> list[object] | None:
        """The values of a case; None: all others."""
        if isinstance(node, ast.MatchOr):
            parts = [self.pattern(part, parameter) for part in node.patterns]
            return None if None in parts else [v for part in parts if part for v in part]
        if isinstance(node, ast.MatchAs) and node.pattern is None and node.name is None:
            return None
        if isinstance(node, (ast.MatchValue, ast.MatchSingleton)):
            value = (self.constants.value(node.value) if isinstance(node, ast.MatchValue)
                     else node.value)
            check_value(self.source, parameter, value, node)
            return [value]
        self.fail(node, "a case is a value, several with '|', or '_'")

    def is_one_of(self, parameter: Parameter, values: Sequence[object], named: str) -> Test:
        def holds(given: Values) -> bool:
            return has(values, parameter.get(given))
        if isinstance(parameter.kind, FlagKind) and len(values) == 1:
            return Test(holds, ("" if values[0] else "not-") + parameter.name, parameter.name)
        return Test(holds, f"{parameter.name}-{named}", parameter.name)

    def condition(self, node: ast.expr) -> Test:
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(value) for value in node.values]
            tests = [part.holds for part in parts]
            if isinstance(node.op, ast.And):
                return Test(lambda v: all(t(v) for t in tests), "-and-".join(p.slug for p in parts))
            return Test(lambda v: any(t(v) for t in tests), "-or-".join(p.slug for p in parts))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.condition(node.operand)
            return Test(lambda v: not inner.holds(v), "not-" + inner.slug)
        if isinstance(node, ast.Name) and node.id in self.parameters:
            return self.truth(node)
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if not names_in(node) & set(self.parameters):
            if isinstance(node, ast.Call):
                self.fail(node, "a call in a condition: a condition compares parameters with "
                                "constants")
            self.fail(node, _CONSTANT)
        self.fail(node, "a condition is a bool, or compares a parameter with constants; 'and', "
                        "'or' and 'not' join such")

    def truth(self, node: ast.Name) -> Test:
        parameter = self.parameters[node.id]
        if isinstance(parameter.kind, FlagKind):
            return Test(lambda v: bool(parameter.get(v)), node.id, node.id)
        if isinstance(parameter.kind, (RoomKind, NewTextKind)):
            return Test(lambda v: parameter.get(v) != "", node.id, node.id)
        if isinstance(parameter.kind, SetKind):
            self.fail(node, f"'{node.id}' is a collection: ask for a member, 'x' in {node.id}")
        self.fail(node, f"'{node.id}' is a choice: compare it with a value")

    def comparison(self, node: ast.Compare) -> Test:
        if len(node.ops) > 1:
            self.fail(node, "a chain of comparisons: join them with 'and'")
        left, right, how = node.left, node.comparators[0], type(node.ops[0])
        on_left, on_right = self.as_parameter(left), self.as_parameter(right)
        if on_left and on_right:
            self.fail(node, "two parameters are compared: compare each with a constant")
        if on_right and isinstance(on_right.kind, SetKind):
            return self.membership(on_right, left, how, node)
        if on_right and how in (ast.Eq, ast.NotEq, ast.Is, ast.IsNot):
            on_left, right = on_right, left
        if on_left is None:
            used = sorted(names_in(node) & set(self.parameters))
            self.fail(node, f"'{used[0]}' must stand by itself on the left" if used else _CONSTANT)
        if not isinstance(on_left.kind, (ChoiceKind, FlagKind)):
            self.fail(node, f"'{on_left.name}' is new in each prompt, so texts cannot depend on "
                            "what it is; choose by a Literal, an Enum or a bool")
        return self.choice(on_left, how, right, node)

    def as_parameter(self, node: ast.expr) -> Parameter | None:
        return self.parameters.get(node.id) if isinstance(node, ast.Name) else None

    def choice(self, parameter: Parameter, how: type[ast.cmpop], right: ast.expr,
               node: ast.AST) -> Test:
        """Compares a choice with a constant: true for some of its values."""
        compare, word = _COMPARISONS[how]
        constant = self.constants.value(right)
        if how in (ast.In, ast.NotIn):
            if isinstance(constant, str) or not isinstance(constant, (tuple, list, set, frozenset)):
                self.fail(right, "'in' needs a tuple, a list or a set of values")
            compared = sorted(constant, key=label) if is_unordered(constant) else list(constant)
        else:
            compared = [constant]
        if how not in (ast.Lt, ast.LtE, ast.Gt, ast.GtE):
            for value in compared:
                check_value(self.source, parameter, value, right)
        known = parameter.kind.values if isinstance(parameter.kind, ChoiceKind) else (True, False)
        try:
            values = [value for value in known if compare(value, constant)]
        except TypeError as error:
            self.fail(node, f"cannot be compared: {error}")
        if not values or len(values) == len(known):
            self.fail(node, f"is {'always' if values else 'never'} true")
        if isinstance(parameter.kind, FlagKind) or how not in (ast.Eq, ast.Is):
            named = word + "-or-".join(map(label, compared))
            test = self.is_one_of(parameter, values, named)
            return test if how is ast.In else Test(test.holds, test.slug)
        return self.is_one_of(parameter, values, label(constant))

    def membership(self, parameter: Parameter, left: ast.expr, how: type[ast.cmpop],
                   node: ast.AST) -> Test:
        """A constant in a collection."""
        if how not in (ast.In, ast.NotIn):
            self.fail(node, f"'{parameter.name}' is a collection: ask for a member, 'x' in "
                            f"{parameter.name}")
        value = self.constants.value(left)
        check_value(self.source, parameter, value, left)
        wanted = how is ast.In
        members = cast(Callable[[Values], Sequence[object]], parameter.get)
        return Test(lambda v: has(members(v), value) is wanted,
                    f"{parameter.name}-{'' if wanted else 'not-'}{label(value)}")

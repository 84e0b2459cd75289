"""Prompt programs: functions whose source becomes a schema (Prompt Cache, section 3.2.4).

>>> from typing import Annotated, Literal
>>> from promptcache.programs import Text, prompt_program, system, user
>>> @prompt_program
... def travel(city: Literal["lisbon", "oslo"], days: Annotated[str, Text(4)], question: str):
...     system("Answer from the notes.")
...     f"A trip of {days} days."
...     if city == "lisbon":
...         "The hotel in Lisbon is Harbor House."
...     else:
...         "The hotel in Oslo is Rain Lodge."
...     user(f"{question}")
>>> travel.modules
('days', 'city-lisbon', 'city-else')
>>> print(travel("oslo", days="5", question="What is the hotel in Oslo?").pml, end="")
<prompt schema="travel">
  <days days="5"/>
  <city-else/>
  <user>What is the hotel in Oslo?</user>
</prompt>

The page doc/programs.md says what becomes what. `schema` and `pml` call nothing of the library;
`compile` and `prompt` do.
"""
from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from typing import TYPE_CHECKING, Any, Callable, Generic, Mapping, TypeVar, overload

from ._program_compiler import compile_program
from ._program_language import (Place, ProgramError, Text, assistant, module, named, scaffold,
                                system, text, user)
from ._program_parameters import Definition, define
from ._program_source import check_decorators
from ._program_tree import (Node, RoomNode, TextNode, Tree, TurnNode, UnionNode, flat_uses,
                            new_texts, paths_in, prompt_pml, schema_pml)

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from . import _api
    from ._model import Model
    from ._prompt import Prompt
    from ._schema import Schema, SchemaBuilder

    P = ParamSpec("P")
else:
    P = TypeVar("P")

__all__ = ["Program", "ProgramError", "ProgramPrompt", "Text", "assistant", "module", "named",
           "prompt_program", "scaffold", "system", "text", "user"]


def _build(children: list[Node], builder: SchemaBuilder, places: list[Place]) -> None:
    """places: gets where in the source each element is said, in the order in which builders count
    them."""
    for child in children:
        places.append(child.place)
        if isinstance(child, TextNode):
            builder.text(child.text)
        elif isinstance(child, RoomNode):
            builder.parameter(child.name, child.length, child.scaffold)
        elif isinstance(child, TurnNode):
            with builder.turn(child.role):
                _build(child.children, builder, places)
        elif isinstance(child, UnionNode):
            default = [member.name for member in child.modules() if member.default]
            with builder.union(*default):
                _build(list(child.modules()), builder, places)
        else:
            with builder.module(child.name, uncached=not child.cached):
                _build(child.children, builder, places)


def _element_of(error: Exception, count: int) -> tuple[int, str]:
    """The number of the element that an error of a builder names, from 0, and what it says; -1: it
    names none."""
    found = re.match(r"(?:schema|prompt): element (\d+): (.*)", str(error), re.S)
    number = int(found[1]) - 1 if found else -1
    return (number, found[2]) if found and number < count else (-1, "")


class ProgramPrompt:
    """A program's prompt: which modules it uses, with which arguments and which text of its own."""

    def __init__(self, tree: Tree, values: Mapping[str, object]) -> None:
        self._tree = tree
        self.arguments: Mapping[str, object] = types.MappingProxyType(dict(values))
        """The arguments that the program was called with, defaults among them."""

    @property
    def pml(self) -> str:
        """The prompt as PML. ValueError: PML cannot carry an argument as it is, which prompt()
        can."""
        return prompt_pml(self._tree, self.arguments)

    @property
    def modules(self) -> tuple[str, ...]:
        """Paths of the modules that it uses, in the order of the schema."""
        return tuple(use.path for use in flat_uses(self._tree, self.arguments))

    def prompt(self, schema: Schema) -> Prompt:
        """The prompt, for the schema that the program was compiled to, or for one of its PML."""
        from ._errors import Error
        from ._prompt import PromptBuilder
        builder = PromptBuilder(schema)
        used = list(flat_uses(self._tree, self.arguments))
        for use in used:
            builder.use(use.path)
            for name, argument in use.arguments.items():
                builder.argument(name, argument)
        for role, own in new_texts(self._tree, self.arguments):
            if role is None:
                builder.text(own)
            else:
                with builder.turn(role):
                    builder.text(own)
        try:
            return builder.prompt()
        except Error as error:
            number, cause = _element_of(error, len(used))
            if number < 0:
                raise
            raise type(error)(f"{self._tree.name}: module '{used[number].path}': {cause}",
                              error.status) from None

    def _key(self) -> tuple[object, ...]:
        """With the types of values: True is not 1."""
        return (id(self._tree), *map(repr, self.arguments.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramPrompt) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"<{self._tree.name}({given})>"


class Program(Generic[P]):
    """A compiled prompt program. Called, it gives the prompt for these arguments."""

    __wrapped__: Any
    __name__: str
    definition: Definition
    _tree: Tree
    _signature: inspect.Signature

    def __init__(self, function: Callable[P, None], name: str | None = None,
                 local: Mapping[str, object] | None = None) -> None:
        if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
            raise TypeError("prompt_program stands directly over a function: "
                            f"{function!r} is none, or is wrapped by another decorator")
        functools.update_wrapper(self, function, updated=())
        del self.__wrapped__
        self.definition = define(function, function.__name__ if name is None else name, local or {})
        check_decorators(self.definition.source, function, prompt_program)
        self._tree = compile_program(self.definition)
        self._signature = inspect.signature(function)

    @property
    def name(self) -> str:
        """Name of the schema, and of the module that a call in another program becomes."""
        return self.definition.name

    @functools.cached_property
    def schema(self) -> str:
        """The schema as PML. ProgramError: PML cannot carry a text as it is, which compile()
        can."""
        return schema_pml(self._tree)

    @property
    def modules(self) -> tuple[str, ...]:
        """Paths of all modules, in the order of the schema."""
        return tuple(paths_in(self._tree.children))

    def compile(self, model: Model, **options: Unpack[_api.SchemaOptions]) -> Schema:
        """The schema, laid out for a model. Errors name the line of the program."""
        from ._errors import Error
        from ._schema import SchemaBuilder
        builder = SchemaBuilder(model, self.name, **options)
        places: list[Place] = []
        _build(self._tree.children, builder, places)
        for modules in self._tree.scaffolds:
            builder.scaffold(modules)
        try:
            made: Schema = builder.schema()
            return made
        except Error as error:
            number, cause = _element_of(error, len(places))
            if number < 0:
                raise
            at = places[number]
            raise type(error)(f"{at.filename}:{at.line}:{at.column}: {cause}", error.status,
                              at.line, at.column) from None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ProgramPrompt:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.__name__}(): {error}") from None
        bound.apply_defaults()
        values: dict[str, object] = {}
        for name, value in bound.arguments.items():
            try:
                values[name] = self.definition.parameters[name].kind.check(value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.__name__}(): '{name}' {error}") from None
        return ProgramPrompt(self._tree, values)

    def __repr__(self) -> str:
        return f"<prompt program {self.__name__}{self._signature}>"


def _is_defined_in(scope: str, function: object) -> bool:
    """Whether a function was defined by the code of this name: a function, a class, a module."""
    around = getattr(function, "__qualname__", "").replace(".<locals>.", ".").split(".")[:-1]
    return (around[-1] if around else "<module>") == scope


@overload
def prompt_program(function: Callable[P, None], /) -> Program[P]: ...


@overload
def prompt_program(*, name: str | None = None) -> Callable[[Callable[P, None]], Program[P]]: ...


def prompt_program(function: Any = None, /, *, name: str | None = None) -> Any:
    """Compiles a function's source to a schema. name: of the schema, instead of the function's.

    Raises ProgramError, a SyntaxError, with file, line and reason.
    """
    frame = sys._getframe(1)
    scope, local = frame.f_code.co_name, frame.f_locals

    def made(decorated: Any) -> Any:
        return Program(decorated, name, local if _is_defined_in(scope, decorated) else None)
    return made if function is None else made(function)

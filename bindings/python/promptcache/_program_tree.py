"""The tree that a prompt program is compiled to, and what is made of it without the library: the
PML of its schema, the modules that a prompt uses, the PML of a prompt."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, Iterator, Sequence, Union

from ._program_language import Place, ProgramError, Values

Condition = Callable[[Values], bool]

BLANKS = " \t\r\n"

# What XML 1.0 has no way to write.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass
class TextNode:
    """Text, exactly."""

    text: str
    place: Place


@dataclass
class RoomNode:
    """A parameter of PML. argument: the parameter of the program that fills it."""

    name: str
    length: int
    scaffold: str | None
    argument: str
    place: Place


@dataclass
class ModuleNode:
    """condition: whether a prompt uses it; of a member of a union, the union says."""

    name: str
    children: list["Node"]
    place: Place
    condition: Condition | None = None
    cached: bool = True
    default: bool = False


@dataclass
class UnionNode:
    """The first test that holds says the member; None: that branch has no module."""

    tests: list[Condition]
    members: list[ModuleNode | None]
    place: Place

    def modules(self) -> list[ModuleNode]:
        return [member for member in self.members if member is not None]

    def chosen(self, values: Values) -> ModuleNode | None:
        for test, member in zip(self.tests, self.members):
            if test(values):
                return member
        return None


@dataclass
class TurnNode:
    """What stands in a turn of the chat template."""

    role: str
    children: list["Node"]
    place: Place


Node = Union[TextNode, RoomNode, ModuleNode, UnionNode, TurnNode]


@dataclass
class NewText:
    """Text of the prompt itself, behind all modules; role None: in no turn."""

    role: str | None
    pieces: list[Callable[[Values], str]]

    def text(self, values: Values) -> str:
        return "".join(piece(values) for piece in self.pieces)


@dataclass
class Tree:
    name: str
    children: list[Node]
    place: Place
    new_texts: list[NewText] = field(default_factory=list)
    scaffolds: list[tuple[str, ...]] = field(default_factory=list)


@dataclass
class Use:
    """A module that a prompt uses, with the arguments of its own parameters."""

    name: str
    path: str
    arguments: dict[str, str]
    inner: list["Use"]


def modules_in(children: Sequence[Node]) -> Iterator[ModuleNode]:
    """The modules of one parent: directly, in unions, in turns."""
    for child in children:
        if isinstance(child, ModuleNode):
            yield child
        elif isinstance(child, UnionNode):
            yield from child.modules()
        elif isinstance(child, TurnNode):
            yield from modules_in(child.children)


def paths_in(children: Sequence[Node], around: str = "") -> Iterator[str]:
    """The paths of all modules, in the order of the schema."""
    for module in modules_in(children):
        yield around + module.name
        yield from paths_in(module.children, f"{around}{module.name}/")


def _rooms(children: Sequence[Node]) -> Iterator[RoomNode]:
    for child in children:
        if isinstance(child, RoomNode):
            yield child
        elif isinstance(child, TurnNode):
            yield from _rooms(child.children)


def _use(module: ModuleNode, values: Values, around: str) -> Use:
    path = around + module.name
    arguments = {room.name: str(values[room.argument]) for room in _rooms(module.children)}
    return Use(module.name, path, {name: text for name, text in arguments.items() if text},
               list(uses(module.children, values, path + "/")))


def uses(children: Sequence[Node], values: Values, around: str = "") -> Iterator[Use]:
    """What a prompt with these values uses of a parent's children."""
    for child in children:
        if isinstance(child, ModuleNode):
            if child.condition is None or child.condition(values):
                yield _use(child, values, around)
        elif isinstance(child, UnionNode):
            member = child.chosen(values)
            if member is not None:
                yield _use(member, values, around)
        elif isinstance(child, TurnNode):
            yield from uses(child.children, values, around)


def flat_uses(tree: Tree, values: Values) -> Iterator[Use]:
    """All modules that a prompt uses, each in front of those in it."""
    pending = list(uses(tree.children, values))
    while pending:
        use = pending.pop(0)
        yield use
        pending[:0] = use.inner


# ---- What PML can carry


def unwritable(text: str) -> str | None:
    """Why XML cannot have this text; None: it can."""
    found = _NOT_XML.search(text)
    return None if found is None else f"PML cannot carry U+{ord(found[0]):04X}"


def _check_text(node: TextNode) -> None:
    reason = unwritable(node.text)
    if reason:
        raise ProgramError(f"{reason}; compile() can: it needs no PML", node.place)


class _Run:
    """The text between two elements other than turns. Of its blanks at an end, PML makes one space;
    a turn is text of the chat template and keeps blanks beside it."""

    def __init__(self) -> None:
        self.pieces: list[TextNode | None] = []  # None: a piece of the template

    def close(self) -> None:
        if self.pieces and self.pieces[0] is not None:
            self._check(False)
        if self.pieces and self.pieces[-1] is not None:
            self._check(True)
        self.pieces.clear()

    def _check(self, at_end: bool) -> None:
        blanks, at = "", None
        for piece in reversed(self.pieces) if at_end else self.pieces:
            if piece is None or not piece.text:
                break
            at = at or piece.place
            inner = piece.text.rstrip(BLANKS) if at_end else piece.text.lstrip(BLANKS)
            size = len(piece.text) - len(inner)
            blanks += piece.text[len(inner):] if at_end else piece.text[:size]
            if inner:
                break
        if at is not None and blanks not in ("", " "):
            where = "end" if at_end else "start"
            raise ProgramError(f"PML makes one space of the blanks {blanks!r} at the {where} of "
                               "this text: write one space, or none, or use compile(), which needs "
                               "no PML", at)


def _check_children(children: Sequence[Node], run: _Run) -> None:
    before: TextNode | None = None
    for child in children:
        if isinstance(child, TextNode):
            if child.text:
                _check_text(child)
                run.pieces.append(child)
                before = child
            continue
        if isinstance(child, TurnNode):
            if child.role == "system" and before and before.text[-1] in BLANKS:
                raise ProgramError("PML drops the blanks right before a system prompt: write none, "
                                   "or use compile(), which needs no PML", before.place)
            run.pieces.append(None)
            _check_children(child.children, run)
            run.pieces.append(None)
        else:
            run.close()
            for module in modules_in([child]):
                inside = _Run()
                _check_children(module.children, inside)
                inside.close()
            if isinstance(child, RoomNode) and unwritable(child.scaffold or ""):
                raise ProgramError(f"{unwritable(child.scaffold or '')}, which is in the scaffold "
                                   f"of '{child.name}'", child.place)
        before = None


# ---- Writing PML


def _escape(text: str) -> str:
    return (text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            .replace("\r", "&#13;"))


def _attribute(name: str, value: str) -> str:
    value = (_escape(value).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;"))
    return f' {name}="{value}"'


class _Writer:
    """Elements and texts without a blank between them that would be text. Line breaks stand inside
    of tags, in front of the '>' or '/>' that is kept back in `pending`."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.pending = ""
        self.depth = 0

    def _before_tag(self) -> None:
        if self.pending:
            self.out.append("\n" + "  " * self.depth + self.pending)
        self.pending = ""

    def text(self, text: str) -> None:
        if text:
            self.out.append(self.pending + _escape(text))
            self.pending = ""

    def open(self, tag: str, attributes: str = "") -> None:
        self._before_tag()
        self.out.append(f"<{tag}{attributes}")
        self.pending = ">"
        self.depth += 1

    def close(self, tag: str) -> None:
        self.depth -= 1
        self._before_tag()
        self.out.append(f"</{tag}")
        self.pending = ">"

    def empty(self, tag: str, attributes: str) -> None:
        """An element without children, on a line of its own."""
        self._before_tag()
        self.out.append(f"<{tag}{attributes}")
        self.pending = "/>"

    def leaf(self, tag: str, attributes: str) -> None:
        """An empty element on the line of the text around it."""
        self.out.append(f"{self.pending}<{tag}{attributes}/>")
        self.pending = ""

    def element(self, tag: str, attributes: str, children: Sequence[Node]) -> None:
        self.open(tag, attributes)
        self.children(children)
        self.close(tag)

    def children(self, children: Sequence[Node]) -> None:
        for child in children:
            if isinstance(child, TextNode):
                self.text(child.text)
            elif isinstance(child, RoomNode):
                scaffold = "" if child.scaffold is None else _attribute("scaffold", child.scaffold)
                self.leaf("parameter", f' name="{child.name}" length="{child.length}"{scaffold}')
            elif isinstance(child, ModuleNode):
                cache = "" if child.cached else ' cache="false"'
                self.element("module", f' name="{child.name}"{cache}', child.children)
            elif isinstance(child, UnionNode):
                default = [m.name for m in child.modules() if m.default]
                named = f' scaffold="{default[0]}"' if default else ""
                self.element("union", named, child.modules())
            else:
                self.element(child.role, "", child.children)


def schema_pml(tree: Tree) -> str:
    """The schema as PML; ProgramError if PML cannot carry one of its texts as it is."""
    run = _Run()
    _check_children(tree.children, run)
    run.close()
    writer = _Writer()
    writer.open("schema", f' name="{tree.name}"')
    writer.children(tree.children)
    for modules in tree.scaffolds:
        writer.empty("scaffold", _attribute("modules", " ".join(modules)))
    writer.close("schema")
    return "".join(writer.out) + ">\n"


def _argument(path: str, name: str, value: str) -> str:
    reason = unwritable(value)
    if reason:
        raise ValueError(f"argument '{path}/{name}': {reason}; prompt() can: it needs no PML")
    return _attribute(name, value)


def _use_lines(use: Use, indent: str) -> Iterator[str]:
    head = indent + "<" + use.name + "".join(_argument(use.path, name, value)
                                             for name, value in use.arguments.items())
    if not use.inner:
        yield head + "/>"
        return
    yield head + ">"
    for inner in use.inner:
        yield from _use_lines(inner, indent + "  ")
    yield f"{indent}</{use.name}>"


def _check_new_text(parts: list[tuple[str | None, str]]) -> None:
    for at, (role, text) in enumerate(parts):
        reason = unwritable(text)
        if reason:
            raise ValueError(f"the prompt's own text: {reason}; prompt() can: it needs no PML")
        if role is None and (at == 0 and text[0] in BLANKS
                             or at == len(parts) - 1 and text[-1] in BLANKS):
            raise ValueError(f"the prompt's own text: PML drops the blanks at the ends of "
                             f"{text!r}; prompt() keeps them: it needs no PML")


def new_texts(tree: Tree, values: Values) -> list[tuple[str | None, str]]:
    """The prompt's own texts with their roles; neighbours outside of turns are one."""
    parts: list[tuple[str | None, str]] = []
    for new in tree.new_texts:
        text = new.text(values)
        if new.role is None and parts and parts[-1][0] is None:
            parts[-1] = (None, parts[-1][1] + text)
        elif text or new.role is not None:
            parts.append((new.role, text))
    return parts


def prompt_pml(tree: Tree, values: Values) -> str:
    """The prompt as PML; ValueError if PML cannot carry an argument as it is."""
    parts = new_texts(tree, values)
    _check_new_text(parts)
    lines = [line for use in uses(tree.children, values) for line in _use_lines(use, "  ")]
    before: str | None = ""
    for role, text in parts:  # turns stand on lines of their own; blanks beside a text count
        said = f"<{role}>{_escape(text)}</{role}>" if role else _escape(text)
        if role is None and before or before is None:
            lines[-1] += said
        else:
            lines.append("  " + said)
        before = role
    return "\n".join([f'<prompt schema="{tree.name}">'] + lines + ["</prompt>"]) + "\n"

"""A small reader of PML for checking the model without the engine: schema -> layout, prompt ->
rows of tokens.

Covers what the files in examples/pml use: <system>, modules, unions, parameters, a trailing <user>.
Whitespace: the blanks at either end of a text run shrink to one space each; a run of blanks only
is one space.
"""
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from tokenizer import ASSIST, BOS, END, SYS, UNK, USER

CHAT = ("system", "user", "assistant")


def shrink(text, left=True, right=True):
    """One space for the blanks at the outer ends of a run."""
    core = text.strip()
    if not core:
        return " " if text else ""
    lead = text[:1].isspace() and left
    trail = text[-1:].isspace() and right
    return (" " if lead else text[:len(text) - len(text.lstrip())]) + core + \
        (" " if trail else text[len(text.rstrip()):])


@dataclass
class Leaf:
    """A text segment, or a parameter when it has a name."""
    owner: str                                          # module, "" the root
    start: int
    ids: list
    name: str = ""


@dataclass
class Schema:
    name: str = ""
    leaves: list = field(default_factory=list)
    length: int = 0


class Reader:
    def __init__(self, enc):
        self.enc = enc

    def system_run(self, element, before):
        """A <system> joins the text around it to one run."""
        head = self.enc(before.rstrip()) if before.strip() else []
        tail = element.tail or ""
        after = shrink(tail, left=False) if tail.strip() else (" " if tail else "")
        return head + [BOS, SYS] + self.enc(
            (element.text or "")) + [END] + (self.enc(after) if after else [])

    def children(self, element, owner, pos, out):
        """Lays out the contents of a schema or module; -> the position after them."""
        def text(ids):
            nonlocal pos
            if ids:
                out.append(Leaf(owner, pos, ids))
                pos += len(ids)
        pending = element.text or ""
        for c in element:
            if c.tag == "system":
                text(self.system_run(c, pending))
                pending = ""
                continue
            text(self.enc(shrink(pending)) if pending else [])
            if c.tag == "module":
                pos = self.children(c, c.get("name"), pos, out)
            elif c.tag == "union":
                pos = max(self.children(m, m.get("name"), pos, out) for m in c)
            elif c.tag == "parameter":
                n = int(c.get("length"))
                out.append(Leaf(owner, pos, [UNK] * n, c.get("name")))
                pos += n
            else:
                raise ValueError("unexpected element " + c.tag)
            pending = c.tail or ""
        text(self.enc(shrink(pending)) if pending else [])
        return pos

    def schema(self, xml):
        root = ET.fromstring(xml)
        s = Schema(root.get("name"))
        s.length = self.children(root, "", 0, s.leaves)
        return s

    def prompt(self, xml):
        """-> imported modules with their arguments, question"""
        root = ET.fromstring(xml)
        use = {c.tag: dict(c.attrib) for c in root if c.tag not in CHAT}
        return use, root.find("user").text.strip()


@dataclass
class Rows:
    """Tokens of a request: id, position, group (what was encoded together), seen by later
    tokens."""
    ids: list = field(default_factory=list)
    pos: list = field(default_factory=list)
    group: list = field(default_factory=list)
    seen: list = field(default_factory=list)

    def put(self, ids, start, group, seen=True):
        n = len(ids)
        self.ids += ids
        self.pos += range(start, start + n)
        self.group += [group] * n
        self.seen += [seen] * n


NEW = "new"  # group of the tokens computed at request time


def rows(enc, schema, use, question, mode):
    """mode: prefill (one causal pass at the schema's positions), packed (the same without gaps),
    independent, sink."""
    r, new = Rows(), []
    cached = mode in ("independent", "sink")
    for i, leaf in enumerate(schema.leaves):
        if leaf.owner and leaf.owner not in use:
            continue
        group = (leaf.owner or f"root {i}") if cached else NEW
        if not leaf.name:
            r.put(leaf.ids, leaf.start, group)
            continue
        arg = enc(use[leaf.owner].get(leaf.name, ""))
        assert len(arg) <= len(leaf.ids), "the argument is too long"
        if cached:  # encoded over placeholders, replaced at request time
            r.put(leaf.ids, leaf.start, group, False)
            new.append((arg, leaf.start))
        else:
            r.put(arg, leaf.start, NEW)
    for arg, start in new:
        r.put(arg, start, NEW)
    r.put([USER] + enc(question) + [END, ASSIST], schema.length, NEW)
    if mode == "packed":
        r.pos = list(range(len(r.ids)))
    return r

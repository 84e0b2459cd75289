"""Jinja as transformers sets it up, and the library's interpreter as a process beside it."""
import json
import subprocess
import sys
import warnings

try:
    from jinja2 import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import CallBlock
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("skipped: Python has no jinja2 (python3-jinja2)")
    sys.exit(77)

warnings.simplefilter("ignore", SyntaxWarning)  # of what Jinja makes of odd templates


class Generation(Extension):
    """{% generation %} marks an answer's text, as transformers has it."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return CallBlock(self.call_method("same"), [], [], body).set_lineno(line)

    @staticmethod
    def same(caller):
        return caller()


def refuse(text):
    raise TemplateError(text)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """As transformers has it: Jinja's own escapes HTML."""
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[loopcontrols, Generation])
    made.globals["raise_exception"] = refuse
    made.filters["tojson"] = tojson
    return made


class Jinja:
    """What Jinja makes of a conversation; None: it fails."""

    def __init__(self, text):
        self.error = None
        try:
            self.template = environment().from_string(text)
        except Exception as e:  # any failure of a template counts
            self.template = None
            self.error = e

    def render(self, talk, bos, eos, generate=True, tools=None, variables=None):
        """A message is its role, its content and perhaps a dict of further members."""
        values = dict(variables or {})
        values.update({"messages": [{"role": m[0], "content": m[1], **(m[2] if m[2:] else {})}
                                    for m in talk],
                       "tools": tools, "documents": None, "add_generation_prompt": generate})
        values.update({k: v for k, v in (("bos_token", bos), ("eos_token", eos)) if v is not None})
        if not self.template:
            return None
        try:
            return self.template.render(**values)
        except Exception as e:  # also errors of Python
            self.error = e
            return None


def ask(program, questions):
    """The answers of the library's interpreter, `program` (test/support/run_jinja.c): dicts with
    "made", "refused" or "unknown". A question: template, messages, bos, eos, generate, chat, and
    perhaps tools and variables."""
    keys = ("template", "messages", "bos", "eos", "generate", "chat", "tools", "variables")
    lines = "".join(json.dumps(dict(zip(keys, q))) + "\n" for q in questions)
    ran = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    if ran.returncode or len(answers) != len(questions):
        raise SystemExit("the program ended with %d at: %s" % (
            ran.returncode, lines.splitlines()[len(answers) % len(questions)]))
    return answers

"""Catches: text of files that reaches a terminal as it is: control characters (escape sequences
set titles, colours, keys), C1 controls, DEL, marks of direction, bytes that are not UTF-8; in what
the commands print, in their errors, in JSON and YAML. And the other way: text of a model that is
changed on its way into a pipe.

    python3 test_foreign_text.py SOURCE_FOLDER PROGRAM
"""
import json
import os
import pty
import struct
import subprocess
import sys
import unicodedata

from checking import check, run_in_folder

SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:3])
DEMO = os.path.join(SOURCE, "models", "demo", "demo.gguf")
EVIL = "\x1b]0;title\x07\x1b[2J\x7f\x9b31m\u202e\u2066\u061c\u2028"
MARKS = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"


def is_clean(data):
    """Whether a terminal shows the bytes and obeys none of them."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return not any(c in MARKS or (unicodedata.category(c) == "Cc" and c not in "\n\t")
                   for c in text)


def run(*arguments, code=0, given=b""):
    done = subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, check=False)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr}")
    check(is_clean(done.stdout), f"{arguments}: standard output: {done.stdout}")
    check(is_clean(done.stderr), f"{arguments}: standard error: {done.stderr}")
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def on_terminal(*arguments):
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                          stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        data = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            data += more
        process.wait()
        check(process.returncode == 0, f"{arguments}: exit code {process.returncode}")
    os.close(ours)
    return data.replace(b"\r\n", b"\n")


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def gguf(path, keys, tensors=((b"t\x1b[31m\xff", 0),)):
    """A file of texts and tensors of one number; the tensors' type may be unknown."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys:
        data += text(key) + struct.pack("<I", 8) + text(value)
    for i, (name, kind) in enumerate(tensors):
        data += text(name) + struct.pack("<IQIQ", 1, 1, kind, 32 * i)
    data += b"\0" * (-len(data) % 32) + b"\0" * 32 * len(tensors)
    with open(path, "wb") as file:
        file.write(data)


def models():
    gguf("a.gguf", [("general.architecture", EVIL + "x")])
    said = run("info", "a.gguf", code=3)
    check("<U+001B>]0;title<U+0007>" in said and "<U+202E>" in said, said)
    facts = run("info", "a.gguf", "--json", code=3)
    check("\\u001B" in facts and "\\u202E" in facts and "\\u007f" in facts, facts)
    check(json.loads(facts.splitlines()[0])["architecture"][:8] == EVIL[:8], "architecture")
    run("info", "a.gguf", "--yaml", code=3)
    gguf("b.gguf", [("general.architecture", b"\xff\xe4\xb8ab\xc3")])
    check("\ufffd\ufffdab\ufffd" in run("info", "b.gguf", code=3), "bytes that are not UTF-8")
    run("info", "b.gguf", "--json", code=3)
    gguf("c.gguf", [("general.architecture", "llama")], ((b"t\x1b[31m\xff" * 1000, 77),))
    said = run("info", "c.gguf", code=3)
    check("t<U+001B>[31m\ufffd" in said and "has type unknown (77)" in said, said)
    gguf("d.gguf", [("general.architecture", "llama")] + [("k\x9b" * 3000, "a")] * 2)
    check("appears twice" in run("info", "d.gguf", code=3), "the cause behind a long key")
    for value in ("llama" + EVIL, "\x9b" * 400, "\u4e2d" * 400):
        os.makedirs("folder", exist_ok=True)
        with open("folder/config.json", "w", encoding="utf-8") as file:
            json.dump({"model_type": value, "hidden_size": 768}, file, ensure_ascii=False)
        run("info", "folder", code=3)
        run("run", "--model", "folder", "--text", "a", code=3)
        with open("folder/config.json", "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "hidden_size": value, "vocab_size": 9}, file,
                      ensure_ascii=False)
        said = run("info", "folder", code=3)
        check("expected a width from 1 to" in said, said)
    run("info", "no\x1b[31m\x9b\udcff.gguf", code=3)
    run("info", "--kv", EVIL, DEMO, code=2)


def documents():
    with open("s.pml", "w", encoding="utf-8") as file:
        file.write("<schema name='s'><module name='m'>a\u009b31m\u202eb\u2066\u007fc"
                   "</module></schema>")
    said = run("show", "s.pml", "--model", DEMO)
    check("<U+009B>31m<U+202E>" in said, said)
    run("show", "s.pml", "--model", DEMO, "--json")
    with open("t.pml", "w", encoding="utf-8") as file:
        file.write("<schema name='s'><module name='m'><x\u202e>\u009b</x\u202e></module></schema>")
    run("show", "t.pml", "--model", DEMO, code=3)
    run("inspect", "no folder\x1b[31m\u202e", code=3)


def written_text():
    """Every byte as a token."""
    raw = b"a\x1b[31mb\tc\n\xff\xc2\x9b\xe2\x80\xae\xe4\xb8\xad."
    ids = subprocess.run([PROGRAM, "tokenize", "--model", DEMO], input=raw, capture_output=True,
                         check=True).stdout
    plain = subprocess.run([PROGRAM, "tokenize", "--model", DEMO, "--decode"], input=ids,
                           capture_output=True, check=True).stdout
    check(plain == raw, f"into a pipe: {plain}")
    shown = on_terminal("tokenize", "--model", DEMO, "--decode", ids.decode().strip())
    check(shown == "a<U+001B>[31mb\tc\n\ufffd<U+009B><U+202E>\u4e2d.".encode(), shown)
    answer = ("run", "--model", DEMO, "--text", "What is", "--max-tokens", "12")
    plain = subprocess.run([PROGRAM, *answer], capture_output=True, check=True).stdout
    check(on_terminal(*answer).startswith(plain[:20]), plain)


def main():
    models()
    documents()
    written_text()


if __name__ == "__main__":
    run_in_folder(main)

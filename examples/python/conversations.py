#!/usr/bin/env python3
"""Conversations over shared documents, in Python by cffi: they run in one batch, one is cancelled,
one is branched, and one is saved and resumed from the cache's folder. Logits are read where the
library has them; nothing is copied.

usage: conversations.py LIBRARY API MODEL SCHEMA FOLDER
  LIBRARY  libpromptcache.so
  API      folder of promptcache.cdef.h: pkg-config --variable=api promptcache
  MODEL    models/demo/demo.gguf        SCHEMA  examples/pml/employees.pml
  FOLDER   of the cache; it is made"""
import os
import sys

if len(sys.argv) != 6:
    help_wanted = sys.argv[1:] == ["--help"]
    print(__doc__, file=sys.stdout if help_wanted else sys.stderr)
    sys.exit(0 if help_wanted else 2)
try:
    import cffi
except ImportError:
    print("conversations: Python's cffi is not installed (python3-cffi)")
    sys.exit(77)

library, api, model_path, schema_path, folder = sys.argv[1:]
ffi = cffi.FFI()
with open(os.path.join(api, "promptcache.cdef.h"), encoding="utf-8") as text:
    ffi.cdef(text.read())
lib = ffi.dlopen(library)


def check(status):
    """Every call goes through here: an error becomes an exception with the library's text."""
    if status < 0:
        raise RuntimeError(ffi.string(lib.pc_error_text()).decode())
    return status


def struct(name, **fields):
    """A struct of options or results with its defaults, and some fields set. Strings and arrays
    that fields point to must stay alive: keep them in variables."""
    made = ffi.new(name + " *")
    getattr(lib, name + "_init")(made, ffi.sizeof(name))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def make(call, kind, *arguments):
    """The object that call(&out, ...) makes. It is freed with its last reference; objects hold
    those that they need, so the order does not matter."""
    out = ffi.new(kind + " **")
    check(call(out, *arguments))
    return ffi.gc(out[0], getattr(lib, kind + "_free"))


@ffi.callback("pc_text_fn", error=lib.PC_ERR_INTERNAL)
def on_text(user, _sample, chars, size):
    ffi.from_handle(user).answer += ffi.buffer(chars, size)[:]
    return 0


class Conversation:
    """One sequence that is kept between turns."""

    def __init__(self):
        self.answer = b""
        self.handle = ffi.new_handle(self)
        self.options = struct("pc_generate_options", max_tokens=40, on_text=on_text,
                              on_text_user=self.handle,
                              flags=lib.PC_GENERATE_KEEP | lib.PC_GENERATE_LOGITS)
        self.sequence = None

    def begin(self, question):
        """The first turn: the documents of the schema stand in the system message."""
        chat = struct("pc_chat_options", schema=schema)
        messages = ffi.new("pc_message[2]", [{"role": SYSTEM, "content": NOTHING,
                                              "modules": documents,
                                              "module_count": len(documents)},
                                             self.message(question)[0]])
        prompt = make(lib.pc_prompt_from_messages, "pc_prompt", model, messages,
                      ffi.sizeof("pc_message"), 2, chat)
        self.join(make(lib.pc_sequence_new, "pc_sequence", prompt, cache, self.options))

    def ask(self, question):
        self.answer = b""
        check(lib.pc_sequence_push_messages(self.sequence, self.message(question),
                                            ffi.sizeof("pc_message"), 1, ffi.NULL))

    def branch(self):
        copy = Conversation()
        sequence = make(lib.pc_sequence_fork, "pc_sequence", self.sequence, ffi.NULL)
        check(lib.pc_sequence_set_options(sequence, copy.options))
        copy.join(sequence)
        return copy

    def resume(self, key):
        out = ffi.new("pc_sequence **")
        if check(lib.pc_sequence_load(out, model, cache, key, self.options, ffi.NULL,
                                      ffi.NULL)) == lib.PC_MISS:
            raise KeyError(key)
        self.join(ffi.gc(out[0], lib.pc_sequence_free))

    def join(self, sequence):
        self.sequence = sequence
        check(lib.pc_batch_add(batch, sequence))

    def message(self, content):
        self.text = ffi.new("char[]", content.encode())  # must live as long as the message
        return ffi.new("pc_message *", {"role": USER, "content": self.text,
                                        "content_size": len(content.encode())})

    def likeliest(self):
        """The likeliest next token, out of the library's own memory."""
        count = ffi.new("size_t *")
        logits = lib.pc_sequence_logits(self.sequence, count)
        return max(range(count[0]), key=lambda token: logits[token])

    def tokens(self):
        stats = struct("pc_stats")
        check(lib.pc_sequence_get_stats(self.sequence, stats))
        return stats.tokens_cached, stats.tokens_prompt


def run():
    """Steps the batch until all answers are there."""
    while check(lib.pc_batch_step(batch)) != lib.PC_END:
        pass


def names_of_modules():
    item = struct("pc_item")
    for index in range(lib.pc_schema_item_count(schema)):
        check(lib.pc_schema_get_item(schema, index, item))
        if item.kind == lib.PC_ITEM_MODULE:
            yield item.path


SYSTEM, USER, NOTHING = (ffi.new("char[]", text) for text in (b"system", b"user", b""))
folder_text = ffi.new("char[]", folder.encode())
context = make(lib.pc_context_new, "pc_context", ffi.NULL)
model = make(lib.pc_model_load, "pc_model", context, model_path.encode(), ffi.NULL)
schema = make(lib.pc_schema_load, "pc_schema", model, schema_path.encode(), ffi.NULL)
documents = ffi.new("char *[]", list(names_of_modules()))
batch = make(lib.pc_batch_new, "pc_batch", model, ffi.NULL)
cache = make(lib.pc_cache_new, "pc_cache", context,
             struct("pc_cache_options", disk_path=folder_text))

anna, oscar = Conversation(), Conversation()
anna.begin("What is the desk of Anna Reed?")
oscar.begin("What is the job of Oscar Baker?")
check(lib.pc_batch_step(batch))
check(lib.pc_sequence_cancel(oscar.sequence))
run()
print("anna:", anna.answer.decode())
print("oscar:", "cancelled" if lib.pc_sequence_finish(oscar.sequence) == lib.PC_FINISH_CANCELLED
      else oscar.answer.decode())
print("likeliest next token:", anna.likeliest())

KEY = b"conversation of anna".ljust(32)
check(lib.pc_sequence_save(anna.sequence, cache, KEY, ffi.NULL))
copy = anna.branch()
anna.ask("What is the job of Anna Reed?")
copy.ask("What is the phone of Anna Reed?")
run()
print("anna:", anna.answer.decode())
print("branch:", copy.answer.decode())
del anna, copy

back = Conversation()
back.resume(KEY)
back.ask("What is the hobby of Anna Reed?")
run()
print("resumed:", back.answer.decode(), "(%d of %d tokens from the cache)" % back.tokens())

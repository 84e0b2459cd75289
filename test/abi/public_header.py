"""Structs with their fields, constants, codes and functions of the public headers: promptcache.h
and those in the folder promptcache beside it. The checks beside this file use it."""
import glob
import os
import re

# The library fills these and gives them to a callback. The caller never sets them up, so they need
# no INIT macro.
GIVEN_BY_LIBRARY = {"pc_codec_block", "pc_encode_args", "pc_event", "pc_step_args", "pc_trace"}


class Header:
    def __init__(self, path):
        more = sorted(glob.glob(os.path.join(os.path.dirname(path), "promptcache", "*.h")))
        self.names = ["promptcache.h"] + ["promptcache/" + os.path.basename(name) for name in more]
        self.each = {name: self._code(file) for name, file in zip(self.names, [path] + more)}
        self.code = "\n".join(self.each.values())
        self.includes = [f"#include <{name}>" for name in self.names]
        self.structs = {}
        for name, body in re.findall(r"struct (pc_\w+) \{(.*?)\n\}(?: \1)?;", self.code,
                                     flags=re.S):
            self.structs[name] = [field for line in body.split(";") if line.strip()
                                  for field in self._fields(line)]
        self.enums = [re.findall(r"(PC_\w+) =", body)
                      for body in re.findall(r"enum \{(.*?)\}", self.code, flags=re.S)]
        self.constants = [name for names in self.enums for name in names]
        self.macros = dict(re.findall(r"^#define (PC_[A-Z0-9_]+)[ \t]+(.*?)[ \t]*$", self.code,
                                      flags=re.M))
        self.codes = {name: (int(value), text) for name, value, text in
                      re.findall(r'X\((PC_\w+), (-?\d+), "(.*?)"\)', self.code)}
        self.inits = set(re.findall(r"#define (PC_\w+_INIT)\b", self.code))
        self.version = tuple(int(v) for v in re.findall(
            r"#define PC_VERSION_M(?:AJOR|INOR) (\d+)", self.code))

    @staticmethod
    def _code(path):
        with open(path, encoding="utf-8") as file:
            return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)

    @staticmethod
    def _fields(line):
        """The names that a line declares: one function pointer, or any number of others."""
        pointer = re.search(r"\(\*(\w+)\)\(", line)
        if pointer:
            return [pointer.group(1)]
        return [re.search(r"(\w+)(\[\w+\])*\s*$", declarator).group(1)
                for declarator in line.split(",")]

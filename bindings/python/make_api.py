#!/usr/bin/env python3
"""Makes promptcache/_api.py of the Python package from the description of the interface:

    make_api.py API OUT.py

API: folder of promptcache.json. The module has the enums, a class for each struct of results, and
for each struct of options its keywords: their types and comments (a TypedDict), and how a value
gets into the struct (TAKES). No name, value or comment of the interface is repeated by hand; what
is written here is how things are called in Python."""
import json
import os
import re
import sys

# What an enum is called in Python. Enums of flags that are missing here become keywords.
ENUMS = {
    "PC_OK": "Status", "PC_LOG_": "LogLevel", "PC_DTYPE_": "DType", "PC_POSITION_": "Position",
    "PC_TIER_": "Tier", "PC_TIERS_": "Tiers", "PC_CODEC_": "Codec", "PC_ENCODE_": "Encoding",
    "PC_VISIBLE_": "Visibility", "PC_REPAIR_": "Repair", "PC_EXACT": "Exactness",
    "PC_REASON_": "Reason", "PC_FINISH_": "Finish", "PC_EVENT_": "EventKind",
    "PC_LAYOUT_": "Layout", "PC_POOL_": "Pooling", "PC_MAP_": "MapFormat", "PC_INDEX_": "Index",
    "PC_OUTPUT_": "Output", "PC_LOSS_": "Loss", "PC_REUSE_": "Reuse", "PC_ITEM_": "ItemKind",
    "PC_PART_": "PartKind", "PC_KV_": "KVOrder", "PC_PLUGIN_": "PluginState",
    "PC_COSTS_": "CostsSource", "PC_MODEL_FILE_": "ModelFileKind", "PC_TOKENIZE_": None,
    "PC_COST_": None,
}
FLAGS = {"Tiers", "Output"}
# Fields that hold an enumerator, which their comment does not say.
ENUM_OF = {("pc_model_options", "compute"): "DType", ("pc_model_options", "kv"): "DType",
           ("pc_attend_shape", "dtype"): "DType", ("pc_find_options", "tiers"): "Tiers",
           ("pc_get_options", "tiers"): "Tiers", ("pc_remove_options", "tiers"): "Tiers",
           ("pc_put_options", "tiers"): "Tiers", ("pc_save_options", "tiers"): "Tiers",
           ("pc_generate_options", "repair_tokens"): None}
RESULTS = {
    "pc_model_info": "ModelInfo", "pc_stats": "Stats", "pc_item": "Item", "pc_part": "Part",
    "pc_event": "Event", "pc_cache_stats": "CacheStats", "pc_tier_stats": "TierStats",
    "pc_batch_stats": "BatchStats", "pc_get_info": "GetInfo", "pc_token": "Token",
    "pc_memo_bucket": "MemoBucket", "pc_memo_stats": "MemoStats", "pc_memo_result": "MemoResult",
    "pc_prefill_stats": "PrefillStats", "pc_embed_stats": "EmbedStats",
    "pc_plugin_info": "PluginInfo", "pc_costs": "Costs", "pc_model_file_info": "ModelFileInfo",
    "pc_record_info": "RecordInfo", "pc_raw": "StatesInfo", "pc_system_info": "SystemInfo",
    "pc_model_file_type": "ModelFileType",
}
OPTIONS = {
    "pc_context_options": "ContextOptions", "pc_model_options": "ModelOptions",
    "pc_cache_options": "CacheOptions", "pc_schema_options": "SchemaOptions",
    "pc_encode_options": "EncodeOptions", "pc_prompt_options": "PromptOptions",
    "pc_sampling": "Sampling", "pc_generate_options": "GenerateOptions",
    "pc_save_options": "SaveOptions", "pc_batch_options": "BatchOptions",
    "pc_system_format": "FormatOptions", "pc_chat_options": "ChatOptions",
    "pc_put_options": "PutOptions", "pc_get_options": "GetOptions",
    "pc_find_options": "FindOptions", "pc_remove_options": "RemoveOptions",
    "pc_embed_options": "EmbedOptions", "pc_memo_options": "MemoOptions",
    "pc_memo_work": "MemoWork", "pc_prefill_options": "PrefillOptions",
    "pc_key_parts": "KeyParts", "pc_raw": "StatesOptions", "pc_rope": "RopeOptions",
    "pc_systems_options": "SystemsOptions",
    "pc_attend_shape": "AttendShape", "pc_attend_args": "AttendOptions",
}
# Fields that are no keywords: what Python has no use for, and results and arrays that a method
# takes as arguments of its own.
LEFT_OUT = {"struct_size", "reserved", "allocator", "parallel_for", "parallel_user", "codecs",
            "codec_count", "bench", "sampling", "format", "format_size", "types", "embeddings",
            "logits", "segments", "results", "result_stride", "threshold", "memo_threshold", "pool",
            "blocks", "block_bytes", "block_count", "map_layers", "pages", "q", "out", "lse",
            "rope", "pool_k", "pool_v", "k_scales", "v_scales", "frequency", "slopes", "sinks",
            "stream", "q_dtype", "out_dtype", "first_kv_head", "kv_head_count"}
KEPT = {("pc_embed_options", "pool"), ("pc_prefill_options", "pool"),
        ("pc_generate_options", "memo_threshold"), ("pc_prefill_options", "threshold"),
        ("pc_prefill_options", "map_layers")}
CALLS = {
    "on_text": "Callable[[int, str], Optional[bool]]",
    "on_token": "Callable[[Token], Optional[bool]]",
    "on_logits": "Callable[[int, Any], Optional[bool]]",
    "cancelled": "Callable[[], bool]",
    "progress": "Callable[[str, int, int], Optional[bool]]",
    "log": "Callable[[LogLevel, str], None]",
    "on_event": "Callable[[Event], None]",
    "on_bytes": "Callable[[Tier, int, int], None]",
    "on_disabled": "Callable[[int, float, float], None]",
}
HANDLES = {"pc_memo": "Memo", "pc_schema": "Schema", "pc_grammar": "Grammar"}
ARRAYS = {"const int32_t *": "int32_t[]", "const uint32_t *": "uint32_t[]",
          "const float *": "float[]", "const int64_t *": "int64_t[]", "const double *": "double[]"}


def words(comment, indent):
    """A comment as lines of a docstring."""
    text = comment.replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    return ("\n" + indent).join(line.rstrip() for line in text.split("\n"))


class Interface:
    def __init__(self, api):
        self.api = api
        self.structs = {item["name"]: item for item in api["structs"]}
        self.enums = {}      # Python's name: (comment, [(name, value, comment)])
        self.of_constant = {}  # PC_DTYPE_F32: DType
        self.of_prefix = {}
        self.of_flag = {}    # PC_GENERATE_KEEP: `keep`
        self.cut = {}        # length of what constants of an enum begin with
        self.flags = {}      # struct: [(keyword, value, comment)]
        for enum in api["enums"]:
            if enum["header"] != "promptcache/bench.h":
                self.read_enum(enum)

    def read_enum(self, enum):
        first = enum["enumerators"][0]
        prefix = enum["prefix"] or first["name"]
        name = ENUMS.get(first["name"]) or ENUMS.get(prefix)
        structs = re.findall(r"(pc_\w+)\.flags", enum["comment"])
        if not name:
            for item in enum["enumerators"] if structs else ():
                self.of_flag[item["name"]] = f"`{item['name'].split('_', 2)[2].lower()}`"
            for struct in structs:
                self.flags.setdefault(struct, []).extend(
                    (item["name"].split("_", 2)[2].lower(), item["value"],
                     item["comment"] or enum["comment"].split(": ", 1)[-1].split("\n", 1)[-1])
                    for item in enum["enumerators"])
            return
        cut = 3 if name in ("Status", "Exactness") else len(enum["prefix"])
        self.enums[name] = (enum["comment"], [
            (item["name"][cut:], item["value"], item.get("text") or item["comment"])
            for item in enum["enumerators"]])
        self.cut[name] = cut
        self.of_constant.update((item["name"], name) for item in enum["enumerators"])
        if cut > 3:
            self.of_prefix[enum["prefix"]] = name

    def said(self, text):
        """A comment with the names that things have in Python."""
        def of_prefix(match):
            return self.of_prefix.get(match.group(1), match.group(0))

        def of_constant(match):
            name = match.group(0)
            if name in self.of_constant:
                enum = self.of_constant[name]
                return f"{enum}.{name[self.cut[enum]:]}"
            return self.of_flag.get(name, name)
        text = re.sub(r"\b(PC_[A-Z0-9_]+_)…", of_prefix, text)
        text = re.sub(r"\bPC_[A-Z0-9_]+\b", of_constant, text)
        text = re.sub(r"\bpc_\w+\b", lambda match: {**RESULTS, **HANDLES}.get(
            match.group(0), match.group(0)), text)
        text = re.sub(r"\bNULL\b", "None", text)
        return re.sub(r"\bINFINITY\b", "inf", text)

    def enum_of(self, struct, field):
        """The enum of a field, or None."""
        key = (struct, field["name"])
        if key in ENUM_OF:
            return ENUM_OF[key]
        if not re.fullmatch(r"u?int(32|64)_t", field["type"]) or "length" in field:
            return None
        if field.get("constants") in self.of_prefix:
            return self.of_prefix[field["constants"]]
        found = {self.of_constant[name] for name in re.findall(r"PC_[A-Z0-9_]+", field["comment"])
                 if name in self.of_constant}
        return found.pop() if len(found) == 1 and field["type"] == "uint32_t" else None

    # ---- Enums

    def write_enum(self, name):
        comment, members = self.enums[name]
        yield f"class {name}({'OpenFlag' if name in FLAGS else 'OpenEnum'}):"
        yield f'    """{words(self.said(comment) or name, "    ")}"""'
        yield ""
        for member, value, text in members:
            text = self.said(text)
            member = member if member.isidentifier() else "_" + member
            yield f"    {member} = {value}"
            if text:
                yield f'    """{words(text, "    ")}"""'
        yield ""
        yield ""

    # ---- Results

    def results(self, struct):
        """(attribute, how it is read, annotation, comment)"""
        fields = self.structs[struct]["fields"]
        for index, field in enumerate(fields):
            name, kind = field["name"], field["type"]
            if name in ("struct_size", "reserved", "relative", "blocks", "block_bytes"):
                continue
            enum = self.enum_of(struct, field)
            following = fields[index + 1]["name"] if index + 1 < len(fields) else ""
            if name.endswith("_count") or name == "count" or name == "text_size":
                continue
            if enum:
                yield name, f'("enum", {enum})', enum, field["comment"]
            elif "length" in field and kind == "char":
                yield name, '("text",)', "str", field["comment"]
            elif "length" in field and kind == "uint8_t":
                yield name, '("bytes",)', "_bytes", field["comment"]
            elif "length" in field:
                inner = "float" if kind == "double" else "int"
                yield name, '("row",)', f"Tuple[{inner}, ...]", field["comment"]
            elif kind == "const char *":
                how = f'("sized", "{following}")' if following == "text_size" else '("string",)'
                if struct == "pc_item" and name == "text":
                    how = '("sized", "text_size")'
                yield name, how, "str", field["comment"]
            elif kind == "const uint8_t *":
                yield name, '("digest",)', "_bytes", field["comment"]
            elif kind in ARRAYS:
                count = next(item["name"] for item in fields[index + 1:]
                             if item["name"].endswith("count"))
                inner = "float" if "double" in kind else "int"
                yield name, f'("array", "{count}")', f"Tuple[{inner}, ...]", field["comment"]
            elif field["comment"].startswith("1: "):
                yield name, '("bool",)', "bool", field["comment"][3:]
            else:
                inner = "float" if kind in ("double", "float") else "int"
                yield name, '("number",)', inner, field["comment"]
        if struct == "pc_item":
            yield "uncached", '("flags", "flags", 1)', "bool", self.flags["pc_item"][0][2]

    def write_result(self, struct, name):
        rows = list(self.results(struct))
        comment = self.structs[struct]["comment"]
        yield f"class {name}(Record):"
        yield f'    """{words(self.said(comment) or name, "    ")}"""'
        yield ""
        yield f'    _struct = "{struct}"'
        yield "    _fields = {"
        for attribute, how, _, _ in rows:
            yield f'        "{attribute}": {how},'
        yield "    }"
        for attribute, _, annotation, text in rows:
            text = self.said(text)
            yield f"    {attribute}: {annotation}"
            if text:
                yield f'    """{words(text, "    ")}"""'
        yield ""
        yield ""

    # ---- Options

    def keywords(self, struct):
        """(keyword, how it is set, annotation, comment)"""
        fields = self.structs[struct]["fields"]
        for index, field in enumerate(fields):
            name, kind = field["name"], field["type"]
            behind = [item["name"] for item in fields[index + 1:index + 3]] + ["", ""]
            if name in LEFT_OUT and (struct, name) not in KEPT:
                continue
            if kind == "void *" or name.endswith(("_user", "_stride", "_size", "_count",
                                                  "_values")):
                continue
            text, enum = field["comment"], self.enum_of(struct, field)
            if name == "flags":
                for flag, value, said in self.flags.get(struct, ()):
                    yield flag, f'("flag", "flags", {value})', "bool", said
            elif enum:
                annotation = f"Union[{enum}, str]"
                if enum in FLAGS:
                    annotation = f"Union[{enum}, Iterable[Union[{enum}, str]], str]"
                names = ", ".join(member.lower() for member, _, _ in self.enums[enum][1])
                yield (name, f'("enum", "{name}", {enum})', annotation,
                       f"{text}\n{enum}: {names}." if text != field.get("constants", "") + "…"
                       else f"{names}.")
            elif kind == "char":
                yield name, f'("name", "{name}", {field["length"]})', "str", text
            elif name in CALLS:
                known = {item["name"] for item in self.api["function_types"]}
                extern = (f"py_{kind[3:]}" if kind in known
                          else f"py_{struct[3:]}_{name}")
                yield name, f'("call", "{name}", "{behind[0]}", "{extern}")', CALLS[name], text
            elif name == "salts":
                yield (name, '("salts", "salts")', "Sequence[Tuple[int, bytes]]",
                       text + "\nEach: (first position, bytes).")
            elif name == "bias_tokens":
                yield ("logit_bias", '("bias", "bias_tokens")', "Mapping[int, float]",
                       "Added to the logits of these tokens; float('-inf') forbids one.")
            elif kind == "const void *":
                yield name, f'("bytes", "{name}", "{behind[0]}")', "bytes", text
            elif kind == "const uint8_t *":
                yield name, f'("digest", "{name}")', "bytes", text
            elif kind == "const char *" and behind[0] == name + "_size":
                yield name, f'("sized", "{name}", "{behind[0]}")', "str", text
            elif kind == "const char *":
                annotation = "Union[str, PathLike[str]]" if re.search(
                    r"path|folder|file|packed", name) else "str"
                how = "json" if re.match(r"JSON", text) else "text"
                yield name, f'("{how}", "{name}")', "Any" if how == "json" else annotation, text
            elif kind == "const char *const *":
                yield name, f'("strings", "{name}", "{behind[0]}")', "Sequence[str]", text
            elif kind == "const double *":
                yield name, f'("double", "{name}")', "float", text
            elif kind in ARRAYS:
                count = next((one for one in behind if one.endswith("_count")), "")
                yield (name, f'("array", "{name}", "{count}", "{ARRAYS[kind]}")', "Sequence[int]",
                       text)
            elif re.sub("const |struct ", "", kind).rstrip(" *") in HANDLES:
                what = HANDLES[re.sub("const |struct ", "", kind).rstrip(" *")]
                yield name, f'("handle", "{name}", "{what}")', what, text
            elif kind in ("float", "double"):
                yield name, f'("number", "{name}")', "float", text
            elif text.startswith("1: "):
                yield name, f'("number", "{name}")', "bool", text[3:]
            elif re.fullmatch(r"u?int\d+_t", kind):
                yield name, f'("number", "{name}")', "int", text
            else:
                raise SystemExit(f"make_api.py: how is {struct}.{name} ({kind}) set from Python?")

    def write_options(self, struct, name):
        base = "Sampling" if struct == "pc_generate_options" else "TypedDict"
        comment = self.structs[struct]["comment"]
        yield f"class {name}({base}, total=False):"
        said = self.said(comment) or "Keywords of " + struct + "."
        yield f'    """{words(said, "    ")}"""'
        yield ""
        for keyword, _, annotation, text in self.keywords(struct):
            text = self.said(text)
            yield f"    {keyword}: {annotation}"
            if text:
                yield f'    """{words(text, "    ")}"""'
        yield ""
        yield ""

    def write_takes(self):
        yield "#: How each keyword gets into its struct, its annotation and its comment."
        yield "TAKES: Dict[str, Dict[str, Tuple[Tuple[Any, ...], str, str]]] = {"
        for struct in OPTIONS:
            yield f'    "{struct}": {{'
            for keyword, how, annotation, text in self.keywords(struct):
                yield f'        "{keyword}": ({how}, {annotation!r}, {self.said(text)!r}),'
            yield "    },"
        yield "}"

    def write(self):
        yield '"""Enums, results and options of promptcache. Made by make_api.py; do not edit."""'
        yield "from __future__ import annotations"
        yield ""
        yield "from os import PathLike"
        yield "from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional,"
        yield "                    Sequence, Tuple, TypedDict, Union)"
        yield ""
        yield "from ._record import OpenEnum, OpenFlag, Record"
        yield ""
        yield "if TYPE_CHECKING:"
        yield "    from ._grammar import Grammar"
        yield "    from ._memo import Memo"
        yield "    from ._schema import Schema"
        yield ""
        listed = sorted(self.enums) + sorted(RESULTS.values()) + sorted(OPTIONS.values())
        yield "_bytes = bytes  # some attributes have the name of the type"
        yield ""
        yield "__all__ = ["
        for name in listed:
            yield f'    "{name}",'
        yield "]"
        yield ""
        for name, number in sorted(("PAGE_TOKENS", item["value"]) for enum in self.api["enums"]
                                   for item in enum["enumerators"]
                                   if item["name"] == "PC_PAGE_TOKENS"):
            yield f"{name} = {number}"
        yield ""
        yield ""
        for name in self.enums:
            yield from self.write_enum(name)
        for struct, name in RESULTS.items():
            yield from self.write_result(struct, name)
        for struct, name in OPTIONS.items():
            yield from self.write_options(struct, name)
        yield from self.write_takes()


def main():
    folder, out = sys.argv[1:3]
    with open(os.path.join(folder, "promptcache.json"), encoding="utf-8") as file:
        api = json.load(file)
    text = "\n".join(Interface(api).write()) + "\n"
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()

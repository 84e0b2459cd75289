"""What the safe crate takes from the description: enums, flags, options, results, and comments of
functions. Methods, callbacks and whatever borrows are written by hand."""
import re

from rust_names import NUMBERS, doc_lines, markdown, rust_name

TOP = """\
// Written by generate.py from the description of the headers. Do not edit.
"""

# By the name of the first constant: enums that take unknown codes as `Other`.
ENUMS = {
    "PC_OK": ("Status", "PC_"), "PC_LOG_ERROR": ("LogLevel", "PC_LOG_"),
    "PC_DTYPE_DEFAULT": ("Dtype", "PC_DTYPE_"),
    "PC_POSITION_NONE": ("PositionScheme", "PC_POSITION_"), "PC_TIER_NONE": ("Tier", "PC_TIER_"),
    "PC_CODEC_DEFAULT": ("Codec", "PC_CODEC_"),
    "PC_ENCODE_INDEPENDENT": ("Encoding", "PC_ENCODE_"),
    "PC_VISIBLE_BY_POSITION": ("Visibility", "PC_VISIBLE_"),
    "PC_REPAIR_SCAFFOLD": ("Repair", "PC_REPAIR_"), "PC_EXACT": ("Exactness", "PC_"),
    "PC_REASON_NONE": ("Reason", "PC_REASON_"), "PC_FINISH_NONE": ("Finish", "PC_FINISH_"),
    "PC_MODEL_FILE_GGUF": ("ModelFileKind", "PC_MODEL_FILE_"),
    "PC_COSTS_BUILT_IN": ("CostSource", "PC_COSTS_"),
    "PC_PLUGIN_LOADED": ("PluginState", "PC_PLUGIN_"), "PC_KV_NHD": ("KvOrder", "PC_KV_"),
    "PC_EVENT_STORE": ("EventKind", "PC_EVENT_"), "PC_LAYOUT_MODEL": ("Layout", "PC_LAYOUT_"),
    "PC_POOL_DEFAULT": ("Pooling", "PC_POOL_"), "PC_MAP_F32": ("MapFormat", "PC_MAP_"),
    "PC_INDEX_AUTO": ("Index", "PC_INDEX_"), "PC_LOSS_COSINE": ("Loss", "PC_LOSS_"),
    "PC_REUSE_NONE": ("Reuse", "PC_REUSE_"), "PC_ITEM_MODULE": ("ItemKind", "PC_ITEM_"),
    "PC_PART_CACHED": ("PartKind", "PC_PART_"),
}
# Sets of flags: the first constants of the enums whose constants they have.
FLAGS = {
    "ModelFlags": (["PC_MODEL_VOCAB_ONLY"], "PC_MODEL_"),
    "TokenizeFlags": (["PC_TOKENIZE_SPECIAL"], "PC_TOKENIZE_"),
    "Tiers": (["PC_TIERS_RAM"], "PC_TIERS_"), "CacheFlags": (["PC_CACHE_ZERO_MEMORY"], "PC_CACHE_"),
    "PromptFlags": (["PC_PML_COMPACT", "PC_PROMPT_SPECIAL"], "PC_(?:PML|PROMPT)_"),
    "GenerateFlags": (["PC_GENERATE_KEEP"], "PC_GENERATE_"),
    "PutFlags": (["PC_PUT_WAIT"], "PC_PUT_"),
    "EmbedFlags": (["PC_EMBED_NORMALIZE"], "PC_EMBED_"),
    "PrefillFlags": (["PC_PREFILL_NORMALIZE"], "PC_PREFILL_"),
    "MemoFlags": (["PC_MEMO_READ_ONLY"], "PC_MEMO_"),
    "Outputs": (["PC_OUTPUT_DEFAULT"], "PC_OUTPUT_"),
    "ItemFlags": (["PC_ITEM_UNCACHED"], "PC_ITEM_"),
    "FormatFlags": (["PC_FORMAT_CHAT"], "PC_FORMAT_"),
    "ChatFlags": (["PC_CHAT_NO_ANSWER"], "PC_CHAT_"),
    "MergeFlags": (["PC_MERGE_BASE2"], "PC_MERGE_"),
}
OPTIONS = {
    "pc_context_options": "ContextOptions", "pc_model_options": "ModelOptions",
    "pc_cache_options": "CacheOptions", "pc_schema_options": "SchemaOptions",
    "pc_encode_options": "EncodeOptions", "pc_prompt_options": "PromptOptions",
    "pc_sampling": "Sampling", "pc_generate_options": "GenerateOptions",
    "pc_batch_options": "BatchOptions", "pc_save_options": "SaveOptions",
    "pc_embed_options": "EmbedOptions", "pc_put_options": "PutOptions",
    "pc_get_options": "GetOptions", "pc_find_options": "FindOptions",
    "pc_key_parts": "KeyParts", "pc_chat_options": "ChatOptions", "pc_message": "Message",
    "pc_system_format": "SystemFormat", "pc_systems_options": "SystemsOptions",
    "pc_memo_options": "MemoOptions", "pc_memo_work": "MemoWork",
    "pc_prefill_options": "PrefillOptions", "pc_folder_options": "FolderOptions",
    "pc_attend_shape": "AttendShape", "pc_raw": "StatesShape", "pc_rope": "Rope",
    "pc_calibrate_options": "CalibrateOptions",
}
RESULTS = {
    "pc_model_info": "ModelInfo", "pc_stats": "Stats", "pc_batch_stats": "BatchStats",
    "pc_cache_stats": "CacheStats", "pc_tier_stats": "TierStats", "pc_get_info": "GetInfo",
    "pc_event": "Event", "pc_embed_stats": "EmbedStats", "pc_memo_bucket": "MemoBucket",
    "pc_memo_stats": "MemoStats", "pc_memo_result": "MemoResult",
    "pc_prefill_stats": "PrefillStats", "pc_system_info": "SystemInfo",
    "pc_model_file_info": "ModelFileInfo", "pc_model_file_type": "ModelFileType",
    "pc_record_info": "RecordInfo", "pc_costs": "Costs", "pc_plugin_info": "PluginInfo",
}
# Fields that methods take instead, or that the safe crate does not have.
LEFT_OUT = {
    "pc_context_options": {"allocator"}, "pc_cache_options": {"codecs", "codec_count"},
    "pc_generate_options": {"bench", "grammar"}, "pc_embed_options": {"types"},
    "pc_prefill_options": {"embeddings", "logits", "segments", "results"},
    "pc_folder_options": {"flags"}, "pc_raw": {"tokens", "relative", "blocks", "block_bytes",
                                               "token_count", "block_count"},
}
# A field whose constants its comment does not name as the description wants it.
FIELD_CONSTANTS = {
    ("pc_encode_options", "pin"): None, ("pc_prompt_options", "flags"): "PromptFlags",
    ("pc_schema_options", "flags"): "PromptFlags", ("pc_stats", "exactness"): "Exactness",
    ("pc_stats", "memo_reuse"): "Reuse", ("pc_stats", "memo_reason"): "Reason",
    ("pc_memo_result", "exactness"): "Exactness", ("pc_memo_result", "reason"): "Reason",
    ("pc_attend_shape", "dtype"): "Dtype", ("pc_embed_stats", "exactness"): "Exactness",
    ("pc_memo_options", "map_format"): "MapFormat", ("pc_system_format", "flags"): "FormatFlags",
    ("pc_save_options", "tiers"): "Tiers", ("pc_find_options", "tiers"): "Tiers",
    ("pc_raw", "layout"): "Layout", ("pc_model_options", "compute"): "Dtype",
    ("pc_model_options", "kv"): "Dtype",
}


def variant(name, prefix):
    words = re.sub("^" + prefix, "", name).split("_")
    if words[0] == "ERR":
        words = words[1:]
    made = "".join(word if re.match(r"(KV|NHD|HND|[FIU]\d+|BF16)$", word) else word.capitalize()
                   for word in words)
    return made


class Safe:
    def __init__(self, names):
        self.names = names
        self.enums, self.flags, self.links, self.by_prefix = [], [], {}, {}
        by_first = {enum["enumerators"][0]["name"]: enum for enum in names.enums}
        for first, (name, prefix) in ENUMS.items():
            enum = by_first[first]
            entries = [entry for entry in enum["enumerators"]
                       if not entry["name"].endswith(("_ROOM", "_COUNT"))]
            self.enums.append((name, prefix, enum, entries))
            if prefix != "PC_":
                self.by_prefix[prefix] = name
                self.links[prefix + "…"] = name
            for entry in entries:
                self.links[entry["name"]] = f"{name}::{variant(entry['name'], prefix)}"
        for name, (firsts, prefix) in FLAGS.items():
            entries = [entry for first in firsts for entry in by_first[first]["enumerators"]]
            self.flags.append((name, prefix, [by_first[first] for first in firsts], entries))
            self.by_prefix.setdefault(prefix, name)
            self.links.setdefault(prefix + "…", name)
            for entry in entries:
                constant = re.sub("^" + prefix, "", entry["name"])
                self.links[entry["name"]] = f"{name}::{constant}"
        self.links.update(OPTIONS)
        self.links.update(RESULTS)

    def link(self, name):
        if name in self.links:
            return f"crate::{self.links[name]}"
        known = name in self.names.items or name in self.names.constants
        return f"crate::sys::{name}" if known else None

    def docs(self, entry, indent="", more=""):
        text = "\n\n".join(part for part in (entry.get("heading", ""), entry["comment"], more)
                           if part)
        text = re.sub(r"\bNULL\b", "None", text)
        return doc_lines(markdown(text, self.link), indent) if text else []

    def enum(self, name, prefix, enum, entries):
        number = "i32" if name == "Status" else "u32"
        names = [variant(entry["name"], prefix) for entry in entries]
        lines = self.docs({"comment": enum["comment"] or "A code of the library."})
        lines += ["#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]", "#[non_exhaustive]",
                  f"pub enum {name} {{"]
        for made, entry in zip(names, entries):
            lines += self.docs(entry, "    ", "" if entry["comment"] else f"`{entry['name']}`")
            lines.append(f"    {made},")
        lines += ["    /// A code that this crate does not know: of a later library.",
                  f"    Other({number}),", "}", ""]
        lines += [f"impl From<{number}> for {name} {{", f"    fn from(code: {number}) -> Self {{",
                  "        match code {"]
        lines += [f"            {entry['value']} => {name}::{made},"
                  for made, entry in zip(names, entries)]
        lines += [f"            code => {name}::Other(code),", "        }", "    }", "}", ""]
        lines += [f"impl From<{name}> for {number} {{", f"    fn from(code: {name}) -> {number} {{",
                  "        match code {"]
        lines += [f"            {name}::{made} => {entry['value']},"
                  for made, entry in zip(names, entries)]
        lines += [f"            {name}::Other(code) => code,", "        }", "    }", "}", ""]
        if any(entry["value"] == 0 for entry in entries):
            lines += [f"impl Default for {name} {{", "    fn default() -> Self {",
                      f"        {name}::from(0)", "    }", "}", ""]
        return lines

    def flag_set(self, name, prefix, enums, entries):
        comments = list(dict.fromkeys(enum["comment"] for enum in enums))
        lines = self.docs({"comment": "\n\n".join(comments)})
        lines += ["#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]",
                  f"pub struct {name}(u64);", "", f"impl {name} {{"]
        for entry in entries:
            constant = re.sub("^" + prefix, "", entry["name"])
            lines += self.docs(entry, "    ", "" if entry["comment"] else f"`{entry['name']}`")
            lines.append(f"    pub const {constant}: {name} = {name}({entry['value']});")
        return lines + ["}", "", f"flag_set!({name});", ""]

    def constants_of(self, struct, field):
        key = (struct["name"], field["name"])
        if key in FIELD_CONSTANTS:
            return FIELD_CONSTANTS[key]
        return self.by_prefix.get(field.get("constants"))

    def kind(self, struct, field):
        """(Rust type, how it is given to C or taken from it) of a field; None: it has no place."""
        name, c_type = field["name"], field["type"]
        if (name in ("struct_size", "reserved") or "function" in field or c_type.endswith("_fn")
                or name in LEFT_OUT.get(struct["name"], ()) or name in self.counts(struct)
                or name.endswith(("_user", "_stride"))):
            return None
        named = self.constants_of(struct, field)
        if "length" in field:
            made = NUMBERS[c_type.replace("const ", "")]
            if c_type == "char":
                return "String", "chars"
            return f"[{made}; {field['length']}]", "same"
        if named:
            return named, "code" if any(named == entry[0] for entry in self.enums) else "flags"
        if c_type in ("uint32_t", "int32_t") and field["comment"].startswith("1: "):
            return "bool", "bool"
        if c_type in NUMBERS:
            return NUMBERS[c_type], "same"
        if c_type == "pc_status":
            return "Status", "code"
        sized = name + "_size" in self.counts(struct)
        return {
            "const char *": ("Option<String>", "text" if sized else "string"),
            "const char *const *": ("Vec<String>", "strings"),
            "const int32_t *": ("Vec<i32>", "array"),
            "const uint32_t *": ("Vec<u32>", "array"),
            "const float *": ("Vec<f32>", "array"),
            "const double *": ("Vec<f64>", "array") if name == "frequency"
                              else ("Option<f64>", "pointer"),
            "const uint8_t *": ("Option<[u8; 32]>", "bytes"),
            "const void *": ("Vec<u8>", "data"),
            "const pc_salt *": ("Vec<Salt>", "salts"),
            "const pc_sampling *": ("Option<Sampling>", "sampling"),
            "pc_memo *": ("Option<Memo>", "handle"),
            "const pc_schema *": ("Option<Schema>", "handle"),
        }[c_type]

    def fields(self, struct):
        for field in struct["fields"]:
            kind = self.kind(struct, field)
            if kind:
                yield field, rust_name(field["name"]), *kind

    def options(self, struct, name):
        fields = list(self.fields(struct))
        about = struct["comment"] or (f"Options. `Default` gives those of the library; methods of "
                                      "the same names set fields.")
        lines = self.docs({"comment": about})
        lines += ["#[derive(Clone, Debug, Default)]", f"pub struct {name} {{"]
        for field, made, rust, _ in fields:
            lines += self.docs(field, "    ") + [f"    pub {made}: {rust},"]
        lines += ["}", "", f"impl {name} {{"]
        for field, made, rust, _ in fields:
            lines += [f"    /// Sets [`{name}::{field['name']}`]."]
            argument, value = self.setter(rust)
            lines += ["    #[must_use]",
                      f"    pub fn {made}(mut self, value: {argument}) -> Self {{",
                      f"        self.{made} = {value};", "        self", "    }", ""]
        made = f"Result<sys::{struct['name']}>"
        lines += ["    #[allow(unused_variables)]",
                  f"    pub(crate) fn raw(&self, keep: &mut Keep) -> {made} {{"]
        sets = [line for field, made, _, kind in fields
                for line in self.give(struct, field, made, kind)]
        lines += [f"        let mut raw = sys::{struct['name']}::default();",
                  *("        " + line for line in sets), "        Ok(raw)", "    }", ""]
        if struct["name"] == "pc_raw":
            lines += self.from_raw(struct, name, fields)
        return lines + ["}", ""]

    @staticmethod
    def setter(rust):
        if rust == "Vec<String>":
            return ("impl IntoIterator<Item = impl Into<String>>",
                    "value.into_iter().map(Into::into).collect()")
        inner = re.fullmatch(r"Option<(.*)>", rust)
        if inner:
            argument = "impl Into<String>" if inner[1] == "String" else inner[1]
            return argument, "Some(value.into())" if inner[1] == "String" else "Some(value)"
        if rust == "String":
            return "impl Into<String>", "value.into()"
        if rust.startswith("Vec<"):
            return f"impl Into<{rust}>", "value.into()"
        return rust, "value"

    @staticmethod
    def count_of(struct, field):
        """The field that has the length of an array: its comment names the array."""
        for other in struct["fields"]:
            if re.match(rf"(length|bytes) of (\w+ and (of )?)?{field['name']}\b", other["comment"]):
                return other["name"]
        return None

    def counts(self, struct):
        return {self.count_of(struct, field) for field in struct["fields"]
                if field["type"].endswith("*")}

    def give(self, struct, field, made, kind):
        """Statements that set a field of the C struct."""
        if kind == "same":
            return [f"raw.{made} = self.{made};"]
        if kind == "chars":
            return [f"set_chars(\"{field['name']}\", &mut raw.{made}, &self.{made})?;"]
        if kind == "code":
            return [f"raw.{made} = self.{made}.into();"]
        if kind == "flags":
            cast = " as u32" if field["type"] == "uint32_t" else ""
            return [f"raw.{made} = self.{made}.bits(){cast};"]
        if kind == "bool":
            return [f"raw.{made} = self.{made}.into();"]
        if kind == "string":
            return [f"raw.{made} = keep.string(\"{field['name']}\", &self.{made})?;"]
        if kind == "strings":
            return [f"raw.{made} = keep.strings(\"{field['name']}\", &self.{made})?;",
                    f"raw.{self.count_of(struct, field)} = self.{made}.len();"]
        if kind == "text":
            count = field["name"] + "_size"
            return [f"(raw.{made}, raw.{count}) = text_of(&self.{made});"]
        if kind in ("array", "data"):
            pointer = (f"data_of(&self.{made})" if kind == "data" else f"array_of(&self.{made})")
            lines, count = [f"raw.{made} = {pointer};"], self.count_of(struct, field)
            return lines + ([f"raw.{count} = self.{made}.len();"] if count else [])
        if kind == "pointer":
            return [f"raw.{made} = self.{made}.as_ref().map_or(std::ptr::null(), |x| x);"]
        if kind == "bytes":
            return [f"raw.{made} = pointer_of(&self.{made});"]
        if kind == "salts":
            return [f"(raw.salts, raw.salt_stride, raw.salt_count) = keep.salts(&self.{made});"]
        if kind == "sampling":
            return [f"raw.{made} = keep.sampling(&self.{made})?;"]
        assert kind == "handle"
        return [f"raw.{made} = self.{made}.as_ref().map_or(std::ptr::null_mut(), |x| x.as_ptr());"]

    def result(self, struct, name):
        fields = list(self.fields(struct))
        lines = self.docs({"comment": struct["comment"] or "What the library says."})
        lines += ["#[derive(Clone, Debug, PartialEq)]", "#[non_exhaustive]",
                  f"pub struct {name} {{"]
        for field, made, rust, _ in fields:
            lines += self.docs(field, "    ")
            lines.append(f"    pub {made}: {rust.replace('Option<String>', 'String')},")
        return lines + ["}", "", f"impl {name} {{", *self.from_raw(struct, name, fields), "}", ""]

    @staticmethod
    def from_raw(struct, name, fields):
        """A function that takes a result from C. Strings are copied."""
        lines = ["    #[allow(dead_code)]",
                 f"    pub(crate) fn from_raw(raw: &sys::{struct['name']}) -> Self {{",
                 f"        {name} {{"]
        for _, made, _, kind in fields:
            value = {"same": f"raw.{made}", "code": f"raw.{made}.into()",
                     "flags": f"raw.{made}.into()", "bool": f"raw.{made} != 0",
                     "chars": f"chars(&raw.{made})", "string": f"borrowed(raw.{made})",
                     "bytes": f"digest(raw.{made})"}[kind]
            lines.append(f"            {made}: {value},")
        return lines + ["        }", "    }"]


def types(names):
    safe = Safe(names)
    lines = [TOP, "use crate::call::{array_of, borrowed, chars, data_of, digest, pointer_of};",
             "use crate::call::{set_chars, text_of, Keep};",
             "use crate::{sys, Memo, Result, Salt, Schema};", ""]
    for enum in safe.enums:
        lines += safe.enum(*enum)
    for flags in safe.flags:
        lines += safe.flag_set(*flags)
    structs = {item["name"]: item for item in names.structs}
    for item, name in OPTIONS.items():
        lines += safe.options(structs[item], name)
    for item, name in RESULTS.items():
        lines += safe.result(structs[item], name)
    return "\n".join(lines)


def docs(names):
    """A macro that has the comment of each function that a method may call."""
    safe = Safe(names)
    lines = [TOP, "macro_rules! c_doc {"]
    for item in names.functions:
        if item["name"].endswith(("_init", "_free")) or not item["comment"]:
            continue
        text = "\n".join(markdown(item["comment"], safe.link))
        hashes = "#" * 2
        lines.append(f"    ({item['name']}) => {{")
        lines.append(f"        r{hashes}\"By [`{item['name']}`](crate::sys::{item['name']}):\n\n"
                     f"{text}\"{hashes}")
        lines.append("    };")
    return "\n".join(lines + ["}", ""])

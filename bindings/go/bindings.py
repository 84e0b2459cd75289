"""The tables of generate.py: what the Go package offers of the headers, and under which names."""
import re

# Structs, and who fills them in: "in" the caller, "out" the library, "both".
STRUCTS = {
    "pc_context_options": "in", "pc_model_options": "in", "pc_model_info": "out",
    "pc_cache_options": "in", "pc_schema_options": "in", "pc_salt": "in",
    "pc_encode_options": "in", "pc_prompt_options": "in", "pc_generate_options": "in",
    "pc_stats": "out", "pc_sampling": "in", "pc_token": "out",
    "pc_systems_options": "in", "pc_system_info": "out", "pc_model_file_info": "out",
    "pc_model_file_type": "out", "pc_folder_options": "in", "pc_record_info": "out",
    "pc_costs": "out", "pc_calibrate_options": "in", "pc_plugin_info": "out",
    "pc_fork_options": "in", "pc_batch_options": "in", "pc_batch_stats": "out",
    "pc_save_options": "in", "pc_event": "out", "pc_cache_stats": "out", "pc_tier_stats": "out",
    "pc_prometheus_options": "in", "pc_key_parts": "in", "pc_key_segment_args": "in",
    "pc_raw": "both", "pc_put_options": "in", "pc_get_info": "out", "pc_get_options": "in",
    "pc_find_options": "in", "pc_get_entry": "in", "pc_remove_options": "in",
    "pc_embed_options": "in", "pc_embed_stats": "out", "pc_memo_options": "in",
    "pc_input": "in", "pc_memo_work": "in", "pc_memo_bucket": "both", "pc_memo_stats": "out",
    "pc_memo_result": "out", "pc_prefill_options": "in", "pc_prefill_stats": "out",
    "pc_system_format": "in", "pc_item": "out", "pc_part": "out", "pc_message": "in",
    "pc_chat_options": "in", "pc_span": "in",
}

# Fields that a Go program does not set: how the package sets them, or why it has no use for them.
LEFT_OUT_FIELDS = {
    "pc_context_options.allocator": "memory of the library is not Go's",
    "pc_context_options.parallel_for": "the pool of the library does it",
    "pc_context_options.parallel_user": "the pool of the library does it",
    "pc_cache_options.codecs": "codecs in Go are not bound",
    "pc_cache_options.codec_count": "codecs in Go are not bound",
    "pc_generate_options.cancelled": "a context.Context cancels",
    "pc_generate_options.cancel_user": "a context.Context cancels",
    "pc_generate_options.bench": "bench.h is not bound",
    "pc_generate_options.grammar": "grammar.h is not bound",
    "pc_embed_options.cancelled": "a context.Context cancels",
    "pc_embed_options.cancel_user": "a context.Context cancels",
    "pc_prefill_options.cancelled": "a context.Context cancels",
    "pc_prefill_options.cancel_user": "a context.Context cancels",
    "pc_prefill_options.embeddings": "results of Model.Prefill",
    "pc_prefill_options.logits": "results of Model.Prefill",
    "pc_prefill_options.segments": "results of Model.Prefill",
    "pc_prefill_options.results": "results of Model.Prefill",
    "pc_prefill_options.result_stride": "results of Model.Prefill",
    "pc_get_entry.blocks": "entries become segments",
}

# Functions and structs that the package does not offer: a pattern of the name, and the reason.
LEFT_OUT = {
    r"pc_\w+_init": "the generated conversions set struct_size",
    r"pc_error_(text|place)": "taken by go_failed (bridge.h)",
    r"pc_systems_count": "Systems.List goes to the end",
    r"pc_status_(name|text)": "Status has both",
    r"pc_allocator": "memory of the library is not Go's",
    r"pc_model_ops|pc_model_from_ops|pc_(encode|sequence|step|deviation)_args|pc_step_row|"
    r"pc_token_range|pc_layer_states": "models that an application computes are C's",
    r"pc_codec_\w+": "codecs in Go are not bound",
    r"pc_lane|pc_eval|pc_eval_args": "Model.Prefill computes states",
}
LEFT_OUT_HEADERS = {
    "promptcache/grammar.h": "not bound yet",
    "promptcache/task.h": "a goroutine calls Step, and others go on meanwhile; attention is C's",
    "promptcache/attend.h": "attention over memory of a runtime in C",
    "promptcache/bench.h": "for measuring, without promise",
}

# Functions whose comment no Go function carries: a Close, a count in a loop.
PLAIN = r"pc_\w+_free|pc_\w+_count|pc_error_set"

# Type of each group of constants, by the first one's name.
ENUMS = {
    "PC_OK": "Status", "PC_LOG_ERROR": "LogLevel", "PC_DTYPE_DEFAULT": "DType",
    "PC_POSITION_NONE": "PositionScheme", "PC_MODEL_VOCAB_ONLY": "ModelFlags",
    "PC_TOKENIZE_SPECIAL": "TokenizeFlags", "PC_TIER_NONE": "Tier", "PC_TIERS_RAM": "TierMask",
    "PC_CODEC_DEFAULT": "Codec", "PC_CACHE_ZERO_MEMORY": "CacheFlags",
    "PC_PML_COMPACT": "PromptFlags", "PC_PROMPT_SPECIAL": "PromptFlags",
    "PC_ENCODE_INDEPENDENT": "Encoding", "PC_VISIBLE_BY_POSITION": "Visibility",
    "PC_REPAIR_SCAFFOLD": "Repair", "PC_GENERATE_KEEP": "GenerateFlags",
    "PC_EXACT": "Exactness", "PC_REASON_NONE": "Reason", "PC_FINISH_NONE": "Finish",
    "PC_MODEL_FILE_GGUF": "ModelFileKind", "PC_COSTS_BUILT_IN": "CostsSource",
    "PC_PLUGIN_LOADED": "PluginState", "PC_EVENT_STORE": "EventKind",
    "PC_LAYOUT_MODEL": "Layout", "PC_PUT_WAIT": "PutFlags", "PC_POOL_DEFAULT": "Pool",
    "PC_EMBED_NORMALIZE": "EmbedFlags", "PC_MAP_F32": "MapFormat", "PC_INDEX_AUTO": "Index",
    "PC_MEMO_READ_ONLY": "MemoFlags", "PC_OUTPUT_DEFAULT": "Outputs", "PC_LOSS_COSINE": "Loss",
    "PC_PREFILL_NORMALIZE": "PrefillFlags", "PC_REUSE_NONE": "Reuse",
    "PC_FORMAT_CHAT": "FormatFlags", "PC_ITEM_MODULE": "ItemKind",
    "PC_ITEM_UNCACHED": "ItemFlags", "PC_PART_CACHED": "PartKind",
    "PC_CHAT_NO_ANSWER": "ChatFlags",
    # lengths
    "PC_DTYPE_ROOM": "", "PC_TIER_ROOM": "", "PC_TIER_COUNT": "", "PC_KERNELS_ROOM": "",
    "PC_COST_COUNT": "",
}
FLAGS = {"ModelFlags", "TokenizeFlags", "TierMask", "CacheFlags", "PromptFlags", "GenerateFlags",
         "PutFlags", "EmbedFlags", "MemoFlags", "PrefillFlags", "FormatFlags", "ItemFlags",
         "ChatFlags"}
# Constants that Go has no use for: of functions and structs that are left out.
LEFT_OUT_ENUMS = {"PC_OVERLAP_TEXT"}

# Types of fields whose constants the headers do not name in one word.
FIELD_TYPES = {
    "pc_model_options.compute": "DType", "pc_model_options.kv": "DType",
    "pc_stats.exactness": "Exactness", "pc_embed_stats.exactness": "Exactness",
    "pc_memo_result.exactness": "Exactness", "pc_raw.layout": "Layout",
    "pc_memo_options.map_format": "MapFormat", "pc_find_options.tiers": "TierMask",
    "pc_remove_options.tiers": "TierMask", "pc_item.flags": "ItemFlags",
    "pc_prompt_options.flags": "PromptFlags", "pc_model_file_info.refusal": "Status",
}

# Functions in fields: the type in Go, how it is called from C (callbacks.go, bridge.c).
CALLBACKS = {
    "pc_log_fn": ("func(level LogLevel, line string)", "log"),
    "pc_progress_fn": ("func(what string, done, total uint64) error", "progress"),
    "pc_event_fn": ("func(event Event)", "event"),
    "pc_logits_fn": ("func(sample int, logits []float32) error", "logits"),
    "pc_token_fn": ("func(token Token) error", "token"),
    "pc_text_fn": ("func(sample int, text string) error", "text"),
    "on_bytes": ("func(tier Tier, bytes, budget uint64)", "bytes"),
    "on_disabled": ("func(bucket int, loss, limit float64)", "disabled"),
}
# What the functions' types say in Go.
CALLBACK_COMMENTS = {
    "text": "Stop ends this sample; another error fails the request.",
    "logits": "logits is the library's memory, for the call only. Stop ends this sample before a "
              "further token; another error fails the request.",
    "token": "Stop makes this token the last one; another error fails the request.",
    "progress": "An error cancels the work.",
    "log": "Any thread calls it, also while the library holds locks: it must call nothing of this "
           "package.",
    "event": "Threads of the cache call it, several at once.",
    "bytes": "Threads of the cache call it, several at once.",
}

# Handles in fields that have another type in C.
HANDLE_FIELDS = {"pc_span.segment": "Segment"}

# Words of names that Go writes in another way.
WORDS = {
    "bos": "BOS", "eos": "EOS", "ttl": "TTL", "ttft": "TTFT", "kv": "KV", "io": "IO",
    "ram": "RAM", "pml": "PML", "dtype": "DType", "id": "ID", "cpu": "CPU", "rope": "RoPE",
    "mmap": "MMap", "gguf": "GGUF", "zstd": "ZSTD", "alibi": "ALiBi", "llama2c": "Llama2C",
    "kl": "KL", "hnsw": "HNSW", "ivf": "IVF", "ns": "NS", "dry": "DRY", "nomem": "NoMem",
    "unk": "UNK", "abi": "ABI", "ok": "OK",
}


def reason_of(name, header):
    """Why a function or struct is not offered; "" if it is."""
    if header in LEFT_OUT_HEADERS:
        return LEFT_OUT_HEADERS[header]
    for pattern, reason in LEFT_OUT.items():
        if re.fullmatch(pattern, name):
            return reason
    return ""


def is_plain(name):
    return re.fullmatch(PLAIN, name) is not None

// Written by generate.py from the description of the headers. Do not edit.

use core::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};

/// A code: 0 success, above 0 a normal outcome, below 0 an error.
pub type pc_status = i32;

pub const PC_VERSION_MAJOR: u32 = 0;
pub const PC_VERSION_MINOR: u32 = 10;
pub const PC_VERSION_PATCH: u32 = 0;
/// the soname
pub const PC_ABI_VERSION: u32 = 1;

/// done
pub const PC_OK: pc_status = 0;
/// not in the cache
pub const PC_MISS: pc_status = 1;
/// not finished, call again
pub const PC_AGAIN: pc_status = 2;
/// nothing left to do
pub const PC_END: pc_status = 3;
/// there already
pub const PC_EXISTS: pc_status = 4;
/// invalid argument
pub const PC_ERR_INVALID: pc_status = -1;
/// out of memory
pub const PC_ERR_NOMEM: pc_status = -2;
/// input or output failed
pub const PC_ERR_IO: pc_status = -3;
/// damaged or malformed file
pub const PC_ERR_FORMAT: pc_status = -4;
/// not supported
pub const PC_ERR_UNSUPPORTED: pc_status = -5;
/// not found
pub const PC_ERR_NOT_FOUND: pc_status = -6;
/// fault in a schema or prompt
pub const PC_ERR_PML: pc_status = -7;
/// limit exceeded
pub const PC_ERR_LIMIT: pc_status = -8;
/// cancelled
pub const PC_ERR_CANCELLED: pc_status = -9;
/// not possible in this state
pub const PC_ERR_STATE: pc_status = -10;
/// objects do not belong together
pub const PC_ERR_MISMATCH: pc_status = -11;
/// internal error
pub const PC_ERR_INTERNAL: pc_status = -12;
/// handle is unusable, only free it
pub const PC_ERR_DEAD: pc_status = -900;

/// Levels of a line of the log.
pub const PC_LOG_ERROR: u32 = 1;
/// As [`PC_LOG_ERROR`](crate::PC_LOG_ERROR): of the same kind.
pub const PC_LOG_WARN: u32 = 2;
/// As [`PC_LOG_ERROR`](crate::PC_LOG_ERROR): of the same kind.
pub const PC_LOG_INFO: u32 = 3;
/// As [`PC_LOG_ERROR`](crate::PC_LOG_ERROR): of the same kind.
pub const PC_LOG_DEBUG: u32 = 4;

/// Number formats. F16 is for K and V only, I16 for `compute` only. I8 of K and V: int8 times a
/// scale; K has a scale per channel of each page, V one per token.
pub const PC_DTYPE_DEFAULT: u32 = 0;
/// As [`PC_DTYPE_DEFAULT`](crate::PC_DTYPE_DEFAULT): of the same kind.
pub const PC_DTYPE_F32: u32 = 1;
/// As [`PC_DTYPE_DEFAULT`](crate::PC_DTYPE_DEFAULT): of the same kind.
pub const PC_DTYPE_BF16: u32 = 2;
/// As [`PC_DTYPE_DEFAULT`](crate::PC_DTYPE_DEFAULT): of the same kind.
pub const PC_DTYPE_F16: u32 = 3;
/// As [`PC_DTYPE_DEFAULT`](crate::PC_DTYPE_DEFAULT): of the same kind.
pub const PC_DTYPE_I8: u32 = 4;
/// As [`PC_DTYPE_DEFAULT`](crate::PC_DTYPE_DEFAULT): of the same kind.
pub const PC_DTYPE_I16: u32 = 5;

/// length of arrays by number format, with room for later ones
pub const PC_DTYPE_ROOM: usize = 16;

/// How a model knows the positions of its tokens.
pub const PC_POSITION_NONE: u32 = 0;
/// As [`PC_POSITION_NONE`](crate::PC_POSITION_NONE): of the same kind.
pub const PC_POSITION_ROPE: u32 = 1;
/// As [`PC_POSITION_NONE`](crate::PC_POSITION_NONE): of the same kind.
pub const PC_POSITION_ALIBI: u32 = 2;
/// As [`PC_POSITION_NONE`](crate::PC_POSITION_NONE): of the same kind.
pub const PC_POSITION_LEARNED: u32 = 3;

/// [`pc_model_options.flags`](crate::pc_model_options)
/// tokenizer only: layouts and token counts, no forward pass
pub const PC_MODEL_VOCAB_ONLY: u64 = 1;

/// the text of a special token becomes that token, and back
///
/// Flags of [`pc_tokenize`](crate::pc_tokenize) and [`pc_detokenize`](crate::pc_detokenize).
pub const PC_TOKENIZE_SPECIAL: u64 = 1;
/// adds BOS and EOS by the model's convention
pub const PC_TOKENIZE_BOS: u64 = 2;

/// Where segments are stored, nearest first. RAM holds segments ready for use. The others hold
/// records (doc/format.md): COMPRESSED in memory, DISK as files in a folder, REMOTE as values of a
/// Redis or Valkey server.
pub const PC_TIER_NONE: u32 = 0;
/// As [`PC_TIER_NONE`](crate::PC_TIER_NONE): of the same kind.
pub const PC_TIER_DEVICE: u32 = 1;
/// As [`PC_TIER_NONE`](crate::PC_TIER_NONE): of the same kind.
pub const PC_TIER_RAM: u32 = 2;
/// As [`PC_TIER_NONE`](crate::PC_TIER_NONE): of the same kind.
pub const PC_TIER_COMPRESSED: u32 = 3;
/// As [`PC_TIER_NONE`](crate::PC_TIER_NONE): of the same kind.
pub const PC_TIER_DISK: u32 = 4;
/// As [`PC_TIER_NONE`](crate::PC_TIER_NONE): of the same kind.
pub const PC_TIER_REMOTE: u32 = 5;

/// Bits of a mask of tiers: 1 \<\< `PC_TIER_…`
pub const PC_TIERS_RAM: u64 = 4;
/// As [`PC_TIERS_RAM`](crate::PC_TIERS_RAM): of the same kind.
pub const PC_TIERS_COMPRESSED: u64 = 8;
/// As [`PC_TIERS_RAM`](crate::PC_TIERS_RAM): of the same kind.
pub const PC_TIERS_DISK: u64 = 16;
/// As [`PC_TIERS_RAM`](crate::PC_TIERS_RAM): of the same kind.
pub const PC_TIERS_REMOTE: u64 = 32;

/// length of arrays by tier, with room for later ones
pub const PC_TIER_ROOM: usize = 16;

/// For loops over the tiers: one more than the last of this header. A later one may have more.
pub const PC_TIER_COUNT: usize = 6;

/// How states are written in a record. RAW and ZSTD (byte planes, compressed) lose nothing. I8 and
/// I4 (K with a scale per channel of each page, V with one per token) do: states that were read from
/// them are [`PC_APPROXIMATE`](crate::PC_APPROXIMATE).
pub const PC_CODEC_DEFAULT: u32 = 0;
/// As [`PC_CODEC_DEFAULT`](crate::PC_CODEC_DEFAULT): of the same kind.
pub const PC_CODEC_RAW: u32 = 1;
/// As [`PC_CODEC_DEFAULT`](crate::PC_CODEC_DEFAULT): of the same kind.
pub const PC_CODEC_ZSTD: u32 = 2;
/// As [`PC_CODEC_DEFAULT`](crate::PC_CODEC_DEFAULT): of the same kind.
pub const PC_CODEC_I8: u32 = 3;
/// As [`PC_CODEC_DEFAULT`](crate::PC_CODEC_DEFAULT): of the same kind.
pub const PC_CODEC_I4: u32 = 4;
/// first id for codecs of the application
pub const PC_CODEC_APPLICATION: u32 = 256;

/// Overwrite states with zeros before their memory is given back.
///
/// [`pc_cache_options.flags`](crate::pc_cache_options)
pub const PC_CACHE_ZERO_MEMORY: u64 = 1;
/// Map all RAW records of the folder instead of reading them. By default: those of 256 KiB or
/// more, on file systems that are known to be local. Not with `ZERO_MEMORY`, which reads.
pub const PC_CACHE_MMAP: u64 = 2;
/// Load the other members of a union of which one was used, and the modules that follow in the
/// schema, into free room.
pub const PC_CACHE_PREFETCH: u64 = 4;
/// Write nothing to DISK and REMOTE.
pub const PC_CACHE_READ_ONLY: u64 = 8;
/// Load whatever is there, also where computing promises to be faster (deadlines hold).
pub const PC_CACHE_ALWAYS_LOAD: u64 = 16;
/// Read all records into memory. For folders in which other programs change files: if a mapped
/// file is cut, or its disk fails, the process ends (SIGBUS). Not together with MMAP.
pub const PC_CACHE_NO_MMAP: u64 = 32;
/// Accept only states that kernels of this machine's class have computed ([`pc_costs.kernels`](crate::pc_costs);
/// doc/store.md): bit-equal results among machines that share a folder or server. By default
/// results are equal within rounding.
pub const PC_CACHE_OWN_KERNELS: u64 = 64;

/// runs of blanks become one space; needless ones vanish (doc/pml.md)
///
/// [`pc_schema_options.flags`](crate::pc_schema_options) and [`pc_prompt_options.flags`](crate::pc_prompt_options)
pub const PC_PML_COMPACT: u64 = 1;
/// src= may leave the folder of the schema file
pub const PC_PML_SRC_ANYWHERE: u64 = 2;
/// several members of a union at once, as the published code allows
pub const PC_PML_OVERLAP: u64 = 4;

/// itself (Prompt Cache, section 3.3)
///
/// The tokens that a module sees while it is encoded.
pub const PC_ENCODE_INDEPENDENT: u32 = 0;
/// itself and the schema's leading anonymous text (ours)
pub const PC_ENCODE_SINK: u32 = 1;
/// the default layout in one pass, one more per union member (upstream)
pub const PC_ENCODE_JOINT: u32 = 2;
/// Everything before it in this prompt: reused behind equal prefixes (ours).
pub const PC_ENCODE_EXACT: u32 = 3;

/// The text of a special token becomes that token. Not for text that others have written: it
/// could end a turn, or begin one. Without the flag it stays text.
///
/// [`pc_prompt_options.flags`](crate::pc_prompt_options) of text that is not PML
pub const PC_PROMPT_SPECIAL: u64 = 256;
/// neither BOS nor EOS is added
pub const PC_PROMPT_NO_BOS: u64 = 512;

/// those at positions up to its own
///
/// Which keys of attached segments a new token may see.
pub const PC_VISIBLE_BY_POSITION: u32 = 0;
/// all, as the published code has it
pub const PC_VISIBLE_ALL: u32 = 1;

/// uses joint states of a scaffold that the prompt imports whole
///
/// How much of what was reused is computed again: the repair level.
pub const PC_REPAIR_SCAFFOLD: u32 = 0;
/// single states only
pub const PC_REPAIR_NONE: u32 = 1;
/// recomputes the first `repair_tokens` tokens of each module
pub const PC_REPAIR_FIRST: u32 = 2;
/// recomputes the `repair_percent` of tokens that deviate most
pub const PC_REPAIR_TOP: u32 = 3;
/// recomputes everything: bit-equal to no reuse
pub const PC_REPAIR_FULL: u32 = 4;

/// of a sequence: finished, it has its states, to go on or be forked
///
/// [`pc_generate_options.flags`](crate::pc_generate_options)
pub const PC_GENERATE_KEEP: u64 = 1;
/// of a sequence: for [`pc_sequence_logits`](crate::pc_sequence_logits)
pub const PC_GENERATE_LOGITS: u64 = 2;
/// The model's EOS and the stops of the chat template do not end a sample.
pub const PC_GENERATE_IGNORE_END: u64 = 4;

/// equal
///
/// How the states of a request compare with those of a plain prefill.
pub const PC_EXACT: u32 = 1;
/// approximate, but for the tokens that the repair level recomputed
pub const PC_REPAIRED: u32 = 2;
/// modules that have not seen what stands before them, lossy codecs or I8,
/// spans in another place, or another prompt's attention maps took part
pub const PC_APPROXIMATE: u32 = 3;

/// everything was reused
///
/// Why the first part that was not reused was not.
pub const PC_REASON_NONE: u32 = 0;
/// never encoded, or evicted since
pub const PC_REASON_FIRST_USE: u32 = 1;
/// cache="false"
pub const PC_REASON_UNCACHED: u32 = 2;
/// encoded, but the budget has no room for it
pub const PC_REASON_NO_ROOM: usize = 3;
/// the caller asked for no reuse
pub const PC_REASON_NOT_WANTED: u32 = 4;
/// recomputed by the repair level
pub const PC_REASON_REPAIR: u32 = 5;
/// EXACT: something before it differs
pub const PC_REASON_PREFIX: u32 = 6;
/// a tier below RAM has it, or may have it:
///
/// computing promised to be, or was, faster than loading
pub const PC_REASON_SLOW: u32 = 7;
/// a tier below RAM has it, or may have it:
///
/// loading took longer than its deadline
pub const PC_REASON_DEADLINE: u32 = 8;
/// a tier below RAM has it, or may have it:
///
/// wrong checksum, seal or frame
pub const PC_REASON_DAMAGED: u32 = 9;
/// a tier below RAM has it, or may have it:
///
/// of another model, format, version or salt than its name says
pub const PC_REASON_FOREIGN: u32 = 10;
/// a tier below RAM has it, or may have it:
///
/// reading failed
pub const PC_REASON_IO: u32 = 11;
/// a tier below RAM has it, or may have it:
///
/// the server does not answer (the cache tries again later)
pub const PC_REASON_UNREACHABLE: u32 = 12;
/// a tier below RAM has it, or may have it:
///
/// its TTL has passed
pub const PC_REASON_EXPIRED: u32 = 13;
/// a tier below RAM has it, or may have it:
///
/// its tenant's quota has no room for it
pub const PC_REASON_QUOTA: u32 = 14;
/// a tier below RAM has it, or may have it:
///
/// used too seldom to be written
pub const PC_REASON_NOT_ADMITTED: u32 = 15;
/// a memo has no maps for it:
///
/// no record of this length, or the request has another RoPE regime
pub const PC_REASON_LENGTH: u32 = 16;
/// a memo has no maps for it:
///
/// no record is similar enough
pub const PC_REASON_UNLIKE: u32 = 17;
/// a memo has no maps for it:
///
/// its bucket has no projector or no threshold yet
pub const PC_REASON_UNTRAINED: u32 = 18;
/// a memo has no maps for it:
///
/// its bucket closed: reuse has lost more than it was tuned for
pub const PC_REASON_DRIFT: u32 = 19;
/// a memo was not asked (see also `NOT_WANTED` and REPAIR):
///
/// the prompt is made of a schema's parts or of segments
pub const PC_REASON_PARTS: u32 = 20;
/// a memo was not asked (see also `NOT_WANTED` and REPAIR):
///
/// the cache has exact states of it, or of its beginning
pub const PC_REASON_AT_HAND: u32 = 21;
/// a cache with [`PC_CACHE_OWN_KERNELS`](crate::PC_CACHE_OWN_KERNELS):
///
/// other kernels may have computed the stored states
pub const PC_REASON_KERNELS: u32 = 22;

/// it has not
///
/// Why a sample ended.
pub const PC_FINISH_NONE: u32 = 0;
/// As [`PC_FINISH_NONE`](crate::PC_FINISH_NONE): of the same kind.
pub const PC_FINISH_STOP_TOKEN: u32 = 1;
/// As [`PC_FINISH_NONE`](crate::PC_FINISH_NONE): of the same kind.
pub const PC_FINISH_STOP_STRING: u32 = 2;
/// `max_tokens`, or the end of the model's context or of the RoPE regime
pub const PC_FINISH_LENGTH: u32 = 3;
/// `on_text`, `on_token` or `on_logits` wanted it
pub const PC_FINISH_CALLBACK: u32 = 4;
/// [`pc_sequence_error`](crate::pc_sequence_error) says which
pub const PC_FINISH_ERROR: u32 = 5;
/// [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED): `cancelled`, [`pc_sequence_cancel`](crate::pc_sequence_cancel) or a deadline
pub const PC_FINISH_CANCELLED: u32 = 6;
/// the answer matches its grammar, which lets nothing more come
pub const PC_FINISH_GRAMMAR: u32 = 7;

/// What it is: [`pc_model_file_info.kind`](crate::pc_model_file_info).
pub const PC_MODEL_FILE_GGUF: u32 = 1;
/// As [`PC_MODEL_FILE_GGUF`](crate::PC_MODEL_FILE_GGUF): of the same kind.
pub const PC_MODEL_FILE_FOLDER: u32 = 2;
/// As [`PC_MODEL_FILE_GGUF`](crate::PC_MODEL_FILE_GGUF): of the same kind.
pub const PC_MODEL_FILE_LLAMA2C: u32 = 3;

/// bytes of the name of kernels, with its NUL
pub const PC_KERNELS_ROOM: usize = 64;

/// Numbers of rows whose costs are known, and the length of arrays of costs, with room for more. The
/// count may grow; what is behind it is 0.
pub const PC_COST_COUNT: usize = 9;
/// As [`PC_COST_COUNT`](crate::PC_COST_COUNT): of the same kind.
pub const PC_COST_ROOM: usize = 16;

/// Where the costs come from: [`pc_costs.source`](crate::pc_costs).
pub const PC_COSTS_BUILT_IN: u32 = 0;
/// As [`PC_COSTS_BUILT_IN`](crate::PC_COSTS_BUILT_IN): of the same kind.
pub const PC_COSTS_FROM_FILE: u32 = 1;
/// As [`PC_COSTS_BUILT_IN`](crate::PC_COSTS_BUILT_IN): of the same kind.
pub const PC_COSTS_MEASURED: u32 = 2;

/// from the file `path`
///
/// Parts of the library that need large outside libraries are shared objects beside it. Each is
/// opened when it is first needed. Without one, the library does what it does when it was built
/// without that part: it computes linear layers itself (onednn), searches memos by its own scan
/// (faiss), refuses caches on servers (remote).
pub const PC_PLUGIN_LOADED: u32 = 1;
/// linked into the library
pub const PC_PLUGIN_INSIDE: u32 = 2;
/// the library was built for it, but it cannot be used: see `reason`
pub const PC_PLUGIN_MISSING: u32 = 3;
/// As [`PC_PLUGIN_LOADED`](crate::PC_PLUGIN_LOADED): of the same kind.
pub const PC_PLUGIN_NOT_BUILT: u32 = 4;

/// tokens of a packed page
pub const PC_PAGE_TOKENS: usize = 64;

/// \[token\]\[head\]\[dim\]
///
/// The order of K, and of V, in memory of the caller: of one page of a pool, or of the tokens of
/// [`pc_pages_args`](crate::pc_pages_args). Dimensions are always neighbours.
pub const PC_KV_NHD: u32 = 0;
/// \[head\]\[token\]\[dim\]
pub const PC_KV_HND: u32 = 1;

/// only queue: [`pc_attend_args.flags`](crate::pc_attend_args)
pub const PC_ATTEND_QUEUE: u64 = 1;

/// LSEs are of base 2, as FlashInfer's; else natural ones
pub const PC_MERGE_BASE2: u64 = 1;

/// a tier stored a segment
///
/// Events of a cache: [`pc_event.kind`](crate::pc_event).
pub const PC_EVENT_STORE: u32 = 1;
/// a tier served it
pub const PC_EVENT_HIT: u32 = 2;
/// a tier evicted it to make room
pub const PC_EVENT_EVICT: u32 = 3;
/// cleared, expired, or removed by hand
pub const PC_EVENT_REMOVE: u32 = 4;
/// a tier has it but could not give it: reason
pub const PC_EVENT_LOAD_FAILED: u32 = 5;
/// a tier could not store it: reason
pub const PC_EVENT_STORE_FAILED: u32 = 6;

/// bytes of ops.`export_segment`
///
/// Who lays K and V out. The application's layouts are opaque: codecs RAW, ZSTD and the
/// application's take them, I8 and I4 do not.
pub const PC_LAYOUT_MODEL: u32 = 0;
/// doc/format.md
pub const PC_LAYOUT_PAGES: u32 = 1;
/// pages of K alone, with one head: the values are its last `v_dim` dimensions
pub const PC_LAYOUT_LATENT: u32 = 2;
/// pages of what ops.`export_layer` gives
pub const PC_LAYOUT_MODEL_PAGES: u32 = 3;
/// the head of a saved sequence ([`pc_sequence_save`](crate::pc_sequence_save))
pub const PC_LAYOUT_SEQUENCE: u32 = 4;
/// first id for layouts of the application
pub const PC_LAYOUT_APPLICATION: u32 = 256;

/// Waits while too much waits to be written to the tiers below RAM, rather than drop the entry
/// ([`pc_tier_stats.dropped`](crate::pc_tier_stats)). Blocks at most as long as the deadlines of the queue.
///
/// [`pc_put_options.flags`](crate::pc_put_options)
pub const PC_PUT_WAIT: u64 = 1;

/// the model's own; else MEAN, of decoders LAST
///
/// How the hidden states of a prompt become one embedding.
pub const PC_POOL_DEFAULT: u32 = 0;
/// As [`PC_POOL_DEFAULT`](crate::PC_POOL_DEFAULT): of the same kind.
pub const PC_POOL_MEAN: u32 = 1;
/// As [`PC_POOL_DEFAULT`](crate::PC_POOL_DEFAULT): of the same kind.
pub const PC_POOL_FIRST: u32 = 2;
/// of the token at the highest position
pub const PC_POOL_LAST: u32 = 3;

/// [`pc_embed_options.flags`](crate::pc_embed_options)
/// length 1 (always so if the model's files say it)
pub const PC_EMBED_NORMALIZE: u64 = 1;

/// tokenize and detokenize
///
/// [`pc_model_ops.flags`](crate::pc_model_ops). The first two name functions that may run at any time, also several times at
/// once, beside all functions of the same model.
pub const PC_OVERLAP_TEXT: u64 = 1;
/// release, size, `export_`… and `import_`…. A slow export then delays no step.
pub const PC_OVERLAP_STATES: u64 = 2;
/// The rows of a prompt may come in several steps, beside rows of other sequences: they give the
/// same there. Then [`pc_batch_step`](crate::pc_batch_step) computes prompts in pieces; its modules stay single calls of
/// encode. Since 0.10.
pub const PC_CUTS_PROMPTS: u64 = 4;

/// a JSON schema
///
/// What the text of a grammar is: [`pc_grammar_options.kind`](crate::pc_grammar_options).
pub const PC_GRAMMAR_SCHEMA: u32 = 0;
/// any JSON value; there is no text
pub const PC_GRAMMAR_JSON: u32 = 1;
/// rules, `name ::= "text" [a-z]* (other | "")`, as llama.cpp's GBNF
pub const PC_GRAMMAR_EBNF: u32 = 2;
/// a regular expression that the whole answer matches
pub const PC_GRAMMAR_REGEX: u32 = 3;

/// Objects and arrays may have more than the schema names, as JSON Schema has it. Without this
/// they may only where the schema says so itself (additionalProperties and the like).
///
/// [`pc_grammar_options.flags`](crate::pc_grammar_options), of JSON schemas
pub const PC_GRAMMAR_OPEN: u64 = 1;
/// `, ` and `: ` stand between parts, and nothing else
pub const PC_GRAMMAR_ONE_LINE: u64 = 2;

/// weights of maps; U8: a scale per row
pub const PC_MAP_F32: u32 = 0;
/// As [`PC_MAP_F32`](crate::PC_MAP_F32): of the same kind.
pub const PC_MAP_F16: u32 = 1;
/// As [`PC_MAP_F32`](crate::PC_MAP_F32): of the same kind.
pub const PC_MAP_U8: u32 = 2;

/// SCAN for few records of a length; HNSW for many, if FAISS is there
///
/// How the nearest record is found.
pub const PC_INDEX_AUTO: u32 = 0;
/// ours, exact
pub const PC_INDEX_SCAN: u32 = 1;
/// FAISS, exact. This and the next two: [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) without FAISS
pub const PC_INDEX_FLAT: u32 = 2;
/// a graph: approximate
pub const PC_INDEX_HNSW: u32 = 3;
/// lists by cluster: approximate
pub const PC_INDEX_IVF: u32 = 4;

/// Write nothing: beside a process that adds, or alone. Calls that would write return
/// [`PC_ERR_STATE`](crate::PC_ERR_STATE).
///
/// [`pc_memo_options.flags`](crate::pc_memo_options)
pub const PC_MEMO_READ_ONLY: u64 = 1;
/// Of a new memo: store every layer's input, and search a map for each layer while a prompt is
/// computed (AttnCache-f, section 5.5). Closer maps, one search per layer. Thresholds are set by
/// [`pc_memo_set_threshold`](crate::pc_memo_set_threshold).
pub const PC_MEMO_LAYERS: u64 = 2;

/// an existing memo: as before; a new one: embeddings, and logits if they
/// are no larger than the prompt's maps
///
/// Outputs that are stored beside a prompt's maps. Who asks for the same prompt again gets them,
/// exact and at once. They count as missing on a machine with other kernels, or with other number
/// formats.
pub const PC_OUTPUT_DEFAULT: u32 = 0;
/// As [`PC_OUTPUT_DEFAULT`](crate::PC_OUTPUT_DEFAULT): of the same kind.
pub const PC_OUTPUT_NONE: u32 = 1;
/// by `output_pool`
pub const PC_OUTPUT_EMBEDDINGS: u32 = 2;
/// As [`PC_OUTPUT_DEFAULT`](crate::PC_OUTPUT_DEFAULT): of the same kind.
pub const PC_OUTPUT_LOGITS: u32 = 4;

/// 1 - cosine of the embeddings with and without reuse
///
/// What is measured as the loss of a reuse.
pub const PC_LOSS_COSINE: u32 = 0;
/// share of inputs whose most likely class or next token changes
pub const PC_LOSS_CHANGED: u32 = 1;
/// divergence over classes or next tokens, in nats
pub const PC_LOSS_KL: u32 = 2;

/// embeddings of length 1 (always so if the model's files say it)
///
/// [`pc_prefill_options.flags`](crate::pc_prefill_options)
pub const PC_PREFILL_NORMALIZE: u64 = 1;

/// What a prompt reused: [`pc_memo_result.reuse`](crate::pc_memo_result).
pub const PC_REUSE_NONE: u32 = 0;
/// As [`PC_REUSE_NONE`](crate::PC_REUSE_NONE): of the same kind.
pub const PC_REUSE_MAPS: u32 = 1;
/// of the same prompt: nothing was computed
pub const PC_REUSE_OUTPUT: u32 = 2;

/// No format: the model's chat template frames system prompt and request.
///
/// [`pc_system_format.flags`](crate::pc_system_format)
pub const PC_FORMAT_CHAT: u64 = 1;

/// Elements of a schema: [`pc_item.kind`](crate::pc_item).
pub const PC_ITEM_MODULE: u32 = 1;
/// As [`PC_ITEM_MODULE`](crate::PC_ITEM_MODULE): of the same kind.
pub const PC_ITEM_UNION: u32 = 2;
/// As [`PC_ITEM_MODULE`](crate::PC_ITEM_MODULE): of the same kind.
pub const PC_ITEM_TEXT: u32 = 3;
/// As [`PC_ITEM_MODULE`](crate::PC_ITEM_MODULE): of the same kind.
pub const PC_ITEM_PARAMETER: u32 = 4;
/// As [`PC_ITEM_MODULE`](crate::PC_ITEM_MODULE): of the same kind.
pub const PC_ITEM_SLOT: u32 = 5;

/// [`pc_item.flags`](crate::pc_item): cache="false"
pub const PC_ITEM_UNCACHED: u64 = 1;

/// text of the schema, from the cache
///
/// Where a part comes from: [`pc_part.kind`](crate::pc_part).
pub const PC_PART_CACHED: u32 = 1;
/// Prompt Cache, section 3.2.2
pub const PC_PART_ARGUMENT: u32 = 2;
/// new text
pub const PC_PART_TEXT: u32 = 3;
/// text of the schema under cache="false", computed by every request
pub const PC_PART_UNCACHED: u32 = 4;

/// does not open an answer behind the last message
///
/// [`pc_chat_options.flags`](crate::pc_chat_options)
pub const PC_CHAT_NO_ANSWER: u64 = 1;

#[repr(C)]
pub struct pc_context {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_model {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_segment {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_cache {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_schema {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_prompt {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// promptcache/memo.h
#[repr(C)]
pub struct pc_memo {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// promptcache/batch.h
#[repr(C)]
pub struct pc_sequence {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A list of names, each with a schema (RelayAttention, section 3.3, for any number of them). A
/// schema is encoded when its name is filled in, and pinned in the cache while the name is listed.
/// Requests hold the schema that they found, whatever becomes of its name. Encoding holds no lock.
#[repr(C)]
pub struct pc_systems {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A model's file or folder: what it is, and what loading it would make of it here. Configuration,
/// headers and vocabulary are read, weights are not: a file of 100 GB takes no longer than a small
/// one.
#[repr(C)]
pub struct pc_model_file {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// The records of a DISK folder. Caches may use the folder at the same time.
#[repr(C)]
pub struct pc_folder {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_plan {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_batch {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// loads of many entries
#[repr(C)]
pub struct pc_load {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A grammar for the tokens of a model. It never changes: any number of sequences, on any threads,
/// may have it in their options ([`pc_generate_options.grammar`](crate::pc_generate_options)), and they hold it.
///
/// Before a token is drawn, the logits of all tokens that cannot go on with the answer become
/// -INFINITY: behind `on_logits`, before biases, penalties and all else of sampling. Log-probabilities
/// that `on_token` gets are the model's own, as ever. End tokens (the model's own and `stop_tokens`) can
/// be drawn only where the answer may end, from `min_tokens` on. Where it can only end, the sample
/// ends: [`PC_FINISH_GRAMMAR`](crate::PC_FINISH_GRAMMAR). Stop strings, `max_tokens` and callbacks end it anywhere.
///
/// Of a sequence: a grammar begins with the answer. Pushed tokens go on with the answer, so the
/// grammar must accept them, or the push is [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) and changes nothing. Behind an end token
/// or [`PC_FINISH_GRAMMAR`](crate::PC_FINISH_GRAMMAR) they stand between two answers, and the grammar begins anew behind them.
/// Forks are where their original is. A truncation goes back in the grammar too. With
/// [`pc_sequence_set_options`](crate::pc_sequence_set_options) the same grammar goes on, another one begins there. That of a loaded
/// sequence reads the tokens since the last push, or, if it does not accept these, all behind the
/// prompt.
#[repr(C)]
pub struct pc_grammar {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_schema_builder {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct pc_prompt_builder {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Work that a thread of the library does. A call that starts one checks its arguments, makes the
/// task and returns. Then wait for it ([`pc_task_wait`](crate::pc_task_wait)), look now and then ([`pc_task_wait`](crate::pc_task_wait) with 0
/// seconds), or let an event loop tell ([`pc_task_fd`](crate::pc_task_fd)).
///
/// Threads. A context starts a thread when a task finds none of its threads idle, and keeps it for
/// later tasks; it ends with the context. So as many tasks run at once as the caller starts, but
/// loops of their computing share the pool of the context. These threads block all signals.
///
/// Callbacks. Whatever the work calls runs on the library's thread, or where its comment says: all
/// functions of the options of a sequence (`on_text`, `on_token`, `on_logits`, cancelled), of an own
/// model, of the cache, the allocator, the log, `parallel_for`. They may do what they may do within
/// the same call without a task; a callback that waits for its own task gets [`PC_ERR_STATE`](crate::PC_ERR_STATE).
///
/// Meanwhile. Until the task is done, its batch, the sequences of that batch, or its plan belong to
/// it. On other threads than the task's:
/// - their calls return [`PC_ERR_STATE`](crate::PC_ERR_STATE) and change nothing; calls that return something else say that
///   there is nothing: NULL and 0, [`PC_FINISH_NONE`](crate::PC_FINISH_NONE);
/// - [`pc_sequence_cancel`](crate::pc_sequence_cancel) works;
/// - [`pc_batch_free`](crate::pc_batch_free) and [`pc_plan_free`](crate::pc_plan_free) wait for the task; [`pc_sequence_free`](crate::pc_sequence_free) cancels the sequence, and
///   waits.
/// All other objects may be used, and freed.
///
/// fork. In a child, work is done within the call that starts it, by the calling thread; the task is
/// done when the call returns. A task that was under way at the moment of fork() is never done
/// there: waiting for it is [`PC_ERR_STATE`](crate::PC_ERR_STATE), and freeing it, and what it uses, gives back nothing.
///
/// Handle: any thread; [`pc_task_free`](crate::pc_task_free) once.
#[repr(C)]
pub struct pc_task {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// How a request is measured: [`pc_generate_options.bench`](crate::pc_generate_options). Copied.
#[repr(C)]
pub struct pc_bench_options {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// An intermediate result of [`pc_eval`](crate::pc_eval) ([`pc_eval_args.trace`](crate::pc_eval_args)), for comparing models. Borrowed for the
/// call. Names and shapes:
/// ```text
/// "hidden", "final"                          [token][hidden]
/// "k_pre" (before RoPE), "k", "v"            [kv_head][token][dim]
/// "probs"                                    [head][query][key]
///                                            (keys of the spans in order, then new ones)
/// "pooled", "logits" (encoders)              [hidden], [class]
/// "router_logits"                            [token][experts]
/// "router_topk_idx", "router_topk_weight"    [token][chosen]
/// ```
#[repr(C)]
pub struct pc_trace {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Gets a line of the log, without a newline, borrowed for the call. Any thread may call it. It may
/// call no more of the library than [`pc_allocator`](crate::pc_allocator) may.
pub type pc_log_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, level: u32, line: *const c_char),
>;

/// A thread pool of the application: runs body(arg, i) for every i \< n and returns when all are
/// done. Bodies do not wait for each other.
pub type pc_parallel_for_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, n: usize, body: Option<unsafe extern "C" fn(arg: *mut c_void, i: usize)>, arg: *mut c_void),
>;

/// Progress of long work. total is 0 while it is unknown. A non-zero return cancels the work
/// ([`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED), with the text of [`pc_error_set`](crate::pc_error_set)).
pub type pc_progress_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, what: *const c_char, done: u64, total: u64) -> i32,
>;

/// Called by the thread that did it, never under a lock. It may remove from this cache and free it,
/// but nothing else: [`pc_cache_flush`](crate::pc_cache_flush) is [`PC_ERR_STATE`](crate::PC_ERR_STATE) on the cache's own threads.
pub type pc_event_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, event: *const pc_event),
>;

/// May change the logits that the next token is drawn from, before all else of sampling. logits
/// \[count\]: of the tokenizer's tokens. Returns 0 to go on, \> 0 to stop this sample without a further
/// token ([`PC_FINISH_CALLBACK`](crate::PC_FINISH_CALLBACK)), or a negative [`pc_status`](crate::pc_status) to fail.
pub type pc_logits_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, sample: u32, logits: *mut f32, count: usize) -> i32,
>;

/// Gets each drawn token, before its text; borrowed for the call. Returns as [`pc_text_fn`](crate::pc_text_fn); \> 0: this
/// token is the last one, and its text still comes.
pub type pc_token_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, token: *const pc_token) -> i32,
>;

/// Gets text of a sample as it becomes final: never empty, never part of a character, not
/// NUL-terminated. An incomplete code point waits for the next token, and is dropped at the end.
/// Other bytes that are not UTF-8 are passed on. A stop string is held back until it is certain that
/// it is none. sample counts the request's samples from 0. Returns 0 to go on, \> 0 to stop this
/// sample ([`PC_FINISH_CALLBACK`](crate::PC_FINISH_CALLBACK)), or a negative [`pc_status`](crate::pc_status) to fail ([`pc_error_set`](crate::pc_error_set) says why).
pub type pc_text_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, sample: u32, text: *const c_char, size: usize) -> i32,
>;

/// Memory of the application. The library calls it from any thread, also while it holds locks. So it
/// must not call the library, but for the calls that free an object, and of these not
/// [`pc_systems_free`](crate::pc_systems_free).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_allocator {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// first argument of both functions
    pub user: *mut c_void,
    /// `size` bytes, aligned to `align` (a power of two), or NULL.
    pub alloc: Option<unsafe extern "C" fn(user: *mut c_void, size: usize, align: usize) -> *mut c_void>,
    /// The same size and alignment as in alloc.
    pub free: Option<unsafe extern "C" fn(user: *mut c_void, ptr: *mut c_void, size: usize, align: usize)>,
}

impl Default for pc_allocator {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_context_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// copied; NULL: the C library's
    pub allocator: *const pc_allocator,
    /// gets lines of the log; NULL: silent
    pub log: pc_log_fn,
    /// given to log
    pub log_user: *mut c_void,
    /// NULL: a pool of the library
    pub parallel_for: pc_parallel_for_fn,
    /// given to `parallel_for`
    pub parallel_user: *mut c_void,
    /// of the library's pool, or width of `parallel_for`; 0: one per usable core
    pub threads: u32,
    /// which of a backend's devices, counted from 0 ("cuda": of those that `CUDA_VISIBLE_DEVICES`
    /// leaves); "cpu" has none but 0
    pub device: u32,
    /// What computes: "cpu", or the name of a backend module, perhaps with a device: "cuda:1". NULL:
    /// `PC_BACKEND` of the environment, else "cpu".
    pub backend: *const c_char,
}

impl Default for pc_context_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_model_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// Number format of linear layers and attention. F32 and BF16 expand all matrices. DEFAULT: BF16
    /// if the CPU has bf16 dot products and the file is not F32, else F32; quantised matrices stay
    /// quantised from AVX2 on, with inputs of 8 bits (16 in groups of 16 or 32 inputs that stand out
    /// in their row); their loss is at most that of the weights' format. I8: the same, and also
    /// where kernels are plain C. I16: as I8, with inputs of 16 bits everywhere: twice the products,
    /// a loss below that of BF16.
    pub compute: u32,
    /// Number format of K and V. DEFAULT: as compute; of compute I8 and I16 what their DEFAULT would
    /// be, BF16 or F32. I8: encoded segments take a little more than half the bytes of BF16, tokens
    /// of a running request have the format of DEFAULT, and results are [`PC_APPROXIMATE`](crate::PC_APPROXIMATE). A segment of
    /// one format is never served as one of another.
    pub kv: u32,
    /// `PC_MODEL_…`
    pub flags: u64,
    /// Jinja text if it has "{{" or "{%"; path of a file if it ends in ".jinja" (Jinja) or ".json"
    /// (doc/pml.md); else name of a built-in family ("chatml", "llama2", "llama3", …; "none": chat
    /// tags are empty). NULL: the model's own. If the model has none, or it is not understood for
    /// certain, chat tags and [`PC_FORMAT_CHAT`](crate::PC_FORMAT_CHAT) fail. [`pc_prompt_from_messages`](crate::pc_prompt_from_messages) needs less: a template
    /// that can be run.
    pub chat_template: *const c_char,
    /// Called on the calling thread, before each step of reading the files (total 0), and while
    /// weights are checked and loaded: several times a second, unless the application's own
    /// `pc_parallel_for` leaves the calling thread idle; then between steps alone.
    pub progress: pc_progress_fn,
    /// given to progress
    pub progress_user: *mut c_void,
    /// Folder in which packed weights are kept, so that the next load neither digests nor packs
    /// them; it is made if it is missing. The file there takes about the memory of the weights, and
    /// is written anew when the model's files, the kernels or the library differ. The model maps it
    /// until it is freed: it may be removed meanwhile, but not cut short. A folder that cannot be
    /// used is logged, and the model loads without; "" is [`PC_ERR_INVALID`](crate::PC_ERR_INVALID). NULL: nothing is kept.
    pub packed_weights: *const c_char,
}

impl Default for pc_model_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_model_info {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// "llama", "falcon", …
    pub architecture: [c_char; 32],
    /// digest of everything in the weights that changes K and V
    pub fingerprint: [u8; 32],
    /// layers that have K and V
    pub layers: i32,
    /// of queries, in each layer
    pub heads: i32,
    /// heads of K and V in each layer
    pub kv_heads: i32,
    /// width of one head of K
    pub head_dim: i32,
    /// width of a hidden state
    pub hidden: i32,
    /// rows of logits; an id that the tokenizer does not have is never sampled
    pub vocab: i32,
    /// Largest position + 1 that the model was made for, with linear scaling and YaRN. 0: no limit
    /// (dynamic NTK, or the files name none).
    pub context_length: i32,
    /// `PC_POSITION_…`
    pub position_scheme: u32,
    /// `PC_DTYPE_…`
    pub compute: u32,
    /// 1: a segment may stand at any start
    pub relocatable: u32,
    /// -1: none
    pub token_bos: i32,
    /// -1: none
    pub token_eos: i32,
    /// -1: none
    pub token_unk: i32,
    /// -1: none
    pub token_pad: i32,
    /// bytes of the weights in memory
    pub weight_bytes: u64,
    /// of encoded segments: K and V, all layers, I8 with scales
    pub kv_bytes_per_token: u64,
    /// 1: an encoder, for [`pc_embed`](crate::pc_embed) and [`pc_prefill`](crate::pc_prefill) only
    pub bidirectional: u32,
    /// of an encoder's head; 0: none
    pub classes: u32,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of a layer with experts; 0: none
    pub experts: i32,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// experts that one token uses
    pub experts_used: i32,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of one expert, all layers
    pub expert_bytes: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of the weights that one token uses, all layers, with its experts
    pub token_bytes: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of one token; a multiplication and an addition count as two
    pub token_flops: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of the layer that makes logits (an encoder's: pooler and classes)
    pub head_bytes: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of one row of logits
    pub head_flops: u64,
}

impl Default for pc_model_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_cache_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// Budget of RAM, with pins, running loads and data that waits to be written to other tiers.
    /// 0: 1 GiB. Below 4 MiB, 1 MiB more may wait.
    pub ram_bytes: u64,
    /// part of keys that the library makes: others never get states
    pub salt: *const c_void,
    /// bytes of salt; 0: none
    pub salt_size: usize,
    /// `PC_CACHE_…`
    pub flags: u64,
    /// budget of COMPRESSED; 0: no such tier
    pub compressed_bytes: u64,
    /// folder of DISK, made if missing; processes may share it; NULL: none
    pub disk_path: *const c_char,
    /// its budget; 0: 16 GiB. An excess at opening goes in the background
    pub disk_bytes: u64,
    /// "redis://\[user:password@\]server\[:port\]\[/db\]", nodes of a cluster separated by commas, or one
    /// with "?cluster=1". "rediss://…" uses TLS and may end in options (doc/store.md):
    /// "?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1".
    /// "redis+unix://\[user:password@\]/path\[?owner=USER\]" is a socket. NULL: none.
    pub remote: *const c_char,
    /// `PC_CODEC_…` of COMPRESSED; default: ZSTD
    pub compressed_codec: u32,
    /// `PC_CODEC_…` of DISK; default: RAW
    pub disk_codec: u32,
    /// `PC_CODEC_…` of REMOTE; default: ZSTD, sealed RAW (doc/store.md)
    pub remote_codec: u32,
    /// for tiers below RAM; 0: 2 if there are any
    pub io_threads: u32,
    /// \[`codec_count`\] of the application (extend.h), copied
    pub codecs: *const pc_codec_ops,
    /// length of codecs
    pub codec_count: usize,
    /// 32 bytes that seal records of DISK and REMOTE (XChaCha20-Poly1305). Copied, zeroed with the
    /// cache. NULL: records are not sealed.
    pub seal_key: *const u8,
    /// an entry expires so long after its last hit; 0: never
    pub ttl_seconds: f64,
    /// Of one load or store, with connecting; then the request computes. 0: 2.
    pub deadline_seconds: f64,
    /// gets events of the cache; may be NULL
    pub on_event: pc_event_fn,
    /// given to `on_event`
    pub event_user: *mut c_void,
    /// Told when the bytes of a tier have changed. Rules as `on_event`. May be NULL.
    pub on_bytes: Option<unsafe extern "C" fn(user: *mut c_void, tier: u32, bytes: u64, budget: u64)>,
    /// given to `on_bytes`
    pub bytes_user: *mut c_void,
    /// Percent of the budget of RAM, COMPRESSED and DISK that the entries of one tenant (one salt,
    /// or none) may take: a tenant over it makes room among its own entries. [`pc_cache_set_quota`](crate::pc_cache_set_quota) sets
    /// other limits for single tenants. A folder remembers the number: it holds for all caches that
    /// write there, until one names another. 0: no limit, and in a folder the one that it remembers.
    /// 100: no limit.
    pub tenant_share: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_cache_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_schema_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_PML_…`
    pub flags: u64,
    /// of one text: longer ones lose their middle; 0: no limit
    pub max_tokens: u32,
    /// Must be 0.
    pub reserved: u32,
    /// For src=. NULL: the schema file's folder; refused for text in memory.
    pub base_folder: *const c_char,
}

impl Default for pc_schema_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// From position `first` on, states belong to the tenant of this salt instead of the cache's. A part
/// of the prompt belongs as a whole to the salt at its first token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_salt {
    /// position from which it holds
    pub first: i64,
    /// at least one byte: an empty salt is refused
    pub data: *const c_void,
    /// bytes of data
    pub size: usize,
}

impl Default for pc_salt {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_encode_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_ENCODE_…`
    pub encoding: u32,
    /// Must be 0.
    pub reserved: u32,
    /// told of each step; may be NULL
    pub progress: pc_progress_fn,
    /// given to progress
    pub progress_user: *mut c_void,
    /// of what is stored; 0: the cache's; INFINITY: never expires
    pub ttl_seconds: f64,
    /// lower priorities are evicted first; 0
    pub priority: i32,
    /// 1: pins what is encoded for `pin_owner`
    pub pin: u32,
    /// owner, as in [`pc_cache_pin`](crate::pc_cache_pin)
    pub pin_owner: u64,
    /// until the pin ends; 0: no end
    pub pin_seconds: f64,
    /// of later requests, if longer than the schema; 0: the schema's
    pub rope_regime_length: u64,
    /// \[`salt_count`\] as in [`pc_generate_options`](crate::pc_generate_options): whose the states are from a position on.
    pub salts: *const pc_salt,
    /// sizeof([`pc_salt`](crate::pc_salt))
    pub salt_stride: usize,
    /// length of salts
    pub salt_count: usize,
    /// \[32\] as in [`pc_generate_options`](crate::pc_generate_options)
    pub adapter: *const u8,
}

impl Default for pc_encode_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Of every call that makes a prompt.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_prompt_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_PML_…` of PML, `PC_PROMPT_…` of [`pc_prompt_from_text`](crate::pc_prompt_from_text); others: 0
    pub flags: u64,
}

impl Default for pc_prompt_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_generate_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// 0: 256; of a sequence: since the last push
    pub max_tokens: u32,
    /// 0: 1; samples share everything but their tails
    pub samples: u32,
    /// `PC_ENCODE_…`
    pub encoding: u32,
    /// `PC_REPAIR_…`
    pub repair: u32,
    /// of [`PC_REPAIR_FIRST`](crate::PC_REPAIR_FIRST)
    pub repair_tokens: u32,
    /// of [`PC_REPAIR_TOP`](crate::PC_REPAIR_TOP)
    pub repair_percent: f32,
    /// `PC_VISIBLE_…`
    pub visibility: u32,
    /// in a step, prompts of a higher one are computed first
    pub priority: i32,
    /// NULL: greedy; sample i uses seed + i
    pub sampling: *const pc_sampling,
    /// besides the model's own
    pub stop_tokens: *const i32,
    /// length of `stop_tokens`
    pub stop_token_count: usize,
    /// end a sample; not part of its text
    pub stop_strings: *const *const c_char,
    /// length of `stop_strings`
    pub stop_string_count: usize,
    /// gets the text; NULL: nobody does
    pub on_text: pc_text_fn,
    /// given to `on_text`
    pub on_text_user: *mut c_void,
    /// Polled between and inside steps. Non-zero: [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED). See [`pc_sequence_cancel`](crate::pc_sequence_cancel) too.
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// given to cancelled
    pub cancel_user: *mut c_void,
    /// `PC_GENERATE_…`
    pub flags: u64,
    /// \[`salt_count`\] ascending by `first`
    pub salts: *const pc_salt,
    /// sizeof([`pc_salt`](crate::pc_salt))
    pub salt_stride: usize,
    /// length of salts
    pub salt_count: usize,
    /// Attention maps of similar prompts (memo.h), for plain prompts that the cache has nothing of.
    /// Not with salts: maps have no tenants. NULL: none.
    pub memo: *mut pc_memo,
    /// Overrides every bucket's threshold, also of closed buckets; at most 1. -INFINITY: the nearest
    /// record is a hit. Such hits are neither counted nor verified. NULL: the buckets' own.
    pub memo_threshold: *const f64,
    /// Length that selects the RoPE frequencies of dynamic NTK and LongRoPE (doc/design.md). 0: that
    /// of prompt and `max_tokens`, or of the given segments. It stays for the sequence's life: give
    /// the longest that later turns may reach.
    pub rope_regime_length: u64,
    /// Cancelled so long after the call, or a sequence's last push or `set_options`. 0: never.
    pub deadline_seconds: f64,
    /// promptcache/bench.h; NULL: nothing is measured
    pub bench: *const pc_bench_options,
    /// Of a sequence: since the last push. So many tokens come before an end token (the model's own
    /// and `stop_tokens`) may be drawn, and before stop strings are looked for. At most `max_tokens`.
    pub min_tokens: u32,
    /// `on_token` gets so many likeliest tokens; at most 64
    pub top_logprobs: u32,
    /// gets logits before a token is drawn; NULL: nobody does
    pub on_logits: pc_logits_fn,
    /// given to `on_logits`
    pub on_logits_user: *mut c_void,
    /// gets drawn tokens; NULL: nobody does
    pub on_token: pc_token_fn,
    /// given to `on_token`
    pub on_token_user: *mut c_void,
    /// \[32\] digest of the adapter (LoRA) that an application's model computes with. States of one
    /// adapter are never served to another. Copied. NULL: none. Others: [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED).
    pub adapter: *const u8,
    /// any number of the application, for its own model's functions (extend.h)
    pub tag: u64,
    /// that the answer must match (grammar.h); NULL: any answer
    pub grammar: *const pc_grammar,
}

impl Default for pc_generate_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// `tokens_prompt` = `tokens_cached` + `tokens_encoded` + `tokens_repaired` + `tokens_new` + `tokens_memo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// all tokens before the answer
    pub tokens_prompt: u64,
    /// from the cache, any tier
    pub tokens_cached: u64,
    /// of modules that were missing
    pub tokens_encoded: u64,
    /// cached tokens that were computed again
    pub tokens_repaired: u64,
    /// arguments and free text, but for blocks in the cache
    pub tokens_new: u64,
    /// sampled tokens of all samples
    pub tokens_generated: u64,
    /// bytes of K and V that were reused
    pub bytes_reused: u64,
    /// [`PC_EXACT`](crate::PC_EXACT), [`PC_REPAIRED`](crate::PC_REPAIRED) or [`PC_APPROXIMATE`](crate::PC_APPROXIMATE)
    pub exactness: u32,
    /// `PC_REPAIR_…` that took effect
    pub repair: u32,
    /// `PC_REASON_…` of the first part that was not reused
    pub miss_reason: u32,
    /// `PC_FINISH_…` of sample 0
    pub finish: u32,
    /// look-ups and placement
    pub seconds_assemble: f64,
    /// encoding missing modules
    pub seconds_encode: f64,
    /// new and repaired tokens, until the first logits
    pub seconds_prefill: f64,
    /// from the call to the first sampled token
    pub seconds_ttft: f64,
    /// everything behind the first token
    pub seconds_decode: f64,
    /// `tokens_cached` by tier
    pub tokens_tier: [u64; PC_TIER_ROOM],
    /// from tiers below RAM
    pub bytes_loaded: u64,
    /// waiting for loads from tiers below RAM
    pub seconds_load: f64,
    /// 1: some states went through a lossy codec
    pub lossy: u32,
    /// 1: other kernels, or unknown ones, computed some states: they differ by rounding
    /// ([`PC_CACHE_OWN_KERNELS`](crate::PC_CACHE_OWN_KERNELS)).
    pub other_kernels: u32,
    /// computed with another prompt's maps: values only, keys afterwards
    pub tokens_memo: u64,
    /// features, search, fetching maps; computing is in `seconds_prefill`
    pub seconds_memo: f64,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// `PC_REASON_…` of a miss; NONE: a hit, or there is no memo
    pub memo_reason: u32,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// number of layers that reused maps
    pub memo_layers: u32,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// the nearest record of this length; -1: none, or it was not asked
    pub memo_record: i64,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// to that record; 1: the same tokens
    pub memo_similarity: f64,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// of the reuse, if verified, by the measure of the bucket's tuning
    pub memo_loss: f64,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// 1: also computed in full; the results are those of that
    pub memo_verified: u32,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// `PC_REUSE_…` (memo.h)
    pub memo_reuse: u32,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// That selected the RoPE frequencies. 0: the model has one RoPE regime.
    pub rope_regime_length: u64,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// LongRoPE: 1 short, 2 long. Dynamic NTK: 1 as trained, else the length. 0: one RoPE regime.
    pub rope_regime: u64,
    /// What the memo answered ([`pc_memo_result`](crate::pc_memo_result) in memo.h has the same fields).
    ///
    /// of `tokens_encoded`: [`PC_PART_UNCACHED`](crate::PC_PART_UNCACHED)
    pub tokens_uncached: u64,
}

impl Default for pc_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_systems_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of text and tokens ([`pc_system_format`](crate::pc_system_format)); NULL: "{`__SYS_PROMPT`}{`__USR_PROMPT`}"
    pub format: *const c_char,
    /// bytes of format
    pub format_size: usize,
    /// or a file that holds it
    pub format_file: *const c_char,
    /// `PC_ENCODE_…` of later requests; not EXACT
    pub encoding: u32,
    /// Must be 0.
    pub reserved: u32,
    /// `PC_FORMAT_…`
    pub flags: u64,
    /// as in [`pc_encode_options`](crate::pc_encode_options)
    pub rope_regime_length: u64,
}

impl Default for pc_systems_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_system_info {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// the name, with a NUL
    pub name: [c_char; 64],
    /// positions that the schema spans
    pub length: i64,
    /// its segments that are pinned in the cache
    pub pinned: u64,
    /// how often the name was filled in since it was last absent
    pub filled: u64,
}

impl Default for pc_system_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// More than [`pc_model_info`](crate::pc_model_info) says. Texts are borrowed from the [`pc_model_file`](crate::pc_model_file).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_model_file_info {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_MODEL_FILE_…`
    pub kind: u32,
    /// What [`pc_model_load`](crate::pc_model_load) returns: [`PC_OK`](crate::PC_OK), as far as can be seen without the weights' values, or the
    /// error. With an error, fields that could not be found out are 0 or "".
    pub refusal: pc_status,
    /// of the refusal, in one line that names the file
    pub reason: *const c_char,
    /// in words: "Qwen 3 MoE"; "": not in the library's table
    pub family: *const c_char,
    /// "plain", "linear", "dynamic", "yarn", "llama3", "longrope" or
    /// "factors"; "": no RoPE
    pub rope_scaling: *const c_char,
    /// "byte-level BPE", …; "": none
    pub tokenizer: *const c_char,
    /// name of the chat template; "": none, or not understood
    pub chat: *const c_char,
    /// why not, or why it takes no system prompt; "": nothing is amiss
    pub chat_reason: *const c_char,
    /// why segments cannot be moved, "has learned positions …"; ""
    pub fixed: *const c_char,
    /// that computes: "cpu"
    pub backend: *const c_char,
    /// of all files with weights
    pub file_bytes: u64,
    /// number of tensors
    pub tensors: u64,
    /// numbers in all tensors
    pub parameters: u64,
    /// of [`pc_model_info.weight_bytes`](crate::pc_model_info): of what stays quantised
    pub quantised_bytes: u64,
    /// Of one token of an encoded segment, K and V of all layers, by the `PC_DTYPE_…` of
    /// [`pc_model_options.kv`](crate::pc_model_options); 0: there is no such format. \[0\]: as the options say.
    pub kv_bytes: [u64; PC_DTYPE_ROOM],
    /// base of RoPE; 0: no RoPE
    pub rope_theta: f64,
    /// by which the scaling stretches the context; 0: none
    pub rope_factor: f64,
    /// original context length that the scaling begins at; 0: none
    pub rope_length: f64,
    /// dimensions of a head that turn
    pub rope_dims: i32,
    /// width of a head's values
    pub value_dim: i32,
    /// of attention, in tokens; 0: none
    pub window: i32,
    /// layers that have the window
    pub window_layers: i32,
    /// attention stays within chunks of so many positions; 0: none
    pub chunk: i32,
    /// layers that have chunks
    pub chunk_layers: i32,
    /// without RoPE, in a model with it
    pub plain_layers: i32,
    /// width of the latent vector of K and V (MLA); 0: none
    pub latent: i32,
    /// dimensions that turn beside it
    pub latent_rotated: i32,
    /// layers that have experts
    pub expert_layers: i32,
    /// 1: queries and keys have norms
    pub query_norms: i32,
    /// 1: heads have a sink in their softmax
    pub sinks: i32,
    /// tokens of the tokenizer
    pub vocabulary: i32,
    /// 1: the chat template takes a system prompt
    pub system_role: u32,
    /// RoPE base of layers with the window, if it is another; 0: it is not
    pub window_theta: f64,
}

impl Default for pc_model_file_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Tensors of one number format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_model_file_type {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// name of the format: "`Q4_K`"; static
    pub name: *const c_char,
    /// tensors in this format
    pub tensors: u64,
    /// numbers in these tensors
    pub parameters: u64,
    /// bytes of these tensors in the files
    pub bytes: u64,
    /// 1: matrices are computed with as they are stored; 0: they are expanded or rounded to
    /// [`pc_model_info.compute`](crate::pc_model_info). Vectors are expanded.
    pub kept: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_model_file_type {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_folder_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[32\] opens sealed records; NULL: only their frames are read
    pub seal_key: *const u8,
    /// none yet
    pub flags: u64,
}

impl Default for pc_folder_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// A record. Without the key of a sealed record, model and shape are zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_record_info {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of a sealed record that was not opened: `name`
    pub key: [u8; 32],
    /// fingerprint of the model
    pub model: [u8; 32],
    /// of the model, as in [`pc_model_info`](crate::pc_model_info)
    pub architecture: [c_char; 32],
    /// `PC_CODEC_…`
    pub codec: u32,
    /// 1: its states went through a lossy codec
    pub lossy: u32,
    /// 1: sealed with a `seal_key`
    pub sealed: u32,
    /// `PC_POSITION_…`
    pub position_scheme: u32,
    /// `PC_DTYPE_…`
    pub dtype: u32,
    /// `PC_LAYOUT_…`
    pub layout: u32,
    /// `PC_ENCODE_…`
    pub encoding: u32,
    /// layers of its states
    pub layers: i32,
    /// heads of K and V in each layer
    pub kv_heads: i32,
    /// width of a head of K
    pub k_dim: i32,
    /// width of a head of V
    pub v_dim: i32,
    /// of the format: major \* 256 + minor
    pub version: u32,
    /// tokens of the segment
    pub tokens: u64,
    /// bytes of its states as a segment
    pub state_bytes: u64,
    /// bytes of its file
    pub file_bytes: u64,
    /// seconds of computing it
    pub cost_seconds: f64,
    /// when, in seconds since 1970
    pub written: i64,
    /// when, in seconds since 1970; 0: never
    pub expires: i64,
    /// Id of its `seal_key`, which does not reveal the key; part of the file's name.
    pub seal_id: [u8; 16],
    /// That computed it, as in [`pc_costs`](crate::pc_costs), with oneDNN if it took part; "": unknown.
    pub kernels: [c_char; PC_KERNELS_ROOM],
    /// of its file's name, between key and suffix; "": none
    pub variant: [c_char; 64],
    /// 1: all of it could be read; 0: its key or codec is missing
    pub opened: u32,
    /// Must be 0.
    pub reserved: u32,
    /// In its file's name: the key, of a sealed record a digest of it that takes the `seal_key`.
    pub name: [u8; 32],
}

impl Default for pc_record_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_costs {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// its name, as the operating system has it
    pub cpu: [c_char; 64],
    /// of the CPU: "avx512bf16", …
    pub kernels: [c_char; PC_KERNELS_ROOM],
    /// `PC_COSTS_…`
    pub source: u32,
    /// Must be 0.
    pub reserved: u32,
    /// \[i\]: nanoseconds of one thread for 2^i queries over one token of one K/V head of 128
    /// dimensions, with K and V in the second-level cache.
    pub cached_ns: [f64; PC_COST_ROOM],
    /// the same with K and V in memory
    pub memory_ns: [f64; PC_COST_ROOM],
}

impl Default for pc_costs {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_calibrate_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of the file; NULL: as above; "": none
    pub path: *const c_char,
    /// told of each step; may be NULL
    pub progress: pc_progress_fn,
    /// given to progress
    pub progress_user: *mut c_void,
}

impl Default for pc_calibrate_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_plugin_info {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// "onednn"; these three live as long as the library
    pub name: *const c_char,
    /// of the file; "": linked in, not found or not built
    pub path: *const c_char,
    /// MISSING: one line that names file and cause; else ""
    pub reason: *const c_char,
    /// `PC_PLUGIN_…`
    pub state: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_plugin_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_attend_shape {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of queries; a multiple of `kv_heads`
    pub heads: i32,
    /// heads of K and V
    pub kv_heads: i32,
    /// width of a head of K: 1 to 1024
    pub k_dim: i32,
    /// width of a head of V: 1 to 1024
    pub v_dim: i32,
    /// of K and V: [`PC_DTYPE_F32`](crate::PC_DTYPE_F32), BF16, F16 or I8
    pub dtype: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_attend_shape {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// K and V of tokens \[first, first + count) of a packed run, and the same numbers in the caller's
/// order. Strides are in elements; 0: without gaps, in the order of `layout` over `count` tokens.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_pages_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of the run
    pub shape: *const pc_attend_shape,
    /// the run, 64-byte aligned; [`pc_pages_read`](crate::pc_pages_read) only reads it
    pub pages: *mut c_void,
    /// first token of the run
    pub first: usize,
    /// number of tokens; 0: nothing happens
    pub count: usize,
    /// \[count\]\[`kv_heads`\]\[`k_dim`\]; [`pc_pages_write`](crate::pc_pages_write) only reads it
    pub k: *mut c_void,
    /// \[count\]\[`kv_heads`\]\[`v_dim`\]; likewise
    pub v: *mut c_void,
    /// of k and v: [`PC_DTYPE_F32`](crate::PC_DTYPE_F32), BF16 or F16; DEFAULT: F32
    pub dtype: u32,
    /// of k and v: `PC_KV_…`
    pub layout: u32,
    /// elements of k from one token to the next
    pub k_token_stride: usize,
    /// elements of k from one head to the next
    pub k_head_stride: usize,
    /// the same of v
    pub v_token_stride: usize,
    /// the same of v
    pub v_head_stride: usize,
}

impl Default for pc_pages_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// The shape of a pool: the pages of a runtime's own paged cache, in host memory, that need no
/// conversion. One shape serves all layers; [`pc_attend_args`](crate::pc_attend_args) says where the pages of a layer lie.
/// Strides are in elements of `dtype`; 0: without gaps, as `layout` and `joined` say. K is rotated
/// already, by absolute positions (then [`pc_attend_args.rope`](crate::pc_attend_args) is NULL), or by positions relative to
/// the run's start.
///
/// I8: a value is its code times a scale of its layer and head ([`pc_attend_args.k_scales`](crate::pc_attend_args)): with all
/// equal, the scale of a tensor.
///
/// Pages are packed, 64 tokens of one head at a time, into scratch memory when they are read, once
/// for all rows that read them together. The results are those of packed runs with the same values,
/// bit for bit (I8: with the same values in fp32). doc/performance.md says what it costs. Backends
/// other than "cpu" have no pools: [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_pool {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of a page: `PC_KV_…`
    pub layout: u32,
    /// tokens of a page: 16, 32, 64 or 128
    pub page_tokens: u32,
    /// [`PC_DTYPE_F32`](crate::PC_DTYPE_F32), BF16, F16 or I8; DEFAULT: the shape's
    pub dtype: u32,
    /// 1: a page is its K, then its V; 0: K and V have pages apart
    pub joined: u32,
    /// number of pages of a layer; indices are below it
    pub page_count: usize,
    /// elements from the K of a page to that of the next one
    pub k_page_stride: usize,
    /// elements of K from one token to the next
    pub k_token_stride: usize,
    /// elements of K from one head to the next
    pub k_head_stride: usize,
    /// the same of V
    pub v_page_stride: usize,
    /// the same of V
    pub v_token_stride: usize,
    /// the same of V
    pub v_head_stride: usize,
}

impl Default for pc_pool {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_run {
    /// number of its tokens
    pub tokens: usize,
    /// \[tokens\] position minus the run's start, ascending. NULL: 0, 1, 2, …
    pub relative: *const i64,
    /// \[tokens / `page_tokens`, rounded up\] the run lies in these pages of [`pc_plan_args.pool`](crate::pc_plan_args), in this
    /// order. Indices before the first and behind the last page that a row sees a token of are not
    /// looked at. NULL: the run is packed
    pub pages: *const i32,
}

impl Default for pc_run {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

/// Tokens \[lo, hi) of a run that starts at position `start` of this row's sequence.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_row_span {
    /// position of the run's start
    pub start: i64,
    /// index in [`pc_plan_args.runs`](crate::pc_plan_args)
    pub run: u32,
    /// first token that the row sees
    pub lo: u32,
    /// one more than the last token that the row sees; 0: all from lo on
    pub hi: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_row_span {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

/// Everything is copied. Row r holds spans\[first\[r\]\] to spans\[first\[r + 1\] - 1\]. lo and hi say what
/// a row sees: causality, holes. Each key may come once per row: the same token of a run at the same
/// start twice is [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (at two starts it is two keys).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_plan_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of all runs, but for dtypes
    pub shape: *const pc_attend_shape,
    /// \[`run_count`\] all runs
    pub runs: *const pc_run,
    /// sizeof([`pc_run`](crate::pc_run))
    pub run_stride: usize,
    /// length of runs
    pub run_count: usize,
    /// \[`row_count`\] of each row's token
    pub positions: *const i64,
    /// \[`row_count` + 1\], ascending from 0
    pub first: *const u32,
    /// of all rows, one row's behind another's
    pub spans: *const pc_row_span,
    /// sizeof([`pc_row_span`](crate::pc_row_span))
    pub span_stride: usize,
    /// length of positions
    pub row_count: usize,
    /// 0; `PC_PLAN_…` in bench.h
    pub flags: u64,
    /// \[`run_count`\] [`PC_DTYPE_DEFAULT`](crate::PC_DTYPE_DEFAULT): the shape's, in a pool the pool's. NULL: all of them
    pub dtypes: *const u32,
    /// in which runs with `pages` lie; NULL: no run has any
    pub pool: *const pc_pool,
}

impl Default for pc_plan_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Rotates queries by (row position - start) for each span, so that one stored run serves every
/// place. Pairs are (i, i + dims / 2), or (2i, 2i + 1) if interleaved. The angle of pair i at
/// distance d is d \* frequency\[i\]; cosine and sine are multiplied by factor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_rope {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// dimensions of a head that turn: even, at most `k_dim`
    pub dims: i32,
    /// 1: pairs are (2i, 2i + 1)
    pub interleaved: u32,
    /// multiplies cosine and sine; 0: 1
    pub factor: f32,
    /// Must be 0.
    pub reserved: u32,
    /// \[dims / 2\] of each pair
    pub frequency: *const f64,
}

impl Default for pc_rope {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Memory. With backend "cpu", all is host memory. With any other, pages\[i\], q, out and lse are
/// addresses in the memory of the context's device, q and out fp32 and aligned to 16 bytes, lse to
/// 4; the list `pages` itself, rope, slopes and sinks are host memory, read before the call returns.
/// For "cuda" that is memory of the device of the context, in its primary context, as the CUDA
/// runtime uses it (cudaMalloc; cuMemAlloc with what cuDevicePrimaryCtxRetain gives as current
/// context). Pageable host memory and memory of another device are refused; an address beyond its
/// memory ends the CUDA context, as in a kernel of your own. The calling thread's current device
/// does not matter and stays.
///
/// Stream. For "cuda", `stream` is a `cudaStream_t` (CUstream) of that device, but none that is being
/// captured; NULL is the legacy default stream, as everywhere in CUDA. The work begins after what
/// you queued in that stream before. Without [`PC_ATTEND_QUEUE`](crate::PC_ATTEND_QUEUE), the call returns when the results are
/// there. With it, the call only queues, and what you queue in the stream afterwards finds the
/// results; until the work is done, pages, q, out and lse belong to it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_attend_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[`run_count`\] of this layer; NULL for runs in a pool, and those that no row holds
    pub pages: *const *const c_void,
    /// \[row\]\[head\]\[`k_dim`\] the queries
    pub q: *const c_void,
    /// \[row\]\[head\]\[`v_dim`\]; q, out and lse must not overlap
    pub out: *mut c_void,
    /// \[row\]\[head\] natural log-sum-exp of the scores, or NULL
    pub lse: *mut f32,
    /// NULL: queries are used as they are
    pub rope: *const pc_rope,
    /// \[heads\] ALiBi: score - slope \* (row position - key position); NULL
    pub slopes: *const f32,
    /// sees keys with row position - key position \< window; 0: all
    pub window: i64,
    /// multiplies scores; 0: 1 / sqrt(`k_dim`)
    pub scale: f32,
    /// cap \* tanh(score / cap); 0: none
    pub soft_cap: f32,
    /// "cpu" has none: NULL
    pub stream: *mut c_void,
    /// \[heads\] one more score of each head, without a key and a value: it joins the softmax, so the
    /// LSE, once a row (gpt-oss); NULL: none
    pub sinks: *const f32,
    /// sees keys with position / chunk equal to the row's, rounded down (Llama 4); 0: all
    pub chunk: i64,
    /// `PC_ATTEND_…`
    pub flags: u64,
    /// of q: [`PC_DTYPE_F32`](crate::PC_DTYPE_F32), BF16 or F16; DEFAULT: F32
    pub q_dtype: u32,
    /// of out: likewise
    pub out_dtype: u32,
    /// the pool's K of this layer, aligned to its elements; NULL: none is read
    pub pool_k: *const c_void,
    /// the same of V; NULL in a joined pool: behind K
    pub pool_v: *const c_void,
    /// \[`kv_heads`\] an I8 pool: scales of K; NULL: 1
    pub k_scales: *const f32,
    /// \[`kv_heads`\] an I8 pool: scales of V; NULL: 1
    pub v_scales: *const f32,
    /// The heads that this call computes, for a host that deals the heads of a plan to several
    /// (tensor parallelism): `kv_head_count` heads of K and V from `first_kv_head` on, with the query
    /// heads that read them. q, out and lse hold only these: `head` in them is `kv_head_count` times
    /// heads / `kv_heads`. All else is of all heads of the plan: pages, slopes, sinks, scales. 0: all
    /// from `first_kv_head` on. A head's result is the same bit for bit. Since version 0.10.
    pub first_kv_head: u32,
    /// see `first_kv_head`
    pub kv_head_count: u32,
}

impl Default for pc_attend_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Partial results of the same queries over parts of their keys that have none in common.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_merge_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[`part_count`\] of each part \[row\]\[head\]\[`v_dim`\]
    pub outs: *const *const f32,
    /// \[`part_count`\] of each part \[row\]\[head\]; -infinity: saw nothing
    pub lses: *const *const f32,
    /// length of outs and lses, at most 256
    pub part_count: usize,
    /// rows of each part
    pub row_count: usize,
    /// heads of a row
    pub heads: i32,
    /// width of a head
    pub v_dim: i32,
    /// floats of a part of outs from one row to the next; 0: no gaps
    pub out_row_stride: usize,
    /// the same of lses
    pub lse_row_stride: usize,
    /// \[row\]\[head\]\[`v_dim`\] without gaps; overlaps no part
    pub out: *mut f32,
    /// \[row\]\[head\] without gaps; overlaps no part; NULL: not wanted
    pub lse: *mut f32,
    /// `PC_MERGE_…`
    pub flags: u64,
}

impl Default for pc_merge_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_fork_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// NULL: as the original's, with seed + the number of the fork
    pub sampling: *const pc_sampling,
}

impl Default for pc_fork_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_batch_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// most sequences in the batch; 0: no limit
    pub max_sequences: u32,
    /// About how many tokens a step computes: one of each running sequence, then of prompts. 0: 2048
    /// while none runs; else, as measured on this machine, as many as take 1.25 times the time of
    /// the running ones. `UINT32_MAX`: new prompts as a whole, one after the other.
    pub step_tokens: u32,
    /// Admission: most tokens of K and V of their own that unfinished sequences may come to hold
    /// together; 0: no limit. Of a sequence, these are the tokens of its prompt, without modules
    /// that are in the cache, and of its answers, up to `max_tokens`; a copy counts in full. One that
    /// has no room yet waits; the first in the order of priority, deadline and joining is admitted
    /// first, and after 64 steps the one that has waited longest. One that never has room fails with
    /// [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT). Bytes of a token: [`pc_model_info`](crate::pc_model_info).
    pub max_own_tokens: u64,
}

impl Default for pc_batch_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// The tokens that the next step reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_batch_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// sequences in the batch
    pub sequences: u64,
    /// not finished; the next two are theirs
    pub running: u64,
    /// each token counts once for every sequence that sees it
    pub tokens_seen: u64,
    /// each token counts once
    pub tokens_stored: u64,
    /// not admitted in the last step (`max_own_tokens`)
    pub waiting: u64,
    /// that admitted ones may come to hold, as `max_own_tokens` counts them
    pub own_tokens: u64,
}

impl Default for pc_batch_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_save_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// the tenant's; NULL with `salt_size` 0: the cache's
    pub salt: *const c_void,
    /// bytes of salt
    pub salt_size: usize,
    /// Mask of `PC_TIERS_…`; 0: all. Saving: those that may have it. Loading: those in which it is
    /// looked for.
    pub tiers: u64,
    /// saving: until it expires; 0: the cache's; INFINITY: never
    pub ttl_seconds: f64,
    /// loading: of the whole call; 0: the cache's
    pub deadline_seconds: f64,
    /// saving: lower priorities are evicted first; 0
    pub priority: i32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_save_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_event {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_EVENT_…`
    pub kind: u32,
    /// `PC_TIER_…`
    pub tier: u32,
    /// `PC_REASON_…`
    pub reason: u32,
    /// tokens of the segment
    pub tokens: u32,
    /// What DISK evicts or removes of sealed records that this process has neither written nor read
    /// is told by its name instead ([`pc_record_info.name`](crate::pc_record_info)).
    pub key: [u8; 32],
    /// bytes of the segment in this tier
    pub bytes: u64,
    /// seconds that it took
    pub seconds: f64,
}

/// Counters since the cache was opened. hits + misses = lookups. The others are of RAM: stored =
/// segments + evicted + removed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_cache_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// segments that were looked up
    pub lookups: u64,
    /// of lookups: any tier served the segment
    pub hits: u64,
    /// of lookups: no tier served it
    pub misses: u64,
    /// segments that RAM took
    pub stored: u64,
    /// segments larger than the room that the budget leaves
    pub refused: u64,
    /// segments that left RAM to make room
    pub evicted: u64,
    /// segments that left RAM: cleared, expired, or by hand
    pub removed: u64,
    /// segments in RAM now
    pub segments: u64,
    /// bytes of RAM that segments take now
    pub segment_bytes: u64,
    /// of `segment_bytes`: pinned
    pub pinned_bytes: u64,
    /// bytes that RAM may take
    pub budget_bytes: u64,
    /// sum of [`pc_tier_stats.dropped`](crate::pc_tier_stats)
    pub dropped: u64,
}

impl Default for pc_cache_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Counters of one tier. offered = stored + refused + failed + known. stored + found = segments +
/// evicted + removed + lost. lookups = hits + misses + `load_failed`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_tier_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// segments that were to be stored
    pub offered: u64,
    /// segments that the tier took
    pub stored: u64,
    /// DISK: that were there at opening, or that other processes wrote
    pub found: u64,
    /// offered, but there already
    pub known: u64,
    /// segments larger than the room that the budget leaves
    pub refused: u64,
    /// segments that could not be stored
    pub failed: u64,
    /// segments that left to make room
    pub evicted: u64,
    /// segments that left: cleared, expired, or by hand
    pub removed: u64,
    /// segments found gone or damaged
    pub lost: u64,
    /// segments in the tier now
    pub segments: u64,
    /// bytes that they take
    pub segment_bytes: u64,
    /// of `segment_bytes`: pinned
    pub pinned_bytes: u64,
    /// bytes that the tier may take; REMOTE: 0
    pub budget_bytes: u64,
    /// of `segment_bytes`: being loaded or written
    pub staging_bytes: u64,
    /// segments that it was asked for
    pub lookups: u64,
    /// of lookups: segments that it gave
    pub hits: u64,
    /// of lookups: segments that it did not have
    pub misses: u64,
    /// of lookups: segments that it had but could not give
    pub load_failed: u64,
    /// of misses: it was there, but computing promised to be faster
    pub slower_than_compute: u64,
    /// bytes of records that were read
    pub bytes_read: u64,
    /// bytes of records that were written
    pub bytes_written: u64,
    /// seconds of reading, all threads
    pub seconds_read: f64,
    /// seconds of writing, all threads
    pub seconds_written: f64,
    /// DISK: bytes of mapped files, in RAM (and in its `segment_bytes` and budget) or in use. They are
    /// page cache, not memory of [`pc_allocator`](crate::pc_allocator).
    pub mapped_bytes: u64,
    /// DISK: of evicted: in the background, excess at opening
    pub evicted_behind: u64,
    /// DISK: of `segment_bytes`: over the budget, about to be evicted
    pub excess_bytes: u64,
    /// `PC_REASON_…` why the tier is out of use, but for retries; NONE: it is not
    pub reason: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Not of offered: entries that were to be written to the tier and were given up on the way. Too
    /// much waited to be written ([`PC_PUT_WAIT`](crate::PC_PUT_WAIT) waits instead), or the tier is out of use. An entry
    /// that had no room is written at its next use in RAM, if there is room then.
    pub dropped: u64,
}

impl Default for pc_tier_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_prometheus_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// Labels of every sample, as they stand between braces: "model=\\"a\\",zone=\\"b\\"", at most 255
    /// bytes. NULL: none.
    pub labels: *const c_char,
}

impl Default for pc_prometheus_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Everything but tokens that can change K and V (doc/format.md, "Identity"). Only `model` is
/// needed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_key_parts {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[32\] fingerprint of the model
    pub model: *const u8,
    /// \[32\] digest of an adapter; NULL: none
    pub adapter: *const u8,
    /// \[32\] digest of the tokenizer; NULL: zeros
    pub tokenizer: *const u8,
    /// `PC_POSITION_…`
    pub position_scheme: u32,
    /// `PC_DTYPE_…` of K and V
    pub dtype: u32,
    /// length that selects the RoPE frequencies; 0: none
    pub rope_regime: u64,
    /// `PC_LAYOUT_…`
    pub layout: u32,
    /// `PC_ENCODE_…`
    pub encoding: u32,
    /// the tenant's; NULL with `salt_size` 0: none
    pub salt: *const c_void,
    /// bytes of salt
    pub salt_size: usize,
}

impl Default for pc_key_parts {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// What a key holds beside its base.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_key_segment_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[32\] the base key
    pub base: *const u8,
    /// \[32\] key of the last segment that this one saw; NULL: none
    pub parent: *const u8,
    /// from the parent's start to this one's; ignored without a parent
    pub distance: i64,
    /// position at which it was computed, if it cannot be moved; else 0
    pub offset: i64,
    /// \[count\]
    pub tokens: *const i32,
    /// \[count\] positions minus the first one's, ascending; NULL: 0, 1, …
    pub relative: *const i64,
    /// length of tokens and relative
    pub count: usize,
}

impl Default for pc_key_segment_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// States as memory: one block per layer, or as the application likes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_raw {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[32\] fingerprint of the model
    pub model: *const u8,
    /// of the model, as in [`pc_model_info`](crate::pc_model_info)
    pub architecture: [c_char; 32],
    /// `PC_POSITION_…`
    pub position_scheme: u32,
    /// `PC_DTYPE_…`
    pub dtype: u32,
    /// [`PC_LAYOUT_PAGES`](crate::PC_LAYOUT_PAGES), `_LATENT`, or one of the application
    pub layout: u32,
    /// 1: the states went through something lossy
    pub lossy: u32,
    /// layers of the states
    pub layers: i32,
    /// heads of K and V in each layer
    pub kv_heads: i32,
    /// width of a head of K
    pub k_dim: i32,
    /// width of a head of V
    pub v_dim: i32,
    /// as in [`pc_key_parts`](crate::pc_key_parts)
    pub rope_regime: u64,
    /// \[`token_count`\] ids
    pub tokens: *const i32,
    /// \[`token_count`\]; NULL: 0, 1, 2, …
    pub relative: *const i64,
    /// length of tokens
    pub token_count: usize,
    /// \[`block_count`\] where each block begins
    pub blocks: *const *const c_void,
    /// \[`block_count`\] bytes of each block
    pub block_bytes: *const u64,
    /// length of blocks
    pub block_count: usize,
}

impl Default for pc_raw {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_put_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// seconds of computing it
    pub cost_seconds: f64,
    /// until it expires; 0: the cache's; INFINITY: never
    pub ttl_seconds: f64,
    /// lower priorities are evicted first; 0
    pub priority: i32,
    /// Must be 0.
    pub reserved: u32,
    /// \[32\] key of the segment that it saw, which is evicted after it. NULL: none.
    pub parent: *const u8,
    /// whose quota counts it; NULL: the cache's
    pub salt: *const c_void,
    /// bytes of salt
    pub salt_size: usize,
    /// `PC_PUT_…`
    pub flags: u64,
    /// mask of `PC_TIERS_…`: those that may have it; 0: all
    pub tiers: u64,
}

impl Default for pc_put_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_get_info {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_TIER_…` that it came from
    pub tier: u32,
    /// `PC_REASON_…` of a miss
    pub reason: u32,
    /// 1: it went through a lossy codec, or was stored as lossy
    pub lossy: u32,
    /// Must be 0.
    pub reserved: u32,
    /// seconds of the whole call
    pub seconds: f64,
}

impl Default for pc_get_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_get_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// Of computing a segment: loading is given up when it takes longer. 0: no limit.
    pub cost_seconds: f64,
    /// of the whole call; 0: the cache's
    pub deadline_seconds: f64,
    /// mask of `PC_TIERS_…`: looks only there; 0: all
    pub tiers: u64,
}

impl Default for pc_get_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_find_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// looks only there
    pub tiers: u64,
    /// for a server's answer; 0: the cache's
    pub deadline_seconds: f64,
}

impl Default for pc_find_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// One entry that is wanted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_get_entry {
    /// \[32\]
    pub key: *const u8,
    /// \[`token_count`\] ids
    pub tokens: *const i32,
    /// \[`token_count`\]; NULL: 0, 1, 2, …
    pub relative: *const i64,
    /// length of tokens
    pub token_count: usize,
    /// \[`block_count` of `expect`\]; NULL: those of `expect`
    pub block_bytes: *const u64,
    /// \[`block_count` of `expect`\] where to write each block, in memory of the host. NULL: the entry
    /// becomes a segment.
    pub blocks: *const *mut c_void,
}

impl Default for pc_get_entry {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_remove_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// removes only there
    pub tiers: u64,
}

impl Default for pc_remove_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_embed_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_EMBED_…`
    pub flags: u64,
    /// `PC_POOL_…`
    pub pool: u32,
    /// `PC_ENCODE_…` of modules, as in [`pc_generate_options`](crate::pc_generate_options)
    pub encoding: u32,
    /// \[count\] of each prompt the types of its tokens (BERT), or NULL: 0. For encoders only.
    pub types: *const *const i32,
    /// \[`salt_count`\] as in [`pc_generate_options`](crate::pc_generate_options), of every prompt
    pub salts: *const pc_salt,
    /// sizeof([`pc_salt`](crate::pc_salt))
    pub salt_stride: usize,
    /// length of salts
    pub salt_count: usize,
    /// \[32\] as in [`pc_generate_options`](crate::pc_generate_options)
    pub adapter: *const u8,
    /// as in [`pc_generate_options`](crate::pc_generate_options)
    pub tag: u64,
    /// as in [`pc_generate_options`](crate::pc_generate_options); 0: each prompt's own length
    pub rope_regime_length: u64,
    /// polled meanwhile; non-zero: [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED)
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// given to cancelled
    pub cancel_user: *mut c_void,
}

impl Default for pc_embed_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// tokens = `tokens_cached` + `tokens_computed`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_embed_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// number of prompts
    pub prompts: u64,
    /// tokens of all prompts
    pub tokens: u64,
    /// from the cache, any tier
    pub tokens_cached: u64,
    /// others, with modules that were missing and are stored now
    pub tokens_computed: u64,
    /// [`PC_EXACT`](crate::PC_EXACT) …: of the prompt whose states are the least exact
    pub exactness: u32,
    /// `PC_REASON_…` of the first part that was not reused
    pub miss_reason: u32,
    /// looking up, loading and encoding what can be reused
    pub seconds_gather: f64,
    /// computing the rest, and pooling
    pub seconds_forward: f64,
}

impl Default for pc_embed_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// A segment placed in a sequence (Prompt Cache, section 3.4). Its token j has the position start +
/// relative position of j. Tokens \[lo, hi) take part.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_span {
    /// a [`pc_segment`](crate::pc_segment); in calls of [`pc_model_ops`](crate::pc_model_ops) the application's own handle
    pub segment: *mut c_void,
    /// position of the segment's start
    pub start: i64,
    /// first token that takes part
    pub lo: u32,
    /// 0: all, in spans that the application gives
    pub hi: u32,
}

impl Default for pc_span {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

/// Tokens \[first, first + count) of an encode call, which become one segment. Its start is the
/// position of its first token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_token_range {
    /// index of its first token
    pub first: usize,
    /// number of tokens
    pub count: usize,
}

impl Default for pc_token_range {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

/// Compute the states of consecutive tokens. Token i sees every span of `visible`, up to its own
/// position, and tokens 0 to i of this call. Positions ascend. Tokens outside every range are
/// computed for the others' sake and dropped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_encode_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[count\] ids
    pub tokens: *const i32,
    /// \[count\] one of each token
    pub positions: *const i64,
    /// number of tokens
    pub count: usize,
    /// \[`visible_count`\] segments that the tokens see
    pub visible: *const pc_span,
    /// bytes from one span to the next
    pub visible_stride: usize,
    /// length of visible
    pub visible_count: usize,
    /// \[`range_count`\] what becomes segments
    pub ranges: *const pc_token_range,
    /// bytes from one range to the next
    pub range_stride: usize,
    /// length of ranges
    pub range_count: usize,
    /// length that selects the RoPE regime; 0: largest position + 1
    pub rope_regime_length: u64,
    /// may be NULL; poll it now and then
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// given to cancelled
    pub cancel_user: *mut c_void,
    /// \[32\] as in [`pc_sequence_args`](crate::pc_sequence_args)
    pub adapter: *const u8,
    /// as in [`pc_sequence_args`](crate::pc_sequence_args). The segments are for other requests too
    pub tag: u64,
}

/// A new sequence.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_sequence_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[32\] digest of the adapter to compute with (LoRA); NULL: none
    pub adapter: *const u8,
    /// of the tenant that the tokens behind the prompt belong to
    pub salt: *const c_void,
    /// bytes of salt; 0: none
    pub salt_size: usize,
    /// as its steps will have it
    pub rope_regime_length: u64,
    /// `tag` of the request's options
    pub tag: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_step_row {
    /// handle of the application
    pub sequence: *mut c_void,
    /// position of the token
    pub position: i64,
    /// id of the token
    pub token: i32,
    /// 1: the next row of `logits` is for this row
    pub want_logits: u32,
}

impl Default for pc_step_row {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

/// Append rows to their sequences and compute them. Rows of one sequence stand together, in order of
/// position. There may be many of each of several sequences: prompts, and running sequences beside
/// them. What a row gives does not depend on the rows of other sequences.
/// Under [`PC_VISIBLE_BY_POSITION`](crate::PC_VISIBLE_BY_POSITION) a row sees keys at positions up to its own. Under [`PC_VISIBLE_ALL`](crate::PC_VISIBLE_ALL) it
/// sees all attached keys, and own tokens that were appended before it. A failed call changes no
/// sequence.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_step_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[count\] one token each
    pub rows: *const pc_step_row,
    /// bytes from one row to the next
    pub row_stride: usize,
    /// length of rows
    pub count: usize,
    /// \[rows that want them\]\[vocab\]
    pub logits: *mut f32,
    /// `PC_VISIBLE_…`
    pub visibility: u32,
    /// `PC_STEP_…` in bench.h; a model may ignore them
    pub flags: u32,
    /// as in [`pc_encode_args`](crate::pc_encode_args)
    pub rope_regime_length: u64,
    /// as in [`pc_encode_args`](crate::pc_encode_args)
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// given to cancelled
    pub cancel_user: *mut c_void,
}

/// How far the states of attached tokens are from a plain prefill's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_deviation_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[count\] tokens \[lo, hi) of every span, in order
    pub tokens: *const i32,
    /// \[count\] one of each token
    pub positions: *const i64,
    /// number of tokens
    pub count: usize,
    /// \[`span_count`\] where the states stand
    pub spans: *const pc_span,
    /// bytes from one span to the next
    pub span_stride: usize,
    /// length of spans
    pub span_count: usize,
    /// \[32\] as in [`pc_sequence_args`](crate::pc_sequence_args)
    pub adapter: *const u8,
    /// as in [`pc_encode_args`](crate::pc_encode_args)
    pub rope_regime_length: u64,
    /// as in [`pc_sequence_args`](crate::pc_sequence_args)
    pub tag: u64,
}

/// K and V of one layer of a segment, as the model has them: finite numbers, rotated or not.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_layer_states {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// its number, from 0
    pub layer: i32,
    /// `PC_DTYPE_…` of k and v: [`pc_model_info.compute`](crate::pc_model_info)
    pub dtype: u32,
    /// heads of K and V
    pub kv_heads: i32,
    /// width of a head of K: [`pc_model_info.head_dim`](crate::pc_model_info)
    pub k_dim: i32,
    /// width of a head of V: the same
    pub v_dim: i32,
    /// Must be 0.
    pub reserved: u32,
    /// \[count\] ids of the segment's tokens
    pub tokens: *const i32,
    /// length of tokens
    pub count: usize,
    /// position where it was computed, if it cannot be moved; else 0
    pub origin: i64,
    /// \[count\]\[`kv_heads`\]\[`k_dim`\]
    pub k: *mut c_void,
    /// \[count\]\[`kv_heads`\]\[`v_dim`\]
    pub v: *mut c_void,
}

/// The application's model. Every function gets `user`. Calls for one model never overlap, but for
/// those that `flags` names; a function that frees objects of the model gets `drop` and `release`
/// for them before it returns. A segment is released once, when no sequence that it was attached to
/// is left and no other call uses it.
/// Functions marked (optional) may be NULL; calls that need them return [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED).
/// A negative return reaches the caller of the library, with the function's name and its text of
/// [`pc_error_set`](crate::pc_error_set). [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) of encode, `sequence_new`, attach, fork, step, `step_hidden` and
/// `import_`… means
/// that the application's memory for states is full: the library releases segments of this model
/// that nobody uses, lowest eviction score first, and calls again until that no longer helps.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_model_ops {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_OVERLAP_…`, [`PC_CUTS_PROMPTS`](crate::PC_CUTS_PROMPTS)
    pub flags: u64,
    /// Fills in what is known. It gets zeros, and -1 in `token_bos`, `token_eos`, `token_unk`, `token_pad`.
    pub describe: Option<unsafe extern "C" fn(user: *mut c_void, info: *mut pc_model_info) -> pc_status>,
    /// (optional) As [`pc_tokenize`](crate::pc_tokenize).
    pub tokenize: Option<unsafe extern "C" fn(user: *mut c_void, text: *const c_char, size: usize, flags: u64, tokens: *mut i32, capacity: usize, count: *mut usize) -> pc_status>,
    /// (optional) As [`pc_detokenize`](crate::pc_detokenize).
    pub detokenize: Option<unsafe extern "C" fn(user: *mut c_void, tokens: *const i32, count: usize, flags: u64, text: *mut c_char, capacity: usize, size: *mut usize) -> pc_status>,
    /// segments \[`range_count`\]: one handle for each range.
    pub encode: Option<unsafe extern "C" fn(user: *mut c_void, args: *const pc_encode_args, segments: *mut *mut c_void) -> pc_status>,
    /// Frees a segment.
    pub release: Option<unsafe extern "C" fn(user: *mut c_void, segment: *mut c_void)>,
    /// (optional) Bytes of a segment, for budgets.
    pub size: Option<unsafe extern "C" fn(user: *mut c_void, segment: *mut c_void, bytes: *mut u64) -> pc_status>,
    /// An empty sequence.
    pub sequence_new: Option<unsafe extern "C" fn(user: *mut c_void, args: *const pc_sequence_args, sequence: *mut *mut c_void) -> pc_status>,
    /// Places a segment in a sequence.
    pub attach: Option<unsafe extern "C" fn(user: *mut c_void, sequence: *mut c_void, span: *const pc_span) -> pc_status>,
    /// (optional) A copy that shares everything so far.
    pub fork: Option<unsafe extern "C" fn(user: *mut c_void, sequence: *mut c_void, copy: *mut *mut c_void) -> pc_status>,
    /// Appends rows and computes them.
    pub step: Option<unsafe extern "C" fn(user: *mut c_void, args: *const pc_step_args) -> pc_status>,
    /// Frees a sequence.
    pub drop: Option<unsafe extern "C" fn(user: *mut c_void, sequence: *mut c_void)>,
    /// (optional) For repair by deviation: score \[args-\>count\].
    pub deviation: Option<unsafe extern "C" fn(user: *mut c_void, args: *const pc_deviation_args, score: *mut f32) -> pc_status>,
    /// (optional) Removes the last `count` tokens that steps have appended. For
    /// [`pc_sequence_truncate`](crate::pc_sequence_truncate).
    pub truncate: Option<unsafe extern "C" fn(user: *mut c_void, sequence: *mut c_void, count: usize) -> pc_status>,
    /// (optional, both or none) For tiers below RAM: a segment as bytes \[capacity\], and back. Always
    /// sets \*size; data NULL with capacity 0 measures. Only a model with the same fingerprint gets
    /// the bytes back. For n tokens these are at most 64 KiB and twice n times the larger one of
    /// `kv_bytes_per_token` and layers \* `kv_heads` \* `head_dim` \* 8: records that claim more are not
    /// loaded. If all of these are 0, a record may claim what RAM holds.
    pub export_segment: Option<unsafe extern "C" fn(user: *mut c_void, segment: *mut c_void, data: *mut c_void, capacity: usize, size: *mut usize) -> pc_status>,
    /// (optional) Back to a segment: see `export_segment`.
    pub import_segment: Option<unsafe extern "C" fn(user: *mut c_void, data: *const c_void, size: usize, tokens: *const i32, count: usize, segment: *mut *mut c_void) -> pc_status>,
    /// (optional) As step, for [`pc_embed`](crate::pc_embed): a row whose `want_logits` is 1 gives its last hidden state,
    /// behind the final norm, to the next row of hidden \[rows that want it\]\[[`pc_model_info.hidden`](crate::pc_model_info)\].
    /// There are no logits (args-\>logits is NULL).
    pub step_hidden: Option<unsafe extern "C" fn(user: *mut c_void, args: *const pc_step_args, hidden: *mut f32) -> pc_status>,
    /// (optional, both or none) In place of `export_segment` and `import_segment`: layer by layer, with
    /// memory for one. Records then hold pages of the layers, which every codec takes, I8 and I4
    /// too. [`pc_model_info`](crate::pc_model_info) must have layers, `kv_heads`, `head_dim` and compute: F32, BF16 or F16.
    /// `export_layer` fills states-\>k and v.
    pub export_layer: Option<unsafe extern "C" fn(user: *mut c_void, segment: *mut c_void, states: *const pc_layer_states) -> pc_status>,
    /// Takes states-\>k and v. Layers come one at a time, from 0 on; layer 0 makes the segment:
    /// \*segment is NULL. A layer that was not taken may come once more. A segment that does not get
    /// all of its layers is released.
    pub import_layer: Option<unsafe extern "C" fn(user: *mut c_void, states: *const pc_layer_states, segment: *mut *mut c_void) -> pc_status>,
}

impl Default for pc_model_ops {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// One block of a record: the states of one layer. With layout MODEL or one of the application's, a
/// block is what its owner chose.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_codec_block {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_LAYOUT_…`
    pub layout: u32,
    /// `PC_DTYPE_…`, as stored
    pub dtype: u32,
    /// heads of K and V in the layer
    pub kv_heads: i32,
    /// width of a head of K
    pub k_dim: i32,
    /// width of a head of V
    pub v_dim: i32,
    /// of the block: the layer
    pub index: u32,
    /// tokens of the segment
    pub tokens: u64,
    /// as the segment holds it
    pub bytes: u64,
}

/// A codec. The library calls it from any thread, from several at once, also for the same segment.
/// decode gets bytes that encode wrote and whose checksum was right; another version of the codec
/// may have written them, so it checks them itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_codec_ops {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// [`PC_CODEC_APPLICATION`](crate::PC_CODEC_APPLICATION) or above; stored in the record
    pub id: u32,
    /// 1: decode does not give back every bit
    pub lossy: u32,
    /// name of the codec, at most 31 bytes
    pub name: *const c_char,
    /// Most bytes that encode may write for this block. 0: the block is stored RAW.
    pub bound: Option<unsafe extern "C" fn(user: *mut c_void, block: *const pc_codec_block) -> usize>,
    /// data \[block-\>bytes\] to out \[capacity\]; sets \*size.
    pub encode: Option<unsafe extern "C" fn(user: *mut c_void, block: *const pc_codec_block, data: *const c_void, out: *mut c_void, capacity: usize, size: *mut usize) -> pc_status>,
    /// in \[size\] to out \[block-\>bytes\].
    pub decode: Option<unsafe extern "C" fn(user: *mut c_void, block: *const pc_codec_block, r#in: *const c_void, size: usize, out: *mut c_void) -> pc_status>,
    /// first argument of the functions
    pub user: *mut c_void,
}

impl Default for pc_codec_ops {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// One sequence of an evaluation: spans, then new tokens.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_lane {
    /// \[`span_count`\] segments that its tokens see
    pub spans: *const pc_span,
    /// length of spans
    pub span_count: usize,
    /// \[count\] new tokens
    pub tokens: *const i32,
    /// \[count\] any order under [`PC_VISIBLE_ALL`](crate::PC_VISIBLE_ALL), else ascending
    pub positions: *const i64,
    /// length of tokens
    pub count: usize,
    /// \[count\] token types (BERT); NULL: 0
    pub types: *const i32,
    /// sizeof([`pc_span`](crate::pc_span))
    pub span_stride: usize,
}

impl Default for pc_lane {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_eval_args {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// \[`lane_count`\] the sequences
    pub lanes: *const pc_lane,
    /// sizeof([`pc_lane`](crate::pc_lane))
    pub lane_stride: usize,
    /// length of lanes
    pub lane_count: usize,
    /// `PC_VISIBLE_…`
    pub visibility: u32,
    /// Must be 0.
    pub reserved: u32,
    /// 0: largest position + 1
    pub rope_regime_length: u64,
    /// \[all tokens of all lanes\]\[vocab\], or NULL
    pub logits: *mut f32,
    /// \[`lane_count`\] the new tokens' states, for the caller to free, or NULL. All NULL on failure.
    pub segments: *mut *mut pc_segment,
    /// bench.h; NULL: none
    pub trace: Option<unsafe extern "C" fn(user: *mut c_void, trace: *const pc_trace)>,
    /// given to trace
    pub trace_user: *mut c_void,
    /// Attention maps to use instead of computed ones: \[`lane_count`\], of a lane \[layers\], of a layer
    /// \[head\]\[token\]\[token\]. NULL at any level: computed. Such a lane has no spans and gives no
    /// segment ([`PC_ERR_STATE`](crate::PC_ERR_STATE)).
    pub maps: *const *const *const f32,
}

impl Default for pc_eval_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_grammar_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// [`PC_GRAMMAR_SCHEMA`](crate::PC_GRAMMAR_SCHEMA), …
    pub kind: u32,
    /// Of a JSON schema: blanks and line breaks between two parts, at most. 0: 32
    pub most_blanks: u32,
    /// [`PC_GRAMMAR_OPEN`](crate::PC_GRAMMAR_OPEN), …
    pub flags: u64,
    /// UTF-8
    pub text: *const c_char,
    /// bytes of text, at most 256 KiB; of a regular expression 64
    pub text_size: usize,
    /// of EBNF: the rule that answers match; NULL: "root"
    pub root: *const c_char,
}

impl Default for pc_grammar_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// A grammar of the application's own, by another engine or by hand. A matcher is the state of one
/// answer: its functions are called by one thread at a time, those of several matchers at once.
/// [`pc_error_set`](crate::pc_error_set) says why one has failed; of positive results only accept's [`PC_MISS`](crate::PC_MISS) is allowed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_grammar_ops {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// A matcher of an answer that begins.
    pub matcher_new: Option<unsafe extern "C" fn(user: *mut c_void, matcher: *mut *mut c_void) -> pc_status>,
    /// An equal one, which changes on its own.
    pub matcher_copy: Option<unsafe extern "C" fn(user: *mut c_void, matcher: *const c_void, copy: *mut *mut c_void) -> pc_status>,
    /// Frees one.
    pub matcher_free: Option<unsafe extern "C" fn(user: *mut c_void, matcher: *mut c_void)>,
    /// Which tokens may come next: sets bit t % 32 of bits\[t / 32\] for token t of `count`; all bits
    /// were 0. Whether an end token can be drawn is \*`may_end` alone, not its bit.
    pub mask: Option<unsafe extern "C" fn(user: *mut c_void, matcher: *mut c_void, bits: *mut u32, count: usize, may_end: *mut i32) -> pc_status>,
    /// The answer goes on with the token. [`PC_MISS`](crate::PC_MISS): it cannot, and nothing has changed.
    pub accept: Option<unsafe extern "C" fn(user: *mut c_void, matcher: *mut c_void, token: i32) -> pc_status>,
    /// Takes the last `count` accepted tokens back. It cannot fail.
    pub rollback: Option<unsafe extern "C" fn(user: *mut c_void, matcher: *mut c_void, count: usize)>,
    /// first argument of the functions
    pub user: *mut c_void,
    /// when nothing holds the grammar any more; NULL: nothing is done
    pub on_free: Option<unsafe extern "C" fn(user: *mut c_void)>,
}

impl Default for pc_grammar_ops {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_memo_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_MEMO_…`
    pub flags: u64,
    /// of the folder; 0: none. Evicts by eviction score
    pub budget_bytes: u64,
    /// of a new memo: [`PC_MAP_F16`](crate::PC_MAP_F16) or [`PC_MAP_U8`](crate::PC_MAP_U8); 0: F16
    pub map_format: u32,
    /// `PC_INDEX_…`
    pub index: u32,
    /// \[`bucket_count`\] of a new memo: largest length of each bucket, ascending. NULL: 16, 32, 64 … up
    /// to the model's context, at most 4096.
    pub bucket_tokens: *const u32,
    /// length of `bucket_tokens`
    pub bucket_count: usize,
    /// of the hits that are also computed in full; 0: 0.01; negative: none
    pub verify_share: f64,
    /// [`pc_memo_tidy`](crate::pc_memo_tidy) compresses records that were not used for so long. 0: never.
    pub cold_seconds: f64,
    /// A bucket was closed: its loss has grown above the limit that it was tuned for.
    pub on_disabled: Option<unsafe extern "C" fn(user: *mut c_void, bucket: u32, loss: f64, limit: f64)>,
    /// given to `on_disabled`
    pub disabled_user: *mut c_void,
    /// `PC_OUTPUT_…` of records that are added from now on
    pub outputs: u32,
    /// `PC_POOL_…` of their embeddings; only together with outputs
    pub output_pool: u32,
}

impl Default for pc_memo_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// One prompt without an answer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_input {
    /// \[count\] with the special tokens that the model wants
    pub tokens: *const i32,
    /// length of tokens
    pub count: usize,
    /// \[count\] token types (BERT); NULL: 0
    pub types: *const i32,
}

impl Default for pc_input {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_memo_work {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// cancels by a non-zero return; work that was reported done stays
    pub progress: pc_progress_fn,
    /// given to progress
    pub progress_user: *mut c_void,
    /// training: same seed, same result
    pub seed: u64,
    /// training; 0: as many as make 4000 batches, 10 to 100
    pub epochs: u32,
    /// tuning: `PC_LOSS_…`
    pub loss: u32,
    /// tuning: accepted mean loss over all inputs
    pub limit: f64,
    /// training: weight of the maps' distance (paper, equation 2); 0: 0.2
    pub alpha: f64,
    /// tuning: accepted loss of hits at the percentile; 0: 4 \* limit; \< 0: any
    pub hit_limit: f64,
    /// tuning: 0: 95; at most 100, the worst hit
    pub hit_percentile: f64,
}

impl Default for pc_memo_work {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_memo_bucket {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// length of its shortest prompts
    pub min_tokens: u32,
    /// length of its longest prompts
    pub max_tokens: u32,
    /// records that it holds
    pub records: u64,
    /// 1: it has a projector
    pub trained: u32,
    /// 1: it is used
    pub open: u32,
    /// `PC_REASON_…` why it is closed
    pub reason: u32,
    /// `PC_LOSS_…` of its tuning
    pub loss: u32,
    /// least similarity of a hit: 1 - distance of features, no lower bound
    pub threshold: f64,
    /// [`pc_memo_work.limit`](crate::pc_memo_work) of its tuning
    pub limit: f64,
    /// mean loss over all inputs of the tuning
    pub tuned_loss: f64,
    /// share of hits among them
    pub tuned_hit_rate: f64,
    /// mean of the hits verified since
    pub verified_loss: f64,
    /// hits since then that were also computed in full
    pub verified: u64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// [`pc_memo_work.hit_limit`](crate::pc_memo_work); \< 0: none
    pub hit_limit: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// [`pc_memo_work.hit_percentile`](crate::pc_memo_work)
    pub hit_percentile: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// mean
    pub hit_loss: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// at the percentile
    pub hit_loss_high: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// of the worst hit
    pub hit_loss_worst: f64,
}

impl Default for pc_memo_bucket {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Counters since the memo was opened. lookups = hits + misses. stored (with the records that were
/// there at opening) = live + evicted + removed + damaged.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_memo_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// prompts that were looked up
    pub lookups: u64,
    /// of lookups: prompts that reused something
    pub hits: u64,
    /// of lookups: prompts that reused nothing
    pub misses: u64,
    /// of hits: also computed in full
    pub verified: u64,
    /// records that were added
    pub stored: u64,
    /// records now
    pub live: u64,
    /// records that left to make room
    pub evicted: u64,
    /// records that left, neither evicted nor damaged
    pub removed: u64,
    /// records found damaged, and dropped
    pub damaged: u64,
    /// bytes of the maps
    pub bytes: u64,
    /// bytes that the maps may take; 0: no limit
    pub budget_bytes: u64,
    /// of hits: answered by stored outputs
    pub output_hits: u64,
    /// of live: records with stored outputs
    pub outputs: u64,
}

impl Default for pc_memo_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// The result of a memo for one prompt.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_memo_result {
    /// [`PC_EXACT`](crate::PC_EXACT) or [`PC_APPROXIMATE`](crate::PC_APPROXIMATE)
    pub exactness: u32,
    /// `PC_REASON_…` of a miss; NONE: a hit, or there is no memo
    pub reason: u32,
    /// the nearest record of this length; -1: none, or the memo was not asked
    pub record: i64,
    /// To it; 1: the same tokens. [`PC_MEMO_LAYERS`](crate::PC_MEMO_LAYERS): the least of the layers that reused maps, or the
    /// greatest of all.
    pub similarity: f64,
    /// 1: also computed in full; the results are those of the full computation
    pub verified: u32,
    /// number of layers that reused maps
    pub layers: u32,
    /// of the reuse, if verified, by the measure of the bucket's tuning
    pub loss: f64,
    /// `PC_REUSE_…`
    pub reuse: u32,
    /// Must be 0.
    pub reserved: u32,
}

impl Default for pc_memo_result {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_prefill_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_PREFILL_…`
    pub flags: u64,
    /// NULL: everything is computed
    pub memo: *mut pc_memo,
    /// `PC_POOL_…`
    pub pool: u32,
    /// Must be 0.
    pub reserved: u32,
    /// \[count\]\[hidden\], or NULL
    pub embeddings: *mut f32,
    /// \[count\]\[vocab\] of the next token; of an encoder with a head \[count\]\[classes\]; or NULL.
    pub logits: *mut f32,
    /// \[layers\] Layer l reuses the map of layer `map_layers`\[l\] \<= l of the same prompt (AttnCache,
    /// section 5.5: LazyFormer 0 0 2 2 …, SAN). NULL: none. Not together with a memo.
    pub map_layers: *const i32,
    /// \[count\] the prompts' states ([`pc_prompt_from_spans`](crate::pc_prompt_from_spans)), for the caller to free. NULL: none.
    /// Decoders only. Keys that a reuse skipped are computed afterwards.
    pub segments: *mut *mut pc_segment,
    /// \[count\] what the memo did for each, or NULL
    pub results: *mut pc_memo_result,
    /// sizeof([`pc_memo_result`](crate::pc_memo_result))
    pub result_stride: usize,
    /// polled between layers; non-zero: [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED)
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// given to cancelled
    pub cancel_user: *mut c_void,
    /// Overrides every bucket's threshold, also of closed buckets; at most 1. -INFINITY: the nearest
    /// record of the same length is a hit. NULL: the buckets' own.
    pub threshold: *const f64,
}

impl Default for pc_prefill_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Seconds of all steps add up to the cost of a reuse.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_prefill_stats {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// number of prompts
    pub inputs: u64,
    /// tokens of all prompts
    pub tokens: u64,
    /// prompts that reused maps or outputs
    pub hits: u64,
    /// tokens of the hits
    pub hit_tokens: u64,
    /// pooling and projecting first inputs
    pub seconds_features: f64,
    /// searching the index
    pub seconds_search: f64,
    /// fetching maps and stored outputs
    pub seconds_maps: f64,
    /// computing prompts
    pub seconds_forward: f64,
    /// computing hits in full
    pub seconds_verify: f64,
    /// of hits: answered by stored outputs
    pub output_hits: u64,
}

impl Default for pc_prefill_stats {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// A schema made of a format string, as RelayAttention's code has it (section 3.3 of the paper).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_system_format {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// of the schema; NULL: "system"
    pub name: *const c_char,
    /// NULL: "{`__SYS_PROMPT`}{`__USR_PROMPT`}"
    pub format: *const c_char,
    /// bytes of format
    pub format_size: usize,
    /// or a file that holds it; a final line break is dropped
    pub format_file: *const c_char,
    /// the system prompt; blanks at its ends are dropped
    pub system: *const c_char,
    /// bytes of system
    pub system_size: usize,
    /// or a file that holds it
    pub system_file: *const c_char,
    /// or the tokens of everything before the user slot, as they are
    pub tokens: *const i32,
    /// length of tokens
    pub token_count: usize,
    /// `PC_FORMAT_…`
    pub flags: u64,
}

impl Default for pc_system_format {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// One element of a schema's layout. Strings are borrowed from the schema.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_item {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_ITEM_…`
    pub kind: u32,
    /// number of modules around it
    pub depth: u32,
    /// a text has its parent's (root: ""), a union its parent's and "/union"
    pub path: *const c_char,
    /// Of a text: as tokenised. Of a slot: the text behind each request. Else "".
    pub text: *const c_char,
    /// first position
    pub start: i64,
    /// number of positions
    pub length: i64,
    /// [`PC_ITEM_UNCACHED`](crate::PC_ITEM_UNCACHED), or 0
    pub flags: u64,
    /// bytes of text, which may have NULs
    pub text_size: usize,
}

impl Default for pc_item {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// Tokens of a prompt that come from one place. Borrowed from the prompt.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_part {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_PART_…`
    pub kind: u32,
    /// Must be 0.
    pub reserved: u32,
    /// of its item; "" of a plain prompt
    pub path: *const c_char,
    /// \[count\] its tokens
    pub tokens: *const i32,
    /// length of tokens
    pub count: usize,
    /// position of the first
    pub start: i64,
}

impl Default for pc_part {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// A message. Arrays have a stride, sizeof([`pc_message`](crate::pc_message)), beside them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_message {
    /// "system", "user", "assistant", "tool", …: letters, digits, '\_', '-'
    pub role: *const c_char,
    /// may have NULs; NULL with `tool_calls`: the template sees none
    pub content: *const c_char,
    /// bytes of content
    pub content_size: usize,
    /// Paths of modules of [`pc_chat_options.schema`](crate::pc_chat_options). Their texts stand in front of content, from the
    /// cache. A conversation names each at most once: at its first use.
    pub modules: *const *const c_char,
    /// length of modules
    pub module_count: usize,
    /// JSON: the list of an answer's calls, as the template wants them
    pub tool_calls: *const c_char,
    /// NULL: none
    pub tool_call_id: *const c_char,
    /// NULL: none
    pub name: *const c_char,
    /// JSON: an object of further members, such as `reasoning_content`
    pub fields: *const c_char,
}

impl Default for pc_message {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let made: Self = unsafe { core::mem::zeroed() };
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_chat_options {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// `PC_CHAT_…`
    pub flags: u64,
    /// JSON: the list of tools; a template may ignore them; NULL: none
    pub tools: *const c_char,
    /// JSON: an object of further variables, such as `enable_thinking`
    pub variables: *const c_char,
    /// Date for templates that ask for it, in seconds since 1970. 0: they fall back on their own, so
    /// that states are of use on other days, too.
    pub time: i64,
    /// of [`pc_message.modules`](crate::pc_message); NULL: none
    pub schema: *const pc_schema,
}

impl Default for pc_chat_options {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// How tokens are drawn. A call that gets it copies it with its arrays. The order is vLLM's: biases;
/// `repetition_penalty`; `frequency_penalty` and `presence_penalty`; DRY. Then the likeliest token, if
/// temperature is 0 or `top_k` 1; else temperature, `min_p`, `top_k`, `typical_p`, `top_p` and a draw. Each
/// sees the probabilities that the one before has left.
///
/// Penalties are for tokens so far: arguments and free text of the prompt, pushed tokens and drawn
/// ones. Text of the schema is not penalised. They keep every token possible.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_sampling {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// 0: greedy
    pub temperature: f32,
    /// Keeps the likeliest tokens of this total probability (nucleus; Holtzman et al. 2020, section
    /// 3.1). 0: 1
    pub top_p: f32,
    /// Divides positive logits of tokens so far, multiplies others (CTRL; Keskar et al. 2019,
    /// section 4.1). 0: 1
    pub repetition_penalty: f32,
    /// keeps the likeliest k tokens; 0: all
    pub top_k: u32,
    /// of the draws; the same one gives the same tokens
    pub seed: u64,
    /// keeps tokens of `min_p` \* the top probability or more (Nguyen et al. 2024)
    pub min_p: f32,
    /// Keeps the tokens of this total probability whose information is nearest to the entropy
    /// (locally typical sampling; Meister et al. 2022). 0: 1
    pub typical_p: f32,
    /// As of OpenAI's interface, of any sign: is subtracted from logits of tokens that were drawn.
    /// Pushed tokens do not count.
    pub presence_penalty: f32,
    /// subtracted from a logit for each time its token was drawn
    pub frequency_penalty: f32,
    /// DRY ("don't repeat yourself", text-generation-webui, pull request 5637; llama.cpp): if the
    /// last n tokens, at least `dry_allowed_length`, stand earlier too, `dry_multiplier` \* `dry_base` ^
    /// (n - `dry_allowed_length`) is subtracted from the logit of the token behind them there; the
    /// longest n counts. 0: off
    pub dry_multiplier: f32,
    /// of the formula of `dry_multiplier`, from 1; 0: 1.75
    pub dry_base: f32,
    /// tokens of the shortest repeat that is penalised; 0: 2
    pub dry_allowed_length: u32,
    /// how many of the last tokens penalties look at; 0: all
    pub penalty_last_tokens: u32,
    /// tokens that no repeat reaches over; not penalised by DRY
    pub dry_breakers: *const i32,
    /// length of `dry_breakers`
    pub dry_breaker_count: usize,
    /// whose logits get a bias; one that is named twice, both
    pub bias_tokens: *const i32,
    /// added to logits of `bias_tokens`; -INFINITY forbids one
    pub bias_values: *const f32,
    /// length of `bias_tokens` and of `bias_values`
    pub bias_count: usize,
}

impl Default for pc_sampling {
    fn default() -> Self {
        // SAFETY: numbers, pointers, functions that may be missing: zero is one.
        let mut made: Self = unsafe { core::mem::zeroed() };
        made.struct_size = core::mem::size_of::<Self>();
        made
    }
}

/// A drawn token. Log-probabilities (to base e) are of the model's own distribution over the
/// tokenizer's tokens, before `on_logits`, biases, penalties and temperature.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pc_token {
    /// Bytes of the struct, as the caller was compiled.
    pub struct_size: usize,
    /// number of the sample in its request, from 0
    pub sample: u32,
    /// id of the drawn token
    pub token: i32,
    /// of the drawn token
    pub position: i64,
    /// log-probability of the drawn token
    pub logprob: f64,
    /// the likeliest tokens in order; of equal ones, the lower id
    pub top_tokens: *const i32,
    /// log-probabilities of `top_tokens`
    pub top_logprobs: *const f64,
    /// length of both: as the options ask, or all that are possible
    pub top_count: usize,
}

extern "C" {
    /// "0.10.0". Static. Any thread.
    pub fn pc_version() -> *const c_char;
    /// [`PC_ABI_VERSION`](crate::PC_ABI_VERSION) of the library that runs. Any thread.
    pub fn pc_abi_version() -> u32;
    /// Name and text of a code: "[`PC_ERR_IO`](crate::PC_ERR_IO)", "input or output failed". Static, never NULL, also for an
    /// unknown code. Any thread.
    pub fn pc_status_name(status: pc_status) -> *const c_char;
    /// Name and text of a code: "[`PC_ERR_IO`](crate::PC_ERR_IO)", "input or output failed". Static, never NULL, also for an
    /// unknown code. Any thread.
    pub fn pc_status_text(status: pc_status) -> *const c_char;
    /// One line about this thread's last failing call. Never NULL. Borrowed until this thread's next
    /// failing call. Read it only right after a negative return.
    pub fn pc_error_text() -> *const c_char;
    /// Line and column, from 1, of the document that this thread's last failing call was about: PML, a
    /// format string, JSON. Columns count characters. Both 0: none. Either may be NULL.
    pub fn pc_error_place(line: *mut u64, column: *mut u64);
    /// Says why a function of the application fails. Call it right before that function returns an error
    /// or cancels. The library's call that fails for this reason puts the text into [`pc_error_text`](crate::pc_error_text),
    /// behind the function's name: "the application's model: step: out of device memory". text: one
    /// line, cut at 511 bytes, copied, made fit as by [`pc_text_show`](crate::pc_text_show) (admin.h); NULL or "": no text. If
    /// the function succeeds after all, the text is not used. Elsewhere it sets this thread's error
    /// text. Any thread.
    pub fn pc_error_set(text: *const c_char);
    /// Makes a context and starts its threads. Between calls it holds at most 48 MiB of work memory, so
    /// that computing does not fault in fresh pages each time.
    /// Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED), with the reason, if the backend is not there or has no device, and
    /// [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) also if a variable of the environment has a value that means nothing, such as
    /// `PC_LINEAR`=bogus: the text lists what is allowed (doc/building.md has the variables).
    /// Handle: internally locked.
    pub fn pc_context_new(
        out: *mut *mut pc_context,
        options: *const pc_context_options,
    ) -> pc_status;
    /// Releases the caller's reference. Context and threads live as long as objects that were made with
    /// the context.
    pub fn pc_context_free(context: *mut pc_context);
    /// releases the caller's reference
    pub fn pc_segment_free(segment: *mut pc_segment);
    /// Loads a model. Blocks; reports progress.
    /// path: a GGUF file, a Hugging Face folder (config.json, safetensors, tokenizer), or a llama2.c
    /// checkpoint with tokenizer.bin beside it.
    /// Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) (no such file, or a file, tensor, tokenizer or chat template is
    /// missing), [`PC_ERR_IO`](crate::PC_ERR_IO), [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (names file, offset or key, and cause), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED)
    /// (the model needs something that the library cannot compute exactly), [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (the
    /// vocabulary lacks a special token of `chat_template`), [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED). Handle: immutable.
    pub fn pc_model_load(
        out: *mut *mut pc_model,
        context: *mut pc_context,
        path: *const c_char,
        options: *const pc_model_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_model_free(model: *mut pc_model);
    /// Writes up to info-\>`struct_size` bytes of the model's facts.
    pub fn pc_model_get_info(model: *const pc_model, info: *mut pc_model_info) -> pc_status;
    /// Text to token ids: tokens \[capacity\].
    /// Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (capacity), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the model has no tokenizer).
    pub fn pc_tokenize(
        model: *const pc_model,
        text: *const c_char,
        size: usize,
        flags: u64,
        tokens: *mut i32,
        capacity: usize,
        count: *mut usize,
    ) -> pc_status;
    /// Token ids to text \[capacity\], without a terminating NUL. Special tokens are left out unless
    /// [`PC_TOKENIZE_SPECIAL`](crate::PC_TOKENIZE_SPECIAL) is set. Returns as [`pc_tokenize`](crate::pc_tokenize).
    pub fn pc_detokenize(
        model: *const pc_model,
        tokens: *const i32,
        count: usize,
        flags: u64,
        text: *mut c_char,
        capacity: usize,
        size: *mut usize,
    ) -> pc_status;
    /// Opens a cache and starts its I/O threads.
    /// Returns [`PC_ERR_IO`](crate::PC_ERR_IO) or [`PC_ERR_STATE`](crate::PC_ERR_STATE) (the folder cannot be used), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the library
    /// was built without a tier's library). A server that does not answer is no error: the cache tries
    /// again. A disk without room for a new folder is logged, and DISK fails until there is room. So is
    /// a folder that another process keeps locked: it is read, and nothing is written until it is free.
    /// Handle: internally locked. One cache may serve many models.
    pub fn pc_cache_new(
        out: *mut *mut pc_cache,
        context: *mut pc_context,
        options: *const pc_cache_options,
    ) -> pc_status;
    /// Finishes pending writes, each within its deadline, then frees. If the folder was over its budget
    /// at opening, it also evicts what is still over, for at most 2 s. On a thread of the cache (in a
    /// callback) it returns at once, and that thread does all this when the callback has returned.
    pub fn pc_cache_free(cache: *mut pc_cache);
    /// Waits until every entry that was stored before has reached its tiers or failed to. Blocks at most
    /// as long as the deadlines of the queue. Returns [`PC_MISS`](crate::PC_MISS) if, since the last call or since the cache
    /// was opened, an entry did not get into a tier that it was to be written to: dropped, refused or
    /// failed of a tier below RAM has grown ([`pc_tier_stats`](crate::pc_tier_stats)). Of calls at the same time, one tells.
    pub fn pc_cache_flush(cache: *mut pc_cache) -> pc_status;
    /// Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with the model's
    /// tokenizer. Returns [`PC_ERR_PML`](crate::PC_ERR_PML) (names file, line and column; also a chat tag without a known chat
    /// template), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (longer than the model's context), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) and [`PC_ERR_IO`](crate::PC_ERR_IO) of the
    /// file, [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the model has no tokenizer). Handle: immutable.
    pub fn pc_schema_load(
        out: *mut *mut pc_schema,
        model: *const pc_model,
        path: *const c_char,
        options: *const pc_schema_options,
    ) -> pc_status;
    /// Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with the model's
    /// tokenizer. Returns [`PC_ERR_PML`](crate::PC_ERR_PML) (names file, line and column; also a chat tag without a known chat
    /// template), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (longer than the model's context), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) and [`PC_ERR_IO`](crate::PC_ERR_IO) of the
    /// file, [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the model has no tokenizer). Handle: immutable.
    pub fn pc_schema_parse(
        out: *mut *mut pc_schema,
        model: *const pc_model,
        text: *const c_char,
        size: usize,
        options: *const pc_schema_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_schema_free(schema: *mut pc_schema);
    /// borrowed
    pub fn pc_schema_name(schema: *const pc_schema) -> *const c_char;
    /// positions that it spans
    pub fn pc_schema_length(schema: *const pc_schema) -> i64;
    /// Encodes all modules of a schema into the cache (Prompt Cache, section 3.3). Without this call
    /// each module is encoded at its first use. Blocks. Returns [`PC_MISS`](crate::PC_MISS) (everything was encoded, but the
    /// budget has no room for all of it), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (EXACT), [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED) (finished modules
    /// stay in the cache).
    pub fn pc_schema_encode(
        schema: *const pc_schema,
        cache: *mut pc_cache,
        options: *const pc_encode_options,
    ) -> pc_status;
    /// Starts loading the schema's segments from lower tiers into free room of RAM, without waiting.
    /// Uses `encoding`, `rope_regime_length`, salts and adapter of the options. \*started (may be NULL):
    /// number of loads. Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (EXACT).
    pub fn pc_schema_prefetch(
        schema: *const pc_schema,
        cache: *mut pc_cache,
        options: *const pc_encode_options,
        started: *mut u64,
    ) -> pc_status;
    /// Parses a prompt and resolves it against the schema that it names (Prompt Cache, sections 3.2.1
    /// and 3.4). The prompt holds that schema. schemas \[count\]: a prompt that names none takes the only
    /// one given. Of the prompt's own text, blocks of 64 tokens go to the cache, for prompts that begin
    /// with the same modules and text (not with [`PC_VISIBLE_ALL`](crate::PC_VISIBLE_ALL) or a repair above [`PC_REPAIR_NONE`](crate::PC_REPAIR_NONE)).
    /// Returns [`PC_ERR_PML`](crate::PC_ERR_PML) (line and column), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) (no such file; the named schema is not
    /// given; none is named and several are given), [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (two given schemas have the name),
    /// [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT). Handle: immutable.
    pub fn pc_prompt_load(
        out: *mut *mut pc_prompt,
        schemas: *const *mut pc_schema,
        count: usize,
        path: *const c_char,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// Parses a prompt and resolves it against the schema that it names (Prompt Cache, sections 3.2.1
    /// and 3.4). The prompt holds that schema. schemas \[count\]: a prompt that names none takes the only
    /// one given. Of the prompt's own text, blocks of 64 tokens go to the cache, for prompts that begin
    /// with the same modules and text (not with [`PC_VISIBLE_ALL`](crate::PC_VISIBLE_ALL) or a repair above [`PC_REPAIR_NONE`](crate::PC_REPAIR_NONE)).
    /// Returns [`PC_ERR_PML`](crate::PC_ERR_PML) (line and column), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) (no such file; the named schema is not
    /// given; none is named and several are given), [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (two given schemas have the name),
    /// [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT). Handle: immutable.
    pub fn pc_prompt_parse(
        out: *mut *mut pc_prompt,
        schemas: *const *mut pc_schema,
        count: usize,
        text: *const c_char,
        size: usize,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// A prompt without PML: tokens, or text, with BOS and EOS by the model's convention. It reuses any
    /// prefix that an earlier prompt of this kind has in common with it.
    pub fn pc_prompt_from_tokens(
        out: *mut *mut pc_prompt,
        model: *const pc_model,
        tokens: *const i32,
        count: usize,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// A prompt without PML: tokens, or text, with BOS and EOS by the model's convention. It reuses any
    /// prefix that an earlier prompt of this kind has in common with it.
    pub fn pc_prompt_from_text(
        out: *mut *mut pc_prompt,
        model: *const pc_model,
        text: *const c_char,
        size: usize,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_prompt_free(prompt: *mut pc_prompt);
    /// Answers a prompt: looks its modules up, encodes missing ones, computes the new tokens and samples
    /// until a stop. Blocks.
    /// cache: NULL: nothing is looked up or stored. stats: may be NULL; also written on failure, as far
    /// as the work came.
    /// Returns [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (e.g. a module of a model with learned positions
    /// would have to move), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT).
    ///
    /// With options-\>memo, a plain prompt that no tier of the cache has anything of is looked up in the
    /// memo (see [`pc_prefill`](crate::pc_prefill)). After a hit, values are computed with the other prompt's maps and keys
    /// afterwards. The request goes on from those states and is [`PC_APPROXIMATE`](crate::PC_APPROXIMATE). The states are its own:
    /// the cache does not store them. A verified hit goes on from the full computation and is [`PC_EXACT`](crate::PC_EXACT),
    /// but is not stored either; nor is a miss of a memo with [`PC_MEMO_LAYERS`](crate::PC_MEMO_LAYERS). Other misses are computed
    /// and stored as without a memo. stats-\>`memo_reason` tells why a prompt was not looked up. Returns
    /// [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (the memo is of another model), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model, or
    /// salts are given).
    pub fn pc_generate(
        prompt: *const pc_prompt,
        cache: *mut pc_cache,
        options: *const pc_generate_options,
        stats: *mut pc_stats,
    ) -> pc_status;
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_allocator_init(allocator: *mut pc_allocator, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_context_options_init(options: *mut pc_context_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_model_options_init(options: *mut pc_model_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_model_info_init(info: *mut pc_model_info, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_cache_options_init(options: *mut pc_cache_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_schema_options_init(options: *mut pc_schema_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_encode_options_init(options: *mut pc_encode_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_prompt_options_init(options: *mut pc_prompt_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_generate_options_init(options: *mut pc_generate_options, size: usize);
    /// Default options for languages without macros: writes `size` zero bytes, then sets `struct_size` to
    /// `size`, the caller's sizeof of the struct. So nothing behind the caller's struct is touched,
    /// whichever release the library is of. NULL, or a size below that of `struct_size`, does nothing. Any
    /// thread.
    pub fn pc_stats_init(stats: *mut pc_stats, size: usize);
    /// Makes an empty list, which holds model and cache.
    /// Returns [`PC_ERR_PML`](crate::PC_ERR_PML) (of the format), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) and [`PC_ERR_IO`](crate::PC_ERR_IO) of its file,
    /// [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (EXACT). Handle: internally locked.
    pub fn pc_systems_new(
        out: *mut *mut pc_systems,
        model: *const pc_model,
        cache: *mut pc_cache,
        options: *const pc_systems_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_systems_free(systems: *mut pc_systems);
    /// Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
    /// everything before the user slot, or by any schema of the same model. Blocks while it encodes;
    /// until then the old schema answers. Returns [`PC_MISS`](crate::PC_MISS) (added, but the cache has no room for all of
    /// its states), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT), [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH). After an error nothing has changed.
    pub fn pc_systems_fill(
        systems: *mut pc_systems,
        name: *const c_char,
        text: *const c_char,
        size: usize,
    ) -> pc_status;
    /// Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
    /// everything before the user slot, or by any schema of the same model. Blocks while it encodes;
    /// until then the old schema answers. Returns [`PC_MISS`](crate::PC_MISS) (added, but the cache has no room for all of
    /// its states), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT), [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH). After an error nothing has changed.
    pub fn pc_systems_fill_tokens(
        systems: *mut pc_systems,
        name: *const c_char,
        tokens: *const i32,
        count: usize,
    ) -> pc_status;
    /// Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
    /// everything before the user slot, or by any schema of the same model. Blocks while it encodes;
    /// until then the old schema answers. Returns [`PC_MISS`](crate::PC_MISS) (added, but the cache has no room for all of
    /// its states), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT), [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH). After an error nothing has changed.
    pub fn pc_systems_fill_schema(
        systems: *mut pc_systems,
        name: *const c_char,
        schema: *const pc_schema,
    ) -> pc_status;
    /// Removes a name; its segments are unpinned. Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND).
    pub fn pc_systems_drop(systems: *mut pc_systems, name: *const c_char) -> pc_status;
    /// Removes all names. Others may add names meanwhile. [`PC_OK`](crate::PC_OK) also for an empty list.
    pub fn pc_systems_clear(systems: *mut pc_systems) -> pc_status;
    /// The schema of a name, as a reference for the caller, for [`pc_prompt_fill`](crate::pc_prompt_fill).
    /// Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) (lists the names).
    pub fn pc_systems_find(
        out: *mut *mut pc_schema,
        systems: *mut pc_systems,
        name: *const c_char,
    ) -> pc_status;
    /// The list, in the order in which names were added. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond its end.
    pub fn pc_systems_count(systems: *mut pc_systems) -> usize;
    /// The list, in the order in which names were added. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond its end.
    pub fn pc_systems_get(
        systems: *mut pc_systems,
        index: usize,
        info: *mut pc_system_info,
    ) -> pc_status;
    /// Opens a model without its weights. options: as of [`pc_model_load`](crate::pc_model_load), without flags. A model that
    /// would be refused opens too, if anything is known of it: see `refusal`. Returns as [`pc_model_load`](crate::pc_model_load)
    /// if nothing is known, or progress cancels. Handle: immutable.
    pub fn pc_model_file_open(
        out: *mut *mut pc_model_file,
        context: *mut pc_context,
        path: *const c_char,
        options: *const pc_model_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_model_file_free(file: *mut pc_model_file);
    /// Opens a model without its weights. options: as of [`pc_model_load`](crate::pc_model_load), without flags. A model that
    /// would be refused opens too, if anything is known of it: see `refusal`. Returns as [`pc_model_load`](crate::pc_model_load)
    /// if nothing is known, or progress cancels. Handle: immutable.
    pub fn pc_model_file_get_info(
        file: *const pc_model_file,
        info: *mut pc_model_file_info,
    ) -> pc_status;
    /// The vocabulary, for [`pc_tokenize`](crate::pc_tokenize) and schemas. Its [`pc_model_info`](crate::pc_model_info) is that of the loaded model, but
    /// the fingerprint is zero, and bytes of weights may be off by a percent. Never NULL; borrowed.
    pub fn pc_model_file_model(file: *const pc_model_file) -> *const pc_model;
    /// Number formats, most bytes first. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond the last.
    pub fn pc_model_file_type_count(file: *const pc_model_file) -> usize;
    /// Number formats, most bytes first. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond the last.
    pub fn pc_model_file_get_type(
        file: *const pc_model_file,
        index: usize,
        r#type: *mut pc_model_file_type,
    ) -> pc_status;
    /// Reads the headers of a folder's records.
    /// Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND), [`PC_ERR_IO`](crate::PC_ERR_IO), [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (the folder is not ours). Handle: one thread
    /// at a time.
    pub fn pc_folder_open(
        out: *mut *mut pc_folder,
        context: *mut pc_context,
        path: *const c_char,
        options: *const pc_folder_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_folder_free(folder: *mut pc_folder);
    /// Reads the headers of a folder's records.
    /// Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND), [`PC_ERR_IO`](crate::PC_ERR_IO), [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (the folder is not ours). Handle: one thread
    /// at a time.
    pub fn pc_folder_count(folder: *const pc_folder) -> usize;
    /// A record as it was when the folder was opened, in the order of names.
    /// Returns [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (its header is damaged, or does not fit its name), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (of a
    /// later format), [`PC_ERR_IO`](crate::PC_ERR_IO); key, name and `file_bytes` are set all the same.
    pub fn pc_folder_get(
        folder: *const pc_folder,
        index: usize,
        info: *mut pc_record_info,
    ) -> pc_status;
    /// Tokens of a record: tokens \[capacity\].
    /// Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (capacity), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (sealed with another key).
    pub fn pc_folder_tokens(
        folder: *mut pc_folder,
        index: usize,
        tokens: *mut i32,
        capacity: usize,
        count: *mut usize,
    ) -> pc_status;
    /// Reads a whole record and checks everything that can be checked.
    /// Returns [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (names the fault), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) ("frame only: …": the frame is right,
    /// but key or codec is missing for the states), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) (gone since).
    pub fn pc_folder_verify(folder: *mut pc_folder, index: usize) -> pc_status;
    /// Removes a record. Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) (gone since), [`PC_ERR_IO`](crate::PC_ERR_IO), [`PC_ERR_STATE`](crate::PC_ERR_STATE) (another folder
    /// has this path now).
    pub fn pc_folder_remove(folder: *mut pc_folder, index: usize) -> pc_status;
    /// Evicts records until at most `bytes` are left: expired ones and leftovers of killed writers
    /// first, then by eviction score. \*removed, \*freed (each may be NULL): files and bytes, also on
    /// failure. Returns as [`pc_folder_remove`](crate::pc_folder_remove).
    pub fn pc_folder_trim(
        folder: *mut pc_folder,
        bytes: u64,
        removed: *mut u64,
        freed: *mut u64,
    ) -> pc_status;
    /// Costs by which this context makes plans. The first call may read the file.
    pub fn pc_costs_get(context: *mut pc_context, costs: *mut pc_costs) -> pc_status;
    /// Measures the costs, uses them in this context and writes the file. Blocks: one thread, well under
    /// a second, 128 MiB. Costs change times, never results.
    /// Returns [`PC_ERR_NOMEM`](crate::PC_ERR_NOMEM) and [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED) (nothing has changed), [`PC_ERR_IO`](crate::PC_ERR_IO) (in use, but not
    /// written).
    pub fn pc_calibrate(
        context: *mut pc_context,
        options: *const pc_calibrate_options,
    ) -> pc_status;
    /// The plug-in module with this index, from 0; opens it, as its first use would. Blocks while a file
    /// is loaded. Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond the last.
    pub fn pc_plugin_get(index: usize, info: *mut pc_plugin_info) -> pc_status;
    /// Makes foreign text fit to be shown: the name in a file, the answer of a server. Writes one line
    /// of UTF-8. Control characters, which a terminal obeys, marks that turn the direction of text, and
    /// characters without width are written as "\<U+001B\>"; blanks of other kinds become spaces; bytes
    /// that are not UTF-8 become U+FFFD. Error texts and lines of the log have been through it; texts in
    /// results are as the files have them. Writes at most room - 1 bytes and a NUL; what does not fit
    /// ends in "...", between characters. text: `size` bytes, which may have NULs; NULL: none. Returns
    /// the bytes written; 0 if out is NULL or room 0. Eight bytes of room for each of `size` are always
    /// enough. Any thread.
    pub fn pc_text_show(text: *const c_char, size: usize, out: *mut c_char, room: usize) -> usize;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_systems_options_init(options: *mut pc_systems_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_system_info_init(info: *mut pc_system_info, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_model_file_info_init(info: *mut pc_model_file_info, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_model_file_type_init(r#type: *mut pc_model_file_type, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_folder_options_init(options: *mut pc_folder_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_record_info_init(info: *mut pc_record_info, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_costs_init(costs: *mut pc_costs, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_calibrate_options_init(options: *mut pc_calibrate_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_plugin_info_init(info: *mut pc_plugin_info, size: usize);
    /// Bytes of a run of `tokens` tokens; 0: the shape is invalid.
    pub fn pc_pages_bytes(shape: *const pc_attend_shape, tokens: usize) -> usize;
    /// Writes tokens of a run. Rotate K by the positions relative to the run's start if the run is to be
    /// moved. Zero the memory before its first use: kernels read, but do not use, the end of the last
    /// page. Threads may write different pages at once. Values are rounded to the run's format; F16
    /// limits them to 65504. I8 writes whole pages, since their scales depend on all their tokens:
    /// `first` is a multiple of [`PC_PAGE_TOKENS`](crate::PC_PAGE_TOKENS), and if `count` is not, the last page is the run's last.
    /// To extend that page, write it again from its first token. No zeroing is needed; infinities become
    /// the largest finite value, NaNs zero. `pages` is host memory, whatever the backend. For a device,
    /// copy the result there, or write pages of the layout above with kernels of your own.
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (a dtype that is not read).
    pub fn pc_pages_write(args: *const pc_pages_args) -> pc_status;
    /// Reads tokens of a run into k and v, of which one may be NULL. Tokens need not begin a page. The
    /// run's values are rounded to `dtype` where that holds less. Other bytes of k and v stay as they
    /// are. Returns as [`pc_pages_write`](crate::pc_pages_write).
    pub fn pc_pages_read(args: *const pc_pages_args) -> pc_status;
    /// Decides which rows read which runs together (Hydragen, sections 3.2 and 3.3). Use it for all
    /// layers, and make another one when runs have grown or rows have changed: each step of a decoder.
    /// It takes about 0.01 ms for 32 rows over a shared run and one of each, beside several ms of
    /// attention of each layer (doc/performance.md). The context's backend computes it. Returns
    /// [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (more than 32-bit indices reach; a position, start or relative position farther from
    /// 0 than 2^60). Handle: one thread at a time (the work runs on the context's threads).
    pub fn pc_plan_new(
        out: *mut *mut pc_plan,
        context: *mut pc_context,
        args: *const pc_plan_args,
    ) -> pc_status;
    /// Does not wait for work that is still queued in a stream; its memory is used again after that. If
    /// plan and context are both gone, the last of them to be freed waits. NULL does nothing.
    pub fn pc_plan_free(plan: *mut pc_plan);
    /// Attention of all rows of one layer, merged by log-sum-exp (Hydragen, section 3.1; RelayAttention,
    /// section 3.3). q and out in BF16 or F16 are converted as they are read and written: inside, all is
    /// as with fp32. On the CPU, the result of a row does not depend on other rows, bit for bit.
    /// K and V must be finite: a value that is not may reach every row of the plan that reads its run.
    /// The result of a row whose q is not finite is undefined.
    ///
    /// Without [`PC_ATTEND_QUEUE`](crate::PC_ATTEND_QUEUE) it blocks. "cpu" allocates only at a plan's first use of a rope.
    /// With it it does not wait for its work. It may wait for earlier work of that stream while its
    /// tables are longer than 1 MiB or device memory is short. Calls of one plan run one after the
    /// other, also in several streams; different plans do not wait for each other. Work memory is the
    /// library's, and is used again in the order of the streams.
    ///
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) ("cpu" and a stream or [`PC_ATTEND_QUEUE`](crate::PC_ATTEND_QUEUE), an address or a stream of another
    /// device, among others), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (a stream, sinks, chunks, some of the heads or a dtype
    /// of q or out of a backend that takes none; a stream that is being captured), [`PC_ERR_NOMEM`](crate::PC_ERR_NOMEM),
    /// [`PC_ERR_INTERNAL`](crate::PC_ERR_INTERNAL) with what CUDA says. After an error results are undefined, and part of the work
    /// may still be queued; the plan can be used again. Faults of the device that come later are
    /// returned by the next [`pc_attend`](crate::pc_attend) or call of CUDA, as [`PC_ERR_DEAD`](crate::PC_ERR_DEAD): then only free what there is.
    pub fn pc_attend(plan: *mut pc_plan, args: *const pc_attend_args) -> pc_status;
    /// Joins partial results by their log-sum-exp (Hydragen, section 3.1; FlashInfer's `merge_states`),
    /// in fp32: on the host, wherever they come from, such as a device and this library. A row that saw
    /// nothing in any part gives zeros and -infinity. The order of the parts changes at most the last
    /// bits. Runs on the calling thread and allocates nothing.
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (an LSE that is NaN or +infinity, among others), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT).
    pub fn pc_merge(args: *const pc_merge_args) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_attend_shape_init(shape: *mut pc_attend_shape, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_pages_args_init(args: *mut pc_pages_args, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_pool_init(pool: *mut pc_pool, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_plan_args_init(args: *mut pc_plan_args, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_rope_init(rope: *mut pc_rope, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_attend_args_init(args: *mut pc_attend_args, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_merge_args_init(args: *mut pc_merge_args, size: usize);
    /// Makes a request that is stepped in a batch. Its first steps look up, encode and prefill.
    /// options: as of [`pc_generate`](crate::pc_generate), copied; samples must be 0 or 1 (use [`pc_sequence_fork`](crate::pc_sequence_fork)). The sequence
    /// holds prompt and cache, and a memo until its prompt is computed.
    /// Returns [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) and [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) of the memo, as [`pc_generate`](crate::pc_generate).
    /// Handle: one thread at a time, with its batch, but for [`pc_sequence_cancel`](crate::pc_sequence_cancel).
    ///
    /// A finished sequence gives its states back. With [`PC_GENERATE_KEEP`](crate::PC_GENERATE_KEEP) it keeps them, whatever ended it
    /// (but for [`PC_ERR_DEAD`](crate::PC_ERR_DEAD)), and can be pushed to, truncated and forked. If it was cancelled or failed,
    /// it is as after its last completed step; in its prefill: the next step prefills anew.
    pub fn pc_sequence_new(
        out: *mut *mut pc_sequence,
        prompt: *const pc_prompt,
        cache: *mut pc_cache,
        options: *const pc_generate_options,
    ) -> pc_status;
    /// A second continuation of everything so far, over the same memory. Neither changes what the other
    /// reads. It is in no batch, and has the original's options, with its callbacks; these get the
    /// number of the copy as `sample`. Copies, and copies of those, are numbered from 1, as the samples
    /// of [`pc_generate`](crate::pc_generate); `max_tokens` counts from the original's last push. Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) as
    /// [`pc_sequence_push`](crate::pc_sequence_push), and before its prompt is computed.
    pub fn pc_sequence_fork(
        out: *mut *mut pc_sequence,
        sequence: *const pc_sequence,
        options: *const pc_fork_options,
    ) -> pc_status;
    /// Removes the sequence from its batch and frees it. Within a step (in a callback) it ends at once:
    /// no callback of it is called any more. Its memory goes when the step ends.
    pub fn pc_sequence_free(sequence: *mut pc_sequence);
    /// Replaces sampling (its random numbers begin anew), `max_tokens`, `min_tokens`, stops with
    /// [`PC_GENERATE_IGNORE_END`](crate::PC_GENERATE_IGNORE_END), `top_logprobs`, callbacks, priority and `deadline_seconds`. After the first
    /// step the other options must be as they were, or the default, which leaves them. Returns
    /// [`PC_ERR_STATE`](crate::PC_ERR_STATE) (names the field), and as [`pc_sequence_push`](crate::pc_sequence_push).
    pub fn pc_sequence_set_options(
        sequence: *mut pc_sequence,
        options: *const pc_generate_options,
    ) -> pc_status;
    /// Ends the turn as if `cancelled` had said so: a step under way gives the sequence up soon, else
    /// the next one that it takes part in. The next push or truncation takes that back. Any thread, at
    /// any time, as long as nobody frees the sequence meanwhile.
    pub fn pc_sequence_cancel(sequence: *mut pc_sequence) -> pc_status;
    /// Tokens behind the prompt so far, sampled and pushed, with stop tokens; and the final text of
    /// those sampled since the last push. Borrowed until the next step or change.
    pub fn pc_sequence_tokens(sequence: *const pc_sequence, count: *mut usize) -> *const i32;
    /// Tokens behind the prompt so far, sampled and pushed, with stop tokens; and the final text of
    /// those sampled since the last push. Borrowed until the next step or change.
    pub fn pc_sequence_text(sequence: *const pc_sequence, size: *mut usize) -> *const c_char;
    /// `PC_FINISH_…`; NONE while it runs, and for NULL.
    pub fn pc_sequence_finish(sequence: *const pc_sequence) -> u32;
    /// The error that has finished the sequence, which becomes [`pc_error_text`](crate::pc_error_text)() too; else, and for NULL,
    /// [`PC_OK`](crate::PC_OK). \*text (may be NULL): its text, or ""; borrowed until the next push or truncation.
    pub fn pc_sequence_error(sequence: *const pc_sequence, text: *mut *const c_char) -> pc_status;
    /// Statistics of the request so far.
    pub fn pc_sequence_get_stats(sequence: *const pc_sequence, stats: *mut pc_stats) -> pc_status;
    /// Appends tokens: forced ones, or a further turn. The next step computes them and samples behind
    /// them. A finished sequence with [`PC_GENERATE_KEEP`](crate::PC_GENERATE_KEEP) goes on, also with count 0; `max_tokens` counts
    /// anew. Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) (finished without [`PC_GENERATE_KEEP`](crate::PC_GENERATE_KEEP), or within a step), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT)
    /// (beyond the model's context or the sequence's RoPE regime).
    pub fn pc_sequence_push(
        sequence: *mut pc_sequence,
        tokens: *const i32,
        count: usize,
    ) -> pc_status;
    /// Drops all but the first `count` tokens behind the prompt, with their states. Text that `on_text`
    /// got is not taken back. The next step samples behind the rest, as if there had never been more.
    /// The sequence is unfinished again, unless the context ends there. To replace the last sampled
    /// token, truncate to one less and push another. Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model
    /// without truncate; or count is 0 and the prompt's highest position was not computed last),
    /// [`PC_ERR_STATE`](crate::PC_ERR_STATE) as [`pc_sequence_push`](crate::pc_sequence_push).
    pub fn pc_sequence_truncate(sequence: *mut pc_sequence, count: usize) -> pc_status;
    /// Logits \[\*count = vocab\] behind all tokens but the last sampled one. NULL without
    /// [`PC_GENERATE_LOGITS`](crate::PC_GENERATE_LOGITS) and before the first token, or behind a failed step. Borrowed until the next
    /// step.
    pub fn pc_sequence_logits(sequence: *const pc_sequence, count: *mut usize) -> *const f32;
    /// Sequences of one model that are stepped together. They may join and leave between steps. K and V
    /// that several of them hold are read once for all (Hydragen, sections 3.1 and 3.2; RelayAttention,
    /// section 3.3). The batch does not own its sequences.
    /// Handle: one thread at a time, with its sequences.
    pub fn pc_batch_new(
        out: *mut *mut pc_batch,
        model: *const pc_model,
        options: *const pc_batch_options,
    ) -> pc_status;
    /// Its sequences stay. Within a step they leave at once, and those that it computes finish it.
    pub fn pc_batch_free(batch: *mut pc_batch);
    /// Returns [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (of another model), [`PC_ERR_STATE`](crate::PC_ERR_STATE) (it is in a batch), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT)
    /// (`max_sequences`).
    pub fn pc_batch_add(batch: *mut pc_batch, sequence: *mut pc_sequence) -> pc_status;
    /// Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) if the sequence is not in this batch.
    pub fn pc_batch_remove(batch: *mut pc_batch, sequence: *mut pc_sequence) -> pc_status;
    /// Counts what the next step reads.
    pub fn pc_batch_get_stats(batch: *const pc_batch, stats: *mut pc_batch_stats) -> pc_status;
    /// Computes one token for every running sequence, and beside them pieces of the prompts of new ones
    /// (Sarathi-Serve, section 4.2), up to `step_tokens`: by `priority`, deadline and the length of the
    /// rest; now and then the one that has waited longest comes first. The step that ends a prompt
    /// gives its first token. What several prompts miss in the cache is encoded once. Tokens are the
    /// same in whatever pieces. Prompts of an application's model without [`PC_CUTS_PROMPTS`](crate::PC_CUTS_PROMPTS), of one with
    /// latent attention, and those with a memo or a baseline are computed as a whole. A sequence that is
    /// removed keeps what it has. Blocks. Returns [`PC_OK`](crate::PC_OK) (some go on), [`PC_END`](crate::PC_END) (all are finished), or an
    /// error of the batch itself: [`PC_ERR_NOMEM`](crate::PC_ERR_NOMEM) (call it again), [`PC_ERR_STATE`](crate::PC_ERR_STATE) (a step of a sequence is
    /// under way). An error of a sequence finishes that one alone ([`pc_sequence_error`](crate::pc_sequence_error)).
    pub fn pc_batch_step(batch: *mut pc_batch) -> pc_status;
    /// The sequences \[\*count\] that got a token or finished in the last step and are still in the batch,
    /// in its order. Borrowed until the next step or change of the batch.
    pub fn pc_batch_changed(batch: *const pc_batch, count: *mut usize) -> *const *mut pc_sequence;
    /// Saves a sequence under a key of the caller's choice \[32\]: tokens and states, not its options. The
    /// sequence goes on as if nothing had happened. Its own states are stored in parts, under keys that
    /// derive from `key` and their bytes, so that saving again under the same key stores only what is
    /// new, and removes parts that the last two saves do not need. What it reads of the cache (modules,
    /// prefixes, levels) is stored too, once for all sequences of the tenant: a module that is evicted
    /// takes nothing along. All of it are entries, which tiers may evict.
    /// Waits while too much waits to be written. The tiers below RAM get it later: [`pc_cache_flush`](crate::pc_cache_flush) waits
    /// for that, and so does the end of the cache, which its last sequence holds up. A crash before that
    /// leaves the save before. One process at a time saves under a key; another one that has an older
    /// save in its own tiers does not see the newer one of a server. Returns [`PC_MISS`](crate::PC_MISS) (something had no
    /// room in any tier, or a tier is out of use: the save before stays), [`PC_ERR_STATE`](crate::PC_ERR_STATE) as
    /// [`pc_sequence_fork`](crate::pc_sequence_fork), and if the cache may not write, [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model: its
    /// sequences cannot be exported), [`PC_ERR_IO`](crate::PC_ERR_IO) (a tier may keep the save before).
    pub fn pc_sequence_save(
        sequence: *mut pc_sequence,
        cache: *mut pc_cache,
        key: *const u8,
        options: *const pc_save_options,
    ) -> pc_status;
    /// Makes a sequence as it was when it was saved last: it can be stepped, pushed to, truncated,
    /// forked and saved, as one with [`PC_GENERATE_KEEP`](crate::PC_GENERATE_KEEP). Exact states that come through lossless codecs
    /// give the tokens and logits that it would have given; through a lossy codec it is [`PC_APPROXIMATE`](crate::PC_APPROXIMATE).
    /// One that an error or a cancellation had finished is unfinished. Its statistics count what was
    /// loaded.
    /// options: as of [`pc_sequence_new`](crate::pc_sequence_new); those that a computed prompt has decided must be as they were, or
    /// the default; sampling, stops, limits and callbacks are not saved. With the seed that it had,
    /// random numbers go on. save: NULL: all defaults.
    /// Returns [`PC_MISS`](crate::PC_MISS), with the reason in \*reason (may be NULL): there is none under this key for this
    /// model and salt, or some part of it is lost, and nothing was loaded. Before that it waits for
    /// parts that are on their way to the tiers below RAM. Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) as
    /// [`pc_sequence_set_options`](crate::pc_sequence_set_options).
    pub fn pc_sequence_load(
        out: *mut *mut pc_sequence,
        model: *const pc_model,
        cache: *mut pc_cache,
        key: *const u8,
        options: *const pc_generate_options,
        save: *const pc_save_options,
        reason: *mut u32,
    ) -> pc_status;
    /// Removes what was saved under a key, from the tiers of options-\>tiers. Parts that other sequences
    /// of the tenant read too stay. Returns [`PC_MISS`](crate::PC_MISS): there is none; and as [`pc_cache_remove`](crate::pc_cache_remove).
    pub fn pc_sequence_forget(
        model: *const pc_model,
        cache: *mut pc_cache,
        key: *const u8,
        options: *const pc_save_options,
    ) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_fork_options_init(options: *mut pc_fork_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_save_options_init(options: *mut pc_save_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_batch_options_init(options: *mut pc_batch_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_batch_stats_init(stats: *mut pc_batch_stats, size: usize);
    /// Counters now; other threads may go on. A tier that the cache does not have gives zeros.
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) for an unknown tier.
    pub fn pc_cache_get_stats(cache: *mut pc_cache, stats: *mut pc_cache_stats) -> pc_status;
    /// Counters now; other threads may go on. A tier that the cache does not have gives zeros.
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) for an unknown tier.
    pub fn pc_cache_get_tier_stats(
        cache: *mut pc_cache,
        tier: u32,
        stats: *mut pc_tier_stats,
    ) -> pc_status;
    /// All counters as text \[capacity\] in the format of Prometheus, not NUL-terminated. \*size gets its
    /// bytes, also with text NULL, capacity 0, and with [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (capacity).
    pub fn pc_cache_prometheus(
        cache: *mut pc_cache,
        text: *mut c_char,
        capacity: usize,
        size: *mut usize,
        options: *const pc_prometheus_options,
    ) -> pc_status;
    /// Removes everything from RAM and COMPRESSED that is not in use or pinned.
    pub fn pc_cache_clear(cache: *mut pc_cache) -> pc_status;
    /// Evicts from RAM, lowest eviction score first, until at most `bytes` are left there.
    /// \*freed (may be NULL): bytes that were freed. Memory of entries that go to COMPRESSED is freed
    /// once they are written; [`pc_cache_flush`](crate::pc_cache_flush) waits for that. Returns [`PC_MISS`](crate::PC_MISS) if the rest is in use,
    /// pinned or being loaded.
    pub fn pc_cache_trim(cache: *mut pc_cache, bytes: u64, freed: *mut u64) -> pc_status;
    /// Limits the bytes that one tenant's entries take in a tier: RAM, COMPRESSED or DISK. A tenant over
    /// its limit makes room among its own entries. In a folder, entries of all processes count; what is
    /// over goes in the background, and what other processes write counts within a second.
    /// salt: the cache's own or one of [`pc_salt`](crate::pc_salt); NULL with `salt_size` 0: no salt. bytes 0: `tenant_share` of
    /// the cache holds. Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (REMOTE: the server chooses what it evicts),
    /// [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (no such tier).
    pub fn pc_cache_set_quota(
        cache: *mut pc_cache,
        tier: u32,
        salt: *const c_void,
        salt_size: usize,
        bytes: u64,
    ) -> pc_status;
    /// Pins an entry in RAM for an owner, until it is unpinned or `seconds` have passed (0: no end).
    /// Pinning again as the same owner sets the end anew.
    /// owner: any number of the application but `UINT64_MAX`. Returns [`PC_MISS`](crate::PC_MISS) if the entry is not in RAM.
    pub fn pc_cache_pin(
        cache: *mut pc_cache,
        key: *const u8,
        owner: u64,
        seconds: f64,
    ) -> pc_status;
    /// Pins an entry in RAM for an owner, until it is unpinned or `seconds` have passed (0: no end).
    /// Pinning again as the same owner sets the end anew.
    /// owner: any number of the application but `UINT64_MAX`. Returns [`PC_MISS`](crate::PC_MISS) if the entry is not in RAM.
    pub fn pc_cache_unpin(cache: *mut pc_cache, key: *const u8, owner: u64) -> pc_status;
    /// Removes all pins of an owner. [`PC_OK`](crate::PC_OK) also if there are none.
    pub fn pc_cache_unpin_owner(cache: *mut pc_cache, owner: u64) -> pc_status;
    /// base \[32\]: the base key, digest of everything but tokens. Any thread.
    pub fn pc_key_base(base: *mut u8, parts: *const pc_key_parts) -> pc_status;
    /// key \[32\] of a segment. Any thread.
    pub fn pc_key_segment(key: *mut u8, args: *const pc_key_segment_args) -> pc_status;
    /// Makes a segment around memory of the application. For the cache and [`pc_segment_raw`](crate::pc_segment_raw), not for
    /// sequences of our models.
    /// raw: the blocks stay where they are until `release` (may be NULL) is called with `user`, when the
    /// last reference is gone; everything else is copied. On failure release is not called.
    /// Handle: immutable.
    pub fn pc_segment_wrap(
        out: *mut *mut pc_segment,
        context: *mut pc_context,
        raw: *const pc_raw,
        release: Option<unsafe extern "C" fn(user: *mut c_void)>,
        user: *mut c_void,
    ) -> pc_status;
    /// The memory of a segment: wrapped, from [`pc_cache_get`](crate::pc_cache_get), or of our models ([`PC_LAYOUT_PAGES`](crate::PC_LAYOUT_PAGES)). Pointers
    /// are borrowed from the segment.
    /// Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) for a segment of an application's model.
    pub fn pc_segment_raw(segment: *const pc_segment, raw: *mut pc_raw) -> pc_status;
    /// Stores a segment. The cache takes a reference of its own. The tiers below RAM get it later, from
    /// a thread of the cache: [`pc_cache_flush`](crate::pc_cache_flush) waits for that and tells if something was given up.
    /// Returns [`PC_EXISTS`](crate::PC_EXISTS) if RAM has an entry under this key, which stays, and [`PC_MISS`](crate::PC_MISS) if RAM has no room
    /// (lower tiers may still take it).
    pub fn pc_cache_put(
        cache: *mut pc_cache,
        key: *const u8,
        segment: *mut pc_segment,
        options: *const pc_put_options,
    ) -> pc_status;
    /// Finds a segment. Blocks, at most for `cost_seconds` or until the deadline.
    /// \*out: a reference for the caller. info may be NULL.
    /// expect: model, position scheme, dtype, layout, shape, RoPE regime, tokens and block sizes must
    /// all agree; blocks are not read. Returns [`PC_MISS`](crate::PC_MISS), with a reason in info; the entry stays.
    pub fn pc_cache_get(
        out: *mut *mut pc_segment,
        cache: *mut pc_cache,
        key: *const u8,
        expect: *const pc_raw,
        options: *const pc_get_options,
        info: *mut pc_get_info,
    ) -> pc_status;
    /// How many of a chain of keys, from the first on, are in some tier. Loads nothing, counts no
    /// look-up and changes no eviction score. Costs a microsecond for each key, for keys that only DISK
    /// may have a look into its directory, and for REMOTE one round trip for each 512 keys and server.
    /// A record may still turn out damaged or evicted when it is read.
    /// keys: \[count \* 32\] one behind the other.
    /// tiers: \[count\] `PC_TIER_…` of each key (the first of RAM, COMPRESSED, DISK, REMOTE), also behind
    /// the first that is missing; [`PC_TIER_NONE`](crate::PC_TIER_NONE): nowhere. May be NULL. A server that does not answer has
    /// nothing.
    pub fn pc_cache_find(
        cache: *mut pc_cache,
        keys: *const u8,
        count: usize,
        found: *mut usize,
        tiers: *mut u32,
        options: *const pc_find_options,
    ) -> pc_status;
    /// Starts to load many entries \[count\], in this order. expect: what they must be, as of
    /// [`pc_cache_get`](crate::pc_cache_get), but for tokens, relative, `token_count` and blocks, which are the entries'. All is
    /// copied; memory of an entry's blocks stays until the entry is done, or the load is freed.
    /// What goes into the caller's blocks is read or decoded there, by threads of the cache, and does
    /// not get into RAM; what RAM has is copied. At most 8192 loads of a cache wait at a time: further
    /// entries are [`PC_MISS`](crate::PC_MISS) with [`PC_REASON_SLOW`](crate::PC_REASON_SLOW).
    /// Handle: one thread at a time.
    pub fn pc_cache_get_many(
        out: *mut *mut pc_load,
        cache: *mut pc_cache,
        expect: *const pc_raw,
        wanted: *const pc_get_entry,
        wanted_stride: usize,
        count: usize,
        options: *const pc_get_options,
    ) -> pc_status;
    /// Waits until all entries are done, but no longer than `seconds` (0: not at all). Returns [`PC_OK`](crate::PC_OK), or
    /// [`PC_AGAIN`](crate::PC_AGAIN): some are not done yet. Every entry is done soon after the deadline.
    pub fn pc_load_wait(load: *mut pc_load, seconds: f64) -> pc_status;
    /// Does not wait. \*done (may be NULL): how many entries from the first on are done. Returns as
    /// [`pc_load_wait`](crate::pc_load_wait).
    pub fn pc_load_poll(load: *mut pc_load, done: *mut usize) -> pc_status;
    /// The result of one entry: [`PC_OK`](crate::PC_OK); [`PC_AGAIN`](crate::PC_AGAIN): it is not done; [`PC_MISS`](crate::PC_MISS), with a reason in info, and
    /// blocks of any contents. \*segment: a reference for the caller, NULL for an entry with blocks and
    /// of a miss. segment and info may be NULL. Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND): there is no such entry.
    pub fn pc_load_result(
        load: *mut pc_load,
        index: usize,
        segment: *mut *mut pc_segment,
        info: *mut pc_get_info,
    ) -> pc_status;
    /// Gives up what is not done. When it returns, nothing is written to the caller's blocks any more:
    /// it waits for the blocks that are being read at this moment.
    pub fn pc_load_free(load: *mut pc_load);
    /// Starts to load entries into free room of RAM, and does not wait. Their blocks are not used.
    /// \*started (may be NULL): how many loads have begun; others are in RAM, in no tier, or do not fit
    /// into the queue.
    pub fn pc_cache_prefetch(
        cache: *mut pc_cache,
        expect: *const pc_raw,
        wanted: *const pc_get_entry,
        wanted_stride: usize,
        count: usize,
        options: *const pc_get_options,
        started: *mut usize,
    ) -> pc_status;
    /// Removes entries, also from what is on its way to a tier, and also if they are in use or pinned:
    /// users keep their references. \*removed (may be NULL): keys that some tier had. Returns an error of
    /// a tier that may still have one ([`PC_ERR_STATE`](crate::PC_ERR_STATE): read-only; [`PC_ERR_IO`](crate::PC_ERR_IO)); the rest is removed.
    /// keys: \[count \* 32\].
    pub fn pc_cache_remove(
        cache: *mut pc_cache,
        keys: *const u8,
        count: usize,
        removed: *mut usize,
        options: *const pc_remove_options,
    ) -> pc_status;
    /// As [`pc_cache_put`](crate::pc_cache_put), of a copy: nothing of raw is needed afterwards. Room is made before anything is
    /// copied, in RAM, or for what waits to be written; what is refused is not copied.
    /// Returns [`PC_EXISTS`](crate::PC_EXISTS) and [`PC_MISS`](crate::PC_MISS) as [`pc_cache_put`](crate::pc_cache_put).
    pub fn pc_cache_put_copy(
        cache: *mut pc_cache,
        key: *const u8,
        raw: *const pc_raw,
        options: *const pc_put_options,
    ) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_cache_stats_init(stats: *mut pc_cache_stats, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_prometheus_options_init(options: *mut pc_prometheus_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_tier_stats_init(stats: *mut pc_tier_stats, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_key_segment_args_init(args: *mut pc_key_segment_args, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_key_parts_init(parts: *mut pc_key_parts, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_raw_init(raw: *mut pc_raw, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_put_options_init(options: *mut pc_put_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_get_options_init(options: *mut pc_get_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_find_options_init(options: *mut pc_find_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_remove_options_init(options: *mut pc_remove_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_get_info_init(info: *mut pc_get_info, size: usize);
    /// Embeds prompts \[count\] of one model: embeddings \[count\]\[[`pc_model_info.hidden`](crate::pc_model_info)\]. What is left to
    /// compute of all prompts goes in as few passes as fit. Blocks.
    /// Decoders: modules come from the cache, or are encoded and stored, as for [`pc_generate`](crate::pc_generate). Of a prompt
    /// without PML the beginning that the cache has is reused, and nothing is stored. This is for
    /// [`PC_POOL_LAST`](crate::PC_POOL_LAST). MEAN and FIRST need the hidden state of every token, which no cache has: they
    /// compute the prompts whole, and are [`PC_EXACT`](crate::PC_EXACT).
    /// Encoders take prompts of tokens or text; nothing is reused.
    /// cache: NULL: nothing is looked up or stored. options and stats may be NULL.
    /// Returns [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (prompts of different models), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model
    /// without `step_hidden`), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (a prompt is longer than the model takes), [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED),
    /// and as [`pc_generate`](crate::pc_generate).
    pub fn pc_embed(
        prompts: *const *mut pc_prompt,
        count: usize,
        cache: *mut pc_cache,
        options: *const pc_embed_options,
        embeddings: *mut f32,
        stats: *mut pc_embed_stats,
    ) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_embed_options_init(options: *mut pc_embed_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_embed_stats_init(stats: *mut pc_embed_stats, size: usize);
    /// Makes a model of the application's functions. PML, layout, cache and serving work as with any
    /// model. ops: copied. user: stays the application's until `on_free` (may be NULL) is called with it.
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (names a missing function).
    /// Handle: immutable.
    pub fn pc_model_from_ops(
        out: *mut *mut pc_model,
        context: *mut pc_context,
        ops: *const pc_model_ops,
        user: *mut c_void,
        on_free: Option<unsafe extern "C" fn(user: *mut c_void)>,
        options: *const pc_model_options,
    ) -> pc_status;
    /// Fingerprint for such a model: digest of files \[count\] in this order, by their bytes (BLAKE2b-256,
    /// files/1 in doc/format.md). Name every file that changes K and V: weights, configuration,
    /// adapters. Blocks, one to two seconds per GB. progress (may be NULL) gets the path and its bytes.
    /// Returns [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) and [`PC_ERR_IO`](crate::PC_ERR_IO) (name the file), [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED); fingerprint is then
    /// zero. Any thread.
    pub fn pc_fingerprint_files(
        fingerprint: *mut u8,
        paths: *const *const c_char,
        count: usize,
        progress: pc_progress_fn,
        progress_user: *mut c_void,
    ) -> pc_status;
    /// The tokens of a segment, borrowed from it. \*count (may be NULL): how many. NULL and 0 for NULL.
    pub fn pc_segment_tokens(segment: *const pc_segment, count: *mut usize) -> *const i32;
    /// K and V of one layer as placed at `start`: k, v \[`kv_head`\]\[token\]\[`head_dim`\], fp32; either may be
    /// NULL. Of a model with latent attention those of every head, with values of the width that the
    /// model has, at most `head_dim`.
    /// Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the states cannot be moved there, or belong to an application's
    /// model), [`PC_ERR_STATE`](crate::PC_ERR_STATE) (the segment has values only), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (start is above 2^60).
    pub fn pc_segment_read(
        segment: *const pc_segment,
        layer: i32,
        start: i64,
        k: *mut f32,
        v: *mut f32,
    ) -> pc_status;
    /// A prompt of given segments and new tokens: levels by hand, any tree (Hydragen, section 3.3). In a
    /// batch, segments that several sequences hold are read once for all.
    /// spans: from [`pc_eval`](crate::pc_eval), [`pc_sequence_spans`](crate::pc_sequence_spans) or [`pc_prefill`](crate::pc_prefill); the prompt holds them. The new tokens stand
    /// at `start`, behind all spans. Without new tokens the last token of the spans is computed again
    /// (`tokens_repaired`), for its logits, and the first sampled token stands at `start`.
    /// The states are [`PC_EXACT`](crate::PC_EXACT) if every segment saw exactly the tokens before it here, at these
    /// distances, and is whole from its first token on. Segments know this if they come from [`pc_eval`](crate::pc_eval),
    /// [`pc_prefill`](crate::pc_prefill) or an exact sequence. Otherwise they are [`PC_APPROXIMATE`](crate::PC_APPROXIMATE). Encoding and cache do not
    /// matter; repair and baselines that recompute are refused ([`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED)). Returns
    /// [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (of another model), [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (neither spans nor tokens, or a span reaches
    /// `start`).
    pub fn pc_prompt_from_spans(
        out: *mut *mut pc_prompt,
        model: *const pc_model,
        spans: *const pc_span,
        span_stride: usize,
        span_count: usize,
        start: i64,
        tokens: *const i32,
        token_count: usize,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// The states of a sequence as segments in place, so that others can share them: all but tokens that
    /// are not computed yet (usually the last sampled one), in order. spans \[capacity\]: the caller frees
    /// each segment. The sequence goes on with the same memory and appends elsewhere.
    /// Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (capacity), [`PC_ERR_STATE`](crate::PC_ERR_STATE) (before the first step, or it holds nothing any
    /// more), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model).
    pub fn pc_sequence_spans(
        sequence: *mut pc_sequence,
        spans: *mut pc_span,
        span_stride: usize,
        capacity: usize,
        count: *mut usize,
    ) -> pc_status;
    /// One forward pass over several lanes. Lanes that share segments share the reading of them. Blocks.
    /// Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model; a segment of positions that do not ascend),
    /// [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (a segment of another model or RoPE regime), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (a position or start
    /// farther from 0 than 2^60).
    pub fn pc_eval(model: *const pc_model, args: *const pc_eval_args) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_model_ops_init(ops: *mut pc_model_ops, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_codec_ops_init(ops: *mut pc_codec_ops, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_eval_args_init(args: *mut pc_eval_args, size: usize);
    /// Compiles a grammar, by the plug-in module xgrammar. Blocks, and is the slower the more the
    /// grammar has to say (doc/serving.md has times). The grammar holds the model. Its memory is not of
    /// the context's allocator. Keywords of a schema that have no effect are named in the log.
    /// Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the module is not there; the text says what to do. The tokens of the
    /// model are an application's own: [`pc_grammar_new_own`](crate::pc_grammar_new_own)), [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (the text is not what `kind`
    /// says), [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (no answer of this model's tokens matches), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (too long, nested
    /// too deep, or a count of repeats above 100,000).
    pub fn pc_grammar_new(
        out: *mut *mut pc_grammar,
        model: *const pc_model,
        options: *const pc_grammar_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_grammar_free(grammar: *mut pc_grammar);
    /// A grammar by functions, which are copied. After a failure `on_free` is not called.
    /// Returns [`PC_ERR_INVALID`](crate::PC_ERR_INVALID) (a function is missing; the first mask lets nothing come and no end).
    pub fn pc_grammar_new_own(
        out: *mut *mut pc_grammar,
        model: *const pc_model,
        ops: *const pc_grammar_ops,
    ) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_grammar_options_init(options: *mut pc_grammar_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_grammar_ops_init(ops: *mut pc_grammar_ops, size: usize);
    /// Opens the memo in a folder, or makes an empty one there.
    /// Returns [`PC_AGAIN`](crate::PC_AGAIN) (\*out is NULL: another process is adding; [`PC_MEMO_READ_ONLY`](crate::PC_MEMO_READ_ONLY) works),
    /// [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (of another model or kind of mask), [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (damaged), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND)
    /// (read-only, and there is none), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model, or a later format),
    /// [`PC_ERR_IO`](crate::PC_ERR_IO). Handle: internally locked.
    pub fn pc_memo_open(
        out: *mut *mut pc_memo,
        model: *const pc_model,
        folder: *const c_char,
        options: *const pc_memo_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_memo_free(memo: *mut pc_memo);
    /// Computes inputs in full and stores their maps and outputs. Skips inputs that are stored with all
    /// wanted outputs, and those longer than the last bucket.
    pub fn pc_memo_add(
        memo: *mut pc_memo,
        inputs: *const pc_input,
        input_stride: usize,
        count: usize,
        work: *const pc_memo_work,
    ) -> pc_status;
    /// Trains the projectors of all buckets with at least 32 records (section 3.1). Thresholds must be
    /// tuned again. Continues a training that was cancelled or killed.
    /// Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) also if no bucket has so many records.
    pub fn pc_memo_train(memo: *mut pc_memo, work: *const pc_memo_work) -> pc_status;
    /// Sets each bucket's threshold to the lowest one that keeps the mean loss of its inputs within
    /// work-\>limit and the loss of hits at `hit_percentile` within `hit_limit`, both with 95 % confidence.
    /// inputs: not among those stored. A bucket without such a threshold (30 hits at least) is closed.
    /// Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) for [`PC_MEMO_LAYERS`](crate::PC_MEMO_LAYERS).
    pub fn pc_memo_tune(
        memo: *mut pc_memo,
        inputs: *const pc_input,
        input_stride: usize,
        count: usize,
        work: *const pc_memo_work,
    ) -> pc_status;
    /// Compresses cold records and gives unused room back to the file system.
    pub fn pc_memo_tidy(memo: *mut pc_memo) -> pc_status;
    /// The buckets, by length.
    pub fn pc_memo_bucket_count(memo: *const pc_memo) -> usize;
    /// The buckets, by length.
    pub fn pc_memo_get_bucket(
        memo: *mut pc_memo,
        index: usize,
        bucket: *mut pc_memo_bucket,
    ) -> pc_status;
    /// Sets a bucket's threshold by the application's own measure, and opens it. Above 1: closes it.
    /// `hit_limit`: mean loss (`PC_LOSS_…`) of verified hits above which the bucket closes; 0: not watched.
    /// measured (may be NULL): its `hit_percentile`, `hit_loss`, `hit_loss_high` and `hit_loss_worst` are
    /// stored. Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) (no projector yet, or opened read-only).
    pub fn pc_memo_set_threshold(
        memo: *mut pc_memo,
        index: usize,
        threshold: f64,
        loss: u32,
        hit_limit: f64,
        measured: *const pc_memo_bucket,
    ) -> pc_status;
    /// The counters so far.
    pub fn pc_memo_get_stats(memo: *mut pc_memo, stats: *mut pc_memo_stats) -> pc_status;
    /// Computes prompts that need no answer beyond their last hidden states: embeddings, logits, states.
    /// All inputs go together, hits and misses mixed (AttnCache, section 3.2). If the memo stores an
    /// equal prompt with all wanted outputs (and no segments are wanted), they are returned, [`PC_EXACT`](crate::PC_EXACT).
    /// Blocks. stats: may be NULL. Returns [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (an application's model; logits of an
    /// encoder without a head), [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (the memo is of another model), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (an input
    /// is longer than the model takes), [`PC_ERR_CANCELLED`](crate::PC_ERR_CANCELLED).
    pub fn pc_prefill(
        model: *const pc_model,
        inputs: *const pc_input,
        input_stride: usize,
        count: usize,
        options: *const pc_prefill_options,
        stats: *mut pc_prefill_stats,
    ) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_memo_options_init(options: *mut pc_memo_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_memo_work_init(work: *mut pc_memo_work, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_memo_bucket_init(bucket: *mut pc_memo_bucket, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_memo_stats_init(stats: *mut pc_memo_stats, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_prefill_options_init(options: *mut pc_prefill_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_prefill_stats_init(stats: *mut pc_prefill_stats, size: usize);
    /// Makes a schema of a format string with "{`__SYS_PROMPT`}" and, behind it, "{`__USR_PROMPT`}". A brace
    /// of the text is doubled. Everything up to the user slot is shared and encoded once. Each request's
    /// text stands right behind it, followed by the text behind the slot ([`pc_prompt_fill`](crate::pc_prompt_fill)). Special
    /// tokens are recognised in the format, not in the system prompt or a request. BOS, where the model
    /// wants it, is the first token only. Returns [`PC_ERR_PML`](crate::PC_ERR_PML) (line and column of a slot that is missing,
    /// unknown, repeated or in the wrong order, or of a single brace), [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (longer than the
    /// model's context), [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) and [`PC_ERR_IO`](crate::PC_ERR_IO) of the files, [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) ([`PC_FORMAT_CHAT`](crate::PC_FORMAT_CHAT)
    /// without a known chat template).
    pub fn pc_schema_from_format(
        out: *mut *mut pc_schema,
        model: *const pc_model,
        format: *const pc_system_format,
    ) -> pc_status;
    /// A prompt of a schema without PML: the schema's anonymous texts, then this text in the user slot,
    /// or at the end if there is none. Blanks at the ends of the text are dropped; tokens are taken as
    /// they are. Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT).
    pub fn pc_prompt_fill(
        out: *mut *mut pc_prompt,
        schema: *const pc_schema,
        text: *const c_char,
        size: usize,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// A prompt of a schema without PML: the schema's anonymous texts, then this text in the user slot,
    /// or at the end if there is none. Blanks at the ends of the text are dropped; tokens are taken as
    /// they are. Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT).
    pub fn pc_prompt_fill_tokens(
        out: *mut *mut pc_prompt,
        schema: *const pc_schema,
        tokens: *const i32,
        count: usize,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// The layout in document order, without the root. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond its end.
    pub fn pc_schema_item_count(schema: *const pc_schema) -> usize;
    /// The layout in document order, without the root. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond its end.
    pub fn pc_schema_get_item(
        schema: *const pc_schema,
        index: usize,
        item: *mut pc_item,
    ) -> pc_status;
    /// The parts, by position. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond their end.
    pub fn pc_prompt_part_count(prompt: *const pc_prompt) -> usize;
    /// The parts, by position. [`PC_ERR_NOT_FOUND`](crate::PC_ERR_NOT_FOUND) beyond their end.
    pub fn pc_prompt_get_part(
        prompt: *const pc_prompt,
        index: usize,
        part: *mut pc_part,
    ) -> pc_status;
    /// Begins an empty schema. name: of the schema. options: of [`pc_schema_parse`](crate::pc_schema_parse); flags must be 0 and
    /// `base_folder` NULL. Handle: one thread at a time.
    pub fn pc_schema_builder_new(
        out: *mut *mut pc_schema_builder,
        model: *const pc_model,
        name: *const c_char,
        options: *const pc_schema_options,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_schema_builder_free(builder: *mut pc_schema_builder);
    /// Adds text to what is open, the schema itself at first. Neighbouring texts are one. flags:
    /// [`PC_PROMPT_SPECIAL`](crate::PC_PROMPT_SPECIAL), or 0.
    pub fn pc_schema_builder_add_text(
        builder: *mut pc_schema_builder,
        text: *const c_char,
        size: usize,
        flags: u64,
    ) -> pc_status;
    /// Opens a module; [`pc_schema_builder_end`](crate::pc_schema_builder_end) closes it. flags: [`PC_ITEM_UNCACHED`](crate::PC_ITEM_UNCACHED), or 0.
    pub fn pc_schema_builder_begin_module(
        builder: *mut pc_schema_builder,
        name: *const c_char,
        flags: u64,
    ) -> pc_status;
    /// Opens a union, which holds modules alone. scaffold: name of its member in the default layout, or
    /// NULL.
    pub fn pc_schema_builder_begin_union(
        builder: *mut pc_schema_builder,
        scaffold: *const c_char,
    ) -> pc_status;
    /// Opens a turn of a conversation: its texts, modules and parameters stand between the pieces of the
    /// model's chat template. role: "system", "user" or "assistant".
    pub fn pc_schema_builder_begin_turn(
        builder: *mut pc_schema_builder,
        role: *const c_char,
    ) -> pc_status;
    /// Closes the module, union or turn that was opened last. Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) if none is open.
    pub fn pc_schema_builder_end(builder: *mut pc_schema_builder) -> pc_status;
    /// Adds room for an argument of `length` tokens to the open module. scaffold \[size\]: text that
    /// stands there while the module is encoded; NULL: none.
    pub fn pc_schema_builder_add_parameter(
        builder: *mut pc_schema_builder,
        name: *const c_char,
        length: i64,
        scaffold: *const c_char,
        size: usize,
    ) -> pc_status;
    /// Modules that are encoded jointly, for prompts that use all of them: paths \[count\], at least 2.
    /// Only while nothing is open ([`PC_ERR_STATE`](crate::PC_ERR_STATE)).
    pub fn pc_schema_builder_add_scaffold(
        builder: *mut pc_schema_builder,
        modules: *const *const c_char,
        count: usize,
    ) -> pc_status;
    /// Makes a schema of what the builder has; it may go on afterwards. Returns as [`pc_schema_parse`](crate::pc_schema_parse), and
    /// [`PC_ERR_STATE`](crate::PC_ERR_STATE) if something is open.
    pub fn pc_schema_from_builder(
        out: *mut *mut pc_schema,
        builder: *const pc_schema_builder,
    ) -> pc_status;
    /// Begins an empty prompt of a schema. The builder holds the schema. Handle: one thread at a time.
    pub fn pc_prompt_builder_new(
        out: *mut *mut pc_prompt_builder,
        schema: *const pc_schema,
    ) -> pc_status;
    /// Releases the caller's reference. NULL does nothing.
    pub fn pc_prompt_builder_free(builder: *mut pc_prompt_builder);
    /// Uses a module, and those around it in its path. Text that follows stands behind the outermost.
    pub fn pc_prompt_builder_use(
        builder: *mut pc_prompt_builder,
        module: *const c_char,
    ) -> pc_status;
    /// An argument for a parameter of the module that was used last. Returns [`PC_ERR_STATE`](crate::PC_ERR_STATE) (none was
    /// used, or something was added since), [`PC_ERR_PML`](crate::PC_ERR_PML) (it has an argument).
    pub fn pc_prompt_builder_add_argument(
        builder: *mut pc_prompt_builder,
        parameter: *const c_char,
        text: *const c_char,
        size: usize,
    ) -> pc_status;
    /// As of the schema's builder.
    pub fn pc_prompt_builder_add_text(
        builder: *mut pc_prompt_builder,
        text: *const c_char,
        size: usize,
        flags: u64,
    ) -> pc_status;
    /// As of the schema's builder.
    pub fn pc_prompt_builder_begin_turn(
        builder: *mut pc_prompt_builder,
        role: *const c_char,
    ) -> pc_status;
    /// As of the schema's builder.
    pub fn pc_prompt_builder_end(builder: *mut pc_prompt_builder) -> pc_status;
    /// Makes a prompt of what the builder has; it may go on afterwards. options: flags may have
    /// [`PC_PML_OVERLAP`](crate::PC_PML_OVERLAP). Returns as [`pc_prompt_parse`](crate::pc_prompt_parse), and [`PC_ERR_STATE`](crate::PC_ERR_STATE) if a turn is open.
    pub fn pc_prompt_from_builder(
        out: *mut *mut pc_prompt,
        builder: *const pc_prompt_builder,
        options: *const pc_prompt_options,
    ) -> pc_status;
    /// The conversation as the model's chat template writes it: text \[capacity\], not NUL-terminated.
    /// \*size gets its bytes. messages must not name modules, nor options a schema.
    /// Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (capacity), [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) (the template is not known, or fails for this
    /// conversation), [`PC_ERR_FORMAT`](crate::PC_ERR_FORMAT) (JSON that is none, with its place).
    pub fn pc_chat_format(
        model: *const pc_model,
        messages: *const pc_message,
        message_stride: usize,
        count: usize,
        options: *const pc_chat_options,
        text: *mut c_char,
        capacity: usize,
        size: *mut usize,
    ) -> pc_status;
    /// A prompt of a conversation. Without a schema it is as one of [`pc_prompt_from_tokens`](crate::pc_prompt_from_tokens): it reuses any
    /// beginning that it has in common with an earlier one. With a schema it is as one of
    /// [`pc_prompt_from_builder`](crate::pc_prompt_from_builder), but its modules stand where the messages name them, one behind the other,
    /// if the model's states can be moved and no text stands between modules of the schema. If the
    /// schema has turns itself, the messages go on behind them, positions are the schema's, and roles
    /// are system, user and assistant, without tools and further members.
    /// Returns as [`pc_chat_format`](crate::pc_chat_format) and [`pc_prompt_parse`](crate::pc_prompt_parse); [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) also if the template does not
    /// write each module once; [`PC_ERR_MISMATCH`](crate::PC_ERR_MISMATCH) (a schema of another model).
    pub fn pc_prompt_from_messages(
        out: *mut *mut pc_prompt,
        model: *const pc_model,
        messages: *const pc_message,
        message_stride: usize,
        count: usize,
        options: *const pc_chat_options,
    ) -> pc_status;
    /// Appends messages behind the answer so far: closes it (but for a stop token that was just
    /// sampled), writes the messages, opens the next answer. They must not name modules, nor options a
    /// schema.
    /// Returns as [`pc_sequence_push`](crate::pc_sequence_push) and [`pc_chat_format`](crate::pc_chat_format); [`PC_ERR_UNSUPPORTED`](crate::PC_ERR_UNSUPPORTED) also if the template would
    /// write the last answer otherwise than it is, or may count turns (doc/prompts.md).
    pub fn pc_sequence_push_messages(
        sequence: *mut pc_sequence,
        messages: *const pc_message,
        message_stride: usize,
        count: usize,
        options: *const pc_chat_options,
    ) -> pc_status;
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_system_format_init(format: *mut pc_system_format, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_item_init(item: *mut pc_item, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_part_init(part: *mut pc_part, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_chat_options_init(options: *mut pc_chat_options, size: usize);
    /// As [`pc_context_options_init`](crate::pc_context_options_init).
    pub fn pc_sampling_init(sampling: *mut pc_sampling, size: usize);
    /// Waits until the task is done, at most `seconds`: 0 does not wait, INFINITY has no end.
    /// Returns [`PC_AGAIN`](crate::PC_AGAIN) (not done yet), or what the call without a task would have returned;
    /// [`pc_error_text`](crate::pc_error_text)() and [`pc_error_place`](crate::pc_error_place)() are then of this thread. May be asked again. Returns
    /// [`PC_ERR_STATE`](crate::PC_ERR_STATE) too, in a callback of the task, and in a child after fork().
    pub fn pc_task_wait(task: *mut pc_task, seconds: f64) -> pc_status;
    /// A descriptor for poll, epoll or an event loop. It becomes readable when the task is done, and
    /// stays so: do not read it. Made by the first call, the task's own, closed on exec: [`pc_task_free`](crate::pc_task_free)
    /// closes it. An eventfd on Linux, else a pipe. Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (there are no descriptors
    /// left), [`PC_ERR_STATE`](crate::PC_ERR_STATE) (in a child after fork()).
    pub fn pc_task_fd(task: *mut pc_task, out: *mut i32) -> pc_status;
    /// Waits until the task is done, and frees it; its status is lost. In a callback of the task it does
    /// not wait: the task goes when the work ends. NULL does nothing.
    pub fn pc_task_free(task: *mut pc_task);
    /// [`pc_batch_step`](crate::pc_batch_step) on another thread. The task holds the batch; free its sequences and the batch in
    /// any order. Of several batches as many steps run at once. Returns [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) (no thread can be
    /// started), and [`PC_ERR_STATE`](crate::PC_ERR_STATE) as [`pc_batch_step`](crate::pc_batch_step). The task's status is that of [`pc_batch_step`](crate::pc_batch_step).
    pub fn pc_batch_step_async(out: *mut *mut pc_task, batch: *mut pc_batch) -> pc_status;
    /// [`pc_attend`](crate::pc_attend) on another thread. `args`, and what it points to but K, V, q, out and lse, is read
    /// before the call returns; these belong to the task until it is done. Returns all errors of
    /// arguments at once, and [`PC_ERR_LIMIT`](crate::PC_ERR_LIMIT) as [`pc_batch_step_async`](crate::pc_batch_step_async).
    ///
    /// On a backend that queues ("cuda"), the call queues the work as with [`PC_ATTEND_QUEUE`](crate::PC_ATTEND_QUEUE), which need
    /// not be set, and the task is done when the stream has done it. The plan does not belong to the
    /// task there: further calls of it may queue more.
    pub fn pc_attend_async(
        out: *mut *mut pc_task,
        plan: *mut pc_plan,
        args: *const pc_attend_args,
    ) -> pc_status;
}

/// What the headers say beside their declarations.
pub mod headers {
    /// promptcache: stop computing attention state twice.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// This header has what every user needs: context, model, cache, schema, prompt, generation;
    /// one request at a time. Further headers, for the same library:
    /// ```text
    /// promptcache/batch.h     sequences: requests that are stepped together, continued and branched
    /// promptcache/sampling.h  how tokens are drawn, and what is told of drawn ones
    /// promptcache/grammar.h   answers that match a JSON schema, a grammar or a regular expression
    /// promptcache/prompt.h    schemas and prompts without PML; their layout
    /// promptcache/cache.h     statistics, events, pins, quotas; K/V of another runtime by key
    /// promptcache/extend.h    your own model, codecs, segments by hand
    /// promptcache/task.h      steps and attention that run while the caller goes on
    /// promptcache/attend.h    attention over your own queries, keys and values
    /// promptcache/embed.h     embeddings of prompts
    /// promptcache/memo.h      attention maps of similar prompts; classes and choices
    /// promptcache/admin.h     folders of records, system prompts, costs, model files before loading
    /// promptcache/bench.h     baselines, random models, traces: for measuring, without promise
    ///
    /// ```
    /// The smallest useful program. It answers a prompt of cached modules and prints where its tokens
    /// came from (test/consumer builds and runs exactly this text):
    ///
    /// ```text
    /// #include <promptcache.h>
    /// #include <stdio.h>
    ///
    /// static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
    /// {
    ///     (void)user; (void)sample;
    ///     return fwrite(text, 1, size, stdout) == size ? 0 : 1;
    /// }
    ///
    /// int main(int argc, char **argv)
    /// {
    ///     pc_context *context = NULL; pc_model *model = NULL; pc_cache *cache = NULL;
    ///     pc_schema *schema = NULL; pc_prompt *prompt = NULL;
    ///     pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    ///     pc_stats stats = PC_STATS_INIT;
    ///     options.on_text = print_text;
    ///     if (argc != 4 || pc_context_new(&context, NULL)
    ///         || pc_model_load(&model, context, argv[1], NULL)
    ///         || pc_cache_new(&cache, context, NULL) || pc_schema_load(&schema, model, argv[2], NULL)
    ///         || pc_prompt_load(&prompt, &schema, 1, argv[3], NULL)
    ///         || pc_generate(prompt, cache, &options, &stats))
    ///         fprintf(stderr, "%s\n", pc_error_text());
    ///     printf("\n%llu of %llu tokens came from the cache\n",
    ///            (unsigned long long)stats.tokens_cached, (unsigned long long)stats.tokens_prompt);
    ///     pc_prompt_free(prompt); pc_schema_free(schema); pc_cache_free(cache); pc_model_free(model);
    ///     pc_context_free(context);
    ///     return stats.tokens_prompt ? 0 : 1;
    /// }
    ///
    /// ```
    /// Conventions
    /// - A call that can fail returns [`pc_status`](crate::pc_status): 0 is success, \> 0 a normal outcome with another
    ///   meaning, \< 0 an error. After an error, [`pc_error_text`](crate::pc_error_text)() names place and cause in one line.
    /// - Every call can return `PC_ERR_INVALID` (a NULL argument, an unknown flag or enumerator, a NaN, an
    ///   array longer than memory, a struct that was not initialised) and `PC_ERR_NOMEM`. An enumerator
    ///   that exists, but not for this call, is `PC_ERR_UNSUPPORTED`, as is a set field of a struct that
    ///   this library does not know. Comments name the other codes; doc/errors.md explains all.
    /// - `pc_x_new/load/parse(&out, ...)` sets \*out to NULL on failure. `pc_x_free(NULL)` does nothing;
    ///   `pc_x_count(NULL)` is 0. Objects hold references to each other, so they may be freed in any
    ///   order.
    /// - Option and result structs begin with `struct_size`. INIT macros set it, and zero everything else:
    ///   zero is the default of every field. For languages without macros, `pc_x_init`(&x, sizeof x) does
    ///   the same to a `pc_x`. NULL for an option struct means all defaults. Reserved fields and unknown
    ///   flag bits must be zero.
    /// - Constants are enumerators of type int. Flags fit 31 bits, their fields are `uint64_t`: set them
    ///   by `flags |= PC_A | PC_B`, clear one by `flags &= ~(uint64_t)PC_A`.
    /// - Strings are UTF-8. Token ids are `int32_t`, positions `int64_t`. Sizes count bytes or tokens, as
    ///   named. Arrays are dense; the last dimension in \[\]\[\] is the fastest. Times are seconds. K, V and
    ///   other numbers are fp32 unless the comment says otherwise.
    /// - The library reads or copies arguments during the call, unless the comment says how long they
    ///   must live. A returned pointer is borrowed until the event that the comment names, else while
    ///   the object lives.
    /// - Structs in arrays have no `struct_size`. Their array has a stride beside it, the bytes from one
    ///   element to the next: sizeof of the struct. It is needed where the count is not 0. In arrays
    ///   that the library gives to a callback, step by it too.
    /// - An index beyond the end is `PC_ERR_NOT_FOUND`.
    /// - A call that fills an array always sets the count of what there is. It returns `PC_ERR_LIMIT` if
    ///   the capacity is too small. With NULL and capacity 0 it only counts, and returns `PC_OK`.
    /// - A call that computes logits or embeddings returns `PC_ERR_INTERNAL` if no number of a row is
    ///   finite. The text names model, sequence and position.
    /// - Threads: "Handle:" tells the rule of an object. Any threads may use \*immutable\* and \*internally
    ///   locked\* objects at once; other objects belong to one thread at a time. Free an object when no
    ///   call uses it any more (doc/threading.md).
    /// - Calls return at once unless they compute, read or write files, or say that they block.
    /// - What says no version is since 0.9.
    ///
    /// Caveats
    /// - After fork(), a child computes on one thread. It cannot use caches with tiers below RAM, memos
    ///   and folders of its parent (`PC_ERR_STATE`), and may free everything (doc/threading.md).
    /// - Callbacks run on the calling thread unless the comment says otherwise. They may free any
    ///   object: a call holds its objects until it returns (doc/threading.md). They must return: no C++
    ///   exception and no longjmp may leave one.
    /// - Do not dlclose() the library while a context lives.
    ///
    /// # Version
    ///
    ///
    ///
    /// # Errors
    ///
    ///
    ///
    /// # Context
    ///
    ///
    ///
    /// # Models
    ///
    ///
    ///
    /// # Cache
    ///
    ///
    ///
    /// # Schemas
    ///
    ///
    ///
    /// # Prompts
    ///
    ///
    ///
    /// # Generation
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod promptcache {}
    /// promptcache/admin.h: system prompts by name, model files before they are loaded, folders of
    /// records, costs of this machine, plug-in modules, foreign text.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # System prompts of a server's applications, by name
    ///
    ///
    ///
    /// # Models, before they are loaded
    ///
    ///
    ///
    /// # Folders of records, without a model
    ///
    ///
    ///
    /// # Costs of this machine
    ///
    /// How many rows read a run together follows from the cost of a pass over it. Estimates are built
    /// in. [`pc_calibrate`](crate::pc_calibrate) measures, and writes the result to a file that all contexts of the user read
    /// when they first need it: $`PC_COSTS` if set (a path with a slash; "builtin": no file),
    /// else promptcache/costs in $`XDG_CACHE_HOME` or \~/.cache. A file of another CPU is not used.
    ///
    /// # Plug-in modules
    ///
    ///
    ///
    /// # Foreign text
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod admin {}
    /// promptcache/attend.h: attention over your own queries, keys and values.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Attention by hand
    ///
    /// Segmented attention (RelayAttention, section 3; Hydragen, section 3) over the application's
    /// memory: of the host, or of the device of the context's backend ([`pc_attend_args`](crate::pc_attend_args) says what lies
    /// where).
    ///
    /// K and V lie in runs. A run is any number of tokens of one layer. There are two kinds, which a
    /// plan may mix: packed runs, and runs in a pool, the pages of a runtime's own paged cache
    /// ([`pc_pool`](crate::pc_pool)). Packed runs are the faster kind. They have pages of `PC_PAGE_TOKENS` tokens:
    /// \[page\]\[`kv_head`\]\[page of one head\], 64-byte aligned. A page of one head is its K block, then its V
    /// block:
    ///
    /// ```text
    /// PC_DTYPE_F32        K [k_dim][PC_PAGE_TOKENS]
    ///                     V [PC_PAGE_TOKENS][v_dim]
    /// PC_DTYPE_BF16, F16  K [k_dim / 2][PC_PAGE_TOKENS][2] (k_dim rounded up to even)
    ///                     V [PC_PAGE_TOKENS / 2][v_dim][2]
    /// PC_DTYPE_I8         K [k_dim / 4][PC_PAGE_TOKENS][4] (k_dim rounded up to a multiple of 4),
    ///                       then bf16 scales [k_dim], zeros up to 64 bytes
    ///                     V [PC_PAGE_TOKENS / 4][v_dim][4],
    ///                       then bf16 scales [PC_PAGE_TOKENS], zeros up to 64 bytes
    ///
    /// ```
    /// A row is one query token. It holds spans: runs, or parts of them, each placed at a start
    /// position. A run that several rows hold is read once for all of them, whatever tree they form.
    /// Partial results are merged in fp32. A row that sees nothing gives zeros and an LSE of -infinity.
    ///
    /// Several query tokens of one request (a chunk of its prompt, drafts to verify) are as many rows
    /// with the same spans. In causal order, `hi` of the span that holds their own keys rises by one
    /// from row to row.
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod attend {}
    /// promptcache/batch.h: requests that are stepped together, continued and branched.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Sequences and batches
    ///
    ///
    ///
    /// # Conversations that outlive the process
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod batch {}
    /// promptcache/cache.h: the cache in operation: statistics, events, pins, quotas; and as a store by
    /// key, for K and V of another runtime.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Events
    ///
    ///
    ///
    /// # Statistics
    ///
    ///
    ///
    /// # Room
    ///
    ///
    ///
    /// # K and V of another runtime in the cache, without our engine * * Entries under keys of the application go to whoever has the key: a salt is part of a key only if * the application puts it there (pc_key_parts).
    ///
    ///
    ///
    /// # Many keys at once, in tiers of the caller's choice
    ///
    /// Tiers of a call: a mask of `PC_TIERS_…`; 0: all that the cache has. A call that names only tiers
    /// that the cache lacks is `PC_ERR_INVALID`.
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod cache {}
    /// promptcache/embed.h: embeddings of prompts.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Embeddings of prompts * * An embedding is made of the last hidden states of a prompt, behind the model's final norm. * Prompts of decoders reuse modules and beginnings that the cache has. To reuse attention maps of * similar prompts, and for logits, classes or states instead of embeddings, see pc_prefill in * promptcache/memo.h: the same computation.
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod embed {}
    /// promptcache/extend.h: your own model, codecs, and segments by hand.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # An application's own model: its weights, K/V and kernels stay its own
    ///
    ///
    ///
    /// # Codecs of the application
    ///
    ///
    ///
    /// # Segments by hand
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod extend {}
    /// promptcache/grammar.h: answers that match a JSON schema, a grammar or a regular expression.
    /// Conventions: promptcache.h. Everything here is since version 0.10.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Grammars
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod grammar {}
    /// promptcache/memo.h: attention maps of similar prompts; embeddings, classes and choices by them.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Memos
    ///
    /// The calls below block. They return `PC_ERR_STATE` (opened read-only), `PC_ERR_CANCELLED`, `PC_ERR_IO`.
    ///
    /// # Prompts without an answer
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod memo {}
    /// promptcache/prompt.h: schemas, prompts and conversations without PML; layouts.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Schemas of a format with a system prompt
    ///
    ///
    ///
    /// # Layout
    ///
    ///
    ///
    /// # Schemas and prompts of bytes, without PML * * A builder makes what a PML document makes (doc/prompts.md), from bytes. Nothing in a text has a * meaning: it may have NULs, form feeds, "<", blanks at its ends. The text of a special token stays * text unless PC_PROMPT_SPECIAL is set. Equal texts give equal tokens and keys, with PML or * without. A name is any text that is not empty and has no '/'. In a path, '/' separates the names * of a module and of those around it: "trip/hotel". * * A call that fails leaves the builder as it was. Faults that come from several calls together (two * modules of one name, an unknown module, a text that is too long) are found when the schema or * prompt is made; the text names the element that is at fault by its number: every call that adds * or begins something counts, from 1. Every call can return PC_ERR_LIMIT (more than 127 elements * around one).
    ///
    ///
    ///
    /// # Conversations * * A conversation becomes text by the model's chat template (doc/prompts.md). Special tokens of the * template become tokens. What messages, tools and variables say stays text, whatever it looks * like.
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod prompt {}
    /// promptcache/sampling.h: how tokens are drawn, and what is told of drawn ones.
    /// Conventions: promptcache.h.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Sampling
    ///
    ///
    ///
    /// # Drawn tokens
    ///
    ///
    ///
    /// # INIT macros
    ///
    ///
    ///
    pub mod sampling {}
    /// promptcache/task.h: steps and attention that run while the caller goes on.
    /// Conventions: promptcache.h. Everything here is since version 0.10.
    ///
    /// Copyright (c) The promptcache authors. SPDX-License-Identifier: Apache-2.0
    ///
    /// # Tasks
    ///
    ///
    ///
    pub mod task {}
}

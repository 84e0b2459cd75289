// Written by generate.py from the description of the headers. Do not edit.

macro_rules! c_doc {
    (pc_version) => {
        r##"By [`pc_version`](crate::sys::pc_version):

"0.10.0". Static. Any thread."##
    };
    (pc_abi_version) => {
        r##"By [`pc_abi_version`](crate::sys::pc_abi_version):

[`PC_ABI_VERSION`](crate::sys::PC_ABI_VERSION) of the library that runs. Any thread."##
    };
    (pc_status_name) => {
        r##"By [`pc_status_name`](crate::sys::pc_status_name):

Name and text of a code: "[`PC_ERR_IO`](crate::Status::Io)", "input or output failed". Static, never NULL, also for an
unknown code. Any thread."##
    };
    (pc_status_text) => {
        r##"By [`pc_status_text`](crate::sys::pc_status_text):

Name and text of a code: "[`PC_ERR_IO`](crate::Status::Io)", "input or output failed". Static, never NULL, also for an
unknown code. Any thread."##
    };
    (pc_error_text) => {
        r##"By [`pc_error_text`](crate::sys::pc_error_text):

One line about this thread's last failing call. Never NULL. Borrowed until this thread's next
failing call. Read it only right after a negative return."##
    };
    (pc_error_place) => {
        r##"By [`pc_error_place`](crate::sys::pc_error_place):

Line and column, from 1, of the document that this thread's last failing call was about: PML, a
format string, JSON. Columns count characters. Both 0: none. Either may be NULL."##
    };
    (pc_error_set) => {
        r##"By [`pc_error_set`](crate::sys::pc_error_set):

Says why a function of the application fails. Call it right before that function returns an error
or cancels. The library's call that fails for this reason puts the text into [`pc_error_text`](crate::sys::pc_error_text),
behind the function's name: "the application's model: step: out of device memory". text: one
line, cut at 511 bytes, copied, made fit as by [`pc_text_show`](crate::sys::pc_text_show) (admin.h); NULL or "": no text. If
the function succeeds after all, the text is not used. Elsewhere it sets this thread's error
text. Any thread."##
    };
    (pc_context_new) => {
        r##"By [`pc_context_new`](crate::sys::pc_context_new):

Makes a context and starts its threads. Between calls it holds at most 48 MiB of work memory, so
that computing does not fault in fresh pages each time.
Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported), with the reason, if the backend is not there or has no device, and
[`PC_ERR_INVALID`](crate::Status::Invalid) also if a variable of the environment has a value that means nothing, such as
`PC_LINEAR`=bogus: the text lists what is allowed (doc/building.md has the variables).
Handle: internally locked."##
    };
    (pc_model_load) => {
        r##"By [`pc_model_load`](crate::sys::pc_model_load):

Loads a model. Blocks; reports progress.
path: a GGUF file, a Hugging Face folder (config.json, safetensors, tokenizer), or a llama2.c
checkpoint with tokenizer.bin beside it.
Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) (no such file, or a file, tensor, tokenizer or chat template is
missing), [`PC_ERR_IO`](crate::Status::Io), [`PC_ERR_FORMAT`](crate::Status::Format) (names file, offset or key, and cause), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported)
(the model needs something that the library cannot compute exactly), [`PC_ERR_MISMATCH`](crate::Status::Mismatch) (the
vocabulary lacks a special token of `chat_template`), [`PC_ERR_CANCELLED`](crate::Status::Cancelled). Handle: immutable."##
    };
    (pc_model_get_info) => {
        r##"By [`pc_model_get_info`](crate::sys::pc_model_get_info):

Writes up to info-\>`struct_size` bytes of the model's facts."##
    };
    (pc_tokenize) => {
        r##"By [`pc_tokenize`](crate::sys::pc_tokenize):

Text to token ids: tokens \[capacity\].
Returns [`PC_ERR_LIMIT`](crate::Status::Limit) (capacity), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the model has no tokenizer)."##
    };
    (pc_detokenize) => {
        r##"By [`pc_detokenize`](crate::sys::pc_detokenize):

Token ids to text \[capacity\], without a terminating NUL. Special tokens are left out unless
[`PC_TOKENIZE_SPECIAL`](crate::TokenizeFlags::SPECIAL) is set. Returns as [`pc_tokenize`](crate::sys::pc_tokenize)."##
    };
    (pc_cache_new) => {
        r##"By [`pc_cache_new`](crate::sys::pc_cache_new):

Opens a cache and starts its I/O threads.
Returns [`PC_ERR_IO`](crate::Status::Io) or [`PC_ERR_STATE`](crate::Status::State) (the folder cannot be used), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the library
was built without a tier's library). A server that does not answer is no error: the cache tries
again. A disk without room for a new folder is logged, and DISK fails until there is room. So is
a folder that another process keeps locked: it is read, and nothing is written until it is free.
Handle: internally locked. One cache may serve many models."##
    };
    (pc_cache_flush) => {
        r##"By [`pc_cache_flush`](crate::sys::pc_cache_flush):

Waits until every entry that was stored before has reached its tiers or failed to. Blocks at most
as long as the deadlines of the queue. Returns [`PC_MISS`](crate::Status::Miss) if, since the last call or since the cache
was opened, an entry did not get into a tier that it was to be written to: dropped, refused or
failed of a tier below RAM has grown ([`pc_tier_stats`](crate::TierStats)). Of calls at the same time, one tells."##
    };
    (pc_schema_load) => {
        r##"By [`pc_schema_load`](crate::sys::pc_schema_load):

Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with the model's
tokenizer. Returns [`PC_ERR_PML`](crate::Status::Pml) (names file, line and column; also a chat tag without a known chat
template), [`PC_ERR_LIMIT`](crate::Status::Limit) (longer than the model's context), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) and [`PC_ERR_IO`](crate::Status::Io) of the
file, [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the model has no tokenizer). Handle: immutable."##
    };
    (pc_schema_parse) => {
        r##"By [`pc_schema_parse`](crate::sys::pc_schema_parse):

Parses a schema (doc/pml.md; Prompt Cache, section 3.2) and lays it out with the model's
tokenizer. Returns [`PC_ERR_PML`](crate::Status::Pml) (names file, line and column; also a chat tag without a known chat
template), [`PC_ERR_LIMIT`](crate::Status::Limit) (longer than the model's context), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) and [`PC_ERR_IO`](crate::Status::Io) of the
file, [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the model has no tokenizer). Handle: immutable."##
    };
    (pc_schema_name) => {
        r##"By [`pc_schema_name`](crate::sys::pc_schema_name):

borrowed"##
    };
    (pc_schema_length) => {
        r##"By [`pc_schema_length`](crate::sys::pc_schema_length):

positions that it spans"##
    };
    (pc_schema_encode) => {
        r##"By [`pc_schema_encode`](crate::sys::pc_schema_encode):

Encodes all modules of a schema into the cache (Prompt Cache, section 3.3). Without this call
each module is encoded at its first use. Blocks. Returns [`PC_MISS`](crate::Status::Miss) (everything was encoded, but the
budget has no room for all of it), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (EXACT), [`PC_ERR_CANCELLED`](crate::Status::Cancelled) (finished modules
stay in the cache)."##
    };
    (pc_schema_prefetch) => {
        r##"By [`pc_schema_prefetch`](crate::sys::pc_schema_prefetch):

Starts loading the schema's segments from lower tiers into free room of RAM, without waiting.
Uses `encoding`, `rope_regime_length`, salts and adapter of the options. \*started (may be NULL):
number of loads. Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (EXACT)."##
    };
    (pc_prompt_load) => {
        r##"By [`pc_prompt_load`](crate::sys::pc_prompt_load):

Parses a prompt and resolves it against the schema that it names (Prompt Cache, sections 3.2.1
and 3.4). The prompt holds that schema. schemas \[count\]: a prompt that names none takes the only
one given. Of the prompt's own text, blocks of 64 tokens go to the cache, for prompts that begin
with the same modules and text (not with [`PC_VISIBLE_ALL`](crate::Visibility::All) or a repair above [`PC_REPAIR_NONE`](crate::Repair::None)).
Returns [`PC_ERR_PML`](crate::Status::Pml) (line and column), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) (no such file; the named schema is not
given; none is named and several are given), [`PC_ERR_INVALID`](crate::Status::Invalid) (two given schemas have the name),
[`PC_ERR_LIMIT`](crate::Status::Limit). Handle: immutable."##
    };
    (pc_prompt_parse) => {
        r##"By [`pc_prompt_parse`](crate::sys::pc_prompt_parse):

Parses a prompt and resolves it against the schema that it names (Prompt Cache, sections 3.2.1
and 3.4). The prompt holds that schema. schemas \[count\]: a prompt that names none takes the only
one given. Of the prompt's own text, blocks of 64 tokens go to the cache, for prompts that begin
with the same modules and text (not with [`PC_VISIBLE_ALL`](crate::Visibility::All) or a repair above [`PC_REPAIR_NONE`](crate::Repair::None)).
Returns [`PC_ERR_PML`](crate::Status::Pml) (line and column), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) (no such file; the named schema is not
given; none is named and several are given), [`PC_ERR_INVALID`](crate::Status::Invalid) (two given schemas have the name),
[`PC_ERR_LIMIT`](crate::Status::Limit). Handle: immutable."##
    };
    (pc_prompt_from_tokens) => {
        r##"By [`pc_prompt_from_tokens`](crate::sys::pc_prompt_from_tokens):

A prompt without PML: tokens, or text, with BOS and EOS by the model's convention. It reuses any
prefix that an earlier prompt of this kind has in common with it."##
    };
    (pc_prompt_from_text) => {
        r##"By [`pc_prompt_from_text`](crate::sys::pc_prompt_from_text):

A prompt without PML: tokens, or text, with BOS and EOS by the model's convention. It reuses any
prefix that an earlier prompt of this kind has in common with it."##
    };
    (pc_generate) => {
        r##"By [`pc_generate`](crate::sys::pc_generate):

Answers a prompt: looks its modules up, encodes missing ones, computes the new tokens and samples
until a stop. Blocks.
cache: NULL: nothing is looked up or stored. stats: may be NULL; also written on failure, as far
as the work came.
Returns [`PC_ERR_CANCELLED`](crate::Status::Cancelled), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (e.g. a module of a model with learned positions
would have to move), [`PC_ERR_LIMIT`](crate::Status::Limit).

With options-\>memo, a plain prompt that no tier of the cache has anything of is looked up in the
memo (see [`pc_prefill`](crate::sys::pc_prefill)). After a hit, values are computed with the other prompt's maps and keys
afterwards. The request goes on from those states and is [`PC_APPROXIMATE`](crate::Exactness::Approximate). The states are its own:
the cache does not store them. A verified hit goes on from the full computation and is [`PC_EXACT`](crate::Exactness::Exact),
but is not stored either; nor is a miss of a memo with [`PC_MEMO_LAYERS`](crate::MemoFlags::LAYERS). Other misses are computed
and stored as without a memo. stats-\>`memo_reason` tells why a prompt was not looked up. Returns
[`PC_ERR_MISMATCH`](crate::Status::Mismatch) (the memo is of another model), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model, or
salts are given)."##
    };
    (pc_systems_new) => {
        r##"By [`pc_systems_new`](crate::sys::pc_systems_new):

Makes an empty list, which holds model and cache.
Returns [`PC_ERR_PML`](crate::Status::Pml) (of the format), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) and [`PC_ERR_IO`](crate::Status::Io) of its file,
[`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (EXACT). Handle: internally locked."##
    };
    (pc_systems_fill) => {
        r##"By [`pc_systems_fill`](crate::sys::pc_systems_fill):

Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
everything before the user slot, or by any schema of the same model. Blocks while it encodes;
until then the old schema answers. Returns [`PC_MISS`](crate::Status::Miss) (added, but the cache has no room for all of
its states), [`PC_ERR_LIMIT`](crate::Status::Limit), [`PC_ERR_MISMATCH`](crate::Status::Mismatch). After an error nothing has changed."##
    };
    (pc_systems_fill_tokens) => {
        r##"By [`pc_systems_fill_tokens`](crate::sys::pc_systems_fill_tokens):

Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
everything before the user slot, or by any schema of the same model. Blocks while it encodes;
until then the old schema answers. Returns [`PC_MISS`](crate::Status::Miss) (added, but the cache has no room for all of
its states), [`PC_ERR_LIMIT`](crate::Status::Limit), [`PC_ERR_MISMATCH`](crate::Status::Mismatch). After an error nothing has changed."##
    };
    (pc_systems_fill_schema) => {
        r##"By [`pc_systems_fill_schema`](crate::sys::pc_systems_fill_schema):

Adds a name (1 to 63 bytes) or replaces its schema: by a system prompt's text, by the tokens of
everything before the user slot, or by any schema of the same model. Blocks while it encodes;
until then the old schema answers. Returns [`PC_MISS`](crate::Status::Miss) (added, but the cache has no room for all of
its states), [`PC_ERR_LIMIT`](crate::Status::Limit), [`PC_ERR_MISMATCH`](crate::Status::Mismatch). After an error nothing has changed."##
    };
    (pc_systems_drop) => {
        r##"By [`pc_systems_drop`](crate::sys::pc_systems_drop):

Removes a name; its segments are unpinned. Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound)."##
    };
    (pc_systems_clear) => {
        r##"By [`pc_systems_clear`](crate::sys::pc_systems_clear):

Removes all names. Others may add names meanwhile. [`PC_OK`](crate::Status::Ok) also for an empty list."##
    };
    (pc_systems_find) => {
        r##"By [`pc_systems_find`](crate::sys::pc_systems_find):

The schema of a name, as a reference for the caller, for [`pc_prompt_fill`](crate::sys::pc_prompt_fill).
Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) (lists the names)."##
    };
    (pc_systems_count) => {
        r##"By [`pc_systems_count`](crate::sys::pc_systems_count):

The list, in the order in which names were added. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond its end."##
    };
    (pc_systems_get) => {
        r##"By [`pc_systems_get`](crate::sys::pc_systems_get):

The list, in the order in which names were added. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond its end."##
    };
    (pc_model_file_open) => {
        r##"By [`pc_model_file_open`](crate::sys::pc_model_file_open):

Opens a model without its weights. options: as of [`pc_model_load`](crate::sys::pc_model_load), without flags. A model that
would be refused opens too, if anything is known of it: see `refusal`. Returns as [`pc_model_load`](crate::sys::pc_model_load)
if nothing is known, or progress cancels. Handle: immutable."##
    };
    (pc_model_file_get_info) => {
        r##"By [`pc_model_file_get_info`](crate::sys::pc_model_file_get_info):

Opens a model without its weights. options: as of [`pc_model_load`](crate::sys::pc_model_load), without flags. A model that
would be refused opens too, if anything is known of it: see `refusal`. Returns as [`pc_model_load`](crate::sys::pc_model_load)
if nothing is known, or progress cancels. Handle: immutable."##
    };
    (pc_model_file_model) => {
        r##"By [`pc_model_file_model`](crate::sys::pc_model_file_model):

The vocabulary, for [`pc_tokenize`](crate::sys::pc_tokenize) and schemas. Its [`pc_model_info`](crate::ModelInfo) is that of the loaded model, but
the fingerprint is zero, and bytes of weights may be off by a percent. Never NULL; borrowed."##
    };
    (pc_model_file_type_count) => {
        r##"By [`pc_model_file_type_count`](crate::sys::pc_model_file_type_count):

Number formats, most bytes first. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond the last."##
    };
    (pc_model_file_get_type) => {
        r##"By [`pc_model_file_get_type`](crate::sys::pc_model_file_get_type):

Number formats, most bytes first. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond the last."##
    };
    (pc_folder_open) => {
        r##"By [`pc_folder_open`](crate::sys::pc_folder_open):

Reads the headers of a folder's records.
Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound), [`PC_ERR_IO`](crate::Status::Io), [`PC_ERR_FORMAT`](crate::Status::Format) (the folder is not ours). Handle: one thread
at a time."##
    };
    (pc_folder_count) => {
        r##"By [`pc_folder_count`](crate::sys::pc_folder_count):

Reads the headers of a folder's records.
Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound), [`PC_ERR_IO`](crate::Status::Io), [`PC_ERR_FORMAT`](crate::Status::Format) (the folder is not ours). Handle: one thread
at a time."##
    };
    (pc_folder_get) => {
        r##"By [`pc_folder_get`](crate::sys::pc_folder_get):

A record as it was when the folder was opened, in the order of names.
Returns [`PC_ERR_FORMAT`](crate::Status::Format) (its header is damaged, or does not fit its name), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (of a
later format), [`PC_ERR_IO`](crate::Status::Io); key, name and `file_bytes` are set all the same."##
    };
    (pc_folder_tokens) => {
        r##"By [`pc_folder_tokens`](crate::sys::pc_folder_tokens):

Tokens of a record: tokens \[capacity\].
Returns [`PC_ERR_LIMIT`](crate::Status::Limit) (capacity), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (sealed with another key)."##
    };
    (pc_folder_verify) => {
        r##"By [`pc_folder_verify`](crate::sys::pc_folder_verify):

Reads a whole record and checks everything that can be checked.
Returns [`PC_ERR_FORMAT`](crate::Status::Format) (names the fault), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) ("frame only: …": the frame is right,
but key or codec is missing for the states), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) (gone since)."##
    };
    (pc_folder_remove) => {
        r##"By [`pc_folder_remove`](crate::sys::pc_folder_remove):

Removes a record. Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) (gone since), [`PC_ERR_IO`](crate::Status::Io), [`PC_ERR_STATE`](crate::Status::State) (another folder
has this path now)."##
    };
    (pc_folder_trim) => {
        r##"By [`pc_folder_trim`](crate::sys::pc_folder_trim):

Evicts records until at most `bytes` are left: expired ones and leftovers of killed writers
first, then by eviction score. \*removed, \*freed (each may be NULL): files and bytes, also on
failure. Returns as [`pc_folder_remove`](crate::sys::pc_folder_remove)."##
    };
    (pc_costs_get) => {
        r##"By [`pc_costs_get`](crate::sys::pc_costs_get):

Costs by which this context makes plans. The first call may read the file."##
    };
    (pc_calibrate) => {
        r##"By [`pc_calibrate`](crate::sys::pc_calibrate):

Measures the costs, uses them in this context and writes the file. Blocks: one thread, well under
a second, 128 MiB. Costs change times, never results.
Returns [`PC_ERR_NOMEM`](crate::Status::Nomem) and [`PC_ERR_CANCELLED`](crate::Status::Cancelled) (nothing has changed), [`PC_ERR_IO`](crate::Status::Io) (in use, but not
written)."##
    };
    (pc_plugin_get) => {
        r##"By [`pc_plugin_get`](crate::sys::pc_plugin_get):

The plug-in module with this index, from 0; opens it, as its first use would. Blocks while a file
is loaded. Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond the last."##
    };
    (pc_text_show) => {
        r##"By [`pc_text_show`](crate::sys::pc_text_show):

Makes foreign text fit to be shown: the name in a file, the answer of a server. Writes one line
of UTF-8. Control characters, which a terminal obeys, marks that turn the direction of text, and
characters without width are written as "\<U+001B\>"; blanks of other kinds become spaces; bytes
that are not UTF-8 become U+FFFD. Error texts and lines of the log have been through it; texts in
results are as the files have them. Writes at most room - 1 bytes and a NUL; what does not fit
ends in "...", between characters. text: `size` bytes, which may have NULs; NULL: none. Returns
the bytes written; 0 if out is NULL or room 0. Eight bytes of room for each of `size` are always
enough. Any thread."##
    };
    (pc_pages_bytes) => {
        r##"By [`pc_pages_bytes`](crate::sys::pc_pages_bytes):

Bytes of a run of `tokens` tokens; 0: the shape is invalid."##
    };
    (pc_pages_write) => {
        r##"By [`pc_pages_write`](crate::sys::pc_pages_write):

Writes tokens of a run. Rotate K by the positions relative to the run's start if the run is to be
moved. Zero the memory before its first use: kernels read, but do not use, the end of the last
page. Threads may write different pages at once. Values are rounded to the run's format; F16
limits them to 65504. I8 writes whole pages, since their scales depend on all their tokens:
`first` is a multiple of [`PC_PAGE_TOKENS`](crate::sys::PC_PAGE_TOKENS), and if `count` is not, the last page is the run's last.
To extend that page, write it again from its first token. No zeroing is needed; infinities become
the largest finite value, NaNs zero. `pages` is host memory, whatever the backend. For a device,
copy the result there, or write pages of the layout above with kernels of your own.
Returns [`PC_ERR_INVALID`](crate::Status::Invalid), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (a dtype that is not read)."##
    };
    (pc_pages_read) => {
        r##"By [`pc_pages_read`](crate::sys::pc_pages_read):

Reads tokens of a run into k and v, of which one may be NULL. Tokens need not begin a page. The
run's values are rounded to `dtype` where that holds less. Other bytes of k and v stay as they
are. Returns as [`pc_pages_write`](crate::sys::pc_pages_write)."##
    };
    (pc_plan_new) => {
        r##"By [`pc_plan_new`](crate::sys::pc_plan_new):

Decides which rows read which runs together (Hydragen, sections 3.2 and 3.3). Use it for all
layers, and make another one when runs have grown or rows have changed: each step of a decoder.
It takes about 0.01 ms for 32 rows over a shared run and one of each, beside several ms of
attention of each layer (doc/performance.md). The context's backend computes it. Returns
[`PC_ERR_LIMIT`](crate::Status::Limit) (more than 32-bit indices reach; a position, start or relative position farther from
0 than 2^60). Handle: one thread at a time (the work runs on the context's threads)."##
    };
    (pc_attend) => {
        r##"By [`pc_attend`](crate::sys::pc_attend):

Attention of all rows of one layer, merged by log-sum-exp (Hydragen, section 3.1; RelayAttention,
section 3.3). q and out in BF16 or F16 are converted as they are read and written: inside, all is
as with fp32. On the CPU, the result of a row does not depend on other rows, bit for bit.
K and V must be finite: a value that is not may reach every row of the plan that reads its run.
The result of a row whose q is not finite is undefined.

Without [`PC_ATTEND_QUEUE`](crate::sys::PC_ATTEND_QUEUE) it blocks. "cpu" allocates only at a plan's first use of a rope.
With it it does not wait for its work. It may wait for earlier work of that stream while its
tables are longer than 1 MiB or device memory is short. Calls of one plan run one after the
other, also in several streams; different plans do not wait for each other. Work memory is the
library's, and is used again in the order of the streams.

Returns [`PC_ERR_INVALID`](crate::Status::Invalid) ("cpu" and a stream or [`PC_ATTEND_QUEUE`](crate::sys::PC_ATTEND_QUEUE), an address or a stream of another
device, among others), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (a stream, sinks, chunks, some of the heads or a dtype
of q or out of a backend that takes none; a stream that is being captured), [`PC_ERR_NOMEM`](crate::Status::Nomem),
[`PC_ERR_INTERNAL`](crate::Status::Internal) with what CUDA says. After an error results are undefined, and part of the work
may still be queued; the plan can be used again. Faults of the device that come later are
returned by the next [`pc_attend`](crate::sys::pc_attend) or call of CUDA, as [`PC_ERR_DEAD`](crate::Status::Dead): then only free what there is."##
    };
    (pc_merge) => {
        r##"By [`pc_merge`](crate::sys::pc_merge):

Joins partial results by their log-sum-exp (Hydragen, section 3.1; FlashInfer's `merge_states`),
in fp32: on the host, wherever they come from, such as a device and this library. A row that saw
nothing in any part gives zeros and -infinity. The order of the parts changes at most the last
bits. Runs on the calling thread and allocates nothing.
Returns [`PC_ERR_INVALID`](crate::Status::Invalid) (an LSE that is NaN or +infinity, among others), [`PC_ERR_LIMIT`](crate::Status::Limit)."##
    };
    (pc_sequence_new) => {
        r##"By [`pc_sequence_new`](crate::sys::pc_sequence_new):

Makes a request that is stepped in a batch. Its first steps look up, encode and prefill.
options: as of [`pc_generate`](crate::sys::pc_generate), copied; samples must be 0 or 1 (use [`pc_sequence_fork`](crate::sys::pc_sequence_fork)). The sequence
holds prompt and cache, and a memo until its prompt is computed.
Returns [`PC_ERR_MISMATCH`](crate::Status::Mismatch) and [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) of the memo, as [`pc_generate`](crate::sys::pc_generate).
Handle: one thread at a time, with its batch, but for [`pc_sequence_cancel`](crate::sys::pc_sequence_cancel).

A finished sequence gives its states back. With [`PC_GENERATE_KEEP`](crate::GenerateFlags::KEEP) it keeps them, whatever ended it
(but for [`PC_ERR_DEAD`](crate::Status::Dead)), and can be pushed to, truncated and forked. If it was cancelled or failed,
it is as after its last completed step; in its prefill: the next step prefills anew."##
    };
    (pc_sequence_fork) => {
        r##"By [`pc_sequence_fork`](crate::sys::pc_sequence_fork):

A second continuation of everything so far, over the same memory. Neither changes what the other
reads. It is in no batch, and has the original's options, with its callbacks; these get the
number of the copy as `sample`. Copies, and copies of those, are numbered from 1, as the samples
of [`pc_generate`](crate::sys::pc_generate); `max_tokens` counts from the original's last push. Returns [`PC_ERR_STATE`](crate::Status::State) as
[`pc_sequence_push`](crate::sys::pc_sequence_push), and before its prompt is computed."##
    };
    (pc_sequence_set_options) => {
        r##"By [`pc_sequence_set_options`](crate::sys::pc_sequence_set_options):

Replaces sampling (its random numbers begin anew), `max_tokens`, `min_tokens`, stops with
[`PC_GENERATE_IGNORE_END`](crate::GenerateFlags::IGNORE_END), `top_logprobs`, callbacks, priority and `deadline_seconds`. After the first
step the other options must be as they were, or the default, which leaves them. Returns
[`PC_ERR_STATE`](crate::Status::State) (names the field), and as [`pc_sequence_push`](crate::sys::pc_sequence_push)."##
    };
    (pc_sequence_cancel) => {
        r##"By [`pc_sequence_cancel`](crate::sys::pc_sequence_cancel):

Ends the turn as if `cancelled` had said so: a step under way gives the sequence up soon, else
the next one that it takes part in. The next push or truncation takes that back. Any thread, at
any time, as long as nobody frees the sequence meanwhile."##
    };
    (pc_sequence_tokens) => {
        r##"By [`pc_sequence_tokens`](crate::sys::pc_sequence_tokens):

Tokens behind the prompt so far, sampled and pushed, with stop tokens; and the final text of
those sampled since the last push. Borrowed until the next step or change."##
    };
    (pc_sequence_text) => {
        r##"By [`pc_sequence_text`](crate::sys::pc_sequence_text):

Tokens behind the prompt so far, sampled and pushed, with stop tokens; and the final text of
those sampled since the last push. Borrowed until the next step or change."##
    };
    (pc_sequence_finish) => {
        r##"By [`pc_sequence_finish`](crate::sys::pc_sequence_finish):

[`PC_FINISH_…`](crate::Finish); NONE while it runs, and for NULL."##
    };
    (pc_sequence_error) => {
        r##"By [`pc_sequence_error`](crate::sys::pc_sequence_error):

The error that has finished the sequence, which becomes [`pc_error_text`](crate::sys::pc_error_text)() too; else, and for NULL,
[`PC_OK`](crate::Status::Ok). \*text (may be NULL): its text, or ""; borrowed until the next push or truncation."##
    };
    (pc_sequence_get_stats) => {
        r##"By [`pc_sequence_get_stats`](crate::sys::pc_sequence_get_stats):

Statistics of the request so far."##
    };
    (pc_sequence_push) => {
        r##"By [`pc_sequence_push`](crate::sys::pc_sequence_push):

Appends tokens: forced ones, or a further turn. The next step computes them and samples behind
them. A finished sequence with [`PC_GENERATE_KEEP`](crate::GenerateFlags::KEEP) goes on, also with count 0; `max_tokens` counts
anew. Returns [`PC_ERR_STATE`](crate::Status::State) (finished without [`PC_GENERATE_KEEP`](crate::GenerateFlags::KEEP), or within a step), [`PC_ERR_LIMIT`](crate::Status::Limit)
(beyond the model's context or the sequence's RoPE regime)."##
    };
    (pc_sequence_truncate) => {
        r##"By [`pc_sequence_truncate`](crate::sys::pc_sequence_truncate):

Drops all but the first `count` tokens behind the prompt, with their states. Text that `on_text`
got is not taken back. The next step samples behind the rest, as if there had never been more.
The sequence is unfinished again, unless the context ends there. To replace the last sampled
token, truncate to one less and push another. Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model
without truncate; or count is 0 and the prompt's highest position was not computed last),
[`PC_ERR_STATE`](crate::Status::State) as [`pc_sequence_push`](crate::sys::pc_sequence_push)."##
    };
    (pc_sequence_logits) => {
        r##"By [`pc_sequence_logits`](crate::sys::pc_sequence_logits):

Logits \[\*count = vocab\] behind all tokens but the last sampled one. NULL without
[`PC_GENERATE_LOGITS`](crate::GenerateFlags::LOGITS) and before the first token, or behind a failed step. Borrowed until the next
step."##
    };
    (pc_batch_new) => {
        r##"By [`pc_batch_new`](crate::sys::pc_batch_new):

Sequences of one model that are stepped together. They may join and leave between steps. K and V
that several of them hold are read once for all (Hydragen, sections 3.1 and 3.2; RelayAttention,
section 3.3). The batch does not own its sequences.
Handle: one thread at a time, with its sequences."##
    };
    (pc_batch_add) => {
        r##"By [`pc_batch_add`](crate::sys::pc_batch_add):

Returns [`PC_ERR_MISMATCH`](crate::Status::Mismatch) (of another model), [`PC_ERR_STATE`](crate::Status::State) (it is in a batch), [`PC_ERR_LIMIT`](crate::Status::Limit)
(`max_sequences`)."##
    };
    (pc_batch_remove) => {
        r##"By [`pc_batch_remove`](crate::sys::pc_batch_remove):

Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) if the sequence is not in this batch."##
    };
    (pc_batch_get_stats) => {
        r##"By [`pc_batch_get_stats`](crate::sys::pc_batch_get_stats):

Counts what the next step reads."##
    };
    (pc_batch_step) => {
        r##"By [`pc_batch_step`](crate::sys::pc_batch_step):

Computes one token for every running sequence, and beside them pieces of the prompts of new ones
(Sarathi-Serve, section 4.2), up to `step_tokens`: by `priority`, deadline and the length of the
rest; now and then the one that has waited longest comes first. The step that ends a prompt
gives its first token. What several prompts miss in the cache is encoded once. Tokens are the
same in whatever pieces. Prompts of an application's model without [`PC_CUTS_PROMPTS`](crate::sys::PC_CUTS_PROMPTS), of one with
latent attention, and those with a memo or a baseline are computed as a whole. A sequence that is
removed keeps what it has. Blocks. Returns [`PC_OK`](crate::Status::Ok) (some go on), [`PC_END`](crate::Status::End) (all are finished), or an
error of the batch itself: [`PC_ERR_NOMEM`](crate::Status::Nomem) (call it again), [`PC_ERR_STATE`](crate::Status::State) (a step of a sequence is
under way). An error of a sequence finishes that one alone ([`pc_sequence_error`](crate::sys::pc_sequence_error))."##
    };
    (pc_batch_changed) => {
        r##"By [`pc_batch_changed`](crate::sys::pc_batch_changed):

The sequences \[\*count\] that got a token or finished in the last step and are still in the batch,
in its order. Borrowed until the next step or change of the batch."##
    };
    (pc_sequence_save) => {
        r##"By [`pc_sequence_save`](crate::sys::pc_sequence_save):

Saves a sequence under a key of the caller's choice \[32\]: tokens and states, not its options. The
sequence goes on as if nothing had happened. Its own states are stored in parts, under keys that
derive from `key` and their bytes, so that saving again under the same key stores only what is
new, and removes parts that the last two saves do not need. What it reads of the cache (modules,
prefixes, levels) is stored too, once for all sequences of the tenant: a module that is evicted
takes nothing along. All of it are entries, which tiers may evict.
Waits while too much waits to be written. The tiers below RAM get it later: [`pc_cache_flush`](crate::sys::pc_cache_flush) waits
for that, and so does the end of the cache, which its last sequence holds up. A crash before that
leaves the save before. One process at a time saves under a key; another one that has an older
save in its own tiers does not see the newer one of a server. Returns [`PC_MISS`](crate::Status::Miss) (something had no
room in any tier, or a tier is out of use: the save before stays), [`PC_ERR_STATE`](crate::Status::State) as
[`pc_sequence_fork`](crate::sys::pc_sequence_fork), and if the cache may not write, [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model: its
sequences cannot be exported), [`PC_ERR_IO`](crate::Status::Io) (a tier may keep the save before)."##
    };
    (pc_sequence_load) => {
        r##"By [`pc_sequence_load`](crate::sys::pc_sequence_load):

Makes a sequence as it was when it was saved last: it can be stepped, pushed to, truncated,
forked and saved, as one with [`PC_GENERATE_KEEP`](crate::GenerateFlags::KEEP). Exact states that come through lossless codecs
give the tokens and logits that it would have given; through a lossy codec it is [`PC_APPROXIMATE`](crate::Exactness::Approximate).
One that an error or a cancellation had finished is unfinished. Its statistics count what was
loaded.
options: as of [`pc_sequence_new`](crate::sys::pc_sequence_new); those that a computed prompt has decided must be as they were, or
the default; sampling, stops, limits and callbacks are not saved. With the seed that it had,
random numbers go on. save: NULL: all defaults.
Returns [`PC_MISS`](crate::Status::Miss), with the reason in \*reason (may be NULL): there is none under this key for this
model and salt, or some part of it is lost, and nothing was loaded. Before that it waits for
parts that are on their way to the tiers below RAM. Returns [`PC_ERR_STATE`](crate::Status::State) as
[`pc_sequence_set_options`](crate::sys::pc_sequence_set_options)."##
    };
    (pc_sequence_forget) => {
        r##"By [`pc_sequence_forget`](crate::sys::pc_sequence_forget):

Removes what was saved under a key, from the tiers of options-\>tiers. Parts that other sequences
of the tenant read too stay. Returns [`PC_MISS`](crate::Status::Miss): there is none; and as [`pc_cache_remove`](crate::sys::pc_cache_remove)."##
    };
    (pc_cache_get_stats) => {
        r##"By [`pc_cache_get_stats`](crate::sys::pc_cache_get_stats):

Counters now; other threads may go on. A tier that the cache does not have gives zeros.
Returns [`PC_ERR_INVALID`](crate::Status::Invalid) for an unknown tier."##
    };
    (pc_cache_get_tier_stats) => {
        r##"By [`pc_cache_get_tier_stats`](crate::sys::pc_cache_get_tier_stats):

Counters now; other threads may go on. A tier that the cache does not have gives zeros.
Returns [`PC_ERR_INVALID`](crate::Status::Invalid) for an unknown tier."##
    };
    (pc_cache_prometheus) => {
        r##"By [`pc_cache_prometheus`](crate::sys::pc_cache_prometheus):

All counters as text \[capacity\] in the format of Prometheus, not NUL-terminated. \*size gets its
bytes, also with text NULL, capacity 0, and with [`PC_ERR_LIMIT`](crate::Status::Limit) (capacity)."##
    };
    (pc_cache_clear) => {
        r##"By [`pc_cache_clear`](crate::sys::pc_cache_clear):

Removes everything from RAM and COMPRESSED that is not in use or pinned."##
    };
    (pc_cache_trim) => {
        r##"By [`pc_cache_trim`](crate::sys::pc_cache_trim):

Evicts from RAM, lowest eviction score first, until at most `bytes` are left there.
\*freed (may be NULL): bytes that were freed. Memory of entries that go to COMPRESSED is freed
once they are written; [`pc_cache_flush`](crate::sys::pc_cache_flush) waits for that. Returns [`PC_MISS`](crate::Status::Miss) if the rest is in use,
pinned or being loaded."##
    };
    (pc_cache_set_quota) => {
        r##"By [`pc_cache_set_quota`](crate::sys::pc_cache_set_quota):

Limits the bytes that one tenant's entries take in a tier: RAM, COMPRESSED or DISK. A tenant over
its limit makes room among its own entries. In a folder, entries of all processes count; what is
over goes in the background, and what other processes write counts within a second.
salt: the cache's own or one of [`pc_salt`](crate::sys::pc_salt); NULL with `salt_size` 0: no salt. bytes 0: `tenant_share` of
the cache holds. Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (REMOTE: the server chooses what it evicts),
[`PC_ERR_INVALID`](crate::Status::Invalid) (no such tier)."##
    };
    (pc_cache_pin) => {
        r##"By [`pc_cache_pin`](crate::sys::pc_cache_pin):

Pins an entry in RAM for an owner, until it is unpinned or `seconds` have passed (0: no end).
Pinning again as the same owner sets the end anew.
owner: any number of the application but `UINT64_MAX`. Returns [`PC_MISS`](crate::Status::Miss) if the entry is not in RAM."##
    };
    (pc_cache_unpin) => {
        r##"By [`pc_cache_unpin`](crate::sys::pc_cache_unpin):

Pins an entry in RAM for an owner, until it is unpinned or `seconds` have passed (0: no end).
Pinning again as the same owner sets the end anew.
owner: any number of the application but `UINT64_MAX`. Returns [`PC_MISS`](crate::Status::Miss) if the entry is not in RAM."##
    };
    (pc_cache_unpin_owner) => {
        r##"By [`pc_cache_unpin_owner`](crate::sys::pc_cache_unpin_owner):

Removes all pins of an owner. [`PC_OK`](crate::Status::Ok) also if there are none."##
    };
    (pc_key_base) => {
        r##"By [`pc_key_base`](crate::sys::pc_key_base):

base \[32\]: the base key, digest of everything but tokens. Any thread."##
    };
    (pc_key_segment) => {
        r##"By [`pc_key_segment`](crate::sys::pc_key_segment):

key \[32\] of a segment. Any thread."##
    };
    (pc_segment_wrap) => {
        r##"By [`pc_segment_wrap`](crate::sys::pc_segment_wrap):

Makes a segment around memory of the application. For the cache and [`pc_segment_raw`](crate::sys::pc_segment_raw), not for
sequences of our models.
raw: the blocks stay where they are until `release` (may be NULL) is called with `user`, when the
last reference is gone; everything else is copied. On failure release is not called.
Handle: immutable."##
    };
    (pc_segment_raw) => {
        r##"By [`pc_segment_raw`](crate::sys::pc_segment_raw):

The memory of a segment: wrapped, from [`pc_cache_get`](crate::sys::pc_cache_get), or of our models ([`PC_LAYOUT_PAGES`](crate::Layout::Pages)). Pointers
are borrowed from the segment.
Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) for a segment of an application's model."##
    };
    (pc_cache_put) => {
        r##"By [`pc_cache_put`](crate::sys::pc_cache_put):

Stores a segment. The cache takes a reference of its own. The tiers below RAM get it later, from
a thread of the cache: [`pc_cache_flush`](crate::sys::pc_cache_flush) waits for that and tells if something was given up.
Returns [`PC_EXISTS`](crate::Status::Exists) if RAM has an entry under this key, which stays, and [`PC_MISS`](crate::Status::Miss) if RAM has no room
(lower tiers may still take it)."##
    };
    (pc_cache_get) => {
        r##"By [`pc_cache_get`](crate::sys::pc_cache_get):

Finds a segment. Blocks, at most for `cost_seconds` or until the deadline.
\*out: a reference for the caller. info may be NULL.
expect: model, position scheme, dtype, layout, shape, RoPE regime, tokens and block sizes must
all agree; blocks are not read. Returns [`PC_MISS`](crate::Status::Miss), with a reason in info; the entry stays."##
    };
    (pc_cache_find) => {
        r##"By [`pc_cache_find`](crate::sys::pc_cache_find):

How many of a chain of keys, from the first on, are in some tier. Loads nothing, counts no
look-up and changes no eviction score. Costs a microsecond for each key, for keys that only DISK
may have a look into its directory, and for REMOTE one round trip for each 512 keys and server.
A record may still turn out damaged or evicted when it is read.
keys: \[count \* 32\] one behind the other.
tiers: \[count\] [`PC_TIER_…`](crate::Tier) of each key (the first of RAM, COMPRESSED, DISK, REMOTE), also behind
the first that is missing; [`PC_TIER_NONE`](crate::Tier::None): nowhere. May be NULL. A server that does not answer has
nothing."##
    };
    (pc_cache_get_many) => {
        r##"By [`pc_cache_get_many`](crate::sys::pc_cache_get_many):

Starts to load many entries \[count\], in this order. expect: what they must be, as of
[`pc_cache_get`](crate::sys::pc_cache_get), but for tokens, relative, `token_count` and blocks, which are the entries'. All is
copied; memory of an entry's blocks stays until the entry is done, or the load is freed.
What goes into the caller's blocks is read or decoded there, by threads of the cache, and does
not get into RAM; what RAM has is copied. At most 8192 loads of a cache wait at a time: further
entries are [`PC_MISS`](crate::Status::Miss) with [`PC_REASON_SLOW`](crate::Reason::Slow).
Handle: one thread at a time."##
    };
    (pc_load_wait) => {
        r##"By [`pc_load_wait`](crate::sys::pc_load_wait):

Waits until all entries are done, but no longer than `seconds` (0: not at all). Returns [`PC_OK`](crate::Status::Ok), or
[`PC_AGAIN`](crate::Status::Again): some are not done yet. Every entry is done soon after the deadline."##
    };
    (pc_load_poll) => {
        r##"By [`pc_load_poll`](crate::sys::pc_load_poll):

Does not wait. \*done (may be NULL): how many entries from the first on are done. Returns as
[`pc_load_wait`](crate::sys::pc_load_wait)."##
    };
    (pc_load_result) => {
        r##"By [`pc_load_result`](crate::sys::pc_load_result):

The result of one entry: [`PC_OK`](crate::Status::Ok); [`PC_AGAIN`](crate::Status::Again): it is not done; [`PC_MISS`](crate::Status::Miss), with a reason in info, and
blocks of any contents. \*segment: a reference for the caller, NULL for an entry with blocks and
of a miss. segment and info may be NULL. Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound): there is no such entry."##
    };
    (pc_cache_prefetch) => {
        r##"By [`pc_cache_prefetch`](crate::sys::pc_cache_prefetch):

Starts to load entries into free room of RAM, and does not wait. Their blocks are not used.
\*started (may be NULL): how many loads have begun; others are in RAM, in no tier, or do not fit
into the queue."##
    };
    (pc_cache_remove) => {
        r##"By [`pc_cache_remove`](crate::sys::pc_cache_remove):

Removes entries, also from what is on its way to a tier, and also if they are in use or pinned:
users keep their references. \*removed (may be NULL): keys that some tier had. Returns an error of
a tier that may still have one ([`PC_ERR_STATE`](crate::Status::State): read-only; [`PC_ERR_IO`](crate::Status::Io)); the rest is removed.
keys: \[count \* 32\]."##
    };
    (pc_cache_put_copy) => {
        r##"By [`pc_cache_put_copy`](crate::sys::pc_cache_put_copy):

As [`pc_cache_put`](crate::sys::pc_cache_put), of a copy: nothing of raw is needed afterwards. Room is made before anything is
copied, in RAM, or for what waits to be written; what is refused is not copied.
Returns [`PC_EXISTS`](crate::Status::Exists) and [`PC_MISS`](crate::Status::Miss) as [`pc_cache_put`](crate::sys::pc_cache_put)."##
    };
    (pc_embed) => {
        r##"By [`pc_embed`](crate::sys::pc_embed):

Embeds prompts \[count\] of one model: embeddings \[count\]\[[`pc_model_info.hidden`](crate::ModelInfo)\]. What is left to
compute of all prompts goes in as few passes as fit. Blocks.
Decoders: modules come from the cache, or are encoded and stored, as for [`pc_generate`](crate::sys::pc_generate). Of a prompt
without PML the beginning that the cache has is reused, and nothing is stored. This is for
[`PC_POOL_LAST`](crate::Pooling::Last). MEAN and FIRST need the hidden state of every token, which no cache has: they
compute the prompts whole, and are [`PC_EXACT`](crate::Exactness::Exact).
Encoders take prompts of tokens or text; nothing is reused.
cache: NULL: nothing is looked up or stored. options and stats may be NULL.
Returns [`PC_ERR_MISMATCH`](crate::Status::Mismatch) (prompts of different models), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model
without `step_hidden`), [`PC_ERR_LIMIT`](crate::Status::Limit) (a prompt is longer than the model takes), [`PC_ERR_CANCELLED`](crate::Status::Cancelled),
and as [`pc_generate`](crate::sys::pc_generate)."##
    };
    (pc_model_from_ops) => {
        r##"By [`pc_model_from_ops`](crate::sys::pc_model_from_ops):

Makes a model of the application's functions. PML, layout, cache and serving work as with any
model. ops: copied. user: stays the application's until `on_free` (may be NULL) is called with it.
Returns [`PC_ERR_INVALID`](crate::Status::Invalid) (names a missing function).
Handle: immutable."##
    };
    (pc_fingerprint_files) => {
        r##"By [`pc_fingerprint_files`](crate::sys::pc_fingerprint_files):

Fingerprint for such a model: digest of files \[count\] in this order, by their bytes (BLAKE2b-256,
files/1 in doc/format.md). Name every file that changes K and V: weights, configuration,
adapters. Blocks, one to two seconds per GB. progress (may be NULL) gets the path and its bytes.
Returns [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) and [`PC_ERR_IO`](crate::Status::Io) (name the file), [`PC_ERR_CANCELLED`](crate::Status::Cancelled); fingerprint is then
zero. Any thread."##
    };
    (pc_segment_tokens) => {
        r##"By [`pc_segment_tokens`](crate::sys::pc_segment_tokens):

The tokens of a segment, borrowed from it. \*count (may be NULL): how many. NULL and 0 for NULL."##
    };
    (pc_segment_read) => {
        r##"By [`pc_segment_read`](crate::sys::pc_segment_read):

K and V of one layer as placed at `start`: k, v \[`kv_head`\]\[token\]\[`head_dim`\], fp32; either may be
NULL. Of a model with latent attention those of every head, with values of the width that the
model has, at most `head_dim`.
Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the states cannot be moved there, or belong to an application's
model), [`PC_ERR_STATE`](crate::Status::State) (the segment has values only), [`PC_ERR_LIMIT`](crate::Status::Limit) (start is above 2^60)."##
    };
    (pc_prompt_from_spans) => {
        r##"By [`pc_prompt_from_spans`](crate::sys::pc_prompt_from_spans):

A prompt of given segments and new tokens: levels by hand, any tree (Hydragen, section 3.3). In a
batch, segments that several sequences hold are read once for all.
spans: from [`pc_eval`](crate::sys::pc_eval), [`pc_sequence_spans`](crate::sys::pc_sequence_spans) or [`pc_prefill`](crate::sys::pc_prefill); the prompt holds them. The new tokens stand
at `start`, behind all spans. Without new tokens the last token of the spans is computed again
(`tokens_repaired`), for its logits, and the first sampled token stands at `start`.
The states are [`PC_EXACT`](crate::Exactness::Exact) if every segment saw exactly the tokens before it here, at these
distances, and is whole from its first token on. Segments know this if they come from [`pc_eval`](crate::sys::pc_eval),
[`pc_prefill`](crate::sys::pc_prefill) or an exact sequence. Otherwise they are [`PC_APPROXIMATE`](crate::Exactness::Approximate). Encoding and cache do not
matter; repair and baselines that recompute are refused ([`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported)). Returns
[`PC_ERR_MISMATCH`](crate::Status::Mismatch) (of another model), [`PC_ERR_INVALID`](crate::Status::Invalid) (neither spans nor tokens, or a span reaches
`start`)."##
    };
    (pc_sequence_spans) => {
        r##"By [`pc_sequence_spans`](crate::sys::pc_sequence_spans):

The states of a sequence as segments in place, so that others can share them: all but tokens that
are not computed yet (usually the last sampled one), in order. spans \[capacity\]: the caller frees
each segment. The sequence goes on with the same memory and appends elsewhere.
Returns [`PC_ERR_LIMIT`](crate::Status::Limit) (capacity), [`PC_ERR_STATE`](crate::Status::State) (before the first step, or it holds nothing any
more), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model)."##
    };
    (pc_eval) => {
        r##"By [`pc_eval`](crate::sys::pc_eval):

One forward pass over several lanes. Lanes that share segments share the reading of them. Blocks.
Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model; a segment of positions that do not ascend),
[`PC_ERR_MISMATCH`](crate::Status::Mismatch) (a segment of another model or RoPE regime), [`PC_ERR_LIMIT`](crate::Status::Limit) (a position or start
farther from 0 than 2^60)."##
    };
    (pc_grammar_new) => {
        r##"By [`pc_grammar_new`](crate::sys::pc_grammar_new):

Compiles a grammar, by the plug-in module xgrammar. Blocks, and is the slower the more the
grammar has to say (doc/serving.md has times). The grammar holds the model. Its memory is not of
the context's allocator. Keywords of a schema that have no effect are named in the log.
Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the module is not there; the text says what to do. The tokens of the
model are an application's own: [`pc_grammar_new_own`](crate::sys::pc_grammar_new_own)), [`PC_ERR_FORMAT`](crate::Status::Format) (the text is not what `kind`
says), [`PC_ERR_INVALID`](crate::Status::Invalid) (no answer of this model's tokens matches), [`PC_ERR_LIMIT`](crate::Status::Limit) (too long, nested
too deep, or a count of repeats above 100,000)."##
    };
    (pc_grammar_new_own) => {
        r##"By [`pc_grammar_new_own`](crate::sys::pc_grammar_new_own):

A grammar by functions, which are copied. After a failure `on_free` is not called.
Returns [`PC_ERR_INVALID`](crate::Status::Invalid) (a function is missing; the first mask lets nothing come and no end)."##
    };
    (pc_memo_open) => {
        r##"By [`pc_memo_open`](crate::sys::pc_memo_open):

Opens the memo in a folder, or makes an empty one there.
Returns [`PC_AGAIN`](crate::Status::Again) (\*out is NULL: another process is adding; [`PC_MEMO_READ_ONLY`](crate::MemoFlags::READ_ONLY) works),
[`PC_ERR_MISMATCH`](crate::Status::Mismatch) (of another model or kind of mask), [`PC_ERR_FORMAT`](crate::Status::Format) (damaged), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound)
(read-only, and there is none), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model, or a later format),
[`PC_ERR_IO`](crate::Status::Io). Handle: internally locked."##
    };
    (pc_memo_add) => {
        r##"By [`pc_memo_add`](crate::sys::pc_memo_add):

Computes inputs in full and stores their maps and outputs. Skips inputs that are stored with all
wanted outputs, and those longer than the last bucket."##
    };
    (pc_memo_train) => {
        r##"By [`pc_memo_train`](crate::sys::pc_memo_train):

Trains the projectors of all buckets with at least 32 records (section 3.1). Thresholds must be
tuned again. Continues a training that was cancelled or killed.
Returns [`PC_ERR_STATE`](crate::Status::State) also if no bucket has so many records."##
    };
    (pc_memo_tune) => {
        r##"By [`pc_memo_tune`](crate::sys::pc_memo_tune):

Sets each bucket's threshold to the lowest one that keeps the mean loss of its inputs within
work-\>limit and the loss of hits at `hit_percentile` within `hit_limit`, both with 95 % confidence.
inputs: not among those stored. A bucket without such a threshold (30 hits at least) is closed.
Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) for [`PC_MEMO_LAYERS`](crate::MemoFlags::LAYERS)."##
    };
    (pc_memo_tidy) => {
        r##"By [`pc_memo_tidy`](crate::sys::pc_memo_tidy):

Compresses cold records and gives unused room back to the file system."##
    };
    (pc_memo_bucket_count) => {
        r##"By [`pc_memo_bucket_count`](crate::sys::pc_memo_bucket_count):

The buckets, by length."##
    };
    (pc_memo_get_bucket) => {
        r##"By [`pc_memo_get_bucket`](crate::sys::pc_memo_get_bucket):

The buckets, by length."##
    };
    (pc_memo_set_threshold) => {
        r##"By [`pc_memo_set_threshold`](crate::sys::pc_memo_set_threshold):

Sets a bucket's threshold by the application's own measure, and opens it. Above 1: closes it.
`hit_limit`: mean loss ([`PC_LOSS_…`](crate::Loss)) of verified hits above which the bucket closes; 0: not watched.
measured (may be NULL): its `hit_percentile`, `hit_loss`, `hit_loss_high` and `hit_loss_worst` are
stored. Returns [`PC_ERR_STATE`](crate::Status::State) (no projector yet, or opened read-only)."##
    };
    (pc_memo_get_stats) => {
        r##"By [`pc_memo_get_stats`](crate::sys::pc_memo_get_stats):

The counters so far."##
    };
    (pc_prefill) => {
        r##"By [`pc_prefill`](crate::sys::pc_prefill):

Computes prompts that need no answer beyond their last hidden states: embeddings, logits, states.
All inputs go together, hits and misses mixed (AttnCache, section 3.2). If the memo stores an
equal prompt with all wanted outputs (and no segments are wanted), they are returned, [`PC_EXACT`](crate::Exactness::Exact).
Blocks. stats: may be NULL. Returns [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (an application's model; logits of an
encoder without a head), [`PC_ERR_MISMATCH`](crate::Status::Mismatch) (the memo is of another model), [`PC_ERR_LIMIT`](crate::Status::Limit) (an input
is longer than the model takes), [`PC_ERR_CANCELLED`](crate::Status::Cancelled)."##
    };
    (pc_schema_from_format) => {
        r##"By [`pc_schema_from_format`](crate::sys::pc_schema_from_format):

Makes a schema of a format string with "{`__SYS_PROMPT`}" and, behind it, "{`__USR_PROMPT`}". A brace
of the text is doubled. Everything up to the user slot is shared and encoded once. Each request's
text stands right behind it, followed by the text behind the slot ([`pc_prompt_fill`](crate::sys::pc_prompt_fill)). Special
tokens are recognised in the format, not in the system prompt or a request. BOS, where the model
wants it, is the first token only. Returns [`PC_ERR_PML`](crate::Status::Pml) (line and column of a slot that is missing,
unknown, repeated or in the wrong order, or of a single brace), [`PC_ERR_LIMIT`](crate::Status::Limit) (longer than the
model's context), [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) and [`PC_ERR_IO`](crate::Status::Io) of the files, [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) ([`PC_FORMAT_CHAT`](crate::FormatFlags::CHAT)
without a known chat template)."##
    };
    (pc_prompt_fill) => {
        r##"By [`pc_prompt_fill`](crate::sys::pc_prompt_fill):

A prompt of a schema without PML: the schema's anonymous texts, then this text in the user slot,
or at the end if there is none. Blanks at the ends of the text are dropped; tokens are taken as
they are. Returns [`PC_ERR_LIMIT`](crate::Status::Limit)."##
    };
    (pc_prompt_fill_tokens) => {
        r##"By [`pc_prompt_fill_tokens`](crate::sys::pc_prompt_fill_tokens):

A prompt of a schema without PML: the schema's anonymous texts, then this text in the user slot,
or at the end if there is none. Blanks at the ends of the text are dropped; tokens are taken as
they are. Returns [`PC_ERR_LIMIT`](crate::Status::Limit)."##
    };
    (pc_schema_item_count) => {
        r##"By [`pc_schema_item_count`](crate::sys::pc_schema_item_count):

The layout in document order, without the root. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond its end."##
    };
    (pc_schema_get_item) => {
        r##"By [`pc_schema_get_item`](crate::sys::pc_schema_get_item):

The layout in document order, without the root. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond its end."##
    };
    (pc_prompt_part_count) => {
        r##"By [`pc_prompt_part_count`](crate::sys::pc_prompt_part_count):

The parts, by position. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond their end."##
    };
    (pc_prompt_get_part) => {
        r##"By [`pc_prompt_get_part`](crate::sys::pc_prompt_get_part):

The parts, by position. [`PC_ERR_NOT_FOUND`](crate::Status::NotFound) beyond their end."##
    };
    (pc_schema_builder_new) => {
        r##"By [`pc_schema_builder_new`](crate::sys::pc_schema_builder_new):

Begins an empty schema. name: of the schema. options: of [`pc_schema_parse`](crate::sys::pc_schema_parse); flags must be 0 and
`base_folder` NULL. Handle: one thread at a time."##
    };
    (pc_schema_builder_add_text) => {
        r##"By [`pc_schema_builder_add_text`](crate::sys::pc_schema_builder_add_text):

Adds text to what is open, the schema itself at first. Neighbouring texts are one. flags:
[`PC_PROMPT_SPECIAL`](crate::PromptFlags::SPECIAL), or 0."##
    };
    (pc_schema_builder_begin_module) => {
        r##"By [`pc_schema_builder_begin_module`](crate::sys::pc_schema_builder_begin_module):

Opens a module; [`pc_schema_builder_end`](crate::sys::pc_schema_builder_end) closes it. flags: [`PC_ITEM_UNCACHED`](crate::ItemFlags::UNCACHED), or 0."##
    };
    (pc_schema_builder_begin_union) => {
        r##"By [`pc_schema_builder_begin_union`](crate::sys::pc_schema_builder_begin_union):

Opens a union, which holds modules alone. scaffold: name of its member in the default layout, or
NULL."##
    };
    (pc_schema_builder_begin_turn) => {
        r##"By [`pc_schema_builder_begin_turn`](crate::sys::pc_schema_builder_begin_turn):

Opens a turn of a conversation: its texts, modules and parameters stand between the pieces of the
model's chat template. role: "system", "user" or "assistant"."##
    };
    (pc_schema_builder_end) => {
        r##"By [`pc_schema_builder_end`](crate::sys::pc_schema_builder_end):

Closes the module, union or turn that was opened last. Returns [`PC_ERR_STATE`](crate::Status::State) if none is open."##
    };
    (pc_schema_builder_add_parameter) => {
        r##"By [`pc_schema_builder_add_parameter`](crate::sys::pc_schema_builder_add_parameter):

Adds room for an argument of `length` tokens to the open module. scaffold \[size\]: text that
stands there while the module is encoded; NULL: none."##
    };
    (pc_schema_builder_add_scaffold) => {
        r##"By [`pc_schema_builder_add_scaffold`](crate::sys::pc_schema_builder_add_scaffold):

Modules that are encoded jointly, for prompts that use all of them: paths \[count\], at least 2.
Only while nothing is open ([`PC_ERR_STATE`](crate::Status::State))."##
    };
    (pc_schema_from_builder) => {
        r##"By [`pc_schema_from_builder`](crate::sys::pc_schema_from_builder):

Makes a schema of what the builder has; it may go on afterwards. Returns as [`pc_schema_parse`](crate::sys::pc_schema_parse), and
[`PC_ERR_STATE`](crate::Status::State) if something is open."##
    };
    (pc_prompt_builder_new) => {
        r##"By [`pc_prompt_builder_new`](crate::sys::pc_prompt_builder_new):

Begins an empty prompt of a schema. The builder holds the schema. Handle: one thread at a time."##
    };
    (pc_prompt_builder_use) => {
        r##"By [`pc_prompt_builder_use`](crate::sys::pc_prompt_builder_use):

Uses a module, and those around it in its path. Text that follows stands behind the outermost."##
    };
    (pc_prompt_builder_add_argument) => {
        r##"By [`pc_prompt_builder_add_argument`](crate::sys::pc_prompt_builder_add_argument):

An argument for a parameter of the module that was used last. Returns [`PC_ERR_STATE`](crate::Status::State) (none was
used, or something was added since), [`PC_ERR_PML`](crate::Status::Pml) (it has an argument)."##
    };
    (pc_prompt_builder_add_text) => {
        r##"By [`pc_prompt_builder_add_text`](crate::sys::pc_prompt_builder_add_text):

As of the schema's builder."##
    };
    (pc_prompt_builder_begin_turn) => {
        r##"By [`pc_prompt_builder_begin_turn`](crate::sys::pc_prompt_builder_begin_turn):

As of the schema's builder."##
    };
    (pc_prompt_builder_end) => {
        r##"By [`pc_prompt_builder_end`](crate::sys::pc_prompt_builder_end):

As of the schema's builder."##
    };
    (pc_prompt_from_builder) => {
        r##"By [`pc_prompt_from_builder`](crate::sys::pc_prompt_from_builder):

Makes a prompt of what the builder has; it may go on afterwards. options: flags may have
[`PC_PML_OVERLAP`](crate::PromptFlags::OVERLAP). Returns as [`pc_prompt_parse`](crate::sys::pc_prompt_parse), and [`PC_ERR_STATE`](crate::Status::State) if a turn is open."##
    };
    (pc_chat_format) => {
        r##"By [`pc_chat_format`](crate::sys::pc_chat_format):

The conversation as the model's chat template writes it: text \[capacity\], not NUL-terminated.
\*size gets its bytes. messages must not name modules, nor options a schema.
Returns [`PC_ERR_LIMIT`](crate::Status::Limit) (capacity), [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) (the template is not known, or fails for this
conversation), [`PC_ERR_FORMAT`](crate::Status::Format) (JSON that is none, with its place)."##
    };
    (pc_prompt_from_messages) => {
        r##"By [`pc_prompt_from_messages`](crate::sys::pc_prompt_from_messages):

A prompt of a conversation. Without a schema it is as one of [`pc_prompt_from_tokens`](crate::sys::pc_prompt_from_tokens): it reuses any
beginning that it has in common with an earlier one. With a schema it is as one of
[`pc_prompt_from_builder`](crate::sys::pc_prompt_from_builder), but its modules stand where the messages name them, one behind the other,
if the model's states can be moved and no text stands between modules of the schema. If the
schema has turns itself, the messages go on behind them, positions are the schema's, and roles
are system, user and assistant, without tools and further members.
Returns as [`pc_chat_format`](crate::sys::pc_chat_format) and [`pc_prompt_parse`](crate::sys::pc_prompt_parse); [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) also if the template does not
write each module once; [`PC_ERR_MISMATCH`](crate::Status::Mismatch) (a schema of another model)."##
    };
    (pc_sequence_push_messages) => {
        r##"By [`pc_sequence_push_messages`](crate::sys::pc_sequence_push_messages):

Appends messages behind the answer so far: closes it (but for a stop token that was just
sampled), writes the messages, opens the next answer. They must not name modules, nor options a
schema.
Returns as [`pc_sequence_push`](crate::sys::pc_sequence_push) and [`pc_chat_format`](crate::sys::pc_chat_format); [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) also if the template would
write the last answer otherwise than it is, or may count turns (doc/prompts.md)."##
    };
    (pc_task_wait) => {
        r##"By [`pc_task_wait`](crate::sys::pc_task_wait):

Waits until the task is done, at most `seconds`: 0 does not wait, INFINITY has no end.
Returns [`PC_AGAIN`](crate::Status::Again) (not done yet), or what the call without a task would have returned;
[`pc_error_text`](crate::sys::pc_error_text)() and [`pc_error_place`](crate::sys::pc_error_place)() are then of this thread. May be asked again. Returns
[`PC_ERR_STATE`](crate::Status::State) too, in a callback of the task, and in a child after fork()."##
    };
    (pc_task_fd) => {
        r##"By [`pc_task_fd`](crate::sys::pc_task_fd):

A descriptor for poll, epoll or an event loop. It becomes readable when the task is done, and
stays so: do not read it. Made by the first call, the task's own, closed on exec: [`pc_task_free`](crate::sys::pc_task_free)
closes it. An eventfd on Linux, else a pipe. Returns [`PC_ERR_LIMIT`](crate::Status::Limit) (there are no descriptors
left), [`PC_ERR_STATE`](crate::Status::State) (in a child after fork())."##
    };
    (pc_batch_step_async) => {
        r##"By [`pc_batch_step_async`](crate::sys::pc_batch_step_async):

[`pc_batch_step`](crate::sys::pc_batch_step) on another thread. The task holds the batch; free its sequences and the batch in
any order. Of several batches as many steps run at once. Returns [`PC_ERR_LIMIT`](crate::Status::Limit) (no thread can be
started), and [`PC_ERR_STATE`](crate::Status::State) as [`pc_batch_step`](crate::sys::pc_batch_step). The task's status is that of [`pc_batch_step`](crate::sys::pc_batch_step)."##
    };
    (pc_attend_async) => {
        r##"By [`pc_attend_async`](crate::sys::pc_attend_async):

[`pc_attend`](crate::sys::pc_attend) on another thread. `args`, and what it points to but K, V, q, out and lse, is read
before the call returns; these belong to the task until it is done. Returns all errors of
arguments at once, and [`PC_ERR_LIMIT`](crate::Status::Limit) as [`pc_batch_step_async`](crate::sys::pc_batch_step_async).

On a backend that queues ("cuda"), the call queues the work as with [`PC_ATTEND_QUEUE`](crate::sys::PC_ATTEND_QUEUE), which need
not be set, and the task is done when the stream has done it. The plan does not belong to the
task there: further calls of it may queue more."##
    };
}

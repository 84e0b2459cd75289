/* Objects of all kinds, and the callbacks that they take (every_object.h). */
#include "every_object.h"

#include <math.h>
#include <promptcache/cache.h>
#include <promptcache/sampling.h>
#include <promptcache/batch.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

static void nothing(int kind)
{
    (void)kind;
}

void (*every_called)(int kind) = nothing;

/* ------------------------------------------------------------------ every_object */

const char *const every_object_name[] = {
    "context",        "model",          "native", "cache",   "schema", "prompt",
    "native prompt",  "first",          "second", "third",   "batch",  "segment",
    "wrapped",        "memo",           "plan",   "systems", "folder", "model file",
    "schema builder", "prompt builder", "task",   "all"};

void *every_object[OBJECTS];

void every_free(int which)
{
    void *object = every_object[which];
    every_object[which] = NULL;
    if (!object)
        return;
    switch (which) {
    case CONTEXT:
        pc_context_free(object);
        break;
    case MODEL:
    case NATIVE:
        pc_model_free(object);
        break;
    case CACHE:
        pc_cache_free(object);
        break;
    case SCHEMA:
        pc_schema_free(object);
        break;
    case PROMPT:
    case NATIVE_PROMPT:
        pc_prompt_free(object);
        break;
    case FIRST:
    case SECOND:
    case THIRD:
        pc_sequence_free(object);
        break;
    case BATCH:
        pc_batch_free(object);
        break;
    case SEGMENT:
    case WRAPPED:
        pc_segment_free(object);
        break;
    case MEMO:
        pc_memo_free(object);
        break;
    case PLAN:
        pc_plan_free(object);
        break;
    case SYSTEMS:
        pc_systems_free(object);
        break;
    case FOLDER:
        pc_folder_free(object);
        break;
    case SCHEMA_BUILDER:
        pc_schema_builder_free(object);
        break;
    case PROMPT_BUILDER:
        pc_prompt_builder_free(object);
        break;
    case TASK:
        pc_task_free(object);
        break;
    default:
        pc_model_file_free(object);
    }
}

/* ------------------------------------------------------------------ callbacks */

const char *const every_kind_name[] = {
    "alloc",    "free",      "log",      "parallel",    "on_text",  "on_logits",
    "on_token", "cancelled", "progress", "on_event",    "on_bytes", "codec",
    "trace",    "release",   "on_free",  "on_disabled", "operation"};

#define MOST_BYTES ((size_t)1 << 30) /* of one block; sanitizers end the process for more */

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t every_blocks;

static void count_blocks(int64_t by)
{
    pthread_mutex_lock(&memory_lock);
    every_blocks += by;
    pthread_mutex_unlock(&memory_lock);
}

static void *on_alloc(void *user, size_t size, size_t align)
{
    void *memory = NULL;
    (void)user;
    every_called(ALLOC);
    if (size > MOST_BYTES
        || posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size))
        return NULL;
    count_blocks(1);
    return memory;
}

static void on_release_memory(void *user, void *memory, size_t size, size_t align)
{
    (void)user, (void)size, (void)align;
    free(memory);
    count_blocks(-1);
    every_called(FREE);
}

static void on_log(void *user, uint32_t level, const char *line)
{
    (void)user, (void)level, (void)line;
    every_called(LOG);
}

static void on_parallel(void *user, size_t n, void (*body)(void *arg, size_t i), void *arg)
{
    (void)user;
    for (size_t i = 0; i < n; i++) {
        if (i == n / 2)
            every_called(PARALLEL);
        body(arg, i);
    }
}

int32_t every_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample, (void)text, (void)size;
    every_called(TEXT);
    return 0;
}

static int32_t every_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)user, (void)sample;
    every_called(LOGITS);
    logits[count / 2] += 1; /* theirs until the function returns */
    return 0;
}

static int32_t every_token(void *user, const pc_token *token)
{
    (void)user;
    every_called(DRAWN);
    CHECK_INT(token->top_count, 3);
    return token->top_tokens[0] < 0 || token->top_logprobs[2] > 0;
}

int32_t every_cancelled(void *user)
{
    (void)user;
    every_called(CANCELLED);
    return 0;
}

int32_t every_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    every_called(PROGRESS);
    return 0;
}

static void on_event(void *user, const pc_event *event)
{
    (void)user, (void)event;
    every_called(EVENT);
}

static void on_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget)
{
    (void)user, (void)tier, (void)bytes, (void)budget;
    every_called(BYTES);
}

static size_t codec_bound(void *user, const pc_codec_block *block)
{
    (void)user;
    every_called(CODEC);
    return block->bytes;
}

static pc_status codec_encode(void *user, const pc_codec_block *block, const void *data, void *out,
                              size_t capacity, size_t *size)
{
    (void)user;
    every_called(CODEC);
    if (capacity < block->bytes)
        return PC_ERR_LIMIT;
    memcpy(out, data, block->bytes);
    *size = block->bytes;
    return PC_OK;
}

static pc_status codec_decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                              void *out)
{
    (void)user;
    every_called(CODEC);
    if (size != block->bytes)
        return PC_ERR_FORMAT;
    memcpy(out, in, size);
    return PC_OK;
}

void every_trace(void *user, const struct pc_trace *trace)
{
    (void)user, (void)trace;
    every_called(TRACE);
}

static int released;
int every_freed_users;

static void on_release(void *user)
{
    (void)user;
    released++;
    every_called(RELEASE);
}

static void on_free(void *user)
{
    every_called(ON_FREE);
    pc_toy_free(user);
    every_freed_users++;
}

static void on_disabled(void *user, uint32_t bucket, double loss, double limit)
{
    (void)user, (void)bucket, (void)loss, (void)limit;
    every_called(DISABLED);
}

/* The operations of the toy model, each with the callback before its work. */
static pc_model_ops toy;

#define HOOK(type, name, params, args) \
    static type hook_##name params     \
    {                                  \
        every_called(OPERATION);       \
        return toy.name args;          \
    }
#define HOOK_VOID(name, params, args) \
    static void hook_##name params    \
    {                                 \
        every_called(OPERATION);      \
        toy.name args;                \
    }
HOOK(pc_status, tokenize,
     (void *user, const char *text, size_t size, uint64_t flags, int32_t *tokens, size_t capacity,
      size_t *count),
     (user, text, size, flags, tokens, capacity, count))
HOOK(pc_status, detokenize,
     (void *user, const int32_t *tokens, size_t count, uint64_t flags, char *text, size_t capacity,
      size_t *size),
     (user, tokens, count, flags, text, capacity, size))
HOOK(pc_status, encode, (void *user, const pc_encode_args *args, void **segments),
     (user, args, segments))
HOOK_VOID(release, (void *user, void *segment), (user, segment))
HOOK(pc_status, size, (void *user, void *segment, uint64_t *bytes), (user, segment, bytes))
HOOK(pc_status, sequence_new, (void *user, const pc_sequence_args *args, void **sequence),
     (user, args, sequence))
HOOK(pc_status, attach, (void *user, void *sequence, const pc_span *span), (user, sequence, span))
HOOK(pc_status, fork, (void *user, void *sequence, void **copy), (user, sequence, copy))
HOOK(pc_status, step, (void *user, const pc_step_args *args), (user, args))
HOOK(pc_status, step_hidden, (void *user, const pc_step_args *args, float *hidden),
     (user, args, hidden))
HOOK_VOID(drop, (void *user, void *sequence), (user, sequence))
HOOK(pc_status, deviation, (void *user, const pc_deviation_args *args, float *score),
     (user, args, score))
HOOK(pc_status, truncate, (void *user, void *sequence, size_t count), (user, sequence, count))
HOOK(pc_status, export_segment,
     (void *user, void *segment, void *data, size_t capacity, size_t *size),
     (user, segment, data, capacity, size))
HOOK(pc_status, import_segment,
     (void *user, const void *data, size_t size, const int32_t *tokens, size_t count,
      void **segment),
     (user, data, size, tokens, count, segment))
HOOK(pc_status, describe, (void *user, pc_model_info *info), (user, info))

static pc_model_ops hooked_ops(void)
{
    pc_model_ops ops = PC_MODEL_OPS_INIT;
    toy = pc_toy_ops();
    ops.describe = hook_describe;
    ops.tokenize = hook_tokenize;
    ops.detokenize = hook_detokenize;
    ops.encode = hook_encode;
    ops.release = hook_release;
    ops.size = hook_size;
    ops.sequence_new = hook_sequence_new;
    ops.attach = hook_attach;
    ops.fork = hook_fork;
    ops.step = hook_step;
    ops.drop = hook_drop;
    ops.deviation = hook_deviation;
    ops.truncate = hook_truncate;
    ops.export_segment = hook_export_segment;
    ops.import_segment = hook_import_segment;
    ops.step_hidden = hook_step_hidden;
    return ops;
}

/* ------------------------------------------------------------------ the world of a case */

const int32_t every_ids[TOKENS] = {3, 9, 27, 81, 5, 45, 17, 30};
const int64_t every_positions[TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7};
static unsigned char wrapped_memory[BYTES_OF_WRAPPED];
char every_folder[300];
static int folders;

void every_next_folder(void)
{
    snprintf(every_folder, sizeof every_folder, "%s/%d", pc_test_folder(), folders++);
}

static pc_model_options model_options(void)
{
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    o.chat_template = "none";
    o.progress = every_progress;
    return o;
}

pc_status every_toy(pc_model **out, pc_context *context)
{
    pc_model_ops ops = hooked_ops();
    pc_model_options o = PC_MODEL_OPTIONS_INIT;
    pc_toy *user = pc_toy_new(7, 0, 0);
    o.chat_template = "none";
    pc_status status = pc_model_from_ops(out, context, &ops, user, on_free, &o);
    if (status < 0)
        pc_toy_free(user);
    return status;
}

pc_status every_native(pc_model **out, pc_context *context)
{
    pc_model_options o = model_options();
    o.compute = PC_DTYPE_F32;
    return pc_model_new_shape(out, context, "tiny", 1, &o);
}

pc_status every_cache(pc_cache **out, pc_context *context, const char *disk)
{
    static const pc_codec_ops codec = {.struct_size = sizeof codec,
                                       .id = PC_CODEC_APPLICATION,
                                       .name = "copy",
                                       .bound = codec_bound,
                                       .encode = codec_encode,
                                       .decode = codec_decode};
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.ram_bytes = 1 << 20;
    o.on_event = on_event;
    o.on_bytes = on_bytes;
    o.codecs = &codec;
    o.codec_count = 1;
    o.disk_path = disk;
    o.disk_codec = disk ? PC_CODEC_APPLICATION : PC_CODEC_DEFAULT;
    o.io_threads = disk ? 1 : 0;
    return pc_cache_new(out, context, &o);
}

pc_generate_options every_generate_options(void)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 4;
    o.on_text = every_text;
    o.on_logits = every_logits;
    o.on_token = every_token;
    o.top_logprobs = 3;
    o.cancelled = every_cancelled;
    o.memo = every_object[MEMO];
    return o;
}

pc_status every_memo(pc_memo **out, const pc_model *model)
{
    static const uint32_t lengths[] = {16};
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    o.bucket_tokens = lengths;
    o.bucket_count = 1;
    o.on_disabled = on_disabled;
    return pc_memo_open(out, model, every_folder, &o);
}

pc_status every_wrapped(pc_segment **out, pc_context *context)
{
    static const uint8_t fingerprint[32] = {1};
    static const uint64_t bytes = BYTES_OF_WRAPPED;
    void *block = wrapped_memory;
    pc_raw raw = PC_RAW_INIT;
    raw.model = fingerprint;
    raw.dtype = PC_DTYPE_F32;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.layers = raw.kv_heads = raw.k_dim = raw.v_dim = 1;
    raw.tokens = every_ids;
    raw.token_count = TOKENS;
    raw.blocks = (const void *const *)&block;
    raw.block_bytes = &bytes;
    raw.block_count = 1;
    return pc_segment_wrap(out, context, &raw, on_release, NULL);
}

pc_status every_segment(pc_segment **out, const pc_model *model)
{
    const pc_lane lane = {NULL, 0, every_ids, every_positions, TOKENS, NULL, 0};
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    a.lanes = &lane;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 1;
    a.segments = out;
    return pc_eval(model, &a);
}

static const pc_attend_shape shape = {sizeof shape, 2, 1, 16, 16, PC_DTYPE_F32, 0};

pc_status every_plan(pc_plan **out, pc_context *context)
{
    static const pc_run run = {TOKENS, NULL, NULL};
    static const pc_row_span span = {0, 0, 0, TOKENS, 0};
    static const uint32_t first[2] = {0, 1};
    static const int64_t position = TOKENS;
    pc_plan_args a = PC_PLAN_ARGS_INIT;
    a.shape = &shape;
    a.runs = &run;
    a.run_stride = sizeof(pc_run);
    a.run_count = 1;
    a.positions = &position;
    a.first = first;
    a.spans = &span;
    a.span_stride = sizeof(pc_row_span);
    a.row_count = 1;
    return pc_plan_new(out, context, &a);
}

static pc_status make_task(pc_task **out, pc_context *context)
{
    static _Alignas(64) float pages[PC_PAGE_TOKENS * 32];
    static const void *const list[] = {pages};
    static const float q[2 * 16];
    static float result[2 * 16];
    pc_attend_args a = PC_ATTEND_ARGS_INIT;
    pc_plan *plan;
    pc_status status = every_plan(&plan, context);
    a.pages = list;
    a.q = q;
    a.out = result;
    if (status >= 0)
        status = pc_attend_async(out, plan, &a);
    if (status >= 0)
        status = pc_task_wait(*out, INFINITY);
    pc_plan_free(plan);
    return status;
}

/* A folder without weights: known, but refused. */
static pc_status open_file(pc_model_file **out, pc_context *context)
{
    static const char config[] = "{\"model_type\": \"llama\", \"architectures\": "
                                 "[\"LlamaForCausalLM\"], \"hidden_size\": 64, "
                                 "\"num_attention_heads\": 4, \"num_hidden_layers\": 2, "
                                 "\"intermediate_size\": 96, \"vocab_size\": 32, "
                                 "\"rms_norm_eps\": 1e-5, \"max_position_embeddings\": 64}";
    char path[320];
    every_next_folder();
    mkdir(every_folder, 0700);
    snprintf(path, sizeof path, "%s/config.json", every_folder);
    pc_test_write(path, config, sizeof config - 1);
    return pc_model_file_open(out, context, every_folder, NULL);
}

static pc_status make_object(int which)
{
    void **at = &every_object[which];
    pc_generate_options o = every_generate_options();
    switch (which) {
    case MODEL:
        return every_toy((pc_model **)at, every_object[CONTEXT]);
    case NATIVE:
        return every_native((pc_model **)at, every_object[CONTEXT]);
    case CACHE:
        return every_cache((pc_cache **)at, every_object[CONTEXT], NULL);
    case SCHEMA:
        return pc_schema_parse((pc_schema **)at, every_object[MODEL], toy_schema,
                               strlen(toy_schema), NULL);
    case PROMPT:
        return pc_prompt_parse((pc_prompt **)at, (pc_schema *const *)&every_object[SCHEMA], 1,
                               "<prompt schema=\"t\"><a x=\"some\"/><b/>what is it?</prompt>", 56,
                               NULL);
    case NATIVE_PROMPT:
        return pc_prompt_from_tokens((pc_prompt **)at, every_object[NATIVE], every_ids, TOKENS,
                                     NULL);
    case FIRST:
    case SECOND:
    case THIRD:
        o.flags = PC_GENERATE_KEEP;
        return pc_sequence_new((pc_sequence **)at,
                               every_object[PROMPT] ? every_object[PROMPT]
                                                    : every_object[NATIVE_PROMPT],
                               every_object[CACHE], &o);
    case BATCH:
        return pc_batch_new((pc_batch **)at,
                            every_object[MODEL] ? every_object[MODEL] : every_object[NATIVE], NULL);
    case SEGMENT:
        return every_segment((pc_segment **)at, every_object[NATIVE]);
    case WRAPPED:
        return every_wrapped((pc_segment **)at, every_object[CONTEXT]);
    case MEMO:
        return every_memo((pc_memo **)at, every_object[NATIVE]);
    case PLAN:
        return every_plan((pc_plan **)at, every_object[CONTEXT]);
    case SYSTEMS:
        return pc_systems_new((pc_systems **)at, every_object[MODEL], every_object[CACHE], NULL);
    case FOLDER:
        return pc_folder_open((pc_folder **)at, every_object[CONTEXT], every_folder, NULL);
    case FILE_OF_MODEL:
        return open_file((pc_model_file **)at, every_object[CONTEXT]);
    case SCHEMA_BUILDER:
        return pc_schema_builder_new((pc_schema_builder **)at, every_object[MODEL], "t", NULL);
    case PROMPT_BUILDER:
        return pc_prompt_builder_new((pc_prompt_builder **)at, every_object[SCHEMA]);
    case TASK:
        return make_task((pc_task **)at, every_object[CONTEXT]);
    default:
        return PC_ERR_INVALID;
    }
}

/* Records for the every_folder: written by a cache of their own. */
static void fill_folder(void)
{
    pc_cache *cache = NULL;
    pc_segment *segment = NULL;
    const uint8_t key[32] = {3};
    pc_put_options o = PC_PUT_OPTIONS_INIT;
    o.cost_seconds = 10;
    CHECK_OK(every_cache(&cache, every_object[CONTEXT], every_folder));
    CHECK_OK(every_wrapped(&segment, every_object[CONTEXT]));
    CHECK(pc_cache_put(cache, key, segment, &o) >= 0);
    CHECK_OK(pc_cache_flush(cache));
    pc_segment_free(segment);
    pc_cache_free(cache);
}

int64_t every_blocks_now(void)
{
    pthread_mutex_lock(&memory_lock);
    int64_t blocks = every_blocks;
    pthread_mutex_unlock(&memory_lock);
    return blocks;
}

void every_make(uint32_t needed)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    pc_allocator mem = {sizeof(pc_allocator), NULL, on_alloc, on_release_memory};
    o.allocator = &mem;
    o.log = on_log;
    o.parallel_for = on_parallel;
    o.threads = 2;
    every_next_folder();
    CHECK_OK(pc_context_new((pc_context **)&every_object[CONTEXT], &o));
    for (int i = 1; i < OBJECTS; i++) {
        if (!(needed >> i & 1))
            continue;
        if (i == MEMO || i == FOLDER)
            every_next_folder();
        if (i == FOLDER)
            fill_folder();
        if (!CHECK_OK(make_object(i)))
            fprintf(stderr, "    %s: %s\n", every_object_name[i], pc_error_text());
    }
    if (every_object[BATCH])
        for (int i = FIRST; i <= THIRD; i++)
            if (every_object[i])
                CHECK_OK(pc_batch_add(every_object[BATCH], every_object[i]));
}

void every_end(void)
{
    for (int i = OBJECTS - 1; i >= 0; i--)
        every_free(i);
}

/* A program of a release, kept as a binary (released/, keep_program.sh) and run by every later
 * library. It gives each kind of struct and array to the library, as a program of that release has
 * them, and knows what must come back. Catches: a later library that reads or writes the structs,
 * arrays, callbacks or results of an earlier program in another way.
 *
 * usage: kept_program MODEL FOLDER */
#include <promptcache.h>
#include <promptcache/admin.h>
#include <promptcache/task.h>
#include <promptcache/attend.h>
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <promptcache/embed.h>
#include <promptcache/extend.h>
#include <promptcache/memo.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                                               \
    do {                                                                                         \
        pc_status status_ = (call);                                                              \
        if (status_ < 0) {                                                                       \
            fprintf(stderr, "%d: %s: %s\n", __LINE__, pc_status_name(status_), pc_error_text()); \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)
#define SAME(condition)                                            \
    do {                                                           \
        if (!(condition)) {                                        \
            fprintf(stderr, "%d: not %s\n", __LINE__, #condition); \
            exit(1);                                               \
        }                                                          \
    } while (0)

enum { PLAIN = 100, TURN = 5, HEADS = 4, DIM = 32 };

static _Atomic size_t allocated, events; /* threads of the library change them, too */
static size_t drawn, lines;
static char answer[4096];

/* A guard behind every struct that the library fills: nobody writes there. */
typedef struct guarded_stats {
    pc_stats stats;
    uint64_t guard;
} guarded_stats;

static void *count_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    allocated += size;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void count_free(void *user, void *ptr, size_t size, size_t align)
{
    (void)user, (void)align;
    allocated -= size;
    free(ptr);
}

static void take_line(void *user, uint32_t level, const char *line)
{
    (void)user, (void)level, (void)line;
    lines++;
}

static void take_event(void *user, const pc_event *event)
{
    (void)user;
    events += event->kind >= PC_EVENT_STORE && event->tokens > 0;
}

static int32_t take_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample;
    strncat(answer, text, size < sizeof answer - strlen(answer) - 1 ? size : 0);
    return 0;
}

static int32_t take_token(void *user, const pc_token *token)
{
    (void)user;
    SAME(token->top_count == 3 && token->logprob <= 0 && token->top_logprobs[0] <= 0);
    drawn++;
    return 0;
}

static int32_t raise_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)user, (void)sample;
    SAME(count > 0 && isfinite(logits[0]));
    return 0;
}

static pc_context *context;
static pc_model *model;
static pc_cache *cache;
static pc_model_info info = PC_MODEL_INFO_INIT;
static int32_t ids[PLAIN];
static int64_t positions[PLAIN];

static void open_all(const char *path, const char *folder)
{
    pc_allocator allocator = {sizeof allocator, NULL, count_alloc, count_free};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options how = PC_MODEL_OPTIONS_INIT;
    pc_cache_options of = PC_CACHE_OPTIONS_INIT;
    options.allocator = &allocator;
    options.log = take_line;
    options.threads = 2;
    how.kv = PC_DTYPE_F32;
    how.compute = PC_DTYPE_F32;
    of.disk_path = folder;
    of.disk_codec = PC_CODEC_ZSTD;
    of.compressed_bytes = 16 << 20;
    of.ram_bytes = 64 << 20;
    of.salt = "tenant";
    of.salt_size = 6;
    of.on_event = take_event;
    MUST(pc_context_new(&context, &options));
    MUST(pc_model_load(&model, context, path, &how));
    MUST(pc_cache_new(&cache, context, &of));
    MUST(pc_model_get_info(model, &info));
    SAME(!strcmp(info.architecture, "llama") && info.layers > 0 && info.context_length > PLAIN);
    for (int i = 0; i < PLAIN; i++) {
        ids[i] = 3 + i % 50;
        positions[i] = i;
    }
}

static void answer_modules(void)
{
    static const char text[] = "<schema name=\"s\"><system>Use the notes to answer.</system>"
                               "<module name=\"a\">The desk of Anna Reed is 341. "
                               "<parameter name=\"q\" length=\"20\"/></module></schema>";
    static const char wanted[] =
        "<prompt schema=\"s\"><a q=\"It is tidy.\"/><user>What is the desk of Anna Reed?"
        "</user></prompt>";
    pc_schema_options parse = PC_SCHEMA_OPTIONS_INIT;
    pc_encode_options encode = PC_ENCODE_OPTIONS_INIT;
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    const int32_t biased[2] = {0, 1};
    const float by[2] = {-1, -INFINITY};
    const char *stops[1] = {"never said"};
    const pc_salt salts[1] = {{1000, "other", 5}};
    guarded_stats got = {PC_STATS_INIT, 77};
    pc_schema *schema;
    pc_prompt *prompt;
    pc_item item = PC_ITEM_INIT;
    pc_part part = PC_PART_INIT;
    MUST(pc_schema_parse(&schema, model, text, sizeof text - 1, &parse));
    encode.salts = salts;
    encode.salt_stride = sizeof *salts;
    encode.salt_count = 1;
    MUST(pc_schema_encode(schema, cache, &encode));
    MUST(pc_schema_get_item(schema, 0, &item));
    SAME(item.kind >= PC_ITEM_MODULE
         && pc_schema_get_item(schema, 1000, &item) == PC_ERR_NOT_FOUND);
    MUST(pc_prompt_parse(&prompt, &schema, 1, wanted, sizeof wanted - 1, NULL));
    MUST(pc_prompt_get_part(prompt, 0, &part));
    SAME(part.count > 0 && part.tokens);
    sampling.bias_tokens = biased;
    sampling.bias_values = by;
    sampling.bias_count = 2;
    sampling.penalty_last_tokens = 64;
    options.sampling = &sampling;
    options.max_tokens = 20;
    options.stop_strings = stops;
    options.stop_string_count = 1;
    options.salts = salts;
    options.salt_stride = sizeof *salts;
    options.salt_count = 1;
    options.top_logprobs = 3;
    options.on_token = take_token;
    options.on_text = take_text;
    options.on_logits = raise_logits;
    MUST(pc_generate(prompt, cache, &options, &got.stats));
    SAME(got.guard == 77 && got.stats.tokens_cached > 0 && got.stats.tokens_encoded == 0);
    SAME(got.stats.finish != PC_FINISH_NONE && got.stats.tokens_generated == drawn && drawn);
    SAME(got.stats.tokens_tier[PC_TIER_RAM] == got.stats.tokens_cached);
    SAME(got.stats.exactness == PC_APPROXIMATE && got.stats.memo_record == -1);
    SAME(strstr(answer, "341"));
    pc_prompt_free(prompt);
    pc_schema_free(schema);
}

static pc_status step_as_task(pc_batch *batch)
{
    pc_task *task;
    int32_t fd;
    MUST(pc_batch_step_async(&task, batch));
    MUST(pc_task_fd(task, &fd));
    SAME(fd >= 0);
    pc_status status = pc_task_wait(task, INFINITY);
    MUST(status);
    pc_task_free(task);
    return status;
}

static void sequences(void)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_batch_options of = PC_BATCH_OPTIONS_INIT;
    pc_fork_options fork = PC_FORK_OPTIONS_INIT;
    pc_save_options save = PC_SAVE_OPTIONS_INIT;
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    const uint8_t key[32] = "a conversation";
    pc_prompt *prompt, *level;
    pc_sequence *first, *copy, *back;
    pc_batch *batch;
    pc_span spans[16];
    size_t count;
    options.max_tokens = TURN;
    options.flags = PC_GENERATE_KEEP | PC_GENERATE_LOGITS | PC_GENERATE_IGNORE_END;
    of.max_sequences = 4;
    MUST(pc_prompt_from_tokens(&prompt, model, ids, PLAIN, NULL));
    MUST(pc_sequence_new(&first, prompt, cache, &options));
    MUST(pc_batch_new(&batch, model, &of));
    MUST(pc_batch_add(batch, first));
    while (pc_batch_step(batch) == PC_OK)
        ;
    MUST(pc_sequence_error(first, NULL));
    SAME(pc_sequence_tokens(first, &count) && count == TURN);
    SAME(pc_sequence_logits(first, &count) && count == (size_t)info.vocab);
    MUST(pc_sequence_save(first, cache, key, &save));
    MUST(pc_sequence_fork(&copy, first, &fork));
    MUST(pc_sequence_push(copy, ids, 3));
    MUST(pc_batch_add(batch, copy));
    MUST(pc_sequence_truncate(first, 2));
    while (step_as_task(batch) == PC_OK)
        ;
    MUST(pc_batch_get_stats(batch, &stats));
    SAME(stats.sequences == 2 && !stats.running);
    SAME(pc_sequence_load(&back, model, cache, key, &options, &save, NULL) == PC_OK);
    SAME(pc_sequence_tokens(back, &count) && count == TURN);
    MUST(pc_sequence_spans(first, spans, sizeof *spans, 16, &count));
    SAME(count >= 1);
    MUST(pc_prompt_from_spans(&level, model, spans, sizeof *spans, count, 2 * PLAIN, ids, 3, NULL));
    MUST(pc_generate(level, NULL, &options, NULL));
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    pc_prompt_free(level);
    pc_prompt_free(prompt);
    pc_sequence_free(first);
    pc_sequence_free(copy);
    pc_sequence_free(back);
    pc_batch_free(batch);
}

static void conversations(void)
{
    pc_message messages[2] = {{.role = "system", .content = "The desk of Anna Reed is 341."},
                              {.role = "user", .content = "What is the desk of Anna Reed?"}};
    pc_chat_options chat = PC_CHAT_OPTIONS_INIT;
    pc_schema_options of = PC_SCHEMA_OPTIONS_INIT;
    pc_prompt_options how = PC_PROMPT_OPTIONS_INIT;
    pc_schema_builder *builder;
    pc_prompt_builder *wanted;
    pc_schema *schema;
    pc_prompt *prompt, *built;
    char text[512];
    size_t size;
    for (int i = 0; i < 2; i++)
        messages[i].content_size = strlen(messages[i].content);
    MUST(pc_chat_format(model, messages, sizeof *messages, 2, &chat, text, sizeof text, &size));
    SAME(size > 60 && size < sizeof text);
    MUST(pc_prompt_from_messages(&prompt, model, messages, sizeof *messages, 2, &chat));
    MUST(pc_schema_builder_new(&builder, model, "built", &of));
    MUST(pc_schema_builder_begin_module(builder, "a", 0));
    MUST(pc_schema_builder_add_text(builder, "<m/> is text.", 13, 0));
    MUST(pc_schema_builder_end(builder));
    MUST(pc_schema_from_builder(&schema, builder));
    MUST(pc_prompt_builder_new(&wanted, schema));
    MUST(pc_prompt_builder_use(wanted, "a"));
    MUST(pc_prompt_builder_add_text(wanted, "And?", 4, 0));
    MUST(pc_prompt_from_builder(&built, wanted, &how));
    SAME(pc_prompt_part_count(built) == 2 && pc_prompt_part_count(prompt) > 0);
    pc_schema_builder_free(builder);
    pc_prompt_builder_free(wanted);
    pc_prompt_free(built);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
}

static void computed_by_hand(const char *folder)
{
    pc_lane lanes[2] = {{NULL, 0, ids, positions, 10, NULL, 0},
                        {NULL, 0, ids, positions, 5, NULL, 0}};
    pc_segment *segments[2];
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    pc_embed_options embed = PC_EMBED_OPTIONS_INIT;
    pc_memo_options of = PC_MEMO_OPTIONS_INIT;
    pc_prefill_options how = PC_PREFILL_OPTIONS_INIT;
    pc_memo_result results[2];
    pc_input inputs[2] = {{ids, 20, NULL}, {ids + 1, 30, NULL}};
    const double nearest = -INFINITY;
    float *embeddings = malloc(2 * (size_t)info.hidden * sizeof *embeddings);
    pc_prompt *prompts[2];
    pc_memo *memo;
    char path[512];
    args.lanes = lanes;
    args.lane_stride = sizeof *lanes;
    args.lane_count = 2;
    args.segments = segments;
    MUST(pc_eval(model, &args));
    for (int i = 0; i < 2; i++) {
        size_t count;
        SAME(pc_segment_tokens(segments[i], &count) && count == lanes[i].count);
        pc_segment_free(segments[i]);
        MUST(pc_prompt_from_tokens(&prompts[i], model, inputs[i].tokens, inputs[i].count, NULL));
    }
    embed.flags = PC_EMBED_NORMALIZE;
    MUST(pc_embed(prompts, 2, cache, &embed, embeddings, NULL));
    SAME(fabsf(embeddings[0]) <= 1);
    snprintf(path, sizeof path, "%s/memo", folder);
    MUST(pc_memo_open(&memo, model, path, &of));
    MUST(pc_memo_add(memo, inputs, sizeof *inputs, 2, NULL));
    how.memo = memo;
    how.threshold = &nearest;
    how.results = results;
    how.result_stride = sizeof *results;
    how.embeddings = embeddings;
    MUST(pc_prefill(model, inputs, sizeof *inputs, 2, &how, NULL));
    SAME(results[0].record >= 0 && results[1].similarity == 1);
    pc_memo_free(memo);
    pc_prompt_free(prompts[0]);
    pc_prompt_free(prompts[1]);
    free(embeddings);
}

static void other_runtimes(void)
{
    uint8_t base[32], keys[2][32];
    const uint8_t fingerprint[32] = {9};
    float states[2][64] = {{1}, {2}}, back[2][64] = {{0}};
    const void *blocks[1];
    const uint64_t bytes[1] = {sizeof *states};
    void *to[2][1] = {{back[0]}, {back[1]}};
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    pc_key_segment_args of = PC_KEY_SEGMENT_ARGS_INIT;
    pc_put_options put = PC_PUT_OPTIONS_INIT;
    pc_raw raw = PC_RAW_INIT;
    pc_get_entry entries[2];
    pc_load *load;
    size_t found = 0;
    parts.model = fingerprint;
    MUST(pc_key_base(base, &parts));
    raw.model = fingerprint;
    raw.dtype = PC_DTYPE_F32;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.layers = raw.kv_heads = raw.k_dim = raw.v_dim = 1;
    raw.tokens = ids;
    raw.token_count = 16;
    raw.blocks = blocks;
    raw.block_bytes = bytes;
    raw.block_count = 1;
    of.base = base;
    of.tokens = ids;
    of.count = 16;
    memset(entries, 0, sizeof entries);
    for (int i = 0; i < 2; i++) {
        of.parent = i ? keys[0] : NULL;
        of.distance = i ? 16 : 0;
        MUST(pc_key_segment(keys[i], &of));
        blocks[0] = states[i];
        MUST(pc_cache_put_copy(cache, keys[i], &raw, &put));
        entries[i].key = keys[i];
        entries[i].tokens = ids;
        entries[i].token_count = 16;
        entries[i].blocks = to[i];
    }
    MUST(pc_cache_find(cache, keys[0], 2, &found, NULL, NULL));
    SAME(found == 2);
    MUST(pc_cache_get_many(&load, cache, &raw, entries, sizeof *entries, 2, NULL));
    MUST(pc_load_wait(load, 30));
    pc_load_free(load);
    SAME(!memcmp(states, back, sizeof states));
}

/* One head after the other, as tasks: what the call of all has given. */
static void attend_in_parts(pc_plan *plan, const pc_attend_args *all)
{
    float q[2][DIM], out[2][DIM], lse[2];
    pc_task *task;
    for (uint32_t h = 0; h < HEADS; h++) {
        pc_attend_args args = *all;
        for (size_t r = 0; r < 2; r++)
            memcpy(q[r], (const float *)all->q + (r * HEADS + h) * DIM, sizeof q[r]);
        args.q = q;
        args.out = out;
        args.lse = lse;
        args.first_kv_head = h;
        args.kv_head_count = 1;
        MUST(pc_attend_async(&task, plan, &args));
        MUST(pc_task_wait(task, INFINITY));
        pc_task_free(task);
        for (size_t r = 0; r < 2; r++)
            SAME(!memcmp(out[r], (const float *)all->out + (r * HEADS + h) * DIM, sizeof out[r])
                 && lse[r] == all->lse[r * HEADS + h]);
    }
}

static void attention(void)
{
    static _Alignas(64) unsigned char pages[1 << 16];
    static float k[TURN][HEADS][DIM], v[TURN][HEADS][DIM], q[2][HEADS][DIM], out[2][2][HEADS][DIM];
    static float lse[2][2][HEADS];
    const void *table[2] = {pages, NULL};
    const int32_t page = 0;
    const int64_t at[2] = {TURN, TURN};
    const uint32_t first[2][3] = {{0, 1, 2}, {0, 1, 2}};
    pc_attend_shape shape = PC_ATTEND_SHAPE_INIT;
    pc_pages_args write = PC_PAGES_ARGS_INIT;
    pc_pool pool = PC_POOL_INIT;
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    pc_attend_args attend = PC_ATTEND_ARGS_INIT;
    pc_run runs[2] = {{TURN, NULL, NULL}, {TURN, NULL, &page}};
    pc_row_span spans[2] = {{0, 0, 0, 0, 0}, {0, 0, 0, TURN, 0}};
    static float pool_k[16][HEADS][DIM], pool_v[16][HEADS][DIM];
    pc_plan *plan;
    shape.heads = shape.kv_heads = HEADS;
    shape.k_dim = shape.v_dim = DIM;
    shape.dtype = PC_DTYPE_F32;
    for (int i = 0; i < TURN * HEADS * DIM; i++) {
        (&k[0][0][0])[i] = (float)(i % 17) / 17;
        (&v[0][0][0])[i] = (float)(i % 23) / 23;
        (&q[0][0][0])[i % (2 * HEADS * DIM)] = (float)(i % 5) / 5;
    }
    memcpy(pool_k, k, sizeof k);
    memcpy(pool_v, v, sizeof v);
    write.shape = &shape;
    write.pages = pages;
    write.count = TURN;
    write.k = k;
    write.v = v;
    MUST(pc_pages_write(&write));
    pool.page_tokens = 16;
    pool.page_count = 1;
    args.shape = &shape;
    args.runs = runs;
    args.run_stride = sizeof *runs;
    args.run_count = 2;
    args.positions = at;
    args.spans = spans;
    args.span_stride = sizeof *spans;
    args.row_count = 2;
    args.pool = &pool;
    attend.pages = table;
    attend.q = q;
    attend.pool_k = pool_k;
    attend.pool_v = pool_v;
    for (int kind = 0; kind < 2; kind++) { /* packed, then in the pool */
        for (int s = 0; s < 2; s++)
            spans[s].run = (uint32_t)kind;
        args.first = first[kind];
        MUST(pc_plan_new(&plan, context, &args));
        attend.out = out[kind];
        attend.lse = lse[kind][0];
        MUST(pc_attend(plan, &attend));
        attend_in_parts(plan, &attend);
        pc_plan_free(plan);
    }
    SAME(!memcmp(out[0], out[1], sizeof out[0]) && !memcmp(lse[0], lse[1], sizeof lse[0]));
    SAME(isfinite(out[0][0][0][0]) && out[0][0][0][0] > 0);
}

static void operations(const char *folder)
{
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    pc_tier_stats tier = PC_TIER_STATS_INIT;
    pc_folder_options of = PC_FOLDER_OPTIONS_INIT;
    pc_record_info record = PC_RECORD_INFO_INIT;
    pc_plugin_info plugin = PC_PLUGIN_INFO_INIT;
    pc_folder *records;
    size_t size;
    MUST(pc_cache_flush(cache));
    MUST(pc_cache_get_stats(cache, &stats));
    MUST(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &tier));
    MUST(pc_cache_prometheus(cache, NULL, 0, &size, NULL));
    SAME(stats.lookups == stats.hits + stats.misses && stats.stored && tier.stored && size > 500);
    MUST(pc_folder_open(&records, context, folder, &of));
    SAME(pc_folder_count(records) > 0);
    MUST(pc_folder_get(records, 0, &record));
    SAME(record.file_bytes > 0 && record.tokens > 0);
    pc_folder_free(records);
    SAME(pc_plugin_get(0, &plugin) >= 0 || plugin.state == 0);
}

int main(int argc, char **argv)
{
    SAME(argc == 3 && pc_abi_version() == PC_ABI_VERSION);
    open_all(argv[1], argv[2]);
    answer_modules();
    sequences();
    conversations();
    computed_by_hand(argv[2]);
    other_runtimes();
    attention();
    operations(argv[2]);
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    SAME(allocated == 0 && events > 0);
    printf("a program of release %d.%d runs\n", PC_VERSION_MAJOR, PC_VERSION_MINOR);
    return 0;
}

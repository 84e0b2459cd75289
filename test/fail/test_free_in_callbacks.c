/* Catches: objects that are used after a callback has freed them; frees that are lost (something
 * leaks), or that make a call hang or change a list under the feet of its reader.
 *
 * Each case is a call with its objects. It runs once to count the callbacks of each kind that it
 * makes. Then it runs anew for each of these kinds and each of its objects: at some of the calls of
 * that kind, the callback frees the object (then all of them at once). AddressSanitizer watches the
 * memory; the test itself watches that everything is given back. */
#include <promptcache/cache.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <promptcache/admin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "every_object.h"

static pthread_t main_thread;
static int armed, victim;    /* armed: 1 while the call of a case runs */
static int kind_now, at_now; /* free `victim` at this call of this kind */
static int counts[KINDS];

/* The allocator and the log may be called under a lock of the cache, which pc_systems_free needs
 * (doc/threading.md). */
static int is_refused(int kind, int which)
{
    return which == SYSTEMS && (kind == ALLOC || kind == FREE || kind == LOG);
}

/* Called by every callback. Objects of one thread belong to the main one. */
static void called(int kind)
{
    if (!armed || !pthread_equal(pthread_self(), main_thread))
        return;
    if (counts[kind]++ != at_now || kind != kind_now)
        return;
    for (int i = 0; i < OBJECTS; i++)
        if ((victim == ALL || victim == i) && !is_refused(kind, i))
            every_free(i);
}
/* ------------------------------------------------------------------ cases */

/* All calls of a case get the every_object as they are when it begins; it ends when one is gone. */
static int all_there(uint32_t needed)
{
    for (int i = 0; i < OBJECTS; i++)
        if ((needed >> i & 1) && !every_object[i])
            return 0;
    return 1;
}

static void generate(void)
{
    pc_generate_options o = every_generate_options();
    pc_stats stats = PC_STATS_INIT;
    o.samples = 2;
    o.repair = PC_REPAIR_TOP;
    o.repair_percent = 10;
    pc_generate(every_object[PROMPT], every_object[CACHE], &o, &stats);
}

static void generate_native(void)
{
    pc_generate_options o = every_generate_options();
    pc_generate(every_object[NATIVE_PROMPT], every_object[CACHE], &o, NULL);
}

static void steps(void)
{
    pc_batch_stats stats = PC_BATCH_STATS_INIT;
    for (int i = 0; i < 3 && every_object[BATCH]; i++) {
        pc_batch_step(every_object[BATCH]);
        if (every_object[BATCH])
            pc_batch_get_stats(every_object[BATCH], &stats);
    }
}

/* Steps, then the calls that change a sequence. */
static void turns(void)
{
    pc_sequence *fork = NULL;
    pc_generate_options o = every_generate_options();
    pc_span spans[8];
    const pc_message so = {.role = "user", .content = "so", .content_size = 2};
    size_t count = 0;
    for (int i = 0; i < 2 && every_object[BATCH]; i++)
        pc_batch_step(every_object[BATCH]);
    if (every_object[FIRST])
        pc_sequence_set_options(every_object[FIRST], &o);
    if (every_object[FIRST])
        pc_sequence_fork(&fork, every_object[FIRST], NULL);
    if (every_object[BATCH] && fork)
        pc_batch_add(every_object[BATCH], fork);
    if (every_object[FIRST])
        pc_sequence_push(every_object[FIRST], every_ids, 2);
    if (every_object[FIRST])
        pc_sequence_push_messages(every_object[FIRST], &so, sizeof so, 1, NULL);
    if (every_object[FIRST])
        pc_sequence_truncate(every_object[FIRST], 1);
    if (every_object[FIRST]
        && pc_sequence_spans(every_object[FIRST], spans, sizeof(pc_span), 8, &count) == PC_OK)
        while (count)
            pc_segment_free(spans[--count].segment);
    if (every_object[BATCH])
        pc_batch_step(every_object[BATCH]);
    if (every_object[FIRST])
        pc_sequence_cancel(every_object[FIRST]);
    if (every_object[BATCH])
        pc_batch_step(every_object[BATCH]);
    if (every_object[BATCH])
        pc_batch_changed(every_object[BATCH], &count);
    pc_sequence_free(fork);
}

static void make_sequence(void)
{
    pc_sequence *s = NULL;
    pc_generate_options o = every_generate_options();
    pc_sequence_new(&s, every_object[PROMPT], every_object[CACHE], &o);
    if (s && every_object[BATCH])
        pc_batch_add(every_object[BATCH], s);
    pc_sequence_free(s);
}

static void encode(void)
{
    pc_encode_options o = PC_ENCODE_OPTIONS_INIT;
    o.progress = every_progress;
    o.pin = 1;
    pc_schema_encode(every_object[SCHEMA], every_object[CACHE], &o);
}

static void prefetch(void)
{
    uint64_t started;
    pc_schema_prefetch(every_object[SCHEMA], every_object[CACHE], NULL, &started);
}

static void documents(void)
{
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    source.system = "the word";
    source.system_size = 8;
    pc_schema_parse(&schema, every_object[MODEL], toy_schema, strlen(toy_schema), NULL);
    pc_schema_free(schema);
    schema = NULL;
    if (every_object[MODEL])
        pc_schema_from_format(&schema, every_object[MODEL], &source);
    if (schema)
        pc_prompt_fill(&prompt, schema, "some text", 9, NULL);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
}

static void prompts(void)
{
    pc_prompt *prompt = NULL;
    pc_prompt_parse(&prompt, (pc_schema *const[]){every_object[SCHEMA]}, 1,
                    "<prompt schema=\"t\"><b/>this</prompt>", 36, NULL);
    pc_prompt_free(prompt);
    prompt = NULL;
    if (every_object[MODEL])
        pc_prompt_from_text(&prompt, every_object[MODEL], "some text", 9, NULL);
    pc_prompt_free(prompt);
    prompt = NULL;
    if (every_object[SCHEMA])
        pc_prompt_fill(&prompt, every_object[SCHEMA], "some text", 9, NULL);
    pc_prompt_free(prompt);
}

static void conversations(void)
{
    const pc_message m[] = {{.role = "system", .content = "so", .content_size = 2},
                            {.role = "user", .content = "what", .content_size = 4}};
    pc_prompt *prompt = NULL;
    char text[64];
    size_t size;
    pc_chat_format(every_object[MODEL], m, sizeof *m, 2, NULL, text, sizeof text, &size);
    if (every_object[MODEL])
        pc_prompt_from_messages(&prompt, every_object[MODEL], m, sizeof *m, 2, NULL);
    pc_prompt_free(prompt);
}

static void build_schema(void)
{
    static const char *const set[] = {"a", "b"};
    pc_schema *schema = NULL;
#define B every_object[SCHEMA_BUILDER]
    for (int i = 0; i < 2; i++) {
        if (B)
            pc_schema_builder_begin_module(B, set[i], PC_ITEM_UNCACHED);
        if (B)
            pc_schema_builder_add_parameter(B, "x", 3, "he", 2);
        if (B)
            pc_schema_builder_end(B);
    }
    if (B)
        pc_schema_builder_add_scaffold(B, set, 2);
    if (B)
        pc_schema_builder_begin_union(B, NULL);
    if (B)
        pc_schema_builder_end(B);
    if (B)
        pc_schema_builder_begin_turn(B, "user");
    if (B)
        pc_schema_builder_add_text(B, "the word", 8, 0);
    if (B)
        pc_schema_builder_end(B);
    if (B)
        pc_schema_from_builder(&schema, B);
#undef B
    pc_schema_free(schema);
}

static void build_prompt(void)
{
    pc_prompt *prompt = NULL;
#define B every_object[PROMPT_BUILDER]
    if (B)
        pc_prompt_builder_use(B, "n/in");
    if (B)
        pc_prompt_builder_use(B, "a");
    if (B)
        pc_prompt_builder_add_argument(B, "x", "he", 2);
    if (B)
        pc_prompt_builder_begin_turn(B, "user");
    if (B)
        pc_prompt_builder_add_text(B, "what", 4, 0);
    if (B)
        pc_prompt_builder_end(B);
    if (B)
        pc_prompt_from_builder(&prompt, B, NULL);
#undef B
    pc_prompt_free(prompt);
}

static void tokens(void)
{
    int32_t out[32];
    char text[64];
    size_t count;
    pc_tokenize(every_object[MODEL], "the word is here", 16, 0, out, 32, &count);
    if (every_object[MODEL])
        pc_detokenize(every_object[MODEL], every_ids, TOKENS, 0, text, sizeof text, &count);
}

static void system_prompts(void)
{
    pc_schema *found = NULL;
    if (every_object[SYSTEMS])
        pc_systems_fill(every_object[SYSTEMS], "one", "the word is", 11);
    if (every_object[SYSTEMS])
        pc_systems_fill(every_object[SYSTEMS], "one", "it was some", 11);
    if (every_object[SYSTEMS])
        pc_systems_find(&found, every_object[SYSTEMS], "one");
    if (every_object[SYSTEMS] && every_object[SCHEMA])
        pc_systems_fill_schema(every_object[SYSTEMS], "two", every_object[SCHEMA]);
    if (every_object[SYSTEMS])
        pc_systems_drop(every_object[SYSTEMS], "one");
    if (every_object[SYSTEMS])
        pc_systems_clear(every_object[SYSTEMS]);
    pc_schema_free(found);
}

static void stored_states(void)
{
    static const uint8_t key[32] = {9}, fingerprint[32] = {1};
    static const uint64_t bytes = BYTES_OF_WRAPPED;
    pc_segment *found = NULL;
    pc_raw raw = PC_RAW_INIT;
    uint64_t freed;
    char text[8192];
    size_t size;
    raw.model = fingerprint;
    raw.dtype = PC_DTYPE_F32;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.layers = raw.kv_heads = raw.k_dim = raw.v_dim = 1;
    raw.tokens = every_ids;
    raw.token_count = TOKENS;
    raw.block_bytes = &bytes;
    raw.block_count = 1;
    pc_cache_put(every_object[CACHE], key, every_object[WRAPPED], NULL);
    every_free(WRAPPED); /* the cache has the last reference */
    if (every_object[CACHE])
        pc_cache_get(&found, every_object[CACHE], key, &raw, 0, NULL);
    pc_segment_free(found);
    if (every_object[CACHE])
        pc_cache_pin(every_object[CACHE], key, 1, 0);
    if (every_object[CACHE])
        pc_cache_set_quota(every_object[CACHE], PC_TIER_RAM, "salt", 4, 1 << 16);
    if (every_object[CACHE])
        pc_cache_prometheus(every_object[CACHE], text, sizeof text, &size, NULL);
    if (every_object[CACHE])
        pc_cache_unpin(every_object[CACHE], key, 1);
    if (every_object[CACHE])
        pc_cache_trim(every_object[CACHE], 0, &freed);
    if (every_object[CACHE])
        pc_cache_clear(every_object[CACHE]);
}

static void models(void)
{
    pc_model *model = NULL;
    pc_model_file *file = NULL;
    every_toy(&model, every_object[CONTEXT]);
    pc_model_free(model);
    model = NULL;
    if (every_object[CONTEXT])
        every_native(&model, every_object[CONTEXT]);
    pc_model_free(model);
    if (every_object[CONTEXT])
        pc_model_file_open(&file, every_object[CONTEXT], every_folder, NULL);
    pc_model_file_free(file);
}

static void caches(void)
{
    pc_cache *cache = NULL;
    pc_segment *segment = NULL;
    pc_plan *plan = NULL;
    pc_folder *opened = NULL;
    pc_costs costs = PC_COSTS_INIT;
    every_cache(&cache, every_object[CONTEXT], every_folder);
    if (every_object[CONTEXT])
        every_wrapped(&segment, every_object[CONTEXT]);
    if (every_object[CONTEXT])
        every_plan(&plan, every_object[CONTEXT]);
    if (every_object[CONTEXT])
        pc_folder_open(&opened, every_object[CONTEXT], every_folder, NULL);
    if (every_object[CONTEXT])
        pc_costs_get(every_object[CONTEXT], &costs);
    pc_folder_free(opened);
    pc_plan_free(plan);
    pc_segment_free(segment);
    pc_cache_free(cache);
}

static void evaluation(void)
{
    const pc_span span = {every_object[SEGMENT], 0, 0, 0};
    const int64_t behind[TOKENS] = {8, 9, 10, 11, 12, 13, 14, 15};
    const pc_lane lanes[2] = {{&span, 1, every_ids, behind, TOKENS, NULL, sizeof(pc_span)},
                              {NULL, 0, every_ids, every_positions, TOKENS, NULL, 0}};
    pc_segment *made[2] = {NULL, NULL};
    pc_eval_args a = PC_EVAL_ARGS_INIT;
    a.lanes = lanes;
    a.lane_stride = sizeof(pc_lane);
    a.lane_count = 2;
    a.segments = made;
    a.trace = every_trace;
    pc_eval(every_object[NATIVE], &a);
    pc_segment_free(made[0]);
    pc_segment_free(made[1]);
}

static void segments(void)
{
    const pc_span span = {every_object[SEGMENT], 0, 0, 0};
    static float k[4096], v[4096];
    pc_segment *copy = NULL;
    pc_prompt *prompt = NULL;
    pc_prompt_from_spans(&prompt, every_object[NATIVE], &span, sizeof(pc_span), 1, TOKENS,
                         every_ids, 2, NULL);
    pc_prompt_free(prompt);
    if (every_object[SEGMENT])
        pc_segment_copy(&copy, every_object[SEGMENT]);
    pc_segment_free(copy);
    if (every_object[SEGMENT])
        pc_segment_read(every_object[SEGMENT], 0, 3, k, v);
}

static void prefill(void)
{
    const pc_input inputs[2] = {{every_ids, TOKENS, NULL}, {every_ids, TOKENS - 1, NULL}};
    pc_segment *made[2] = {NULL, NULL};
    static float embeddings[2 * 4096];
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    o.memo = every_object[MEMO];
    o.segments = made;
    o.embeddings = embeddings;
    o.cancelled = every_cancelled;
    pc_prefill(every_object[NATIVE], inputs, sizeof(pc_input), 2, &o, NULL);
    pc_segment_free(made[0]);
    pc_segment_free(made[1]);
}

static void memo(void)
{
    const pc_input inputs[2] = {{every_ids, TOKENS, NULL}, {every_ids, TOKENS - 1, NULL}};
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_memo *other = NULL;
    work.progress = every_progress;
    pc_memo_add(every_object[MEMO], inputs, sizeof(pc_input), 2, &work);
    if (every_object[MEMO])
        pc_memo_train(every_object[MEMO], &work);
    work.limit = 1;
    if (every_object[MEMO])
        pc_memo_tune(every_object[MEMO], inputs, sizeof(pc_input), 2, &work);
    if (every_object[MEMO])
        pc_memo_set_threshold(every_object[MEMO], 0, 0.5, 0, 0, NULL);
    if (every_object[MEMO])
        pc_memo_tidy(every_object[MEMO]);
    every_next_folder();
    if (every_object[NATIVE])
        every_memo(&other, every_object[NATIVE]);
    pc_memo_free(other);
}

static void attention(void)
{
    static _Alignas(64) unsigned char pages[64 * 32 * 4];
    static float q[2 * 16], out[2 * 16];
    static const double frequency[8] = {1};
    pc_rope rope = PC_ROPE_INIT;
    const void *run = pages;
    pc_attend_args a = PC_ATTEND_ARGS_INIT;
    rope.dims = 16;
    rope.frequency = frequency;
    a.pages = &run;
    a.q = q;
    a.out = out;
    a.rope = &rope;
    pc_attend(every_object[PLAN], &a);
}

static void measuring(void)
{
    pc_calibrate_options o = PC_CALIBRATE_OPTIONS_INIT;
    o.path = "";
    o.progress = every_progress;
    pc_calibrate(every_object[CONTEXT], &o);
}

static void records(void)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    int32_t out[TOKENS];
    size_t count;
    uint64_t removed, freed;
    pc_folder_get(every_object[FOLDER], 0, &info);
    if (every_object[FOLDER])
        pc_folder_tokens(every_object[FOLDER], 0, out, TOKENS, &count);
    if (every_object[FOLDER])
        pc_folder_verify(every_object[FOLDER], 0);
    if (every_object[FOLDER])
        pc_folder_remove(every_object[FOLDER], 0);
    if (every_object[FOLDER])
        pc_folder_trim(every_object[FOLDER], 0, &removed, &freed);
}

typedef struct call_case {
    const char *name;
    void (*run)(void);
    uint32_t needed;
    int points; /* calls of a kind at which the object is freed, at most */
} call_case;

static const call_case cases[] = {
    {"generate", generate, SERVED, 6},
    {"generate_native", generate_native, BIT(NATIVE) | BIT(CACHE) | BIT(NATIVE_PROMPT) | BIT(MEMO),
     4},
    {"steps", steps, SERVED | BIT(FIRST) | BIT(SECOND) | BIT(THIRD) | BIT(BATCH), 6},
    {"turns", turns, SERVED | BIT(FIRST) | BIT(SECOND) | BIT(BATCH), 6},
    {"turns_native", turns,
     BIT(NATIVE) | BIT(CACHE) | BIT(NATIVE_PROMPT) | BIT(FIRST) | BIT(SECOND) | BIT(BATCH), 4},
    {"make_sequence", make_sequence, SERVED | BIT(BATCH), 6},
    {"encode", encode, SERVED, 6},
    {"prefetch", prefetch, SERVED, 3},
    {"documents", documents, BIT(MODEL), 12},
    {"prompts", prompts, BIT(MODEL) | BIT(SCHEMA), 12},
    {"conversations", conversations, BIT(MODEL), 12},
    {"build_schema", build_schema, BIT(MODEL) | BIT(SCHEMA_BUILDER), 12},
    {"build_prompt", build_prompt, BIT(MODEL) | BIT(SCHEMA) | BIT(PROMPT_BUILDER), 12},
    {"tokens", tokens, BIT(MODEL), 3},
    {"system_prompts", system_prompts, BIT(MODEL) | BIT(CACHE) | BIT(SCHEMA) | BIT(SYSTEMS), 8},
    {"stored_states", stored_states, BIT(CACHE) | BIT(WRAPPED), 8},
    {"models", models, 0, 6},
    {"caches", caches, 0, 8},
    {"evaluation", evaluation, BIT(NATIVE) | BIT(SEGMENT), 4},
    {"segments", segments, BIT(NATIVE) | BIT(SEGMENT), 8},
    {"prefill", prefill, BIT(NATIVE) | BIT(MEMO), 4},
    {"memo", memo, BIT(NATIVE) | BIT(MEMO), 4},
    {"attention", attention, BIT(PLAN), 6},
    {"records", records, BIT(FOLDER), 8},
    {"measuring", measuring, 0, 1},
};

static void run_case(const call_case *c, int kind, int at, int what)
{
    int64_t blocks = every_blocks_now();
    int users = every_freed_users;
    kind_now = kind;
    at_now = at;
    victim = what;
    every_make(c->needed);
    if (all_there(c->needed)) {
        memset(counts, 0, sizeof counts);
        armed = 1;
        c->run();
        armed = 0;
    }
    every_end();
    if (!CHECK_INT(every_blocks_now(), blocks)
        || (c->needed & BIT(MODEL) && !CHECK(every_freed_users > users)))
        fprintf(stderr, "    %s, %s %d frees %s\n", c->name,
                kind >= 0 ? every_kind_name[kind] : "none", at, every_object_name[what]);
}

static void all_pairs(const call_case *c)
{
    int total[KINDS];
    run_case(c, -1, 0, ALL);
    memcpy(total, counts, sizeof total);
    for (int kind = 0; kind < KINDS; kind++)
        for (int p = 0; p < c->points && p < total[kind]; p++) {
            int at = total[kind] <= c->points
                         ? p
                         : p * (total[kind] - 1) / (c->points - 1 + (c->points == 1));
            for (int what = 0; what <= ALL; what++)
                if (what == CONTEXT || what == ALL || (c->needed >> what & 1))
                    run_case(c, kind, at, what);
        }
}

/* ------------------------------------------------------------------ what else callbacks do */

/* A push gives held-back text to every_text, which may push again or free the sequence. */
typedef struct pushing {
    pc_sequence *sequence;
    int frees, calls;
} pushing;

static int32_t on_held_text(void *user, uint32_t sample, const char *text, size_t size)
{
    pushing *p = user;
    pc_sequence *s = p->sequence;
    (void)sample, (void)text, (void)size;
    if (!s)
        return 0;
    p->calls++;
    CHECK_STATUS(pc_sequence_push(s, every_ids, TOKENS), PC_ERR_STATE);
    CHECK_STATUS(pc_sequence_truncate(s, 0), PC_ERR_STATE);
    if (p->frees)
        pc_sequence_free(s);
    p->sequence = NULL;
    return 0;
}

static char last_byte_of_a_step(pc_sequence *s)
{
    size_t size;
    CHECK_OK(pc_batch_add(every_object[BATCH], s));
    CHECK_OK(pc_batch_step(every_object[BATCH]));
    const char *text = pc_sequence_text(s, &size);
    return size ? text[size - 1] : 0;
}

static void push_within_push(int frees)
{
    pc_sequence *s = NULL;
    pushing p = {.frees = frees};
    char stop[3] = {0, 1, 0};
    const char *const stops[] = {stop};
    pc_generate_options o;
    every_make(SERVED | BIT(BATCH));
    o = every_generate_options();
    CHECK_OK(pc_sequence_new(&s, every_object[PROMPT], NULL, &o));
    stop[0] = last_byte_of_a_step(s);
    pc_sequence_free(s);
    o.stop_strings = stops;
    o.stop_string_count = 1;
    o.on_text = on_held_text;
    o.on_text_user = &p;
    CHECK_OK(pc_sequence_new(&s, every_object[PROMPT], NULL, &o));
    last_byte_of_a_step(s);
    p.sequence = s;
    CHECK_OK(pc_sequence_push(s, every_ids, 1));
    CHECK_INT(p.calls, 1);
    if (!frees)
        pc_sequence_free(s);
    every_end();
}

/* The last reference of a cache goes in a callback on one of its own threads. */
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pc_cache *cache_to_free;
static int flushed_as = 1;

static void free_cache_on_its_thread(void *user, const pc_event *event)
{
    pc_cache *cache;
    (void)user, (void)event;
    if (pthread_equal(pthread_self(), main_thread))
        return;
    pthread_mutex_lock(&cache_lock);
    cache = cache_to_free;
    cache_to_free = NULL;
    pthread_mutex_unlock(&cache_lock);
    if (!cache)
        return;
    flushed_as = pc_cache_flush(cache);
    pc_cache_clear(cache);
    pc_cache_free(cache);
}

static void own_threads(void)
{
    const uint8_t key[32] = {7};
    int64_t blocks = every_blocks_now();
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_put_options put = PC_PUT_OPTIONS_INIT;
    pc_cache *cache = NULL;
    every_make(BIT(WRAPPED));
    o.disk_path = every_folder;
    o.on_event = free_cache_on_its_thread;
    put.cost_seconds = 10;
    CHECK_OK(pc_cache_new(&cache, every_object[CONTEXT], &o));
    cache_to_free = cache;
    CHECK(pc_cache_put(cache, key, every_object[WRAPPED], &put) >= 0);
    every_end();
    for (int i = 0; i < 2000 && every_blocks_now() != blocks; i++)
        usleep(5000);
    CHECK_INT(every_blocks_now(), blocks);
    CHECK(!cache_to_free);
    CHECK_INT(flushed_as, PC_ERR_STATE);
}

/* A memo cannot be changed by the callback of its own change: it would wait for itself. */
static int refused;

static int32_t change_memo(void *user, const char *what, uint64_t done, uint64_t total)
{
    const pc_input input = {every_ids, TOKENS - 2, NULL};
    (void)user, (void)what, (void)done, (void)total;
    refused += pc_memo_add(every_object[MEMO], &input, sizeof(pc_input), 1, NULL) == PC_ERR_STATE;
    return 0;
}

static void memo_within_memo(void)
{
    const pc_input input = {every_ids, TOKENS, NULL};
    pc_memo_work work = PC_MEMO_WORK_INIT;
    every_make(BIT(NATIVE) | BIT(MEMO));
    work.progress = change_memo;
    CHECK_OK(pc_memo_add(every_object[MEMO], &input, sizeof(pc_input), 1, &work));
    CHECK(refused > 0);
    every_end();
}

int main(int argc, char **argv)
{
    main_thread = pthread_self();
    every_called = called;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 2 || !strcmp(argv[1], cases[i].name))
            all_pairs(&cases[i]);
    push_within_push(0);
    push_within_push(1);
    own_threads();
    memo_within_memo();
    return pc_test_end();
}

/* Every struct that a caller of the engine sets up, through the calls that read or fill it.
 * Catches: a struct of an older caller that is refused or read past its end; one of a newer
 * caller whose unknown fields are set and ignored; a reserved field or an unknown flag that is
 * accepted; an INIT macro that does not give the defaults; a result that is written past the
 * caller's size; an object that is returned together with an error. The sizes are those of
 * version 1, as numbers. */
#include "options_rules.h"
#include "testing.h"
#include "toy_model.h"

#include <promptcache/admin.h>
#include <promptcache/bench.h>
#include <promptcache/cache.h>
#include <promptcache/embed.h>
#include <promptcache/grammar.h>
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pc_context *context;
    pc_model *model; /* the demo model: pc_eval is only for our own */
    pc_model_file *file;
    pc_cache *cache;
    pc_schema *schema;
    pc_prompt *prompt;
    pc_sequence *sequence, *stepped; /* new; with states */
    pc_systems *systems;
    pc_batch *batch;
    pc_toy *toy;
} world;

static const char schema_text[] =
    "<schema name=\"s\"><module name=\"m\">Anna Reed.</module></schema>";
static const char prompt_text[] = "<prompt schema=\"s\"><m/>Who?</prompt>";

/* How a struct is given to the library. Whatever is made is freed again; a failing call must have
 * set its out to NULL. */
typedef pc_status (*use_fn)(const void *options);

static pc_status use_context(const void *options)
{
    pc_context *out = world.context;
    pc_status status = pc_context_new(&out, options);
    CHECK((status >= 0) == (out != NULL));
    pc_context_free(out);
    return status;
}

static pc_status use_allocator(const void *allocator)
{
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    o.allocator = allocator;
    return use_context(&o);
}

static void *plain_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void plain_free(void *user, void *ptr, size_t size, size_t align)
{
    (void)user, (void)size, (void)align;
    free(ptr);
}

static pc_status use_cache(const void *options)
{
    pc_cache *out = world.cache;
    pc_status status = pc_cache_new(&out, world.context, options);
    CHECK((status >= 0) == (out != NULL));
    pc_cache_free(out);
    return status;
}

static size_t codec_bound(void *user, const pc_codec_block *block)
{
    (void)user;
    (void)block;
    return 0;
}

static pc_status codec_encode(void *user, const pc_codec_block *block, const void *data, void *out,
                              size_t capacity, size_t *size)
{
    (void)user, (void)block, (void)data, (void)out, (void)capacity;
    *size = 0;
    return PC_OK;
}

static pc_status codec_decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                              void *out)
{
    (void)user, (void)block, (void)in, (void)size, (void)out;
    return PC_OK;
}

static pc_status use_codec(const void *options)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.codecs = options;
    o.codec_count = 1;
    return use_cache(&o);
}

static pc_status finish_model(pc_status status, pc_model *out)
{
    CHECK((status >= 0) == (out != NULL));
    pc_model_free(out);
    return status;
}

static pc_status use_load(const void *options)
{
    pc_model *out = world.model;
    pc_status status = pc_model_load(&out, world.context, PC_SOURCE_DIR "/models/demo/demo.gguf",
                                     options);
    return finish_model(status, out);
}

static pc_status use_host(const void *options)
{
    pc_model_ops ops = pc_toy_ops();
    pc_model *out = world.model;
    pc_status status = pc_model_from_ops(&out, world.context, &ops, world.toy, NULL, options);
    return finish_model(status, out);
}

static pc_status use_ops(const void *options)
{
    pc_model *out = world.model;
    pc_status status = pc_model_from_ops(&out, world.context, options, world.toy, NULL, NULL);
    return finish_model(status, out);
}

static pc_status use_schema(const void *options)
{
    pc_schema *out = world.schema;
    pc_status status = pc_schema_parse(&out, world.model, schema_text, sizeof schema_text - 1,
                                       options);
    CHECK((status >= 0) == (out != NULL));
    pc_schema_free(out);
    return status;
}

static pc_status use_format(const void *options)
{
    pc_schema *out = world.schema;
    pc_status status = pc_schema_from_format(&out, world.model, options);
    CHECK((status >= 0) == (out != NULL));
    pc_schema_free(out);
    return status;
}

static pc_status use_chat(const void *options)
{
    const pc_message m = {.role = "user", .content = "he", .content_size = 2};
    size_t size;
    return pc_chat_format(world.model, &m, sizeof m, 1, options, NULL, 0, &size);
}

static pc_status use_systems(const void *options)
{
    pc_systems *out = (pc_systems *)(void *)&world;
    pc_status status = pc_systems_new(&out, world.model, world.cache, options);
    CHECK((status >= 0) == (out != NULL));
    pc_systems_free(out);
    return status;
}

static pc_status use_encode(const void *options)
{
    return pc_schema_encode(world.schema, world.cache, options);
}

static pc_status use_prompt(const void *options)
{
    pc_prompt *out = world.prompt;
    pc_status status = pc_prompt_parse(&out, &world.schema, 1, prompt_text, sizeof prompt_text - 1,
                                       options);
    CHECK((status >= 0) == (out != NULL));
    pc_prompt_free(out);
    return status;
}

static pc_status use_generate(const void *options)
{
    return pc_generate(world.prompt, world.cache, options, NULL);
}

static pc_status embed_one(const void *options, void *stats)
{
    static float embedding[4096];
    return pc_embed(&world.prompt, 1, world.cache, options, embedding, stats);
}

static pc_status use_embed(const void *options)
{
    return embed_one(options, NULL);
}

static pc_status use_sampling(const void *options)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.sampling = options;
    return use_generate(&o);
}

static pc_status use_prometheus(const void *options)
{
    size_t size;
    return pc_cache_prometheus(world.cache, NULL, 0, &size, options);
}

static pc_status use_save(const void *options)
{
    static const uint8_t key[32] = {3};
    return pc_sequence_save(world.stepped, world.cache, key, options);
}

static pc_status use_fork(const void *options)
{
    pc_sequence *out = world.sequence;
    pc_status status = pc_sequence_fork(&out, world.stepped, options);
    CHECK((status >= 0) == (out != NULL));
    pc_sequence_free(out);
    return status;
}

static pc_status use_fork_sampling(const void *options)
{
    pc_fork_options o = PC_FORK_OPTIONS_INIT;
    o.sampling = options;
    return use_fork(&o);
}

static pc_status use_bench(const void *options)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.bench = options;
    return use_generate(&o);
}

static pc_status use_sequence(const void *options)
{
    pc_sequence *out = world.sequence;
    pc_status status = pc_sequence_new(&out, world.prompt, world.cache, options);
    CHECK((status >= 0) == (out != NULL));
    pc_sequence_free(out);
    return status;
}

static pc_status use_set_options(const void *options)
{
    pc_sequence *s = NULL;
    pc_status status;
    CHECK_OK(pc_sequence_new(&s, world.prompt, world.cache, NULL));
    status = pc_sequence_set_options(s, options);
    pc_sequence_free(s);
    return status;
}

static pc_status use_batch(const void *options)
{
    pc_batch *out = (pc_batch *)(void *)&world;
    pc_status status = pc_batch_new(&out, world.model, options);
    CHECK((status >= 0) == (out != NULL));
    pc_batch_free(out);
    return status;
}

/* Where the plug-in module is not, options that are right get as far as that. */
static pc_status use_grammar(const void *options)
{
    pc_grammar *out = (pc_grammar *)(void *)&world;
    pc_status status = pc_grammar_new(&out, world.model, options);
    CHECK((status >= 0) == (out != NULL));
    pc_grammar_free(out);
    return status == PC_ERR_UNSUPPORTED && strstr(pc_error_text(), "plug-in module") ? PC_OK
                                                                                     : status;
}

static pc_status new_matcher(void *user, void **matcher)
{
    *matcher = user;
    return PC_OK;
}

static pc_status copy_matcher(void *user, const void *matcher, void **copy)
{
    (void)matcher;
    return new_matcher(user, copy);
}

static void free_matcher(void *user, void *matcher)
{
    (void)user, (void)matcher;
}

static pc_status any_mask(void *user, void *matcher, uint32_t *bits, size_t count, int32_t *may_end)
{
    (void)user, (void)matcher, (void)count, (void)may_end;
    bits[0] = 1;
    return PC_OK;
}

static pc_status any_accept(void *user, void *matcher, int32_t token)
{
    (void)user, (void)matcher, (void)token;
    return PC_OK;
}

static void any_rollback(void *user, void *matcher, size_t count)
{
    (void)user, (void)matcher, (void)count;
}

static pc_status use_grammar_ops(const void *options)
{
    pc_grammar *out = (pc_grammar *)(void *)&world;
    pc_status status = pc_grammar_new_own(&out, world.model, options);
    CHECK((status >= 0) == (out != NULL));
    pc_grammar_free(out);
    return status;
}

static pc_status use_eval(const void *options)
{
    return pc_eval(world.model, options);
}

static const pc_context_options context_init = PC_CONTEXT_OPTIONS_INIT;
static const pc_allocator allocator_init = {sizeof(pc_allocator), NULL, plain_alloc, plain_free};
static const pc_cache_options cache_init = PC_CACHE_OPTIONS_INIT;
static const pc_model_options model_init = PC_MODEL_OPTIONS_INIT;
static const pc_schema_options schema_init = PC_SCHEMA_OPTIONS_INIT;
static const pc_system_format format_init = PC_SYSTEM_FORMAT_INIT;
static const pc_chat_options chat_init = PC_CHAT_OPTIONS_INIT;
static const pc_systems_options systems_init = PC_SYSTEMS_OPTIONS_INIT;
static const pc_encode_options encode_init = PC_ENCODE_OPTIONS_INIT;
static const pc_prompt_options prompt_init = PC_PROMPT_OPTIONS_INIT;
static const pc_generate_options generate_init = PC_GENERATE_OPTIONS_INIT;
static const pc_embed_options embed_init = PC_EMBED_OPTIONS_INIT;
static const pc_sampling sampling_init = PC_SAMPLING_INIT;
static const pc_bench_options bench_init = PC_BENCH_OPTIONS_INIT;
static const pc_prometheus_options prometheus_init = PC_PROMETHEUS_OPTIONS_INIT;
static const pc_fork_options fork_init = PC_FORK_OPTIONS_INIT;
static const pc_batch_options batch_init = PC_BATCH_OPTIONS_INIT;
static const pc_save_options save_init = PC_SAVE_OPTIONS_INIT;
static const pc_codec_ops codec_init = {.struct_size = sizeof(pc_codec_ops),
                                        .id = PC_CODEC_APPLICATION,
                                        .name = "ours",
                                        .bound = codec_bound,
                                        .encode = codec_encode,
                                        .decode = codec_decode};
static const pc_grammar_options grammar_init = {
    .struct_size = sizeof(pc_grammar_options), .text = "true", .text_size = 4};
static const pc_grammar_ops grammar_ops_init = {.struct_size = sizeof(pc_grammar_ops),
                                                .matcher_new = new_matcher,
                                                .matcher_copy = copy_matcher,
                                                .matcher_free = free_matcher,
                                                .mask = any_mask,
                                                .accept = any_accept,
                                                .rollback = any_rollback,
                                                .user = &world};
static pc_model_ops ops_init;
static pc_eval_args eval_init = PC_EVAL_ARGS_INIT;

static const pc_read_case read_cases[] = {
    PC_READ_CASE(pc_context_options, use_context, &context_init, 64, PC_NO_FIELD, PC_NO_FIELD, 0,
                 1),
    PC_READ_CASE(pc_allocator, use_allocator, &allocator_init, 32, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_model_options, use_load, &model_init, 56, PC_NO_FIELD,
                 PC_FIELD(pc_model_options, flags), 1, 1),
    PC_READ_CASE(pc_model_options, use_host, &model_init, 56, PC_FIELD(pc_model_options, kv),
                 PC_FIELD(pc_model_options, flags), 0, 1),
    PC_READ_CASE(pc_model_ops, use_ops, &ops_init, 160, PC_NO_FIELD, PC_FIELD(pc_model_ops, flags),
                 PC_OVERLAP_TEXT | PC_OVERLAP_STATES | PC_CUTS_PROMPTS, 0),
    PC_READ_CASE(pc_cache_options, use_cache, &cache_init, 168, PC_NO_FIELD,
                 PC_FIELD(pc_cache_options, flags), 127, 1),
    PC_READ_CASE(pc_codec_ops, use_codec, &codec_init, 56, PC_NO_FIELD, PC_NO_FIELD, 0, 0),
    PC_READ_CASE(pc_schema_options, use_schema, &schema_init, 32,
                 PC_FIELD(pc_schema_options, reserved), PC_FIELD(pc_schema_options, flags), 7, 1),
    PC_READ_CASE(pc_system_format, use_format, &format_init, 88, PC_NO_FIELD,
                 PC_FIELD(pc_system_format, flags), 1, 0),
    PC_READ_CASE(pc_chat_options, use_chat, &chat_init, 48, PC_NO_FIELD,
                 PC_FIELD(pc_chat_options, flags), 1, 1),
    PC_READ_CASE(pc_systems_options, use_systems, &systems_init, 56,
                 PC_FIELD(pc_systems_options, reserved), PC_FIELD(pc_systems_options, flags), 1, 1),
    PC_READ_CASE(pc_encode_options, use_encode, &encode_init, 104,
                 PC_FIELD(pc_encode_options, reserved), PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_prompt_options, use_prompt, &prompt_init, 16, PC_NO_FIELD,
                 PC_FIELD(pc_prompt_options, flags), 7, 1),
    PC_READ_CASE(pc_generate_options, use_generate, &generate_init, 240, PC_NO_FIELD,
                 PC_FIELD(pc_generate_options, flags), 7, 1),
    PC_READ_CASE(pc_embed_options, use_embed, &embed_init, 96, PC_NO_FIELD,
                 PC_FIELD(pc_embed_options, flags), PC_EMBED_NORMALIZE, 1),
    PC_READ_CASE(pc_bench_options, use_bench, &bench_init, 24, PC_FIELD(pc_bench_options, reserved),
                 PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_sampling, use_sampling, &sampling_init, 104, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_sampling, use_fork_sampling, &sampling_init, 104, PC_NO_FIELD, PC_NO_FIELD, 0,
                 1),
    PC_READ_CASE(pc_generate_options, use_sequence, &generate_init, 240, PC_NO_FIELD,
                 PC_FIELD(pc_generate_options, flags), 7, 1),
    PC_READ_CASE(pc_generate_options, use_set_options, &generate_init, 240, PC_NO_FIELD,
                 PC_FIELD(pc_generate_options, flags), 7, 1),
    PC_READ_CASE(pc_prometheus_options, use_prometheus, &prometheus_init, 16, PC_NO_FIELD,
                 PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_fork_options, use_fork, &fork_init, 16, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_save_options, use_save, &save_init, 56, PC_FIELD(pc_save_options, reserved),
                 PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_batch_options, use_batch, &batch_init, 16, PC_NO_FIELD, PC_NO_FIELD, 0, 1),
    PC_READ_CASE(pc_grammar_options, use_grammar, &grammar_init, 48, PC_NO_FIELD,
                 PC_FIELD(pc_grammar_options, flags), 3, 0),
    PC_READ_CASE(pc_grammar_ops, use_grammar_ops, &grammar_ops_init, 72, PC_NO_FIELD, PC_NO_FIELD,
                 0, 0),
    PC_READ_CASE(pc_eval_args, use_eval, &eval_init, 88, PC_FIELD(pc_eval_args, reserved),
                 PC_NO_FIELD, 0, 0),
};

static pc_status fill_info(void *result)
{
    return pc_model_get_info(world.model, result);
}

static pc_status fill_cache_stats(void *result)
{
    return pc_cache_get_stats(world.cache, result);
}

static pc_status fill_tier_stats(void *result)
{
    return pc_cache_get_tier_stats(world.cache, PC_TIER_RAM, result);
}

static pc_status fill_item(void *result)
{
    return pc_schema_get_item(world.schema, 0, result);
}

static pc_status fill_part(void *result)
{
    return pc_prompt_get_part(world.prompt, 0, result);
}

static pc_status fill_stats(void *result)
{
    return pc_generate(world.prompt, world.cache, &generate_init, result);
}

static pc_status fill_embed_stats(void *result)
{
    return embed_one(NULL, result);
}

static pc_status fill_sequence_stats(void *result)
{
    return pc_sequence_get_stats(world.sequence, result);
}

static pc_status fill_system_info(void *result)
{
    return pc_systems_get(world.systems, 0, result);
}

static pc_status fill_plugin_info(void *result)
{
    return pc_plugin_get(0, result);
}

static pc_status fill_model_file_info(void *result)
{
    return pc_model_file_get_info(world.file, result);
}

static pc_status fill_model_file_type(void *result)
{
    return pc_model_file_get_type(world.file, 0, result);
}

static pc_status fill_batch_stats(void *result)
{
    return pc_batch_get_stats(world.batch, result);
}

static const pc_write_case write_cases[] = {
    {"pc_model_info", fill_info, sizeof(pc_model_info), 200},
    {"pc_cache_stats", fill_cache_stats, sizeof(pc_cache_stats), 104},
    {"pc_tier_stats", fill_tier_stats, sizeof(pc_tier_stats), 232},
    {"pc_embed_stats", fill_embed_stats, sizeof(pc_embed_stats), 64},
    {"pc_item", fill_item, sizeof(pc_item), 64},
    {"pc_system_info", fill_system_info, sizeof(pc_system_info), 96},
    {"pc_plugin_info", fill_plugin_info, sizeof(pc_plugin_info), 40},
    {"pc_model_file_info", fill_model_file_info, sizeof(pc_model_file_info), 328},
    {"pc_model_file_type", fill_model_file_type, sizeof(pc_model_file_type), 48},
    {"pc_batch_stats", fill_batch_stats, sizeof(pc_batch_stats), 40},
    {"pc_part", fill_part, sizeof(pc_part), 48},
    {"pc_stats", fill_stats, sizeof(pc_stats), 352},
    {"pc_stats", fill_sequence_stats, sizeof(pc_stats), 352},
};

static int start(void)
{
    static const pc_span none;
    static const int32_t token = 1;
    static const int64_t position = 0;
    static const pc_lane lane = {&none, 0, &token, &position, 1, NULL, sizeof(pc_span)};
    pc_generate_options one = PC_GENERATE_OPTIONS_INIT, kept = PC_GENERATE_OPTIONS_INIT;
    one.max_tokens = 1;
    kept.flags = PC_GENERATE_KEEP;
    eval_init.lanes = &lane;
    eval_init.lane_stride = sizeof(pc_lane);
    eval_init.lane_count = 1;
    ops_init = pc_toy_ops();
    ops_init.export_segment = NULL; /* there are both or none: no size of the struct has one */
    ops_init.import_segment = NULL;
    world.toy = pc_toy_new(1, 0, 0);
    return CHECK_OK(pc_context_new(&world.context, NULL))
           && CHECK_OK(pc_model_load(&world.model, world.context,
                                     PC_SOURCE_DIR "/models/demo/demo.gguf", NULL))
           && CHECK_OK(pc_model_file_open(&world.file, world.context,
                                          PC_SOURCE_DIR "/models/demo/demo.gguf", NULL))
           && CHECK_OK(pc_cache_new(&world.cache, world.context, NULL))
           && CHECK_OK(pc_schema_parse(&world.schema, world.model, schema_text,
                                       sizeof schema_text - 1, NULL))
           && CHECK_OK(pc_systems_new(&world.systems, world.model, world.cache, NULL))
           && CHECK_OK(pc_batch_new(&world.batch, world.model, NULL))
           && CHECK_OK(pc_systems_fill(world.systems, "a", "The", 3))
           && CHECK_OK(pc_prompt_parse(&world.prompt, &world.schema, 1, prompt_text,
                                       sizeof prompt_text - 1, NULL))
           && CHECK_OK(pc_sequence_new(&world.sequence, world.prompt, world.cache, &one))
           && CHECK_OK(pc_sequence_new(&world.stepped, world.prompt, world.cache, &kept))
           && CHECK_OK(pc_batch_add(world.batch, world.stepped))
           && CHECK(pc_batch_step(world.batch) >= 0);
}

int main(void)
{
    int started = start();
    for (size_t i = 0; i < sizeof read_cases / sizeof *read_cases && started; i++)
        pc_check_read(&read_cases[i]);
    for (size_t i = 0; i < sizeof write_cases / sizeof *write_cases && started; i++)
        pc_check_write(&write_cases[i]);
    pc_sequence_free(world.sequence);
    pc_sequence_free(world.stepped);
    pc_prompt_free(world.prompt);
    pc_systems_free(world.systems);
    pc_batch_free(world.batch);
    pc_schema_free(world.schema);
    pc_cache_free(world.cache);
    pc_model_free(world.model);
    pc_model_file_free(world.file);
    pc_context_free(world.context);
    pc_toy_free(world.toy);
    return pc_test_end();
}

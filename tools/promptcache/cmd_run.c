/* run: answers one prompt, from PML, a schema string, messages or a plain text. --compare
 * also runs the full prefill, and compares answers and times. */
#include <promptcache/bench.h>
#include <promptcache/memo.h>
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "format_options.h"
#include "grammar_options.h"
#include "messages_file.h"
#include "run_stats.h"
#include "sampling_options.h"
#include "store_options.h"

typedef struct arguments {
    const char *model, *prompt, *text, *text_file, *user, *user_file, *memo, *packed, *messages;
    file_list schemas;
    long encoding, repair, max_tokens, repair_tokens, rope_regime_length, repeats, compute, kv,
        min_tokens, logprobs;
    double repair_percent, threshold;
    int compare, json, ignore_end, special;
    sampling_options sampling;
    grammar_options grammar;
    pml_options pml;
    format_options format;
    store_options store;
} arguments;

typedef struct answer {
    char *text; /* grows; NULL: empty */
    size_t size, capacity;
    int live;       /* written to standard output as it comes */
    json_t *tokens; /* with --logprobs */
    int failed;
    pc_stats stats;
} answer;

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_memo *memo;
    pc_schema *schemas[MOST_FILES];
    pc_prompt *prompt;
    pc_grammar *grammar;
    pc_generate_options options;
    pc_sampling sampling;
} objects;

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    answer *a = user;
    (void)sample; /* always the only one */
    if (a->size + size > a->capacity) {
        char *grown = realloc(a->text, a->capacity = 2 * (a->size + size));
        if (!grown) {
            a->failed = 1;
            return 1;
        }
        a->text = grown;
    }
    memcpy(a->text + a->size, text, size);
    a->size += size;
    return a->live && (!write_text(text, size) || fflush(stdout));
}

static json_t *token_json(int32_t token, double logprob)
{
    return json_pack("{s:i, s:o}", "token", (int)token, "logprob", json_number(logprob));
}

static int32_t collect_token(void *user, const pc_token *t)
{
    answer *a = user;
    json_t *row = token_json(t->token, t->logprob), *top = json_array();
    for (size_t i = 0; i < t->top_count; i++)
        json_array_append_new(top, token_json(t->top_tokens[i], t->top_logprobs[i]));
    json_object_set_new(row, "top", top);
    a->failed |= json_array_append_new(a->tokens, row) != 0;
    return a->failed;
}

/* ----------------------------------------------------------------- loading */

/* With --user the request fills a schema string or the chat template, not PML. */
static int has_user(const arguments *a)
{
    return a->user || a->user_file;
}

static int load_text(const arguments *a, objects *o)
{
    size_t size = a->text ? strlen(a->text) : 0;
    char *read = a->text ? NULL : read_text(a->text_file, TEXT_BYTES, &size);
    const char *text = a->text ? a->text : read;
    pc_prompt_options options = PC_PROMPT_OPTIONS_INIT;
    pc_status status = PC_OK;
    int code = -1;
    if (!text)
        return EXIT_INPUT;
    options.flags = a->special ? PC_PROMPT_SPECIAL : 0;
    if ((status = pc_prompt_from_text(&o->prompt, o->model, text, size, &options)) < 0)
        code = pml_error(a->text                     ? "--text"
                         : strcmp(a->text_file, "-") ? a->text_file
                                                     : "standard input",
                         status);
    free(read);
    return code;
}

/* For a chat template that runs, but is not known in pieces: the system prompt has no states of its
 * own then. */
static pc_status load_talk(const arguments *a, objects *o, const char *user, size_t user_size)
{
    size_t size = a->format.system ? strlen(a->format.system) : 0;
    char *read = a->format.system_file ? read_text(a->format.system_file, TEXT_BYTES, &size) : NULL;
    const char *system = a->format.system ? a->format.system : read;
    const pc_message talk[] = {{.role = "system", .content = system, .content_size = size},
                               {.role = "user", .content = user, .content_size = user_size}};
    size_t from = size == 0;
    pc_status status = pc_prompt_from_messages(&o->prompt, o->model, talk + from, sizeof *talk,
                                               2 - from, NULL);
    free(read);
    return status;
}

static int load_user(const arguments *a, objects *o)
{
    size_t size = a->user ? strlen(a->user) : 0;
    char *read = a->user ? NULL : read_text(a->user_file, TEXT_BYTES, &size);
    pc_status status;
    if (!a->user && !read)
        return EXIT_INPUT;
    if ((status = load_format(&o->schemas[0], o->model, &a->format)) >= 0)
        status = pc_prompt_fill(&o->prompt, o->schemas[0], a->user ? a->user : read, size, NULL);
    if (status == PC_ERR_UNSUPPORTED && !a->format.format && !a->format.format_file)
        status = load_talk(a, o, a->user ? a->user : read, size);
    free(read);
    return status < 0 ? pml_error(o->schemas[0] ? "prompt" : "schema string", status) : -1;
}

static int load_prompt(const arguments *a, objects *o)
{
    size_t size, count = a->schemas.count;
    char *text;
    pc_schema_options schema = PC_SCHEMA_OPTIONS_INIT;
    pc_prompt_options prompt = PC_PROMPT_OPTIONS_INIT;
    pc_status status;
    schema.flags = prompt.flags = pml_flags(&a->pml);
    for (size_t i = 0; i < count; i++)
        if ((status = pc_schema_load(&o->schemas[i], o->model, a->schemas.items[i], &schema)) < 0)
            return pml_error("schema", status);
    if (strcmp(a->prompt, "-")) {
        status = pc_prompt_load(&o->prompt, o->schemas, count, a->prompt, &prompt);
    } else {
        if (!(text = read_text("-", TEXT_BYTES, &size)))
            return EXIT_INPUT;
        status = pc_prompt_parse(&o->prompt, o->schemas, count, text, size, &prompt);
        free(text);
    }
    return status < 0 ? pml_error("prompt", status) : -1;
}

/* Opened read-only: other processes may be adding to it, and a missing memo is an error. */
static int load_memo(const arguments *a, objects *o)
{
    pc_memo_options options = PC_MEMO_OPTIONS_INIT;
    options.flags = PC_MEMO_READ_ONLY;
    if (a->memo && pc_memo_open(&o->memo, o->model, a->memo, &options) != PC_OK)
        return input_error("memo", NULL);
    return -1;
}

static int load(const arguments *a, objects *o)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    options.compute = COMPUTE_DTYPE(a->compute);
    options.kv = (uint32_t)a->kv;
    options.progress = stop_loading;
    options.packed_weights = a->packed;
    options.chat_template = a->pml.chat;
    int code;
    if ((code = open_context(&o->context)) >= 0)
        return code;
    if ((code = open_store(&o->cache, o->context, &run_command, &a->store)) >= 0)
        return code;
    if (pc_model_load(&o->model, o->context, a->model, &options) < 0)
        return model_error(a->model, MODEL_HINT);
    if ((code = load_memo(a, o)) >= 0
        || (code = load_grammar(&o->grammar, o->model, &a->grammar)) >= 0)
        return code;
    if (has_user(a))
        return load_user(a, o);
    if (a->messages)
        return load_messages(&o->prompt, o->model, a->messages);
    return a->text || a->text_file ? load_text(a, o) : load_prompt(a, o);
}

static void set_options(const arguments *a, const pc_sampling *sampling, pc_generate_options *o)
{
    *o = (pc_generate_options)PC_GENERATE_OPTIONS_INIT;
    o->max_tokens = (uint32_t)a->max_tokens;
    o->rope_regime_length = (uint64_t)a->rope_regime_length;
    o->encoding = (uint32_t)a->encoding;
    o->repair = (uint32_t)a->repair;
    o->repair_tokens = (uint32_t)a->repair_tokens;
    o->repair_percent = (float)a->repair_percent;
    o->sampling = sampling;
    o->min_tokens = (uint32_t)a->min_tokens;
    o->flags = a->ignore_end ? PC_GENERATE_IGNORE_END : 0;
    o->on_text = collect;
    o->on_token = a->logprobs >= 0 ? collect_token : NULL;
    o->top_logprobs = a->logprobs > 0 ? (uint32_t)a->logprobs : 0;
    o->cancelled = is_interrupted;
    o->memo_threshold = isnan(a->threshold) ? NULL : &a->threshold;
}

/* --------------------------------------------------------------- answering */

static int ask(const objects *o, pc_cache *cache, uint32_t baseline, answer *out)
{
    pc_generate_options options = o->options;
    pc_bench_options bench = PC_BENCH_OPTIONS_INIT;
    bench.baseline = baseline;
    options.bench = &bench;
    options.on_text_user = options.on_token_user = out;
    out->size = 0;
    out->stats = (pc_stats)PC_STATS_INIT;
    if (pc_generate(o->prompt, cache, &options, &out->stats) < 0) {
        if (out->live && out->size)
            putchar('\n');
        return input_error("generate", NULL);
    }
    return out->failed ? plain_error("out of memory for the answer") : -1;
}

static int single(const arguments *a, const objects *o, answer *got)
{
    int code;
    got->live = !a->json;
    got->tokens = json_array();
    if ((code = ask(o, o->cache, PC_BASELINE_NONE, got)) >= 0)
        return code;
    if (a->json) {
        json_t *row = stats_json(&got->stats);
        json_object_set_new(row, "text", json_text(got->text, got->size));
        if (a->logprobs >= 0)
            json_object_set(row, "tokens", got->tokens);
        print_json(row);
    } else {
        printf("\n");
        print_stats(&got->stats);
    }
    return EXIT_OK;
}

/* --------------------------------------------------------------- comparing */

typedef struct comparison {
    answer *cached, *full;
    double cached_ms, full_ms, encode_ms;
    int equal;
} comparison;

static void print_comparison_json(const comparison *c)
{
    json_t *row = stats_json(&c->cached->stats);
    json_object_set_new(row, "text", json_text(c->cached->text, c->cached->size));
    json_object_set_new(row, "full_text", json_text(c->full->text, c->full->size));
    json_object_set_new(row, "equal", json_boolean(c->equal));
    json_object_set_new(row, "full_ms", json_number(c->full_ms));
    json_object_set_new(row, "cached_ms", json_number(c->cached_ms));
    json_object_set_new(row, "ratio", json_number(c->full_ms / c->cached_ms));
    json_object_set_new(row, "encode_ms", json_number(c->encode_ms));
    print_json(row);
}

static void print_answer(const answer *a)
{
    if (a->size)
        write_text(a->text, a->size);
    putchar('\n');
}

static void print_comparison(const arguments *a, const comparison *c)
{
    print_answer(c->cached);
    if (!c->equal) {
        printf("\nthe full prefill has another answer:  ");
        print_answer(c->full);
    }
    print_stats(&c->cached->stats);
    printf("\ntime to first token: %.2f ms cached, %.2f ms full prefill: %.1f times sooner; answers"
           " %s\n"
           "(medians of %ld runs each, in turn; encoding the modules took %.1f ms, once)\n",
           c->cached_ms, c->full_ms, c->full_ms / c->cached_ms, c->equal ? "are equal" : "differ",
           a->repeats, c->encode_ms);
}

static int compare(const arguments *a, const objects *o, answer *cached, answer *full)
{
    double cached_ms[64], full_ms[64];
    comparison c = {.cached = cached, .full = full};
    int code = ask(o, o->cache, PC_BASELINE_NONE, cached);
    c.encode_ms = 1e3 * cached->stats.seconds_encode;
    for (long i = 0; code < 0 && i < a->repeats; i++) {
        if ((code = ask(o, o->cache, PC_BASELINE_NONE, cached)) < 0)
            code = ask(o, NULL, PC_BASELINE_PREFILL, full);
        cached_ms[i] = 1e3 * cached->stats.seconds_ttft;
        full_ms[i] = 1e3 * full->stats.seconds_ttft;
    }
    if (code >= 0)
        return code;
    c.cached_ms = median(cached_ms, (size_t)a->repeats);
    c.full_ms = median(full_ms, (size_t)a->repeats);
    c.equal = cached->size == full->size
              && (!cached->size || !memcmp(cached->text, full->text, cached->size));
    if (a->json)
        print_comparison_json(&c);
    else
        print_comparison(a, &c);
    return c.equal ? EXIT_OK : EXIT_CHECK;
}

static int answer_prompt(const arguments *a)
{
    objects o = {0};
    answer answers[2] = {0};
    int code;
    watch_interrupt();
    code = load(a, &o);
    o.sampling = sampling_of(&a->sampling);
    set_options(a, &o.sampling, &o.options);
    o.options.memo = o.memo;
    o.options.grammar = o.grammar;
    if (code < 0)
        code = a->compare ? compare(a, &o, &answers[0], &answers[1]) : single(a, &o, &answers[0]);
    json_decref(answers[0].tokens);
    free(answers[0].text);
    free(answers[1].text);
    pc_prompt_free(o.prompt);
    pc_grammar_free(o.grammar);
    for (size_t i = 0; i < MOST_FILES; i++)
        pc_schema_free(o.schemas[i]);
    pc_cache_free(o.cache);
    pc_memo_free(o.memo);
    pc_model_free(o.model);
    pc_context_free(o.context);
    return code;
}

static int check_arguments(arguments *a)
{
    int plain = (a->text != NULL) + (a->text_file != NULL), pml = a->schemas.count || a->prompt;
    int users = (a->user != NULL) + (a->user_file != NULL);
    int format = format_given(&a->format) || users, code = check_store(&run_command, &a->store);
    if (code >= 0 || (code = check_grammar(&run_command, &a->grammar)) >= 0)
        return code;
    if (!a->model)
        return usage_error(&run_command, "--model is needed");
    if (a->logprobs >= 0 && (!a->json || a->compare))
        return usage_error(&run_command, "--logprobs needs --json, and no --compare");
    if (a->min_tokens > a->max_tokens)
        return usage_error(&run_command, "--min-tokens is %ld, but --max-tokens %ld", a->min_tokens,
                           a->max_tokens);
    if (!isnan(a->threshold) && !a->memo)
        return usage_error(&run_command, "--threshold needs --memo");
    if (plain + pml + format + (a->messages != NULL) > 1)
        return usage_error(&run_command, "--text, --text-file, --messages, --schema with --prompt, "
                                         "and --system-format with --system and --user exclude "
                                         "each other");
    if (a->special && !plain)
        return usage_error(&run_command, "--special needs --text or --text-file");
    if (format && users != 1)
        return usage_error(&run_command, "a schema string needs %s",
                           users ? "one of --user and --user-file" : "--user or --user-file");
    if (format)
        return check_format(&run_command, &a->format, 1);
    if (!plain && !a->messages && (!a->schemas.count || !a->prompt))
        return usage_error(&run_command, "%s needed",
                           !pml        ? "--schema and --prompt, or --user, or --text, are"
                           : a->prompt ? "--schema is"
                                       : "--prompt is");
    return -1;
}

static int run(int argc, char **argv)
{
    arguments a = {.max_tokens = 256,
                   .repeats = 5,
                   .repair_tokens = 4,
                   .repair_percent = 10,
                   .logprobs = -1,
                   .threshold = NAN};
    const option_row rows[] = {
        {"model", OPTION_PATH, &a.model, "GGUF file, Hugging Face folder or llama2.c checkpoint",
         NULL, 0, 0},
        {"schema", OPTION_FILES, &a.schemas,
         "PML file with the modules; of several, the prompt names one", NULL, 0, 0},
        {"prompt", OPTION_FILE, &a.prompt, "PML file with the prompt; -: standard input", NULL, 0,
         0},
        {"text", OPTION_TEXT, &a.text, "a plain prompt, instead of schema and prompt", NULL, 0, 0},
        {"text-file", OPTION_FILE, &a.text_file, "the same from a file; -: standard input", NULL, 0,
         0},
        {"special", OPTION_FLAG, &a.special,
         "the text of a special token in the plain prompt becomes that token", NULL, 0, 0},
        PML_OPTION_ROWS(a.pml),
        FORMAT_OPTION_ROWS(a.format),
        {"user", OPTION_TEXT, &a.user,
         "text of the request, for the chat template or the schema string", NULL, 0, 0},
        {"user-file", OPTION_FILE, &a.user_file, "the same from a file; -: standard input", NULL, 0,
         0},
        {"messages", OPTION_FILE, &a.messages,
         "JSON file with a conversation, and perhaps tools, as servers get them; -: standard input",
         NULL, 0, 0},
        {"compare", OPTION_FLAG, &a.compare,
         "also runs the full prefill; exit code 1 if the answers differ", NULL, 0, 0},
        {"repeats", OPTION_NUMBER, &a.repeats, "runs of each for --compare, 1 to 64 (5)", NULL, 1,
         64},
        {"encoding", OPTION_CHOICE, &a.encoding,
         "which other modules a module attends to while it is encoded", ENCODING_CHOICES, 0, 0},
        {"repair", OPTION_CHOICE, &a.repair,
         "which tokens are computed again after their modules were placed", REPAIR_CHOICES, 0, 0},
        {"repair-tokens", OPTION_NUMBER, &a.repair_tokens,
         "tokens of each module, for --repair first (4)", NULL, 1, UINT32_MAX},
        {"repair-percent", OPTION_REAL, &a.repair_percent,
         "percent of the tokens, for --repair top (10)", NULL, 1e-3, 100},
        {"max-tokens", OPTION_NUMBER, &a.max_tokens, "most tokens of the answer (256)", NULL, 1,
         UINT32_MAX},
        {"rope-regime-length", OPTION_NUMBER, &a.rope_regime_length,
         "length that selects the RoPE regime (dynamic NTK, LongRoPE); 0: prompt + answer (0)",
         NULL, 0, INT32_MAX},
        {"min-tokens", OPTION_NUMBER, &a.min_tokens, "least tokens of the answer (0)", NULL, 0,
         UINT32_MAX},
        {"ignore-end", OPTION_FLAG, &a.ignore_end, "end tokens of the model do not end the answer",
         NULL, 0, 0},
        SAMPLING_OPTION_ROWS(a.sampling),
        GRAMMAR_OPTION_ROWS(a.grammar),
        {"logprobs", OPTION_NUMBER, &a.logprobs,
         "with --json: log-probabilities of the tokens, and of so many likeliest ones", NULL, 0,
         64},
        {"compute", OPTION_CHOICE, &a.compute, "number format", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &a.kv, "number format of K and V", KV_CHOICES, 0, 0},
        PACKED_ROW(a.packed),
        THREADS_ROW,
        STORE_OPTION_ROWS(a.store),
        {"read-only", OPTION_FLAG, &a.store.read_only, "writes nothing to folder and server", NULL,
         0, 0},
        {"memo", OPTION_DIR, &a.memo, "folder of a memo (memo build), used for a plain prompt",
         NULL, 0, 0},
        {"threshold", OPTION_REAL, &a.threshold,
         "least similarity of a hit, 1 - distance, from -1000; 0: as tuned (0)", NULL, -1000, 1},
        {"json", OPTION_FLAG, &a.json, "one JSON object", NULL, 0, 0},
    };
    const char *others[1];
    size_t count;
    int code = read_options(&run_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    if (code < 0)
        code = check_arguments(&a);
    return code >= 0 ? code : answer_prompt(&a);
}

const command run_command = {
    .name = "run",
    .usage = "run --model M (--schema S.pml --prompt P.pml | --user TEXT | --text TEXT) [options]",
    .summary = "answers a prompt of cached modules",
    .run = run};

/* info: what a model is and what would run how, before anything is loaded. */
#include <string.h>

#include "cmd.h"
#include "model_facts.h"

/* "4.20 GB", in a ring of buffers. */
static const char *bytes_text(double bytes)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    static char ring[8][24];
    static unsigned next;
    char *out = ring[next++ % 8];
    size_t unit = 0;
    for (; bytes >= 999.5 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(out, sizeof ring[0], "%.*f %s",
             !unit || bytes >= 100 ? 0
             : bytes >= 10         ? 1
                                   : 2,
             bytes, units[unit]);
    return out;
}

/* "1.10 billion" */
static const char *count_text(uint64_t count)
{
    static char text[32];
    if (count >= 999500000)
        snprintf(text, sizeof text, "%.2f billion", (double)count / 1e9);
    else if (count >= 1000000)
        snprintf(text, sizeof text, "%.1f million", (double)count / 1e6);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)count);
    return text;
}

/* The name of a line, or blanks. */
static void label(const char *name)
{
    printf("%-12s ", name);
}

static void print_title(const model_facts *facts)
{
    static const char *const kinds[] = {"?", "GGUF file", "Hugging Face folder",
                                        "llama2.c checkpoint"};
    const pc_model_file_info *f = &facts->file_info;
    const char *name = shown(facts->model.architecture);
    label("model");
    printf("%s%s%s%s",
           *f->family ? f->family
           : *name    ? name
                      : "unknown",
           *f->family ? " (" : "", *f->family ? name : "", *f->family ? ")" : "");
    if (f->parameters)
        printf(", %s parameters", count_text(f->parameters));
    printf("\n");
    label("file");
    printf("%s", kinds[f->kind]);
    if (f->file_bytes)
        printf(", %s of weights", bytes_text((double)f->file_bytes));
    if (f->tensors)
        printf(" in %llu tensors", (unsigned long long)f->tensors);
    printf("\n");
}

static void print_shape(const model_facts *facts)
{
    const pc_model_info *m = &facts->model;
    const pc_model_file_info *f = &facts->file_info;
    if (!m->layers)
        return;
    label("layers");
    printf("%d of width %d", (int)m->layers, (int)m->hidden);
    if (m->heads)
        printf(", %d heads", (int)m->heads);
    if (m->head_dim)
        printf(" of %d", (int)m->head_dim);
    if (m->kv_heads)
        printf(", %d K/V heads", (int)m->kv_heads);
    if (f->value_dim && f->value_dim != m->head_dim)
        printf(", values of %d", (int)f->value_dim);
    printf("%s\n", m->bidirectional ? "; an encoder" : "");
    if (m->experts) {
        label("experts");
        printf("%d, of which a token uses %d, in %d of %d layers\n", (int)m->experts,
               (int)m->experts_used, (int)f->expert_layers, (int)m->layers);
    }
}

static void print_positions(const model_facts *facts)
{
    static const char *const schemes[] = {"none", "RoPE", "ALiBi", "learned"};
    const pc_model_info *m = &facts->model;
    const pc_model_file_info *f = &facts->file_info;
    if (f->refusal < 0 && !m->position_scheme)
        return;
    label("positions");
    printf("%s", schemes[m->position_scheme & 3]);
    if (*f->rope_scaling) {
        printf(", base %g, %d dimensions of a head", f->rope_theta, (int)f->rope_dims);
        if (strcmp(f->rope_scaling, "plain") != 0)
            printf(", scaling %s", f->rope_scaling);
        if (f->rope_factor > 0)
            printf(" by %g", f->rope_factor);
        if (f->rope_length > 0)
            printf(" from %g positions", f->rope_length);
        if (f->window_theta > 0)
            printf("; base %g in layers with a window", f->window_theta);
        if (f->plain_layers)
            printf("; none in %d of %d layers", (int)f->plain_layers, (int)m->layers);
    }
    printf("\n");
}

/* What new tokens see: all before them, a window, chunks. */
static void print_attention(const model_facts *facts)
{
    const pc_model_file_info *f = &facts->file_info;
    int layers = (int)facts->model.layers;
    if (f->refusal < 0)
        return;
    label("attention");
    if (facts->model.bidirectional)
        printf("every token sees the whole text");
    else if (f->window)
        printf("a window of %d tokens in %d of %d layers", (int)f->window, (int)f->window_layers,
               layers);
    else if (!f->chunk)
        printf("new tokens see all before them");
    if (f->chunk)
        printf("%swithin chunks of %d positions in %d of %d layers", f->window ? "; " : "",
               (int)f->chunk, (int)f->chunk_layers, layers);
    if (f->latent)
        printf("; latent K and V of %d + %d dimensions", (int)f->latent, (int)f->latent_rotated);
    printf("%s%s\n", f->query_norms ? "; norms on queries and keys" : "",
           f->sinks ? "; sinks in the softmax" : "");
}

static void print_context(const model_facts *facts)
{
    if (facts->model.context_length) {
        label("context");
        printf("%d tokens\n", (int)facts->model.context_length);
    }
}

static void print_text(const model_facts *facts)
{
    const pc_model_file_info *f = &facts->file_info;
    if (facts->model.vocab || *f->tokenizer) {
        label("vocabulary");
        printf("%d tokens", facts->model.vocab ? (int)facts->model.vocab : (int)f->vocabulary);
        if (*f->tokenizer)
            printf("; tokenizer: %s, %d tokens\n", f->tokenizer, (int)f->vocabulary);
        else
            printf("; no tokenizer in the files\n");
    }
    label("chat");
    if (!*f->chat)
        printf("no template: %s\n", shown(f->chat_reason));
    else if (f->system_role)
        printf("template %s, with a system prompt\n", shown(f->chat));
    else
        printf("template %s, without a system prompt: %s\n", shown(f->chat), shown(f->chat_reason));
}

static void print_formats(const model_facts *facts)
{
    pc_model_file_type type = PC_MODEL_FILE_TYPE_INIT;
    for (size_t i = 0; pc_model_file_get_type(facts->file, i, &type) == PC_OK; i++) {
        label(i ? "" : "weights");
        printf("%s: %llu tensors, %s", type.name, (unsigned long long)type.tensors,
               bytes_text((double)type.bytes));
        if (facts->file_info.refusal == PC_OK)
            printf("; %s %s", type.kept ? "matrices are computed with" : "computed in",
                   becomes_name(facts, &type));
        printf("\n");
    }
}

static void print_modules(const model_facts *facts)
{
    label("modules");
    if (facts->model.relocatable)
        printf("can be placed anywhere\n");
    else
        printf("cannot be moved: the model %s\n", facts->file_info.fixed);
}

static void print_kv(const model_facts *facts, double tokens)
{
    for (size_t i = 0; i < KV_FORMATS; i++)
        printf("%s%s %s", i ? ", " : "", kv_format_name(i),
               bytes_text((double)kv_token_bytes(facts, i) * tokens));
    printf("\n");
}

static void print_longest(const model_facts *facts)
{
    if (longest_context(facts, 0) < 0)
        return;
    label("fits");
    printf("into %s of free memory: ", bytes_text((double)facts->free_memory));
    if (facts->free_memory < facts->model.weight_bytes) {
        printf("no, the weights take %s\n", bytes_text((double)facts->model.weight_bytes));
        return;
    }
    for (size_t i = 0; i < KV_FORMATS; i++)
        printf("%s%s %lld", i ? ", " : "", kv_format_name(i), (long long)longest_context(facts, i));
    printf(" tokens\n");
}

static void print_memory(const model_facts *facts)
{
    const pc_model_file_info *f = &facts->file_info;
    label("computes");
    printf("%s on %s", compute_name(facts), f->backend);
    if (!strcmp(f->backend, "cpu"))
        printf(" with %s kernels", facts->costs.kernels);
    printf("; K and V in %s\n", kv_format_name(facts->kv));
    label("memory");
    printf("%s of weights", bytes_text((double)facts->model.weight_bytes));
    if (f->quantised_bytes)
        printf(", %s of them quantised", bytes_text((double)f->quantised_bytes));
    printf("\n");
    label("K and V");
    printf("of a token: ");
    print_kv(facts, 1);
    label("");
    printf("of a module of 1000 tokens: ");
    print_kv(facts, 1000);
    if (facts->text_tokens > 0) {
        label("");
        printf("of 1024 bytes of English, about %.0f tokens: ", facts->text_tokens);
        print_kv(facts, facts->text_tokens);
    }
    print_longest(facts);
}

static void print_facts(const model_facts *facts)
{
    print_title(facts);
    print_shape(facts);
    print_positions(facts);
    print_attention(facts);
    print_context(facts);
    print_text(facts);
    print_formats(facts);
    if (facts->file_info.refusal == PC_OK) {
        print_modules(facts);
        print_memory(facts);
    }
}

static int show_model(const char *path, const pc_model_options *options, int in_format)
{
    pc_context *context = NULL;
    model_facts facts = {0};
    int code = open_context(&context);
    if (code >= 0)
        return code;
    code = open_facts(&facts, context, path, options);
    if (code < 0) {
        code = facts.file_info.refusal == PC_OK ? EXIT_OK : EXIT_INPUT;
        if (in_format)
            print_json(facts_json(&facts));
        else
            print_facts(&facts);
        if (code == EXIT_INPUT) {
            finish_output(code);
            plain_error("this model cannot be loaded: %s", facts.file_info.reason);
        }
    }
    close_facts(&facts);
    pc_context_free(context);
    return code;
}

static int run(int argc, char **argv)
{
    const char *others[1];
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    long compute = 0, kv = 0;
    int in_format = 0, code;
    size_t count;
    const option_row rows[] = {
        {"compute", OPTION_CHOICE, &compute, "number format, as of run", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &kv, "number format of K and V, as of run", KV_CHOICES, 0, 0},
        {"chat-template", OPTION_TEXT, &options.chat_template, "as of run", NULL, 0, 0},
        FORMAT_ROWS(in_format, "one JSON object (doc/program.md lists the keys)"),
    };
    code = read_options(&info_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 1,
                        &count);
    if (code >= 0)
        return code;
    if (!count)
        return usage_error(&info_command, "a model is needed");
    watch_interrupt();
    options.progress = stop_loading;
    options.compute = COMPUTE_DTYPE(compute);
    options.kv = (uint32_t)kv;
    return show_model(others[0], &options, in_format);
}

const command info_command = {
    .name = "info",
    .usage = "info MODEL [--compute X] [--kv X] [--json]",
    .summary = "what a model is and what would run how, before it is loaded",
    .details = "what a model is and what would run how, before it is loaded: sizes, positions, "
               "tokenizer, chat\ntemplate, number formats, memory, and what modules cost. Only "
               "headers and the vocabulary are\nread. For a model that cannot be loaded it says "
               "what it can, and why (exit code 3).",
    .run = run};

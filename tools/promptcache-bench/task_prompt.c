/* Makes prompts of items. The context is split into documents, shortened in the middle if it is too
 * long, and each document becomes a module, as does the wording in front of them where it is part
 * of a message. */
#include "task_prompt.h"

#include <promptcache/prompt.h>
#include <stdlib.h>
#include <string.h>

enum { CHAT_ROOM = 32, TRIES = 6 };
static const char input_slot[] = "{input}";

/* ------------------------------------------------------------------- the model */

/* The token that the model's convention puts in front of a text, if a text can say it. */
static int find_bos(task_model *m)
{
    int32_t tokens[2], bos;
    size_t count = 0, size = 0;
    if (m->info.token_bos < 0
        || pc_tokenize(m->model, "", 0, PC_TOKENIZE_BOS, tokens, 2, &count) < 0 || !count
        || tokens[0] != m->info.token_bos)
        return EXIT_OK;
    if (pc_detokenize(m->model, tokens, 1, PC_TOKENIZE_SPECIAL, m->bos, sizeof m->bos - 1, &size)
        < 0)
        return input_error("the model's BOS", NULL);
    m->bos[size] = 0;
    bos = tokens[0];
    if (pc_tokenize(m->model, m->bos, size, PC_TOKENIZE_SPECIAL, tokens, 2, &count) >= 0
        && count == 1 && tokens[0] == bos)
        return EXIT_OK;
    m->bos[0] = 0;
    fprintf(stderr, "%s: plain prompts begin without BOS: no text stands for it\n", program_name);
    return EXIT_OK;
}

/* A template may refuse a system prompt, so the user's message is also written alone. */
static int set_chat_digest(task_model *m)
{
    const pc_message talk[] = {{.role = "system", .content = "a", .content_size = 1},
                               {.role = "user", .content = "b", .content_size = 1}};
    uint64_t digest = TEXT_DIGEST;
    for (size_t first = 0; first < 2; first++) {
        const pc_message *from = talk + first;
        size_t size = 0, count = 2 - first;
        char *text;
        if (pc_chat_format(m->model, from, sizeof *from, count, NULL, NULL, 0, &size) < 0)
            continue;
        if (!(text = calloc(size + 1, 1)))
            return plain_error("out of memory");
        if (pc_chat_format(m->model, from, sizeof *from, count, NULL, text, size, &size) >= 0)
            digest = text_digest(digest, text);
        free(text);
    }
    snprintf(m->chat, sizeof m->chat, "%016llx", (unsigned long long)digest);
    return EXIT_OK;
}

int task_model_open(task_model *m, const pc_model *model, size_t most)
{
    const pc_message hello = {.role = "user", .content = "a", .content_size = 1};
    size_t size;
    pc_status status;
    *m = (task_model){.model = model, .info = PC_MODEL_INFO_INIT, .most = most};
    pc_model_get_info(model, &m->info);
    if (m->info.context_length > 0 && (!most || most > (size_t)m->info.context_length))
        m->most = (size_t)m->info.context_length;
    if (m->info.bidirectional)
        return plain_error("the model is an encoder: it does not answer");
    status = pc_chat_format(model, &hello, sizeof hello, 1, NULL, NULL, 0, &size);
    m->has_chat = status >= 0;
    if (status < 0 && status != PC_ERR_UNSUPPORTED)
        return input_error("the chat template", NULL);
    if (status < 0)
        fprintf(stderr, "%s: prompts are plain text: %s\n", program_name, pc_error_text());
    return set_chat_digest(m) == EXIT_OK ? find_bos(m) : EXIT_INPUT;
}

/* ------------------------------------------------------------------ the request */

/* The text behind the documents, with the item's input. NULL: out of memory. */
static char *request_of(const eval_item *item)
{
    const char *text = item->task->behind, *slot;
    size_t slots = 0;
    char *out, *to;
    for (slot = text; (slot = strstr(slot, input_slot)); slot += strlen(input_slot))
        slots++;
    if (!(to = out = malloc(strlen(text) + slots * strlen(item->input) + 1)))
        return NULL;
    while ((slot = strstr(text, input_slot))) {
        memcpy(to, text, (size_t)(slot - text));
        to += slot - text;
        strcpy(to, item->input);
        to += strlen(item->input);
        text = slot + strlen(input_slot);
    }
    strcpy(to, text);
    return out;
}

static int chat_of(const task_model *m, const eval_item *item)
{
    return m->has_chat ? item->task->chat : TASK_PLAIN;
}

/* --------------------------------------------------------------------- schema */

static pc_status add_module(pc_schema_builder *b, const char *name, const char *text, size_t size)
{
    pc_status status = pc_schema_builder_begin_module(b, name, 0);
    if (status >= 0)
        status = pc_schema_builder_add_text(b, text, size, 0);
    return status >= 0 ? pc_schema_builder_end(b) : status;
}

/* The wording in front of the documents: a module of a message, a system turn, or plain text. */
static pc_status add_before(pc_schema_builder *b, const task_model *m, const eval_item *item)
{
    const char *text = item->task->before;
    size_t size = item->task->before_size;
    int chat = chat_of(m, item);
    pc_status status = PC_OK;
    if (chat == TASK_MESSAGE)
        return size ? add_module(b, "wording", text, size) : PC_OK;
    if (chat == TASK_TURNS)
        status = pc_schema_builder_begin_turn(b, "system");
    else if (*m->bos)
        status = pc_schema_builder_add_text(b, m->bos, strlen(m->bos), PC_PROMPT_SPECIAL);
    if (status >= 0 && size)
        status = pc_schema_builder_add_text(b, text, size, 0);
    return status >= 0 && chat == TASK_TURNS ? pc_schema_builder_end(b) : status;
}

static void module_name(char *name, size_t size, size_t index)
{
    snprintf(name, size, "document-%zu", index + 1);
}

static pc_status make_schema(task_prompt *p, const task_model *m, const eval_item *item)
{
    pc_schema_builder *b = NULL;
    char name[32];
    pc_status status = pc_schema_builder_new(&b, m->model, "item", NULL);
    if (status >= 0)
        status = add_before(b, m, item);
    for (size_t i = 0; i < p->documents.count && status >= 0; i++) {
        module_name(name, sizeof name, i);
        status = add_module(b, name, p->documents.items[i].text, p->documents.items[i].size);
    }
    if (status >= 0)
        status = pc_schema_from_builder(&p->schema, b);
    pc_schema_builder_free(b);
    return status;
}

/* --------------------------------------------------------------------- prompts */

static pc_status prompt_of_message(pc_prompt **out, const task_prompt *p, const task_model *m,
                                   const eval_item *item, const char *request)
{
    size_t count = p->documents.count + 1, used = 0;
    char(*names)[32] = malloc(count * sizeof *names);
    const char **modules = malloc(count * sizeof *modules);
    pc_message message = {.role = "user", .content = request, .content_size = strlen(request)};
    pc_chat_options options = PC_CHAT_OPTIONS_INIT;
    pc_status status = PC_ERR_NOMEM;
    if (names && modules) {
        if (item->task->before_size)
            modules[used++] = "wording";
        for (size_t i = 0; i < p->documents.count; i++) {
            module_name(names[i], sizeof names[i], i);
            modules[used++] = names[i];
        }
        message.modules = modules;
        message.module_count = used;
        options.schema = p->schema;
        status = pc_prompt_from_messages(out, m->model, &message, sizeof message, 1, &options);
    }
    free(names);
    free(modules);
    return status;
}

static pc_status prompt_of_builder(pc_prompt **out, const task_prompt *p, int chat,
                                   const char *request)
{
    pc_prompt_builder *b = NULL;
    char name[32];
    pc_status status = pc_prompt_builder_new(&b, p->schema);
    for (size_t i = 0; i < p->documents.count && status >= 0; i++) {
        module_name(name, sizeof name, i);
        status = pc_prompt_builder_use(b, name);
    }
    if (status >= 0 && chat == TASK_TURNS)
        status = pc_prompt_builder_begin_turn(b, "user");
    if (status >= 0 && *request)
        status = pc_prompt_builder_add_text(b, request, strlen(request), 0);
    if (status >= 0 && chat == TASK_TURNS)
        status = pc_prompt_builder_end(b);
    if (status >= 0)
        status = pc_prompt_from_builder(out, b, NULL);
    pc_prompt_builder_free(b);
    return status;
}

static pc_status make_prompt(pc_prompt **out, const task_prompt *p, const task_model *m,
                             const eval_item *item, const char *request)
{
    return chat_of(m, item) == TASK_MESSAGE ? prompt_of_message(out, p, m, item, request)
                                            : prompt_of_builder(out, p, chat_of(m, item), request);
}

/* -------------------------------------------------------------------- length */

static size_t length_of(const pc_prompt *prompt)
{
    size_t tokens = 0;
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        pc_part part = PC_PART_INIT;
        if (pc_prompt_get_part(prompt, i, &part) >= 0)
            tokens += part.count;
    }
    return tokens;
}

static pc_status count_tokens(const task_model *m, const char *text, size_t size, size_t *count)
{
    return pc_tokenize(m->model, text, size, 0, NULL, 0, count);
}

static void drop_prompts(task_prompt *p)
{
    pc_prompt_free(p->prompt);
    pc_prompt_free(p->filler);
    pc_schema_free(p->schema);
    p->prompt = p->filler = NULL;
    p->schema = NULL;
}

static pc_status make_all(task_prompt *p, const task_model *m, const eval_item *item,
                          const char *request)
{
    pc_status status = make_schema(p, m, item);
    if (status >= 0)
        status = make_prompt(&p->prompt, p, m, item, request);
    if (status >= 0)
        status = make_prompt(&p->filler, p, m, item, "-");
    p->tokens = length_of(p->prompt);
    return status;
}

/* How many tokens the pieces will have together is known when the prompt is made; then a prompt
 * that is too long is shortened again, by what it has too many. */
static pc_status fit(task_prompt *p, const task_model *m, const eval_item *item,
                     const char *request)
{
    size_t before, behind, most = m->most - item->task->max_tokens, room = most - CHAT_ROOM;
    pc_status status = count_tokens(m, item->task->before, item->task->before_size, &before);
    if (status >= 0)
        status = count_tokens(m, request, strlen(request), &behind);
    for (int i = 0; i < TRIES && status >= 0; i++) {
        if ((status = documents_shorten(&p->documents, m->model, before, behind, room)) < 0)
            break;
        status = make_all(p, m, item, request);
        if (status >= 0 && p->tokens <= most)
            return status;
        if (status < 0 && status != PC_ERR_LIMIT)
            break;
        size_t excess = status >= 0 ? p->tokens - most : most / 16 + 1;
        drop_prompts(p);
        status = excess < room ? PC_OK : PC_ERR_LIMIT;
        room -= excess < room ? excess : 0;
    }
    return status < 0 ? status : PC_ERR_LIMIT;
}

pc_status task_prompt_make(task_prompt *p, const task_model *m, const eval_item *item)
{
    char *request = request_of(item);
    pc_status status = request ? PC_OK : PC_ERR_NOMEM;
    *p = (task_prompt){.schema = NULL};
    if (status >= 0
        && documents_split(&p->documents, item->context, item->task->documents, item->dataset)
               != EXIT_OK)
        status = PC_ERR_NOMEM;
    if (status >= 0 && !m->most)
        status = make_all(p, m, item, request);
    else if (status >= 0)
        status = m->most > item->task->max_tokens + CHAT_ROOM ? fit(p, m, item, request)
                                                              : PC_ERR_LIMIT;
    free(request);
    return status;
}

void task_prompt_free(task_prompt *p)
{
    drop_prompts(p);
    documents_free(&p->documents);
}

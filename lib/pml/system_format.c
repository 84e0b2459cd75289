/* RelayAttention's schema string: parsed, made a schema tree, and filled with a user's text. */
#include "pml/system_format.h"

#include <string.h>

#include "pml/conversation.h"
#include "pml/element.h"
#include "pml/layout.h"
#include "pml/literal.h"

/* The parts of a schema string: before, between and behind its two slots. */
typedef struct format_template {
    const pc__system_format_source *source;
    pc__bytes part[3];
    size_t slots; /* read so far */
} format_template;

/* PC_ERR_PML with the place of a byte of the schema string. */
static pc_status template_fault(const format_template *t, size_t at, const char *cause,
                                const char *what, size_t what_size)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = t->source->format[i] == '\n' ? 1 : column + 1;
        line += t->source->format[i] == '\n';
    }
    return pc__place_fault(PC_ERR_PML, t->source->where, line, column, "%s%.*s", cause,
                           (int)(what_size < 40 ? what_size : 40), what);
}

/* A slot begins at `at`. */
static pc_status slot(format_template *t, size_t at, size_t *size)
{
    pc__text rest = {t->source->format + at, t->source->format_size - at};
    if (pc__text_begins(rest, pc__text_of(PC__SYSTEM_FORMAT_SYSTEM))) {
        *size = strlen(PC__SYSTEM_FORMAT_SYSTEM);
        if (t->slots)
            return template_fault(t, at, "a second " PC__SYSTEM_FORMAT_SYSTEM, "", 0);
    } else if (pc__text_begins(rest, pc__text_of(PC__SYSTEM_FORMAT_USER))) {
        *size = strlen(PC__SYSTEM_FORMAT_USER);
        if (t->slots != 1)
            return template_fault(t, at,
                                  t->slots ? "a second " PC__SYSTEM_FORMAT_USER
                                           : PC__SYSTEM_FORMAT_USER
                                      " stands before " PC__SYSTEM_FORMAT_SYSTEM,
                                  "", 0);
    } else {
        const char *close = memchr(rest.data, '}', rest.size);
        if (!close || !pc__text_begins(rest, pc__text_of("{__")))
            return template_fault(t, at, "a brace of the text must be doubled: ", rest.data, 1);
        return template_fault(t, at, "unknown slot: ", rest.data, (size_t)(close - rest.data) + 1);
    }
    t->slots++;
    return PC_OK;
}

static pc_status parse_template(format_template *t)
{
    const char *text = t->source->format;
    size_t size = t->source->format_size, n;
    for (size_t i = 0; i < size; i += n) {
        int brace = text[i] == '{' || text[i] == '}';
        n = brace && i + 1 < size && text[i + 1] == text[i] ? 2 : 1;
        if (brace && n == 1 && text[i] == '}')
            return template_fault(t, i, "a brace of the text must be doubled: ", text + i, 1);
        PC__TRY_RETURN(brace && n == 1 ? slot(t, i, &n)
                                       : pc__bytes_add(&t->part[t->slots], text + i, 1));
    }
    if (t->slots < 2)
        return template_fault(t, size, "the schema string ends without ",
                              t->slots ? PC__SYSTEM_FORMAT_USER : PC__SYSTEM_FORMAT_SYSTEM,
                              strlen(PC__SYSTEM_FORMAT_USER));
    return PC_OK;
}

static pc__text system_of(const pc__system_format_source *source)
{
    return pc__text_strip((pc__text){source->system, source->system_size});
}

/* The same parts from a chat template. */
static pc_status template_from_chat(format_template *t, const pc__chat *chat)
{
    const pc__chat_pieces *p = &chat->pieces;
    int empty = !t->source->tokens && !system_of(t->source).size;
    int joined = !empty && chat->system_joins_user;
    PC__TRY_RETURN(pc__chat_check_role(chat, empty || t->source->tokens ? "user" : "system"));
    PC__TRY_RETURN(pc__bytes_add_text(&t->part[0], empty ? p->system_empty : p->system_open));
    if (!empty)
        PC__TRY_RETURN(pc__bytes_add_text(&t->part[1], p->system_close));
    if (!joined)
        PC__TRY_RETURN(pc__bytes_add_text(&t->part[1], p->user_open));
    PC__TRY_RETURN(pc__bytes_add_text(&t->part[2], p->user_close));
    return pc__bytes_add_text(&t->part[2], p->generation);
}

/* Puts BOS in front if the model's convention wants it and the text does not begin with it. */
static pc_status add_bos(const pc__pml_env *env, int32_t **tokens, size_t *count)
{
    int32_t *ends = NULL, *longer;
    size_t n = 0;
    pc_status status = env->tokens(env->tokens_user, "", 0, PC_TOKENIZE_BOS, &ends, &n);
    int wanted = status >= 0 && n && env->bos >= 0 && ends[0] == env->bos;
    pc__free(env->mem, ends);
    if (!wanted || (*count && (*tokens)[0] == env->bos))
        return status;
    if (!(longer = pc__alloc(env->mem, (*count + 1) * sizeof *longer)))
        return PC_ERR_NOMEM;
    longer[0] = env->bos;
    if (*count)
        memcpy(longer + 1, *tokens, *count * sizeof *longer);
    pc__free(env->mem, *tokens);
    *tokens = longer;
    ++*count;
    return PC_OK;
}

/* The tokens that all requests share. */
static pc_status fill_text(const pc__pml_env *env, const format_template *t, pc__node *node)
{
    const pc__system_format_source *s = t->source;
    pc__text system = system_of(s);
    pc__literal run = {.env = env};
    pc_status status = PC_OK;
    if (s->tokens) {
        node->token_count = s->token_count;
        node->tokens = pc__calloc(env->mem, s->token_count, sizeof *node->tokens);
        node->text = pc__strdup(env->mem, "");
        if (!node->tokens || !node->text)
            return PC_ERR_NOMEM;
        memcpy(node->tokens, s->tokens, s->token_count * sizeof *node->tokens);
        return PC_OK;
    }
    PC__TRY(pc__literal_around(&run, t->part[0].data ? t->part[0].data : "", system.data,
                               system.size, t->part[1].data ? t->part[1].data : "", &node->tokens,
                               &node->token_count),
            done);
    PC__TRY(add_bos(env, &node->tokens, &node->token_count), done);
    node->text_size = run.text.size;
    if (!(node->text = pc__strndup(env->mem, run.text.data ? run.text.data : "", run.text.size)))
        status = PC_ERR_NOMEM;
done:
    pc__literal_free(&run);
    return status;
}

static pc_status add_format_node(pc__schema_tree *tree, const pc__pml_env *env, pc__node_kind kind,
                                 const char *path, pc__node **out)
{
    pc__node *node = pc__calloc(env->mem, 1, sizeof *node);
    if (!node)
        return PC_ERR_NOMEM;
    node->kind = kind;
    node->index = tree->node_count;
    node->line = node->column = 1;
    tree->nodes[tree->node_count++] = node;
    if (tree->root) {
        node->parent = tree->root;
        tree->root->children[tree->root->child_count++] = node;
    }
    *out = node;
    return (node->path = pc__strdup(env->mem, path)) ? PC_OK : PC_ERR_NOMEM;
}

/* For the check of requests. */
static pc_status note_system(pc__schema_tree *tree, const pc__pml_env *env,
                             const pc__system_format_source *source)
{
    pc__text system = system_of(source);
    tree->slot_is_turn = !source->format && pc__conversation_matters(env);
    if (!tree->slot_is_turn || source->tokens || !system.size)
        return PC_OK;
    tree->slot_system = pc__strndup(env->mem, system.data, system.size);
    tree->slot_system_size = system.size;
    return tree->slot_system ? PC_OK : PC_ERR_NOMEM;
}

/* Whether the model's own chat template makes of the request what its pieces make. */
static pc_status check_request(const pc__pml_env *env, const pc__schema_tree *tree,
                               const char *text, size_t size)
{
    char *copy;
    if (!tree->slot_is_turn)
        return PC_OK;
    if (!(copy = pc__strndup(env->mem, text, size)))
        return PC_ERR_NOMEM;
    const pc__jinja_message messages[] = {{"system", tree->slot_system}, {"user", copy}};
    int from = tree->slot_system == NULL;
    const pc__jinja_more more[] = {{.size = tree->slot_system_size}, {.size = size}};
    pc_status status = pc__chat_check_talk(env->chat, env->mem, messages + from, more + from,
                                           2 - (size_t)from);
    pc__free(env->mem, copy);
    return status;
}

static pc_status build_format_tree(pc__schema_tree *tree, const pc__pml_env *env,
                                   const format_template *t)
{
    const char *between = t->part[1].data ? t->part[1].data : "";
    pc__literal run = {.env = env};
    pc__node *text;
    pc_status status = PC_ERR_NOMEM;
    tree->nodes = pc__calloc(env->mem, 3, sizeof *tree->nodes);
    tree->name = pc__strdup(env->mem, t->source->name);
    tree->slot_lead = pc__strdup(env->mem, between);
    if (!tree->nodes || !tree->name || !tree->slot_lead)
        return status;
    if ((status = note_system(tree, env, t->source)) < 0)
        return status;
    status = PC_ERR_NOMEM;
    PC__TRY(pc__string_map_new(&tree->paths, env->mem, 0), done);
    PC__TRY(add_format_node(tree, env, PC__NODE_MODULE, "", &tree->root), done);
    status = PC_ERR_NOMEM;
    tree->root->name = pc__strdup(env->mem, t->source->name);
    tree->root->children = pc__calloc(env->mem, 2, sizeof *tree->root->children);
    if (!tree->root->name || !tree->root->children)
        goto done;
    PC__TRY(add_format_node(tree, env, PC__NODE_TEXT, "", &text), done);
    text->in_system = 1;
    PC__TRY(fill_text(env, t, text), done);
    PC__TRY(add_format_node(tree, env, PC__NODE_SLOT, "/user", &tree->slot), done);
    tree->slot->uncached = 1;
    tree->slot->text = pc__strdup(env->mem, t->part[2].data ? t->part[2].data : "");
    tree->slot->text_size = t->part[2].size;
    status = tree->slot->text ? PC_OK : PC_ERR_NOMEM;
    if (status >= 0)
        status = pc__literal_around(&run, between, "", 0, "", &tree->lead_tokens,
                                    &tree->lead_count);
    if (status >= 0)
        status = pc__layout(tree, env);
done:
    pc__literal_free(&run);
    return status;
}

pc_status pc__system_format_tree(pc__schema_tree **out, const pc__pml_env *env,
                                 const pc__system_format_source *source)
{
    format_template t = {.source = source};
    pc__schema_tree *tree = NULL;
    *out = NULL;
    for (size_t i = 0; i < 3; i++)
        t.part[i].mem = env->mem;
    pc_status status = source->format ? parse_template(&t) : template_from_chat(&t, env->chat);
    if (status >= 0) {
        tree = pc__calloc(env->mem, 1, sizeof *tree);
        status = tree ? build_format_tree(tree, env, &t) : PC_ERR_NOMEM;
    }
    for (size_t i = 0; i < 3; i++)
        pc__bytes_free(&t.part[i]);
    if (status < 0)
        pc__schema_tree_free(tree, env->mem);
    else
        *out = tree;
    return status;
}

/* Tokenises the text behind the slot's lead, so that a SentencePiece vocabulary puts no blank in
 * front of the user's first word. If no token ends where the lead ends: the text by itself. */
pc_status pc__system_format_user(const pc__pml_env *env, const pc__schema_tree *tree,
                                 const char *text, size_t size, int32_t **tokens, size_t *count)
{
    const char *behind = tree->slot ? tree->slot->text : "";
    size_t lead = tree->lead_count;
    pc__literal run = {.env = env};
    pc__text stripped = pc__text_strip((pc__text){text, size});
    text = stripped.data;
    size = stripped.size;
    PC__TRY_RETURN(check_request(env, tree, text, size));
    pc_status status = pc__literal_around(&run, tree->slot_lead ? tree->slot_lead : "", text, size,
                                          behind, tokens, count);
    if (status >= 0 && *count >= lead
        && (!lead || !memcmp(*tokens, tree->lead_tokens, lead * sizeof **tokens))) {
        *count -= lead;
        if (lead && *count)
            memmove(*tokens, *tokens + lead, *count * sizeof **tokens);
    } else if (status >= 0) {
        pc__free(env->mem, *tokens);
        pc__literal_clear(&run);
        status = pc__literal_around(&run, "", text, size, behind, tokens, count);
    }
    pc__literal_free(&run);
    return status;
}

pc_status pc__system_format_user_tokens(const pc__pml_env *env, const pc__schema_tree *tree,
                                        const int32_t *given, size_t given_count, int32_t **tokens,
                                        size_t *count)
{
    pc__literal run = {.env = env};
    int32_t *behind = NULL;
    size_t n = 0;
    pc_status status = pc__literal_around(&run, tree->slot ? tree->slot->text : "", "", 0, "",
                                          &behind, &n);
    *tokens = NULL;
    *count = 0;
    if (status >= 0 && !(*tokens = pc__calloc(env->mem, given_count + n, sizeof **tokens)))
        status = PC_ERR_NOMEM;
    if (status >= 0) {
        if (given_count)
            memcpy(*tokens, given, given_count * sizeof **tokens);
        if (n)
            memcpy(*tokens + given_count, behind, n * sizeof **tokens);
        *count = given_count + n;
    }
    pc__free(env->mem, behind);
    pc__literal_free(&run);
    return status;
}

/* Resolves a prompt: references become cached texts, attributes become arguments, the rest is new
 * text. */
#include "pml/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pml/pml_names.h"
#include "pml/system_format.h"
#include "pml/chat_tag.h"
#include "pml/conversation.h"
#include "pml/literal.h"
#include "pml/xml.h"

typedef struct resolver {
    const pc__pml_env *env;
    const pc__schema_tree *tree;
    pc__resolved *out;
    size_t part_capacity;
    unsigned char *imported; /* [node_count] */
    pc__literal literal;
    pc__conversation talk;
    size_t turn_count;   /* of chat tags, those of the schema among them */
    pc__bytes key;       /* of a look-up by path */
    int64_t cursor;      /* start of the next text: behind the module before it */
    int referenced;      /* a module came before */
    int in_system;       /* the last chat tag was a system prompt */
    int64_t text_end;    /* behind the last new text; 0: none */
    size_t line, column; /* of the first text that goes beyond the model's context; 0: none */
    int64_t *shift;      /* [node_count] of a module of the schema: from its place; NULL: none */
} resolver;

static pc_status resolve_content(resolver *r, const pc__node *module, const pc__element *e);

/* How far the prompt moves a node: as the outermost module that it is in. */
static int64_t shift_of(const resolver *r, const pc__node *node)
{
    const pc__node *outermost = NULL;
    for (; r->shift && node->parent; node = node->parent)
        if (node->kind == PC__NODE_MODULE)
            outermost = node;
    return outermost ? r->shift[outermost->index] : 0;
}

static pc_status add_part(resolver *r, pc__prompt_part part)
{
    pc_status status = pc__grow(r->env->mem, (void **)&r->out->parts, &r->part_capacity,
                                r->out->part_count + 1, sizeof *r->out->parts);
    if (status < 0 || !part.path) {
        pc__free(r->env->mem, part.path);
        if (!pc__part_is_given(&part))
            pc__free(r->env->mem, part.tokens);
        return status < 0 ? status : PC_ERR_NOMEM;
    }
    r->out->parts[r->out->part_count++] = part;
    return PC_OK;
}

/* Ends the open new text. It starts at the cursor; the prompt's last text starts behind the whole
 * schema. */
static pc_status end_text(resolver *r, int last)
{
    pc__prompt_part part = {.kind = PC__PART_TEXT};
    pc_status status = PC_OK;
    pc__literal_adjust(&r->literal, PC__BLANKS_NONE);
    part.start = last && !r->shift && r->cursor < r->tree->length ? r->tree->length : r->cursor;
    PC__TRY_RETURN(pc__conversation_note_pieces(&r->talk, part.start, PC__PART_TEXT,
                                                r->literal.pieces, r->literal.count,
                                                r->literal.text.data));
    if (last && r->tree->slot)
        status = pc__system_format_user(r->env, r->tree,
                                        r->literal.text.data ? r->literal.text.data : "",
                                        r->literal.text.size, &part.tokens, &part.count);
    else if (r->literal.text.size)
        status = pc__literal_tokens(&r->literal, &part.tokens, &part.count);
    size_t line = r->literal.line, column = r->literal.column;
    pc__literal_clear(&r->literal);
    if (status < 0 || !part.count) {
        pc__free(r->env->mem, part.tokens);
        return status;
    }
    part.path = pc__strdup(r->env->mem, "");
    r->cursor = r->text_end = part.start + (int64_t)part.count;
    if (!r->line && r->env->context_length > 0 && r->cursor > r->env->context_length) {
        r->line = line;
        r->column = column;
    }
    return add_part(r, part);
}

/* The module or parameter of that name in a module or in its unions; *out is NULL if there is none
 * of that kind. */
static pc_status child_named(resolver *r, const pc__node *parent, const char *name,
                             pc__node_kind kind, const pc__node **out)
{
    *out = NULL;
    r->key.size = 0;
    PC__TRY_RETURN(pc__bytes_add_text(&r->key, parent->path));
    if (r->key.size)
        PC__TRY_RETURN(pc__bytes_add(&r->key, "/", 1));
    PC__TRY_RETURN(pc__bytes_add_text(&r->key, name));
    *out = pc__schema_node_at(r->tree, r->key.data, r->key.size);
    if (*out && (*out)->kind != kind)
        *out = NULL;
    return PC_OK;
}

/* A module of that name anywhere, for a hint. */
static const pc__node *module_anywhere(const pc__schema_tree *tree, const char *name)
{
    for (size_t i = 1; i < tree->node_count; i++)
        if (tree->nodes[i]->kind == PC__NODE_MODULE && !strcmp(tree->nodes[i]->name, name))
            return tree->nodes[i];
    return NULL;
}

static void list_modules(const pc__node *parent, char *out, size_t size)
{
    for (size_t i = 0; i < parent->child_count; i++) {
        const pc__node *child = parent->children[i];
        if (child->kind == PC__NODE_UNION)
            list_modules(child, out, size);
        else if (child->kind == PC__NODE_MODULE)
            pc__list_name(out, size, "", child->name);
    }
}

static pc_status no_such_module(const resolver *r, const pc__node *parent, const pc__element *e)
{
    const pc__node *other = module_anywhere(r->tree, e->name);
    const char *of = parent->parent ? parent->path : r->tree->name;
    char names[160] = "";
    if (other)
        return pc__element_fault(
            e, "'%s' has no module '%.60s'; '%s' is one: name its parents around it", of, e->name,
            other->path);
    if (pc__is_tag(e->name))
        return pc__element_fault(
            e,
            "<%s> belongs in a schema; a prompt refers to a module by its name,"
            " as in <name/>",
            e->name);
    list_modules(parent, names, sizeof names);
    return pc__element_fault(e, "'%s' has no module '%.60s'; there %s%s", of, e->name,
                             *names ? "are " : "is none", names);
}

static pc_status no_such_parameter(const pc__node *module, const pc__element *e, const char *name)
{
    char names[160] = "";
    for (size_t i = 0; i < module->child_count; i++)
        if (module->children[i]->kind == PC__NODE_PARAMETER)
            pc__list_name(names, sizeof names, "", module->children[i]->name);
    return pc__element_fault(e, "module '%s' has no parameter '%.60s'; it has %s", module->path,
                             name, *names ? names : "none");
}

static pc_status check_union(const resolver *r, const pc__node *module, const pc__element *e)
{
    const pc__node *all = module->parent;
    if (!all || all->kind != PC__NODE_UNION || r->env->flags & PC_PML_OVERLAP)
        return PC_OK;
    for (size_t i = 0; i < all->child_count; i++)
        if (r->imported[all->children[i]->index])
            return pc__element_fault(e,
                                     "'%s' and '%s' are members of one union: only one may be used",
                                     all->children[i]->name, module->name);
    return PC_OK;
}

static pc_status add_argument(resolver *r, const pc__node *module, const pc__element *e,
                              const pc__attribute *a)
{
    const pc__node *p;
    pc__prompt_part part = {.kind = PC__PART_ARGUMENT};
    PC__TRY_RETURN(child_named(r, module, a->name, PC__NODE_PARAMETER, &p));
    if (!p)
        return no_such_parameter(module, e, a->name);
    pc_status status = r->env->tokens(r->env->tokens_user, a->value, a->size, 0, &part.tokens,
                                      &part.count);
    if (status >= 0 && (int64_t)part.count > p->length)
        status = pc__element_fault(e,
                                   "the argument of '%s' has %zu tokens, the parameter takes %lld",
                                   a->name, part.count, (long long)p->length);
    if (status < 0 || !part.count) {
        pc__free(r->env->mem, part.tokens);
        return status;
    }
    part.node = p;
    part.start = p->start + shift_of(r, p);
    part.path = pc__strdup(r->env->mem, p->path);
    PC__TRY_RETURN(add_part(r, part));
    return pc__conversation_note(&r->talk, part.start, PC__PART_ARGUMENT, p->turn, a->value,
                                 a->size);
}

enum { AROUND = 1, USED = 2 }; /* of `imported` */

/* Marks the module. A builder may name modules around others more than once, and use one that was
 * named so. */
static pc_status import_module(resolver *r, const pc__node *module, const pc__element *e)
{
    unsigned char *mark = &r->imported[module->index];
    int around = e->origin == PC__BUILT_AROUND;
    if (!*mark)
        PC__TRY_RETURN(check_union(r, module, e));
    else if (!around && *mark == USED)
        return pc__element_fault(e, "module '%s' is used twice", module->path);
    if (*mark != USED)
        *mark = around ? AROUND : USED;
    return PC_OK;
}

static pc_status resolve_reference(resolver *r, const pc__node *parent, const pc__element *e)
{
    const pc__node *module;
    int64_t before = r->cursor;
    PC__TRY_RETURN(child_named(r, parent, e->name, PC__NODE_MODULE, &module));
    if (!module)
        return no_such_module(r, parent, e);
    int again = r->imported[module->index];
    PC__TRY_RETURN(import_module(r, module, e));
    if (r->shift && !again && !parent->parent)
        r->shift[module->index] = before - module->start;
    for (size_t i = 0; i < e->attribute_count; i++)
        PC__TRY_RETURN(add_argument(r, module, e, &e->attributes[i]));
    r->referenced = 1;
    r->cursor = module->start + module->length + shift_of(r, module);
    PC__TRY_RETURN(resolve_content(r, module, e));
    PC__TRY_RETURN(end_text(r, 0));
    if (r->cursor < module->start + module->length + shift_of(r, module))
        r->cursor = module->start + module->length + shift_of(r, module);
    if (again && r->cursor < before) /* text behind the first naming of it stays in front */
        r->cursor = before;
    return PC_OK;
}

static pc_status resolve_chat_tag(resolver *r, const pc__node *module, const pc__element *e)
{
    pc__chat_tag tag;
    if (r->tree->slot)
        return pc__element_fault(e, "<%s>: the schema string is the template; write only the text",
                                 e->name);
    PC__TRY_RETURN(pc__chat_tag_of(r->env, e, &r->in_system, &tag));
    PC__TRY_RETURN(pc__literal_add_template(&r->literal, tag.open, e->line, e->column));
    pc__turn outer = r->literal.turn;
    r->literal.turn = (pc__turn){*e->name, ++r->turn_count};
    PC__TRY_RETURN(resolve_content(r, module, e));
    r->literal.turn = outer;
    PC__TRY_RETURN(pc__literal_add_template(&r->literal, tag.close, e->line, e->column));
    return pc__literal_add_template(&r->literal, tag.generation, e->line, e->column);
}

/* Blanks between elements are layout of the file, not text. */
static pc_status resolve_content(resolver *r, const pc__node *module, const pc__element *e)
{
    for (size_t i = 0; i < e->child_count; i++) {
        const pc__element *child = e->children[i];
        if (!child->name) {
            if (!pc__element_is_layout(child))
                PC__TRY_RETURN(pc__literal_add_element(&r->literal, child, child->size));
        } else if (pc__is_chat_tag(child)) {
            PC__TRY_RETURN(resolve_chat_tag(r, module, child));
        } else {
            PC__TRY_RETURN(end_text(r, 0));
            PC__TRY_RETURN(resolve_reference(r, module, child));
        }
    }
    return PC_OK;
}

static pc_status add_schema_parts(resolver *r)
{
    for (size_t i = 0; i < r->tree->node_count; i++) {
        const pc__node *node = r->tree->nodes[i];
        if (node->kind != PC__NODE_TEXT || !node->token_count || !r->imported[node->parent->index])
            continue;
        pc__prompt_part part = {.kind = node->uncached ? PC__PART_UNCACHED : PC__PART_CACHED,
                                .node = node,
                                .path = pc__strdup(r->env->mem, node->path),
                                .tokens = node->tokens,
                                .count = node->token_count,
                                .start = node->start + shift_of(r, node)};
        PC__TRY_RETURN(add_part(r, part));
        PC__TRY_RETURN(pc__conversation_note_pieces(&r->talk, part.start, 0, node->pieces,
                                                    node->piece_count, node->text));
    }
    return PC_OK;
}

static pc_status list_imports(resolver *r)
{
    const pc_allocator *mem = r->env->mem;
    const pc__schema_tree *tree = r->tree;
    r->out->modules = pc__calloc(mem, tree->node_count, sizeof *r->out->modules);
    r->out->scaffolds = pc__calloc(mem, tree->scaffold_count, sizeof *r->out->scaffolds);
    if (!r->out->modules || !r->out->scaffolds)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < tree->node_count; i++)
        if (tree->nodes[i]->kind == PC__NODE_MODULE && r->imported[i])
            r->out->modules[r->out->module_count++] = tree->nodes[i];
    for (size_t s = 0; s < tree->scaffold_count; s++) {
        const pc__scaffold *set = &tree->scaffolds[s];
        size_t n = 0;
        while (n < set->count && r->imported[set->modules[n]->index])
            n++;
        if (n == set->count)
            r->out->scaffolds[r->out->scaffold_count++] = set;
    }
    return PC_OK;
}

static int part_rank(const pc__prompt_part *part)
{
    return pc__part_is_given(part) ? 0 : (int)part->kind;
}

static int compare_parts(const void *a, const void *b)
{
    const pc__prompt_part *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return part_rank(x) - part_rank(y);
}

/* The schema fits, so a text of the prompt crosses the end. */
static pc_status too_long(const resolver *r)
{
    return pc__place_fault(PC_ERR_LIMIT, r->env->where, r->line, r->column,
                           "the prompt ends at position %lld (the schema at %lld), the model"
                           " has %lld%s",
                           (long long)r->out->end, (long long)r->tree->length,
                           (long long)r->env->context_length,
                           r->line ? "; the text that begins here crosses the end" : "");
}

/* Runs when all new texts are parts and imported modules are marked. */
static pc_status finish_parts(resolver *r)
{
    PC__TRY_RETURN(add_schema_parts(r));
    PC__TRY_RETURN(pc__conversation_check(&r->talk));
    PC__TRY_RETURN(list_imports(r));
    qsort(r->out->parts, r->out->part_count, sizeof *r->out->parts, compare_parts);
    r->out->end = r->tree->length > r->text_end ? r->tree->length : r->text_end;
    if (r->shift)
        r->out->end = r->cursor;
    r->out->moved = r->shift != NULL;
    if (r->env->context_length > 0 && r->out->end > r->env->context_length)
        return too_long(r);
    return PC_OK;
}

static pc_status resolve_root(resolver *r, const pc__element *root)
{
    if (strcmp(root->name, "prompt"))
        return pc__element_fault(root, "the root element is <%.60s>, not <prompt>", root->name);
    PC__TRY_RETURN(pc__only_attributes(root, "schema"));
    r->imported[0] = 1;
    /* text before the first module follows the schema's leading text */
    for (size_t i = 0;
         i < r->tree->root->child_count && r->tree->root->children[i]->kind == PC__NODE_TEXT; i++)
        r->cursor = r->tree->root->children[i]->start + r->tree->root->children[i]->length;
    PC__TRY_RETURN(resolve_content(r, r->tree->root, root));
    PC__TRY_RETURN(end_text(r, 1));
    if (!r->referenced && !r->out->part_count)
        return pc__element_fault(root,
                                 "the prompt is empty: name modules of the schema, or write text");
    return finish_parts(r);
}

static pc_status start_resolver(resolver *r, const pc__pml_env *env, const pc__schema_tree *tree)
{
    *r = (resolver){.env = env,
                    .tree = tree,
                    .literal = {.env = env},
                    .key = {.mem = env->mem},
                    .talk = {.env = env},
                    .turn_count = tree->turn_count,
                    .in_system = tree->ends_in_system};
    r->out = pc__calloc(env->mem, 1, sizeof *r->out);
    r->imported = pc__calloc(env->mem, tree->node_count, 1);
    return r->out && r->imported ? PC_OK : PC_ERR_NOMEM;
}

static pc_status end_resolver(resolver *r, pc_status status, pc__resolved **out)
{
    pc__literal_free(&r->literal);
    pc__conversation_free(&r->talk);
    pc__bytes_free(&r->key);
    pc__free(r->env->mem, r->imported);
    pc__free(r->env->mem, r->shift);
    if (status < 0)
        pc__resolved_free(r->out, r->env->mem);
    *out = status < 0 ? NULL : r->out;
    return status;
}

static int has_text_between_modules(const pc__schema_tree *tree)
{
    const pc__node *root = tree->root;
    for (size_t i = 1; i < root->child_count; i++)
        if (root->children[i]->kind == PC__NODE_TEXT
            && root->children[i - 1]->kind != PC__NODE_TEXT)
            return 1;
    return 0;
}

pc_status pc__resolve_elements(pc__resolved **out, const pc__pml_env *env,
                               const pc__schema_tree *tree, const pc__element *root, int in_order)
{
    resolver r;
    pc_status status = start_resolver(&r, env, tree);
    if (status >= 0 && in_order && !has_text_between_modules(tree)
        && !(r.shift = pc__calloc(env->mem, tree->node_count, sizeof *r.shift)))
        status = PC_ERR_NOMEM;
    if (status >= 0)
        status = resolve_root(&r, root);
    return end_resolver(&r, status, out);
}

pc_status pc__resolve(pc__resolved **out, const pc__pml_env *env, const pc__schema_tree *tree,
                      const char *text, size_t size)
{
    pc__element *root;
    *out = NULL;
    PC__TRY_RETURN(pc__xml_parse(&root, env->mem, env->where, text, size));
    pc_status status = pc__resolve_elements(out, env, tree, root, 0);
    pc__element_free(root, env->mem);
    return status;
}

pc_status pc__resolve_slot(pc__resolved **out, const pc__pml_env *env, const pc__schema_tree *tree,
                           int32_t *tokens, size_t count)
{
    pc__prompt_part part = {
        .kind = PC__PART_TEXT, .tokens = tokens, .count = count, .start = tree->length};
    resolver r;
    pc_status status = start_resolver(&r, env, tree);
    if (status >= 0 && count) {
        part.path = pc__strdup(env->mem, "");
        r.text_end = part.start + (int64_t)count;
        status = add_part(&r, part);
    } else {
        pc__free(env->mem, tokens);
    }
    if (status >= 0) {
        r.imported[0] = 1;
        status = finish_parts(&r);
    }
    return end_resolver(&r, status, out);
}

pc_status pc__prompt_head_read(pc__prompt_head *out, const pc__pml_env *env, const char *text,
                               size_t size)
{
    pc__element *xml;
    pc_status status = PC_OK;
    *out = (pc__prompt_head){0};
    PC__TRY_RETURN(pc__xml_parse(&xml, env->mem, env->where, text, size));
    out->line = xml->line;
    out->column = xml->column;
    const char *schema = pc__element_attribute(xml, "schema");
    if (strcmp(xml->name, "prompt"))
        status = pc__element_fault(xml, "the root element is <%.60s>, not <prompt>", xml->name);
    else if (schema && !(out->schema = pc__strdup(env->mem, schema)))
        status = PC_ERR_NOMEM;
    pc__element_free(xml, env->mem);
    return status;
}

void pc__resolved_free(pc__resolved *resolved, const pc_allocator *mem)
{
    if (!resolved)
        return;
    for (size_t i = 0; i < resolved->part_count; i++) {
        pc__free(mem, resolved->parts[i].path);
        if (!pc__part_is_given(&resolved->parts[i]))
            pc__free(mem, resolved->parts[i].tokens);
    }
    pc__free(mem, resolved->parts);
    pc__free(mem, resolved->modules);
    pc__free(mem, resolved->scaffolds);
    pc__free(mem, resolved);
}

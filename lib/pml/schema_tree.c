/* From elements to the schema tree: modules, texts, names, scaffold sets. Positions: layout.c. */
#include <string.h>

#include "pml/layout.h"
#include "pml/pml_names.h"
#include "pml/chat_tag.h"
#include "pml/source_file.h"
#include "pml/conversation.h"
#include "pml/literal.h"
#include "pml/xml.h"

enum {
    MOST_POSITIONS = 1 << 24, /* of all parameters: a short document could ask for any memory */
    MOST_IN_SCAFFOLD = 256    /* each is compared with every other */
};

typedef struct schema_builder {
    const pc__pml_env *env;
    pc__schema_tree *tree;
    pc__literal literal;
    int apart; /* the next text stands apart, whichever modules before it a prompt uses */
    int64_t parameter_positions;
    const pc__element **scaffolds;
    size_t scaffold_count, scaffold_capacity, node_capacity;
} schema_builder;

static pc_status build_content(schema_builder *b, pc__node *parent,
                               const pc__element *build_element);

const pc__node *pc__schema_node_at(const pc__schema_tree *tree, const char *path, size_t size)
{
    int32_t index = pc__string_map_get(&tree->paths, path, size);
    return index < 0 ? NULL : tree->nodes[index];
}

static pc_status make_path(const schema_builder *b, pc__node *node)
{
    const pc__node *up = node->parent;
    const char *base = up ? up->path : "", *leaf = NULL;
    if (up && up->kind == PC__NODE_UNION)
        base = up->parent->path; /* members count as the parent's own */
    if (node->kind == PC__NODE_MODULE)
        leaf = up ? node->name : "";
    else if (node->kind == PC__NODE_UNION)
        leaf = "union";
    else if (node->kind == PC__NODE_PARAMETER)
        leaf = node->name;
    size_t n = strlen(base), m = leaf ? strlen(leaf) : 0;
    if (!(node->path = pc__alloc(b->env->mem, n + m + 2)))
        return PC_ERR_NOMEM;
    memcpy(node->path, base, n + 1);
    if (m) {
        if (n || node->kind == PC__NODE_UNION)
            node->path[n++] = '/';
        memcpy(node->path + n, leaf, m + 1);
    }
    return PC_OK;
}

/* Copies `name` (may be NULL). The tree owns the node even on failure. */
static pc_status add_node(schema_builder *b, pc__node *parent, pc__node_kind kind, const char *name,
                          size_t line, size_t column, pc__node **out)
{
    const pc_allocator *mem = b->env->mem;
    pc__node *node = pc__calloc(mem, 1, sizeof *node);
    pc_status status = node ? pc__grow(mem, (void **)&b->tree->nodes, &b->node_capacity,
                                       b->tree->node_count + 1, sizeof *b->tree->nodes)
                            : PC_ERR_NOMEM;
    if (status < 0) {
        pc__free(mem, node);
        return status;
    }
    node->kind = kind;
    node->parent = parent;
    node->line = line;
    node->column = column;
    node->uncached = parent && parent->uncached;
    node->index = b->tree->node_count;
    b->tree->nodes[b->tree->node_count++] = node;
    if (name && !(node->name = pc__strdup(mem, name)))
        return PC_ERR_NOMEM;
    if (parent) {
        PC__TRY_RETURN(pc__grow(mem, (void **)&parent->children, &parent->child_capacity,
                                parent->child_count + 1, sizeof *parent->children));
        parent->children[parent->child_count++] = node;
    }
    *out = node;
    return make_path(b, node);
}

/* Of a text longer than max_tokens the first and the last half of that many tokens stay. */
static void shorten_text(const schema_builder *b, pc__node *node)
{
    size_t most = b->env->max_tokens, head = most / 2, tail = most - head;
    if (!most || node->token_count <= most)
        return;
    memmove(node->tokens + head, node->tokens + node->token_count - tail,
            tail * sizeof *node->tokens);
    node->token_count = most;
}

/* Blanks between two elements that stand apart anyway. */
static int is_needless(const schema_builder *b)
{
    return b->env->flags & PC_PML_COMPACT && b->apart && pc__literal_is_blank(&b->literal);
}

/* The open literal becomes a text node of `parent`. */
static pc_status end_text(schema_builder *b, pc__node *parent)
{
    pc__node *node;
    pc__literal_adjust(&b->literal, PC__BLANKS_ONE);
    if (!b->literal.text.size || is_needless(b)) {
        pc__literal_clear(&b->literal);
        return PC_OK;
    }
    b->apart = pc__literal_ends_apart(&b->literal);
    PC__TRY_RETURN(
        add_node(b, parent, PC__NODE_TEXT, NULL, b->literal.line, b->literal.column, &node));
    for (size_t i = 0; i < b->literal.count; i++)
        node->in_system |= b->literal.pieces[i].kind == PC__PIECE_TEMPLATE;
    node->text_size = b->literal.text.size;
    if (!(node->text = pc__strndup(b->env->mem, b->literal.text.data, node->text_size)))
        return PC_ERR_NOMEM;
    if (pc__conversation_matters(b->env)) {
        if (!(node->pieces = pc__calloc(b->env->mem, b->literal.count, sizeof *node->pieces)))
            return PC_ERR_NOMEM;
        memcpy(node->pieces, b->literal.pieces, b->literal.count * sizeof *node->pieces);
        node->piece_count = b->literal.count;
    }
    pc_status status = pc__literal_tokens(&b->literal, &node->tokens, &node->token_count);
    shorten_text(b, node);
    pc__literal_clear(&b->literal);
    return status;
}

static pc_status cache_attribute(const pc__element *e, pc__node *node)
{
    const char *cache = pc__element_attribute(e, "cache");
    if (cache && strcmp(cache, "true") && strcmp(cache, "false"))
        return pc__element_fault(e, "cache='%.40s' is neither 'true' nor 'false'", cache);
    if (cache && !strcmp(cache, "false"))
        node->uncached = 1;
    return PC_OK;
}

static pc_status add_source(schema_builder *b, const pc__element *e)
{
    const char *src = pc__element_attribute(e, "src");
    char *text;
    size_t size;
    if (!src)
        return PC_OK;
    PC__TRY_RETURN(pc__source_file_read(b->env, e, src, &text, &size));
    pc_status status = pc__literal_add(&b->literal, PC__PIECE_EXACT, text, size, e->line,
                                       e->column);
    pc__free(b->env->mem, text);
    return status;
}

/* Registers the path of a new module or parameter; *twin: the node that has it already, or NULL. */
static pc_status claim_path(schema_builder *b, const pc__node *node, const pc__node **twin)
{
    size_t size = strlen(node->path);
    *twin = pc__schema_node_at(b->tree, node->path, size);
    return *twin ? PC_OK
                 : pc__string_map_add(&b->tree->paths, node->path, size, (int32_t)node->index);
}

static pc_status build_module(schema_builder *b, pc__node *parent, const pc__element *e)
{
    const char *name = pc__name_attribute(e, "module", 1);
    const pc__node *twin;
    pc__node *node;
    int before = b->apart;
    if (!name)
        return PC_ERR_PML;
    PC__TRY_RETURN(pc__only_attributes(e, "name src cache"));
    PC__TRY_RETURN(add_node(b, parent, PC__NODE_MODULE, name, e->line, e->column, &node));
    PC__TRY_RETURN(claim_path(b, node, &twin));
    if (twin && twin->kind == PC__NODE_MODULE)
        return pc__element_fault(e, "a module '%s' is there already (%s %zu)", name,
                                 twin->column ? "line" : "element", twin->line);
    if (twin)
        return pc__element_fault(e, "'%s' is already a parameter of the same module (%s %zu)", name,
                                 twin->column ? "line" : "element", twin->line);
    PC__TRY_RETURN(cache_attribute(e, node));
    PC__TRY_RETURN(add_source(b, e));
    PC__TRY_RETURN(build_content(b, node, e));
    PC__TRY_RETURN(end_text(b, node));
    b->apart = b->apart && before; /* a prompt may leave the module out */
    return PC_OK;
}

static pc_status build_union(schema_builder *b, pc__node *parent, const pc__element *e)
{
    const char *name = pc__element_attribute(e, "scaffold");
    pc__node *node;
    int before = b->apart, all = before;
    PC__TRY_RETURN(pc__only_attributes(e, "scaffold"));
    PC__TRY_RETURN(add_node(b, parent, PC__NODE_UNION, NULL, e->line, e->column, &node));
    for (size_t i = 0; i < e->child_count; i++) {
        const pc__element *child = e->children[i];
        if (pc__element_is_layout(child))
            continue;
        if (!child->name || strcmp(child->name, "module"))
            return pc__element_fault(child, "only <module> may stand in a <union>, not %s%s%s",
                                     child->name ? "<" : "text", child->name ? child->name : "",
                                     child->name ? ">" : "");
        b->apart = before;
        PC__TRY_RETURN(build_module(b, node, child));
        all = all && b->apart;
    }
    b->apart = all;
    for (size_t i = 0; name && i < node->child_count; i++)
        if (!strcmp(node->children[i]->name, name))
            node->default_member = node->children[i];
    if (name && !node->default_member)
        return pc__element_fault(e, "scaffold='%.60s' names no member of this union", name);
    return PC_OK;
}

/* 1 to MOST_POSITIONS, in digits without a leading 0; else 0. */
static int64_t plain_number(const char *text)
{
    int64_t value = 0;
    if (*text == '0')
        return 0;
    for (; *text >= '0' && *text <= '9' && value <= MOST_POSITIONS; text++)
        value = 10 * value + (*text - '0');
    return *text || value > MOST_POSITIONS ? 0 : value;
}

/* Under either spelling: that of the published code, and that of the paper. */
static pc_status parameter_length(schema_builder *b, const pc__element *e, int64_t *out)
{
    const char *text = pc__element_attribute(e, "length"), *len = pc__element_attribute(e, "len");
    int64_t value;
    if (!text && !len)
        return pc__element_fault(e, "<%s> has no length", e->name);
    if (text && len)
        return pc__element_fault(e, "<%s> has both length='%.40s' and len='%.40s'", e->name, text,
                                 len);
    if (!(value = plain_number(text ? text : len)))
        return pc__element_fault(e, "%s='%.40s' is not a number of tokens from 1 to %d",
                                 text ? "length" : "len", text ? text : len, MOST_POSITIONS);
    if (b->env->context_length > 0 && value > b->env->context_length)
        return pc__place_fault(PC_ERR_LIMIT, b->env->where, e->line, e->column,
                               "a parameter of %lld positions, the model has %lld",
                               (long long)value, (long long)b->env->context_length);
    b->parameter_positions += value;
    if (b->parameter_positions > MOST_POSITIONS)
        return pc__place_fault(PC_ERR_LIMIT, b->env->where, e->line, e->column,
                               "parameters of more than %d positions in all", MOST_POSITIONS);
    *out = value;
    return PC_OK;
}

static pc_status fill_placeholder(const schema_builder *b, const pc__element *e, pc__node *node)
{
    const pc__attribute *scaffold = NULL;
    int32_t *tokens = NULL;
    size_t n = 0, length = (size_t)node->length;
    pc_status status = PC_OK;
    for (size_t i = 0; i < e->attribute_count; i++)
        if (!strcmp(e->attributes[i].name, "scaffold"))
            scaffold = &e->attributes[i];
    if (scaffold)
        status = b->env->tokens(b->env->tokens_user, scaffold->value, scaffold->size, 0, &tokens,
                                &n);
    if (status >= 0 && n > length)
        status = pc__element_fault(
            e, "the scaffold text of parameter '%s' has %zu tokens, its length is %zu", node->name,
            n, length);
    if (status >= 0 && !(node->tokens = pc__alloc(b->env->mem, length * sizeof *node->tokens)))
        status = PC_ERR_NOMEM;
    if (status >= 0) {
        if (n)
            memcpy(node->tokens, tokens, n * sizeof *tokens);
        for (; n < length; n++)
            node->tokens[n] = b->env->unk >= 0 ? b->env->unk : 0;
        node->token_count = length;
    }
    pc__free(b->env->mem, tokens);
    return status;
}

static pc_status build_parameter(schema_builder *b, pc__node *parent, const pc__element *e)
{
    const char *name;
    const pc__node *twin;
    int64_t length = 0;
    pc__node *node;
    if (!parent->parent)
        return pc__element_fault(e,
                                 "a parameter must stand in a module, not directly in the schema");
    if (!(name = pc__name_attribute(e, "parameter", 0)))
        return PC_ERR_PML;
    if (e->child_count)
        return pc__element_fault(e, "<%s> must be empty", e->name);
    PC__TRY_RETURN(pc__only_attributes(e, "name length len scaffold"));
    PC__TRY_RETURN(parameter_length(b, e, &length));
    PC__TRY_RETURN(add_node(b, parent, PC__NODE_PARAMETER, name, e->line, e->column, &node));
    PC__TRY_RETURN(claim_path(b, node, &twin));
    if (twin)
        return pc__element_fault(e, "the module has a parameter or module '%s' already", name);
    node->length = length;
    node->turn = b->literal.turn;
    b->apart = 0; /* there may be no argument, or one that ends with anything */
    return fill_placeholder(b, e, node);
}

static pc_status build_chat_tag(schema_builder *b, pc__node *parent, const pc__element *e)
{
    pc__chat_tag tag;
    PC__TRY_RETURN(pc__chat_tag_of(b->env, e, &b->tree->ends_in_system, &tag));
    PC__TRY_RETURN(pc__literal_add_template(&b->literal, tag.open, e->line, e->column));
    pc__turn outer = b->literal.turn;
    b->literal.turn = (pc__turn){*e->name, ++b->tree->turn_count};
    if (!pc__element_is_empty(e))
        PC__TRY_RETURN(build_content(b, parent, e));
    b->literal.turn = outer;
    PC__TRY_RETURN(pc__literal_add_template(&b->literal, tag.close, e->line, e->column));
    return pc__literal_add_template(&b->literal, tag.generation, e->line, e->column);
}

static pc_status note_scaffold(schema_builder *b, const pc__node *parent, const pc__element *e)
{
    if (parent->parent)
        return pc__element_fault(e, "<scaffold> stands directly in the schema");
    if (!pc__element_attribute(e, "modules"))
        return pc__element_fault(e, "<scaffold> has no modules");
    if (!pc__element_is_empty(e))
        return pc__element_fault(e, "<scaffold> must be empty");
    PC__TRY_RETURN(pc__only_attributes(e, "modules"));
    PC__TRY_RETURN(pc__grow(b->env->mem, (void **)&b->scaffolds, &b->scaffold_capacity,
                            b->scaffold_count + 1, sizeof *b->scaffolds));
    b->scaffolds[b->scaffold_count++] = e;
    return PC_OK;
}

static pc_status build_element(schema_builder *b, pc__node *parent, const pc__element *e)
{
    if (pc__is_chat_tag(e))
        return build_chat_tag(b, parent, e);
    if (!strcmp(e->name, "scaffold"))
        return note_scaffold(b, parent, e);
    PC__TRY_RETURN(end_text(b, parent));
    if (!strcmp(e->name, "module"))
        return build_module(b, parent, e);
    if (!strcmp(e->name, "union"))
        return build_union(b, parent, e);
    if (!strcmp(e->name, "parameter") || !strcmp(e->name, "param"))
        return build_parameter(b, parent, e);
    return pc__element_fault(
        e,
        "<%.60s> is no element of a schema; those are module, union, parameter, "
        "scaffold, system, user, assistant (for text with '<' write &lt;)",
        e->name);
}

/* Without the blanks right before <system>, as in the published code. */
static size_t text_size(const pc__element *parent, size_t index)
{
    const pc__element *t = parent->children[index],
                      *next = index + 1 < parent->child_count ? parent->children[index + 1] : NULL;
    size_t n = t->size;
    if (t->origin == PC__FROM_XML && next && next->name && !strcmp(next->name, "system"))
        while (n && pc__is_blank_text(t->text + n - 1, 1))
            n--;
    return n;
}

static pc_status build_content(schema_builder *b, pc__node *parent, const pc__element *e)
{
    for (size_t i = 0; i < e->child_count; i++) {
        const pc__element *child = e->children[i];
        PC__TRY_RETURN(child->name ? build_element(b, parent, child)
                                   : pc__literal_add_element(&b->literal, child, text_size(e, i)));
    }
    return PC_OK;
}

/* ------------------------------------------------------------ scaffold sets */

/* No prompt can import both: above them are different members of one union. */
static int are_exclusive(const pc__node *a, const pc__node *b)
{
    for (const pc__node *x = a; x; x = x->parent)
        for (const pc__node *y = b; y; y = y->parent)
            if (x != y && x->parent && x->parent == y->parent && x->parent->kind == PC__NODE_UNION)
                return 1;
    return 0;
}

static pc_status add_scaffold_member(const schema_builder *b, const pc__element *e,
                                     pc__scaffold *set, const char *path, size_t size)
{
    int32_t index = pc__string_map_get(&b->tree->paths, path, size);
    pc__node *node = index < 0 ? NULL : b->tree->nodes[index], **modules;
    if (!node || node->kind != PC__NODE_MODULE)
        return pc__element_fault(e, "scaffold: there is no module '%.*s'",
                                 (int)(size < 100 ? size : 100), path);
    if (set->count == MOST_IN_SCAFFOLD)
        return pc__place_fault(PC_ERR_LIMIT, b->env->where, e->line, e->column,
                               "a scaffold of more than %d modules", MOST_IN_SCAFFOLD);
    for (size_t i = 0; i < set->count; i++) {
        if (set->modules[i] == node)
            return pc__element_fault(e, "scaffold: module '%s' is named twice", node->path);
        if (are_exclusive(set->modules[i], node))
            return pc__element_fault(e, "scaffold: '%s' and '%s' are members of one union",
                                     set->modules[i]->path, node->path);
    }
    if (!(modules = pc__realloc(b->env->mem, set->modules, (set->count + 1) * sizeof *modules)))
        return PC_ERR_NOMEM;
    set->modules = modules;
    modules[set->count++] = node;
    return PC_OK;
}

static pc_status build_scaffold(schema_builder *b, const pc__element *e)
{
    pc__scaffold *set = &b->tree->scaffolds[b->tree->scaffold_count++];
    for (size_t i = 0; i < e->attribute_count; i++) {
        const char *at = e->attributes[i].value;
        /* a builder gives each path by itself, as names may have blanks there */
        if (e->origin != PC__FROM_XML)
            PC__TRY_RETURN(add_scaffold_member(b, e, set, at, e->attributes[i].size));
        while (e->origin == PC__FROM_XML && *(at += strspn(at, " \t\r\n"))) {
            size_t n = strcspn(at, " \t\r\n");
            PC__TRY_RETURN(add_scaffold_member(b, e, set, at, n));
            at += n;
        }
    }
    if (set->count < 2)
        return pc__element_fault(e, "<scaffold> needs at least two modules");
    return PC_OK;
}

static pc_status build_tree(schema_builder *b, const pc__element *root)
{
    const char *name;
    if (strcmp(root->name, "schema"))
        return pc__element_fault(root, "the root element is <%.60s>, not <schema>", root->name);
    if (!(name = pc__name_attribute(root, "schema", 0)))
        return PC_ERR_PML;
    PC__TRY_RETURN(pc__only_attributes(root, "name src"));
    if (!(b->tree->name = pc__strdup(b->env->mem, name))
        || pc__string_map_new(&b->tree->paths, b->env->mem, 0) < 0)
        return PC_ERR_NOMEM;
    PC__TRY_RETURN(
        add_node(b, NULL, PC__NODE_MODULE, name, root->line, root->column, &b->tree->root));
    PC__TRY_RETURN(add_source(b, root));
    PC__TRY_RETURN(build_content(b, b->tree->root, root));
    PC__TRY_RETURN(end_text(b, b->tree->root));
    if (!(b->tree->scaffolds = pc__calloc(b->env->mem, b->scaffold_count,
                                          sizeof *b->tree->scaffolds)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < b->scaffold_count; i++)
        PC__TRY_RETURN(build_scaffold(b, b->scaffolds[i]));
    return pc__layout(b->tree, b->env);
}

pc_status pc__schema_tree_of(pc__schema_tree **out, const pc__pml_env *env, const pc__element *root)
{
    schema_builder b = {.env = env, .literal = {.env = env}, .apart = 1};
    *out = NULL;
    b.tree = pc__calloc(env->mem, 1, sizeof *b.tree);
    pc_status status = b.tree ? build_tree(&b, root) : PC_ERR_NOMEM;
    pc__literal_free(&b.literal);
    pc__free(env->mem, b.scaffolds);
    if (status < 0)
        pc__schema_tree_free(b.tree, env->mem);
    else
        *out = b.tree;
    return status;
}

pc_status pc__schema_tree_parse(pc__schema_tree **out, const pc__pml_env *env, const char *text,
                                size_t size)
{
    pc__element *root;
    *out = NULL;
    PC__TRY_RETURN(pc__xml_parse(&root, env->mem, env->where, text, size));
    pc_status status = pc__schema_tree_of(out, env, root);
    pc__element_free(root, env->mem);
    return status;
}

void pc__schema_tree_free(pc__schema_tree *tree, const pc_allocator *mem)
{
    if (!tree)
        return;
    for (size_t i = 0; i < tree->node_count; i++) {
        pc__node *node = tree->nodes[i];
        pc__free(mem, node->name);
        pc__free(mem, node->path);
        pc__free(mem, node->children);
        pc__free(mem, node->tokens);
        pc__free(mem, node->text);
        pc__free(mem, node->pieces);
        pc__free(mem, node);
    }
    for (size_t i = 0; i < tree->scaffold_count; i++)
        pc__free(mem, tree->scaffolds[i].modules);
    tree->paths.mem = mem;
    pc__string_map_free(&tree->paths);
    pc__free(mem, tree->scaffolds);
    pc__free(mem, tree->slot_system);
    pc__free(mem, tree->slot_lead);
    pc__free(mem, tree->lead_tokens);
    pc__free(mem, tree->nodes);
    pc__free(mem, tree->name);
    pc__free(mem, tree);
}

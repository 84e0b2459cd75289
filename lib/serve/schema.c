/* Schemas from PML, with their recipes and tables of keys, and their items for callers. */
#include "serve/schema.h"

#include <promptcache/prompt.h>
#include <string.h>

#include "base/file.h"

pc_schema *pc__schema_ref(const pc_schema *schema)
{
    pc_schema *counted = (pc_schema *)(uintptr_t)schema;
    atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    return counted;
}

void pc_schema_free(pc_schema *schema)
{
    pc_model *model;
    if (!schema || atomic_fetch_sub_explicit(&schema->references, 1, memory_order_acq_rel) != 1)
        return;
    model = schema->model;
    for (size_t i = 0; i < PC__KEY_TABLES; i++)
        pc__unit_keys_unref(schema->keys[i]);
    for (size_t i = 0; i <= PC_ENCODE_JOINT; i++)
        pc__recipe_free(schema->recipes[i]);
    pc__schema_tree_free(schema->tree, &model->context->mem);
    pc__free(&model->context->mem, schema->file);
    pthread_mutex_destroy(&schema->lock);
    pc__free(&model->context->mem, schema);
    pc__model_unref(model);
}

pc_status pc__schema_recipe(const pc_schema *schema, uint32_t encoding, const pc__recipe **out)
{
    pc_schema *s = (pc_schema *)(uintptr_t)schema;
    pc_status status = PC_OK;
    pthread_mutex_lock(&s->lock);
    if (!s->recipes[encoding])
        status = pc__recipe_new(&s->recipes[encoding], &s->model->context->mem, s->tree, encoding);
    *out = s->recipes[encoding];
    pthread_mutex_unlock(&s->lock);
    return status;
}

static pc__unit_keys *find_keys(const pc_schema *s, uint32_t encoding, uint64_t regime,
                                const pc__id *tenants_id)
{
    for (size_t i = 0; i < PC__KEY_TABLES; i++) {
        pc__unit_keys *keys = s->keys[i];
        if (keys && keys->encoding == encoding && keys->regime == regime
            && pc__id_equal(&keys->tenants_id, tenants_id)) {
            atomic_fetch_add_explicit(&keys->references, 1, memory_order_relaxed);
            return keys;
        }
    }
    return NULL;
}

pc_status pc__schema_keys(const pc_schema *schema, const pc__recipe *recipe, const pc_cache *cache,
                          uint64_t regime, const pc__request_owners *owners, pc__unit_keys **out)
{
    pc_schema *s = (pc_schema *)(uintptr_t)schema;
    pc__request_tenants tenants;
    pc__id id;
    pc_status status = PC_OK;
    *out = NULL;
    PC__TRY_RETURN(
        pc__request_tenants_init(&tenants, s->model, cache, recipe->encoding, regime, owners));
    id = pc__request_tenants_id(&tenants, s->tree->length);
    pthread_mutex_lock(&s->lock);
    *out = find_keys(s, recipe->encoding, regime, &id);
    if (!*out) {
        status = pc__unit_keys_new(out, s->model, recipe, &tenants, regime, &id);
        if (status >= 0) {
            pc__unit_keys_unref(s->keys[s->next_keys]);
            atomic_fetch_add_explicit(&(*out)->references, 1, memory_order_relaxed);
            s->keys[s->next_keys] = *out;
            s->next_keys = (s->next_keys + 1) % PC__KEY_TABLES;
        }
    }
    pthread_mutex_unlock(&s->lock);
    pc__request_tenants_end(&tenants, &s->model->context->mem);
    return status;
}

pc_status pc__encode_options_read(pc_encode_options *out, pc__request_owners *owners,
                                  const pc_encode_options *options, const pc_schema *schema,
                                  const pc_cache *cache, const char *call)
{
    PC__TRY_RETURN(pc__options_read(out, sizeof *out, PC__V1_SIZE(pc_encode_options, adapter),
                                    options, "pc_encode_options"));
    if (!schema || !cache)
        return pc__fail(PC_ERR_INVALID, "%s: schema or cache is NULL", call);
    if (out->reserved || out->encoding > PC_ENCODE_EXACT)
        return pc__fail(PC_ERR_INVALID, "%s: unknown encoding %u, or reserved is set", call,
                        out->encoding);
    if (out->pin > 1 || !(out->ttl_seconds >= 0) || !(out->pin_seconds >= 0))
        return pc__fail(PC_ERR_INVALID, "%s: pin is %u, ttl_seconds %g, pin_seconds %g", call,
                        out->pin, out->ttl_seconds, out->pin_seconds);
    if (out->encoding == PC_ENCODE_EXACT)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: exact states depend on the prompt", call);
    return pc__request_owners_read(owners, schema->model, call, out->salts, out->salt_stride,
                                   out->salt_count, out->adapter);
}

static pc_status model_tokens(void *user, const char *text, size_t size, uint64_t flags,
                              int32_t **tokens, size_t *count)
{
    return pc__model_tokens(user, text, size, flags, tokens, count);
}

static int model_has_special(void *user, const char *text, size_t size)
{
    const pc_model *model = user;
    return model->tokenizer ? pc__has_special(model->tokenizer, text, size) : -1;
}

void pc__pml_env_of(pc__pml_env *env, const pc_model *model, const char *where)
{
    const pc_model_info *info = &model->info;
    *env = (pc__pml_env){.mem = &model->context->mem,
                         .chat = model->chat,
                         .tokens = model_tokens,
                         .has_special = model_has_special,
                         .tokens_user = (void *)(uintptr_t)model,
                         .bos = info->token_bos,
                         .context_length = info->context_length,
                         .where = where};
    /* Vocabularies without an unknown token fill parameters with another one: only texts that are
     * encoded with the parameter see it. */
    env->unk = info->token_unk >= 0   ? info->token_unk
               : info->token_pad >= 0 ? info->token_pad
               : info->token_eos >= 0 ? info->token_eos
                                      : 0;
}

pc_status pc__pml_file_read(const pc_allocator *mem, const char *path, char **text, size_t *size,
                            char **folder)
{
    pc_status status = pc__file_read(mem, path, PC__PML_FILE_BYTES, text, size);
    *folder = status < 0 ? NULL : pc__path_folder(mem, path);
    return status < 0 || *folder ? status : PC_ERR_NOMEM;
}

pc_status pc__schema_from_tree(pc_schema **out, const pc_model *model, pc__schema_tree *tree)
{
    const pc_allocator *mem = &model->context->mem;
    pc_schema *schema = pc__calloc(mem, 1, sizeof *schema);
    if (!schema) {
        pc__schema_tree_free(tree, mem);
        return PC_ERR_NOMEM;
    }
    atomic_init(&schema->references, 1);
    pthread_mutex_init(&schema->lock, NULL);
    schema->model = pc__model_ref(model);
    schema->tree = tree;
    *out = schema;
    return PC_OK;
}

/* Of the file, or of the text if `path` is NULL. */
static pc_status make_schema(pc_schema **out, const pc_model *model, const char *path,
                             const char *text, size_t size, const pc_schema_options *options)
{
    const pc_allocator *mem = &model->context->mem;
    pc_schema_options o;
    pc__pml_env env;
    pc__schema_tree *tree;
    char *loaded = NULL, *folder = NULL;
    pc_status status;
    PC__TRY_RETURN(pc__model_has_order(model));
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_schema_options, base_folder),
                                    options, "pc_schema_options"));
    PC__TRY_RETURN(pc__check_flags("pc_schema_options", o.flags, PC__PML_FLAGS));
    if (o.reserved)
        return pc__fail(PC_ERR_INVALID, "pc_schema_options: reserved must be zero");
    if (o.base_folder && !*o.base_folder)
        return pc__fail(PC_ERR_INVALID,
                        "pc_schema_options: base_folder is empty: a path is needed");
    if (path)
        PC__TRY(pc__pml_file_read(mem, path, &loaded, &size, &folder), done);
    pc__pml_env_of(&env, model, path ? path : "schema");
    env.flags = o.flags;
    env.max_tokens = o.max_tokens;
    env.base_folder = o.base_folder ? o.base_folder : folder;
    PC__TRY(pc__schema_tree_parse(&tree, &env, loaded ? loaded : text, size), done);
    PC__TRY(pc__schema_from_tree(out, model, tree), done);
    if (path && !((*out)->file = pc__strdup(mem, path))) {
        pc_schema_free(*out);
        *out = NULL;
        status = PC_ERR_NOMEM;
    }
done:
    pc__free(mem, loaded);
    pc__free(mem, folder);
    return status;
}

pc_status pc_schema_parse(pc_schema **out, const pc_model *model, const char *text, size_t size,
                          const pc_schema_options *options)
{
    PC__HOLD(pc_model, model);
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_schema_parse: out is NULL");
    *out = NULL;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "pc_schema_parse: model is NULL");
    PC__TRY_RETURN(pc__check_array("pc_schema_parse", "text", text, size, 1));
    return make_schema(out, model, NULL, text ? text : "", size, options);
}

pc_status pc_schema_load(pc_schema **out, const pc_model *model, const char *path,
                         const pc_schema_options *options)
{
    PC__HOLD(pc_model, model);
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_schema_load: out is NULL");
    *out = NULL;
    if (!model || !path)
        return pc__fail(PC_ERR_INVALID, "pc_schema_load: model or path is NULL");
    return make_schema(out, model, path, NULL, 0, options);
}

const char *pc_schema_name(const pc_schema *schema)
{
    return schema ? schema->tree->name : "";
}

int64_t pc_schema_length(const pc_schema *schema)
{
    return schema ? schema->tree->length : 0;
}

/* The root is the layout itself, not an item of it. */
size_t pc_schema_item_count(const pc_schema *schema)
{
    return schema ? schema->tree->node_count - 1 : 0;
}

pc_status pc_schema_get_item(const pc_schema *schema, size_t index, pc_item *item)
{
    pc_item i = PC_ITEM_INIT;
    const pc__node *node;
    if (!schema || !item)
        return pc__fail(PC_ERR_INVALID, "pc_schema_get_item: schema or item is NULL");
    if (index >= schema->tree->node_count - 1)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_schema_get_item: item %zu of %zu", index,
                        schema->tree->node_count - 1);
    node = schema->tree->nodes[index + 1];
    i.kind = (uint32_t)node->kind;
    for (const pc__node *up = node->parent; up && up->parent; up = up->parent)
        i.depth++;
    i.path = node->path;
    i.text = node->text ? node->text : "";
    i.start = node->start;
    i.length = node->length;
    i.flags = node->uncached ? PC_ITEM_UNCACHED : 0;
    i.text_size = node->text_size;
    return pc__result_write(item, PC__V1_SIZE(pc_item, text_size), &i, sizeof i, "pc_item");
}

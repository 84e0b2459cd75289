/* Catches: schema handles that show a wrong layout, leak or crash on bad arguments, or accept the
 * wrong file. */
#include <promptcache/prompt.h>
#include <stdlib.h>

#include "serve/schema.h"
#include "toy_schema.h"

static const pc__request_owners nobody;

static void items(void)
{
    toy_world w;
    pc_item item = PC_ITEM_INIT;
    int64_t end = 0;
    size_t modules = 0, unions = 0, texts = 0, parameters = 0, uncached = 0;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    CHECK_STR(pc_schema_name(w.schema), "t");
    for (size_t i = 0; i < pc_schema_item_count(w.schema); i++) {
        CHECK_OK(pc_schema_get_item(w.schema, i, &item));
        modules += item.kind == PC_ITEM_MODULE;
        unions += item.kind == PC_ITEM_UNION;
        texts += item.kind == PC_ITEM_TEXT;
        parameters += item.kind == PC_ITEM_PARAMETER;
        uncached += item.kind == PC_ITEM_MODULE && item.flags & PC_ITEM_UNCACHED;
        end = item.start + item.length > end ? item.start + item.length : end;
        CHECK(item.path && item.text && (item.kind == PC_ITEM_TEXT) == (item.text[0] != 0));
        if (!strcmp(item.path, "n/in") && item.kind == PC_ITEM_MODULE)
            CHECK_INT(item.depth, 1);
        if (!strcmp(item.path, "union"))
            CHECK_INT(item.depth, 0);
        if (!strcmp(item.path, "u2") && item.kind == PC_ITEM_TEXT)
            CHECK_STR(item.text, "they had his word for it but not as they are");
    }
    CHECK_INT(modules, 7);
    CHECK_INT(unions, 1);
    CHECK_INT(parameters, 1);
    CHECK_INT(texts, 11);
    CHECK_INT(uncached, 1);
    CHECK_INT(end, pc_schema_length(w.schema));
    CHECK_STATUS(pc_schema_get_item(w.schema, pc_schema_item_count(w.schema), &item),
                 PC_ERR_NOT_FOUND);
    CHECK_STATUS(pc_schema_get_item(NULL, 0, &item), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_get_item(w.schema, 0, NULL), PC_ERR_INVALID);
    toy_end(&w);
}

static void files(void)
{
    toy_world w;
    char path[256], prompt_path[256];
    const char *text = "<schema name=\"t\"><module name=\"m\" src=\"m.txt\"/></schema>";
    const char *prompt = "<prompt schema=\"t\"><m/>what?</prompt>";
    pc_schema *schema = NULL;
    pc_prompt *p = NULL;
    pc_part part = PC_PART_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    snprintf(path, sizeof path, "%s/s.pml", pc_test_folder());
    pc_test_write(path, text, strlen(text));
    CHECK_STATUS(pc_schema_load(&schema, w.model, path, NULL), PC_ERR_PML); /* m.txt is missing */
    CHECK_ERROR_HAS("m.txt");
    CHECK(schema == NULL);
    snprintf(prompt_path, sizeof prompt_path, "%s/m.txt", pc_test_folder());
    pc_test_write(prompt_path, "some word", 9);
    CHECK_OK(pc_schema_load(&schema, w.model, path, NULL)); /* src= is relative to the file */
    pc_schema_free(w.schema);
    /* text from memory has no folder */
    CHECK(pc_schema_parse(&w.schema, w.model, text, strlen(text), NULL) < 0);
    CHECK(w.schema == NULL);
    snprintf(prompt_path, sizeof prompt_path, "%s/p.pml", pc_test_folder());
    pc_test_write(prompt_path, prompt, strlen(prompt));
    CHECK_OK(pc_prompt_load(&p, &schema, 1, prompt_path, NULL));
    CHECK_INT(pc_prompt_part_count(p), 2);
    CHECK_OK(pc_prompt_get_part(p, 0, &part));
    CHECK_INT(part.kind, PC_PART_CACHED);
    CHECK_STR(part.path, "m");
    CHECK_OK(pc_prompt_get_part(p, 1, &part));
    CHECK_INT(part.kind, PC_PART_TEXT);
    CHECK_INT(part.start, pc_schema_length(schema));
    CHECK_STATUS(pc_prompt_get_part(p, 2, &part), PC_ERR_NOT_FOUND);
    pc_prompt_free(p);
    CHECK_STATUS(pc_prompt_load(&p, &schema, 1, "/nonexistent/p.pml", NULL), PC_ERR_NOT_FOUND);
    pc_schema_free(schema);
    CHECK_STATUS(pc_schema_load(&schema, w.model, "/nonexistent/s.pml", NULL), PC_ERR_NOT_FOUND);
    toy_end(&w);
}

/* A prompt that names no schema: the only one that is given, and no guess among several. */
static void unnamed(pc_schema **list)
{
    static const char prompt[] = "<prompt><m/></prompt>",
                      empty[] = "<prompt schema=\"\"><m/></prompt>";
    pc_prompt *p = NULL;
    for (size_t i = 0; i < 2; i++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_parse(&p, &list[i], 1, prompt, sizeof prompt - 1, NULL));
        CHECK_OK(pc_prompt_get_part(p, 0, &part));
        CHECK_STR(part.path, "m");
        pc_prompt_free(p);
    }
    CHECK_STATUS(pc_prompt_parse(&p, list, 2, prompt, sizeof prompt - 1, NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("names no schema and 2 are given");
    CHECK_ERROR_HAS("'x', 'y'");
    CHECK(p == NULL);
    /* an empty name is a name */
    CHECK_STATUS(pc_prompt_parse(&p, list, 1, empty, sizeof empty - 1, NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("schema ''");
}

/* Two of one name: an error that tells which, by their places and files, for a prompt that means
 * one of them and for none else. */
static void twins(const toy_world *w)
{
    static const char x[] = "<prompt schema=\"x\"><m/></prompt>",
                      named[] = "\n<prompt schema=\"n\"><zz/></prompt>";
    const char *const texts[] = {"<schema name=\"x\"><module name=\"m\">he</module></schema>",
                                 "<schema name=\"n\"><module name=\"m\">he</module></schema>",
                                 "<schema name=\"n\"><module name=\"zz\">they</module></schema>"};
    pc_schema *list[3] = {NULL};
    pc_prompt *p = NULL;
    char path[256], want[512];
    snprintf(path, sizeof path, "%s/twin.pml", pc_test_folder());
    pc_test_write(path, texts[1], strlen(texts[1]));
    CHECK_OK(pc_schema_parse(&list[0], w->model, texts[0], strlen(texts[0]), NULL));
    CHECK_OK(pc_schema_load(&list[1], w->model, path, NULL));
    CHECK_OK(pc_schema_parse(&list[2], w->model, texts[2], strlen(texts[2]), NULL));
    CHECK_STATUS(pc_prompt_parse(&p, list, 3, named, sizeof named - 1, NULL), PC_ERR_INVALID);
    snprintf(want, sizeof want,
             "prompt:2:1: two of the given schemas are named 'n': schema 1 (%s) and schema 2",
             path);
    CHECK_ERROR_HAS(want);
    CHECK(p == NULL);
    CHECK_OK(pc_prompt_parse(&p, list + 1, 1, "<prompt><m/></prompt>", 21, NULL));
    pc_prompt_free(p);
    CHECK_OK(pc_prompt_parse(&p, list, 3, x, sizeof x - 1, NULL));
    pc_prompt_free(p);
    for (size_t i = 0; i < 3; i++)
        pc_schema_free(list[i]);
}

/* Texts under cache="false" are a kind of part for themselves, and the counts of a request tell
 * them apart. */
static void uncached_parts(const toy_world *w)
{
    pc_prompt *prompt = toy_prompt(w, "<prompt schema=\"t\"><b/><c/>what?</prompt>");
    uint64_t fresh = 0;
    for (size_t i = 0; i < pc_prompt_part_count(prompt); i++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, i, &part));
        CHECK_INT(part.kind == PC_PART_UNCACHED, !strcmp(part.path, "c"));
        fresh += part.kind == PC_PART_UNCACHED ? part.count : 0;
    }
    CHECK(fresh > 0);
    for (int warm = 0; warm <= 1; warm++) {
        toy_answer a = toy_generate(prompt, w->cache,
                                    (pc_generate_options)PC_GENERATE_OPTIONS_INIT);
        CHECK_OK(a.status);
        CHECK_INT(a.stats.tokens_uncached, fresh);
        CHECK(warm ? a.stats.tokens_encoded == fresh : a.stats.tokens_encoded > fresh);
    }
    pc_prompt_free(prompt);
}

/* A prompt finds its schema by name; schemas of two models are distinguished. */
static void several(void)
{
    toy_world w, v;
    pc_schema *list[3] = {NULL};
    pc_prompt *p = NULL;
    const char *const named[2] = {"<schema name=\"x\"><module name=\"m\">he</module></schema>",
                                  "<schema name=\"y\"><module name=\"m\">they</module></schema>"};
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema))
        || !CHECK(toy_start(&v, NULL, 0, 0, toy_schema)))
        return;
    CHECK_OK(pc_schema_parse(&list[0], w.model, named[0], strlen(named[0]), NULL));
    CHECK_OK(pc_schema_parse(&list[1], v.model, named[1], strlen(named[1]), NULL));
    CHECK_OK(pc_prompt_parse(&p, list, 2, "<prompt schema=\"y\"><m/></prompt>", 32, NULL));
    toy_answer a = toy_generate(p, v.cache, (pc_generate_options)PC_GENERATE_OPTIONS_INIT);
    CHECK_OK(a.status);
    CHECK(pc_toy_count(v.toy)->step_calls > 0);
    CHECK_INT(pc_toy_count(w.toy)->step_calls, 0);
    pc_prompt_free(p);
    CHECK_STATUS(pc_prompt_parse(&p, list, 2, "<prompt schema=\"z\"><m/></prompt>", 32, NULL),
                 PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("prompt:1:1: the prompt is for schema 'z'");
    CHECK_ERROR_HAS("'x', 'y'");
    CHECK(p == NULL);
    unnamed(list);
    twins(&w);
    uncached_parts(&w);
    CHECK_STATUS(pc_prompt_parse(&p, list, 3, "<prompt schema=\"x\"><m/></prompt>", 32, NULL),
                 PC_ERR_INVALID); /* one is NULL */
    CHECK_STATUS(pc_prompt_parse(&p, list, 0, "<prompt/>", 9, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_parse(&p, NULL, 1, "<prompt/>", 9, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_parse(&p, list, 1, NULL, 9, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_parse(NULL, list, 1, "<prompt/>", 9, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_parse(&p, list, 1, "<prompt schema=\"x\"><nope/></prompt>", 35, NULL),
                 PC_ERR_PML);
    pc_schema_free(list[0]);
    pc_schema_free(list[1]);
    toy_end(&w);
    toy_end(&v);
}

static void arguments(void)
{
    toy_world w;
    pc_schema_options o = PC_SCHEMA_OPTIONS_INIT;
    pc_prompt_options po = PC_PROMPT_OPTIONS_INIT;
    pc_schema *schema = NULL;
    pc_prompt *p = NULL;
    pc_part part = PC_PART_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 30, NULL)))
        return;
    CHECK_STATUS(pc_schema_parse(NULL, w.model, "", 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_parse(&schema, NULL, "", 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_parse(&schema, w.model, NULL, 4, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_parse(&schema, w.model, NULL, 0, NULL), PC_ERR_PML);
    CHECK_STATUS(pc_schema_load(&schema, w.model, NULL, NULL), PC_ERR_INVALID);
    o.flags = UINT64_C(1) << 40;
    CHECK_STATUS(pc_schema_parse(&schema, w.model, toy_schema, strlen(toy_schema), &o),
                 PC_ERR_INVALID);
    o.flags = 0;
    o.reserved = 1;
    CHECK_STATUS(pc_schema_parse(&schema, w.model, toy_schema, strlen(toy_schema), &o),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_parse(&schema, w.model, toy_schema, strlen(toy_schema), NULL),
                 PC_ERR_LIMIT); /* context of 30 */
    CHECK(schema == NULL);
    po.flags = UINT64_C(1) << 40;
    CHECK_OK(pc_schema_parse(&schema, w.model, "<schema name=\"t\">he</schema>", 28, NULL));
    CHECK_STATUS(pc_prompt_parse(&p, &schema, 1, "<prompt schema=\"t\"/>", 20, &po),
                 PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_get_part(NULL, 0, &part), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_from_tokens(&p, NULL, NULL, 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_from_tokens(NULL, w.model, NULL, 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_from_text(&p, w.model, NULL, 3, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_from_text(NULL, w.model, "a", 1, NULL), PC_ERR_INVALID);
    CHECK_INT(pc_prompt_part_count(NULL), 0);
    CHECK_INT(pc_schema_item_count(NULL), 0);
    CHECK_INT(pc_schema_length(NULL), 0);
    CHECK_STR(pc_schema_name(NULL), "");
    pc_prompt_free(NULL);
    pc_schema_free(NULL);
    pc_schema_free(schema);
    toy_end(&w);
}

/* A schema stores key tables for a few salts and regimes. One more replaces the oldest; using that
 * one again makes the same table. */
static void many_salts(void)
{
    toy_world w;
    const pc__recipe *recipe;
    pc__unit_keys *first = NULL;
    pc__id id;
    if (!CHECK(toy_start(&w, NULL, 0, 0, toy_schema)))
        return;
    CHECK_OK(pc__schema_recipe(w.schema, PC_ENCODE_SINK, &recipe));
    CHECK_OK(pc__schema_keys(w.schema, recipe, w.cache, 0, &nobody, &first));
    id = first->leaves[2];
    for (int salt = 0; salt < 2 * PC__KEY_TABLES; salt++) {
        pc_cache_options o = PC_CACHE_OPTIONS_INIT;
        pc_cache *cache = NULL;
        pc__unit_keys *a = NULL, *b = NULL;
        o.salt = &salt;
        o.salt_size = sizeof salt;
        CHECK_OK(pc_cache_new(&cache, w.context, &o));
        CHECK_OK(pc__schema_keys(w.schema, recipe, cache, 0, &nobody, &a));
        CHECK_OK(pc__schema_keys(w.schema, recipe, cache, 0, &nobody, &b));
        CHECK(a == b && !pc__id_equal(&a->leaves[2], &id));
        pc__unit_keys_unref(a);
        pc__unit_keys_unref(b);
        pc_cache_free(cache);
    }
    CHECK(pc__id_equal(&first->leaves[2], &id)); /* ours as long as we hold it */
    pc__unit_keys_unref(first);
    CHECK_OK(pc__schema_keys(w.schema, recipe, w.cache, 0, &nobody, &first));
    CHECK(pc__id_equal(&first->leaves[2], &id));
    pc__unit_keys_unref(first);
    CHECK_OK(pc__schema_keys(w.schema, recipe, w.cache, 1, &nobody, &first));
    CHECK(!pc__id_equal(&first->leaves[2], &id));
    pc__unit_keys_unref(first);
    toy_end(&w);
}

/* The same two texts of a module, once further apart: the second one's states differ, so must its
 * key. */
static void distance_counts(void)
{
    static const char *const schemas[2] = {"<schema name=\"t\"><module name=\"a\">he was<module "
                                           "name=\"in\">x</module>out there</module></schema>",
                                           "<schema name=\"t\"><module name=\"a\">he was<module "
                                           "name=\"in\">xyz</module>out there</module></schema>"};
    pc__id keys[2][3];
    for (int s = 0; s < 2; s++) {
        toy_world w;
        const pc__recipe *recipe;
        pc__unit_keys *k = NULL;
        if (!CHECK(toy_start(&w, NULL, 0, 0, schemas[s])))
            return;
        CHECK_OK(pc__schema_recipe(w.schema, PC_ENCODE_INDEPENDENT, &recipe));
        CHECK_OK(pc__schema_keys(w.schema, recipe, w.cache, 0, &nobody, &k));
        CHECK_INT(k->count, 3);
        memcpy(keys[s], k->leaves, sizeof keys[s]);
        pc__unit_keys_unref(k);
        toy_end(&w);
    }
    CHECK(pc__id_equal(&keys[0][0], &keys[1][0]));
    CHECK(!pc__id_equal(&keys[0][1], &keys[1][1]));
}

/* Reading files, with each allocation failing once: nothing is lost, nothing half done comes out.
 */
static void no_memory(void)
{
    static const char named[] = "<schema name=\"t\"><module name=\"m\">some word</module></schema>",
                      prompt[] = "<prompt schema=\"t\"><m/>what?</prompt>";
    char path[256], prompt_path[256];
    snprintf(path, sizeof path, "%s/memory.pml", pc_test_folder());
    snprintf(prompt_path, sizeof prompt_path, "%s/memory-prompt.pml", pc_test_folder());
    pc_test_write(path, named, strlen(named));
    pc_test_write(prompt_path, prompt, strlen(prompt));
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_schema *twice[2] = {NULL};
        pc_prompt *p = NULL;
        toy_world w;
        if (!CHECK(toy_start(&w, &mem, 0, 0, NULL)))
            return;
        memory.fail_at = memory.calls + at;
        pc_status status = pc_schema_load(&w.schema, w.model, path, NULL);
        if (status >= 0)
            status = pc_prompt_load(&p, &w.schema, 1, prompt_path, NULL);
        twice[0] = twice[1] = w.schema;
        pc_prompt_free(p);
        p = NULL;
        if (status >= 0
            && (status = pc_prompt_load(&p, twice, 2, prompt_path, NULL)) == PC_ERR_INVALID)
            status = CHECK(p == NULL) ? PC_OK : PC_ERR_STATE;
        more = memory.calls >= memory.fail_at;
        CHECK_INT(status, more ? PC_ERR_NOMEM : PC_OK);
        pc_prompt_free(p);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    items();
    files();
    several();
    arguments();
    many_salts();
    distance_counts();
    no_memory();
    return pc_test_end();
}

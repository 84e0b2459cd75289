/* Catches: a tokenizer of a model family that normalises, splits, merges, adds special tokens or
 * decodes differently from the library that defines it, from tokenizer.json and, where the family
 * has a name there, from GGUF. The vectors: test/golden/tokenizers/make_tokenizers.py, which also
 * makes larger ones for PC_TOKENIZER_VECTORS. */
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/load/gguf.h"
#include "testing.h"
#include "text/tokenizer.h"

enum { MOST_IDS = 1 << 16, MOST_BYTES = 1 << 18, SHOWN = 3 };

static const char *folder;
static json_t *texts, *vocabularies;
static int tells; /* 1: a line for each family */

static json_t *read_json(const char *name)
{
    char path[4096];
    json_error_t error;
    CHECK(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
    json_t *made = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!CHECK(made != NULL))
        fprintf(stderr, "    %s: %s\n", path, error.text);
    return made;
}

static int same(const int32_t *got, size_t count, const json_t *want)
{
    if (count != json_array_size(want))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (got[i] != json_integer_value(json_array_get(want, i)))
            return 0;
    return 1;
}

static void show(const char *name, const json_t *text, const int32_t *got, size_t count,
                 const json_t *want)
{
    char *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    size_t from = 0;
    while (from < count && got[from] == json_integer_value(json_array_get(want, from)))
        from++;
    fprintf(stderr, "    %s: %.200s\n     from token %zu on: got", name, quoted, from);
    for (size_t i = from; i < count && i < from + 12; i++)
        fprintf(stderr, " %d", got[i]);
    fprintf(stderr, "\n     want");
    for (size_t i = from; i < json_array_size(want) && i < from + 12; i++)
        fprintf(stderr, " %d", (int)json_integer_value(json_array_get(want, i)));
    fprintf(stderr, "\n");
    free(quoted);
}

/* Whether the text has the right ids and they give the right text back. */
static int one(const pc__tokenizer *t, const char *name, const json_t *text, const json_t *want,
               const json_t *decoded, int shown)
{
    static int32_t ids[MOST_IDS];
    static char back[MOST_BYTES];
    size_t count, size;
    if (json_is_null(want)) /* a text that is not compared */
        return 1;
    const json_t *result = json_is_string(decoded) ? decoded : text;
    if (!CHECK_OK(pc__text_to_tokens(t, json_string_value(text), json_string_length(text),
                                     PC_TOKENIZE_SPECIAL, ids, MOST_IDS, &count)))
        return 0;
    if (!same(ids, count, want)) {
        if (shown)
            show(name, text, ids, count, want);
        return 0;
    }
    /* after a special token ours drops the blank that encoding puts in front of each text */
    if (!decoded || (strchr(json_string_value(text), '<') && json_is_string(decoded)))
        return 1;
    if (!CHECK_OK(pc__tokens_to_text(t, ids, count, 0, back, sizeof back, &size)))
        return 0;
    if (size == json_string_length(result) && !memcmp(back, json_string_value(result), size))
        return 1;
    if (shown) {
        char *quoted = json_dumps(result, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        fprintf(stderr, "    %s: want %.300s back, got \"%.*s\"\n", name, quoted,
                (int)(size < 200 ? size : 200), back);
        free(quoted);
    }
    return 0;
}

static void all(const pc__tokenizer *t, const char *name, const json_t *family, int decodes)
{
    const json_t *ids = json_object_get(family, "ids"),
                 *decoded = json_object_get(family, "decoded");
    size_t wrong = 0, i;
    json_t *text;
    CHECK_INT(json_array_size(ids), json_array_size(texts));
    json_array_foreach(texts, i, text)
        wrong += !one(t, name, text, json_array_get(ids, i),
                      decodes ? json_array_get(decoded, i) : NULL, wrong < SHOWN);
    CHECK_INT(wrong, 0);
    if (tells)
        printf("%-28s %zu texts, %zu wrong\n", name, json_array_size(texts), wrong);
}

/* The tokens that the template puts around a text. */
static void around(const pc__tokenizer *t, const char *name, const json_t *family)
{
    int32_t plain[16], whole[16];
    size_t n, count, before = json_array_size(json_object_get(family, "before")),
                     after = json_array_size(json_object_get(family, "after"));
    CHECK_OK(pc__text_to_tokens(t, "a", 1, PC_TOKENIZE_SPECIAL, plain, 16, &n));
    CHECK_OK(
        pc__text_to_tokens(t, "a", 1, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS, whole, 16, &count));
    if (!CHECK_INT(count, before + n + after)) {
        fprintf(stderr, "    %s\n", name);
        return;
    }
    if (!CHECK(same(whole, before, json_object_get(family, "before"))))
        fprintf(stderr, "    %s: got %d\n", name, whole[0]);
    CHECK(!memcmp(whole + before, plain, n * sizeof *plain));
    CHECK(same(whole + before + n, after, json_object_get(family, "after")));
}

/* ------------------------------------------------------------------ GGUF */

typedef struct gguf_file {
    FILE *file;
    uint64_t keys;
} gguf_file;

static void put_u32(gguf_file *g, uint32_t value)
{
    fwrite(&value, 4, 1, g->file);
}

static void put_text(gguf_file *g, const char *text, size_t size)
{
    uint64_t n = size;
    fwrite(&n, 8, 1, g->file);
    fwrite(text, 1, size, g->file);
}

static void put_key(gguf_file *g, const char *key, uint32_t type)
{
    put_text(g, key, strlen(key));
    put_u32(g, type);
    g->keys++;
}

static void put_array(gguf_file *g, const char *key, uint32_t type, uint64_t count)
{
    put_key(g, key, 9);
    put_u32(g, type);
    fwrite(&count, 8, 1, g->file);
}

/* A user-defined token has blanks there in place of U+2581. */
static void put_token(gguf_file *g, const char *text, int32_t type)
{
    char plain[1024];
    size_t n = 0;
    for (const char *c = text; *c && n < sizeof plain; c++)
        if (type == 4 && !strncmp(c, "\xe2\x96\x81", 3)) {
            plain[n++] = ' ';
            c += 2;
        } else {
            plain[n++] = *c;
        }
    put_text(g, plain, n);
}

static void put_vocabulary(gguf_file *g, const json_t *whole, int pieces)
{
    json_t *model = json_object_get(whole, "model"), *vocab = json_object_get(model, "vocab"),
           *merges = json_object_get(model, "merges"), *value;
    size_t count = json_object_size(vocab), i;
    const char **tokens = calloc(count, sizeof *tokens), *key;
    int32_t *types = calloc(count, sizeof *types);
    json_object_foreach(vocab, key, value)
    {
        size_t id = (size_t)json_integer_value(value);
        tokens[id] = key;
        types[id] = pieces && strlen(key) == 6 && !strncmp(key, "<0x", 3) ? 6 : 1;
    }
    json_array_foreach(json_object_get(whole, "added_tokens"), i, value)
        types[json_integer_value(json_object_get(value, "id"))] = json_is_true(json_object_get(
                                                                      value, "special"))
                                                                      ? 3
                                                                      : 4;
    put_array(g, "tokenizer.ggml.tokens", 8, count);
    for (i = 0; i < count; i++)
        put_token(g, tokens[i], types[i]);
    put_array(g, "tokenizer.ggml.token_type", 5, count);
    fwrite(types, sizeof *types, count, g->file);
    put_array(g, "tokenizer.ggml.merges", 8, json_array_size(merges));
    json_array_foreach(merges, i, value)
        put_text(g, json_string_value(value), json_string_length(value));
    free(tokens);
    free(types);
}

static int write_gguf(const char *path, const json_t *whole, json_t *keys, int pieces)
{
    gguf_file g = {.file = fopen(path, "wb")};
    const uint64_t none = 0;
    const char *key;
    json_t *value;
    if (!CHECK(g.file != NULL))
        return 0;
    fwrite("GGUF", 1, 4, g.file);
    put_u32(&g, 3);
    fwrite(&none, 8, 1, g.file);
    fwrite(&none, 8, 1, g.file);
    json_object_foreach(keys, key, value)
    {
        put_key(&g, key, 8);
        put_text(&g, json_string_value(value), json_string_length(value));
    }
    put_vocabulary(&g, whole, pieces);
    fseek(g.file, 16, SEEK_SET);
    fwrite(&g.keys, 8, 1, g.file);
    return CHECK_INT(fclose(g.file), 0);
}

static pc_status from_gguf(pc__tokenizer **out, const char *path)
{
    pc__gguf *gguf;
    *out = NULL;
    pc_status status = pc__gguf_open(&gguf, &pc__libc_allocator, path);
    if (status >= 0)
        status = pc__gguf_tokenizer(out, &pc__libc_allocator, gguf);
    pc__gguf_free(gguf);
    return status;
}

static void as_gguf(const char *name, const json_t *family, const json_t *whole)
{
    char path[4096], title[300];
    pc__tokenizer *t;
    json_t *keys = json_object_get(family, "gguf");
    int pieces = !strcmp(json_string_value(json_object_get(family, "vocab")), "pieces");
    if (!json_is_object(keys))
        return;
    snprintf(path, sizeof path, "%s/vocabulary.gguf", pc_test_folder());
    snprintf(title, sizeof title, "%s (GGUF)", name);
    if (!write_gguf(path, whole, keys, pieces))
        return;
    if (CHECK_OK(from_gguf(&t, path)))
        all(t, title, family, 1);
    pc__tokenizer_free(t);
}

/* ------------------------------------------------------------------ families */

/* tokenizer.json of a family, with its vocabulary. */
static json_t *join(const json_t *family)
{
    json_t *whole = json_deep_copy(json_object_get(family, "tokenizer")), *merges = NULL,
           *vocab = json_object(), *token;
    const json_t *from = json_object_get(vocabularies,
                                         json_string_value(json_object_get(family, "vocab")));
    size_t i;
    json_array_foreach(json_object_get(from, "tokens"), i, token)
        json_object_set_new(vocab, json_string_value(token), json_integer((json_int_t)i));
    json_array_foreach(json_object_get(whole, "added_tokens"), i, token) json_object_set(
        vocab, json_string_value(json_object_get(token, "content")), json_object_get(token, "id"));
    merges = json_object_get(from, "merges");
    json_object_set_new(json_object_get(whole, "model"), "vocab", vocab);
    json_object_set(json_object_get(whole, "model"), "merges", merges);
    return whole;
}

/* A vocabulary in a file of its own; its ending says which form it has. */
static void from_file(const char *name, const json_t *family, const char *file)
{
    char path[4096];
    pc__tokenizer *t;
    size_t n = strlen(file);
    pc_status (*read)(pc__tokenizer **, const pc_allocator *,
                      const char *) = strstr(file, "tekken") && !strstr(file, "_json")
                                          ? pc__tokenizer_from_tekken
                                      : n > 5 && !strcmp(file + n - 5, ".json")
                                          ? pc__tokenizer_from_json
                                          : pc__tokenizer_from_sentencepiece;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int gguf = n > 5 && !strcmp(file + n - 5, ".gguf");
    if (CHECK_OK(gguf ? from_gguf(&t, path) : read(&t, &pc__libc_allocator, path))) {
        all(t, name, family, 1);
        if (!gguf)
            around(t, name, family);
    }
    pc__tokenizer_free(t);
}

static void check_family(const char *name, const json_t *family)
{
    char path[4096];
    pc__tokenizer *t;
    const json_t *tokenizer = json_object_get(family, "tokenizer");
    if (json_is_string(tokenizer)) {
        from_file(name, family, json_string_value(tokenizer));
        return;
    }
    json_t *whole = join(family);
    snprintf(path, sizeof path, "%s/tokenizer.json", pc_test_folder());
    CHECK_INT(json_dump_file(whole, path, 0), 0);
    if (CHECK_OK(pc__tokenizer_from_json(&t, &pc__libc_allocator, path))) {
        all(t, name, family, 1);
        around(t, name, family);
    } else {
        fprintf(stderr, "    %s\n", name);
    }
    pc__tokenizer_free(t);
    as_gguf(name, family, whole);
    json_decref(whole);
}

int main(void)
{
    char path[4096];
    size_t families = 0;
    const char *given = getenv("PC_TOKENIZER_VECTORS"), *only = getenv("PC_TOKENIZER_FAMILY");
    tells = given != NULL;
    folder = given ? given : PC_SOURCE_DIR "/test/golden/tokenizers";
    texts = read_json("texts.json");
    vocabularies = read_json("vocab.json");
    snprintf(path, sizeof path, "%s/families", folder);
    DIR *dir = opendir(path);
    if (!CHECK(dir != NULL))
        return pc_test_end();
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *end = strstr(entry->d_name, ".json");
        snprintf(path, sizeof path, "families/%s", entry->d_name);
        if (!end || (only && strncmp(only, entry->d_name, strlen(only))))
            continue;
        json_t *family = read_json(path);
        *end = 0;
        check_family(entry->d_name, family);
        json_decref(family);
        families++;
    }
    closedir(dir);
    CHECK(families >= 35 || given);
    json_decref(texts);
    json_decref(vocabularies);
    return pc_test_end();
}

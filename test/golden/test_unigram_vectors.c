/* Catches: a Unigram tokenizer that normalises, splits, chooses or decodes differently from the two
 * libraries that define it, with the normalisers of XLM-RoBERTa, ALBERT, DeBERTa-v3, T5 and others
 * (tokenizer.json), in SentencePiece's own file and in GGUF. The files and the expected results:
 * test/golden/unigram/make_unigram.py. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/load/gguf.h"
#include "testing.h"
#include "text/tokenizer.h"

#define FOLDER PC_SOURCE_DIR "/test/golden/unigram/"

static void show(const char *name, const char *text, const int32_t *got, size_t count,
                 const json_t *want)
{
    json_t *id;
    size_t i;
    fprintf(stderr, "    %s: \"%.60s\"\n     got", name, text);
    for (i = 0; i < count && i < 40; i++)
        fprintf(stderr, " %d", got[i]);
    fprintf(stderr, "\n    want");
    json_array_foreach(want, i, id) fprintf(stderr, " %d", (int)json_integer_value(id));
    fprintf(stderr, "\n");
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

/* `decoded` may be NULL. Only ids without special tokens in the middle are decoded: there, ours
 * joins words that `tokenizers` separates. */
static void encode(const pc__tokenizer *t, const char *name, uint64_t flags, const json_t *text,
                   const json_t *want, const json_t *decoded)
{
    static int32_t ids[4096];
    static char back[16384];
    size_t count, size;
    if (!CHECK_OK(pc__text_to_tokens(t, json_string_value(text), json_string_length(text), flags,
                                     ids, 4096, &count)))
        return;
    if (!CHECK(same(ids, count, want)))
        show(name, json_string_value(text), ids, count, want);
    if (!decoded || strstr(json_string_value(text), "<mask>")
        || strstr(json_string_value(text), "<s>"))
        return;
    CHECK_OK(pc__tokens_to_text(t, ids, count, 0, back, sizeof back - 1, &size));
    back[size] = 0;
    CHECK_STR(back, json_string_value(decoded));
}

static void vectors(const pc__tokenizer *t, const char *name, uint64_t flags,
                    const json_t *expected)
{
    const json_t *decoded = json_object_get(json_object_get(expected, "decoded"), name);
    json_t *text;
    size_t i;
    CHECK(json_array_size(json_object_get(expected, name)) > 60);
    json_array_foreach(json_object_get(expected, "texts"), i, text)
        encode(t, name, flags, text, json_array_get(json_object_get(expected, name), i),
               json_array_get(decoded, i));
}

static void forms(const json_t *expected)
{
    json_t *all = json_load_file(FOLDER "forms.json", 0, NULL), *form;
    json_t *pieces = json_object_get(json_object_get(json_object_get(all, "xlmr"), "model"),
                                     "vocab");
    const char *name;
    char path[4096];
    CHECK_INT(json_object_size(all), 9);
    snprintf(path, sizeof path, "%s/tokenizer.json", pc_test_folder());
    json_object_foreach(all, name, form)
    {
        pc__tokenizer *t;
        json_t *model = json_object_get(form, "model");
        if (!json_array_size(json_object_get(model, "vocab")))
            json_object_set(model, "vocab", pieces);
        CHECK_INT(json_dump_file(form, path, JSON_REAL_PRECISION(17)), 0);
        if (CHECK_OK(pc__tokenizer_from_json(&t, &pc__libc_allocator, path)))
            vectors(t, name, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS, expected);
        pc__tokenizer_free(t);
    }
    json_decref(all);
}

static void sentencepiece(const json_t *expected)
{
    static const char *const names[] = {"spm", "spm_bytes"};
    pc__tokenizer *t;
    pc__gguf *gguf;
    for (size_t i = 0; i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, FOLDER "%s.model", names[i]);
        if (CHECK_OK(pc__tokenizer_from_sentencepiece(&t, &pc__libc_allocator, path)))
            vectors(t, names[i], 0, expected);
        pc__tokenizer_free(t);
    }
    if (!CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, FOLDER "t5.gguf")))
        return;
    if (CHECK_OK(pc__gguf_tokenizer(&t, &pc__libc_allocator, gguf))) {
        int32_t ids[8];
        size_t count = 0;
        vectors(t, "spm", 0, expected);
        CHECK_OK(pc__text_to_tokens(t, "a", 1, PC_TOKENIZE_BOS, ids, 8, &count));
        CHECK(count == 2 && ids[1] == 2); /* T5 ends a text and does not begin one */
    }
    pc__tokenizer_free(t);
    pc__gguf_free(gguf);
}

int main(void)
{
    json_t *expected = json_load_file(FOLDER "expected.json", 0, NULL);
    CHECK(expected != NULL);
    forms(expected);
    sentencepiece(expected);
    json_decref(expected);
    return pc_test_end();
}

/* Quantised GGUF files whose bytes follow from the names of their tensors, as
 * tools/compare/vector_ggufs.py makes them: random blocks, in which the scales have a given
 * magnitude. Nothing is rounded here, so that the files do not depend on a quantiser. */
#include <stdlib.h>
#include <string.h>

#include "seeded.h"
#include "write_models.h"

enum { U32 = 4, I32 = 5, F32 = 6, TEXT = 8, ARRAY = 9, ALIGNMENT = 32 };

static void put_u32(FILE *file, uint32_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put_u64(FILE *file, uint64_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put_f32(FILE *file, float value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put_text(FILE *file, const char *text)
{
    put_u64(file, strlen(text));
    fputs(text, file);
}

static void put_key(FILE *file, const char *name, uint32_t type)
{
    put_text(file, name);
    put_u32(file, type);
}

static void put_array(FILE *file, const char *name, uint32_t type, size_t count)
{
    put_key(file, name, ARRAY);
    put_u32(file, type);
    put_u64(file, count);
}

static void put_value(FILE *file, const char *name, const json_t *value)
{
    if (json_is_string(value)) {
        put_key(file, name, TEXT);
        put_text(file, json_string_value(value));
    } else if (json_is_integer(value)) {
        put_key(file, name, U32);
        put_u32(file, (uint32_t)json_integer_value(value));
    } else {
        put_key(file, name, F32);
        put_f32(file, (float)json_real_value(value));
    }
}

/* Three special tokens, 256 bytes, words. */
static void put_vocabulary(FILE *file, size_t count)
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    char word[32];
    put_key(file, "tokenizer.ggml.model", TEXT);
    put_text(file, "llama");
    put_array(file, "tokenizer.ggml.tokens", TEXT, count);
    for (size_t i = 0; i < count; i++) {
        if (i < 259)
            snprintf(word, sizeof word, "<0x%02zX>", i - 3);
        else
            snprintf(word, sizeof word, "\xE2\x96\x81w%zu", i);
        put_text(file, i < 3 ? special[i] : word);
    }
    put_array(file, "tokenizer.ggml.scores", F32, count);
    for (size_t i = 0; i < count; i++)
        put_f32(file, -(float)i);
    put_array(file, "tokenizer.ggml.token_type", I32, count);
    for (size_t i = 0; i < count; i++)
        put_u32(file, i ? i < 3 ? 3 : i < 259 ? 6 : 1 : 2);
}
enum { VOCABULARY_KEYS = 4 };

static size_t number(const json_t *list, size_t at)
{
    return (size_t)json_integer_value(json_array_get(list, at));
}

/* [number, values of a block, bytes of a block, words] of a tensor of this file. */
static const json_t *type_of(const json_t *all, const json_t *kinds, const char *name)
{
    const char *kind = json_string_value(json_object_get(kinds, name));
    return json_object_get(json_object_get(all, "types"), kind ? kind : "f32");
}

static size_t tensor_bytes(const json_t *type, const json_t *shape)
{
    return elements(shape) / number(type, 1) * number(type, 2);
}

static size_t aligned(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put_zeros(FILE *file, size_t count)
{
    while (count-- > 0)
        fputc(0, file);
}

static void put_floats(FILE *file, uint64_t seed, const json_t *shape)
{
    int vector = json_array_size(shape) == 1;
    for (size_t i = 0; i < elements(shape); i++)
        put_f32(file, seeded_value(seeded_bits(seed, i), vector ? 0.3 : 0.075, vector ? 1 : 0));
}

static void set_word(uint8_t *block, const json_t *word)
{
    uint8_t *at = block + number(word, 0);
    size_t value = (size_t)at[0] | (size_t)at[1] << 8;
    value = (value & number(word, 1)) | number(word, 2);
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put_blocks(FILE *file, uint64_t seed, const json_t *type, size_t bytes)
{
    const json_t *words = json_array_get(type, 3);
    size_t size = number(type, 2);
    uint8_t *data = malloc(bytes);
    if (!data)
        fail("a tensor", "out of memory");
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(seeded_bits(seed, i / 8) >> 8 * (i % 8));
    for (size_t at = 0; at < bytes; at += size)
        for (size_t w = 0; w < json_array_size(words); w++)
            set_word(data + at, json_array_get(words, w));
    fwrite(data, 1, bytes, file);
    free(data);
}

static void put_table(FILE *file, const json_t *all, const json_t *kinds)
{
    const json_t *tensors = json_object_get(all, "tensors");
    size_t offset = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const char *name = json_string_value(json_array_get(json_array_get(tensors, i), 0));
        const json_t *shape = json_array_get(json_array_get(tensors, i), 1);
        const json_t *type = type_of(all, kinds, name);
        size_t rank = json_array_size(shape);
        put_text(file, name);
        put_u32(file, (uint32_t)rank);
        for (size_t d = rank; d-- > 0;)
            put_u64(file, number(shape, d));
        put_u32(file, (uint32_t)number(type, 0));
        put_u64(file, offset);
        offset = aligned(offset + tensor_bytes(type, shape));
    }
}

static void write_gguf(const char *to, const char *stem, const json_t *all, const json_t *kinds)
{
    const json_t *keys = json_object_get(all, "keys"), *tensors = json_object_get(all, "tensors");
    char name[256];
    snprintf(name, sizeof name, "%s.gguf", stem);
    FILE *file = created(to, name);
    fputs("GGUF", file);
    put_u32(file, 3);
    put_u64(file, json_array_size(tensors));
    put_u64(file, json_array_size(keys) + VOCABULARY_KEYS);
    for (size_t i = 0; i < json_array_size(keys); i++)
        put_value(file, json_string_value(json_array_get(json_array_get(keys, i), 0)),
                  json_array_get(json_array_get(keys, i), 1));
    put_vocabulary(file, (size_t)json_integer_value(json_object_get(all, "vocabulary")));
    put_table(file, all, kinds);
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const char *tensor = json_string_value(json_array_get(json_array_get(tensors, i), 0));
        const json_t *shape = json_array_get(json_array_get(tensors, i), 1);
        const json_t *type = type_of(all, kinds, tensor);
        size_t at = (size_t)ftell(file);
        put_zeros(file, aligned(at) - at);
        snprintf(name, sizeof name, "%s/%s", stem, tensor);
        if (number(type, 0))
            put_blocks(file, seeded_name(name), type, tensor_bytes(type, shape));
        else
            put_floats(file, seeded_name(name), shape);
    }
    closed(file, to);
}

void write_ggufs(const char *from, const char *to)
{
    char path[4096], name[256];
    const char *stem;
    json_t *kinds;
    snprintf(path, sizeof path, "%s/llama.json", from);
    json_t *all = loaded(path);
    json_object_foreach(json_object_get(all, "files"), stem, kinds)
    {
        write_gguf(to, stem, all, kinds);
        snprintf(path, sizeof path, "%s/%s.safetensors", from, stem);
        snprintf(name, sizeof name, "%s.golden.safetensors", stem);
        copy_file(path, to, name);
    }
    json_decref(all);
}

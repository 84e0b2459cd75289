/* write_models FROM TO: makes the models of test/golden/models. Of every FROM/NAME.json it writes
 * the folder TO/NAME as transformers would save it, with weights that follow from their names, and
 * the vectors FROM/NAME.safetensors beside it as golden.safetensors; of FROM/gguf quantised files
 * (write_ggufs.c). The build runs it; tests find all of it by pc_test_data. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "seeded.h"
#include "write_models.h"

void fail(const char *path, const char *why)
{
    fprintf(stderr, "write_models: %s: %s\n", path, why);
    exit(1);
}

FILE *created(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        fail(path, strerror(errno));
    return file;
}

void closed(FILE *file, const char *folder)
{
    if (ferror(file) || fclose(file))
        fail(folder, "a file could not be written");
}

static void save_json(const char *folder, const char *name, const json_t *value)
{
    FILE *file = created(folder, name);
    json_dumpf(value, file, JSON_INDENT(1));
    closed(file, folder);
}

size_t elements(const json_t *shape)
{
    size_t n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        n *= (size_t)json_integer_value(json_array_get(shape, i));
    return n;
}

/* The table at the start of a safetensors file, padded to a multiple of 8 bytes. */
static void save_table(FILE *file, const json_t *tensors)
{
    json_t *table = json_object();
    size_t i, at = 0;
    json_t *tensor;
    json_array_foreach((json_t *)(uintptr_t)tensors, i, tensor)
    {
        json_t *shape = json_array_get(tensor, 1);
        size_t end = at + 4 * elements(shape);
        json_object_set_new(table, json_string_value(json_array_get(tensor, 0)),
                            json_pack("{s:s, s:O, s:[I,I]}", "dtype", "F32", "shape", shape,
                                      "data_offsets", (json_int_t)at, (json_int_t)end));
        at = end;
    }
    char *text = json_dumps(table, JSON_COMPACT);
    uint64_t size = strlen(text), padded = (size + 7) / 8 * 8;
    fwrite(&padded, sizeof padded, 1, file);
    fprintf(file, "%-*s", (int)padded, text);
    free(text);
    json_decref(table);
}

static uint64_t save_values(FILE *file, const char *prefix, const json_t *tensor, uint64_t digest)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s", prefix, json_string_value(json_array_get(tensor, 0)));
    uint64_t seed = seeded_name(name);
    size_t count = elements(json_array_get(tensor, 1));
    double deviation = json_number_value(json_array_get(tensor, 2));
    double mean = json_number_value(json_array_get(tensor, 3));
    for (size_t i = 0; i < count; i++) {
        float value = seeded_value(seeded_bits(seed, i), deviation, mean);
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        digest = (digest ^ word) * 0x100000001B3u;
        fwrite(&value, sizeof value, 1, file);
    }
    return digest;
}

static void save_weights(const char *folder, const json_t *model)
{
    const char *prefix = json_string_value(json_object_get(model, "seed"));
    const json_t *tensors = json_object_get(model, "tensors");
    FILE *file = created(folder, "model.safetensors");
    uint64_t digest = 0xCBF29CE484222325u;
    char text[17];
    save_table(file, tensors);
    for (size_t i = 0; i < json_array_size(tensors); i++)
        digest = save_values(file, prefix, json_array_get(tensors, i), digest);
    closed(file, folder);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)digest);
    if (strcmp(text, json_string_value(json_object_get(model, "digest"))))
        fail(folder, "the weights are not those that the vectors were made with");
}

void copy_file(const char *from, const char *folder, const char *name)
{
    FILE *source = fopen(from, "rb"), *file = created(folder, name);
    char data[4096];
    size_t n;
    if (!source)
        fail(from, strerror(errno));
    while ((n = fread(data, 1, sizeof data, source)) > 0)
        fwrite(data, 1, n, file);
    fclose(source);
    closed(file, folder);
}

json_t *loaded(const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, 0, &error);
    if (!value)
        fail(path, error.text);
    return value;
}

static void new_folder(const char *path)
{
    if (mkdir(path, 0777) && errno != EEXIST)
        fail(path, strerror(errno));
}

static void write_model(const char *from, const char *stem, const char *to)
{
    char path[2048], folder[2048];
    json_t *model, *legacy, *info;
    snprintf(folder, sizeof folder, "%s/%s", to, stem);
    new_folder(folder);
    snprintf(path, sizeof path, "%s/%s.json", from, stem);
    model = loaded(path);
    save_json(folder, "config.json", json_object_get(model, "config"));
    if ((legacy = json_object_get(model, "legacy")))
        save_json(folder, "config_legacy.json", legacy);
    info = json_pack("{s:O, s:O}", "cases", json_object_get(model, "cases"), "inputs",
                     json_object_get(model, "inputs"));
    save_json(folder, "golden.json", info);
    save_weights(folder, model);
    snprintf(path, sizeof path, "%s/%s.safetensors", from, stem);
    copy_file(path, folder, "golden.safetensors");
    json_decref(info);
    json_decref(model);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("usage", "write_models FROM TO");
    char from[2048], to[2048];
    DIR *all = opendir(argv[1]);
    struct dirent *entry;
    if (!all)
        fail(argv[1], strerror(errno));
    while ((entry = readdir(all))) {
        size_t n = strlen(entry->d_name);
        if (n < 6 || n > 200 || strcmp(entry->d_name + n - 5, ".json"))
            continue;
        entry->d_name[n - 5] = 0;
        write_model(argv[1], entry->d_name, argv[2]);
    }
    closedir(all);
    snprintf(from, sizeof from, "%s/gguf", argv[1]);
    snprintf(to, sizeof to, "%s/gguf", argv[2]);
    new_folder(to);
    write_ggufs(from, to);
    return 0;
}

/* Results as YAML 1.1 and 1.2: a list with an item for each. Texts are JSON strings, which are
 * valid YAML. Numbers have a point and a signed exponent: YAML 1.1 reads 1e-5 as a text. */
#include "yaml.h"

#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef struct writer {
    FILE *out;
    int indent; /* of the keys */
} writer;

static int write_value(const writer *w, json_t *value);

static int write_encoded(const writer *w, json_t *value)
{
    char *text = dump_json(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    int fits = text && fputs(text, w->out) >= 0;
    free(text);
    return fits;
}

/* "1e-5" becomes 1.0e-5, "2.5e20" 2.5e+20. */
static int write_real(const writer *w, json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)),
         *exponent = text ? strpbrk(text, "eE") : NULL;
    size_t digits = text ? exponent ? (size_t)(exponent - text) : strlen(text) : 0;
    int written = -1;
    if (text)
        written = fprintf(w->out, "%.*s%s", (int)digits, text,
                          memchr(text, '.', digits) ? "" : ".0");
    if (exponent)
        written = fprintf(w->out, "e%s%s", exponent[1] == '-' || exponent[1] == '+' ? "" : "+",
                          exponent + 1);
    free(text);
    return written >= 0;
}

/* Some version of YAML reads these words as something else than a text. */
static int is_plain(const char *key)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",  "on",
                                        "off", "true", "false", "null"};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    if (!*key || !strchr(letters, *key)
        || key[strspn(key, "abcdefghijklmnopqrstuvwxyz_0123456789")])
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(key, words[i]))
            return 0;
    return 1;
}

static int write_key(const writer *w, const char *key)
{
    json_t *text = is_plain(key) ? NULL : json_string(key);
    int written = text ? write_encoded(w, text) : fputs(key, w->out) >= 0;
    json_decref(text);
    return written && fputc(':', w->out) >= 0;
}

/* The first key is written at the cursor, the others on lines of their own. */
static int write_object(const writer *w, json_t *object)
{
    const char *key;
    json_t *value;
    int fits = 1, first = 1;
    json_object_foreach(object, key, value)
    {
        fits = fits && (first || fprintf(w->out, "%*s", w->indent, "") >= 0) && write_key(w, key)
               && write_value(w, value);
        first = 0;
    }
    return fits;
}

static int write_list(const writer *w, json_t *list)
{
    const writer inner = {w->out, w->indent + 4};
    size_t i;
    json_t *item;
    int fits = fputc('\n', w->out) >= 0;
    json_array_foreach(list, i, item)
    {
        fits = fits && fprintf(w->out, "%*s-", w->indent + 2, "") >= 0;
        if (json_is_object(item) && json_object_size(item))
            fits = fits && fputc(' ', w->out) >= 0 && write_object(&inner, item);
        else
            fits = fits && write_value(&inner, item);
    }
    return fits;
}

/* Writes what follows a key or a dash, with the end of the line. */
static int write_value(const writer *w, json_t *value)
{
    const writer inner = {w->out, w->indent + 2};
    if (json_is_array(value) && json_array_size(value))
        return write_list(w, value);
    if (json_is_object(value) && json_object_size(value))
        return fprintf(w->out, "\n%*s", inner.indent, "") >= 0 && write_object(&inner, value);
    return fputc(' ', w->out) >= 0
           && (json_is_real(value) ? write_real(w, value) : write_encoded(w, value))
           && fputc('\n', w->out) >= 0;
}

int yaml_write_item(FILE *out, json_t *object)
{
    const writer w = {out, 2};
    return fputs("- ", out) >= 0
           && (json_object_size(object) ? write_object(&w, object) : fputs("{}\n", out) >= 0);
}

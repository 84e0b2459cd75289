/* show: the layout of a schema as a table, as JSON or as a picture (layout_svg.c). */
#include <promptcache/prompt.h>
#include <promptcache/admin.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd.h"
#include "layout_svg.h"
#include "format_options.h"

static const char *const kinds[] = {"?", "module", "union", "text", "parameter", "slot"};

enum { SHOWN = 48 }; /* most bytes of a text in the table */

/* The start of a text on one line. */
static void print_start(const char *text)
{
    char start[SHOWN + 4];
    pc_text_show(text, strlen(text), start, sizeof start);
    printf(" \"%s\"", start);
}

static void print_table(const pc_schema *schema)
{
    printf("schema %s: %lld positions\n\n%8s %8s  %-10s %s\n", shown(pc_schema_name(schema)),
           (long long)pc_schema_length(schema), "start", "length", "kind", "path");
    for (size_t i = 0; i < pc_schema_item_count(schema); i++) {
        pc_item item = PC_ITEM_INIT;
        pc_schema_get_item(schema, i, &item);
        printf("%8lld %8lld  %-10s %*s%s%s", (long long)item.start, (long long)item.length,
               kinds[item.kind], 2 * (int)item.depth, "", shown(item.path),
               item.flags & PC_ITEM_UNCACHED ? " (not cached)" : "");
        if (item.kind == PC_ITEM_TEXT || item.kind == PC_ITEM_SLOT)
            print_start(item.text);
        putchar('\n');
    }
}

static json_t *item_json(const pc_item *item)
{
    json_t *row = json_pack("{s:s,s:s,s:I,s:I,s:b}", "path", item->path, "kind", kinds[item->kind],
                            "start", (json_int_t)item->start, "length", (json_int_t)item->length,
                            "cached", !(item->flags & PC_ITEM_UNCACHED));
    if (item->kind == PC_ITEM_TEXT || item->kind == PC_ITEM_SLOT)
        json_object_set_new(row, "text", json_text(item->text, strlen(item->text)));
    return row;
}

static void print_items(const pc_schema *schema)
{
    json_t *items = json_array();
    for (size_t i = 0; i < pc_schema_item_count(schema); i++) {
        pc_item item = PC_ITEM_INIT;
        pc_schema_get_item(schema, i, &item);
        json_array_append_new(items, item_json(&item));
    }
    print_json(json_pack("{s:s,s:I,s:o}", "schema", pc_schema_name(schema), "length",
                         (json_int_t)pc_schema_length(schema), "items", items));
}

static int is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int show_schema(const char *path, const char *model_path, const char *svg, int json,
                       const pml_options *pml, const format_options *format)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_schema_options schema_options = PC_SCHEMA_OPTIONS_INIT;
    pc_status status;
    int code = EXIT_OK;
    options.flags = PC_MODEL_VOCAB_ONLY;
    options.progress = stop_loading;
    watch_interrupt();
    options.chat_template = pml->chat;
    schema_options.flags = pml_flags(pml);
    if ((code = open_context(&context)) >= 0)
        return code;
    code = EXIT_OK;
    if (pc_model_load(&model, context, model_path, &options) < 0)
        code = model_error(model_path,
                           "only the vocabulary is needed: a GGUF file without tensors is enough");
    else if ((status = path ? pc_schema_load(&schema, model, path, &schema_options)
                            : load_format(&schema, model, format))
             < 0)
        code = pml_error(path ? "schema" : "schema string", status);
    else if (svg)
        code = write_layout_svg(schema, svg);
    if (code == EXIT_OK && json)
        print_items(schema);
    else if (code == EXIT_OK)
        print_table(schema);
    pc_schema_free(schema);
    pc_model_free(model);
    pc_context_free(context);
    return code;
}

static int run(int argc, char **argv)
{
    const char *model = NULL, *svg = NULL, *others[1];
    pml_options pml = {0};
    format_options format = {0};
    int json = 0, code;
    size_t count;
    const option_row rows[] = {
        {"model", OPTION_PATH, &model,
         "its tokenizer counts positions; a vocabulary-only GGUF is enough", NULL, 0, 0},
        {"svg", OPTION_FILE, &svg, "also draws the layout into this file", NULL, 0, 0},
        PML_OPTION_ROWS(pml),
        FORMAT_OPTION_ROWS(format),
        {"json", OPTION_FLAG, &json, "one JSON object", NULL, 0, 0},
    };
    code = read_options(&show_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 1,
                        &count);
    if (code >= 0)
        return code;
    if (format_given(&format) && count)
        return usage_error(&show_command, "a PML schema and a schema string exclude each other");
    if (format_given(&format) && (code = check_format(&show_command, &format, 0)) >= 0)
        return code;
    if (format_given(&format))
        others[count++] = NULL;
    if (!count || !model)
        return usage_error(&show_command, "%s needed",
                           model   ? "a schema is"
                           : count ? "--model is"
                                   : "a schema and --model are");
    if (svg && ((others[0] && is_same_file(svg, others[0])) || is_same_file(svg, model)))
        return usage_error(&show_command, "--svg '%s' would overwrite an input", svg);
    return show_schema(others[0], model, svg, json, &pml, &format);
}

const command show_command = {.name = "show",
                              .usage = "show S.pml --model M [--svg out.svg] [--json] [options]",
                              .summary = "shows the layout of a schema",
                              .run = run};

/* Records of a folder: found by key, printed as rows, in full, as JSON. */
#include "record_rows.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "store_options.h"

void key_text(const uint8_t key[32], char text[65])
{
    for (size_t i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
}

/* "": not sealed. */
static void seal_text(const pc_record_info *info, char text[33])
{
    *text = 0;
    for (size_t i = 0; info->sealed && i < sizeof info->seal_id; i++)
        snprintf(text + 2 * i, 3, "%02x", info->seal_id[i]);
}

int open_view(folder_view *view, const char *path, const char *key_file)
{
    pc_folder_options options = PC_FOLDER_OPTIONS_INIT;
    uint8_t key[32];
    int code;
    *view = (folder_view){.has_key = key_file != NULL};
    if (key_file) {
        if ((code = read_seal_key(key_file, key)) >= 0)
            return code;
        options.seal_key = key;
    }
    if ((code = open_context(&view->context)) < 0
        && pc_folder_open(&view->folder, view->context, path, &options) < 0) {
        code = input_error("folder", NULL);
        close_view(view);
    }
    explicit_bzero(key, sizeof key);
    return code;
}

void close_view(folder_view *view)
{
    pc_folder_free(view->folder);
    pc_context_free(view->context);
    *view = (folder_view){0};
}

typedef struct wanted {
    char digits[65]; /* of the key: all or the first ones */
    int is_file;
    char variant[64]; /* of a file */
} wanted;

static size_t count_digits(const char *text)
{
    size_t n = 0;
    while (isxdigit((unsigned char)text[n]))
        n++;
    return n;
}

/* Reads the path of a record, "…/KEY.pcr" or "…/KEY.VARIANT.pcr", or the first digits of a key. 0:
 * something else. */
static int read_wanted(const char *text, wanted *out)
{
    const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
    size_t n = count_digits(name), size = strlen(name);
    *out = (wanted){.is_file = slash || name[n]};
    if (!n || n > 64 || (out->is_file && n != 64))
        return 0;
    for (size_t i = 0; i < n; i++)
        out->digits[i] = (char)tolower((unsigned char)name[i]);
    if (size == n || !strcmp(name + n, ".pcr"))
        return 1;
    if (name[n] != '.' || size < n + 5 || size - n - 5 >= sizeof out->variant
        || strcmp(name + size - 4, ".pcr"))
        return 0;
    memcpy(out->variant, name + n + 1, size - n - 5);
    return 1;
}

static int is_wanted(const wanted *w, const pc_record_info *info)
{
    char key[65], name[65];
    size_t digits = strlen(w->digits);
    key_text(info->key, key);
    key_text(info->name, name);
    if (w->is_file)
        return !strcmp(name, w->digits) && !strcmp(info->variant, w->variant);
    return !strncmp(key, w->digits, digits) || !strncmp(name, w->digits, digits);
}

int find_record(const folder_view *view, const command *about, const char *text, size_t *index)
{
    wanted w;
    size_t found = 0;
    if (!read_wanted(text, &w))
        return usage_error(about, "'%s' is not a key: hexadecimal digits, or the file of a record",
                           text);
    for (size_t i = 0; i < pc_folder_count(view->folder); i++) {
        pc_record_info info = PC_RECORD_INFO_INIT;
        pc_folder_get(view->folder, i, &info);
        if (!is_wanted(&w, &info))
            continue;
        *index = i;
        found++;
    }
    if (found == 1)
        return -1;
    return found ? plain_error("the keys of %zu records begin with %s; name one by its file", found,
                               w.digits)
                 : plain_error(
                     "there is no record %s; `promptcache inspect` lists the records of a folder",
                     w.digits);
}

/* ------------------------------------------------------------------- words */

/* A number without a name is written to `text`. */
static const char *name_of(const char *const *names, size_t count, uint32_t number, char text[24])
{
    if (number < count)
        return names[number];
    snprintf(text, 24, "%u", number);
    return text;
}

static const char *codec_name(uint32_t codec, char text[24])
{
    static const char *const names[] = {"default", "raw", "zstd", "int8", "int4"};
    return name_of(names, sizeof names / sizeof *names, codec, text);
}

static const char *dtype_name(uint32_t dtype, char text[24])
{
    static const char *const names[] = {"default", "f32", "bf16", "f16", "int8"};
    return name_of(names, sizeof names / sizeof *names, dtype, text);
}

static const char *date_text(int64_t date, char text[24])
{
    time_t seconds = (time_t)date;
    struct tm parts;
    if (!date || !gmtime_r(&seconds, &parts) || !strftime(text, 24, "%Y-%m-%d %H:%M:%S", &parts))
        return "-";
    return text;
}

/* How a record is sealed, and whether the key at hand opens it. */
static const char *seal_state(const folder_view *view, const pc_record_info *info, char text[80])
{
    char seal[33];
    seal_text(info, seal);
    snprintf(text, 80, "sealed%s, key %s",
             info->opened    ? ""
             : view->has_key ? " with another key"
                             : ", no key was given",
             seal);
    return !info->sealed ? "" : info->opened ? "sealed" : text;
}

static const char *state_name(const folder_view *view, const pc_record_info *info, pc_status status,
                              char text[80])
{
    if (status == PC_ERR_UNSUPPORTED)
        return "unknown version";
    if (status < 0)
        return "damaged";
    return info->expires && info->expires <= (int64_t)time(NULL) ? "expired"
                                                                 : seal_state(view, info, text);
}

json_t *record_json(const pc_record_info *info, pc_status status)
{
    char key[65], name[65], model[65], codec[24], dtype[24], version[24], seal[33];
    json_t *row;
    key_text(info->key, key);
    key_text(info->name, name);
    key_text(info->model, model);
    seal_text(info, seal);
    snprintf(version, sizeof version, "%u.%u", info->version / 256, info->version % 256);
    row = json_pack("{s:s,s:s,s:s,s:I,s:b}", "key", key, "name", name, "variant", info->variant,
                    "file_bytes", (json_int_t)info->file_bytes, "readable", status >= 0);
    if (status < 0) {
        json_object_set_new(row, "error", json_text(pc_error_text(), strlen(pc_error_text())));
        return row;
    }
    json_t *more = json_pack(
        "{s:s,s:o,s:o,s:s,s:b,s:b,s:s,s:b,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:I,s:I,s:o,s:I,s:I}",
        "model", model, "architecture", json_text(info->architecture, strlen(info->architecture)),
        "kernels", json_text(info->kernels, strlen(info->kernels)), "codec",
        codec_name(info->codec, codec), "lossy", (int)info->lossy, "sealed", (int)info->sealed,
        "seal_id", seal, "opened", (int)info->opened, "dtype", dtype_name(info->dtype, dtype),
        "position_scheme", (int)info->position_scheme, "layout", (int)info->layout, "encoding",
        (int)info->encoding, "layers", (int)info->layers, "kv_heads", (int)info->kv_heads, "k_dim",
        (int)info->k_dim, "v_dim", (int)info->v_dim, "version", version, "tokens",
        (json_int_t)info->tokens, "state_bytes", (json_int_t)info->state_bytes, "cost_seconds",
        json_number(info->cost_seconds), "written", (json_int_t)info->written, "expires",
        (json_int_t)info->expires);
    if (more)
        json_object_update(row, more);
    json_decref(more);
    return row;
}

void print_record_head(void)
{
    printf("%-16s %8s %12s %12s %-7s %-6s %-12s %10s  %-19s %s\n", "key", "tokens", "bytes",
           "as states", "codec", "dtype", "architecture", "cost s", "written (UTC)", "");
}

void print_record_row(const folder_view *view, const pc_record_info *info, pc_status status)
{
    char key[65], codec[24], dtype[24], written[24], state[80];
    key_text(info->key, key);
    if (status < 0)
        printf("%.16s %8s %12" PRIu64 " %12s %-7s %-6s %-12s %10s  %-19s %s\n", key, "-",
               info->file_bytes, "-", "-", "-", "-", "-", "-",
               state_name(view, info, status, state));
    else
        printf(
            "%.16s %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %-7s %-6s %-12.12s %10.4g  %-19s %s\n",
            key, info->tokens, info->file_bytes, info->state_bytes, codec_name(info->codec, codec),
            dtype_name(info->dtype, dtype), shown(info->architecture), info->cost_seconds,
            date_text(info->written, written), state_name(view, info, status, state));
}

void print_record(const folder_view *view, const pc_record_info *info)
{
    char seal[80], text[65], codec[24], dtype[24], written[24], expires[24];
    key_text(info->key, text);
    printf("key           %s\n", text);
    if (memcmp(info->key, info->name, sizeof info->key) != 0) {
        key_text(info->name, text);
        printf("name          %s\n", text);
    }
    if (*info->variant)
        printf("variant       %s\n", shown(info->variant));
    key_text(info->model, text);
    printf("model         %s\narchitecture  %s\n", text, shown(info->architecture));
    printf("tokens        %" PRIu64 "\nfile          %" PRIu64 " bytes\nstates        %" PRIu64
           " bytes\n",
           info->tokens, info->file_bytes, info->state_bytes);
    printf("codec         %s%s%s\ndtype         %s\n", codec_name(info->codec, codec),
           info->lossy ? ", lossy" : "", info->sealed ? ", sealed" : "",
           dtype_name(info->dtype, dtype));
    if (info->sealed)
        printf("seal          %s\n", seal_state(view, info, seal));
    if (*info->kernels)
        printf("kernels       %s\n", shown(info->kernels));
    printf("shape         %d layers, %d K/V heads, K %d, V %d\n", info->layers, info->kv_heads,
           info->k_dim, info->v_dim);
    printf("layout        %u\npositions     %u\nencoding      %u\nformat        %u.%u\n",
           info->layout, info->position_scheme, info->encoding, info->version / 256,
           info->version % 256);
    printf("cost          %.6g s\nwritten       %s UTC\nexpires       %s%s\n", info->cost_seconds,
           date_text(info->written, written), date_text(info->expires, expires),
           info->expires ? " UTC" : "");
}

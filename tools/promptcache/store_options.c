/* Options of the cache's tiers: checked, and a cache opened by them. */
#include "store_options.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

int read_size(const command *about, const char *name, const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0;
    if (!text)
        return -1;
    if (end != text && *end && strchr(units, toupper((unsigned char)*end))) {
        value = ldexp(value, 10 * (int)(strchr(units, toupper((unsigned char)*end)) - units + 1));
        end++;
    }
    if (end == text || *end || !(value >= 1 && value < 9e18))
        return usage_error(
            about, "--%s '%s' is not a size: a number, which K, M, G or T may follow", name, text);
    *bytes = (uint64_t)value;
    return -1;
}

static int digit(char c)
{
    const char *digits = "0123456789abcdef",
               *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* 32 bytes, or 64 hexadecimal digits with blanks behind them. 0: neither. */
static int parse_seal_key(const secret *text, uint8_t key[32])
{
    size_t size = text->size;
    int good = 1;
    if (size == 32) {
        memcpy(key, text->bytes, 32);
        return 1;
    }
    while (size && isspace((unsigned char)text->bytes[size - 1]))
        size--;
    for (size_t i = 0; size == 64 && i < 32; i++) {
        int high = digit(text->bytes[2 * i]), low = digit(text->bytes[2 * i + 1]);
        good = good && high >= 0 && low >= 0;
        key[i] = (uint8_t)(16 * (high & 15) + (low & 15));
    }
    return good && size == 64;
}

int read_seal_key(const char *path, uint8_t key[32])
{
    secret text = {NULL, 0};
    int code = read_secret(&text, path);
    if (code < 0 && !parse_seal_key(&text, key))
        code = plain_error("%s: a key has 32 bytes, or 64 hexadecimal digits", path);
    free_secret(&text);
    return code;
}

int has_server(const store_options *o)
{
    return o->remote || o->remote_file;
}

int store_given(const store_options *o)
{
    return o->disk || has_server(o);
}

/* What no option gives comes from the environment. */
static int choose_secrets(const command *about, store_options *o)
{
    if (o->remote && o->remote_file)
        return usage_error(about, "--remote and --remote-file exclude each other");
    if (o->salt && o->salt_file)
        return usage_error(about, "--salt and --salt-file exclude each other");
    if (o->salt && !*o->salt)
        return usage_error(about, "--salt is empty; without the option there is no salt");
    if (!has_server(o))
        o->remote = program_variable(REMOTE_VARIABLE);
    if (!o->salt && !o->salt_file)
        o->salt = program_variable(SALT_VARIABLE);
    return -1;
}

int check_store(const command *about, store_options *o)
{
    uint64_t bytes;
    int code = choose_secrets(about, o);
    if (code >= 0)
        return code;
    if (o->disk_size && !o->disk)
        return usage_error(about, "--disk-size needs --disk");
    if (o->seal_key_file && !store_given(o))
        return usage_error(about, "--seal-key-file needs --disk or --remote");
    if (o->no_map && !o->disk)
        return usage_error(about, "--no-map needs --disk");
    if (o->own_kernels && !store_given(o))
        return usage_error(about, "--own-kernels needs --disk or --remote");
    if (o->read_only && !store_given(o))
        return usage_error(about, "--read-only needs --disk or --remote");
    if (o->codec && !store_given(o))
        return usage_error(about, "--codec needs --disk or --remote");
    if ((code = read_size(about, "disk-size", o->disk_size, &bytes)) >= 0
        || (code = read_size(about, "compressed-size", o->compressed_size, &bytes)) >= 0)
        return code;
    return read_size(about, "ram-size", o->ram_size, &bytes);
}

/* A folder that cannot be written can still be read. NULL: no hint. */
static const char *next_step(const command *about, const store_options *o)
{
    if (about != &run_command || o->read_only || !o->disk || access(o->disk, R_OK | X_OK)
        || !access(o->disk, W_OK))
        return NULL;
    return "--read-only uses a folder that cannot be written";
}

typedef struct store_secrets {
    uint8_t key[32];
    secret remote, salt;
} store_secrets;

/* -1, or the exit code after a message. */
static int read_secrets(store_secrets *s, const store_options *o)
{
    int code = o->seal_key_file ? read_seal_key(o->seal_key_file, s->key) : -1;
    if (code < 0 && o->remote_file)
        code = read_secret_line(&s->remote, o->remote_file);
    if (code >= 0 || !o->salt_file || (code = read_secret(&s->salt, o->salt_file)) >= 0)
        return code;
    if (s->salt.size && s->salt.bytes[s->salt.size - 1] == '\n') /* as editors end a line */
        s->salt.bytes[--s->salt.size] = 0;
    return s->salt.size ? -1 : plain_error("%s: the salt is empty", o->salt_file);
}

static void free_secrets(store_secrets *s)
{
    explicit_bzero(s->key, sizeof s->key);
    free_secret(&s->remote);
    free_secret(&s->salt);
}

static void set_secrets(pc_cache_options *options, const store_options *o, const store_secrets *s)
{
    options->seal_key = o->seal_key_file ? s->key : NULL;
    options->remote = o->remote_file ? s->remote.bytes : o->remote;
    options->salt = o->salt_file ? s->salt.bytes : o->salt;
    options->salt_size = o->salt_file ? s->salt.size : o->salt ? strlen(o->salt) : 0;
}

int open_store(pc_cache **out, pc_context *context, const command *about, const store_options *o)
{
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    store_secrets secrets = {.salt = {NULL, 0}};
    int code = read_secrets(&secrets, o);
    if (code >= 0)
        goto done;
    set_secrets(&options, o, &secrets);
    read_size(about, "ram-size", o->ram_size,
              &options.ram_bytes); /* check_store has checked them */
    read_size(about, "compressed-size", o->compressed_size, &options.compressed_bytes);
    read_size(about, "disk-size", o->disk_size, &options.disk_bytes);
    options.disk_path = o->disk;
    options.disk_codec = options.remote_codec = (uint32_t)o->codec;
    options.ttl_seconds = o->ttl;
    options.deadline_seconds = o->deadline;
    options.tenant_share = (uint32_t)o->tenant_share;
    options.on_event = o->on_event;
    options.event_user = o->event_user;
    if (o->always_load)
        options.flags |= PC_CACHE_ALWAYS_LOAD;
    if (o->no_map)
        options.flags |= PC_CACHE_NO_MMAP;
    if (o->read_only)
        options.flags |= PC_CACHE_READ_ONLY;
    if (o->own_kernels)
        options.flags |= PC_CACHE_OWN_KERNELS;
    if (pc_cache_new(out, context, &options) < 0)
        code = input_error("store", next_step(about, o));
done:
    free_secrets(&secrets);
    return code;
}

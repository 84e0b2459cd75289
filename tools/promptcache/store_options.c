/* Options of the cache's tiers: checked, and a cache opened by them. */
#include "store_options.h"

#include <promptcache/bench.h>
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

int read_seal_key(const char *path, uint8_t key[32])
{
    size_t size = 0;
    char *text = read_text(path, SECRET_BYTES, &size);
    int good = text && size == 32;
    if (!text)
        return EXIT_INPUT;
    if (good)
        memcpy(key, text, 32);
    while (!good && size && isspace((unsigned char)text[size - 1]))
        size--;
    if (!good && size == 64) {
        good = 1;
        for (size_t i = 0; i < 32; i++) {
            int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
            good = good && high >= 0 && low >= 0;
            key[i] = (uint8_t)(16 * (high & 15) + (low & 15));
        }
    }
    free(text);
    return good ? -1 : plain_error("%s: a key has 32 bytes, or 64 hexadecimal digits", path);
}

int store_given(const store_options *o)
{
    return o->disk || o->remote;
}

int check_store(const command *about, const store_options *o)
{
    uint64_t bytes;
    int code;
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

int open_store(pc_cache **out, pc_context *context, const command *about, const store_options *o)
{
    pc_cache_options options = PC_CACHE_OPTIONS_INIT;
    uint8_t key[32] = {0};
    pc_status status;
    int code;
    if (o->seal_key_file) {
        if ((code = read_seal_key(o->seal_key_file, key)) >= 0)
            return code;
        options.seal_key = key;
    }
    read_size(about, "ram-size", o->ram_size,
              &options.ram_bytes); /* check_store has checked them */
    read_size(about, "compressed-size", o->compressed_size, &options.compressed_bytes);
    read_size(about, "disk-size", o->disk_size, &options.disk_bytes);
    options.disk_path = o->disk;
    options.remote = o->remote;
    options.disk_codec = options.remote_codec = (uint32_t)o->codec;
    options.ttl_seconds = o->ttl;
    options.deadline_seconds = o->deadline;
    options.salt = o->salt && *o->salt ? o->salt : NULL;
    options.salt_size = options.salt ? strlen(o->salt) : 0;
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
    status = pc_cache_new(out, context, &options);
    memset(key, 0, sizeof key);
    return status < 0 ? input_error("store", next_step(about, o)) : -1;
}

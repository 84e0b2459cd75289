/* Schemas from RelayAttention's schema string. */
#include "format_options.h"

#include <promptcache/prompt.h>
#include <string.h>

int format_given(const format_options *o)
{
    return o->format || o->format_file || o->system || o->system_file;
}

int check_format(const command *about, const format_options *o, int has_request)
{
    if (o->format && o->format_file)
        return usage_error(about, "--system-format and --system-format-file exclude each other");
    if (o->system && o->system_file)
        return usage_error(about, "--system and --system-file exclude each other");
    if (!o->system && !o->system_file && (o->format || o->format_file || !has_request))
        return usage_error(about, "a schema string needs --system or --system-file");
    return -1;
}

pc_status load_format(pc_schema **out, const pc_model *model, const format_options *o)
{
    pc_system_format relay = PC_SYSTEM_FORMAT_INIT;
    if (!o->format && !o->format_file)
        relay.flags = PC_FORMAT_CHAT;
    relay.format = o->format;
    relay.format_size = o->format ? strlen(o->format) : 0;
    relay.format_file = o->format_file;
    relay.system = o->system;
    relay.system_size = o->system ? strlen(o->system) : 0;
    relay.system_file = o->system_file;
    return pc_schema_from_format(out, model, &relay);
}

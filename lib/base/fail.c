/* The error text of each thread, names and texts of status codes, the version. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Nothing is allocated: an error text must be possible when memory is short. */
static _Thread_local char text[512];
static _Thread_local int callback_text_set; /* `text` is of pc_error_set */
static _Thread_local int system_error;      /* errno that `text` is about; 0: none */

static void one_line(void)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = ' ';
}

static void set_text(int error, const char *format, va_list args)
{
    vsnprintf(text, sizeof text, format, args);
    one_line();
    callback_text_set = 0;
    system_error = error;
}

pc_status pc__fail(pc_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_text(0, format, args);
    va_end(args);
    return status;
}

pc_status pc__fail_system(pc_status status, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_text(error, format, args);
    va_end(args);
    return status;
}

int pc__fail_error(void)
{
    return system_error;
}

/* Puts the formatted prefix and ": " before the present text. */
static void prepend_text(const char *format, va_list args)
{
    char prefix[256], old[sizeof text];
    vsnprintf(prefix, sizeof prefix, format, args);
    memcpy(old, text, sizeof old);
    int n = snprintf(text, sizeof text, "%s: ", prefix);
    size_t room = sizeof text - 1 - (size_t)n, size = strnlen(old, room);
    memcpy(text + n, old, size);
    text[(size_t)n + size] = 0;
    one_line();
    callback_text_set = 0;
}

pc_status pc__fail_in(pc_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prepend_text(format, args);
    va_end(args);
    return status;
}

void pc__callback_begin(void)
{
    callback_text_set = 0;
}

pc_status pc__callback_failed(pc_status status, const char *format, ...)
{
    va_list args;
    if (!callback_text_set)
        pc__fail(status, "%s (%s)", pc_status_text(status), pc_status_name(status));
    va_start(args, format);
    prepend_text(format, args);
    va_end(args);
    return status;
}

pc_status pc__callback_cancelled(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (callback_text_set)
        prepend_text(format, args);
    else
        set_text(0, format, args);
    va_end(args);
    return PC_ERR_CANCELLED;
}

void pc_error_set(const char *words)
{
    size_t size = words ? strnlen(words, sizeof text - 1) : 0;
    memmove(text, words ? words : "", size); /* may be pc_error_text() */
    text[size] = 0;
    one_line();
    callback_text_set = size > 0;
}

const char *pc_error_text(void)
{
    return text;
}

const char *pc_status_name(pc_status status)
{
#define NAME(name, value, words) \
    if (status == value)         \
        return #name;
    PC_STATUS_LIST(NAME)
#undef NAME
    return "unknown status";
}

const char *pc_status_text(pc_status status)
{
#define TEXT(name, value, words) \
    if (status == value)         \
        return words;
    PC_STATUS_LIST(TEXT)
#undef TEXT
    return "unknown status";
}

const char *pc_version(void)
{
#define STRING_(x) #x
#define STRING(x) STRING_(x)
    return STRING(PC_VERSION_MAJOR) "." STRING(PC_VERSION_MINOR) "." STRING(PC_VERSION_PATCH);
}

uint32_t pc_abi_version(void)
{
    return PC_ABI_VERSION;
}

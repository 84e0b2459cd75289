/* The error text of each thread, names and texts of status codes, the version. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Nothing is allocated: an error text must be possible when memory is short. */
static pc__error_state *own_state(void)
{
    static _Thread_local pc__error_state state;
    return &state;
}

static pc__error_state *(*state_of_thread)(void) = own_state;

pc__error_state *pc__fail_state(void)
{
    return state_of_thread();
}

void pc__fail_share(pc__error_state *(*state)(void))
{
    state_of_thread = state;
}

static void one_line(pc__error_state *state)
{
    for (char *c = state->text; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = ' ';
}

static void set_text(int error, const char *format, va_list args)
{
    pc__error_state *state = pc__fail_state();
    vsnprintf(state->text, sizeof state->text, format, args);
    one_line(state);
    state->callback_text_set = 0;
    state->system_error = error;
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
    return pc__fail_state()->system_error;
}

/* Puts the formatted prefix and ": " before the present text. */
static void prepend_text(const char *format, va_list args)
{
    pc__error_state *state = pc__fail_state();
    char prefix[256], old[sizeof state->text];
    vsnprintf(prefix, sizeof prefix, format, args);
    memcpy(old, state->text, sizeof old);
    int n = snprintf(state->text, sizeof state->text, "%s: ", prefix);
    size_t room = sizeof state->text - 1 - (size_t)n, size = strnlen(old, room);
    memcpy(state->text + n, old, size);
    state->text[(size_t)n + size] = 0;
    one_line(state);
    state->callback_text_set = 0;
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
    pc__fail_state()->callback_text_set = 0;
}

pc_status pc__callback_failed(pc_status status, const char *format, ...)
{
    va_list args;
    if (!pc__fail_state()->callback_text_set)
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
    if (pc__fail_state()->callback_text_set)
        prepend_text(format, args);
    else
        set_text(0, format, args);
    va_end(args);
    return PC_ERR_CANCELLED;
}

void pc_error_set(const char *words)
{
    pc__error_state *state = pc__fail_state();
    size_t size = words ? strnlen(words, sizeof state->text - 1) : 0;
    memmove(state->text, words ? words : "", size); /* may be pc_error_text() */
    state->text[size] = 0;
    one_line(state);
    state->callback_text_set = size > 0;
}

const char *pc_error_text(void)
{
    return pc__fail_state()->text;
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

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

/* Longer than any text that is kept, so that what is cut here is cut again, between characters. */
enum { ROUGH = 1024 };

static void keep_text(pc__error_state *state, const char *rough)
{
    pc__printable(rough, strlen(rough), state->text, sizeof state->text);
}

static void set_text(int error, const char *format, va_list args)
{
    pc__error_state *state = pc__fail_state();
    char rough[ROUGH];
    vsnprintf(rough, sizeof rough, format, args);
    keep_text(state, rough);
    state->callback_text_set = 0;
    state->system_error = error;
    state->line = state->column = 0;
}

void pc__fail_place(uint64_t line, uint64_t column)
{
    pc__error_state *state = pc__fail_state();
    state->line = line;
    state->column = column;
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
    char rough[ROUGH], prefix[256];
    vsnprintf(rough, sizeof rough, format, args);
    pc__printable(rough, strlen(rough), prefix, sizeof prefix);
    snprintf(rough, sizeof rough, "%s: %s", prefix, state->text);
    keep_text(state, rough);
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
    char rough[ROUGH];
    snprintf(rough, sizeof rough, "%s", words ? words : ""); /* it may be pc_error_text() */
    keep_text(state, rough);
    state->callback_text_set = *state->text != 0;
    state->line = state->column = 0;
}

void pc_error_place(uint64_t *line, uint64_t *column)
{
    const pc__error_state *state = pc__fail_state();
    if (line)
        *line = state->line;
    if (column)
        *column = state->column;
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

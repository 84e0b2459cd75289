/* Catches: a variable whose value means nothing and is taken in silence, or whose error does not
 * name variable, value and what is allowed; a value that is allowed and refused; an empty variable
 * that is not as if it were unset. Programs with other rights: test/fail/test_setuid.c. */
#include <stdlib.h>

#include "base/context.h"
#include "base/environment.h"
#include "testing.h"

static const char *const names[PC__ENV_COUNT] = {
    [PC__ENV_BACKEND] = "PC_BACKEND",
    [PC__ENV_COSTS] = "PC_COSTS",
    [PC__ENV_CPU_MASK] = "PC_CPU_MASK",
    [PC__ENV_LINEAR] = "PC_LINEAR",
    [PC__ENV_MODULES] = "PC_MODULES",
    [PC__ENV_CACHE_HOME] = "XDG_CACHE_HOME",
    [PC__ENV_HOME] = "HOME",
};

static void allows(pc__variable variable, const char *value)
{
    pc_context *context;
    setenv(names[variable], value, 1);
    CHECK_STR(pc__environment(variable), value);
    CHECK_OK(pc__environment_check());
    CHECK_OK(pc_context_new(&context, NULL));
    pc_context_free(context);
    unsetenv(names[variable]);
}

/* A context is refused, too: that is where users meet the error. */
static void refuses(pc__variable variable, const char *value, const char *text)
{
    pc_context *context = (pc_context *)(uintptr_t)8;
    setenv(names[variable], value, 1);
    CHECK_STATUS(pc_context_new(&context, NULL), PC_ERR_INVALID);
    CHECK(!context);
    CHECK_ERROR_HAS(text);
    unsetenv(names[variable]);
}

int main(void)
{
    static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
    for (unsigned i = 0; i < PC__ENV_COUNT; i++) {
        setenv(names[i], "", 1);
        CHECK(!pc__environment((pc__variable)i));
        CHECK_OK(pc__environment_check());
        unsetenv(names[i]);
        CHECK(!pc__environment((pc__variable)i));
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        allows(PC__ENV_CPU_MASK, levels[i]);
    allows(PC__ENV_LINEAR, "own");
    allows(PC__ENV_LINEAR, "onednn");
    allows(PC__ENV_COSTS, "builtin");
    allows(PC__ENV_COSTS, "./costs");
    allows(PC__ENV_COSTS, "/somewhere/costs");
    allows(PC__ENV_BACKEND, "cpu");
    allows(PC__ENV_BACKEND, "of_another_name2"); /* this program has no backends */
    allows(PC__ENV_MODULES, "a:/b::");
    allows(PC__ENV_CACHE_HOME, "anything");
    allows(PC__ENV_HOME, "anything");
    refuses(PC__ENV_LINEAR, "bogus", "PC_LINEAR is 'bogus', which is none of own, onednn");
    refuses(PC__ENV_LINEAR, "Own", "PC_LINEAR is 'Own'");
    refuses(PC__ENV_LINEAR, "own ", "PC_LINEAR is 'own '");
    refuses(PC__ENV_CPU_MASK, "bogus",
            "PC_CPU_MASK is 'bogus', which is none of c, avx2, avx512, avx512vnni, avx512bf16, "
            "amx");
    refuses(PC__ENV_CPU_MASK, "AVX2", "PC_CPU_MASK is 'AVX2'");
    refuses(PC__ENV_COSTS, "built-in",
            "PC_COSTS is 'built-in', which is neither builtin nor a path");
    refuses(PC__ENV_BACKEND, "../cuda", "PC_BACKEND is '../cuda', which is neither cpu nor");
    refuses(PC__ENV_BACKEND, "a2345678901234567890123456789012", "PC_BACKEND is 'a23456789");
    return pc_test_end();
}

/* Catches: a program with another user's rights (setuid) that follows the environment of the user
 * who starts it: runs code out of a planted library (PC_MODULES), reads a file of that user as its
 * costs (PC_COSTS, XDG_CACHE_HOME, HOME), takes a backend, kernels or linear layers by name, or can
 * be stopped by a value that means nothing.
 *
 * The test is root. It copies itself, gives the copy to another user with the setuid bit, and runs
 * it as nobody. A copy without the bit shows that the traps work. */
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attn/backend.h"
#include "attn/costs.h"
#include "base/context.h"
#include "base/cpu_mask.h"
#include "base/module.h"
#include "testing.h"

enum { PATH = 600, OWNER = 65533, NOBODY = 65534 };

/* ------------------------------------------------- what the copy does as nobody */

static void try_context(const char *name, const char *value)
{
    pc_context *context;
    setenv(name, value, 1);
    if (pc_context_new(&context, NULL) < 0)
        printf("%s: %s\n", name, pc_error_text());
    else
        printf("%s: %s\n", name, pc__backend_of(context) ? "ignored" : "no backend");
    pc_context_free(context);
    unsetenv(name);
}

static void try_costs(const char *name, const char *value)
{
    char path[PC__COSTS_PATH];
    setenv(name, value, 1);
    pc__costs_path(path, sizeof path);
    printf("%s: costs in '%s'\n", name, path);
    unsetenv(name);
}

static int show(const char *folder)
{
    printf("rights: %s\n", getauxval(AT_SECURE) ? "another user's" : "the user's");
    try_costs("PC_COSTS", "/trap/costs");
    try_costs("XDG_CACHE_HOME", "/trap");
    try_costs("HOME", "/trap");
    try_context("PC_LINEAR", "bogus");
    try_context("PC_CPU_MASK", "bogus");
    setenv("PC_MODULES", folder, 1);
    try_context("PC_BACKEND", "planted");
    printf("module: '%s'\n", pc__module_open("planted", NULL)->path);
    setenv("PC_CPU_MASK", "c", 1);
    printf("PC_CPU_MASK: %s\n", pc__cpu_mask() == PC__CPU_C ? "followed" : "ignored");
    fflush(stdout);
    _exit(0); /* AddressSanitizer's last check does not work with other rights */
}

/* ------------------------------------------------------------------- the test */

static void copy(const char *from, const char *to)
{
    size_t size;
    char *data = pc_test_read(from, &size);
    if (CHECK(data != NULL))
        pc_test_write(to, data, size);
    free(data);
    CHECK(!chmod(to, 0755));
}

static void become_nobody(void)
{
    static const char *const names[] = {"PC_COSTS",   "XDG_CACHE_HOME", "HOME",     "PC_BACKEND",
                                        "PC_MODULES", "PC_CPU_MASK",    "PC_LINEAR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
        _exit(3);
}

/* What the program prints when nobody starts it. */
static void run_as_nobody(const char *program, const char *folder, char *text, size_t size)
{
    int ends[2], status = -1;
    size_t used = 0;
    ssize_t n;
    CHECK(!pipe(ends));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        become_nobody();
        if (dup2(ends[1], 1) == 1)
            execl(program, program, folder, (char *)NULL);
        _exit(4);
    }
    close(ends[1]);
    while (used + 1 < size && (n = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = 0;
    close(ends[0]);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        n++;
    }
    return n;
}

static void has(const char *text, const char *part)
{
    pc_test_has(text, part, __FILE__, __LINE__);
}

/* With the user's own rights every trap works. */
static void followed(const char *text)
{
    CHECK_INT(count(text, "planted code runs\n"), 1);
    CHECK_INT(count(text, "costs in '/trap"), 3);
    has(text, "PC_LINEAR: the environment's PC_LINEAR is 'bogus'");
    has(text, "PC_CPU_MASK: the environment's PC_CPU_MASK is 'bogus'");
    has(text, "PC_BACKEND: backend 'planted': ");
    has(text, "libpromptcache_planted.so'");
    has(text, "PC_CPU_MASK: followed");
}

static void ignored(const char *text)
{
    CHECK_INT(count(text, "planted"), 0);
    CHECK_INT(count(text, "trap"), 0);
    CHECK_INT(count(text, "costs in ''"), 3);
    has(text, "PC_LINEAR: ignored");
    has(text, "PC_BACKEND: ignored");
    has(text, "module: ''");
    CHECK_INT(count(text, "PC_CPU_MASK: ignored"), 2);
}

int main(int argc, char **argv)
{
    char self[PATH_MAX] = "", program[PATH], traps[PATH], path[2 * PATH], text[8192];
    const char *folder;
    if (argc > 1)
        return show(argv[1]);
    if (getuid())
        pc_test_skip("needs root, to make a program of another user");
    folder = pc_test_folder();
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(program, sizeof program, "%s/program", folder);
    snprintf(traps, sizeof traps, "%s/traps", folder);
    CHECK(!chmod(folder, 0755) && !mkdir(traps, 0755));
    snprintf(path, sizeof path, "%s/libpromptcache_planted.so", traps);
    copy(PLANTED, path);
    copy(self, program);
    run_as_nobody(program, traps, text, sizeof text);
    followed(text);
    CHECK(!chown(program, OWNER, OWNER) && !chmod(program, 04755));
    run_as_nobody(program, traps, text, sizeof text);
    if (strstr(text, "rights: the user's"))
        pc_test_skip("programs get no other rights here (nosuid)");
    has(text, "rights: another user's");
    ignored(text);
    return pc_test_end();
}

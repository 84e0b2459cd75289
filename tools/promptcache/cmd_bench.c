/* bench, check and eval: start promptcache-bench, as `git log` could be another program. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static const char bench_program[] = "promptcache-bench";

/* The path of the program beside this one. 0: it cannot be known. */
static int path_beside(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    char *slash;
    path[n > 0 ? n : 0] = 0;
    slash = strrchr(path, '/');
    if (!slash || (size_t)(slash + 1 - path) + sizeof bench_program > size)
        return 0;
    strcpy(slash + 1, bench_program);
    return 1;
}

/* Returns only if the program cannot be started. arguments[0] is replaced. */
static int start(char **arguments)
{
    static char name[sizeof bench_program];
    char path[4096];
    memcpy(name, bench_program, sizeof name);
    arguments[0] = name;
    if (path_beside(path, sizeof path)) {
        execv(path, arguments);
        if (errno != ENOENT && errno != ENOTDIR)
            return plain_error("%s: %s", path, strerror(errno));
    }
    execvp(bench_program, arguments);
    return plain_error("%s is not beside this program and not in PATH: %s; install both programs",
                       bench_program, strerror(errno));
}

/* `bench NAME ...` becomes `promptcache-bench NAME ...`. */
static int run_bench(int argc, char **argv)
{
    (void)argc;
    return start(argv);
}

/* `check ...` becomes `promptcache-bench check ...`: argv stands in the program's own arguments,
 * behind its name. */
static int run_behind(int argc, char **argv)
{
    (void)argc;
    return start(argv - 1);
}

const command bench_command = {.name = "bench",
                               .usage = "bench COMMAND [options]",
                               .summary = "measures (starts promptcache-bench)",
                               .run = run_bench,
                               .is_external = 1};
const command check_command = {
    .name = "check",
    .usage = "check --model M --golden FILE [--json]",
    .summary = "compares a model with golden vectors (starts promptcache-bench)",
    .run = run_behind,
    .is_external = 1};
const command eval_command = {
    .name = "eval",
    .usage = "eval FILE.jsonl ... --model M [--format F] [options]",
    .summary = "accuracy and time over questions, by mode (starts promptcache-bench)",
    .run = run_behind,
    .is_external = 1};

/* promptcache: the command line program. One file a command. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "program.h"

static const command *const commands[] = {&run_command,     &encode_command,  &show_command,
                                          &check_command,   &eval_command,    &bench_command,
                                          &inspect_command, &verify_command,  &evict_command,
                                          &memo_command,    &tokenize_command};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(FILE *out)
{
    fprintf(out,
            "promptcache %s: answers prompts made of cached modules\n\n"
            "usage: promptcache COMMAND ...\n\n",
            pc_version());
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n`promptcache COMMAND --help` tells more.\n"
                 "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 bad input or output, 130"
                 " interrupted.\n");
    return EXIT_OK;
}

/* A stream that was closed by the caller fails when it is used, and its number goes to no other
 * file (standard output must not become the picture that `show` writes). */
static void hold_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

static int dispatch(int argc, char **argv)
{
    static char flag[] = "--help";
    char *asked[] = {argv[0], argc > 2 ? argv[2] : flag, flag, NULL};
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")
        || (!strcmp(argv[1], "help") && (argc == 2 || !strcmp(argv[2], "help"))))
        return help(stdout);
    if (!strcmp(argv[1], "--version")) {
        printf("%s\n", pc_version());
        return EXIT_OK;
    }
    if (!strcmp(argv[1], "help")) { /* help COMMAND = COMMAND --help */
        argv = asked;
        argc = 3;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i]->name))
            return commands[i]->run(argc - 1, argv + 1);
    fprintf(stderr, "promptcache: there is no command '%s'; `promptcache --help` lists them\n",
            argv[1]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    hold_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file that must not grow is an error that is told */
    return finish_output(dispatch(argc, argv));
}

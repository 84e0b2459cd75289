/* promptcache: the command line program. One file a command. */
#include <string.h>

#include "program.h"

static const command *const commands[] = {&run_command, &show_command, &check_command, &eval_command, &bench_command,
                                          &tokenize_command};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *out)
{
    fprintf(out, "promptcache %s: answers prompts made of cached modules\n\nusage: promptcache COMMAND ...\n\n", pc_version());
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n`promptcache COMMAND --help` tells more. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 bad input.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("%s\n", pc_version());
        return EXIT_OK;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i]->name))
            return commands[i]->run(argc - 1, argv + 1);
    fprintf(stderr, "promptcache: there is no command '%s'; `promptcache --help` lists them\n", argv[1]);
    return EXIT_USAGE;
}

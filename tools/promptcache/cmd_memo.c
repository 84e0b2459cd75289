/* memo: attention maps of earlier prompts, remembered and reused (AttnCache). */
#include <string.h>

#include "memo_commands.h"

typedef struct part {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} part;

static const part parts[] = {
    {"build", "fills a memo from a corpus and trains what finds alike prompts", memo_build},
    {"tune", "sets thresholds for a loss that you name, by inputs that the memo has not seen", memo_tune},
    {"eval", "score and time, everything computed against the memo", memo_eval},
    {"show", "what a memo holds, and where it is used", memo_show},
};

static int help(void)
{
    printf("usage: promptcache %s\n\n", memo_command.usage);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        printf("  %-6s %s\n", parts[i].name, parts[i].summary);
    printf("\n`promptcache memo NAME --help` tells more; doc/memo.md says when a memo helps.\n");
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return usage_error(&memo_command, "which part? `promptcache memo --help` lists them");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return help();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(argv[1], parts[i].name))
            return parts[i].run(argc - 1, argv + 1);
    return usage_error(&memo_command, "there is no part '%s'; `promptcache memo --help` lists them", argv[1]);
}

const command memo_command = {"memo", "memo build|tune|eval|show [options]",
                              "remembers attention maps for prefill-only work", run};

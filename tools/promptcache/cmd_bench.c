/* bench: measurements. */
#include <string.h>

#include "program.h"

static int run(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "ttft"))
        return bench_ttft(argc - 1, argv + 1);
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        printf("usage: promptcache %s\n\n"
               "  ttft   time to the first token, cached against full prefill\n\n"
               "`promptcache bench ttft --help` tells more.\n",
               bench_command.usage);
        return EXIT_OK;
    }
    if (argc > 1)
        return usage_error(&bench_command, "there is no benchmark '%s'; there is ttft", argv[1]);
    return usage_error(&bench_command, "which benchmark? There is ttft");
}

const command bench_command = {"bench", "bench ttft [options]", "measures", run};

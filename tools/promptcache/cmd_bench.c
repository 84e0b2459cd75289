/* bench: measurements. */
#include <string.h>

#include "program.h"

static int run(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "ttft"))
        return bench_ttft(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        printf("usage: promptcache %s\n\n  ttft   time to the first token, cached against full prefill\n", bench_command.usage);
        return EXIT_OK;
    }
    return usage_error(&bench_command, argc > 1 ? "there is no benchmark '%s'" : "which benchmark?%s", argc > 1 ? argv[1] : "");
}

const command bench_command = {"bench", "bench ttft [options]", "measures", run};

/* bench: measurements. */
#include <string.h>

#include "program.h"

typedef struct benchmark {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} benchmark;

static const benchmark all[] = {
    {"attend", "attention of a batch over a shared prefix, against reading it for every row",
     bench_attend},
    {"calibrate", "what passes of attention cost on this machine; kept for all programs", bench_calibrate},
    {"decode", "a step of a batch over a shared prefix, against copies of it", bench_decode},
    {"memo", "prefill with remembered attention maps, against computing them", bench_memo},
    {"mmlu", "short questions behind worked examples, computed once or every time", bench_mmlu},
    {"needles", "many questions about long documents", bench_needles},
    {"samples", "many answers to each question behind few-shot examples", bench_samples},
    {"serve", "requests with the lengths of real traffic behind one system prompt", bench_serve},
    {"store", "what tiers and codecs of the store give, against plain reading", bench_store},
    {"trace", "what the store keeps of the blocks of real traffic, by its size", bench_trace},
    {"ttft", "time to the first token, cached against full prefill", bench_ttft},
};

static int help(void)
{
    printf("usage: promptcache %s\n\n", bench_command.usage);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        printf("  %-11s %s\n", all[i].name, all[i].summary);
    printf("\n`promptcache bench NAME --help` tells more.\n");
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return usage_error(&bench_command,
                           "which benchmark? `promptcache bench --help` lists them");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return help();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name))
            return all[i].run(argc - 1, argv + 1);
    return usage_error(&bench_command,
                       "there is no benchmark '%s'; `promptcache bench --help` lists them",
                       argv[1]);
}

const command bench_command = {"bench", "bench NAME [options]", "measures", run};

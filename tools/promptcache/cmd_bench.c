/* bench: measurements. */
#include "program.h"

static const command_part all[] = {
    {"attend", "attention of a batch over a shared prefix, against reading it for every row",
     bench_attend},
    {"calibrate", "what passes of attention cost on this machine; kept for all programs",
     bench_calibrate},
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

static int run(int argc, char **argv)
{
    static const command_family family = {&bench_command, all, sizeof all / sizeof *all, 11,
                                          "benchmark",    ""};
    return run_part(&family, argc, argv);
}

const command bench_command = {"bench", "bench NAME [options]", "measures", run};

/* The program `promptcache-bench`: measurements, and checks of models and answers. */
#include "bench.h"
#include "commands.h"

int main(int argc, char **argv)
{
    static const command *const parts[] = {
        &bench_attend,  &bench_calibrate, &bench_decode, &bench_device_rates,
        &bench_inputs,  &bench_memo,      &bench_mmlu,   &bench_needles,
        &bench_samples, &bench_serve,     &bench_store,  &bench_trace,
        &bench_ttft,    &bench_check,     &bench_eval,   NULL};
    static const command program = {
        .name = "promptcache-bench",
        .usage = "promptcache-bench COMMAND ...",
        .summary = "measures promptcache, and checks its answers",
        .details = "`promptcache bench COMMAND`, `promptcache check` and"
                   " `promptcache eval` start this program.",
        .parts = parts};
    return run_program(&program, argc, argv);
}

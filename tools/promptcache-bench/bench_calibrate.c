/* bench calibrate: measures, stores and prints the costs by which the planner of attention decides.
 */
#include <promptcache/admin.h>
#include <unistd.h>

#include "bench.h"
#include "program.h"

typedef struct arguments {
    const char *path;
    int json, show;
} arguments;

static int read_arguments(int argc, char **argv, arguments *a)
{
    const option_row rows[] = {
        {"file", OPTION_FILE, &a->path,
         "stores the costs there instead; then set PC_COSTS to that path (with a slash)", NULL, 0,
         0},
        {"show", OPTION_FLAG, &a->show, "measures nothing; prints the costs in use", NULL, 0, 0},
        FORMAT_ROWS(a->json, "one JSON object"),
    };
    const char *others[1];
    size_t count;
    return read_options(&bench_calibrate, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                        &count);
}

static int32_t show_count(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    (void)what;
    if (isatty(2))
        fprintf(stderr, "\r%llu of %llu ", (unsigned long long)done + 1, (unsigned long long)total);
    if (isatty(2) && done + 1 == total)
        fprintf(stderr, "\r          \r");
    return is_interrupted(NULL);
}

static const char *source_of(const pc_costs *c)
{
    static const char *const names[] = {"built in", "file", "measured"};
    return c->source <= PC_COSTS_MEASURED ? names[c->source] : "?";
}

static void print_costs_json(const pc_costs *c)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < PC_COST_COUNT; i++)
        json_array_append_new(rows,
                              json_pack("{s:I,s:f,s:f}", "rows", (json_int_t)1 << i, "cached_ns",
                                        c->cached_ns[i], "memory_ns", c->memory_ns[i]));
    print_json(json_pack("{s:s,s:s,s:s,s:o}", "cpu", c->cpu, "kernels", c->kernels, "source",
                         source_of(c), "costs", rows));
}

static void print_costs(const pc_costs *c)
{
    printf(
        "%s: %s kernels; %s\nnanoseconds a token of one K/V head of 128 dimensions, one thread\n\n",
        *c->cpu ? c->cpu : "any CPU", c->kernels, source_of(c));
    printf("query vectors   from cache   from memory   a vector (cache)   GFLOP/s\n");
    for (size_t i = 0; i < PC_COST_COUNT; i++) {
        double rows = (double)(1 << i);
        printf("%13.0f %12.2f %13.2f %18.3f %9.1f\n", rows, c->cached_ns[i], c->memory_ns[i],
               c->cached_ns[i] / rows, 4 * 128 * rows / c->cached_ns[i]);
    }
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {0};
    pc_calibrate_options options = PC_CALIBRATE_OPTIONS_INIT;
    pc_costs costs = PC_COSTS_INIT;
    pc_context *context = NULL;
    pc_status status;
    int code = read_arguments(argc, argv, &a);
    if (code >= 0)
        return code;
    options.path = a.path;
    options.progress = show_count;
    watch_interrupt();
    if ((code = open_context(&context)) >= 0)
        return code;
    status = a.show ? PC_OK : pc_calibrate(context, &options);
    if (status < 0)
        code = input_error("calibrate",
                           status == PC_ERR_IO ? "--file stores them elsewhere" : NULL);
    else
        code = pc_costs_get(context, &costs) < 0 ? input_error("costs", NULL) : EXIT_OK;
    if (code == EXIT_OK)
        (a.json ? print_costs_json : print_costs)(&costs);
    pc_context_free(context);
    return finish_output(code);
}

const command bench_calibrate = {
    .name = "calibrate",
    .usage = "calibrate [options]",
    .summary = "costs of attention on this machine, stored for all programs",
    .details = "Measures the cost of a pass of attention over K and V, by the number of query "
               "vectors that read\n"
               "them together. Stores the costs in the user's cache folder, where all programs "
               "that use the\n"
               "library find them.",
    .run = run_command_line};

/* bench device: what the first NVIDIA GPU can do at best, without the library: copies, products on
 * its tensor cores, empty launches. Other figures are read beside these. */
#include <math.h>

#include "bench.h"
#include "bench_device.h"

typedef struct rates {
    double within, products; /* bytes and operations a second */
    double to[2], from[2];   /* bytes a second: the device; host memory is pageable, pinned */
    bench_launches launch_us;
} rates;

static int measure(bench_device *d, rates *r)
{
    int code = bench_device_byte_rate(d, &r->within);
    if (code == EXIT_OK)
        code = bench_device_flop_rate(d, &r->products);
    for (int pinned = 0; pinned < 2 && code == EXIT_OK; pinned++) {
        code = bench_device_host_rate(d, pinned, 1, &r->to[pinned]);
        if (code == EXIT_OK)
            code = bench_device_host_rate(d, pinned, 0, &r->from[pinned]);
    }
    return code == EXIT_OK ? bench_device_launches(d, &r->launch_us) : code;
}

/* What was not measured is null. */
static void print_as_json(const bench_device *d, const rates *r)
{
    print_json(json_pack(
        "{s:s,s:I,s:I,s:I,s:f,s:o,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "name", d->name, "multiprocessors",
        (json_int_t)d->multiprocessors, "l2_bytes", (json_int_t)d->l2_bytes, "unused_bytes",
        (json_int_t)d->unused_bytes, "bytes_per_s", r->within, "flops_per_s",
        json_number(r->products), "pageable_to_device_bytes_per_s", r->to[0],
        "pinned_to_device_bytes_per_s", r->to[1], "device_to_pageable_bytes_per_s", r->from[0],
        "device_to_pinned_bytes_per_s", r->from[1], "launch_host_us",
        json_number(r->launch_us.host), "launch_device_us", json_number(r->launch_us.device),
        "launch_waited_us", json_number(r->launch_us.waited)));
}

static void print(const bench_device *d, const rates *r)
{
    printf("%s: %u multiprocessors, %.0f MiB of second-level cache, %.0f MiB of memory unused\n",
           d->name, d->multiprocessors, (double)d->l2_bytes / (1 << 20),
           (double)d->unused_bytes / (1 << 20));
    printf("copies within the device      %8.1f GB/s, read and written\n", r->within / 1e9);
    printf("copies to the device          %8.1f GB/s from pageable memory, %.1f from pinned\n",
           r->to[0] / 1e9, r->to[1] / 1e9);
    printf("copies from the device        %8.1f GB/s to pageable memory, %.1f to pinned\n",
           r->from[0] / 1e9, r->from[1] / 1e9);
    if (isfinite(r->products))
        printf("products of bf16              %8.1f TFLOP/s\n", r->products / 1e12);
    if (isfinite(r->launch_us.host))
        printf("an empty launch               %8.2f us of the host, %.2f of the device; %.2f until "
               "the host knows\n",
               r->launch_us.host, r->launch_us.device, r->launch_us.waited);
}

static int run_command_line(int argc, char **argv)
{
    int json = 0, code;
    size_t count;
    const char *others[1];
    const option_row options[] = {FORMAT_ROWS(json, "one JSON object")};
    bench_device d;
    rates r;
    if ((code = read_options(&bench_device_rates, argc, argv, options,
                             sizeof options / sizeof *options, others, 0, &count))
        >= 0)
        return code;
    code = bench_device_open(&d);
    if (code == EXIT_OK)
        code = measure(&d, &r);
    if (code == EXIT_OK && json)
        print_as_json(&d, &r);
    else if (code == EXIT_OK)
        print(&d, &r);
    bench_device_close(&d);
    return code;
}

const command bench_device_rates = {
    .name = "device",
    .usage = "device [options]",
    .summary = "rates of the first NVIDIA GPU: copies, products, launches",
    .details = "rates of the first NVIDIA GPU, without the library: copies, products on its tensor "
               "cores,\nempty launches; for programs that were built with CUDA",
    .run = run_command_line};

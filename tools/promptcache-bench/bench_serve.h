/* `bench serve` for a program that has more methods. */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include "workload.h"

/* more [count]: methods beside the usual ones. An exit code. */
int serve_command_line(int argc, char **argv, const method *more, size_t count);

#endif

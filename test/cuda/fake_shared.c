/* The fake devices with all kernels on the model of the machine, as one library in the place of
 * NVIDIA's: for programs that call the runtime themselves, and for the backend "cuda" as it is. The
 * machine begins with the first call. When the program ends, whatever was not given back and every
 * report of the model ends it with an error. */
#include <stdio.h>
#include <stdlib.h>

#include "fake_cuda.h"
#include "fake_kernels.h"

static void end(void)
{
    int left = pc_fake_end();
    if (!left)
        return;
    fprintf(stderr, "fake device: %d things were not given back, or reports of the model\n", left);
    abort();
}

static void start(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    options.late_us = 10;
    options.memory = (size_t)256 << 20;
    pc_fake_kernels_add();
    pc_fake_start(&options);
    atexit(end);
}

__attribute__((constructor)) static void at_load(void)
{
    pc_fake_at_first_call(start);
}

#!/bin/sh
# quick.sh PROGRAM ARGUMENTS...: a test on the fake device whose kernels run without checks of their
# accesses. With PC_TEST_LONG=1: without the arguments, which say what is enough, and with checks.
program=$1
shift
if [ "$PC_TEST_LONG" = 1 ]; then
    exec "$program"
fi
PC_TEST_CUDA_CHECKS=0 exec "$program" "$@"

#!/bin/sh
# program.sh WANTED PROGRAM ARGUMENTS...: runs the program, which must succeed and print WANTED.
# Catches: a model that answers otherwise on the CUDA backend than on the CPU; what the backend
# does not give back, and every fault of a kernel: both end the program (fakecuda.c).
wanted=$1
shift
printed=$("$@" 2>&1) || { echo "$printed"; exit 1; }
case $printed in
*"$wanted"*) ;;
*)
    echo "$printed"
    exit 1
    ;;
esac

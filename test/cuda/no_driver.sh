#!/bin/sh
# no_driver.sh PROGRAM ARGUMENTS...: runs the program on the backend "cuda" of a machine without an
# NVIDIA driver. Catches: a module that does not load, or a machine without a driver that is not
# told so in one line.
printed=$(PC_BACKEND=cuda "$@" 2>&1) && { echo "skipped: there is a device"; exit 77; }
echo "$printed"
case $printed in
*"backend 'cuda': libcuda.so.1 was not found"*) [ "$(echo "$printed" | wc -l)" = 1 ] ;;
*"backend 'cuda': libcuda.so.1"*) echo "skipped: there is a driver"; exit 77 ;;
*) exit 1 ;;
esac

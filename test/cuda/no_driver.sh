#!/bin/sh
# no_driver.sh PROGRAM ARGUMENTS...: runs the program on the backend "cuda" of a machine without an
# NVIDIA driver. Catches: a module that does not load, or a machine without a driver or without
# cuBLASLt that is not told so in one line, there and in `--version`.
case $("$1" --version) in
*"cuda "*"the plug-in module "*"cannot start: no NVIDIA driver was found"*) ;;
*"cuda "*"the plug-in module "*"libcublasLt"*"cannot open shared object file"*)
    echo "skipped: there is no cuBLASLt"
    exit 77
    ;;
*"cuda     /"* | *"cuda    /"*) echo "skipped: there is a device"; exit 77 ;;
*) "$1" --version; exit 1 ;;
esac
printed=$(PC_BACKEND=cuda "$@" 2>&1) && exit 1
echo "$printed"
case $printed in
*"backend 'cuda': "*"cannot start: no NVIDIA driver was found"*)
    [ "$(echo "$printed" | wc -l)" = 1 ]
    ;;
*) exit 1 ;;
esac

#!/bin/sh
# Makes the program that a release leaves: kept_program.c against the library as it is, for machines
# of x86-64. It finds the library by LD_LIBRARY_PATH.
#   keep_program.sh LIBRARY
set -eu
library=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^#define PC_VERSION_M[AI][JN]OR //p' "$root/include/promptcache.h" | paste -sd.)
out=$root/test/abi/released/program-$version-x86_64
cc -std=c11 -D_GNU_SOURCE -O1 -s -ffile-prefix-map="$root"=. -I "$root/include" \
    "$root/test/abi/kept_program.c" -o "$out" "$library" -lm
echo "$out"

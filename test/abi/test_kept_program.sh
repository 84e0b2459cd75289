#!/bin/sh
# Catches: a library that breaks a program which was compiled and linked against an earlier release.
#   test_kept_program.sh ROOT LIBRARY      exit 77: another machine than the programs are for
set -eu
root=$1 library=$2
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the kept programs are for x86-64"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ran=0
for program in "$root"/test/abi/released/program-*-x86_64; do
    [ -x "$program" ] || { echo "$program cannot be run"; exit 1; }
    mkdir "$folder/$ran"
    LD_LIBRARY_PATH=$(dirname "$library") "$program" "$root/models/demo/demo.gguf" "$folder/$ran"
    ran=$((ran + 1))
done
echo "$ran kept programs"

#!/bin/sh
# Catches: an instruction that an older CPU lacks and that runs there all the same; a choice of
# kernels that fails on a CPU without AVX, or without XSAVE, which tells about AVX.
# emulated.sh QEMU CPU WANTED PROGRAM...: the output under emulation of this CPU contains WANTED
set -eu
qemu=$1 cpu=$2 wanted=$3
shift 3
command -v "$qemu" >/dev/null || { echo "skipped: no qemu-x86_64 (Debian: qemu-user)"; exit 77; }
unset PC_CPU_MASK
status=0
output=$("$qemu" -cpu "$cpu" "$@" 2>&1) || status=$?
echo "$output" | grep -v "TCG doesn't support" || true
[ "$status" = 0 ] || { echo "ended with $status"; exit "$status"; }
case $output in *"$wanted"*) ;; *) echo "'$wanted' is not in it"; exit 1 ;; esac

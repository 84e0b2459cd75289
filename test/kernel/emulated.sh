#!/bin/sh
# Catches: an instruction that an older CPU lacks, reached on it; a choice of kernels that fails
# where there is no AVX, or no XSAVE to ask about it.
# emulated.sh QEMU CPU WANTED PROGRAM...: what it prints under emulation of this CPU has WANTED
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

#!/bin/sh
# nvcc.sh LOG NVCC ARGUMENTS...: runs nvcc and keeps its report of registers in LOG, which is shown
# if there was an error.
log=$1
shift
"$@" >"$log" 2>&1 || { status=$?; cat "$log"; exit $status; }

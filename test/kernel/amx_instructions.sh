#!/bin/sh
# Catches: a library without the tile instructions, whatever its tests are run on.
# amx_instructions.sh OBJDUMP LIBRARY
set -eu
code=$("$1" -d --no-show-raw-insn "$2")
for instruction in ldtilecfg tilerelease tilezero tileloadd tilestored tdpbf16ps; do
    count=$(printf '%s\n' "$code" | grep -cw "$instruction" || true)
    echo "$instruction: $count"
    [ "$count" -gt 0 ]
done

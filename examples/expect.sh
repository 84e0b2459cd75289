#!/bin/sh
# expect.sh CODE PATTERN... -- COMMAND...: runs the command. Its exit code must be CODE, and its
# output (both streams as one text, line breaks as blanks) must match every extended regular
# expression.
set -u
code=$1
shift
patterns=$(mktemp)
trap 'rm -f "$patterns"' EXIT
while [ "$1" != -- ]; do
    printf '%s\n' "$1" >>"$patterns"
    shift
done
shift
output=$("$@" 2>&1)
got=$?
printf '%s\n' "$output"
[ "$got" = "$code" ] || { echo "exit code $got, expected $code"; exit 1; }
text=$(printf '%s' "$output" | tr '\n' ' ')
while IFS= read -r pattern; do
    printf '%s\n' "$text" | grep -qE -e "$pattern" ||
        { echo "not in the output: $pattern"; exit 1; }
done <"$patterns"

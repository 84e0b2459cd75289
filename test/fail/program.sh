# shellcheck shell=sh disable=SC2015,SC2034,SC2086
# The tests of the programs source this file with their own arguments, SOURCE PROGRAM. It has a
# working folder, checks, and `finish`, the last line of a test. Files count the checks, since some
# run behind a pipe. (For shellcheck: `fault` after A && B || belongs to both; the tests use the
# variables; $under is a list of words.)
set -u
unset PC_REMOTE PC_SALT
source=$1 program=$2
patience=120    # seconds of a run
under=          # words before the arguments of `expect`
input=/dev/null # of `expect`
silent=         # set: a run that ends with an error writes nothing to standard output
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
: >runs
: >faults

fault() {
    echo "failed: $1"
    echo "$1" >>"$work/faults"
    sed 's/^/    /' err | head -n 4
}

# judge CODE TEXT WHAT: of the run that has left `code`, `out` and `err`
judge() {
    echo "$3" >>"$work/runs"
    if [ "$code" != "$1" ]; then
        fault "$3: exit code $code, not $1"
    elif ! grep -qF -e "$2" out err; then
        fault "$3: neither output has '$2'"
    elif [ -n "$silent" ] && [ "$1" -ge 2 ] && [ "$1" != 130 ] && [ -s out ]; then
        fault "$3: an error that also writes to standard output"
    fi
}

# expect CODE TEXT ARGUMENTS...
expect() {
    wanted=$1 text=$2
    shift 2
    timeout "$patience" "$program" $under "$@" <"$input" >out 2>err
    code=$?
    judge "$wanted" "$text" "$*"
}

# equal WHAT A B; holds WHAT EXPRESSION: of awk
equal() {
    echo "$1" >>"$work/runs"
    [ -n "$2" ] && [ "$2" = "$3" ] || fault "$1: '$2', not '$3'"
}
holds() {
    echo "$1" >>"$work/runs"
    awk "BEGIN { exit !($2) }" </dev/null 2>>err || fault "$1: not $2"
}

finish() {
    echo "checks: $(wc -l <"$work/runs") runs, $(wc -l <"$work/faults") failed"
    [ ! -s "$work/faults" ]
}

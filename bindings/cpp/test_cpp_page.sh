#!/bin/sh
# test_cpp_page.sh PAGE RESULTS README TEXT MODEL SCHEMA PROMPT: runs the programs of doc/cpp.md and
# of the header's example. Catches: a page or an example that prints something else than it says.
set -eu
page=$1 results=$2 readme=$3 text=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
"$page" "$@" >"$folder/page"
diff "$text" "$folder/page" || fail "doc/cpp.md shows another text than its program prints"
[ "$("$results" "$@")" = "4 layers" ] || fail "without exceptions: $("$results" "$@")"
case $("$results" nowhere.gguf) in
"PC_ERR_NOT_FOUND: "*nowhere.gguf*) ;;
*) fail "without exceptions, an error: $("$results" nowhere.gguf)" ;;
esac
answer=$("$readme" "$@" | paste -s -d ' ')
[ "$answer" = "The desk of Peter Novak is 368. 0 of 601 tokens came from the cache" ] ||
    fail "the header's example: $answer"
! "$readme" nowhere "$2" "$3" 2>"$folder/error" || fail "the header's example takes any model"
grep -q '^PC_ERR_NOT_FOUND: ' "$folder/error" || fail "an error: $(cat "$folder/error")"

#!/bin/sh
# Catches: a folder that uses one it may not, a program or example that reaches into lib/, files and
# functions that have grown too long, file names that are not unique, memory that is not taken
# through lib/base/mem.c.
# shellcheck disable=SC2013,SC2044,SC2046 # no name in the tree has a blank
set -eu
cd "$1"
bad=0
fault() { echo "$1"; bad=1; }

# allowed FOLDER "FOLDERS": what its includes may start with
allowed() {
    for file in $(find "lib/$1" -name '*.[ch]'); do
        for used in $(sed -n 's|^#include "\([a-z]*\)/.*|\1|p' "$file"); do
            case " $2 " in *" $used "*) ;; *) fault "$file includes from $used/" ;; esac
        done
    done
}
allowed base "base"
allowed text "base text"
allowed pml "base text pml"
allowed attn "base attn"
allowed model "base text attn model"
allowed store "base attn store"
allowed memo "base attn model memo"
allowed serve "base text pml attn model store memo serve"

seen=$(grep -nE '(->|\.)native([^a-z_]|$)|pc__native' \
    $(find lib/memo lib/serve -name '*.[ch]') || true)
[ -z "$seen" ] || fault "only lib/model knows which models are ours (model/model_states.h): $seen"

inside=$(grep -lE '#include "(base|text|pml|attn|model|store|memo|serve)/' \
    $(find tools examples -name '*.[ch]') 2>/dev/null || true)
[ -z "$inside" ] || fault "public header only: $inside"

for file in $(find lib tools test include examples -name '*.[ch]'); do
    most=800
    case "$file" in
    include/promptcache.h) most=1100 ;;
    test/abi/layout_v*.c) continue ;; # printed by test/abi/freeze.py
    esac
    [ "$(wc -l <"$file")" -le $most ] || fault "$file has over $most lines"
done
twins=$(find lib tools -name '*.c' -exec basename {} .c \; | sort | uniq -d)
[ -z "$twins" ] || fault "file names that are not unique: $twins"
taken=$(grep -rnE '(^|[^_a-zA-Z>.])(malloc|calloc|realloc|free)\(' lib --include='*.c' |
    grep -v '^lib/base/mem.c:' || true)
[ -z "$taken" ] || fault "memory not through lib/base/mem.h: $taken"
if ctags --version 2>/dev/null | grep -q Universal; then
    long=$(ctags -R --languages=C --c-kinds=f --fields=+ne -f - lib tools | awk -F'\t' '{ s = e = 0
        for (i = 4; i <= NF; i++) {
            if ($i ~ /^line:/) s = substr($i, 6)
            if ($i ~ /^end:/) e = substr($i, 5)
        }
        if (e && e - s + 1 > 100) print $2 ": " $1 " has " e - s + 1 " lines" }')
    [ -z "$long" ] || fault "$long"
fi
# The lists of tests that tools/test.sh leaves out name tests.
left_out=$(awk '/any_of "$/ { on = 1; next } on { print } /"\)\)/ { on = 0 }' tools/test.sh)
for name in $(echo "$left_out" | tr -d '")$'); do
    case $name in *[.*]*) continue ;; esac
    [ -n "$(find test -name "test_$name.*")" ] ||
        grep -qE "NAME test_$name( |\$)" test/*/CMakeLists.txt ||
        fault "tools/test.sh leaves out test_$name, which is not a test"
done
[ "$bad" = 0 ] && echo "the rules hold"

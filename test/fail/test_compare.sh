#!/bin/sh
# Catches: our side of tools/compare that fails on a command of its protocol, with the demo model in
# every number format; a script that does not say first what it lacks.
#   test_compare.sh SOURCE PEER
# shellcheck disable=SC2015 # both sides of the || are one check
source=$1 peer=$2
for compute in default f32 bf16 int8; do
    answers=$(printf '%s\n' "prefill 64" "ttft 96 16" "decode 32 4" "shared 64 16 4 3" "nonsense" \
        | "$peer" "$source/models/demo/demo.gguf" 2 $compute)
    [ "$(printf '%s\n' "$answers" | grep -c '"seconds": \[')" = 5 ] && [ \
        "$(printf '%s\n' "$answers" | grep -c '"error"')" = 1 ] || {
        echo "$compute: $answers"
        exit 1
    }
done
"$peer" "$source/models/demo/none.gguf" 2 default </dev/null | grep -q '"error"' || exit 1
"$peer" 2>/dev/null && exit 1

# A machine without numpy and compilers: all that is missing is named at once, and nothing is
# fetched or written.
python=$(python3 -c 'import sys; print(sys.executable)') || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
said=$(PATH=$folder "$python" -S -I "$source/tools/compare/peers.py" prepare \
    --work "$folder/work" --build "$folder" 2>&1)
[ $? = 2 ] || { echo "prepare went on: $said"; exit 1; }
for what in cmake c++ numpy libpromptcache.so; do
    case $said in *"needs $what"* | *"/$what"*) ;; *) echo \
        "prepare does not say that $what is missing: $said"; exit 1 ;; esac
done
[ ! -e "$folder/work" ] || { echo "prepare began without what it needs"; exit 1; }

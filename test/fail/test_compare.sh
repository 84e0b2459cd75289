#!/bin/sh
# Catches: our side of tools/compare that no longer builds or runs: every command of its protocol on the demo model, in every way of computing.
#   test_compare.sh SOURCE PEER
# shellcheck disable=SC2015 # both sides of the || are one check
source=$1 peer=$2
for compute in default f32 bf16 int8; do
    answers=$(printf '%s\n' "prefill 64" "ttft 96 16" "decode 32 4" "shared 64 16 4 3" "nonsense" | "$peer" "$source/models/demo/demo.gguf" 2 $compute)
    [ "$(printf '%s\n' "$answers" | grep -c '"seconds": \[')" = 5 ] && [ "$(printf '%s\n' "$answers" | grep -c '"error"')" = 1 ] || {
        echo "$compute: $answers"
        exit 1
    }
done
"$peer" "$source/models/demo/none.gguf" 2 default </dev/null | grep -q '"error"' || exit 1
"$peer" 2>/dev/null && exit 1
exit 0

#!/bin/sh
# calls_a_token.sh LIMITS PROGRAM ARGUMENTS...: what the backend calls for one decoded token of a
# model, by the counts of the fake device for 10 and for 30 tokens. LIMITS: "FUNCTION MOST ...".
# Catches: work that is done once a layer instead of once a pass, and comes back unseen: the answers
# stay the same.
limits=$1
shift
counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT
for tokens in 10 30; do
    PC_TEST_CUDA_COUNTS=1 PC_TEST_CUDA_CHECKS=0 "$@" --max-tokens $tokens --min-tokens $tokens \
        --ignore-end 2>"$counts/all" >"$counts/answer" || { cat "$counts/all"; exit 1; }
    sed -n 's/^fake device: *//p' "$counts/all" >"$counts/$tokens"
done
awk -v limits="$limits" '
    { name = $0; sub(/^[0-9]+ /, "", name); sub(/, .*/, "", name) }
    NR == FNR { before[name] = $1; next }
    { each[name] = ($1 - before[name]) / 20; if (each[name]) printf "%8.2f %s\n", each[name], name }
    END {
        n = split(limits, limit)
        for (i = 1; i < n; i += 2)
            if (!(limit[i] in each) || each[limit[i]] > limit[i + 1]) {
                printf "%s: %s a token, at most %s\n", limit[i], each[limit[i]], limit[i + 1]
                failed = 1
            }
        exit failed
    }' "$counts/10" "$counts/30"

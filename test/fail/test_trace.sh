#!/bin/sh
# Catches: `bench trace` that counts hits wrongly, or simulates LRU or the best store wrongly; a
# store that finds fewer blocks of real traffic than LRU, with or without a flood of new prompts, or
# that exceeds its budget; damaged traces and wrong options that are accepted.
# shellcheck disable=SC2238 # `cut` is a file here
. "$1/test/fail/program.sh"
under="bench trace"
patience=250
data=${PC_TEST_DATA:-$source/../shared}/data/mooncake-trace

# value KEY ROW: of the row of that number in ./out
value() {
    grep -o "\"$1\":[0-9.e+-]*" out | sed -n "$2s/.*://p"
}

# Room for two of three blocks: LRU gives up the second for the third, and misses it at the end; who
# knows the future does not keep the third.
{
    printf '{"hash_ids":[7]}\n{"hash_ids":[9]}\n{"hash_ids":[7]}\n{"hash_ids":[100]}\n\n'
    printf '{"hash_ids":[7]}\n{"hash_ids":[9]}\n'
} >small
expect 0 '"look_ups":6,"distinct":3' --trace small --share 2/3,1 --json --plot small.svg
holds "best of all" "$(value hits_best_unlimited 1) == 50"
holds "LRU" "$(value hits_lru 1) > 33.3 && $(value hits_lru 1) < 33.4"
holds "best with two" "$(value hits_best 1) == 50"
holds "everything fits" \
    "$(value hits 2) == 50 && $(value hits_lru 2) == 50 && $(value saved 2) == 50"
holds "no better than the best" "$(value hits 1) <= 50"
[ -s small.svg ] || fault "no picture"
expect 0 "blocks found" --trace small --flood 3
expect 0 "usage" --help
expect 2 "--trace is missing"
expect 2 "--share takes" --trace small --share 1,x
expect 2 "--share takes" --trace small --share 2
expect 2 "--share takes" --trace small --share 1/0
expect 2 "--share is empty" --trace small --share ""
expect 3 "nowhere" --trace nowhere
printf '{"hash_ids":[1]}\n{"hash_ids":[1,' >cut
expect 3 "cut: line 2" --trace cut
printf '{"hash_ids":[-1]}\n' >negative
expect 3 "hash_ids[0]" --trace negative
printf '{"hashes":[1]}\n' >other
expect 3 'no array "hash_ids"' --trace other
: >empty
expect 3 "no requests" --trace empty

for name in conversation synthetic; do
    [ -f "$data/${name}_trace.jsonl" ] || { echo "without the traces of $data"; continue; }
    for flood in 0 40; do
        expect 0 '"rows"' --trace "$data/${name}_trace.jsonl" --share 1/4,1/16 --block-bytes 1024 \
            --flood $flood --json
        for row in 1 2; do
            holds "$name, flood $flood, row $row: above LRU" \
                "$(value hits $row) > $(value hits_lru $row) && \
                 $(value saved $row) > $(value saved_lru $row)"
            holds "$name, flood $flood, row $row: possible" \
                "$(value hits $row) <= $(value hits_best $row)"
            [ -n "${PC_TEST_NO_MEMORY:-}" ] || holds "$name, flood $flood, row $row: memory" \
                "$(value rss_bytes $row) < 1.02 * $(value budget_bytes $row) + 1048576"
            holds "$name, flood $flood, row $row: all kept" "$(value refused $row) == 0"
        done
    done
done
finish

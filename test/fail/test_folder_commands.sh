#!/bin/sh
# Catches: inspect, verify and evict that report something wrong about a folder of records, miss
# damage, remove the wrong record, exit with the wrong code, write JSON without its keys, or open a
# folder without records.
. "$1/test/fail/program.sh"

model=$source/models/demo/demo.gguf
head -c 32 /dev/zero | tr '\0' 'k' >key
head -c 32 /dev/zero | tr '\0' 'x' >wrong
echo "no key" >no-key
chmod 600 key wrong no-key
expect 0 "in disk" encode --model "$model" --schema "$source/examples/pml/city-guide.pml" \
    --disk records
expect 0 "in disk" encode --model "$model" --schema "$source/examples/pml/city-guide.pml" \
    --disk sealed --seal-key-file key

# what is there
expect 0 " records, " inspect records
expect 0 '"architecture":"llama"' inspect records --json
count=$(wc -l <out)
equal "records and files" "$count" "$(find records -name '*.pcr' | wc -l)"
equal "bytes of a record" "$(sed -n '1s/.*"file_bytes":\([0-9]*\).*/\1/p' out)" \
    "$(wc -c <"$(find records -name '*.pcr' | sort | head -n 1)" | tr -d ' ')"
first=$(sed -n '1s/.*"key":"\([0-9a-f]*\)".*/\1/p' out)
last=$(sed -n '$s/.*"key":"\([0-9a-f]*\)".*/\1/p' out)
expect 0 "$first" inspect records "$first"
expect 0 "token ids" inspect records "$(echo "$first" | cut -c1-10)" --tokens
expect 0 '"token_ids":[' inspect records "records/$(echo "$first" | cut -c1-2)/$first.pcr" \
    --tokens --json
expect 0 "sealed" inspect sealed
sealed=$(find sealed -name '*.pcr' | head -n 1)
expect 3 "its key was not given" inspect sealed "$(basename "$sealed" | cut -c1-64)" --tokens
expect 3 "there is no record" inspect sealed "$first"
expect 0 "name   " inspect sealed "$first" --seal-key-file key
expect 0 "sealed, no key was given, key" inspect sealed
expect 0 "sealed with another key, key" inspect sealed --seal-key-file wrong
expect 0 '"opened":false' inspect sealed --json --seal-key-file wrong
expect 0 '"opened":true' inspect sealed --json --seal-key-file key
expect 0 "another key, key $(basename "$sealed" .pcr | cut -c66-)" inspect sealed "$sealed" \
    --seal-key-file wrong
expect 0 "token ids" inspect sealed "$sealed" --tokens --seal-key-file key
expect 2 "is not a key" inspect records not-hexadecimal
# shellcheck disable=SC2016 # the quotes are of the message
expect 3 'there is no record 0000000000000000; `promptcache inspect` lists' inspect records \
    0000000000000000
expect 2 "a folder is needed" inspect
expect 3 "No such file" inspect nowhere
expect 3 "not a folder of records" inspect "$source/doc"
expect 3 "Not a directory" inspect "$source/README.md"
expect 3 "a key has 32 bytes" inspect sealed --seal-key-file no-key

# whether it is whole
expect 0 "$count records: $count good, 0 bad" verify records
expect 0 "$count good" verify sealed --seal-key-file key
expect 1 "frame only: sealed, and no key was given" verify sealed
expect 1 "0 good, 0 bad, $count frame only" verify sealed --seal-key-file wrong
expect 1 "frame only: another key" verify sealed --seal-key-file wrong --quiet
expect 1 '"frame":"frame only: another key"' verify sealed --seal-key-file wrong --json
expect 0 "$count frame only" verify sealed --frame --quiet
expect 0 "ok " verify records --key "$first"
cp -r records damaged
file=damaged/$(echo "$first" | cut -c1-2)/$first.pcr
chmod u+w "$file" # records are not writable
printf 'x' | dd of="$file" bs=1 seek=5000 conv=notrunc 2>/dev/null
expect 1 "bad   $first" verify damaged
expect 1 "1 bad" verify damaged --quiet
expect 1 '"ok":false' verify damaged --json --key "$first"
expect 0 '"ok":true' verify damaged --json --key "$last"
expect 0 " records, " inspect damaged
dd if=/dev/zero of="$file" bs=1 count=100 conv=notrunc 2>/dev/null
expect 1 "damaged" inspect damaged
expect 1 '"readable":false' inspect damaged "$first" --json
expect 1 "1 bad" verify damaged --quiet
expect 2 "one argument too many" verify damaged more

# a new key: the states of both lie side by side, each is found by its own; then the old ones go
expect 0 "$count new segments" encode --model "$model" \
    --schema "$source/examples/pml/city-guide.pml" --disk sealed --seal-key-file wrong
expect 0 "nothing was missing" encode --model "$model" \
    --schema "$source/examples/pml/city-guide.pml" --disk sealed --seal-key-file wrong
expect 0 "nothing was missing" encode --model "$model" \
    --schema "$source/examples/pml/city-guide.pml" --disk sealed --seal-key-file key
expect 1 "$count good, 0 bad, $count frame only" verify sealed --seal-key-file wrong
cp -r records twice
cp "records/$(echo "$first" | cut -c1-2)/$first.pcr" \
    "twice/$(echo "$first" | cut -c1-2)/$first.other.pcr"
expect 3 "name one by its file" inspect twice "$first"
expect 2 "the key whose records stay" evict sealed --other-keys
expect 0 "$count removed" evict sealed --other-keys --seal-key-file wrong
expect 0 "$count good, 0 bad" verify sealed --seal-key-file wrong
# records under names of others: verify reports them, and the next writer replaces them
# shellcheck disable=SC2044 # no name has a blank
for planted in $(find sealed -name '*.pcr'); do
    rm -f "$planted" && cp "records/$(echo "$first" | cut -c1-2)/$first.pcr" "$planted"
done
expect 1 "it holds the record of another key" verify sealed --seal-key-file wrong
expect 0 "$count new segments" encode --model "$model" \
    --schema "$source/examples/pml/city-guide.pml" --disk sealed --seal-key-file wrong
expect 0 "$count good, 0 bad" verify sealed --seal-key-file wrong

# what goes
expect 2 "one of --to" evict records
expect 2 "one of --to" evict records --all --expired
expect 2 "is not a size" evict records --to much
expect 0 "0 removed" evict records --expired
expect 0 "1 removed" evict records --key "$last"
[ ! -e "records/$(echo "$last" | cut -c1-2)/$last.pcr" ] || fault "the record is still there"
expect 3 "there is no record" evict records --key "$last"
echo half >records/new/left-behind
expect 0 '"removed":' evict records --to 300K --json
[ "$(find records -name '*.pcr' -exec cat {} + | wc -c)" -le 307200 ] || fault \
    "evict --to leaves too much"
[ ! -e records/new/left-behind ] || fault "evict leaves what a writer left"
expect 0 " removed" evict records --all
expect 0 "0 records" inspect records
for command in inspect verify evict; do
    expect 0 "usage: promptcache $command" $command --help
done

finish

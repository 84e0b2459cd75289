#!/bin/sh
# Catches: `memo` commands and `bench memo` that read data wrongly (quotes, columns, headers,
# damaged rows), tune beyond the limit, report a score or hit rate that contradicts its parts,
# change thresholds that should stay, accept wrong options or the memo of another model, or leave
# files behind; JSON or pictures without their parts; Ctrl-C that does not end them.
# shellcheck disable=SC2086 # lists of words
. "$1/test/fail/program.sh"
model=$source/models/demo/demo.gguf

# value KEY LINE: of that line of JSON in ./out
value() {
    sed -n "$2p" out | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"
}

# ---- options
expect 0 "usage: promptcache memo build" memo --help
expect 2 "usage: promptcache memo" memo
expect 2 "there is no command 'nope'" memo nope
for part in build tune eval show; do
    expect 0 "usage: promptcache memo $part" memo $part --help
    expect 2 "there is no option --nope" memo $part --nope
    expect 2 "--model is needed" memo $part
    expect 2 "--memo is needed" memo $part --model "$model"
done
m="--model $model --memo memo"
expect 2 "--data is needed" memo eval $m
expect 2 "has no score" memo eval $m --data x.txt --kind texts
expect 2 "--kind labels needs --train" memo eval $m --data x.tsv --kind labels
expect 2 "--train needs --kind labels" memo eval $m --data x.tsv --kind pairs --train y
expect 2 "as in 0.99,tuned" memo eval $m --data x.tsv --thresholds 0.9,
expect 2 "as in 0.99,tuned" memo eval $m --data x.tsv --thresholds 1.5
expect 2 "these rows need three" memo eval $m --data x.tsv --columns 1,2
expect 2 "one of --loss and --measure" memo tune $m --data x.txt --limit 1
expect 2 "--limit is needed" memo tune $m --data x.txt --loss cosine
expect 2 "is none of: cosine changed kl" memo tune $m --data x.txt --loss nope --limit 1
expect 2 "accuracy needs labels or choices" memo tune $m --data x.txt --kind pairs \
    --measure accuracy --limit 1
expect 2 "leaves nothing to do" memo build $m --no-train
expect 2 "ascending lengths" memo build $m --data x.txt --buckets 32,16
expect 3 "No such file" memo build $m --data missing.txt
expect 3 "cannot be written" memo eval $m --data x.csv --plot /nowhere/x.svg

# ---- data: 240 questions of two lengths with one answer each, pairs of them, and hostile rows
awk 'BEGIN {
    for (i = 0; i < 240; i++) {
        c = i % 4; n = i % 3
        printf "{\"prompt\": \"The desk of Anna is %d. The room is %d. The desk of Anna is\", " \
            "\"choices\": [\" %d\", \" x\"], \"answer\": %d}\n", 100 + i, 300 + c, 100 + i, 0
    }
}' >choices.jsonl
awk 'BEGIN {
    print "a,b,score"
    for (i = 0; i < 160; i++)
        printf "\"The room, in \"\"town\"\" %d\",The hotel in town %d,%s\r\n", i, i % 7, \
            i % 5 ? i % 6 : ""
    print "\"The room \"in\" town 9\",The hotel in town 9,3"
    print "\"never closed,The hotel,2"
    print "one,two"
    print "three,four,5.0"
}' >pairs.csv
expect 0 "2 damaged rows skipped" memo build $m --kind pairs --data pairs.csv \
    --no-train --buckets 8,64
grep -qF "32 pairs without a score" err || fault "pairs without a score are not counted"
grep -qF "data: 324 inputs of 162 rows" err || fault "the rows of pairs are not those of the file"
expect 3 "there is no column 'nope'" memo build $m --kind pairs --data pairs.csv \
    --columns nope,b,score
expect 0 "of 162 rows" memo build $m --kind pairs --data pairs.csv --columns a,b,score --no-train
printf 'x\ty\n' >two.tsv
expect 3 "there is no column '3'" memo build $m --kind pairs --data two.tsv --no-train
printf '{"text": "a b c"}\nnot json\n{"text": 5}\n{"other": "x"}\n' >texts.jsonl
expect 0 "2 inputs of 3 rows" memo build $m --data texts.jsonl --no-train
grep -qF "2 damaged rows" err || fault "damaged lines of JSON are not counted"
mkdir folder
printf 'one line of text\nanother line of it\n' >folder/a.txt
printf 'x' >folder/b.bin
expect 0 "2 inputs of 2 rows" memo build $m --data folder --no-train
expect 3 "no row that can be used" memo build $m --data two.tsv --kind choices
printf 'word %.0s' $(seq 40) >long.txt
expect 0 "1 too long: cut" memo build $m --data long.txt --no-train --max-tokens 12

# ---- build, train, tune, judge
expect 0 "tokens" memo build $m --kind choices --data choices.jsonl --epochs 1
grep -q "added 240 of 240" err || fault "not all questions were added"
grep -qE "^9-64 +[0-9]+ +yes" out || fault "the bucket is not trained"
expect 0 "added 0 of 240" memo build $m --kind choices --data choices.jsonl --no-train
expect 0 "closed: not tuned yet" memo show $m
grep -q "closed: not trained yet" out || fault "a bucket without a projector does not say so"

# ---- answers after a hit: the prompt itself, another one, one of a bucket that is closed; and no
# memo is made by asking
first="The desk of Anna is 100. The room is 300. The desk of Anna is"
expect 0 "maps of record" run $m --text "$first" --max-tokens 4
grep -q "states: approximate (with its own attention maps" out || fault \
    "a hit does not say that it is approximate, and why"
expect 0 '"memo_reason":"not trained or tuned yet"' run $m --text "The" --max-tokens 2 --json
expect 0 '"memo_reason":null' run --model "$model" --text "The" --max-tokens 2 --json
expect 0 '"tokens_memo":0' run $m \
    --text "The lamp of Anna is 100. The room is 300. The desk of Anna is" --max-tokens 2 --json
expect 0 '"memo_layers":4' run $m \
    --text "The lamp of Anna is 100. The room is 300. The desk of Anna is" --max-tokens 2 \
    --json --threshold -1000
grep -q '"exactness":"approximate"' out || fault "a forced hit does not say that it is approximate"
expect 0 "states: approximate (with attention maps of another prompt)" run $m --text \
    "The lamp of Anna is 100. The room is 300. The desk of Anna is" --max-tokens 2 --threshold -1000
expect 0 "not used (not a plain prompt)" run $m --system The --user hotel --max-tokens 2
expect 2 "--threshold needs --memo" run --model "$model" --text a --threshold 0.5
expect 2 "from -1000 to 1" run $m --text a --threshold 2
expect 3 "memo: nowhere: " run --model "$model" --text a --memo nowhere
test ! -e nowhere || fault "run has made a memo"
tail -n 200 choices.jsonl | sed 's/The room is/The lamp is/' >dev.jsonl
expect 0 '"threshold":"tuned"' memo tune $m --kind choices --data dev.jsonl --measure accuracy \
    --limit 0 --json --plot tune.svg
line=$(grep -n '"threshold":"tuned"' out | cut -d: -f1)
holds "tuned within the limit" "$(value loss "$line") <= 0"
grep -q "</svg>" tune.svg || fault "tune --plot: no picture"
expect 0 '"trained":true' memo show $m --json
cp out shown
grep -q '"hit_loss":[^,]*,"hit_loss_high":[^,]*,"hit_loss_worst":' out || fault \
    "show does not say what hits lost"
expect 0 '"threshold":"tuned"' memo eval $m --kind choices --data dev.jsonl \
    --thresholds -1000,1,tuned,lazy,san --repeats 1 --json --plot eval.svg
holds "at -1000 all are hits" "$(value hit_rate 1) == 1"
holds "at 1 none are" "$(value hit_rate 2) == 0 && $(value loss 2) == 0"
holds "forced hits lose" \
    "$(value hit_loss 1) >= 0 && $(value hit_loss_high 1) <= $(value hit_loss_worst 1) && \
     $(value hit_loss_worst 1) <= 1 && $(value exact_rate 1) == 0"
sed -n 2p out | grep -q '"hit_loss":null' || fault "where nothing hits there is no loss of hits"
holds "tuned: the loss that was tuned for" \
    "$(value loss 3) <= 0 && $(value full_score 3) == $(value full_score 1)"
holds "baselines need no memo" \
    "$(value hit_rate 4) == 0 && $(value hit_rate 5) == 0 && \
     $(value score 4) >= 0 && $(value score 5) >= 0"
holds "times" \
    "$(value full_s 1) > 0 && $(value memo_s 1) > 0 && \
     $(value features_s 1) + $(value search_s 1) + $(value maps_s 1) < $(value memo_s 1)"
none=1,1,1,1,1,1,1,1,1,1 # the times of some are better by chance
expect 0 '"gamma":null' memo eval $m --kind choices --data dev.jsonl --thresholds $none \
    --repeats 1 --limit-rows 60 --json
equal "where nothing hits there is no price of speed" "$(grep -c '"gamma":null' out)" 10
expect 0 "hits %" memo eval $m --kind choices --data dev.jsonl --thresholds $none --repeats 1 \
    --limit-rows 60
equal "nor is one in the table" "$(grep -cE '^1 .* -$' out)" 10
expect 0 '"trained":true' memo show $m --json
cmp -s out shown || fault "eval left another memo than it found"
expect 0 "Spearman" memo eval $m --kind pairs --data pairs.csv --thresholds 0.99 --repeats 1
expect 0 "tokens" memo tune $m --kind choices --data dev.jsonl --loss cosine --limit 0.001
expect 0 '"open":true' memo tune $m --kind choices --data dev.jsonl --loss cosine --limit 1 \
    --hit-limit 2 --json
worst=$(sed -n 's/.*"open":true.*"hit_loss_worst":\([0-9.e-]*\).*/\1/p' out)
holds "the worst hit is printed" "$worst > 0"
expect 0 "hits lose" memo show $m
expect 0 '"min_tokens"' memo tune $m --kind choices --data dev.jsonl --loss cosine --limit 1 \
    --hit-limit "$(awk "BEGIN { print $worst / 2 }")" --hit-percentile 100 --json
most=$(sed -n 's/.*"hit_loss_worst":\([0-9.e-]*\).*/\1/p' out | sort -g | tail -n 1)
holds "no hit loses more than it may" "$most + 0 <= $worst / 2"
expect 0 "hits lose" memo tune $m --kind choices --data dev.jsonl --measure accuracy --limit 100 \
    --hit-limit 0.5 --dry
expect 2 "from 0 to 100" memo tune $m --kind choices --data dev.jsonl --loss cosine --limit 1 \
    --hit-limit -1
expect 2 "from 1 to 100" memo eval $m --kind choices --data dev.jsonl --hit-percentile 0

# ---- what is remembered word for word comes back as it was
expect 0 "hits %" memo eval $m --kind choices --data choices.jsonl --thresholds 1 --repeats 1
expect 0 '"exact_rate":1.0' memo eval $m --kind choices --data choices.jsonl --thresholds 1 \
    --repeats 1 --json
holds "and loses nothing" "$(value loss 1) == 0 && $(value hit_rate 1) == 1"
expect 0 '"outputs":' memo show $m --json
equal "all records keep their outputs" "$(sed -n '$s/.*"outputs":\([0-9]*\).*/\1/p' out)" \
    "$(sed -n '$s/.*"live":\([0-9]*\).*/\1/p' out)"
p="--model $model --memo plain --kind choices"
expect 0 "added 240 of 240" memo build $p --data choices.jsonl --no-train --outputs none
expect 0 "240 records, 0 with their outputs" memo show --model "$model" --memo plain
expect 0 '"exact_rate":0.0' memo eval $p --data choices.jsonl --thresholds 1 --repeats 1 --json
# they lacked them
expect 0 "added 240 of 240" memo build $p --data choices.jsonl --no-train --outputs logits
expect 0 "240 records, 240 with their outputs" memo show --model "$model" --memo plain
expect 0 '"exact_rate":1.0' memo eval $p --data choices.jsonl --thresholds 1 --repeats 1 --json
expect 2 "needs --outputs embeddings" memo build $p --data choices.jsonl --outputs logits \
    --pool mean
for i in 1 2 3 4 5 6 7 8 9; do printf 'good day number %d\tyes\nbad night number %d\tno\n' $i $i; \
    done >labels.tsv
expect 0 "accuracy 100.00 of 18 items" memo eval $m --kind labels --data labels.tsv \
    --train labels.tsv --thresholds tuned --repeats 1

# ---- no folder
expect 3 "memo" memo show --model "$model" --memo folder/a.txt

# ---- bench
expect 2 "exclude each other" bench memo --shape tiny --model "$model"
expect 2 "as in 128,512" bench memo --shape tiny --length x
expect 3 "there is no shape 'nope'" bench memo --shape nope
expect 0 '"length":48,"batch":2,"full_us":' bench memo --shape tiny --length 48,3000 --batch 2 \
    --repeats 2 --json --folder "$work" --plot bench.svg
for key in full_us hit_us speedup bound_speedup miss_overhead; do
    holds "bench: $key" "\"$(value $key 1)\" != \"\""
done
holds "bench: speed-up" "($(value full_us 1) / $(value hit_us 1) - $(value speedup 1)) ^ 2 < 1e-6"
grep -q "batch 2: bound" bench.svg || fault "bench --plot: the picture lacks the bound"
for left in "$work"/promptcache-memo-*; do
    [ ! -e "$left" ] || fault "bench left $left behind"
done

# ---- Ctrl-C
awk 'BEGIN {
    for (i = 0; i < 40000; i++) {
        for (j = 0; j < 7; j++) printf "word%d ", i * j
        print ""
    }
}' >many.txt
timeout --foreground --preserve-status -s INT 1 "$program" memo build $m --data many.txt \
    --no-train >out 2>err </dev/null
code=$?
echo "Ctrl-C" >>runs
[ "$code" = 130 ] || fault "Ctrl-C: exit code $code"
expect 0 "records" memo show $m

finish

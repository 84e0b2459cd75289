#!/bin/sh
# Runs what the tables of doc/memo.md show:  sh tools/memo_table.sh PROGRAM ENCODER DATA WORK [ROWS]
#   PROGRAM  the program promptcache
#   ENCODER  folder of a sentence encoder (all-MiniLM-L6-v2)
#   DATA     folder with stsb/, sts/, sst2/  WORK     folder for memos and results, made if need be
#   ROWS     at most so many rows of each set that is judged (all)
# A memo that is there is used again.
set -eu
program=$1 encoder=$2 data=$3 work=$4 rows=${5:-1000000}
here=$(cd "$(dirname "$0")" && pwd)
demo=$here/../models/demo/demo.gguf
thresholds=0.995,0.99,0.95,tuned,lazy,san
mkdir -p "$work"

memo() { # PART MEMO ARGUMENTS...
    part=$1 folder=$work/$2
    shift 2
    "$program" memo "$part" --memo "$folder" --compute bf16 "$@"
}
judge() { # NAME MEMO ARGUMENTS...
    echo "== $1"
    name=$1 folder=$2
    shift 2
    memo eval "$folder" "$@" --limit-rows "$rows" --repeats 1 | tee "$work/$name.txt"
}

if [ ! -d "$work/sts" ]; then
    memo build sts --model "$encoder" --kind pairs --data "$data/stsb/stsb-en-train.csv"
    memo tune sts --model "$encoder" --kind pairs --data "$data/stsb/stsb-en-dev.csv" \
        --measure spearman --limit 0.3 --plot "$work/sts.svg"
fi
judge stsb sts --thresholds $thresholds --model "$encoder" --kind pairs \
    --data "$data/stsb/stsb-en-test.csv"
if [ ! -d "$work/layers" ]; then # searched in every layer: AttnCache-f
    memo build layers --layers --model "$encoder" --kind pairs --data "$data/stsb/stsb-en-train.csv"
fi
judge stsb-layers layers --thresholds 0.995,0.99,0.95 --model "$encoder" --kind pairs \
    --data "$data/stsb/stsb-en-test.csv"
for year in 2012 2013 2014 2015 2016; do
    judge sts$year sts --thresholds $thresholds --model "$encoder" --kind pairs --columns 2,3,1 \
        --data "$data/sts/$year"
done

if [ ! -d "$work/sst2" ]; then
    memo build sst2 --model "$encoder" --kind labels --data "$data/sst2/train.tsv"
    memo tune sst2 --model "$encoder" --kind labels --data "$data/sst2/dev.tsv" \
        --train "$data/sst2/train.tsv" --measure accuracy --limit 0.3
fi
judge sst2 sst2 --thresholds $thresholds --model "$encoder" --kind labels \
    --data "$data/sst2/test.tsv" --train "$data/sst2/train.tsv"

for set in "1 3000 train" "2 600 dev" "3 600 test"; do
    # shellcheck disable=SC2086 # three words
    set -- $set
    [ -f "$work/$3.jsonl" ] || python3 "$here/demo_model/make_choices.py" "$1" "$2" \
        >"$work/$3.jsonl"
done
if [ ! -d "$work/choices" ]; then
    memo build choices --model "$demo" --special --kind choices --data "$work/train.jsonl"
    memo tune choices --model "$demo" --special --kind choices --data "$work/dev.jsonl" \
        --measure accuracy --limit 0.3
fi
judge choices choices --thresholds $thresholds --model "$demo" --special --kind choices \
    --data "$work/test.jsonl"

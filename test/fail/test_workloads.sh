#!/bin/sh
# Catches: a workload benchmark (serve, mmlu, needles, samples) whose variants do different work, or
# reuse or compute the wrong tokens; other lengths or arrivals than asked for; a limit of memory or
# time that does not hold; wrong options and damaged files that are accepted; JSON or pictures
# without their parts; loads that are no shares of what was served at once, times between tokens or
# shares of steps that cannot be; Ctrl-C that does not end it.
. "$1/test/fail/program.sh"
under=bench
model=$source/models/demo/demo.gguf

# value KEY METHOD: of that method's only line of JSON in ./out
value() {
    sed -n "/\"method\":\"$2\"/s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" out
}

# ---- options
for command in serve mmlu needles samples; do
    expect 0 "usage: promptcache-bench $command" $command --help
    expect 2 "there is no option --nope" $command --nope
    expect 2 "exclude each other" $command --shape tiny --model "$model"
    expect 2 "'fast' is none of those" $command --shape tiny --methods fast
    expect 2 "--methods names per-row twice" $command --shape tiny --methods per-row,per-row
    expect 2 "--methods names none" $command --shape tiny --methods ""
    expect 2 "from 1 to 4096" $command --shape tiny --batch 0
    expect 3 "there is no shape 'nope'" $command --shape nope
    expect 3 "/nowhere/x.svg: cannot be written" $command --shape tiny --plot /nowhere/x.svg
    expect 0 "$command" --help
done
expect 2 "as in 256,1024" serve --prefix x
expect 2 "as in 0.5,1,2" serve --rate 0
expect 2 "as in 0.5,1,2" serve --rate 1,
expect 2 "--limit needs one --rate" serve --limit 1
expect 2 "--limit needs one --rate" serve --limit 1 --rate 1,2
expect 2 "--limit gives no curve" serve --limit 1 --rate 1 --plot x.svg
expect 2 "as in 0.5,0.7" serve --load 0.5,
expect 2 "--load excludes --rate and --limit" serve --load 0.5 --rate 1
expect 2 "--prompts takes a length or two" serve --prompts 32,16
expect 2 "--prompts takes a length or two" serve --load 0.5 --prompts 0
expect 2 "--answers takes a length or two" serve --answers 1,2,3
expect 2 "--lengths excludes" serve --answers 3 --lengths x.csv
expect 2 "--questions: 1 to" needles --questions 0
expect 2 "--samples: 1 to" samples --samples 0
expect 2 "--shots: 0 to" mmlu --shots 99
expect 3 "the model's context is 2048" serve --shape tiny --prefix 3000

# ---- all at once: the same work by every method, reused where it should be
methods=shared,per-row,copies,recompute
expect 0 '{"workload":"serve","prefix":192.0,"method":"shared",' \
    serve --shape tiny --prefix 192 --requests 6 --batch 4 --scale 0.05 --methods $methods \
        --json --repeats 2
equal "four lines" "$(wc -l <out | tr -d ' ')" 4
for method in shared per-row copies recompute; do
    equal "$method: requests" "$(value finished $method)" 6
    equal "$method: tokens" "$(value tokens $method)" "$(value tokens shared)"
    equal "$method: prompts" "$(value prompt_tokens $method)" "$(value prompt_tokens shared)"
    holds "$method: times" \
        "$(value seconds $method) > 0 && $(value bound_s $method) > 0 && \
         $(value prefill_s $method) < $(value seconds $method)"
done
for method in shared per-row copies; do
    equal "$method: reused" "$(value cached_tokens $method)" $((6 * 192))
done
equal "recompute: reused" "$(value cached_tokens recompute)" 0
# one at a time, so that no prompt is computed in pieces beside others
expect 0 '"batch":1,' serve --shape tiny --prefix 192 --requests 3 --batch 1 --scale 0.05 \
    --methods $methods --json
for method in shared per-row copies recompute; do
    equal "$method: passes" "$(value passes $method)" "$(value passes shared)"
    equal "$method: bound" "$(value bound_s $method)" "$(value bound_s shared)"
done

# ---- what does not fit
expect 0 "prefix 1024, copies: left out, its K and V take" serve --shape tiny --prefix 1024 \
    --requests 8 --scale 0.05 --memory 3 --compute f32
grep -q "^1024 *shared" out || fault "the method that fits is not measured"
grep -q "^1024 *copies" out && fault "the method that does not fit is measured"
expect 0 "stopped at --seconds" serve --shape tiny --prefix 0 --requests 100000 --methods shared \
    --seconds 0.2

# ---- lengths
expect 0 "the built-in ShareGPT statistics times 1:" serve --shape tiny --prefix 0 --requests 3000 \
    --scale 1 --methods shared --seconds 0.1
lengths='prompts of \([0-9]*\) tokens, answers of \([0-9]*\)'
holds "published means" \
    "$(sed -n "1s/.*$lengths .*/\1 > 235 \&\& \1 < 266 \&\& \2 > 216 \&\& \2 < 247/p" out)"
printf '40,12\r\n40,12\n' >lengths.csv
expect 0 "prompts of 20 tokens, answers of 6 on average" \
    serve --shape tiny --prefix 64 --requests 3 --scale 0.5 --lengths lengths.csv --methods shared
for line in '40' '40,' ',12' '40,0' '-1,5' '40,12,1' '40 12' 'x,y'; do
    printf '1,2\n%s\n3,4\n' "$line" >bad.csv
    expect 3 "bad.csv:2: not a line prompt,output" serve --shape tiny --lengths bad.csv
done
: >empty.csv
expect 3 "empty.csv: there is no line in it" serve --shape tiny --lengths empty.csv
expect 3 "No such file" serve --shape tiny --lengths missing.csv

# ---- arrivals: the clock is theirs
expect 0 '"rate":20.0' serve --shape tiny --prefix 64 --requests 40 --scale 0.02 --rate 20 \
    --methods shared --json
holds "arrivals" \
    "$(value seconds shared) > 1 && $(value seconds shared) < 4 && \
     $(value busy_s shared) < $(value seconds shared)"
holds "latencies" \
    "$(value ttft_p50_s shared) > 0 && $(value ttft_p50_s shared) <= $(value ttft_p99_s shared) && \
     $(value latency_s_per_token shared) > 0"
holds "prefix" "$(value prefix shared) == 64"
seconds=$(value seconds shared)
expect 0 '"rate":20.0' serve --shape tiny --prefix 64 --requests 40 --scale 0.02 --rate 20 \
    --methods shared --json --seed 5
holds "another seed, other arrivals" \
    "$(value seconds shared) > $seconds + 0.01 || $(value seconds shared) < $seconds - 0.01"

# ---- loads: all at once, then a share of that rate; the same requests by every method
expect 0 '"rate":null' serve --shape tiny --prefix 64 --requests 30 --prompts 4,300 --answers 9 \
    --load 0.5 --methods pieces,whole,shared --json
cp out both
for part in at_once load; do
    case $part in
    at_once) grep '"rate":null' both >out ;;
    load) grep -v '"rate":null' both >out ;;
    esac
    for method in pieces whole shared; do
        if [ $method = whole ] && grep -q "^whole: left out, the library refuses it" err; then
            continue # by a library without pieces
        fi
        equal "$part, $method: tokens" "$(value tokens $method)" $((30 * 9))
        equal "$part, $method: prompts" "$(value prompt_tokens $method)" \
            "$(value prompt_tokens shared)"
        equal "$part, $method: reused" "$(value cached_tokens $method)" $((30 * 64))
        for times in ttft tbt behind_long_ttft; do
            holds "$part, $method: $times" \
                "$(value ${times}_p50_s $method) > 0 && \
                 $(value ${times}_p50_s $method) <= $(value ${times}_p95_s $method) && \
                 $(value ${times}_p95_s $method) <= $(value ${times}_p99_s $method) && \
                 $(value ${times}_p99_s $method) <= $(value ${times}_max_s $method) && \
                 $(value ${times}_max_s $method) < $(value seconds $method)"
        done
        holds "$part, $method: a share of the steps" \
            "$(value not_computing_share $method) > 0 && $(value not_computing_share $method) < 1"
        holds "$part, $method: behind long ones" \
            "$(value behind_long $method) > 0 && $(value behind_long $method) < 30"
    done
done
rate=$(value rate pieces)
grep '"rate":null' both >out
holds "half of the highest rate" \
    "($rate / $(value requests_per_s pieces) - 0.5) ^ 2 < 1e-6"
expect 0 "prompts of at most 1990 tokens, the model's context is 2048" serve --model "$model" \
    --prefix 48 --prompts 1980,4096 --answers 10 --requests 1 --methods shared
expect 3 "no room for prompts" serve --model "$model" --prefix 1024 --prompts 1980 --requests 1
expect 0 "0       at once   pieces" serve --shape tiny --load 0.5,2 --requests 4 --prompts 4 \
    --answers 3 --methods pieces --plot loads.svg
for part in "0: pieces" "milliseconds a token" "</svg>"; do
    grep -qF "$part" loads.svg || fault "--load --plot: the picture lacks $part"
done

# ---- limits
expect 0 '"limit_s_per_token":1.0,"rate":1024.0,"rate_beyond":null' \
    serve --shape tiny --prefix 64 --requests 3 --scale 0.02 --rate 2 --limit 1 --methods shared \
    --json
expect 0 "beyond 1e-06 s a token at every rate tried" \
    serve --shape tiny --prefix 64 --requests 3 --scale 0.02 --rate 2000 --limit 1e-6 \
    --methods shared
expect 0 "copies" serve --shape tiny --prefix 64 --requests 3 --scale 0.02 --rate 50,100 \
    --plot rates.svg
for part in "64: shared" "64: own copies" "milliseconds a token" "</svg>"; do
    grep -qF "$part" rates.svg || fault "--rate --plot: the picture lacks $part"
done

# ---- needles: two levels, documents in turn
expect 0 '"questions":5.0' needles --shape tiny --instruction 64 --document 128 --documents 2 \
    --questions 5 --question 7 --answer 3 \
    --methods $methods --json --plot needles.svg
for method in shared per-row copies recompute; do
    equal "needles, $method: tokens" "$(value tokens $method)" 15
    equal "needles, $method: prompts" "$(value prompt_tokens $method)" $((5 * (64 + 128 + 7)))
done
equal "needles: reused" "$(value cached_tokens shared)" $((5 * 192))
equal "needles: not reused" "$(value cached_tokens recompute)" 0
for part in ">shared<" ">own copies<" ">bound<"; do
    grep -qF "$part" needles.svg || fault "needles --plot: the picture lacks $part"
done
awk 'BEGIN { while (i++ < 400) printf "the hotel in Lisbon is Harbor House. " }' >text.txt
expect 0 "1 document(s) of 100 tokens" needles --model "$model" --text text.txt --document 100 \
    --questions 2 --answer 2 --methods shared
expect 0 "1 document(s) of 100 tokens" needles --shape tiny --tokenizer "$model" --text text.txt \
    --document 100 --questions 2 --methods shared
expect 3 "tokens for a document, but --document is 1900" needles --model "$model" \
    --text lengths.csv --document 1900
expect 3 "no tokenizer" needles --shape tiny --text text.txt --document 10

# ---- samples: levels
expect 0 '"samples":4.0' samples --shape tiny --few-shot 128 --question 65 --samples 4 \
    --questions 2 --answer 5 \
    --methods two-levels,one-level,no-level,per-row,recompute --json
for method in two-levels one-level no-level per-row recompute; do
    equal "samples, $method: tokens" "$(value tokens $method)" 40
    equal "samples, $method: prompts" "$(value prompt_tokens $method)" $((8 * 193))
done
for method in two-levels one-level no-level per-row; do
    equal "samples, $method: reused" "$(value cached_tokens $method)" $((8 * 192))
done
cat >problems.jsonl <<'J'
{"question": "Which \"hotel\"?\n", "answer": "Harbor House"}
{"question": "What days?", "answer": "Three"}
{"question": "How far?", "answer": "A mile"}
J
expect 0 "2 question(s)" samples --model "$model" --problems problems.jsonl --shots 1 \
    --questions 2 --samples 2 --answer 2 --methods two-levels
expect 3 "problems.jsonl: too few lines of JSON with question and answer" samples --model "$model" \
    --problems problems.jsonl --shots 2 --questions 2
echo '["question", "answer"]' >problems.jsonl
expect 3 "too few lines of JSON" samples --model "$model" --problems problems.jsonl --shots 1

# ---- mmlu: examples once a subject
expect 0 '"shots":5.0' mmlu --shape tiny --subjects 2 --questions 3 --scale 0.2 \
    --methods $methods --json
for method in shared per-row copies recompute; do
    equal "mmlu, $method: tokens" "$(value tokens $method)" 6
done
holds "mmlu: reused" \
    "$(value cached_tokens shared) > 0 && \
     $(value cached_tokens shared) == $(value cached_tokens copies)"
holds "mmlu: prepared" "$(value prepared_s shared) > 0 && $(value prepared_s recompute) == 0"
mkdir folder
cat >folder/a_test.csv <<'C'
question,A,B,C,D,answer
"Which, of ""these""?",1,2,3,4,0
What?,"a
b",c,d,e,3
a row, that is, no question
Why?,p,q,r,s,2
Where?,p,q,r,s,1
C
printf '\n\n' >folder/b.txt
expect 0 "1 subjects of 2 questions" mmlu --model "$model" --mmlu folder --subjects 1 \
    --questions 2 --shots 2 --methods shared
expect 3 "a_test.csv: fewer than 2 examples and 3 questions" mmlu --model "$model" --mmlu folder \
    --subjects 1 --questions 3 --shots 2
expect 3 "folder: 1 files *.csv, but --subjects is 2" mmlu --model "$model" --mmlu folder
expect 3 "missing: 0 files *.csv" mmlu --model "$model" --mmlu missing
mkdir set
mv folder set/test
expect 0 "1 subjects of 2 questions" mmlu --model "$model" --mmlu set --subjects 1 --questions 2 \
    --shots 2 --methods shared
expect 3 "set/test: 1 files *.csv, but --subjects is 2" mmlu --model "$model" --mmlu set

# ---- Ctrl-C
timeout --foreground --preserve-status -s INT 1 "$program" bench serve --shape tiny \
    --requests 20000 --scale 1 >out 2>err </dev/null
code=$?
echo "Ctrl-C" >>runs
[ "$code" = 130 ] || fault "Ctrl-C: exit code $code"
grep -q "promptcache-bench: interrupted" err || fault "Ctrl-C: no message"

finish

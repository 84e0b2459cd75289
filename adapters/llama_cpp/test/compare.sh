#!/bin/sh
# Catches: llama.cpp's side of llama_compare doing other work than the library's (other prompts,
# other answers' lengths, a shared prefix that is computed again), failing with many sequences, with
# prompts longer than its batch, or with a second load, and a model that only the library reads.
#   compare.sh SOURCE PROGRAM
export OMP_NUM_THREADS=1 # several would spin while other tests run
. "$1/test/fail/program.sh"
under=serve
model=$source/models/demo/demo.gguf

# value KEY METHOD: of that method's only line of JSON in ./out
value() {
    sed -n "/\"method\":\"$2\"/s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" out
}

expect 0 "usage: llama_compare serve" --help
expect 2 "is none of those" --shape tiny --methods llama
expect 3 "it needs --model with a GGUF file" --shape tiny --load 1 --prompts 8 --answers 2 \
    --requests 1 --methods llama.cpp

methods=pieces,llama.cpp,llama.cpp-own
for prefix in 0 128; do
    expect 0 '"method":"llama.cpp-own"' --model "$model" --threads 1 --prefix $prefix --load 1,2 \
        --requests 6 --batch 3 --prompts 2,150 --answers 2,6 --methods $methods --json
    equal "prefix $prefix: lines" "$(wc -l <out | tr -d ' ')" 9
    cp out all
    grep '"rate":null' all >out
    for method in pieces llama.cpp llama.cpp-own; do
        equal "$method: requests" "$(value finished $method)" 6
        equal "$method: tokens" "$(value tokens $method)" "$(value tokens pieces)"
        equal "$method: prompts" "$(value prompt_tokens $method)" "$(value prompt_tokens pieces)"
        equal "$method: shared" "$(value cached_tokens $method)" $((6 * prefix))
        holds "$method: times" \
            "$(value ttft_p50_s $method) > 0 && $(value tbt_max_s $method) > 0 && \
             $(value not_computing_share $method) > 0 && $(value not_computing_share $method) < 1"
    done
done
# more prompt tokens at once than the 2048 of a batch
expect 0 '"finished":3' --model "$model" --threads 1 --prefix 0 --load 1 --requests 3 \
    --prompts 900 --answers 2 --methods llama.cpp --json
finish

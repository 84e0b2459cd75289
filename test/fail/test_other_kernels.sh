#!/bin/sh
# One kind of CPU has computed states, another finds them (PC_CPU_MASK stands for the other CPU).
# Catches: states of other kernels that are used without a message, or despite --own-kernels; states
# of two kinds that replace each other; a record that does not name its kernels; a miss without its
# reason.
. "$1/test/fail/program.sh"

model=$source/models/demo/demo.gguf
schema=$source/examples/pml/city-guide.pml
prompt=$source/examples/pml/city-guide-prompt.pml

use() { # mask, what is expected, options
    PC_CPU_MASK=$1
    export PC_CPU_MASK
    expected=$2
    shift 2
    expect 0 "$expected" run --model "$model" --schema "$schema" --prompt "$prompt" --disk states \
        --always-load --max-tokens 1 --json "$@"
    unset PC_CPU_MASK
}

fill() { # mask, what is expected, options
    PC_CPU_MASK=$1
    export PC_CPU_MASK
    expected=$2
    shift 2
    expect 0 "$expected" encode --model "$model" --schema "$schema" --disk states "$@"
    unset PC_CPU_MASK
}

kernels_of() { # variant
    "$program" inspect states --json >rows
    sed -n "s/.*\"variant\":\"$1\".*\"kernels\":\"\([^\"]*\)\".*/\1/p" rows | sort -u
}

fill c "11 new segments"
plain=$(kernels_of "")
case $plain in c | c+dnn*) ;; *) fault "a record says that '$plain' has computed it" ;; esac
use c '"other_kernels":false'

# another kind of CPU takes them, and says so
fill avx2 "" --own-kernels
own=$(kernels_of "avx2[^\"]*")
if [ -z "$own" ]; then
    echo "this CPU has no AVX2: there is no other kind to be" >&2
    exit 77
fi
rm -rf states
fill c "11 new segments"
use avx2 '"other_kernels":true'
expect 0 "computed with other kernels" run --model "$model" --schema "$schema" --prompt "$prompt" \
    --disk states --always-load --max-tokens 1

# who wants his own computes anew, beside the others', and finds them the next time
use avx2 '"miss_reason":"stored, but perhaps by other kernels"' --own-kernels
use avx2 '"miss_reason":"nothing missing"' --own-kernels
use avx2 '"other_kernels":false' --own-kernels
use c '"miss_reason":"stored, but perhaps by other kernels"' --own-kernels
use c '"miss_reason":"nothing missing"' --own-kernels
use avx2 '"miss_reason":"nothing missing"' --own-kernels
use avx2 '"other_kernels":true'
equal "what computed the plain ones" "$(kernels_of "")" "$plain"
equal "what computed those of AVX2" "$(kernels_of "avx2[^\"]*")" "$own"

# under one's own name nothing else is believed: it is replaced
# shellcheck disable=SC2044 # no name has a blank
for file in $(find states -name '*.avx2*.pcr'); do
    other=$(echo "$file" | sed 's/\.avx2.*/.pcr/')
    rm -f "$file" && cp "$other" "$file"
done
use avx2 '"miss_reason":"a record of another model, format or salt"' --own-kernels
use avx2 '"miss_reason":"nothing missing"' --own-kernels
equal "what computed those of AVX2 then" "$(kernels_of "avx2[^\"]*")" "$own"
expect 2 "--own-kernels needs --disk or --remote" run --model "$model" --schema "$schema" \
    --prompt "$prompt" --own-kernels

finish

#!/bin/sh
# gpu_run.sh SOURCE_FOLDER ON_MODEL PROGRAM...: tools/gpu.sh run, on the fake device, with these
# programs packed by hand. Catches: a step that is lost or that ends the others, a failure that is
# called a success, a program that hangs and takes the time of all, a benchmark that does not run on
# a device; messages about wrong arguments.
source=$1 on_model=$2
shift 2
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
mkdir -p "$packed/bin" "$packed/out"
cp "$source/tools/gpu.sh" "$packed/"
for program in "$@"; do ln -s "$program" "$packed/bin/"; done
gpu=$packed/gpu.sh
faults=0

# expect CODE TEXT... -- COMMAND...: it exits so and prints lines with these texts
expect() {
    code=$1
    shift
    : >"$packed/wanted"
    while [ "$1" != -- ]; do echo "$1" >>"$packed/wanted" && shift; done
    shift
    printed=$("$@" 2>&1)
    got=$?
    [ "$got" = "$code" ] || { echo "exit code $got, not $code: $*"; faults=1; }
    while read -r text; do
        echo "$printed" | grep -q -- "$text" || { echo "no '$text': $*"; faults=1; }
    done <"$packed/wanted"
    [ "$faults" = 0 ] || { echo "$printed"; exit 1; }
}

OUT=$packed/out expect 0 "machine  *skipped .*the fake device" "device  *passed .*pinned" \
    "wrappers: model_wrappers  *passed .*checks: [0-9]* passed, 0 failed" \
    "wrappers: model_tensor  *skipped .*was not packed" "kernels: rows  *passed" \
    "bench: tiny  *passed" "^ *2 *64 *64 .*bandwidth" "few  *skipped" "ttft  *passed" \
    "^full prefill .* ms" "peers  *skipped" "^0 steps failed" -- \
    "$gpu" run --fake "$on_model" --steps machine,device,wrappers,kernels,bench,few,ttft,peers
expect 0 "bench: tiny  *passed" -- cat "$packed/out/gpu.txt"
expect 0 "^== kernels: rows" -- cat "$packed/out/gpu.log"
expect 0 "^## On a GPU: the fake device" "^.promptcache-bench device.:" "^ *2 *64 *64 .*bandwidth" \
    -- cat "$packed/out/gpu.md"

printf '#!/bin/sh\necho "the third is wrong"\nexit 3\n' >"$packed/bin/test_cuda_norms"
printf '#!/bin/sh\nsleep 60\n' >"$packed/bin/test_cuda_rotate"
chmod +x "$packed/bin/test_cuda_norms" "$packed/bin/test_cuda_rotate"
expect 1 "norms  *failed .*exit code 3: the third is wrong" "rotate  *failed .*not done after" \
    "^2 steps failed" -- "$gpu" run --fake "$on_model" --seconds 10 --steps kernels
# a program in the place of each that a device runs: one that is too slow, a check that finds faults
rm "$packed/bin/promptcache-bench"
printf '#!/bin/sh\necho "  1 128 128 9.0 30 %% of bandwidth 2.0"\n' >"$packed/bin/promptcache-bench"
printf '#!/bin/sh\ncase "$*" in *racecheck*) exit 9 ;; esac\n' >"$packed/bin/compute-sanitizer"
chmod +x "$packed/bin/promptcache-bench" "$packed/bin/compute-sanitizer"
expect 1 "few rows  *passed" "gate: few rows  *failed .*30 % of the bound, at least" \
    "memcheck: attend  *passed" "racecheck: attend  *advice .*exit code 9" "^1 steps failed" -- \
    env PATH="$packed/bin:$PATH" "$gpu" run --steps few,sanitizer

expect 2 "no libpc_fake_cuda.so in" -- "$gpu" run --fake "$packed"
expect 2 "no step 'kernel'" -- "$gpu" run --steps machine,kernel
expect 2 "takes a number, not 'x'" -- "$gpu" run --seconds x
expect 2 "seconds takes a value" -- "$gpu" run --seconds
expect 2 "unknown option '--fast'" -- "$gpu" pack --fast
expect 2 "a list such as 80,90, not 'sm_90'" -- "$gpu" pack --architectures sm_90
expect 2 "pack: there is no source tree" -- "$gpu" pack
expect 0 "gpu.sh run \[OPTIONS\]" -- "$gpu" --help
expect 2 "gpu.sh pack \[OPTIONS\]" -- "$gpu"
rm -r "${packed:?}/bin"
expect 2 "nothing is packed here" -- "$gpu" run

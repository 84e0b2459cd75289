#!/bin/sh
# usage: hour.sh SECONDS [TARGET...]
# Builds the fuzzers with clang, AddressSanitizer and UBSan in build/fuzz, and runs them one after
# the other, each for the same part of the time (all of them without names). An input may take 10
# seconds and 256 MiB. Golden models and GGUF files of ../shared are seeds where they are. Prints a
# line for each target; inputs that show a fault stay in build/fuzz/faults. Exits with 1 if there
# are any. PC_FUZZ_DIR: another build folder, which is used as it is.
set -u
seconds=${1:?usage: hour.sh SECONDS [TARGET...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${PC_FUZZ_DIR:-$root/build/fuzz}
data=${PC_TEST_DATA:-$root/../shared}
here=$root/test/fuzz
if [ $# -eq 0 ]; then
  for file in "$here"/fuzz_*.c; do
    target=${file##*/fuzz_}
    set -- "$@" "${target%.c}"
  done
fi
if [ -z "${PC_FUZZ_DIR:-}" ]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    -DPC_BUILD_FUZZ=ON -DPC_WITH_ONEDNN=OFF -DPC_WITH_FAISS=OFF -DPC_WITH_HIREDIS=OFF \
    >/dev/null || exit 2
  if ! cmake --build "$build" --target fuzzers >"$build/build.log" 2>&1; then
    tail -20 "$build/build.log"
    exit 2
  fi
fi
mkdir -p "$build/faults"

dictionary() {
  case $1 in
    gguf) echo gguf ;;
    config | golden | folder | safetensors | tokenizer_json | chat) echo json ;;
    schema | prompt | system_format | serve) echo pml ;;
    record) echo record ;;
  esac
}

# Seeds that are not in the repository.
seeds() {
  mkdir -p "$build/seeds/$1"
  for config in "$data"/golden/*/config.json; do
    [ -f "$config" ] || continue
    name=$(basename "$(dirname "$config")")
    case $1 in
      config) cp "$config" "$build/seeds/config/$name" ;;
      golden) { echo "$name"; cat "$config"; } >"$build/seeds/golden/$name" ;;
    esac
  done
  for file in "$data"/golden/gguf/*q4_0.gguf "$data"/golden/gguf/*q2_k.gguf; do
    [ "$1" = gguf ] && [ -f "$file" ] && cp "$file" "$build/seeds/gguf/"
  done
}

bad=0
for target; do
  dict=$(dictionary "$target")
  mkdir -p "$build/found/$target"
  seeds "$target"
  log=$build/found/$target.log
  # ASan keeps freed memory for a while, and the fuzzer its corpus: the limit of 256 MiB is counted
  # by fuzz.c, for one input
  ASAN_OPTIONS=quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1 PC_TEST_DATA=$data \
    "$build/test/fuzz/fuzz_$target" ${dict:+-dict="$here/dictionaries/$dict.dict"} \
    -max_total_time=$((seconds / $#)) -timeout=10 -malloc_limit_mb=256 -rss_limit_mb=2048 \
    -max_len=1048576 -len_control=20 -print_final_stats=1 \
    -artifact_prefix="$build/faults/$target-" \
    "$build/found/$target" "$build/seeds/$target" "$here/corpus/$target" >"$log" 2>&1
  status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  slowest=$(sed -n 's/^stat::slowest_unit_time_sec: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
  echo "$target: ${runs:-0} inputs, ${edges:-0} edges, slowest ${slowest:-?} s, exit $status"
  [ $status -eq 0 ] || bad=1
done
exit $bad

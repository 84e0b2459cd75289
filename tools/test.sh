#!/bin/sh
# Installs what is missing, builds, runs all tests. The last line counts them.
#   --all        also under AddressSanitizer and UBSan, under ThreadSanitizer, and built without the optional libraries
#   --long       also the long ones (PC_TEST_LONG=1)
set -eu
cd "$(dirname "$0")/.."

all=0
for option in "$@"; do
    case $option in
    --all) all=1 ;;
    --long) export PC_TEST_LONG=1 ;;
    *) sed -n '2,4s/^# *//p' "$0"; exit 2 ;;
    esac
done

./tools/setup.sh
./tools/setup.sh --minilm
jobs=$(nproc)
passed=0 failed=0 skipped=0
left_out= # options of ctest

# run FOLDER LABEL CMAKE_ARGUMENTS...: configures, builds, tests, adds to the counts
run() {
    folder=$1 label=$2
    shift 2
    echo "== $label"
    cmake -S . -B "$folder" -G Ninja "$@" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log"; exit 1; }
    cmake --build "$folder" -j "$jobs" >"$folder.build.log" 2>&1 || { tail -n 60 "$folder.build.log"; exit 1; }
    report=$(pwd)/$folder/junit.xml
    # shellcheck disable=SC2086
    ctest --test-dir "$folder" -j "$jobs" $left_out --output-on-failure --output-junit "$report" || true
    count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
    total=$(count tests) bad=$(count failures) left=$(count skipped)
    passed=$((passed + total - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
}

mkdir -p build
run build/test "all tests"
if [ "$all" = 1 ]; then
    left_out="-LE levels|fuzz -E ^test_(disk_kill|maps_kill|memo_kill|memo_strangers|slow_.*|subdirectory|trace|workloads)$" # nothing else than with them
    run build/bare "without the optional libraries" -DPC_WITH_ONEDNN=OFF -DPC_WITH_HIREDIS=OFF -DPC_WITH_FAISS=OFF
    checked="-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DCMAKE_C_FLAGS_DEBUG=-g1" # names and lines are enough
    left_out="-E ^test_(trace|workloads|memo_program|memo_strangers|relocation|restart|disk_kill|memo_kill|attend_abi|calibrate|program|slow_ttft|concurrent|kv_serving)$" # long, of files, or of the program around the library
    # shellcheck disable=SC2086
    run build/sanitize "under AddressSanitizer and UBSan" -DPC_SANITIZE=address,undefined $checked
    # one thread each, or a program's arguments: nothing to see, and slow
    left_out="-LE kernel|levels|fuzz -E ^amx_|^test_(index_file|faiss_shim|places|nearest|relocation|record_.*|read_record|golden_.*|codec.*|seal|calibrate|.*_abi|program|workloads|trace|generate|kv_serving|slow_ttft|disk_kill|maps_kill|memo|memo_kill|memo_open|memo_program|memo_strangers|minilm|map_pin|map_room|read_maps|restart|folder.*)$"
    # shellcheck disable=SC2086
    run build/thread "under ThreadSanitizer" -DPC_SANITIZE=thread $checked
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]

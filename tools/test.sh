#!/bin/sh
# Installs what is missing, builds, runs all tests. Then each skipped test with its reason; the last
# line counts them.
#   --ci    as CI does, in under ten minutes: by gcc as a release; warnings are errors; also the
#           bindings for which a compiler or package has to be installed. Left out: older CPUs,
#           golden models over the model of a GPU, kernels for other GPUs than sm_90, a build as a
#           part of another project, XGrammar (compiling it takes 85 s)
#   --all   all of it with Hugging Face Transformers (1.5 GB), then further builds: without the
#           optional libraries, and under sanitizers; library and programs also by clang and with
#           link-time optimisation. Takes 45 minutes
#   --long  also the long tests (PC_TEST_LONG=1)
set -eu
cd "$(dirname "$0")/.."

all=0 ci=0 tools=--tests werror=OFF
for option in "$@"; do
    case $option in
    --ci) ci=1 tools=--ci werror=ON; export PC_SETUP_XGRAMMAR=0 ;;
    --all) all=1 ci=1 tools=--ci werror=ON; export PC_SETUP_TRANSFORMERS=1 PC_SETUP_CUBLAS=1 ;;
    --long) export PC_TEST_LONG=1 ;;
    *) sed -n '2,12s/^# *//p' "$0"; exit 2 ;;
    esac
done

./tools/setup.sh $tools
jobs=$(nproc)
passed=0 failed=0 skipped=0
left_out= # options of ctest

# the builds have many objects in common; the names of their folders must not matter
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_NOHASHDIR=1
fi

# more than two hundred test programs are linked several times
linker=
if [ "$ci" = 1 ] && command -v mold >/dev/null &&
    echo 'int main(void) { return 0; }' | cc -fuse-ld=mold -x c - -o /dev/null 2>/dev/null; then
    linker=-fuse-ld=mold
fi

# needed FOLDER: prints the targets that the chosen tests run; nothing, which builds everything, of
# the first build
needed() {
    [ "$1" != build/test ] || return 0
    case $(pwd) in *" "*) return 0 ;; esac
    # shellcheck disable=SC2086
    ctest --test-dir "$1" -N $left_out | sed -n 's/^ *Test *#[0-9]*: //p' >"$1.tests"
    if grep -qx test_consumer "$1.tests"; then # which installs these
        for target in promptcache promptcache_static promptcache_program promptcache_bench \
            promptcache_manual; do
            ! grep -q "^build $target: phony " "$1/build.ninja" || echo "$target"
        done
    fi
    if grep -qxE 'test_(consumer|description|cffi|cffi_demo)' "$1.tests" && # files of a folder
        grep -q "^build promptcache_description: phony " "$1/build.ninja"; then
        echo promptcache_description
    fi
    find "$1" -name CTestTestfile.cmake -exec cat {} + |
        sed -n 's/^add_test(\(\[=*\[\)\{0,1\}\([A-Za-z0-9_]*\)\(]=*]\)\{0,1\} /\2 /p' |
        awk -v folder="\"$(pwd)/$1/" 'NR == FNR { chosen[$1]; next }
            $1 in chosen { for (i = 2; i <= NF; i++) if (index($i, folder) == 1) {
                sub(/"\)*$/, "", $i); print substr($i, length(folder) + 1) } }' "$1.tests" - |
        sort -u | while read -r target; do # arguments may name folders, too
            ! grep -qF "build $target:" "$1/build.ninja" || echo "$target"
        done
}

# any_of "A B": A|B
any_of() { printf '%s' "$1" | xargs | tr ' ' '|'; }

# run FOLDER LABEL CMAKE_ARGUMENTS...: configures, builds, tests, adds to the counts
run() {
    folder=$1 label=$2
    shift 2
    echo "== $label"
    cmake -S . -B "$folder" -G Ninja -DPC_WERROR=$werror "-DCMAKE_EXE_LINKER_FLAGS=$linker" "$@" \
        >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log"; exit 1; }
    # shellcheck disable=SC2046
    cmake --build "$folder" -j "$jobs" -- $(needed "$folder") >"$folder.build.log" 2>&1 ||
        { tail -n 60 "$folder.build.log"; exit 1; }
    report=$(pwd)/$folder/junit.xml
    # shellcheck disable=SC2086
    ctest --test-dir "$folder" -j "$jobs" $left_out --output-on-failure \
        --output-junit "$report" || true
    count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
    total=$(count tests) bad=$(count failures) left=$(count skipped)
    passed=$((passed + total - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
    awk -F '"' '/<testcase / { name = $2; left = /status="notrun"/ }
        left && sub(/^.*skipped: /, "") { print "skipped: " name ": " $0; left = 0 }' "$report"
}

# compiled FOLDER LABEL CMAKE_ARGUMENTS...: library and program, without a warning; the program
# answers. Counts as one test.
compiled() {
    folder=$1 label=$2
    shift 2
    echo "== $label"
    cmake -S . -B "$folder" -G Ninja -DPC_BUILD_TESTS=OFF -DPC_BUILD_EXAMPLES=OFF \
        -DPC_WERROR=$werror "$@" >"$folder.configure.log" 2>&1 ||
        { cat "$folder.configure.log"; exit 1; }
    pml=examples/pml/employees
    if cmake --build "$folder" -j "$jobs" >"$folder.build.log" 2>&1 &&
        ! grep warning: "$folder.build.log" &&
        answer=$("$folder/tools/promptcache/promptcache" run --model models/demo/demo.gguf \
            --schema $pml.pml --prompt $pml-prompt.pml) &&
        [ "${answer%%.*}" = "The desk of Peter Novak is 368" ]; then
        passed=$((passed + 1))
    else
        tail -n 60 "$folder.build.log"
        failed=$((failed + 1))
    fi
}

# with_cuda: the option that builds the module with all kernels (cmake/cuda.cmake), if the nvcc that
# is found there knows all devices and has cuBLASLt beside it
with_cuda() {
    for nvcc in "$(command -v nvcc)" /usr/local/cuda/bin/nvcc build/nvcc/nvidia/cu13/bin/nvcc; do
        [ -x "$nvcc" ] || continue
        ! echo '#include <cublasLt.h>' | "$nvcc" -arch=sm_120 -x cu -E - >/dev/null 2>&1 ||
            echo -DPC_WITH_CUDA=ON
        return
    done
}

mkdir -p build
release=-DCMAKE_BUILD_TYPE=Release
gcc="-DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++"
if [ "$ci" = 0 ]; then
    run build/test "all tests"
elif [ "$all" = 1 ]; then
    # shellcheck disable=SC2046,SC2086 # arguments
    run build/test "all tests, gcc, release" $gcc $release $(with_cuda)
else
    left_out="-LE emulated|levels -E ^(static_limits|test_(golden_.*_cuda|subdirectory))$"
    # shellcheck disable=SC2046,SC2086 # arguments
    run build/test "gcc, release" $gcc $release $(with_cuda) -DPC_CUDA_ARCHITECTURES=90
fi
if [ "$all" = 1 ]; then
    compiled build/clang "clang, release" -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
        $release
    echo "== kernels by gcc and by clang"
    if python3 test/kernel/compare_builds.py build/test/tools/promptcache/promptcache \
        build/clang/tools/promptcache/promptcache; then
        passed=$((passed + 1))
    elif [ $? = 77 ]; then
        skipped=$((skipped + 1))
    else
        failed=$((failed + 1))
    fi
    # shellcheck disable=SC2086 # arguments
    compiled build/lto "gcc, release with link-time optimisation" $gcc $release \
        -DCMAKE_C_FLAGS=-flto=auto -DCMAKE_CXX_FLAGS=-flto=auto
    # left out: tests in which the optional libraries change nothing
    left_out="-LE levels|fuzz|emulated|cuda|far -E ^amx_|^cpu_levels$|^test_($(any_of "
        amx_.* attend_kernels attention_matrix bench_yaml churn help disk_kill kv_formats maps_kill
        memo_kill memo_program memo_strangers read_.* record_.* restart rules slow_.* split_error
        subdirectory disk_tier tier_memory trace workloads drawing reference"))$"
    # shellcheck disable=SC2086
    run build/bare "without the optional libraries" $gcc $release -DPC_BUILD_BINDINGS=OFF \
        -DPC_WITH_ONEDNN=OFF -DPC_WITH_HIREDIS=OFF -DPC_WITH_FAISS=OFF -DPC_WITH_CUDA=OFF
    # debug information: names and lines are enough; CUDA's compiler does not know sanitizers
    checked="-DPC_WITH_CUDA=OFF -DPC_BUILD_BINDINGS=OFF -DCMAKE_BUILD_TYPE=Debug"
    checked="$checked -DCMAKE_C_FLAGS=-O1 -DCMAKE_C_FLAGS_DEBUG=-g1"
    # left out: long tests, tests of files, and tests of the programs around the library
    left_out="-E ^amx_|^no_modules_|^modules_(linear|memo_open)$|^test_($(any_of "
        bench_yaml help trace workloads memo_program memo_strangers relocation restart disk_kill
        memo_kill attend_abi costs_calibrate program slow_ttft concurrent kv_serving drawing rules
        reference layout header"))$"
    # shellcheck disable=SC2086
    run build/sanitize "under AddressSanitizer and UBSan" -DPC_SANITIZE=address,undefined $checked
    # left out: tests with one thread, of slow tiers and of a program's arguments, in which
    # ThreadSanitizer finds nothing and takes long; fork, behind which it allows no threads
    left_out="-LE kernel|levels|fuzz -E ^amx_|^no_modules_|\
^modules_(linear|memo_open|golden_models|index)$|^test_($(any_of "
        fork jinja index_bytes faiss_shim id_map nearest relocation record_.* read_record golden_.*
        bench_yaml help other_kernels system_format_text pml_document compare codec.* seal
        sharing_levels sharing_baselines batch rules costs_calibrate .*_abi program
        workloads trace generate kv_serving load sampler slow_tiers slow_ttft disk_kill
        maps_kill memo memo_kill memo_open memo_outputs memo_program memo_strangers minilm
        map_store_get map_space read_maps restart folder.* drawing reference layout header"))$"
    # shellcheck disable=SC2086
    run build/thread "under ThreadSanitizer" -DPC_SANITIZE=thread $checked
fi
[ -d "${PC_TEST_DATA:-../shared}/data" ] ||
    echo "without ../shared: no real vocabularies, trained models, traces or published schemas"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]

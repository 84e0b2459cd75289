#!/bin/sh
# Runs what needs an NVIDIA GPU, on a machine that has one and perhaps neither network nor compiler.
#   gpu.sh pack [OPTIONS]   builds here and puts all that `run` needs into .gpu/
#     --architectures LIST    of the kernels, as 80,90,100 (90); the first one's PTX is there, too
#     --no-kernels            leaves all out that takes nvcc minutes to compile
#     --jobs N                of the build (all cores)
#   gpu.sh run [OPTIONS]    in .gpu/, or in the tree that it lies in; at most ten minutes
#     --seconds N             stops after so many (570)
#     --steps LIST            of: machine device wrappers kernels bench few ttft decode models peers
#                             sanitizer
#     --fake FOLDER           on the fake device of the tests, whose libraries FOLDER has; tiny
# `run` prints a line for each step, a table, and a page of results; with OUT in the environment
# they are files in that folder, too. Exit code: 0, or 1 if a step failed, 2 for wrong arguments or
# files.
set -eu

usage() { sed -n '3,15s/^# *//p' "$0"; exit "$1"; }
wrong() { echo "gpu: $*" >&2; exit 2; }
most_mib=40
parts="bin lib models golden examples"

# ------------------------------------------------------------------------------------------ pack

wrappers="test_cuda_model_tensor test_cuda_model_wrappers"
kernels="test_cuda_rows test_cuda_norms test_cuda_activations test_cuda_rotate test_cuda_kv_write"
kernels="$kernels test_cuda_experts test_cuda_maps test_cuda_quantised test_cuda_sampling"
kernels="$kernels test_cuda_attend test_cuda_naive test_cuda_fake test_cuda_stream test_cuda_pool"
kernels="$kernels test_cuda_gemm test_cuda_backend test_cuda_backend_attend test_cuda_draws"
kernels="$kernels test_cuda_plan_handle"
models="test_backend_ops test_golden_models test_serving"

# build ARCHITECTURES KERNELS JOBS: programs that find their libraries beside them
build() {
    rpath=-Wl,--disable-new-dtags # also for what the libraries themselves need
    cuda=ON targets="promptcache promptcache_program promptcache_bench $models"
    if [ "$2" = 1 ]; then
        targets="$targets promptcache_cuda gpu_tests"
    else
        cuda=AUTO
    fi
    cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DPC_BUILD_EXAMPLES=OFF \
        -DPC_WITH_ONEDNN=OFF -DPC_WITH_FAISS=OFF -DPC_WITH_HIREDIS=OFF -DPC_TEST_ROOT=. \
        -DPC_WITH_CUDA=$cuda "-DPC_CUDA_ARCHITECTURES=$(echo "$1" | tr , ';')" \
        -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON "-DCMAKE_INSTALL_RPATH=\$ORIGIN/../lib" \
        -DCMAKE_EXE_LINKER_FLAGS=$rpath -DCMAKE_SHARED_LINKER_FLAGS=$rpath \
        -DCMAKE_MODULE_LINKER_FLAGS=$rpath \
        >build/gpu.configure.log 2>&1 || { cat build/gpu.configure.log; exit 1; }
    # shellcheck disable=SC2086 # a list
    cmake --build build/gpu -j "$3" --target $targets >build/gpu.build.log 2>&1 ||
        { tail -n 40 build/gpu.build.log; exit 1; }
}

# carry FILE...: into .gpu/lib what they need that a machine may not have; cuBLASLt has 540 MB
carry() {
    for file in "$@"; do
        ldd "$file" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
    done | sort -u | while read -r library; do
        case ${library##*/} in
        libc.so* | libm.so* | ld-linux* | libdl.so* | libpthread.so* | librt.so*) ;;
        libpromptcache* | libcublasLt*) ;;
        *) cp -L "$library" .gpu/lib/ ;;
        esac
    done
}

copy_programs() {
    cp build/gpu/tools/promptcache/promptcache build/gpu/tools/promptcache/promptcache-bench \
        .gpu/bin/
    for program in $models; do
        find build/gpu/test -type f -name "$program" -exec cp {} .gpu/bin/ \;
    done
    cp build/gpu/libpromptcache.so.1 .gpu/lib/
    if [ "$1" = 1 ]; then
        find build/gpu/test -type f -name 'gpu_test_*' -perm -u+x -exec cp {} .gpu/bin/ \;
        cp build/gpu/libpromptcache_cuda.so .gpu/lib/
    fi
    strip .gpu/bin/* .gpu/lib/*
    carry .gpu/bin/* .gpu/lib/*
}

# made_of ARCHITECTURES: a line about what was packed, and lines about what has to be there
made_of() {
    glibc=$(ldd --version | sed -n '1s/.* //p')
    blas=$(objdump -p .gpu/lib/libpromptcache_cuda.so 2>/dev/null |
        sed -n 's/.*NEEDED *\(libcublasLt.*\)/\1/p')
    echo "$(git rev-parse --short HEAD 2>/dev/null || echo "no commit"), sm_$1"
    echo "glibc $glibc or later, tar with xz or Python"
    case $blas in
    *.12) echo "NVIDIA's driver 550 or later, $blas" ;;
    *.13) echo "NVIDIA's driver 580 or later, $blas" ;;
    esac
}

copy_data() {
    mkdir -p .gpu/models/demo .gpu/examples
    cp models/demo/demo.gguf .gpu/models/demo/
    cp -r examples/pml .gpu/examples/
    cp tools/gpu_peers.py .gpu/examples/
    cp -r build/gpu/test/own/golden .gpu/
    chmod -R u+w .gpu
}

pack() {
    architectures=90 with=1 jobs=$(nproc)
    while [ $# -gt 0 ]; do
        case $1 in
        --architectures | --jobs) [ $# -gt 1 ] || wrong "pack: $1 takes a value" ;;
        esac
        case $1 in
        --architectures) architectures=$2 && shift ;;
        --jobs) jobs=$2 && shift ;;
        --no-kernels) with=0 ;;
        *) wrong "pack: unknown option '$1'; see gpu.sh --help" ;;
        esac
        shift
    done
    case $architectures in
    "" | *[!0-9,]*)
        wrong "pack: --architectures takes a list such as 80,90, not '$architectures'"
        ;;
    esac
    cd "$(dirname "$0")/.."
    [ -f CMakeLists.txt ] || wrong "pack: there is no source tree around $0"
    mkdir -p build
    rm -rf .gpu
    mkdir -p .gpu/bin .gpu/lib
    echo "gpu: building for sm_$architectures in build/gpu"
    build "$architectures" "$with" "$jobs"
    copy_programs "$with"
    copy_data
    made_of "$architectures" >.gpu/made-of
    for part in $parts; do
        count=$(find ".gpu/$part" -type f | wc -l)
        echo "gpu: $(du -sk ".gpu/$part" | cut -f 1) KiB in $part, $count files"
    done
    # every test has the same kernels: the compressor has to see so far back
    # shellcheck disable=SC2086 # a list
    XZ_OPT=-9 tar -cJf .gpu/packed.tar.xz -C .gpu $parts
    # shellcheck disable=SC2086
    (cd .gpu && rm -rf $parts)
    cp tools/gpu.sh .gpu/
    size=$(du -sm .gpu | cut -f 1)
    echo "gpu: $size MiB in .gpu, of $(sed -n 1p .gpu/made-of): only this folder has to travel"
    echo "gpu: there it needs $(sed 1d .gpu/made-of | paste -sd ';' | sed 's/;/, /g')"
    echo "gpu: there: sh .gpu/gpu.sh run"
    [ "$with" = 1 ] || echo "gpu: no kernels are in it: there most steps are skipped"
    [ "$size" -le $most_mib ] || wrong "pack: that is more than $most_mib MiB"
}

# ------------------------------------------------------------------------------------------- run

# left: seconds until the end
left() { echo $((end - $(date +%s))); }

# note NAME RESULT SECONDS DETAIL: a line now, and one of the table
note() {
    printf '%-32s %-8s %5s s  %s\n' "$1" "$2" "$3" "$4" | tee -a "$table"
    [ "$2" != failed ] || failed=$((failed + 1))
}

# step NAME SECONDS COMMAND...: runs it with a limit; 77: it was skipped, its last line says why
step() {
    name=$1 limit=$2 status=77
    shift 2
    rest=$(left)
    if [ "$rest" -lt 3 ]; then
        note "$name" skipped 0 "no time is left"
        return
    fi
    [ "$limit" -le "$rest" ] || limit=$rest
    program=$1
    if [ "${program#bin/}" != "$program" ] && [ ! -x "$program" ]; then
        note "$name" skipped 0 "$program was not packed"
        return
    fi
    began=$(date +%s) status=0
    timeout -k 5 "$limit" "$@" >"$work/step" 2>&1 </dev/null || status=$?
    took=$(($(date +%s) - began))
    { echo "== $name"; cat "$work/step"; } >>"$log"
    detail=$(grep -v '^ *$' "$work/step" | tail -n 1 | cut -c 1-120)
    case $status in
    0) note "$name" passed "$took" "$detail" ;;
    77) note "$name" skipped "$took" "$detail" ;;
    124 | 137) note "$name" "$bad" "$took" "not done after $limit s" ;;
    *)
        note "$name" "$bad" "$took" "exit code $status: $detail"
        head -n 12 "$work/step" | sed 's/^/    /'
        ;;
    esac
}

# advise NAME SECONDS COMMAND...: a step whose failure is no failure of all
advise() {
    bad=advice
    step "$@"
    bad=failed
}

# show NAME SECONDS COMMAND...: a step whose output belongs into the page of results
show() {
    step "$@"
    [ "$status" = 0 ] || return 0
    shift 2
    grep -v '^ *$' "$work/step" >"$work/shown" || :
    sed 's/^/    /' "$work/shown"
    { echo; echo "\`$*\`:"; echo; echo '```'; cat "$work/shown"; echo '```'; } |
        sed 's#bin/promptcache-bench#promptcache-bench#' >>"$page"
}

# gate NAME PERCENT: the shares of bounds that the last step printed, in lines that end with
# "84 % of bandwidth" and a time, or with "84 %", are at least so many
gate() {
    [ "$status" = 0 ] || return 0
    low=$(awk '{ at = $NF == "%" ? NF : NF - 3 } at > 1 && $at == "%" { print $(at - 1) }' \
        "$work/shown" 2>/dev/null | sort -n | head -n 1)
    if [ "${low:-0}" -lt "$2" ]; then
        note "$1" failed 0 "${low:-no} % of the bound, at least $2 % are expected"
    else
        note "$1" passed 0 "at least $low % of the bound, $2 % are expected"
    fi
}

# find_libraries: cuBLASLt has to be where the loader looks, in /usr/local/cuda or beside Python's
# packages
find_libraries() {
    module=lib/libpromptcache_cuda.so before=${LD_LIBRARY_PATH-}
    if [ ! -f $module ]; then
        echo "gpu: packed without kernels (--no-kernels): steps on the device will fail"
        return
    fi
    for folder in "" /usr/local/cuda/lib64 $(python3 -c 'import sysconfig, glob
for path in glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib"): print(path)' 2>/dev/null)
    do
        [ -z "$folder" ] || export LD_LIBRARY_PATH="$folder${before:+:$before}"
        ! ldd $module | grep -q 'libcublasLt.*=> /' || return 0
    done
    wrong "run: no $(sed -n 's/.*\(libcublasLt.*\)/\1/p' made-of); LD_LIBRARY_PATH names its folder"
}

machine() {
    if [ -n "$fake" ]; then
        note "machine" skipped 0 "the fake device"
    elif command -v nvidia-smi >/dev/null; then
        step "machine" 30 nvidia-smi --format=csv,noheader \
            --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem
    else
        note "machine" failed 0 "no nvidia-smi: is there a GPU?"
    fi
}

device() {
    show "device" 60 bin/promptcache-bench device
}

wrappers_step() {
    for program in $wrappers; do
        step "wrappers: ${program#test_cuda_}" 60 "bin/$prefix$program"
    done
}

kernels_step() {
    cases=432 # all, of one seed
    [ -z "$fake" ] || cases=2
    for program in $kernels; do
        set --
        [ "$program" != test_cuda_attend ] || set -- 0 $cases 1
        step "kernels: ${program#test_cuda_}" 45 "bin/$prefix$program" "$@"
    done
}

# both over a few cases: a thousandth of the speed. Not every machine lets it at the device. Races
# that racecheck sees may be none: copies and barriers of newer devices are not all known to it.
sanitizer() {
    if [ -n "$fake" ] || ! command -v compute-sanitizer >/dev/null; then
        note "sanitizer" skipped 0 "${fake:+the fake device: }no compute-sanitizer"
        return
    fi
    if compute-sanitizer "bin/${prefix}test_cuda_rows" 2>&1 | grep -q "Device not supported"; then
        note "sanitizer" skipped 0 "it does not support this device"
        return
    fi
    check="compute-sanitizer --error-exitcode 9 --tool"
    # shellcheck disable=SC2086 # words
    step "memcheck: attend" 60 $check memcheck "bin/${prefix}test_cuda_attend" 0 12 1
    # shellcheck disable=SC2086
    step "memcheck: backend_attend" 60 $check memcheck "bin/${prefix}test_cuda_backend_attend"
    # shellcheck disable=SC2086
    advise "racecheck: attend" 60 $check racecheck "bin/${prefix}test_cuda_attend" 0 12 1
}

# demo: the shipped model answers as it does on the CPU
demo() {
    sed 's/^    //' >"$work/demo" <<'END'
    answer=$(bin/promptcache run --model models/demo/demo.gguf --schema \
        examples/pml/employees.pml --prompt examples/pml/employees-prompt.pml) || exit 1
    echo "$answer"
    case $answer in *"Peter Novak is 368."*) ;; *) exit 1 ;; esac
END
    step "models: demo" 90 sh "$work/demo"
}

models_step() {
    export PC_BACKEND=cuda PC_TEST_DATA="$here"
    demo
    for program in $models; do
        step "models: ${program#test_}" 120 "bin/$program"
    done
    unset PC_BACKEND
}

# grid NAME OPTIONS...: attention of one layer; see doc/performance.md
grid() {
    name=$1
    shift
    show "bench: $name" 90 bin/promptcache-bench attend --backend cuda "$@"
}

bench() {
    if [ -n "$fake" ]; then
        grid "tiny" --rows 2 --prefix 64 --suffix 64 --heads 2 --kv-heads 2 --head-dim 64 \
            --dtype f16 --layers 2 --repeats 1
        return
    fi
    grid "128 rows of 2048 + 128" --rows 128 --prefix 2048 --suffix 128 --heads 52 \
        --kv-heads 52 --dtype f16
    grid "batch and prefix" --rows 1,8,32,256 --prefix 1024,4096,16384 --suffix 128 --dtype f16
    grid "groups of 4" --rows 1,128 --prefix 2048 --suffix 128 --kv-heads 8 --dtype f16
    grid "bf16" --rows 128 --prefix 2048 --suffix 128 --heads 52 --kv-heads 52 --dtype bf16
    grid "int8" --rows 128 --prefix 2048 --suffix 128 --heads 52 --kv-heads 52 --dtype int8
}

# Few rows read K and V once, or a model's weights: bandwidth is all that counts.
few() {
    if [ -n "$fake" ]; then
        note "few" skipped 0 "the fake device"
        return
    fi
    grid "few rows" --rows 1,2,4,8 --prefix 16384 --suffix 128 --kv-heads 8 --dtype bf16
    gate "gate: few rows" 50
}

# of_model NAME SECONDS COMMAND OPTIONS...: of random weights
of_model() {
    name=$1 seconds=$2
    shift 2
    export PC_BACKEND=cuda
    show "$name" "$seconds" bin/promptcache-bench "$@" --compute bf16
    unset PC_BACKEND
}

ttft() {
    if [ -n "$fake" ]; then
        of_model "ttft" 60 ttft --shape tiny --context 128 --new 64 --repeats 1
    else
        of_model "ttft" 90 ttft --shape llama-1b --context 4096 --new 64
    fi
}

decode() {
    if [ -n "$fake" ]; then
        note "decode" skipped 0 "the fake device"
        return
    fi
    of_model "decode" 120 decode --shape llama-1b --batch 1,8,32 --prefix 1024,4096
    gate "gate: decode" 40
}

peers() {
    if [ -n "$fake" ]; then
        note "peers" skipped 0 "the fake device"
        return
    fi
    show "peers" 150 python3 examples/gpu_peers.py
}

# unpack FILE FOLDER: by tar, or by Python where there is no xz
unpack() {
    tar -xJf "$1" -C "$2" 2>/dev/null ||
        python3 -c 'from sys import argv; from tarfile import open as read
read(argv[1]).extractall(argv[2])' "$1" "$2"
}

# find_packed: sets `here` to the folder with what was packed, unpacked again
find_packed() {
    folder=$(cd "$(dirname "$0")" && pwd)
    [ -d "$folder/bin" ] || [ -f "$folder/packed.tar.xz" ] || folder=$folder/../.gpu
    if [ ! -d "$folder/bin" ]; then
        [ -f "$folder/packed.tar.xz" ] ||
            wrong "run: nothing is packed here; call first: gpu.sh pack"
        rm -rf "$folder/unpacked"
        mkdir "$folder/unpacked"
        unpack "$folder/packed.tar.xz" "$folder/unpacked" ||
            wrong "run: $folder/packed.tar.xz cannot be unpacked"
        cp "$folder/made-of" "$folder/unpacked/"
        folder=$folder/unpacked
    fi
    here=$(cd "$folder" && pwd)
}

run() {
    fake='' prefix='' bad=failed seconds=570
    steps="machine device wrappers kernels bench few ttft decode models peers sanitizer"
    while [ $# -gt 0 ]; do
        case $1 in
        --seconds | --steps | --fake) [ $# -gt 1 ] || wrong "run: $1 takes a value" ;;
        esac
        case $1 in
        --seconds) seconds=$2 && shift ;;
        --steps) steps=$(echo "$2" | tr , ' ') && shift ;;
        --fake) fake=$2 && shift ;;
        *) wrong "run: unknown option '$1'; see gpu.sh --help" ;;
        esac
        shift
    done
    case $seconds in "" | *[!0-9]*) wrong "run: --seconds takes a number, not '$seconds'" ;; esac
    for step in $steps; do
        case $step in
        machine | device | wrappers | kernels | bench | few | ttft | decode | models) ;;
        peers | sanitizer) ;;
        *) wrong "run: there is no step '$step'; see gpu.sh --help" ;;
        esac
    done
    find_packed
    end=$(($(date +%s) + seconds)) failed=0
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # there also if this is killed
    table=${OUT:-$work}/gpu.txt log=${OUT:-$work}/gpu.log page=${OUT:-$work}/gpu.md
    echo "promptcache on a GPU: $(sed -n 1p "$here/made-of" 2>/dev/null)" | tee "$table"
    : >"$log"
    use_device
    cd "$here"
    [ -n "$fake" ] || find_libraries
    need_driver
    begin_page
    for step in $steps; do
        case $step in
        wrappers | kernels | models) "${step}_step" ;;
        *) $step ;;
        esac
    done
    finish
}

use_device() {
    if [ -n "$fake" ]; then
        [ -f "$fake/libpc_fake_cuda.so" ] || wrong "run: no libpc_fake_cuda.so in '$fake'"
        fake=$(cd "$fake" && pwd)
        export PC_MODULES="$fake"
        return
    fi
    prefix=gpu_
    export PC_MODULES="$here/lib"
}

# need_driver: ends without one; whatever else is wrong is a step's matter
need_driver() {
    [ -z "$fake" ] && [ -x bin/promptcache ] || return 0
    reason=$(bin/promptcache --version | grep '^cuda .*driver') || return 0
    wrong "run: ${reason#*cannot start: }"
}

begin_page() {
    name="the fake device"
    [ -n "$fake" ] || name=$(nvidia-smi --format=csv,noheader \
        --query-gpu=name,driver_version 2>/dev/null | head -n 1) || name="a GPU"
    echo "## On a GPU: $name; commit $(sed -n 1p made-of 2>/dev/null), $(date +%F)" >"$page"
}

finish() {
    echo
    echo "== steps"
    cat "$table"
    echo
    echo "== a page for doc/performance.md"
    cat "$page"
    echo
    echo "$failed steps failed"
    [ "$failed" = 0 ]
}

case ${1-} in
pack) shift && pack "$@" ;;
run) shift && run "$@" ;;
-h | --help) usage 0 ;;
*) usage 2 ;;
esac

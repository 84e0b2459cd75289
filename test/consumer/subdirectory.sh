#!/bin/sh
# Catches: a library that cannot be built as a folder of another project: targets that only its own
# folders see, settings that it forces on the project around it, tests and programs that nobody
# asked for; targets whose names another project could have; kernels that are not optimised because
# the project around it is not, or that cannot be compiled without optimisation; a missing build
# type that is not reported; a library that is shared although BUILD_SHARED_LIBS says otherwise, in
# the build or after the installation.
set -eu
source=$1 build=$2
grep -q '^PC_SANITIZE:STRING=.' "$build/CMakeCache.txt" &&
    { echo "skipped: built once already, without sanitizers"; exit 77; }
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
export CMAKE_GENERATOR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
# fail_with_log: shows the end of the log
fail_with_log() { tail -n 40 "$folder/log"; exit 1; }
# cached NAME: a variable of the build
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
# configure ARGUMENTS...: the project around the library; later calls change the same folder
configure() {
    cmake -S "$source/test/consumer/subdirectory" -B "$folder" -DPROMPTCACHE="$source" \
        "-DPC_WITH_ONEDNN=$(cached PC_WITH_ONEDNN)" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" \
        >"$folder/log" 2>&1 || fail_with_log
}
# kernels PATTERN ARGUMENTS...: the last -O of each one's command fits the pattern
kernels() {
    pattern=$1
    shift
    configure "$@"
    # the host's part of CUDA has no kernels for the CPU
    awk '/"command":/ { level = "none"; for (i = 1; i <= NF; i++) if ($i ~ /^-O/) level = $i }
        /"file":/ && !/\/attn\/cuda\// { print $2, level }' "$folder/compile_commands.json" |
        grep -E '/lib/(attn|memo/(index/scan|train/vector_ops)|store/codec|model/load/dequant)' \
            >"$folder/list"
    [ "$(wc -l <"$folder/list")" -gt 40 ] || fail "where are the kernels?"
    ! grep -vE -e " ($pattern)\$" "$folder/list" || fail "kernels not at $pattern with: $*"
}

# The library is compiled once, without any optimisation.
kernels "none" -DPC_DEBUG_KERNELS=ON
[ -z "$(sed -n 's/^CMAKE_BUILD_TYPE:STRING=//p' "$folder/CMakeCache.txt")" ] ||
    fail "the build type was set"
grep -q 'no build type' "$folder/log" || fail "a missing build type is not said"
cmake --build "$folder" --target shared_c static_c -j 2 >"$folder/log" 2>&1 || fail_with_log
pml=$source/examples/pml
for consumer in shared_c static_c; do
    "$folder/$consumer" "$source/models/demo/demo.gguf" "$pml/employees.pml" \
        "$pml/employees-prompt.pml"
done
cmake --install "$folder" --prefix "$folder/usr" >/dev/null
[ ! -e "$folder/usr/include" ] ||
    fail "the project around it installs the library without being asked"

# How the kernels would be compiled: commands, without a build.
kernels "none" -DCMAKE_BUILD_TYPE=Debug
kernels "-O[23]" -DCMAKE_BUILD_TYPE=Debug -DPC_DEBUG_KERNELS=OFF
kernels "-O3" -DCMAKE_BUILD_TYPE=Release # which nothing lowers
kernels "-O[23]" -DCMAKE_BUILD_TYPE=
kernels "-O[23]" "-DCMAKE_C_FLAGS=-g -O0"

# The compiled folder again as a static library, which is asked to install itself this time.
ask="$source/models/demo/demo.gguf $pml/employees.pml $pml/employees-prompt.pml"
shared() { readelf -d "$1" | grep -q 'NEEDED.*libpromptcache'; }
shared "$folder/shared_c" || fail "promptcache::promptcache is not shared by default"
configure -DCMAKE_C_FLAGS= -DPC_DEBUG_KERNELS=ON -DBUILD_SHARED_LIBS=OFF -DPC_INSTALL=ON
{ cmake --build "$folder" -j 2 && cmake --install "$folder" --prefix "$folder/usr"; } \
    >"$folder/log" 2>&1 || fail_with_log
! grep -q 'Building C.* object promptcache/' "$folder/log" ||
    fail "the static library is made of other objects"
library=$(dirname "$(find "$folder/usr" -name libpromptcache.a)")
[ -z "$(find "$folder/usr" -name 'libpromptcache.so*')" ] || fail "a shared library was installed"
# shellcheck disable=SC2046 # flags are words
cc -std=c11 "$source/test/consumer/consumer.c" -o "$folder/by_pkg_config" \
    $(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs promptcache)
{ cmake -S "$source/test/consumer/package" -B "$folder/package" \
    -DCMAKE_PREFIX_PATH="$folder/usr" -DCONSUMER_COMPONENTS=static &&
    cmake --build "$folder/package" --target shared_c; } >"$folder/log" 2>&1 || fail_with_log
for consumer in shared_c by_pkg_config package/shared_c; do
    ! shared "$folder/$consumer" || fail "$consumer needs a shared library"
    # shellcheck disable=SC2086 # three paths
    "$folder/$consumer" $ask
done

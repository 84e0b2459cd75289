#!/bin/sh
# Catches: a library that cannot be built as a folder of another project: targets that only its own folders see, settings that it forces on
# the project around it, tests and programs that nobody asked for.
set -eu
source=$1 build=$2
grep -q '^PC_SANITIZE:STRING=.' "$build/CMakeCache.txt" && { echo "skipped: built once already, without sanitizers"; exit 77; }
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
export CMAKE_GENERATOR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
onednn=$(sed -n 's/^PC_WITH_ONEDNN:STRING=//p' "$build/CMakeCache.txt")
set -- # with a compiler cache the objects are there, if they are compiled in the same way
if [ -n "${CMAKE_C_COMPILER_LAUNCHER-}" ]; then
    set -- -DPC_WERROR=ON "-DCMAKE_C_FLAGS=$(sed -n 's/^CMAKE_C_FLAGS_RELWITHDEBINFO:STRING=//p' "$build/CMakeCache.txt")" \
        "-DCMAKE_CXX_FLAGS=$(sed -n 's/^CMAKE_CXX_FLAGS_RELWITHDEBINFO:STRING=//p' "$build/CMakeCache.txt")"
fi
{ cmake -S "$source/test/consumer/subdirectory" -B "$folder" -DPROMPTCACHE="$source" -DPC_WITH_ONEDNN="$onednn" "$@" &&
    cmake --build "$folder" --target shared_c static_c -j 2; } >"$folder/log" 2>&1 || { tail -n 40 "$folder/log"; exit 1; }
[ -z "$(sed -n 's/^CMAKE_BUILD_TYPE:STRING=//p' "$folder/CMakeCache.txt")" ] || { echo "the build type was set"; exit 1; }
for consumer in shared_c static_c; do
    "$folder/$consumer" "$source/models/demo/demo.gguf" "$source/examples/pml/employees.pml" "$source/examples/pml/employees-prompt.pml"
done
cmake --install "$folder" --prefix "$folder/usr" >/dev/null
[ ! -e "$folder/usr/include" ] || { echo "the project around it installs the library without being asked"; exit 1; }

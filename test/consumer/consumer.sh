#!/bin/sh
# Catches: an installation that programs outside of the tree cannot build against, a header that is no C11 or C++17 by itself, and an opening
# example of the header that does not compile, run and answer.
set -eu
source=$1 build=$2
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt") # a new machine may have no make
export CMAKE_GENERATOR
grep -q 'fsanitize' "$build/CMakeCache.txt" && { echo "skipped: a sanitizer build is not installed"; exit 77; }
grep -q '^PC_SANITIZE:STRING=.' "$build/CMakeCache.txt" && { echo "skipped: a sanitizer build is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/usr" >"$folder/log" || { cat "$folder/log"; exit 1; }
library=$(dirname "$(find "$folder/usr" -name libpromptcache.so)")
sed -i "s|^prefix=.*|prefix=$folder/usr|" "$library/pkgconfig/promptcache.pc"
strict="-Wall -Wextra -Wpedantic -Werror"

sed -n '/\[example\]/,/\[\/example\]/p' "$source/include/promptcache.h" |
    sed -e '/\[.*example\]/d' -e 's/^ \* \{0,1\}//' >"$folder/example.c"
export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"
cc -std=c11 $strict "$folder/example.c" -o "$folder/example" $(pkg-config --cflags --libs promptcache)
answer=$("$folder/example" "$source/models/demo/demo.gguf" "$source/examples/pml/employees.pml" "$source/examples/pml/employees-prompt.pml")
echo "$answer"
case $answer in *"Peter Novak"*) ;; *) echo "the example has not answered"; exit 1 ;; esac

mkdir "$folder/cxx"
cat >"$folder/cxx/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(consumer CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(promptcache 0.1 REQUIRED)
add_executable(consumer main.cc)
target_compile_options(consumer PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_link_libraries(consumer PRIVATE promptcache::promptcache)
END
cat >"$folder/cxx/main.cc" <<'END'
#include <promptcache.h>
int main()
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = nullptr;
    const bool ok = pc_context_new(&context, &options) == PC_OK && pc_abi_version() == PC_ABI_VERSION;
    pc_context_free(context);
    return ok ? 0 : 1;
}
END
cmake -S "$folder/cxx" -B "$folder/cxx/build" -DCMAKE_PREFIX_PATH="$folder/usr" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cmake --build "$folder/cxx/build" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
"$folder/cxx/build/consumer"
echo '#include <promptcache.h>' >"$folder/alone.c"
cc -std=c11 $strict -fsyntax-only -I"$source/include" "$folder/alone.c"
c++ -std=c++17 $strict -fsyntax-only -x c++ -I"$source/include" "$folder/alone.c"
echo "consumers build and run"

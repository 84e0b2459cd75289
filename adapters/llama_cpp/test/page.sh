#!/bin/sh
# Catches: a program, a command or a CMakeLists.txt of doc/llama_cpp.md that does not work as it
# stands there, and an installed adapter that cannot be linked.
# $1 sources, $2 build folder, $3 folder of llama.h, $4 of ggml.h, $5 of libllama
set -eu
source=$1 build=$2
if grep -qE 'fsanitize|^PC_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
    echo "skipped: a sanitizer build is not installed"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
# block NUMBER KIND: a fenced block of the page
block() {
    awk -v kind="\`\`\`$2" -v want="$1" '$0 == kind { n++; on = n == want; next }
        /^```/ { on = 0 } on' "$source/doc/llama_cpp.md"
}
cmake --install "$build" --prefix "$folder/usr" >"$folder/log" 2>&1 || {
    cat "$folder/log"
    fail "it cannot be installed"
}
LLAMA=$folder/llama
mkdir -p "$LLAMA/include" "$LLAMA/lib"
ln -s "$3"/*.h "$4"/*.h "$LLAMA/include" 2>/dev/null || true
ln -s "$5"/lib* "$LLAMA/lib"
library=$(dirname "$(find "$folder/usr" -name libpromptcache.so)")
export LLAMA PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"
MODEL=$source/models/demo/demo.gguf
export MODEL OMP_NUM_THREADS=1
right="The desk of Rosa Silva is 632."

cd "$folder"
block 1 c >ask.c
block 1 sh >compile.sh
sh -eu compile.sh || fail "the command of the page does not compile the program of the page"
answer=$(./ask "$MODEL" 2>ask.log) || { cat ask.log; fail "the program fails"; }
case $answer in *"$right$right"*) ;; *) fail "another answer: $answer" ;; esac
case $answer in *" 0 of "*) fail "nothing came from the cache" ;; esac

mkdir cmake && cp ask.c cmake && block 1 cmake >cmake/CMakeLists.txt
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
{ cmake -S cmake -B cmake/build -G "$generator" && cmake --build cmake/build; } >log 2>&1 || {
    cat log
    fail "the CMakeLists.txt of the page does not work"
}
[ "$(cmake/build/ask "$MODEL" 2>/dev/null)" = "$answer" ] || fail "CMake: another answer"

echo "The desk of Peter Novak is 368. The desk of Rosa Silva is 632." >notes.txt
block 2 sh >chat.sh
PATH=$build/adapters/llama_cpp:$PATH
answer=$(sh -eu chat.sh 2>chat.log) || { cat chat.log; fail "the chat fails"; }
case $answer in *"$right"*) ;; *) fail "the chat says: $answer" ;; esac
cc -std=c11 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I "$folder/usr/include" -x c \
    "$folder/usr/include/promptcache_llama.h"
if command -v c++ >/dev/null; then
    c++ -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I "$folder/usr/include" \
        -x c++ "$folder/usr/include/promptcache_llama.h"
fi

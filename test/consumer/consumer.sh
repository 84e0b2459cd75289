#!/bin/sh
# Catches: an installation that programs outside of the tree cannot build against or that does not
# work after it was moved, a static library whose needs are not named, a header that is no C11 or
# C++17 by itself, a header for C++ that is not installed, an opening example of header or README
# that does not compile and answer, an installed program that does not run or does not find its
# library or its plug-in modules, or that needs these to run. The test checks every answer and how
# many of its tokens came from the cache.
# Flags and arguments are lists of words; patterns stand in single quotes.
# shellcheck disable=SC2013,SC2016,SC2046,SC2086
set -eu
source=$1 build=$2
here=$source/test/consumer
# A new machine may have no make.
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
export CMAKE_GENERATOR
if grep -qE 'fsanitize|^PC_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
    echo "skipped: a sanitizer build is not installed"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "failed: $*"; }; }
# holds TEXT PART: the part is in the text
holds() { case $1 in *"$2"*) ;; *) fail "'$2' is not in: $1" ;; esac; }
# needs FILE yes|no: whether it wants the shared library at run time
needs() {
    found=no
    readelf -d "$1" | grep -q 'NEEDED.*libpromptcache' && found=yes
    [ $found = "$2" ] || fail "$1 needs the shared library: $found, expected $2"
}

quietly cmake --install "$build" --prefix "$folder/first"
mv "$folder/first" "$folder/usr" # nothing installed may know where it was
library=$(dirname "$(find "$folder/usr" -name libpromptcache.so)")
data=$folder/usr/share/promptcache
ask="$data/demo.gguf $data/pml/employees.pml $data/pml/employees-prompt.pml"
export PKG_CONFIG_PATH="$library/pkgconfig"
strict="-Wall -Wextra -Wpedantic -Werror"
pc_version=$(sed -n 's/^#define PC_VERSION_M[AI][JN]OR //p; s/^#define PC_VERSION_PATCH //p' \
    "$source/include/promptcache.h" | paste -s -d .)

echo "== the examples of header and README"
sed -n '/\[example\]/,/\[\/example\]/p' "$folder/usr/include/promptcache.h" |
    sed -e '/\[.*example\]/d' -e 's/^ \* \{0,1\}//' >"$folder/example.c"
sed -n '/^```c$/,/^```$/p' "$folder/usr/share/doc/promptcache/README.md" |
    sed '/^```/d' >"$folder/readme.c"
for program in example readme; do # the README's is the same with another layout
    cc -std=c11 $strict "$folder/$program.c" -o "$folder/$program" \
        $(pkg-config --cflags --libs promptcache)
    answer=$(LD_LIBRARY_PATH=$library "$folder/$program" $ask)
    holds "$answer" "The desk of Peter Novak is 368."
    holds "$answer" "0 of 601 tokens came from the cache"
done

echo "== pkg-config $(pkg-config --modversion promptcache)"
[ "$(pkg-config --modversion promptcache)" = "$pc_version" ] || fail "the header says $pc_version"
# A user of the shared library has none of the packages that it was built with, and gets none of
# their flags.
flags=$(PKG_CONFIG_LIBDIR=$library/pkgconfig PKG_CONFIG_PATH='' \
    pkg-config --cflags --libs promptcache) ||
    fail "pkg-config asks for the packages that the shared library was built with"
case $flags in
*-D* | *utf8proc* | *hiredis* | *expat*) fail "flags of other packages: $flags" ;;
esac
cc -std=c11 $strict "$here/consumer.c" -o "$folder/shared" $(pkg-config --cflags --libs promptcache)
needs "$folder/shared" yes
LD_LIBRARY_PATH=$library "$folder/shared" $ask
c++ -std=c++17 $strict "$here/consumer_hpp.cc" -o "$folder/header_cxx" \
    $(pkg-config --cflags --libs promptcache)
LD_LIBRARY_PATH=$library "$folder/header_cxx" $ask
mkdir "$folder/static" # the linker prefers a shared library that lies beside a static one
cp "$library/libpromptcache.a" "$folder/static"
cc -std=c11 $strict "$here/consumer.c" -o "$folder/alone" -L"$folder/static" \
    $(pkg-config --static --cflags --libs promptcache)
needs "$folder/alone" no
"$folder/alone" $ask

echo "== description for bindings"
api=$(pkg-config --variable=api promptcache)
if grep -q '^_Python3_EXECUTABLE:INTERNAL=/' "$build/CMakeCache.txt"; then
    for file in promptcache.json promptcache.cdef.h promptcache-bench.cdef.h; do
        [ -s "$api/$file" ] || fail "$file is not installed in $api"
    done
    python3 "$source/test/abi/test_cffi_demo.py" "$library/libpromptcache.so" "$api" \
        "$data/demo.gguf" "$data/pml" || [ $? = 77 ] || fail "Python has failed"
fi

echo "== CMake package"
quietly cmake -S "$here/package" -B "$folder/package" -DCMAKE_PREFIX_PATH="$folder/usr"
quietly cmake --build "$folder/package"
needs "$folder/package/shared_c" yes
needs "$folder/package/static_c" no
for consumer in shared_c static_c shared_cxx header_cxx; do
    "$folder/package/$consumer" $ask || fail "$consumer has failed"
done

echo "== header alone"
echo '#include <promptcache.h>' >"$folder/header.c"
cc -std=c11 $strict -fsyntax-only -I"$folder/usr/include" "$folder/header.c"
c++ -std=c++17 $strict -fsyntax-only -x c++ -I"$folder/usr/include" "$folder/header.c"
echo '#include <promptcache_task.hpp>' >"$folder/header.cc"
c++ -std=c++17 $strict -fsyntax-only -I"$folder/usr/include" "$folder/header.cc"

if grep -q '^PC_BUILD_TOOLS:BOOL=ON' "$build/CMakeCache.txt"; then
    echo "== installed program"
    program=$folder/usr/bin/promptcache
    cd "$folder"
    holds "$("$program" --version)" "$pc_version"
    holds "$("$program" --help)" "usage: promptcache"
    answer=$("$program" run --model "$data/demo.gguf" --schema "$data/pml/employees.pml" \
        --prompt "$data/pml/employees-prompt.pml")
    holds "$answer" "The desk of Peter Novak is 368."
    holds "$("$program" bench --help)" "usage: promptcache-bench"
    for module in "$library"/promptcache/*.so; do
        [ -e "$module" ] || continue # built without any
        holds "$("$program" --version)" "$(realpath "$module")"
    done
    answer=$(PC_LINEAR=onednn "$program" run --model "$data/demo.gguf" \
        --schema "$data/pml/employees.pml" --prompt "$data/pml/employees-prompt.pml")
    holds "$answer" "The desk of Peter Novak is 368."
    mv "$library/promptcache" "$folder/elsewhere" 2>/dev/null || mkdir "$folder/elsewhere"
    for module in "$folder"/elsewhere/*.so; do
        [ -e "$module" ] || continue
        holds "$("$program" --version)" "$(basename "$module") was not found in "
        holds "$(PC_MODULES=$folder/elsewhere "$program" --version)" "$module"
    done
    answer=$("$program" run --model "$data/demo.gguf" --schema "$data/pml/employees.pml" \
        --prompt "$data/pml/employees-prompt.pml")
    holds "$answer" "The desk of Peter Novak is 368."
    for name in promptcache promptcache-bench; do
        holds "$(head -n 1 "$folder/usr/share/man/man1/$name.1")" ".TH \"$name\" 1"
        [ -s "$folder/usr/share/bash-completion/completions/$name" ] ||
            fail "no completion of $name"
    done
fi
documents=$folder/usr/share/doc/promptcache
for file in README.md LICENSE doc/abi.md doc/errors.md examples/answer.c; do
    [ -s "$documents/$file" ] || fail "$file is not installed"
done
# Every link to a file leads to a file of the installation.
for page in "$documents"/*.md "$documents"/doc/*.md; do
    for link in $(sed -n 's/](/\n](/gp' "$page" |
        sed -n 's/^](\([a-z][a-z0-9_/-]*\.[a-z]*\).*/\1/p' | sort -u); do
        [ -s "$(dirname "$page")/$link" ] || fail "$page links to $link, which is not installed"
    done
done
echo "consumers build, run and reuse"

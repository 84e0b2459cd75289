#!/bin/sh
# test_cpp_compilers.sh INCLUDE: the header alone, by every compiler that is here, with all warnings
# as errors. Catches: C++ that only one compiler or standard takes, warnings in programs that have
# them on, RTTI or exceptions that are needed though they are off; functions of the application that
# would dangle, or throw on another thread, and are taken.
set -u
include=$1 failed=0 count=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/header.cpp" <<'END'
#include <promptcache.hpp>
#include <promptcache.hpp>
promptcache::stats unused();
promptcache::stats unused()
{
    return {};
}
END
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror"
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    for standard in 17 20; do
        for option in "" "-fno-exceptions -fno-rtti"; do
            # shellcheck disable=SC2086 # options are words
            $compiler -std=c++$standard $option $warnings -I"$include" -fsyntax-only \
                "$folder/header.cpp" ||
                { echo "failed: $compiler -std=c++$standard $option"; failed=1; }
            count=$((count + 1))
        done
    done
done
# refused TEXT CODE: the code must not compile, and the compiler says the text
refused() {
    cat >"$folder/refused.cpp" <<END
#include <promptcache.hpp>
void f(promptcache::generate_options &, promptcache::context_options &);
void f(promptcache::generate_options &g, promptcache::context_options &c)
{
    (void)g, (void)c;
    $2
}
END
    if $compiler -std=c++17 -I"$include" -fsyntax-only "$folder/refused.cpp" \
        2>"$folder/log"; then
        echo "compiles, though it must not: $2"
        failed=1
    elif ! grep -q "$1" "$folder/log"; then
        cat "$folder/log"
        failed=1
    fi
}
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    refused "lvalue\|no matching" 'g.set_on_text([](std::string_view) {});'
    refused "must be noexcept" 'auto log = [](uint32_t, std::string_view) {}; c.set_log(log);'
    refused "deleted" 'promptcache::message("user", std::string("gone"));'
    refused "nothing, bool or int32_t" \
        'auto text = [](std::string_view) { return 1.5; }; g.set_on_text(text);'
done
[ $count -gt 0 ] || { echo "skipped: neither g++ nor clang++ is here"; exit 77; }
echo "compiled in $count ways"
exit $failed

#!/bin/sh
# test_cpp_compilers.sh INCLUDE: the headers alone, by every compiler that is here, with all
# warnings as errors (PC_TEST_LONG=1: in more ways). Catches: C++ that only one compiler or standard
# takes, warnings in programs that have them on, RTTI or exceptions that are needed though they are
# off; functions of the application that would dangle, or throw on another thread, and are taken;
# texts and arrays that would dangle.
set -u
include=$1 failed=0 count=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/header.cpp" <<'END'
#include <promptcache_task.hpp>
#include <promptcache.hpp>
#include <promptcache.hpp>
#include <promptcache_task.hpp>
promptcache::stats unused();
promptcache::stats unused()
{
    return {};
}
promptcache::returns<promptcache::task> started(const promptcache::batch &batch);
promptcache::returns<promptcache::task> started(const promptcache::batch &batch)
{
    return promptcache::step_async(batch);
}
END
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror"
# header STANDARD OPTIONS
header() {
    # shellcheck disable=SC2086 # options are words
    $compiler -std=c++$1 $2 $warnings -I"$include" -fsyntax-only "$folder/header.cpp" ||
        { echo "failed: $compiler -std=c++$1 $2"; failed=1; }
    count=$((count + 1))
}
cat >"$folder/refused.cpp" <<END
#include <promptcache.hpp>
void f(promptcache::generate_options &, promptcache::context_options &);
void f(promptcache::generate_options &g, promptcache::context_options &c)
{
    (void)g, (void)c;
END
before=$(wc -l <"$folder/refused.cpp")
# refused TEXT CODE: the code must not compile, and the compiler says the text. Each is a line of
# refused.cpp, so that one run of a compiler judges all.
refused() {
    echo "$2" >>"$folder/refused.cpp"
    echo "$1" >>"$folder/texts"
}
refused 'lvalue\|no matching' 'g.set_on_text([](std::string_view) {});'
refused "must be noexcept" '{ auto log = [](uint32_t, std::string_view) {}; c.set_log(log); }'
refused "nothing, bool or int32_t" \
    '{ auto text = [](std::string_view) { return 1.5; }; g.set_on_text(text); }'
gone='no viable\|no matching\|annot convert\|could not convert'
refused "$gone" 'promptcache::message("user", std::string("gone"));'
refused "$gone" 'promptcache::message(std::string("gone"), "text");'
refused "$gone" 'promptcache::salt(0, std::string("gone"));'
refused "$gone" 'promptcache::save_options().set_salt(std::string("gone"));'
refused "$gone" 'g.set_stop_tokens(std::vector<std::int32_t>(1));'
refused "$gone" 'g.set_stop_tokens({0, 2});'
refused "$gone" '(void)promptcache::model().detokenize({0, 2});'
echo "}" >>"$folder/refused.cpp"
check_refused() {
    $compiler -std=c++17 -w -I"$include" -fsyntax-only "$folder/refused.cpp" 2>"$folder/log"
    line=$before
    while IFS= read -r text; do
        line=$((line + 1))
        grep -A 8 -B 8 "refused.cpp:$line:" "$folder/log" | grep -q "$text" || {
            echo "$compiler takes this, or does not say '$text':"
            sed -n "${line}p" "$folder/refused.cpp"
            failed=1
        }
    done <"$folder/texts"
}
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    header 17 ""
    header 20 "-fno-exceptions -fno-rtti"
    if [ "${PC_TEST_LONG:-0}" = 1 ]; then
        header 20 ""
        header 17 "-fno-exceptions -fno-rtti"
        header 17 "-DPROMPTCACHE_NO_EXCEPTIONS"
        header 20 "-DPROMPTCACHE_NO_EXCEPTIONS"
    fi
    check_refused
done
[ $count -gt 0 ] || { echo "skipped: neither g++ nor clang++ is here"; exit 77; }
echo "compiled in $count ways"
exit $failed

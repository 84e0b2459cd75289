#!/usr/bin/env python3
"""Makes test_cpp_defaults: a program that compares the defaults of every struct of the headers for
C++ with the INIT macro of C.

    make_defaults.py promptcache.json HEADER.hpp... OUT.cpp

Catches: a function, handle or struct of the C headers that those of C++ do not know, here; a
struct that does not begin as its INIT macro says, in the program."""
import json
import re
import sys

# What C++ has without the function, or does not have.
LEFT_OUT = {
    "pc_version", "pc_abi_version",  # the same in C++
    "pc_status_name",
}
LEFT_OUT_HEADERS = ("promptcache/bench.h", "promptcache/grammar.h")  # for measuring; C alone has it


def main():
    description, *headers, out = sys.argv[1:]
    with open(description, encoding="utf-8") as file:
        api = json.load(file)
    code = ""
    for header in headers:
        with open(header, encoding="utf-8") as file:
            code += re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    names = set(re.findall(r"\bpc_\w+", code))
    sized = [s for s in api["structs"] if s.get("sized") and s["header"] not in LEFT_OUT_HEADERS
             and not s.get("given_by_library")]
    init = {s["init"] for s in api["structs"] if s.get("init")}
    missing = [f["name"] for f in api["functions"]
               if f["header"] not in LEFT_OUT_HEADERS and f["name"] not in init | names | LEFT_OUT]
    missing += [h["name"] for h in api["handles"]
                if h["header"] not in LEFT_OUT_HEADERS and h["name"] not in names]
    missing += [s["name"] for s in sized if s["name"] not in names]
    if missing:
        sys.exit(f"the headers for C++ do not have: {', '.join(missing)}")
    lines = ["// Made by make_defaults.py.", '#include "testing.hpp"', "#include <cstring>", "",
             "template <class T, class C> void check(const char *name, const C &init)", "{",
             "    static_assert(std::is_base_of_v<C, T>);", "    T made;",
             "    const C &begins = made;",
             "    if (std::memcmp(&begins, &init, sizeof(C)) != 0) {",
             '        std::fprintf(stderr, "%s begins otherwise than in C\\n", name);',
             "        faults++;", "    }", "}", "", "int main()", "{"]
    for struct in sized:
        name = struct["name"]
        lines += ["    {", f"        const {name} init = {struct['init_macro']};",
                  f'        check<pc::{name[3:]}>("{name}", init);', "    }"]
    lines += [f'    std::printf("{len(sized)} structs\\n");', "    return end_of_tests();", "}", ""]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main()

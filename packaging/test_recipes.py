#!/usr/bin/env python3
"""Catches: recipes of Conan and vcpkg, or packages of Debian, that have another version than the
header, or lack a library that cmake/dependencies.cmake asks for."""
import json
import re
import sys

# pkg-config's name, and those of vcpkg, Conan and Debian.
NAMES = {
    "expat": ("expat", "expat", "libexpat1-dev"),
    "jansson": ("jansson", "jansson", "libjansson-dev"),
    "libpcre2-8": ("pcre2", "pcre2", "libpcre2-dev"),
    "libutf8proc": ("utf8proc", "utf8proc", "libutf8proc-dev"),
    "libsodium": ("libsodium", "libsodium", "libsodium-dev"),
    "libzstd": ("zstd", "zstd", "libzstd-dev"), "libxxhash": ("xxhash", "xxhash", "libxxhash-dev"),
    "hiredis": ("hiredis", "hiredis", "libhiredis-dev"),
    "openssl": ("openssl", "openssl", "libssl-dev"),
}


def read(path):
    with open(f"{sys.argv[1]}/{path}", encoding="utf-8") as file:
        return file.read()


def main():
    faults = []
    header = read("include/promptcache.h")
    version = ".".join(re.search(rf"define PC_VERSION_{part} (\d+)", header)[1]
                       for part in ("MAJOR", "MINOR", "PATCH"))
    port = json.loads(read("packaging/vcpkg/promptcache/vcpkg.json"))
    if port["version"] != version:
        faults.append(f"vcpkg.json has version {port['version']}, the header {version}")
    listed = port["dependencies"] + [name for feature in port["features"].values()
                                     for name in feature.get("dependencies", [])]
    listed = {name for name in listed if isinstance(name, str)}
    conan = read("packaging/conan/conanfile.py")
    required = set(re.findall(r'"([a-z0-9]+)/\[', conan))
    system = set(re.findall(r'"(lib[a-z0-9-]+-dev)"', conan))
    compile(conan, "conanfile.py", "exec")
    static = read("cmake/package.cmake")
    asked = re.findall(r"pkg_check_modules\(\w+ (?:REQUIRED )?IMPORTED_TARGET(?: GLOBAL)? ([\w-]+)",
                       read("cmake/dependencies.cmake"))
    for name in asked:
        if name not in NAMES:
            faults.append(f"{name} is asked for; name its packages here and in the recipes")
            continue
        of_vcpkg, of_conan, of_debian = NAMES[name]
        if of_vcpkg not in listed:
            faults.append(f"vcpkg.json lacks {of_vcpkg}")
        if of_conan not in required:
            faults.append(f"conanfile.py lacks {of_conan}")
        if of_debian not in system:
            faults.append(f"conanfile.py lacks {of_debian} among the system's libraries")
        if name not in ("libxxhash", "hiredis", "openssl") and of_debian not in static:
            faults.append(f"cmake/package.cmake: the static library needs {of_debian}")
    if len(asked) < 9:
        faults.append("cmake/dependencies.cmake is no longer read")
    print("\n".join(faults) or f"{len(asked)} libraries: all recipes name them")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

#!/bin/sh
# Makes the packages of the last commit and tries them (doc/packages.md).
#   packages.sh FOLDER [STEP...]   puts them into FOLDER; steps, by default all, in this order:
#     source   promptcache-VERSION.tar.gz, by cpack; it must have what git has, and no more
#     deb      the .deb packages, from the tarball; lintian must find no error
#     install  into a clean Debian 12: a program is compiled and answers, everything is purged
#     conan    a Conan package, from the tarball, with the libraries of the system
# A step that does not find what it needs says "skipped: REASON", and the exit code is 77.
# The test test_packages runs all steps, with PC_TEST_PACKAGES=1.
# Needs: git, and what building needs; deb: dpkg-dev, lintian; install: debootstrap, root, network;
# conan: conan, or pip and network. PC_PACKAGES_ROOT names a folder with a clean Debian 12, which is
# copied, and saves the fetching. PC_PACKAGES_CMAKE: further options of CMake for the step deb.
# DEBFULLNAME and DEBEMAIL: who maintains the packages.
set -eu
cd "$(dirname "$0")/.."
tree=$(pwd)
case ${1:--} in
-*) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- source deb install conan
version=$(sed -n 's/^#define PC_VERSION_M[AI][JN]OR //p; s/^#define PC_VERSION_PATCH //p' \
    include/promptcache.h | paste -s -d .)
tarball=$out/promptcache-$version.tar.gz
work=$(mktemp -d)
export CCACHE_BASEDIR="$work" # where ccache is in use: the name of the folder must not matter
trap 'rm -rf "$work"' EXIT
left_out=0
fail() { echo "$1"; exit 1; }
left_out() { echo "skipped: $1: $2"; left_out=1; }
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 60 "$work/log"; fail "failed: $*"; }; }
# holds TEXT PART: the part is in the text
holds() { case $1 in *"$2"*) ;; *) fail "'$2' is not in: $1" ;; esac; }

make_source() {
    mkdir "$work/export"
    git archive HEAD | tar -x -C "$work/export"
    quietly cmake -S "$work/export" -B "$work/configured" -G Ninja -DPC_BUILD_TESTS=OFF \
        -DPC_BUILD_BINDINGS=OFF -DPC_BUILD_EXAMPLES=OFF
    quietly cpack --config "$work/configured/CPackSourceConfig.cmake" -B "$out"
    rm -rf "$out/_CPack_Packages"
    git ls-tree -r --name-only HEAD | sort >"$work/wanted"
    tar -tzf "$tarball" | sed -n "s|^promptcache-$version/\(.*[^/]\)\$|\1|p" | sort >"$work/packed"
    diff "$work/wanted" "$work/packed" >"$work/difference" ||
        { head "$work/difference"; fail "the tarball does not have what git has"; }
    echo "source: $(wc -l <"$work/packed") files, $(stat -c %s "$tarball") bytes"
}

# unpacked: the tree of the tarball, in $work/promptcache-VERSION
unpacked() {
    [ -f "$tarball" ] || fail "$tarball is missing: run the step source first"
    [ -d "$work/promptcache-$version" ] || tar -xzf "$tarball" -C "$work"
}

make_deb() {
    for program in dpkg-buildflags dpkg-shlibdeps lintian; do
        command -v $program >/dev/null || { left_out deb "$program is not installed"; return 0; }
    done
    unpacked
    rm -f "$out"/*.deb
    build=$work/promptcache-$version/build/deb
    set --
    [ -z "${DEBEMAIL-}" ] ||
        set -- "-DCPACK_PACKAGE_CONTACT=${DEBFULLNAME-promptcache} <$DEBEMAIL>"
    # shellcheck disable=SC2086 # options are words
    # Debian's flags; the programs find the library where the system looks, not by an rpath
    (
        eval "$(dpkg-buildflags --export=sh)"
        quietly cmake -S "$work/promptcache-$version" -B "$build" -G Ninja \
            -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON \
            -DPC_STATIC_MODULES=OFF -DPC_WITH_ONEDNN=ON -DPC_WITH_FAISS=ON -DPC_WITH_HIREDIS=ON \
            -DPC_WITH_OPENSSL=ON -DPC_WITH_CUDA=OFF -DPC_BUILD_TESTS=OFF -DPC_BUILD_BINDINGS=OFF \
            -DPC_BUILD_EXAMPLES=OFF "$@" ${PC_PACKAGES_CMAKE-}
    ) || exit 1
    quietly nice cmake --build "$build" -j "$(nproc)"
    (cd "$build" && quietly cpack -G DEB -B "$work/debs") || exit 1
    cp "$work"/debs/*.deb "$out"
    for deb in "$out"/*.deb; do
        printf '%s: %s bytes; needs %s\n' "$(basename "$deb")" "$(stat -c %s "$deb")" \
            "$(dpkg-deb -f "$deb" Depends)"
    done
    as_user=
    [ "$(id -u)" != 0 ] || as_user=--allow-root
    # shellcheck disable=SC2086 # one option or none
    lintian $as_user --fail-on error --tag-display-limit 0 "$out"/*.deb >"$out/lintian.txt" 2>&1 ||
        { cat "$out/lintian.txt"; fail "lintian finds errors"; }
    echo "lintian: no error, $(grep -c '^W:' "$out/lintian.txt") warnings"
}

# in_root COMMAND: in the clean Debian
in_root() { chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive HOME=/root sh -c "$1"; }

clean_root() {
    if [ -n "${PC_PACKAGES_ROOT-}" ]; then
        cp -a "$PC_PACKAGES_ROOT" "$work/root"
    else
        quietly debootstrap --variant=minbase bookworm "$work/root"
    fi
    quietly in_root "apt-get update"
}

try_install() {
    [ "$(id -u)" = 0 ] || { left_out install "only root may chroot"; return 0; }
    command -v debootstrap >/dev/null || [ -n "${PC_PACKAGES_ROOT-}" ] ||
        { left_out install "debootstrap is not installed"; return 0; }
    ls "$out"/*.deb >/dev/null 2>&1 || { left_out install "there are no packages"; return 0; }
    clean_root
    in_root "dpkg-query -W -f '\${Package}\n'" | sort >"$work/before"
    mkdir "$work/root/packages"
    cp "$out"/*.deb "$work/root/packages"
    get="apt-get install -y --no-install-recommends"
    data=/usr/share/promptcache
    ask="$data/demo.gguf $data/pml/employees.pml $data/pml/employees-prompt.pml"
    run="promptcache run --model $data/demo.gguf --schema $data/pml/employees.pml"
    run="$run --prompt $data/pml/employees-prompt.pml"
    answer="The desk of Peter Novak is 368."

    quietly in_root "cd /packages && $get ./promptcache_*.deb ./promptcache-doc_*.deb \
        ./libpromptcache1_*.deb"
    holds "$(in_root "$run")" "$answer"
    holds "$(in_root "promptcache --version")" "libpromptcache_onednn.so was not found"
    echo "install: the program answers without the plug-in modules"

    quietly in_root "cd /packages && $get ./*.deb gcc g++ libc6-dev pkg-config cmake make \
        libexpat1-dev libjansson-dev libpcre2-dev libsodium-dev libutf8proc-dev libzstd-dev"
    for module in onednn faiss remote; do
        holds "$(in_root "promptcache --version")" "/promptcache/libpromptcache_$module.so"
    done
    for linear in own onednn; do
        holds "$(in_root "PC_LINEAR=$linear $run")" "$answer"
    done
    cp test/consumer/consumer.c test/consumer/consumer_hpp.cc "$work/root/packages"
    holds "$(in_root "cd /packages && \
        cc /usr/share/doc/promptcache/examples/answer.c -o answer \
            \$(pkg-config --cflags --libs promptcache) && ./answer $ask")" "$answer"
    holds "$(in_root "cd /packages && c++ -std=c++17 consumer_hpp.cc -o cxx \
            \$(pkg-config --cflags --libs promptcache) && ./cxx $ask")" "$answer"
    holds "$(in_root "cd /packages && mkdir static && cp /usr/lib/*/libpromptcache.a static && \
        cc consumer.c -o alone -Lstatic \$(pkg-config --static --cflags --libs promptcache) && \
        ./alone $ask && readelf -d alone")" "$answer"
    [ -z "$(in_root "readelf -d /packages/alone | grep libpromptcache")" ] ||
        fail "a program with the static library needs the shared one"
    mkdir "$work/root/packages/by_cmake"
    cat >"$work/root/packages/by_cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(by_cmake C)
find_package(promptcache 0.9 REQUIRED COMPONENTS shared static)
add_executable(by_cmake ../consumer.c)
target_link_libraries(by_cmake PRIVATE promptcache::promptcache)
END
    quietly in_root "cd /packages/by_cmake && cmake -B build . && cmake --build build"
    holds "$(in_root "/packages/by_cmake/build/by_cmake $ask")" "$answer"
    holds "$(in_root "zcat /usr/share/man/man1/promptcache.1.gz")" '.TH "promptcache" 1'
    echo "install: programs in C and C++ build, by pkg-config and CMake, and answer"

    in_root "dpkg-query -W -f '\${Package}\n'" | sort | comm -13 "$work/before" - >"$work/added"
    rm -rf "$work/root/packages"
    # shellcheck disable=SC2046 # words
    quietly in_root "dpkg --purge $(grep promptcache "$work/added" | paste -s -d ' ')"
    left=$(find "$work/root" -xdev -name '*promptcache*' -not -path '*/var/cache/apt/*')
    [ -z "$left" ] || fail "purging leaves: $left"
    left=$(in_root "ldconfig -p | grep promptcache" || true)
    [ -z "$left" ] || fail "purging leaves in the loader's cache: $left"
    echo "install: everything is purged"
}

try_conan() {
    unpacked
    if ! command -v conan >/dev/null; then
        if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q "conan>=2,<3"; } \
            >"$work/log" 2>&1; then
            left_out conan "$(tail -n 1 "$work/log")"
            return 0
        fi
        PATH=$work/venv/bin:$PATH
    fi
    export CONAN_HOME="$work/conan"
    quietly conan profile detect
    # only the tarball is read: the recipe must name all that it needs
    cp -r packaging/conan "$work/recipe"
    sed "s|\${CMAKE_CURRENT_SOURCE_DIR}/../../..|$work/promptcache-$version|" \
        packaging/conan/test_package/CMakeLists.txt >"$work/recipe/test_package/CMakeLists.txt"
    cat >"$work/recipe/conandata.yml" <<END
sources:
  "$version":
    url: "file://$tarball"
    sha256: "$(sha256sum "$tarball" | cut -d ' ' -f 1)"
END
    conan remote disable '*' >/dev/null 2>&1 # what is not on this machine must not be needed
    for shared in True False; do
        quietly conan create "$work/recipe" --version "$version" -s build_type=Release \
            -o "promptcache/*:system_libraries=True" -o "promptcache/*:shared=$shared"
        holds "$(cat "$work/log")" "The desk of Peter Novak is 368. (590 cached"
    done
    echo "conan: shared and static packages build from the tarball and answer"
}

for step; do
    case $step in
    source) make_source ;;
    deb) make_deb ;;
    install) try_install ;;
    conan) try_conan ;;
    *) fail "no such step: $step" ;;
    esac
done
cd "$tree"
[ $left_out = 0 ] || exit 77

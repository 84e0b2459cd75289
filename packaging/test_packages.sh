#!/bin/sh
# test_packages.sh SOURCE FOLDER: makes all packages into the folder and tries them. Catches: a
# tarball that lacks a file, packages that do not install, cannot be built against, do not answer or
# leave something behind when they are purged; a recipe of Conan that names too little.
set -eu
[ "${PC_TEST_PACKAGES-}" = 1 ] ||
    { echo "skipped: takes minutes; PC_TEST_PACKAGES=1 runs it"; exit 77; }
git -C "$1" rev-parse HEAD >/dev/null 2>&1 || { echo "skipped: $1 is no clone"; exit 77; }
exec "$1/tools/packages.sh" "$2"

#!/bin/sh
# Catches: outside libraries that come into the library instead of a plug-in module: it needs at
# most 8, of 6 MB in all, with those that they need.
#   footprint.sh LIBRARY
set -eu
ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | while read -r file; do
    stat -L -c '%s %n' "$file"
done | sort -n | awk '
    { print; count++; bytes += $1 }
    END {
        printf "%d libraries, %.2f MB\n", count, bytes / 1e6
        exit !(count > 0 && count <= 8 && bytes <= 6e6)
    }'

#!/bin/sh
# Catches: a symbol that is exported without being promised, one that is promised but missing, a
# wrong soname, a new outside library, a plug-in module that exports more than its own symbol.
#   abi.sh SOURCE LIBRARY MODULES...
set -eu
source=$1 library=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' |
    sort >"$folder/exported"
sed -n 's/^ *\(pc_[a-z0-9_]*\);.*/\1/p' "$source/lib/promptcache.map" | sort >"$folder/map"
grep -hE '^PC_API ' "$source/include/promptcache.h" "$source"/include/promptcache/*.h |
    grep -oE '\bpc_[a-z0-9_]+\(' | tr -d '(' | sort >"$folder/header"
grep -v '^__' "$folder/exported" | diff - "$folder/map"
diff "$folder/header" "$folder/map"
readelf -d "$library" | grep -q 'SONAME.*\[libpromptcache.so.1\]'
known='libexpat|libjansson|libpcre2-8|libutf8proc|libsodium|libzstd|libdl|libgcc_s'
known="$known|libpthread|libm|libc|libasan|libubsan|libtsan|ld-linux.*"
others=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -vE "^($known)\.so" || true)
[ -z "$others" ] || { echo "unexpected: $others"; exit 1; }
for module in "$@"; do
    name=$(basename "$module" .so)
    exported=$(nm -D --defined-only "$module" | awk '$2 != "A" {print $3}' | grep -v '^__' || true)
    [ "$exported" = "pc__module_${name#libpromptcache_}" ] || { echo "$name: $exported"; exit 1; }
done
echo "$(wc -l <"$folder/map") symbols, $# plug-in modules"

#!/bin/sh
# Installs what is missing, builds the library and the program, and answers prompts of cached
# modules on the shipped model.
set -eu
cd "$(dirname "$0")/.."

./tools/setup.sh
mkdir -p build
echo "== building"
cmake -S . -B build/demo -G Ninja -DPC_BUILD_TESTS=OFF -DPC_BUILD_EXAMPLES=OFF \
    >build/demo.configure.log 2>&1 || { cat build/demo.configure.log; exit 1; }
cmake --build build/demo >build/demo.build.log 2>&1 || { tail -n 40 build/demo.build.log; exit 1; }

program=build/demo/tools/promptcache/promptcache
model=models/demo/demo.gguf
for prompt in employees-prompt catalogue-prompt city-guide-prompt; do
    schema=examples/pml/${prompt%-prompt}.pml
    echo
    echo "== $schema with examples/pml/$prompt.pml"
    sed -n 's/.*<user>\(.*\)<\/user>.*/asked:    \1/p' "examples/pml/$prompt.pml"
    printf 'answered: '
    $program run --model $model --schema "$schema" --prompt "examples/pml/$prompt.pml" --compare
done

# field NAME of the JSON in $answer
field() { printf '%s' "$answer" | sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
echo
echo "== a restart: the modules of the first schema are stored in build/demo-store"
rm -rf build/demo-store
texts=
for process in first second; do
    answer=$($program run --model $model --schema examples/pml/employees.pml \
        --prompt examples/pml/employees-prompt.pml --disk build/demo-store --json)
    milliseconds=$(awk "BEGIN { printf \"%.1f\", 1000 * $(field seconds_ttft) }")
    printf '%-6s process: %s\n' "$process" "$(field text)"
    printf '%16sfirst token after %s ms; %s tokens encoded, %s loaded from disk (%s)\n' "" \
        "$milliseconds" "$(field tokens_encoded)" "$(field disk)" "$(field miss_reason)"
    [ -z "$texts" ] || [ "$texts" = "$(field text)" ] || { echo "the answers differ"; exit 1; }
    texts=$(field text)
done
echo "the answers are equal"
$program show examples/pml/city-guide.pml --model $model --svg build/city-guide.svg >/dev/null
echo
echo "The layout of the city guide is drawn in build/city-guide.svg"

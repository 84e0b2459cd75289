#!/bin/sh
# Catches: a wrong exit code, a message without place or cause, or a crash, for wrong options,
# damaged or strange files, output that cannot be written and Ctrl-C; JSON without its keys.
# shellcheck disable=SC2094 # p.pml in an expected text is not read there
. "$1/test/fail/program.sh"
model=$source/models/demo/demo.gguf
guide=$source/examples/pml/city-guide.pml
input=in
silent=1

# schema CODE TEXT: what `show` says about the schema on standard input; prompt: what `run` says
# about such a prompt
schema() {
    cat >s.pml
    expect "$1" "$2" show s.pml --model "$model"
}
prompt() {
    cat >p.pml
    expect "$1" "$2" run --model "$model" --schema "$guide" --prompt p.pml --max-tokens 8
}
: >in

# ---- help and usage
expect 2 "usage: promptcache COMMAND"
expect 0 "130 interrupted" --help
expect 0 "." --version
for part in onednn faiss remote; do
    expect 0 "$part" --version
done
expect 2 "no command 'answer'" answer
for command in run encode show check eval tokenize "bench ttft" "bench decode" "bench store"; do
    case $command in
    # the program that it starts
    bench* | check | eval) usage="promptcache-bench ${command#bench }" ;;
    *) usage="promptcache $command" ;;
    esac
    for help in --help -h; do
        # shellcheck disable=SC2086
        expect 0 "usage: $usage" $command $help
    done
    # shellcheck disable=SC2086
    expect 2 "there is no option --nope" $command --nope
    # shellcheck disable=SC2086
    expect 2 "there is no option -x (options start with two dashes)" $command -x
    # shellcheck disable=SC2086
    expect 2 "--model needs a value" $command --model
    # shellcheck disable=SC2086
    expect 2 "'--json' looks like an option" $command --model --json
    # shellcheck disable=SC2086
    expect 2 "--model is empty" $command --model ""
    # shellcheck disable=SC2086
    expect 2 "--json takes no value" $command --json=yes
    # shellcheck disable=SC2086
    expect 2 "--model is given twice" $command --model a --model b
done
expect 0 "usage: promptcache show" help show
expect 0 "ttft" bench --help
expect 2 "promptcache-bench: there is no command 'nope'" bench nope
expect 2 "usage: promptcache-bench COMMAND" bench
expect 2 "did you mean --max-tokens" run --max-token 3
expect 2 "--model is needed" run
expect 2 "--schema and --prompt, or --user, or --text, are needed" run --model "$model"
expect 2 "--prompt is needed" run --model "$model" --schema "$guide"
expect 2 "--schema is needed" run --model "$model" --prompt p.pml
expect 2 "exclude each other" run --model "$model" --text a --schema "$guide"
expect 2 "one argument too many" run --model "$model" stray
expect 2 "exclude each other" run --model "$model" --text a --system-format a --system b --user c
expect 2 "needs --user or --user-file" run --model "$model" --system-format a --system b
expect 2 "needs one of --user and --user-file" run --model "$model" --system-format a --system b \
    --user c --user-file d
expect 2 "needs --system or --system-file" run --model "$model" --system-format a --user b
expect 2 "--system-format and --system-format-file exclude" run --model "$model" --system-format a \
    --system-format-file a --system b --user c
expect 2 "--system and --system-file exclude" run --model "$model" --system a --system-file b \
    --user c
expect 2 "a PML schema and a schema string exclude" show "$guide" --model "$model" --system-format a
expect 2 "--model is needed" show --system-format a --system b
expect 3 "schema string:1:1: a brace of the text must be doubled: {" run --model "$model" \
    --system-format "{" --system b --user c
expect 3 "nope: No such file or directory" run --model "$model" --system-file nope --user c
expect 3 "nope: No such file or directory" run --model "$model" --system b --user-file nope
expect 0 "answer: " run --model "$model" --system The --user hotel --max-tokens 2
expect 0 "The desk of Peter" run --model "$model" --user "What is the desk of Peter Novak?" \
    --max-tokens 4
echo '[{"role": "user", "content": "What is the desk of Peter Novak?"}]' >in.json
expect 0 "The desk of Peter" run --model "$model" --messages in.json --max-tokens 4
expect 2 "exclude each other" run --model "$model" --messages in.json --text a
printf '{{ messages | length }}{%% for m in messages %%}' >turns.jinja
printf '<|{{ m.role }}|>{{ m.content }}<|end|>{%% endfor %%}<|assistant|>' >>turns.jinja
expect 0 "The desk of Peter Novak is 368" run --model "$model" --chat-template turns.jinja \
    --system "The desk of Peter Novak is 368." --user "What is the desk of Peter Novak?" \
    --max-tokens 8
expect 3 "filter or test 'foo' is not known" run --model "$model" --user a \
    --chat-template "{{ messages | foo }}"
echo '{"messages": [{"role": "user", "content": 1}]}' >in.json
expect 3 "in.json: message 0: role and content are texts" run --model "$model" --messages in.json
echo '{' >in.json
expect 3 "in.json:2:0: " run --model "$model" --messages in.json
echo '[]' >in.json
expect 3 "in.json: no messages" run --model "$model" --messages in.json
echo "What is the desk of Peter Novak?" >in
chmod 644 in
expect 0 "The desk of Peter" run --model "$model" --user-file - --max-tokens 4
expect 3 "standard input: others than its owner may use it (mode 644)" run --model "$model" \
    --text a --disk d --salt-file -
chmod 600 in
expect 3 "standard input: two options read it" run --model "$model" --user-file - --disk d \
    --salt-file -
: >in
expect 2 "needs --system or --system-file" show --model "$model" --system-format a
expect 0 '"kind":"slot"' show --json --model "$model" --system The
expect 2 "a schema and --model are needed" show

# ---- files without an end, and paths without a name
truncate -s 65M large
truncate -s 1025M larger
for option in --text-file --user-file; do
    expect 3 "/dev/zero: a device; give a file or a pipe" run --model "$model" $option /dev/zero
    expect 3 "large: more than 64 MiB, the most that is read here" run --model "$model" \
        $option large
done
expect 3 "/dev/zero: not a regular file" run --model "$model" --system-file /dev/zero --user a
expect 3 "/dev/zero: not a regular file" run --model "$model" --system-format-file /dev/zero \
    --system a --user b
expect 3 "/dev/zero: not a regular file" run --model "$model" --schema /dev/zero --prompt p.pml
expect 3 "/dev/zero: not a regular file" run --model "$model" --schema "$guide" --prompt /dev/zero
expect 3 "/dev/zero: a device" run --model "$model" --text a --disk d --seal-key-file /dev/zero
expect 3 "/dev/zero: a device" eval /dev/zero --model "$model"
expect 3 "larger: more than 1024 MiB" eval larger --model "$model"
expect 3 "/dev/zero: a device" check --model "$model" --golden /dev/zero
expect 3 "/dev/zero: a device" bench trace --trace /dev/zero
input=/dev/zero
expect 3 "standard input: a device" tokenize --model "$model"
expect 3 "standard input: a device" run --model "$model" --schema "$guide" --prompt -
input=in
yes | timeout "$patience" "$program" tokenize --model "$model" >out 2>err
code=$?
judge 3 "standard input: more than 64 MiB" "yes | tokenize"
rm large larger
expect 3 "a path is needed" info ""
expect 3 "a path is needed" show "" --model "$model"
expect 3 "a path is needed" eval "" --model "$model"
for command in inspect verify; do
    expect 3 "a path is needed" $command ""
done

# refused_module NAME WHAT: what `--version` says of it, if modules of that name are looked for
refused_module() {
    expect 0 "$1" --version
    grep -q "^$1 .*not built" out || expect 0 "libpromptcache_$1.so: $2" --version
}

# ---- plug-in modules that are none: a pipe would hang the program, a part of a file crash it
mkdir modules
mkfifo modules/libpromptcache_onednn.so
head -c 4000 "$program" >modules/libpromptcache_faiss.so
PC_MODULES=$work/modules
export PC_MODULES
refused_module onednn "not a regular file"
refused_module faiss truncated
unset PC_MODULES

# ---- chat templates
expect 3 "its vocabulary has no token '<|im_start|>'" show "$guide" --model "$model" \
    --chat-template chatml
expect 3 "known names: none, llama2" show "$guide" --model "$model" --chat-template nobody
expect 0 "Answer from the notes." show "$guide" --model "$model" --chat-template phi4-mini
printf "[]" >list.json
expect 3 "list.json: not an object" show "$guide" --model "$model" --chat-template list.json
printf "{\"stop_strings\": [\"\"]}" >stop.json
expect 3 "stop.json: stop_strings: item 0 is empty" show "$guide" --model "$model" \
    --chat-template stop.json
expect 2 "--golden is needed" check --model "$model"
expect 2 "a JSONL file is needed" eval --model "$model"
expect 2 "'fast' is none of" eval x.jsonl --model "$model" --modes sink,fast
expect 2 "--model is needed" tokenize
expect 2 "exclude each other" bench ttft --shape tiny --model "$model"
expect 2 "leaves nothing" bench ttft --shape tiny --context 64 --new 64

# ---- stores
employees=$source/examples/pml/employees.pml
desk=$source/examples/pml/employees-prompt.pml
expect 2 "--model is needed" encode
expect 2 "--schema is needed" encode --model "$model"
expect 2 "--disk or --remote is needed" encode --model "$model" --schema "$employees"
expect 2 "a PML schema and a schema string exclude" encode --model "$model" --schema "$employees" \
    --system a --disk d
expect 2 "'exact' is none of: independent sink joint" encode --model "$model" \
    --schema "$employees" --disk d --encoding exact
expect 2 "--special needs --text" run --model "$model" --user a --special
expect 2 "--disk-size needs --disk" run --model "$model" --text a --disk-size 3G
expect 2 "--codec needs --disk or --remote" run --model "$model" --text a --codec zstd
expect 2 "--seal-key-file needs --disk or --remote" run --model "$model" --text a --seal-key-file k
expect 2 "'gzip' is none of: default raw zstd int8 int4" run --model "$model" --text a --disk d \
    --codec gzip
for size in 0 -1 x 3X 3GB nan "" 1e30; do
    expect 2 "'$size' is not a size" run --model "$model" --text a --disk d --disk-size "$size"
done
expect 3 "nope: No such file or directory" run --model "$model" --text a --disk d \
    --seal-key-file nope
echo 12345 >short-key
chmod 600 short-key
expect 3 "short-key: a key has 32 bytes, or 64 hexadecimal digits" run --model "$model" --text a \
    --disk d --seal-key-file short-key
expect 3 "short-key" encode --model "$model" --schema "$employees" --disk short-key
expect 0 "employees, 722 positions: 22 new segments in disk" encode --model "$model" \
    --schema "$employees" --disk store
expect 0 "nothing was missing" encode --model "$model" --schema "$employees" --disk store
expect 0 '"disk":590' run --model "$model" --schema "$employees" --prompt "$desk" --disk store \
    --always-load --json
expect 1 "disk: no room in the cache" encode --model "$model" --schema "$employees" --disk small \
    --disk-size 500K
# more than RAM holds: all states pass through it on their way to the folder, and none is dropped
expect 0 "22 new segments in disk" encode --model "$model" --schema "$employees" --disk small2 \
    --ram-size 300K
# limited BLOCKS ARGUMENTS...: with files of so many blocks of 512 bytes at most
limited() {
    (ulimit -f "$1" && shift && exec timeout "$patience" "$program" "$@" >out 2>err)
    code=$?
}
limited 100 encode --model "$model" --schema "$employees" --disk limited
judge 1 "disk: limited/new" "encode into files that must not grow"
limited 4 show "$employees" --model "$model" --svg limited.svg
judge 3 "limited.svg: File too large" "show into a file that must not grow"
[ ! -e limited.svg ] || fault "a picture that could not be written whole is left"
expect 2 "--read-only needs --disk or --remote" run --model "$model" --text a --read-only
expect 3 "nowhere: No such file" run --model "$model" --schema "$employees" --prompt "$desk" \
    --disk nowhere --read-only
for salt in "" "--salt tenant"; do
    # shellcheck disable=SC2086 # words
    expect 0 "The desk of Peter Novak is 368." run --model "$model" --schema "$employees" \
        --prompt "$desk" --disk store --read-only --always-load $salt
done
equal "records after reading only" "$(find store -name '*.pcr' | wc -l)" 22
expect 0 '"bytes_loaded":' run --model "$model" --schema "$employees" --prompt "$desk" \
    --disk store --json
expect 0 '"disk":590' run --model "$model" --schema "$employees" --prompt "$desk" --disk store \
    --always-load --no-map --json
expect 2 "no-map needs --disk" run --model "$model" --schema "$employees" --prompt "$desk" --no-map
expect 0 '"disk":0' run --model "$model" --schema "$employees" --prompt "$desk" --disk store \
    --always-load --salt tenant --json
expect 0 "22 new segments" encode --model "$model" --schema "$employees" --disk lossy --codec int8
expect 0 '"lossy":true' run --model "$model" --schema "$employees" --prompt "$desk" --disk lossy \
    --always-load --json
expect 0 '"lossy":false' run --model "$model" --schema "$employees" --prompt "$desk" --disk store \
    --always-load --json
printf '%064d\n' 7 >key
chmod 600 key
expect 0 "22 new segments" encode --model "$model" --schema "$employees" --disk sealed \
    --seal-key-file key --codec zstd
expect 0 "(first use)" run --model "$model" --schema "$employees" --prompt "$desk" --disk sealed \
    --always-load
expect 0 '"disk":590' run --model "$model" --schema "$employees" --prompt "$desk" --disk sealed \
    --always-load --seal-key-file key --json

# ---- numbers
for value in 1e9 -1 0 4294967296 99999999999999999999 "" x 1.5; do
    expect 2 "'$value' is not a whole number from 1 to 4294967295" run --model "$model" --text a \
        --max-tokens "$value"
done
for value in nan inf -1 "" x; do
    expect 2 "'$value' is not a number from 0" run --model "$model" --text a --temperature "$value"
done
for option in top-p min-p typical-p; do
    expect 2 "is not a number from 0 to 1" run --model "$model" --text a --$option 1.5
done
expect 2 "from -1000 to 1000" run --model "$model" --text a --presence-penalty -1001
expect 2 "min-tokens is 3, but --max-tokens 2" run --model "$model" --text a --max-tokens 2 \
    --min-tokens 3
expect 0 '"tokens_generated":7' run --model "$model" --text "The" --max-tokens 7 --min-tokens 7 \
    --temperature 1 --min-p 0.1 --typical-p 0.9 --presence-penalty 1 --frequency-penalty -0.5 \
    --dry 1 --penalty-last 5 --json
expect 2 "exclude each other" run --model "$model" --text a --json-answer --regex a
printf '{"enum": [17, 18]}' >schema.json
printf 'root ::= "17" | "18"' >rules.txt
if "$program" --version | grep -q 'libpromptcache_xgrammar.so$'; then
    for form in "--json-schema schema.json" "--grammar rules.txt" "--regex 1[78]"; do
        expect 0 '"text":"1' run --model "$model" --text "The" --json $form
        expect 0 '"finish":"grammar"' run --model "$model" --text "The" --json $form
    done
    expect 0 '"text":"18"' run --model "$model" --text "The" --json --json-schema '{"const": 18}'
    expect 3 "schema:1:4: " run --model "$model" --text a --json-schema rules.txt
    expect 3 "Unclosed" run --model "$model" --text a --regex '[a'
else
    expect 3 "plug-in module" run --model "$model" --text a --json-schema schema.json
fi
expect 3 "nowhere.json" run --model "$model" --text a --json-schema nowhere.json
expect 2 "needs --json" run --model "$model" --text a --logprobs 2
expect 0 '"top":[]' run --model "$model" --text "The" --max-tokens 2 --logprobs 0 --json
expect 0 '"top":[{"token":311,"logprob":-' run --model "$model" --text "The" --max-tokens 2 \
    --logprobs 2 --json
expect 0 '"tokens_generated":9' run --model "$model" --text "The" --max-tokens 9 --ignore-end --json
expect 2 "from 1 to 64" run --model "$model" --text a --repeats 65
expect 2 "is none of: default f32 bf16" run --model "$model" --text a --compute f8
expect 2 "is none of: default f32 bf16 f16 int8" run --model "$model" --text a --kv int4
for kv in f32 bf16 f16 int8; do
    expect 0 "" run --model "$model" --text "The" --max-tokens 2 --kv $kv
done
expect 2 "'nope' is none of: raw,zstd,int8,int4" bench store --codec raw,nope
expect 2 "'nope' is none of: compressed,disk,remote" bench store --tier nope
expect 2 "go together" bench store --tier remote
expect 2 "needs --model" bench store --text "$model"
expect 3 "no folder can be made there" bench store --model "$model" --tokens 2 --segments 2 \
    --tier disk --codec raw --folder /nowhere
expect 2 "from 2 to 16777216" bench ttft --shape tiny --context 99999999999
expect 0 "answer: " run --model "$model" --text "The" --max-tokens 1000000000

# ---- files that are not there, not files, not what they should be
mkdir folder
: >empty
expect 3 "nope: No such file or directory" run --model nope --text a
expect 3 "--model takes" run --model nope --text a
expect 3 "folder/config.json: No such file" run --model folder --text a
expect 3 "empty: the file is empty" run --model empty --text a
expect 3 "not a regular file" run --model /dev/null --text a
expect 3 "city-guide.pml: the file is text, not a model" run --model "$guide" --text a
expect 3 "the file is text, not a model" tokenize --model "$guide"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n' >pointer.gguf
expect 3 "pointer.gguf: the file is a pointer of Git LFS" run --model pointer.gguf --text a
printf '\100\0\0\0\0\0\0\0{"__metadata__":{}}' >weights.safetensors
expect 3 "weights.safetensors: the file is one of safetensors: give its folder" run \
    --model weights.safetensors --text a
printf 'PK\003\004rest' >weights.pt
expect 3 "weights.pt: the file has weights of PyTorch" run --model weights.pt --text a
head -c 400 /dev/zero | tr '\0' '\377' >noise
expect 3 "neither a GGUF file" run --model noise --text a
expect 3 "nope: No such file or directory" show nope --model "$model"
expect 3 "folder: not a regular file" show folder --model "$model"
expect 3 "nope: No such file or directory" run --model "$model" --schema nope --prompt nope
expect 3 "folder: not a regular file" run --model "$model" --schema "$guide" --prompt folder
expect 3 "nope: No such file or directory" run --model "$model" --text-file nope
expect 3 "folder: Is a directory" run --model "$model" --text-file folder
expect 3 "folder: Is a directory" eval folder --model "$model"
expect 3 "nope: No such file or directory" eval nope --model "$model"
expect 3 "empty: there is no question in it" eval empty --model "$model"
expect 3 "folder: Is a directory" check --model "$model" --golden folder
expect 3 "empty: not a safetensors file" check --model "$model" --golden empty
expect 3 "there is no shape 'nope'; there are tiny" bench ttft --shape nope
expect 2 "batch: 1 to 4096" bench decode --batch 0
expect 2 "multiples of 1024" bench decode --prefix 7
expect 2 "as in 1,8,32" bench attend --rows x
expect 2 "is no multiple of --kv-heads" bench attend --heads 5 --kv-heads 2
expect 3 "the model's context is 2048" bench ttft --model "$model" --context 4096
expect 3 "no/such/out.svg: No such file" show "$guide" --model "$model" --svg no/such/out.svg
expect 3 "folder: Is a directory" show "$guide" --model "$model" --svg folder
expect 3 "/dev/full: No space left" show "$guide" --model "$model" --svg /dev/full
cp "$guide" own.pml
expect 2 "would overwrite an input" show own.pml --model "$model" --svg ./own.pml
cmp -s own.pml "$guide" || fault "show --svg has overwritten the schema"
if [ "$(id -u)" != 0 ]; then # root may write anywhere
    chmod a-w folder
    expect 3 "Permission denied" show "$guide" --model "$model" --svg folder/out.svg
fi

# ---- schemas
: | schema 3 "s.pml:1:1: empty: a schema or prompt is needed"
printf '\357\273\277<schema name="s"><module name="a">caf\303\251</module></schema>' | schema 0 \
    "schema s: "
sed 's/$/\r/' "$guide" | schema 0 "schema city-guide: 233 positions"
printf '<schema name="s"><module name="a">caf\351</module></schema>' | schema 3 \
    "s.pml:1:38: byte 0xE9 is not valid UTF-8"
echo '<schema name="s">a & b</schema>' | schema 3 \
    "s.pml:1:21: not well-formed: a bare '&' (write &amp;"
echo '<schema name="s">&#65;&amp;&lt;<![CDATA[<b>&c]]> t<!-- not said -->ext</schema>' | schema 0 \
    '"A&<<b>&c text"'
echo '<schema name="s">&nbsp;</schema>' | schema 3 "undefined entity"
echo '<!DOCTYPE x><schema name="s"/>' | schema 3 "document type"
printf '<\0s\0/\0>\0' | schema 3 "s.pml:1:1: this is UTF-16 or UTF-32; PML is UTF-8"
echo 'Hello' | schema 3 "s.pml:1:1: text outside of the root element"
echo '<prompt/>' | schema 3 "the root element is <prompt>, not <schema>"
echo '<schema name="s"/>' | schema 0 "schema s: 0 positions"
echo '<schema name="s"><module name="a"><parameter name="p" length="1e9"/></module></schema>' | \
    schema 3 "length='1e9'"
echo '<schema name="s"><module name="a"><parameter name="p" length="999999"/></module></schema>' |
    schema 3 "positions, the model has 2048"
nested() {
    printf '<schema name="s">'
    i=0
    while [ $((i += 1)) -le "$1" ]; do printf '<module name="m%d">' $i; done
    printf 'x'
    while [ $((i -= 1)) -ge 1 ]; do printf '</module>'; done
    echo '</schema>'
}
nested 100 | schema 0 "/m100"
nested 200 | schema 3 "nested more than 128 deep"
words() { awk -v n="$1" 'BEGIN { while (n--) printf "hotel " }'; }
(printf '<schema name="s">'; words 20000; echo '</schema>') | schema 3 \
    "s.pml:1:18: the schema spans"

# ---- prompts
echo '<prompt><lisbon/><user>What is the hotel in Lisbon?</user></prompt>' | prompt 0 "Harbor House"
echo '<prompt schema="city-guide"><trip days="12"/><oslo/></prompt>' | prompt 0 \
    "tokens of the prompt: "
echo '<prompt schema="employees"><trip/></prompt>' |
    prompt 3 "p.pml:1:1: the prompt is for schema 'employees'; given: 'city-guide'"
: | prompt 3 "p.pml:1:1: empty: a schema or prompt is needed"
echo '<prompt/>' | prompt 3 "p.pml:1:1: the prompt is empty: name modules of the schema"
echo '<prompt>  </prompt>' | prompt 3 "the prompt is empty"
echo '<prompt><hotel/></prompt>' | prompt 3 \
    "p.pml:1:9: 'city-guide' has no module 'hotel'; there are trip, lisbon"
echo '<prompt><module name="trip"/></prompt>' | prompt 3 "<module> belongs in a schema"
echo '<prompt><lisbon/><oslo/></prompt>' | prompt 3 \
    "p.pml:1:18: 'lisbon' and 'oslo' are members of one union"
echo '<prompt><trip/><trip/></prompt>' | prompt 3 "module 'trip' is used twice"
echo '<prompt><trip days=""/>x</prompt>' | prompt 0 "tokens of the prompt: "
echo '<prompt><trip day="5"/></prompt>' | prompt 3 \
    "module 'trip' has no parameter 'day'; it has days"
echo '<prompt><lisbon day="5"/></prompt>' | prompt 3 "it has none"
echo '<prompt><trip days="many more days than fit"/></prompt>' | prompt 3 "the parameter takes 4"
echo '<prompt><trip days="1" days="2"/></prompt>' | prompt 3 "duplicate attribute"
printf '<prompt><user>caf\351</user></prompt>' | prompt 3 "byte 0xE9 is not valid UTF-8"
{
    printf '\357\273\277<prompt>\r\n<lisbon/>\r\n'
    printf '<user>What is the hotel in Lisbon?</user>\r\n</prompt>\r\n'
} | prompt 0 "Harbor House"
(printf '<prompt>'; words 20000; echo '</prompt>') | prompt 3 \
    "p.pml:1:9: the prompt ends at position"
expect 3 "shorten it" run --model "$model" --schema "$guide" --prompt p.pml
words 20000 >words
expect 3 "the model's context is 2048" run --model "$model" --text-file words
expect 3 "prompt: it is empty" run --model "$model" --text ""
expect 3 "empty: prompt: it is empty" run --model "$model" --text-file empty
echo '<prompt><lisbon/></prompt>' >p.pml
names="'city-guide', 'employees'"
expect 3 "names no schema and 2 are given: write <prompt schema=\"...\"> with one of $names" \
    run --model "$model" --schema "$guide" --schema "$source/examples/pml/employees.pml" \
        --prompt p.pml
expect 0 "Peter Novak" run --model "$model" --schema "$guide" \
    --schema "$source/examples/pml/employees.pml" \
    --prompt "$source/examples/pml/employees-prompt.pml"
# blanks inside of a chat tag stay, but with --compact
printf '<prompt>\n<lisbon/>\n<user>\n  What is   the hotel in Lisbon?\n</user>\n</prompt>\n' >p.pml
expect 0 '"tokens_new":16,' run --model "$model" --schema "$guide" --prompt p.pml --json
expect 0 '"tokens_new":10,' run --model "$model" --schema "$guide" --prompt p.pml --json --compact
echo '<schema name="s">the <module name="a" cache="false">hotel</module></schema>' >s.pml
echo '<prompt><a/></prompt>' >p.pml
expect 0 '    always ' run --model "$model" --schema s.pml --prompt p.pml --max-tokens 2
cp "$guide" twin.pml
expect 3 "given schemas are named 'city-guide': schema 0 ($guide) and schema 1 (twin.pml)" \
    run --model "$model" --schema "$guide" --schema twin.pml \
        --prompt "$source/examples/pml/city-guide-prompt.pml"
echo '<prompt><lisbon/><user>What is the hotel in Lisbon?</user></prompt>' >in
expect 0 "Harbor House" run --model "$model" --schema "$guide" --prompt -
printf 'caf\351 \377' >in
expect 0 "answer: " run --model "$model" --text-file - --max-tokens 4

# ---- another working directory, relative paths, a folder that may not be written
mkdir -p below/deep
cp "$guide" below/guide.pml
printf '\357\273\277of a file' >below/deep/text.txt
echo '<schema name="s"><module name="a" src="deep/text.txt"/></schema>' >below/src.pml
echo '<schema name="s"><module name="a" src="../empty"/></schema>' >below/outside.pml
chmod a-w below
expect 0 '"of a file"' show below/src.pml --model "$model"
expect 3 "lies outside the schema's folder" show below/outside.pml --model "$model"
(cd below/deep && "$program" show ../src.pml --model "$model" >../../out 2>../../err)
code=$?
judge 0 '"of a file"' "show from another folder"

# ---- eval
question() { echo "$1" >q.jsonl; }
question 'not JSON'
expect 3 "q.jsonl:1: " eval q.jsonl --model "$model"
question '[1]'
expect 3 "q.jsonl:1: not a JSON object" eval q.jsonl --model "$model"
question '{"prompt": "<prompt>x</prompt>"}'
expect 3 "q.jsonl:1: a question needs the keys prompt and expect" eval q.jsonl --model "$model"
question '{"prompt": "<prompt>x</prompt>", "expect": "y"}'
expect 3 "q.jsonl:1: no schema" eval q.jsonl --model "$model"
question '{"prompt": "<prompt>x</prompt>", "expect": "y", "schema_id": "a"}'
expect 3 "q.jsonl:1: schema_id" eval q.jsonl --model "$model"
question '{"prompt": "<prompt><b/></prompt>", "expect": "y", "schema": "<schema name=\"s\"/>"}'
expect 3 "q.jsonl:1: prompt: prompt:1:9: 's' has no module 'b'" eval q.jsonl --model "$model"
{
    printf '\357\273\277{"prompt": "<prompt><lisbon/><user>What is the hotel in Lisbon?</user>'
    printf '</prompt>", "schema_file": "below/guide.pml", '
    printf '"expect": " The hotel in Lisbon is Harbor House.", "kind": "\303\251"}\r\n\r\n'
} >q.jsonl
for path in ../../q.jsonl "$work/q.jsonl"; do
    (cd below/deep && "$program" eval "$path" --model "$model" --modes sink --json >../../out \
        2>../../err)
    code=$?
    judge 0 '{"mode":"sink","modules":0,"kind":"é","questions":1,"accuracy":1.0,"ttft_ms":' \
        "eval: schema_file beside the JSONL file"
done
expect 0 ',"kl":0.0,"agree":1.0' eval q.jsonl --model "$model" --modes independent,causal \
    --codecs zstd,int4 --json
expect 2 "--codecs: 'nope' is none of" eval q.jsonl --model "$model" --codecs int8,nope

# ---- threads: as many as are asked for, by every command that computes
for command in run encode eval check "bench ttft" "bench decode" "bench attend" "bench store" \
    "bench memo" "bench serve" "memo build" "memo tune" "memo eval"; do
    # shellcheck disable=SC2086
    expect 0 "--threads N" $command --help
done
expect 0 "1 threads, " bench attend --rows 1 --prefix 1024 --suffix 16 --heads 2 --kv-heads 2 \
    --repeats 1 --threads 1
expect 2 "--threads '1025' is not a whole number from 0 to 1024" run --model "$model" --text a \
    --threads 1025
mkfifo questions
# tasks N: of a run with so many threads that waits for its prompt
tasks() {
    "$program" run --model "$model" --text-file - --threads "$1" --max-tokens 1 <questions >out \
        2>err &
    running=$!
    exec 7>questions
    for _ in $(seq 300); do
        count=$(find "/proc/$running/task" -mindepth 1 -maxdepth 1 | wc -l)
        # it reads
        case "$count:$(cut -d' ' -f1 "/proc/$running/syscall" 2>/dev/null)" in "$1:0" | "$1:63") \
            break ;; esac
        sleep 0.1
    done
    echo a >&7
    exec 7>&-
    wait "$running"
    code=$?
}
for threads in 1 3; do
    tasks "$threads"
    judge 0 "answer: 1 tokens" "run --threads $threads"
    equal "threads of run --threads $threads" "$count" "$threads"
done

# ---- help says what is a folder
expect 0 "--disk DIR" run --help
expect 0 "--model PATH" run --help
expect 0 "--memo DIR" memo show --help
expect 0 "--mmlu DIR" bench mmlu --help

# ---- a server that is not there: said once, and the run goes on
nowhere=redis://127.0.0.1:1
if "$program" run --model "$model" --schema "$employees" --prompt "$desk" --remote $nowhere 2>&1 | \
    grep -q 'built without hiredis'; then
    expect 3 "Debian: libhiredis-dev" run --model "$model" --schema "$employees" --prompt "$desk" \
        --remote $nowhere
else
    expect 0 "The desk of Peter Novak is 368." run --model "$model" --schema "$employees" \
        --prompt "$desk" --remote $nowhere
    equal "warnings of a server that is not there" \
        "$(grep -c 'promptcache: warning: remote: 127.0.0.1:1: connect: Connection refused' err)" 1
    equal "lines of standard error" "$(wc -l <err)" 1
    expect 0 '"miss_reason":"the server does not answer"' run --model "$model" \
        --schema "$employees" --prompt "$desk" --remote $nowhere --json
    expect 1 "could be stored: remote: " encode --model "$model" --schema "$employees" \
        --remote $nowhere
fi

# ---- tokenize
equal "ids of a text that is an argument" "$("$program" tokenize --model "$model" hello)" \
    "$(printf hello | "$program" tokenize --model "$model")"
expect 0 '{"text":"hello"}' tokenize --model "$model" \
    --decode --json "$("$program" tokenize --model "$model" hello)"
expect 3 "the argument:1:5: " tokenize --model "$model" --decode hello
expect 2 "'you' is one argument too many" tokenize --model "$model" hello you
printf 'caf\351' >in
expect 0 "[" tokenize --model "$model"
: >in
expect 0 "[]" tokenize --model "$model"
expect 3 "--decode takes a JSON array" tokenize --model "$model" --decode
echo '[1, "x"]' >in
expect 3 "item 1 of the array is not a token id" tokenize --model "$model" --decode
echo '[4294967301]' >in
expect 3 "item 0 of the array is not a token id" tokenize --model "$model" --decode
echo '[99999999]' >in
expect 3 "id 99999999 lies outside" tokenize --model "$model" --decode
echo '{"a": 1}' >in
expect 3 "not a JSON array" tokenize --model "$model" --decode
echo '[172]' >in # a lone byte 0xE9
expect 0 '{"text":"' tokenize --model "$model" --decode --json
"$program" tokenize --model "$model" <folder >out 2>err
code=$?
judge 3 "standard input: Is a directory" "tokenize <folder"
"$program" tokenize --model "$model" <&- >out 2>err
code=$?
judge 3 "standard input: Bad file descriptor" "tokenize <&-"

# ---- output that cannot be written
: >out
for command in "run --model $model --text The --max-tokens 3" \
    "run --model $model --text The --max-tokens 3 --json" \
    "show $guide --model $model" "show $guide --model $model --json" "--help" "run --help"; do
    # shellcheck disable=SC2086
    "$program" $command >/dev/full 2>err
    code=$?
    judge 3 "standard output: No space left" "$command >/dev/full"
    # shellcheck disable=SC2086
    "$program" $command >&- 2>err
    code=$?
    judge 3 "standard output: Bad file descriptor" "$command >&-"
done
"$program" show "$guide" --model "$model" --svg closed.svg >&- 2>err
code=$?
judge 3 "standard output" "show --svg >&-"
[ "$(tail -n 1 closed.svg)" = "</svg>" ] || fault \
    "show --svg >&-: the table has gone into the picture"

# ---- Ctrl-C in the middle of work of a minute
interrupt() {
    seconds=$1
    shift
    # in the foreground: otherwise the whole group gets the signal too, and a second one kills
    timeout --foreground --preserve-status -s INT "$seconds" "$program" "$@" >out 2>err </dev/null
    code=$?
    judge 130 ": interrupted" "Ctrl-C: $*"
}
interrupt 1 eval "$source/examples/pml/demo-eval.jsonl" --model "$model"
interrupt 1 run --model "$model" --text The --max-tokens 2000 --compare --repeats 64

# ---- JSON: one object with its keys
# keys "NAMES": each is in the line of ./out
keys() {
    for key in $1; do
        grep -q "^{.*\"$key\":.*}\$" out || fault "--json: no key '$key'"
    done
    [ "$(wc -l <out)" = 1 ] || fault "--json: not one line"
}
stats="tokens_prompt tokens_cached tokens_encoded tokens_uncached tokens_repaired tokens_new
    tokens_generated bytes_reused exactness repair repair_level miss_reason
    finish seconds_assemble seconds_encode seconds_prefill seconds_ttft seconds_decode"
expect 0 '"text":"The hotel in Lisbon' run --model "$model" --schema "$guide" \
    --prompt "$source/examples/pml/city-guide-prompt.pml" \
    --compare --repeats 1 --json
keys "text equal full_ms cached_ms ratio $stats"
expect 0 '"finish":"length"' run --model "$model" --text The --max-tokens 3 --json
keys "text $stats"
text='{"path":"","kind":"text","start":0,"length":9,'
expect 0 '{"schema":"city-guide","length":233,"items":['"$text" \
    show "$guide" --model "$model" --json
keys "schema length items path kind start"
# whatever the model says
expect 0 '{"batch":2,"prefix":1024,"suffix":16,' bench decode --model "$model" --batch 2 \
    --prefix 1024 --suffix 16 --repeats 40 --json
grep -q '"no_attention_tokens_per_s":[0-9.]*,"no_attention_share":[0-9.]*}' out || fault \
    "bench decode: nothing without attention"
expect 0 "microseconds" bench attend --rows 1,3 --prefix 64,130 --suffix 16 --heads 4 --kv-heads 2 \
    --head-dim 33 --repeats 1 --plot plot.svg
grep -q '3 + 16: shared' plot.svg || fault "bench attend --plot: the picture lacks a curve"
for dtype in f32 f16 int8; do
    expect 0 ", $dtype;" bench attend --rows 3 --prefix 130 --suffix 16 --heads 4 --kv-heads 2 \
        --head-dim 33 --repeats 1 --dtype $dtype
done
expect 3 "cannot be written" bench attend --rows 1 --prefix 64 --suffix 0 --heads 1 --kv-heads 1 \
    --head-dim 8 --repeats 1 --plot /nowhere/plot.svg
expect 0 '{"rows":3,"prefix":130,"suffix":16,"heads":4,"kv_heads":2,"head_dim":33,"dtype":"bf16",' \
    bench attend --rows 3 --prefix 130 --suffix 16 --heads 4 --kv-heads 2 --head-dim 33 \
        --repeats 1 --json
expect 0 '{"tier":"disk","codec":"zstd","bytes":' bench store --model "$model" --tokens 70 \
    --segments 3 --repeats 1 --tier disk --codec zstd --json
expect 0 '"equal":false' bench store --model "$model" --tokens 70 --segments 3 --repeats 1 \
    --tier compressed --codec int4 --json
expect 0 '{"context":128,"new_tokens":32,' bench ttft --model "$model" --context 128 --new 32 \
    --repeats 1 --json
keys "context new_tokens full_ms cached_ms ratio bound_ms bound_share paced_share full_bound_ms
    full_bound_share assemble_us full_gflops read_bytes_per_s peak_gflops peak_known"

# ---- golden vectors
golden=${PC_TEST_DATA:-$source/../shared}/golden
[ -d "$golden/llama_gqa" ] || golden=$3/golden # models of our own
expect 3 "golden vectors of another model?" check --model "$model" \
    --golden "$golden/llama_gqa/golden.safetensors"
expect 3 "golden vectors of another model?" check --model "$golden/llama_gqa" \
    --golden "$golden/llama_mha/golden.safetensors"
expect 3 "no case that is known here" check --model "$golden/llama_gqa" \
    --golden "$golden/llama_gqa/model.safetensors"
timeout 60 "$program" check --model "$golden/llama_gqa" \
    --golden "$golden/llama_gqa/golden.safetensors" --json >out 2>err
code=$?
judge 0 '{"tensor":"plain/logits","max_abs":' "check --json"
grep -qv '^{"tensor":".*","max_abs":.*,"max_rel":.*,"limit":.*,"ok":true}$' out && fault \
    "check --json: a line is not its object"
# a prompt whose answer leaves the length at which the frequencies of its positions change
for crossing in llama_rope_dynamic_cross phi3_longrope_cross; do
    expect 0 "cross/greedy_pinned          abs  0.00e+00" check --model "$golden/$crossing" \
        --golden "$golden/$crossing/golden.safetensors"
    grep -q "^cross/logits_fresh .* ok$" out || fault "check: no line of cross/logits_fresh"
done
expect 0 '"left_out":"not a computation of ours' check \
    --model "$golden/llama_rope_dynamic_cross" \
    --golden "$golden/llama_rope_dynamic_cross/golden.safetensors" --json
# a model of dynamic NTK answers beyond its trained length of 16, with a tokenizer of one token
# a character
mkdir dynamic
ln -s "$golden/llama_rope_dynamic/config.json" "$golden/llama_rope_dynamic/model.safetensors" \
    dynamic/
awk 'BEGIN { printf "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{";
    for (i = 0; i < 26; i++) printf "%s\"%c\":%d", i ? "," : "", 97 + i, i + 3;
    printf "}},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    print "\"decoder\":{\"type\":\"ByteLevel\"}}" }' >dynamic/tokenizer.json
expect 0 '"rope_regime_length":38,"rope_regime":38' run --model dynamic \
    --text abcdefghijklmnopqrstuvwxyzabcd --max-tokens 8 --json
expect 0 'positions: as for a length of 100 (RoPE regime 100)' run --model dynamic \
    --text abcdefghijklmnopqrstuvwxyzabcd --max-tokens 8 --rope-regime-length 100
expect 3 'the RoPE regime for a length of 20 ends at 20' run --model dynamic \
    --text abcdefghijklmnopqrstuvwxyzabcd --max-tokens 8 --rope-regime-length 20
size=$(wc -c <"$golden/llama_gqa/golden.safetensors")
for cut in 7 8 100 5000 $((size - 1)); do
    head -c "$cut" "$golden/llama_gqa/golden.safetensors" >cut.safetensors
    expect 3 "cut.safetensors: " check --model "$golden/llama_gqa" --golden cut.safetensors
done

finish

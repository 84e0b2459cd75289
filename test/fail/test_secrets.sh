#!/bin/sh
# Catches: a password or a salt that can be given in the command line alone, where everybody sees
# it; a file or a variable of the environment that means something else than the option, or that
# counts where the option is given; a file of a secret that others may read and that is taken, or
# an error without the way to mend it; a password in a message; an empty salt that is taken for no
# tenant.
. "$1/test/fail/program.sh"
model=$source/models/demo/demo.gguf
schema=$source/examples/pml/employees.pml
desk=$source/examples/pml/employees-prompt.pml
silent=1

# secret NAME MODE: a file with the text of standard input
secret() {
    rm -f "$1"
    cat >"$1"
    chmod "$2" "$1"
}
# found CODE TEXT ARGUMENTS...: how much of a prompt is found in a store
found() {
    wanted=$1 text=$2
    shift 2
    expect "$wanted" "$text" run --model "$model" --schema "$schema" --prompt "$desk" \
        --max-tokens 1 --read-only --always-load --json "$@"
}
fill() {
    wanted=$1 text=$2
    shift 2
    expect "$wanted" "$text" encode --model "$model" --schema "$schema" "$@"
}

# ---- who may read the files
for mode in 640 604 644 660 602; do
    printf '%064d\n' 7 | secret key $mode
    echo tenant | secret salt $mode
    echo redis://127.0.0.1:1 | secret server $mode
    fill 3 "key: others than its owner may use it (mode $mode); 'chmod go-rwx key' ends that" \
        --disk d --seal-key-file key
    fill 3 "'chmod go-rwx salt'" --disk d --salt-file salt
    fill 3 "'chmod go-rwx server'" --remote-file server
    expect 3 "'chmod go-rwx key'" inspect "$source/doc" --seal-key-file key
    expect 3 "'chmod go-rwx server'" bench store --shape tiny --tier remote --remote-file server
done
[ ! -e d ] || fault "a store was opened although its secret was refused"
for mode in 600 400; do
    printf '%064d\n' 7 | secret key $mode
    fill 0 "segments in disk" --disk "sealed$mode" --seal-key-file key
done
printf '%064d\n' 7 >in
chmod 600 in
input=in
found 0 '"disk":590' --disk sealed600 --seal-key-file -
chmod 644 in
found 3 "standard input: others than its owner may use it" --disk sealed600 --seal-key-file -
input=/dev/null
mkfifo -m 600 pipe
printf '%064d\n' 7 >pipe &
found 0 '"disk":590' --disk sealed600 --seal-key-file pipe
head -c 5000 /dev/zero | secret key 600
fill 3 "key: more than 4096 bytes" --disk d --seal-key-file key

# ---- salts: the option, its file and the variable mean the same
fill 0 "22 new segments in disk" --disk store --salt tenant
echo tenant | secret salt 600
printf tenant | secret bare 600
found 0 '"disk":590' --disk store --salt tenant
found 0 '"disk":590' --disk store --salt-file salt
found 0 '"disk":590' --disk store --salt-file bare
found 0 '"disk":0' --disk store
echo other | secret other 600
found 0 '"disk":0' --disk store --salt-file other
PC_SALT=tenant
export PC_SALT
found 0 '"disk":590' --disk store
found 0 '"disk":0' --disk store --salt other
found 0 '"disk":0' --disk store --salt-file other
PC_SALT=
found 0 '"disk":0' --disk store
unset PC_SALT
found 2 "--salt and --salt-file exclude each other" --disk store --salt tenant --salt-file salt
echo | secret empty 600
found 2 "--salt is empty" --disk store --salt ""
found 3 "empty: the salt is empty" --disk store --salt-file empty
found 3 "nope: No such file or directory" --disk store --salt-file nope

# ---- servers
echo redis://127.0.0.1:1 | secret server 600
fill 2 "--remote and --remote-file exclude each other" --remote redis://a --remote-file server
expect 2 "exclude each other" bench store --shape tiny --tier remote --remote redis://a \
    --remote-file server
expect 2 "--remote and --tier remote go together" bench store --shape tiny --remote-file server
fill 2 "--disk or --remote is needed"
printf '  \n' | secret empty 600
fill 3 "empty: one line of text is needed" --remote-file empty
printf 'redis://a\nredis://b\n' | secret two 600
fill 3 "two: one line of text is needed" --remote-file two

start=redis-server
command -v $start >/dev/null 2>&1 || start=redis-check-rdb # the same program, in another package
if [ -n "${PC_TEST_NO_MODULES-}" ] || ! command -v $start >/dev/null 2>&1 ||
    "$program" run --model "$model" --text a --max-tokens 1 --remote redis://127.0.0.1:1 2>&1 |
    grep -q 'built without hiredis'; then
    echo "no server: passwords are not tested"
    finish
    exit
fi
bash -c "exec -a redis-server $start --port 0 --unixsocket '$work/socket' --requirepass hidden \
    --save '' --dir '$work'" >server.log 2>&1 &
running=$!
trap 'kill $running; chmod -R u+w "$work"; rm -rf "$work"' EXIT
tries=0
while [ ! -S socket ] && [ $tries -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
printf 'redis+unix://:hidden@%s/socket\n' "$work" | secret server 600
fill 0 "22 new segments in remote" --remote-file server
found 0 '"remote":590' --remote-file server
PC_REMOTE=$(cat server)
export PC_REMOTE
fill 0 "nothing was missing" --deadline 5
found 0 '"remote":590'
expect 0 "remote" bench store --shape tiny --tier remote --segments 2 --tokens 64 --repeats 1
expect 0 "disk" bench store --shape tiny --tier disk --segments 2 --tokens 64 --repeats 1
PC_REMOTE=redis://127.0.0.1:1
expect 0 "remote" bench store --shape tiny --tier remote --segments 2 --tokens 64 --repeats 1 \
    --remote-file server
unset PC_REMOTE
printf 'redis+unix://:unheard@%s/socket\n' "$work" | secret server 600
fill 1 "remote" --remote-file server
grep -q unheard out err && fault "a password stands in a message"
finish

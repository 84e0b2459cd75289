#!/bin/sh
# go.sh FOLDER LIBRARY style|test|race|run...: checks the Go package. FOLDER has promptcache.pc and
# gets all that go writes; LIBRARY is the folder of libpromptcache.so. Nothing is fetched.
#
# style  catches code that gofmt would lay out in another way, and what go vet finds.
# test   runs the tests, with every check of the rules for pointers between Go and C.
# race   runs the tests of many goroutines under the race detector.
# run    runs a command in this environment.
set -eu
skip() {
    echo "skipped: $1"
    exit 77
}
folder=$1 library=$2 what=$3
shift 3
command -v go >/dev/null || skip "there is no go"
command -v pkg-config >/dev/null || skip "there is no pkg-config"
minor=$(go env GOVERSION | sed 's/^go1\.\([0-9]*\).*/\1/')
[ "$minor" -ge 19 ] || skip "go 1.$minor is older than 1.19"
[ "$(go env CGO_ENABLED)" = 1 ] || skip "go has no cgo here"
export GOCACHE="$folder/cache" GOPATH="$folder/path" GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
export PKG_CONFIG_PATH="$folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$(dirname "$0")"
case $what in
style)
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ] || {
        echo "gofmt lays these out in another way: $unformatted"
        exit 1
    }
    exec go vet ./...
    ;;
test)
    if [ "$minor" -ge 21 ]; then
        export GOEXPERIMENT=cgocheck2
    else
        export GODEBUG=cgocheck=2
    fi
    exec go test -count=1 ./...
    ;;
race)
    go env GOOS GOARCH | tr '\n' / | grep -Eq '^linux/(amd64|arm64|ppc64le|s390x)/' ||
        skip "go has no race detector here"
    exec go test -race -count=1 -run 'Many|Batch|Context|Final|Closed?During' ./...
    ;;
run)
    exec "$@"
    ;;
esac

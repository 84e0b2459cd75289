#!/bin/sh
# go.sh FOLDER LIBRARY test|run...: checks the Go package. FOLDER has promptcache.pc and gets all
# that go writes; LIBRARY is the folder of libpromptcache.so. Nothing is fetched.
#
# test   catches code that gofmt would lay out in another way, and what go vet finds. Runs the tests
#        under the race detector, with every check of the rules for pointers between Go and C.
# run    runs a command in this environment.
#
# All is built with the race detector: building the packages of Go twice would take longer than all
# tests. GOGC and the flags make building cheaper; the tests run with the usual GOGC.
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
export GOCACHE="$folder/cache" GOPATH="$folder/path" GOPROXY=off GOTOOLCHAIN=local
export PKG_CONFIG_PATH="$folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export GOFLAGS="-mod=mod -ldflags=-w" CGO_CFLAGS=-O0 GOGC=400
if go env GOOS GOARCH | tr '\n' / | grep -Eq '^linux/(amd64|arm64|ppc64le|s390x)/'; then
    GOFLAGS="$GOFLAGS -race"
fi
if [ "$minor" -ge 21 ]; then
    export GOEXPERIMENT=cgocheck2
else
    export GODEBUG=cgocheck=2
fi
cd "$(dirname "$0")"
case $what in
test)
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ] || {
        echo "gofmt lays these out in another way: $unformatted"
        exit 1
    }
    exec go test -exec "env -u GOGC" -vet=all -count=1 ./...
    ;;
run)
    exec "$@"
    ;;
esac

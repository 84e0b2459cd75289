#!/bin/sh
# long.sh PROGRAM: a test that takes long for what it may find; only with PC_TEST_LONG=1.
if [ "$PC_TEST_LONG" != 1 ]; then
    echo "skipped: takes long (PC_TEST_LONG=1)"
    exit 77
fi
exec "$@"

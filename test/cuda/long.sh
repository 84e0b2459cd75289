#!/bin/sh
# long.sh PROGRAM: a test that takes minutes on the model of the machine; only with PC_TEST_LONG=1.
if [ "$PC_TEST_LONG" != 1 ]; then
    echo "skipped: takes minutes (PC_TEST_LONG=1)"
    exit 77
fi
exec "$@"

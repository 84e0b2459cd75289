/* What a backend refuses: tests go on without a model, where PC_BACKEND names a backend that does
 * not have a part of it. */
#ifndef PC_REFUSED_H
#define PC_REFUSED_H

#include <stdlib.h>
#include <string.h>

#include "testing.h"

/* 1: loading has ended with such a refusal, which names the backend and the part. */
static inline int pc_test_refused(pc_status status)
{
    const char *backend = getenv("PC_BACKEND");
    return backend && strcmp(backend, "cpu") && status == PC_ERR_UNSUPPORTED
           && CHECK_ERROR_HAS(backend) && CHECK_ERROR_HAS("does not have its");
}

#endif

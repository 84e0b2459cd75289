/* Error texts are of the last call: this keeps the first one. */
#include "serve/first_error.h"

#include <stdio.h>

void pc__first_error_note(pc__first_error *error, pc_status status)
{
    if (status < 0 && error->status >= 0) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "%s", pc_error_text());
    }
}

pc_status pc__first_error_status(const pc__first_error *error, pc_status otherwise)
{
    return error->status < 0 ? pc__fail(error->status, "%s", error->text) : otherwise;
}

/* The first error of several calls, with its text. */
#ifndef PC_SERVE_FIRST_ERROR_H
#define PC_SERVE_FIRST_ERROR_H

#include "base/fail.h"

typedef struct pc__first_error {
    pc_status status;
    char text[512];
} pc__first_error;

/* Right behind the call that gave `status`, while its text holds. */
void pc__first_error_note(pc__first_error *error, pc_status status);
/* Sets that text and returns that status; `otherwise` if there was no error. */
pc_status pc__first_error_status(const pc__first_error *error, pc_status otherwise);

#endif

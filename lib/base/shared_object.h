/* Shared objects: whether a file may be given to the dynamic linker, which maps it unchecked. */
#ifndef PC_BASE_SHARED_OBJECT_H
#define PC_BASE_SHARED_OBJECT_H

#include "base/fail.h"

/* PC_OK: a regular file, a shared object of this kind of machine, and all that its headers name
 * lies in the file. Never blocks. Otherwise the text names the file and what is wrong with it:
 * statuses of pc__file_open, or PC_ERR_FORMAT. What the parts hold is not checked. */
pc_status pc__shared_object_check(const char *path);

#endif

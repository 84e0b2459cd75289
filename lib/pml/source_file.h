/* The text of src=: a UTF-8 file in the schema's folder or below, without its byte order mark.
 * PC_ERR_PML names the element. */
#ifndef PC_PML_SOURCE_FILE_H
#define PC_PML_SOURCE_FILE_H

#include "pml/schema_tree.h"
#include "pml/xml.h"

pc_status pc__source_file_read(const pc__pml_env *env, const pc__element *element, const char *src,
                               char **text, size_t *size);

#endif

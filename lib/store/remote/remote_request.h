/* Commands to a server, as bytes ready to be sent: one after the other, so that many of them take
 * one turn. One long argument of all of them may stay where it is. */
#ifndef PC_STORE_REMOTE_REQUEST_H
#define PC_STORE_REMOTE_REQUEST_H

#include "base/mem.h"

typedef struct pc__request {
    pc__bytes text;
    size_t *starts; /* [count] of each command in `text` */
    size_t count, capacity;
    const void *value; /* stands at `split` of the text */
    size_t value_size, split;
    pc_status status; /* the first failure of all that was added */
} pc__request;

pc__request pc__request_make(const pc_allocator *mem);
/* Then exactly `arguments` of the following. */
void pc__request_command(pc__request *request, size_t arguments);
void pc__request_bytes(pc__request *request, const void *data, size_t size);
void pc__request_text(pc__request *request, const char *text);
void pc__request_number(pc__request *request, int64_t number);
void pc__request_value(pc__request *request, const void *data,
                       size_t size); /* not copied; once a request */
void pc__request_free(pc__request *request);

#endif

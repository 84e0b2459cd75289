/* Commands to a server, as bytes ready to be sent: one after the other, so that many of them take
 * one turn. One long argument of all of them may stay where it is. */
#ifndef PC_STORE_REMOTE_REQUEST_H
#define PC_STORE_REMOTE_REQUEST_H

#include "base/mem.h"

typedef struct pc__remote_request {
    pc__bytes text;
    size_t *starts; /* [count] of each command in `text` */
    size_t count, capacity;
    const void *value; /* stands at `split` of the text */
    size_t value_size, split;
    pc_status status; /* the first failure of all that was added */
} pc__remote_request;

pc__remote_request pc__remote_request_make(const pc_allocator *mem);
/* Then exactly `arguments` of the following. */
void pc__remote_request_command(pc__remote_request *request, size_t arguments);
void pc__remote_request_bytes(pc__remote_request *request, const void *data, size_t size);
void pc__remote_request_text(pc__remote_request *request, const char *text);
void pc__remote_request_number(pc__remote_request *request, int64_t number);
void pc__remote_request_value(pc__remote_request *request, const void *data,
                              size_t size); /* not copied; once a request */
void pc__remote_request_free(pc__remote_request *request);

#endif

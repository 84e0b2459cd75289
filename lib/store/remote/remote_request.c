#include "store/remote/remote_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"

pc__remote_request pc__remote_request_make(const pc_allocator *mem)
{
    pc__remote_request r;
    memset(&r, 0, sizeof r);
    r.text.mem = mem;
    return r;
}

static void add_bytes(pc__remote_request *r, const void *data, size_t size)
{
    if (r->status == PC_OK)
        r->status = pc__bytes_add(&r->text, data, size);
}

static void add_length(pc__remote_request *r, char kind, size_t length)
{
    char line[32];
    add_bytes(r, line, (size_t)snprintf(line, sizeof line, "%c%zu\r\n", kind, length));
}

void pc__remote_request_command(pc__remote_request *request, size_t arguments)
{
    if (request->status == PC_OK)
        request->status = pc__grow(request->text.mem, (void **)&request->starts, &request->capacity,
                                   request->count + 1, sizeof *request->starts);
    if (request->status == PC_OK)
        request->starts[request->count++] = request->text.size;
    add_length(request, '*', arguments);
}

void pc__remote_request_bytes(pc__remote_request *request, const void *data, size_t size)
{
    add_length(request, '$', size);
    add_bytes(request, data, size);
    add_bytes(request, "\r\n", 2);
}

void pc__remote_request_text(pc__remote_request *request, const char *text)
{
    pc__remote_request_bytes(request, text, strlen(text));
}

void pc__remote_request_number(pc__remote_request *request, int64_t number)
{
    char text[24];
    pc__remote_request_bytes(request, text,
                             (size_t)snprintf(text, sizeof text, "%" PRId64, number));
}

void pc__remote_request_value(pc__remote_request *request, const void *data, size_t size)
{
    if (request->value && request->status == PC_OK)
        request->status = pc__fail(PC_ERR_INTERNAL, "a request to a server has two long arguments");
    add_length(request, '$', size);
    request->value = data;
    request->value_size = size;
    request->split = request->text.size;
    add_bytes(request, "\r\n", 2);
}

void pc__remote_request_free(pc__remote_request *request)
{
    const pc_allocator *mem = request->text.mem;
    if (!mem)
        return;
    pc__free(mem, request->starts);
    pc__bytes_free(&request->text);
    memset(request, 0, sizeof *request);
}

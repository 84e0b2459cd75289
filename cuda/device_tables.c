/* Layout and upload of arrays for kernels. */
#include "cuda/device_tables.h"

#include "base/mem.h"

size_t pc__cuda_tables_add(pc__cuda_tables *tables, size_t count, size_t element)
{
    size_t at = tables->bytes;
    tables->bytes += (count * element + PC__CUDA_ALIGNMENT - 1) / PC__CUDA_ALIGNMENT
                     * PC__CUDA_ALIGNMENT;
    return at;
}

pc_status pc__cuda_tables_begin(pc__cuda_tables *tables, const pc_allocator *mem, void *device)
{
    tables->host = pc__calloc(mem, 1, tables->bytes);
    tables->device = device;
    return tables->host ? PC_OK : PC_ERR_NOMEM;
}

void pc__cuda_tables_end(pc__cuda_tables *tables, pc__cuda_stream *stream)
{
    if (!tables->host)
        return;
    pc__cuda_upload(stream, tables->device, tables->host, tables->bytes);
    pc__free(&stream->device->mem, tables->host);
    tables->host = NULL;
}

/* Writes an index as bytes, and reads one from bytes that may be damaged. doc/format.md, "Indexes
 * of a memo", has the layout. */
#include "memo/index/index_bytes.h"

#include <string.h>

#include "base/fail.h"
#include "base/fields.h"
#include "base/little_endian.h"
#include "memo/index/index_ops.h"

enum { HEADER = 56, AT_ONCE = 1024 };
static const uint8_t magic[8] = "pcindex\1";

void pc__index_set_words(uint8_t *data, const void *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)words + 4 * i, 4);
        pc__put_u32(data + 4 * i, word);
    }
}

pc_status pc__index_put_words(pc__bytes *out, const void *words, size_t count)
{
    uint8_t some[4 * AT_ONCE];
    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < AT_ONCE ? count - done : AT_ONCE;
        pc__index_set_words(some, (const uint8_t *)words + 4 * done, n);
        PC__TRY_RETURN(pc__bytes_add(out, some, 4 * n));
    }
    return PC_OK;
}

void pc__index_get_words(void *words, const uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word = pc__get_u32(data + 4 * i);
        memcpy((uint8_t *)words + 4 * i, &word, 4);
    }
}

#define OPTION(at, member) PC__FIELD(pc__index_options, at, member)
static const pc__field header_fields[] = {
    OPTION(8, kind),         OPTION(12, dim),       OPTION(16, hnsw_links), OPTION(20, hnsw_build),
    OPTION(24, hnsw_search), OPTION(28, ivf_lists), OPTION(32, ivf_probes), OPTION(40, seed)};
enum { AT_ZERO = 36, AT_COUNT = 48 };

static pc_status put_index_header(const pc__index_impl *impl, pc__bytes *out)
{
    uint8_t header[HEADER] = {0};
    memcpy(header, magic, sizeof magic);
    pc__fields_put(header, &impl->options, PC__FIELDS(header_fields));
    pc__put_u64(header + AT_COUNT, impl->id_map.count);
    return pc__bytes_add(out, header, sizeof header);
}

static pc_status write_impl(const pc__index_ops *ops, const pc__index_impl *impl, pc__bytes *out)
{
    size_t numbers = impl->id_map.count * impl->options.dim;
    uint8_t id[8];
    float *rows = pc__alloc(impl->id_map.mem, numbers * sizeof *rows);
    pc_status status = rows ? put_index_header(impl, out) : PC_ERR_NOMEM;
    for (size_t i = 0; i < impl->id_map.count && status >= 0; i++) {
        pc__put_u64(id, (uint64_t)impl->id_map.ids[i]);
        status = pc__bytes_add(out, id, sizeof id);
    }
    if (status >= 0) {
        ops->copy_vectors(impl, rows);
        status = pc__index_put_words(out, rows, numbers);
    }
    pc__free(impl->id_map.mem, rows);
    return status >= 0 && ops->write ? ops->write(impl, out) : status;
}

pc_status pc__index_write(const pc__index *index, pc__bytes *out)
{
    size_t before = out->size;
    pthread_rwlock_rdlock(
        (pthread_rwlock_t *)&index->lock); /* locking changes nothing that the index holds */
    pc_status status = write_impl(index->ops, index->impl, out);
    pthread_rwlock_unlock((pthread_rwlock_t *)&index->lock);
    if (status < 0 && out->data)
        out->data[out->size = before] = '\0';
    return status;
}

static pc_status read_index_header(const uint8_t *data, size_t size, pc__index_options *o,
                                   size_t *count)
{
    if (size < HEADER || memcmp(data, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT, "not an index, or of another version");
    pc__fields_get(o, data, PC__FIELDS(header_fields));
    uint64_t id_map = pc__get_u64(data + AT_COUNT);
    if (pc__get_u32(data + AT_ZERO) || id_map > (size - HEADER) / (8 + 4 * (uint64_t)o->dim))
        return pc__fail(PC_ERR_FORMAT, "%llu vectors of %u numbers in %zu bytes",
                        (unsigned long long)id_map, o->dim, size);
    *count = (size_t)id_map;
    return PC_OK;
}

const uint8_t *pc__index_bytes_header(const void *data, size_t size, pc__index_options *options,
                                      size_t *count)
{
    return read_index_header(data, size, options, count) < 0 ? NULL
                                                             : (const uint8_t *)data + HEADER;
}

/* Checks ids and vectors of a file; -1 is a removed one. */
static pc_status check_read_vectors(pc__index *index, size_t count, const int64_t *ids,
                                    const float *rows)
{
    pc_status status = pc__index_check_vectors(index, count, rows);
    int64_t *living = pc__alloc(index->mem, count * sizeof *living);
    size_t kept = 0;
    if (!living)
        status = PC_ERR_NOMEM;
    for (size_t i = 0; i < count && status >= 0; i++)
        if (ids[i] != -1)
            living[kept++] = ids[i];
    if (status >= 0 && kept < count && !index->ops->read)
        status = pc__fail(PC_ERR_FORMAT, "a removed vector in an index that keeps none");
    if (status >= 0)
        status = pc__index_check_ids(index, kept, living);
    pc__free(index->mem, living);
    return status == PC_ERR_INVALID ? PC_ERR_FORMAT : status;
}

static pc_status read_impl(pc__index *index, size_t count, const uint8_t *data, size_t size)
{
    size_t dim = index->impl->options.dim, at = count * (8 + 4 * dim);
    int64_t *ids = pc__alloc(index->mem, count * sizeof *ids);
    float *rows = pc__alloc(index->mem, count * dim * sizeof *rows);
    pc_status status = PC_ERR_NOMEM;
    if (!ids || !rows)
        goto done;
    for (size_t i = 0; i < count; i++)
        ids[i] = (int64_t)pc__get_u64(data + 8 * i);
    pc__index_get_words(rows, data + 8 * count, count * dim);
    PC__TRY(check_read_vectors(index, count, ids, rows), done);
    if (index->ops->read)
        status = index->ops->read(index->impl, count, ids, rows, data + at, size - at);
    else if (size > at)
        status = pc__fail(PC_ERR_FORMAT, "%zu bytes too many", size - at);
    else if (count)
        status = index->ops->add(index->impl, count, rows, ids);
done:
    pc__free(index->mem, ids);
    pc__free(index->mem, rows);
    return status;
}

pc_status pc__index_read(pc__index **out, const pc_allocator *mem, const void *data, size_t size,
                         const char *where)
{
    pc__index_options options;
    pc__index *index = NULL;
    size_t count = 0;
    *out = NULL;
    pc_status status = read_index_header(data, size, &options, &count);
    if (status >= 0 && (status = pc__index_new(&index, mem, &options)) == PC_ERR_INVALID)
        status = PC_ERR_FORMAT;
    if (status >= 0)
        status = read_impl(index, count, (const uint8_t *)data + HEADER, size - HEADER);
    if (status < 0) {
        pc__index_free(index);
        return pc__fail_in(status, "%s", where);
    }
    *out = index;
    return PC_OK;
}

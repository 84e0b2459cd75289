/* Reads traces, and numbers their blocks by first use. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { MOST_BLOCKS = 1 << 25 };

typedef struct reader {
    trace *t;
    const char *path;
    uint32_t *number; /* of each id of the file; 0: not seen yet */
    size_t ids, block_room, request_room, block_end;
} reader;

static int grow(void *array, size_t *room, size_t need, size_t element)
{
    void **at = array, *moved;
    size_t want = *room + *room / 2 + 1024;
    if (need <= *room)
        return 1;
    want = want < need ? need : want;
    moved = realloc(*at, want * element);
    if (!moved)
        return 0;
    *at = moved;
    *room = want;
    return 1;
}

/* The number of an id; UINT32_MAX: out of memory. */
static uint32_t number_of(reader *r, size_t id)
{
    size_t had = r->ids;
    if (!grow(&r->number, &r->ids, id + 1, sizeof *r->number))
        return UINT32_MAX;
    memset(r->number + had, 0, (r->ids - had) * sizeof *r->number);
    if (!r->number[id])
        r->number[id] = (uint32_t)++r->t->block_count;
    return r->number[id] - 1;
}

static int begin_request(reader *r, size_t blocks, int novel)
{
    trace *t = r->t;
    size_t room = r->request_room;
    if (!grow(&t->blocks, &r->block_room, r->block_end + blocks, sizeof *t->blocks)
        || !grow(&t->first, &r->request_room, t->request_count + 2, sizeof *t->first)
        || !grow(&t->novel, &room, t->request_count + 2, 1))
        return 0;
    t->novel[t->request_count++] = (unsigned char)novel;
    t->first[t->request_count] = r->block_end + blocks;
    t->look_ups += novel ? 0 : blocks;
    return 1;
}

static int add_request(reader *r, const json_t *ids, size_t line)
{
    size_t count = json_array_size(ids);
    if (!begin_request(r, count, 0))
        return plain_error("%s: out of memory", r->path);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(ids, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value >= MOST_BLOCKS)
            return plain_error("%s: line %zu: hash_ids[%zu] is not a number from 0 to %d", r->path,
                               line, i, MOST_BLOCKS - 1);
        r->t->blocks[r->block_end] = number_of(r, (size_t)value);
        if (r->t->blocks[r->block_end++] == UINT32_MAX)
            return plain_error("%s: out of memory", r->path);
    }
    return EXIT_OK;
}

static int add_novel(reader *r, size_t blocks)
{
    if (!begin_request(r, blocks, 1))
        return plain_error("%s: out of memory", r->path);
    for (size_t i = 0; i < blocks; i++)
        r->t->blocks[r->block_end++] = (uint32_t)r->t->block_count++;
    return EXIT_OK;
}

static int read_lines(reader *r, char *text, size_t flood)
{
    size_t line = 0, floods = 0;
    int code = EXIT_OK;
    for (char *at = text, *next; *at && code == EXIT_OK; at = next) {
        json_error_t error;
        json_t *object, *ids;
        char *end = strchr(at, '\n');
        next = end ? end + 1 : at + strlen(at);
        line++;
        if ((end ? end : next) == at)
            continue;
        object = json_loadb(at, (size_t)((end ? end : next) - at), 0, &error);
        ids = json_object_get(object, "hash_ids");
        code = !object ? plain_error("%s: line %zu: %s", r->path, line, error.text)
               : json_is_array(ids)
                   ? add_request(r, ids, line)
                   : plain_error("%s: line %zu has no array \"hash_ids\"", r->path, line);
        json_decref(object);
        if (code == EXIT_OK && flood && line % 2 == 0 && ++floods)
            code = add_novel(r, flood);
    }
    r->t->distinct = r->t->block_count - floods * flood;
    return code == EXIT_OK && !r->t->look_ups ? plain_error("%s: no requests", r->path) : code;
}

int trace_read(trace *t, const char *path, size_t flood)
{
    reader r = {.t = t, .path = path};
    char *text;
    size_t size;
    int code;
    memset(t, 0, sizeof *t);
    text = read_text(path, DATA_BYTES, &size);
    t->first = calloc(1, sizeof *t->first);
    r.request_room = 1;
    code = !text       ? EXIT_INPUT
           : !t->first ? plain_error("%s: out of memory", path)
                       : read_lines(&r, text, flood);
    free(r.number);
    free(text);
    return code;
}

void trace_free(trace *t)
{
    free(t->blocks);
    free(t->first);
    free(t->novel);
    memset(t, 0, sizeof *t);
}

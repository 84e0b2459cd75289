/* Kinds of index that FAISS computes. Removed vectors stay in FAISS and are left out of results, so
 * a search asks for more neighbours. The index is rebuilt when most vectors are removed ones, or
 * when IVF was trained on less than a quarter of the vectors. */
#include <math.h>
#include <string.h>

#include "base/fields.h"
#include "base/little_endian.h"
#include "base/module.h"
#include "memo/index/faiss_shim.h"
#include "memo/index/index_bytes.h"
#include "memo/index/index_ops.h"
#include "memo/index/nearest.h"
#include "memo/index/scan_kernels.h"

enum {
    /* test/kernel/test_index_recall.c, busy machine, 100k clustered vectors of 128: finds 0.998 of
     * the nearest neighbours of similar queries and all of near queries, in 0.13 to 0.16 ms;
     * building takes 20 to 23 s. Without clusters: all of the near ones, in 0.6 ms, building 100 s.
     * FAISS's defaults (32, 40, 16) find 0.93 and 0.95 in 0.05 ms, building 12 s; (32, 40, 128)
     * find 0.996 and 0.992 in 0.25 ms. */
    LINKS = 32,
    BUILD = 80,
    SEARCH = 64,
    FEWEST_PER_LIST = 16, /* with fewer, one list is as good */
    FEW_REMOVED = 256     /* removed vectors that never cause a rebuild */
};

typedef struct faiss_index {
    pc__index_impl impl;
    const pc__faiss_functions *calls;
    pc__faiss *faiss;
    size_t trained; /* IVF: vectors that it was trained on */
} faiss_index;

static pc_status faiss_error(int result, const char *text)
{
    if (result == PC__FAISS_NOMEM)
        return pc__fail(PC_ERR_NOMEM, "index: FAISS: out of memory");
    return pc__fail(PC_ERR_INTERNAL, "index: FAISS: %s", text);
}

/* A file says what the index was made with, so defaults are filled in first. */
static void fill_hnsw_defaults(pc__index_options *o)
{
    o->hnsw_links = o->hnsw_links ? o->hnsw_links : LINKS;
    o->hnsw_build = o->hnsw_build ? o->hnsw_build : BUILD;
    o->hnsw_search = o->hnsw_search ? o->hnsw_search : SEARCH;
}

static size_t lists_for(const pc__index_options *o, size_t vectors)
{
    size_t lists = o->ivf_lists ? (size_t)o->ivf_lists : (size_t)(2.0 * sqrt((double)vectors)),
           most = vectors / FEWEST_PER_LIST;
    lists = lists < most ? lists : most;
    return lists ? lists : 1;
}

static size_t probes_for(const pc__index_options *o, size_t lists)
{
    size_t share = lists / 20;
    return o->ivf_probes ? (size_t)o->ivf_probes : share > 16 ? share : 16;
}

static void faiss_free(pc__index_impl *impl)
{
    faiss_index *f = (faiss_index *)(void *)impl;
    const pc_allocator *mem = impl->id_map.mem;
    f->calls->destroy(f->faiss);
    pc__id_map_free(&impl->id_map);
    pc__free(mem, f);
}

static const pc__module_found *find_module(void)
{
    return pc__module_open("faiss", pc__linked_faiss);
}

static pc_status faiss_new(pc__index_impl **out, const pc_allocator *mem,
                           const pc__index_options *options)
{
    char text[PC__FAISS_TEXT] = "";
    faiss_index *f = pc__calloc(mem, 1, sizeof *f);
    if (!f)
        return PC_ERR_NOMEM;
    f->calls = find_module()->table; /* there: index.c has looked */
    f->impl.id_map.mem = mem;
    f->impl.options = *options;
    fill_hnsw_defaults(&f->impl.options);
    const pc__index_options *o = &f->impl.options;
    pc__faiss_setup setup = {.kind = o->kind == PC__INDEX_FAISS_FLAT   ? PC__FAISS_FLAT
                                     : o->kind == PC__INDEX_FAISS_HNSW ? PC__FAISS_HNSW
                                                                       : PC__FAISS_IVF,
                             .dim = o->dim,
                             .links = o->hnsw_links,
                             .build = o->hnsw_build,
                             .search = o->hnsw_search,
                             .seed = o->seed,
                             .kernels = pc__scan_kernels_get()};
    int result = f->calls->create(&f->faiss, &setup, text);
    if (result) {
        pc__free(mem, f);
        return faiss_error(result, text);
    }
    *out = &f->impl;
    return PC_OK;
}

static pc_status faiss_add(pc__index_impl *impl, size_t count, const float *vectors,
                           const int64_t *ids)
{
    faiss_index *f = (faiss_index *)(void *)impl;
    char text[PC__FAISS_TEXT] = "";
    int result = PC__FAISS_OK;
    PC__TRY_RETURN(pc__id_map_reserve(&impl->id_map, count));
    if (impl->options.kind == PC__INDEX_FAISS_IVF && !f->calls->lists(f->faiss)) {
        result = f->calls->train(f->faiss, count, vectors, lists_for(&impl->options, count), text);
        f->trained = result ? 0 : count;
    }
    if (!result)
        result = f->calls->add(f->faiss, count, vectors, text);
    for (size_t i = 0; i < count && !result; i++)
        pc__id_map_add(&impl->id_map, ids[i]);
    /* After a failed call FAISS may have some of the vectors. */
    while (impl->id_map.count < f->calls->count(f->faiss))
        pc__id_map_add(&impl->id_map, -1);
    return result ? faiss_error(result, text) : PC_OK;
}

static void faiss_remove(pc__index_impl *impl, size_t position)
{
    pc__id_map_vacate(&impl->id_map, position);
}

/* Leaves removed vectors out of what FAISS has found, and turns positions into ids. */
static size_t drop_removed(const pc__id_map *id_map, size_t want, float *found, int64_t *at)
{
    size_t kept = 0;
    for (size_t i = 0; i < want; i++)
        if (at[i] >= 0 && id_map->ids[at[i]] >= 0) {
            found[kept] = found[i];
            at[kept++] = id_map->ids[at[i]];
        }
    return kept;
}

/* Searches one query. `want` is doubled until k results remain and no tie is cut, unless very many
 * are tied. *room: positions, then distances of what FAISS has found. */
static pc_status search_one(const faiss_index *f, const float *query, size_t k, size_t *capacity,
                            int64_t **room, float *distances, int64_t *ids)
{
    const pc__id_map *id_map = &f->impl.id_map;
    size_t total = id_map->count, dead = total - id_map->living, lists = f->calls->lists(f->faiss);
    size_t probes = probes_for(&f->impl.options, lists),
           need = k < id_map->living ? k : id_map->living;
    size_t want = k + 1 + (dead ? 8 + k * dead / total : 0);
    for (;; want *= 2, probes *= 2) {
        char text[PC__FAISS_TEXT] = "";
        want = want < total ? want : total;
        PC__TRY_RETURN(
            pc__grow(id_map->mem, (void **)room, capacity, want, sizeof(int64_t) + sizeof(float)));
        int64_t *at = *room;
        float *found = (float *)(void *)(at + want);
        int result = f->calls->search(f->faiss, query, want, probes, found, at, text);
        if (result)
            return faiss_error(result, text);
        float farthest = found[want - 1];
        size_t got = drop_removed(id_map, want, found, at);
        int all = want == total && probes >= lists;
        /* Behind a cut tie there may be a vector with a smaller id. */
        int cut_tie = got >= k && found[k - 1] == farthest;
        if (all || (got >= need && (!cut_tie || want > 4 * k + 64))) {
            pc__nearest_start(distances, ids, k);
            for (size_t i = 0; i < got; i++)
                pc__nearest_offer(distances, ids, k, found[i], at[i]);
            pc__nearest_sort(distances, ids, k);
            return PC_OK;
        }
    }
}

static pc_status faiss_search(const pc__index_impl *impl, size_t queries, const float *vectors,
                              size_t k, float *distances, int64_t *ids)
{
    const faiss_index *f = (const faiss_index *)(const void *)impl;
    int64_t *room = NULL;
    size_t capacity = 0;
    pc_status status = PC_OK;
    for (size_t q = 0; q < queries && status >= 0; q++) {
        if (impl->id_map.living)
            status = search_one(f, vectors + q * impl->options.dim, k, &capacity, &room,
                                distances + q * k, ids + q * k);
        else
            pc__nearest_start(distances + q * k, ids + q * k, k);
    }
    pc__free(impl->id_map.mem, room);
    return status;
}

static void faiss_copy_vectors(const pc__index_impl *impl, float *out)
{
    const faiss_index *f = (const faiss_index *)(const void *)impl;
    f->calls->rows(f->faiss, out);
}

static int faiss_needs_rebuild(const pc__index_impl *impl)
{
    const faiss_index *f = (const faiss_index *)(const void *)impl;
    const pc__id_map *id_map = &impl->id_map;
    if (id_map->count - id_map->living > id_map->living + FEW_REMOVED)
        return 1;
    return impl->options.kind == PC__INDEX_FAISS_IVF && id_map->living / 4 >= f->trained
           && lists_for(&impl->options, id_map->living) > 1;
}

static pc_status faiss_rebuild(const pc__index_impl *impl, pc__index_impl **fresh)
{
    const pc__id_map *id_map = &impl->id_map;
    const pc_allocator *mem = id_map->mem;
    size_t dim = impl->options.dim, kept = 0;
    float *rows = pc__alloc(mem, id_map->count * dim * sizeof *rows);
    int64_t *ids = pc__alloc(mem, id_map->count * sizeof *ids);
    pc_status status = rows && ids ? faiss_new(fresh, mem, &impl->options) : PC_ERR_NOMEM;
    if (status < 0)
        goto done;
    faiss_copy_vectors(impl, rows);
    for (size_t i = 0; i < id_map->count; i++)
        if (id_map->ids[i] >= 0) {
            memmove(rows + kept * dim, rows + i * dim, dim * sizeof *rows);
            ids[kept++] = id_map->ids[i];
        }
    if (kept && (status = faiss_add(*fresh, kept, rows, ids)) < 0) {
        faiss_free(*fresh);
        *fresh = NULL;
    }
done:
    pc__free(mem, rows);
    pc__free(mem, ids);
    return status;
}

/* Behind the vectors: trained u64, neighbours u64, lists u64, entry i32, top level i32. Then of
 * HNSW the levels and neighbours; of IVF the list of each vector and the centres; 4 bytes each. */
enum { STRUCTURE_HEADER = 32 };
#define STRUCTURE(at, member) PC__FIELD(pc__faiss_structure, at, member)
static const pc__field structure_fields[] = {STRUCTURE(8, neighbour_count), STRUCTURE(16, lists),
                                             STRUCTURE(24, entry), STRUCTURE(28, top_level)};

static pc_status faiss_write(const pc__index_impl *impl, pc__bytes *out)
{
    const faiss_index *f = (const faiss_index *)(const void *)impl;
    size_t count = impl->id_map.count;
    uint8_t header[STRUCTURE_HEADER];
    pc__faiss_structure structure;
    pc_status status = PC_ERR_NOMEM;
    int32_t *list_of = pc__alloc(impl->id_map.mem, count * sizeof *list_of);
    if (!list_of)
        return status;
    f->calls->export_structure(f->faiss, list_of, &structure);
    pc__put_u64(header, f->trained);
    pc__fields_put(header, &structure, PC__FIELDS(structure_fields));
    PC__TRY(pc__bytes_add(out, header, sizeof header), done);
    if (structure.levels) {
        PC__TRY(pc__index_put_words(out, structure.levels, count), done);
        PC__TRY(pc__index_put_words(out, structure.neighbours, structure.neighbour_count), done);
    }
    if (structure.lists) {
        PC__TRY(pc__index_put_words(out, structure.list_of, count), done);
        PC__TRY(pc__index_put_words(out, structure.centres, structure.lists * impl->options.dim),
                done);
    }
done:
    pc__free(impl->id_map.mem, list_of);
    return status;
}

/* Points into `words`, a copy in this machine's byte order. */
static pc_status find_structure(const faiss_index *f, size_t count, const uint8_t *header,
                                const int32_t *words, size_t there, pc__faiss_structure *out)
{
    size_t dim = f->impl.options.dim, need = 0;
    int graph = f->impl.options.kind == PC__INDEX_FAISS_HNSW,
        inverted = f->impl.options.kind == PC__INDEX_FAISS_IVF;
    *out = (pc__faiss_structure){0};
    pc__fields_get(out, header, PC__FIELDS(structure_fields));
    if (out->neighbour_count > there || out->lists > there / dim || (out->neighbour_count && !graph)
        || (out->lists && !inverted) || (inverted && count && !out->lists))
        return pc__fail(PC_ERR_FORMAT, "structure of an index of another kind or size");
    if (graph || out->lists)
        need = count + out->neighbour_count + out->lists * dim;
    if (need != there)
        return pc__fail(PC_ERR_FORMAT, "structure of %zu words, not %zu", there, need);
    if (!need)
        return PC_OK;
    out->levels = out->list_of = words;
    out->neighbours = words + count;
    out->centres = (const float *)(const void *)(words + count);
    return PC_OK;
}

static pc_status faiss_read(pc__index_impl *impl, size_t count, const int64_t *ids,
                            const float *rows, const uint8_t *data, size_t size)
{
    faiss_index *f = (faiss_index *)(void *)impl;
    char text[PC__FAISS_TEXT] = "";
    pc__faiss_structure structure;
    if (size < STRUCTURE_HEADER || size % 4)
        return pc__fail(PC_ERR_FORMAT, "ends too early");
    size_t there = (size - STRUCTURE_HEADER) / 4;
    int32_t *words = pc__alloc(impl->id_map.mem, there * sizeof *words);
    if (!words)
        return PC_ERR_NOMEM;
    pc_status status;
    pc__index_get_words(words, data + STRUCTURE_HEADER, there);
    PC__TRY(find_structure(f, count, data, words, there, &structure), done);
    PC__TRY(pc__id_map_reserve(&impl->id_map, count), done);
    int result = count ? f->calls->import_structure(f->faiss, count, rows, &structure, text)
                       : PC__FAISS_OK;
    if (result)
        PC__TRY(result == PC__FAISS_NOMEM ? faiss_error(result, text)
                                          : pc__fail(PC_ERR_FORMAT, "%s", text),
                done);
    for (size_t i = 0; i < count; i++)
        pc__id_map_add(&impl->id_map, ids[i]);
    f->trained = (size_t)pc__get_u64(data);
done:
    pc__free(impl->id_map.mem, words);
    return status;
}

static const pc__index_ops ops = {.create = faiss_new,
                                  .destroy = faiss_free,
                                  .add = faiss_add,
                                  .remove = faiss_remove,
                                  .search = faiss_search,
                                  .copy_vectors = faiss_copy_vectors,
                                  .needs_rebuild = faiss_needs_rebuild,
                                  .rebuild = faiss_rebuild,
                                  .write = faiss_write,
                                  .read = faiss_read};

const pc__index_ops *pc__index_faiss(const char **reason)
{
    const pc__module_found *found = find_module();
    *reason = found->reason;
    return found->table ? &ops : NULL;
}

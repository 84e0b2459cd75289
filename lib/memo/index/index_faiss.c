/* FAISS's kinds behind the index: what is removed stays in FAISS and is left out of results, for
 * which more neighbours are asked for; when most of it is of that sort, or when IVF's centres were
 * found among a quarter of what is there now, the whole is made anew. */
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/little_endian.h"
#include "memo/index/faiss_shim.h"
#include "memo/index/index_bytes.h"
#include "memo/index/index_ops.h"
#include "memo/index/nearest.h"
#include "memo/index/scan_kernels.h"

enum {
    /* By test/kernel/test_index_recall.c on a busy machine, 100k vectors of 128 in clusters: finds
     * 0.998 of the nearest of queries drawn like them and all of those near to one of them, in 0.13
     * to 0.16 ms, built in 20 to 23 s; without clusters all of the near ones, in 0.6 ms, built in
     * 100 s. In clusters FAISS's own (32, 40, 16) finds 0.93 and 0.95 in 0.05 ms, built in 12 s;
     * (32, 40, 128) 0.996 and 0.992 in 0.25 ms. */
    LINKS = 32,
    BUILD = 80,
    SEARCH = 64,
    FEWEST_PER_LIST = 16, /* else one list is as good */
    DEAD = 256            /* more dead than living, but not for the sake of so few */
};

typedef struct faiss_side {
    pc__index_impl side;
    pc__faiss *faiss;
    size_t trained; /* IVF: on so many vectors */
} faiss_side;

static pc_status failed(int result, const char *text)
{
    if (result == PC__FAISS_NOMEM)
        return pc__fail(PC_ERR_NOMEM, "index: FAISS: out of memory");
    return pc__fail(PC_ERR_INTERNAL, "index: FAISS: %s", text);
}

/* Fills in defaults, so that a file says what it was made with. */
static void complete(pc__index_options *o)
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

static void faiss_free(pc__index_impl *side)
{
    faiss_side *f = (faiss_side *)(void *)side;
    const pc_allocator *mem = side->places.mem;
    pc__faiss_free(f->faiss);
    pc__id_map_free(&side->places);
    pc__free(mem, f);
}

static pc_status faiss_new(pc__index_impl **out, const pc_allocator *mem,
                           const pc__index_options *options)
{
    char text[PC__FAISS_TEXT] = "";
    faiss_side *f = pc__calloc(mem, 1, sizeof *f);
    if (!f)
        return PC_ERR_NOMEM;
    f->side.places.mem = mem;
    f->side.options = *options;
    complete(&f->side.options);
    const pc__index_options *o = &f->side.options;
    pc__faiss_setup setup = {.kind = o->kind == PC__INDEX_FAISS_FLAT   ? PC__FAISS_FLAT
                                     : o->kind == PC__INDEX_FAISS_HNSW ? PC__FAISS_HNSW
                                                                       : PC__FAISS_IVF,
                             .dim = o->dim,
                             .links = o->hnsw_links,
                             .build = o->hnsw_build,
                             .search = o->hnsw_search,
                             .seed = o->seed,
                             .kernels = pc__scan_kernels_get()};
    int result = pc__faiss_new(&f->faiss, &setup, text);
    if (result) {
        pc__free(mem, f);
        return failed(result, text);
    }
    *out = &f->side;
    return PC_OK;
}

static pc_status faiss_add(pc__index_impl *side, size_t count, const float *vectors,
                           const int64_t *ids)
{
    faiss_side *f = (faiss_side *)(void *)side;
    char text[PC__FAISS_TEXT] = "";
    int result = PC__FAISS_OK;
    pc_status status = pc__id_map_reserve(&side->places, count);
    if (status < 0)
        return status;
    if (side->options.kind == PC__INDEX_FAISS_IVF && !pc__faiss_lists(f->faiss)) {
        result = pc__faiss_train(f->faiss, count, vectors, lists_for(&side->options, count), text);
        f->trained = result ? 0 : count;
    }
    if (!result)
        result = pc__faiss_add(f->faiss, count, vectors, text);
    for (size_t i = 0; i < count && !result; i++)
        pc__id_map_add(&side->places, ids[i]);
    while (side->places.count
           < pc__faiss_count(f->faiss)) /* what it could not take back: nobody's */
        pc__id_map_add(&side->places, -1);
    return result ? failed(result, text) : PC_OK;
}

static void faiss_remove(pc__index_impl *side, size_t place)
{
    pc__id_map_vacate(&side->places, place);
}

/* Leaves the dead out of what FAISS has found, and turns places into ids. */
static size_t living(const pc__id_map *places, size_t want, float *found, int64_t *at)
{
    size_t kept = 0;
    for (size_t i = 0; i < want; i++)
        if (at[i] >= 0 && places->ids[at[i]] >= 0) {
            found[kept] = found[i];
            at[kept++] = places->ids[at[i]];
        }
    return kept;
}

/* One query; `want` is doubled until there are k of the living, and no tie is cut (or so many are
 * tied that it does not pay). */
static pc_status one_query(const faiss_side *f, const float *query, size_t k, size_t *capacity,
                           float **found, int64_t **at, float *distances, int64_t *ids)
{
    const pc__id_map *places = &f->side.places;
    size_t total = places->count, dead = total - places->living, lists = pc__faiss_lists(f->faiss);
    size_t probes = probes_for(&f->side.options, lists),
           need = k < places->living ? k : places->living;
    size_t want = k + 1 + (dead ? 8 + k * dead / total : 0);
    for (;; want *= 2, probes *= 2) {
        char text[PC__FAISS_TEXT] = "";
        want = want < total ? want : total;
        size_t had = *capacity;
        pc_status status = pc__grow(places->mem, (void **)found, &had, want, sizeof **found);
        had = *capacity;
        if (status < 0
            || (status = pc__grow(places->mem, (void **)at, &had, want, sizeof **at)) < 0)
            return status;
        *capacity = had;
        int result = pc__faiss_search(f->faiss, query, want, probes, *found, *at, text);
        if (result)
            return failed(result, text);
        float farthest = (*found)[want - 1];
        size_t got = living(places, want, *found, *at);
        int all = want == total && probes >= lists;
        int cut_tie = got >= k
                      && (*found)[k - 1] == farthest; /* one with a smaller id may come after */
        if (all || (got >= need && (!cut_tie || want > 4 * k + 64))) {
            pc__nearest_start(distances, ids, k);
            for (size_t i = 0; i < got; i++)
                pc__nearest_offer(distances, ids, k, (*found)[i], (*at)[i]);
            pc__nearest_sort(distances, ids, k);
            return PC_OK;
        }
    }
}

static pc_status faiss_search(const pc__index_impl *side, size_t queries, const float *vectors,
                              size_t k, float *distances, int64_t *ids)
{
    const faiss_side *f = (const faiss_side *)(const void *)side;
    float *found = NULL;
    int64_t *at = NULL;
    size_t capacity = 0;
    pc_status status = PC_OK;
    for (size_t q = 0; q < queries && status >= 0; q++) {
        if (side->places.living)
            status = one_query(f, vectors + q * side->options.dim, k, &capacity, &found, &at,
                               distances + q * k, ids + q * k);
        else
            pc__nearest_start(distances + q * k, ids + q * k, k);
    }
    pc__free(side->places.mem, found);
    pc__free(side->places.mem, at);
    return status;
}

static void faiss_rows(const pc__index_impl *side, float *out)
{
    pc__faiss_rows(((const faiss_side *)(const void *)side)->faiss, out);
}

static int faiss_stale(const pc__index_impl *side)
{
    const faiss_side *f = (const faiss_side *)(const void *)side;
    const pc__id_map *places = &side->places;
    if (places->count - places->living > places->living + DEAD)
        return 1;
    return side->options.kind == PC__INDEX_FAISS_IVF && places->living / 4 >= f->trained
           && lists_for(&side->options, places->living) > 1;
}

static pc_status faiss_renew(const pc__index_impl *side, pc__index_impl **fresh)
{
    const pc__id_map *places = &side->places;
    const pc_allocator *mem = places->mem;
    size_t dim = side->options.dim, kept = 0;
    float *rows = pc__alloc(mem, places->count * dim * sizeof *rows);
    int64_t *ids = pc__alloc(mem, places->count * sizeof *ids);
    pc_status status = rows && ids ? faiss_new(fresh, mem, &side->options) : PC_ERR_NOMEM;
    if (status < 0)
        goto done;
    faiss_rows(side, rows);
    for (size_t i = 0; i < places->count; i++)
        if (places->ids[i] >= 0) {
            memmove(rows + kept * dim, rows + i * dim, dim * sizeof *rows);
            ids[kept++] = places->ids[i];
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

/* After the rows: trained u64, neighbours u64, lists u64, entry i32, top level i32; then of HNSW
 * the levels and the neighbours, of IVF each vector's list and the centres, all in four bytes. */
enum { PARTS_HEADER = 32 };

static pc_status faiss_write(const pc__index_impl *side, pc__bytes *out)
{
    const faiss_side *f = (const faiss_side *)(const void *)side;
    size_t count = side->places.count;
    uint8_t header[PARTS_HEADER];
    pc__faiss_structure parts;
    pc_status status = PC_ERR_NOMEM;
    int32_t *list_of = pc__alloc(side->places.mem, count * sizeof *list_of);
    if (!list_of)
        return status;
    pc__faiss_export(f->faiss, list_of, &parts);
    pc__put_u64(header, f->trained);
    pc__put_u64(header + 8, parts.neighbour_count);
    pc__put_u64(header + 16, parts.lists);
    pc__put_u32(header + 24, (uint32_t)parts.entry);
    pc__put_u32(header + 28, (uint32_t)parts.top_level);
    PC__TRY(pc__bytes_add(out, header, sizeof header), done);
    if (parts.levels) {
        PC__TRY(pc__index_put_words(out, parts.levels, count), done);
        PC__TRY(pc__index_put_words(out, parts.neighbours, parts.neighbour_count), done);
    }
    if (parts.lists) {
        PC__TRY(pc__index_put_words(out, parts.list_of, count), done);
        PC__TRY(pc__index_put_words(out, parts.centres, parts.lists * side->options.dim), done);
    }
done:
    pc__free(side->places.mem, list_of);
    return status;
}

/* Where the words of each part begin, in a copy in this machine's order of bytes. */
static pc_status find_parts(const faiss_side *f, size_t count, const uint8_t *header,
                            const int32_t *words, size_t there, pc__faiss_structure *out)
{
    size_t dim = f->side.options.dim, need = 0;
    *out = (pc__faiss_structure){.entry = (int32_t)pc__get_u32(header + 24),
                                 .top_level = (int32_t)pc__get_u32(header + 28)};
    uint64_t neighbours = pc__get_u64(header + 8), lists = pc__get_u64(header + 16);
    int graph = f->side.options.kind == PC__INDEX_FAISS_HNSW,
        inverted = f->side.options.kind == PC__INDEX_FAISS_IVF;
    if (neighbours > there || lists > there / dim || (neighbours && !graph) || (lists && !inverted)
        || (inverted && count && !lists))
        return pc__fail(PC_ERR_FORMAT, "parts of an index of another kind or size");
    if (graph || (inverted && lists))
        need = count + (size_t)neighbours + (size_t)lists * dim;
    if (need != there)
        return pc__fail(PC_ERR_FORMAT, "parts of %zu words where %zu are needed", there, need);
    if (graph) {
        out->levels = words;
        out->neighbours = words + count;
        out->neighbour_count = (size_t)neighbours;
    } else if (lists) {
        out->list_of = words;
        out->centres = (const float *)(const void *)(words + count);
        out->lists = (size_t)lists;
    }
    return PC_OK;
}

static pc_status faiss_read(pc__index_impl *side, size_t count, const int64_t *ids,
                            const float *rows, const uint8_t *data, size_t size)
{
    faiss_side *f = (faiss_side *)(void *)side;
    char text[PC__FAISS_TEXT] = "";
    pc__faiss_structure parts;
    if (size < PARTS_HEADER || size % 4)
        return pc__fail(PC_ERR_FORMAT, "cut off");
    size_t there = (size - PARTS_HEADER) / 4;
    int32_t *words = pc__alloc(side->places.mem, there * sizeof *words);
    if (!words)
        return PC_ERR_NOMEM;
    pc__index_get_words(words, data + PARTS_HEADER, there);
    pc_status status = find_parts(f, count, data, words, there, &parts);
    if (status >= 0)
        status = pc__id_map_reserve(&side->places, count);
    int result = status < 0 || !count ? PC__FAISS_OK
                                      : pc__faiss_import(f->faiss, count, rows, &parts, text);
    if (result)
        status = result == PC__FAISS_NOMEM ? failed(result, text)
                                           : pc__fail(PC_ERR_FORMAT, "%s", text);
    for (size_t i = 0; i < count && status >= 0; i++)
        pc__id_map_add(&side->places, ids[i]);
    f->trained = (size_t)pc__get_u64(data);
    pc__free(side->places.mem, words);
    return status;
}

const pc__index_ops pc__index_faiss_ops = {.name = "FAISS",
                                           .new_side = faiss_new,
                                           .free_side = faiss_free,
                                           .add = faiss_add,
                                           .remove = faiss_remove,
                                           .search = faiss_search,
                                           .rows = faiss_rows,
                                           .stale = faiss_stale,
                                           .renew = faiss_renew,
                                           .write = faiss_write,
                                           .read = faiss_read};

/* Writes and reads stores of attention maps with the library: makes the golden store, and prints
 * what the second reader, tools/read_maps.py, is compared with.
 *
 *   write_maps FOLDER          makes a store: compressed and plain records, one removed, a log that
 *                              was written anew
 *   write_maps --json FOLDER   prints its records, metadata and layers as FNV-1a hashes
 *   write_maps --indexes FILE  makes an index file: an index of each kind, of 300 records 0, 3,
 *                              6 …, each tenth of which was removed */
#include <inttypes.h>
#include <xxhash.h>

#include "maps.h"
#include "memo/index/index.h"
#include "memo/index/index_file.h"

static uint64_t fnv(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

typedef struct printing {
    pc__map_store *store;
    int count, bad;
} printing;

static int print_record(void *user, const pc__map_record *record)
{
    printing *p = user;
    pc__map_signature signature = maps_face();
    uint8_t *metadata = malloc(record->metadata_size + 1);
    char hex[65];
    pc__maps maps;
    if (!metadata
        || pc__map_store_metadata(p->store, record->id, metadata, record->metadata_size) != PC_OK
        || pc__map_store_get(p->store, record->id, &maps) != PC_OK) {
        fprintf(stderr, "record %" PRId64 ": %s\n", record->id, pc_error_text());
        p->bad = 1;
        free(metadata);
        return 0;
    }
    pc__id_hex(&record->tokens_id, hex);
    printf("%s{\"id\": %" PRId64 ", \"tokens\": %u, \"metadata\": %zu, \"bytes\": %" PRIu64
           ", \"tokens_id\": \"%s\", \"metadata_fnv\": \"%016" PRIx64 "\", \"layers_fnv\": [",
           p->count++ ? ", " : "", record->id, record->tokens, record->metadata_size, record->bytes,
           hex, fnv(metadata, record->metadata_size));
    for (int32_t i = 0; i < signature.layers; i++)
        printf("%s\"%016" PRIx64 "\"", i ? ", " : "",
               fnv(maps.layer[i], maps_layer_bytes(&signature, record->tokens)));
    printf("]}");
    pc__maps_release(p->store, &maps);
    free(metadata);
    return 0;
}

static int print_store(const char *folder)
{
    printing p = {0};
    char hex[65];
    pc__map_signature signature = maps_face();
    pc_memo_stats stats;
    if (maps_open(&p.store, folder, (pc__map_store_options){.read_only = 1}) < 0) {
        fprintf(stderr, "%s\n", pc_error_text());
        return 1;
    }
    pc__id_hex(&signature.model, hex);
    printf("{\"model\": \"%s\", \"layers\": %d, \"heads\": %d, \"causal\": %s, \"format\": %u, "
           "\"records\": [",
           hex, signature.layers, signature.heads, signature.causal ? "true" : "false",
           signature.format);
    pc__map_store_each(p.store, print_record, &p);
    printf("]}\n");
    pc__map_store_get_stats(p.store, &stats);
    pc__map_store_free(p.store);
    return p.bad || stats.damaged;
}

static int make_store(const char *folder)
{
    pc__map_store *store = NULL;
    int64_t id;
    int bad = maps_open(&store, folder, (pc__map_store_options){.cold_seconds = 1e-9}) < 0;
    bad = bad || maps_add(store, 2, &id) != PC_OK;
    bad = bad || pc__map_store_tidy(store) < 0;
    bad = bad || maps_add(store, 5, &id) != PC_OK;
    bad = bad || maps_add(store, 10, &id) != PC_OK || pc__map_store_remove(store, id) != PC_OK;
    bad = bad || maps_add(store, 0, &id) != PC_OK;
    if (bad)
        fprintf(stderr, "%s\n", pc_error_text());
    pc__map_store_free(store);
    return bad;
}

enum { VECTORS = 300, KINDS = PC__INDEX_FAISS_IVF + 1 };

static int add_index(pc__index_kind kind, pc__bytes *out)
{
    pc__index_options options = {.kind = kind, .dim = PC__FEATURE_DIM, .hnsw_links = 8, .seed = 5};
    float *x = malloc(VECTORS * PC__FEATURE_DIM * sizeof *x);
    int64_t ids[VECTORS];
    uint64_t prompts[VECTORS] = {0};
    pc__index *index = NULL;
    pc_test_rng rng = {kind + 1};
    size_t places = kind == PC__INDEX_SCAN ? VECTORS - VECTORS / 10
                                           : VECTORS; /* a scan has no removed vectors */
    int bad = !x || pc__index_new(&index, &pc__libc_allocator, &options) < 0;
    for (size_t i = 0; i < VECTORS && x; i++) {
        ids[i] = 3 * (int64_t)i;
        for (size_t d = 0; d < PC__FEATURE_DIM; d++)
            x[i * PC__FEATURE_DIM + d] = pc_test_normal(&rng);
    }
    bad = bad || pc__index_add(index, VECTORS, x, ids) < 0;
    for (size_t i = 0; i < VECTORS; i += 10)
        bad = bad || pc__index_remove(index, ids[i]) != PC_OK;
    bad = bad || pc__index_write(index, out) < 0
          || pc__bytes_add(out, prompts, places * sizeof *prompts) < 0;
    pc__index_free(index);
    free(x);
    return bad;
}

static int make_indexes(const char *path)
{
    pc__index_file_section sections[KINDS];
    pc__index_file_head head = {.projector = 77, .sections = sections};
    pc__bytes all = {.mem = &pc__libc_allocator};
    uint8_t *first;
    uint64_t at;
    size_t from = 0;
    int bad = 0;
    head.count = pc__index_has_faiss() ? KINDS : 1;
    at = pc__index_file_head_size(head.count);
    for (uint32_t k = 0; k < head.count && !bad; k++, from = all.size) {
        bad = add_index((pc__index_kind)k, &all);
        sections[k] = (pc__index_file_section){8, k, at + from, all.size - from,
                                               XXH3_64bits(all.data + from, all.size - from)};
    }
    head.bytes = at + all.size;
    first = calloc(1, (size_t)head.bytes);
    if (bad || !first) {
        fprintf(stderr, "%s\n", pc_error_text());
        return 1;
    }
    pc__index_file_head_put(&head, first);
    memcpy(first + at, all.data, all.size);
    pc_test_write(path, first, (size_t)head.bytes);
    free(first);
    pc__bytes_free(&all);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--indexes"))
        return make_indexes(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--json"))
        return print_store(argv[2]);
    return argc == 2 ? make_store(argv[1]) : 2;
}

/* Writes and describes records with the library's own writer and reader:
 *   write_records FOLDER [NAME …]   the images of golden_records.h, all or those named, as NAME.pcr
 *   write_records --json FILE       what the reader takes a record for, as JSON (the golden key
 * opens seals): for tools/read_record.py to be compared with */
#include <inttypes.h>

#include "golden_records.h"
#include "testing.h"

static void print_hex(const char *name, const uint8_t *bytes, size_t count)
{
    printf("\"%s\": \"", name);
    for (size_t i = 0; i < count; i++)
        printf("%02x", bytes[i]);
    printf("\", ");
}

static void print_lists(const pc__image *image)
{
    printf("\"token_ids\": [");
    for (size_t i = 0; i < image->tokens; i++)
        printf("%s%" PRId32, i ? ", " : "", image->token_ids[i]);
    printf("], \"relative\": ");
    for (size_t i = 0; image->relative && i < image->tokens; i++)
        printf("%s%" PRId64, i ? ", " : "[", image->relative[i]);
    printf("%s, \"block_bytes\": [", image->relative ? "]" : "null");
    for (size_t i = 0; i < image->block_count; i++)
        printf("%s%" PRIu64, i ? ", " : "", image->block_bytes[i]);
    printf("]");
}

/* FNV-1a: identifies the contents of a block in two lines of any language. */
static int print_blocks(const pc__record *record, const pc__image *image)
{
    printf(", \"blocks_fnv\": [");
    for (size_t i = 0; i < image->block_count; i++) {
        uint8_t *block = malloc((size_t)image->block_bytes[i] + 1);
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        int bad = !block || pc__record_block(record, i, block) < 0;
        for (size_t b = 0; !bad && b < image->block_bytes[i]; b++)
            hash = (hash ^ block[b]) * UINT64_C(0x100000001b3);
        free(block);
        if (bad)
            return 1;
        printf("%s\"%016" PRIx64 "\"", i ? ", " : "", hash);
    }
    printf("]");
    return 0;
}

static int print_record(const pc__record *record)
{
    const pc__image *image = pc__record_image(record);
    pc_record_info info = PC_RECORD_INFO_INIT;
    pc__record_describe(record, &info);
    printf("{");
    print_hex("key", image->key.bytes, 32);
    print_hex("salt", image->salt.bytes, 32);
    print_hex("model", image->form.model, 32);
    print_hex("content", image->content.bytes, image->has_content ? 32 : 0);
    print_hex("parent", image->parent.bytes, image->has_parent ? 32 : 0);
    print_hex("seal_id", info.seal_id, info.sealed ? sizeof info.seal_id : 0);
    printf("\"kernels\": \"%s\", ", info.kernels);
    printf("\"architecture\": \"%s\", \"version\": [%u, %u], \"codec\": %u, \"sealed\": %s, "
           "\"lossy\": %s, ",
           image->form.architecture, info.version / 256, info.version % 256, info.codec,
           info.sealed ? "true" : "false", image->lossy ? "true" : "false");
    printf("\"position_scheme\": %u, \"dtype\": %u, \"layout\": %u, \"encoding\": %u, \"regime\": "
           "%" PRIu64 ", \"origin\": %" PRId64 ", ",
           image->form.position_scheme, image->form.shape.dtype, image->form.layout,
           image->encoding, image->form.regime, image->form.origin);
    printf("\"layers\": %d, \"kv_heads\": %d, \"k_dim\": %d, \"v_dim\": %d, \"cost\": %.17g, "
           "\"ttl\": %.17g, \"priority\": %d, ",
           image->form.shape.layers, image->form.shape.kv_heads, image->form.shape.k_dim,
           image->form.shape.v_dim, image->cost, image->ttl, image->priority);
    printf("\"expires\": %" PRId64 ", \"written\": %" PRId64 ", \"tokens\": %" PRIu64
           ", \"state_bytes\": %" PRIu64 ", ",
           image->expires, info.written, info.tokens, info.state_bytes);
    print_lists(image);
    if (print_blocks(record, image))
        return 1;
    printf("}\n");
    return 0;
}

static int describe(const char *path, const pc__codecs *codecs)
{
    size_t size;
    char *data = pc_test_read(path, &size);
    record_bytes bytes = record_bytes_of(data, size, 1, 0);
    pc__record *record = NULL;
    int sealed = data && size > 24 && data[24] & 1;
    pc__record_options options = {.codecs = codecs, .seal_key = sealed ? golden_key() : NULL};
    int bad = !data || pc__record_open(&record, &pc__libc_allocator, &options, &bytes.source) < 0
              || print_record(record);
    if (bad)
        fprintf(stderr, "%s: %s\n", path, data ? pc_error_text() : "cannot be read");
    pc__record_free(record);
    free(data);
    return bad;
}

static int write_case(const golden_case *c, const char *folder, const pc__codecs *codecs)
{
    pc__record_options options = golden_options(c, codecs);
    record_file file = record_file_new();
    golden_image g;
    char path[1024];
    golden_make(c, &g);
    pc_status status = pc__record_write(&pc__libc_allocator, &g.image, &options, &file.sink, NULL);
    snprintf(path, sizeof path, "%s/%s.pcr", folder, c->name);
    if (status < 0)
        fprintf(stderr, "%s: %s\n", path, pc_error_text());
    else
        pc_test_write(path, file.data, file.size);
    record_file_free(&file);
    golden_free(&g);
    return status < 0;
}

int main(int argc, char **argv)
{
    pc__codecs *codecs;
    int bad = 0;
    if (argc < 2 || pc__codecs_new(&codecs, &pc__libc_allocator, NULL, 0) < 0)
        return 2;
    if (!strcmp(argv[1], "--json"))
        bad = argc != 3 || describe(argv[2], codecs);
    else
        for (size_t i = 0; i < GOLDEN_CASES; i++) {
            int wanted = argc == 2 && golden_cases[i].sealed != 1; /* nobody writes that again */
            for (int a = 2; a < argc; a++)
                wanted |= !strcmp(argv[a], golden_cases[i].name);
            if (wanted)
                bad |= write_case(&golden_cases[i], argv[1], codecs);
        }
    pc__codecs_free(codecs);
    return bad;
}

/* Writes and reads the parts of log and data file, and checks all that is read. */
#include "memo/maps/map_format.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/fields.h"
#include "base/little_endian.h"

enum { VERSION = 1 };
static const char log_magic[9] = "PCMAPLOG", data_magic[9] = "PCMAPDAT",
                  record_magic[9] = "PCMAPREC";

/* maps.log, header */
enum { LOG_VERSION = 8, LOG_BYTES = 12, LOG_ENTRY = 16, LOG_SUM = 112 };
#define HEADER(at, member) PC__FIELD(pc__map_log_header, at, member)
static const pc__field header_fields[] = {
    HEADER(20, signature.format), HEADER(24, signature.layers), HEADER(28, signature.heads),
    HEADER(32, signature.causal), HEADER(40, signature.model),  HEADER(72, nonce),
    HEADER(88, next_id),          HEADER(96, generation)};
/* maps.log, entry */
enum { ENTRY_SUM = 112 };
#define ENTRY(at, member) PC__FIELD(pc__map_log_entry, at, member)
static const pc__field entry_fields[] = {ENTRY(0, kind), ENTRY(4, flags), ENTRY(8, id)};
static const pc__field stored_fields[] = {
    ENTRY(16, at),     ENTRY(24, bytes),    ENTRY(32, log_uses),
    ENTRY(40, tokens), ENTRY(44, metadata), ENTRY(48, tokens_id),
    ENTRY(80, sum),    ENTRY(96, used),     ENTRY(104, clock)};
/* maps.data, record; the log entry has the rest of it */
enum { REC_HEADER = 16, REC_LAYERS = 20, REC_NONCE = 80, REC_METADATA_SUM = 96 };
static const pc__field record_fields[] = {ENTRY(8, id),        ENTRY(24, tokens),
                                          ENTRY(28, metadata), ENTRY(32, flags),
                                          ENTRY(40, bytes),    ENTRY(48, tokens_id)};
#define ROW(at, member) PC__FIELD(pc__map_row, at, member)
static const pc__field row_fields[] = {ROW(0, at), ROW(8, bytes), ROW(16, sum)};
/* maps.data, mark */
enum { MARK_SUM = 16 };
#define MARK(at, member) PC__FIELD(pc__map_log_mark, at, member)
static const pc__field mark_fields[] = {MARK(0, generation), MARK(8, entries)};
/* maps.data, header */
enum { DATA_VERSION = 8, DATA_PAGE = 12, DATA_NONCE = 16, DATA_SUM = 32 };

int pc__map_layout_of(const pc__map_signature *signature, uint32_t tokens, uint32_t metadata,
                      pc__map_layout *out)
{
    pc__map_shape shape = pc__map_shape_of(signature, tokens);
    uint64_t step;
    *out = (pc__map_layout){0};
    if (!tokens || tokens > PC__MAPS_MOST_TOKENS || metadata > PC__MAPS_MOST_METADATA)
        return 0;
    out->layer_bytes = pc__map_bytes(&shape);
    step = pc__map_round_up(out->layer_bytes, PC__MAPS_ALIGN);
    if (!out->layer_bytes || step < out->layer_bytes
        || step > PC__MAPS_MOST_BYTES / (uint64_t)signature->layers)
        return 0;
    out->header = PC__MAPS_HEADER + (uint64_t)signature->layers * PC__MAPS_ROW;
    out->metadata = pc__map_round_up(out->header, PC__MAPS_ALIGN);
    out->layers = pc__map_round_up(out->metadata + metadata, PC__MAPS_ALIGN);
    out->bytes = out->layers + ((uint64_t)signature->layers - 1) * step + out->layer_bytes;
    return out->bytes <= PC__MAPS_MOST_BYTES;
}

/* A checksum of bytes 0 to at - 1, at `at`. */
static void put_sum(uint8_t *data, size_t at)
{
    pc__checksum_of(data, at, data + at);
}

static int has_sum(const uint8_t *data, size_t at)
{
    uint8_t sum[PC__CHECKSUM];
    pc__checksum_of(data, at, sum);
    return !memcmp(sum, data + at, sizeof sum);
}

/* ------------------------------------------------------------- the log's header */

void pc__map_log_header_put(const pc__map_log_header *header, uint8_t out[PC__MAPS_LOG_HEADER])
{
    memset(out, 0, PC__MAPS_LOG_HEADER);
    memcpy(out, log_magic, 8);
    pc__put_u32(out + LOG_VERSION, VERSION);
    pc__put_u32(out + LOG_BYTES, PC__MAPS_LOG_HEADER);
    pc__put_u32(out + LOG_ENTRY, PC__MAPS_ENTRY);
    pc__fields_put(out, header, PC__FIELDS(header_fields));
    put_sum(out, LOG_SUM);
}

pc_status pc__map_log_header_get(const uint8_t *data, size_t size, const char *where,
                                 pc__map_log_header *out)
{
    if (size < PC__MAPS_LOG_HEADER || memcmp(data, log_magic, 8))
        return pc__fail(PC_ERR_FORMAT, "%s: not a log of attention maps", where);
    if (!has_sum(data, LOG_SUM))
        return pc__fail(PC_ERR_FORMAT, "%s: its header is damaged", where);
    if (pc__get_u32(data + LOG_VERSION) != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: version %u, this library knows %d", where,
                        (unsigned)pc__get_u32(data + LOG_VERSION), VERSION);
    pc__fields_get(out, data, PC__FIELDS(header_fields));
    if (pc__get_u32(data + LOG_BYTES) != PC__MAPS_LOG_HEADER
        || pc__get_u32(data + LOG_ENTRY) != PC__MAPS_ENTRY || out->next_id < 0
        || !pc__map_signature_valid(&out->signature))
        return pc__fail(PC_ERR_FORMAT, "%s: its header is not valid", where);
    return PC_OK;
}

int pc__map_signature_valid(const pc__map_signature *signature)
{
    return signature->layers >= 1 && signature->layers <= 65536 && signature->heads >= 1
           && signature->heads <= 65536 && (unsigned)signature->causal <= 1
           && signature->format <= PC_MAP_U8;
}

static const char *format_name(uint32_t format)
{
    return format == PC_MAP_F32   ? "fp32"
           : format == PC_MAP_F16 ? "fp16"
           : format == PC_MAP_U8  ? "u8"
                                  : "unknown";
}

pc_status pc__map_signature_check(const pc__map_signature *there, const pc__map_signature *wanted,
                                  const char *where)
{
    char ours[65], theirs[65];
    if (!pc__id_equal(&there->model, &wanted->model)) {
        pc__id_hex(&there->model, theirs);
        pc__id_hex(&wanted->model, ours);
        return pc__fail(PC_ERR_MISMATCH, "%s: of another model: %.16s…, not %.16s…", where, theirs,
                        ours);
    }
    if (there->layers != wanted->layers)
        return pc__fail(PC_ERR_MISMATCH, "%s: maps of %d layers, not %d", where, (int)there->layers,
                        (int)wanted->layers);
    if (there->heads != wanted->heads)
        return pc__fail(PC_ERR_MISMATCH, "%s: maps of %d heads, not %d", where, (int)there->heads,
                        (int)wanted->heads);
    if (!there->causal != !wanted->causal)
        return pc__fail(PC_ERR_MISMATCH, "%s: %s maps, not %s ones", where,
                        there->causal ? "causal" : "bidirectional",
                        wanted->causal ? "causal" : "bidirectional");
    if (there->format != wanted->format)
        return pc__fail(PC_ERR_MISMATCH, "%s: maps of format %s, not %s", where,
                        format_name(there->format), format_name(wanted->format));
    return PC_OK;
}

/* ----------------------------------------------------- the data file's header */

void pc__map_data_header_put(const uint8_t nonce[PC__MAPS_NONCE], uint8_t out[PC__MAPS_DATA_HEADER])
{
    memcpy(out, data_magic, 8);
    pc__put_u32(out + DATA_VERSION, VERSION);
    pc__put_u32(out + DATA_PAGE, PC__MAPS_PAGE);
    memcpy(out + DATA_NONCE, nonce, PC__MAPS_NONCE);
    put_sum(out, DATA_SUM);
}

pc_status pc__map_data_header_get(const uint8_t *data, size_t size,
                                  const uint8_t nonce[PC__MAPS_NONCE], const char *where)
{
    if (size < PC__MAPS_DATA_HEADER || memcmp(data, data_magic, 8) || !has_sum(data, DATA_SUM))
        return pc__fail(PC_ERR_FORMAT, "%s: not a file of attention maps, or its header is damaged",
                        where);
    if (pc__get_u32(data + DATA_VERSION) != VERSION
        || pc__get_u32(data + DATA_PAGE) != PC__MAPS_PAGE)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: version %u, this library knows %d", where,
                        (unsigned)pc__get_u32(data + DATA_VERSION), VERSION);
    if (memcmp(data + DATA_NONCE, nonce, PC__MAPS_NONCE))
        return pc__fail(PC_ERR_FORMAT, "%s: it belongs to another log", where);
    return PC_OK;
}

void pc__map_log_mark_put(const pc__map_log_mark *mark, uint8_t out[PC__MAPS_MARK])
{
    pc__fields_put(out, mark, PC__FIELDS(mark_fields));
    put_sum(out, MARK_SUM);
}

int pc__map_log_mark_get(const uint8_t data[PC__MAPS_MARK], pc__map_log_mark *out)
{
    pc__fields_get(out, data, PC__FIELDS(mark_fields));
    return out->generation && out->entries <= PC__MAPS_MOST_BYTES && has_sum(data, MARK_SUM);
}

/* --------------------------------------------------------------- entries of the log */

void pc__map_log_entry_put(const pc__map_log_entry *entry, uint8_t out[PC__MAPS_ENTRY])
{
    memset(out, 0, PC__MAPS_ENTRY);
    pc__fields_put(out, entry, PC__FIELDS(entry_fields));
    if (entry->kind == PC__MAPS_STORED)
        pc__fields_put(out, entry, PC__FIELDS(stored_fields));
    put_sum(out, ENTRY_SUM);
}

static int is_valid_stored(const pc__map_log_entry *e, const pc__map_signature *signature)
{
    pc__map_layout layout;
    return !(e->flags & ~(uint32_t)PC__MAPS_COMPRESSED)
           && pc__map_layout_of(signature, e->tokens, e->metadata, &layout)
           && e->at >= PC__MAPS_PAGE && e->at % PC__MAPS_PAGE == 0 && e->at <= PC__MAPS_MOST_BYTES
           && fabs(e->log_uses) < 1e300 && e->clock >= 0 && e->clock < 1e300
           && (e->flags & PC__MAPS_COMPRESSED ? e->bytes > layout.layers && e->bytes < layout.bytes
                                              : e->bytes == layout.bytes);
}

int pc__map_log_entry_get(const uint8_t data[PC__MAPS_ENTRY], const pc__map_signature *signature,
                          pc__map_log_entry *out)
{
    if (!has_sum(data, ENTRY_SUM))
        return 0;
    pc__fields_get(out, data, PC__FIELDS(entry_fields));
    pc__fields_get(out, data, PC__FIELDS(stored_fields));
    if (out->id < 0 || out->id > PC__MAPS_MOST_ID)
        return 0;
    return out->kind == PC__MAPS_REMOVED
           || (out->kind == PC__MAPS_STORED && is_valid_stored(out, signature));
}

/* -------------------------------------------------------------------------- records */

void pc__map_row_put(uint8_t *header, int32_t layer, const pc__map_row *row)
{
    pc__fields_put(header + PC__MAPS_HEADER + (size_t)layer * PC__MAPS_ROW, row,
                   PC__FIELDS(row_fields));
}

pc__map_row pc__map_row_get(const uint8_t *header, int32_t layer)
{
    pc__map_row row;
    pc__fields_get(&row, header + PC__MAPS_HEADER + (size_t)layer * PC__MAPS_ROW,
                   PC__FIELDS(row_fields));
    return row;
}

static void sum_header(const uint8_t *header, size_t size, uint8_t out[PC__CHECKSUM])
{
    pc__checksum sum;
    pc__checksum_start(&sum);
    pc__checksum_add(&sum, header, PC__MAPS_HEADER_SUM);
    pc__checksum_add(&sum, header + PC__MAPS_HEADER, size - PC__MAPS_HEADER);
    pc__checksum_end(&sum, out);
}

/* All of a record's header but its checksum. */
static void put_record_head(uint8_t *out, const pc__map_log_entry *entry,
                            const pc__map_layout *layout, int32_t layers, const uint8_t *nonce,
                            const uint8_t *metadata_sum)
{
    memset(out, 0, PC__MAPS_HEADER);
    memcpy(out, record_magic, 8);
    pc__fields_put(out, entry, PC__FIELDS(record_fields));
    pc__put_u32(out + REC_HEADER, (uint32_t)layout->header);
    pc__put_u32(out + REC_LAYERS, (uint32_t)layers);
    memcpy(out + REC_NONCE, nonce, PC__MAPS_NONCE);
    memcpy(out + REC_METADATA_SUM, metadata_sum, PC__CHECKSUM);
}

void pc__map_record_put(uint8_t *header, pc__map_log_entry *entry, const pc__map_layout *layout,
                        int32_t layers, const uint8_t nonce[PC__MAPS_NONCE],
                        const uint8_t metadata_sum[PC__CHECKSUM])
{
    put_record_head(header, entry, layout, layers, nonce, metadata_sum);
    sum_header(header, (size_t)layout->header, entry->sum);
    memcpy(header + PC__MAPS_HEADER_SUM, entry->sum, PC__CHECKSUM);
}

const uint8_t *pc__map_record_metadata_sum(const uint8_t *header)
{
    return header + REC_METADATA_SUM;
}

const char *pc__map_record_check(const uint8_t *data, const pc__map_log_entry *entry,
                                 const pc__map_layout *layout, int32_t layers)
{
    uint8_t sum[PC__CHECKSUM], head[PC__MAPS_HEADER];
    uint64_t end = layout->layers;
    if (memcmp(data + PC__MAPS_HEADER_SUM, entry->sum, PC__CHECKSUM))
        return "its header belongs to another record, or is damaged";
    sum_header(data, (size_t)layout->header, sum);
    if (memcmp(sum, entry->sum, PC__CHECKSUM))
        return "its header is damaged";
    put_record_head(head, entry, layout, layers, data + REC_NONCE, data + REC_METADATA_SUM);
    if (memcmp(data, head, PC__MAPS_HEADER_SUM))
        return "its header and the log differ";
    for (int32_t i = 0; i < layers; i++) {
        pc__map_row row = pc__map_row_get(data, i);
        if (row.at != pc__map_round_up(end, PC__MAPS_ALIGN) || row.at > entry->bytes || !row.bytes
            || row.bytes > entry->bytes - row.at
            || (entry->flags & PC__MAPS_COMPRESSED ? row.bytes > layout->layer_bytes
                                                   : row.bytes != layout->layer_bytes))
            return "its table is not valid";
        end = row.at + row.bytes;
    }
    return end == entry->bytes ? NULL : "its table is not valid";
}

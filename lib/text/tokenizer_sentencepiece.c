/* Reads tokenizer.model: SentencePiece's protobuf (field 1: pieces, 2: trainer, 3: normalizer), or
 * tiktoken's text under the same name (tokenizer_tiktoken.c). */
#include <string.h>

#include "base/file.h"
#include "text/tokenizer_internal.h"

enum { MODEL_LIMIT = 64 << 20 };

typedef struct protobuf {
    const uint8_t *at, *end;
} protobuf;

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types of protobuf */

typedef struct protobuf_field {
    uint64_t number, value; /* value: varint, or size of `bytes` */
    const uint8_t *bytes;
    uint32_t fixed;
} protobuf_field;

static int read_varint(protobuf *w, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; w->at < w->end && shift < 64; shift += 7) {
        uint8_t b = *w->at++;
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return 1;
    }
    return 0;
}

/* Whether a field has its type. `types`: pairs of number and type, ended by 0. */
static int has_type(const uint8_t *types, uint64_t number, uint64_t type)
{
    for (; *types; types += 2)
        if (*types == number)
            return types[1] == type;
    return 1; /* a field that is not read */
}

/* 1: a field; 0: the end; -1: damaged */
static int next_field(protobuf *w, const uint8_t *types, protobuf_field *f)
{
    uint64_t tag;
    if (w->at == w->end)
        return 0;
    memset(f, 0, sizeof *f);
    if (!read_varint(w, &tag) || !has_type(types, tag >> 3, tag & 7))
        return -1;
    f->number = tag >> 3;
    switch (tag & 7) {
    case VARINT:
        return read_varint(w, &f->value) ? 1 : -1;
    case FIXED64:
        if (w->end - w->at < 8)
            return -1;
        w->at += 8;
        return 1;
    case BYTES:
        if (!read_varint(w, &f->value) || f->value > (uint64_t)(w->end - w->at))
            return -1;
        f->bytes = w->at;
        w->at += f->value;
        return 1;
    case FIXED32:
        if (w->end - w->at < 4)
            return -1;
        memcpy(&f->fixed, w->at, 4);
        w->at += 4;
        return 1;
    default:
        return -1;
    }
}

typedef struct sentencepiece_file {
    const pc_allocator *mem;
    const char *path;
    pc__text *tokens;
    float *scores;
    int32_t *types;
    size_t count, tokens_room, scores_room, types_room;
    pc__vocab vocab;
    pc__token_rules rules;
} sentencepiece_file;

static pc_status add_token(sentencepiece_file *m, pc__text text, float score, int32_t type)
{
    size_t need = m->count + 1;
    PC__TRY_RETURN(pc__grow(m->mem, (void **)&m->tokens, &m->tokens_room, need, sizeof *m->tokens));
    PC__TRY_RETURN(pc__grow(m->mem, (void **)&m->scores, &m->scores_room, need, sizeof *m->scores));
    PC__TRY_RETURN(pc__grow(m->mem, (void **)&m->types, &m->types_room, need, sizeof *m->types));
    m->tokens[m->count] = text;
    m->scores[m->count] = score;
    m->types[m->count++] = type;
    return PC_OK;
}

static pc_status read_piece(sentencepiece_file *m, const protobuf_field *whole)
{
    protobuf w = {whole->bytes, whole->bytes + whole->value};
    protobuf_field f;
    pc__text text = {"", 0};
    float score = 0.0f;
    int32_t type = PC__TOKEN_NORMAL;
    static const uint8_t types[] = {1, BYTES, 2, FIXED32, 3, VARINT, 0};
    int more;
    while ((more = next_field(&w, types, &f)) > 0)
        if (f.number == 1)
            text = (pc__text){(const char *)f.bytes, (size_t)f.value};
        else if (f.number == 2)
            memcpy(&score, &f.fixed, sizeof score);
        else if (f.number == 3)
            type = f.value > PC__TOKEN_BYTE ? -1 : (int32_t)f.value;
    if (more < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: piece %zu is damaged", m->path, m->count);
    return add_token(m, text, score, type);
}

static pc_status read_trainer(sentencepiece_file *m, const protobuf_field *whole)
{
    protobuf w = {whole->bytes, whole->bytes + whole->value};
    protobuf_field f;
    int more;
    uint64_t kind = 1;
    static const uint8_t types[] = {3,      VARINT, 24,     VARINT, 40,     VARINT, 41,
                                    VARINT, 42,     VARINT, 43,     VARINT, 0};
    while ((more = next_field(&w, types, &f)) > 0) {
        int64_t id = (int64_t)f.value; /* -1 is written with 64 bits */
        if (f.number == 3)
            kind = f.value;
        else if (f.number == 24 && f.value)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: a model that puts blanks after words is not supported", m->path);
        else if (f.number >= 40 && f.number <= 43 && (id < -1 || id > INT32_MAX))
            return pc__fail(PC_ERR_FORMAT, "%s: special token id %lld", m->path, (long long)id);
        else if (f.number >= 40 && f.number <= 43)
            *(int32_t *[]){&m->vocab.unk, &m->vocab.bos, &m->vocab.eos,
                           &m->vocab.pad}[f.number - 40] = (int32_t)id;
    }
    if (more < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: the trainer's settings are damaged", m->path);
    m->vocab.kind = kind == 1 ? PC__VOCAB_UNIGRAM : PC__VOCAB_SPM;
    m->rules.marks_blanks = kind == 1;
    if (kind != 1 && kind != 2)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "%s: SentencePiece model of kind %llu (only Unigram, 1, and BPE, 2, are read)", m->path,
            (unsigned long long)kind);
    return PC_OK;
}

static pc_status read_normaliser(sentencepiece_file *m, const protobuf_field *whole)
{
    protobuf w = {whole->bytes, whole->bytes + whole->value};
    protobuf_field f;
    static const uint8_t types[] = {2, BYTES, 3, VARINT, 4, VARINT, 5, VARINT, 0};
    int more, blanks_as_mark = 1; /* the defaults of absent fields */
    m->vocab.one_blank = 1;
    while ((more = next_field(&w, types, &f)) > 0) {
        if (f.number == 2)
            m->vocab.charsmap = (pc__text){(const char *)f.bytes, (size_t)f.value};
        else if (f.number == 3)
            m->rules.space_prefix = f.value != 0;
        else if (f.number == 4)
            m->vocab.one_blank = f.value != 0;
        else if (f.number == 5)
            blanks_as_mark = f.value != 0;
    }
    if (more < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: the normalizer's settings are damaged", m->path);
    if (!blanks_as_mark)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: a normalizer that keeps blanks as they are is not supported", m->path);
    return PC_OK;
}

static pc_status read_protobuf(sentencepiece_file *m, const pc__file *file)
{
    protobuf w = {file->data, file->data + file->size};
    static const uint8_t types[] = {1, BYTES, 2, BYTES, 3, BYTES, 0};
    protobuf_field f;
    int more, has_trainer = 0, has_normaliser = 0;
    m->vocab.unk = 0, m->vocab.bos = 1, m->vocab.eos = 2;
    m->rules.space_prefix = m->rules.add_bos = 1;
    while ((more = next_field(&w, types, &f)) > 0) {
        if (f.number == 1)
            PC__TRY_RETURN(read_piece(m, &f));
        else if (f.number == 2)
            PC__TRY_RETURN(read_trainer(m, &f));
        else if (f.number == 3)
            PC__TRY_RETURN(read_normaliser(m, &f));
        has_trainer |= f.number == 2;
        has_normaliser |= f.number == 3;
    }
    if (more < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: damaged protobuf near byte %zu", m->path,
                        (size_t)(w.at - file->data));
    if (!has_trainer || !has_normaliser) /* every SentencePiece trainer writes both */
        return pc__fail(PC_ERR_FORMAT, "%s: ends before the %s's settings", m->path,
                        has_trainer ? "normalizer" : "trainer");
    return PC_OK;
}

static pc_status finish_protobuf(pc__tokenizer **out, sentencepiece_file *m)
{
    m->vocab.count = m->count;
    m->vocab.tokens = m->tokens;
    m->vocab.scores = m->scores;
    m->vocab.types = m->types;
    return pc__tokenizer_build(out, m->mem, &m->vocab, &m->rules, NULL, 0);
}

/* A protobuf starts with byte 0x0a (field 1), base64 never does. */
pc_status pc__tokenizer_from_sentencepiece(pc__tokenizer **out, const pc_allocator *mem,
                                           const char *path)
{
    sentencepiece_file m = {.mem = mem, .path = path};
    pc__file file;
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(pc__file_map(&file, path));
    m.vocab = (pc__vocab){
        .where = path, .bos = -1, .eos = -1, .unk = -1, .pad = -1, .sep = -1, .cls = -1};
    int text = file.size && file.data[0] != 0x0a;
    if (!file.size)
        status = pc__fail(PC_ERR_FORMAT, "%s: the file is empty", path);
    else if (file.size > MODEL_LIMIT)
        status = pc__fail(PC_ERR_LIMIT, "%s: %zu bytes are more than the limit of 64 MiB", path,
                          file.size);
    else if (text)
        status = pc__tokenizer_from_tiktoken(out, mem, path, (const char *)file.data, file.size);
    else if ((status = read_protobuf(&m, &file)) >= 0)
        status = finish_protobuf(out, &m);
    pc__free(mem, m.tokens);
    pc__free(mem, m.scores);
    pc__free(mem, m.types);
    pc__file_unmap(&file);
    return status;
}

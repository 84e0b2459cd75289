/* Reads tokenizer.json of Hugging Face, with the settings and the chat template beside it. The
 * error for an unknown part names it. */
#include <jansson.h>
#include <string.h>
#include <utf8proc.h>

#include "base/file.h"
#include "text/json_file.h"
#include "text/tokenizer_json_internal.h"

enum { JSON_LIMIT = 256 << 20 };

pc__text pc__json_text(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) ? (pc__text){json_string_value(value), json_string_length(value)}
                                 : (pc__text){"", 0};
}

int pc__json_has_type(const json_t *object, const char *type)
{
    return !strcmp(pc__json_text(object, "type").data, type);
}

static const char *string_of(const json_t *object, const char *key)
{
    return pc__json_text(object, key).data;
}

pc_status pc__json_unknown(const pc__json_reading *r, const char *part, const json_t *object)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: %s of type '%s' is not known, or has an unknown form",
                    r->where, part, string_of(object, "type"));
}

static pc_status read_parts(pc__json_reading *r, const char *part, const char *key,
                            const json_t *object,
                            pc_status (*read)(pc__json_reading *, const json_t *))
{
    json_t *list = json_object_get(object, key), *item;
    size_t i;
    if (!object || json_is_null(object))
        return PC_MISS;
    if (!json_is_object(object))
        return pc__fail(PC_ERR_FORMAT, "%s: %s is not an object", r->where, part);
    if (!pc__json_has_type(object, "Sequence"))
        return read(r, object);
    if (!json_is_array(list))
        return pc__fail(PC_ERR_FORMAT, "%s: %s of a sequence is not a list", r->where, key);
    json_array_foreach(list, i, item) PC__TRY_RETURN(read_parts(r, part, key, item, read));
    return PC_OK;
}

pc_status pc__json_parts(pc__json_reading *r, const char *part, const char *key,
                         pc_status (*read)(pc__json_reading *, const json_t *))
{
    return read_parts(r, part, key, json_object_get(r->root, part), read);
}

static pc_status read_normalizer(pc__json_reading *r, const json_t *n)
{
    int prepends = pc__json_has_type(n, "Prepend")
                   && !strcmp(string_of(n, "prepend"), PC__BLANK_MARK);
    if (prepends
        || (pc__json_has_type(n, "Replace")
            && !strcmp(string_of(json_object_get(n, "pattern"), "String"), " ")
            && !strcmp(string_of(n, "content"), PC__BLANK_MARK))) {
        r->metaspace = 1;
        r->rules.space_prefix |= prepends;
    } else if (pc__json_has_type(n, "BertNormalizer")) {
        r->rules.lowercase = json_is_true(json_object_get(n, "lowercase"));
        r->rules.split_chinese = json_is_true(json_object_get(n, "handle_chinese_chars"));
        json_t *strip = json_object_get(n, "strip_accents");
        r->rules.strip_accents = json_is_boolean(strip) ? json_is_true(strip) : r->rules.lowercase;
    } else {
        /* steps run before blanks are marked */
        return r->metaspace ? pc__json_unknown(r, "normalizer", n) : pc__json_step(r, n);
    }
    return PC_OK;
}

/* NFC alone is a rule of byte-level BPE. */
static void simplify_steps(pc__json_reading *r)
{
    const pc__step *first = r->steps ? r->steps->list : NULL;
    if (!first || !r->byte_level || r->steps->count != 1 || first->kind != PC__STEP_UNICODE
        || first->option != (UTF8PROC_STABLE | UTF8PROC_COMPOSE))
        return;
    r->rules.nfc = 1;
    pc__steps_free(r->steps);
    r->steps = NULL;
}

int32_t pc__json_find_token(const pc__json_reading *r, const char *text)
{
    pc__text wanted = pc__text_of(text);
    for (size_t i = 0; wanted.size && i < r->vocab.count; i++)
        if (pc__text_equals(r->tokens[i], wanted))
            return (int32_t)i;
    return -1;
}

static pc_status read_unigram(pc__json_reading *r, const json_t *m)
{
    r->vocab.kind = PC__VOCAB_UNIGRAM;
    PC__TRY_RETURN(pc__json_steps(r));
    return pc__json_tokens(r, m, 1);
}

/* Settings of BPE that no known family of language models uses. */
static pc_status check_bpe(const pc__json_reading *r, const json_t *m)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++)
        if (*string_of(m, affixes[i]))
            return pc__fail(PC_ERR_UNSUPPORTED, "%s: BPE with model.%s '%.20s'", r->where,
                            affixes[i], string_of(m, affixes[i]));
    if (json_number_value(json_object_get(m, "dropout")) > 0)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: BPE with model.dropout gives random tokens",
                        r->where);
    return PC_OK;
}

static pc_status read_bpe(pc__json_reading *r, const json_t *m)
{
    PC__TRY_RETURN(check_bpe(r, m));
    PC__TRY_RETURN(pc__json_parts(r, "normalizer", "normalizers", read_normalizer));
    PC__TRY_RETURN(pc__json_splits(r));
    PC__TRY_RETURN(pc__json_tokens(r, m, 0));
    PC__TRY_RETURN(pc__json_merges(r, m, 1));
    simplify_steps(r);
    r->vocab.kind = r->byte_level ? PC__VOCAB_BPE : PC__VOCAB_SPM;
    if (r->byte_level == r->metaspace)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: BPE with %s ByteLevel %s U+2581 for spaces",
                        r->where, r->metaspace ? "both" : "neither", r->metaspace ? "and" : "nor");
    r->rules.by_rank = r->vocab.by_rank = r->vocab.kind == PC__VOCAB_SPM;
    r->rules.ignore_merges = json_is_true(json_object_get(m, "ignore_merges"));
    return PC_OK;
}

static pc_status accept_bert(pc__json_reading *r, const json_t *p)
{
    return pc__json_has_type(p, "BertPreTokenizer") ? PC_OK
                                                    : pc__json_unknown(r, "pre-tokenizer", p);
}

static pc_status read_wordpiece(pc__json_reading *r, const json_t *m)
{
    r->vocab.kind = PC__VOCAB_WORDPIECE;
    PC__TRY_RETURN(pc__json_parts(r, "normalizer", "normalizers", read_normalizer));
    PC__TRY_RETURN(pc__json_parts(r, "pre_tokenizer", "pretokenizers", accept_bert));
    return pc__json_tokens(r, m, 0);
}

static pc_status read_model(pc__json_reading *r)
{
    json_t *m = json_object_get(r->root, "model");
    const char *type = string_of(m, "type");
    if (!json_is_object(m))
        return pc__fail(PC_ERR_FORMAT, "%s: there is no model", r->where);
    if (!*type)
        type = json_object_get(m, "merges")                      ? "BPE"
               : json_object_get(m, "continuing_subword_prefix") ? "WordPiece"
                                                                 : "";
    if (!strcmp(type, "Unigram"))
        return read_unigram(r, m);
    if (strcmp(type, "BPE") && strcmp(type, "WordPiece"))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: model of type '%s' is not known", r->where, type);
    PC__TRY_RETURN(!strcmp(type, "BPE") ? read_bpe(r, m) : read_wordpiece(r, m));
    r->rules.fuse_unk = json_is_true(json_object_get(m, "fuse_unk"));
    r->vocab.unk = pc__json_find_token(r, string_of(m, "unk_token"));
    if (r->vocab.unk < 0 && *string_of(m, "unk_token"))
        return pc__fail(PC_ERR_FORMAT, "%s: model.unk_token: '%.40s' is no token", r->where,
                        string_of(m, "unk_token"));
    return PC_OK;
}

/* A configuration names a token as a string, or as an object with its content. */
static void read_special_tokens(pc__json_reading *r, const json_t *config)
{
    int32_t *ids[] = {&r->vocab.bos, &r->vocab.eos, &r->vocab.unk, &r->vocab.pad};
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    for (size_t i = 0; i < 4; i++) {
        const json_t *value = json_object_get(config, keys[i]);
        int32_t id = pc__json_find_token(r, json_is_string(value) ? json_string_value(value)
                                                                  : string_of(value, "content"));
        *ids[i] = id >= 0 ? id : *ids[i];
    }
}

static void read_added_blanks(const pc__json_reading *r, pc__tokenizer *t)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(r->root, "added_tokens"), i, value)
    {
        json_int_t id = json_integer_value(json_object_get(value, "id"));
        t->tokens[id].lstrip = json_is_true(json_object_get(value, "lstrip"));
        t->tokens[id].rstrip = json_is_true(json_object_get(value, "rstrip"));
    }
}

/* Reads integers as reals: tokenizer_config.json often has a model_max_length of 10^30. */
static pc_status read_optional(const pc_allocator *mem, const char *folder, const char *name,
                               json_t **out)
{
    pc_status status = pc__json_in_folder(out, mem, folder, name, JSON_LIMIT,
                                          JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL);
    return status == PC_ERR_NOT_FOUND ? PC_OK : status;
}

static pc_status from_root(pc__tokenizer **out, const pc_allocator *mem, json_t *root,
                           json_t *config, json_t *map, const char *where)
{
    pc__json_reading r = {.where = where, .root = root, .mem = mem, .tail = -1};
    pc_status status;
    r.vocab = (pc__vocab){
        .where = where, .bos = -1, .eos = -1, .unk = -1, .pad = -1, .sep = -1, .cls = -1};
    if ((status = read_model(&r)) >= 0) {
        read_special_tokens(&r, config);
        read_special_tokens(&r, map);
        status = pc__json_template(&r, config);
    }
    if (status >= 0)
        status = pc__tokenizer_build(out, mem, &r.vocab, &r.rules, r.splits, r.split_count);
    if (status >= 0) {
        read_added_blanks(&r, *out);
        memcpy((*out)->lead, r.lead, sizeof r.lead);
        (*out)->lead_count = r.lead_count;
        (*out)->tail = r.tail;
        (*out)->steps = r.steps;
        r.steps = NULL;
    }
    pc__steps_free(r.steps);
    pc__free(mem, r.tokens);
    pc__free(mem, r.types);
    pc__free(mem, r.merges);
    pc__free(mem, r.merge_arena);
    pc__free(mem, r.scores);
    for (size_t i = 0; i < r.literal_count; i++)
        pc__free(mem, r.literals[i]);
    return status;
}

pc_status pc__tokenizer_from_json(pc__tokenizer **out, const pc_allocator *mem, const char *path)
{
    json_t *root = NULL, *config = NULL, *map = NULL;
    char *folder = pc__path_folder(mem, path);
    pc_status status = folder ? pc__json_file(&root, mem, path, JSON_LIMIT, JSON_ALLOW_NUL)
                              : PC_ERR_NOMEM;
    *out = NULL;
    if (status >= 0)
        status = read_optional(mem, folder, "tokenizer_config.json", &config);
    if (status >= 0)
        status = read_optional(mem, folder, "special_tokens_map.json", &map);
    if (status >= 0)
        status = from_root(out, mem, root, config, map, path);
    json_decref(root);
    json_decref(config);
    json_decref(map);
    pc__free(mem, folder);
    return status;
}

/* Of several named templates the default. Borrowed. */
static const char *template_in(const json_t *config)
{
    json_t *value = json_object_get(config, "chat_template"), *item;
    size_t i;
    json_array_foreach(value, i, item)
    {
        if (!strcmp(string_of(item, "name"), "default"))
            return json_string_value(json_object_get(item, "template"));
    }
    return json_string_value(value);
}

/* chat_template.jinja is used before the template of a configuration file. */
static pc_status read_template(const pc_allocator *mem, const char *folder, char **out)
{
    static const char *const files[] = {"tokenizer_config.json", "chat_template.json"};
    char *path = pc__path_join(mem, folder, "chat_template.jinja");
    size_t size;
    pc_status status = path ? pc__file_read(mem, path, JSON_LIMIT, out, &size) : PC_ERR_NOMEM;
    pc__free(mem, path);
    for (size_t i = 0; i < 2 && status == PC_ERR_NOT_FOUND; i++) {
        json_t *config = NULL;
        pc_status read = read_optional(mem, folder, files[i], &config);
        const char *text = template_in(config);
        if (read < 0)
            status = read;
        else if (text)
            status = (*out = pc__strdup(mem, text)) ? PC_OK : PC_ERR_NOMEM;
        json_decref(config);
    }
    return status == PC_ERR_NOT_FOUND ? PC_OK : status;
}

pc_status pc__tokenizer_from_folder(pc__tokenizer **out, const pc_allocator *mem,
                                    const char *folder)
{
    static const struct {
        const char *name;
        pc_status (*read)(pc__tokenizer **, const pc_allocator *, const char *);
    } files[] = {{"tokenizer.json", pc__tokenizer_from_json},
                 {"tokenizer.model", pc__tokenizer_from_sentencepiece},
                 {"tekken.json", pc__tokenizer_from_tekken}};
    pc_status status = PC_ERR_NOT_FOUND;
    *out = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == PC_ERR_NOT_FOUND; i++) {
        char *path = pc__path_join(mem, folder, files[i].name);
        status = path ? files[i].read(out, mem, path) : PC_ERR_NOMEM;
        pc__free(mem, path);
    }
    if (status == PC_ERR_NOT_FOUND)
        pc__fail(status, "%s: neither tokenizer.json nor tokenizer.model nor tekken.json", folder);
    if (status >= 0 && (status = read_template(mem, folder, &(*out)->chat_template)) < 0) {
        pc__tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}

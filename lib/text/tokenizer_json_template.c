/* The special tokens around a text: post_processor of tokenizer.json, add_bos_token and
 * add_eos_token of tokenizer_config.json. */
#include <string.h>

#include "text/tokenizer_json_internal.h"

/* What a post-processor puts before and after a text. */
typedef struct ends {
    int32_t before[PC__MAX_LEAD], after; /* -1: nothing */
    size_t before_count;
} ends;

static pc_status add_end(pc__json_reading *r, ends *e, const char *text, int before)
{
    int32_t id = pc__json_find_token(r, text);
    if (id < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: post_processor: '%.40s' is no token", r->where, text);
    if (before ? e->before_count == PC__MAX_LEAD : e->after >= 0)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: post_processor: more than %d special tokens %s the text", r->where,
                        before ? PC__MAX_LEAD : 1, before ? "before" : "after");
    if (before)
        e->before[e->before_count++] = id;
    else
        e->after = id;
    return PC_OK;
}

/* {"cls": ["<s>", 0], "sep": ["</s>", 2]}: BERT's and RoBERTa's form of a template. */
static pc_status read_cls_sep(pc__json_reading *r, ends *e, const json_t *p)
{
    static const char *const keys[2] = {"cls", "sep"};
    for (int i = 0; i < 2; i++) {
        const char *text = json_string_value(json_array_get(json_object_get(p, keys[i]), 0));
        if (!text || pc__json_find_token(r, text) < 0)
            return pc__fail(PC_ERR_FORMAT, "%s: post_processor: '%s' is no token", r->where,
                            keys[i]);
        PC__TRY_RETURN(add_end(r, e, text, !i));
    }
    return PC_OK;
}

static pc_status read_template(pc__json_reading *r, ends *e, const json_t *p)
{
    json_t *part;
    size_t i;
    int before = 1;
    json_array_foreach(json_object_get(p, "single"), i, part)
    {
        const json_t *special = json_object_get(part, "SpecialToken");
        if (special)
            PC__TRY_RETURN(add_end(r, e, pc__json_text(special, "id").data, before));
        before = before && special;
    }
    return PC_OK;
}

static pc_status read_processor(pc__json_reading *r, ends *e, const json_t *p)
{
    const json_t *list = json_object_get(p, "processors"), *item;
    size_t i;
    if (!p || json_is_null(p) || pc__json_has_type(p, "ByteLevel")) /* changes offsets only */
        return PC_OK;
    if (!json_is_object(p))
        return pc__fail(PC_ERR_FORMAT, "%s: post_processor is not an object", r->where);
    if (pc__json_has_type(p, "Sequence")) {
        json_array_foreach(list, i, item) if (!pc__json_has_type(item, "Sequence"))
            PC__TRY_RETURN(read_processor(r, e, item));
        return PC_OK;
    }
    if (pc__json_has_type(p, "BertProcessing") || pc__json_has_type(p, "RobertaProcessing"))
        return read_cls_sep(r, e, p);
    return pc__json_has_type(p, "TemplateProcessing") ? read_template(r, e, p)
                                                      : pc__json_unknown(r, "post-processor", p);
}

/* Whether a tokenizer of this class makes its own post-processor of add_bos_token and
 * add_eos_token, in place of that of tokenizer.json. */
static int makes_template(const json_t *config)
{
    char name[64];
    pc__text class = pc__json_text(config, "tokenizer_class");
    if (pc__text_ends(class, pc__text_of("Fast")))
        class.size -= 4;
    if (class.size >= sizeof name)
        return 0;
    memcpy(name, class.data, class.size);
    name[class.size] = 0;
    return *name
           && pc__is_listed("LlamaTokenizer GemmaTokenizer CohereTokenizer GPTNeoXTokenizer", name);
}

/* A flag that is absent leaves it. */
static void read_flag(const json_t *config, const char *key, int32_t *flag)
{
    const json_t *value = json_object_get(config, key);
    *flag = json_is_boolean(value) ? json_is_true(value) : *flag;
}

pc_status pc__json_template(pc__json_reading *r, const json_t *config)
{
    ends e = {.after = -1};
    PC__TRY_RETURN(read_processor(r, &e, json_object_get(r->root, "post_processor")));
    size_t count = e.before_count;
    if (count && (r->vocab.bos < 0 || e.before[count - 1] == r->vocab.bos)) {
        r->vocab.bos = e.before[--count];
        r->rules.add_bos = 1;
    }
    /* the others, or all if the configuration has another BOS */
    memcpy(r->lead, e.before, count * sizeof *r->lead);
    r->lead_count = count;
    if (e.after >= 0 && (r->vocab.eos < 0 || e.after == r->vocab.eos)) {
        r->vocab.eos = e.after;
        r->rules.add_eos = 1;
    } else {
        r->tail = e.after;
    }
    if (makes_template(config)) {
        read_flag(config, "add_bos_token", &r->rules.add_bos);
        read_flag(config, "add_eos_token", &r->rules.add_eos);
    }
    return PC_OK;
}

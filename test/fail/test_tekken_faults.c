/* Catches: a tekken.json that is damaged and loads, or whose fault is not named; leaks when memory
 * runs out; ids that are not special tokens first, then ranks. */
#include <stdio.h>

#include "text_forms.h"

#define PATTERN "[^ ]+| "
#define CONFIG(size, special)                                               \
    "{\"config\":{\"pattern\":\"" PATTERN "\",\"default_vocab_size\":" size \
    ",\"default_num_special_tokens\":" special ",\"version\":\"v13\"},"
#define SPECIAL                                                                               \
    "\"special_tokens\":[{\"rank\":1,\"token_str\":\"<s>\",\"is_control\":true},{\"rank\":2," \
    "\"token_str\":\"</s>\",\"is_control\":true},{\"rank\":3,\"token_str\":\"<x>\"}],"

/* `changed`: in place of the entry of this rank. */
static form tekken(const char *head, size_t ranks, size_t at, const char *changed)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    form f = {.name = "tekken.json", .read = pc__tokenizer_from_tekken};
    char *out = (char *)f.data;
    out += snprintf(out, 1024, "%s\"vocab\":[", head);
    for (unsigned b = 0; b < ranks; b++)
        if (b == at && changed)
            out += snprintf(out, 128, "%s%s", b ? "," : "", changed);
        else if (b < 256)
            out += snprintf(out, 64, "%s{\"rank\":%u,\"token_bytes\":\"%c%c==\"}", b ? "," : "", b,
                            digits[b >> 2], digits[(b & 3) << 4]);
        else
            out += snprintf(out, 64, ",{\"rank\":%u,\"token_bytes\":\"YWI=\"}", b); /* "ab" */
    out += snprintf(out, 8, "]}");
    f.size = (size_t)(out - (char *)f.data);
    return f;
}

static void ids(void)
{
    const form f = tekken(CONFIG("262", "5") SPECIAL, 257, 0, NULL);
    static const int32_t want[] = {1, 261, 5 + ' ', 3, 5 + 0xc3, 5 + 0xa9, 2};
    pc__tokenizer *t;
    int32_t got[16];
    char back[64];
    size_t count, size;
    if (!CHECK_OK(f.read(&t, &pc__libc_allocator, write_file(f.name, f.data, f.size))))
        return;
    CHECK_INT(pc__tokenizer_count(t), 262);
    CHECK_INT(pc__token_find(t, "<SPECIAL_4>", 11), 4);
    CHECK_OK(pc__text_to_tokens(t, "ab <x>\xc3\xa9</s>", 12, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS,
                                got, 16, &count));
    CHECK(count == 7 && !memcmp(got, want, sizeof want));
    CHECK_OK(pc__tokens_to_text(t, got, count, PC_TOKENIZE_SPECIAL, back, sizeof back, &size));
    CHECK(size == 15 && !memcmp(back, "<s>ab <x>\xc3\xa9</s>", 15));
    pc__special_ids special = pc__tokenizer_ids(t);
    CHECK(special.bos == 1 && special.eos == 2 && special.unk == -1);
    pc__tokenizer_free(t);
}

static void fault(form f, const char *cause)
{
    refused(&f, f.data, f.size, PC_ERR_FORMAT, cause);
}

static void faults(void)
{
    static const struct {
        const char *head, *cause;
    } heads[] = {
        {"{", "default_vocab_size"},
        {CONFIG("-1", "5"), "default_vocab_size"},
        {CONFIG("\"262\"", "5"), "default_vocab_size"},
        {CONFIG("262", "99999999999"), "default_num_special_tokens"},
        {CONFIG("5", "5"), "5 tokens of which 5 are special"},
        {CONFIG("263", "5"), "263 tokens of which 5 are special do not fit a vocab of 257"},
        {CONFIG("262", "5"), "special_tokens: rank 5, text '[AVAILABLE_TOOLS]'"},
        {CONFIG("262", "5") "\"special_tokens\":[{\"rank\":7,\"token_str\":\"a\"}],", "rank 7"},
        {CONFIG("262", "5") "\"special_tokens\":[{\"rank\":1}],", "rank 1, text ''"},
        {CONFIG("262", "5") "\"special_tokens\":[{\"token_str\":\"a\"}],", "rank -1"},
    };
    static const struct {
        const char *entry, *cause;
    } entries[] = {
        {"{\"rank\":8,\"token_bytes\":\"Bw==\"}", "vocab[7]"},
        {"{\"rank\":7,\"token_bytes\":\"B*==\"}", "vocab[7]"},
        {"{\"rank\":7,\"token_bytes\":\"\"}", "vocab[7]"},
        {"{\"rank\":7}", "vocab[7]"},
        {"7", "vocab[7]"},
        {"{\"rank\":7,\"token_bytes\":\"Bwc=\"}", "byte 0x07 has no token"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fault(tekken(heads[i].head, 257, 0, NULL), heads[i].cause);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        fault(tekken(CONFIG("262", "5") SPECIAL, 257, 7, entries[i].entry), entries[i].cause);
    fault(
        tekken("{\"config\":{\"default_vocab_size\":262,\"default_num_special_tokens\":5}," SPECIAL,
               257, 0, NULL),
        "config.pattern");
}

int main(void)
{
    static form good;
    good = tekken(CONFIG("262", "5") SPECIAL, 257, 0, NULL);
    not_there(&good);
    for (size_t size = 0; size < good.size; size += 97)
        refused(&good, good.data, size, 0, good.name);
    no_memory(&good);
    ids();
    faults();
    return pc_test_end();
}

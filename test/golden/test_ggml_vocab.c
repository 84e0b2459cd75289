/* Catches: a tokenizer that does not give the ids of the model's own tokenizer on 46 texts per
 * vocabulary (blanks, digits, scripts, emoji, contractions), or whose ids do not give the text
 * back.
 */
#include <stdlib.h>
#include <string.h>

#include "model/load/gguf.h"
#include "testing.h"
#include "text/tokenizer.h"

static const char separator[] = "\n__ggml_vocab_test__\n";

static size_t parse_line(const char *line, int32_t *ids)
{
    size_t n = 0;
    char *end;
    for (long v = strtol(line, &end, 10); end != line; v = strtol(line, &end, 10)) {
        ids[n++] = (int32_t)v;
        line = end;
        if (*line == '\n')
            break;
    }
    return n;
}

static void one(const pc__tokenizer *t, const char *name, size_t index, const char *text,
                size_t size, const char *line, int round_trip)
{
    static int32_t want[65536], got[65536];
    static char back[1 << 18];
    size_t n = *line == '\n' ? 0 : parse_line(line, want), count, written;
    if (!CHECK_OK(pc__text_to_tokens(t, text, size, 0, got, 65536, &count)))
        return;
    if (!CHECK(count == n && !memcmp(got, want, n * sizeof *want))) {
        fprintf(stderr, "    %s case %zu: \"%.*s\"\n     got", name, index,
                (int)(size < 60 ? size : 60), text);
        for (size_t i = 0; i < count && i < 40; i++)
            fprintf(stderr, " %d", got[i]);
        fprintf(stderr, "\n    want %.200s\n", line);
    }
    if (!round_trip)
        return;
    CHECK_OK(pc__tokens_to_text(t, got, count, 0, back, sizeof back, &written));
    CHECK(written == size && !memcmp(back, text, size));
}

static void vectors(const pc__tokenizer *t, const char *name, int round_trip)
{
    char path[256];
    size_t size, cases = 0;
    snprintf(path, sizeof path, "data/ggml-vocab/ggml-vocab-%s.gguf.inp", name);
    char *input = pc_test_read(pc_test_data(path), &size);
    snprintf(path, sizeof path, "data/ggml-vocab/ggml-vocab-%s.gguf.out", name);
    char *output = pc_test_read(pc_test_data(path), NULL), *line = output;
    for (char *at = input; at && line && *line; cases++) {
        char *end = strstr(at, separator);
        one(t, name, cases, at, end ? (size_t)(end - at) : strlen(at), line, round_trip);
        at = end ? end + strlen(separator) : NULL;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    CHECK_INT(cases, 46);
    free(input);
    free(output);
}

int main(void)
{
    static const char *const names[] = {"llama-spm",    "phi-3",     "gpt-2",  "falcon",
                                        "mpt",          "starcoder", "refact", "deepseek-coder",
                                        "deepseek-llm", "bert-bge"};
    pc__tokenizer *t;
    if (!pc_test_data("data/ggml-vocab"))
        pc_test_skip("../shared/data/ggml-vocab is not there");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        pc__gguf *gguf;
        snprintf(path, sizeof path, "data/ggml-vocab/ggml-vocab-%s.gguf", names[i]);
        if (!pc_test_data(path)
            || !CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, pc_test_data(path))))
            continue;
        if (CHECK_OK(pc__gguf_tokenizer(&t, &pc__libc_allocator, gguf)))
            vectors(t, names[i], strcmp(names[i], "bert-bge") != 0);
        pc__tokenizer_free(t);
        pc__gguf_free(gguf);
    }
    static const char *const files[][2] = {
        {"llama-spm", "data/llama2-tokenizer/tokenizer.model"},
        {"llama-bpe", "data/llama3-tokenizer/tokenizer.model"},
        /* not gpt2-tokenizer/tokenizer.json: it adds tokens for runs of blanks, which the vectors
           do not know */
        {"phi-3", "data/phi3-tokenizer/tokenizer.json"},
        {"bert-bge", "data/bert-tokenizer/tokenizer.json"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = pc_test_data(files[i][1]);
        size_t n = path ? strlen(path) : 0;
        if (!path)
            continue;
        pc_status status = !strcmp(path + n - 5, ".json")
                               ? pc__tokenizer_from_json(&t, &pc__libc_allocator, path)
                               : pc__tokenizer_from_sentencepiece(&t, &pc__libc_allocator, path);
        if (CHECK_OK(status))
            vectors(t, files[i][0], strcmp(files[i][0], "bert-bge") != 0);
        pc__tokenizer_free(t);
    }
    const char *bin = pc_test_data("data/llama2-tokenizer/tokenizer-llama2c.bin");
    if (bin && CHECK_OK(pc__tokenizer_from_llama2c(&t, &pc__libc_allocator, bin, 32000))) {
        vectors(t, "llama-spm", 1);
        pc__tokenizer_free(t);
    }
    return pc_test_end();
}

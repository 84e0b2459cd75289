/* The plug-in module xgrammar: grammars compiled and matched by XGrammar. Exceptions end here.
 * Memory comes from operator new.
 *
 * A grammar is compiled on a thread of its own, whose stack fits the recursion that XGrammar
 * allows. End tokens are the library's business: to XGrammar one more token, behind those of the
 * model, is the end. */
#include <pthread.h>

#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <xgrammar/xgrammar.h>

extern "C" {
#include "text/grammar_engine.h"
}

namespace {

constexpr int most_recursion = 1000;
constexpr size_t stack_bytes = size_t(64) << 20;

// Where texts of XGrammar's log go, of the thread that compiles.
thread_local const pc__grammar_request *noting;

struct Vocabulary {
    xgrammar::TokenizerInfo tokens;
};

struct Grammar {
    xgrammar::CompiledGrammar compiled;
};

struct Matcher {
    xgrammar::GrammarMatcher at;
    std::vector<int32_t> bits; // XGrammar's, with room for the end
};

std::string one_line(const char *text)
{
    std::string line = text;
    while (!line.empty() && (line.back() == '\n' || line.back() == '.'))
        line.pop_back();
    return line;
}

// Of the exception that is being handled.
pc_status failed(pc_status status) noexcept
try {
    throw;
} catch (const std::bad_alloc &) {
    return pc__fail(PC_ERR_NOMEM, "XGrammar: out of memory");
} catch (const std::exception &e) {
    return pc__fail(status, "XGrammar: %s", e.what());
} catch (...) {
    return pc__fail(status, "XGrammar: it gave no reason");
}

// The same in a function of pc_grammar_ops, which tells the reason as an application does.
pc_status failed_match() noexcept
{
    pc_status status = failed(PC_ERR_INTERNAL);
    char text[sizeof pc__fail_state()->text];
    memcpy(text, pc__fail_state()->text, sizeof text);
    pc_error_set(text);
    return status;
}

// ------------------------------------------------------------------ tokens

pc_status vocabulary_new(void **out, const pc__grammar_token *tokens, size_t count)
try {
    std::vector<std::string> texts(count + 1);
    for (size_t i = 0; i < count; i++)
        if (tokens[i].size)
            texts[i].assign(tokens[i].data, tokens[i].size);
    std::vector<int32_t> end{int32_t(count)};
    *out = new Vocabulary{
        xgrammar::TokenizerInfo(texts, xgrammar::VocabType::RAW, std::nullopt, end, false)};
    return PC_OK;
} catch (...) {
    return failed(PC_ERR_INTERNAL);
}

void vocabulary_free(void *vocabulary)
{
    delete static_cast<Vocabulary *>(vocabulary);
}

// ------------------------------------------------------------------ matchers

pc_status matcher_new(void *user, void **out)
try {
    const Grammar *g = static_cast<Grammar *>(user);
    size_t tokens = size_t(g->compiled.GetTokenizerInfo().GetVocabSize());
    *out = new Matcher{xgrammar::GrammarMatcher(g->compiled),
                       std::vector<int32_t>(xgrammar::GetBitmaskSize(int(tokens)))};
    return PC_OK;
} catch (...) {
    return failed_match();
}

pc_status matcher_copy(void *, const void *matcher, void **copy)
try {
    const Matcher *m = static_cast<const Matcher *>(matcher);
    *copy = new Matcher{m->at.Fork(), m->bits};
    return PC_OK;
} catch (...) {
    return failed_match();
}

void matcher_free(void *, void *matcher)
{
    delete static_cast<Matcher *>(matcher);
}

pc_status mask(void *, void *matcher, uint32_t *bits, size_t count, int32_t *may_end)
try {
    Matcher *m = static_cast<Matcher *>(matcher);
    int64_t shape = int64_t(m->bits.size());
    DLTensor tensor{};
    tensor.data = m->bits.data();
    tensor.device = DLDevice{kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = &shape;
    // false: the mask says nothing, for everything may come
    if (m->at.FillNextTokenBitmask(&tensor))
        memcpy(bits, m->bits.data(), (count + 31) / 32 * sizeof *bits);
    else
        memset(bits, 0xff, (count + 31) / 32 * sizeof *bits);
    *may_end = m->at.IsCompleted();
    return PC_OK;
} catch (...) {
    return failed_match();
}

pc_status accept(void *, void *matcher, int32_t token)
try {
    Matcher *m = static_cast<Matcher *>(matcher);
    return m->at.AcceptToken(token) ? PC_OK : PC_MISS;
} catch (...) {
    return failed_match();
}

void rollback(void *, void *matcher, size_t count)
try {
    static_cast<Matcher *>(matcher)->at.Rollback(int(count));
} catch (...) { // the count is never more than what was accepted
}

void free_grammar(void *user)
{
    delete static_cast<Grammar *>(user);
}

// ------------------------------------------------------------------ compiling

struct Compiling {
    const Vocabulary *vocabulary;
    const pc__grammar_request *request;
    Grammar *grammar;
    pc_status status;
    std::string text;
};

xgrammar::CompiledGrammar compile_text(const Compiling &c)
{
    const pc_grammar_options &o = *c.request->options;
    xgrammar::GrammarCompiler compiler(c.vocabulary->tokens, int(c.request->threads), false);
    std::string text(o.text ? o.text : "", o.text_size);
    bool one_line = o.flags & PC_GRAMMAR_ONE_LINE;
    switch (o.kind) {
    case PC_GRAMMAR_EBNF:
        return compiler.CompileGrammar(text, o.root);
    case PC_GRAMMAR_REGEX:
        return compiler.CompileRegex(text);
    case PC_GRAMMAR_JSON:
        text = "true"; // the schema that everything matches; XGrammar's own JSON is no scalar
        break;
    }
    return compiler.CompileJSONSchema(text, !one_line, std::nullopt, std::nullopt,
                                      !(o.flags & PC_GRAMMAR_OPEN),
                                      one_line ? std::optional<int>() : int(o.most_blanks));
}

void *compile_on_thread(void *arg)
{
    Compiling *c = static_cast<Compiling *>(arg);
    noting = c->request;
    try {
        c->grammar = new Grammar{compile_text(*c)};
    } catch (...) { // the text is of this thread
        c->status = failed(PC_ERR_FORMAT);
        try {
            c->text = pc__fail_state()->text;
        } catch (...) {
            c->status = PC_ERR_NOMEM;
        }
    }
    noting = nullptr;
    return nullptr;
}

pc_status run_thread(Compiling *c)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);
    if (error)
        return pc__fail_system(PC_ERR_NOMEM, error, "a thread for the grammar");
    pthread_attr_setstacksize(&attributes, stack_bytes);
    error = pthread_create(&thread, &attributes, compile_on_thread, c);
    pthread_attr_destroy(&attributes);
    if (error)
        return pc__fail_system(PC_ERR_NOMEM, error, "a thread for the grammar");
    pthread_join(thread, nullptr);
    if (c->status < 0)
        return pc__fail(c->status, "%s", c->text.empty() ? "out of memory" : c->text.c_str());
    return PC_OK;
}

pc_status compile(pc_grammar_ops *out, const void *vocabulary, const pc__grammar_request *request)
{
    Compiling c{static_cast<const Vocabulary *>(vocabulary), request, nullptr, PC_OK, {}};
    pc_status status = run_thread(&c);
    if (status < 0)
        return status;
    *out = pc_grammar_ops{sizeof *out, matcher_new, matcher_copy, matcher_free, mask,
                          accept,      rollback,    c.grammar,    free_grammar};
    return PC_OK;
}

pc_status start(const pc__module_host *host, const void **table)
try {
    static const pc__grammar_engine engine = {vocabulary_new, vocabulary_free, compile};
    pc__module_join(host);
    xgrammar::SetMaxRecursionDepth(most_recursion);
    *table = &engine;
    return PC_OK;
} catch (...) {
    return failed(PC_ERR_INTERNAL);
}

} // namespace

extern "C" {
PC__MODULE(xgrammar) = {pc__module_version, pc__module_build, start};
}

// XGrammar's log, where it was built to leave that to its user (XGRAMMAR_LOG_CUSTOMIZE).
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string &file, int line, const std::string &message);
void LogMessageImpl(const std::string &file, int line, int level, const std::string &message);

void LogFatalImpl(const std::string &, int, const std::string &message)
{
    throw std::runtime_error(message);
}

void LogMessageImpl(const std::string &, int, int level, const std::string &message)
{
    constexpr int warning = 2;
    if (noting && level >= warning)
        noting->note(noting->note_user, one_line(message.c_str()).c_str());
}

} // namespace xgrammar

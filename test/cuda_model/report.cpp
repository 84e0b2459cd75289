// Reports go to stderr at once, so that nothing is lost if the program dies.
#include "report.h"
#include "machine.h"
#include "source.h"
#include <set>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

namespace gpu_model {

enum { MOST_PRINTED = 24 };
static uint64_t counts[REPORT_KINDS];
static std::set<std::pair<int, void *>> printed;
static std::vector<std::pair<report_kind, std::string>> texts;
static bool is_quiet;

const char *report_name(report_kind kind)
{
    static const char *const names[REPORT_KINDS] = {
        "race",           "unwritten read", "in flight",
        "left in flight", "outside",        "read-only memory is written",
        "misaligned",     "diverged",       "stuck",
        "refused",        "crashed"};
    return names[kind];
}

uint64_t reports(report_kind kind)
{
    return counts[kind];
}

uint64_t reports()
{
    uint64_t sum = 0;
    for (uint64_t count : counts)
        sum += count;
    return sum;
}

bool reported(report_kind kind, const char *part)
{
    for (const auto &text : texts)
        if (text.first == kind && text.second.find(part) != std::string::npos)
            return true;
    return false;
}

bool sees_accesses()
{
    return !GPU_MODEL_ASAN;
}

void forget_reports()
{
    for (uint64_t &count : counts)
        count = 0;
    printed.clear();
    texts.clear();
}

void quiet(bool on)
{
    is_quiet = on;
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("cuda model: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static std::string of_whom()
{
    char text[160];
    const thread *t = machine.now;
    if (!t)
        return "";
    snprintf(text, sizeof text, "block %u thread %u ", t->home->index, t->index);
    return text;
}

void report(report_kind kind, void *pc, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    counts[kind]++;
    if (printed.size() >= MOST_PRINTED || !printed.insert({kind, pc}).second)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::string whole = std::string(report_name(kind)) + ": " + (pc ? source_of(pc) + ": " : "")
                        + of_whom() + text + " (seed " + std::to_string(machine.seed) + ")";
    texts.push_back({kind, whole});
    if (!is_quiet)
        fprintf(stderr, "cuda model: %s\n", whole.c_str());
    fflush(stderr);
}

// ---- crashes ---------------------------------------------------------------------------------

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[sizeof fatal_signals / sizeof *fatal_signals];

static void crashed(int number, siginfo_t *info, void *)
{
    for (size_t i = 0; i < sizeof fatal_signals / sizeof *fatal_signals; i++)
        sigaction(fatal_signals[i], &before[i], NULL);
    counts[CRASHED]++;
    fprintf(stderr, "cuda model: crashed: %ssignal %d%s at %p (seed %llu)\n", of_whom().c_str(),
            number, in_stack_guard(info->si_addr) ? ", the stack of a thread is full," : "",
            info->si_addr, (unsigned long long)machine.seed);
    fflush(stderr);
    raise(number); // as without the model
}

void catch_crashes(bool on)
{
    enum { SIZE = 1 << 16 };
    static char other_stack[SIZE]; // a fiber's own may be full
    static stack_t stack_before;
    stack_t stack = {};
    size_t i = 0;
    if (GPU_MODEL_ASAN)
        return;
    stack.ss_sp = other_stack;
    stack.ss_size = SIZE;
    sigaltstack(on ? &stack : &stack_before, on ? &stack_before : NULL);
    for (int number : fatal_signals) {
        struct sigaction action = {};
        action.sa_sigaction = crashed;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(number, on ? &action : &before[i], on ? &before[i] : NULL);
        i++;
    }
}

} // namespace gpu_model

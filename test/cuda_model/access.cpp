// Every access of a kernel comes here: to which memory it goes, what is wrong about it, and the log
// from which its cost is counted.
#include "machine.h"
#include "regions.h"
#include "report.h"
#include "source.h"
#include <algorithm>

namespace gpu_model {

static inline memory *find(const thread *t, const void *at)
{
    memory *shared = &t->home->shared;
    if ((size_t)((const uint8_t *)at - shared->base) < shared->size)
        return shared;
    return find_region(at);
}

static const char *verb(access_kind kind)
{
    static const char *const verbs[] = {"reads",
                                        "writes",
                                        "reads",
                                        "changes",
                                        "writes",
                                        "starts an asynchronous copy to",
                                        "ends an asynchronous copy to"};
    return verbs[kind];
}

static std::string place_of(const memory *m, const void *at)
{
    return std::string(m->shared ? "shared memory" : m->name) + " + "
           + std::to_string((const uint8_t *)at - m->base);
}

static std::string who(uint32_t id)
{
    if (id < machine.first_id)
        return "an earlier launch";
    uint32_t index = id - machine.first_id;
    std::string text = "thread " + std::to_string(index % machine.threads);
    uint32_t its_block = index / machine.threads;
    return its_block == machine.now->home->index ? text
                                                 : text + " of block " + std::to_string(its_block);
}

static void tell(const memory *m, const void *at, size_t bytes, access_kind kind, void *pc,
                 const verdict &bad)
{
    std::string text = std::string(verb(kind)) + " " + std::to_string(bytes) + " bytes of "
                       + place_of(m, at);
    const cell &c = bad.seen;
    if (bad.kind == UNWRITTEN_READ)
        report(bad.kind, pc, "%s, which nobody wrote", text.c_str());
    else if (bad.kind == IN_FLIGHT)
        report(bad.kind, pc, "%s, which a copy that %s started at %s has not reached", text.c_str(),
               who(c.writer).c_str(), source_of(pc_of(c.writer_site)).c_str());
    else
        report(bad.kind, pc, "%s, which %s %s at %s; no order between the two", text.c_str(),
               who(bad.with_reader ? c.reader : c.writer).c_str(),
               bad.with_reader ? "read" : "wrote",
               source_of(pc_of(bad.with_reader ? c.reader_site : c.writer_site)).c_str());
}

static void tell_outside(const memory *m, const void *at, size_t bytes, access_kind kind, void *pc)
{
    const memory *below = region_below(at);
    std::string where = "no region";
    if (m)
        where = "the end of " + place_of(m, at);
    else if (below)
        where = "no region (" + std::to_string((const uint8_t *)at - below->base - below->size)
                + " bytes after " + below->name + ")";
    report(OUTSIDE, pc, "%s %zu bytes at %p, in %s", verb(kind), bytes, at, where.c_str());
}

void check_aligned(const void *at, size_t bytes, void *pc)
{
    if ((uintptr_t)at % bytes == 0)
        return;
    report(MISALIGNED, pc, "an access of %zu bytes at %p", bytes, at);
    stop_launch();
}

// threadIdx and its like
static bool is_index(const void *at)
{
    for (const dim3 *one : {&threadIdx, &blockIdx, &blockDim, &gridDim})
        if ((size_t)((const uint8_t *)at - (const uint8_t *)one) < sizeof *one)
            return true;
    return false;
}

memory *touch(const void *at, size_t bytes, access_kind kind, void *pc)
{
    thread *t = machine.now;
    if (machine.looks_at == VALUES || !t || (in_stacks(at) && !in_stack_guard(at)))
        return NULL;
    memory *m = find(t, at);
    if (!m && kind == READ && (is_index(at) || is_constant(at)))
        return NULL;
    if (!m || (const uint8_t *)at + bytes > m->base + m->size) {
        tell_outside(m, at, bytes, kind, pc);
        stop_launch();
    }
    if (!m->cells) {
        if (kind != READ && kind != ATOMIC_READ)
            report(WRITE_READ_ONLY, pc, "%s %zu bytes of %s, which is only read", verb(kind), bytes,
                   place_of(m, at).c_str());
        return m;
    }
    verdict bad;
    touch_words(t, m, (const uint8_t *)at, bytes, kind, site_of(pc), &bad);
    if (__builtin_expect(bad.kind != REPORT_KINDS, 0))
        tell(m, at, bytes, kind, pc, bad);
    return m;
}

// A thread that runs on and on without meeting anybody.
static void check_patience(void *pc)
{
    const uint64_t patience = 20 * 1000 * 1000;
    if (++machine.accesses_in_turn < patience)
        return;
    report(STUCK, pc, "has made %llu accesses without an end",
           (unsigned long long)machine.accesses_in_turn);
    stop_launch();
}

void access(const void *at, size_t bytes, access_kind kind, void *pc)
{
    if (machine.looks_at == VALUES)
        return;
    check_patience(pc);
    memory *m = touch(at, bytes, kind, pc);
    const size_t most = 16; // of one instruction
    for (size_t done = 0; m && machine.looks_at == TRAFFIC && done < bytes; done += most)
        machine.now->crew->log.add(machine.now->lane, m, (const uint8_t *)at + done,
                                   std::min(most, bytes - done), kind, site_of(pc));
}

} // namespace gpu_model

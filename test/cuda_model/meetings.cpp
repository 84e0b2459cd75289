// Lanes meet in collectives, threads in barriers. The last one that comes does the work for all.
#include "machine.h"
#include "report.h"
#include "source.h"

namespace gpu_model {

// ---- meetings of a warp ----------------------------------------------------------------------

static bool same_place(void *a, void *b)
{
    if (a == b)
        return true;
    // Compilers make copies of code; the lines of all callers tell whether these are two places.
    std::string lines = source_lines(a);
    return !lines.empty() && lines == source_lines(b);
}

static bool want_the_same(const thread *a, const thread *b)
{
    return a->collective_wanted == b->collective_wanted && a->mask == b->mask
           && same_place(a->pc, b->pc);
}

// Lanes that wait for each other in different places would wait for ever.
static void check_lanes(thread *t)
{
    const warp *w = t->crew;
    if (!(t->mask >> t->lane & 1)) {
        report(DIVERGED, t->pc, "calls %s with the mask %08x, in which its lane %u is not",
               t->collective_name, t->mask, t->lane);
        stop_launch();
    }
    for (uint32_t rest = t->mask & w->waiting; rest; rest &= rest - 1) {
        const thread *other = w->lane[__builtin_ctz(rest)];
        if (!(other->mask >> t->lane & 1) || want_the_same(t, other))
            continue;
        report(DIVERGED, t->pc, "calls %s with the mask %08x; lane %u waits in %s at %s, mask %08x",
               t->collective_name, t->mask, other->lane, other->collective_name,
               source_of(other->pc).c_str(), other->mask);
        stop_launch();
    }
}

// Nearly always, all lanes that wait want the same.
static void check_arrival(thread *t)
{
    warp *w = t->crew;
    bool first = !w->waiting;
    const thread *model = first ? t : w->arrived;
    if (first)
        w->all_want_the_same = true;
    w->arrived = t;
    if (t->mask == ~0u && w->all_want_the_same && t->collective_wanted == model->collective_wanted
        && model->mask == ~0u && t->pc == model->pc)
        return;
    w->all_want_the_same = false;
    check_lanes(t);
}

static void run_meeting(thread *t, uint32_t lanes)
{
    warp *w = t->crew;
    meeting all = {w, lanes, {}, t->pc};
    for (uint32_t lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1)
            all.arguments[lane] = w->lane[lane]->arguments;
    if (lanes == w->alive)
        w->log.settle();
    t->collective_wanted(all);
    w->waiting &= ~lanes;
    for (uint32_t lane = 0; lane < 32; lane++)
        if ((lanes >> lane & 1) && lane != t->lane)
            make_runnable(w->lane[lane]);
    machine.idle = 0;
}

void meet(const char *name, collective run, unsigned mask, void *arguments, void *pc)
{
    thread *t = machine.now;
    warp *w = t->crew;
    t->collective_name = name;
    t->collective_wanted = run;
    t->mask = mask;
    t->arguments = arguments;
    t->pc = pc;
    check_arrival(t);
    w->waiting |= 1u << t->lane;
    if ((mask & w->alive & ~w->waiting) == 0) {
        run_meeting(t, mask & w->alive);
        t->state = RUNNABLE;
        return;
    }
    make_waiting(t, IN_MEETING);
    give_way(false);
}

// Threads that end may be the last ones that a meeting or a barrier waited for.
void meet_without(warp *w)
{
    for (uint32_t lane = 0; lane < 32; lane++) {
        thread *t = w->lane[lane];
        if ((w->waiting >> lane & 1) && (t->mask & w->alive & ~w->waiting) == 0) {
            run_meeting(t, t->mask & w->alive);
            make_runnable(t);
        }
    }
}

// ---- barriers of a block ---------------------------------------------------------------------

void pass_barrier(block *b)
{
    known all;
    for (thread &t : b->threads)
        all = join(all, t.others);
    for (warp &w : b->warps)
        w.log.settle();
    if (++b->barriers == 0xffff)
        fail("more than 65534 barriers in a block");
    b->at_barrier = 0;
    for (thread &t : b->threads) {
        t.others = all;
        t.clock = b->barriers << 16;
        if (t.state == AT_BARRIER)
            make_runnable(&t);
    }
    machine.idle = 0;
}

void meet_block(void *pc)
{
    thread *t = machine.now;
    block *b = t->home;
    t->collective_name = "__syncthreads";
    t->pc = pc;
    for (const thread &other : b->threads)
        if (other.state == AT_BARRIER) { // any of them: those before it were compared with it
            if (same_place(other.pc, pc))
                break;
            report(DIVERGED, pc, "calls __syncthreads; thread %u waits in the one at %s",
                   other.index, source_of(other.pc).c_str());
            stop_launch();
        }
    b->at_barrier++;
    make_waiting(t, AT_BARRIER);
    if (b->at_barrier == b->alive)
        pass_barrier(b);
    give_way(false);
}

} // namespace gpu_model

// Catches a model in which lanes or threads that wait for different things go on or hang, also if
// it looks at no access, and one that dies of a kernel's crash without a word.
#include "model_meetings.h"
#include "planted.h"
#include <sys/wait.h>
#include <unistd.h>

extern "C" void model_meetings(struct meeting_task);
using namespace gpu_model;

enum { BLOCKS = 2, THREADS = 64 };
static uint32_t out[BLOCKS * THREADS], counter;

static bool run(uint32_t fault, uint32_t seed)
{
    counter = 0;
    reset();
    region("out", out, sizeof out, UNWRITTEN);
    region("counter", &counter, sizeof counter, WRITTEN);
    meeting_task task = {out, &counter, 0, fault};
    return launch<model_meetings>(task, {{BLOCKS}, {THREADS}, 0, seed});
}

static void check_faults()
{
    const planted all[] = {
        {"all meet", ALL_MEET, NO_REPORT, ""},
        {"parts meet", PARTS_MEET, NO_REPORT, ""},
        {"some have ended", SOME_ENDED, NO_REPORT, ""},
        {"in branches", IN_BRANCHES, DIVERGED, "branch"},
        {"other masks", OTHER_MASK, DIVERGED, "mask"},
        {"not in the mask", NOT_IN_MASK, DIVERGED, "not in the mask"},
        {"from outside", FROM_OUTSIDE, DIVERGED, "from outside"},
        {"a product of few", FEW_MULTIPLY, DIVERGED, "product"},
        {"two barriers", TWO_BARRIERS, DIVERGED, "barrier"},
        {"half at a barrier", HALF_BARRIER, STUCK, "half barrier"},
        {"spins", SPINS, STUCK, "spins"},
        {"trap", TRAPS, CRASHED, "trap"},
    };
    for (const planted &one : all)
        for (uint32_t seed = 1; seed <= 3; seed++) {
            bool whole = run(one.fault, seed);
            CHECK(whole == (one.kind == NO_REPORT) || one.fault == FEW_MULTIPLY
                  || one.fault == FROM_OUTSIDE);
            check_planted("model_meetings.cu", one);
        }
}

static void check_endless()
{
    if (!sees_accesses()) // nothing else ends this loop
        return;
    CHECK(!run(ENDLESS, 1));
    check_planted("model_meetings.cu", {"endless", ENDLESS, STUCK, "endless"});
}

static bool refuses(const launch_shape &shape)
{
    reset();
    bool ran = launch<model_meetings>(meeting_task{}, shape);
    return !ran && reports(REFUSED) == 1;
}

static void check_limits()
{
    CHECK(refuses({{1}, {1025}}));
    CHECK(refuses({{1}, {0}}));
    CHECK(refuses({{0}, {32}}));
    CHECK(refuses({{1, 65536}, {32}}));
    CHECK(refuses({{1}, {32}, 227 * 1024 + 1}));
}

// The program dies as it would without the model, but says where.
static void check_crash(uint32_t fault, int signal, const char *text)
{
    int ends[2], status = 0;
    char said[4096] = "";
    CHECK_INT(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        quiet(false);
        run(fault, 3);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got, all = 0; (got = read(ends[0], said + all, sizeof said - 1 - all)) > 0;)
        all += got;
    close(ends[0]);
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    CHECK(strstr(said, "crashed: block ") && strstr(said, text) && strstr(said, "(seed 3)"));
}

int main()
{
    quiet(true);
    check_faults();
    check_endless();
    check_limits();
    if (sees_accesses()) { // AddressSanitizer reports crashes itself
        check_crash(DIVIDES, SIGFPE, "signal 8");
        check_crash(RECURSES, SIGSEGV, "the stack of a thread is full");
    }
    reset();
    look_at(VALUES);
    check_faults();
    return pc_test_end();
}

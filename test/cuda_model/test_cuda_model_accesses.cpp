// Catches a model that misses a wrong access to memory or names another line: outside of regions,
// to what nobody wrote, to what a copy is still writing, at addresses that a device refuses. Also
// one that takes the parts of a word for one another.
#include "model_accesses.h"
#include "planted.h"
#include <sys/wait.h>
#include <unistd.h>

extern "C" void model_accesses(struct access_task);
using namespace gpu_model;

enum { ROWS = 5, THREADS = 64, COUNT = ROWS * THREADS };

static float host_only = 1;
// Regions of their own, with room behind them: one that follows another at once hides its end.
static std::vector<float> in(2 * COUNT), out(2 * COUNT);
static std::vector<uint16_t> halves(2 * COUNT);
static std::vector<uint8_t> bytes(2 * COUNT);

static void declare()
{
    reset();
    region("in", in.data(), COUNT * sizeof(float), READ_ONLY);
    region("out", out.data(), COUNT * sizeof(float), UNWRITTEN);
    region("halves", halves.data(), COUNT * sizeof(uint16_t), UNWRITTEN);
    region("bytes", bytes.data(), COUNT, UNWRITTEN);
}

static bool run(uint32_t fault, uint32_t seed)
{
    access_task task = {in.data(),  out.data(), halves.data(), bytes.data(),
                        &host_only, ROWS,       fault};
    return launch<model_accesses>(task, {{ROWS + 1}, {THREADS}, THREADS * 40, seed});
}

static void check_faults()
{
    const planted all[] = {
        {"right", ALL_RIGHT, NO_REPORT, ""},
        {"a row too many", ROW_TOO_MANY, OUTSIDE, "copy"},
        {"over shared memory", SHARED_TOO_FAR, OUTSIDE, "too far"},
        {"memory of the host", HOST_MEMORY, OUTSIDE, "of the host"},
        {"input written", INPUT_WRITTEN, WRITE_READ_ONLY, "input written"},
        {"output read", OUTPUT_READ, UNWRITTEN_READ, "output read"},
        {"shared unwritten", SHARED_UNWRITTEN, UNWRITTEN_READ, "unwritten"},
        {"three of four bytes", THREE_OF_FOUR, UNWRITTEN_READ, "four bytes"},
        {"a struct", STRUCT_READ, UNWRITTEN_READ, "a struct"},
        {"memcpy", LIBRARY_READ, UNWRITTEN_READ, "a copy"},
        {"memset", LIBRARY_WRITE, OUTSIDE, "a memset"},
        {"load at an odd address", ODD_LOAD, MISALIGNED, "odd load"},
        {"word at an odd address", ODD_WORD, MISALIGNED, "odd word"},
        {"copy to an odd address", ODD_COPY, MISALIGNED, "odd copy"},
        {"read in flight", READ_IN_FLIGHT, IN_FLIGHT, "read in flight"},
        {"written in flight", WRITTEN_IN_FLIGHT, IN_FLIGHT, "write in flight"},
        {"never waited", NEVER_WAITED, LEFT_IN_FLIGHT, "copy"},
    };
    for (const planted &one : all)
        for (uint32_t seed = 1; seed <= 3; seed++) {
            if (one.kind != NO_REPORT && !sees_accesses())
                continue;
#ifdef __clang__
            if (one.fault == STRUCT_READ) // clang's hooks leave copies of structs out
                continue;
#endif
            declare();
            CHECK_INT(run(one.fault, seed), one.kind != OUTSIDE && one.kind != MISALIGNED);
            check_planted("model_accesses.cu", one);
        }
}

// What a report says beside its line.
static void check_text()
{
    declare();
    run(ROW_TOO_MANY, 7);
    CHECK(reported(OUTSIDE, "block 5 thread "));
    CHECK(reported(OUTSIDE, "(seed 7)"));
    CHECK(reported(OUTSIDE, "after in)"));
    declare();
    run(SHARED_UNWRITTEN, 1);
    CHECK(reported(UNWRITTEN_READ, "reads 4 bytes of shared memory + "));
    declare();
    run(READ_IN_FLIGHT, 1);
    CHECK(reported(IN_FLIGHT, marked_line("model_accesses.cu", "copy").c_str()));
}

static void check_regions()
{
    declare();
    CHECK(run(ALL_RIGHT, 1));
    CHECK(run(OUTPUT_READ, 2)); // written by the launch before
    CHECK_INT(reports(), 0);
    mark_written(&out[3], 4, false);
    CHECK(run(OUTPUT_READ, 3));
    CHECK_INT(reports(UNWRITTEN_READ), 1);
    declare();
    mark_written(out.data(), COUNT * sizeof(float), true); // by the host
    CHECK(run(OUTPUT_READ, 4));
    CHECK_INT(reports(), 0);
    forget_region(halves.data());
    CHECK(!run(ALL_RIGHT, 5));
    CHECK(reports(OUTSIDE) > 0);
}

// A build with AddressSanitizer has no hooks, but dies of the same faults with its own report.
static void check_sanitizer(uint32_t fault, const char *text)
{
    int ends[2], status = 0;
    char said[2048] = "";
    CHECK_INT(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        declare();
        run(fault, 1);
        _exit(0);
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    CHECK(fread(said, 1, sizeof said - 1, file) > 0);
    fclose(file); // the child may die of a full pipe: it has said enough
    waitpid(child, &status, 0);
    CHECK(status != 0 && strstr(said, text) && strstr(said, "model_accesses.cu"));
}

int main()
{
    quiet(true);
    check_faults();
    if (sees_accesses()) {
        check_text();
        check_regions();
    } else {
        declare();
        CHECK(!run(ROW_TOO_MANY, 1)); // by a wrapper
        CHECK(reports(OUTSIDE) > 0);
        check_sanitizer(SHARED_TOO_FAR, "heap-buffer-overflow");
        check_sanitizer(WRITTEN_IN_FLIGHT, "use-after-poison");
    }
    return pc_test_end();
}

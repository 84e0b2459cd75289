// Catches tests of attention that find nothing: each planted fault of cuda/kernels/faults.h
// must be found, and by what names it: a report of the model, a wrong result, bank conflicts, bytes
// that nobody needs, or claims that are left to the next launch.
#include "attend_launch.h"
extern "C" {
#include "testing.h"
}
#define PC_CUDA_FAULTS
#include "cuda/kernels/faults.h"
#include <stdlib.h>

extern "C" void attend_with_faults(const pc__cuda_attend);

using namespace gpu_model;

static int planted;

extern "C" int pc_cuda_fault(int fault)
{
    return fault == planted;
}

enum {
    WRONG_RESULT = 1 << REPORT_KINDS,
    CONFLICTS = 2 << REPORT_KINDS,
    BYTES = 4 << REPORT_KINDS,
    CLAIMS_LEFT = 8 << REPORT_KINDS
};

struct fault_signs {
    int fault;
    const char *name;
    unsigned signs; // each of these names the fault; one of them must be there
    unsigned never; // none of these is there
};

static const unsigned READ_EARLY = 1 << IN_FLIGHT | 1 << UNWRITTEN_READ | 1 << RACE,
                      ANY_REPORT = (1 << REPORT_KINDS) - 1;
static const fault_signs faults[] = {
    {FAULT_NONE, "none", 0, ~0u},
    {FAULT_NO_WAIT, "no wait", 1 << IN_FLIGHT, 0},
    {FAULT_SHORT_WAIT, "a wait that ends too early", 1 << IN_FLIGHT, 0},
    {FAULT_NO_BARRIER, "no barrier", READ_EARLY, 0},
    {FAULT_EARLY_FETCH, "a slot filled too early", 1 << RACE | 1 << IN_FLIGHT, 0},
    {FAULT_NO_JOIN_BARRIER, "no barrier before warps are joined", 1 << RACE | 1 << UNWRITTEN_READ,
     0},
    {FAULT_LOST_CLAIM, "claims that are not atomic", 1 << RACE, 0},
    {FAULT_EARLY_ZERO, "claims that begin anew too early", 1 << RACE, 0},
    {FAULT_NO_ZERO, "claims that stay", CLAIMS_LEFT, ANY_REPORT | WRONG_RESULT},
    {FAULT_NO_CLAIM_BARRIER, "no barrier after a claim", 1 << RACE | 1 << UNWRITTEN_READ, 0},
    {FAULT_ROW_TOO_MANY, "a row too many", 1 << UNWRITTEN_READ | 1 << OUTSIDE | 1 << RACE, 0},
    {FAULT_WRONG_MASK, "a wrong mask", WRONG_RESULT, ANY_REPORT},
    {FAULT_NO_MASK, "no mask", WRONG_RESULT, ANY_REPORT},
    {FAULT_WRONG_WINDOW, "a wrong window", WRONG_RESULT, ANY_REPORT},
    {FAULT_WRONG_CHUNK, "a wrong chunk", WRONG_RESULT, ANY_REPORT},
    {FAULT_NO_PADDING, "no padding", CONFLICTS, ANY_REPORT | WRONG_RESULT},
    {FAULT_WRONG_ORDER, "a wrong order of tokens", WRONG_RESULT, ANY_REPORT},
    {FAULT_NO_SHRINK, "sums that do not shrink", WRONG_RESULT, ANY_REPORT},
    {FAULT_TWICE, "copies made twice", BYTES, 0},
};
static_assert(sizeof faults / sizeof *faults == FAULTS, "each fault has its signs");

// What a run of a case shows.
static unsigned signs_of(attend_case &c, uint64_t seed)
{
    unsigned signs = 0;
    bool whole = run_case<attend_with_faults>(c, seed, 2);
    traffic loops = traffic_at("attend_tensor.h", 0), end = traffic_at("attend_store.h", 0);
    for (int kind = 0; kind < REPORT_KINDS; kind++)
        signs |= reports((report_kind)kind) ? 1u << kind : 0;
    if (whole && !(attend_case_error(&c) <= attend_case_tolerance(&c.spec)))
        signs |= WRONG_RESULT;
    if (loops.wavefronts - end.wavefronts != loops.least_wavefronts - end.least_wavefronts)
        signs |= CONFLICTS;
    if ((double)page_bytes_read(c) > 1.05 * (double)c.needed_bytes)
        signs |= BYTES;
    if (*c.task.claimed)
        signs |= CLAIMS_LEFT;
    free_results(c);
    return signs;
}

static void check_fault(attend_case *cases, size_t count, const fault_signs &fault)
{
    unsigned signs = 0;
    planted = fault.fault;
    for (size_t i = 0; i < count; i++)
        for (uint64_t seed = 1; seed <= 2; seed++)
            signs |= signs_of(cases[i], seed);
    bool named = !(signs & fault.never) && (!fault.signs || signs & fault.signs);
    if (!CHECK(named))
        fprintf(stderr, "    %s: the signs are %#x\n", fault.name, signs);
    printf("%-36s", fault.name);
    for (int kind = 0; kind < REPORT_KINDS; kind++)
        if (signs >> kind & 1)
            printf(" [%s]", report_name((report_kind)kind));
    printf("%s%s%s%s\n", signs & WRONG_RESULT ? " [wrong result]" : "",
           signs & CONFLICTS ? " [bank conflicts]" : "", signs & BYTES ? " [bytes]" : "",
           signs & CLAIMS_LEFT ? " [claims left]" : "");
}

int main()
{
    if (!sees_accesses())
        pc_test_skip("AddressSanitizer ends the process at the first fault");
    static const attend_spec specs[] = {
        // one section for all rows, then one for each
        {CASE_TREE, PC__CUDA_F16, 64, 64, 2, 1, 20, 150, 2, CASE_HALVES, 0, 0, 0, 0, 0, 0, 1},
        {CASE_RAGGED, PC__CUDA_F16, 64, 64, 1, 3, 7, 200, 4, CASE_NO_ROPE, 900, 0, 0, 0, 0, 0, 2},
        // more pieces than the ring has slots
        {CASE_SINGLE, PC__CUDA_F16, 64, 64, 1, 1, 4, 400, 8, CASE_NO_ROPE, 0, 0, 0, 0, 0, 0, 3},
        {CASE_SINGLE, PC__CUDA_F16, 64, 64, 1, 1, 4, 200, 4, CASE_NO_ROPE, 0, 150, 0, 0, 0, 0, 4}};
    enum { CASES = sizeof specs / sizeof *specs };
    static attend_case cases[CASES];
    setenv("PC_CPU_MASK", "c", 1);
    for (size_t i = 0; i < CASES; i++)
        attend_case_new(&cases[i], &specs[i]);
    quiet(true);
    for (const fault_signs &fault : faults)
        check_fault(cases, CASES, fault);
    for (attend_case &c : cases)
        attend_case_free(&c);
    return pc_test_end();
}

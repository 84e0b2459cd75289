// Planted faults: FAULT(NAME) is 0, except where a test compiles kernels over the model of the
// machine with PC_CUDA_FAULTS defined. Then it asks the test, which shows that every fault is
// found.
#ifndef PC_CUDA_KERNELS_FAULTS_H
#define PC_CUDA_KERNELS_FAULTS_H

#if defined(__CUDACC__) || !defined(PC_CUDA_FAULTS)
#define FAULT(name) 0
#else
enum {
    FAULT_NONE,
    FAULT_NO_WAIT,          // pieces are read while they are copied
    FAULT_SHORT_WAIT,       // the wait leaves one copy too many in flight
    FAULT_NO_BARRIER,       // warps read pieces before other warps' copies are there
    FAULT_EARLY_FETCH,      // copies go to a slot that is still being read
    FAULT_NO_JOIN_BARRIER,  // states of warps are joined before all are written
    FAULT_LOST_CLAIM,       // blocks claim items by a load and a store
    FAULT_EARLY_ZERO,       // the claims begin anew before all are made
    FAULT_NO_ZERO,          // the next launch finds the claims of this one
    FAULT_NO_CLAIM_BARRIER, // the next item is read before it is there
    FAULT_ROW_TOO_MANY,     // the result of a vector behind the last one is stored
    FAULT_WRONG_MASK,       // the token behind a row's last one counts
    FAULT_NO_MASK,          // pages that some row sees count as seen whole by all
    FAULT_WRONG_WINDOW,     // the window is one token too long
    FAULT_WRONG_CHUNK,      // a chunk begins and ends one token too early
    FAULT_NO_PADDING,       // rows of K lie in shared memory without padding
    FAULT_WRONG_ORDER,      // the weights of two lanes meet each other's values
    FAULT_NO_SHRINK,        // sums keep their scale when the maximum rises
    FAULT_TWICE,            // every piece is copied twice
    FAULTS
};
extern "C" int pc_cuda_fault(int fault); // 1: it is to be made
#define FAULT(name) pc_cuda_fault(FAULT_##name)
#endif

#endif

// Stands for the model's header of the same name while kernel_table.py lists the kernels of a file:
// the words of CUDA that say what a kernel is stay in the text.
#ifndef PC_TEST_ENTRIES_GPU_DEVICE_H
#define PC_TEST_ENTRIES_GPU_DEVICE_H

#define __global__ KERNEL_
#define __launch_bounds__(threads, ...) BOUNDS_ threads _BOUNDS
#define __device__
#define PARAM const
#define GPU_INLINE static

#endif

/* The kernels of cuda/kernels for the fake device: compiled by the C++ compiler, run on
 * the model of the machine (test/cuda_model), which checks every access to the device's memory
 * unless PC_TEST_CUDA_CHECKS=0. */
#ifndef PC_TEST_FAKE_KERNELS_H
#define PC_TEST_FAKE_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Gives them to the fake device, with the model as watcher of its memory: once, before it starts.
 * Reports of the model count as faults in pc_fake_end. */
void pc_fake_kernels_add(void);

#ifdef __cplusplus
}
#endif
#endif

/* Launches of tests over the model of the machine go to a device instead: in gpu_test_…, to the real
 * one from the start. */
#ifndef PC_TEST_DEVICE_LAUNCH_H
#define PC_TEST_DEVICE_LAUNCH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Launches go to the device of pc_cuda_open, real or fake, from here on. What else a launch touches
 * than its regions is a report of the model. */
void pc_device_launch_begin(void);
/* They go to the model again; the device is closed. */
void pc_device_launch_end(void);

#ifdef __cplusplus
}
#endif
#endif

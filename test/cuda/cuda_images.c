/* The compiled kernels as a library of their own, for tests on a real device (cuda_testing.c). */
#include "cuda/kernel_image.h"

const pc__cuda_image *pc_test_images(void);

const pc__cuda_image *pc_test_images(void)
{
    return pc__cuda_images;
}

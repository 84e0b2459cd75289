/* The compiled kernels, as cmake/cuda.cmake embeds them: one image a file of kernels/, each with
 * code for every kind of device. Only the module links them. */
#ifndef PC_ATTN_CUDA_KERNEL_IMAGE_H
#define PC_ATTN_CUDA_KERNEL_IMAGE_H

#include <stdint.h>

typedef struct pc__cuda_image {
    const char *name; /* stem of the file; NULL: the end of the table */
    const void *data;
    uint64_t size;
} pc__cuda_image;

extern const pc__cuda_image pc__cuda_images[];

#endif

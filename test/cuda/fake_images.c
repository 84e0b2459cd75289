/* Kernels for the backend "cuda" as it is, for the fake driver: it knows them by name. */
#include <stddef.h>

#include "cuda/kernel_image.h"

const pc__cuda_image pc__cuda_images[] = {{"fake", "fake", 4}, {NULL, NULL, 0}};

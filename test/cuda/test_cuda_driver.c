/* Catches: a machine without an NVIDIA driver, with one that is too old or has no device, that is
 * not told which of these it is; a folder of PC_CUDA_LIBRARIES that is not looked at first; a
 * symbol of cuBLASLt that has another name than the table says. */
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "testing.h"

static pc__cuda_driver driver;

/* This machine as it is. Without a driver it is the real case. */
static void this_machine(void)
{
    const pc__cuda_driver *first, *second;
    pc_status status = pc__cuda_driver_get(&first);
    if (status == PC_OK) {
        printf("this machine has a driver and a device\n");
        CHECK(first != NULL);
    } else {
        printf("this machine: %s\n", pc_error_text());
        CHECK_INT(status, PC_ERR_UNSUPPORTED);
        CHECK(first == NULL);
        CHECK(strstr(pc_error_text(), "driver") || strstr(pc_error_text(), "device"));
    }
    char text[512];
    strcpy(text, status < 0 ? pc_error_text() : "");
    pc_error_set("");
    CHECK_STATUS(pc__cuda_driver_get(&second), status); /* and the text is there again */
    CHECK(first == second);
    CHECK_STR(pc_error_text(), text);
}

static void libraries_that_do_not_fit(void)
{
    CHECK_STATUS(pc__cuda_driver_find(&driver, DRIVERS "/lacking"), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("libcuda.so.1 has no cuDriverGetVersion");
    CHECK_ERROR_HAS("too old");

    CHECK_OK(pc__cuda_driver_find(&driver, DRIVERS "/old"));
    CHECK_STATUS(pc__cuda_driver_start(&driver), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("knows CUDA 11.8; at least 12.4 is needed");

    CHECK_OK(pc__cuda_driver_find(&driver, DRIVERS "/without_device"));
    CHECK_STATUS(pc__cuda_driver_start(&driver), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("has no device");

    CHECK_OK(pc__cuda_driver_find(&driver, DRIVERS "/not_started"));
    CHECK_STATUS(pc__cuda_driver_start(&driver), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("cuInit: ");
    CHECK_ERROR_HAS("(100)");
}

/* Where cuBLASLt is installed, every symbol that the table names is in it. */
static void cublas(void)
{
    CHECK_OK(pc__cuda_driver_find(&driver, DRIVERS "/old"));
    if (driver.no_cublas[0]) {
        printf("this machine: %s\n", driver.no_cublas);
        CHECK(strstr(driver.no_cublas, "was not found"));
    } else {
        CHECK(driver.cublasLtMatmul != NULL);
        CHECK_STR(driver.cublasLtGetStatusName(PC__CUBLAS_NOT_SUPPORTED),
                  "CUBLAS_STATUS_NOT_SUPPORTED");
    }
}

static void statuses_of_results(void)
{
    CHECK_OK(pc__cuda_driver_find(&driver, DRIVERS "/old")); /* it knows no name of a result */
    CHECK_OK(PC__CUDA(&driver, cuInit, (0)));
    CHECK_STATUS(PC__CUDA(&driver, cuInit, (7)), PC_ERR_INTERNAL);
    CHECK_STR(pc_error_text(), "cuInit: unknown result (1), no text");
    CHECK_STATUS(pc__cuda_check(&driver, PC__CUDA_OUT_OF_MEMORY, "x"), PC_ERR_NOMEM);
    CHECK_STATUS(pc__cuda_check(&driver, PC__CUDA_ILLEGAL_ADDRESS, "x"), PC_ERR_DEAD);
    CHECK_STATUS(pc__cuda_check(&driver, PC__CUDA_OUT_OF_RESOURCES, "x"), PC_ERR_INTERNAL);
    CHECK_STATUS(pc__cuda_check(&driver, 719, "x"), PC_ERR_DEAD);
    CHECK_STATUS(pc__cuda_check(&driver, PC__CUDA_UNKNOWN, "x"), PC_ERR_INTERNAL);
    CHECK_STATUS(pc__cuda_check(&driver, PC__CUDA_NO_BINARY, "x"), PC_ERR_UNSUPPORTED);
}

int main(void)
{
    this_machine();
    libraries_that_do_not_fit();
    cublas();
    statuses_of_results();
    return pc_test_end();
}

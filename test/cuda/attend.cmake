# Attention over the model of the machine. The kernels are compiled once for its tests.
set(cuda ${PROJECT_SOURCE_DIR}/cuda/kernels)
set(attention ${cuda}/attend_f32.cu ${cuda}/attend_f16.cu ${cuda}/attend_bf16.cu
  ${cuda}/attend_i8.cu ${cuda}/merge.cu) # attend_launch.cpp names them all
add_library(pc_attend_case STATIC
  attend_case.c attend_specs.c ${PROJECT_SOURCE_DIR}/cuda/backend_cuda_tiles.c)
target_link_libraries(pc_attend_case PUBLIC pc_testing promptcache_attn)
pc_add_test(test_cuda_tiles test_cuda_tiles.c pc_attend_case)
set_tests_properties(test_cuda_tiles PROPERTIES LABELS cuda)

promptcache_cuda_test(test_cuda_attend ON_DEVICE SOURCES test_cuda_attend.cpp attend_launch.cpp
  KERNELS ${attention} LIBRARIES pc_attend_case)
set_tests_properties(test_cuda_attend PROPERTIES TIMEOUT 1800) # with PC_TEST_LONG
promptcache_cuda_test(test_cuda_naive ON_DEVICE SOURCES test_cuda_naive.cpp attend_launch.cpp
  KERNELS ${cuda}/naive.cu ${attention} LIBRARIES pc_attend_case)
promptcache_cuda_test(test_cuda_attend_faults
  SOURCES test_cuda_attend_faults.cpp attend_launch.cpp
  KERNELS ${attention} LIBRARIES pc_attend_case)
promptcache_cuda_kernels(pc_attend_faults KERNELS attend_faults.cu DEFINES PC_CUDA_FAULTS)
target_link_libraries(test_cuda_attend_faults PRIVATE pc_attend_faults)

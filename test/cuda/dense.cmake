# The kernels outside attention, over the model of the machine. dense_reference.c has the code of
# the CPU.
function(pc_add_dense_test name)
  cmake_parse_arguments(ARG "" "" "KERNELS;LIBRARIES" ${ARGN})
  list(TRANSFORM ARG_KERNELS PREPEND ${PROJECT_SOURCE_DIR}/cuda/kernels/)
  list(TRANSFORM ARG_KERNELS APPEND .cu)
  promptcache_cuda_test(test_cuda_${name} ON_DEVICE
    SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_${name}.cpp KERNELS ${ARG_KERNELS}
    LIBRARIES pc_dense_reference ${ARG_LIBRARIES})
endfunction()

add_library(pc_dense_reference STATIC ${CMAKE_CURRENT_SOURCE_DIR}/dense_reference.c)
target_link_libraries(pc_dense_reference PUBLIC pc_testing promptcache_attn)
target_include_directories(pc_dense_reference PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

pc_add_dense_test(rows KERNELS rows flat)
pc_add_dense_test(norms KERNELS norms)
pc_add_dense_test(activations KERNELS flat)
pc_add_dense_test(rotate KERNELS kv_write)
pc_add_dense_test(kv_write KERNELS kv_write)
pc_add_dense_test(experts KERNELS experts experts_linear experts_many)
pc_add_dense_test(maps KERNELS map_apply map_record)
pc_add_dense_test(quantised KERNELS quantise_rows quantised_few quantised_many)
pc_add_dense_test(sampling KERNELS sampling LIBRARIES pc_host_sample)

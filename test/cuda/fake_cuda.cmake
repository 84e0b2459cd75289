# The fake device, what tests of the backend share, and the tests that need no kernel of the
# library.

# pc_fake_cuda: the functions of CUDA's runtime and of cuBLASLt that the backend calls.
add_library(pc_fake_cuda_objects OBJECT
  fake_control.cpp fake_cublas.cpp fake_device.cpp fake_memory.cpp fake_runtime.cpp
  fake_streams.cpp)
target_compile_features(pc_fake_cuda_objects PRIVATE cxx_std_17)
target_include_directories(pc_fake_cuda_objects PRIVATE ${PROJECT_SOURCE_DIR}/lib)
target_include_directories(pc_fake_cuda_objects SYSTEM PRIVATE ${PC_CUDA_INCLUDE})
target_link_libraries(pc_fake_cuda_objects PRIVATE promptcache_flags)
set_target_properties(pc_fake_cuda_objects PROPERTIES CXX_VISIBILITY_PRESET default)
add_library(pc_fake_cuda STATIC $<TARGET_OBJECTS:pc_fake_cuda_objects>)
target_include_directories(pc_fake_cuda PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(pc_fake_cuda SYSTEM PUBLIC ${PC_CUDA_INCLUDE})
target_link_libraries(pc_fake_cuda PUBLIC Threads::Threads)

# pc_cuda_testing, pc_gpu_testing: a device for a test, the fake one or the machine's. The functions
# that the host calls come behind it.
add_library(pc_cuda_testing STATIC cuda_testing.c)
target_link_libraries(pc_cuda_testing PUBLIC pc_testing promptcache_cuda_host pc_fake_cuda)
add_library(pc_cuda_launch STATIC device_launch.cpp)
target_link_libraries(pc_cuda_launch PUBLIC pc_cuda_model pc_cuda_testing)
if(PC_HAVE_CUDA)
  add_subdirectory(gpu)
  add_library(pc_gpu_testing STATIC EXCLUDE_FROM_ALL cuda_testing.c no_fake.c)
  target_compile_definitions(pc_gpu_testing PRIVATE PC_CUDA_REAL)
  target_include_directories(pc_gpu_testing PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(pc_gpu_testing PUBLIC pc_testing promptcache_cuda_host
    promptcache_cuda_kernels CUDA::cudart_static CUDA::cublasLt)
  # objects: nothing asks for what begins before `main`
  add_library(pc_gpu_launch OBJECT EXCLUDE_FROM_ALL device_launch.cpp)
  target_link_libraries(pc_gpu_launch PUBLIC pc_cuda_model pc_gpu_testing pc_gpu_model_kernels)
endif()

# pc_add_cuda_test(NAME [ON_DEVICE] SOURCES files... [LIBRARIES libraries...] [USES libraries...]):
# a test of the backend; ON_DEVICE: gpu_NAME runs on a real device, too, with those of USES alone.
function(pc_add_cuda_test name)
  cmake_parse_arguments(ARG "ON_DEVICE" "" "SOURCES;LIBRARIES;USES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE pc_cuda_testing ${ARG_LIBRARIES} ${ARG_USES})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS cuda)
  if(ARG_ON_DEVICE AND PC_HAVE_CUDA)
    add_executable(gpu_${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
    target_link_libraries(gpu_${name} PRIVATE pc_gpu_testing ${ARG_USES})
    add_dependencies(gpu_tests gpu_${name})
  endif()
endfunction()

pc_add_cuda_test(test_cuda_fake ON_DEVICE SOURCES test_cuda_fake.c)
pc_add_cuda_test(test_cuda_stream ON_DEVICE SOURCES test_cuda_stream.c)
pc_add_cuda_test(test_cuda_pool ON_DEVICE SOURCES test_cuda_pool.c)
pc_add_cuda_test(test_cuda_launch SOURCES test_cuda_launch.c)
pc_add_cuda_test(test_cuda_faults SOURCES test_cuda_faults.c)

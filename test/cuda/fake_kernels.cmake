# pc_fake_kernels: all kernels for the fake device, run on the model of the machine. A table of each
# file's kernels is read out of it.
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/kernels/*.cu)
set(tables)
set(declarations "")
set(names "")
foreach(kernel IN LISTS kernels)
  get_filename_component(stem ${kernel} NAME_WE)
  if(NOT TARGET pc_cuda_kernel_${stem})
    promptcache_cuda_kernels(pc_cuda_kernel_${stem} KERNELS ${kernel})
  endif()
  set(table ${CMAKE_CURRENT_BINARY_DIR}/fake_kernels_${stem}.cpp)
  add_custom_command(OUTPUT ${table}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/kernel_table.py ${kernel} ${table}
      ${CMAKE_CXX_COMPILER} -std=c++17 -I${CMAKE_CURRENT_SOURCE_DIR}/entries
      -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/lib -I${PROJECT_SOURCE_DIR}/cuda/kernels
    DEPENDS ${kernel} ${CMAKE_CURRENT_SOURCE_DIR}/kernel_table.py
      ${CMAKE_CURRENT_SOURCE_DIR}/entries/gpu_device.h VERBATIM)
  list(APPEND tables ${table})
  string(APPEND declarations "extern const pc_fake_kernel fake_kernels_${stem}[];\n")
  string(APPEND names "    fake_kernels_${stem},\n")
endforeach()
file(CONFIGURE OUTPUT fake_kernel_tables.h CONTENT "// The tables of all files.
${declarations}static const pc_fake_kernel *const all_tables[] = {\n${names}};\n")
add_library(pc_fake_kernels STATIC fake_kernels.cpp ${tables})
target_include_directories(pc_fake_kernels PRIVATE ${CMAKE_CURRENT_BINARY_DIR}
  ${PROJECT_SOURCE_DIR}/cuda/kernels)
set_target_properties(pc_fake_kernels PROPERTIES CXX_VISIBILITY_PRESET default)
target_link_libraries(pc_fake_kernels PUBLIC pc_fake_cuda pc_cuda_model)
set_source_files_properties(${tables} PROPERTIES COMPILE_OPTIONS
  "-Wno-unknown-pragmas;-Wno-unused-function") # of kernels, in the headers beside the tasks
foreach(kernel IN LISTS kernels)
  get_filename_component(stem ${kernel} NAME_WE)
  target_link_libraries(pc_fake_kernels PUBLIC pc_cuda_kernel_${stem})
endforeach()
pc_add_cuda_test(test_cuda_gemm ON_DEVICE SOURCES test_cuda_gemm.c LIBRARIES pc_fake_kernels)
pc_add_cuda_test(test_cuda_backend ON_DEVICE SOURCES test_cuda_backend.c placed_weights.c
  LIBRARIES pc_fake_kernels)
pc_add_cuda_test(test_cuda_backend_failures
  SOURCES test_cuda_backend_failures.c placed_weights.c LIBRARIES pc_fake_kernels)
pc_add_cuda_test(test_cuda_backend_attend ON_DEVICE SOURCES test_cuda_backend_attend.c
  LIBRARIES pc_fake_kernels)
pc_add_cuda_test(test_cuda_draws ON_DEVICE SOURCES test_cuda_draws.c
  LIBRARIES pc_fake_kernels USES pc_host_sample)
pc_add_cuda_test(test_cuda_plan_handle ON_DEVICE
  SOURCES test_cuda_plan_handle.c attend_caller.c LIBRARIES pc_fake_kernels)
pc_add_cuda_test(test_cuda_planted SOURCES test_cuda_planted.c attend_caller.c
  LIBRARIES pc_fake_kernels)
pc_add_cuda_test(test_cuda_random SOURCES test_cuda_random.c attend_caller.c
  LIBRARIES pc_fake_kernels)
promptcache_cuda_test(test_cuda_device_launch SOURCES test_cuda_device_launch.cpp
  KERNELS device_launch_kernel.cu LIBRARIES pc_cuda_launch pc_fake_kernels)

# The backend as a plug-in module, which tests name in PC_BACKEND (fakecuda.c).
promptcache_module(fakecuda SOURCES fakecuda.c
  USES promptcache_cuda_host pc_fake_kernels INCLUDES ${PC_CUDA_INCLUDE})
target_include_directories(promptcache_fakecuda_objects PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(promptcache_fakecuda PROPERTIES EXCLUDE_FROM_ALL OFF LINKER_LANGUAGE CXX)

# A folder with the backend "cuda" as it is, but over the fake device, which is a shared library
# there: programs that call the runtime themselves link that one, too. PC_MODULES names the folder.
set(on_model ${CMAKE_CURRENT_BINARY_DIR}/on_model)
set(script ${CMAKE_CURRENT_SOURCE_DIR}/fake_shared.map)
add_library(pc_fake_shared SHARED fake_shared.c $<TARGET_OBJECTS:pc_fake_cuda_objects>)
target_include_directories(pc_fake_shared INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(pc_fake_shared SYSTEM PUBLIC ${PC_CUDA_INCLUDE})
target_link_libraries(pc_fake_shared PRIVATE promptcache_flags pc_fake_kernels)
target_link_options(pc_fake_shared PRIVATE -Wl,--version-script=${script})
set_target_properties(pc_fake_shared PROPERTIES OUTPUT_NAME pc_fake_cuda LINK_DEPENDS ${script}
  LIBRARY_OUTPUT_DIRECTORY ${on_model} LINKER_LANGUAGE CXX)
add_library(pc_cuda_on_model MODULE ${PROJECT_SOURCE_DIR}/cuda/backend_cuda_module.c)
target_compile_definitions(pc_cuda_on_model PRIVATE PC_BUILDING)
target_link_libraries(pc_cuda_on_model PRIVATE
  promptcache_flags promptcache_cuda_host pc_fake_shared)
target_link_options(pc_cuda_on_model PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
set_target_properties(pc_cuda_on_model PROPERTIES OUTPUT_NAME promptcache_cuda
  LIBRARY_OUTPUT_DIRECTORY ${on_model})
if(TARGET promptcache_bench AND NOT PC_SANITIZE)
  set(bench ${PROJECT_SOURCE_DIR}/tools/promptcache-bench)
  file(GLOB sources CONFIGURE_DEPENDS ${bench}/*.c)
  list(REMOVE_ITEM sources ${bench}/bench_no_device.c)
  add_executable(pc_bench_on_model ${sources} no_peak.c)
  target_include_directories(pc_bench_on_model PRIVATE ${bench})
  target_link_libraries(pc_bench_on_model PRIVATE
    promptcache_tools promptcache_flags pc_fake_shared)
  add_dependencies(pc_bench_on_model pc_cuda_on_model)
  set_target_properties(pc_bench_on_model PROPERTIES OUTPUT_NAME promptcache-bench
    RUNTIME_OUTPUT_DIRECTORY ${on_model})
  add_test(NAME test_gpu_run COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/gpu_run.sh
    ${PROJECT_SOURCE_DIR} ${on_model} $<TARGET_FILE:pc_bench_on_model>
    $<TARGET_FILE:test_cuda_model_wrappers> $<TARGET_FILE:test_cuda_rows>)
  set_tests_properties(test_gpu_run PROPERTIES LABELS cuda TIMEOUT 300)
endif()
if(NOT PC_SANITIZE)
  add_executable(example_attend_cuda_on_model ${PROJECT_SOURCE_DIR}/examples/attend_cuda.c)
  target_link_libraries(example_attend_cuda_on_model PRIVATE
    promptcache::promptcache promptcache_flags pc_fake_shared m)
  add_dependencies(example_attend_cuda_on_model pc_cuda_on_model)
  add_test(NAME example_attend_cuda_on_model
    COMMAND sh ${PROJECT_SOURCE_DIR}/examples/expect.sh 0
      "8 rows over 200 shared keys: at most [0-9.]+e-0[4-9] off" --
      $<TARGET_FILE:example_attend_cuda_on_model>)
  set_tests_properties(example_attend_cuda_on_model PROPERTIES LABELS "example;cuda" TIMEOUT 300
    ENVIRONMENT "PC_MODULES=${on_model}")
endif()

# The backend for NVIDIA GPUs (cuda/), a plug-in module: its part for the CPU and its kernels, with
# CUDA's runtime inside and cuBLASLt as a library beside it. The part for the CPU needs NVIDIA's
# headers to compile and links nothing of CUDA: tests link a fake device instead.
set(PC_WITH_CUDA AUTO CACHE STRING "the backend for NVIDIA GPUs: AUTO, ON or OFF")
set_property(CACHE PC_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PC_HAVE_NVCC OFF)         # kernels can be compiled
set(PC_HAVE_CUDA_HEADERS OFF) # those of the runtime and of cuBLASLt, in PC_CUDA_INCLUDE
set(PC_HAVE_CUDA OFF)         # all of the backend can be built
set(cuda ${PROJECT_SOURCE_DIR}/cuda)
set(fetched ${PROJECT_SOURCE_DIR}/build/nvcc/nvidia/cu13) # PyPI's toolkit, by tools/setup.sh

# All devices get the same PTX, that of the first, which later devices compile themselves: it is
# made once, and no kernel asks for what only later ones have. CMAKE_CUDA_ARCHITECTURES would make
# one for each.
set(default 80 90 100 120)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CUDA_ARCHITECTURES)
  set(default ${CMAKE_CUDA_ARCHITECTURES})
endif()
set(PC_CUDA_ARCHITECTURES ${default} CACHE STRING
  "compute capabilities times ten that kernels are compiled for, the least one first")
set(CMAKE_CUDA_ARCHITECTURES OFF)
foreach(number IN LISTS PC_CUDA_ARCHITECTURES ITEMS "")
  if(NOT PC_CUDA_ARCHITECTURES OR (number AND NOT number MATCHES "^([89]|1[0-9])[0-9][af]?$"))
    message(FATAL_ERROR "PC_CUDA_ARCHITECTURES is '${PC_CUDA_ARCHITECTURES}': "
      "a list such as 80;90 of capabilities from 80 on is needed")
  endif()
endforeach()
list(GET PC_CUDA_ARCHITECTURES 0 first)
list(TRANSFORM PC_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE code)
list(JOIN code "," code)

# Sets CMAKE_CUDA_COMPILER in the cache if PC_NVCC works. CMake tries it in a project of its own, so
# that one that does not work is no error.
function(promptcache_try_nvcc)
  if(CMAKE_CUDA_COMPILER)
    set(PC_NVCC ${CMAKE_CUDA_COMPILER} CACHE FILEPATH "nvcc" FORCE)
  endif()
  find_program(PC_NVCC NAMES $ENV{CUDACXX} nvcc PATHS /usr/local/cuda/bin ${fetched}/bin)
  mark_as_advanced(PC_NVCC)
  if(PC_NVCC AND NOT PC_NVCC STREQUAL PC_NVCC_TRIED)
    set(ENV{CUDACXX} ${PC_NVCC})
    unset(CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(PC_NVCC_TRIED ${PC_NVCC} CACHE INTERNAL "an nvcc that works")
    endif()
  endif()
endfunction()

set(reason "")
if(PC_WITH_CUDA STREQUAL "OFF")
  set(reason "PC_WITH_CUDA=OFF")
elseif(NOT CMAKE_CUDA_COMPILER_LOADED) # by a project around this one
  promptcache_try_nvcc()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
  elseif(PC_NVCC)
    set(reason "${PC_NVCC} does not work, see CMakeFiles/CMakeError.log")
  else()
    set(reason "nvcc was not found")
  endif()
endif()
if(NOT reason AND NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
  set(reason "${CMAKE_CUDA_COMPILER} is not nvcc")
elseif(NOT reason AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8) # sm_100, sm_120
  set(reason "nvcc is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}, at least 12.8 is needed")
elseif(NOT reason)
  set(PC_HAVE_NVCC ON)
  find_package(CUDAToolkit QUIET)
endif()

find_path(PC_CUDA_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
  PATHS /usr/local/cuda/include ${fetched}/include)
mark_as_advanced(PC_CUDA_INCLUDE)
if(PC_CUDA_INCLUDE AND EXISTS ${PC_CUDA_INCLUDE}/cuda_runtime_api.h
    AND EXISTS ${PC_CUDA_INCLUDE}/crt/host_defines.h)
  set(PC_HAVE_CUDA_HEADERS ON)
elseif(NOT reason)
  set(reason "cublasLt.h was not found, with cuda_runtime_api.h beside it")
endif()
if(NOT reason AND TARGET CUDA::cudart_static AND TARGET CUDA::cublasLt)
  set(PC_HAVE_CUDA ON)
elseif(NOT reason)
  set(reason "libcudart_static.a and libcublasLt.so were not found beside nvcc")
endif()
if(PC_HAVE_CUDA)
  message(STATUS "promptcache: CUDA ON (${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION})")
elseif(PC_WITH_CUDA STREQUAL "ON")
  message(FATAL_ERROR "PC_WITH_CUDA=ON, but ${reason}")
else()
  message(STATUS "promptcache: CUDA OFF (${reason})")
endif()

if(PC_HAVE_CUDA_HEADERS)
  file(GLOB sources CONFIGURE_DEPENDS ${cuda}/*.c)
  list(FILTER sources EXCLUDE REGEX "_module\\.c$")
  add_library(promptcache_cuda_host STATIC EXCLUDE_FROM_ALL ${sources})
  target_compile_definitions(promptcache_cuda_host PRIVATE PC_BUILDING)
  target_include_directories(promptcache_cuda_host PUBLIC ${PROJECT_SOURCE_DIR})
  target_include_directories(promptcache_cuda_host SYSTEM PUBLIC ${PC_CUDA_INCLUDE})
  target_link_libraries(promptcache_cuda_host PUBLIC promptcache_attn)
endif()

# The host launches kernels by cudaLaunchKernel: their stubs are never called, and need no C++
# library. Compressed for size, kernels are a fifth as large.
if(PC_HAVE_NVCC)
  set(PC_CUDA_OPTIONS --generate-code=arch=compute_${first},code=[compute_${first},${code}]
    -lineinfo --compress-mode=size
    -Xcompiler=-Wall,-fno-exceptions,-fno-threadsafe-statics
    $<$<BOOL:${PC_WERROR}>:--Werror=all-warnings>)
  file(GLOB PC_CUDA_KERNELS CONFIGURE_DEPENDS ${cuda}/kernels/*.cu)
  add_library(promptcache_cuda_kernels STATIC EXCLUDE_FROM_ALL ${PC_CUDA_KERNELS})
  target_compile_options(promptcache_cuda_kernels PRIVATE ${PC_CUDA_OPTIONS})
  target_include_directories(promptcache_cuda_kernels PRIVATE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/lib ${cuda}/kernels)
  set_target_properties(promptcache_cuda_kernels PROPERTIES CUDA_STANDARD 17
    CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_VISIBILITY_PRESET hidden)
endif()

# The plug-in module. It is never linked in, and the library does not depend on it. Its kernels take
# minutes of a core to compile, so that only PC_WITH_CUDA=ON has it in `all` and installs it.
if(PC_HAVE_CUDA)
  promptcache_module(cuda SOURCES ${cuda}/backend_cuda_module.c
    USES promptcache_cuda_host promptcache_cuda_kernels LINKS CUDA::cudart_static CUDA::cublasLt)
  if(PC_HAVE_ONEDNN) # the copy of the CPU's backend does without
    target_sources(promptcache_cuda PRIVATE $<TARGET_OBJECTS:promptcache_onednn_apart>)
  endif()
  if(PC_WITH_CUDA STREQUAL "ON")
    target_compile_definitions(promptcache_serve PRIVATE PC_HAVE_CUDA)
    set_target_properties(promptcache_cuda PROPERTIES EXCLUDE_FROM_ALL OFF)
    list(APPEND PC_MODULES_BUILT cuda)
    list(APPEND PC_MODULES_INSTALLED cuda)
  endif()
endif()

# The CUDA backend. Its part for the CPU (promptcache_cuda_host) needs no part of CUDA to build: the
# driver and cuBLASLt are found at run time. Its kernels need nvcc 12.8 or later, which knows
# sm_100; every kernels/*.cu becomes a fatbin, and an object with all of them goes into the module.
set(PC_WITH_CUDA AUTO CACHE STRING "kernels for NVIDIA GPUs through nvcc: AUTO, ON or OFF")
set_property(CACHE PC_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PC_HAVE_CUDA OFF)
set(cuda ${PROJECT_SOURCE_DIR}/cuda)
# The toolkit's headers: an example and a test look at them, the library does not.
find_path(PC_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include
  ${PROJECT_SOURCE_DIR}/build/nvcc/nvidia/cu13/include)
mark_as_advanced(PC_CUDA_INCLUDE)
set(PC_CUDA_ARCHITECTURES 80 90 100 CACHE STRING
  "compute capabilities times ten that kernels are compiled for, the least one first")
# All devices get the same PTX, that of the first: it is compiled once, and no kernel asks for what
# only later ones have. Compressed for size, kernels are a fifth as large; drivers read that since
# CUDA 12.4.
list(GET PC_CUDA_ARCHITECTURES 0 first)
list(TRANSFORM PC_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE code)
list(JOIN code "," code)
set(PC_CUDA_FLAGS -std=c++17 -O3 -lineinfo --compress-mode=size
  --Werror all-warnings -Xcompiler -Wall
  -gencode arch=compute_${first},code=[${code},compute_${first}])

# Sets `reason` to why there are no kernels; empty: PC_NVCC compiles them.
function(promptcache_find_nvcc reason)
  # The last place is where tools/setup.sh unpacks the compiler that PyPI has.
  find_program(PC_NVCC nvcc
    PATHS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/build/nvcc/nvidia/cu13/bin)
  mark_as_advanced(PC_NVCC)
  if(NOT PC_NVCC)
    set(${reason} "nvcc was not found" PARENT_SCOPE)
    return()
  endif()
  set(trial ${PROJECT_BINARY_DIR}/nvcc_trial)
  if(NOT PC_NVCC STREQUAL PC_NVCC_TRIED)
    file(WRITE ${trial}.cu "extern \"C\" __global__ void trial(int *x) { *x = 1; }\n")
    execute_process(COMMAND ${PC_NVCC} ${PC_CUDA_FLAGS} -fatbin -o ${trial}.fatbin ${trial}.cu
      RESULT_VARIABLE failed OUTPUT_FILE ${trial}.log ERROR_FILE ${trial}.log)
    if(failed)
      set(${reason} "${PC_NVCC} cannot compile for ${PC_CUDA_ARCHITECTURES}: ${trial}.log"
        PARENT_SCOPE)
      return()
    endif()
    set(PC_NVCC_TRIED ${PC_NVCC} CACHE INTERNAL "an nvcc that has compiled a kernel")
  endif()
  set(${reason} "" PARENT_SCOPE)
endfunction()

# Assembly sources say which fatbins the object holds. The table ends with zeros.
function(promptcache_cuda_images out)
  set(table "    .section .data.rel.ro, \"aw\"\n    .balign 8\n")
  string(APPEND table "    .globl pc__cuda_images\n    .hidden pc__cuda_images\npc__cuda_images:\n")
  set(bytes "")
  foreach(fatbin IN LISTS ARGN)
    get_filename_component(name ${fatbin} NAME_WE)
    string(APPEND table "    .quad .Lname_${name}, .Lbegin_${name}, "
      ".Lend_${name} - .Lbegin_${name}\n")
    string(APPEND bytes ".Lname_${name}:\n    .asciz \"${name}\"\n    .balign 64\n"
      ".Lbegin_${name}:\n    .incbin \"${fatbin}\"\n.Lend_${name}:\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "/* The fatbins of the kernels, for kernel_image.h. */
${table}    .quad 0, 0, 0
    .section .rodata
${bytes}    .section .note.GNU-stack, \"\", %progbits
")
endfunction()

# promptcache_cuda_kernel_image(NAME a.cu ...): an archive with these kernels, compiled. A file that
# is in several archives is compiled once.
function(promptcache_cuda_kernel_image target)
  set(fatbins)
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(folder ${PROJECT_BINARY_DIR}/cuda) # of the library's own
    if(NOT source IN_LIST PC_CUDA_KERNELS)
      set(folder ${CMAKE_CURRENT_BINARY_DIR}/fatbins)
    endif()
    file(MAKE_DIRECTORY ${folder})
    set(fatbin ${folder}/${name}.fatbin)
    list(APPEND fatbins ${fatbin})
    get_property(made GLOBAL PROPERTY PC_FATBIN_${name})
    if(made)
      continue()
    endif()
    set_property(GLOBAL PROPERTY PC_FATBIN_${name} TRUE)
    add_custom_command(OUTPUT ${fatbin}
      COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/nvcc.sh ${fatbin}.log ${PC_NVCC} ${PC_CUDA_FLAGS}
              -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/lib -I${PROJECT_SOURCE_DIR}/cuda/kernels
              -Xptxas -v -fatbin -MD -MF ${fatbin}.d -o ${fatbin} ${source}
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/nvcc.sh DEPFILE ${fatbin}.d
      COMMENT "CUDA kernels ${name}" VERBATIM)
  endforeach()
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.S)
  promptcache_cuda_images(${object} ${fatbins})
  set_source_files_properties(${object} PROPERTIES OBJECT_DEPENDS "${fatbins}")
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${object})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
endfunction()

set(reason "PC_WITH_CUDA=OFF")
if(NOT PC_WITH_CUDA STREQUAL "OFF")
  promptcache_find_nvcc(reason)
  if(NOT reason)
    set(PC_HAVE_CUDA ON)
    enable_language(ASM)
    file(GLOB PC_CUDA_KERNELS CONFIGURE_DEPENDS ${cuda}/kernels/*.cu)
    promptcache_cuda_kernel_image(promptcache_cuda_image ${PC_CUDA_KERNELS})
  elseif(PC_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PC_WITH_CUDA=ON, but ${reason} (it needs nvcc 12.8 or later)")
  endif()
endif()
if(reason)
  message(STATUS "promptcache: CUDA OFF (${reason})")
else()
  message(STATUS "promptcache: CUDA ON (${PC_NVCC})")
endif()

file(GLOB sources CONFIGURE_DEPENDS ${cuda}/*.c)
list(FILTER sources EXCLUDE REGEX "_module\\.c$")
add_library(promptcache_cuda_host STATIC EXCLUDE_FROM_ALL ${sources})
target_compile_definitions(promptcache_cuda_host PRIVATE PC_BUILDING)
target_include_directories(promptcache_cuda_host PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(promptcache_cuda_host PUBLIC promptcache_attn ${CMAKE_DL_LIBS})

# The plug-in module. It is never linked in, and the library does not depend on it. Its kernels take
# two minutes of a core to compile, so that only PC_WITH_CUDA=ON has it in `all` and installs it.
if(PC_HAVE_CUDA)
  promptcache_module(cuda SOURCES ${cuda}/backend_cuda_module.c
    USES promptcache_cuda_host promptcache_cuda_image)
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

# Warnings, sanitizers and include paths that every target of ours gets. What the host's compilers are
# told is not for nvcc.
add_library(promptcache_flags INTERFACE)
target_compile_options(promptcache_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>
  # For C++, clang counts changes of the sign among -Wconversion; gcc does not.
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion>)
option(PC_WERROR
  "warnings are errors (CI and the preset developer; other compilers have other warnings)" OFF)
if(PC_WERROR)
  target_compile_options(promptcache_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
# Results must not depend on which expressions the compiler fuses: the kernels write fma where they
# mean it.
target_compile_options(promptcache_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-math-errno>)
target_compile_definitions(promptcache_flags INTERFACE _GNU_SOURCE)
target_include_directories(promptcache_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)
if(PC_BUILD_FUZZ AND NOT PC_SANITIZE)
  set(PC_SANITIZE fuzzer-no-link,address,undefined)
endif()
if(PC_SANITIZE)
  target_compile_options(promptcache_flags INTERFACE
    -fsanitize=${PC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(promptcache_flags INTERFACE -fsanitize=${PC_SANITIZE})
endif()

# Warnings, sanitizers and include paths that every target of ours gets.
add_library(pc_flags INTERFACE)
target_compile_options(pc_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>)
option(PC_WERROR "warnings are errors (for developers: other compilers have other warnings)" ${PROJECT_IS_TOP_LEVEL})
if(PC_WERROR AND NOT PC_BUILD_FUZZ) # fuzzers need clang; warnings are errors for gcc
  target_compile_options(pc_flags INTERFACE -Werror)
endif()
# Results must not depend on which expression the compiler fuses: the kernels say fma where they mean it.
target_compile_options(pc_flags INTERFACE -ffp-contract=off -fno-math-errno)
target_compile_definitions(pc_flags INTERFACE _GNU_SOURCE)
target_include_directories(pc_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)
if(PC_BUILD_FUZZ AND NOT PC_SANITIZE)
  set(PC_SANITIZE fuzzer-no-link,address,undefined)
endif()
if(PC_SANITIZE)
  target_compile_options(pc_flags INTERFACE -fsanitize=${PC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(pc_flags INTERFACE -fsanitize=${PC_SANITIZE})
endif()

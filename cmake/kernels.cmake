# How the files in which computing spends its time are compiled: always optimised, each for the CPU
# level in its name.
option(PC_DEBUG_KERNELS "kernels are compiled like everything else, to be stepped through" OFF)

# With Debug, or without a build type, a first token would take twenty to sixty times as long. Who
# names a level of optimisation for everything means it; sanitizers see more in code that is as it
# was written.
set(PC_KERNEL_OPTIONS "")
if(NOT PC_DEBUG_KERNELS AND NOT PC_SANITIZE
    AND NOT CMAKE_C_FLAGS MATCHES "(^| )-O([1-9sz]|fast)?( |$)")
  set(PC_KERNEL_OPTIONS $<$<NOT:$<CONFIG:Release,RelWithDebInfo>>:-O2>)
endif()
file(GLOB memo_kernels lib/memo/index/scan*.c lib/memo/train/*.c)
file(GLOB kernels lib/attn/*.c lib/attn/cpu/*.c
  lib/model/load/dequant.c lib/model/load/quantised_rows.c lib/model/forward/heads.c
  lib/model/load/weights_digest.c lib/model/load/unpermute.c lib/store/codec/*.c
  lib/base/checksum*.c lib/base/digest_lanes*.c)
set_property(SOURCE ${kernels} ${memo_kernels} APPEND PROPERTY COMPILE_OPTIONS ${PC_KERNEL_OPTIONS})

# Short loops over heads and dimensions that the compiler vectorises only here.
if(NOT PC_DEBUG_KERNELS)
  set_property(SOURCE lib/attn/rope.c lib/attn/plan_merge.c lib/attn/kv_convert.c
    lib/attn/kv_page.c lib/store/codec/codec_planes.c lib/store/codec/codec_pages.c
    lib/store/codec/codec_i4.c lib/attn/plan_attend.c lib/attn/plan_call.c
    lib/attn/cpu/backend_cpu_pointwise.c lib/attn/cpu/backend_cpu_rows.c
    lib/attn/cpu/backend_cpu_experts.c lib/attn/cpu/quantise_c.c
    lib/attn/cpu/linear_quantised.c lib/attn/cpu/quantised_panel.c lib/attn/disentangled_attention.c
    lib/model/load/quantised_rows.c
    lib/memo/index/scan_kernels_c.c
    APPEND PROPERTY COMPILE_OPTIONS -O3)
endif()

# ISA flags per source file, never global.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma)
  set(avx512vnni ${avx512} -mavx512vnni)
  set(avx512bf16 ${avx512} -mavx512bf16)
  set(PC_AVX512BF16_FLAGS ${avx512bf16} -mavx512vnni) # what AMX is built on
  set(amx ${PC_AVX512BF16_FLAGS} -mamx-tile -mamx-bf16)
  foreach(level avx2 avx512 avx512vnni avx512bf16)
    file(GLOB ${level}_files lib/attn/cpu/*_${level}.c lib/memo/*/*_${level}.c
      lib/base/*_${level}.c)
  endforeach()
  file(GLOB amx_files lib/attn/cpu/kernels_amx*.c lib/attn/cpu/*_amx.c)
  foreach(level avx2 avx512 avx512vnni avx512bf16 amx)
    set_property(SOURCE ${${level}_files} APPEND PROPERTY COMPILE_OPTIONS ${${level}})
    # Compilers take up to a minute for one of these under AddressSanitizer. Builds of fuzzers leave
    # the sanitizer out of all of them. Other builds with it leave it out beyond AVX2, where the
    # tests of the kernels put guard pages around what they pass.
    if(PC_BUILD_FUZZ OR (PC_SANITIZE MATCHES "address" AND NOT level STREQUAL "avx2"))
      set_property(SOURCE ${${level}_files} APPEND PROPERTY
        COMPILE_OPTIONS -fno-sanitize=address,undefined)
    endif()
  endforeach()
endif()

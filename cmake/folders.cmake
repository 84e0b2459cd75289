# One static library a folder of lib/, linked only with the folders it may use (lib/README.md), so that a forbidden
# dependency does not link in the unit tests; then the library itself out of all their objects.
function(pc_folder name)
  cmake_parse_arguments(ARG "" "" "USES;LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/${name}/*.c ${PROJECT_SOURCE_DIR}/lib/${name}/cpu/*.c)
  if(NOT PC_HAVE_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "_onednn\\.c$")
  endif()
  add_library(pc_${name} STATIC ${sources})
  target_compile_definitions(pc_${name} PRIVATE PC_BUILDING)
  target_include_directories(pc_${name} PUBLIC ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(pc_${name} PUBLIC pc_flags ${ARG_USES} ${ARG_LINKS} m)
endfunction()

pc_folder(base LINKS PkgConfig::SODIUM Threads::Threads)
pc_folder(text USES pc_base LINKS PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC)
pc_folder(pml USES pc_text LINKS PkgConfig::EXPAT)
pc_folder(attn USES pc_base)
pc_folder(model USES pc_attn pc_text LINKS PkgConfig::JANSSON)
pc_folder(store USES pc_base)
pc_folder(serve USES pc_pml pc_store pc_model)
set(PC_FOLDERS base text pml attn model store serve)

if(PC_HAVE_ONEDNN)
  target_compile_definitions(pc_attn PUBLIC PC_HAVE_ONEDNN)
  target_link_libraries(pc_attn PUBLIC DNNL::dnnl gomp)
endif()

# Short loops over heads and dimensions that the compiler vectorises only here.
set_source_files_properties(lib/attn/rope.c lib/attn/merge.c lib/attn/kv_convert.c lib/attn/kv_token.c lib/attn/plan_attend.c lib/attn/plan_call.c lib/attn/cpu/elementwise.c lib/attn/cpu/linear_grid.c
  PROPERTIES COMPILE_OPTIONS "-O3")

# ISA flags per source file, never global.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB avx2 ${PROJECT_SOURCE_DIR}/lib/attn/cpu/*_avx2.c)
  file(GLOB avx512 ${PROJECT_SOURCE_DIR}/lib/attn/cpu/*_avx512.c)
  file(GLOB avx512vnni ${PROJECT_SOURCE_DIR}/lib/attn/cpu/*_avx512vnni.c)
  file(GLOB avx512bf16 ${PROJECT_SOURCE_DIR}/lib/attn/cpu/*_avx512bf16.c)
  file(GLOB amx ${PROJECT_SOURCE_DIR}/lib/attn/cpu/kernels_amx*.c)
  set(PC_AVX512BF16_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mavx512vnni -mfma)
  set_source_files_properties(${amx} PROPERTIES COMPILE_OPTIONS "${PC_AVX512BF16_FLAGS};-mamx-tile;-mamx-bf16;-mamx-int8")
  set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(${avx512} PROPERTIES COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma")
  set_source_files_properties(${avx512vnni} PROPERTIES
    COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mfma")
  set_source_files_properties(${avx512bf16} PROPERTIES
    COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma")
endif()

set(objects)
foreach(folder IN LISTS PC_FOLDERS)
  list(APPEND objects $<TARGET_OBJECTS:pc_${folder}>)
endforeach()
set(outside PkgConfig::EXPAT PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::SODIUM Threads::Threads m)
if(PC_HAVE_ONEDNN)
  list(APPEND outside DNNL::dnnl gomp)
endif()

add_library(promptcache SHARED ${objects})
add_library(promptcache_static STATIC ${objects})
set_target_properties(promptcache PROPERTIES VERSION ${PC_HEADER_ABI_VERSION}.${PROJECT_VERSION} SOVERSION ${PC_HEADER_ABI_VERSION})
set_target_properties(promptcache_static PROPERTIES OUTPUT_NAME promptcache)
target_link_options(promptcache PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/lib/promptcache.map -Wl,--no-undefined)
set_target_properties(promptcache PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/lib/promptcache.map)
target_link_libraries(promptcache PRIVATE pc_flags ${outside})
target_link_libraries(promptcache_static PUBLIC ${outside})
foreach(target promptcache promptcache_static)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
endforeach()
add_library(promptcache::promptcache ALIAS promptcache)
add_library(promptcache::static ALIAS promptcache_static)

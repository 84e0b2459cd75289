# Each folder of lib/ is a static library. It links only the folders that it may use
# (lib/README.md), so that a forbidden dependency does not link in the unit tests. The library
# itself is made of all their objects.
function(promptcache_folder name)
  cmake_parse_arguments(ARG "" "" "USES;LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/lib/${name}/*.c)
  list(FILTER sources EXCLUDE REGEX "/attn/cuda/") # cmake/cuda.cmake
  if(NOT PC_HAVE_FAISS)
    list(FILTER sources EXCLUDE REGEX "_faiss\\.c$")
  endif()
  list(FILTER sources EXCLUDE REGEX "_onednn\\.c$") # a plug-in module
  list(FILTER sources EXCLUDE REGEX "/remote_[a-z]+\\.c$") # a plug-in module, but for addresses
  if(name STREQUAL "store")
    list(APPEND sources ${PROJECT_SOURCE_DIR}/lib/store/remote/remote_address.c)
  endif()
  add_library(promptcache_${name} STATIC EXCLUDE_FROM_ALL ${sources})
  target_compile_definitions(promptcache_${name} PRIVATE PC_BUILDING)
  target_include_directories(promptcache_${name} PUBLIC ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(promptcache_${name} PUBLIC promptcache_flags ${ARG_USES} ${ARG_LINKS} m)
endfunction()

promptcache_folder(base LINKS PkgConfig::SODIUM Threads::Threads ${CMAKE_DL_LIBS})
# xxHash's header has its code.
target_include_directories(promptcache_base SYSTEM PRIVATE ${XXHASH_INCLUDE_DIRS})
target_sources(promptcache_base PRIVATE ${PC_MODULE_BUILD})
promptcache_folder(text USES promptcache_base
  LINKS PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC)
promptcache_folder(pml USES promptcache_text LINKS PkgConfig::EXPAT)
promptcache_folder(attn USES promptcache_base)
promptcache_folder(model USES promptcache_attn promptcache_text LINKS PkgConfig::JANSSON)
promptcache_folder(store USES promptcache_attn LINKS PkgConfig::ZSTD)
promptcache_folder(memo USES promptcache_attn promptcache_model
  LINKS PkgConfig::ZSTD)
promptcache_folder(serve USES promptcache_pml promptcache_store promptcache_model promptcache_memo)
set(PC_FOLDERS base text pml attn model store memo serve)

# The plug-in modules of the library.
set(PC_MODULES_BUILT)
if(PC_HAVE_ONEDNN)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/attn/cpu/*_onednn.c)
  promptcache_module(onednn SOURCES ${sources} USES promptcache_attn LINKS DNNL::dnnl gomp)
  target_compile_definitions(promptcache_attn PUBLIC PC_HAVE_ONEDNN)
  target_link_libraries(promptcache_attn PUBLIC promptcache_onednn_linked)
  list(APPEND PC_MODULES_BUILT onednn)
endif()
if(PC_HAVE_FAISS)
  promptcache_module(faiss SOURCES ${PROJECT_SOURCE_DIR}/lib/memo/index/faiss_shim.cpp
    USES promptcache_base LINKS ${PC_FAISS_LIBRARIES}
    INCLUDES ${PC_GOMP_INCLUDE} ${PC_FAISS_INCLUDE})
  target_compile_definitions(promptcache_memo PUBLIC PC_HAVE_FAISS)
  target_link_libraries(promptcache_memo PUBLIC promptcache_faiss_linked)
  list(APPEND PC_MODULES_BUILT faiss)
endif()
if(PC_HAVE_HIREDIS)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/store/remote/remote_*.c)
  list(FILTER sources EXCLUDE REGEX "/remote_(address|tier_open)\\.c$")
  set(defines PC_HAVE_HIREDIS)
  set(links PkgConfig::HIREDIS)
  if(PC_HAVE_OPENSSL)
    list(APPEND defines PC_HAVE_OPENSSL)
    list(APPEND links PkgConfig::PC_TLS)
  endif()
  promptcache_module(remote SOURCES ${sources} USES promptcache_store LINKS ${links}
    DEFINES ${defines})
  target_compile_definitions(promptcache_store PUBLIC ${defines})
  target_link_libraries(promptcache_store PUBLIC promptcache_remote_linked)
  list(APPEND PC_MODULES_BUILT remote)
endif()

set(objects)
foreach(folder IN LISTS PC_FOLDERS)
  list(APPEND objects $<TARGET_OBJECTS:promptcache_${folder}>)
endforeach()
# How the modules come into the shared and into the static library.
set(shared_modules)
set(static_modules)
set(static_outside)
foreach(module IN LISTS PC_MODULES_BUILT)
  list(APPEND shared_modules $<TARGET_OBJECTS:promptcache_${module}_apart>)
  if(PC_STATIC_MODULES)
    list(APPEND static_modules $<TARGET_OBJECTS:promptcache_${module}_objects>
      $<TARGET_OBJECTS:promptcache_${module}_inside>)
    list(APPEND static_outside ${PC_MODULE_LINKS_${module}})
  else()
    list(APPEND static_modules $<TARGET_OBJECTS:promptcache_${module}_apart>)
  endif()
endforeach()
set(outside PkgConfig::EXPAT PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC
  PkgConfig::SODIUM PkgConfig::ZSTD Threads::Threads ${CMAKE_DL_LIBS} m)

# promptcache::promptcache is shared, with promptcache::static beside it; BUILD_SHARED_LIBS=OFF
# makes the static one alone.
if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
  add_library(promptcache STATIC ${objects} ${static_modules})
  target_link_libraries(promptcache PUBLIC ${outside} ${static_outside})
  add_library(promptcache::static ALIAS promptcache)
  set(PC_LIBRARIES promptcache)
  set(PC_SHARED OFF)
else()
  add_library(promptcache SHARED ${objects} ${shared_modules})
  add_library(promptcache_static STATIC ${objects} ${static_modules})
  set(version_script ${PROJECT_SOURCE_DIR}/lib/promptcache.map)
  set_target_properties(promptcache PROPERTIES LINK_DEPENDS ${version_script}
    VERSION ${PC_HEADER_ABI_VERSION}.${PROJECT_VERSION} SOVERSION ${PC_HEADER_ABI_VERSION})
  target_link_options(promptcache PRIVATE -Wl,--version-script=${version_script} -Wl,--no-undefined)
  target_link_libraries(promptcache PRIVATE promptcache_flags ${outside})
  set_target_properties(promptcache_static PROPERTIES OUTPUT_NAME promptcache)
  target_link_libraries(promptcache_static PUBLIC ${outside} ${static_outside})
  add_library(promptcache::static ALIAS promptcache_static)
  set(PC_LIBRARIES promptcache promptcache_static)
  set(PC_SHARED ON)
endif()
add_library(promptcache::promptcache ALIAS promptcache)
# Who builds a library that loads modules builds these with it.
set(PC_MODULES_INSTALLED)
if(PC_SHARED OR NOT PC_STATIC_MODULES)
  set(PC_MODULES_INSTALLED ${PC_MODULES_BUILT})
  foreach(module IN LISTS PC_MODULES_BUILT)
    add_dependencies(promptcache promptcache_${module})
    set_target_properties(promptcache_${module} PROPERTIES EXCLUDE_FROM_ALL OFF)
  endforeach()
endif()
foreach(target IN LISTS PC_LIBRARIES)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
endforeach()

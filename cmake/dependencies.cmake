# Outside libraries. Required: expat (PML), jansson, PCRE2 and utf8proc (tokenizers), zstd and
# xxHash (records; of the latter the header only), libsodium (digests, seals). Each optional one is
# found automatically; -DPC_WITH_X=OFF leaves it out, =ON makes its absence an error.
find_package(PkgConfig REQUIRED)
if(NOT TARGET Threads::Threads)
  find_package(Threads REQUIRED)
  # A project around this one links the static library against it.
  set_target_properties(Threads::Threads PROPERTIES IMPORTED_GLOBAL TRUE)
endif()

pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET GLOBAL expat)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET GLOBAL jansson)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET GLOBAL libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET GLOBAL libutf8proc)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET GLOBAL libsodium)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET GLOBAL libzstd>=1.5.1)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET GLOBAL libxxhash)

set(PC_WITH_HIREDIS AUTO CACHE STRING "the tier REMOTE through hiredis: AUTO, ON or OFF")
set_property(CACHE PC_WITH_HIREDIS PROPERTY STRINGS AUTO ON OFF)
set(PC_HAVE_HIREDIS OFF)
if(NOT PC_WITH_HIREDIS STREQUAL "OFF")
  pkg_check_modules(HIREDIS IMPORTED_TARGET GLOBAL hiredis)
  if(HIREDIS_FOUND)
    set(PC_HAVE_HIREDIS ON)
  elseif(PC_WITH_HIREDIS STREQUAL "ON")
    message(FATAL_ERROR "PC_WITH_HIREDIS=ON, but hiredis was not found (Debian: libhiredis-dev)")
  endif()
endif()
message(STATUS "promptcache: hiredis ${PC_HAVE_HIREDIS}")

# TLS does not use libhiredis_ssl: hiredis has it only since 1.0, and it works only with connections
# that hiredis opens itself.
set(PC_WITH_OPENSSL AUTO CACHE STRING
  "TLS (rediss://) of the tier REMOTE through OpenSSL: AUTO, ON or OFF")
set_property(CACHE PC_WITH_OPENSSL PROPERTY STRINGS AUTO ON OFF)
set(PC_HAVE_OPENSSL OFF)
if(PC_HAVE_HIREDIS AND NOT PC_WITH_OPENSSL STREQUAL "OFF")
  # CMake's own package has the prefix OPENSSL.
  pkg_check_modules(PC_TLS IMPORTED_TARGET GLOBAL openssl>=1.1.1)
  if(PC_TLS_FOUND)
    set(PC_HAVE_OPENSSL ON)
  elseif(PC_WITH_OPENSSL STREQUAL "ON")
    message(FATAL_ERROR
      "PC_WITH_OPENSSL=ON, but OpenSSL 1.1.1 or later was not found (Debian: libssl-dev)")
  endif()
endif()
message(STATUS "promptcache: OpenSSL ${PC_HAVE_OPENSSL}")

# oneDNN and FAISS use GCC's OpenMP runtime. The library calls it to keep them to one thread. Other
# compilers get declarations of it from cmake/gomp/omp.h, which says why.
set(PC_GOMP_INCLUDE)
if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(PC_GOMP_INCLUDE ${PROJECT_SOURCE_DIR}/cmake/gomp)
endif()

set(PC_WITH_ONEDNN AUTO CACHE STRING "linear layers through oneDNN: AUTO, ON or OFF")
set_property(CACHE PC_WITH_ONEDNN PROPERTY STRINGS AUTO ON OFF)
set(PC_HAVE_ONEDNN OFF)
if(NOT PC_WITH_ONEDNN STREQUAL "OFF")
  # Not by its CMake package: Debian's asks for OpenCL, which the CPU part does not need.
  find_path(PC_ONEDNN_INCLUDE dnnl.h)
  find_library(PC_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(PC_ONEDNN_INCLUDE PC_ONEDNN_LIBRARY)
  set(PC_ONEDNN_FITS OFF) # 2.6 or a later 2.x: version 3 has another C interface
  if(PC_ONEDNN_INCLUDE AND EXISTS ${PC_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h)
    file(STRINGS ${PC_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h lines
      REGEX "#define DNNL_VERSION_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
    if(lines MATCHES "^2;([0-9]+)$" AND CMAKE_MATCH_1 GREATER_EQUAL 6)
      set(PC_ONEDNN_FITS ON)
    endif()
  endif()
  if(PC_ONEDNN_FITS AND PC_ONEDNN_LIBRARY)
    set(PC_HAVE_ONEDNN ON)
    add_library(DNNL::dnnl UNKNOWN IMPORTED GLOBAL)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${PC_ONEDNN_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES "${PC_ONEDNN_INCLUDE};${PC_GOMP_INCLUDE}")
  elseif(PC_WITH_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR
      "PC_WITH_ONEDNN=ON, but oneDNN 2.6 or a later 2.x was not found (Debian: libdnnl-dev)")
  endif()
endif()
message(STATUS "promptcache: oneDNN ${PC_HAVE_ONEDNN}")

# For the plug-in modules in C++.
include(CheckLanguage)
check_language(CXX)
macro(promptcache_use_cxx)
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endmacro()

set(PC_WITH_FAISS AUTO CACHE STRING "the memo's index through FAISS: AUTO, ON or OFF")
set_property(CACHE PC_WITH_FAISS PROPERTY STRINGS AUTO ON OFF)
set(PC_HAVE_FAISS OFF)
if(NOT PC_WITH_FAISS STREQUAL "OFF")
  # FAISS is not found by its CMake package, which looks for OpenMP and BLAS itself. BLAS is
  # whatever the system calls libblas. The reference BLAS has no threads; Debian's
  # libopenblas0-pthread starts some when it is loaded.
  find_path(PC_FAISS_INCLUDE faiss/impl/HNSW.h)
  find_library(PC_FAISS_LIBRARY faiss)
  find_library(PC_BLAS_LIBRARY blas)
  find_library(PC_LAPACK_LIBRARY lapack)
  mark_as_advanced(PC_FAISS_INCLUDE PC_FAISS_LIBRARY PC_BLAS_LIBRARY PC_LAPACK_LIBRARY)
  set(PC_FAISS_FITS OFF) # 1.7.3 or a later 1.7: the graph's functions have other arguments later
  if(PC_FAISS_INCLUDE AND EXISTS ${PC_FAISS_INCLUDE}/faiss/Index.h)
    file(STRINGS ${PC_FAISS_INCLUDE}/faiss/Index.h lines
      REGEX "#define FAISS_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
    if(lines MATCHES "^1;7;([0-9]+)$" AND CMAKE_MATCH_1 GREATER_EQUAL 3)
      set(PC_FAISS_FITS ON)
    endif()
  endif()
  if(PC_FAISS_FITS AND PC_FAISS_LIBRARY AND PC_BLAS_LIBRARY AND PC_LAPACK_LIBRARY
      AND CMAKE_CXX_COMPILER)
    set(PC_HAVE_FAISS ON)
    promptcache_use_cxx()
    set(PC_FAISS_LIBRARIES ${PC_FAISS_LIBRARY} ${PC_LAPACK_LIBRARY} ${PC_BLAS_LIBRARY} gomp stdc++)
  elseif(PC_WITH_FAISS STREQUAL "ON")
    message(FATAL_ERROR "PC_WITH_FAISS=ON, but FAISS 1.7.3 or a later 1.7, BLAS, LAPACK and a C++ "
      "compiler were not all found (Debian: libfaiss-dev, g++)")
  endif()
endif()
message(STATUS "promptcache: FAISS ${PC_HAVE_FAISS}")

# XGrammar 0.2, a static library of position-independent code with its headers, as its own
# `cmake --install` leaves them (tools/setup.sh --tests makes one in build/xgrammar).
set(PC_WITH_XGRAMMAR AUTO CACHE STRING "grammars of answers through XGrammar: AUTO, ON or OFF")
set_property(CACHE PC_WITH_XGRAMMAR PROPERTY STRINGS AUTO ON OFF)
set(PC_XGRAMMAR "" CACHE PATH "folder into which XGrammar was installed; empty: build/xgrammar of \
these sources, or where the system has such things")
set(PC_HAVE_XGRAMMAR OFF)
if(NOT PC_WITH_XGRAMMAR STREQUAL "OFF")
  set(places)
  if(PC_XGRAMMAR)
    set(places NO_DEFAULT_PATH)
  endif()
  # Looked for anew each time: another folder may be named, or it was made since.
  unset(PC_XGRAMMAR_INCLUDE CACHE)
  unset(PC_XGRAMMAR_LIBRARY CACHE)
  find_path(PC_XGRAMMAR_INCLUDE xgrammar/matcher.h
    HINTS ${PC_XGRAMMAR} ${PROJECT_SOURCE_DIR}/build/xgrammar PATH_SUFFIXES include ${places})
  find_library(PC_XGRAMMAR_LIBRARY NAMES libxgrammar.a xgrammar
    HINTS ${PC_XGRAMMAR} ${PROJECT_SOURCE_DIR}/build/xgrammar PATH_SUFFIXES lib lib64 ${places})
  mark_as_advanced(PC_XGRAMMAR_INCLUDE PC_XGRAMMAR_LIBRARY)
  set(PC_XGRAMMAR_FITS OFF) # the installed headers name no version; these functions are of 0.2
  if(PC_XGRAMMAR_INCLUDE AND EXISTS ${PC_XGRAMMAR_INCLUDE}/dlpack/dlpack.h)
    file(STRINGS ${PC_XGRAMMAR_INCLUDE}/xgrammar/matcher.h lines
      REGEX "GrammarMatcher Fork\\(\\) const|bool IsCompleted\\(\\) const")
    list(LENGTH lines found)
    if(found EQUAL 2)
      set(PC_XGRAMMAR_FITS ON)
    endif()
  endif()
  if(PC_XGRAMMAR_FITS AND PC_XGRAMMAR_LIBRARY AND CMAKE_CXX_COMPILER)
    set(PC_HAVE_XGRAMMAR ON)
    promptcache_use_cxx()
  elseif(PC_XGRAMMAR OR PC_WITH_XGRAMMAR STREQUAL "ON")
    message(FATAL_ERROR "XGrammar 0.2 and a C++ compiler were not both found: name \
the folder into which it was installed, -DPC_XGRAMMAR=FOLDER (tools/setup.sh --tests makes one)")
  endif()
endif()
message(STATUS "promptcache: XGrammar ${PC_HAVE_XGRAMMAR}")

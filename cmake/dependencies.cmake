# Outside libraries. Required: expat, jansson, PCRE2, utf8proc, zstd is for the store's tiers, xxHash and libsodium for digests. Each optional
# one is found automatically; -DPC_WITH_X=OFF leaves it out, =ON makes its absence an error.
find_package(PkgConfig REQUIRED)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON) # a project around this one links the static library against them
find_package(Threads REQUIRED)

pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET GLOBAL expat)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET GLOBAL jansson)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET GLOBAL libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET GLOBAL libutf8proc)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET GLOBAL libsodium)

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
    file(STRINGS ${PC_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h lines REGEX "#define DNNL_VERSION_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
    if(lines MATCHES "^2;([0-9]+)$" AND CMAKE_MATCH_1 GREATER_EQUAL 6)
      set(PC_ONEDNN_FITS ON)
    endif()
  endif()
  if(PC_ONEDNN_FITS AND PC_ONEDNN_LIBRARY)
    set(PC_HAVE_ONEDNN ON)
    add_library(DNNL::dnnl UNKNOWN IMPORTED GLOBAL)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${PC_ONEDNN_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${PC_ONEDNN_INCLUDE})
  elseif(PC_WITH_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "PC_WITH_ONEDNN=ON, but oneDNN 2.6 or a later 2.x was not found (Debian: libdnnl-dev)")
  endif()
endif()
message(STATUS "promptcache: oneDNN ${PC_HAVE_ONEDNN}")

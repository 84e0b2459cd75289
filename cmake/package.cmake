# Packages by cpack: a tarball of the sources (cpack --config CPackSourceConfig.cmake), and .deb
# packages, one for each component of cmake/install.cmake. tools/packages.sh makes and tries both;
# doc/packages.md describes them.
if(NOT PC_INSTALL)
  return()
endif()
set(CPACK_PACKAGE_NAME promptcache)
set(CPACK_PACKAGE_VENDOR "The promptcache authors")
set(CPACK_PACKAGE_CONTACT "The promptcache authors <authors@promptcache.invalid>" CACHE STRING
  "who maintains the packages, as a name and an address")
mark_as_advanced(CPACK_PACKAGE_CONTACT)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

# Everything in the folder of the sources goes in: tools/packages.sh takes a clean export.
set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME promptcache-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "/\\.git/" "^${PROJECT_SOURCE_DIR}/build[^/]*/" "/__pycache__/")

# The packages. The library's name has the number of its binary interface.
set(library libpromptcache${PC_HEADER_ABI_VERSION})
set(CPACK_COMPONENTS_ALL library development documents)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpromptcache-dev)
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_NAME promptcache-doc)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME promptcache)
if(TARGET promptcache_program)
  list(APPEND CPACK_COMPONENTS_ALL program)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 0upstream1) # a package of Debian's own would be a later one
set(exact "= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # a program needs at least this version
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR} ${CUDAToolkit_LIBRARY_DIR})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/finish.cmake)

set(about "promptcache lets an LLM runtime stop computing attention state twice.
Prompts are written from named modules; the keys and values of a module
are computed once and reused in every prompt, in memory, on disk or on a
server.
.
This package has ")
# promptcache_deb(COMPONENT SECTION "summary" "text")
macro(promptcache_deb component section summary text)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${about}${text}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${about}${text}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS OFF)
endmacro()

promptcache_deb(library libs "reuse of attention states for LLM runtimes"
  "the shared library.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
promptcache_deb(development libdevel "reuse of attention states for LLM runtimes (development)"
  "the headers for C and C++, the static library, and the
description of the interface for bindings.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (${exact})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS promptcache-doc)
# What the static library needs. With PC_STATIC_MODULES=OFF it loads plug-in modules, too.
string(JOIN ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS libexpat1-dev libjansson-dev
  libpcre2-dev libsodium-dev libutf8proc-dev libzstd-dev)
promptcache_deb(program utils "reuse of attention states of LLM prompts: programs"
  "the programs promptcache, which answers prompts and
looks after caches and models, and promptcache-bench.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON) # which leaves out what the same build makes
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${library} (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS promptcache-doc)
promptcache_deb(documents doc "reuse of attention states for LLM runtimes (documentation)"
  "the pages, the examples, and a small demo model.")
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_ARCHITECTURE all)

# A plug-in module belongs to one build of the library. Without them it computes all the same, but
# for the tier REMOTE: that of linear layers is recommended, since it makes these faster.
set(about_onednn "linear layers by oneDNN")
set(about_faiss "indexes of memos by FAISS")
set(about_remote "caches on Redis and Valkey servers")
set(about_xgrammar "grammars of answers, by XGrammar")
set(about_cuda "the backend for NVIDIA GPUs. It needs NVIDIA's driver and cuBLASLt")
set(suggested)
foreach(module IN LISTS PC_MODULES_INSTALLED)
  list(APPEND CPACK_COMPONENTS_ALL ${module})
  string(TOUPPER ${module} upper)
  promptcache_deb(${module} libs "reuse of attention states for LLM runtimes (${module} module)"
    "a plug-in module of the library:\n${about_${module}}.")
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${library}-${module})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${library} (${exact})")
  if(module STREQUAL "onednn")
    set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS ${library}-${module})
  else()
    list(APPEND suggested ${library}-${module})
  endif()
endforeach()
list(JOIN suggested ", " CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS)

# For packaging/debian/finish.cmake.
set(CPACK_PROMPTCACHE_DEBIAN ${PROJECT_SOURCE_DIR}/packaging/debian)
set(CPACK_PROJECT_CONFIG_FILE)
include(CPack)

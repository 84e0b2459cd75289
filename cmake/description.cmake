# The description of the public interface for generators of bindings (doc/abi.md, "Bindings"), in
# BUILD/api. It is made anew whenever a header changes, and is not kept in the repository: two
# changes of the headers would conflict there.
if(NOT PROJECT_IS_TOP_LEVEL AND NOT PC_INSTALL)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_Interpreter_FOUND)
  message(STATUS "promptcache: no Python: promptcache.json and the texts for cffi are not made")
  return()
endif()
set(PC_DESCRIPTION)
foreach(file promptcache.json promptcache.cdef.h promptcache-bench.cdef.h)
  list(APPEND PC_DESCRIPTION ${CMAKE_CURRENT_BINARY_DIR}/api/${file})
endforeach()
set(describe ${PROJECT_SOURCE_DIR}/test/abi/describe.py)
file(GLOB described CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/promptcache/*.h)
add_custom_command(OUTPUT ${PC_DESCRIPTION}
  COMMAND Python3::Interpreter ${describe} ${PROJECT_SOURCE_DIR}/include/promptcache.h
          ${CMAKE_CURRENT_BINARY_DIR}/api
  DEPENDS ${describe} ${PROJECT_SOURCE_DIR}/test/abi/public_header.py
          ${PROJECT_SOURCE_DIR}/include/promptcache.h ${described}
  COMMENT "description of the public interface" VERBATIM)
add_custom_target(promptcache_description ALL DEPENDS ${PC_DESCRIPTION})

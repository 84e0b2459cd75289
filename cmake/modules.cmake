# Plug-in modules (lib/base/module.h): what identifies a build, and how one is made.

# Folders of which modules may have copies.
set(sources)
foreach(folder base attn store memo)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    lib/${folder}/*.c lib/${folder}/*.h lib/${folder}/*.cpp)
  list(APPEND sources ${found})
endforeach()
list(APPEND sources include/promptcache.h include/promptcache/grammar.h
  lib/text/grammar_engine.h lib/text/grammar_xgrammar.cpp)
list(SORT sources)
list(JOIN sources "\n" lines)
set(PC_MODULE_BUILD ${PROJECT_BINARY_DIR}/module_build.c)
file(CONFIGURE OUTPUT ${PC_MODULE_BUILD}.list CONTENT "${lines}\n" @ONLY)
list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/)
add_custom_command(OUTPUT ${PC_MODULE_BUILD}
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DLIST=${PC_MODULE_BUILD}.list
    -DVERSION=${PROJECT_VERSION} "-DCOMPILED=${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_C_COMPILER_ID} \
${CMAKE_C_COMPILER_VERSION} $<CONFIG> ${PC_SANITIZE}"
    -DOUT=${PC_MODULE_BUILD} -P ${PROJECT_SOURCE_DIR}/cmake/module_build.cmake
  DEPENDS ${sources} ${PC_MODULE_BUILD}.list ${PROJECT_SOURCE_DIR}/cmake/module_build.cmake
  COMMENT "The build that plug-in modules must be of" VERBATIM)

option(PC_STATIC_MODULES "the static library, and tests of its folders, have the plug-in modules \
linked in; otherwise they load them, too" ON)

# promptcache_module(NAME SOURCES files… [USES archives…] [LINKS libraries…] [INCLUDES folders…]
#   [DEFINES definitions…]) makes of the sources, which define pc__module_NAME:
#   promptcache_NAME         libpromptcache_NAME.so, with hidden copies of what it takes from USES
#   promptcache_NAME_linked  an archive for tests of the folder that the module belongs to: they
#                            have it linked in, or load it (PC_STATIC_MODULES)
#   promptcache_NAME_inside, promptcache_NAME_apart
#                            objects that define pc__linked_NAME: the module, or NULL
function(promptcache_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS;INCLUDES;DEFINES" ${ARGN})
  set(target promptcache_${name})
  add_library(${target}_objects OBJECT EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_compile_definitions(${target}_objects PRIVATE PC_BUILDING ${ARG_DEFINES})
  target_include_directories(${target}_objects PRIVATE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/lib)
  target_include_directories(${target}_objects SYSTEM PRIVATE ${ARG_INCLUDES})
  target_link_libraries(${target}_objects PRIVATE promptcache_flags ${ARG_LINKS})

  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: pc__module_${name}; local: *; };\n" @ONLY)
  set(PC_MODULE_LINKS_${name} ${ARG_LINKS} PARENT_SCOPE) # what a library with it inside needs
  add_library(${target} MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}_objects>)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script} LINKER_LANGUAGE C)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--exclude-libs,ALL
    -Wl,--as-needed) # the archives name libraries that this module may not use
  if(NOT PC_SANITIZE) # some compilers leave the sanitizers' functions to the program
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(${target} PRIVATE promptcache_flags ${ARG_USES} ${ARG_LINKS} m)

  set(PC_MODULE ${name})
  foreach(place inside apart)
    set(PC_LINKED NULL)
    if(place STREQUAL "inside")
      set(PC_LINKED "&pc__module_${name}")
    endif()
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_${place}.c)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/module_linked.c.in ${source} @ONLY)
    add_library(${target}_${place} OBJECT EXCLUDE_FROM_ALL ${source})
    target_include_directories(${target}_${place} PRIVATE ${PROJECT_SOURCE_DIR}/lib)
    target_link_libraries(${target}_${place} PRIVATE promptcache_flags)
  endforeach()
  set(place apart)
  if(PC_STATIC_MODULES)
    set(place inside)
  endif()
  add_library(${target}_linked STATIC EXCLUDE_FROM_ALL
    $<TARGET_OBJECTS:${target}_objects> $<TARGET_OBJECTS:${target}_${place}>)
  target_link_libraries(${target}_linked PUBLIC ${ARG_USES} ${ARG_LINKS})
  set_target_properties(${target}_linked PROPERTIES LINKER_LANGUAGE C)
endfunction()

# The reference of the public headers, by doxygen: HTML and man pages in BUILD/reference.
#   cmake --build BUILD --target promptcache_reference
find_program(PC_DOXYGEN doxygen)
mark_as_advanced(PC_DOXYGEN)
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT PC_DOXYGEN OR NOT Python3_Interpreter_FOUND)
  return()
endif()
configure_file(doc/reference/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
add_custom_target(promptcache_reference COMMAND ${PC_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
  COMMENT "reference of the headers: ${PROJECT_BINARY_DIR}/reference" VERBATIM)
if(PC_INSTALL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/reference/man/man3
    DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT documents OPTIONAL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/reference/html
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents OPTIONAL)
endif()

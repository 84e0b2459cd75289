# Installs header, libraries, program, pkg-config file, CMake package (promptcache::promptcache, promptcache::static), documents and the demo.
option(PC_INSTALL "install rules (off by default inside of another project)" ${PROJECT_IS_TOP_LEVEL})
if(NOT PC_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(FILES include/promptcache.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS promptcache promptcache_static
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET promptcache_program)
  file(RELATIVE_PATH to_library ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(promptcache_program PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
  install(TARGETS promptcache_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The folder that was installed may be moved: both files find it from where they stand themselves.
file(RELATIVE_PATH PC_FROM_PKGCONFIG ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PC_FROM_PKGCONFIG "${PC_FROM_PKGCONFIG}")
foreach(what LIBDIR INCLUDEDIR) # a packager may have given absolute ones
  set(PC_${what} ${CMAKE_INSTALL_${what}})
  if(NOT IS_ABSOLUTE "${PC_${what}}")
    set(PC_${what} "\${prefix}/${PC_${what}}")
  endif()
endforeach()
set(PC_STATIC_LIBS "-lpthread -lm")
if(PC_HAVE_ONEDNN)
  set(PC_STATIC_LIBS "-ldnnl -lgomp ${PC_STATIC_LIBS}")
endif()
if(PC_HAVE_FAISS)
  set(PC_STATIC_LIBS "-lfaiss -llapack -lblas -lgomp -lstdc++ ${PC_STATIC_LIBS}")
endif()
set(PC_PKGCONFIG_REMOTE "")
if(PC_HAVE_HIREDIS)
  string(APPEND PC_PKGCONFIG_REMOTE " hiredis")
endif()
if(PC_HAVE_OPENSSL)
  string(APPEND PC_PKGCONFIG_REMOTE " openssl")
endif()
configure_file(pkgconfig/promptcache.pc.in promptcache.pc @ONLY)
configure_package_config_file(pkgconfig/promptcacheConfig.cmake.in promptcacheConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/promptcache
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/promptcache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/promptcache)

# As they lie in the tree, so that the pages find each other and their pictures.
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB pages doc/*.md doc/*.svg)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR}/doc)
file(GLOB sources examples/*.c examples/*.h)
install(FILES ${sources} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
file(GLOB pml examples/pml/*.pml)
install(FILES ${pml} DESTINATION ${CMAKE_INSTALL_DATADIR}/promptcache/pml)
install(FILES models/demo/demo.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/promptcache)

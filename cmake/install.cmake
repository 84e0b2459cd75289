# Installs header, libraries, pkg-config file and the CMake package (target promptcache::promptcache).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(FILES include/promptcache.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS promptcache promptcache_static
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(PC_STATIC_LIBS "-lpthread -lm")
if(PC_HAVE_ONEDNN)
  set(PC_STATIC_LIBS "-ldnnl -lgomp ${PC_STATIC_LIBS}")
endif()
configure_file(pkgconfig/promptcache.pc.in promptcache.pc @ONLY)
configure_package_config_file(pkgconfig/promptcacheConfig.cmake.in promptcacheConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/promptcache
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/promptcache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/promptcache)

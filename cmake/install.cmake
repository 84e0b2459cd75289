# Installs headers, libraries, programs with man pages and completion, pkg-config file, CMake
# package (promptcache::promptcache, promptcache::static), description of the interface, documents
# and the demo.
option(PC_INSTALL "install rules (off by default inside of another project)"
  ${PROJECT_IS_TOP_LEVEL})
if(NOT PC_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Every file belongs to a component, which is a package of cmake/package.cmake.
install(FILES include/promptcache.h include/promptcache.hpp include/promptcache_task.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(DIRECTORY include/promptcache DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN *.h)
install(TARGETS ${PC_LIBRARIES}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
foreach(module IN LISTS PC_MODULES_INSTALLED) # where lib/base/module.h looks for them
  install(TARGETS promptcache_${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/promptcache
    COMPONENT ${module})
endforeach()
if(TARGET promptcache_program)
  file(RELATIVE_PATH to_library ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(promptcache_program promptcache_bench PROPERTIES
    INSTALL_RPATH "$ORIGIN/${to_library}")
  install(TARGETS promptcache_program promptcache_bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    COMPONENT program)
  if(TARGET promptcache_manual)
    install(FILES ${PC_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  endif()
  foreach(name promptcache promptcache-bench) # bash loads the file that is called as the command
    install(FILES tools/completion/promptcache.bash RENAME ${name}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
  endforeach()
endif()

# The folder that was installed may be moved: both files find it from where they stand themselves.
file(RELATIVE_PATH PC_FROM_PKGCONFIG ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PC_FROM_PKGCONFIG "${PC_FROM_PKGCONFIG}")
foreach(what LIBDIR INCLUDEDIR DATADIR) # a packager may have given absolute ones
  set(PC_${what} ${CMAKE_INSTALL_${what}})
  if(NOT IS_ABSOLUTE "${PC_${what}}")
    set(PC_${what} "\${prefix}/${PC_${what}}")
  endif()
endforeach()
# The needs of the static library are listed as flags. If modules were named, pkg-config would ask
# for them, and hand their flags on, when somebody links the shared library. These libraries are
# linked as shared ones. An application that wants no shared library adds their own needs itself.
set(PC_PACKAGES expat jansson libpcre2-8 libutf8proc libsodium libzstd)
set(static_flags ${EXPAT_LDFLAGS} ${JANSSON_LDFLAGS} ${PCRE2_LDFLAGS} ${UTF8PROC_LDFLAGS}
  ${SODIUM_LDFLAGS} ${ZSTD_LDFLAGS})
if(PC_HAVE_HIREDIS AND PC_STATIC_MODULES)
  list(APPEND PC_PACKAGES hiredis)
  list(APPEND static_flags ${HIREDIS_LDFLAGS})
endif()
if(PC_HAVE_OPENSSL AND PC_STATIC_MODULES)
  list(APPEND PC_PACKAGES openssl)
  list(APPEND static_flags ${PC_TLS_LDFLAGS})
endif()
if(PC_HAVE_FAISS AND PC_STATIC_MODULES)
  list(APPEND static_flags -lfaiss -llapack -lblas -lgomp -lstdc++)
endif()
if(PC_HAVE_ONEDNN AND PC_STATIC_MODULES)
  list(APPEND static_flags -ldnnl -lgomp)
endif()
list(APPEND static_flags -lpthread -ldl -lm)
list(REVERSE static_flags) # of two equal ones the last counts
list(REMOVE_DUPLICATES static_flags)
list(REVERSE static_flags)
list(JOIN static_flags " " static_flags)
list(JOIN PC_PACKAGES " " PC_PACKAGES)
if(PC_SHARED)
  set(PC_PKGCONFIG_LIBS "Libs: -L\${libdir} -lpromptcache\nLibs.private: ${static_flags}")
else()
  set(PC_PKGCONFIG_LIBS "Libs: -L\${libdir} -lpromptcache ${static_flags}")
endif()
configure_file(pkgconfig/promptcache.pc.in promptcache.pc @ONLY)
configure_package_config_file(pkgconfig/promptcacheConfig.cmake.in promptcacheConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/promptcache
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/promptcache.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/promptcacheConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/promptcache COMPONENT development)
install(FILES ${PC_DESCRIPTION} DESTINATION ${CMAKE_INSTALL_DATADIR}/promptcache
  COMPONENT development)

# As they lie in the tree, so that the pages find each other and their pictures.
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
file(GLOB pages doc/*.md doc/*.svg)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR}/doc COMPONENT documents)
file(GLOB sources examples/*.c examples/*.h examples/*.cpp)
install(FILES ${sources} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT documents)
file(GLOB pml examples/pml/*.pml)
install(FILES ${pml} DESTINATION ${CMAKE_INSTALL_DATADIR}/promptcache/pml COMPONENT documents)
install(FILES models/demo/demo.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/promptcache
  COMPONENT documents)

# A port of promptcache, in vcpkg's form. It takes the tarball of the sources from beside itself
# (tools/packages.sh makes it). Nobody has built it by vcpkg yet (doc/packages.md).
vcpkg_extract_source_archive(SOURCE_PATH
  ARCHIVE "${CURRENT_PORT_DIR}/promptcache-${VERSION}.tar.gz")

vcpkg_check_features(OUT_FEATURE_OPTIONS features
  FEATURES tools PC_BUILD_TOOLS)
set(remote OFF)
if("remote" IN_LIST FEATURES)
  set(remote ON)
endif()

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features}
    -DPC_WITH_HIREDIS=${remote} -DPC_WITH_OPENSSL=${remote}
    -DPC_WITH_ONEDNN=OFF -DPC_WITH_FAISS=OFF -DPC_WITH_CUDA=OFF
    -DPC_BUILD_TESTS=OFF -DPC_BUILD_EXAMPLES=OFF -DPC_BUILD_BINDINGS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME promptcache CONFIG_PATH lib/cmake/promptcache)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES promptcache promptcache-bench AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

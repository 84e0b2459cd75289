# Writes the version and the build for base/module.h. The build is a digest of the sources of which
# plug-in modules have copies, and of how they are compiled: equal sources give equal builds,
# wherever they lie.
#   cmake -DROOT=… -DLIST=… -DVERSION=… -DCOMPILED=… -DOUT=… -P module_build.cmake
file(STRINGS ${LIST} sources)
set(text "${VERSION} ${COMPILED}")
foreach(source IN LISTS sources)
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND text "\n${source} ${digest}")
endforeach()
string(SHA256 build "${text}")
string(SUBSTRING ${build} 0 16 build)
file(WRITE ${OUT} "/* Written by cmake/module_build.cmake. */
#include \"base/module.h\"

const char pc__module_version[] = \"${VERSION}\";
const char pc__module_build[] = \"${build}\";
")

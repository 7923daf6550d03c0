# CMAKE_PROJECT_INCLUDE of packaging/build-web: compiled by emscripten for WebAssembly. Headers of the libraries come from the system, and no
# other header of the system may be found; libyaml is compiled from its source, in ZPLAN_LIBYAML_SOURCE.
enable_language(C)
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)  # where Debian keeps the libraries' descriptions
foreach(what PACKAGE INCLUDE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${what} BOTH)
endforeach()
set(headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(header fmt/core.h nlohmann/json.hpp CLI/CLI.hpp eigen3/Eigen/Core toml++/toml.h)
  find_file(found_${header} ${header} PATHS /usr/include /usr/local/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  string(REGEX REPLACE "/.*" "" library ${header})
  string(REPLACE "/${header}" "" folder ${found_${header}})
  file(CREATE_LINK ${folder}/${library} ${headers}/${library} SYMBOLIC)
  list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES ${folder})
endforeach()
include_directories(SYSTEM ${headers} ${headers}/eigen3)
# fmt's own description is refused where pointers have another size than the system's, which its headers do not care for.
set(fmt_DIR ${CMAKE_BINARY_DIR}/fmt CACHE PATH "" FORCE)
file(WRITE ${fmt_DIR}/fmt-config.cmake "add_library(fmt::fmt-header-only INTERFACE IMPORTED)
set_target_properties(fmt::fmt-header-only PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)\n")
set(ZPLAN_FMT fmt::fmt-header-only CACHE STRING "")
set(ZPLAN_TOMLPP_INCLUDE ${headers} CACHE PATH "")
set(ZPLAN_CURL_INCLUDE ZPLAN_CURL_INCLUDE-NOTFOUND CACHE PATH "")

set(yaml ${ZPLAN_LIBYAML_SOURCE})
add_library(zplan_yaml STATIC ${yaml}/src/api.c ${yaml}/src/parser.c ${yaml}/src/reader.c ${yaml}/src/scanner.c)
target_compile_definitions(zplan_yaml PRIVATE YAML_VERSION_MAJOR=0 YAML_VERSION_MINOR=2 YAML_VERSION_PATCH=5 "YAML_VERSION_STRING=\"0.2.5\"")
target_include_directories(zplan_yaml PUBLIC ${yaml}/include)
set(ZPLAN_LIBYAML_INCLUDE ${yaml}/include CACHE PATH "")
set(ZPLAN_LIBYAML zplan_yaml CACHE STRING "")

# The exceptions of WebAssembly itself: those in JavaScript, emscripten's own, take a call into it for each call that may throw.
add_compile_options(-fwasm-exceptions "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/shims.h>")
add_link_options(-fwasm-exceptions)

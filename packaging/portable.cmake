# CMAKE_PROJECT_INCLUDE of builds that run on other systems than this one: compiled by clang against the oldest glibc that is
# wanted (packaging/compiler), with nothing linked but that glibc and libyaml's archive, which is C. Headers of the libraries come from
# the system, and no other header of the system may be found: naming /usr/include as implicit keeps CMake from adding it.
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)  # where Debian keeps the libraries' descriptions
set(headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(header fmt/core.h nlohmann/json.hpp CLI/CLI.hpp eigen3/Eigen/Core toml++/toml.h yaml.h curl/curl.h)
  find_file(found_${header} ${header} REQUIRED)
  string(REGEX REPLACE "/.*" "" library ${header})
  string(REPLACE "/${header}" "" folder ${found_${header}})
  file(CREATE_LINK ${folder}/${library} ${headers}/${library} SYMBOLIC)
  list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES ${folder})
endforeach()
include_directories(SYSTEM ${headers} ${headers}/eigen3)
set(ZPLAN_FMT fmt::fmt-header-only CACHE STRING "")
set(ZPLAN_LIBYAML_INCLUDE ${headers} CACHE PATH "")
set(ZPLAN_TOMLPP_INCLUDE ${headers} CACHE PATH "")
set(ZPLAN_CURL_INCLUDE ${headers} CACHE PATH "")
find_library(ZPLAN_LIBYAML libyaml.a REQUIRED)

# What is built says nothing of where: neither paths nor the order of a folder's files.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,-s)

#!/bin/sh
# The stand-in for CUDA's runtime and driver: build_stand_in.sh PYTHON FOLDER. Headers come with that Python's torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=${CUDA_INCLUDE:-$("$1" -c 'import glob, sysconfig; print(glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/cu*/include")[0])')}
mkdir -p "$2"
cc -shared -fPIC -w -I"$include" -o "$2/libnullcuda.so" "$here/null_cuda.c"
cc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$2/libcuda.so.1" "$here/null_driver.c"

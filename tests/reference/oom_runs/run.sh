#!/bin/sh
# Python on the null GPU with a limit: NULLCUDA_MEM (bytes), NULLCUDA_TAKEN (bytes held outside PyTorch), NULLNVML_OTHERS.
D=$(cd "$(dirname "$0")" && pwd); X=; [ -n "$WITH_NVML" ] && X=$D/nvml:
export LD_LIBRARY_PATH=$X$D/shim:$LD_LIBRARY_PATH LD_PRELOAD=$D/shim/libnullcuda.so HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 DS_ACCELERATOR=cuda DS_SKIP_CUDA_CHECK=1 MALLOC_MMAP_THRESHOLD_=1048576 CUDA_HOME=/usr/local/cuda-13.0 TORCH_CUDA_ARCH_LIST=8.0
exec ${PY:-python3} "$@"

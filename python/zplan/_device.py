"""What a GPU and PyTorch's allocator say of their memory, in bytes. Reads counters alone: nothing is stopped or computed."""
from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, List, Optional


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of NVML's version 3 calls."""

    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


_UNKNOWN = 2**64 - 1


class Nvml:
    """NVML's figure of this process on one GPU. Not there without a driver."""

    def __init__(self, uuid: str) -> None:
        self._library: Any = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        if self._library.nvmlInit_v2() != 0 or self._library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device)) != 0:
            raise OSError("NVML does not know this GPU")

    def used_by_process(self) -> Optional[int]:
        """What this process holds on the device, its CUDA context included; None where NVML does not say."""
        count = ctypes.c_uint(256)
        found = (_Process * count.value)()
        if self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._device, ctypes.byref(count), found) != 0:
            return None
        # In a container pids are the host's: one process alone is this one all the same.
        ours = [each.used for each in found[: count.value] if each.pid == os.getpid() or count.value == 1]
        return sum(ours) if ours and _UNKNOWN not in ours else None


def open_nvml(uuid: str) -> Optional[Nvml]:
    try:
        return Nvml(uuid)
    except (OSError, AttributeError):
        return None


@dataclass
class Step:
    """One optimizer step: peaks are PyTorch's over it, `before` is what was allocated when it began."""

    number: int
    allocated_before: int
    peak_allocated: int
    peak_reserved: int
    seconds: float
    device_bytes: Optional[int] = None


class Device:
    """The GPU that this process trains on."""

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self.index: int = torch.cuda.current_device()
        properties = torch.cuda.get_device_properties(self.index)
        self.name: str = properties.name
        self.total: int = properties.total_memory
        self.compute_capability = f"{properties.major}.{properties.minor}"
        self._nvml = open_nvml("GPU-" + str(properties.uuid)) if hasattr(properties, "uuid") else None

    def available(self) -> int:
        """What this process may use: free, and what it has already."""
        free, _ = self._torch.cuda.mem_get_info(self.index)
        held = self._nvml.used_by_process() if self._nvml is not None else None
        return int(free + (held if held is not None else self._torch.cuda.memory_reserved(self.index)))

    def used(self) -> Optional[int]:
        """NVML's figure of this process; None where there is none."""
        return None if self._nvml is None else self._nvml.used_by_process()

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self.index)

    def start_peaks(self) -> int:
        """Peaks count from here on; returns what is allocated."""
        self._torch.cuda.reset_peak_memory_stats(self.index)
        return int(self._torch.cuda.memory_allocated(self.index))

    def peaks(self) -> List[int]:
        """Highest allocated and reserved bytes since."""
        return [int(self._torch.cuda.max_memory_allocated(self.index)), int(self._torch.cuda.max_memory_reserved(self.index))]

    def versions(self) -> dict[str, str]:
        """Of the libraries that decide over memory."""
        import importlib.metadata

        found = {}
        for name in ("torch", "transformers", "deepspeed", "accelerate", "peft", "zplan"):
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found

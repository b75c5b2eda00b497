"""How a process with tensors on a CPU gets its memory from the kernel."""

import ctypes


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed tensors for new ones, instead of returning it to the kernel.

    Every step frees and requests the same sizes; otherwise the kernel would clear every page of the large ones each
    time. Only glibc has this switch.
    """
    trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of glibc's malloc.h
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(trim_threshold, -1)
        mallopt(mmap_max, 0)

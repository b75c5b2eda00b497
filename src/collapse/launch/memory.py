"""How a process that works with tensors on a CPU asks the kernel for memory."""

import ctypes


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed tensors for the next ones, instead of returning it to the kernel.

    A step frees and asks for the same sizes again and again; otherwise the kernel clears every page of the large ones
    each time. Only glibc has this switch.
    """
    trim_threshold, mmap_max = -1, -4  # names of glibc's malloc.h
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(trim_threshold, -1)
        mallopt(mmap_max, 0)

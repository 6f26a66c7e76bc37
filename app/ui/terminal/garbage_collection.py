"""Runs Python's garbage collector when it does not delay the user.

Nearly all objects from the start live until the end. Collections that visit them again and again take a fifth of the
start and find nothing, so these objects are frozen. Most later objects are freed at once by reference counting. The
rest (the styles of a widget whose focus has changed, a worker and its task) lives for a turn or more, so that only a
full collection frees it. A full collection blocks the event loop for a time that grows with the number of unfrozen
objects. So it runs while the app is idle, and many surviving objects are frozen, which keeps each collection short.

`pause_collection` is called before anything else is imported.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

_THRESHOLDS = (2_000, 3, 1_000_000)
"""Thresholds of the three generations; only `_IdleCollection` collects the oldest."""

_INTERVAL_SECONDS = 0.25
"""Seconds between two checks whether the app is idle."""
_IDLE_CPU_SECONDS = 0.006
"""Seconds of CPU per interval below which the app is idle: the cursor blinks, at most a key was pressed."""
_MIN_YOUNG_COLLECTIONS_IDLE = 4
"""Young collections, each after 2,000 new objects, that make a full collection worthwhile."""
_MIN_YOUNG_COLLECTIONS_BUSY = 100
"""Young collections that require a full one even while the app is busy: a model may write for an hour."""
_MIN_OBJECTS_TO_FREEZE = 25_000
"""Number of objects surviving a full collection from which they are frozen."""
_LIBRARY_CACHES = (
    ("rich.cells", "cached_cell_len"),
    ("rich.style", "Style._add"),
    ("textual.strip", "Strip.render_ansi"),
    ("textual.filter", "ANSIToTruecolor.truecolor_style"),
    ("textual.geometry", "Region.overlaps"),
)
"""Caches of Rich and Textual, by module and name, with results for thousands of texts, styles and regions, of which
most are never used again."""
_ARENA_MAX = -8
_MMAP_THRESHOLD = -3
_MAPPED_BLOCK_BYTES = 128 * 1024
"""Bytes from which a block of memory is mapped separately, and so returned to the system when it is freed."""
_MIN_FREED_BYTES = 2 * 1024 * 1024
"""Bytes of newly freed memory in the allocator from which it is asked to return memory to the system."""


def pause_collection() -> None:
    """Disable garbage collection until `freeze_and_resume_idle_collection`."""
    gc.disable()


def freeze_and_resume_idle_collection(clear_caches: Callable[[], None] = lambda: None) -> None:
    """Enable garbage collection if it was paused; freeze the present objects, so that it never visits them again
    (https://docs.python.org/3/library/gc.html#gc.freeze).

    From then on, full collections run while the running event loop is idle.

    Args:
        clear_caches: Called before each full collection.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
        _IdleCollection(clear_caches).look_again()


def limit_glibc_free_memory() -> None:
    """Limit the free memory that glibc holds: see M_ARENA_MAX and M_MMAP_THRESHOLD in mallopt(3).

    By default glibc gives each new thread a separate heap, whose free memory the other threads cannot use. And once a
    large block such as the body of a request is freed, it allocates blocks of that size on the heap, where later
    blocks above a freed one keep it from being returned to the system.
    """
    if (library := _c_library()) is not None:
        library.mallopt(_ARENA_MAX, 1)
        library.mallopt(_MMAP_THRESHOLD, _MAPPED_BLOCK_BYTES)


def freeze_loaded_objects() -> None:
    """Freeze newly imported objects, so that the next full collection stays short; do nothing while paused."""
    if gc.isenabled():
        gc.collect(1)
        gc.freeze()


class _IdleCollection:
    """Collects garbage and returns memory to the system while an event loop is idle."""

    def __init__(self, clear_caches: Callable[[], None]) -> None:
        self._clear_caches = clear_caches
        self._cpu_seconds_before = 0.0
        self._young_collections_before = _count_young_collections()
        self._free_memory = _FreeMemory()

    def look_again(self) -> None:
        """Check again after the next interval."""
        self._cpu_seconds_before = time.thread_time()
        asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, self._collect_if_due)

    def _collect_if_due(self) -> None:
        is_idle = time.thread_time() - self._cpu_seconds_before < _IDLE_CPU_SECONDS
        is_due = _count_young_collections() - self._young_collections_before >= (
            _MIN_YOUNG_COLLECTIONS_IDLE if is_idle else _MIN_YOUNG_COLLECTIONS_BUSY
        )
        if is_due:
            self._clear_caches()
            _collect_and_freeze()
            self._young_collections_before = _count_young_collections()
        if is_idle:
            self._free_memory.give_back(at_once=is_due)
        self.look_again()


def _count_young_collections() -> int:
    """Return how many collections of the two young generations have run."""
    return sum(generation["collections"] for generation in gc.get_stats()[:2])


def _collect_and_freeze() -> None:
    """Clear caches of libraries, collect the garbage among unfrozen objects, and freeze the survivors if they are
    many."""
    for module, name in _LIBRARY_CACHES:
        if module in sys.modules:
            attrgetter(name)(sys.modules[module]).cache_clear()
    gc.collect()
    if len(gc.get_objects(generation=2)) > _MIN_OBJECTS_TO_FREEZE:
        gc.freeze()


class _FreeMemory:
    """Returns memory that glibc holds free to the system.

    See mallinfo2(3) and malloc_trim(3). musl returns memory by itself, and glibc before 2.33 does not report how much
    is free.
    """

    def __init__(self) -> None:
        self._free_bytes_before = 0
        """Bytes that were still free after memory was last returned."""

    def give_back(self, *, at_once: bool) -> None:
        """Return free memory to the system if it has grown much since the last time, or in any case if `at_once`."""
        library = _c_library()
        if library is not None and (
            at_once or library.mallinfo2().fordblks - self._free_bytes_before > _MIN_FREED_BYTES
        ):
            library.malloc_trim(0)
            self._free_bytes_before = library.mallinfo2().fordblks


@cache
def _c_library() -> Any:
    """Return the C library with `mallinfo2` and `malloc_trim`; None if it lacks them."""
    if sys.platform != "linux":
        return None
    # Imported late: the start has no time for it.
    import ctypes

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"

    class Mallinfo2(ctypes.Structure):
        _fields_: ClassVar = [(name, ctypes.c_size_t) for name in names.split()]

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2") or not hasattr(library, "malloc_trim"):
        return None
    library.mallinfo2.restype = Mallinfo2
    return library

"""Keeps Python's garbage collector out of the user's way.

Nearly all that is imported and built at the start stays until the end, so looking through it for garbage, again and
again as it grows, takes a fifth of the time and finds nothing: it is frozen. Most of what is made later is freed at
once. What is left for the collector (the styles of a widget whose focus has changed, a worker and its task) lives for
a turn or more, so only a full collection finds it. Such a collection holds up whatever comes meanwhile, for a time
that grows with all that is not frozen: so it comes when nothing happens, and if many objects have survived it, they
are frozen, too, so that none ever takes long.

It is called before anything else is imported.
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
"""New objects after which the youngest are looked at, and how many such looks until the next older ones are, too.
The oldest are looked at by `_IdleCollection` alone."""

_INTERVAL = 0.25
"""Seconds between two looks at whether nothing happens."""
_QUIET = 0.006
"""Seconds of CPU in such an interval below which nothing happens: a cursor blinks, at most a key was pressed."""
_WORTHWHILE = 4
"""Young collections since the last full one, each after 2,000 new objects, from which on another full one pays."""
_OVERDUE = 100
"""The number from which on a full collection runs even while the app is busy: a model may write for an hour."""
_MANY = 25_000
"""Objects that have survived a full collection from which on they are frozen."""
_CACHES = (
    ("rich.cells", "cached_cell_len"),
    ("rich.style", "Style._add"),
    ("textual.strip", "Strip.render_ansi"),
    ("textual.filter", "ANSIToTruecolor.truecolor_style"),
    ("textual.geometry", "Region.overlaps"),
)
"""Caches of Rich and Textual, by module and name, that keep results for thousands of texts, styles and regions. A
line of the status bar, the style of a link, a row that was scrolled by: most are never asked for again."""
_ARENA_MAX = -8
_MMAP_THRESHOLD = -3
_LARGE = 128 * 1024
"""Bytes from which on a block of memory is mapped by itself, and so given back as soon as it is freed."""
_LOOSE = 2 * 1024 * 1024
"""Bytes that the allocator holds free, beyond those that it could not give back, from which on it is asked to."""


def pause_collection() -> None:
    """Collect nothing until `resume_collection`."""
    gc.disable()


def resume_collection(clear_caches: Callable[[], None] = lambda: None) -> None:
    """Collect again if it was paused, without ever looking at present objects again
    (https://docs.python.org/3/library/gc.html#gc.freeze).

    From then on all garbage is collected whenever nothing happens in the running event loop.

    Args:
        clear_caches: Called before each full collection; drops what can be found again.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
        _IdleCollection(clear_caches).look_again()


def limit_free_memory() -> None:
    """Have the C library hold less free memory, as far as it is glibc: see M_ARENA_MAX and M_MMAP_THRESHOLD in
    mallopt(3).

    It would give each thread that comes later a heap of its own, and what lies free in one is of no use to another.
    And with the first large block that is freed, such as the body of a request, it would begin to take blocks of that
    size from the heap, where what lies above a freed one keeps it from being given back.
    """
    if (library := _c_library()) is not None:
        library.mallopt(_ARENA_MAX, 1)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


def freeze_loaded_objects() -> None:
    """Freeze what was just imported, unless collection is paused: the next full collection would be long."""
    if gc.isenabled():
        gc.collect(1)
        gc.freeze()


class _IdleCollection:
    """Collects all garbage, and gives memory back, while nothing happens in an event loop."""

    def __init__(self, clear_caches: Callable[[], None]) -> None:
        self._clear_caches = clear_caches
        self._spent = 0.0
        self._collected = _young_collections()
        self._free_memory = _FreeMemory()

    def look_again(self) -> None:
        """Look after the next interval."""
        self._spent = time.thread_time()
        asyncio.get_running_loop().call_later(_INTERVAL, self._look)

    def _look(self) -> None:
        quiet = time.thread_time() - self._spent < _QUIET
        collects = _young_collections() - self._collected >= (_WORTHWHILE if quiet else _OVERDUE)
        if collects:
            self._clear_caches()
            _collect()
            self._collected = _young_collections()
        if quiet:
            self._free_memory.give_back(at_once=collects)
        self.look_again()


def _young_collections() -> int:
    """How often only young objects were looked at so far."""
    return sum(generation["collections"] for generation in gc.get_stats()[:2])


def _collect() -> None:
    """Drop what libraries have cached, collect all garbage among objects that are not frozen, and freeze the
    survivors if they are many."""
    for module, name in _CACHES:
        if module in sys.modules:
            attrgetter(name)(sys.modules[module]).cache_clear()
    gc.collect()
    if len(gc.get_objects(generation=2)) > _MANY:
        gc.freeze()


class _FreeMemory:
    """Returns memory that glibc holds free to the system.

    See mallinfo2(3) and malloc_trim(3). musl gives memory back by itself, and a glibc before 2.33 does not say how
    much is free.
    """

    def __init__(self) -> None:
        self._left = 0
        """Bytes that were free after the last time that they were given back."""

    def give_back(self, *, at_once: bool) -> None:
        """Give it back to the system if there is much more than was left the last time, or in any case `at_once`."""
        library = _c_library()
        if library is not None and (at_once or library.mallinfo2().fordblks - self._left > _LOOSE):
            library.malloc_trim(0)
            self._left = library.mallinfo2().fordblks


@cache
def _c_library() -> Any:
    """The C library with `mallinfo2` and `malloc_trim`; None if it has them not."""
    if sys.platform != "linux":
        return None
    # Loaded where there is time for it.
    import ctypes

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"

    class Mallinfo2(ctypes.Structure):
        _fields_: ClassVar = [(name, ctypes.c_size_t) for name in names.split()]

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2") or not hasattr(library, "malloc_trim"):
        return None
    library.mallinfo2.restype = Mallinfo2
    return library

"""Garbage is collected, and memory given back, while nothing happens in the event loop, and at no other time."""

import ctypes
import subprocess
import sys

import pytest

PREPARED = """
import asyncio, gc, re, time, weakref
from pathlib import Path
from app.ui.terminal import garbage_collection

class Node:
    pass

def left_behind():
    # It has survived the young collections by the time that nothing refers to it any more.
    node = Node()
    node.self = node
    gc.collect(1)
    return weakref.ref(node)

def allocate():
    # As much as pays a collection.
    kept = [[] for _ in range(50_000)]

async def rest(gone):
    end = time.monotonic() + 60
    while not gone() and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return gone()
"""


def run(body: str) -> None:
    """Run a program, since what is frozen in a process stays so."""
    subprocess.run([sys.executable, "-c", f"{PREPARED}\n{body}"], check=True, timeout=100)


def test_garbage_is_collected_at_rest_only_and_never_that_of_the_start() -> None:
    run(
        "from rich.cells import cached_cell_len, cell_len\n"
        "from rich.color import ColorSystem\n"
        "from rich.style import Style\n"
        "from textual.filter import ANSIToTruecolor\n"
        "from textual.geometry import Region\n"
        "from textual.strip import Strip\n"
        "from rich.terminal_theme import MONOKAI\n"
        "async def main():\n"
        "    garbage_collection.pause_collection()\n"
        "    of_the_start = left_behind()\n"
        "    garbage_collection.freeze_and_resume_idle_collection()\n"
        "    link = Style.from_meta({'href': 'https://example.org'})\n"
        "    assert cell_len('a text') == 6\n"
        "    Strip.render_ansi(link, ColorSystem.TRUECOLOR)\n"
        "    ANSIToTruecolor(MONOKAI).truecolor_style(link, None)\n"
        "    Region(0, 0, 1, 1).overlaps(Region(0, 0, 2, 2))\n"
        "    link + link\n"
        "    caches = [\n"
        "        cached_cell_len, Style._add, Strip.render_ansi, ANSIToTruecolor.truecolor_style, Region.overlaps\n"
        "    ]\n"
        "    assert all(each.cache_info().currsize for each in caches)\n"
        "    node = left_behind()\n"
        "    allocate()\n"
        "    end, kept = time.monotonic() + 1.5, []\n"
        "    while time.monotonic() < end:\n"
        "        busy = time.thread_time() + 0.03\n"
        "        while time.thread_time() < busy:\n"
        "            pass\n"
        "        kept += [[] for _ in range(500)]\n"
        "        await asyncio.sleep(0)\n"
        "    assert node() is not None\n"
        "    assert await rest(lambda: node() is None)\n"
        "    assert await rest(lambda: not any(each.cache_info().currsize for each in caches))\n"
        "    kept = [[number] for number in range(1_000_000)]\n"
        "    assert await rest(lambda: gc.get_freeze_count() > 1_000_000), 'many live objects are frozen'\n"
        "    gc.collect()\n"
        "    assert of_the_start() is not None\n"
        "asyncio.run(main())"
    )


ONLY_GLIBC = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="only glibc keeps free memory, and has these settings",
)


@ONLY_GLIBC
def test_free_memory_is_given_back_at_rest() -> None:
    run(
        "def kilobytes():\n"
        "    text = Path('/proc/self/smaps_rollup').read_text()\n"
        "    return int(re.search(r'^Anonymous: +([0-9]+)', text, re.M)[1])\n"
        "async def main():\n"
        "    garbage_collection.pause_collection()\n"
        "    garbage_collection.freeze_and_resume_idle_collection()\n"
        "    blocks = [bytearray(b'x') * 100_000 for _ in range(400)]\n"
        "    above = bytearray(b'x') * 100_000\n"
        "    full = kilobytes()\n"
        "    del blocks\n"
        "    assert kilobytes() > full - 10_000\n"
        "    end = time.monotonic() + 60\n"
        "    while kilobytes() > full - 30_000:\n"
        "        assert time.monotonic() < end\n"
        "        # Looking takes too long to be rest.\n"
        "        await asyncio.sleep(2)\n"
        "asyncio.run(main())"
    )


@ONLY_GLIBC
def test_large_blocks_are_returned_to_the_system_at_once_and_threads_share_a_heap() -> None:
    run(
        "import ctypes, tempfile, threading\n"
        "garbage_collection.limit_glibc_free_memory()\n"
        "library = garbage_collection._c_library()\n"
        "larger = bytearray(4_000_000)\n"
        "del larger\n"
        "before = library.mallinfo2().hblkhd\n"
        "large = bytearray(1_000_000)\n"
        "assert library.mallinfo2().hblkhd - before >= 1_000_000\n"
        "def hold(barrier):\n"
        "    kept = bytearray(10_000)\n"
        "    barrier.wait()\n"
        "barrier = threading.Barrier(4)\n"
        "threads = [threading.Thread(target=hold, args=[barrier]) for _ in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "barrier.wait()\n"
        "library = ctypes.CDLL(None)\n"
        "library.fopen.restype = ctypes.c_void_p\n"
        "with tempfile.NamedTemporaryFile() as file:\n"
        "    stream = ctypes.c_void_p(library.fopen(file.name.encode(), b'w'))\n"
        "    library.malloc_info(0, stream)\n"
        "    library.fclose(stream)\n"
        "    assert Path(file.name).read_text().count('<heap nr=') == 1\n"
    )

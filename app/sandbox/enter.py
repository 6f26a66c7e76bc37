"""The program between signoff and a command: makes namespaces and mounts as it is told, then runs the command.

Started as `python -I -S enter.py REPORT PARENT STEP [ARGUMENT...] ... -- PROGRAM ARGUMENT...`, where the steps are
the functions in `_STEPS`. It imports next to nothing, since a user waits for it.

There are three processes. The *watcher* is what signoff started, and ends. The *first* of the PID namespace takes
all others of it along when it ends; the kernel sees to that. The third is the command. Each dies with the one above
it, so nothing outlives signoff, whatever ends that. Where there can be no namespaces, there are watcher and command,
and the watcher inherits and ends whatever the command leaves behind.

To the descriptor REPORT goes one line at the end: `exit STATUS LEFT`, with the wait status and whether anything was
still running, or `failed STEP ERRNO`. SIGUSR1 ends everything at once; SIGTERM is for the command alone. SIGUSR2
has the overlay look anew at the folders that it is made of, which somebody has changed from outside; each time a line
`fresh ERRNO` says that it has. SIGRTMIN has everything in the namespace stand still, and the signal after it has it
go on; lines `still ERRNO` and `going ERRNO` say so.

Kept whole: it is started as one file, by itself.
"""

import ctypes
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    # Without the enums of `signal`, which take as long as all the rest.
    import _signal as signal

_LIBC = ctypes.CDLL(None, use_errno=True)

_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 8, 32, 4096, 16384, 1 << 18
_NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000
"""User, mount, PID and IPC."""
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 442, 444, 445, 446
"""System calls; numbers from 424 on are the same on all architectures."""
_READ_ONLY, _ALL_BELOW = 1, 0x8000
_STAND_STILL, _GO_ON = signal.SIGRTMIN, signal.SIGRTMIN + 1
_AWAITED = {signal.SIGUSR1, signal.SIGUSR2, _STAND_STILL, _GO_ON, signal.SIGCHLD}
_TRIES, _LOOKS, _PAUSE = 20, 50, 0.002
"""How often all is told to stand still, how often it is looked at each time, and the seconds between."""
_DEATH_SIGNAL, _DROP_BOUNDING, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 24, 36, 38
_LANDLOCK_WRITES = 0x1FF2
"""What Landlock's first version knows of writing: file contents, and making and removing each kind of name."""
_LANDLOCK_FILE = 0x2
_REFER, _TRUNCATE = 0x2000, 0x4000
"""Came with its second and third version: moving between folders, cutting off."""
_ABSTRACT_SOCKETS, _SIGNALS_INSIDE = 0x1, 0x2
"""Came with its sixth: neither go to anybody outside, such as signals to the watcher, which ends what is left."""


def main(arguments: list[str]) -> int:
    """Do the steps, run the program, report."""
    report, parent = int(arguments[0]), int(arguments[1])
    split = arguments.index("--")
    steps, program = [os.fsencode(each) for each in arguments[2:split]], arguments[split + 1 :]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    # The command must not write there, whatever the number of the descriptor.
    os.set_inheritable(report, False)
    step = "steps"
    try:
        at = 0
        while at < len(steps):
            step = os.fsdecode(steps[at])
            work = _STEPS[step]
            count = work.__code__.co_argcount
            work(*steps[at + 1 : at + 1 + count])
            at += 1 + count
        step = "start"
        status, left = _run(program, parent, report, isolated=b"namespaces" in steps)
    except OSError as error:
        os.write(report, f"failed {step} {error.errno or 0}\n".encode())
        return 125
    os.write(report, f"exit {status} {int(left)}\n".encode())
    return 0


# The steps


def _namespaces() -> None:
    """New ones, with the same user and group inside."""
    user, group = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(_NEW_NAMESPACES))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _mount(None, b"/", None, _PRIVATE | _RECURSIVE)


def _read_only() -> None:
    """Let nothing be written anywhere; a later step takes that back for single mounts."""
    _set_attributes(b"/", _READ_ONLY, 0, _ALL_BELOW)


def _writable(path: bytes) -> None:
    """Make a path a mount of its own, and let it be written to."""
    _mount(path, path, None, _BIND | _RECURSIVE)
    _let_write(path)


def _keep(path: bytes) -> None:
    """Open a path for later steps: by then something else may be mounted over it. One that is gone is passed over."""
    try:
        _kept[path] = os.open(path, os.O_PATH)
    except FileNotFoundError:
        return


def _overlay(root: bytes, upper: bytes, work: bytes) -> None:
    """Lay a folder over another one's own path."""
    _mount_overlay(root, upper, work)
    _below.append(_kept[root])
    _overlays.append(root)


def _cache_layer(cache: bytes, upper: bytes, work: bytes) -> None:
    """The same for a cache of the user's, which no later step asks for."""
    _mount_overlay(cache, upper, work)


def _cover(target: bytes, instead: bytes) -> None:
    """Show another folder at a path, and let it be written to."""
    _make_mount_point(target, is_folder=True)
    _mount(_kept_path(instead), target, None, _BIND)
    _let_write(target)


def _memory(target: bytes) -> None:
    """Show an empty folder at a path that lies in memory."""
    _mount(b"tmpfs", target, b"tmpfs", _NOSUID | _NODEV, b"mode=1777,size=50%")


def _show(path: bytes, mode: bytes) -> None:
    """Show a path that was kept where it was, though something covers it; one that was gone stays so."""
    if path not in _kept:
        return
    _make_mount_point(path, is_folder=os.path.isdir(_kept_path(path)))
    _mount(_kept_path(path), path, None, _BIND | _RECURSIVE)
    if mode == b"read-only":
        _set_attributes(path, _READ_ONLY, 0, _ALL_BELOW)
    else:
        _let_write(path)


def _through(path: bytes, target: bytes, mode: bytes) -> None:
    """Show what is at a path of the folder below, itself."""
    _mount(b"/proc/self/fd/%d/%s" % (_below[0], path), target, None, _BIND | _RECURSIVE)
    if mode == b"read-only":
        _set_attributes(target, _READ_ONLY, 0, _ALL_BELOW)
    else:
        _let_write(target)


def _hide(path: bytes, empty: bytes) -> None:
    """Put an empty file or folder in the place of a path."""
    if os.path.lexists(path):
        _mount(_kept_path(empty), path, None, _BIND)
        _set_attributes(path, _READ_ONLY, 0, 0)


def _terminals() -> None:
    """Pseudo-terminals of its own, so that nobody else's can be written to; where that works."""
    _LIBC.mount(b"devpts", b"/dev/pts", b"devpts", _NOSUID | _NOEXEC, b"newinstance,ptmxmode=0666,mode=620")


def _no_abstract_sockets() -> None:
    """Keep the command from abstract sockets of programs outside, where the kernel can (Landlock, sixth version)."""
    _scoped.append(_ABSTRACT_SOCKETS)


def _write_below(path: bytes) -> None:
    """Let the command write below a path, and nowhere that is not named so: by Landlock."""
    _write_only.append(path)


def _folder(path: bytes) -> None:
    """Go to a folder."""
    os.chdir(path)


_below: list[int] = []
_kept: dict[bytes, int] = {}
_overlays: list[bytes] = []
_scoped: list[int] = []
_write_only: list[bytes] = []
_STEPS: "dict[str, Callable[..., None]]" = {
    "namespaces": _namespaces,
    "read-only": _read_only,
    "writable": _writable,
    "keep": _keep,
    "overlay": _overlay,
    "cache-layer": _cache_layer,
    "cover": _cover,
    "memory": _memory,
    "show": _show,
    "through": _through,
    "hide": _hide,
    "terminals": _terminals,
    "no-abstract-sockets": _no_abstract_sockets,
    "write-below": _write_below,
    "folder": _folder,
}


def _kept_path(path: bytes) -> bytes:
    """A path that leads to what was kept, whatever is mounted over its own by now."""
    if path not in _kept:
        raise FileNotFoundError(2, "it is gone")
    return b"/proc/self/fd/%d" % _kept[path]


def _mount_overlay(lower: bytes, upper: bytes, work: bytes) -> None:
    _make_mount_point(lower, is_folder=True)
    # By descriptors, since a comma or a colon in a path would mean something among the options. Volatile: nothing has
    # to survive a power cut, and without it the end of each command would wait for all that any program has written
    # to the disk.
    folders = b"lowerdir=%s,upperdir=%s,workdir=%s" % tuple(map(_kept_path, (lower, upper, work)))
    _mount(b"overlay", lower, b"overlay", 0, folders + b",userxattr,volatile")


def _make_mount_point(path: bytes, *, is_folder: bool) -> None:
    """Make what a mount needs at a path, where a folder of the command's own covers what was there.

    Paths are resolved, so a link on the way was put there by an earlier command, and is removed.
    """
    names = path.strip(b"/").split(b"/")
    for count in range(1, len(names) + 1):
        place = b"/" + b"/".join(names[:count])
        wants_folder = is_folder or count < len(names)
        if os.path.lexists(place) and (os.path.islink(place) or os.path.isdir(place) is not wants_folder):
            os.rename(place, place + b".moved-%d" % os.getpid())
        if os.path.lexists(place):
            continue
        if wants_folder:
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))


def _let_write(path: bytes) -> None:
    """Let a mount be written to, as far as it was before."""
    for flags in (_ALL_BELOW, 0):
        try:
            _set_attributes(path, 0, _READ_ONLY, flags)
        except PermissionError:
            continue
        return


# The processes


def _run(program: list[str], parent: int, report: int, *, isolated: bool) -> tuple[int, bool]:
    """Start the command and wait for the end of all of it; returns its wait status, and whether anything was left."""
    # After the steps, since the kernel forgets it when the credentials change.
    _prctl(_DEATH_SIGNAL, signal.SIGKILL if isolated else signal.SIGUSR1)
    if os.getppid() != parent:
        raise ProcessLookupError(3, "signoff has ended")
    alive, own = os.pipe()
    if not isolated:
        _prctl(_SUBREAPER, 1)
        command = os.fork()
        if not command:
            os.close(own)
            _become(program, alive)
        return _wait_for_tree(command)
    reader, writer = os.pipe()
    # Blocked and waited for: what comes just before one waits is not missed then, as it would be with handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    first = os.fork()
    if not first:
        os.close(reader)
        os.close(own)
        _be_first(program, writer, report, alive)
    os.close(writer)
    while not os.waitpid(first, os.WNOHANG)[0]:
        number = signal.sigwait(_AWAITED)
        if number == signal.SIGUSR1:
            os.kill(first, signal.SIGKILL)
        elif number == signal.SIGUSR2:
            _look_anew(report)
        elif number in (_STAND_STILL, _GO_ON):
            os.kill(first, number)
    words = os.read(reader, 64).split()
    if len(words) != 2:
        return signal.SIGKILL, True
    if words[0] == b"failed":
        raise OSError(int(words[1]), "the first process could not start")
    return int(words[0]), words[1] == b"1"


def _look_anew(report: int) -> None:
    """Have the overlay forget what it remembers of names: to mount it again drops all that is not in use."""
    number = 0
    try:
        for root in _overlays:
            _mount(None, root, None, _REMOUNT)
    except OSError as error:
        number = error.errno or 0
    os.write(report, b"fresh %d\n" % number)


def _be_first(program: list[str], writer: int, report: int, alive: int) -> None:
    """Be the first process of the namespace: start the command, bury the dead, tell how the command ended."""
    try:
        _die_with(alive)
        _mount(b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC)
        _renounce()
        command = os.fork()
        if not command:
            os.close(writer)
            _become(program, alive)
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        while (status := _status_of(command)) is None:
            number = signal.sigwait(_AWAITED)
            if number == _STAND_STILL:
                os.write(report, b"still %d\n" % _stand_still())
            elif number == _GO_ON:
                os.write(report, b"going %d\n" % _signal_all(signal.SIGCONT))
        left = any(name.isdigit() and name != "1" for name in os.listdir("/proc"))
        os.write(writer, f"{status} {int(left)}".encode())
        os._exit(0)
    except OSError as error:
        os.write(writer, f"failed {error.errno or 0}".encode())
        os._exit(125)
    finally:
        os._exit(126)


def _stand_still() -> int:
    """Stop every process of the namespace but this one; 0 once none of them does anything, else an error number."""
    for _ in range(_TRIES):
        # By the kernel's word no process is missed that is just being made.
        _signal_all(signal.SIGSTOP)
        for _ in range(_LOOKS):
            if all(map(_stands_still, filter(str.isdigit, os.listdir("/proc")))):
                return 0
            time.sleep(_PAUSE)
        # One waits in the kernel for another that has been stopped before it: let them get over it.
        _signal_all(signal.SIGCONT)
        time.sleep(_PAUSE)
    return 110


def _stands_still(process: str) -> bool:
    """Whether no thread of a process does anything."""
    if process == "1":
        return True
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
    except (OSError, IndexError):
        # It has just ended; the next look tells.
        return False
    return True


def _signal_all(number: int) -> int:
    """Send a signal to every process of the namespace but this one; 0, or an error number."""
    try:
        os.kill(-1, number)
    except OSError as error:
        return error.errno or 0
    return 0


def _die_with(alive: int) -> None:
    """Die with the process above, of which only the watcher holds the other end of a pipe."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    # It may have died before that took effect.
    os.set_blocking(alive, False)
    try:
        if not os.read(alive, 1):
            os._exit(125)
    except BlockingIOError:
        return


def _become(program: list[str], alive: int) -> None:
    """Turn into the command."""
    try:
        _die_with(alive)
        _prctl(_NO_NEW_PRIVILEGES, 1)
        if _write_only or _scoped:
            _restrict()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.closerange(3, 256)
        os.execv(program[0], program)
    except OSError as error:
        os.write(2, f"{program[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _wait_for_tree(command: int) -> tuple[int, bool]:
    """Wait for the command, then end what it has left behind, which is all a child of this process by now."""
    # Both stay blocked and are waited for, so that the word of signoff's end never comes between a look and a wait.
    awaited = {signal.SIGUSR1, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    while (status := _status_of(command)) is None:
        if signal.sigwait(awaited) == signal.SIGUSR1:
            _end_children()
    left = False
    try:
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                left = True
                _end_children()
                os.waitpid(-1, 0)
    except ChildProcessError:
        return status, left


def _status_of(command: int) -> int | None:
    """Bury the dead; the wait status of the command if it is among them."""
    found = None
    try:
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == command:
                found = status
            elif not ended:
                return found
    except ChildProcessError:
        return found


def _end_children() -> None:
    """Kill every child; those of a killed one become children of this process in turn."""
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[1] == own:
                        os.kill(int(name), signal.SIGKILL)
            except (OSError, IndexError):
                continue


# The system


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _prctl(option: int, value: int) -> None:
    _check(_LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _check(_LIBC.mount(source, target, kind, ctypes.c_ulong(flags), options))


def _syscall(number: int, *arguments: object) -> int:
    result = int(_LIBC.syscall(ctypes.c_long(number), *arguments))
    _check(result < 0)
    return result


def _set_attributes(path: bytes, on: int, off: int, flags: int) -> None:
    """mount_setattr(2), with struct mount_attr."""
    attributes = (ctypes.c_uint64 * 4)(on, off, 0, 0)
    _syscall(_MOUNT_SETATTR, -100, path, flags, attributes, ctypes.sizeof(attributes))


def _renounce() -> None:
    """Give up every capability, for good."""
    _prctl(_NO_NEW_PRIVILEGES, 1)
    number = 0
    while not _LIBC.prctl(_DROP_BOUNDING, ctypes.c_ulong(number), 0, 0, 0):
        number += 1
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _check(_LIBC.capset(header, (ctypes.c_uint32 * 6)()))


def _restrict() -> None:
    """Landlock: write nowhere but below the folders that were named."""
    try:
        version = _syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    except OSError:
        version = 0
    if not _write_only:
        if version > 5:
            scope = (ctypes.c_uint64 * 3)(0, 0, _ABSTRACT_SOCKETS)
            _syscall(_LANDLOCK_RESTRICT, _syscall(_LANDLOCK_CREATE, scope, ctypes.c_size_t(24), 0), 0)
        return
    handled = _LANDLOCK_WRITES | (_REFER if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    wanted = (ctypes.c_uint64 * 3)(handled, 0, _ABSTRACT_SOCKETS | _SIGNALS_INSIDE)
    rules = _syscall(_LANDLOCK_CREATE, wanted, ctypes.c_size_t(24 if version > 5 else 8), 0)
    for path in _write_only:
        try:
            place = os.open(path, os.O_PATH)
        except FileNotFoundError:
            continue
        of_file = _LANDLOCK_FILE | (_TRUNCATE if version > 2 else 0)
        allowed = handled if os.path.isdir(path) else of_file
        rule = allowed.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        _syscall(_LANDLOCK_ADD, rules, 1, rule, 0)
        os.close(place)
    _syscall(_LANDLOCK_RESTRICT, rules, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

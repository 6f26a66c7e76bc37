"""The program between signoff and a command: makes namespaces and mounts, step by step, then runs the command.

Its arguments are `REPORT PARENT STEP [ARGUMENT...] ... -- PROGRAM ARGUMENT...`; the steps are the functions in
`_STEPS`. It imports as little as possible, because each command waits for it.

With namespaces there are three processes. signoff starts the *watcher*. The watcher forks the *first* process of the
PID namespace; when it ends, the kernel kills all others in the namespace. The third is the command. Each is killed
when its parent ends: no process outlives signoff, even if signoff is killed. Without namespaces there are the watcher
and the command. The watcher becomes the parent of processes that the command leaves, and kills them. Landlock and a
filter of system calls protect files and processes outside, as far as the kernel supports them.

At the end one line is written to the descriptor REPORT: `exit STATUS LEFT LIMIT REFUSED` or `failed STEP ERRNO`.
STATUS is the wait status. LEFT is 1 if other processes were still running. LIMIT is the limit at which all was ended
(`memory`, `processes`), `machine` if the kernel ended a process because the machine had no memory left, or `none`.
REFUSED is 1 if a Unix socket was refused.

SIGUSR1 ends all processes at once; SIGTERM is passed to the command only. SIGUSR2 remounts the overlay, so that
changes in its folders from outside become visible; a line `fresh ERRNO` reports the result. SIGRTMIN stops all
processes in the namespace, and SIGRTMIN + 1 continues them; lines `still ERRNO` and `going ERRNO` report the result.
"""

import ctypes
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from _socket import socket
    from collections.abc import Callable, Iterator

    from app.sandbox.syscall_filter import SyscallResponder
else:
    # `signal` defines enums; importing it takes as long as all other imports.
    import _signal as signal

_LIBC = ctypes.CDLL(None, use_errno=True)

_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 8, 32, 4096, 16384, 1 << 18
_NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000
"""User, mount, PID and IPC."""
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 442, 444, 445, 446
"""System calls; numbers from 424 on are the same on all architectures."""
_KEYCTL, _JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
_READ_ONLY, _ALL_BELOW = 1, 0x8000
_STAND_STILL, _GO_ON = signal.SIGRTMIN, signal.SIGRTMIN + 1
_AWAITED = {signal.SIGUSR1, signal.SIGUSR2, _STAND_STILL, _GO_ON, signal.SIGCHLD}
_SHORTEST, _LONGEST, _FASTEST = 0.05, 1.0, 4e9
"""Minimum and maximum seconds between two measurements of a command's memory, and the bytes per second that a command
can allocate at most.
"""
_LAST = 1000
"""Value of `oom_score_adj` with which the kernel kills a process first when memory runs out."""
_LARGEST_FILE = 100 * 10**9
_MARGIN = 50
"""Processes that the kernel allows beyond the limit, so that the watcher can detect that the limit was reached."""
_AT_ONCE = 100
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TRIES, _LOOKS, _PAUSE = 20, 50, 0.002
"""Number of attempts to stop all processes, number of checks after each attempt, and seconds between two checks."""
_DEATH_SIGNAL, _DUMPABLE, _DROP_BOUNDING, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 24, 36, 38
_OF_FILES = 0b11011
"""Capabilities that root keeps in place, because other users may own files of the workspace: CAP_CHOWN,
CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_FSETID.
"""
_LANDLOCK_WRITES = 0x1FF2
"""Write rights of Landlock's first version: writing files, and creating and removing each kind of file."""
_LANDLOCK_FILE = 0x2
_READ_FILE = 0x4
_REFER, _TRUNCATE = 0x2000, 0x4000
"""Rights added by its second and third version: moving between folders, truncating."""
_ABSTRACT_SOCKETS_INSIDE, _SIGNALS_INSIDE = 0x1, 0x2
"""Scopes of its sixth version: no abstract sockets of, and no signals to, processes outside."""


def main(arguments: list[str]) -> int:
    """Execute the sandbox steps, then run the program and report how it ended; return the exit code."""
    report, parent = int(arguments[0]), int(arguments[1])
    split = arguments.index("--")
    steps, program = [os.fsencode(word) for word in arguments[2:split]], arguments[split + 1 :]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    # The command must not write to the report, so it must not inherit the descriptor.
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
        ended = _run(program, parent, report, isolated=b"namespaces" in steps)
    except OSError as error:
        os.write(report, f"failed {step} {error.errno or 0}\n".encode())
        return 125
    os.write(report, "exit {} {:d} {} {:d}\n".format(*ended).encode())
    return 0


# The steps


def _namespaces() -> None:
    """Make new namespaces, with the same user and group inside."""
    user, group = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(_NEW_NAMESPACES))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _mount(None, b"/", None, _PRIVATE | _RECURSIVE)


def _read_only() -> None:
    """Make all mounts read-only; later steps make some of them writable."""
    _set_attributes(b"/", _READ_ONLY, 0, _ALL_BELOW)


def _writable(path: bytes) -> None:
    """Turn a path into a mount point, and make it writable."""
    _mount(path, path, None, _BIND | _RECURSIVE)
    _let_write(path)


def _keep(path: bytes) -> None:
    """Open a path for later steps, which may mount something over it; skip a missing one."""
    try:
        _kept[path] = os.open(path, os.O_PATH)
    except FileNotFoundError:
        return


def _overlay(root: bytes, upper: bytes, work: bytes) -> None:
    """Mount an overlay on the path of its lower folder."""
    _mount_overlay(root, upper, work)
    _below.append(_kept[root])
    _overlays.append(root)


def _cover(target: bytes, instead: bytes) -> None:
    """Mount another folder at a path, and make it writable."""
    _make_mount_point(target, is_folder=True)
    _mount(_kept_path(instead), target, None, _BIND)
    _let_write(target)


def _memory(target: bytes) -> None:
    """Mount an empty tmpfs at a path."""
    _mount(b"tmpfs", target, b"tmpfs", _NOSUID | _NODEV, b"mode=1777,size=50%")


def _show(path: bytes, mode: bytes) -> None:
    """Mount a kept path at its own path again, over mounts that cover it; do nothing if it was missing."""
    if path not in _kept:
        return
    _make_mount_point(path, is_folder=os.path.isdir(_kept_path(path)))
    _mount(_kept_path(path), path, None, _BIND | _RECURSIVE)
    if mode == b"read-only":
        _set_attributes(path, _READ_ONLY, 0, _ALL_BELOW)
    else:
        _let_write(path)


def _through(path: bytes, target: bytes, mode: bytes) -> None:
    """Mount a path of the lower folder directly, not through the overlay."""
    _mount(b"/proc/self/fd/%d/%s" % (_below[0], path), target, None, _BIND | _RECURSIVE)
    if mode == b"read-only":
        _set_attributes(target, _READ_ONLY, 0, _ALL_BELOW)
    else:
        _let_write(target)


def _hide(path: bytes, empty: bytes) -> None:
    """Mount an empty file or folder over a path."""
    if os.path.lexists(path):
        _mount(_kept_path(empty), path, None, _BIND)
        _set_attributes(path, _READ_ONLY, 0, 0)


def _terminals() -> None:
    """Mount a new devpts, so that other terminals can't be written to, if the kernel allows it."""
    _LIBC.mount(b"devpts", b"/dev/pts", b"devpts", _NOSUID | _NOEXEC, b"newinstance,ptmxmode=0666,mode=620")


def _no_abstract_sockets() -> None:
    """Block abstract sockets of programs outside; needs Landlock version 6."""
    _scoped.append(True)


def _write_below(path: bytes) -> None:
    """With Landlock: let the command write below a path, and only below paths of these steps."""
    _write_only.append(path)


def _device(path: bytes) -> None:
    """Let the command write to a device or a kernel folder, without changing permissions there."""
    _devices.append(path)


def _unreadable(path: bytes) -> None:
    """With Landlock: let the command neither read nor write below a path."""
    _hidden.append(path)


def _landlock(version: bytes) -> None:
    """Restrict the command by Landlock, with the rights of this version."""
    _landlock_versions.append(int(version))


def _filter(sockets: bytes) -> None:
    """Filter the system calls of the command; with `sockets` it may use Unix sockets."""
    _filters.append(sockets == b"sockets")


def _limits(memory: bytes, processes: bytes) -> None:
    """Limit the memory (bytes) and the processes and threads of the command and its descendants together."""
    _most.extend((int(memory), int(processes)))


def _variable(name: bytes, value: bytes) -> None:
    """Set a variable of the command that this program itself must not have, such as a search path of libraries."""
    os.environb[name] = value


def _folder(path: bytes) -> None:
    """Change the working directory."""
    os.chdir(path)


def _mount_overlay(lower: bytes, upper: bytes, work: bytes) -> None:
    """Mount an overlay over a cache of the user; unlike that of `_overlay`, it is not remounted."""
    _make_mount_point(lower, is_folder=True)
    # Pass descriptors, because commas and colons in a path would separate mount options. "volatile": the files need
    # not survive a power cut, and without it an unmount waits until all data of all programs is on the disk.
    folders = b"lowerdir=%s,upperdir=%s,workdir=%s" % tuple(map(_kept_path, (lower, upper, work)))
    _mount(b"overlay", lower, b"overlay", 0, folders + b",userxattr,volatile")


_below: list[int] = []
_kept: dict[bytes, int] = {}
_overlays: list[bytes] = []
_scoped: list[bool] = []
_write_only: list[bytes] = []
_devices: list[bytes] = []
_hidden: list[bytes] = []
_landlock_versions: list[int] = []
_filters: list[bool] = []
_most: list[int] = []
_STEPS: "dict[str, Callable[..., None]]" = {
    "namespaces": _namespaces,
    "read-only": _read_only,
    "writable": _writable,
    "keep": _keep,
    "overlay": _overlay,
    "cache-layer": _mount_overlay,
    "cover": _cover,
    "memory": _memory,
    "show": _show,
    "through": _through,
    "hide": _hide,
    "terminals": _terminals,
    "no-abstract-sockets": _no_abstract_sockets,
    "write-below": _write_below,
    "device": _device,
    "unreadable": _unreadable,
    "landlock": _landlock,
    "filter": _filter,
    "limits": _limits,
    "variable": _variable,
    "folder": _folder,
}


def _kept_path(path: bytes) -> bytes:
    """Return a path to a kept file or folder that mounts over it don't affect. Raises FileNotFoundError."""
    if path not in _kept:
        raise FileNotFoundError(2, "it is gone")
    return b"/proc/self/fd/%d" % _kept[path]


def _make_mount_point(path: bytes, *, is_folder: bool) -> None:
    """Create a mount point at a path, if another mount covers the original one.

    Paths are resolved. A link on the way was created by an earlier command; it is renamed.
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
    """Make a mount writable; one that is read-only outside the namespace stays read-only."""
    for flags in (_ALL_BELOW, 0):
        try:
            _set_attributes(path, 0, _READ_ONLY, flags)
        except PermissionError:
            continue
        return


# The processes


def _run(program: list[str], parent: int, report: int, *, isolated: bool) -> tuple[int, bool, str, bool]:
    """Start the command and wait until all its processes have ended.

    Returns:
        Its wait status, whether other processes were left, the limit that it reached, and whether a Unix socket was
        refused.
    """
    # Set after the steps: the kernel resets the death signal when the credentials change.
    _prctl(_DEATH_SIGNAL, signal.SIGKILL if isolated else signal.SIGUSR1)
    if os.getppid() != parent:
        raise ProcessLookupError(3, "signoff has ended")
    alive, own = os.pipe()
    if not isolated:
        return _run_in_place(program, alive, own)
    reader, writer = os.pipe()
    # Block the signals and sigwait(): unlike with handlers, a signal that arrives just before the wait is not lost.
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
            _remount(report)
        elif number in (_STAND_STILL, _GO_ON):
            os.kill(first, number)
    words = os.read(reader, 64).decode().split()
    if not words:
        return signal.SIGKILL, True, "none", False
    if words[0] == "failed":
        raise OSError(int(words[1]), "the first process could not start")
    return int(words[0]), words[1] == "1", words[2], False


def _remount(report: int) -> None:
    """Remount the overlay, which drops cached names that are not in use; report the result."""
    number = 0
    try:
        for root in _overlays:
            _mount(None, root, None, _REMOUNT)
    except OSError as error:
        number = error.errno or 0
    os.write(report, b"fresh %d\n" % number)


def _be_first(program: list[str], writer: int, report: int, alive: int) -> None:
    """Run as first process of the namespace: start the command, reap processes, report how the command ended."""
    try:
        _die_with(alive)
        _mount(b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC)
        if _most:
            _limit_namespace(_most[1])
        if not os.geteuid():
            # In these files root changes kernel settings, for example the program that handles crashes.
            for path in filter(os.path.exists, (b"/proc/sys", b"/proc/sysrq-trigger")):
                _mount(path, path, None, _BIND | _RECURSIVE)
                _set_attributes(path, _READ_ONLY, 0, _ALL_BELOW)
        _renounce(keep=0)
        command = os.fork()
        if not command:
            os.close(writer)
            _exec_command(program, alive)
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        usage, status = _Usage(_all_others), None
        while status is None and not usage.hit:
            told = signal.sigtimedwait(_AWAITED, usage.look())
            if told and told.si_signo == _STAND_STILL:
                os.write(report, b"still %d\n" % _stop_all())
            elif told and told.si_signo == _GO_ON:
                os.write(report, b"going %d\n" % _signal_all(signal.SIGCONT))
            status = _reap(command)[0]
        status = signal.SIGKILL if status is None else status
        os.write(writer, f"{status} {int(bool(_all_others()))} {usage.result(status)}".encode())
        os._exit(0)
    except OSError as error:
        os.write(writer, f"failed {error.errno or 0}".encode())
        os._exit(125)
    finally:
        os._exit(126)


def _stop_all() -> int:
    """Stop every other process of the namespace; return 0 once all are stopped, else ETIMEDOUT."""
    for _ in range(_TRIES):
        # kill(-1) is atomic in the kernel: it also reaches processes that are just being created.
        _signal_all(signal.SIGSTOP)
        for _ in range(_LOOKS):
            if all(map(_is_stopped, filter(str.isdigit, os.listdir("/proc")))):
                return 0
            time.sleep(_PAUSE)
        # A process may wait in the kernel for one that was stopped before it: continue all, and try again.
        _signal_all(signal.SIGCONT)
        time.sleep(_PAUSE)
    return 110


def _is_stopped(process: str) -> bool:
    """Return whether all threads of a process are stopped, zombies included."""
    if process == "1":
        return True
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
    except (OSError, IndexError):
        # It has just ended; the next check no longer lists it.
        return False
    return True


def _signal_all(number: int) -> int:
    """Send a signal to every other process of the namespace; return 0 or an error number."""
    try:
        os.kill(-1, number)
    except OSError as error:
        return error.errno or 0
    return 0


def _die_with(alive: int) -> None:
    """End this process with its parent, which alone holds the write end of the pipe `alive`."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    # The parent may have died before prctl took effect.
    os.set_blocking(alive, False)
    try:
        if not os.read(alive, 1):
            os._exit(125)
    except BlockingIOError:
        return


def _run_in_place(program: list[str], alive: int, own: int) -> tuple[int, bool, str, bool]:
    """Run as watcher of a command without a namespace; compare `_be_first`."""
    _prctl(_SUBREAPER, 1)
    # Other processes of the user must not read this one's memory or change its limits.
    _prctl(_DUMPABLE, 0)
    # A process that shares a descriptor can make the kernel send SIGIO to this one (F_SETOWN).
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    ours = its = None
    if _filters:
        # Extend sys.path only here, after the imports from the standard library.
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        import _socket

        from app.sandbox import syscall_filter

        ours, its = _socket.socketpair()
    command = os.fork()
    if not command:
        os.close(own)
        # In its own session, so that a signal to the command's group does not reach the watcher.
        os.setsid()
        _exec_command(program, alive, its)
    usage, answers = _Usage(_descendants), None
    if ours and its:
        its.close()
        for _, _, right in ours.recvmsg(1, _socket.CMSG_SPACE(4))[1]:
            listener = int.from_bytes(right[:4], sys.byteorder)
            answers = syscall_filter.SyscallResponder(listener, _write_only, _hidden, usage.admit)
    return _watch(command, usage, answers)


def _exec_command(program: list[str], alive: int, watcher: "socket | None" = None) -> None:
    """Execute the command in this process; with a socket to the watcher, filter its system calls."""
    try:
        _die_with(alive)
        # Otherwise root would own the files of this process in /proc, as for the watcher.
        _prctl(_DUMPABLE, 1)
        if _most:
            _set_limits(_most[1])
        _renounce(keep=_OF_FILES)
        if keyctl := _KEYCTL.get(os.uname().machine):
            # Leave the user's session keyring. The result is ignored: the kernel may have no keys.
            _LIBC.syscall(ctypes.c_long(keyctl), _JOIN_SESSION_KEYRING, None)
        if _landlock_versions:
            _restrict(_landlock_versions[0])
        elif _scoped:
            _restrict_sockets()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        if watcher:
            _install_filter(watcher)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.execv(program[0], program)
    except OSError as error:
        os.write(2, f"{program[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _install_filter(watcher: "socket") -> None:
    """Filter the system calls of this process, and send the watcher the descriptor that answers them."""
    import _socket

    from app.sandbox import syscall_filter

    # Without Landlock the command can change files directly, so filtering calls on files is useless.
    listener = syscall_filter.install_syscall_filter(
        allow_unix_sockets=_filters[0],
        notify_file_changes=bool(_landlock_versions),
        notify_process_starts=not os.geteuid(),
    )
    right = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))
    watcher.sendmsg([b"x"], [right])


def _watch(command: int, usage: "_Usage", answers: "SyscallResponder | None") -> tuple[int, bool, str, bool]:
    """Wait for the command, answer the system calls that the filter hands over, and kill remaining processes."""
    import select

    noticed: set[int] = set()
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda number, _: noticed.add(number))
    # A signal that arrives between a check and poll() writes a byte to the pipe, so that poll() returns at once.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    if answers:
        poll.register(answers.listener, select.POLLIN)
    while (status := _reap(command)[0]) is None:
        seconds = usage.look()
        if usage.hit or signal.SIGUSR1 in noticed:
            status = signal.SIGKILL
            break
        if signal.SIGTERM in noticed:
            noticed.discard(signal.SIGTERM)
            os.killpg(command, signal.SIGTERM)
        for descriptor, event in poll.poll(seconds * 1000):
            if descriptor == reader:
                os.read(reader, 65536)
            elif answers and event & select.POLLIN:
                answers.answer_call()
            else:
                poll.unregister(descriptor)
    left = _end_all()
    return status, left, usage.result(status), answers is not None and answers.refused_socket


def _end_all() -> bool:
    """Kill all descendants of this process until none is left; return whether there was any."""
    left = False
    while _reap(0)[1]:
        left = True
        # A process that is started meanwhile also descends from this one: the next round finds it.
        for process in _descendants():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
    return left


def _reap(command: int) -> tuple[int | None, bool]:
    """Reap ended children; return the command's wait status if it ended, and whether a child may be left."""
    found = None
    try:
        # At most `_AT_ONCE` per call, because a command can create processes faster than they are reaped.
        for _ in range(_AT_ONCE):
            ended, status = os.waitpid(-1, os.WNOHANG)
            if not ended:
                break
            if ended == command:
                found = status
    except ChildProcessError:
        return found, False
    return found, True


def _descendants() -> list[int]:
    """Return the ids of all descendants; children of a process that ends become children of this one."""
    found, parents = [], [os.getpid()]
    for parent in parents:
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    children = [int(child) for child in file.read().split()]
            except OSError:
                children = []
            found += children
            parents += children
    return found if found else _children()


def _children() -> list[int]:
    """Return the children of this process, on kernels without the file `children`."""
    own, found = str(os.getpid()), []
    for process in _all_others():
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[1] == own:
                    found.append(process)
        except (OSError, IndexError):
            continue
    return found


def _all_others() -> list[int]:
    """Return the ids of all visible processes except process 1."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


# The limits


def _set_limits(processes: int) -> None:
    """Set rlimits for this process and its descendants; the watcher checks their total memory."""
    import resource

    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(_LAST))
    # RLIMIT_NPROC counts all processes of the user. In a user namespace the others don't count, and can't be seen.
    there = sum(_threads(process) for process in _all_others() if _is_own(process))
    for limit, most in (
        (resource.RLIMIT_NPROC, there + processes + _MARGIN),
        (resource.RLIMIT_FSIZE, _LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def _limit_namespace(processes: int) -> None:
    """Limit the number of processes also for root, to which no rlimit applies; needs Linux 6.14."""
    try:
        # The kernel uses the first 300 ids only once.
        with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as file:
            file.write(str(300 + processes + _MARGIN))
    except OSError:
        return


class _Usage:
    """Measures the total resources of a command, often enough that it can't exceed a limit by much."""

    def __init__(self, processes: "Callable[[], list[int]]") -> None:
        self.hit = ""
        self._processes = processes
        self._room = 0
        self._next = 0.0
        self._killed = _killed_for_memory()

    def look(self) -> float:
        """Set `hit` if a limit is reached; return the seconds until the next measurement."""
        if not _most:
            return _LONGEST
        now = time.monotonic()
        if now >= self._next:
            there, used = self._processes(), 0
            # Check the cheapest value first: with many processes, this one gets little processor time.
            if len(there) >= _most[1] or sum(map(_threads, there)) >= _most[1]:
                self.hit = "processes"
            elif (used := sum(map(_resident, there))) > _most[0]:
                # The sum of resident memory counts shared pages several times.
                used = sum(map(_proportional, there))
                self.hit = "memory" if used > _most[0] else ""
            self._next = now + max(_SHORTEST, min(_LONGEST, (_most[0] - used) / _FASTEST))
        return self._next - now

    def admit(self) -> bool:
        """Return whether one more process may be started; processes are counted only if the limit may be near."""
        if not self._room and _most:
            there: set[int] = set()
            # Repeat until no new process is found: a process gets another parent if its parent ends meanwhile.
            while found := set(self._processes()) - there:
                there |= found
            self._room = max(0, _most[1] - sum(map(_threads, there)))
            if not self._room:
                self.hit = "processes"
                return False
        self._room -= 1
        return True

    def result(self, status: int) -> str:
        """Return the limit that was reached, for the report."""
        killed = os.waitstatus_to_exitcode(status) in (-signal.SIGKILL, 128 + signal.SIGKILL)
        return self.hit or ("machine" if killed and _killed_for_memory() != self._killed else "none")


def _is_own(process: int) -> bool:
    try:
        return os.stat(f"/proc/{process}").st_uid == os.getuid()
    except OSError:
        return False


def _threads(process: int) -> int:
    try:
        return os.stat(f"/proc/{process}/task").st_nlink - 2
    except OSError:
        return 0


def _resident(process: int) -> int:
    """Return the resident memory of a process in bytes, with shared pages."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(process: int) -> int:
    """Return the proportional memory (PSS) of a process in bytes."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="utf-8", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return _resident(process)


def _killed_for_memory() -> str:
    """Return the line of `/proc/vmstat` that counts the processes killed for lack of memory since boot."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next(line for line in file if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return ""


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
    """Call mount_setattr(2), with struct mount_attr."""
    attributes = (ctypes.c_uint64 * 4)(on, off, 0, 0)
    _syscall(_MOUNT_SETATTR, -100, path, flags, attributes, ctypes.sizeof(attributes))


def _renounce(keep: int) -> None:
    """Drop every capability that is not in the set `keep`, permanently."""
    _prctl(_NO_NEW_PRIVILEGES, 1)
    for number in range(64):
        if not keep >> number & 1:
            _LIBC.prctl(_DROP_BOUNDING, ctypes.c_ulong(number), 0, 0, 0)
    header, had = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _check(_LIBC.capget(header, had))
    _check(_LIBC.capset(header, (ctypes.c_uint32 * 6)(had[0] & keep, had[1] & keep)))


def _restrict_sockets() -> None:
    """Block abstract sockets of processes outside, by Landlock; files are not restricted."""
    scope = (ctypes.c_uint64 * 3)(0, 0, _ABSTRACT_SOCKETS_INSIDE)
    _syscall(_LANDLOCK_RESTRICT, _syscall(_LANDLOCK_CREATE, scope, ctypes.c_size_t(24), 0), 0)


def _restrict(version: int) -> None:
    """Restrict this process by Landlock: write only below the named folders, and read nothing that is hidden."""
    writes = _LANDLOCK_WRITES | (_REFER if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    of_file = _LANDLOCK_FILE | (_TRUNCATE if version > 2 else 0)
    reads = _READ_FILE if _hidden else 0
    inside = _SIGNALS_INSIDE | (0 if _filters and _filters[0] else _ABSTRACT_SOCKETS_INSIDE)
    wanted = (ctypes.c_uint64 * 3)(writes | reads, 0, inside)
    rules = _syscall(_LANDLOCK_CREATE, wanted, ctypes.c_size_t(24 if version > 5 else 8), 0)
    for rights, places in ((writes | reads, _write_only), (of_file, _devices), (reads, [b"/"] if reads else [])):
        for place in places:
            for path in _around_hidden(place, _hidden):
                _allow(rules, path, rights, of_file | _READ_FILE)
    _syscall(_LANDLOCK_RESTRICT, rules, 0)


def _around_hidden(place: bytes, hidden: list[bytes]) -> "Iterator[bytes]":
    """Yield a path, or everything in it that is neither hidden nor contains a hidden path.

    Landlock's rules have no exceptions.
    """
    inside = [path for path in hidden if path == place or path.startswith(place.rstrip(b"/") + b"/")]
    if not inside:
        yield place
    elif place not in inside:
        try:
            names = os.listdir(place)
        except OSError:
            return
        for name in names:
            yield from _around_hidden(os.path.join(place, name), inside)


def _allow(rules: int, path: bytes, rights: int, of_file: int) -> None:
    """Add a rule, unless the path is missing or a link, which may lead to a hidden path."""
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return
    kind = os.fstat(place).st_mode & 0o170000
    if kind != 0o120000:
        allowed = rights if kind == 0o040000 else rights & of_file
        _syscall(_LANDLOCK_ADD, rules, 1, allowed.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder), 0)
    os.close(place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

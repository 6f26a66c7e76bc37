"""The seccomp filter of a command that runs in place, and the watcher's answers to the calls that it hands over.

Landlock does not restrict permissions, owners, times, sockets with a path, the number of processes, and, before its
sixth version, signals. The filter refuses some calls, and hands others to the watcher (SECCOMP_RET_USER_NOTIF):

- Permissions, owners and times: the watcher opens the file itself, checks its path, and makes the change through its
  own descriptor, so that no other file can be put in its place meanwhile.
- Calls that act on another process: the kernel executes them if that process descends from the watcher.
- New processes of root, for which RLIMIT_NPROC has no effect: the kernel creates them until the limit is reached.
- Unix sockets: refused, and noted for the report.

`sandbox_init.py` imports this module only if it filters. The module imports as little as possible, because each
command waits for it. Run as a program, it exits with 0 if the kernel supports the filter.
"""

import ctypes
import errno
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)

_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF: load a word, two conditional jumps, return."""
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data."""
_X32_BIT = 0x40000000
_SET_FILTER, _NEW_LISTENER, _UNTIL_KILLED = 1, 8, 32
"""seccomp(2). With the last flag, from Linux 5.19 on, only a fatal signal interrupts a call that is handed over."""
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_CONTINUE_FLAG = 1
"""Flag of a response: the kernel executes the call unchanged."""
_NO_NEW_PRIVILEGES = 38
_AT_CWD, _NO_FOLLOW, _EMPTY_PATH = 0xFFFFFF9C, 0x100, 0x1000
_UTIME_NOW = (1 << 30) - 1
"""UTIME_NOW of utimensat(2)."""
_UNIX, _VSOCK = 1, 40
_SET_OWNER, _SET_SIGNAL, _SET_OWNER_EX = 8, 10, 15
"""fcntl(2): make a descriptor send a signal, even SIGKILL, to any process."""
_SET_FLAGS, _SET_ATTRIBUTES, _OWN_FILE, _OWN_SOCKET = 0x40086602, 0x401C5820, 0x8901, 0x8902
"""ioctl(2): set the attributes of chattr(1), and the equivalents of F_SETOWN."""

_MACHINE_NUMBERS = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}
"""Column in the tables below, audit architecture, and the number of seccomp(2)."""
_PROCESS_CALLS = {
    "kill": (62, 129, 0),
    "tkill": (200, 130, 0),
    "tgkill": (234, 131, 0),
    "rt_sigqueueinfo": (129, 138, 0),
    "rt_tgsigqueueinfo": (297, 240, 0),
    "ptrace": (101, 117, 1),
    "process_vm_writev": (311, 271, 0),
    "prlimit64": (302, 261, 0),
    "sched_setparam": (142, 118, 0),
    "sched_setscheduler": (144, 119, 0),
    "sched_setaffinity": (203, 122, 0),
    "sched_setattr": (314, 274, 0),
    "setpriority": (141, 140, 1),
}
"""Numbers on both machines, and the index of the argument that names a process; 0 is the caller or its group."""
_FILE_CALLS = {
    "chmod": (90, -1, "pm"),
    "fchmod": (91, 52, "dm"),
    "fchmodat": (268, 53, "dpm"),
    "fchmodat2": (452, 452, "dpmf"),
    "chown": (92, -1, "pug"),
    "lchown": (94, -1, "pug"),
    "fchown": (93, 55, "dug"),
    "fchownat": (260, 54, "dpugf"),
    "utime": (132, -1, "pt"),
    "utimes": (235, -1, "pt"),
    "futimesat": (261, -1, "dpt"),
    "utimensat": (280, 88, "dptf"),
}
"""Numbers on both machines, and the arguments: descriptor, path, mode, user, group, times, flags."""
_STARTING_CALLS = {"clone": (56, 220), "fork": (57, -1), "vfork": (58, -1), "clone3": (435, 435)}
_ATTRIBUTE_CALLS = ((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16), (463, 463), (466, 466), (469, 469))
"""setxattr(2) and related calls, which also set access control lists. Programs work without them."""
_PIDFD_SEND_SIGNAL, _PIDFD_GETFD, _IO_URING_SETUP = 424, 438, 425
_FCNTL, _IOCTL, _SOCKET, _SIGACTION = (72, 25), (16, 29), (41, 198), (13, 134)
_CHILD_ENDED, _RESTARTS = 17, 0x10000000
"""SIGCHLD, and SA_RESTART of sigaction(2)."""


def install_syscall_filter(
    *, allow_unix_sockets: bool, notify_file_changes: bool, notify_process_starts: bool
) -> int:
    """Install a permanent seccomp filter for this process and its descendants; return its listener's descriptor.

    Args:
        allow_unix_sockets: Whether Unix sockets can be used.
        notify_file_changes: Whether changes of permissions, owners and times are handed over.
        notify_process_starts: Whether starts of processes and threads are handed over.

    Returns:
        The descriptor to receive and answer the calls that are handed over.

    Raises:
        OSError: The kernel refuses the filter; EBUSY if a filter of this process hands over calls already, because
            the kernel allows only one.
    """
    column, architecture, number = _MACHINE_NUMBERS[os.uname().machine]
    program = _make_filter_program(
        column, architecture, sockets=allow_unix_sockets, files=notify_file_changes, starts=notify_process_starts
    )
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    whole = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(buffer)))
    for flags in (_NEW_LISTENER | _UNTIL_KILLED, _NEW_LISTENER):
        listener = int(_LIBC.syscall(ctypes.c_long(number), _SET_FILTER, flags, whole))
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _make_filter_program(
    column: int, architecture: int, *, sockets: bool, files: bool, starts: bool
) -> list[tuple[int, int, int, int]]:
    """Return the filter as BPF instructions: operation, jump if true, jump if false, operand."""
    missing, refused, unsupported = (_ERRNO | each for each in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP))
    by_socket = [(_VSOCK, _ERRNO | errno.EACCES), (_UNIX, _ALLOW if sockets else _NOTIFY)]
    # Number, argument index, actions for single values of the argument, and the action for all other values.
    rules: list[tuple[int, int, list[tuple[int, int]], int]] = [
        *((each[column], each[2], [(0, _ALLOW)], _NOTIFY) for each in _PROCESS_CALLS.values()),
        (_FCNTL[column], 1, [(each, refused) for each in (_SET_OWNER, _SET_SIGNAL, _SET_OWNER_EX)], _ALLOW),
        (
            _IOCTL[column],
            1,
            [(each, unsupported) for each in (_SET_FLAGS, _SET_ATTRIBUTES, _OWN_FILE, _OWN_SOCKET)],
            _ALLOW,
        ),
        (_SOCKET[column], 0, by_socket, _ALLOW),
        # io_uring can create sockets, and do much else, without passing the filter.
        *((number, 0, [], missing) for number in (_PIDFD_SEND_SIGNAL, _PIDFD_GETFD, _IO_URING_SETUP)),
        *((each[column], 0, [], unsupported) for each in _ATTRIBUTE_CALLS),
        *((each[:2][column], 0, [], _NOTIFY) for each in (_FILE_CALLS.values() if files else ())),
        *((each[column], 0, [], _NOTIFY) for each in (_STARTING_CALLS.values() if starts else ())),
        (_SIGACTION[column], 0, [(_CHILD_ENDED, _NOTIFY if starts else _ALLOW)], _ALLOW),
    ]
    program = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 1, 0, architecture), (_RETURN, 0, 0, missing)]
    program += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, missing)]
    for number, argument, values, otherwise in rules:
        if number < 0:
            continue
        # These arguments are ints: the kernel reads only their lower half, and so does the filter.
        block = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)] if values else []
        for value, action in values:
            block += [(_EQUALS, 0, 1, value), (_RETURN, 0, 0, action)]
        block.append((_RETURN, 0, 0, otherwise))
        program += [(_EQUALS, 0, len(block), number), *block]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


class SyscallResponder:
    """Allows, executes or refuses the system calls that the seccomp filter hands over.

    Args:
        listener: The descriptor that `install_syscall_filter` returned.
        places: Folders in which permissions, owners and times may be changed.
        hidden: Folders in which they may not be changed, even inside `places`.
        may_start: Returns whether one more process may be started.
    """

    def __init__(
        self, listener: int, places: "Sequence[bytes]", hidden: "Sequence[bytes]", may_start: "Callable[[], bool]"
    ) -> None:
        column = _MACHINE_NUMBERS[os.uname().machine][0]
        tables = (_PROCESS_CALLS, _FILE_CALLS, _STARTING_CALLS, {"socket": _SOCKET, "rt_sigaction": _SIGACTION})
        self._names = {each[:2][column]: name for table in tables for name, each in table.items()}
        self.listener = listener
        self.refused_socket = False
        """Whether a Unix socket was refused."""
        self._places, self._hidden = tuple(places), tuple(hidden)
        self._may_start = may_start
        self._buffer = (ctypes.c_char * _REQUEST.size)()

    def answer_call(self) -> None:
        """Receive one call and answer it; do nothing if the caller has ended."""
        ctypes.memset(self._buffer, 0, _REQUEST.size)
        if _LIBC.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), self._buffer):
            return
        call, process, _, number, _, _, *arguments = _REQUEST.unpack(self._buffer)
        error = flags = 0
        try:
            flags = self._execute_call(self._names[number], process, arguments)
        except OSError as refused:
            error = refused.errno or errno.EPERM
        response = ctypes.create_string_buffer(_RESPONSE.pack(call, 0, -error, flags))
        _LIBC.ioctl(self.listener, ctypes.c_ulong(_SEND), response)

    def _execute_call(self, name: str, process: int, arguments: list[int]) -> int:
        """Execute a call, or return the flag that lets the kernel do it. Raises OSError with the caller's errno."""
        if name == "socket":
            self.refused_socket = True
            raise PermissionError(errno.EACCES, "no Unix sockets")
        if name in _STARTING_CALLS:
            if not self._may_start():
                raise BlockingIOError(errno.EAGAIN, "too many processes")
            return _CONTINUE_FLAG
        if name == "rt_sigaction":
            _set_restart_flag(process, arguments[1])
            return _CONTINUE_FLAG
        if name in _PROCESS_CALLS:
            _check_descends(ctypes.c_int32(arguments[_PROCESS_CALLS[name][2]]).value)
            return _CONTINUE_FLAG
        self._change_attributes(name, process, dict(zip(_FILE_CALLS[name][2], arguments, strict=False)))
        return 0

    def _change_attributes(self, name: str, process: int, given: dict[str, int]) -> None:
        """Change permissions, an owner or times. Raises OSError, whose errno the caller gets."""
        flags = given.get("f", _NO_FOLLOW if name == "lchown" else 0) & 0xFFFFFFFF
        if flags & ~(_NO_FOLLOW | _EMPTY_PATH):
            raise OSError(errno.EINVAL, "no such flag")
        folder = given.get("d", _AT_CWD) & 0xFFFFFFFF
        # Without a path, the call acts on the descriptor itself.
        path = _read_text_at(process, given.get("p", 0)) if given.get("p") or folder == _AT_CWD else None
        times = (ctypes.c_int64 * 4)(*_read_times_at(process, given["t"], name)) if "t" in given else None
        # The path of a descriptor, /proc/PID/fd/N, is always followed: it leads to the open file.
        itself = path and flags & _NO_FOLLOW
        opened = _open_path(_reachable_path(process, folder, path, flags), os.O_NOFOLLOW if itself else 0)
        try:
            own = self._open_allowed_file(opened)
            try:
                if times:
                    _raise_errno_if(_LIBC.utimensat(ctypes.c_int32(_AT_CWD), b"/proc/self/fd/%d" % own, times, 0))
                elif "m" in given:
                    os.chmod(f"/proc/self/fd/{own}", given["m"] & 0o7777)  # noqa: PTH101
                else:
                    _raise_errno_if(
                        _LIBC.fchownat(own, b"", *map(ctypes.c_uint32, (given["u"], given["g"])), _EMPTY_PATH)
                    )
            finally:
                os.close(own)
        finally:
            os.close(opened)

    def _open_allowed_file(self, opened: int) -> int:
        """Return a new descriptor of the same file, if the file may be changed. Raises OSError."""
        if not os.fstat(opened).st_nlink:
            # The file has no name any more.
            return os.dup(opened)
        name = _descriptor_path(opened)
        if not _is_below(name, self._places) or _is_below(name, self._hidden):
            raise PermissionError(errno.EPERM, "it lies outside")
        # Open the name again in the watcher's own mount namespace: the command's may have other names.
        own = _open_path(name, os.O_NOFOLLOW)
        if _descriptor_path(own) != name or not os.path.samestat(os.fstat(own), os.fstat(opened)):
            os.close(own)
            raise PermissionError(errno.EPERM, "it lies elsewhere")
        return own


def _reachable_path(process: int, folder: int, path: bytes | None, flags: int) -> bytes:
    """Return a path by which this process reaches the file that `process` names. Raises OSError."""
    around = b"/proc/%d/cwd" % process if folder == _AT_CWD else b"/proc/%d/fd/%d" % (process, folder)
    if path is None or (not path and flags & _EMPTY_PATH):
        return around
    if not path:
        raise FileNotFoundError(errno.ENOENT, "an empty path")
    for own in (b"/proc/self/", b"/proc/thread-self/"):
        # Libraries use such paths to change a file that they have open.
        if path.startswith(own):
            return b"/proc/%d/%s" % (process, path[len(own) :])
    return b"/proc/%d/root%s" % (process, path) if path.startswith(b"/") else b"%s/%s" % (around, path)


def _read_text_at(process: int, address: int) -> bytes:
    """Return a text in the memory of a process. Raises OSError."""
    text, end, _ = _read_memory_at(process, address, 4096).partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG, "it has no end")
    return text


def _read_times_at(process: int, address: int, name: str) -> tuple[int, int, int, int]:
    """Return seconds and nanoseconds of access and modification from a call's structure. Raises OSError."""
    if not address:
        return 0, _UTIME_NOW, 0, _UTIME_NOW
    size = 16 if name == "utime" else 32
    memory = _read_memory_at(process, address, size)
    if len(memory) < size:
        raise OSError(errno.EFAULT, "it has an end before")
    numbers = struct.unpack(f"={size // 8}q", memory)
    if name == "utime":
        return numbers[0], 0, numbers[1], 0
    unit = 1 if name == "utimensat" else 1000
    return numbers[0], numbers[1] * unit, numbers[2], numbers[3] * unit


def _read_memory_at(process: int, address: int, size: int) -> bytes:
    """Return up to `size` bytes of the memory of a process. Raises OSError."""
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError) as error:
        raise OSError(errno.EFAULT, "nothing there") from error
    finally:
        os.close(memory)


def _set_restart_flag(process: int, action: int) -> None:
    """Set SA_RESTART in a SIGCHLD action that a process is about to install.

    Without it, the end of a child interrupts a fork(2) that is handed over, and shells give up.

    Args:
        process: The process that calls sigaction(2).
        action: The address of its struct sigaction; 0 if it only queries.

    Raises:
        OSError: The memory can't be written.
    """
    if not action:
        return
    memory = os.open(f"/proc/{process}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        flags = int.from_bytes(os.pread(memory, 8, action + 8), sys.byteorder) | _RESTARTS
        os.pwrite(memory, flags.to_bytes(8, sys.byteorder), action + 8)
    except (OSError, OverflowError) as error:
        raise OSError(errno.EFAULT, "nothing there") from error
    finally:
        os.close(memory)


def _check_descends(target: int) -> None:
    """Raise OSError if a process does not descend from this one; a negative `target` names a process group."""
    if target == -1:
        raise PermissionError(errno.EPERM, "all of them")
    members = [target]
    if target < 0:
        numbers = map(int, filter(str.isdigit, os.listdir("/proc")))  # noqa: PTH208
        members = [number for number in numbers if _process_group(number) == -target]
    if not members:
        raise ProcessLookupError(errno.ESRCH, "no such group")
    for member in members:
        above = _parent_and_group(member)[0]
        while above != os.getpid():
            if above < 2:
                raise PermissionError(errno.EPERM, "not one of the command's")
            try:
                above = _parent_and_group(above)[0]
            except ProcessLookupError:
                # A parent has ended between two reads: the process has another parent now.
                above = _parent_and_group(member)[0]


def _process_group(process: int) -> int:
    try:
        return _parent_and_group(process)[1]
    except ProcessLookupError:
        return 0


def _parent_and_group(process: int) -> tuple[int, int]:
    """Return the parent and the group of a process, or of a thread's process. Raises ProcessLookupError."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - pathlib would be imported
            fields = file.read().rpartition(b")")[2].split()
    except OSError as error:
        raise ProcessLookupError(errno.ESRCH, "it has ended") from error
    return int(fields[1]), int(fields[2])


def _open_path(path: bytes, flags: int) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC | flags)


def _descriptor_path(descriptor: int) -> bytes:
    return os.readlink(b"/proc/self/fd/%d" % descriptor)  # noqa: PTH115


def _is_below(path: bytes, places: "Sequence[bytes]") -> bool:
    return any(path == place or path.startswith(place + b"/") for place in places)


def _raise_errno_if(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    _raise_errno_if(_LIBC.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), 0, 0, 0))
    sys.exit(
        0
        if os.uname().machine in _MACHINE_NUMBERS
        and install_syscall_filter(allow_unix_sockets=False, notify_file_changes=True, notify_process_starts=True) > 0
        else 1
    )

"""The seccomp filter of a command that runs in place, and the watcher's answers to the calls that it hands over.

Landlock knows nothing of permissions, owners, sockets that have a path, and, before its sixth version, signals. The
filter refuses what would reach the watcher or a program of the user. A change of permissions or of an owner is
handed to the watcher (SECCOMP_RET_USER_NOTIF): it opens the file itself, looks where that lies, and makes the change
through its own descriptor, so that nobody can put another file in its place in between.

`enter.py` imports this where it filters; it imports next to nothing for the same reason as that.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)

_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF: load a word, two conditional jumps, return."""
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data."""
_X32 = 0x40000000
_SET_FILTER, _ACTION_AVAILABLE, _NEW_LISTENER = 1, 2, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_AT_CWD, _NO_FOLLOW, _EMPTY_PATH = 0xFFFFFF9C, 0x100, 0x1000
_UNIX, _VSOCK = 1, 40
_SET_SIGNAL = 10
"""fcntl(2): have a descriptor send any signal, also SIGKILL, to a process of one's choice."""
_SET_FLAGS, _SET_ATTRIBUTES = 0x40086602, 0x401C5820
"""ioctl(2): what chattr sets."""

_MACHINES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}
"""Column in the tables below, audit architecture, and the number of seccomp(2)."""
_TAKES_PROCESS = {
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
"""Their numbers on both machines, and the argument that is the number of a process."""
_SETS_ATTRIBUTES = ((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16), (463, 463), (466, 466), (469, 469))
"""setxattr(2) and its relatives: access control lists are such attributes. Nothing depends on their success."""
_PIDFD_SEND_SIGNAL, _IO_URING_SETUP = 424, 425
_FCNTL, _IOCTL, _SOCKET = (72, 25), (16, 29), (41, 198)
_HANDED_OVER = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "lchown": (94, -1),
    "fchown": (93, 55),
    "fchownat": (260, 54),
}


def can_filter() -> bool:
    """Whether the kernel filters system calls and hands some over, on a machine whose numbers are known."""
    machine = _MACHINES.get(os.uname().machine)
    action = ctypes.c_uint32(_NOTIFY)
    return machine is not None and not _LIBC.syscall(
        ctypes.c_long(machine[2]), _ACTION_AVAILABLE, 0, ctypes.byref(action)
    )


def install(protected: Sequence[int], *, sockets: bool, hand_over: bool) -> int | None:
    """Filter the calls of this process and of all that it starts, for good; it must have no new privileges.

    Args:
        protected: Numbers of processes, and of process groups below zero, which get no signal.
        sockets: Whether sockets that have a path can be used.
        hand_over: Whether changes of permissions and owners are handed over.

    Returns:
        The descriptor by which the calls that are handed over are answered; none if there is nothing to answer. So
        it is, too, where somebody else is handed calls of this process already: the kernel allows only one.

    Raises:
        OSError: The kernel refuses the filter.
    """
    column, architecture, number = _MACHINES[os.uname().machine]
    program = _program(column, architecture, protected, sockets=sockets)
    if hand_over:
        try:
            return _load(number, program, _NEW_LISTENER)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
    handed_over = (_RETURN, 0, 0, _NOTIFY)
    _load(number, [(_RETURN, 0, 0, _ALLOW) if each == handed_over else each for each in program], 0)
    return None


def _load(number: int, program: list[tuple[int, int, int, int]], flags: int) -> int:
    """seccomp(2) with struct sock_fprog; a descriptor or zero. Raises OSError."""
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    whole = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(buffer)))
    result = int(_LIBC.syscall(ctypes.c_long(number), _SET_FILTER, flags, whole))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _program(
    column: int, architecture: int, protected: Sequence[int], *, sockets: bool
) -> list[tuple[int, int, int, int]]:
    """The filter as BPF instructions: operation, jump if true, jump if false, operand."""
    refuse = _ERRNO | errno.EPERM
    rules: list[tuple[int, int, Sequence[int], int]] = [
        *((each[column], each[2], protected, refuse) for each in _TAKES_PROCESS.values()),
        (_FCNTL[column], 1, [_SET_SIGNAL], refuse),
        (_IOCTL[column], 1, [_SET_FLAGS, _SET_ATTRIBUTES], _ERRNO | errno.EOPNOTSUPP),
        (_SOCKET[column], 0, [_VSOCK] if sockets else [_VSOCK, _UNIX], _ERRNO | errno.EACCES),
        (_PIDFD_SEND_SIGNAL, 0, [], _ERRNO | errno.ENOSYS),
        # It makes sockets, and does much else, past every filter.
        (_IO_URING_SETUP, 0, [], _ERRNO | errno.ENOSYS),
        *((each[column], 0, [], _ERRNO | errno.EOPNOTSUPP) for each in _SETS_ATTRIBUTES),
        *((each[column], 0, [], _NOTIFY) for each in _HANDED_OVER.values() if each[column] >= 0),
    ]
    unknown = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    program = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 1, 0, architecture), unknown]
    program += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), unknown]
    for number, argument, values, action in rules:
        block = [(_RETURN, 0, 0, action)]
        if values:
            # All of these arguments are ints: the kernel looks at their lower half alone, and so does this.
            tests = [(_EQUALS, len(values) - at, 0, each & 0xFFFFFFFF) for at, each in enumerate(values)]
            block = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *tests, (_RETURN, 0, 0, _ALLOW), *block]
        program += [(_EQUALS, 0, len(block), number), *block]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


class Answers:
    """Carries out the calls that the filter hands over, below some places."""

    def __init__(self, listener: int, places: Sequence[bytes], hidden: Sequence[bytes]) -> None:
        column = _MACHINES[os.uname().machine][0]
        self._names = {each[column]: name for name, each in _HANDED_OVER.items()}
        self.listener = listener
        self._places, self._hidden = tuple(places), tuple(hidden)
        self._buffer = (ctypes.c_char * _REQUEST.size)()

    def answer(self) -> None:
        """Take one call and answer it; whoever has made it may have ended."""
        ctypes.memset(self._buffer, 0, _REQUEST.size)
        if _LIBC.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), self._buffer):
            return
        call, process, _, number, _, _, *arguments = _REQUEST.unpack(self._buffer)
        error = 0
        try:
            self._carry_out(self._names[number], process, arguments)
        except OSError as refused:
            error = refused.errno or errno.EPERM
        response = ctypes.create_string_buffer(_RESPONSE.pack(call, 0, -error, 0))
        _LIBC.ioctl(self.listener, ctypes.c_ulong(_SEND), response)

    def _carry_out(self, name: str, process: int, arguments: list[int]) -> None:
        """Change permissions or an owner. Raises OSError, the one that the caller gets."""
        folder, path, flags = _AT_CWD, None, 0
        if name.startswith("f"):
            folder, *arguments = arguments
        if not name.startswith("f") or "at" in name:
            address, *arguments = arguments
            path = _text_at(process, address)
        change = arguments[: 1 if "chmod" in name else 2]
        if name in ("fchmodat2", "fchownat"):
            flags = arguments[len(change)] & 0xFFFFFFFF
        elif name == "lchown":
            flags = _NO_FOLLOW
        if flags & ~(_NO_FOLLOW | _EMPTY_PATH):
            raise OSError(errno.EINVAL, "no such flag")
        # What the kernel has in a folder of descriptors is always followed: it is the file itself.
        itself = path and flags & _NO_FOLLOW
        opened = _open(_place(process, folder & 0xFFFFFFFF, path, flags), os.O_NOFOLLOW if itself else 0)
        try:
            own = self._allowed(opened)
            try:
                if "chmod" in name:
                    os.chmod(f"/proc/self/fd/{own}", change[0] & 0o7777)  # noqa: PTH101
                else:
                    _check(_LIBC.fchownat(own, b"", *map(ctypes.c_uint32, change), _EMPTY_PATH))
            finally:
                os.close(own)
        finally:
            os.close(opened)

    def _allowed(self, opened: int) -> int:
        """A descriptor of the same file, which lies where it may be changed. Raises OSError."""
        if not os.fstat(opened).st_nlink:
            # It has no name any more.
            return os.dup(opened)
        name = _name_of(opened)
        if not _is_below(name, self._places) or _is_below(name, self._hidden):
            raise PermissionError(errno.EPERM, "it lies outside")
        # By that name, in the watcher's own view of the file system: a namespace may show other names.
        own = _open(name, os.O_NOFOLLOW)
        if _name_of(own) != name or not os.path.samestat(os.fstat(own), os.fstat(opened)):
            os.close(own)
            raise PermissionError(errno.EPERM, "it lies elsewhere")
        return own


def _place(process: int, folder: int, path: bytes | None, flags: int) -> bytes:
    """Where a process means, as a path for this one. Raises OSError."""
    around = b"/proc/%d/cwd" % process if folder == _AT_CWD else b"/proc/%d/fd/%d" % (process, folder)
    if path is None or (not path and flags & _EMPTY_PATH):
        return around
    if not path:
        raise FileNotFoundError(errno.ENOENT, "an empty path")
    for own in (b"/proc/self/", b"/proc/thread-self/"):
        # As libraries change what they have a descriptor of.
        if path.startswith(own):
            return b"/proc/%d/%s" % (process, path[len(own) :])
    return b"/proc/%d/root%s" % (process, path) if path.startswith(b"/") else b"%s/%s" % (around, path)


def _text_at(process: int, address: int) -> bytes:
    """A text in the memory of a process. Raises OSError."""
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text, end, _ = os.pread(memory, 4096, address).partition(b"\0")
    except (OSError, OverflowError) as error:
        raise OSError(errno.EFAULT, "no text there") from error
    finally:
        os.close(memory)
    if not end:
        raise OSError(errno.ENAMETOOLONG, "it has no end")
    return text


def _open(path: bytes, flags: int) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC | flags)


def _name_of(descriptor: int) -> bytes:
    return os.readlink(b"/proc/self/fd/%d" % descriptor)  # noqa: PTH115


def _is_below(path: bytes, places: Sequence[bytes]) -> bool:
    return any(path == each or path.startswith(each + b"/") for each in places)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

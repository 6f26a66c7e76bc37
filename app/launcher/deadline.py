"""Runs `signoff hook` in a child process and answers the agent in time, even if the child hangs.

An agent lets a call through if its hook exceeds the limit in the agent's settings. For this reason the process that
the agent has started only waits: no import, no long call into C and no locked database in the child can delay it.

The child writes to one pipe: `_ALLOW_ON_FAILURE` if its failure needs no denial, then the answer, then `_ALLOWED` or
`_DENIED`. The parent writes one byte to the other pipe after it has passed the answer to the agent. If the child
reads the end of that pipe instead, the parent has ended.
"""

import _thread
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

DEFAULT_SECONDS = 30
"""Seconds that the hook may take, in addition to `--wait`; `--limit` overrides it."""
_EXIT_DENIED = 2
_ALLOW_ON_FAILURE, _ALLOWED, _DENIED = b"\1", b"\0", b"\2"
"""An answer contains none of these bytes, because it is JSON."""


class HookReplyPipes:
    """The pipes by which the child sends its answer to the agent, through the parent."""

    def __init__(self, start_time: float, answer_descriptor: int, parent: int) -> None:
        self.began = start_time
        """Start of the hook, by the monotonic clock."""
        self._answers = answer_descriptor
        self._parent = parent
        self._delivered = _thread.allocate_lock()
        self._delivered.acquire()
        _thread.start_new_thread(self._wait_for_parent, ())

    def allow_on_failure(self) -> None:
        """Let the agent continue if the hook fails, because this call needs no denial."""
        os.write(self._answers, _ALLOW_ON_FAILURE)

    def answer(self, text: bytes, *, denied: bool = False) -> None:
        """Send the answer; return after the agent has it.

        Args:
            denied: Deny by the exit code too, for an agent that can't parse the output.
        """
        _write(self._answers, text + (_DENIED if denied else _ALLOWED))
        self._delivered.acquire()

    def _wait_for_parent(self) -> None:
        """End the child together with its parent: nothing is staged for an agent that no longer waits."""
        if not os.read(self._parent, 1):
            os._exit(_EXIT_DENIED)
        self._delivered.release()


class _DeadlineExceeded(BaseException):
    pass


def run_hook_with_deadline(arguments: Sequence[str], hook: Callable[[Sequence[str], HookReplyPipes], int]) -> int:
    """Run `hook` in a child process and pass its answer to the agent, or a denial at the deadline; never raises.

    Args:
        hook: Answers one call and returns an exit code; it never raises.

    Returns:
        The exit code: 0 if the answer decides, 2 if the call is denied.
    """
    limit = max(1, _read_number_option(arguments, "--limit", DEFAULT_SECONDS))
    start_time = time.monotonic()
    try:
        signal.signal(signal.SIGALRM, _raise_deadline_exceeded)
        signal.signal(signal.SIGTERM, _raise_interrupted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, signal.SIGTERM))
        # From here on this process makes only system calls, and a signal interrupts each of them. A child does not
        # inherit the timer.
        signal.setitimer(signal.ITIMER_REAL, limit + _read_number_option(arguments, "--wait", 0))
        exit_code, reason = _supervise(arguments, hook, start_time)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _DeadlineExceeded:
        exit_code = _EXIT_DENIED
        reason = (
            f"signoff had no answer within {limit} s. If the edit was staged by then, it waits for the user "
            "(`signoff proposals`), and the next call says so."
        )
    except BaseException as error:
        exit_code = _EXIT_DENIED
        reason = " ".join(str(error).split()) or type(error).__name__
    if reason:
        _print_error(f"Denied, and nothing was written: {reason}\n")
    return exit_code


def _supervise(
    arguments: Sequence[str], hook: Callable[[Sequence[str], HookReplyPipes], int], start_time: float
) -> tuple[int, str]:
    """Return the exit code and the reason of a denial; the reason is empty if the child has reported it."""
    _open_closed_streams()
    answers, from_child = os.pipe()
    parent, to_child = os.pipe()
    child = os.fork()
    if not child:
        os.close(answers)
        os.close(to_child)
        _run_child(arguments, hook, start_time, from_child, parent)
    exit_code: int | None = None
    try:
        os.close(from_child)
        os.close(parent)
        text = bytearray()
        while piece := os.read(answers, 65536):
            text += piece
            if text.startswith(_ALLOW_ON_FAILURE):
                exit_code = 0
            if text.endswith((_ALLOWED, _DENIED)):
                try:
                    _write(1, bytes(text[text.startswith(_ALLOW_ON_FAILURE) : -1]))
                except OSError as error:
                    raise OSError(f"the answer can't be written: {error.strerror}.") from error
                exit_code = _EXIT_DENIED if text.endswith(_DENIED) else 0
                # After that the child only records what the agent has read.
                os.write(to_child, b"+")
        child_exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        os.kill(child, signal.SIGKILL)
        if exit_code is None:
            raise
        return exit_code, ""
    if exit_code is None:
        return _EXIT_DENIED, "" if child_exit_code == _EXIT_DENIED else f"signoff ended with {child_exit_code}."
    return exit_code, ""


def _run_child(
    arguments: Sequence[str],
    hook: Callable[[Sequence[str], HookReplyPipes], int],
    start_time: float,
    answers: int,
    parent: int,
) -> None:
    exit_code = _EXIT_DENIED
    try:
        exit_code = hook(arguments, HookReplyPipes(start_time, answers, parent))
        sys.stdout.flush()
    finally:
        os._exit(exit_code)


def _write(stream: int, text: bytes) -> None:
    """Write the whole text: an agent ignores half an answer, and lets the call through."""
    while text:
        text = text[os.write(stream, text) :]


def _read_number_option(arguments: Sequence[str], option: str, default: int) -> int:
    """Return the value of an option; invalid options are ignored here, because the child denies the call."""
    number = default
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        text = value if equals else "".join(arguments[index + 1 : index + 2])
        if name == option and text.isascii() and text.isdecimal() and len(text) < 6:
            number = int(text)
    return number


def _open_closed_streams() -> None:
    """Open /dev/null for closed standard streams, so that pipes don't get their numbers; writes still fail."""
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(number)


def _print_error(text: str) -> None:
    with suppress(OSError):
        os.write(2, text.encode())


def _raise_deadline_exceeded(number: int, frame: FrameType | None) -> None:
    raise _DeadlineExceeded


def _raise_interrupted(number: int, frame: FrameType | None) -> None:
    raise InterruptedError("It was stopped.")

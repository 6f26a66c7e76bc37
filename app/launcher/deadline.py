"""Runs `signoff hook` in a child process and answers in time, whatever the child does.

An agent lets a call through when its hook exceeds the limit in the agent's settings. So the process that the agent
has started only waits: no import, no long call into C and no locked database of the child can hold it up.

The child writes to one pipe: `_HARMLESS` if its failure needs no denial, the answer, and `_END`. The parent writes
to the other one byte when the agent has the answer; when that pipe ends, the parent has ended.
"""

import _thread
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

SECONDS = 30
"""How long the hook may take, `--wait` apart, where `--limit` says nothing else."""
_DENIED = 2
_HARMLESS, _END = b"\1", b"\0"
"""No answer has these bytes in it: it is JSON."""


class Caller:
    """The agent, as the child sees it: what it is told goes through the parent."""

    def __init__(self, began: float, answers: int, parent: int) -> None:
        self.began = began
        """When the hook was started, by the monotonic clock."""
        self._answers = answers
        self._parent = parent
        self._delivered = _thread.allocate_lock()
        self._delivered.acquire()
        _thread.start_new_thread(self._listen, ())

    def needs_no_denial(self) -> None:
        """Say that the agent is to go on if the hook fails: nothing is at stake."""
        os.write(self._answers, _HARMLESS)

    def answer(self, text: bytes) -> None:
        """Give the answer; the agent has it when this returns."""
        _write(self._answers, text + _END)
        self._delivered.acquire()

    def _listen(self) -> None:
        """End with the parent: what nobody waits for any more is not to be staged."""
        if not os.read(self._parent, 1):
            os._exit(_DENIED)
        self._delivered.release()


class _TimeIsOver(BaseException):
    pass


def answer_in_time(arguments: Sequence[str], hook: Callable[[Sequence[str], Caller], int]) -> int:
    """Have `hook` answer in a child process; never raises.

    Args:
        arguments: Of `signoff hook`.
        hook: Answers one call and returns an exit code; it never raises.

    Returns:
        The exit code: 0 if the call is answered, 2 if it is denied.
    """
    limit = _number(arguments, "--limit", SECONDS)
    began = time.monotonic()
    try:
        signal.signal(signal.SIGALRM, _time_is_over)
        signal.signal(signal.SIGTERM, _stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, signal.SIGTERM))
        # What follows in this process are system calls, and each is interrupted. A child does not inherit the timer.
        signal.setitimer(signal.ITIMER_REAL, limit + _number(arguments, "--wait", 0))
        denied = _supervise(arguments, hook, began)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeIsOver:
        denied = (
            f"signoff had no answer within {limit} seconds. If the edit was staged by then, it waits for the user "
            "(`signoff proposals`), and the next call says so."
        )
    except BaseException as error:
        denied = " ".join(str(error).split()) or type(error).__name__
    if denied is None:
        return 0
    if denied:
        _say(f"Denied, and nothing was written: {denied}\n")
    return _DENIED


def _supervise(arguments: Sequence[str], hook: Callable[[Sequence[str], Caller], int], began: float) -> str | None:
    """Why the call is denied, empty if the child has said so; None if it is answered, or if no denial is needed."""
    _open_closed_streams()
    answers, from_child = os.pipe()
    parent, to_child = os.pipe()
    child = os.fork()
    if not child:
        os.close(answers)
        os.close(to_child)
        _be_the_child(arguments, hook, began, from_child, parent)
    harmless = answered = False
    try:
        os.close(from_child)
        os.close(parent)
        text = bytearray()
        # With an answer given, the child only notes what the agent was told.
        while piece := os.read(answers, 65536):
            text += piece
            harmless = text.startswith(_HARMLESS)
            if text.endswith(_END):
                _write(1, bytes(text[harmless:-1]))
                answered = True
                os.write(to_child, b"+")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        os.kill(child, signal.SIGKILL)
        if answered or harmless:
            return None
        raise
    if answered or harmless:
        return None
    return "" if code == _DENIED else f"signoff ended with {code}."


def _be_the_child(
    arguments: Sequence[str], hook: Callable[[Sequence[str], Caller], int], began: float, answers: int, parent: int
) -> None:
    code = _DENIED
    try:
        code = hook(arguments, Caller(began, answers, parent))
        sys.stdout.flush()
    finally:
        os._exit(code)


def _write(stream: int, text: bytes) -> None:
    """Write all of it: an agent that reads half an answer ignores it, and what it ignores it lets through."""
    while text:
        text = text[os.write(stream, text) :]


def _number(arguments: Sequence[str], option: str, otherwise: int) -> int:
    """The value of an option; what is no value, the child denies."""
    for at, word in enumerate(arguments):
        name, given, value = word.partition("=")
        text = value if given else "".join(arguments[at + 1 : at + 2])
        if name == option and text.isascii() and text.isdecimal() and len(text) < 6:
            otherwise = int(text)
    return otherwise


def _open_closed_streams() -> None:
    """Have no pipe take the number of a stream that was closed; to write to such a stream is an error as before."""
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(number)


def _say(words: str) -> None:
    with suppress(OSError):
        os.write(2, words.encode())


def _time_is_over(number: int, frame: FrameType | None) -> None:
    raise _TimeIsOver


def _stop(number: int, frame: FrameType | None) -> None:
    raise InterruptedError("It was stopped.")

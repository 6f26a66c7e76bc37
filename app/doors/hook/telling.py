"""Gives another agent what the user has decided: with its next prompt, as the answer to a call that waits, or to the
first that it makes afterwards.

Only here the rest of signoff is loaded, once there is something to tell, or to wait for.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.doors.decision_words import tell
from app.doors.hook.answers import Answer
from app.doors.waiting import standing, wait
from app.proposals.errors import UnknownProposal
from app.proposals.models import ProposalState
from app.runtime.captured import stage_captured
from app.runtime.workspace import Runtime, open_runtime
from app.storage.captured import Turn

_GO_ON = (
    "What the user approves signoff writes, so don't make it again. Read the files as they are now, and go on as the "
    "user's decision says."
)


def told_with_prompt(root: Path, turns: Sequence[Turn]) -> Answer:
    """What the user has decided since, for the agent to read beside the user's new words."""
    with _open(root) as runtime:
        parts = [(turn.proposal, *tell(runtime, turn.proposal, turn.told)) for turn in turns]
    words = "\n\n".join(text for _, text, _ in parts)
    told = tuple((name, number) for name, _, number in parts)
    return Answer("tell", f"From signoff, on what you proposed before:\n\n{words}\n\n{_GO_ON}", told=told)


def told_at_last(root: Path, turn: Turn, refusal: Answer) -> Answer:
    """The answer to a call of a turn that is closed: the decision, if there is one by now."""
    with _open(root) as runtime:
        return _decision(runtime, turn.proposal, turn.told, refusal, until=0.0)


def waited_for(root: Path, answer: Answer, until: float) -> Answer:
    """The user's decision on what a call has staged; the answer as it is if there is none by then."""
    with _open(root) as runtime:
        if refused := [line for line in stage_captured(runtime) if line.startswith(f"{answer.proposal},")]:
            return answer._replace(words=refused[0])
        return _decision(runtime, answer.proposal, 0, answer, until)


def _decision(runtime: Runtime, proposal: str, told: int, answer: Answer, until: float) -> Answer:
    try:
        now = standing(runtime.database, runtime.name, proposal, told)
        seconds = until - time.monotonic()
        if not now.decided and seconds > 0:
            now = wait(runtime.database, runtime.name, runtime.signal, proposal, told=told, seconds=seconds)
    except UnknownProposal:
        return answer
    if not now.decided:
        return answer
    words, number = tell(runtime, proposal, told)
    # A plain denial leaves the word with the user, as it does with signoff's own model.
    plain_no = now.state == ProposalState.DENIED and not now.spoken
    words = words if plain_no else f"{words}\n\n{_GO_ON}"
    return Answer("deny", words, ends_turn=plain_no, proposal=proposal, told=((proposal, number),))


@contextmanager
def _open(root: Path) -> Iterator[Runtime]:
    runtime = open_runtime(root)
    try:
        yield runtime
    finally:
        runtime.close()

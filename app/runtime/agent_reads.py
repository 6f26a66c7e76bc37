"""The files that another agent had read before it made a proposal, from the notes of its hook."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from app.proposals.files.overlay import ContentStore
from app.proposals.risk.read_reasons import FileReadHistory, ModelReadsBeforeEdit
from app.proposals.values.proposal_errors import MissingContent
from app.proposals.values.proposal_store import ProposalStore
from app.storage.captured_edit_store import CapturedAgentTurn, CapturedEditStore, CapturedReadOrPrompt
from app.text.line_hash import unpack_line_hashes
from app.workspace.secrets import secret_reason

_MAX_REQUEST_CHARACTERS = 300
_SHELL_READS_UNSEEN = "its hook does not see what it reads."
_HOOK_INSTALLED_LATE = (
    "its hook was not installed when the session began; if it was, run `signoff doors install` again."
)


def find_agent_reads_before_proposal(
    captured_edits: CapturedEditStore, store: ProposalStore, proposal_id: str, paths: Collection[str]
) -> ModelReadsBeforeEdit | None:
    """Return what the agent of a proposal had read before it; None if no hook captured the proposal.

    Raises:
        StorageError: the database can't be read.
    """
    turn = captured_edits.turn_of_proposal(proposal_id)
    if turn is None:
        return None
    reads = captured_edits.reads_before(proposal_id)
    prompts = [read.words for read in reads if read.kind == "prompt"]
    unseen = [read.words for read in reads if read.kind == "unseen"]
    if not reads:
        unseen.append(_SHELL_READS_UNSEEN)
    elif not any(read.kind == "start" for read in reads):
        unseen.append(_HOOK_INSTALLED_LATE)
    searches: dict[str, tuple[str, ...]] = {}
    for read in reads:
        if read.kind == "found" and read.words:
            searches[read.words] = (*searches.get(read.words, ()), read.path)
    earlier = _earlier_versions(captured_edits, store, turn, paths)
    files = {path: _file_reads(path, reads, prompts, earlier.get(path, {})) for path in paths}
    return ModelReadsBeforeEdit(
        request=prompts[-1][:_MAX_REQUEST_CHARACTERS] if prompts else "",
        files=files,
        read_paths=frozenset(read.path for read in reads if read.kind in ("read", "attached")),
        searches=searches,
        user_lines=frozenset(line.strip() for prompt in prompts for line in prompt.splitlines()),
        edited=frozenset(paths),
        unknown=unseen[0] if unseen else "",
    )


def _file_reads(
    path: str, reads: Sequence[CapturedReadOrPrompt], prompts: Sequence[str], earlier: Mapping[str, str]
) -> FileReadHistory:
    """Return what is known about the reads of one file.

    Args:
        reads: All noted reads of the session.
        earlier: Texts of the file in earlier proposals of the session, by version.
    """
    if secret_reason(path):
        return FileReadHistory(pages=(("", "reads of what looks like a secret are not noted"),), is_known=True)
    reads_of_file = [read for read in reads if read.path == path]
    pages = [(read.version, read.words) for read in reads_of_file if read.kind == "read"]
    if any(read.kind == "attached" for read in reads_of_file):
        # The lines and the version are unknown.
        return FileReadHistory(pages=(*pages, ("", "shown by the agent itself")), is_known=True)
    name = path.rpartition("/")[2]
    mentions = [("", "named in your prompt")] if any(name in prompt for prompt in prompts) else []
    searched = [("", "found by a search")] if any(read.kind == "found" for read in reads_of_file) else []
    written = [("", "changed by an earlier proposal")] if earlier else []
    texts = [line for text in (*prompts, *earlier.values()) for line in text.splitlines()]
    return FileReadHistory(
        versions=frozenset((*earlier, *(read.version for read in reads_of_file if read.version))),
        pages=(*pages, *searched, *written, *mentions),
        texts=frozenset(stripped for line in texts if (stripped := line.strip())),
        is_known=bool(reads_of_file or mentions or written),
        line_hashes=frozenset().union(*(unpack_line_hashes(read.lines) for read in reads_of_file)),
    )


def _earlier_versions(
    captured: CapturedEditStore, store: ProposalStore, turn: CapturedAgentTurn, paths: Collection[str]
) -> dict[str, dict[str, str]]:
    """Return the texts of files before and after each earlier proposal of a session, by path and version.

    The agent knows these texts: it was informed of each outcome, with the lines around it.
    """
    contents = ContentStore(store)
    texts_by_path: dict[str, dict[str, str]] = {}
    for earlier_turn in captured.turns_of_session(turn.agent, turn.session):
        proposal = store.proposal(earlier_turn.proposal) if earlier_turn.proposal != turn.proposal else None
        for change in proposal.files if proposal is not None else ():
            for version in (change.base, change.result, change.origin_result):
                if change.path in paths and version is not None:
                    with suppress(MissingContent):
                        text = contents.get(version).decode("utf-8", "replace")
                        texts_by_path.setdefault(change.path, {})[version.sha256] = text
    return texts_by_path

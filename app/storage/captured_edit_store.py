"""Edits of other agents that a hook captured, and the turns in which the agents made them.

A hook runs before each call of an agent and must be fast, so it imports nothing that stages edits. It stores here the
text that the agent would have written, under the id of the future proposal. The next process that opens or follows
the workspace stages the proposal.
"""

import sqlite3
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.seen_lines_store import raise_if_too_many_unread_lines

_TURN_RETENTION_SECONDS = 30 * 86_400.0
"""Seconds for which a turn is kept: an agent's session may be resumed later to read a decision."""
_AMENDABLE_SECONDS = 86_400.0
"""Seconds in which a turn may add edits to its proposal."""


class CapturedAgentTurn(NamedTuple):
    """A turn of an agent in which an edit was captured or staged; usually one prompt."""

    agent: str
    session: str
    prompt: str
    response: str = ""
    """Id of the model response with the edit; empty if unknown."""
    model: str = ""
    proposal: str = ""
    closed: bool = True
    """Whether further calls of the turn are refused."""
    reported: int = 0
    """Number of the last decision on the proposal that was reported to the agent."""


class CapturedFileEdit(NamedTuple):
    """A file before and after an agent's edit."""

    path: str
    """Path of the real file, relative to the workspace."""
    before: bytes | None
    before_mode: int
    """Permission bits before; 0 if the file did not exist."""
    after: bytes | None

    @property
    def changed_line_count(self) -> int:
        """Return the number of lines that are removed or added; at least 1."""
        # Imported only if something is captured.
        from app.proposals.text.diff import diff_lines

        old, new = ((data or b"").splitlines() for data in (self.before, self.after))
        return max(1, sum(change.removed + change.added for change in diff_lines(old, new)))


class CapturedReadOrPrompt(NamedTuple):
    """What a hook captured about an agent's reading: a file that it read, found or was given, or a prompt."""

    kind: Literal["start", "unseen", "prompt", "read", "found", "attached"]
    """`start`: the hook was installed when the session started. `unseen`: the agent may have read something that the
    hook does not see; `words` says how. `prompt`: `words` is the user's prompt. `read`: the agent read a file,
    `words` names the lines. `found`: a search for `words` found a file. `attached`: the agent's program added the
    file by itself."""
    path: str = ""
    """Path relative to the workspace."""
    words: str = ""
    version: str = ""
    """SHA-256 of the file that was read."""
    lines: bytes = b""
    """Hashes of the lines that the agent saw (`app.text.line_hash`)."""


class EditAlreadyPending(Exception):
    """Another proposal, from any origin, makes these edits and awaits a decision.

    Args:
        proposal: Its id.
    """

    def __init__(self, proposal: str) -> None:
        super().__init__()
        self.proposal = proposal


class CapturedEditStore:
    """The edits that hooks have captured in one workspace; data is on disk when a method returns."""

    def __init__(self, database: Database, workspace: str, signal: DatabaseChangeSignal) -> None:
        self._database = database
        self._workspace = workspace
        self._signal = signal

    def latest_turn(self, agent: str, session: str, prompt: str) -> CapturedAgentTurn | None:
        """Return the latest turn of a prompt; None if the prompt has staged nothing."""
        turns = self._query_turns("session = ? AND prompt = ? AND agent = ?", (session, prompt, agent))
        return turns[-1] if turns else None

    def turns_to_report(self, agent: str, session: str, stale_unless_prompt: str | None) -> list[CapturedAgentTurn]:
        """Return the turns of a session with unreported decisions or, if closed, a stale proposal; oldest first.

        Args:
            stale_unless_prompt: Leave out stale proposals of this prompt; None leaves out none.
        """
        return self._query_turns(
            f"session = ? AND agent = ? AND (told < ({_LAST_DECISION})"
            f" OR closed = 1 AND prompt IS NOT ? AND EXISTS ({_STALE_PROPOSAL}))",
            (session, agent, stale_unless_prompt),
        )

    def turn_of_proposal(self, proposal: str) -> CapturedAgentTurn | None:
        """Return the turn in which a proposal was staged; None if there is none."""
        turns = self._query_turns("proposal = ?", (proposal,))
        return turns[0] if turns else None

    def turns_of_session(self, agent: str, session: str) -> list[CapturedAgentTurn]:
        """Return the turns of an agent's session, oldest first."""
        return self._query_turns("agent = ? AND session = ?", (agent, session))

    def turns_of_agent(self, agent: str) -> list[CapturedAgentTurn]:
        """Return the turns of all sessions of an agent, oldest first."""
        return self._query_turns("agent = ?", (agent,))

    def add_reads(self, agent: str, session: str, reads: Sequence[CapturedReadOrPrompt]) -> None:
        """Store notes about reads, without duplicates within a session; at the start of a session, delete old
        notes."""
        session_key = (self._workspace, agent, session)
        with self._database.transaction() as connection:
            connection.executemany(
                _INSERT_READ, [(*session_key, time.time(), *read, *session_key, *read[:4]) for read in reads]
            )
            if any(read.kind == "start" for read in reads):
                connection.execute("DELETE FROM agent_reads WHERE time < ?", (time.time() - _TURN_RETENTION_SECONDS,))

    def reads_before(self, proposal: str) -> list[CapturedReadOrPrompt]:
        """Return the notes about reads before the first edit of a proposal's turn, in order."""
        rows = self._database.query_rows(_SELECT_READS, (self._workspace, proposal))
        return [CapturedReadOrPrompt(*row) for row in rows]  # type: ignore[arg-type]

    def store_edits(
        self,
        turn: CapturedAgentTurn,
        files: Sequence[CapturedFileEdit],
        before: Sequence[CapturedFileEdit] = (),
        unread_limit: int = 0,
    ) -> str:
        """Store edits for the proposal of a turn, and close the turn.

        Args:
            turn: The turn. It gets a new proposal if it has none, or if the user has begun to decide on it. If it
                repeats the edits of the session's last proposal, which the user has not begun to decide on, it gets
                that one: the agent does not see on disk that they are proposed.
            before: The files as the turn had captured them when the edits were made.
            unread_limit: Number of lines that may wait unread before the edit; 0 for any number.

        Returns:
            The proposal's id. If another call of the turn was faster, nothing is stored and "" is returned: compute
            the edits again.

        Raises:
            EditAlreadyPending: the same was proposed elsewhere; an id for this one would never appear.
            TooManyUnreadLinesToStage: more lines wait unread.
        """
        rows = [(*file, file.changed_line_count if unread_limit else 1) for file in files]
        with self._database.transaction() as connection:
            closed_turn = connection.execute(_SELECT_CLOSED_TURNS, (self._workspace, *turn[:3])).fetchone()
            captured_texts = (
                connection.execute(_SELECT_CAPTURED_TEXTS, (self._workspace, turn.proposal)).fetchall()
                if turn.proposal
                else []
            )
            if closed_turn and (
                closed_turn[0] != turn.proposal or dict(captured_texts) != {file.path: file.after for file in before}
            ):
                return ""
            if not turn.proposal:
                if repeated := self._find_repeated_proposal(connection, turn, files):
                    connection.execute(_MOVE_TURN, (turn.prompt, turn.response, self._workspace, repeated))
                    return repeated
                for (other,) in connection.execute(_SELECT_PROPOSALS_ON_PATH, (self._workspace, files[0].path)):
                    if self._has_exactly(connection, other, files):
                        raise EditAlreadyPending(other)
                if pending := self._find_pending_proposal_with(connection, files):
                    raise EditAlreadyPending(pending)
            raise_if_too_many_unread_lines(connection, self._workspace, unread_limit)
            proposal_key = (self._workspace, turn.proposal)
            if not turn.proposal or connection.execute(_SELECT_DECIDED, proposal_key).fetchone():
                row = connection.execute(RESERVE_PROPOSAL_NUMBER, (self._workspace,)).fetchone()
                turn = turn._replace(proposal=f"P{row[0]}")
            insert_turn_if_missing(connection, self._workspace, turn)
            connection.executemany(
                "INSERT INTO captured VALUES (?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT (workspace, proposal, path)"
                " DO UPDATE SET after = excluded.after, changed = excluded.changed, staged = 0",
                [(self._workspace, turn.proposal, *row) for row in rows],
            )
            delete_old_edits_and_turns(connection)
        self._signal.send()
        return turn.proposal

    def _find_repeated_proposal(
        self, connection: sqlite3.Connection, turn: CapturedAgentTurn, files: Sequence[CapturedFileEdit]
    ) -> str:
        """Return the last proposal of a turn's session if it has exactly these edits and is undecided; else ""."""
        last = connection.execute(_SELECT_LAST_PROPOSAL, (self._workspace, turn.agent, turn.session)).fetchone()
        return str(last[0]) if last and self._has_exactly(connection, last[0], files) else ""

    def _has_exactly(self, connection: sqlite3.Connection, proposal: str, files: Sequence[CapturedFileEdit]) -> bool:
        """Return whether a proposal has exactly these edits and is undecided."""
        proposal_key = (self._workspace, proposal)
        if connection.execute(_SELECT_DECIDED, proposal_key).fetchone():
            return False
        captured = connection.execute(_SELECT_CAPTURED_EDITS, proposal_key).fetchall()
        return set(captured) == {(file.path, file.before, file.after) for file in files}

    def _find_pending_proposal_with(self, connection: sqlite3.Connection, files: Sequence[CapturedFileEdit]) -> str:
        """Return an undecided proposal, from any origin, that makes these edits and perhaps others; else ""."""
        found: dict[int, set[tuple[str, str | None, str | None]]] = {}
        for number, *file in connection.execute(_SELECT_PENDING_FILES, (self._workspace,)):
            found.setdefault(number, set()).add((file[0], file[1], file[2]))
        edits = {(file.path, _sha256(file.before), _sha256(file.after)) for file in files} if found else set()
        return next((f"P{number}" for number, proposed in found.items() if edits <= proposed), "")

    def captured_files(self, proposal: str) -> list[CapturedFileEdit]:
        """Return the files that were captured for a proposal."""
        rows = self._database.query_rows(
            "SELECT path, before, before_mode, after FROM captured"
            " WHERE workspace = ? AND proposal = ? ORDER BY path",
            (self._workspace, proposal),
        )
        return [CapturedFileEdit(*cast(tuple[str, bytes | None, int, bytes | None], row)) for row in rows]

    def proposals_to_stage(self) -> list[str]:
        """Return the ids of proposals with edits that are not staged yet, oldest first."""
        rows = self._database.query_rows(
            "SELECT DISTINCT proposal FROM captured WHERE workspace = ? AND staged = 0"
            " ORDER BY CAST(substr(proposal, 2) AS INTEGER)",
            (self._workspace,),
        )
        return [cast(str, name) for (name,) in rows]

    def mark_staged(self, proposal: str, became: str, files: Sequence[CapturedFileEdit]) -> None:
        """Mark captured files as staged; `became` is the new id if the reserved one could not be used."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE captured SET staged = 1 WHERE workspace = ? AND proposal = ? AND path = ? AND after IS ?",
                [(self._workspace, proposal, file.path, file.after) for file in files],
            )
            if became != proposal:
                connection.execute(
                    "INSERT INTO agent_turns SELECT workspace, agent, session, prompt, response, model, ?, closed, 0,"
                    " time FROM agent_turns WHERE workspace = ? AND proposal = ? ON CONFLICT (workspace, proposal)"
                    " DO UPDATE SET response = excluded.response, closed = excluded.closed",
                    (became, self._workspace, proposal),
                )

    def discard_captured_files(self, proposal: str, files: Sequence[CapturedFileEdit]) -> None:
        """Delete captured files, unless a later call has changed them; the turn stays as it is."""
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM captured WHERE workspace = ? AND proposal = ? AND path = ? AND after IS ?",
                [(self._workspace, proposal, file.path, file.after) for file in files],
            )

    def reopen_turns_without_prompt_id(self, agent: str, session: str) -> None:
        """Reopen the turns of an agent that sends no prompt ids, after a new prompt of the user."""
        if any(
            turn.closed for turn in self._query_turns("agent = ? AND session = ? AND prompt = ''", (agent, session))
        ):
            with self._database.transaction() as connection:
                connection.execute(
                    "UPDATE agent_turns SET closed = 0"
                    " WHERE workspace = ? AND agent = ? AND session = ? AND prompt = ''",
                    (self._workspace, agent, session),
                )

    def mark_reported(self, proposal: str, decision: int) -> None:
        """Mark the decisions up to this number as reported, and reopen the turn."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE agent_turns SET told = ?, closed = 0 WHERE workspace = ? AND proposal = ?",
                (decision, self._workspace, proposal),
            )

    def _query_turns(self, where: str, values: tuple[object, ...]) -> list[CapturedAgentTurn]:
        rows = self._database.query_rows(
            "SELECT agent, session, prompt, response, model, proposal, closed, told FROM agent_turns"
            f" WHERE workspace = ? AND {where} ORDER BY CAST(substr(proposal, 2) AS INTEGER)",
            (self._workspace, *values),
        )
        return [CapturedAgentTurn(*cast(tuple[str, str, str, str, str, str, bool, int], row)) for row in rows]


def insert_turn_if_missing(connection: sqlite3.Connection, workspace: str, turn: CapturedAgentTurn) -> None:
    """Store a turn unless its proposal has one, in the transaction that stores its edits or its proposal."""
    connection.execute(_INSERT_TURN, (workspace, *turn[:6], time.time()))


def delete_old_edits_and_turns(connection: sqlite3.Connection) -> None:
    """Delete captured edits that are old and staged, then old turns without captured edits."""
    now = time.time()
    connection.execute(_DELETE_CAPTURED, (now - _AMENDABLE_SECONDS,))
    connection.execute(_DELETE_TURNS, (now - _TURN_RETENTION_SECONDS,))


def _sha256(data: bytes | None) -> str | None:
    # Imported only if something is captured.
    from hashlib import sha256

    return None if data is None else sha256(data).hexdigest()


RESERVE_PROPOSAL_NUMBER = (
    "INSERT INTO proposal_numbers VALUES (?, 1) ON CONFLICT (workspace) DO UPDATE SET last = last + 1 RETURNING last"
)
"""The number of the next proposal of a workspace."""
_INSERT_TURN = "INSERT OR IGNORE INTO agent_turns VALUES (?, ?, ?, ?, ?, ?, ?, 1, 0, ?)"
_INSERT_READ = (
    "INSERT INTO agent_reads SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM agent_reads"
    " WHERE workspace = ? AND agent = ? AND session = ? AND kind = ? AND path = ? AND words = ? AND version = ?)"
)
_SELECT_READS = (
    "SELECT kind, path, words, version, lines FROM agent_reads AS one JOIN agent_turns AS turn"
    " USING (workspace, agent, session) WHERE workspace = ? AND proposal = ?"
    " AND (one.time <= turn.time OR kind = 'attached') ORDER BY one.rowid"
)
"""Attached files are noted at each edit of a turn, so also after its first one."""
_SELECT_CLOSED_TURNS = (
    "SELECT proposal FROM agent_turns WHERE workspace = ? AND agent = ? AND session = ? AND prompt = ? AND closed = 1"
    " ORDER BY CAST(substr(proposal, 2) AS INTEGER) DESC"
)
_SELECT_LAST_PROPOSAL = (
    "SELECT proposal FROM agent_turns WHERE workspace = ? AND agent = ? AND session = ?"
    " ORDER BY CAST(substr(proposal, 2) AS INTEGER) DESC LIMIT 1"
)
_MOVE_TURN = "UPDATE agent_turns SET prompt = ?, response = ?, closed = 1 WHERE workspace = ? AND proposal = ?"
_SELECT_PROPOSALS_ON_PATH = (
    "SELECT proposal FROM captured AS one WHERE workspace = ? AND path = ? AND (staged = 0 OR EXISTS"
    " (SELECT 1 FROM proposals WHERE proposals.workspace = one.workspace"
    " AND number = CAST(substr(one.proposal, 2) AS INTEGER)))"
)
"""The proposals with a captured edit of a file that are, or will be, staged."""
_SELECT_PENDING_FILES = (
    "SELECT number, json_extract(file.value, '$.path'), json_extract(file.value, '$.base.sha256'),"
    " json_extract(file.value, '$.result.sha256') FROM proposals, json_each(body, '$.files') AS file"
    " WHERE workspace = ? AND state = 'pending' AND json_extract(body, '$.last.number') IS NULL ORDER BY number"
)
_SELECT_CAPTURED_EDITS = "SELECT path, before, after FROM captured WHERE workspace = ? AND proposal = ?"
_SELECT_CAPTURED_TEXTS = "SELECT path, after FROM captured WHERE workspace = ? AND proposal = ?"
_DELETE_CAPTURED = (
    "DELETE FROM captured WHERE staged = 1 AND EXISTS (SELECT 1 FROM agent_turns AS turn"
    " WHERE turn.workspace = captured.workspace AND turn.proposal = captured.proposal AND turn.time < ?)"
)
_DELETE_TURNS = (
    "DELETE FROM agent_turns WHERE time < ? AND NOT EXISTS (SELECT 1 FROM captured"
    " WHERE captured.workspace = agent_turns.workspace AND captured.proposal = agent_turns.proposal)"
)
_FROM_PROPOSAL_OF_TURN = (
    "FROM proposals WHERE proposals.workspace = agent_turns.workspace"
    " AND proposals.number = CAST(substr(agent_turns.proposal, 2) AS INTEGER)"
)
_LAST_DECISION = f"SELECT coalesce(json_extract(body, '$.last.number'), 0) {_FROM_PROPOSAL_OF_TURN}"
_STALE_PROPOSAL = f"SELECT 1 {_FROM_PROPOSAL_OF_TURN} AND proposals.state = 'stale'"
_SELECT_DECIDED = (
    "SELECT 1 FROM proposals WHERE workspace = ? AND number = CAST(substr(?, 2) AS INTEGER)"
    " AND (state != 'pending' OR json_extract(body, '$.last.number') IS NOT NULL)"
)
"""Whether the user has decided on a proposal or a part of it, or it is stale."""

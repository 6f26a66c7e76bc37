"""The schema as a list of migrations; the database's `user_version` is how many of them it has."""

_INITIAL = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        workspace TEXT NOT NULL,
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        forked_from TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        updated REAL NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sessions_of_workspace ON sessions (workspace, updated)",
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        time REAL NOT NULL,
        type TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX events_of_session ON events (session, id)",
    """
    CREATE TABLE proposals (
        workspace TEXT NOT NULL,
        number INTEGER NOT NULL,
        session TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,
        waiting INTEGER NOT NULL,
        created REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (workspace, number)
    ) STRICT
    """,
    "CREATE INDEX proposals_waiting ON proposals (workspace, waiting, number)",
    "CREATE TABLE proposal_numbers (workspace TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT",
    """
    CREATE TABLE decisions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        session TEXT NOT NULL DEFAULT '',
        time REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX decisions_of_workspace ON decisions (workspace, id)",
    "CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT, WITHOUT ROWID",
    """
    CREATE TABLE journal (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        state TEXT NOT NULL,
        time REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX journal_of_workspace ON journal (workspace, state, id)",
    """
    CREATE TABLE settings (
        scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key)
    ) STRICT
    """,
)

_AGE_OF_CONTENTS = ("ALTER TABLE blobs ADD COLUMN added REAL NOT NULL DEFAULT 0",)
"""When a content was put last, so that pruning spares what is being staged at that moment."""

_UNRECORDED = (
    """
    CREATE TABLE unrecorded (
        workspace TEXT NOT NULL, proposal TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (workspace, proposal)
    ) STRICT
    """,
)
"""Proposals whose state a decision has changed, until the decision is recorded: what a crash may cut in two."""

_ALLOWED_COMMANDS = (
    """
    CREATE TABLE allowed_commands (
        workspace TEXT NOT NULL, form TEXT NOT NULL, added REAL NOT NULL, PRIMARY KEY (workspace, form)
    ) STRICT
    """,
)
"""Forms of commands that the user has allowed for good in a workspace."""

_PROPOSAL_PATHS = (
    """
    CREATE TABLE proposal_paths (
        workspace TEXT NOT NULL,
        path TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (workspace, path, number),
        FOREIGN KEY (workspace, number) REFERENCES proposals (workspace, number) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX paths_of_proposal ON proposal_paths (workspace, number)",
    """
    INSERT OR IGNORE INTO proposal_paths
    SELECT workspace, json_extract(file.value, '$.path'), number FROM proposals, json_each(body, '$.files') file
    UNION
    SELECT workspace, json_extract(file.value, '$.old_path'), number FROM proposals, json_each(body, '$.files') file
    WHERE json_extract(file.value, '$.old_path') != ''
    """,
)
"""The files that proposals name, so that what has to do with a file is found without a look at all that waits."""

_DECISIONS_UNRECORDED = (
    "ALTER TABLE unrecorded RENAME TO unrecorded_proposals",
    """
    CREATE TABLE unrecorded (
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        number INTEGER NOT NULL,
        time REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (workspace, proposal, number)
    ) STRICT
    """,
    """
    INSERT INTO unrecorded
    SELECT old.workspace, old.proposal, 0, old.time, json_object(
        'number', 0,
        'decision', CASE state WHEN 'applied' THEN 'approved' WHEN 'pending' THEN 'undone' ELSE state END,
        'feedback', CASE state WHEN 'denied' THEN coalesce(json_extract(proposals.body, '$.feedback'), '') ELSE '' END
    )
    FROM unrecorded_proposals old JOIN proposals
    ON proposals.workspace = old.workspace AND proposals.number = CAST(substr(old.proposal, 2) AS INTEGER)
    WHERE state IN ('applied', 'partly_approved', 'denied', 'undone', 'pending')
    """,
    "DROP TABLE unrecorded_proposals",
)
"""Each decision by itself, with all that the user said, so that a later one does not take its place. What was left
over is read off the state of its proposal; 0 stands for a decision that was not counted."""

_CAPTURED = (
    """
    CREATE TABLE agent_turns (
        workspace TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        prompt TEXT NOT NULL,
        response TEXT NOT NULL,
        model TEXT NOT NULL,
        proposal TEXT NOT NULL,
        closed INTEGER NOT NULL,
        told INTEGER NOT NULL DEFAULT 0,
        time REAL NOT NULL,
        PRIMARY KEY (workspace, proposal)
    ) STRICT
    """,
    "CREATE INDEX agent_turns_of_session ON agent_turns (workspace, agent, session, prompt)",
    """
    CREATE TABLE captured (
        workspace TEXT NOT NULL,
        proposal TEXT NOT NULL,
        path TEXT NOT NULL,
        before BLOB,
        before_mode INTEGER NOT NULL,
        after BLOB,
        staged INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (workspace, proposal, path),
        FOREIGN KEY (workspace, proposal) REFERENCES agent_turns (workspace, proposal) ON DELETE CASCADE
    ) STRICT
    """,
    "CREATE INDEX captured_to_stage ON captured (workspace) WHERE staged = 0",
)
"""Edits of other agents as their hook took them, until someone who looks makes proposals of them; and the turns of
those agents in which that happened, which are closed until the user has the word."""

_RECORD = (
    """
    CREATE TABLE record (
        workspace TEXT NOT NULL, number INTEGER NOT NULL, sha256 TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (workspace, number)
    ) STRICT
    """,
    "CREATE TABLE record_ends (workspace TEXT PRIMARY KEY, number INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT",
)
"""The chain of entries, byte for byte as they were hashed, and where it ends, so that a lost end is missed, too."""

_PINNED = (
    "ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sessions ADD COLUMN named INTEGER NOT NULL DEFAULT 0",
)
"""What the user has said of a session: that it stays, and that its title is the user's own."""

_SIDE_QUESTIONS = (
    """
    CREATE INDEX side_questions ON events (json_extract(body, '$.proposal'))
    WHERE type IN ('side_question', 'side_answer')
    """,
)
"""What was asked aside is found by the proposal that it is about, whatever session it was asked in."""

_SEARCHED_ANEW = ("DROP TABLE IF EXISTS search", "DELETE FROM settings WHERE scope = '' AND key = 'search.upto'")
"""The index of words is made anew when somebody searches: what was asked aside is found, too."""

EVENTS_IN_THE_RECORD = (
    "CREATE INDEX IF NOT EXISTS decided_events ON events (session) WHERE type = 'proposal_decided'",
)
"""The record also holds the events that tell of decisions; those that are there already are entered now."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _INITIAL,
    _AGE_OF_CONTENTS,
    _UNRECORDED,
    _ALLOWED_COMMANDS,
    _PROPOSAL_PATHS,
    _DECISIONS_UNRECORDED,
    _CAPTURED,
    _RECORD,
    _PINNED,
    _SIDE_QUESTIONS,
    _SEARCHED_ANEW,
    EVENTS_IN_THE_RECORD,
)
"""Each entry brings the schema one version further; entries are appended, never changed."""

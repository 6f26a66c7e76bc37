"""Where a proposal comes from: signoff's own model, another agent, a command and how to run it again, a patch, the
disk."""

from enum import StrEnum

from pydantic import model_validator

from app.proposals.values.decision_facts import FrozenModel


class OriginKind(StrEnum):
    """The kind of author of the edits."""

    MODEL = "model"
    """The model of one of signoff's sessions."""
    COMMAND = "command"
    """A command that this model ran."""
    PROGRAM = "program"
    """signoff itself: checks that it suggests, settings that it writes."""
    PATCH = "patch"
    """A patch that the user staged."""
    AGENT = "agent"
    """Another agent, through a hook or an MCP server."""
    DISK = "disk"
    """Changes that were already on disk."""
    REF = "ref"
    """A commit, a range or a pull request."""
    UNDO = "undo"
    """Stored by earlier versions only."""


class CommandRecipe(FrozenModel):
    """The command that made all changes of a proposal, with everything that is needed to run it again."""

    command: str
    """The command line for the shell."""
    folder: str
    """Folder in which it ran, relative to the workspace."""
    seconds: float
    """Its time limit, in seconds."""
    environment: str
    """SHA-256 of its environment variables and of the system."""
    tree: str = ""
    """The files that it saw, without those that git ignores: the id of a git tree, or a SHA-256; empty if unknown."""
    reproduced: int = 0
    """The revision of the proposal that a second run has reproduced byte for byte; 0 for none."""


_AGENT_NAMES = {
    "claude": "Claude Code",
    "codex": "Codex",
    "copilot": "Copilot CLI",
    "droid": "Droid",
    "gemini": "Gemini CLI",
    "kimi": "Kimi Code",
    "opencode": "OpenCode",
    "qwen": "Qwen Code",
}
_SHORT_ID_CHARACTERS = 8


class ProposalOrigin(FrozenModel):
    """The origin of a proposal, as far as it is known."""

    kind: OriginKind = OriginKind.MODEL
    agent: str = ""
    """Short name of the other agent: `claude`."""
    model: str = ""
    """Name of the model at its server."""
    host: str = ""
    """Host and port of the server of signoff's own model."""
    session: str = ""
    """Id of the agent's session."""
    prompt: str = ""
    """The agent's id of the prompt or turn."""
    ref: str = ""
    """The commit, range, pull request or patch file, as the user named it."""

    @model_validator(mode="before")
    @classmethod
    def _accept_stored_kind(cls, stored: object) -> object:
        """Accept origins that earlier versions stored as the kind alone."""
        return {"kind": stored} if isinstance(stored, str) else stored

    @property
    def label(self) -> str:
        """Return the word by which lists show and filter it."""
        if self.kind is OriginKind.AGENT:
            return self.agent or "agent"
        return "signoff" if self.kind in (OriginKind.MODEL, OriginKind.PROGRAM) else self.kind.value

    @property
    def name(self) -> str:
        """Return the shortest name of the author; for signoff's own model its name."""
        return self.model if self.kind is OriginKind.MODEL and self.model else self.label

    @property
    def agent_name(self) -> str:
        """Return the name of the other agent that its users know."""
        return _AGENT_NAMES.get(self.agent, self.label)

    @property
    def description(self) -> str:
        """Return the whole origin as text, for a separate line."""
        match self.kind:
            case OriginKind.MODEL:
                return f"signoff's model {self.model}".rstrip()
            case OriginKind.COMMAND:
                return f"a command of the model {self.model}" if self.model else "a command"
            case OriginKind.PROGRAM:
                return "signoff itself"
            case OriginKind.AGENT:
                session = f"session {self.session[:_SHORT_ID_CHARACTERS]}" if self.session else ""
                return ", ".join(filter(None, (self.agent_name, self.model, session)))
            case OriginKind.DISK:
                return f"the disk, against {self.ref}" if self.ref else "the disk"
            case OriginKind.REF:
                return self.ref or "a commit"
            case _:
                return self.ref or f"{'an' if self.kind is OriginKind.UNDO else 'a'} {self.kind.value}"

    def matches(self, wanted: str) -> bool:
        """Return whether a filter selects it: by label, kind or model, ignoring case."""
        return wanted.strip().casefold() in {name.casefold() for name in (self.label, self.kind, self.model) if name}

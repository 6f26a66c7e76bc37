"""The arguments of the tools; their JSON schemas for hosts are in `catalogue`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.doors.mcp.catalogue import LONGEST_WAIT, MOST_FILES

_Seconds = Annotated[int, Field(ge=0, le=LONGEST_WAIT)]


class _Arguments(BaseModel):
    """Unknown names are an error that the model can act on."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplacementArguments(_Arguments):
    """One replacement; its fields are those of `app.proposals.locate.matching.AgentReplacement`."""

    old: str
    new: str
    replace_all: bool = False
    inside_words: bool = False
    line: int | None = Field(default=None, ge=1)


class FileArguments(_Arguments):
    """The change of one file."""

    path: str
    edits: list[ReplacementArguments] | None = Field(default=None, min_length=1)
    content: str | None = None
    delete: bool = False
    new_path: str | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> "FileArguments":
        asked = [name for name in ("edits", "content") if getattr(self, name) is not None]
        if self.delete and (asked or self.new_path is not None):
            raise ValueError(f"{self.path}: `delete` goes with nothing else")
        if len(asked) == 2:
            raise ValueError(f"{self.path}: give `edits` or `content`, not both")
        if not (asked or self.delete or self.new_path is not None):
            raise ValueError(f"{self.path}: give `edits`, `content`, `delete` or `new_path`")
        return self


class _Proposing(_Arguments):
    summary: str | None = None
    wait_seconds: _Seconds | None = None
    on_top_of: str | None = None


class ProposeEditArguments(_Proposing):
    """Arguments of `propose_edit`."""

    files: list[FileArguments] = Field(min_length=1, max_length=MOST_FILES)


class ProposePatchArguments(_Proposing):
    """Arguments of `propose_patch`."""

    patch: str


class StatusArguments(_Arguments):
    """Arguments of `proposal_status`."""

    proposal: str | None = None
    wait_seconds: _Seconds | None = None

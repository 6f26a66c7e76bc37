"""Permanent permissions for tools of servers, with any arguments."""

import json
from dataclasses import dataclass

from app.tools.base.command_forms import CommandForm


@dataclass(frozen=True, slots=True)
class ToolForm:
    """A tool of a server with any arguments."""

    server: str
    tool: str
    fingerprint: str
    """Of the server's definition and of the tool's: another one of the same name is not allowed by it."""

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{self.tool} of {self.server}"

    def dump(self) -> str:
        """Return the form as text for `load_form`."""
        return json.dumps({"server": self.server, "tool": self.tool, "fingerprint": self.fingerprint})


def load_form(text: str) -> CommandForm | ToolForm:
    """The form that was dumped; raises ValueError."""
    match json.loads(text):
        case {"server": str(server), "tool": str(tool), "fingerprint": str(fingerprint)}:
            return ToolForm(server, tool, fingerprint)
    return CommandForm.load(text)

"""Which tools of others go to an endpoint: not those whose schema it has refused.

Kept apart: every request asks it, and what finds out is loaded only when something fails.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def taken(tools: list[dict[str, Any]], refused: Sequence[str]) -> list[dict[str, Any]]:
    """The tools without those that the server refused; the very list where it refused none."""
    return [tool for tool in tools if key_of(tool) not in refused] if refused else tools


def name_of(tool: Mapping[str, Any]) -> str:
    """The name of a tool in OpenAI's form."""
    return str((tool.get("function") or {}).get("name", ""))


def key_of(tool: Mapping[str, Any]) -> str:
    """Tells a tool from another of its name, whose schema may be taken."""
    said = json.dumps(tool, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"{name_of(tool)} {hashlib.sha256(said).hexdigest()[:16]}"

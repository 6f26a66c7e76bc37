"""A strict check of outgoing messages: everything that some server is known to refuse."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_SYSTEM_ROLES = frozenset({"system", "developer"})
_ROLES = _SYSTEM_ROLES | {"user", "assistant", "tool"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a server insists on; the defaults hold for every one."""

    system: Literal["anywhere", "first", "none"] = "anywhere"
    """Where system messages may stand."""
    alternate: bool = False
    """User and model take turns, the user first: no user after a tool result, no two of a kind in a row."""
    single_calls: bool = False
    """At most one call per assistant message."""
    id_length: int | None = None
    alnum9: bool = False
    """Call ids are nine letters or digits."""


def violations(messages: Sequence[Mapping[str, Any]], rules: Rules | None = None) -> list[str]:
    """What is wrong with a history, one line each; empty for a valid one."""
    checker = _Checker(rules or Rules())
    for position, message in enumerate(messages):
        checker.check(position, message)
    checker.end()
    return checker.found


class _Checker:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._open: list[str] = []
        """Call ids of the last assistant message whose results must come next, in any order."""
        self._seen_ids: set[str] = set()
        self._last = ""
        self._turn = ""
        """Role of the last message that is not a system message."""
        self.found: list[str] = []

    def check(self, position: int, message: Mapping[str, Any]) -> None:
        """Look at the next message."""
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            self._report(position, f"unknown role {role!r}")
            return
        if role != "tool" and self._open:
            self._report(position, f"{role} before the results of {', '.join(self._open)}")
            self._open = []
        self._check_encoding(position, message)
        match role:
            case "system" | "developer":
                self._system(position, message)
            case "user":
                self._user(position, message)
            case "assistant":
                self._assistant(position, message)
            case "tool":
                self._tool(position, message)
        self._last = role
        if role not in _SYSTEM_ROLES:
            self._turn = role

    def end(self) -> None:
        """Nothing more comes."""
        if self._open:
            self.found.append(f"end: no results for {', '.join(self._open)}")

    def _report(self, position: int, problem: str) -> None:
        self.found.append(f"{position}: {problem}")

    def _check_encoding(self, position: int, message: Mapping[str, Any]) -> None:
        try:
            json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError) as error:
            self._report(position, f"not encodable as JSON: {error}")

    def _system(self, position: int, message: Mapping[str, Any]) -> None:
        if not _filled(message.get("content")):
            self._report(position, "empty system message")
        if self._rules.system == "none":
            self._report(position, "system message where none is accepted")
        if self._rules.system == "first" and position > 0:
            self._report(position, "system message in mid-conversation")

    def _user(self, position: int, message: Mapping[str, Any]) -> None:
        if not _filled(message.get("content")):
            self._report(position, "empty user message")
        if self._rules.alternate and self._turn in ("user", "tool"):
            self._report(position, f"user after {self._turn}")

    def _assistant(self, position: int, message: Mapping[str, Any]) -> None:
        if self._rules.alternate and self._turn in ("assistant", ""):
            self._report(position, "assistant out of turn")
        calls = message.get("tool_calls")
        if calls is None:
            if not _filled(message.get("content")):
                self._report(position, "empty assistant message")
            return
        if not isinstance(calls, list) or not calls:
            self._report(position, "tool_calls is not a filled list")
            return
        if self._rules.single_calls and len(calls) > 1:
            self._report(position, "several calls in one message")
        for call in calls:
            self._call(position, call)

    def _call(self, position: int, call: Mapping[str, Any]) -> None:
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            self._report(position, "call without an id")
            return
        if call_id in self._seen_ids:
            self._report(position, f"call id {call_id} used twice")
        self._seen_ids.add(call_id)
        self._open.append(call_id)
        self._check_id(position, call_id)
        function = call.get("function") or {}
        if not isinstance(function.get("name"), str) or not function["name"]:
            self._report(position, f"call {call_id} without a name")
        if not _is_object(function.get("arguments")):
            self._report(position, f"arguments of {call_id} are not a JSON object")

    def _check_id(self, position: int, call_id: str) -> None:
        if self._rules.id_length is not None and len(call_id) > self._rules.id_length:
            self._report(position, f"call id of {len(call_id)} characters")
        if self._rules.alnum9 and not (len(call_id) == 9 and call_id.isascii() and call_id.isalnum()):
            self._report(position, f"call id {call_id!r} is not nine letters or digits")

    def _tool(self, position: int, message: Mapping[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if call_id not in self._open:
            self._report(position, f"result for {call_id!r}, which has no open call before it")
        else:
            self._open.remove(call_id)
        if not isinstance(message.get("content"), str):
            self._report(position, "result without text")


def _is_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _filled(content: Any) -> bool:
    return bool(content.strip()) if isinstance(content, str) else bool(content)

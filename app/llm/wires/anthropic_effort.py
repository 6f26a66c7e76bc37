"""How much a model is to think, as Anthropic's wire says it: by effort for newer models, by tokens for all others.

https://platform.claude.com/docs/en/build-with-claude/effort and .../extended-thinking
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BY_EFFORT = re.compile(r"claude-(?!\d|instant|(?:opus|sonnet|haiku)-4(?:[-.](?:[0-5]|\d{8})\b|$|[@:]))")
"""Models of Claude 4.6 and later, which think as long as their effort asks for; earlier ones take a budget only."""
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 16_384, "xhigh": 24_576, "max": 30_720}
"""Tokens."""
_LEAST = 1_024
"""Tokens of thinking; a smaller budget is an error."""
_SHARE = 0.75
"""Of the limit of a response, at most: the answer has to fit in too."""


def effort_fields(effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields for an effort in a body; empty where thinking is no choice."""
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if _BY_EFFORT.search(body["model"]):
        level = "low" if effort == "minimal" else effort
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
    budget = min(_BUDGETS[effort], int(body["max_tokens"] * _SHARE))
    if budget < _LEAST or _began_without(body["messages"]):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _began_without(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the model is amid a turn of calls that it began without thinking: it cannot begin to think there."""
    began_without = False
    for message in reversed(messages):
        if message["role"] == "assistant":
            began_without = "thinking" not in str(message["content"][0]["type"])
        elif message["role"] == "user" and all(block["type"] != "tool_result" for block in message["content"]):
            break
    return began_without

"""Each test of a screen starts an app, and each app parses the same CSS: here it is parsed once in a process."""

from collections.abc import Iterable
from typing import Any

import textual.css.stylesheet
from textual.css.model import RuleSet

_stylesheet: Any = textual.css.stylesheet
_read_variables = _stylesheet.tokenize_values
_parse = _stylesheet.parse

_variables: dict[frozenset[tuple[str, str]], dict[str, list[Any]]] = {}
_rules: dict[tuple[Any, ...], list[RuleSet]] = {}


def _variables_read_once(values: dict[str, str]) -> dict[str, list[Any]]:
    """The tokens of a theme's variables, the very same for the same values."""
    key = frozenset(values.items())
    if key not in _variables:
        _variables[key] = _read_variables(values)
    return _variables[key]


def _rules_parsed_once(*source: Any, variable_tokens: dict[str, list[Any]], **how: Any) -> Iterable[RuleSet]:
    """The rules of one widget's or one file's CSS under these variables; raises what Textual does if it is wrong."""
    key = (*source, id(variable_tokens), *sorted(how.items()))
    if key not in _rules:
        _rules[key] = list(_parse(*source, variable_tokens=variable_tokens, **how))
    return _rules[key]


def parse_once() -> None:
    """Have Textual's stylesheets share what they have parsed, as one stylesheet does for itself."""
    _stylesheet.tokenize_values = _variables_read_once
    _stylesheet.parse = _rules_parsed_once

"""Each test of a screen starts an app, and each app parses and applies the same CSS: here both are done once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
import textual.css.stylesheet
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

_stylesheet: Any = textual.css.stylesheet
_read_variables = _stylesheet.tokenize_values
_parse = _stylesheet.parse
_apply: Any = Stylesheet.apply
_process_components: Any = Stylesheet._process_component_classes

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


_OF_THE_APP = frozenset({"dark", "light", "inline", "ansi", "nocolor"})
"""Pseudo-classes that all nodes of an app have, or none."""
_FACTS = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")
"""What Textual notes at a node of the rules that might apply to it."""


@dataclass
class _Outcome:
    """What came of applying the rules to one kind of node in one place."""

    styles: Any
    facts: list[bool]
    held: dict[str, Any] | None
    """What a node holds once they were applied to it; None where some of them come by and by."""


class _Kind:
    """Nodes of the same class, id and CSS classes: the same rules might apply to them."""

    def __init__(self, rules: Iterable[RuleSet]) -> None:
        chains = [chain.selectors for rule in rules for chain in rule.selector_set]
        own = {name for chain in chains for name in chain[-1].pseudo_classes}
        above = {name for chain in chains for selector in chain[:-1] for name in selector.pseudo_classes}
        self.asked_app = tuple(sorted((own | above) & _OF_THE_APP))
        self.asked_node = tuple(sorted(own - _OF_THE_APP))
        self.asked_above = tuple(sorted(above - _OF_THE_APP))
        self.outcomes: dict[tuple[Any, ...], _Outcome] = {}

    def place(self, path: list[Any]) -> tuple[Any, ...]:
        """All that the rules can look at, from the app down to the node."""
        *above, node = path
        return (
            *((type(one), one._id, one.classes) for one in above),
            *(path[0].has_pseudo_classes({name}) for name in self.asked_app),
            *(node.has_pseudo_classes({name}) for name in self.asked_node),
            *(one.has_pseudo_classes({name}) for one in above for name in self.asked_above),
        )


@dataclass
class _Sheet:
    """The rules of an app's stylesheet, which most apps share."""

    rules: list[RuleSet]
    by_name: dict[str, list[RuleSet]]
    kinds: dict[tuple[Any, ...], _Kind] = field(default_factory=dict)

    def kind(self, node: Any) -> _Kind:
        key = (type(node), node._id, node.classes)
        if key not in self.kinds:
            names = self.by_name.keys() & node._selector_names
            self.kinds[key] = _Kind(rule for name in names for rule in self.by_name[name])
        return self.kinds[key]


_sheets: dict[tuple[int, ...], _Sheet] = {}


def _sheet(stylesheet: Any) -> _Sheet:
    by_name = stylesheet.rules_map
    if getattr(stylesheet, "_sheet_of", None) is not by_name:
        rules = stylesheet.rules
        stylesheet._sheet = _sheets.setdefault(tuple(map(id, rules)), _Sheet(rules, by_name))
        stylesheet._sheet_of = by_name
    found: _Sheet = stylesheet._sheet
    return found


class _Components(dict[str, Any]):
    """The styles of a node's component classes, worked out when asked for: a test draws with few."""

    def __init__(self, stylesheet: Any, node: DOMNode, names: Iterable[str]) -> None:
        super().__init__()
        self._stylesheet = stylesheet
        self._node = node
        self._names = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __missing__(self, name: str) -> Any:
        component = DOMNode(classes=name)
        component._attach(self._node)
        self._stylesheet.apply(component, animate=False)
        self[name] = component.styles
        return component.styles

    def clear(self) -> None:
        super().clear()
        self._names = frozenset()


def _components_later(self: Any, node: DOMNode) -> None:
    """Have a node's component classes styled anew, and the node drawn with them, as Textual always does."""
    if names := node._get_component_classes():
        node._component_styles = _Components(self, node, names)
        node.refresh()


def _applied_once(self: Any, node: Any, *, animate: bool = False, cache: Any = None) -> None:
    """Apply the rules to a node; what came of it is used again wherever Textual itself would among siblings."""
    kind = _sheet(self).kind(node)
    place = kind.place(node.css_path_nodes)
    known = kind.outcomes.get(place)
    base = node.styles.base
    if known is None:
        found: dict[Any, Any] = {}
        _apply(self, node, animate=animate, cache=found)
        for styles in found.values():
            facts = [getattr(node, fact) for fact in _FACTS]
            kind.outcomes[place] = _Outcome(styles, facts, None if "transitions" in styles else dict(base._rules))
        return
    for fact, holds in zip(_FACTS, known.facts, strict=True):
        setattr(node, fact, holds)
    if known.held is None or (base._rules != known.held and (base._rules or node._is_mounted)):
        self.replace_rules(node, known.styles, animate=animate)
    else:
        # Nothing hears of what is set before it is mounted, nor of what is set to what it is.
        base._rules.update(known.held)
        base._updates += 1
        node.notify_style_update()
    self._process_component_classes(node)


def work_once() -> None:
    """Have Textual's stylesheets share what they have parsed and applied, as one stylesheet does for itself."""
    _stylesheet.tokenize_values = _variables_read_once
    _stylesheet.parse = _rules_parsed_once
    Stylesheet._process_component_classes = _components_later  # type: ignore[method-assign]
    Stylesheet.apply = _applied_once  # type: ignore[method-assign]


def work_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have styles applied as in the app, until the end of a test that measures."""
    monkeypatch.setattr(Stylesheet, "_process_component_classes", _process_components)
    monkeypatch.setattr(Stylesheet, "apply", _apply)

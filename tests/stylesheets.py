"""Parse and apply each stylesheet once: each screen test starts an app with the same CSS."""

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


def _read_variables_once(values: dict[str, str]) -> dict[str, list[Any]]:
    """Return the tokens of a theme's variables; the same object for the same values."""
    key = frozenset(values.items())
    if key not in _variables:
        _variables[key] = _read_variables(values)
    return _variables[key]


def _parse_once(*source: Any, variable_tokens: dict[str, list[Any]], **options: Any) -> Iterable[RuleSet]:
    """Return the rules of one CSS source with these variables; raise Textual's error for invalid CSS."""
    key = (*source, id(variable_tokens), *sorted(options.items()))
    if key not in _rules:
        _rules[key] = list(_parse(*source, variable_tokens=variable_tokens, **options))
    return _rules[key]


_APP_PSEUDO_CLASSES = frozenset({"dark", "light", "inline", "ansi", "nocolor"})
"""Pseudo-classes that all nodes of an app share."""
_NODE_FLAGS = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")
"""Flags that Textual sets at a node from the rules that might apply to it."""


@dataclass
class _AppliedStyles:
    """The result of applying the rules to a kind of node in one place."""

    styles: Any
    flags: list[bool]
    node_rules: dict[str, Any] | None
    """The rules of a node after they were applied; None if a transition sets some of them later."""


class _NodeKind:
    """Nodes with the same class, id and CSS classes: the same rules might apply to them."""

    def __init__(self, rules: Iterable[RuleSet]) -> None:
        chains = [chain.selectors for rule in rules for chain in rule.selector_set]
        own = {name for chain in chains for name in chain[-1].pseudo_classes}
        above = {name for chain in chains for selector in chain[:-1] for name in selector.pseudo_classes}
        self.app_pseudo_classes = tuple(sorted((own | above) & _APP_PSEUDO_CLASSES))
        self.node_pseudo_classes = tuple(sorted(own - _APP_PSEUDO_CLASSES))
        self.ancestor_pseudo_classes = tuple(sorted(above - _APP_PSEUDO_CLASSES))
        self.outcomes: dict[tuple[Any, ...], _AppliedStyles] = {}

    def place(self, path: list[Any]) -> tuple[Any, ...]:
        """Return everything that the rules can test, from the app down to the node."""
        *above, node = path
        return (
            *((type(ancestor), ancestor._id, ancestor.classes) for ancestor in above),
            *(path[0].has_pseudo_classes({name}) for name in self.app_pseudo_classes),
            *(node.has_pseudo_classes({name}) for name in self.node_pseudo_classes),
            *(ancestor.has_pseudo_classes({name}) for ancestor in above for name in self.ancestor_pseudo_classes),
        )


@dataclass
class _SharedRules:
    """The rules of a stylesheet, shared by apps that have the same rules."""

    rules: list[RuleSet]
    by_name: dict[str, list[RuleSet]]
    kinds: dict[tuple[Any, ...], _NodeKind] = field(default_factory=dict)

    def kind(self, node: Any) -> _NodeKind:
        key = (type(node), node._id, node.classes)
        if key not in self.kinds:
            names = self.by_name.keys() & node._selector_names
            self.kinds[key] = _NodeKind(rule for name in names for rule in self.by_name[name])
        return self.kinds[key]


_sheets: dict[tuple[int, ...], _SharedRules] = {}


def _shared_rules(stylesheet: Any) -> _SharedRules:
    by_name = stylesheet.rules_map
    if getattr(stylesheet, "_shared_rules_source", None) is not by_name:
        rules = stylesheet.rules
        stylesheet._shared_rules = _sheets.setdefault(tuple(map(id, rules)), _SharedRules(rules, by_name))
        stylesheet._shared_rules_source = by_name
    shared_rules: _SharedRules = stylesheet._shared_rules
    return shared_rules


class _LazyComponentStyles(dict[str, Any]):
    """The styles of a node's component classes, computed on first use: a test draws with few of them."""

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


def _process_components_lazily(self: Any, node: DOMNode) -> None:
    """Compute the component styles of a node again when they are used, and redraw the node, as Textual does."""
    if names := node._get_component_classes():
        node._component_styles = _LazyComponentStyles(self, node, names)
        node.refresh()


def _apply_once(self: Any, node: Any, *, animate: bool = False, cache: Any = None) -> None:
    """Apply the rules to a node; reuse the result where Textual itself would reuse it among siblings."""
    kind = _shared_rules(self).kind(node)
    place = kind.place(node.css_path_nodes)
    cached = kind.outcomes.get(place)
    base = node.styles.base
    if cached is None:
        results: dict[Any, Any] = {}
        _apply(self, node, animate=animate, cache=results)
        for styles in results.values():
            flags = [getattr(node, flag) for flag in _NODE_FLAGS]
            kind.outcomes[place] = _AppliedStyles(
                styles, flags, None if "transitions" in styles else dict(base._rules)
            )
        return
    for flag, value in zip(_NODE_FLAGS, cached.flags, strict=True):
        setattr(node, flag, value)
    if cached.node_rules is None or (base._rules != cached.node_rules and (base._rules or node._is_mounted)):
        self.replace_rules(node, cached.styles, animate=animate)
    else:
        # Watchers are not called before the node is mounted, or if a value does not change.
        base._rules.update(cached.node_rules)
        base._updates += 1
        node.notify_style_update()
    self._process_component_classes(node)


def cache_stylesheet_work() -> None:
    """Patch Textual's stylesheets to share parsed and applied rules between apps."""
    _stylesheet.tokenize_values = _read_variables_once
    _stylesheet.parse = _parse_once
    Stylesheet._process_component_classes = _process_components_lazily  # type: ignore[method-assign]
    Stylesheet.apply = _apply_once  # type: ignore[method-assign]


def disable_stylesheet_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply styles as in the app, until the end of a test that measures."""
    monkeypatch.setattr(Stylesheet, "_process_component_classes", _process_components)
    monkeypatch.setattr(Stylesheet, "apply", _apply)

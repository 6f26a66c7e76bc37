"""Colours of source code and of selections."""

from collections.abc import Mapping
from typing import Final

from rich.style import Style
from textual.widget import Widget

_SELECTION = "screen--selection"

_RULES: Final[Mapping[str, str]] = {
    "remark": "color: $foreground 62%; text-style: italic;",
    "keyword": "color: $text-accent;",
    "constant": "color: $text-warning;",
    "string": "color: $text-success;",
    "number": "color: $text-warning;",
    "function": "color: $text-primary;",
    "class": "color: $text-primary; text-style: bold;",
    "builtin": "color: $text-secondary;",
    "decorator": "color: $text-secondary; text-style: italic;",
    "attribute": "color: $text-warning;",
    "tag": "color: $text-primary; text-style: bold;",
    "variable": "color: $text-secondary;",
    "operator": "color: $foreground 75%;",
    "heading": "color: $text-primary; text-style: bold;",
    "strong": "text-style: bold;",
    "emphasis": "text-style: italic;",
    "error": "color: $foreground;",
}
"""Kinds of tokens that have a colour of their own; everything else is plain text. A `remark` is a comment of the
language, as against the comments of the user."""


def syntax_classes(prefix: str) -> set[str]:
    """Return the component classes `PREFIX--KIND`."""
    return {f"{prefix}--{kind}" for kind in _RULES}


def syntax_css(prefix: str) -> str:
    """Return the CSS rules for these classes, for use inside a widget's own rules."""
    return "\n".join(f"    & > .{prefix}--{kind} {{ {rule} }}" for kind, rule in _RULES.items())


def selection_style(widget: Widget) -> Style:
    """Return the theme's style for selected text.

    Most themes leave the colour of the letters open, which Rich takes for letters in the colour of their background;
    they get the colour of plain text then.
    """
    style = widget.screen.get_component_rich_style(_SELECTION)
    if widget.screen.get_component_styles(_SELECTION).color.a:
        return style
    return style + Style(color=widget.screen.rich_style.color)

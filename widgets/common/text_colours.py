"""Colours of source code and of selections."""

from collections.abc import Mapping
from typing import Final

from rich.style import Style
from textual.widget import Widget

_SELECTION_CLASS = "screen--selection"

_CSS_BY_KIND: Final[Mapping[str, str]] = {
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
"""CSS of the token kinds with a colour; other tokens are plain text. A `remark` is a comment in the source code, to
distinguish it from the user's comments.
"""


def syntax_classes(prefix: str) -> set[str]:
    """Return the names of the component classes for syntax colours: `PREFIX--KIND`."""
    return {f"{prefix}--{kind}" for kind in _CSS_BY_KIND}


def syntax_css(prefix: str) -> str:
    """Return the CSS rules of the component classes for syntax colours, for use inside a widget's own rules."""
    return "\n".join(f"    & > .{prefix}--{kind} {{ {rule} }}" for kind, rule in _CSS_BY_KIND.items())


def selection_style(widget: Widget) -> Style:
    """Return the theme's style for selected text.

    Most themes define no text colour for a selection, and then Rich would use the background colour for the text. In
    that case, use the colour of plain text.
    """
    style = widget.screen.get_component_rich_style(_SELECTION_CLASS)
    if widget.screen.get_component_styles(_SELECTION_CLASS).color.a:
        return style
    return style + Style(color=widget.screen.rich_style.color)

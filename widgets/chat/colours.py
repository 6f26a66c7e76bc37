"""From roles to colours: the component classes of the transcript and the theme variables behind them."""

from typing import TYPE_CHECKING

from rich.style import Style

from widgets.chat.lines import Face

if TYPE_CHECKING:
    from textual.widget import Widget

_RULES: dict[str, str] = {
    "text": "color: $foreground;",
    "muted": "color: $text-muted;",
    "user": "color: $foreground;",
    "user-mark": "color: $accent;",
    "answer-mark": "color: $primary;",
    "heading": "color: $text-primary;",
    "subheading": "color: $foreground;",
    "quote": "color: $text-muted;",
    "quote-text": "color: $text-muted;",
    "list-mark": "color: $text-primary;",
    "rule": "color: $text-disabled;",
    "table-rule": "color: $text-disabled;",
    "table-head": "color: $text-primary;",
    "link": "color: $text-primary; text-style: underline;",
    "tool": "color: $text-muted;",
    "tool-name": "color: $foreground;",
    "success": "color: $text-success;",
    "warning": "color: $text-warning;",
    "error": "color: $text-error;",
    "program": "color: $text-muted; text-style: italic;",
    "program-mark": "color: $secondary;",
    "card": "background: $surface;",
    "card-id": "color: $text-accent; text-style: bold;",
    "key": "color: $text-accent; text-style: bold;",
    "added": "color: $text-success;",
    "removed": "color: $text-error;",
    "code": "color: $foreground; background: $surface;",
    "code-inline": "color: $text-secondary;",
    "code-comment": "color: $foreground 62%;",
    "code-keyword": "color: $text-accent;",
    "code-string": "color: $text-success;",
    "code-number": "color: $text-warning;",
    "code-function": "color: $text-primary;",
    "code-type": "color: $text-secondary;",
    "cursor": "background: $foreground 8%;",
}
"""What each role looks like; a role is the component class `chat--ROLE`."""

COMPONENT_CLASSES: set[str] = {f"chat--{role}" for role in _RULES}

_QUIET = ("muted", "quote", "quote-text", "rule", "table-rule", "tool", "program", "code-comment")


_TRANSCRIPT = """{
    height: 1fr;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-background-hover: $background;
    scrollbar-background-active: $background;
    scrollbar-color: $foreground 15%;
    scrollbar-color-hover: $foreground 30%;
    scrollbar-color-active: $foreground 40%;
    background: $background;
}
"""


def transcript_css(selector: str) -> str:
    """The default CSS of the transcript, which `selector` names, and of all roles in it."""
    return f"{selector} {_TRANSCRIPT}{_component_css(selector)}"


def _component_css(selector: str) -> str:
    rules = [f"& > .chat--{role} {{ {rule} }}" for role, rule in _RULES.items()]
    # A terminal's own colours cannot be mixed: what is quiet is dim.
    rules += [f"&:ansi > .chat--{role} {{ text-style: dim{' italic' * (role == 'program')}; }}" for role in _QUIET]
    return f"{selector} {{\n" + "\n".join(rules) + "\n}\n"


class Palette:
    """The styles of one widget under one theme; make a new one when the styles change."""

    def __init__(self, widget: "Widget") -> None:
        self._widget = widget
        self._styles: dict[tuple[Face, str, bool], Style] = {}
        self._colours: dict[str, Style] = {}
        self.base = widget.rich_style
        """The widget's own style, with its background."""

    def style(self, face: Face, fill: str = "", cursor: bool = False) -> Style:
        """The style of a face on the background of `fill`."""
        key = (face, fill, cursor)
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._resolve(face, fill, cursor)
        return style

    def _resolve(self, face: Face, fill: str, cursor: bool) -> Style:
        style = self.base
        if fill:
            style += Style(bgcolor=self._component(fill).bgcolor)
        if cursor:
            style += Style(bgcolor=self._component("cursor").bgcolor)
        component = self._component(face.role)
        style += Style(
            color=component.color,
            bold=face.bold or component.bold or None,
            italic=face.italic or component.italic or None,
            underline=component.underline or None,
            strike=face.strike or None,
            dim=component.dim or None,
        )
        if face.href:
            style += Style.from_meta({"href": face.href})
        return style

    def _component(self, role: str) -> Style:
        style = self._colours.get(role)
        if style is None:
            style = self._colours[role] = self._widget.get_component_rich_style(f"chat--{role}")
        return style

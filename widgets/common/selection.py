"""The colours of selected text."""

from rich.style import Style
from textual.widget import Widget

_NAME = "screen--selection"


def selection_style(widget: Widget) -> Style:
    """What the theme lays over selected text.

    Most themes leave the colour of the letters open, which Rich takes for letters in the colour of their background;
    they get the colour of plain text then.
    """
    style = widget.screen.get_component_rich_style(_NAME)
    if widget.screen.get_component_styles(_NAME).color.a:
        return style
    return style + Style(color=widget.screen.rich_style.color)

"""The colours of the diff preview: component classes, and the theme variables for them.

Every variable has a default that is mixed from the theme's palette: any theme works, and a theme file can set each
variable. `App.get_theme_variable_defaults` returns `make_diff_variable_defaults(self.current_theme)`.
"""

import re
from typing import Final

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from widgets.common.text_colours import syntax_css

DIFF_CSS: Final = (
    """
DiffView {
    background: $background;
    color: $foreground;
    scrollbar-size-vertical: 0;
    overflow-y: scroll;
    overflow-x: auto;
    scrollbar-size-horizontal: 1;

    & > .diff--plain { color: $foreground; }
    & > .diff--added { background: $diff-added-background; }
    & > .diff--added-word { background: $diff-added-word-background; text-style: bold; }
    & > .diff--removed { background: $diff-removed-background; }
    & > .diff--removed-word { background: $diff-removed-word-background; text-style: bold; }
    & > .diff--moved { background: $diff-moved-background; }
    & > .diff--left-out { background: transparent; color: $foreground 45%; text-style: none; }
    & > .diff--trailing { background: $warning 40%; }
    & > .diff--filler { color: $foreground 14%; }
    & > .diff--gutter { color: $foreground 50%; }
    & > .diff--gutter-added { color: $diff-added-color; background: $diff-added-background; }
    & > .diff--gutter-removed { color: $diff-removed-color; background: $diff-removed-background; }
    & > .diff--gutter-moved { color: $diff-moved-color; background: $diff-moved-background; }
    & > .diff--uncovered { color: $text-warning; text-style: bold; }
    & > .diff--state { color: $text-accent; text-style: bold; }
    & > .diff--state-out { color: $foreground 50%; }
    & > .diff--state-done { color: $diff-added-color; text-style: bold; }
    & > .diff--state-denied { color: $diff-removed-color; text-style: bold; }
    & > .diff--file { background: $panel; color: $foreground; text-style: bold; }
    & > .diff--file-quiet { background: $panel; color: $foreground 65%; text-style: none; }
    & > .diff--file-added { background: $panel; color: $diff-added-color; text-style: bold; }
    & > .diff--file-removed { background: $panel; color: $diff-removed-color; text-style: bold; }
    & > .diff--file-warning { background: $panel; color: $text-warning; text-style: bold; }
    & > .diff--listed { background: $surface; }
    & > .diff--note { color: $foreground 65%; }
    & > .diff--warning { color: $text-warning; }
    & > .diff--problem { color: $text-error; }
    & > .diff--done { color: $text-success; }
    & > .diff--fold { color: $foreground 45%; background: $foreground 4%; }
    & > .diff--edge { color: $text-accent; background: $accent 16%; text-style: none; }
    & > .diff--comment { color: $foreground; background: $accent 12%; }
    & > .diff--comment-bar { color: $text-accent; background: $accent 12%; text-style: bold; }
    & > .diff--finding { color: $foreground; background: $error 14%; }
    & > .diff--finding-bar { color: $text-error; background: $error 14%; text-style: bold; }
    & > .diff--known-finding { color: $foreground 70%; }
    & > .diff--known-finding-bar { color: $text-warning; }
    & > .diff--noticed { color: $foreground 70%; }
    & > .diff--noticed-bar { color: $text-success; }
    & > .diff--unclear { color: $foreground 70%; }
    & > .diff--unclear-bar { color: $foreground 40%; }
    & > .diff--repeated, & > .diff--unnoticed { color: $foreground; background: $warning 14%; }
    & > .diff--repeated-bar, & > .diff--unnoticed-bar {
        color: $text-warning;
        background: $warning 14%;
        text-style: bold;
    }
    & > .diff--asked { color: $foreground 70%; }
    & > .diff--asked-bar { color: $text-accent; }
    & > .diff--message { color: $foreground 60%; }
    & > .diff--unsafe { color: $background; background: $warning; text-style: bold; }
    & > .diff--match { background: $warning 45%; color: $foreground; }
    & > .diff--match-current { background: $warning; color: $background; text-style: bold; }
    & > .diff--cursor { background: $foreground 11%; }
    & > .diff--cursor-blurred { background: $foreground 5%; }
    & > .diff--map { color: $foreground 30%; background: $foreground 4%; }
    & > .diff--map-view { background: $foreground 18%; }
    & > .diff--map-added { color: $diff-added-color; }
    & > .diff--map-removed { color: $diff-removed-color; }
    & > .diff--map-changed { color: $diff-changed-color; }
    & > .diff--map-match { color: $warning; }
    & > .diff--map-comment { color: $text-accent; }
    & > .diff--map-reason { color: $text-warning; text-style: bold; }

"""
    + syntax_css("diff")
    + """

    &:ansi {
        & > .diff--added { color: ansi_green; }
        & > .diff--removed { color: ansi_red; }
        & > .diff--moved { color: ansi_blue; }
        & > .diff--added-word { text-style: bold underline; }
        & > .diff--removed-word { text-style: bold underline; }
        & > .diff--trailing { text-style: underline; }
        & > .diff--cursor { text-style: bold; }
        & > .diff--match { text-style: underline; }
        & > .diff--match-current { text-style: bold underline; }
        & > .diff--unsafe { background: ansi_yellow; color: ansi_black; }
        & > .diff--finding, & > .diff--finding-bar { background: transparent; color: ansi_red; }
        & > .diff--uncovered { color: ansi_yellow; }
        & > .diff--repeated, & > .diff--repeated-bar { background: transparent; color: ansi_yellow; }
        & > .diff--unnoticed, & > .diff--unnoticed-bar { background: transparent; color: ansi_yellow; }
    }
}
"""
)
"""The CSS of the diff view."""

DIFF_COMPONENT_CLASSES: Final = frozenset(re.findall(r"> \.(diff--[\w-]+)", DIFF_CSS))
"""The component classes of the diff view: those that its CSS styles."""


def make_diff_variable_defaults(theme: Theme | None = None) -> dict[str, str]:
    """Return the defaults of all diff variables, mixed from a theme's palette."""
    theme = theme or BUILTIN_THEMES["textual-dark"]
    palette = theme.to_color_system().generate()
    if theme.ansi:
        return {
            "diff-added-background": "transparent",
            "diff-added-word-background": "transparent",
            "diff-added-color": "ansi_green",
            "diff-removed-background": "transparent",
            "diff-removed-word-background": "transparent",
            "diff-removed-color": "ansi_red",
            "diff-moved-background": "transparent",
            "diff-moved-color": "ansi_blue",
            "diff-changed-color": "ansi_yellow",
        }
    background = Color.parse(palette["background"])
    added, removed = Color.parse(palette["success"]), Color.parse(palette["error"])
    moved, changed = Color.parse(palette["secondary"]), Color.parse(palette["warning"])
    strength = 1.0 if theme.dark else 1.25

    def mixed(color: Color, share: float) -> str:
        return background.blend(color, min(1.0, share * strength), alpha=1.0).hex

    return {
        "diff-added-background": mixed(added, 0.13),
        "diff-added-word-background": mixed(added, 0.36),
        "diff-added-color": palette["text-success"],
        "diff-removed-background": mixed(removed, 0.15),
        "diff-removed-word-background": mixed(removed, 0.42),
        "diff-removed-color": palette["text-error"],
        "diff-moved-background": mixed(moved, 0.2),
        "diff-moved-color": palette["text-secondary"],
        "diff-changed-color": changed.hex,
    }

"""Lists the skills: purpose, origin, and their share of the context."""

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.conversation.payload.token_count import text_tokens
from app.prompts.skills import Skill, Skills
from app.text.plural import plural
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import Dialog
from widgets.common.figures import format_thousands
from widgets.common.key_hints import KeyHint


class SkillsScreen(Dialog[None]):
    """A read-only list of skills.

    Args:
        skills: As their files are now.
        told: Those that the model of the open session knows; None without a session.
    """

    HEADING = "Skills"
    KEYS = (KeyHint("up,down,pageup,pagedown", "scroll"), KeyHint("escape", "close"))
    DEFAULT_CSS = """
    SkillsScreen {
        VerticalScroll { height: auto; max-height: 1fr; }
        VerticalScroll Static { height: auto; }
    }
    """

    def __init__(self, skills: Skills, told: Skills | None) -> None:
        super().__init__(classes="-small")
        self._skills = skills
        self._told = told

    def body(self) -> Iterable[Widget]:
        """Yield each skill with its description, then the errors."""
        yield Static(_summary(self._skills, self._told), classes="text quiet")
        with VerticalScroll():
            for skill in self._skills.by_name.values():
                yield Static(_row(skill), classes="text gap")
            for problem in self._skills.problems:
                yield Static(Content(escape_unsafe(problem, keep="")), classes="text warning gap")

    def on_mount(self) -> None:
        """The keys scroll."""
        self.query_one(VerticalScroll).focus()


def _row(skill: Skill) -> Content:
    return Content("\n").join(
        [
            Content.styled(escape_unsafe(skill.name, keep=""), "bold $text-accent"),
            Content(escape_unsafe(skill.description, keep="")),
            Content.styled(escape_unsafe(skill.where, keep=""), "$foreground 65%"),
        ]
    )


def _summary(skills: Skills, told: Skills | None) -> Content:
    if not skills.by_name:
        return Content("There are none. A skill is a folder with a SKILL.md in .agents/skills, here or in your home.")
    tokens = text_tokens(skills.prompt_text())
    said = f"{plural(len(skills.by_name), 'skill')}: about {format_thousands(tokens)} tokens of each request."
    if told is not None and told.prompt_text() != skills.prompt_text():
        said += " The model of this session knows what there was when it was opened; /new takes in the rest."
    return Content(said)

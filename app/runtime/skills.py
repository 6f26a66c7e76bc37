"""The skills over an open workspace: where the user's lie.

Kept apart: sessions, the app and the doctor look at the same folders.
"""

from pathlib import Path

from app.runtime.workspace import Runtime
from app.skills.finding import Skills, find_skills


def skills_of(runtime: Runtime) -> Skills:
    """All skills as their files are now; blocks."""
    folders = [("skills", runtime.places.skills)]
    if home := runtime.environment.get("HOME"):
        folders += [(f"~/{name}", Path(home, name)) for name in (".agents/skills", ".claude/skills")]
    return find_skills(runtime.workspace, folders)

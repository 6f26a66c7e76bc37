"""Opens a link that the user clicked in the model's text.

Kept apart: chat and review both show such text.
"""

from textual.app import App

from app.ui.means import Tell


def open_link(app: App[object], href: str, tell: Tell) -> None:
    """Open a web address; nothing else is ever opened."""
    if href.startswith(("https://", "http://")):
        app.open_url(href)
    else:
        tell(f"Not opened, since it is no web address: {href}", problem=True)

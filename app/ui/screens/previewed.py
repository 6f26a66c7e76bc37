"""What the dialogs share that list something and show beside it what is under the cursor."""

from collections.abc import Iterable

from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.text.safe_text import visible
from app.ui.screens.dialog import Dialog, Result
from widgets.common.search_list import SearchList


class PreviewDialog(Dialog[Result]):
    """A list to search, and a preview beside it or, where it is narrow, below it."""

    DEFAULT_CSS = """
    PreviewDialog {
        & > #dialog { width: 130; }
        #panes { height: 1fr; }
        SearchList { width: 5fr; }
        OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
        #preview { width: 6fr; height: 1fr; padding: 0 1; border-left: vkey $foreground 15%; }
        #preview-text { height: auto; }
        &.-narrow {
            #panes { layout: vertical; }
            SearchList { width: 1fr; height: 1fr; }
            #preview { width: 1fr; height: 40%; border-left: none; border-top: solid $foreground 15%; }
        }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (96, "-wide")]  # noqa: RUF012

    def search_list(self) -> SearchList:
        """The list, as yet empty."""
        raise NotImplementedError

    def body(self) -> Iterable[Widget]:
        """List and preview."""
        with Horizontal(id="panes"):
            yield self.search_list()
            with VerticalScroll(id="preview", can_focus=False):
                yield Static(id="preview-text", markup=False)

    def show_preview(self, content: Content | str, *, end: bool = False) -> None:
        """Show this beside the list, from its top or from its end; a string is filtered for the terminal."""
        self.query_one("#preview-text", Static).update(
            content if isinstance(content, Content) else Content(visible(content))
        )
        preview = self.query_one("#preview", VerticalScroll)
        if end:
            preview.scroll_end(animate=False)
        else:
            preview.scroll_home(animate=False)

"""A view of a diff that only remembers what it is asked for."""

from widgets.diff.diff_cursor import Job


class RecordingView:
    """Remembers the jobs that it is to run, and the names of its other calls.

    Args:
        jobs: Takes the jobs, by name.
        said: Takes the names.
    """

    def __init__(self, jobs: dict[str, Job], said: list[str]) -> None:
        self._jobs = jobs
        self._said = said

    def run_job(self, name: str, job: Job) -> None:
        self._jobs[name] = job

    def handle_search_change(self) -> None:
        self._said.append("search")

    def redraw_lines(self) -> None:
        self._said.append("redraw")

    def redraw_and_report_position(self) -> None:
        self._said.append("repaint")

    def handle_layout_growth(self) -> None:
        self._said.append("grown")

    def relayout(self) -> None:
        self._said.append("relayout")

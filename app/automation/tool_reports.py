"""Reads reports of tests and coverage: bounded XML, and the changed lines that no test ran.

Coverage reports may be Cobertura, JaCoCo or lcov.
"""

import io
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.parsers import expat

from msgspec import Struct, field

from app.concurrency import iterate_when_event_loop_idle
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.proposals.values.pending_paths import parent_folders
from app.sandbox.confinement import ChangedByCommandAndOtherProgram, SandboxedWorkspace
from app.text.quantities import format_count

MAX_REPORT_BYTES = 32 << 20
"""Maximum size of a report in bytes."""
_PIECE_BYTES = 1 << 16


class ToolReportError(ValueError):
    """A report cannot be read; the message says why."""


def iterate_xml_elements(data: bytes, texts: Collection[str] = ()) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the name and the attributes of each element in a document, in the order of their start tags.

    A document that declares entities is refused, because their expansion is unbounded. External files are never read.

    Args:
        texts: Names of elements that are yielded at their end tag, with their text as the only attribute, `text`.

    Raises:
        ToolReportError: It is too large, not XML, or declares an entity.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise ToolReportError(f"larger than {MAX_REPORT_BYTES:,} bytes")
    found: list[tuple[str, Mapping[str, str]]] = []
    text: list[str] = []

    def begin(name: str, attributes: Mapping[str, str]) -> None:
        if name in texts:
            text.clear()
            parser.CharacterDataHandler = text.append
        else:
            found.append((name, attributes))

    def end(name: str) -> None:
        if name in texts:
            parser.CharacterDataHandler = None
            found.append((name, {"text": "".join(text)}))

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    if texts:
        parser.EndElementHandler = end
    parser.EntityDeclHandler = _refuse_entity
    try:
        for start in range(0, len(data) or 1, _PIECE_BYTES):
            parser.Parse(data[start : start + _PIECE_BYTES], start + _PIECE_BYTES >= len(data))
            yield from found
            found.clear()
    except expat.ExpatError as error:
        raise ToolReportError(f"no XML: {error}") from error


def _refuse_entity(*_: object) -> None:
    raise ToolReportError("it declares an entity")


_USUAL_REPORT_PATHS = (
    "coverage.xml",
    "lcov.info",
    "coverage/lcov.info",
    "coverage/cobertura-coverage.xml",
    "target/site/jacoco/jacoco.xml",
    "build/reports/jacoco/test/jacocoTestReport.xml",
)
"""Paths to which coverage.py, cargo-llvm-cov, jest and vitest, Maven and Gradle write their reports."""
_BUILD_FOLDERS = ("target", "build")
"""Folders in a module's folder to which Maven and Gradle write reports."""

LinesByPath = Mapping[str, frozenset[int]]
"""Lines counted from 0, by workspace path."""


class ChangedLineCoverage(Struct, frozen=True):
    """The changed lines that a check ran, and those that it did not run."""

    report: str
    """The path of the report."""
    ran: LinesByPath = field(default_factory=dict)
    missed: LinesByPath = field(default_factory=dict)
    problem: str = ""
    """Why the report can't be used, or not completely."""

    @property
    def summary(self) -> str:
        """Return `4 of 6 changed lines run`, if the report names changed lines, and the problem."""
        ran, missed = (sum(map(len, lines.values())) for lines in (self.ran, self.missed))
        counted = f"{ran:,} of {format_count(ran + missed, 'changed line')} run" if ran or missed else ""
        problem = f"{self.report}: {self.problem}" if self.problem else ""
        return ", ".join(filter(None, (counted, problem)))


def read_changed_line_coverage(
    run: SandboxedWorkspace, coverage_setting: str, trees: FilesToCheckBeforeAndAfter, root: Path
) -> ChangedLineCoverage | None:
    """Return the coverage that a check has written to its layer; None if it wrote no report.

    A report that was on disk before is ignored, and so are files that the check has changed.

    Args:
        run: The ended run of the check.
        coverage_setting: `CheckTable.coverage`.
        trees: The trees that were checked.
    """
    if coverage_setting == "off" or not trees.hunks:
        return None
    for name in _USUAL_REPORT_PATHS if coverage_setting == "auto" else (posixpath.normpath(coverage_setting),):
        try:
            data = _read_written_file(run, name, trees)
            if data is not None:
                return _drop_changed_files(run, trees, _parse_coverage(name, data, trees, root))
        except ChangedByCommandAndOtherProgram:
            return ChangedLineCoverage(name, problem="it changed on disk while the check ran")
        except (OSError, ToolReportError) as error:
            problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return ChangedLineCoverage(name, problem=problem)
    return (
        None
        if coverage_setting == "auto"
        else ChangedLineCoverage(coverage_setting, problem="the check did not write it")
    )


def _read_written_file(run: SandboxedWorkspace, name: str, trees: FilesToCheckBeforeAndAfter) -> bytes | None:
    """Return the bytes of a file that the run has written; None if it has not.

    Raises:
        ToolReportError: It lies behind a symbolic link.
        OSError: It can't be read.
        ChangedByCommandAndOtherProgram: Another program has changed it on disk.
    """
    for path in (*parent_folders(name), name):
        leaf = run.read_change(path, MAX_REPORT_BYTES).after
        if leaf is not None and leaf.is_link:
            raise ToolReportError("it lies behind a symbolic link")
    return None if leaf is None or leaf == trees.after.get(name) else leaf.data


def _drop_changed_files(
    run: SandboxedWorkspace, trees: FilesToCheckBeforeAndAfter, found: ChangedLineCoverage
) -> ChangedLineCoverage:
    """Remove the files that the check has changed: the report may count their lines differently."""
    changed = [path for path in sorted({*found.ran, *found.missed}) if not _is_unchanged(run, trees, path)]
    if not changed:
        return found
    ran, missed = (
        {path: each for path, each in lines.items() if path not in changed} for lines in (found.ran, found.missed)
    )
    more = f" and {format_count(len(changed) - 1, 'other file')}" if len(changed) > 1 else ""
    return ChangedLineCoverage(found.report, ran, missed, f"the check itself has changed {changed[0]}{more}")


def _is_unchanged(run: SandboxedWorkspace, trees: FilesToCheckBeforeAndAfter, path: str) -> bool:
    try:
        after = run.read_change(path, MAX_REPORT_BYTES).after
    except (OSError, ChangedByCommandAndOtherProgram):
        return False
    before = trees.after.get(path)
    return after is None if before is None else after is not None and after.data == before.data


def _parse_coverage(name: str, data: bytes, trees: FilesToCheckBeforeAndAfter, root: Path) -> ChangedLineCoverage:
    """Return the coverage in a report. Raises ToolReportError."""
    found = _CoverageCollector(name, trees, root)
    is_xml = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"
    try:
        for path, line, is_run in _parse_xml(data, found) if is_xml else _parse_lcov(data, found):
            found.note(path, line - 1, is_run=is_run)
    except (ValueError, KeyError) as error:
        raise (
            error if isinstance(error, ToolReportError) else ToolReportError("no coverage report, or damaged")
        ) from error
    return found.coverage


class _CoverageCollector:
    """Collects the changed lines that a report names, for all ways of naming files."""

    def __init__(self, report: str, trees: FilesToCheckBeforeAndAfter, root: Path) -> None:
        self._report = report
        self._trees = trees
        self._root = root
        self._changed = {
            path: frozenset(line for hunk in hunks for line in range(hunk.start, hunk.start + hunk.length))
            for path, hunks in trees.hunks.items()
        }
        self._ran: dict[str, dict[int, bool]] = {}

    def note(self, path: str, line: int, *, is_run: bool) -> None:
        """Note a line of a file; it counts as run if one of several classes or test runs ran it."""
        if line in self._changed[path]:
            lines = self._ran.setdefault(path, {})
            lines[line] = is_run or lines.get(line, False)

    def locate(self, name: str, bases: Iterable[str]) -> str:
        """Return the changed file with a name below one of these folders; empty if there is none, or several fit."""
        places = {os.path.normpath(os.path.join(self._root, base, name)) for base in bases}  # noqa: PTH118
        paths = {place.removeprefix(f"{self._root}/") for place in places if place.startswith(f"{self._root}/")}
        if self._changed.keys().isdisjoint(paths):
            return ""
        there = [path for path in paths if self._exists_in_tree(path)]
        return there[0] if len(there) == 1 and there[0] in self._changed else ""

    def _exists_in_tree(self, path: str) -> bool:
        return self._trees.after[path] is not None if path in self._trees.after else (self._root / path).is_file()

    def locate_in_package(self, package: str, name: str) -> str:
        """Return the changed file of a Java package in the report's module; empty if there is none, or several."""
        wanted = "/".join(filter(None, ("", package.strip("/"), name)))
        parts = self._report.split("/")
        depth = next((number for number, part in enumerate(parts) if part in _BUILD_FOLDERS), 0)
        module = "".join(f"{part}/" for part in parts[:depth])
        ends = [path for path in self._changed if f"/{path}".endswith(wanted) and path.startswith(module)]
        return ends[0] if len(ends) == 1 else ""

    @property
    def folders(self) -> Sequence[str]:
        """Return the folders to which names in the report may be relative: those that contain the report."""
        return ["", *parent_folders(self._report)]

    @property
    def coverage(self) -> ChangedLineCoverage:
        """Return the changed lines that the report names."""
        ran, missed = (
            {
                path: chosen
                for path, lines in self._ran.items()
                if (chosen := frozenset(line for line, is_run in lines.items() if is_run is wanted))
            }
            for wanted in (True, False)
        )
        return ChangedLineCoverage(self._report, ran, missed)


def _parse_lcov(data: bytes, found: _CoverageCollector) -> Iterator[tuple[str, int, bool]]:
    path, named = "", False
    for line in iterate_when_event_loop_idle(io.BytesIO(data)):
        if line.startswith(b"SF:"):
            path, named = found.locate(os.fsdecode(line[3:].strip()), found.folders), True
        elif path and line.startswith(b"DA:"):
            number, hits = line[3:].split(b",")[:2]
            yield path, int(number), int(hits) > 0
    if not named:
        raise ToolReportError("no coverage report, or damaged")


def _parse_xml(data: bytes, found: _CoverageCollector) -> Iterator[tuple[str, int, bool]]:
    root = path = package = ""
    sources: list[str] = []
    for element, attributes in iterate_when_event_loop_idle(iterate_xml_elements(data, texts=("source",))):
        root = root or element
        if root not in ("coverage", "report"):
            raise ToolReportError("no coverage report, or damaged")
        match element:
            case "source":
                sources.append(attributes["text"].strip())
            case "package":
                package = attributes["name"]
            case "class" if root == "coverage":
                path = found.locate(attributes["filename"], sources or found.folders)
            case "sourcefile":
                path = found.locate_in_package(package, attributes["name"])
            case "line" if path and root == "coverage":
                yield path, int(attributes["number"]), int(attributes["hits"]) > 0
            case "line" if path:
                yield path, int(attributes["nr"]), int(attributes["ci"]) > 0

"""`signoff export P1 --review --format github|gitlab`: what the APIs take, on the lines that the forges show."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import HunkState
from app.review.unfinished_review import UnsentComment, quote_lines
from app.runtime.git_proposals import stage_commits_or_pull_request, stage_worktree_changes
from app.runtime.open_workspace import open_workspace
from tests.commands.test_verify import exits
from tests.unit.proposals.repositories import git


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


LINE = Field(default=None, ge=1)
SHA = Field(pattern="^[0-9a-f]{40}$")
SOME = Field(min_length=1)


class GithubComment(Strict):
    """https://docs.github.com/rest/pulls/reviews, `comments`."""

    path: str = SOME
    body: str = SOME
    line: int = Field(ge=1)
    side: Literal["LEFT", "RIGHT"]
    start_line: int | None = LINE
    start_side: Literal["LEFT", "RIGHT"] | None = None


class GithubReview(Strict):
    """The body of `POST /repos/{owner}/{repo}/pulls/{pull_number}/reviews`."""

    commit_id: str = SHA
    body: str = SOME
    event: Literal["APPROVE", "REQUEST_CHANGES", "COMMENT"]
    comments: list[GithubComment]


class GitlabPosition(Strict):
    """https://docs.gitlab.com/api/discussions, `position`."""

    position_type: Literal["text"]
    base_sha: str = SHA
    start_sha: str = SHA
    head_sha: str = SHA
    old_path: str = SOME
    new_path: str = SOME
    old_line: int | None = LINE
    new_line: int | None = LINE


class GitlabDiscussion(Strict):
    """The body of `POST /projects/:id/merge_requests/:merge_request_iid/discussions`."""

    body: str = SOME
    position: GitlabPosition | None = None


BASE = [f"line {number}" for number in range(1, 61)]
HEAD = [*BASE[:4], "five", "five and a half", *BASE[5:20], *BASE[22:40], "forty-one", *BASE[41:55], "new", *BASE[55:]]
"""Two lines for line 5, lines 21 and 22 gone, another line 41, and one more after 55."""


class Review:
    """A proposal of a pull request, reviewed."""

    def __init__(self, root: Path, *, end: str = "\n", folder: str = "") -> None:
        self.repository, self.root = root, root / folder
        self.root.mkdir(parents=True)
        git(root, "init", "--quiet", "--initial-branch", "main")
        self.commit(BASE, end, "start")
        git(root, "checkout", "--quiet", "-b", "feature")
        (self.root / "added.txt").write_text("one\ntwo\n")
        self.commit(HEAD, end, "change")
        self.head = git(root, "rev-parse", "HEAD").decode().strip()
        git(root, "checkout", "--quiet", "main")
        self.runtime = open_workspace(self.root, {}, {"SIGNOFF_HOME": str(root.parent / "home")})
        self.proposal, _ = stage_commits_or_pull_request(self.runtime, ["feature"])

    def commit(self, lines: list[str], end: str, subject: str) -> None:
        (self.root / "a.txt").write_bytes("".join(line + end for line in lines).encode())
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--message", subject)

    def comment(self, text: str, side: Literal["old", "new"], line: int, path: str = "a.txt") -> LineComment:
        """A comment on a line as the app records it."""
        diff = next(one for one in self.runtime.service.file_diffs("P1") if one.change.path == path)
        remark = UnsentComment(path, side, line - 1, text)
        return UnsentComment(path, side, line - 1, text, quote_lines(diff, remark)).as_line_comment

    def edit(self, lines: list[str]) -> None:
        self.runtime.service.replace_proposed_text("P1", "a.txt", "\n".join([*lines, ""]))

    def hunk(self, number: int) -> str:
        return next(one.id for one in self.runtime.service.get("P1").hunks if one.number == number)


@pytest.fixture
def review(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Review]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    made = Review(tmp_path / "repository", **getattr(request, "param", {}))
    yield made
    made.runtime.close()


def exported(review: Review, form: str, *options: str) -> Any:
    words = ("export", "P1", "--review", "--format", form, "--workspace", str(review.root), *options)
    return json.loads(exits(0, *words))


def github(review: Review, *options: str) -> GithubReview:
    made = GithubReview.model_validate(exported(review, "github", *options))
    shown = visible(review)
    for one in made.comments:
        lines = range(one.start_line or one.line, one.line + 1)
        assert {(one.side, number) for number in lines} <= shown[one.path], "the API refuses a line that is not shown"
        assert (one.start_line is None) == (one.start_side is None)
        assert one.start_line is None or one.start_line < one.line
    return made


def gitlab(review: Review, *options: str) -> list[GitlabDiscussion]:
    return [GitlabDiscussion.model_validate(one) for one in exported(review, "gitlab", *options)]


def visible(review: Review) -> dict[str, set[tuple[str, int]]]:
    """The lines that take comments, by path, as git tells it."""
    found: dict[str, set[tuple[str, int]]] = {}
    path, old, new = "", 0, 0
    for line in git(review.repository, "diff", "-U3", f"main...{review.head}").decode().splitlines():
        if line.startswith("+++ b/"):
            path = line[6:]
        elif numbers := re.match(r"@@ -(\d+)\S* \+(\d+)", line):
            old, new = int(numbers[1]), int(numbers[2])
        elif path and line[:1] in ("+", "-", " ") and not line.startswith("---"):
            if line[0] != "+":
                found.setdefault(path, set()).add(("LEFT", old))
                old += 1
            if line[0] != "-":
                found.setdefault(path, set()).add(("RIGHT", new))
                new += 1
    return found


def block(body: str) -> tuple[str, list[str]]:
    """The language and the lines of the suggestion in a comment."""
    fence, language, text = re.fullmatch(r"(?s)(?:.*\n\n)?(`{3,})(\S+)\n(.*)\1", body).groups()  # type: ignore[union-attr]
    assert fence not in text
    return language, text.splitlines()


def applied_by_github(made: GithubReview, lines: list[str]) -> list[str]:
    for one in sorted(made.comments, key=lambda each: -each.line):
        if "suggestion\n" in one.body:
            assert block(one.body)[0] == "suggestion" and one.side == "RIGHT"
            lines = [*lines[: (one.start_line or one.line) - 1], *block(one.body)[1], *lines[one.line :]]
    return lines


def applied_by_gitlab(made: list[GitlabDiscussion], lines: list[str]) -> list[str]:
    for one in sorted((each for each in made if each.position), key=lambda each: -(each.position.new_line or 0)):  # type: ignore[union-attr]
        if "suggestion:" in one.body:
            language, text = block(one.body)
            below = int(re.fullmatch(r"suggestion:-0\+(\d+)", language)[1])  # type: ignore[index]
            assert one.position is not None and one.position.new_line is not None
            first = one.position.new_line - 1
            lines = [*lines[:first], *text, *lines[first + below + 1 :]]
    return lines


def test_comments_are_on_the_lines_that_the_forge_shows(review: Review) -> None:
    comments = [
        review.comment("first", "new", 2),
        review.comment("added", "new", 6),
        review.comment("context", "new", 8),
        review.comment("removed", "old", 22),
        review.comment("far down", "new", 55),
        review.comment("a new file", "new", 2, "added.txt"),
        review.comment("Look here", "new", 32),
    ]
    review.runtime.service.deny("P1", feedback="Not yet.", comments=comments)
    made = github(review)
    assert made.commit_id == review.head and made.event == "COMMENT"
    assert [(one.path, one.line, one.side, one.body) for one in made.comments] == [
        ("a.txt", 2, "RIGHT", "first"),
        ("a.txt", 6, "RIGHT", "added"),
        ("a.txt", 8, "RIGHT", "context"),
        ("a.txt", 22, "LEFT", "removed"),
        ("a.txt", HEAD.index("new") + 1, "RIGHT", "far down"),
        ("added.txt", 2, "RIGHT", "a new file"),
    ]
    assert made.body.startswith("Not yet.") and "`a.txt:32`" in made.body and "Look here" in made.body
    base = git(review.repository, "rev-parse", "main").decode().strip()
    places = [one.position for one in gitlab(review)]
    assert places.count(None) == 2, "the feedback and the comment outside of the diff"
    found = [place for place in places if place]
    lines = [(2, 2), (None, 6), (7, 8), (22, None), (None, 55), (None, 2)]
    assert [(place.old_line, place.new_line) for place in found] == lines
    assert {(place.base_sha, place.start_sha, place.head_sha) for place in found} == {(base, base, review.head)}
    assert found[-1].old_path == found[-1].new_path == "added.txt"


EDITED = [line.replace("forty-one", "41, as I want it") for line in HEAD if line not in ("five and a half", "new")]


@pytest.mark.parametrize(
    "wanted",
    [
        EDITED,
        [*HEAD[:5], "in between", *HEAD[5:]],
        [*HEAD[:4], "5", "5.5", "5.75", *HEAD[6:]],
        [line.replace("five", "fünf ``` five ````") for line in HEAD],
        [*HEAD[:4], *HEAD[6:]],
        [*HEAD[:5], "", "", *HEAD[6:]],
        [*HEAD[:1], "two", *HEAD[2:]],
        [*HEAD[:21], "line 21, kept", *HEAD[21:]],
    ],
    ids=["several", "inserted", "longer", "backquotes", "removed", "blank lines", "context", "restored"],
)
def test_applying_all_suggestions_gives_the_edited_text(review: Review, wanted: list[str]) -> None:
    review.edit(wanted)
    assert applied_by_github(github(review), HEAD) == wanted
    assert applied_by_gitlab(gitlab(review), HEAD) == wanted
    review.runtime.service.approve("P1")
    assert applied_by_github(github(review), HEAD) == wanted


def test_an_edit_outside_the_diff_is_in_the_review_body(review: Review) -> None:
    review.edit([*HEAD[:30], "elsewhere", *HEAD[31:]])
    made = github(review)
    assert not made.comments and "`a.txt:31`" in made.body and f"-{HEAD[30]}\n+elsewhere" in made.body


def test_files_changed_in_the_workspace_are_no_suggestions(review: Review) -> None:
    moved = [*BASE[:10], "moved on", *BASE[10:59], "the end"]
    (review.root / "a.txt").write_text("".join(f"{line}\n" for line in moved))
    review.runtime.service.rebase_pending(["a.txt"])
    review.runtime.service.deny("P1", [review.hunk(1)], comments=[review.comment("41", "new", 41)])
    now = next(one for one in review.runtime.service.file_diffs("P1") if one.change.path == "a.txt")
    assert "moved on" in now.new
    review.edit([line if line != "forty-one" else "41" for line in now.new])
    made = github(review)
    assert [(one.line, one.body.splitlines()[-2]) for one in made.comments if "suggestion" in one.body] == [
        (HEAD.index("forty-one") + 1, "41")
    ]
    assert "moved on" not in made.body and "the end" not in made.body
    assert [one.line for one in made.comments if one.body == "41"] == [HEAD.index("forty-one") + 1]


def test_comments_after_an_edit_stay_on_their_lines(review: Review) -> None:
    review.edit([*HEAD[:4], "my line", "another", "five", *HEAD[5:]])
    at = HEAD.index("forty-one") + 3
    review.runtime.service.deny("P1", comments=[review.comment("why 41", "new", at)])
    words = [one for one in github(review).comments if one.body == "why 41"]
    assert [one.line for one in words] == [HEAD.index("forty-one") + 1]


def test_denied_hunks_have_the_feedback_and_are_no_suggestions(review: Review) -> None:
    service = review.runtime.service
    hunks = service.get("P1").files[0].hunks
    assert [one.path for one in service.get("P1").files] == ["a.txt", "added.txt"] and len(hunks) == 4
    service.deny("P1", [hunks[0].id], feedback="Keep line 5.")
    service.deny("P1", [hunks[1].id], feedback="These were needed.")
    review.edit([*BASE[:40], "41, as I want it", *BASE[41:55], "new", *BASE[55:]])
    service.approve("P1")
    made = github(review)
    said = {one.body: (one.start_line, one.line, one.side) for one in made.comments}
    assert said["Keep line 5."] == (5, 6, "RIGHT")
    assert said["These were needed."] == (21, 22, "LEFT")
    wanted = [line if line != "forty-one" else "41, as I want it" for line in HEAD]
    assert applied_by_github(made, HEAD) == wanted and len(made.comments) == 3


@pytest.mark.parametrize("review", [{"end": "\r\n"}], indirect=True)
def test_line_ends_of_a_crlf_file_are_left_to_the_forge(review: Review) -> None:
    review.edit(EDITED)
    review.runtime.service.approve("P1", comments=[review.comment("here", "new", 5)])
    made = github(review)
    assert applied_by_github(made, HEAD) == EDITED and not any("\r" in one.body for one in made.comments)
    assert [one.line for one in made.comments if one.body == "here"] == [5]


@pytest.mark.parametrize("review", [{"folder": "inner/part"}], indirect=True)
def test_paths_are_those_of_the_repository(review: Review) -> None:
    review.runtime.service.deny("P1", comments=[review.comment("here", "new", 6)])
    assert [one.path for one in github(review).comments] == ["inner/part/a.txt"]


def test_unknown_commits_require_options(review: Review) -> None:
    words = ("export", "P1", "--review", "--format", "github", "--workspace", str(review.root))
    git(review.repository, "checkout", "--quiet", "feature")
    assert "--base" in exits(3, *words)
    assert json.loads(exits(0, *words, "--base", "main"))["commit_id"] == review.head
    assert "fetch" in exits(3, *words, "--head", "deadbeef")
    git(review.repository, "checkout", "--quiet", "main")
    review.runtime.service.approve("P1")
    assert all(one.state is HunkState.APPLIED for one in review.runtime.service.get("P1").files)
    assert github(review).comments == [] and gitlab(review) == []
    (review.root / "a.txt").write_text("other\n")
    stage_worktree_changes(review.runtime, (), "")
    words = ("export", "P2", *words[2:])
    assert "--head" in exits(3, *words)
    exits(2, "export", "latest", "--format", "gitlab", "--workspace", str(review.root))

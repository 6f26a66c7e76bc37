"""The user's own commands: which there are, wherever they lie, and the message that each makes of its arguments."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.prompts import custom_commands as finding
from app.prompts.custom_commands import (
    MAX_MESSAGE_CHARACTERS,
    CommandCatalogue,
    CommandUnusable,
    build_command_catalogue,
    command_name_from_path,
    find_user_commands,
    find_workspace_commands,
    insert_or_append_arguments,
    parse_custom_command,
)
from app.workspace.paths import Workspace


def put(root: Path, *paths: str, text: str = "Do it.") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def known(root: Path, user: Path, *, trusted: bool = True) -> CommandCatalogue:
    return build_command_catalogue(
        find_user_commands([("commands", user)]), find_workspace_commands(Workspace(root)), {"help"}, trusted=trusted
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_commands_are_listed_from_signoff_user_and_workspace(root: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    put(user, "help.md", "mine.md", "both.md", "deep/er/one.md", "no.txt")
    put(root, ".signoff/commands/both.md", ".signoff/commands/ours.md", text="Ours.")
    put(root, ".claude/commands/ours.md", ".claude/commands/theirs.md", text="Theirs.")
    found = known(root, user)
    assert list(found.commands) == ["both", "deep:er:one", "mine", "ours", "theirs"]
    assert found.get("BOTH").make_message("") == "Do it." and found.get("ours").make_message("") == "Ours."
    assert [line.partition(":")[0] for line in found.problems] == [
        "commands/help.md",
        ".signoff/commands/both.md",
        ".claude/commands/ours.md",
    ]


def test_workspace_commands_wait_for_trust(root: Path, tmp_path: Path) -> None:
    put(root, ".claude/commands/theirs.md", ".claude/commands/help.md", ".claude/commands/b ad.md")
    held = known(root, tmp_path / "none", trusted=False)
    assert (dict(held.commands), held.untrusted, held.problems) == ({}, ("theirs",), ())
    with pytest.raises(CommandUnusable, match="/trust") as refused:
        held.get("theirs")
    assert refused.value.untrusted
    with pytest.raises(CommandUnusable, match="no command /none"):
        held.get("none")


def test_trust_is_given_to_every_byte_and_name(root: Path) -> None:
    put(root, "notes.md")
    (root / ".signoff").mkdir()
    (root / ".signoff/commands").symlink_to("../notes.md")
    assert find_workspace_commands(Workspace(root)).commands == (), "a file in place of the folder is none"
    (root / ".signoff/commands").unlink()
    put(root, ".signoff/commands/a.md")
    seen = {find_workspace_commands(Workspace(root)).content}
    put(root, ".signoff/commands/a.md", text="Do it!")
    seen.add(find_workspace_commands(Workspace(root)).content)
    (root / ".signoff/commands/a.md").rename(root / ".signoff/commands/b.md")
    seen.add(find_workspace_commands(Workspace(root)).content)
    put(root, ".claude/commands/c.md")
    seen.add(find_workspace_commands(Workspace(root)).content)
    assert len(seen) == 4


def test_command_files_outside_the_workspace_or_endless_are_not_read(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "outside.md", text="secret")
    folder = root / ".signoff/commands"
    folder.mkdir(parents=True)
    (folder / "out.md").symlink_to(tmp_path / "outside.md")
    (folder / "huge.md").write_bytes(b"x" * (finding.MAX_COMMAND_FILE_BYTES + 1))
    (root / ".claude").mkdir()
    (root / ".claude/commands").symlink_to(tmp_path)
    found = find_workspace_commands(Workspace(root))
    assert found.commands == () and b"secret" not in found.content
    assert any("too large" in line for line in found.problems)


def test_a_flood_of_files_is_bounded(root: Path, tmp_path: Path) -> None:
    put(root, *(f".signoff/commands/c{number:03}.md" for number in range(20)), text="x" * 60_000)
    found = find_workspace_commands(Workspace(root))
    assert 0 < sum(len(text) for _, text in found.texts) <= finding.MAX_COMMAND_FILES_BYTES
    assert len(found.problems) == 20 - len(found.commands)
    put(tmp_path / "user", *(f"c{number}.md" for number in range(finding.MAX_COMMAND_FILES + 5)))
    assert len(find_user_commands([("commands", tmp_path / "user")]).commands) == finding.MAX_COMMAND_FILES


def test_the_users_own_may_be_links_and_one_that_leads_nowhere_or_round_is_one_line(tmp_path: Path) -> None:
    put(tmp_path, "dotfiles/review.md", "user/good.md")
    for name, target in (("review", "../dotfiles/review.md"), ("lost", "nowhere.md"), ("round", "round.md")):
        (tmp_path / f"user/{name}.md").symlink_to(target)
    found = find_user_commands([("commands", tmp_path / "user")])
    assert [one.name for one in found.commands] == ["good", "review"]
    assert [line.partition(":")[0] for line in found.problems] == [
        "commands/lost.md cannot be read",
        "commands/round.md cannot be read",
    ]


def test_the_search_for_command_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_MAX_WALKED_FILES", 3)
    put(tmp_path, *(f"user/{name}" for name in ("a.txt", "b.txt", "c.md", "d.md")))
    assert [one.name for one in find_user_commands([("commands", tmp_path / "user")]).commands] == ["c"]


def test_an_empty_command_file_is_not_sent(tmp_path: Path) -> None:
    for text in ("", "---\ndescription: Nothing.\n---\n\n", "$1"):
        put(tmp_path, "user/empty.md", text=text)
        (command,) = find_user_commands([("commands", tmp_path / "user")]).commands
        with pytest.raises(CommandUnusable, match=r"/empty says nothing: commands/empty\.md is empty"):
            command.make_message("")


def test_arguments_are_filled_in_once() -> None:
    for body, argument, message in (
        ("Look at $ARGUMENTS.", "a b", "Look at a b."),
        ("$1 then $2, $1", "'one two' three", "one two then three, one two"),
        ("$1 and $2.", "only", "only and ."),
        ("Explain: $1", "don't panic", "Explain: don't"),
        ("It costs $100, ${1} and $ARGUMENTSX", "x", "It costs $100, ${1} and $ARGUMENTSX\n\nx"),
        ("Nothing to fill in", "see @src/app.py", "Nothing to fill in\n\nsee @src/app.py"),
        ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),
        ("Alone", "", "Alone"),
    ):
        assert insert_or_append_arguments(body, argument) == message
    with pytest.raises(CommandUnusable, match="500,000"):
        insert_or_append_arguments("$ARGUMENTS" * 6, "x" * (MAX_MESSAGE_CHARACTERS // 5))


@given(st.text().filter(lambda text: "$" not in text), st.text())
def test_command_arguments_are_not_expanded_again(body: str, argument: str) -> None:
    assert insert_or_append_arguments(f"{body}<$ARGUMENTS>", argument) == f"{body}<{argument.strip()}>".strip()


def test_a_file_is_called_by_its_path_unless_that_is_no_name() -> None:
    for path, name in (("Review.md", "review"), ("git/Sign-off.md", "git:sign-off"), ("über.md", "über")):
        assert command_name_from_path(path) == name
    for path in ("a b.md", "1.md", "x\x1b[2J.md", "a/../b.md", "v1.2.md", ".md"):
        with pytest.raises(CommandUnusable, match="letters"):
            command_name_from_path(path)


def test_front_matter_of_a_command_is_parsed() -> None:
    written = (
        b"---\ndescription: Do\x1b[31m it\nargument-hint: [file]\nmodel: big-one\neffort: High\n---\nGo. !`ls` !`pwd`"
    )
    command = parse_custom_command("go", "commands/go.md", written)
    assert (command.argument, command.model, command.effort, command.shell) == ("[file]", "big-one", "high", 2)
    assert command.description == "Do␛[31m it", "escapes are for no terminal"
    assert parse_custom_command("go", "x", written, takes_model=False).model == ""
    assert parse_custom_command("go", "x", b"# Title\n\ntext").description == "Title"


def test_a_broken_command_file_is_reported_when_called() -> None:
    for content, problem in (
        (b"\xff", "UTF-8"),
        (b"a\0b", "not text"),
        (b"---\nx: y\n", "no end"),
        (b"---\neffort: huge\n---\nx", "effort"),
    ):
        with pytest.raises(CommandUnusable, match=problem):
            parse_custom_command("go", "commands/go.md", content).make_message("")

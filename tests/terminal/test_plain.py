"""The review and the chat as lines, in a real terminal that can do no more: what it prints, asks and decides."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.terminal import (
    Terminal,
    endpoint_environment,
    running,
    running_signoff,
    signoff_command,
    terminal_environment,
)
from tests.wire.bench import FILE, edit
from tests.wire.server import WireServer

pytestmark = pytest.mark.timeout(120)

Run = Callable[..., str]
AT_HUNK = "[y,n,s,e,c,r,q,b,u,p,j,x,?]"
BOTH = "[y,n,r,u,j,x,?]"
SURELY = "[y/N]"
OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"
TWO_HUNKS = """--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,4 @@
 one
-two
+TWO
+two and a half
 three
@@ -8,3 +9,3 @@
 eight
-nine
+NINE
 ten
"""
DELETION = "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"


class Transcript:
    """A program that prints lines: each answer is given once its question has been printed, and could be read."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._read = 0

    @property
    def text(self) -> str:
        return self.terminal.raw.decode().replace("\r\n", "\n")

    def wait_for(self, text: str) -> str:
        """Wait until a text is printed behind what was waited for before; return what came until then."""
        self.terminal.wait_until(lambda: text in self.text[self._read :], f"{text!r} to be printed")
        start, self._read = self._read, self.text.index(text, self._read) + len(text)
        return self.text[start : self._read]

    def answer(self, question: str, answer: str) -> str:
        """Answer a question as a person does who reads it first; return what was printed before."""
        before = self.wait_for(question)
        self.terminal.settle(0.7)
        self.terminal.type(f"{answer}\r")
        return before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (root := tmp_path / "workspace").mkdir()
    (root / "a.txt").write_text(OLD)
    (root / "gone.txt").write_text("gone\n")
    return root


@pytest.fixture
def run(folder: Path, processes: Forking) -> Run:
    def run(*arguments: str, stdin: str = "") -> str:
        environment = terminal_environment(folder.parent / "home")
        done = processes.run(arguments, folder=folder, environment=environment, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@contextmanager
def plain(processes: Forking, folder: Path, *arguments: str, **variables: str) -> Iterator[Transcript]:
    environment = terminal_environment(folder.parent / "home", **{"TERM": "dumb", **variables})
    with running_signoff(processes, *arguments, folder=folder, environment=environment) as terminal:
        yield Transcript(terminal)


def states(run: Run) -> dict[str, str]:
    return {one["id"]: one["state"] for one in json.loads(run("proposals", "--all", "--json"))}


def test_hunks_are_decided_one_by_one_written_after_a_last_question_and_taken_back(
    processes: Forking, folder: Path, run: Run
) -> None:
    run("stage", stdin=TWO_HUNKS)
    run("stage", stdin="--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-gone\n+here\n")
    with plain(processes, folder, "review", "--plain") as review:
        review.answer(AT_HUNK, "n")
        review.answer(AT_HUNK, "u")
        first = review.answer(AT_HUNK, "y")
        second = review.answer(AT_HUNK, "n")
        assert (folder / "a.txt").read_text() == OLD
        assert "hunk 1 of 2" in first and "-two\n+TWO\n+two and a half\n" in first and "-nine\n+NINE\n" in second
        assert "P1: hunk 2 of 2, a.txt, line 10; 1 yes; 5 of 5 changed lines printed." in second
        review.answer(BOTH, "n")
        assert "Nothing is decided. Your last answer is taken back." in review.answer(AT_HUNK, "n")
        review.answer(BOTH, "y")
        review.wait_for("P1 written: a.txt.")
        assert (folder / "a.txt").read_text() == OLD.replace("two\n", "TWO\ntwo and a half\n")
        assert states(run)["P1"] == "applied"
        review.answer(AT_HUNK, "u")
        review.wait_for("P1 undone: a.txt.")
        assert (folder / "a.txt").read_text() == OLD
        review.answer(AT_HUNK, "y")
        review.wait_for("Nothing else waits for you.")
        assert review.terminal.wait_for_exit() == 0
        assert b"\x1b" not in review.terminal.raw
    assert (folder / "gone.txt").read_text() == "here\n"


@pytest.mark.layer
def test_evidence_and_lines_that_no_test_runs_are_printed_with_their_hunk(
    processes: Forking, folder: Path, run: Run
) -> None:
    (folder.parent / "home/config").mkdir(parents=True)
    report = "printf 'SF:a.py\\nDA:2,1\\nDA:3,0\\nDA:10,1\\n' > lcov.info"
    (folder.parent / "home/config/config.toml").write_text(
        '[[check]]\nname = "shout"\nrun = "grep -q NINE a.py"\nwhen = "asked"\nevidence = true\n'
        f'[[check]]\nname = "tests"\nrun = {json.dumps(report)}\n'
    )
    (folder / "a.txt").rename(folder / "a.py")
    run("stage", stdin=TWO_HUNKS.replace("a.txt", "a.py"))
    run("evidence", "P1")
    with plain(processes, folder, "review", "--plain") as review:
        first = review.answer(AT_HUNK, "j")
        second = review.answer(AT_HUNK, "x")
    assert "Without it: none of the tests that ran notices." in first
    assert "Without it: held by the check." in second
    assert "Check tests passed: " in first and "2 of 3 changed lines run." in first
    assert "+two and a half\n" in first
    assert "Reason: 1 changed line is run by no test (line 3).\n" in first
    assert "run by no test" not in second


def test_input_typed_before_a_question_or_right_after_it_decides_nothing(
    processes: Forking, folder: Path, run: Run
) -> None:
    run("stage", stdin=TWO_HUNKS)
    with plain(processes, folder, "review", "--plain") as review:
        # Whole lines, and one that is begun: the first is the answer to no question, the last is not its end.
        review.terminal.type("y\ry\ry\ry")
        review.wait_for("Not taken, since it was typed before this question: y y y")
        review.answer(AT_HUNK, "")
        review.wait_for("? lists the keys.")
        # In one piece: only its first line answers the question that is there.
        review.answer(AT_HUNK, "y\ry\ry")
        review.wait_for("Not taken, since it was typed before this question: y y")
        # On a slow machine the moment may be over before the test sees the question: then it asks for help again.
        review.wait_for(AT_HUNK)
        while "Not taken, since it came too soon to be an answer: ?" not in review.text:
            review.terminal.type("?\r")
            review.wait_for(AT_HUNK)
        review.terminal.settle(0.7)
        review.terminal.type("x\r")
        review.wait_for("Still waiting: P1.")
        assert review.terminal.wait_for_exit() == 0
    assert states(run) == {"P1": "pending"}
    assert (folder / "a.txt").read_text() == OLD


def test_a_deletion_is_named_and_asked_about_once_more(processes: Forking, folder: Path, run: Run) -> None:
    run("stage", stdin=DELETION)
    with plain(processes, folder, "review", "--plain") as review:
        assert "Caution: The file is deleted." in review.answer(AT_HUNK, "y")
        assert "P1: deletes gone.txt. Approve?" in review.answer(SURELY, "")
        assert (folder / "gone.txt").exists()
        review.answer(AT_HUNK, "y")
        review.answer(SURELY, "y")
        review.wait_for("P1 written: gone.txt.")
    assert not (folder / "gone.txt").exists()


def test_an_edit_that_was_not_found_exactly_is_asked_about(processes: Forking, folder: Path) -> None:
    with WireServer() as server:
        (folder / "greet.py").write_text(FILE)
        server.turn(calls=[edit("def  greet(name):", "def greet(whom):")])
        server.say("Renamed.")
        with plain(processes, folder, **endpoint_environment(server)) as chat:
            chat.answer("\n> ", "rename it")
            assert "Renamed." in chat.answer("P1 waits: review now? [y/N]", "y")
            assert "Caution: Line 1 was found ignoring spacing" in chat.answer(AT_HUNK, "y")
            assert "inexact match in greet.py" in chat.answer(SURELY, "y")
            chat.wait_for("P1 written: greet.py.")
            chat.answer("\n> ", "/quit")
            chat.wait_for("To go on with this session: signoff --plain --session ")
    assert "def greet(whom)" in (folder / "greet.py").read_text()


def test_output_sent_to_a_pipe_counts_as_unseen(processes: Forking, folder: Path, run: Run) -> None:
    """What stands behind the pipe may show it or not."""
    run("stage", stdin=TWO_HUNKS)
    environment = terminal_environment(folder.parent / "home", TERM="dumb")
    command = ["sh", "-c", f"{' '.join(signoff_command('review', '--plain'))} | cat"]
    with running(command, folder=folder, environment=environment) as terminal:
        review = Transcript(terminal)
        assert "0 of 5 changed lines printed" in review.answer(AT_HUNK, "y")
        review.answer(AT_HUNK, "y")
        review.answer(BOTH, "y")
        assert "5 of 5 changed lines of P1 were never on screen" in review.answer(SURELY, "n")
        review.answer(AT_HUNK, "x")
        review.terminal.wait_for_exit()
    assert states(run) == {"P1": "pending"}


def test_words_comments_and_a_denial_are_in_the_record(processes: Forking, folder: Path, run: Run) -> None:
    run("stage", stdin=TWO_HUNKS)
    with plain(processes, folder, "review", "P1", "--plain") as review:
        review.answer(AT_HUNK, "c")
        review.answer("Line (3):", "2")
        review.answer("Comment:", "keep it lower case")
        review.answer(AT_HUNK, "r")
        review.answer("\n> ", "Not like this,")
        review.answer("\n> ", "please.")
        review.answer("\n> ", ".")
        review.wait_for("P1 denied; nothing was written.")
        assert review.terminal.wait_for_exit() == 0
    assert states(run) == {"P1": "denied"}
    report = run("export", "P1", "--review")
    assert "> Not like this,\n> please." in report
    assert "`a.txt:2`" in report and "keep it lower case" in report
    assert "every changed line was on screen" not in report and "never on screen" in report


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_leaving_in_the_middle_of_a_text_denies_nothing_and_keeps_the_text(
    processes: Forking, folder: Path, run: Run, key: str
) -> None:
    run("stage", stdin=TWO_HUNKS)
    with plain(processes, folder, "review", "--plain") as review:
        review.answer(AT_HUNK, "r")
        review.answer("a dot at once leaves it as it was.\n> ", "Not like this,")
        review.wait_for("\n> ")
        review.terminal.type(key)
        assert review.terminal.wait_for_exit() == (0 if key == "\x04" else 130)
    assert states(run) == {"P1": "pending"}
    with plain(processes, folder, "review", "--plain") as review:
        review.answer(AT_HUNK, "r")
        review.wait_for("You have written about P1, but not sent:\nNot like this,\n")
        review.answer("a dot at once sends what you wrote before.\n> ", ".")
        review.wait_for("P1 denied; nothing was written.")
    assert "> Not like this," in run("export", "P1", "--review")


def test_a_text_that_could_not_be_saved_is_in_a_file(
    processes: Forking, folder: Path, run: Run, tmp_path: Path
) -> None:
    run("stage", stdin=TWO_HUNKS)
    editor = "sh -c 'sed -i s/two/deux/ a.txt; sed -i s/TWO/2/ \"$0\"'"
    with plain(processes, folder, "review", "--plain", EDITOR=editor, TMPDIR=str(tmp_path)) as review:
        review.answer(AT_HUNK, "e")
        review.wait_for("Not saved; your text is in ")
        kept = review.wait_for("a.txt.\n").removesuffix(".\n")
        assert "P1: 2 hunks; " in review.answer("[n,r,q,u,j,x,?]", "r")
        review.answer("a dot at once denies it because it is stale.\n> ", ".")
        review.wait_for("Why it is stale is in the log.\nP1 denied; nothing was written.\n")
    assert Path(kept).read_text() == OLD.replace("two\n", "2\ntwo and a half\n").replace("nine", "NINE")


def test_a_hunk_that_comes_first_is_named_by_its_number_too(processes: Forking, folder: Path, run: Run) -> None:
    risky = "--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-gone\n+go\u200bne\n"
    run("stage", stdin=TWO_HUNKS + risky)
    with plain(processes, folder, "review", "--plain") as review:
        assert "P1: hunk 1 of 3 (number 3 for --hunks), gone.txt, line 1" in review.answer(AT_HUNK, "x")


def test_without_a_terminal_nobody_is_asked(folder: Path, run: Run, processes: Forking) -> None:
    run("stage", stdin=DELETION)
    environment = terminal_environment(folder.parent / "home")
    done = processes.run(["review", "--plain"], folder=folder, environment=environment, stdin="y\n" * 9)
    assert done.returncode == 2 and "standard input is no terminal" in done.stderr
    assert states(run) == {"P1": "pending"}


def test_the_text_is_edited_in_the_users_editor_and_a_part_of_a_hunk_written(
    processes: Forking, folder: Path, run: Run
) -> None:
    run("stage", stdin=TWO_HUNKS)
    with plain(processes, folder, "review", "--plain", EDITOR="sed -i s/NINE/neuf/") as review:
        review.answer(AT_HUNK, "e")
        review.wait_for("a.txt in P1 is yours now.")
        review.answer(AT_HUNK, "s")
        assert " New 2-3, removed -2. " in review.answer("Lines:", "3")
        assert "hunk 1 of 3" in review.answer(AT_HUNK, "y")
        review.answer(AT_HUNK, "n")
        assert "+neuf" in review.answer(AT_HUNK, "y")
        review.answer(BOTH, "y")
        review.wait_for("Nothing else waits")
    assert (folder / "a.txt").read_text() == OLD.replace("two\n", "TWO\n").replace("nine", "neuf")


def test_a_command_runs_only_after_a_yes_to_it(processes: Forking, folder: Path, run: Run) -> None:
    with WireServer() as server:
        for _ in range(2):
            server.call("run_command", {"command": "touch seen"})
            server.say("Done.")
        with plain(processes, folder, **endpoint_environment(server)) as chat:
            chat.answer("\n> ", "run it")
            assert "The model wants to run, in the workspace:\n  touch seen\n" in chat.answer("[y,a,n,r,?]", "r")
            chat.answer("\n> ", "Not now.")
            chat.answer("\n> ", ".")
            chat.answer("\n> ", "again")
            assert "Not now." in str(server.last.messages)
            # Ctrl-C stops the turn: nothing is allowed.
            chat.wait_for("[y,a,n,r,?]")
            chat.terminal.type("\x03")
            chat.wait_for("\n> ")
    assert not (folder / "seen").exists()
    assert states(run) == {}


def test_why_a_turn_ended_is_a_line_of_the_chat(processes: Forking, folder: Path) -> None:
    (folder.parent / "home/config").mkdir(parents=True)
    (folder.parent / "home/config/config.toml").write_text("max_cost = 1\n")
    with WireServer() as server:
        with plain(processes, folder, **endpoint_environment(server)) as chat:
            chat.answer("\n> ", "hello")
            assert "! The cost limit cannot be kept" in chat.wait_for("\n> ")
        assert not server.requests


def test_the_whole_demo_task_reads_as_lines(processes: Forking, folder: Path) -> None:
    with plain(processes, folder, "--demo", "--plain") as chat:
        chat.answer("\n> ", "Fix the failing test")
        said = chat.answer("P1 waits: review now? [y/N]", "y")
        assert "· read_file tideline/moon.py" in said and "+ staged P1" in said
        assert "Check tests passed" in chat.answer(AT_HUNK, "r")
        chat.answer("\n> ", "Give half a lunar day its own name.")
        chat.answer("\n> ", ".")
        again = chat.answer("P2 waits: review now? [y/N]", "y")
        assert "Give half a lunar day its own name." in again
        for _ in range(4):
            chat.answer(AT_HUNK, "y")
        chat.answer(BOTH, "y")
        chat.wait_for("P2 written: ")
        chat.answer("\n> ", "improve it")
        assert "  1. " in chat.answer("Your answer: ", "1")
        chat.answer("\n> ", "/quit")
        assert chat.terminal.wait_for_exit() == 0
        assert b"\x1b" not in chat.terminal.raw

"""`read_file`: numbered lines, pages, the overlay, and what it says about odd files."""

import hashlib

import pytest

from app.tools import file_tools
from app.tools.base.contract import PermissionAnswer, ToolCallNotPermitted, ToolError
from tests.unit.tools.memory_draft import Bench


def put(bench: Bench, path: str, content: str | bytes) -> str:
    target = bench.workspace.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    target.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


async def test_numbers_lines_and_gives_the_version_by_the_normalised_path(bench: Bench) -> None:
    version = put(bench, "src/a.py", "one\n\ttwo\n")
    output = await bench.call("read_file", path="src/a.py")
    assert output.text == f"src/a.py (version {version[:12]}, 2 lines)\n1\tone\n2\t\ttwo"
    assert output.reads == {"src/a.py": version}
    assert output.summary == "2 lines"
    version = put(bench, "src/a.py", "x\n")
    output = await bench.call("read_file", path=f"{bench.workspace.root}/./src//a.py")
    assert output.reads == {"src/a.py": version} and output.summary == "1 line"


async def test_pages_a_long_file(bench: Bench) -> None:
    put(bench, "long", "".join(f"line {number}\n" for number in range(1, 2001)))
    first = (await bench.call("read_file", path="long")).text
    assert "\n800\tline 800\n" in first
    assert "\n801\t" not in first
    assert first.endswith("[lines 1-800 of 2000; go on with start_line=801]")
    last = (await bench.call("read_file", path="long", start_line=1601)).text
    assert last.endswith("2000\tline 2000\n[lines 1601-2000 of 2000]")
    part = (await bench.call("read_file", path="long", start_line=10, end_line=12)).text
    assert part.split("\n")[1:] == ["10\tline 10", "11\tline 11", "12\tline 12", "[lines 10-12 of 2000]"]


async def test_every_line_is_reachable_by_following_the_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools, "PAGE_CHARACTERS", 500)
    lines = [f"{'x' * (number * 7 % 90)}{number}" for number in range(1, 301)]
    put(bench, "long", "\n".join(lines))
    seen: list[str] = []
    start = 1
    while True:
        text = (await bench.call("read_file", path="long", start_line=start)).text
        seen += [row.partition("\t")[2] for row in text.split("\n") if "\t" in row]
        if "go on with start_line=" not in text:
            break
        start = int(text.rpartition("start_line=")[2].rstrip("]"))
    assert seen == lines


async def test_long_lines_undecodable_bytes_and_binary_files_are_bounded(bench: Bench) -> None:
    put(bench, "min.js", "a" * 1_000_000)
    text = (await bench.call("read_file", path="min.js")).text
    assert len(text) < 3000
    assert "998,000 more characters" in text
    put(bench, "long.txt", "".join(f"{number} {'x' * 1_900}\n" for number in range(100)))
    text = (await bench.call("read_file", path="long.txt")).text
    assert 50_000 < len(text) < 61_000
    *_, last, foot = text.splitlines()
    shown = int(last.partition("\t")[0])
    assert foot == f"[lines 1-{shown} of 100; go on with start_line={shown + 1}]"
    put(bench, "latin", b"caf\xe9\n")
    text = (await bench.call("read_file", path="latin")).text
    text.encode()
    assert r"caf\udce9" in text
    put(bench, "x.bin", b"\x7fELF\0\0\x01")
    output = await bench.call("read_file", path="x.bin")
    assert "binary file" in output.text
    assert "ELF" not in output.text


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b"a\r\nb\r\n", "[CRLF line endings"),
        (b"a\r\nb\n", "[mixed line endings"),
        (b"a\nb", "[no newline at the end"),
        (b"caf\xe9\n", "[not UTF-8"),
        ("\ufeffgrüß\n".encode("utf-16"), "[encoding: utf-16"),
        (b"", "The file is empty."),
    ],
)
async def test_says_what_is_odd_about_a_file(bench: Bench, content: bytes, note: str) -> None:
    put(bench, "odd", content)
    assert note in (await bench.call("read_file", path="odd")).text


async def test_shows_pending_edits_and_says_so(bench: Bench) -> None:
    put(bench, "a.py", "old\n")
    bench.draft.held["a.py"] = b"new\n"
    bench.draft.held["added.py"] = b"made up\n"
    output = await bench.call("read_file", path="a.py")
    assert "1\tnew" in output.text
    assert "old" not in output.text
    assert "staged edits of P1, which are not on disk yet" in output.text
    assert output.reads == {"a.py": hashlib.sha256(b"new\n").hexdigest()}
    assert "1\tmade up" in (await bench.call("read_file", path="added.py")).text


async def test_deleted_missing_and_large_files_are_reported(bench: Bench) -> None:
    put(bench, "a.py", "old\n")
    bench.draft.held["a.py"] = None
    with pytest.raises(ToolError, match="a staged edit deletes or renames it"):
        await bench.call("read_file", path="a.py")
    put(bench, "src/deep/settings.py", "")
    with pytest.raises(ToolError, match=r"does not exist\. Similar names: src/deep/settings.py"):
        await bench.call("read_file", path="setting.py")
    put(bench, "big", b"x\n" * 100)
    bench.workspace.read_limit = 100
    with pytest.raises(ToolError, match="the limit is 100"):
        await bench.call("read_file", path="big")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "src"}, "is a folder. Use list_files"),
        ({"path": "../x"}, "leads out of the workspace"),
        ({"path": "src/a.py", "start_line": 3}, "has 2 lines"),
        ({"path": "src/a.py", "start_line": 2, "end_line": 1}, "before start_line"),
    ],
)
async def test_refusals_say_what_is_wrong(bench: Bench, arguments: dict[str, object], message: str) -> None:
    put(bench, "src/a.py", "1\n2\n")
    with pytest.raises(ToolError, match=message):
        await bench.call("read_file", **arguments)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".env", "KEY=hunter2"),
        ("deploy/id_ed25519", "hunter2"),
        ("notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n"),
        (".npmrc", "//registry/:_authToken=hunter2"),
        (".env~", "KEY=hunter2"),
        ("#credentials#", "hunter2"),
        (".e\u200bnv", "KEY=hunter2"),
        ("deploy/kubeconfig", "token: hunter2"),
        (".dev.vars", "KEY=hunter2"),
        (".yarnrc.yml.orig", "npmAuthToken: hunter2"),
    ],
)
async def test_a_secret_is_shown_only_after_a_yes(bench: Bench, path: str, content: str) -> None:
    put(bench, path, content)
    bench.answer = PermissionAnswer(False, feedback="use the sample\nin docs")
    with pytest.raises(ToolCallNotPermitted) as raised:
        await bench.call("read_file", path=path)
    assert "hunter2" not in str(raised.value)
    assert "use the sample" not in str(raised.value), "the user's words are recorded as such, beside the result"
    [asked] = bench.asked
    assert (asked.kind, asked.detail) == ("secret", path)
    bench.answer = PermissionAnswer(True)
    assert "hunter2" in (await bench.call("read_file", path=path)).text


@pytest.mark.parametrize("secret", [".env", "conf/.env"])
async def test_a_second_name_does_not_hide_a_secret(bench: Bench, secret: str) -> None:
    put(bench, ".gitignore", ".env\n")
    put(bench, secret, "KEY=hunter2")
    put(bench, "plain.txt", "no secret")
    for source, target in ((secret, "readme.txt"), ("plain.txt", "other.txt")):
        (bench.workspace.root / target).hardlink_to(bench.workspace.root / source)
    assert "no secret" in (await bench.call("read_file", path="other.txt")).text
    bench.answer = PermissionAnswer(False)
    with pytest.raises(ToolCallNotPermitted):
        await bench.call("read_file", path="readme.txt")
    assert f"it is {secret} by another name" in bench.asked[0].title
    (bench.workspace.root / "link.txt").symlink_to(secret)
    with pytest.raises(ToolCallNotPermitted):
        await bench.call("read_file", path="link.txt")
    found = await bench.call("search_text", pattern="hunter")
    assert "hunter2" not in found.text and "readme.txt" in found.text


async def test_a_second_name_of_settings_hides_no_token(bench: Bench) -> None:
    bench.answer = PermissionAnswer(False)
    for number, content in enumerate(("save-exact=true\n", "//registry/:_authToken=hunter2\n")):
        put(bench, f"{number}/.npmrc", content)
        (bench.workspace.root / f"{number}.txt").hardlink_to(bench.workspace.root / f"{number}/.npmrc")
    assert "save-exact" in (await bench.call("read_file", path="0.txt")).text
    with pytest.raises(ToolCallNotPermitted):
        await bench.call("read_file", path="1.txt")


async def test_ordinary_files_are_read_unasked(bench: Bench) -> None:
    for path in ("src/secrets.py", ".env.example", "id_rsa.pub", ".npmrc", "environment.yml"):
        put(bench, path, "x = 1\n")
        await bench.call("read_file", path=path)
    assert bench.asked == []

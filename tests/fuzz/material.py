"""Random trees, diffs between them, and typical damage to a diff."""

import random
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

Files = dict[str, tuple[bytes, bool]]
"""Path to the file's bytes and whether it is executable."""

_NAMES = (
    *("a.txt", "b.py", "src/c.py", "src/deep/d.rs", "zürich.txt", "b", "b/a.c", "Makefile", "i/am.c"),
    *("new/x", "old/x", "with space.txt", 'quo"te.txt', "tab\there"),
)
_BLOCKS = (
    (b"def work():", b"    try:", b"        return 1", b"    finally:", b"        pass", b""),
    (b"begin", b"", b"end", b""),
    (b"{", b'\t"a": 1,', b'\t"b": 2', b"}"),
    (b"--- old", b"+++ new", b"@@ -1 +1 @@"),
    (b"*** Begin Patch", b"-- ", b"2.39.5", b"diff --git a/x b/x"),
    (b"trailing   ", b"\t", b"  \t ", b"x\x0cy", b"caf\xc3\xa9", b"latin \xe9"),
)
_TEXTS = (
    *(b"Here is the patch:\n", b"```diff\n", b"```\n", b"\n", b"* a point\n", b"--- x\n", b"*** \n", b"> quoted\n"),
    *(b"-- \n2.39.5\n", b"Binary files a/x and b/x differ\n", b"\\ No newline at end of file\n", b"@@ ... @@\n"),
    *(b"index 0000000..1111111\n", b"old mode 100644\n", b"new mode 100755\n", b"new file mode 120000\n"),
    *(b"rename from a.txt\nrename to q.txt\n", b"GIT binary patch\n", b"+++ /dev/null\n"),
)
"""What mails, models and editors put between the lines of a patch."""
_ENDINGS = (b"\n", b"\n", b"\n", b"\r\n", b"mixed")
_MODES = ("100644", "100755", "120000", "160000", "644", "0", "")


def tree(dice: random.Random) -> Files:
    """Return a few small files with many repeated lines."""
    files: Files = {}
    for name in dice.sample(_NAMES, dice.randint(1, 4)):
        if not any(f"{other}/".startswith(f"{name}/") or f"{name}/".startswith(f"{other}/") for other in files):
            files[name] = (_content(dice), dice.random() < 0.15)
    return files


def changed(dice: random.Random, files: Files) -> Files:
    """Return the tree after changes: edited, new, deleted, moved or newly executable files."""
    after = dict(files)
    for name, (data, executable) in files.items():
        roll = dice.random()
        if roll < 0.7:
            after[name] = (_edited(dice, data), executable)
        elif roll < 0.78:
            del after[name]
        elif roll < 0.86 and "moved.txt" not in after:
            after["moved.txt"] = (_edited(dice, data) if dice.random() < 0.6 else data, executable)
            del after[name]
        elif roll < 0.92:
            after[name] = (data, not executable)
    if dice.random() < 0.25 and not any(name.startswith("fresh") for name in after):
        after[dice.choice(("fresh.txt", "fresh/one.txt"))] = (_content(dice), dice.random() < 0.2)
    return after


def diff(dice: random.Random, folder: Path, before: Files, after: Files) -> bytes:
    """Return a diff between two trees in a random format; `folder` is an empty working folder."""
    for side, files in (("a", before), ("b", after)):
        put(folder / side, files)
        (folder / side).mkdir(exist_ok=True)
    context = dice.choice(("-U0", "-U1", "-U2", "-U3", "-U3", "-U3", "-U8"))
    if dice.random() < 0.2:
        command = ["diff", dice.choice(("-ruN", "-ru")), context, "a", "b"]
    else:
        all_options = ["--patience", "--full-index", "--no-renames", "--binary", "-M50%", "--stat", "-p"]
        options = [option for option in (*all_options, "--function-context") if dice.random() < 0.15]
        quoting = f"core.quotePath={dice.choice(('true', 'false'))}"
        form = ["--no-index", "--no-prefix", context, "--patch", *options]
        command = ["git", "-c", quoting, "diff", *form, "a", "b"]
    output = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
    # The folder's name is the prefix. For a file that is on one side only, git names that side twice.
    return re.sub(rb"""(?m)^diff --git ("?)[ab](/.*) ("?)[ab]\2$""", rb"diff --git \1a\2 \3b\2", output)


def put(folder: Path, files: Mapping[str, tuple[bytes, bool]]) -> None:
    for name, (data, executable) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)


def mutated(dice: random.Random, patch: bytes, other: bytes) -> bytes:
    """Return the patch with the damage that mail, editors, copying and models cause; sometimes unchanged."""
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        patch = dice.choice(_MUTATIONS)(dice, patch, other)
    return patch


def drifted(dice: random.Random, files: Files) -> Files:
    """Return the tree, sometimes with a later change by someone else."""
    if dice.random() < 0.7:
        return files
    name = dice.choice(sorted(files))
    return {**files, name: (_edited(dice, files[name][0]), files[name][1])}


def _content(dice: random.Random) -> bytes:
    if dice.random() < 0.05:
        return dice.choice((b"", b"one line", b"\n", b"\0binary\xff", b"\xef\xbb\xbfwith a mark\n"))
    lines: list[bytes] = []
    while len(lines) < dice.randint(3, 40):
        lines += dice.choice(_BLOCKS) if dice.random() < 0.5 else [b"line %d" % dice.randrange(30)]
    return _ended(dice, lines)


def _ended(dice: random.Random, lines: list[bytes]) -> bytes:
    ending = dice.choice(_ENDINGS)
    text = b"".join(line + (dice.choice((b"\n", b"\r\n")) if ending == b"mixed" else ending) for line in lines)
    return text if dice.random() < 0.8 else text.rstrip(b"\r\n")


def _edited(dice: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    for _ in range(dice.choice((1, 1, 2, 3, 5))):
        at = dice.randint(0, len(lines))
        new = [
            dice.choice((b"new %d\n" % dice.randrange(9), b"    return 1\n", b"\n", b"end\r\n"))
            for _ in range(dice.choice((0, 1, 1, 2)))
        ]
        lines[at : at + dice.choice((0, 1, 1, 2))] = new
    return b"".join(lines)


Mutation = Callable[[random.Random, bytes, bytes], bytes]


def _on_lines(change: Callable[[random.Random, list[bytes]], object]) -> Mutation:
    """Make a mutation of the patch's lines, which keep their line ends; `change` works in place."""

    def mutate(dice: random.Random, patch: bytes, other: bytes) -> bytes:
        lines = patch.splitlines(keepends=True)
        if lines:
            change(dice, lines)
        return b"".join(lines)

    return mutate


def _change_marker(dice: random.Random, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    lines[at] = dice.choice((b" ", b"+", b"-", b"", b"\\", b"\t", b">")) + lines[at][1:]


def _change_character(dice: random.Random, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    spot = dice.randint(0, len(lines[at]))
    lines[at] = lines[at][:spot] + dice.choice((b"", b"x", b" ", b"\xff", b"\0", b"\x1b[31m")) + lines[at][spot + 1 :]


def _move(dice: random.Random, lines: list[bytes]) -> None:
    line = lines.pop(dice.randrange(len(lines)))
    lines.insert(dice.randint(0, len(lines)), line)


def _delete(dice: random.Random, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    del lines[at : at + dice.choice((1, 1, 1, 2, 5))]


def _duplicate(dice: random.Random, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    lines[at:at] = lines[at : at + dice.choice((1, 1, 3))]


def _strip(dice: random.Random, lines: list[bytes]) -> None:
    lines[:] = [line.rstrip() + b"\n" for line in lines]


def _insert_text(dice: random.Random, lines: list[bytes]) -> None:
    lines.insert(dice.randint(0, len(lines)), dice.choice(_TEXTS))


def _change_number(dice: random.Random, patch: bytes, other: bytes) -> bytes:
    numbers = [
        (header.start() + match.start(), header.start() + match.end())
        for header in re.finditer(rb"(?m)^@@ .*?@@", patch)
        for match in re.finditer(rb"\d+", header[0])
    ]
    if not numbers:
        return patch
    start, end = dice.choice(numbers)
    value = int(patch[start:end])
    replacement = dice.choice((value + 1, max(value - 1, 0), value + dice.randint(2, 30), 0, 10**9, 10**30))
    return patch[:start] + b"%d" % replacement + patch[end:]


def _on_hunks(change: Callable[[random.Random, list[bytes]], object]) -> Mutation:
    def mutate(dice: random.Random, patch: bytes, other: bytes) -> bytes:
        head, *hunks = re.split(rb"(?m)^(?=@@ )", patch)
        if hunks:
            change(dice, hunks)
        return head + b"".join(hunks)

    return mutate


def _without(pattern: bytes) -> Mutation:
    return lambda dice, patch, other: re.sub(pattern, b"", patch)


def _change_name(dice: random.Random, patch: bytes, other: bytes) -> bytes:
    matches = list(re.finditer(rb"(?m)^(?:---|\+\+\+|rename (?:from|to)) (.+)$", patch))
    if not matches:
        return patch
    start, end = dice.choice(matches).span(1)
    name = patch[start:end]
    names = [b"/dev/null", b"a/a.txt", b"b/fresh.txt", b"../out.txt", b"/etc/passwd", b"a/.git/config", b"b"]
    names += [b'"b/\\142.py"', name + b"\t2026-01-01 00:00:00 +0000", name + b" ", b"a/" + name]
    return patch[:start] + dice.choice(names) + patch[end:]


def _cut(dice: random.Random, patch: bytes, other: bytes) -> bytes:
    return patch[: dice.randint(0, len(patch))]


def _change_mode(dice: random.Random, patch: bytes, other: bytes) -> bytes:
    return re.sub(rb"\b100(644|755)\b", dice.choice(_MODES).encode(), patch, count=dice.choice((0, 1)))


_MUTATIONS: tuple[Mutation, ...] = (
    *2 * tuple(map(_on_lines, (_change_marker, _change_character, _delete, _insert_text))),
    *map(_on_lines, (_move, _duplicate, _strip)),
    _change_number,
    _change_number,
    _on_hunks(lambda dice, hunks: dice.shuffle(hunks)),
    _on_hunks(lambda dice, hunks: hunks.append(dice.choice(hunks))),
    _on_hunks(lambda dice, hunks: hunks.pop(dice.randrange(len(hunks)))),
    _without(rb"(?m)^index .*\n"),
    _without(rb"(?m)^diff .*\n"),
    _without(rb"(?m)^(?:new file|deleted file|old|new) mode .*\n"),
    _without(rb"(?m)^\\ No newline.*\n"),
    _change_name,
    _change_mode,
    _cut,
    _cut,
    lambda dice, patch, other: patch + other,
    lambda dice, patch, other: patch.replace(b"\n", b"\r\n"),
    lambda dice, patch, other: patch.replace(b"\r\n", b"\n"),
    lambda dice, patch, other: patch.replace(b"\t", b"    "),
    lambda dice, patch, other: re.sub(rb"(?m)^ $", b"", patch),
    lambda dice, patch, other: re.sub(rb"(?m)^", b"    ", patch),
    lambda dice, patch, other: patch.removesuffix(b"\n"),
    lambda dice, patch, other: b"\xef\xbb\xbf" + patch,
)

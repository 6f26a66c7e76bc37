"""Images that the user means: named or dropped, read as regular files, told by their bytes."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.images.image import (
    Image,
    NotAnImage,
    detect_media_type,
    format_bytes,
    image_refusal_reason,
    parse_image_header,
)
from app.images.image_files import ImageFileLoader, ImageNotAttached, MentionedImage
from app.images.mentions import Mention, find_mentioned_files, format_mention, possible_pasted_paths
from app.workspace.paths import Workspace
from tests.unit.images.pictures import gif, jpeg, png, webp


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "shot.png").write_bytes(png(30, 20))
    return root


@pytest.fixture
def files(root: Path) -> ImageFileLoader:
    return ImageFileLoader(Workspace(root))


def mentioned(files: ImageFileLoader, *paths: str, dropped: bool = False) -> list[MentionedImage]:
    return files.find_mentioned(Mention(path, dropped) for path in paths)


def test_an_image_of_the_workspace_is_sent_however_it_is_named(files: ImageFileLoader, root: Path) -> None:
    (root / "latest.png").symlink_to("shot.png")
    for path in ("shot.png", "./shot.png", str(root / "shot.png"), "latest.png"):
        (candidate,) = mentioned(files, path)
        image, data = files.load(candidate, "chat")
        assert (data, image.media_type, image.width, image.height) == (png(30, 20), "image/png", 30, 20)
        if path != "latest.png":
            assert candidate == MentionedImage("shot.png", "") and image.name == "shot.png"


def test_the_bytes_tell_and_not_the_name_and_other_files_are_only_named(files: ImageFileLoader, root: Path) -> None:
    (root / "photo.png").write_bytes(jpeg(30, 20))
    (root / "no-ending").write_bytes(gif(30, 20))
    found = mentioned(files, "photo.png", "no-ending")
    assert [files.load(one, "chat")[0].media_type for one in found] == ["image/jpeg", "image/gif"]
    (root / "a.py").write_text("print()")
    os.mkfifo(root / "pipe")
    assert mentioned(files, "a.py", "missing.py", "pipe", ".", "../outside.py", "nul\0byte", "/etc/passwd") == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.png", "There is no missing.png."),
        ("shot.png/inner.png", "There is no shot.png/inner.png."),
        ("folder.png", "folder.png is a folder."),
        ("pipe.png", "pipe.png cannot be read: pipe.png is not a regular file."),
        ("text.png", "text.png is no PNG, JPEG, GIF or WebP."),
        ("empty.png", "empty.png is no PNG, JPEG, GIF or WebP."),
        ("out.png", "out.png cannot be read: out.png leads out of the workspace through a link."),
        (".git/shot.png", ".git/shot.png cannot be read: '.git' belongs to git; tools don't touch it."),
        ("\x1b[2J\u202e.png", "There is no ␛[2J�.png."),
        ("/dev/zero.png", "There is no /dev/zero.png."),
    ],
)
def test_a_file_that_is_no_image_is_refused(files: ImageFileLoader, root: Path, path: str, reason: str) -> None:
    (root / "folder.png").mkdir()
    os.mkfifo(root / "pipe.png")
    (root / "text.png").write_text("hello")
    (root / "empty.png").touch()
    (root.parent / "outside.png").write_bytes(png())
    (root / "out.png").symlink_to(root.parent / "outside.png")
    (root / ".git").mkdir()
    (root / ".git/shot.png").write_bytes(png())
    with pytest.raises(ImageNotAttached) as refused:
        mentioned(files, path)
    said = str(refused.value)
    assert "\n" not in said and "\x1b" not in said and "\u202e" not in said
    assert said == reason or (path.startswith("\x1b") and "␛[2J" in said)


def test_pipes_and_devices_outside_are_not_waited_for(files: ImageFileLoader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageNotAttached, match=r"pipe\.png is no regular file"):
        mentioned(files, str(tmp_path / "pipe.png"), dropped=True)
    assert mentioned(files, "/dev/zero", "/dev/tty", dropped=True) == []


@pytest.mark.parametrize(
    ("data", "wire", "reason"),
    [
        (png(9_000, 10), "chat", "9,000×10 pixels, and at most 8,000"),
        (png(padding=4_500_000), "anthropic", "too large: at most 3.9 MB"),
        (png(30, 20)[:40], "chat", "cut off or damaged"),
    ],
)
def test_unsupported_images_are_refused(
    files: ImageFileLoader, root: Path, data: bytes, wire: str, reason: str
) -> None:
    (root / "shot.png").write_bytes(data)
    (candidate,) = mentioned(files, "shot.png")
    with pytest.raises(ImageNotAttached, match=reason):
        files.load(candidate, wire)
    image = Image.from_bytes("shot.png", png(padding=4_500_000))
    limits = {wire: image_refusal_reason(image, wire) for wire in ("chat", "anthropic")}
    assert limits == {"chat": "", "anthropic": "has 4.5 MB, and at most 3.9 MB are accepted"}


def test_a_huge_file_is_refused_without_being_read(files: ImageFileLoader, root: Path) -> None:
    with (root / "huge.png").open("wb") as out:
        out.write(png()[:30])
        out.truncate(200_000_000)
    (candidate,) = mentioned(files, "huge.png")
    with pytest.raises(ImageNotAttached, match=r"huge\.png is too large"):
        files.load(candidate, "chat")
    outside = (root / "huge.png").rename(root.parent / "huge.png")
    (candidate,) = mentioned(files, str(outside), dropped=True)
    with pytest.raises(ImageNotAttached, match=r"huge\.png is too large: at most .* are accepted, so scale it down"):
        files.load(candidate, "chat")


def test_a_message_takes_a_limited_number_of_images(files: ImageFileLoader, root: Path) -> None:
    for number in range(11):
        (root / f"{number}.png").write_bytes(png())
    with pytest.raises(ImageNotAttached, match="at most 10 images, and this one has 11"):
        mentioned(files, *(f"{number}.png" for number in range(11)))


def test_doubtful_images_are_asked_about(files: ImageFileLoader, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.png").write_bytes(png())
    (root / ".ssh").mkdir()
    (root / ".ssh/code.png").write_bytes(png())
    elsewhere = str(tmp_path / "elsewhere.png")
    assert "outside the workspace" in mentioned(files, elsewhere)[0].confirmation_reason
    assert "outside the workspace" in mentioned(files, f"{root}/../elsewhere.png")[0].confirmation_reason
    assert mentioned(files, elsewhere, dropped=True)[0].confirmation_reason == ""
    for dropped in (False, True):
        assert "looks like a secret" in mentioned(files, ".ssh/code.png", dropped=dropped)[0].confirmation_reason
    os.link(root / ".ssh/code.png", root / "innocent.png")
    assert mentioned(files, "innocent.png")[0].confirmation_reason == "it is the same file as .ssh/code.png"


def test_a_file_given_as_an_image_must_be_an_image(files: ImageFileLoader, root: Path) -> None:
    (root / "a.py").write_text("print()")
    assert files.find_named([str(root / "shot.png")]) == [Mention(str(root / "shot.png"), dropped=True)]
    for path, reason in (("a.py", "is no PNG, JPEG, GIF or WebP"), ("missing.txt", "There is no ")):
        with pytest.raises(ImageNotAttached, match=reason):
            files.find_named([str(root / path)])
    with pytest.raises(ImageNotAttached, match="There is no "):
        files.find_named(["~nobody-here/shot.png"])


def test_a_paste_is_taken_for_images_only_if_all_parts_are_images(files: ImageFileLoader, root: Path) -> None:
    (root / "two words.png").write_bytes(png())
    (root / "a.py").write_text("print()")
    assert files.parse_pasted_image_paths(f"'{root}/two words.png'") == ["two words.png"]
    assert files.parse_pasted_image_paths(f"{root}/shot.png {root}/two\\ words.png") == ["shot.png", "two words.png"]
    for other in (f"{root}/a.py", f"{root}/shot.png {root}/a.py", "/tmp", f"see {root}/shot.png", "~nobody/x.png"):
        assert files.parse_pasted_image_paths(other) == []


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("@shot.png", ["shot.png"]),
        ("see @docs/shot.png, and (@b.gif).", ["docs/shot.png", "b.gif"]),
        ('@"two words.png" or @\'it "is".png\'', ["two words.png", 'it "is".png']),
        (r"@/tmp/two\ words.png", ["/tmp/two words.png"]),
        ("@file:///tmp/two%20words.png", ["/tmp/two words.png"]),
        ("@a.png @a.png", ["a.png"]),
        ("me@example.png icon@2x.png `@a.png`", []),
        ("@ @. @, nothing", []),
        ("first\n@second.png", ["second.png"]),
        ("> see @a.png\n > @b.png\n@c.png > @d.png", ["c.png", "d.png"]),
        ("@file://[/a.png", ["file://[/a.png"]),
        ("@100%25.png?#b", ["100%25.png?#b"]),
    ],
)
def test_files_are_named_with_an_at(text: str, paths: list[str]) -> None:
    assert [mention.path for mention in find_mentioned_files(text)] == paths
    dropped = find_mentioned_files(text, frozenset(paths[:1]))
    assert [mention.dropped for mention in dropped] == [True, False, False][: len(paths)], "only those are so marked"


@given(st.text(min_size=1).filter(lambda path: not {"\n", "\r"} & {*path} and path.isprintable()))
def test_a_path_is_read_as_it_was_written(path: str) -> None:
    if path.lower().startswith("file://") or {'"', "'"} <= {*path}:
        return
    assert [mention.path for mention in find_mentioned_files(f"look at {format_mention(path)} please")] == [path]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("docs/shot.png", "@docs/shot.png"),
        ("two words.png", '@"two words.png"'),
        ('it "is".png', "@'it \"is\".png'"),
        ('it\'s "it".png', r"@it\'s\ \"it\"\.png"),
    ],
)
def test_a_mention_is_quoted_only_if_needed(path: str, said: str) -> None:
    assert format_mention(path) == said
    assert [mention.path for mention in find_mentioned_files(said)] == [path]


@pytest.mark.parametrize(
    ("pasted", "paths"),
    [
        ("/tmp/shot.png", ["/tmp/shot.png"]),
        ("/tmp/two words.png", ["/tmp/two words.png"]),
        (r"/tmp/two\ words.png ", ["/tmp/two words.png"]),
        ("'/tmp/two words.png' ", ["/tmp/two words.png"]),
        ('"/tmp/it\'s.png"', ["/tmp/it's.png"]),
        ("file:///tmp/two%20words.png", ["/tmp/two words.png"]),
        ("FILE:///tmp/a.png", ["/tmp/a.png"]),
        ("/tmp/it's.png", ["/tmp/it's.png"]),
        ("/tmp/a.png /tmp/b.png", ["/tmp/a.png", "/tmp/b.png"]),
        ("file:///tmp/a.png\nfile:///tmp/b.png\n", ["/tmp/a.png", "/tmp/b.png"]),
        ("~/shot.png", ["~/shot.png"]),
        ("docs/shot.PNG", ["docs/shot.PNG"]),
    ],
)
def test_a_dropped_path_is_parsed_in_every_terminals_format(pasted: str, paths: list[str]) -> None:
    assert paths in [list(found) for found in possible_pasted_paths(pasted)]


@pytest.mark.parametrize("pasted", ["", "  ", "hello", "def f():\n    pass", "/tmp/\x1b[2J.png", "/" * 5_000])
def test_other_text_is_no_path(pasted: str) -> None:
    assert list(possible_pasted_paths(pasted)) == []


@given(st.text())
def test_any_paste_can_be_looked_at(pasted: str) -> None:
    assert all(isinstance(path, str) for paths in possible_pasted_paths(pasted) for path in paths)
    find_mentioned_files(pasted)


PICTURES = {
    "png": (png(300, 200), "image/png"),
    "png with something behind it": (png(300, 200) + b"appended by a phone", "image/png"),
    "jpeg": (jpeg(300, 200), "image/jpeg"),
    "gif": (gif(300, 200), "image/gif"),
    "padded gif": (gif(300, 200) + b"\0\0", "image/gif"),
    "lossy webp": (webp(b"VP8 ", 300, 200), "image/webp"),
    "lossless webp": (webp(b"VP8L", 300, 200), "image/webp"),
    "extended webp": (webp(b"VP8X", 300, 200), "image/webp"),
}


@pytest.mark.parametrize(("data", "kind"), PICTURES.values(), ids=list(PICTURES))
def test_the_bytes_tell_format_and_size_and_a_cut_off_image_is_damaged(data: bytes, kind: str) -> None:
    assert parse_image_header(data) == (kind, 300, 200)
    assert detect_media_type(data[:16]) == kind
    for length in (8, 12, 20, len(data) // 2):
        with pytest.raises(NotAnImage, match=r"cut off or damaged|no PNG"):
            parse_image_header(data[:length])
    if data in (png(300, 200), jpeg(300, 200), gif(300, 200), webp(b"VP8 ", 300, 200)):
        with pytest.raises(NotAnImage, match="cut off"):
            parse_image_header(data[:-1])


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"%PDF-1.7", b"<svg/>", b"BM" + b"\0" * 60, b"RIFF\0\0\0\0WAVE", b"XIFF\0\0\0\0WEBP"]
)
def test_other_data_is_no_image(data: bytes) -> None:
    with pytest.raises(NotAnImage, match="no PNG, JPEG, GIF or WebP"):
        parse_image_header(data)


def test_damaged_images_are_reported_and_jpeg_padding_is_skipped() -> None:
    for size in ((0, 2), (2, 0)):
        with pytest.raises(NotAnImage, match="no pixels"):
            parse_image_header(gif(*size))
    with pytest.raises(NotAnImage, match="damaged"):
        parse_image_header(png(300, 200).replace(b"IHDR", b"tEXt"))
    frame = b"\xc0\0\x11\x08\0\x14\0\x1e" + bytes(10)
    assert parse_image_header(b"\xff\xd8\xff\xe0\0\2\xff" + frame + b"\xff\xd9")[1:] == (30, 20)
    with pytest.raises(NotAnImage, match="damaged"):
        parse_image_header(b"\xff\xd8\xff\xe0\0\2" + frame + b"\xff\xd9")


@pytest.mark.parametrize(("size", "said"), [(999, "999 bytes"), (214_400, "214 KB"), (3_900_000, "3.9 MB")])
def test_a_size_is_said_for_people(size: int, said: str) -> None:
    assert format_bytes(size) == said


@given(
    st.sampled_from([picture for picture, _ in PICTURES.values()]),
    st.lists(st.tuples(st.integers(0, 80), st.binary(min_size=1, max_size=4))),
    st.binary(max_size=40),
)
def test_any_bytes_give_a_format_or_a_reason(picture: bytes, changes: list[tuple[int, bytes]], more: bytes) -> None:
    data = bytearray(picture + more)
    for at, content in changes:
        data[at : at + len(content)] = content
    try:
        found = parse_image_header(bytes(data))
    except NotAnImage:
        return
    assert found.width > 0 and found.height > 0

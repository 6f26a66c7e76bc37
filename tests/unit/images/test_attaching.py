"""Which files are read as images: regular ones, bounded, and those that the user means."""

import os
from pathlib import Path

import pytest

from app.images.image import Image, refusal_reason
from app.images.image_files import Candidate, ImageFiles, NotAttached
from app.images.mentions import Mention
from app.workspace.paths import Workspace
from tests.unit.images.pictures import gif, jpeg, png


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "shot.png").write_bytes(png(30, 20))
    return root


@pytest.fixture
def files(root: Path) -> ImageFiles:
    return ImageFiles(Workspace(root))


def mentioned(files: ImageFiles, *paths: str, dropped: bool = False) -> list[Candidate]:
    return files.mentioned(Mention(path, dropped) for path in paths)


def test_an_image_of_the_workspace_is_sent_however_it_is_named(files: ImageFiles, root: Path) -> None:
    for path in ("shot.png", "./shot.png", str(root / "shot.png")):
        (candidate,) = mentioned(files, path)
        assert candidate == Candidate("shot.png", "")
        image, data = files.load(candidate, "chat")
        assert data == png(30, 20)
        assert (image.name, image.media_type, image.width, image.height) == ("shot.png", "image/png", 30, 20)


def test_the_bytes_tell_and_not_the_name(files: ImageFiles, root: Path) -> None:
    (root / "photo.png").write_bytes(jpeg(30, 20))
    (root / "no-ending").write_bytes(gif(30, 20))
    found = mentioned(files, "photo.png", "no-ending")
    assert [files.load(one, "chat")[0].media_type for one in found] == ["image/jpeg", "image/gif"]


def test_other_files_are_only_named(files: ImageFiles, root: Path) -> None:
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
def test_what_is_meant_as_an_image_and_is_none_is_refused_in_one_line(
    files: ImageFiles, root: Path, path: str, reason: str
) -> None:
    (root / "folder.png").mkdir()
    os.mkfifo(root / "pipe.png")
    (root / "text.png").write_text("hello")
    (root / "empty.png").touch()
    (root.parent / "outside.png").write_bytes(png())
    (root / "out.png").symlink_to(root.parent / "outside.png")
    (root / ".git").mkdir()
    (root / ".git/shot.png").write_bytes(png())
    with pytest.raises(NotAttached) as refused:
        mentioned(files, path)
    said = str(refused.value)
    assert "\n" not in said and "\x1b" not in said and "\u202e" not in said
    assert said == reason or (path.startswith("\x1b") and "␛[2J" in said)


def test_a_link_inside_the_workspace_is_followed(files: ImageFiles, root: Path) -> None:
    (root / "latest.png").symlink_to("shot.png")
    (candidate,) = mentioned(files, "latest.png")
    assert files.load(candidate, "chat")[1] == png(30, 20)


def test_pipes_and_devices_outside_are_not_waited_for(files: ImageFiles, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(NotAttached, match=r"pipe\.png is no regular file"):
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
def test_what_no_vendor_takes_is_refused_before_it_is_sent(
    files: ImageFiles, root: Path, data: bytes, wire: str, reason: str
) -> None:
    (root / "shot.png").write_bytes(data)
    (candidate,) = mentioned(files, "shot.png")
    with pytest.raises(NotAttached, match=reason):
        files.load(candidate, wire)


def test_what_one_wire_takes_may_be_too_large_for_another() -> None:
    image = Image.from_bytes("shot.png", png(padding=4_500_000))
    assert refusal_reason(image, "chat") == ""
    assert refusal_reason(image, "anthropic") == "has 4.5 MB, and at most 3.9 MB are taken"


def test_a_huge_file_is_refused_without_being_read(files: ImageFiles, root: Path) -> None:
    with (root / "huge.png").open("wb") as out:
        out.write(png()[:30])
        out.truncate(200_000_000)
    (candidate,) = mentioned(files, "huge.png")
    with pytest.raises(NotAttached, match=r"huge\.png is too large"):
        files.load(candidate, "chat")
    outside = (root / "huge.png").rename(root.parent / "huge.png")
    (candidate,) = mentioned(files, str(outside), dropped=True)
    with pytest.raises(NotAttached, match=r"huge\.png is too large: at most .* are taken, so scale it down"):
        files.load(candidate, "chat")


def test_a_message_takes_only_so_many(files: ImageFiles, root: Path) -> None:
    for number in range(11):
        (root / f"{number}.png").write_bytes(png())
    with pytest.raises(NotAttached, match="at most 10 images, and this has 11"):
        mentioned(files, *(f"{number}.png" for number in range(11)))


def test_what_the_user_may_not_mean_is_asked_about(files: ImageFiles, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.png").write_bytes(png())
    (root / ".ssh").mkdir()
    (root / ".ssh/code.png").write_bytes(png())
    elsewhere = str(tmp_path / "elsewhere.png")
    assert "outside the workspace" in mentioned(files, elsewhere)[0].doubt
    assert "outside the workspace" in mentioned(files, f"{root}/../elsewhere.png")[0].doubt
    assert mentioned(files, elsewhere, dropped=True)[0].doubt == ""
    for dropped in (False, True):
        assert "looks like a secret" in mentioned(files, ".ssh/code.png", dropped=dropped)[0].doubt
    os.link(root / ".ssh/code.png", root / "innocent.png")
    assert mentioned(files, "innocent.png")[0].doubt == "it is the same file as .ssh/code.png"


def test_a_file_that_is_given_as_an_image_has_to_be_one(files: ImageFiles, root: Path) -> None:
    (root / "a.py").write_text("print()")
    assert files.given([str(root / "shot.png")]) == [Mention(str(root / "shot.png"), dropped=True)]
    for path, reason in (("a.py", "is no PNG, JPEG, GIF or WebP"), ("missing.txt", "is no PNG")):
        with pytest.raises(NotAttached, match=reason):
            files.given([str(root / path)])


def test_a_paste_is_taken_for_images_only_if_it_is_nothing_else(files: ImageFiles, root: Path) -> None:
    (root / "two words.png").write_bytes(png())
    (root / "a.py").write_text("print()")
    assert files.pasted(f"'{root}/two words.png'") == ["two words.png"]
    assert files.pasted(f"{root}/shot.png {root}/two\\ words.png") == ["shot.png", "two words.png"]
    for other in (f"{root}/a.py", f"{root}/shot.png {root}/a.py", "/tmp", f"see {root}/shot.png", "~nobody/x.png"):
        assert files.pasted(other) == []

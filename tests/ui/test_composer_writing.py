"""Writing: sending, new lines, pastes that fold, history, drafts."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste
from textual.pilot import Pilot

from app.images.mentions import Mention
from tests.ui.chat_app import ChatApp, chatting
from widgets.chat import composer_field as dropped
from widgets.chat.composer import Composer
from widgets.chat.composer_field import ComposerDraft, DroppedImages, FoldedPastes, should_fold_paste
from widgets.chat.composer_lists import QueuedMessages

BIG = "\n".join(f"line {number}" for number in range(340))


def composer(app: ChatApp) -> Composer:
    return app.pane.composer


async def paste(app: ChatApp, pilot: Pilot[None], text: str) -> None:
    composer(app).editor.post_message(Paste(text))
    await pilot.pause()


async def test_enter_sends_the_draft_and_keys_follow_the_keymap() -> None:
    async with chatting() as (app, pilot):
        await pilot.press(*"hi", "enter")
        assert app.said == [Composer.Submitted("hi")]
        assert composer(app).is_empty
        await pilot.press("space", "enter")
        assert len(app.said) == 1
        await pilot.press("backspace", "a", "shift+enter", "b", "ctrl+j", "c", "enter")
        assert app.said[1:] == [Composer.Submitted("a\nb\nc")]
        # Keys of one burst keep their order.
        for keys, said, left in (
            (["a", "ctrl+j", "b", "enter", "c"], "a\nb", "c"),
            (["a", "b", "backspace", "c", "left", "d", "enter"], "adc", ""),
        ):
            app.said.clear()
            composer(app).draft = ""
            for key in keys:
                app.post_message(Key(key, key if len(key) == 1 else None))
            await pilot.pause()
            assert (app.said, composer(app).draft) == ([Composer.Submitted(said)], left)
        app.said.clear()
        app.set_keymap({"composer.send": "ctrl+s", "composer.newline": "enter"})
        await pilot.press("a", "enter", "b")
        assert app.said == []
        await pilot.press("ctrl+s")
        assert app.said == [Composer.Submitted("a\nb")]


async def test_the_composer_grows_to_a_third_of_the_screen_and_then_scrolls() -> None:
    async with chatting() as (app, pilot):
        assert composer(app).editor.size.height == 1
        for _ in range(4):
            await pilot.press("x", "ctrl+j")
        await pilot.pause()
        assert composer(app).editor.size.height == 5
        composer(app).draft = "x\n" * 100
        await pilot.pause()
        assert composer(app).editor.size.height == 10
        assert composer(app).editor.text == "x\n" * 100, "what was typed is not folded"


async def test_a_slow_file_system_does_not_delay_a_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(pasted: str) -> Sequence[Mention]:
        await asyncio.Event().wait()
        return ()

    monkeypatch.setattr(dropped, "_MAX_IMAGE_CHECK_SECONDS", 0.001)
    looking = DroppedImages()
    looking.find_dropped_files = find
    assert await looking.mention_text("/far/away.png") == "/far/away.png"


async def test_a_big_paste_is_shown_folded_as_one_and_sent_completely() -> None:
    async with chatting() as (app, pilot):
        await paste(app, pilot, "a\r\nb\rc")
        assert composer(app).editor.text == "a\nb\nc", "a small one is text"
        composer(app).draft = ""
        await pilot.press("a")
        await paste(app, pilot, BIG)
        for key in ("backspace", "ctrl+w"):
            await pilot.press("end", key)
            assert composer(app).editor.text == "a"
            await pilot.press("ctrl+z")
            assert composer(app).draft == f"a{BIG}"
        await pilot.press("end", "left", "x", "right", "y")
        assert composer(app).draft == f"ax{BIG}y", "the cursor is never inside"
        await pilot.press("ctrl+g")
        assert app.said == [Composer.EditorRequested(f"ax{BIG}y")]
        await paste(app, pilot, BIG.upper())
        assert composer(app).editor.text == "ax[pasted 340 lines]y[pasted 340 lines #2]"
        await pilot.press("enter")
        assert app.said[1:] == [Composer.Submitted(f"ax{BIG}y{BIG.upper()}")]


async def test_history_by_arrows_keeps_the_draft() -> None:
    async with chatting() as (app, pilot):
        composer(app).set_history(["first", "second\nline"])
        await pilot.press(*"dra", "up")
        assert composer(app).draft == "second\nline"
        await pilot.press("up", "up")
        assert composer(app).draft == "first"
        await pilot.press("up")
        assert composer(app).draft == "first"
        await pilot.press("down", "down", "down")
        assert composer(app).draft == "dra"
        # The draft is told and can be set.
        composer(app).draft = ""
        await pilot.press(*"ab")
        assert app.drafts[-1] == "ab"
        composer(app).draft = "kept\nfrom before"
        await pilot.press("!")
        assert composer(app).draft == "kept\nfrom before!"


async def test_history_search_takes_or_leaves_a_match_without_sending() -> None:
    async with chatting() as (app, pilot):
        await pilot.press("ctrl+r")
        assert "no earlier message matches" in composer(app).popup.render().plain, "nothing was sent yet"
        await pilot.press("escape")
        composer(app).set_history(["fix the bug", "write a test", "fix the other bug"])
        await pilot.press(*"draft", "ctrl+r")
        assert composer(app).popup.is_open
        composer(app).editor.text = ""
        await pilot.press(*"fix")
        await pilot.press("ctrl+r", "enter")
        assert composer(app).draft == "fix the bug"
        assert app.said == []

        composer(app).draft = "draft"
        await pilot.press("ctrl+r", "x", "escape")
        assert composer(app).draft == "draft"
        assert not composer(app).popup.is_open
        # Enter sends nothing while the history is searched in vain.
        composer(app).draft = ""
        composer(app).set_history(["fix the bug"])
        await pilot.press("ctrl+r", *"nothing like it", "enter")
        assert app.said == []
        assert composer(app).popup.is_open
        await pilot.press("escape")
        assert composer(app).is_empty
        # A draft that was never sent gives way to what is looked for.
        app.drafts.clear()
        composer(app).set_history(["fix the bug", "write a test"])
        await pilot.press(*"something new", "ctrl+r")
        assert composer(app).popup.highlighted_suggestion is not None
        await pilot.press(*"fix", "enter")
        assert composer(app).draft == "fix the bug"
        assert not any(draft == "fix" for draft in app.drafts), "what is looked for is not kept as a draft"


async def test_a_draft_is_restored_with_its_folds() -> None:
    async with chatting() as (app, pilot):
        await pilot.press(*"see ")
        await paste(app, pilot, BIG)
        await paste(app, pilot, BIG.upper())
        await pilot.press("home", "delete", "end", *" and [pasted 340 lines #3]", "ctrl+j", "x")
        shown, whole, kept = composer(app).editor.text, composer(app).draft, composer(app).stored_draft
        assert shown == "ee [pasted 340 lines][pasted 340 lines #2] and [pasted 340 lines #3]\nx"
    again = ChatApp()
    async with again.run_test() as pilot:
        composer(again).restore_draft(kept)
        assert composer(again).editor.text.count("[pasted 340 lines") == 3
        assert len(composer(again).editor.text.splitlines()) == 2
        assert composer(again).draft == whole
        await pilot.press("backspace", "backspace", "!", "enter")
        assert again.said == [Composer.Submitted(f"{whole[:-2]}!")]


@pytest.mark.parametrize("way", ["history", "search", "queue and editor"])
async def test_a_restored_paste_is_folded_again(way: str) -> None:
    async with chatting() as (app, pilot):
        await pilot.press(*"see ")
        await paste(app, pilot, BIG)
        await pilot.press("enter", *"next")
        match way:
            case "history":
                await pilot.press("up")
            case "search":
                await pilot.press("ctrl+r", *"see", "enter")
            case _:
                composer(app).draft = f"see {BIG}\n\nnext"
        await pilot.pause()
        assert composer(app).editor.text.startswith("see [pasted 340 lines]")
        assert composer(app).draft.startswith(f"see {BIG}")
        if way == "history":
            await pilot.press("down")
            assert composer(app).draft == "next"


async def test_a_very_long_text_is_sent_completely_and_shown_shortened() -> None:
    async with chatting() as (app, pilot):
        for whole in ("\n".join(f"row {number}" for number in range(100_000)), "word " * 100_000):
            app.said.clear()
            composer(app).set_history([whole])
            await pilot.press("up")
            shown = composer(app).editor.text
            assert len(shown) < 1000
            assert shown.startswith(whole[:10])
            assert shown.endswith(whole[-10:])
            await pilot.press("enter")
            assert app.said == [Composer.Submitted(whole.strip())]


def test_folded_text_shows_its_first_and_last_lines() -> None:
    long = "word " * 10_000
    shown = FoldedPastes().load_draft(ComposerDraft(f"one\ntwo\n{long}\nlast"))
    assert shown == "one\ntwo\n[50,000 characters]\nlast"
    shown = FoldedPastes().load_draft(ComposerDraft(long))
    assert shown == f"{long[:400]}[49,200 characters]{long[-400:]}"


async def test_queued_messages_are_shown_and_can_be_recalled() -> None:
    async with chatting() as (app, pilot):
        composer(app).set_queued_messages(["next [/] thing", "and\nthen"])
        await pilot.pause()
        first, second = app.query_one(QueuedMessages).render().plain.split("\n")
        assert first.startswith("queued  next [/] thing") and first.endswith("↑ takes back")
        assert second == "queued  and then"
        composer(app).set_queued_messages([f"message {number} " + "long " * 50 for number in range(9)])
        await pilot.pause()
        rows = app.query_one(QueuedMessages).render().plain.split("\n")
        assert len(rows) == app.query_one(QueuedMessages).size.height == 4
        assert rows[-1] == "… 6 more"
        composer(app).set_queued_messages([])
        await pilot.pause()
        assert not app.query_one(QueuedMessages).display
        # Queued messages can be wanted back.
        composer(app).set_history(["sent before"])
        composer(app).set_queued_messages(["next thing"])
        await pilot.pause()
        await pilot.press("x", "up")
        assert app.said == [], "with a draft, Up is the history's"
        await pilot.press("down", "backspace", "up")
        await pilot.click(QueuedMessages)
        await pilot.pause()
        assert [type(message) for message in app.said] == [QueuedMessages.TakeBackWanted] * 2


@given(st.lists(st.text(alphabet="ab\n[]#2 pasted lines", min_size=1, max_size=40), max_size=4))
def test_every_folded_paste_unfolds_unchanged(texts: list[str]) -> None:
    pastes = FoldedPastes()
    markers = [pastes.fold(text) for text in texts]
    assert len(set(markers)) == len(markers)
    assert pastes.unfold("|".join(markers)).text == "|".join(texts)


PIECES = st.lists(st.tuples(st.text(max_size=10), st.text(min_size=1, max_size=30)), max_size=4)


@given(PIECES, st.text(max_size=10))
def test_a_stored_draft_is_restored_unchanged(pieces: list[tuple[str, str]], rest: str) -> None:
    text, folds = "", []
    for plain, paste in pieces:
        folds.append((len(text) + len(plain), len(text) + len(plain) + len(paste)))
        text += plain + paste
    draft = ComposerDraft(text + rest, tuple(folds))
    assert ComposerDraft.load(draft.dump()) == draft
    pastes = FoldedPastes()
    assert pastes.unfold(pastes.load_draft(draft)) == draft


def test_a_draft_without_folds_is_stored_as_plain_text() -> None:
    assert all(ComposerDraft(text).dump() == text for text in ("", "words", "folds", "folds 1-2"))


@given(st.text(alphabet="folds 12-\n[]", max_size=40))
def test_any_string_can_be_loaded_as_a_draft(text: str) -> None:
    pastes = FoldedPastes()
    draft = ComposerDraft.load(text)
    assert text.endswith(draft.text)
    assert pastes.unfold(pastes.load_draft(draft)).text == draft.text


def test_pastes_fold_above_twelve_lines_or_two_thousand_characters() -> None:
    assert not should_fold_paste("x\n" * 11 + "x")
    assert should_fold_paste("x\n" * 12 + "x")
    assert should_fold_paste("x" * 2001)

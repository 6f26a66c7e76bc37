"""What the user has allowed beyond the one question: for the session, or for good in this project."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from app.tools.command.forms import CommandForm
from app.tools.contract import Confirmation, ConfirmationAnswer, Span
from app.tools.tool_form import ToolForm, load_form

Form = CommandForm | ToolForm


class FormStore(Protocol):
    """Where what is allowed for good is kept, as text; blocks."""

    def forms(self) -> Sequence[str]:
        """What is allowed."""
        ...

    def add(self, form: str) -> None:
        """Allow a form."""
        ...


class Allowances:
    """Of one session."""

    def __init__(self, store: FormStore | None = None) -> None:
        """`store` holds what is allowed for good; without one nothing ever is."""
        self._store = store
        self._same: set[Confirmation] = set()
        self._forms: list[Form] = []

    async def covering(self, confirmation: Confirmation) -> str:
        """What the user allowed before that covers this, in words; empty if it must be asked."""
        if confirmation.kind in ("changes", "ignored"):
            return ""
        if confirmation in self._same:
            return "this session"
        if form := next((form for form in self._forms if _covers(form, confirmation)), None):
            return f"{form} in this session"
        kept = await asyncio.to_thread(self._kept)
        form = next((form for form in kept if _covers(form, confirmation)), None)
        return f"{form} in this project" if form else ""

    async def keep(self, confirmation: Confirmation, answer: ConfirmationAnswer) -> None:
        """Remember what an answer allows besides; raises StorageError where that is for good and cannot be kept."""
        if not answer.allowed or answer.span is Span.ONCE:
            return
        if answer.form is None:
            self._same.add(confirmation)
            return
        # Also where it is kept for good, so that the session goes on as told should the store fail.
        self._forms.append(answer.form)
        if answer.span is Span.PROJECT and self._store is not None:
            await asyncio.to_thread(self._store.add, answer.form.dump())

    def _kept(self) -> list[Form]:
        return [load_form(text) for text in self._store.forms()] if self._store is not None else []


def _covers(form: Form, confirmation: Confirmation) -> bool:
    if isinstance(form, CommandForm):
        return confirmation.kind == "command" and form.matches(confirmation.detail)
    return form == confirmation.form

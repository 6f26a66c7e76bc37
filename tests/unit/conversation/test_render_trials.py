"""What the trials find of a chat template holds for every conversation: the gate's words are in each prompt, once.

SIGNOFF_TEMPLATES=FOLDER uv run pytest -n0 tests/unit/conversation/test_render_trials.py

The folder has chat templates of real models, `*.jinja`, as llama.cpp ships them; they have licences of their own.
"""

import asyncio
import datetime
import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import SandboxedEnvironment

from app.conversation.events import Intervention, InterventionKind
from app.conversation.payload.projection import PayloadInputs, project
from app.conversation.payload.render_trials import make_chat_template_trials
from app.llm.capabilities.corrections import find_correction
from app.llm.capabilities.template_check import MessagePlacementResult, find_placement_kept_by_chat_template
from app.llm.failures.failures import ErrorToFailureTranslator
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint
from app.llm.wires.wire_registry import RequestInputs
from tests.unit.conversation.histories import PROMPT, Simulation, marks, sessions
from tests.wire import templates
from tests.wire.templates import Messages, Refused, Template

ENDPOINT = Endpoint("http://127.0.0.1:1/v1", "test-model")
GATE = "⟪P9999⟫ Hand control back."
TOOL = {"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
FACTS = PayloadInputs(PROMPT, [{"type": "function", "function": TOOL}], closing=True)
REAL = sorted(Path(folder).glob("*.jinja")) if (folder := os.environ.get("SIGNOFF_TEMPLATES", "")) else []


def _raise(words: str) -> None:
    raise Refused(words)


def real(path: Path) -> Template:
    """A model's own template, as servers render it."""
    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals.update(
        raise_exception=_raise, strftime_now=lambda form: datetime.datetime(2026, 1, 1).strftime(form)
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    # For training: marks what the model has said.
    source = re.sub(r"\{%-?\s*(?:end)?generation\s*-?%\}", "", path.read_text())
    template = environment.from_string(source)

    def rendered(messages: Messages) -> str:
        messages = json.loads(json.dumps(messages))
        for message in messages:
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        try:
            return template.render(
                messages=messages, tools=FACTS.tools, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
            )
        except (TemplateError, TypeError, ValueError) as problem:
            raise Refused(f"Jinja Exception: {problem}") from problem

    return rendered


@functools.cache
def found(template: Template) -> MessagePlacementResult:
    """What a server that renders by this template lets the check find."""

    async def exchange(path: str, body: Mapping[str, Any] | None = None) -> tuple[int, str]:
        if path != "/apply-template" or body is None:
            return 404, "{}"
        try:
            return 200, json.dumps({"prompt": template(body["messages"])})
        except Refused as words:
            return 500, json.dumps({"error": {"code": 500, "message": f"Jinja Exception: {words}"}})

    finding = asyncio.run(
        find_placement_kept_by_chat_template(ENDPOINT, EndpointProfile(), make_chat_template_trials, exchange)
    )
    assert finding is not None
    return finding


@functools.cache
def keeps_order(template: Template) -> bool:
    prompt = template([{"role": "user", "content": "one"}, {"role": "system", "content": "two"}])
    return prompt.index("one") < prompt.index("two")


def sent(template: Template, session: Simulation) -> tuple[EndpointProfile, Messages, str]:
    """The closing request of a session, corrected where its template refuses it, and the prompt."""
    events = [*session.events, Intervention(kind=InterventionKind.STAGED, text=GATE, scope="request")]
    profile = EndpointProfile().model_copy(update=found(template).changes)
    tried: set[str] = set()
    while True:
        payload = project(events, profile, FACTS)
        try:
            return profile, payload.messages, template(RequestInputs("m", profile, payload).make_body()["messages"])
        except Refused as words:
            document = json.dumps({"error": {"code": 500, "message": f"Jinja Exception: {words}"}})
            correction = find_correction(
                profile, ErrorToFailureTranslator(ENDPOINT).describe_response(500, {}, document), payload, tried
            )
            if correction is None:
                raise
            tried.add(correction.name)
            profile = correction.profile


def assert_the_gates_words_are_read(template: Template, session: Simulation) -> None:
    profile, messages, prompt = sent(template, session)
    assert prompt.count(GATE) == 1
    noted = [mark for message in messages for mark in marks(str(message.get("content"))) if mark[0] == "P"]
    assert {mark for mark in noted if noted.count(mark) == 1} <= set(marks(prompt)), "nor is another note lost"
    if profile.mid_system != "fold_first":
        assert GATE in str(messages[-1]["content"]), "the last word"
    users = [f"⟪{mark}⟫" for mark in marks(prompt) if mark[0] == "U"]
    if profile.mid_system == "inline" and keeps_order(template) and users:
        assert prompt.index(GATE) > max(map(prompt.rfind, users))


@pytest.mark.parametrize("template", templates.TEMPLATES, ids=lambda template: template.__name__)
def test_the_gates_words_are_in_every_prompt(template: Template) -> None:
    @settings(suppress_health_check=list(HealthCheck))
    @given(sessions())
    def check(session: Simulation) -> None:
        assert_the_gates_words_are_read(template, session)

    check()


def takes_the_last_one(messages: Messages) -> str:
    """Each system message replaces the one before it, as where a template keeps it in a variable."""
    *_, last = [one for one in messages if one["role"] == "system"]
    return templates.takes_all([last, *(one for one in messages if one["role"] != "system")])


def test_correct_placement_is_not_learned_again() -> None:
    """A refusal may have taught better while the server was asked."""
    assert found(templates.takes_all).changes == {"mid_system": "inline"}
    assert found(templates.system_beside_the_last_user).changes == {"mid_system": "fold_user", "tool_id": "alnum9"}


def takes_first_and_last(messages: Messages) -> str:
    """A system message counts at the beginning and at the end."""
    kept = [one for one in messages[1:-1] if one["role"] != "system"]
    return templates.takes_all([messages[0], *kept, messages[-1]])


@pytest.mark.parametrize("template", [takes_the_last_one, takes_first_and_last])
def test_a_placement_that_loses_other_system_text_is_rejected(template: Template) -> None:
    """The system prompt, or what the user has decided, would be lost."""
    assert found(template).placement == "fold_first"


@pytest.mark.skipif(not REAL, reason="SIGNOFF_TEMPLATES names no folder with templates")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_the_templates_of_real_models_keep_the_gates_words(path: Path) -> None:
    template = real(path)
    if found(template).placement is None:
        pytest.skip("cannot render a conversation with tools")

    @settings(suppress_health_check=list(HealthCheck))
    @given(sessions())
    def check(session: Simulation) -> None:
        assert_the_gates_words_are_read(template, session)

    check()

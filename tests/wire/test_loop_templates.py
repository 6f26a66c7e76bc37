"""What a server's own renderings show of its chat template is learned before the first closing request."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.agent.trace import TraceFileWriter
from app.conversation.events import UserNotice
from app.conversation.payload import render_trials
from app.copies import replace
from tests.wire import templates
from tests.wire.bench import Bench, bench, edit
from tests.wire.endpoints import IGNORES_TOOL_CHOICE
from tests.wire.replies import STALL, Call, Reply, Turn, document, error
from tests.wire.server import Request, WireServer
from tests.wire.templates import Refused, Template

Played = Callable[[WireServer, Template], None]


def as_llama_cpp(server: WireServer, template: Template, delay: float = 0.0) -> None:
    """Render at /apply-template; what the template raises is an error of the server."""

    def rendered(request: Request) -> Reply:
        return replace(_reply(template, request, lambda text: {"prompt": text}), delay=delay)

    server.route("/apply-template", rendered, "POST")


def as_vllm(server: WireServer, template: Template) -> None:
    server.route(
        "/tokenize", lambda request: _reply(template, request, lambda text: {"tokens": list(map(ord, text))}), "POST"
    )
    server.route("/detokenize", _detokenized, "POST")


def as_ollama(server: WireServer, template: Template) -> None:
    """Render instead of answering, where that is asked for; refuses what its template cannot render."""
    server.route("/api/version", document({"version": "0.12.3"}))

    def rendered(body: dict[str, Any]) -> Reply | None:
        if not body.get("_debug_render_only"):
            return None
        try:
            return document({"choices": [], "_debug_info": {"rendered_template": template(body["messages"])}})
        except Refused as words:
            return error(500, str(words))

    server.insist(*server.validators, rendered)


PLAYED: dict[str, Played] = {"llama.cpp": as_llama_cpp, "vllm": as_vllm, "ollama": as_ollama}


def _reply(template: Template, request: Request, told: Callable[[str], dict[str, Any]]) -> Reply:
    try:
        return document(told(template(request.body["messages"])))
    except Refused as words:
        return error(500, f"Jinja Exception: {words}", code=500)


def _detokenized(request: Request) -> Reply:
    return document(json.dumps({"prompt": "".join(map(chr, request.body["tokens"]))}))


GATE = "awaiting approval by the user"


HANDS_BACK = Turn("Have a look.")


def stage_and_hand_back(server: WireServer, last: Turn = HANDS_BACK) -> None:
    """A model that stages an edit in each turn, and says this at its end."""
    current = ["'Hello '"]

    def model(request: Request) -> Turn:
        if request.closing:
            return last
        old, current[0] = current[0], f"'Hello {len(server.requests)} '"
        return Turn(calls=(Call(*edit(old, current[0])),))

    server.model(model)


def rendered(server: WireServer) -> list[Request]:
    return [visit for visit in server.visits if visit.path in ("/apply-template", "/tokenize")]


def placement(on: Bench) -> str:
    return on.session.ports.model.profile.mid_system


def restarted(server: WireServer, folder: Path, **settings: Any) -> Any:
    return bench(server, folder, template_checked=True, **settings)


@pytest.fixture
async def on(server: WireServer, tmp_path: Path) -> AsyncIterator[Bench]:
    async with restarted(server, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("kind", PLAYED)
@pytest.mark.parametrize("template", templates.TEMPLATES, ids=lambda template: template.__name__)
async def test_the_first_closing_instruction_is_placed_where_the_template_renders_it(
    server: WireServer, on: Bench, template: templates.Template, kind: str
) -> None:
    server.insist(templates.refusal(template, 500))
    PLAYED[kind](server, template)
    stage_and_hand_back(server)
    await on.say("Be less formal")
    assert on.stopped == "staged" and placement(on) == templates.PLACEMENTS[template.__name__]
    sent = [request for request in server.requests if "_debug_render_only" not in request.body]
    (closing,) = [request for request in sent if request.closing]
    assert template(closing.messages).count(GATE) == 1
    if template is not templates.knows_no_system:
        assert not [event for event in on.events if isinstance(event, UserNotice)], "nothing was refused"


async def test_the_first_closing_request_waits_for_the_rendering(server: WireServer, on: Bench) -> None:
    as_llama_cpp(server, templates.drops_later_system, delay=0.1)
    stage_and_hand_back(server)
    await on.say("Be less formal")
    assert GATE in templates.drops_later_system(server.last.messages) and on.stopped == "staged"


async def test_a_template_is_probed_again_in_each_run(server: WireServer, tmp_path: Path) -> None:
    as_llama_cpp(server, templates.drops_later_system)
    stage_and_hand_back(server)
    async with restarted(server, tmp_path) as on:
        await on.say("Be less formal")
        asked = len(rendered(server))
        assert asked and placement(on) == "fold_first"
        await on.say("Even less")
        assert len(rendered(server)) == asked, "once is enough"
        # What a refusal teaches later counts as long as the template is the same.
        on.session.ports.model._learned_profile.learn(mid_system="fold_user")
    async with restarted(server, tmp_path) as on:
        await on.say("Even less")
        assert len(rendered(server)) == 2 * asked and placement(on) == "fold_user"
    server.route("/apply-template", document({}, status=404), "POST")
    async with restarted(server, tmp_path) as on:
        await on.say("Even less")
        assert GATE in templates.drops_later_system(server.last.messages), "it uses earlier findings"
    as_llama_cpp(server, templates.takes_all)
    async with restarted(server, tmp_path) as on:
        await on.say("Even less")
        assert placement(on) == "inline"
        assert server.last.messages[-1]["role"] == "system" and GATE in server.last.messages[-1]["content"]


async def test_a_probed_placement_is_kept_if_the_model_ignores_it(server: WireServer, on: Bench) -> None:
    as_llama_cpp(server, templates.drops_later_system)
    server.behave(IGNORES_TOOL_CHOICE)
    stage_and_hand_back(server, Turn(calls=(Call("read_file", {"path": "greet.py"}),)))
    for _ in range(3):
        await on.say("Be less formal")
        assert on.stopped == "refused" and placement(on) == "fold_first"


async def test_placement_set_by_the_user_is_not_probed(server: WireServer, tmp_path: Path) -> None:
    as_llama_cpp(server, templates.drops_later_system)
    stage_and_hand_back(server)
    async with restarted(server, tmp_path, profile={"mid_system": "inline"}) as on:
        await on.say("Be less formal")
        assert on.stopped == "staged" and server.visits == [] and placement(on) == "inline"


async def test_remote_hosts_get_no_probe(server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reached through a proxy, which is the tests' server."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, server.url)
    stage_and_hand_back(server)
    async with restarted(server, tmp_path, base_url="http://llm.example.com/v1") as on:
        await on.say("Be less formal")
        assert on.stopped == "staged" and len(server.requests) == 2
        assert server.requests[0].headers["host"] == "llm.example.com" and server.visits == []


@pytest.mark.parametrize("status", [301, 307])
async def test_a_redirect_of_a_probe_gets_no_key(server: WireServer, tmp_path: Path, status: int) -> None:
    stage_and_hand_back(server)
    with WireServer() as other:
        moved = Reply((b"{}",), status=status, headers={"location": f"{other.url}/apply-template"})
        for path in ("/apply-template", "/tokenize"):
            server.route(path, moved, "POST")
        server.route("/api/version", moved)
        async with restarted(server, tmp_path) as on:
            await on.say("Be less formal")
            assert on.stopped == "staged" and placement(on) == "inline"
        assert other.visits == [] and other.requests == []
    assert {visit.headers["authorization"] for visit in server.visits} == {"Bearer key"}


ALL = " ".join((render_trials.PROMPT, render_trials.EARLIER, render_trials.BETWEEN, render_trials.WORDS))
"""What every placement has besides the gate's words."""


def refuse_tools(request: Request) -> Reply:
    """A server that renders everything, but with a refusal for tools that is no template's."""
    if request.body.get("tools"):
        return document({"error": "tools param requires --jinja"}, status=500)
    return document({"prompt": f"{ALL} {render_trials.GATE}"})


NO_RENDERING: dict[str, Any] = {
    "says nothing": Reply((STALL,)),
    "stalls": Reply((b'{"prompt": "', STALL)),
    "two megabytes": document({"prompt": f"{ALL} {render_trials.GATE} {'x' * 2**21}"}),
    "a page": document("<html>Hello</html>", content_type="text/html"),
    "deep": document("[" * 100_000),
    "no text": document({"prompt": ["x"]}),
    "other words": document({"prompt": ALL}),
    "fails": document({"error": "Out of luck"}, status=500),
    "no tools": refuse_tools,
    "wants another key": document({"error": "Who are you?"}, status=401),
}


@pytest.mark.parametrize("reply", NO_RENDERING.values(), ids=list(NO_RENDERING))
async def test_a_server_without_a_rendering_route_changes_nothing(server: WireServer, on: Bench, reply: Any) -> None:
    for path in ("/apply-template", "/tokenize", "/detokenize"):
        server.route(path, reply, "POST")
    server.route("/api/version", reply)
    stage_and_hand_back(server)
    known = on.session.ports.model.profile
    await on.say("Be less formal")
    assert on.stopped == "staged" and on.session.ports.model.profile == known
    assert not [event for event in on.events if isinstance(event, UserNotice)]
    assert GATE in server.last.messages[-1]["content"] and len(server.requests) == 2


@pytest.mark.parametrize(
    ("version", "model"),
    [("0.11.11", "m"), ("0.7.0", "m"), ("new", "m"), (None, "m"), ("0.13.0", "gpt-oss:120b-cloud")],
)
async def test_no_probe_runs_a_model(server: WireServer, tmp_path: Path, version: Any, model: str) -> None:
    """Ollama before 0.12, servers that are like it, and its models that run elsewhere."""
    server.route("/api/version", document({"version": version}))
    stage_and_hand_back(server)
    async with restarted(server, tmp_path, model=model) as on:
        await on.say("Be less formal")
        assert not [request for request in server.requests if "_debug_render_only" in request.body]


async def test_the_debug_file_contains_the_result_of_the_probe(server: WireServer, on: Bench, tmp_path: Path) -> None:
    as_llama_cpp(server, templates.drops_later_system)
    stage_and_hand_back(server)
    debug = TraceFileWriter(tmp_path / "debug.jsonl")
    on.session.subscribe(debug)
    for words in ("Be less formal", "Even less"):
        await on.say(words)
    debug.close()
    lines = [json.loads(line) for line in (tmp_path / "debug.jsonl").read_text().splitlines()]
    (found,) = [line for line in lines if line["type"] == "template"]
    assert (found["server"], found["mid_system"]) == ("llama.cpp", "fold_first")

"""A real llama.cpp server with a tiny random model: what it takes, what it refuses, and what signoff makes of that.

SIGNOFF_LLAMA_SERVER=PROGRAM uv run pytest -n0 tests/wire/test_llama_server.py -rs

The program is llama.cpp's `llama-server`. A model with random weights calls no tool by itself: that part of a turn is
scripted, and all other requests reach the server through ours, byte for byte.
"""

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import TurnEnded, UserNotice
from app.llm.capabilities.profiles import find_default_profile
from tests.waiting import MAX_WAIT_SECONDS
from tests.wire.bench import Bench, bench, edit
from tests.wire.replies import Call, Reply
from tests.wire.server import Request, WireServer
from tests.wire.tiny_model import write_tiny_model

PROGRAM = os.environ.get("SIGNOFF_LLAMA_SERVER", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="SIGNOFF_LLAMA_SERVER names no llama-server")

_CALL = "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}"
TAKES_ALL = (
    "{%- if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}\n<tool_call>\n" + _CALL + "\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As ChatML has it: whoever says something is named."""
ONE_CALL = (
    "{%- for message in messages %}"
    "{%- if message.tool_calls and message.tool_calls | length != 1 %}"
    "{{ raise_exception('This model takes only single tool-calls at once!') }}{% endif %}"
    "<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{%- if loop.first and tools %}Tools: {{ tools | tojson }}\n{% endif %}"
    "{%- for call in message.tool_calls or [] %}" + _CALL + "{% endfor %}"
    "{{ message.content or '' }}<|eot_id|>{% endfor %}"
    "{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
"""As Llama 3 has it: one call in a message."""
STRICT = (
    "{%- set first = messages[0].content if messages[0].role == 'system' else '' %}"
    "{%- set rest = messages[1:] if messages[0].role == 'system' else messages %}"
    "{%- set turn = namespace(user=true) %}"
    "{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
    "{%- for message in rest %}"
    "{%- if message.role == 'system' %}"
    "{{ raise_exception('After the optional system message, conversation roles must alternate user/assistant/...') }}"
    "{%- elif message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) %}"
    "{%- if (message.role == 'user') != turn.user %}"
    "{{ raise_exception('After the optional system message, conversation roles must alternate user/assistant/...') }}"
    "{% endif %}{%- set turn.user = not turn.user %}{% endif %}"
    "{%- if message.role == 'user' %}[INST]{{ first if loop.first else '' }}\n{{ message.content }}[/INST]"
    "{%- elif message.role == 'tool' %}"
    "{%- if message.tool_call_id | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    "[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]"
    "{%- elif message.tool_calls %}[TOOL_CALLS]["
    "{%- for call in message.tool_calls %}"
    "{%- if call.id | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    + _CALL
    + "{% endfor %}]</s>"
    "{%- else %}{{ message.content }}</s>{% endif %}{% endfor %}"
)
"""As Mistral has it: user and model by turns, no system message in between, ids of nine letters."""
DROPS = TAKES_ALL.replace(
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}",
    "{%- for message in messages %}{%- if loop.first or message.role != 'system' %}"
    "<|im_start|>{{ message.role }}\n{{ message.content or '' }}",
).replace("<|im_end|>\n{% endfor %}{%- if add", "<|im_end|>\n{% endif %}{% endfor %}{%- if add")
"""As many have it: later system messages fall through the branches of the template."""
TEMPLATES: dict[str, tuple[str, dict[str, Any]]] = {
    "takes all": (TAKES_ALL, {}),
    "one call": (ONE_CALL, {"single_call_turns": True}),
    "strict": (STRICT, {"mid_system": "fold_first", "tool_id": "alnum9"}),
}
"""Each with what has to be learned of it."""


class Llama:
    """A running server, and what it answered to whatever was passed on to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.statuses: list[int] = []
        self.prompts: list[str] = []
        """What the model reads of each request that was taken."""

    def pass_on(self, request: Request) -> Reply:
        status, kind, data = self._post("/v1/chat/completions", request.body)
        self.statuses.append(status)
        if status == 200:
            self.prompts.append(json.loads(self._post("/apply-template", request.body)[2])["prompt"])
        return Reply((data,), status=status, content_type=kind)

    def render(self, request: Request) -> Reply:
        status, kind, data = self._post("/apply-template", request.body)
        return Reply((data,), status=status, content_type=kind)

    def _post(self, path: str, body: Any) -> tuple[int, str, bytes]:
        sent = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(sent, timeout=MAX_WAIT_SECONDS) as reply:
                return reply.status, reply.headers["content-type"], reply.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers["content-type"], refused.read()


@contextlib.contextmanager
def serving(folder: Path, template: str) -> Iterator[Llama]:
    """Start the server and wait until it has loaded the model."""
    write_tiny_model(folder / "tiny.gguf")
    (folder / "template.jinja").write_text(template)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--jinja", "--threads", "1", "--parallel", "1", "--temp", "0", "--predict", "24", "--no-warmup")
    files = ("--model", str(folder / "tiny.gguf"), "--chat-template-file", str(folder / "template.jinja"))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, *files, "--host", "127.0.0.1", "--port", str(port), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + MAX_WAIT_SECONDS
        while not _loaded(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text("utf-8", "replace")
            time.sleep(0.05)
        yield Llama(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def _loaded(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=MAX_WAIT_SECONDS) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("name", TEMPLATES)
async def test_the_closing_instruction_reaches_a_llama_model(name: str, server: WireServer, tmp_path: Path) -> None:
    template, learned = TEMPLATES[name]
    with serving(tmp_path, template) as llama:
        server.always(llama.pass_on)
        async with bench(server, tmp_path) as on:
            await on.say("Hello")
            server.turn("I will look.", calls=[Call("read_file", {"path": "greet.py"})])
            server.turn(calls=[edit()])
            await on.say("Be less formal")
            assert on.stopped == "staged" and message(on) == ""
            assert server.last.body["tool_choice"] == "none" and server.last.body["tools"]
            assert "hand control back" in llama.prompts[-1].lower() and "P1" in llama.prompts[-1]
            await on.session.approve("P1")
            server.turn(calls=[Call("read_file", {"path": "greet.py"}), Call("list_files", {})])
            await on.say("Look again")
            assert on.stopped == "answer"
            assert "The user approved proposal P1" in llama.prompts[-1]
            assert llama.statuses[-1] == 200 and llama.statuses.count(200) >= 3
            assert len(llama.statuses) - llama.statuses.count(200) == len(learned), "each is refused once"
            found = on.session.ports.model.profile.model_dump()
            known = find_default_profile(server.base_url, "test-model").model_dump()
            assert {key: value for key, value in found.items() if value != known[key]} == learned
            assert sum(isinstance(event, UserNotice) for event in on.events) == len(learned), "told once"
            on.check()


@pytest.mark.parametrize(
    ("template", "placement"), [(TAKES_ALL, "inline"), (DROPS, "fold_first"), (STRICT, "fold_first")]
)
async def test_the_rendered_prompts_decide_the_placement(
    server: WireServer, tmp_path: Path, template: str, placement: str
) -> None:
    with serving(tmp_path, template) as llama:
        server.route("/apply-template", llama.render, "POST")
        server.always(llama.pass_on)
        async with bench(server, tmp_path) as on:
            server.turn(calls=[edit()])
            await on.say("Be less formal")
            assert on.stopped == "staged" and llama.statuses[0] == 200, "the closing request is taken at once"
            assert llama.prompts[0].lower().count("awaiting approval by the user") == 1
            assert on.session.ports.model.profile.mid_system == placement
            on.check()


def message(on: Bench) -> str:
    """What the last turn said of its end."""
    return next(event.message for event in reversed(on.events) if isinstance(event, TurnEnded))


async def test_a_llama_server_answers_and_counts_tokens(server: WireServer, tmp_path: Path) -> None:
    with serving(tmp_path, TAKES_ALL) as llama:
        async with bench(server, tmp_path, base_url=f"{llama.url}/v1") as on:
            await on.say("Hello")
            assert on.stopped == "answer"
            assert on.session.token_totals.total.input > 0
        assert server.requests == []

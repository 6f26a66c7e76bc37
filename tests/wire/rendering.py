"""Servers that render a conversation without running the model, each as its kind does it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.wire.replies import Reply, document, error
from tests.wire.server import Request, WireServer
from tests.wire.templates import Refused, Template

Played = Callable[[WireServer, Template], None]


def as_llama_cpp(server: WireServer, template: Template, delay: float = 0.0) -> None:
    """Render at /apply-template; what the template raises is an error of the server."""

    def rendered(request: Request) -> Reply:
        return replace(_reply(template, request, lambda text: {"prompt": text}), delay=delay)

    server.route("/apply-template", rendered, "POST")


def as_vllm(server: WireServer, template: Template) -> None:
    """Give the tokens of a conversation, and their text."""
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

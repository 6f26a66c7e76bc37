"""A LiteLLM proxy in front of a test server that accepts only what the vendors accept.

LiteLLM is no dependency: it needs another version of the OpenAI SDK than signoff. `uv tool run` installs it in a
separate cached environment.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.scripted_model import play
from tests.wire.replies import Reply
from tests.wire.server import WireServer
from tests.wire.strict import Body, openai_adjacency

_PACKAGE = "litellm[proxy]==1.106.2"
_KEY = "sk-live-tests-of-signoff"
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
_MAX_SECONDS = 80.0
"""For the installation, and for the start, which takes ten seconds of CPU time."""


@contextlib.contextmanager
def litellm(folder: Path) -> Iterator[tuple[str, str]]:
    """Start the proxy; yield its base URL and API key.

    Args:
        folder: the folder for its configuration and log.
    """
    program = _install_litellm()
    with WireServer() as upstream, socket.create_server(("127.0.0.1", 0)) as free:
        upstream.model(play)
        upstream.insist(_check_openai_rules)
        port = free.getsockname()[1]
        free.close()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(_configuration(upstream)))
        options = ["--config", str(folder / "config.json"), "--host", "127.0.0.1", "--port", str(port)]
        environment = {
            **{name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ},
            "LITELLM_MASTER_KEY": _KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
        }
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(
                [program, *options], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            _wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "log.txt")
            yield f"http://127.0.0.1:{port}/v1", _KEY
        finally:
            process.kill()
            process.wait()


def _install_litellm() -> str:
    """Return the path of the proxy's program; install it if needed. No uv process runs between it and the tests."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.fail("SIGNOFF_LIVE names litellm, which is installed by uv; uv is not in PATH.")
    run = [uv, "tool", "run", "--quiet", "--python", sys.executable, "--from", _PACKAGE]
    done = subprocess.run(
        [*run, "python", "-c", "import sys; print(sys.prefix)"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_MAX_SECONDS,
    )
    if done.returncode:
        pytest.fail(f"LiteLLM could not be installed:\n{done.stderr[-3000:]}")
    return str(Path(done.stdout.strip(), "bin", "litellm"))


def _check_openai_rules(body: Body) -> Reply | None:
    """Apply OpenAI's rules to chat requests; on other wires, the server has its own rules."""
    return openai_adjacency(body) if "messages" in body and "system" not in body else None


def _configuration(upstream: WireServer) -> object:
    """Return the configuration: a model for each vendor's wire. YAML is a superset of JSON."""
    openai = {"model": "openai/scripted", "api_base": upstream.base_url, "api_key": "upstream"}
    claude = {"model": "anthropic/claude-haiku-4-5", "api_base": upstream.url, "api_key": "upstream"}
    models = {"scripted": openai, "scripted-claude": claude}
    return {
        "model_list": [{"model_name": name, "litellm_params": each} for name, each in models.items()],
        "router_settings": {"num_retries": 0},
    }


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _MAX_SECONDS
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as reply:
            if reply.status == 200:
                return
        if process.poll() is not None or time.monotonic() > end:
            pytest.fail(f"LiteLLM did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")
        time.sleep(0.1)

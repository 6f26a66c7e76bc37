"""What importing costs: the SDK is loaded by its first use and on a thread."""

import subprocess
import sys


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running `code`."""
    script = f"{code}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_building_a_client_does_not_load_the_sdk_and_a_request_needs_little_of_it() -> None:
    code = (
        "import sys\nimport app.llm.endpoint_doctor, app.llm.capabilities.profiles\n"
        "from app.llm.values.endpoint import EndpointProfile\n"
        "from app.llm.failures.request_errors import RequestError, RetryPolicy\n"
        "from app.llm.client import ModelClient\nfrom app.llm.values.requests_and_updates import Endpoint, Payload\n"
        "endpoint = Endpoint('http://127.0.0.1:9/v1', 'm')\n"
        "client = ModelClient(endpoint, EndpointProfile(), retry=RetryPolicy(attempts=1))\n"
        "assert not {'openai', 'httpx2', 'anyio', 'textual'} & sys.modules.keys()\n"
        "import asyncio\n"
        "async def ask():\n"
        "    async for _ in client.stream(lambda profile: Payload([], [])):\n        pass\n"
        "try:\n    asyncio.run(ask())\nexcept RequestError as failed:\n    print(failed)\n"
        "else:\n    raise AssertionError\n"
        "folders = ('openai.resources.', 'openai.lib.', 'openai.types.', 'openai.providers', 'httpcore2._sync')\n"
        "loaded = [name for name in sys.modules if name.startswith(folders)]\n"
        "assert len(loaded) < 5, loaded\n"
    )
    assert "openai" in modules_after(code)


def test_the_sdk_is_imported_on_a_thread_and_frozen_and_certificates_only_for_https() -> None:
    """With what connects, and with what reads a failure: the event loop imports none of it."""
    code = (
        "import sys, threading\nfrom app.llm.sdk import start_loading_sdk\n"
        "on_main = []\n"
        "def note(event, arguments):\n"
        "    if event == 'import' and threading.current_thread() is threading.main_thread():\n"
        "        on_main.append(arguments[0])\n"
        "sys.addaudithook(note)\n"
        "future = start_loading_sdk(needs_certificates=False)\n"
        "assert start_loading_sdk(needs_certificates=False) is future\n"
        "assert future.result(60).openai is sys.modules['openai']\nassert not on_main, on_main\n"
        "assert {'httpcore2', 'h11', 'anyio._backends._asyncio'} <= set(sys.modules)\n"
        "assert {'app.llm.failures.classification', 'app.llm.failures.classification'} <= set(sys.modules)\n"
        "import gc\n"
        "assert gc.get_freeze_count() > 10 * len(gc.get_objects()), (gc.get_freeze_count(), len(gc.get_objects()))\n"
        "from app.llm.failures.failures import ErrorToFailureTranslator\n"
        "from app.llm.transport import Timeouts, Transport\n"
        "from app.llm.values.requests_and_updates import Endpoint\n"
        "endpoint = Endpoint('https://127.0.0.1:9/v1', 'm')\n"
        "transport = Transport(endpoint, Timeouts(), ErrorToFailureTranslator(endpoint))\n"
        "safe, plain = transport.preload_sdk().result(60), future.result()\n"
        "assert plain.openai is safe.openai\n"
        "assert plain.ssl_context.verify_mode == safe.ssl_context.verify_mode\n"
        "assert safe.ssl_context.get_ca_certs() and not plain.ssl_context.get_ca_certs()"
    )
    assert {"openai", "httpx2"} <= modules_after(code)


def test_a_failed_sdk_import_is_retried_and_names_load_on_use() -> None:
    code = (
        "import sys\nfrom app.llm.sdk import start_loading_sdk\nsys.modules['openai'] = None\n"
        "assert isinstance(start_loading_sdk(needs_certificates=False).exception(60), ImportError)\n"
        "del sys.modules['openai']\n"
        "assert start_loading_sdk(needs_certificates=False).result(60).openai is sys.modules['openai']\n"
        "from openai.types.responses import Response\nfrom openai.types import Batch, chat\nimport openai\n"
        "assert openai.types.Batch is Batch and chat.ChatCompletion\n"
        "assert Response.__module__ == 'openai.types.responses.response'\n"
        "assert not hasattr(openai.types, 'nothing') and not hasattr(openai, 'nothing')\n"
        "assert openai.AzureOpenAI.__module__ == 'openai.lib.azure'\n"
        "assert not [name for name in openai.__all__ if not hasattr(openai, name)]\n"
        "import httpcore2\n"
        "assert not [name for name in httpcore2.__all__ if not hasattr(httpcore2, name)]\n"
        "assert openai.lib.pydantic_function_tool is openai.pydantic_function_tool\n"
    )
    assert "openai" in modules_after(code)

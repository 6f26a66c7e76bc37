"""`signoff doctor`: what the endpoint honours, found out by tiny requests."""

import argparse
import asyncio
import json
from collections.abc import Mapping
from typing import Any

from app.cli.documents import CheckLine, DoctorDocument
from app.cli.output import CommandError, Exit, print_json, print_line, print_text
from app.llm.capabilities.doctor import Check, Diagnosis, examine, learned_check
from app.llm.capabilities.profiles import ProfileError, replace_learned, resolve
from app.llm.failures.errors import RequestError
from app.llm.types import Endpoint
from app.runtime.connection import LearnedProfiles, NotConnected, endpoint_of, list_models
from app.runtime.own_checks import own_checks
from app.runtime.picked_model import model_from, with_picked_model
from app.runtime.workspace import Runtime
from app.sandbox.mode import SandboxMode
from app.tools.command.wording import doctor_words

_NAMED = 20
"""Models that are named, at most."""
_MARKS = {True: "✓", False: "✗", None: "?"}


def doctor(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Examine the configured endpoint, print every finding, and keep what was learned."""
    if arguments.hook_schema:
        from app.cli.schemas import schema_of
        from app.hooks import documents

        print_text(json.dumps(schema_of(documents.HookDocument, documents), indent=2) + "\n")
        return Exit.DONE
    settings = with_picked_model(runtime)
    if settings.names_an_endpoint and not settings.model:
        raise CommandError(asyncio.run(_choice(runtime)), Exit.USAGE)
    try:
        endpoint = endpoint_of(settings, runtime.origin_of, model_from(runtime, settings))
        overrides = settings.of_its_model.profile_overrides
        diagnosis = asyncio.run(_examine(runtime, endpoint, overrides, quiet=arguments.json))
    except (NotConnected, ProfileError) as error:
        raise CommandError(str(error), Exit.USAGE) from error
    commands = asyncio.run(_commands(runtime))
    own = [*own_checks(runtime)]
    learned = learned_check(LearnedProfiles(runtime.sessions), endpoint)
    if arguments.json:
        print_json(
            DoctorDocument(
                endpoint=endpoint.base_url,
                model=endpoint.model,
                ok=diagnosis.usable,
                checks=[
                    CheckLine(name=one.name, ok=one.ok, detail=one.detail)
                    for one in (commands, *diagnosis.checks, learned, *own)
                ],
            )
        )
    else:
        _print_check(learned)
        _print_check(commands)
        for check in own:
            _print_check(check)
        print_line(diagnosis.summary)
    return Exit.DONE if diagnosis.usable else Exit.FAILED


async def _choice(runtime: Runtime) -> str:
    """That a model has to be named, and which there are; raises CommandError where the endpoint doesn't tell."""
    try:
        listed = [model.id for model in await list_models(runtime, runtime.settings)]
    except (NotConnected, RequestError) as error:
        raise CommandError(str(error)) from error
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    has = f"The endpoint has {', '.join(listed[:_NAMED])}{more}" if listed else "The endpoint lists none"
    return f"No model is chosen. {has}: give --model, or set SIGNOFF_MODEL or `model` in the configuration."


async def _commands(runtime: Runtime) -> Check:
    """How commands run in this workspace."""
    probe = await runtime.sandbox.probe()
    return Check("commands", probe.mode is not SandboxMode.IN_PLACE, doctor_words(probe))


def _print_check(check: Check) -> None:
    print_line(f"{_MARKS[check.ok]} {check.name:<12} {check.detail}")


async def _examine(runtime: Runtime, endpoint: Endpoint, overrides: Mapping[str, Any], *, quiet: bool) -> Diagnosis:
    cache = LearnedProfiles(runtime.sessions)
    profile = resolve(endpoint.base_url, endpoint.model, cache=cache, overrides=overrides)
    diagnosis: Diagnosis | None = None
    async for finding in examine(endpoint, profile):
        match finding:
            case Check():
                if not quiet:
                    _print_check(finding)
            case Diagnosis():
                diagnosis = finding
    assert diagnosis is not None, "an examination ends with a diagnosis"
    # What the user says holds by itself, as long as it is in the configuration; it was not learned.
    without = resolve(endpoint.base_url, endpoint.model, cache=cache)
    learned = diagnosis.profile.model_copy(update={field: getattr(without, field) for field in overrides})
    replace_learned(cache, endpoint, learned)
    return diagnosis

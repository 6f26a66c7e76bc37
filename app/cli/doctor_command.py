"""`signoff doctor`: examines with small requests what the endpoint supports."""

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.cli.command_output import CommandError, ExitCode, print_error, print_json, print_line, print_text
from app.cli.doors_command import find_installed_hook
from app.cli.json_documents import DoctorCheckLine, DoctorDocument
from app.doors.hook.agents import AGENTS
from app.llm.capabilities.profiles import ProfileError, resolve_profile, store_diagnosis
from app.llm.endpoint_doctor import Diagnosis, EndpointCheck, describe_learned_fields, examine_endpoint
from app.llm.failures.request_errors import RequestError
from app.llm.values.requests_and_updates import Endpoint
from app.runtime.model_connection import (
    NotConnected,
    ProfileStore,
    describe_model_origin,
    list_models,
    make_endpoint,
    settings_with_picked_model,
)
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.prompt_sources import check_prompt_sources
from app.sandbox.confinement import SandboxMode
from app.tools.command.sandbox_wording import describe_sandbox

_NAMED = 20
"""Models that are named, at most."""
_MARKS = {True: "✓", False: "✗", None: "?"}


def run_doctor(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Examine the configured endpoint and the installation, print the findings, and keep what was learned."""
    if arguments.hook_schema:
        from app.automation import event_hooks
        from app.cli.keys_servers_completion import document_schema

        print_text(json.dumps(document_schema(event_hooks.HookEventDocument, event_hooks), indent=2) + "\n")
        return ExitCode.DONE
    found = _endpoint(runtime, quiet=arguments.json)
    rest = [asyncio.run(_check_commands(runtime)), *check_prompt_sources(runtime), *_surroundings(runtime)]
    if isinstance(found, CommandError):
        checks = [EndpointCheck("endpoint", None, "not checked"), *rest]
        if arguments.json:
            print_json(DoctorDocument(endpoint="", model="", ok=False, error=str(found), checks=_lines(checks)))
        else:
            for check in rest:
                _print_check(check)
        print_error(f"The endpoint was not checked. {found}")
        return ExitCode(found.code)
    endpoint, diagnosis = found
    learned = describe_learned_fields(ProfileStore(runtime.sessions), endpoint)
    if arguments.json:
        checks = [rest[0], *diagnosis.checks, learned, *rest[1:]]
        print_json(
            DoctorDocument(
                endpoint=endpoint.base_url, model=endpoint.model, ok=diagnosis.usable, checks=_lines(checks)
            )
        )
    else:
        for check in (learned, *rest):
            _print_check(check)
        print_line(diagnosis.summary)
    return ExitCode.DONE if diagnosis.usable else ExitCode.FAILED


def _endpoint(runtime: OpenWorkspace, *, quiet: bool) -> tuple[Endpoint, Diagnosis] | CommandError:
    """Return the endpoint and its diagnosis, or an error that says why it was not asked."""
    settings = settings_with_picked_model(runtime)
    try:
        if settings.has_endpoint and not settings.model:
            raise CommandError(asyncio.run(_missing_model_message(runtime)), ExitCode.USAGE)
        endpoint = make_endpoint(settings, runtime.setting_origin, describe_model_origin(runtime, settings))
        overrides = settings.with_model_tables.profile_overrides
        return endpoint, asyncio.run(_examine(runtime, endpoint, overrides, quiet=quiet))
    except (NotConnected, ProfileError) as error:
        return CommandError(str(error), ExitCode.USAGE)
    except CommandError as error:
        return error


def _surroundings(runtime: OpenWorkspace) -> Iterator[EndpointCheck]:
    """Whether the user's checks, other agents and the configuration are set up."""
    names = [check.name for check in runtime.settings.check]
    held = "check" in runtime.configuration.untrusted
    facts = [", ".join(names), "those of this workspace await /trust" if held else ""]
    yield EndpointCheck(
        "checks", True, "; ".join(filter(None, facts)) or "none; `signoff checks suggest` proposes some"
    )
    hooked = [agent.title for agent in AGENTS if find_installed_hook(runtime, agent)]
    yield EndpointCheck(
        "agents", True, f"hooked in: {', '.join(hooked)}" if hooked else "none hooked in; `signoff doors`"
    )
    configuration = runtime.configuration
    facts = [
        f"{runtime.dirs.config_file}{'' if runtime.dirs.config_file.exists() else ' (there is none)'}",
        f"not in force before /trust: {', '.join(configuration.untrusted)}" if configuration.untrusted else "",
        f"not for a workspace to set: {', '.join(configuration.ignored)}" if configuration.ignored else "",
    ]
    yield EndpointCheck("config", not configuration.ignored, "; ".join(filter(None, facts)))


def _lines(checks: Iterable[EndpointCheck]) -> list[DoctorCheckLine]:
    return [DoctorCheckLine.model_validate(one) for one in checks]


async def _missing_model_message(runtime: OpenWorkspace) -> str:
    """Return that a model has to be chosen, with the models of the endpoint; raises CommandError if it lists none."""
    try:
        listed = [model.id for model in await list_models(runtime, runtime.settings)]
    except (NotConnected, RequestError) as error:
        raise CommandError(str(error)) from error
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    has = f"The endpoint has {', '.join(listed[:_NAMED])}{more}" if listed else "The endpoint lists none"
    return f"No model is chosen. {has}: give --model, or set SIGNOFF_MODEL or `model` in the configuration."


async def _check_commands(runtime: OpenWorkspace) -> EndpointCheck:
    """Return how commands run in this workspace."""
    probe = await runtime.sandbox.probe()
    return EndpointCheck("commands", probe.mode is not SandboxMode.IN_PLACE, describe_sandbox(probe))


def _print_check(check: EndpointCheck) -> None:
    print_line(f"{_MARKS[check.ok]} {check.name:<12} {check.detail}")


async def _examine(
    runtime: OpenWorkspace, endpoint: Endpoint, overrides: Mapping[str, Any], *, quiet: bool
) -> Diagnosis:
    cache = ProfileStore(runtime.sessions)
    profile = resolve_profile(endpoint.base_url, endpoint.model, cache=cache, overrides=overrides)
    diagnosis: Diagnosis | None = None
    async for finding in examine_endpoint(endpoint, profile):
        match finding:
            case EndpointCheck():
                if not quiet:
                    _print_check(finding)
            case Diagnosis():
                diagnosis = finding
    assert diagnosis is not None, "an examination ends with a diagnosis"
    # What the user says holds by itself, as long as it is in the configuration; it was not learned.
    without = resolve_profile(endpoint.base_url, endpoint.model, cache=cache)
    learned = diagnosis.profile.model_copy(update={field: getattr(without, field) for field in overrides})
    store_diagnosis(cache, endpoint, learned)
    return diagnosis

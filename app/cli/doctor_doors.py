"""`signoff doctor`: examines the features of the endpoint; `signoff doors`: lists other agents and their hooks."""

import argparse
import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from app.cli.command_output import CommandError, ExitCode, print_error, print_json, print_line
from app.cli.json_documents import AgentHookStateJson, DoctorCheckJson, DoctorDocument, HookTrialJson, ProposalJson
from app.cli.proposal_list import format_proposal_line
from app.doors.hook.agents import AGENTS, ExternalAgent, HookOptions, find_agent
from app.doors.hook.hook_installation import (
    InstalledHook,
    UneditableSettings,
    add_hook,
    find_hook,
    known_release_weaknesses,
    read_agent_version,
    reasons_why_settings_disable_hooks,
    remove_hook,
    render_toml_hooks,
)
from app.keys.keymap import KeymapError, validate_and_convert_keymap
from app.llm.capabilities.profiles import InvalidProfileSetting
from app.llm.endpoint_doctor import DoctorCheckResult, EndpointDiagnosis, describe_learned_fields, examine_and_learn
from app.llm.failures.request_errors import RequestError
from app.llm.values.requests_and_updates import Endpoint
from app.proposals.values.models import Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.pending_paths import abbreviate_proposal_ids
from app.runtime.model_connection import (
    LearnedProfileStore,
    ModelNotConfigured,
    describe_model_origin,
    fill_in_picked_model,
    list_models,
    make_endpoint,
)
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.prompt_sources import check_commands_skills_and_hooks
from app.sandbox.confinement import CommandWriteMode
from app.text.quantities import join_first
from app.tools.command.command_result import describe_how_commands_run
from app.workspace.reading import read_regular_file

_MAX_LISTED_MODELS = 20
"""Maximum number of listed models."""
_RESULT_MARKS = {True: "✓", False: "✗", None: "?"}


def run_doctor(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Examine the endpoint and the installation, print the results, and store the endpoint's features."""
    found = _diagnose_endpoint(runtime, quiet=arguments.json)
    rest = [
        asyncio.run(_describe_command_sandbox(runtime)),
        *check_commands_skills_and_hooks(runtime),
        *_examine_workspace(runtime),
    ]
    if isinstance(found, CommandError):
        checks = [DoctorCheckResult("endpoint", None, "not checked"), *rest]
        if arguments.json:
            print_json(
                DoctorDocument(
                    endpoint="", model="", ok=False, error=str(found), checks=_make_check_documents(checks)
                )
            )
        else:
            for check in rest:
                _print_check(check)
        print_error(f"The endpoint was not checked. {found}")
        return ExitCode(found.code)
    endpoint, diagnosis = found
    learned = describe_learned_fields(LearnedProfileStore(runtime.sessions), endpoint)
    if arguments.json:
        checks = [rest[0], *diagnosis.checks, learned, *rest[1:]]
        print_json(
            DoctorDocument(
                endpoint=endpoint.base_url,
                model=endpoint.model,
                ok=diagnosis.usable,
                checks=_make_check_documents(checks),
            )
        )
    else:
        for check in (learned, *rest):
            _print_check(check)
        print_line(diagnosis.summary)
    return ExitCode.DONE if diagnosis.usable else ExitCode.FAILED


def _diagnose_endpoint(runtime: OpenWorkspace, *, quiet: bool) -> tuple[Endpoint, EndpointDiagnosis] | CommandError:
    """Return the endpoint and its diagnosis, or the error that prevented the examination."""
    settings = fill_in_picked_model(runtime)
    try:
        if settings.has_endpoint and not settings.model:
            raise CommandError(asyncio.run(_missing_model_message(runtime)), ExitCode.USAGE)
        endpoint = make_endpoint(settings, runtime.setting_origin, describe_model_origin(runtime, settings))
        overrides = settings.with_model_tables.profile_overrides
        return endpoint, asyncio.run(_examine_and_store(runtime, endpoint, overrides, quiet=quiet))
    except (ModelNotConfigured, InvalidProfileSetting) as error:
        return CommandError(str(error), ExitCode.USAGE)
    except CommandError as error:
        return error


def _examine_workspace(runtime: OpenWorkspace) -> Iterator[DoctorCheckResult]:
    """Yield checks of the workspace's checks, the hooks of other agents, and the configuration."""
    names = [check.name for check in runtime.settings.check]
    held = "check" in runtime.configuration.untrusted
    facts = [", ".join(names), "those of this workspace await /trust" if held else ""]
    yield DoctorCheckResult(
        "checks", True, "; ".join(filter(None, facts)) or "none; `signoff checks suggest` proposes some"
    )
    hooked = [agent.title for agent in AGENTS if find_installed_hook(runtime, agent)]
    yield DoctorCheckResult(
        "agents", True, f"hooked in: {', '.join(hooked)}" if hooked else "none hooked in; `signoff doors`"
    )
    configuration = runtime.configuration
    keys_problem = ""
    try:
        validate_and_convert_keymap(runtime.settings.keys)
    except KeymapError as error:
        keys_problem = str(error)
    facts = [
        f"{runtime.dirs.config_file}{'' if runtime.dirs.config_file.exists() else ' (there is none)'}",
        f"not in force before /trust: {', '.join(configuration.untrusted)}" if configuration.untrusted else "",
        f"not for a workspace to set: {', '.join(configuration.ignored)}" if configuration.ignored else "",
        keys_problem,
    ]
    usable = not configuration.ignored and not keys_problem
    yield DoctorCheckResult("config", usable, "; ".join(filter(None, facts)))


def _make_check_documents(checks: Iterable[DoctorCheckResult]) -> list[DoctorCheckJson]:
    return [DoctorCheckJson.model_validate(check) for check in checks]


async def _missing_model_message(runtime: OpenWorkspace) -> str:
    """Return that no model is chosen, with the endpoint's models. Raises CommandError if it can't be asked."""
    try:
        listed = [model.id for model in await list_models(runtime, runtime.settings)]
    except (ModelNotConfigured, RequestError) as error:
        raise CommandError(str(error)) from error
    has = f"The endpoint has {join_first(listed, _MAX_LISTED_MODELS)}" if listed else "The endpoint lists none"
    return f"No model is chosen. {has}: give --model, or set SIGNOFF_MODEL or `model` in the configuration."


async def _describe_command_sandbox(runtime: OpenWorkspace) -> DoctorCheckResult:
    probe = await runtime.sandbox.probe()
    return DoctorCheckResult(
        "commands", probe.mode is not CommandWriteMode.IN_PLACE, describe_how_commands_run(probe)
    )


def _print_check(check: DoctorCheckResult) -> None:
    print_line(f"{_RESULT_MARKS[check.ok]} {check.name:<12} {check.detail}")


async def _examine_and_store(
    runtime: OpenWorkspace, endpoint: Endpoint, overrides: Mapping[str, Any], *, quiet: bool
) -> EndpointDiagnosis:
    diagnosis: EndpointDiagnosis | None = None
    async for finding in examine_and_learn(LearnedProfileStore(runtime.sessions), endpoint, overrides):
        match finding:
            case DoctorCheckResult():
                if not quiet:
                    _print_check(finding)
            case EndpointDiagnosis():
                diagnosis = finding
    assert diagnosis is not None, "an examination ends with a diagnosis"
    return diagnosis


_MAX_SETTINGS_BYTES = 1024 * 1024
"""Bytes of settings that are read."""
_UNSEEN_CALLS_NOTE = (
    "It sees each call of the agent's tools. It does not see what a command writes, nor a tool of someone else's MCP "
    "server: --commands deny keeps the shell shut."
)
_TRIAL_NOTE = (
    "Each agent makes an edit in a scratch folder, with signoff's hook but without your settings: "
    "`signoff doors` checks those. An edit may take {} minutes."
)


def list_try_or_propose_agent_hooks(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """List the agents with the state of their hooks, try the hooks, or propose changes of an agent's settings."""
    if arguments.trial is not None:
        return _try_doors(runtime, arguments)
    if arguments.what == "show":
        return _list_agent_hooks(runtime, arguments)
    if arguments.agent is None:
        raise CommandError(f"Say for which agent: `signoff doors {arguments.what} claude`.", ExitCode.USAGE)
    agent = find_agent(arguments.agent)
    if not agent.settings:
        return _print_manual_steps(arguments, agent)
    draft = runtime.service.new_draft("")
    draft.origin = ProposalOrigin(kind=OriginKind.PROGRAM)
    shown = draft.read(agent.settings)
    adds = arguments.what == "install"
    try:
        before = (shown.content or b"").decode()
        after = add_hook(agent, before, HookOptions.from_arguments(arguments)) if adds else remove_hook(agent, before)
    except UnicodeDecodeError as error:
        raise CommandError(f"{agent.settings} can't be changed: it is not UTF-8.", ExitCode.REFUSED) from error
    except UneditableSettings as error:
        raise CommandError(f"{agent.settings} can't be changed: {error}.", ExitCode.REFUSED) from error
    if after == before:
        state = "hooked in already" if adds else "not hooked in"
        pending = f", as pending in {abbreviate_proposal_ids(shown.pending)}" if shown.pending else ""
        raise CommandError(f"signoff is {state} by {agent.settings} here{pending}.")
    if not adds and not after.strip("\ufeff{} \t\r\n"):
        draft.delete(agent.settings)
    else:
        draft.write(agent.settings, after)
    words = "Have the edits of {} wait here" if adds else "Let the edits of {} through again"
    _print_settings_proposal(arguments, agent, runtime.service.stage(draft, words.format(agent.title)))
    return ExitCode.DONE


def _print_settings_proposal(arguments: argparse.Namespace, agent: ExternalAgent, proposal: Proposal) -> None:
    if arguments.json:
        print_json(ProposalJson.model_validate(proposal))
        return
    print_line(f"Staged {format_proposal_line(proposal)}")
    if arguments.what == "install":
        print_line(f"Once it is approved: {agent.next_step}")
        print_line(_UNSEEN_CALLS_NOTE)
    else:
        print_line("Once it is approved: Start it anew.")


def _print_manual_steps(arguments: argparse.Namespace, agent: ExternalAgent) -> ExitCode:
    """Print the lines that the user must add to settings outside the workspace."""
    reads = f"{agent.title} reads hooks from {agent.settings_label} alone, which is not in this workspace"
    if arguments.what == "remove" or arguments.json:
        verb = (
            "Take signoff's out there"
            if arguments.what == "remove"
            else "Add signoff's there, as shown without --json"
        )
        raise CommandError(f"{reads}. {verb}.", ExitCode.REFUSED)
    print_line(f"{reads}. Add there:\n\n{render_toml_hooks(agent, HookOptions.from_arguments(arguments))}")
    print_line(f"Then: {agent.next_step}")
    print_line(_UNSEEN_CALLS_NOTE)
    return ExitCode.REFUSED


def _list_agent_hooks(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    root = runtime.workspace.root
    agents = [agent for agent in AGENTS if arguments.agent in (None, agent.name)]
    programs = [agent.find_program(root) for agent in agents]
    with ThreadPoolExecutor(len(AGENTS)) as pool:
        versions = pool.map(lambda program: read_agent_version(program, root) if program else "", programs)
    found = [_make_agent_hook_json(runtime, *each) for each in zip(agents, programs, versions, strict=True)]
    if arguments.json:
        print_json(found)
        return ExitCode.DONE
    for line in found:
        print_line(f"{line.agent:<8} {line.program or 'not installed'}{f' ({line.version})' if line.version else ''}")
        for place, how in line.hooked.items():
            print_line(f"         {place}: {how}")
        for place, why in line.unreadable.items():
            print_line(f"         {place} can't be read: {why}")
        for why in line.open:
            print_line(f"         ! open: {why}")
        for why in line.incomplete:
            print_line(f"         ! incomplete: {why}")
        if line.waiting:
            print_line(f"         {line.waiting} would change {find_agent(line.agent).settings} and waits for you")
        elif not line.hooked:
            print_line(f"         not hooked in; for that, run `signoff doors install {line.agent}`")
    return ExitCode.DONE


def _try_doors(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Try the hooks of agents; return REFUSED if an edit was not held, FAILED if no hook could be tried."""
    from app.doors.hook.agent_trial import TRIAL_SECONDS, EditTrialResult, try_agent_edits

    named = arguments.agent if arguments.trial is True else arguments.trial
    if not arguments.json:
        print_line(_TRIAL_NOTE.format(TRIAL_SECONDS // 60))
    lines: list[HookTrialJson] = []
    root = runtime.workspace.root
    for agent in AGENTS:
        if named not in (None, agent.name):
            continue
        program, options = agent.find_program(root), _hook_options(runtime, agent)
        trials = (
            try_agent_edits(agent, program, options, root)
            if program
            else [EditTrialResult("an edit", "not tried", "it is not installed")]
        )
        for trial in trials:
            lines.append(HookTrialJson(agent=agent.name, program=program, **trial._asdict()))
            if not arguments.json:
                print_line(f"{agent.name:<8} {trial.edit}: {trial.verdict}; {trial.why}")
        if program and not arguments.json and find_installed_hook(runtime, agent) is None:
            print_line(f"         not hooked in here; for that, run `signoff doors install {agent.name}`")
    if arguments.json:
        print_json(lines)
    if any(line.verdict == "not held" for line in lines):
        return ExitCode.REFUSED
    untried = [line for line in lines if line.verdict == "not tried" and (line.program or named)]
    return ExitCode.FAILED if untried or not any(line.program for line in lines) else ExitCode.DONE


def _hook_options(runtime: OpenWorkspace, agent: ExternalAgent) -> HookOptions:
    """Return the options of the first installed hook, or the defaults."""
    hook = find_installed_hook(runtime, agent)
    return hook.options if hook else HookOptions()


def find_installed_hook(runtime: OpenWorkspace, agent: ExternalAgent) -> InstalledHook | None:
    """Return signoff's hook in the first settings of an agent that contain it; None if none do."""
    for _, path in agent.settings_files(runtime.workspace.root):
        with suppress(OSError, ValueError):
            if found := find_hook(agent, read_regular_file(path.resolve(), _MAX_SETTINGS_BYTES)[0].decode()):
                return found
    return None


def _make_agent_hook_json(
    runtime: OpenWorkspace, agent: ExternalAgent, program: str | None, version: str
) -> AgentHookStateJson:
    root = runtime.workspace.root
    hooked: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    opened = list(known_release_weaknesses(agent, version))
    incomplete: list[str] = []
    places = dict(agent.settings_files(root))
    for name, path in agent.files_that_can_disable_hooks(root):
        try:
            text = read_regular_file(path.resolve(), _MAX_SETTINGS_BYTES)[0].decode()
            if name in places and (how := find_hook(agent, text)):
                hooked[name] = how.command
                opened += [f"{name}: {why}" for why in how.weaknesses(agent)]
                if how.missing_events:
                    incomplete.append(
                        f"{name}: no hook at {', '.join(how.missing_events)}, so that signoff knows less of what "
                        f"{agent.title} reads and says; `signoff doors install {agent.name}` adds it"
                    )
            opened += reasons_why_settings_disable_hooks(agent, name, text)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            unreadable[name] = str(getattr(error, "strerror", None) or error)
    waiting = [
        pending.id for pending in runtime.service.pending() if agent.settings in (file.path for file in pending.files)
    ]
    return AgentHookStateJson(
        agent=agent.name,
        program=program,
        version=version,
        hooked=hooked,
        unreadable=unreadable,
        open=opened if hooked else [],
        incomplete=incomplete,
        waiting=waiting[-1] if waiting else "",
    )

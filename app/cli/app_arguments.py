"""The table of commands, and the arguments that open the app; most starts have none and need no parser."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple


class CliCommand(NamedTuple):
    """An entry of the command table: the module and function that run a command, and what it needs opened."""

    module: str
    """Name of the module in `app.cli`; only the module of the running command is imported."""
    function: str
    opens_workspace: bool = True
    """Whether the function's first argument is the open workspace."""
    recovers: bool = True
    """Whether to finish or roll back interrupted work of other processes in the workspace first."""


COMMANDS = {
    "run": CliCommand("headless_run", "run_headless_turn", opens_workspace=False),
    "proposals": CliCommand("proposal_list", "print_or_watch_proposals", recovers=False),
    "show": CliCommand("stage_show_push", "print_proposal_and_record_as_seen"),
    "ask": CliCommand("headless_run", "ask_about_hunk", opens_workspace=False),
    "approve": CliCommand("approve_deny_undo", "approve_proposals"),
    "deny": CliCommand("approve_deny_undo", "deny_proposals"),
    "review": CliCommand("plain_review", "review_proposals"),
    "check": CliCommand("check_evidence_reproduce", "run_checks"),
    "checks": CliCommand("check_evidence_reproduce", "propose_check_tables"),
    "evidence": CliCommand("check_evidence_reproduce", "collect_hunk_evidence"),
    "reproduce": CliCommand("check_evidence_reproduce", "reproduce_command_proposal"),
    "undo": CliCommand("approve_deny_undo", "undo_proposals"),
    "redo": CliCommand("approve_deny_undo", "redo_proposals"),
    "stage": CliCommand("stage_show_push", "stage_proposal"),
    "push": CliCommand("stage_show_push", "push_proposal_as_commit"),
    "mcp": CliCommand("mcp_and_demo_servers", "serve_mcp", opens_workspace=False),
    "hook": CliCommand("", "app.launcher runs it"),
    "doors": CliCommand("doctor_doors", "list_try_or_propose_agent_hooks"),
    "sessions": CliCommand("sessions_search_export", "print_or_prune_sessions"),
    "search": CliCommand("sessions_search_export", "print_search_hits"),
    "export": CliCommand("sessions_search_export", "export_session_or_review"),
    "import": CliCommand("sessions_search_export", "import_session"),
    "log": CliCommand("log_trailers_notes", "print_or_verify_log"),
    "trailers": CliCommand("log_trailers_notes", "print_or_add_trailers"),
    "notes": CliCommand("log_trailers_notes", "write_and_sign_git_notes"),
    "verify": CliCommand("verify_command", "verify_commits", opens_workspace=False),
    "doctor": CliCommand("doctor_doors", "run_doctor"),
    "keys": CliCommand("keys_servers_completion", "print_keys"),
    "servers": CliCommand("keys_servers_completion", "print_mcp_servers"),
    "completion": CliCommand("keys_servers_completion", "print_completion", opens_workspace=False),
    "demo-server": CliCommand("mcp_and_demo_servers", "serve_demo", opens_workspace=False),
}
"""First words that are commands; any other first word is a workspace."""


class AppArguments(NamedTuple):
    """Arguments that open the app, with the defaults of a start without arguments."""

    workspace: str | None = None
    resume: bool = False
    session: str | None = None
    model: str | None = None
    base_url: str | None = None
    reasoning_effort: str | None = None
    gate: str | None = None
    theme: str | None = None
    demo: bool = False
    debug: str | None = None
    plain: bool = False


def environment_wants_plain_mode() -> bool:
    """Return whether the environment asks for plain lines: for a simple terminal, or a screen reader."""
    return os.environ.get("TERM") in ("dumb", "unknown") or bool(os.environ.get("ACCESSIBLE"))


def settings_from_flags(arguments: object) -> Mapping[str, Any]:
    """Return the settings that the command line sets, by name; None for those that it does not set."""
    keys = ("model", "base_url", "reasoning_effort", "theme", "max_steps", "max_cost", "max_time")
    named = {key: getattr(arguments, key, None) for key in keys}
    gate = getattr(arguments, "gate", None)
    if gate and gate.startswith("chain"):
        _, _, steps = gate.partition(":")
        return {**named, "gate": "chain", "chain_steps": int(steps) if steps else None}
    return {**named, "gate": gate}

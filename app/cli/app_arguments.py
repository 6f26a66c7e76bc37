"""The table of commands, and the arguments that open the app; most starts have none and need no parser."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command: the function that runs it, and the preparation that it needs."""

    module: str
    """Name of the module in `app.cli`; only the module of the running command is imported."""
    function: str
    opens_workspace: bool = True
    """Whether the function's first argument is the open workspace."""
    recovers: bool = True
    """Whether to finish or roll back interrupted work of other processes in the workspace first."""


COMMANDS = {
    "run": Command("headless_run", "run_headless_turn", opens_workspace=False),
    "proposals": Command("proposal_list", "print_proposals", recovers=False),
    "show": Command("stage_show_push", "print_proposal"),
    "ask": Command("headless_run", "ask_about_hunk", opens_workspace=False),
    "approve": Command("approve_deny_undo", "approve_proposals"),
    "deny": Command("approve_deny_undo", "deny_proposals"),
    "review": Command("plain_review", "review_proposals"),
    "check": Command("check_evidence_reproduce", "run_checks"),
    "checks": Command("check_evidence_reproduce", "suggest_check_tables"),
    "evidence": Command("check_evidence_reproduce", "collect_evidence"),
    "reproduce": Command("check_evidence_reproduce", "reproduce_command_proposal"),
    "undo": Command("approve_deny_undo", "undo_proposals"),
    "redo": Command("approve_deny_undo", "redo_proposals"),
    "stage": Command("stage_show_push", "stage_proposal"),
    "push": Command("stage_show_push", "push_to_git"),
    "mcp": Command("mcp_and_demo_servers", "serve_mcp", opens_workspace=False),
    "hook": Command("", "app.launcher runs it"),
    "doors": Command("doctor_doors", "run_doors"),
    "sessions": Command("sessions_search_export", "print_sessions"),
    "search": Command("sessions_search_export", "print_search_hits"),
    "export": Command("sessions_search_export", "export_session"),
    "import": Command("sessions_search_export", "import_session"),
    "log": Command("log_trailers_notes", "print_log"),
    "trailers": Command("log_trailers_notes", "print_trailers"),
    "notes": Command("log_trailers_notes", "write_notes"),
    "verify": Command("verify_command", "verify_commits", opens_workspace=False),
    "doctor": Command("doctor_doors", "run_doctor"),
    "keys": Command("keys_servers_completion", "print_keys"),
    "servers": Command("keys_servers_completion", "print_servers"),
    "completion": Command("keys_servers_completion", "print_completion", opens_workspace=False),
    "demo-server": Command("mcp_and_demo_servers", "serve_demo", opens_workspace=False),
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


def wants_plain_mode() -> bool:
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

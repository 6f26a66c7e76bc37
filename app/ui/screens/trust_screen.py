"""Asks for trust in the configuration of a workspace: shows its exact text and its effects."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.config.settings import NEVER_FROM_WORKSPACE, UNTRUSTED_KEYS, ConfigError
from app.config.toml_files import parse_toml
from app.mcp_client.configured_servers import OtherAgentServerFile, find_workspace_server_files
from app.prompts.custom_commands import FoundCommands, find_workspace_commands
from app.runtime.open_workspace import OpenWorkspace
from app.storage import StorageError
from app.text.deceiving_text import find_deceptive_characters
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import Dialog, DialogKey, safe_content
from app.workspace import trust
from app.workspace.path_rules import WorkspaceError
from widgets.common.key_hints import KeyHint


class WorkspaceConfigToTrust(Struct, frozen=True):
    """The configuration of a workspace that needs trust, as it was read; trust is given to exactly these bytes."""

    runtime: OpenWorkspace
    content: bytes = b""
    """Of the configuration file."""
    trusted: bool = False
    problem: str = ""
    """Why it cannot be read or used; empty if it can."""
    values: dict[str, Any] = field(default_factory=dict)
    commands: FoundCommands = field(default_factory=FoundCommands)
    commands_trusted: bool = True
    servers: tuple[OtherAgentServerFile, ...] = ()
    """Files of other agents that name MCP servers."""

    @property
    def all_trusted(self) -> bool:
        """Return whether the user trusts all parts already."""
        return self.trusted and self.commands_trusted and all(server_file.trusted for server_file in self.servers)

    @property
    def parts(self) -> list[tuple[bytes, str]]:
        """Return the parts that trust is given to, by the names in the store."""
        parts = [(self.content, trust.FILE_NAME), (self.commands.content, trust.COMMAND_FILES)]
        parts += [(server_file.content, server_file.name) for server_file in self.servers]
        return [(content, name) for content, name in parts if content]


def read_files_to_trust(runtime: OpenWorkspace) -> WorkspaceConfigToTrust:
    """Read the workspace's configuration, command and server files, and whether each is trusted.

    Blocks on the disk.
    """
    try:
        content = trust.read_untrusted_workspace_configuration(runtime.workspace)
        values = parse_toml(content)
        commands = find_workspace_commands(runtime.workspace)
        store = runtime.sessions
        commands_trusted = trust.is_trusted(commands.content, store, trust.COMMAND_FILES)
        trusted = trust.is_trusted(content, store)
        servers = tuple(find_workspace_server_files(runtime.workspace, store))
        return WorkspaceConfigToTrust(runtime, content, trusted, "", values, commands, commands_trusted, servers)
    except (OSError, WorkspaceError, StorageError, ConfigError, ValueError) as error:
        return WorkspaceConfigToTrust(runtime, problem=str(error))


class ConfigTrustScreen(Dialog[bool]):
    """Asks for trust in the configuration; the result is True if trust was given or withdrawn."""

    KEYS = (
        DialogKey("y", "trust exactly this text", "trust"),
        DialogKey("n", "not now", "leave"),
        DialogKey("d", "withdraw trust", "distrust"),
        DialogKey("escape", "close"),
    )
    HEADING = "Trust this workspace's configuration?"

    DEFAULT_CSS = """
    ConfigTrustScreen {
        #trust-text {
            height: auto;
            min-height: 1;
            max-height: 50vh;
            padding: 0 1;
            background: $background;
        }
        #trust-text Static { height: auto; }
    }
    """

    def __init__(self, config: WorkspaceConfigToTrust) -> None:
        super().__init__(classes="-small")
        self._config = config

    def key_hints(self) -> Sequence[KeyHint]:
        if self._config.problem or not self._config.parts:
            return self.hints_of("escape")
        if self._config.all_trusted:
            return self.hints_of("d", "escape")
        return [*self.hints_of("y"), KeyHint("n,escape", "not now")]

    def compose_body(self) -> Iterable[Widget]:
        config = self._config
        if config.problem:
            yield Static(
                Content.styled(escape_unsafe(f".signoff.toml cannot be used: {config.problem}"), "$text-error"),
                classes="text",
            )
            return
        if not config.parts:
            yield Static(
                Content("This workspace has no .signoff.toml, commands or MCP servers: there is nothing to trust."),
                classes="text",
            )
            return
        with VerticalScroll(id="trust-text"):
            for path, text in _file_texts(config):
                yield Static(safe_content(path, "bold $text-primary"))
                yield Static(Content(escape_unsafe(text).strip("\n") + "\n"))
        yield Static(describe_trust_effects(config), classes="text gap")

    def action_trust(self) -> None:
        """Trust the bytes that are shown."""
        config = self._config
        if not config.all_trusted and not config.problem:
            self._change_trust(trust.store_trust)

    def action_distrust(self) -> None:
        """Trust it no more."""
        if self._config.all_trusted:
            self._change_trust(lambda content, store, name: trust.forget_trust(store, name))

    def _change_trust(self, change: Callable[[bytes, trust.TrustStore, str], None]) -> None:
        try:
            for content, name in self._config.parts:
                change(content, self._config.runtime.sessions, name)
        except StorageError as error:
            self.show_status(str(error))
            return
        self.dismiss(True)


def describe_trust_effects(config: WorkspaceConfigToTrust) -> Content:
    """Return the settings in force, those that trust would add, and those that no workspace may set."""
    never_used = [key for key in config.values if key in NEVER_FROM_WORKSPACE]
    untrusted_in_force = [
        key for key in config.values if key in UNTRUSTED_KEYS and not _loosens_gate(key, config.values[key])
    ]
    needing_trust = [key for key in config.values if key not in never_used and key not in untrusted_in_force]
    rows = [
        _keys_row("Trusted: in force" if config.trusted else "Not trusted yet", needing_trust, "$text-warning"),
        _keys_row("In force without trust", untrusted_in_force, "$text-success"),
        _keys_row("Never taken from a workspace", never_used, "$foreground 65%"),
    ]
    if names := [f"/{entry.name}" for entry in config.commands.commands]:
        title = "Trusted commands" if config.commands_trusted else "Commands not trusted yet"
        rows.append(_keys_row(title, names, "$text-warning"))
    for server_file in config.servers:
        title = f"{'Trusted servers' if server_file.trusted else 'Servers not trusted yet'} in {server_file.name}"
        rows.append(
            _keys_row(
                title, [f"{entry.name} ({entry.origin})" for entry in server_file.found.definitions], "$text-warning"
            )
        )
    for path, text in _file_texts(config):
        if deceptive_characters := find_deceptive_characters(text):
            warning = f"Careful: {escape_unsafe(path, keep='')} holds {deceptive_characters}."
            rows.append(Content.styled(warning, "bold $text-error"))
    return Content("\n").join([row for row in rows if row.plain] or [Content("It sets nothing.")])


def _file_texts(config: WorkspaceConfigToTrust) -> list[tuple[str, str]]:
    """Return path and text of each file."""
    configuration = [(trust.FILE_NAME, config.content.decode("utf-8", "replace"))] if config.content else []
    servers = [(server_file.name, server_file.content.decode("utf-8", "replace")) for server_file in config.servers]
    return [*configuration, *config.commands.texts, *servers]


def _loosens_gate(key: str, value: Any) -> bool:
    return key == "gate" and value != "every-edit"


def _keys_row(title: str, keys: Sequence[str], style: str) -> Content:
    if not keys:
        return Content("")
    return Content.assemble((f"{title}: ", f"bold {style}"), escape_unsafe(", ".join(keys), keep=""))

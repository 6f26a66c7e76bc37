"""The configuration, by precedence: flags, environment, the workspace's file, the user's file.

Each layer is checked with the same strict model, so a misspelt key is an error that names it.
"""

import contextlib
import errno
import os
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
)

from app.config.config_tables import (
    MIN_WINDOW_TOKENS,
    ChosenWire,
    Effort,
    EventHookTable,
    McpServerTable,
    ModelOverridesTable,
    PriceTable,
    ReadingBudgetTable,
    RequestFields,
    merge_model_tables,
    merge_nested_tables,
    require_unquoted_placeholders,
)
from app.config.toml_files import describe_invalid_toml, parse_toml
from app.text.quantities import parse_duration

WORKSPACE_FILE = ".signoff.toml"
"""Name of the workspace's configuration file, in its root."""

ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "anthropic_api_key",
    "OPENAI_API_KEY": "api_key",
    "OPENAI_BASE_URL": "base_url",
    "SIGNOFF_API_KEY": "api_key",
    "SIGNOFF_BASE_URL": "base_url",
    "SIGNOFF_MODEL": "model",
    "SIGNOFF_THEME": "theme",
    "SIGNOFF_GATE": "gate",
}
"""Environment variables and the keys that they set; a later one wins over an earlier one."""

UNTRUSTED_KEYS = frozenset({"theme", "wrap", "layout", "model", "gate", "ignored"})
"""Keys that a workspace may set before the user trusts its file: `gate` only to `every-edit`, and `ignored` not to
`write` if the user has set `hold`."""

NEVER_FROM_WORKSPACE = frozenset(
    {
        "anthropic_api_key",
        "api_key",
        "headers",
        "keys",
        "vim",
        "editor",
        "external_diff",
        "reading",
        "max_cost",
        "max_time",
    }
)
"""Keys that a workspace may never set, trusted or not."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the key."""


def _as_tuple(value: Any) -> Any:
    """Return a single pattern as a tuple, and other values unchanged."""
    return (value,) if isinstance(value, str) else value


def _validate_report(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("the report is a path in the workspace, with no '..' in it")
    return path


class CheckTable(BaseModel):
    """A command that checks a proposal: one `[[check]]` table."""

    model_config = ConfigDict(frozen=True, extra="forbid", regex_engine="python-re", defer_build=True)

    name: str = Field(min_length=1, max_length=24, pattern=r"^[\w.+-]([\w.+ -]*[\w.+-])?\Z")
    """Name of the check in the review."""
    run: Annotated[str, Field(min_length=1), AfterValidator(require_unquoted_placeholders)]
    """The command, for `sh`. `{files}` inserts the files that the proposal changes; it is quoted already, so write it
    outside quotes. `{tests}` inserts the tests that evidence needs; otherwise it means all tests."""
    when: Literal["staged", "asked", "approve"] = "staged"
    """When it runs: as soon as a proposal is staged, when the user asks for it, or on approval, before writing."""
    files: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    """Patterns as in `.gitignore`: it runs for proposals that change such a file, and `{files}` has only those."""
    seconds: StrictFloat = Field(default=60, gt=0, le=3600)
    """Time limit in seconds."""
    feed: StrictBool = False
    """Whether a failure is reported to the model at once, with the staging result (`when = "staged"` only)."""
    evidence: StrictBool = False
    """Whether, after it has passed, it also runs without each hunk, to show whether it notices if the hunk is
    missing."""
    coverage: Annotated[str, Field(min_length=1), AfterValidator(_validate_report)] = "auto"
    """The coverage report that it writes (Cobertura's or JaCoCo's XML, or lcov), to mark changed lines that no test
    runs: a path in the workspace, `auto` for the usual names, or `off`."""


def _check_unique_names(checks: tuple[CheckTable, ...]) -> tuple[CheckTable, ...]:
    if len({check.name for check in checks}) < len(checks):
        raise ValueError("two checks have the same name")
    return checks


def _clean_key(key: object) -> object:
    """Return a key without white space around it, such as a line end from a file. Raises ValueError for other than
    ASCII."""
    if not isinstance(key, str):
        return key
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("a key is one line of ASCII characters")
    return key


def _as_seconds(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


class Settings(BaseModel):
    """All settings with their defaults."""

    # pydantic's default engine would use 4 MB for Unicode tables.
    model_config = ConfigDict(frozen=True, extra="forbid", regex_engine="python-re")

    base_url: str = ""
    """The endpoint: a base URL that ends before `/chat/completions`, `/responses` or `/v1/messages`."""
    api_key: Annotated[SecretStr | None, BeforeValidator(_clean_key)] = None
    """The endpoint's key, sent as a bearer token or in the header of its wire."""
    anthropic_api_key: Annotated[SecretStr | None, BeforeValidator(_clean_key)] = None
    """The key of Anthropic's own API; it is sent to no other host, and there it precedes `api_key`."""
    model: str = ""
    """The model's name at the endpoint."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of each request."""
    wire: ChosenWire = "auto"
    """The protocol; by default, it is chosen by the address."""
    reasoning_effort: Effort = "off"
    """How much the model reasons; `off` leaves it to the server."""
    request: RequestFields = Field(default_factory=dict)
    """Further fields of each request; they override those of signoff, except the conversation and its tools."""
    price: dict[str, PriceTable] = Field(default_factory=dict)
    """Prices by model name or pattern as in `models`, for servers that don't report the cost of each response."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """Overrides of the endpoint's capability profile."""
    context_window: StrictInt | None = Field(default=None, ge=MIN_WINDOW_TOKENS)
    """Size in tokens, if the endpoint doesn't report it."""
    models: dict[Annotated[str, Field(min_length=1)], ModelOverridesTable] = Field(default_factory=dict)
    """Settings for some models, by name or pattern; they override the general settings."""
    gate: Literal["every-edit", "chain"] = "every-edit"
    """When the gate closes: after every step that stages an edit, or after a chain of them."""
    chain_steps: StrictInt = Field(default=3, ge=1, le=50)
    """Staging steps before the gate closes, with `gate = "chain"`."""
    plan: StrictBool = False
    """Whether the model only plans: edits are refused, and changes by commands are discarded."""
    max_steps: StrictInt = Field(default=50, ge=1, le=1_000)
    """Steps in one turn before the model must stop."""
    max_cost: StrictFloat | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Cost limit of a session in US dollars: a turn ends before a request that could exceed it."""
    max_time: Annotated[StrictFloat | None, BeforeValidator(_as_seconds), Field(gt=0, allow_inf_nan=False)] = None
    """Time limit of a session's turns, without the time of waiting for you: `"90s"`, `"1h30m"`, or seconds."""
    theme: str = "signoff-dark"
    """A theme of signoff, of Textual, or from the user's `themes` folder."""
    layout: Literal["auto", "unified", "split"] = "auto"
    """Layout of the diff; `auto` chooses by the width."""
    wrap: StrictBool = True
    """Whether long lines in the diff wrap."""
    white_space: StrictBool = True
    """Whether the diff shows changes in white space without effect."""
    show_interventions: StrictBool = True
    """Whether the chat shows signoff's messages to the model."""
    notify: Literal["bell", "desktop", "off"] = "bell"
    """How the terminal notifies you when control is back and it does not have the focus."""
    continue_after_approval: StrictBool = False
    """Whether the model continues by itself once the last waiting proposal is approved."""
    commit: StrictBool = False
    """Whether each approved proposal becomes a git commit, of just its files."""
    ignored: Literal["write", "hold"] = "write"
    """Whether a command's changes to files that git ignores are written at its end, or only after your approval."""
    command_writable: tuple[str, ...] = ()
    """Paths outside the workspace that commands may write."""
    command_environment: tuple[str, ...] = ()
    """Variables that commands get besides the usual ones; a `*` at the end stands for any further letters."""
    command_sockets: tuple[str, ...] = ()
    """Sockets that commands may use: names of services such as `ssh-agent`, or absolute paths."""
    command_memory: StrictInt | None = Field(default=None, ge=64)
    """Memory limit of a command with its child processes, in megabytes; by default three quarters of the
    machine's."""
    command_processes: StrictInt = Field(default=2_000, ge=50)
    """Largest number of processes and threads of a command."""
    check: Annotated[tuple[CheckTable, ...], AfterValidator(_check_unique_names)] = ()
    """Commands that run on a proposal before the decision."""
    evidence_seconds: StrictFloat = Field(default=60, ge=1, le=3_600)
    """Time limit in seconds, in all, for running a proposal's tests without each hunk."""
    mcp: dict[Annotated[str, Field(pattern=r"^[\w.-]{1,40}\Z")], McpServerTable] = Field(default_factory=dict)
    """MCP servers by name, besides those in other agents' files; a table of the user overrides all others."""
    mcp_of_others: StrictBool = True
    """Whether to use the servers that the user has configured for Claude Code, Gemini CLI and Codex."""
    reading: ReadingBudgetTable = Field(default_factory=ReadingBudgetTable)
    """How much may wait for you to read, from all agents."""
    hook: tuple[EventHookTable, ...] = ()
    """Commands that run on events; those of a trusted workspace are added to the user's."""
    editor: str = ""
    """Command of the external editor; `$VISUAL` or `$EDITOR` if empty."""
    external_diff: str = ""
    """Command of the diff program; `$GIT_EXTERNAL_DIFF`, git's `diff.external` or `difft` if empty."""
    vim: StrictBool = False
    """Whether the composer and the editor of proposed texts have Vim's keys."""
    keys: dict[str, str] = Field(default_factory=dict)
    """Remapped keys: action id to comma-separated keys."""

    @property
    def has_endpoint(self) -> bool:
        """Return whether an endpoint is configured: a base URL, or a key whose vendor is known."""
        return bool(self.base_url or self.api_key or self.anthropic_api_key)

    @property
    def profile_overrides(self) -> dict[str, Any]:
        """Return the user's overrides of the endpoint's profile, with the wire and the context window."""
        window = {} if self.context_window is None else {"context_window": self.context_window}
        wire = {} if self.wire == "auto" else {"wire": self.wire}
        return {**self.profile, **window, **wire}

    @property
    def with_model_tables(self) -> "Settings":
        """Return the settings with the tables of the current model applied."""
        model_table = merge_model_tables(self.model, self.models)
        changes = {key: getattr(model_table, key) for key in model_table.model_fields_set}
        for key in ("request", "profile"):
            changes[key] = merge_nested_tables(getattr(self, key), changes.get(key, {}))
        if model_table.price is not None:
            changes["price"] = {**self.price, self.model: model_table.price}
        return self.model_copy(update=changes)

    def with_effort(self, effort: str) -> "Settings":
        """Return the settings with a reasoning effort that also overrides the tables of models."""
        models = {name: table.model_copy(update={"reasoning_effort": None}) for name, table in self.models.items()}
        return self.model_copy(update={"reasoning_effort": effort, "models": models})


class Configuration(Struct, frozen=True):
    """The settings merged from all sources, with facts about the workspace's file."""

    settings: Settings
    untrusted: tuple[str, ...] = ()
    """Keys of the workspace's file that are not in force until the user trusts it."""
    ignored: tuple[str, ...] = ()
    """Keys of the workspace's file that no workspace may set."""
    from_workspace: frozenset[str] = frozenset()
    """Keys of the workspace's file that are in force."""
    servers_of_workspace: frozenset[str] = frozenset()
    """Names of the `[mcp.NAME]` tables that only the workspace defines."""


def read_configuration(path: Path) -> dict[str, Any]:
    """Read a configuration file; return {} if there is none. Raises ConfigError."""
    try:
        content = _read_regular_file(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    return parse_configuration(content, str(path))


def _read_regular_file(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises OSError."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return path.read_bytes()


def parse_configuration(content: bytes, name: str) -> dict[str, Any]:
    """Parse the bytes of a configuration file; `name` is used in errors. Raises ConfigError."""
    try:
        return parse_toml(content)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    except ValueError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}.") from error


def load_configuration(
    *,
    user_file: Path,
    workspace_file_content: bytes,
    flags: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    trusted: bool = False,
) -> Configuration:
    """Return the settings merged from the user's file, the workspace's file, environment and flags.

    Args:
        workspace_file_content: The bytes of the workspace's `.signoff.toml`, as they were read for `trusted`.
        flags: Settings from the command line; None values are ignored.
        trusted: Whether the user trusts exactly these bytes.

    Raises:
        ConfigError: a file is not TOML, or a value is invalid.
    """
    user = read_configuration(user_file)
    _check_values(user, str(user_file))
    workspace = parse_configuration(workspace_file_content, WORKSPACE_FILE)
    _check_values(workspace, WORKSPACE_FILE)
    ignored = tuple(sorted(workspace.keys() & NEVER_FROM_WORKSPACE))
    allowed = {key: value for key, value in workspace.items() if key not in NEVER_FROM_WORKSPACE}
    if user.get("ignored") == "hold" and allowed.pop("ignored", "hold") != "hold":
        ignored = tuple(sorted((*ignored, "ignored")))
    untrusted: tuple[str, ...] = ()
    if not trusted:
        untrusted_keys = {key for key in allowed if key not in UNTRUSTED_KEYS}
        if allowed.get("gate", "every-edit") != "every-edit":
            untrusted_keys.add("gate")
        untrusted = tuple(sorted(untrusted_keys))
        allowed = {key: value for key, value in allowed.items() if key not in untrusted_keys}
    workspace_servers = allowed.get("mcp", {}).keys() - user.get("mcp", {}).keys()
    if "mcp" in user and "mcp" in allowed:
        # Replace whole tables: the user's settings for a server, such as secrets, must not reach another server.
        allowed["mcp"] = {**allowed["mcp"], **user["mcp"]}
    if "models" in user and "models" in allowed:
        allowed["models"] = merge_nested_tables(user["models"], allowed["models"])
    for key, default_limit in (("command_memory", None), ("command_processes", 2_000)):
        # A workspace can lower these limits, but not raise them.
        user_limit = user.get(key, default_limit)
        allowed |= {key: min(allowed[key], user_limit)} if key in allowed and user_limit is not None else {}
    variables = {key: _read_variable(environment, name) for name, key in ENVIRONMENT.items() if environment.get(name)}
    given_flags = {key: value for key, value in flags.items() if value is not None}
    # Hooks of a workspace are added to those of the user.
    allowed |= {"hook": [*user.get("hook", ()), *allowed["hook"]]} if "hook" in allowed else {}
    try:
        settings = Settings.model_validate({**user, **allowed, **variables, **given_flags})
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        where = setting_origin(key, user_file=user_file, from_workspace=(), flags=flags, environment=environment)
        raise ConfigError(describe_invalid_toml(error, where, {})) from error
    if "reasoning_effort" in given_flags:
        settings = settings.with_effort(settings.reasoning_effort)
    return Configuration(settings, untrusted, ignored, frozenset(allowed), frozenset(workspace_servers))


def setting_origin(
    key: str,
    *,
    user_file: Path,
    from_workspace: Collection[str],
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
) -> str:
    """Return the source of a setting's value, as a text for the user; empty for the default.

    Args:
        from_workspace: Keys of the workspace's file that are in force.
    """
    if flags.get(key) is not None:
        # No option sets the key of an endpoint; that of the demo model comes with its address and name.
        is_demo = "api_key" in flags and key in ("api_key", "base_url", "model")
        return "--demo" if is_demo else f"--{key.removeprefix('reasoning_').replace('_', '-')}"
    if names := [name for name, setting in ENVIRONMENT.items() if setting == key and environment.get(name)]:
        return f"${names[-1]}"
    if key in from_workspace:
        return WORKSPACE_FILE
    with contextlib.suppress(ConfigError):
        if key in read_configuration(user_file):
            return user_file.name
    return ""


def validate_setting(key: str, value: Any) -> Any:
    """Return the checked value of a setting; its default for None. Raises ConfigError."""
    if value is None:
        return getattr(Settings(), key)
    try:
        return getattr(Settings.model_validate({key: value}), key)
    except ValidationError as error:
        raise ConfigError(describe_invalid_toml(error, "Not saved", {})) from error


def save_settings(user_file: Path, changes: Mapping[tuple[str, ...], Any]) -> None:
    """Write changed keys to the user's file, and keep its comments and order; None removes a key.

    A key is a path into nested tables. A symbolic link is kept, and its target replaced. Only the user can read the
    file, also while it is being written.

    Raises:
        ConfigError: the file cannot be read or written, or would become invalid.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = (
            tomlkit.parse(user_file.read_text(encoding="utf-8-sig")) if user_file.exists() else tomlkit.document()
        )
        new_values = document.unwrap()
        for path, value in changes.items():
            set_or_remove_nested_value(new_values, path, value)
            set_or_remove_nested_value(
                document, path, _to_inline_table(value) if isinstance(value, Mapping) else value
            )
        content = tomlkit.dumps(document).encode()
        if parse_configuration(content, str(user_file)) != new_values:
            raise ConfigError(f"{user_file} has its tables in an order that signoff cannot keep; change it there.")
        _check_values(new_values, str(user_file))
        _replace_file(user_file, content)
    except OSError as error:
        raise ConfigError(f"{user_file} cannot be written: {error.strerror}.") from error
    except (RuntimeError, UnicodeDecodeError, TOMLKitError) as error:
        # Path.resolve raises RuntimeError for a loop of links.
        raise ConfigError(f"{user_file} cannot be written: {error}.") from error


def set_or_remove_nested_value(table: MutableMapping[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value in nested tables, and create missing ones; None removes the value, and tables that become empty."""
    key, *rest = path
    if not rest and value is not None:
        table[key] = value
    elif not rest:
        table.pop(key, None)
    elif isinstance(inner := table.setdefault(key, {}), MutableMapping):
        set_or_remove_nested_value(inner, rest, value)
        if not inner:
            table.pop(key)


def _to_inline_table(table: Mapping[str, Any]) -> Any:
    import tomlkit

    inline = tomlkit.inline_table()
    inline.update(table)
    return inline


def _replace_file(path: Path, content: bytes) -> None:
    """Replace a file, or the target of a link, atomically."""
    import tempfile

    target = path.resolve()
    if target.is_symlink():
        # From Python 3.13 on, `resolve` does not raise for a loop of links.
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp creates the file with mode 0600.
    descriptor, partial = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(descriptor)
        Path(partial).replace(target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _check_values(values: Mapping[str, Any], name: str) -> None:
    try:
        Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe_invalid_toml(error, name, values)) from error


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    try:
        environment[name].encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} in the environment is not UTF-8 text.") from error
    return environment[name]

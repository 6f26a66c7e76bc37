"""The slash commands of the app: one method each, also called from the palette and by key."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from textual.app import SystemCommand
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from app.agent.updates import SessionPhase
from app.images.mentions import Mention, find_mentioned_files
from app.keys.actions import UserAction, actions_in_scopes
from app.keys.keymap import DECISION_ACTION_IDS, effective_keys, key_display_name
from app.prompts.custom_commands import CommandCatalogue, CommandUnusable
from app.text.quantities import format_count
from app.ui.context import slash_commands
from app.ui.context.app_context import AppContext, ChatActions
from app.ui.context.slash_commands import COMMANDS, BadArgument

if TYPE_CHECKING:
    from app.conversation.events import CustomCommandInvocation
    from app.prompts.custom_commands import CustomCommand
    from app.proposals.values.models import Proposal
    from app.runtime.open_workspace import OpenWorkspace
    from app.ui.context.current_session import CurrentSession
    from app.ui.context.preferences import LiveSettings
    from app.ui.controllers.connector import ModelConnector
    from widgets.chat.composer import Composer


def palette_commands_without_decisions(
    perform: Callable[[UserAction], None],
    custom_commands: "Iterable[CustomCommand]",
    run_custom: Callable[[str], None],
) -> Iterable[SystemCommand]:
    """Yield all actions except cursor movements and decisions, then the user's custom commands.

    Decisions are left out so that Enter in the palette never makes one.
    """
    for action in _palette_actions():
        yield SystemCommand(_palette_title(action), action.help, partial(perform, action))
    for command in custom_commands:
        # The palette parses the help text as markup.
        yield SystemCommand(
            f"/{command.name}", command.summary.replace("[", "\\["), partial(run_custom, command.name)
        )


def _palette_actions() -> Iterator[UserAction]:
    for action in actions_in_scopes("app", "review", "diff"):
        if (
            action.id not in ("app.palette", "app.keys")
            and action.id not in DECISION_ACTION_IDS
            and not action.is_movement
        ):
            yield action


def _palette_title(action: UserAction) -> str:
    return f"{'' if action.scope == 'app' else 'Review: '}{action.title}"


class PaletteCommands(Provider):
    """Palette provider: the commands by name, with their keys."""

    async def discover(self) -> Hits:
        """Yield all commands by name."""
        for title, help_text, callback, _ in sorted(
            self.app.get_system_commands(self.screen), key=lambda command: command.title
        ):
            yield DiscoveryHit(self._add_keys(Content(title)), callback, text=title, help=help_text)

    async def search(self, query: str) -> Hits:
        """Yield the commands whose names match a query."""
        matcher = self.matcher(query)
        for title, help_text, callback, _ in self.app.get_system_commands(self.screen):
            if (match := matcher.match(title)) > 0:
                yield Hit(match, self._add_keys(matcher.highlight(title)), callback, text=title, help=help_text)

    def _add_keys(self, name: Content) -> Content:
        keymap: Mapping[str, str] = getattr(self.app, "keymap", {})
        action = next(
            (candidate for candidate in _palette_actions() if _palette_title(candidate) == name.plain), None
        )
        keys = (
            " ".join(key_display_name(key) for key in effective_keys(action, keymap)[:2])
            if action is not None
            else ""
        )
        command = f"/{action.command}" if action is not None and action.command else ""
        hint = "  ".join(filter(None, (keys, command)))
        return Content.assemble(name, "  ", (hint, "$text-accent")) if hint else name


SendMessage = Callable[[str, "CustomCommandInvocation | None", tuple[Mention, ...]], Awaitable[None]]


class CustomCommandRunner:
    """Reads the user's custom commands from their files, offers them in the composer, and runs them."""

    def __init__(
        self,
        runtime: "OpenWorkspace",
        composer: "Composer",
        session: "CurrentSession",
        app_context: AppContext,
        send: SendMessage,
    ) -> None:
        self._runtime = runtime
        self._composer = composer
        self._session = session
        self._app_context = app_context
        self._send = send
        self.catalogue = CommandCatalogue()
        """The commands that were read last."""

    async def refresh(self) -> CommandCatalogue:
        """Read the command files again, and offer the commands in the composer."""
        from app.runtime.prompt_sources import load_custom_commands, take_new_untrusted_commands_notice

        self.catalogue = await asyncio.to_thread(load_custom_commands, self._runtime, COMMANDS.keys())
        custom = [(command.name, command.summary) for command in self.catalogue.commands.values()]
        built_in = [(name, action.help) for name, action in COMMANDS.items()]
        self._composer.set_commands(built_in + custom, unlisted=self.catalogue.untrusted)
        if notice := await asyncio.to_thread(take_new_untrusted_commands_notice, self._runtime, self.catalogue):
            self._app_context.notify(notice)
        return self.catalogue

    async def run(self, name: str, argument: str) -> None:
        """Run a custom command. Raises BadArgument if it cannot be used now."""
        from app.conversation.events import UserNotice
        from app.runtime.prompt_sources import make_command_message

        try:
            message = make_command_message(await self.refresh(), name, argument)
        except CommandUnusable as unusable:
            raise BadArgument(str(unusable)) from unusable
        if (session := self._session.current) is not None and session.question is not None:
            raise BadArgument("A question waits for your answer; answer it first.")
        await self._send(message.text, message.command, find_mentioned_files(message.text))
        if message.notice:
            await self._session.require_session().notify_user(UserNotice(text=message.notice))


Handler = Callable[[str], Awaitable[None]]


class SlashCommandRunner:
    """Runs slash commands by name in one workspace, and the user's custom commands."""

    def __init__(
        self,
        runtime: "OpenWorkspace",
        session: "CurrentSession",
        preferences: "LiveSettings",
        connector: "ModelConnector",
        app_context: AppContext,
        chat: ChatActions,
        custom_commands: "CustomCommandRunner",
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._preferences = preferences
        self._connector = connector
        self._app_context = app_context
        self._chat = chat
        self.custom_commands = custom_commands
        self._handlers: dict[str, Handler] = {
            "quit": self._quit,
            "help": self._help,
            "keys": self._help,
            "new": self._new,
            "sessions": self._sessions,
            "search": self._search,
            "rename": self._rename,
            "todos": self._todos,
            "resume": self._resume,
            "fork": self._fork,
            "continue": self._continue,
            "model": self._model,
            "effort": self._effort,
            "theme": self._theme,
            "gate": self._gate,
            "plan": self._plan,
            "worktree": self._worktree,
            "from": self._from,
            "compact": self._compact,
            "export": self._export,
            "doctor": self._doctor,
            "verify": self._verify,
            "skills": self._skills,
            "wire": self._wire,
            "settings": self._settings,
            "interventions": self._interventions,
            "trust": self._trust,
            "mcp": self._mcp,
            "layout": self._layout,
            "wrap": self._wrap,
            "vim": self._vim,
        }

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the built-in commands."""
        return frozenset(self._handlers)

    async def run(self, name: str, argument: str = "") -> None:
        """Run a built-in or custom command.

        Raises:
            BadArgument: there is no such command, or its argument is invalid.
        """
        handler = self._handlers.get(name)
        if handler is None:
            await self.custom_commands.run(name, argument)
            return
        if argument and not COMMANDS[name].argument:
            raise BadArgument(f"/{name} takes nothing after it.")
        await handler(argument)

    # The app

    async def _quit(self, _: str) -> None:
        await self._app_context.close_app()

    async def _help(self, _: str) -> None:
        from app.ui.screens.help_screen import HelpScreen

        await self._app_context.push_screen(
            HelpScreen(self._preferences.settings.keys, self.custom_commands.catalogue)
        )

    async def _interventions(self, _: str) -> None:
        shown = not self._preferences.settings.show_interventions
        self._preferences.apply_for_this_run(show_interventions=shown)
        self._app_context.notify(
            "signoff's words to the model are shown." if shown else "signoff's words are hidden."
        )

    async def _settings(self, _: str) -> None:
        from app.ui.screens.settings_screen import SettingsScreen

        pick_theme = partial(self._theme, "")
        await self._app_context.push_screen(
            SettingsScreen(self._preferences, self._runtime, self._connector, pick_theme)
        )

    async def _trust(self, _: str) -> None:
        from app.ui.screens.trust_screen import ConfigTrustScreen, read_files_to_trust

        config = await asyncio.to_thread(read_files_to_trust, self._runtime)
        if not await self._app_context.push_screen(ConfigTrustScreen(config)):
            return
        await self.custom_commands.refresh()
        if await self._preferences.reload():
            await self._connector.switch_model(self._preferences.settings)
        await self._session.host.mcp.refresh(self._preferences.settings)

    async def _mcp(self, _: str) -> None:
        from app.ui.screens.servers_screen import McpServersScreen

        await self._app_context.push_screen(McpServersScreen(self._session.host.mcp))

    async def _theme(self, argument: str) -> None:
        name = slash_commands.parse_optional_word("theme", argument)
        if not name:
            from app.ui.screens.choice_screens import ThemePickerScreen

            picked_theme = await self._app_context.push_screen(ThemePickerScreen())
            name = picked_theme or ""
        elif name not in self._preferences.theme_names:
            raise BadArgument(f"There is no theme {name!r}; /theme lists them.")
        if name:
            self._preferences.apply_for_this_run(theme=name)
            self._preferences.save(theme=name)

    async def _layout(self, argument: str) -> None:
        layout = slash_commands.parse_optional_choice("layout", argument, ("auto", "unified", "split"))
        if not layout:
            next_layouts = {"auto": "unified", "unified": "split", "split": "auto"}
            layout = next_layouts[self._preferences.settings.layout]
        self._preferences.apply_for_this_run(layout=layout)
        self._app_context.notify(f"Diff layout: {layout}.")

    async def _wrap(self, argument: str) -> None:
        wrap = slash_commands.parse_switch("wrap", argument, self._preferences.settings.wrap)
        self._preferences.apply_for_this_run(wrap=wrap)
        self._app_context.notify("Long lines in the diff wrap." if wrap else "Long lines in the diff scroll.")

    async def _vim(self, argument: str) -> None:
        vim = slash_commands.parse_switch("vim", argument, self._preferences.settings.vim)
        self._preferences.apply_for_this_run(vim=vim)
        self._preferences.save(vim=vim)
        self._app_context.notify("Vim's keys: Escape goes to normal mode." if vim else "Vim's keys are off.")

    # Sessions

    async def _new(self, _: str) -> None:
        if await self._confirm_stopping("Start a new session", "An empty session is opened"):
            await self._chat.open_session(None)

    async def _sessions(self, _: str) -> None:
        from app.storage.process_coordination import is_session_open
        from app.ui.screens.sessions_screen import SessionPickerScreen

        session, dirs = self._session.current, self._runtime.dirs
        picked = await self._app_context.push_screen(
            SessionPickerScreen(
                self._runtime.sessions,
                session.id if session else "",
                lambda session_id: is_session_open(dirs.session_lock(session_id)),
            )
        )
        if picked is not None and await self._confirm_leaving(picked.id):
            await self._chat.open_session(picked)

    async def _search(self, argument: str) -> None:
        from app.ui.screens.sessions_screen import SessionSearchScreen

        hit = await self._app_context.push_screen(SessionSearchScreen(self._runtime.session_search, argument))
        if hit is not None and (self._is_open(hit.session) or await self._confirm_leaving(hit.session)):
            await self._chat.go_to_event(hit.session, hit.event)

    async def open_session_awaiting_user(self) -> None:
        """Open another session whose model waits for the user; if another window has it open, name it."""
        from app.runtime.model_connection import find_session_awaiting_user_reply

        session = self._session.current
        waiting_session = await asyncio.to_thread(
            find_session_awaiting_user_reply, self._runtime, session.id if session else ""
        )
        if waiting_session is None:
            self._app_context.notify("Nothing needs you in this workspace.")
        elif waiting_session.is_open:
            reason = "needs your permission" if waiting_session.wants_permission else "asks you something"
            self._app_context.notify(f"The model of “{waiting_session.title}” {reason}, in its own window.")
        elif await self._confirm_leaving(waiting_session.id):
            await self._chat.open_session(await asyncio.to_thread(self._runtime.sessions.get, waiting_session.id))

    async def _rename(self, argument: str) -> None:
        if not argument:
            raise BadArgument(f"Write {slash_commands.slash_command_usage(COMMANDS['rename'])}.")
        await asyncio.to_thread(self._runtime.sessions.rename, self._session.require_session().id, argument)
        self._app_context.notify("Renamed.")

    def _is_open(self, session_id: str) -> bool:
        session = self._session.current
        return session is not None and session.id == session_id

    async def _resume(self, argument: str) -> None:
        session_id = slash_commands.parse_optional_word("resume", argument)
        store, session = self._runtime.sessions, self._session.current
        if session_id:
            record = await asyncio.to_thread(store.get, session_id)
        else:
            earlier_sessions = [
                candidate
                for candidate in await asyncio.to_thread(store.all)
                if session is None or candidate.id != session.id
            ]
            if not earlier_sessions:
                raise BadArgument("There is no earlier session here.")
            record = earlier_sessions[0]
        if await self._confirm_leaving(record.id):
            await self._chat.open_session(record)

    async def _confirm_leaving(self, session_id: str) -> bool:
        """Return whether another session may be opened; ask if the model is at work."""
        return await self._confirm_stopping("Resume", f"Session {session_id} is opened instead of this one")

    async def _fork(self, _: str) -> None:
        session = self._session.require_session()
        if not session.log.events:
            raise BadArgument("There is nothing in this session to fork yet.")
        if not await self._confirm_stopping("Fork", "A copy of this session is opened instead"):
            return
        forked = await asyncio.to_thread(self._runtime.sessions.fork, session.id)
        await self._chat.open_session(forked)
        self._app_context.notify(f"This is a copy, {forked.id}; the original, {session.id}, stays as it was.")

    async def _confirm_stopping(self, heading: str, consequence: str) -> bool:
        """Return whether a command may stop the running turn; ask if there is one."""
        session = self._session.current
        if session is None or not session.is_busy:
            return True
        from app.ui.screens.dialog import ConfirmScreen

        question = f"The model is at work. {consequence}, and the model is stopped."
        screen: ConfirmScreen = ConfirmScreen(heading, question, f"stop and {heading.lower()}", "let it work")
        return await self._app_context.push_screen(screen) is True

    async def _export(self, argument: str) -> None:
        session, runtime = self._session.require_session(), self._runtime
        folder = runtime.workspace.root
        target = slash_commands.parse_output_path(argument, folder) or folder / f"signoff-{session.id}.md"
        if not session.log.events:
            raise BadArgument("There is nothing in this session to export yet.")
        target = await asyncio.to_thread(_find_free_path, target) if not argument else target

        def write() -> None:
            from app.runtime.review_report import export_session_as_markdown

            text = export_session_as_markdown(runtime, session.id)
            with target.open("x", encoding="utf-8") as out:
                try:
                    out.write(text)
                    out.flush()
                except OSError:
                    target.unlink()
                    raise

        try:
            await asyncio.to_thread(write)
        except FileExistsError as error:
            raise BadArgument(f"{target} exists already; name another file.") from error
        except OSError as error:
            raise BadArgument(f"{target} cannot be written: {error.strerror}.") from error
        self._app_context.notify(f"Written to {target}.")

    # The model

    async def _todos(self, _: str) -> None:
        if not self._chat.toggle_todos():
            self._app_context.notify("There is no to-do list, or all of it is done.")

    async def _continue(self, _: str) -> None:
        session = self._session.require_session()
        if session.is_busy and session.phase is not SessionPhase.RETRYING:
            raise BadArgument("The model is at work already.")
        if session.question is not None:
            raise BadArgument("A question waits for your answer; answer it to go on.")
        if not await session.resume():
            raise BadArgument("There is nothing to continue yet; write a message.")

    async def _model(self, argument: str) -> None:
        name = await self._connector.change_model(slash_commands.parse_optional_word("model", argument))
        if name:
            self._app_context.notify(f"From the next turn on: {name}.")

    async def _effort(self, argument: str) -> None:
        from app.config.config_tables import Effort

        effort = slash_commands.parse_optional_choice("effort", argument, get_args(Effort))
        settings = self._preferences.settings
        if not effort:
            now = settings.with_model_tables.reasoning_effort
            self._app_context.notify(
                f"Reasoning effort: {now}. {slash_commands.slash_command_usage(COMMANDS['effort'])}"
            )
            return
        await self._connector.switch_model(settings.with_effort(effort))
        if effort == "off":
            self._app_context.notify("From the next turn on the server chooses how much the model reasons.")
        elif self._session.host.effort == "off":
            self._app_context.notify(
                f"The server has refused {effort}; requests go without it. Run /doctor to ask for it again."
            )
        else:
            self._app_context.notify(f"From the next turn on: reasoning effort {effort}.")

    async def _gate(self, argument: str) -> None:
        policy = slash_commands.parse_optional_gate_policy(argument)
        if policy is None:
            from app.ui.screens.choice_screens import GatePolicyPickerScreen

            policy = await self._app_context.push_screen(
                GatePolicyPickerScreen(self._preferences.settings.gate, self._preferences.settings.chain_steps)
            )
            if policy is None:
                return
        kind, steps = policy
        self._preferences.apply_for_this_run(gate=kind, chain_steps=steps or self._preferences.settings.chain_steps)
        steps_text = format_count(self._preferences.settings.chain_steps, "staging step")
        self._app_context.notify(
            f"The gate closes after {'every staged edit' if kind == 'every-edit' else steps_text}."
        )

    async def _plan(self, argument: str) -> None:
        on = slash_commands.parse_switch("plan", argument, self._preferences.settings.plan)
        self._preferences.apply_for_this_run(plan=on)
        self._app_context.notify(
            "Plan mode: the model may look and run commands, and can change nothing."
            if on
            else "Plan mode is off: the model may propose edits again."
        )

    async def _compact(self, _: str) -> None:
        session = self._session.require_session()
        if session.is_busy:
            raise BadArgument("The model is at work; compact when control is back.")
        if not session.log.events:
            raise BadArgument("There is nothing to compact yet.")
        await session.compact()

    async def _worktree(self, argument: str) -> None:
        from app.runtime.git_proposals import stage_worktree_changes

        words = slash_commands.split_shell_words(argument)
        paths = [word for word in words if word != "--all"]
        staging = partial(stage_worktree_changes, self._runtime, paths, "", include_approved="--all" in words)
        await self._report_staged(*await asyncio.to_thread(staging))

    async def _from(self, argument: str) -> None:
        from app.runtime.git_proposals import stage_commits_or_pull_request

        words = slash_commands.split_shell_words(argument)
        arguments = [word for word in words if word != "--all"]
        if len(arguments) not in (1, 2):
            raise BadArgument(f"Write {slash_commands.slash_command_usage(COMMANDS['from'])}.")
        if len(arguments) == 2 or "://" in arguments[0]:
            self._app_context.notify(f"Fetching {' '.join(arguments)}…")
        staging = partial(stage_commits_or_pull_request, self._runtime, arguments, include_approved="--all" in words)
        await self._report_staged(*await asyncio.to_thread(staging))

    async def _report_staged(self, proposal: "Proposal", left_out: Sequence[str]) -> None:
        await self._session.workspace_attached.wait()
        await self._session.host.publish_proposal_changes()
        first_left_out = f" Left out: {left_out[0]}." if left_out else ""
        more_left_out = f" And {len(left_out) - 1} more." if len(left_out) > 1 else ""
        reasons = "".join(f" {entry.description}." for entry in proposal.left_out)
        self._app_context.notify(
            f"{proposal.id} waits for you: {proposal.summary}.{first_left_out}{more_left_out}{reasons}"
        )

    async def _doctor(self, _: str) -> None:
        from app.runtime.model_connection import describe_model_origin, make_endpoint
        from app.ui.screens.report_screens import EndpointDoctorScreen

        settings = self._preferences.settings
        model_origin = "" if self._session.is_demo else describe_model_origin(self._runtime, settings)
        endpoint = make_endpoint(settings, self._runtime.setting_origin, model_origin)
        overrides = settings.with_model_tables.profile_overrides
        if await self._app_context.push_screen(EndpointDoctorScreen(self._runtime, endpoint, overrides)):
            await self._connector.switch_model(self._preferences.settings)

    async def _verify(self, _: str) -> None:
        from app.runtime.git_proposals import stage_worktree_changes
        from app.ui.screens.report_screens import CommitReviewCoverageScreen

        unreviewed = await self._app_context.push_screen(CommitReviewCoverageScreen(self._runtime.workspace.root))
        if unreviewed is not None:
            staging = partial(stage_worktree_changes, self._runtime, unreviewed.paths, unreviewed.base)
            await self._report_staged(*await asyncio.to_thread(staging))

    async def _skills(self, _: str) -> None:
        from app.runtime.prompt_sources import load_skills
        from app.ui.screens.report_screens import SkillsScreen

        model_skills = self._runtime.skills
        await self._app_context.push_screen(
            SkillsScreen(await asyncio.to_thread(load_skills, self._runtime), model_skills)
        )

    async def _wire(self, _: str) -> None:
        from app.ui.screens.report_screens import LastRequestScreen, next_actions_of_last_turn

        session = self._session.require_session()
        request = session.requests.last_sent
        if request is None:
            raise BadArgument("No request has gone out since this session was opened.")
        await self._app_context.push_screen(LastRequestScreen(request, next_actions_of_last_turn(session.log.events)))


def _find_free_path(path: Path) -> Path:
    """Return the file name, with the time of day added if the file exists."""
    return path.with_stem(f"{path.stem}-{time.strftime('%H%M%S')}") if path.exists() else path

"""Finds the paths outside the workspace that a command may write or see, and those that are hidden from it."""

import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from app.sandbox.confinement import ConfiguredCommandAccess
from app.sandbox.run_folders import cache_folders

_SOCKET_TABLE = Path("/proc/net/unix")
"""The kernel's list of Unix sockets in this network namespace, with their paths (proc(5))."""
_PATH_IN_VALUE = re.compile(r"^(?:[a-z0-9+]+:)?(?:path=)?(?://)?(/[^,;:]*)")
"""The path in `/run/a.sock`, `unix:///run/a.sock`, `unix:path=/run/a,guid=0`, `/tmp/tmux-1000/default,12,0`."""


class SocketService(Struct, frozen=True):
    """A program that acts for the user through sockets, such as ssh-agent or docker: its variables and paths."""

    variables: tuple[str, ...]
    """Environment variables that hold its address, or a key to it."""
    places: tuple[str, ...] = ()
    """Its usual paths: `~` is the home, `{user}` the user's id."""


SOCKET_SERVICES: Mapping[str, SocketService] = {
    "ssh-agent": SocketService(("SSH_AUTH_SOCK",), ("~/.ssh/agent",)),
    "gpg-agent": SocketService(("GPG_AGENT_INFO",), ("~/.gnupg/S.gpg-agent", "/run/user/{user}/gnupg")),
    "x11": SocketService(("DISPLAY", "XAUTHORITY"), ("/tmp/.X11-unix", "~/.Xauthority")),
    "wayland": SocketService(("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"), ("/run/user/{user}/wayland-0",)),
    "sway": SocketService(("SWAYSOCK", "I3SOCK")),
    "dbus": SocketService(("DBUS_SESSION_BUS_ADDRESS",), ("/run/user/{user}/bus", "/run/dbus")),
    "docker": SocketService(("DOCKER_HOST",), ("/run/docker.sock", "~/.docker/run", "~/.docker/desktop")),
    "podman": SocketService(("CONTAINER_HOST",), ("/run/podman", "/run/user/{user}/podman")),
    "containerd": SocketService(("CONTAINERD_ADDRESS",), ("/run/containerd", "/run/crio")),
    "tmux": SocketService(("TMUX", "TMUX_PANE"), ("/tmp/tmux-{user}",)),
    "screen": SocketService(("STY", "SCREENDIR"), ("/run/screen", "~/.screen")),
    "zellij": SocketService(("ZELLIJ", "ZELLIJ_SOCKET_DIR", "ZELLIJ_SESSION_NAME")),
    "kitty": SocketService(("KITTY_LISTEN_ON",)),
    "wezterm": SocketService(("WEZTERM_UNIX_SOCKET", "WEZTERM_PANE"), ("~/.local/share/wezterm",)),
    "neovim": SocketService(("NVIM", "NVIM_LISTEN_ADDRESS")),
    "emacs": SocketService(
        ("EMACS_SOCKET_NAME", "EMACS_SERVER_FILE"), ("~/.emacs.d/server", "~/.config/emacs/server")
    ),
    "vscode": SocketService(("VSCODE_IPC_HOOK", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE")),
    "wsl": SocketService(("WSL_INTEROP",), ("/run/WSL",)),
}
"""The services that `command_sockets` can name."""

_SOCKET_FOLDERS = (
    *("/run/user/{user}", "/run/systemd/private", "/run/snapd.socket", "/run/libvirt"),
    *("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"),
)
_SOCKET_VARIABLES = (
    "XDG_RUNTIME_DIR",
    "GNOME_KEYRING_CONTROL",
    "SESSION_MANAGER",
    "PULSE_SERVER",
    "AT_SPI_BUS_ADDRESS",
)


def find_hidden_sockets(environment: Mapping[str, str], opened: Sequence[str]) -> list[Path]:
    """Return the resolved paths of existing sockets, and of folders of sockets, that a command must not reach.

    Args:
        environment: signoff's own environment, whose variables name sockets.
        opened: Sockets that the user opens to commands: names of `SOCKET_SERVICES`, or absolute paths.
    """
    found = [*_expand_places(_SOCKET_FOLDERS), *_paths_in_variables(environment, _SOCKET_VARIABLES), *_user_sockets()]
    for service in SOCKET_SERVICES.values():
        found += [*_paths_in_variables(environment, service.variables), *_expand_places(service.places)]
    shown = set(find_sockets_allowed_for_commands(environment, opened))
    return sorted({Path(os.path.realpath(path)) for path in found if os.path.lexists(path)} - shown)


def find_sockets_allowed_for_commands(environment: Mapping[str, str], opened: Sequence[str]) -> list[Path]:
    """Return the resolved paths of the existing sockets that the user opens to commands."""
    found: list[Path] = []
    for name in opened:
        if service := SOCKET_SERVICES.get(name):
            # XDG_RUNTIME_DIR holds the sockets of all services, so it is not opened for a single one.
            named = (name for name in service.variables if name != "XDG_RUNTIME_DIR")
            found += [*_paths_in_variables(environment, named), *_expand_places(service.places)]
        else:
            found += _expand_places((name,))
    return sorted({Path(os.path.realpath(path)) for path in found if os.path.lexists(path)})


def variables_of_services(services: Iterable[str]) -> frozenset[str]:
    """Return the variables that commands get if these services are opened."""
    return frozenset(
        variable for name in services if name in SOCKET_SERVICES for variable in SOCKET_SERVICES[name].variables
    )


def _expand_places(places: Iterable[str]) -> list[Path]:
    return [Path(place.format(user=os.getuid()) if "{user}" in place else place).expanduser() for place in places]


def _paths_in_variables(environment: Mapping[str, str], variables: Iterable[str]) -> list[Path]:
    """Return the paths that variables hold; a bare name is a file in XDG_RUNTIME_DIR."""
    found = []
    for variable in variables:
        value = environment.get(variable, "")
        if match := _PATH_IN_VALUE.match(value):
            found.append(Path(match[1]))
        elif value and "/" not in value and (folder := environment.get("XDG_RUNTIME_DIR")):
            found.append(Path(folder) / value)
    # If a variable names one of these by mistake, hiding it would hide everything in it.
    return [path for path in found if path not in (Path("/"), Path.home(), Path("/run"), Path("/tmp"))]


def _user_sockets() -> list[Path]:
    """Return the path of every socket that this user owns, or may use while some others may not.

    With sockets of the second kind, which belong to a group such as `docker`, programs of root act for the user.
    """
    try:
        lines = _SOCKET_TABLE.read_bytes().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith(b"/"):
            path = Path(os.fsdecode(fields[7]))
            try:
                facts = path.lstat()
            except OSError:
                continue
            is_for_user = facts.st_uid == os.getuid() or (
                not facts.st_mode & stat.S_IWOTH and os.access(path, os.W_OK)
            )
            if stat.S_ISSOCK(facts.st_mode) and is_for_user:
                found.append(path)
    return found


_PROC_FOLDER = ("/proc",) if os.geteuid() else ()
"""Root gets no `/proc`: root can change kernel settings there, for example the program that handles crashes."""
WRITABLE_DEVICES = tuple(map(Path, (*_PROC_FOLDER, "/dev/null", "/dev/zero", "/dev/full", "/dev/tty")))
"""Paths that may be opened for writing because that changes no file.

Not all of `/dev`, because the workspace may lie in `/dev/shm`. No terminals, because a command could write to the
user's terminal.
"""


class OutsidePathAccess(Struct, frozen=True):
    """How a command sees paths outside the workspace: writable, cached, private, shown or hidden."""

    writable: tuple[Path, ...]
    """Paths that the user lets commands write in place; an outer path comes before the paths in it."""
    caches: tuple[Path, ...]
    """Folders that commands can read, and whose changes go to a layer."""
    temporary: tuple[Path, ...]
    """Folders that are replaced by private ones."""
    shown: tuple[Path, ...]
    """Paths in temporary folders that stay visible, read-only: the home, programs, and files of a server."""
    hidden: tuple[Path, ...]
    """signoff's own folders, and sockets of other programs."""
    opened: tuple[Path, ...] = ()
    """Paths inside hidden or temporary folders that the user lets commands reach."""


def find_outside_access(
    permissions: ConfiguredCommandAccess,
    own_folders: Iterable[Path],
    *,
    can_overlay_caches: bool = True,
    environment: Mapping[str, str] = os.environ,
    files: Iterable[Path] = (),
) -> OutsidePathAccess:
    """Find the paths outside the workspace that a command sees differently.

    Args:
        permissions: The user's configuration; its writable paths are never hidden.
        own_folders: signoff's own folders, which are hidden.
        can_overlay_caches: Whether this system can mount overlays over caches.
        environment: signoff's own environment, whose variables name caches and sockets.
        files: Files of a configured program (`files_in_command`), which stay visible in temporary folders.
    """
    named = {_resolve(Path(path).expanduser()) for path in permissions.writable}
    # lexists returns False for a path in a folder that this user can't enter; Path.exists() raises.
    writable = sorted(path for path in named if os.path.lexists(path) and path != Path("/"))
    usual = {_resolve(Path(path)) for path in ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())}
    kept = {Path("/"), _resolve(Path.home()), *writable}
    temporary = sorted(path for path in usual - kept if path.is_dir())
    programs = {_resolve(Path(folder)) for folder in environment.get("PATH", "").split(os.pathsep) if folder}
    # For a virtual environment, show all of it, not only its programs.
    programs = {path.parent if os.path.lexists(path.parent / "pyvenv.cfg") else path for path in programs}
    programs.add(_resolve(Path(sys.prefix)))
    shown = {
        path
        for path in (_resolve(Path.home()), *programs)
        if os.path.lexists(path) and is_in_any_folder(path, temporary)
    }
    hidden = {_resolve(path) for path in own_folders if os.path.lexists(path)}
    hidden |= set(find_hidden_sockets(environment, permissions.sockets))
    caches = cache_folders(environment) if can_overlay_caches else []
    seen = (*(shown - set(temporary)), *writable, *caches)
    shown |= {
        path
        for path in files
        if is_in_any_folder(path, temporary)
        and not is_in_any_folder(path, seen)
        and not is_in_any_folder(path, hidden)
    }
    return OutsidePathAccess(
        tuple(writable),
        tuple(path for path in caches if not is_in_any_folder(path, writable)),
        tuple(temporary),
        tuple(sorted(shown - {*temporary, *writable})),
        tuple(sorted(hidden - set(writable))),
        tuple(find_sockets_allowed_for_commands(environment, permissions.sockets)),
    )


def files_in_command(command_line: Sequence[str], folder: Path) -> Iterator[Path]:
    """Yield the files that a command line names, also as `--option=path`, and the virtual environment of its program.

    Folders and sockets are left out: another program could create a socket in a folder.
    """
    for number, word in enumerate(command_line):
        for text in (word, word.partition("=")[2]):
            try:
                path = folder / text
                is_file = stat.S_ISREG(path.stat().st_mode)
            except (OSError, ValueError):
                continue
            if not is_file:
                continue
            around = _resolve(path.parent.parent)
            if not number and os.path.lexists(around / "pyvenv.cfg"):
                yield around
            else:
                yield _resolve(path.parent) / path.name
                yield _resolve(path)


def is_in_any_folder(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path is one of the folders or lies in one of them."""
    return any(path.is_relative_to(folder) for folder in folders)


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))

"""Hides the sockets of programs that act for the user from commands.

A command that can type into the user's display, terminal or editor, or call a bus or a container daemon, could change
files without a review. So these paths are hidden from commands: those that are known by name, those that the
environment names, and every socket of the user that the kernel lists. `command_sockets` opens single ones.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SOCKET_TABLE = Path("/proc/net/unix")
"""The kernel's list of Unix sockets of this network namespace, with the path of each that has one (proc(5))."""
_PATH_IN_VALUE = re.compile(r"^(?:[a-z0-9+]+:)?(?:path=)?(?://)?(/[^,;:]*)")
"""The path in `/run/a.sock`, `unix:///run/a.sock`, `unix:path=/run/a,guid=0`, `/tmp/tmux-1000/default,12,0`."""


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of program that acts for the user, as `command_sockets` names it."""

    variables: tuple[str, ...]
    """Environment variables with its address, or with a key to it."""
    places: tuple[str, ...] = ()
    """Its usual paths: `~` is the home, `{user}` the user's number."""


SERVICES: Mapping[str, Service] = {
    "ssh-agent": Service(("SSH_AUTH_SOCK",), ("~/.ssh/agent",)),
    "gpg-agent": Service(("GPG_AGENT_INFO",), ("~/.gnupg/S.gpg-agent", "/run/user/{user}/gnupg")),
    "x11": Service(("DISPLAY", "XAUTHORITY"), ("/tmp/.X11-unix", "~/.Xauthority")),
    "wayland": Service(("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"), ("/run/user/{user}/wayland-0",)),
    "sway": Service(("SWAYSOCK", "I3SOCK")),
    "dbus": Service(("DBUS_SESSION_BUS_ADDRESS",), ("/run/user/{user}/bus", "/run/dbus")),
    "docker": Service(("DOCKER_HOST",), ("/run/docker.sock", "~/.docker/run", "~/.docker/desktop")),
    "podman": Service(("CONTAINER_HOST",), ("/run/podman", "/run/user/{user}/podman")),
    "containerd": Service(("CONTAINERD_ADDRESS",), ("/run/containerd", "/run/crio")),
    "tmux": Service(("TMUX", "TMUX_PANE"), ("/tmp/tmux-{user}",)),
    "screen": Service(("STY", "SCREENDIR"), ("/run/screen", "~/.screen")),
    "zellij": Service(("ZELLIJ", "ZELLIJ_SOCKET_DIR", "ZELLIJ_SESSION_NAME")),
    "kitty": Service(("KITTY_LISTEN_ON",)),
    "wezterm": Service(("WEZTERM_UNIX_SOCKET", "WEZTERM_PANE"), ("~/.local/share/wezterm",)),
    "neovim": Service(("NVIM", "NVIM_LISTEN_ADDRESS")),
    "emacs": Service(("EMACS_SOCKET_NAME", "EMACS_SERVER_FILE"), ("~/.emacs.d/server", "~/.config/emacs/server")),
    "vscode": Service(("VSCODE_IPC_HOOK", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE")),
    "wsl": Service(("WSL_INTEROP",), ("/run/WSL",)),
}
"""The services that `command_sockets` can name."""

_FOLDERS = (
    *("/run/user/{user}", "/run/systemd/private", "/run/snapd.socket", "/run/libvirt"),
    *("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"),
)
_VARIABLES = ("XDG_RUNTIME_DIR", "GNOME_KEYRING_CONTROL", "SESSION_MANAGER", "PULSE_SERVER", "AT_SPI_BUS_ADDRESS")


def hidden_sockets(environment: Mapping[str, str], opened: Sequence[str]) -> list[Path]:
    """The resolved paths of existing sockets, and of folders of sockets, that a command must not reach.

    Args:
        environment: signoff's own environment, whose variables name sockets.
        opened: Sockets that the user opens to commands: names of `SERVICES`, or absolute paths.
    """
    found = [*_expanded(_FOLDERS), *_named_by(environment, _VARIABLES), *_sockets_of_user()]
    for service in SERVICES.values():
        found += [*_named_by(environment, service.variables), *_expanded(service.places)]
    shown = set(opened_sockets(environment, opened))
    return sorted({Path(os.path.realpath(path)) for path in found if os.path.lexists(path)} - shown)


def opened_sockets(environment: Mapping[str, str], opened: Sequence[str]) -> list[Path]:
    """The resolved paths of the sockets that the user opens to commands, as far as they exist."""
    found: list[Path] = []
    for name in opened:
        if service := SERVICES.get(name):
            # The runtime folder holds the sockets of all services, and is not opened for one of them.
            named = (each for each in service.variables if each != "XDG_RUNTIME_DIR")
            found += [*_named_by(environment, named), *_expanded(service.places)]
        else:
            found += _expanded((name,))
    return sorted({Path(os.path.realpath(path)) for path in found if os.path.lexists(path)})


def opened_variables(opened: Iterable[str]) -> frozenset[str]:
    """The variables that commands get with these opened services."""
    return frozenset(variable for name in opened if name in SERVICES for variable in SERVICES[name].variables)


def _expanded(places: Iterable[str]) -> list[Path]:
    return [Path(each.format(user=os.getuid()) if "{user}" in each else each).expanduser() for each in places]


def _named_by(environment: Mapping[str, str], variables: Iterable[str]) -> list[Path]:
    """The paths that variables hold; a bare name is one in the folder of the user's sockets."""
    found = []
    for variable in variables:
        value = environment.get(variable, "")
        if match := _PATH_IN_VALUE.match(value):
            found.append(Path(match[1]))
        elif value and "/" not in value and (folder := environment.get("XDG_RUNTIME_DIR")):
            found.append(Path(folder) / value)
    # A variable can name one of these by mistake; hiding it would hide everything in it.
    return [path for path in found if path not in (Path("/"), Path.home(), Path("/run"), Path("/tmp"))]


def _sockets_of_user() -> list[Path]:
    """The path of every socket on which a program of this user listens."""
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
            if stat.S_ISSOCK(facts.st_mode) and facts.st_uid == os.getuid():
                found.append(path)
    return found

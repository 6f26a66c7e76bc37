"""Runs the README's own commands as a stranger would: a new home, the system's Python, odd letters in every path.

By hand, before a release: `python3 .ci/check_newcomer.py [PYTHON]`. As root it tries root, with a `/usr/local` of its
own, and the ordinary `nobody`; else the user who calls. The machine's settings for package indexes are kept.
"""

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_KEPT = ("PIP_INDEX", "PIP_EXTRA", "PIP_FIND", "PIP_CERT", "UV_INDEX", "UV_DEFAULT", "UV_EXTRA", "UV_FIND", "SSL_")
_PATIENCE = 900
"""Seconds for one command, downloads included."""
_GREETING = b"The model proposes"
_CTRL_Q = b"\x11"


def main(python: str) -> None:
    """Raise on the first command that does not do what the README says."""
    commands = readme_commands()
    for user in ("root", "nobody") if os.geteuid() == 0 else ("",):
        with tempfile.TemporaryDirectory(prefix="signoff newcomer Zoë ") as name:
            folder = Path(name)
            home, clone = folder / "hôme", folder / "sign off"
            home.mkdir()
            subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
            (folder / "bin").mkdir()
            (folder / "bin" / "python3").symlink_to(python)
            if user == "nobody":
                folder.chmod(0o755)
                for path in (home, clone, *clone.rglob("*")):
                    shutil.chown(path, user)
            for command in commands:
                print(f"== {user or 'this user'}: {command}", flush=True)
                act(as_user(user, command), clone, environment(folder, home))
    print("A newcomer gets in.")


def readme_commands() -> list[str]:
    """What the README has a newcomer type, the demo first; of the tests, the few that need no minutes."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    demo, tests = blocks[:2]
    return [demo.strip(), f"{tests.strip()} -n0 -q tests/hygiene"]


def environment(folder: Path, home: Path) -> dict[str, str]:
    """Nothing of the caller's but where packages come from."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color"}


def as_user(user: str, command: str) -> list[str]:
    """The command line that runs `command` as `user`; root's in a mount namespace where /usr/local is its own."""
    shell = ["sh", "-c", command]
    if user == "root":
        return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /usr/local && {shlex.join(shell)}"]
    return ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *shell] if user else shell


def act(command: list[str], folder: Path, variables: dict[str, str]) -> None:
    """Run `command` on a terminal, leave the app with Ctrl+Q once it greets, and have it end well."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, variables)
    seen, until = b"", time.monotonic() + _PATIENCE
    greeted = False
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
        if not greeted and _GREETING in seen:
            greeted = True
            os.write(terminal, _CTRL_Q)
    else:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code or ("--demo" in command[-1] and not greeted):
        sys.exit(f"ended with {code}:\n{seen.decode(errors='replace')[-4000:]}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/python3")

"""Run the commands of the README as a new user: new home folder, system Python, unusual letters in every path.

By hand, before a release: `python3 .ci/check_newcomer.py [PYTHON]`. If root runs it, it tries root, with an empty
`/usr/local`, and the ordinary user `nobody`; otherwise the current user. The machine's settings for package indexes
are used.
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
_PACKAGE_INDEX_VARIABLES = (
    "PIP_INDEX",
    "PIP_EXTRA",
    "PIP_FIND",
    "PIP_CERT",
    "UV_INDEX",
    "UV_DEFAULT",
    "UV_EXTRA",
    "UV_FIND",
    "SSL_",
)
_MAX_SECONDS = 900
"""Maximum number of seconds for one command, including downloads."""
_GREETING = b"The model proposes"
_CTRL_Q = b"\x11"


def main(python: str) -> None:
    """Exit with an error at the first command that does not work as the README says."""
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
                run_in_terminal(as_user(user, command), clone, environment(folder, home))
    print("All commands of the README work.")


def readme_commands() -> list[str]:
    """Return the README's commands for new users, the demo first; of the tests only a quick folder."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    demo, tests = blocks[:2]
    return [demo.strip(), f"{tests.strip()} -n0 -q tests/hygiene"]


def environment(folder: Path, home: Path) -> dict[str, str]:
    """Return the environment: only the package index settings of the caller are passed on."""
    index_settings = {name: value for name, value in os.environ.items() if name.startswith(_PACKAGE_INDEX_VARIABLES)}
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return {**index_settings, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color"}


def as_user(user: str, command: str) -> list[str]:
    """Return the command that runs `command` as `user`; for root, in a mount namespace with an empty `/usr/local`."""
    shell = ["sh", "-c", command]
    if user == "root":
        return ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /usr/local && {shlex.join(shell)}"]
    return ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *shell] if user else shell


def run_in_terminal(command: list[str], folder: Path, variables: dict[str, str]) -> None:
    """Run `command` in a terminal and press Ctrl+Q when the app shows its greeting; exit if it fails."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, variables)
    seen, deadline = b"", time.monotonic() + _MAX_SECONDS
    greeted = False
    while time.monotonic() < deadline:
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

"""Makes a repository of a bench, and runs git in it."""

import subprocess
from pathlib import Path

from tests.unit.proposals.bench import Bench


def git(root: Path, *arguments: str, given: str | bytes | None = None) -> bytes:
    named = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")
    data = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
    done = subprocess.run(["git", "-C", str(root), *named, *arguments], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def repository(site: Bench) -> None:
    """Make a repository of a bench, in which the user has a name."""
    git(site.root, "init", "--quiet")
    with (site.root / ".git/config").open("a") as file:
        file.write("[user]\n\tname = A\n\temail = a@example.org\n")
    git(site.root, "add", "--all")
    git(site.root, "commit", "--quiet", "--message", "start")

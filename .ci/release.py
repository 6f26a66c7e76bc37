"""Make a release: `python3 .ci/release.py VERSION [--tested]`, in a clean clone of the main branch.

Runs `.ci/run`, the marathon tests and `check_newcomer.py`, unless `--tested` says that they have passed. Then it
writes the version and the date of the changelog's section, builds wheel and sdist into `dist/`, tries both with
`uvx`, and finally commits and tags. It does not push or publish: its last lines show the commands for this.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = ROOT / "app" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
DIST = ROOT / "dist"


def main() -> None:
    """Make the release; after an error, restore the version file and the changelog."""
    parser = argparse.ArgumentParser(
        description="Make a release: version, changelog, wheel, sdist, trial, commit, tag."
    )
    parser.add_argument(
        "version", metavar="VERSION", help="for example 0.3.0; the changelog must have a section with this name"
    )
    parser.add_argument("--tested", action="store_true", help="skip the tests, which have passed on this commit")
    options = parser.parse_args()
    version: str = options.version
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        parser.error("VERSION must have three numbers, for example 0.3.0")
    if output("git", "status", "--porcelain"):
        sys.exit("The work tree has changes: commit them first.")
    if output("git", "tag", "--list", f"v{version}"):
        sys.exit(f"The tag v{version} already exists.")
    if not options.tested:
        run(".ci/run")
        run("uv", "run", "pytest", "-m", "marathon")
        run("python3", ".ci/check_newcomer.py")
    before = {path: path.read_text(encoding="utf-8") for path in (VERSION_FILE, CHANGELOG)}
    try:
        VERSION_FILE.write_text(with_version(before[VERSION_FILE], version), encoding="utf-8")
        CHANGELOG.write_text(with_date(before[CHANGELOG], version, datetime.date.today()), encoding="utf-8")
        build(version)
        for archive in sorted(DIST.iterdir()):
            try_out(archive, version)
    except BaseException:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        raise
    run("git", "commit", "--quiet", "-m", f"Release {version}", "--", *map(str, before))
    run("git", "tag", "--annotate", f"v{version}", "-m", f"signoff {version}")
    print(f"\nRelease {version} is committed and tagged. To publish it:")
    print(f"  git push origin HEAD v{version}\n  uv publish dist/*")


def with_version(text: str, version: str) -> str:
    """Return the module with another `__version__`."""
    changed, count = re.subn(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', text)
    if count != 1:
        sys.exit(f"{VERSION_FILE} does not have one __version__.")
    return changed


def with_date(text: str, version: str, day: datetime.date) -> str:
    """Return the changelog with the date in the heading of the version that was unreleased."""
    changed, count = re.subn(rf"(?m)^## \[{re.escape(version)}\] - unreleased$", f"## [{version}] - {day}", text)
    if count != 1:
        sys.exit(f"CHANGELOG.md has no heading `## [{version}] - unreleased`.")
    return changed


def build(version: str) -> None:
    """Build wheel and sdist into an empty `dist/`."""
    shutil.rmtree(DIST, ignore_errors=True)
    run("uv", "build", "--quiet", "--out-dir", str(DIST))
    (DIST / ".gitignore").unlink(missing_ok=True)
    names = sorted(path.name for path in DIST.iterdir())
    if names != [f"signoff-{version}-py3-none-any.whl", f"signoff-{version}.tar.gz"]:
        sys.exit(f"dist/ holds {', '.join(names)}.")


def try_out(archive: Path, version: str) -> None:
    """Run the archive with `uvx` as a new user would: `--version`, and a turn of the demo model."""
    with tempfile.TemporaryDirectory(prefix="signoff-release-") as name:
        folder = Path(name)
        sample = ROOT / "app" / "demo" / "sample_files"
        shutil.copytree(
            sample, folder / "work", copy_function=lambda file, copy: shutil.copy(file, copy.removesuffix(".txt"))
        )
        variables = {**os.environ, "SIGNOFF_HOME": str(folder / "home")}
        command = ("uvx", "--isolated", "--from", str(archive), "signoff")
        reported = output(*command, "--version", cwd=folder / "work", environment=variables).strip()
        if reported != f"signoff {version}":
            sys.exit(f"{archive.name} reports the version {reported!r}.")
        turn = ("run", "--demo", "--json", "fix the failing tests")
        staged = output(*command, *turn, cwd=folder / "work", environment=variables)
        if '"stopped": "staged"' not in staged:
            sys.exit(f"{archive.name} staged nothing:\n{staged}")
    print(f"{archive.name} works with uvx.")


def run(*command: str) -> None:
    """Run a command in the repository; exit if it fails."""
    if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"{' '.join(command)} ended with {code}.")


def output(*command: str, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its standard output; exit if it fails."""
    done = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}.")
    return done.stdout


if __name__ == "__main__":
    main()

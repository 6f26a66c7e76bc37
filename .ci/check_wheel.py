"""Build the wheel and use it as a new user would: in an empty environment, in a project that has a package `app`.

Checks that the wheel has one import name, that `signoff --version` works, and that a headless turn with the demo
model stages a proposal that can be approved.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Raise at the first error."""
    with tempfile.TemporaryDirectory(prefix="signoff-wheel-") as name:
        folder = Path(name)
        run("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder / "dist"), str(ROOT))
        (wheel,) = (folder / "dist").glob("*.whl")
        check_names(wheel)
        command = install(wheel, folder / "environment")
        project = hostile_project(folder / "project")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SIGNOFF_HOME": str(folder / "home"),
            "PYTHONPATH": str(project),
        }
        print(run(*command, "--version", cwd=project, environment=environment).strip())
        turn = json.loads(
            run(*command, "run", "--demo", "--json", "fix the failing tests", cwd=project, environment=environment)
        )
        assert turn["stopped"] == "staged", turn
        run(*command, "approve", turn["proposals"][0], cwd=project, environment=environment)
        assert "minutes=50" in (project / "tideline" / "moon.py").read_text()
    print("The wheel works.")


def check_names(wheel: Path) -> None:
    """Check that `signoff` is the only top-level name, and that all data files of the app are included."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"signoff"}, tops
    for needed in (
        "__main__.py",
        "_bundle/app/cli/main.py",
        "_bundle/app/demo/words.toml",
        "_bundle/themes/signoff-dark.toml",
    ):
        assert f"signoff/{needed}" in names, needed
    assert any("sample_files" in name for name in names)
    print("import names:", ", ".join(sorted(tops)))


def install(wheel: Path, folder: Path) -> list[str]:
    """Create an environment that contains only the wheel; return the command."""
    venv.create(folder)
    python = folder / "bin" / "python"
    run("uv", "pip", "install", "--quiet", "--python", str(python), str(wheel))
    return [str(folder / "bin" / "signoff")]


def hostile_project(folder: Path) -> Path:
    """Create the sample project of the demo, with packages that have the same names as ours."""
    sample = ROOT / "app" / "demo" / "sample_files"
    shutil.copytree(sample, folder, copy_function=lambda file, copy: shutil.copy(file, copy.removesuffix(".txt")))
    for package in ("app", "widgets", "themes"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("raise RuntimeError('the project was imported')\n")
    return folder


def run(*command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return its standard output."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()

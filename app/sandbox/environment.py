"""The environment of programs that signoff runs: an allow-list of the user's variables, without secrets.

Other variables may hold a key, or the address of a program that acts for the user (the socket of an editor or a
terminal). The user can add variables for commands in `command_environment`.

Programs that run without a layer are found outside the workspace, and so are their libraries. With an activated
environment PATH begins with a folder of it, such as `.venv/bin`, and LD_LIBRARY_PATH often with `build/lib`; git
ignores these folders, so commands of the model write to them.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from app.sandbox.process import MARKER_VARIABLE

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH_?KEY|_KEY$|_PAT$|_PW$|^PG_?PASS"
    r"|(?:^|_|SSH)PASS(?:$|_)|[A-Z]_PWD$|(?:^|_)DSN(?:$|_)|(?:^|_)AUTH(?:$|_(?!SOCK))|COOKIE|WEBHOOK|SESSION_?(?:ID|KEY)$"
    r"|^(?:OPENAI|ANTHROPIC|AWS|AZURE|GOOGLE|GEMINI|MISTRAL|GROQ|OPENROUTER|HF|HUGGINGFACE|SIGNOFF)_"
)
_SECRET_VALUE = re.compile(
    r"(?i:^(?:proxy-)?authorization:)|://[^/\s:@]*:[^/\s@]+@|https?://[^/\s@]+@|://[^/\s]*(?:hooks\.slack|discord(?:app)?)\.com/|/webhooks?/"
    r"|^(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|eyJ[\w-]+\.eyJ)\w|-----BEGIN [A-Z ]*PRIVATE KEY"
)
OWN_KEYS = frozenset({"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SIGNOFF_API_KEY"})
"""Variables with the API keys of signoff's own endpoints; no program gets them."""
_NEVER_SECRET_NAMES = frozenset({"XDG_SESSION_ID", "PWD", "OLDPWD"})
_PASSED_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "PWD", "OLDPWD", "SHLVL"),
        *("HOSTNAME", "HOSTTYPE", "OSTYPE", "MACHTYPE", "COLUMNS", "LINES", "EDITOR", "VISUAL", "MANPATH"),
        *("INFOPATH", "CI", "SOURCE_DATE_EPOCH", "FORCE_COLOR", "PKG_CONFIG_PATH", "http_proxy", "https_proxy"),
        *("ftp_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY"),
        *("NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("GIT_SSL_CAINFO", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS"),
        *("XDG_STATE_HOME", "XDG_CACHE_HOME", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CC", "CXX", "CPP", "LD"),
        *("AR", "AS", "NM", "RANLIB", "STRIP", "OBJCOPY", "FC", "F77", "CFLAGS", "CXXFLAGS", "CPPFLAGS"),
        *("LDFLAGS", "FFLAGS", "LDLIBS", "ARFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
        *("LIBRARY_PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "MAKE", "MAKEFLAGS", "MFLAGS"),
        *("GCC_EXEC_PREFIX", "MSYSTEM", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "DEVELOPER_DIR", "IN_NIX_SHELL"),
    }
)
"""Names of the variables that a command gets."""
_PASSED_PREFIXES = (
    *("LC_", "PYTHON", "PIP_", "UV_", "POETRY_", "PDM_", "PIPENV_", "PIPX_", "HATCH_", "CONDA_", "MAMBA_"),
    *("PYENV_", "PYTEST_", "COVERAGE_", "TOX_", "NOX_", "RYE_", "NODE_", "NPM_CONFIG_", "npm_config_"),
    *("NVM_", "FNM_", "VOLTA_", "COREPACK_", "PNPM_", "YARN_", "BUN_", "DENO_", "CARGO_", "RUST", "GOROOT"),
    *("GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOPRIVATE", "GONOPROXY"),
    *("GONOSUMDB", "GOSUMDB", "GOENV", "GOOS", "GOARCH", "GOARM", "GOAMD64", "GOTOOLCHAIN", "GOWORK"),
    *("GODEBUG", "GOEXPERIMENT", "GOTMPDIR", "GO111MODULE", "CGO_", "JAVA_", "JDK_", "MAVEN_", "M2_"),
    *("MVN_", "GRADLE_", "ANT_", "KOTLIN_", "SBT_", "SCALA_", "SDKMAN_", "ANDROID_", "FLUTTER_", "PUB_"),
    *("DOTNET_", "NUGET_", "MSBUILD", "RUBY", "GEM_", "BUNDLE_", "RBENV_", "RVM_", "rvm_", "PERL", "PHP_"),
    *("COMPOSER_", "LUA_", "JULIA_", "R_LIBS", "GHC", "CABAL_", "STACK_", "OPAM", "OCAML", "CAML_", "ERL_"),
    *("ELIXIR_", "MIX_", "HEX_", "REBAR_", "ZIG_", "SWIFT_", "EMSDK", "EM_", "CMAKE_", "CTEST_", "MESON_"),
    *("NINJA_", "BAZEL", "CCACHE_", "SCCACHE_", "CONAN_", "VCPKG_", "PKG_CONFIG_", "CUDA_", "ROCM_"),
    *("OMP_", "OPENBLAS_", "MKL_", "MISE_", "ASDF_", "HOMEBREW_", "NIX_", "GUIX_", "GIT_CONFIG_"),
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "PRE_COMMIT_"),
)
"""Prefixes of further variables that a command gets: of languages, their tools, and locales."""
_DESKTOP_NAMES = frozenset(
    {"DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}
)
"""Variables that a program needs to show a notification."""
_TERMINAL_NAMES = frozenset({"PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "XDG_SESSION_ID", MARKER_VARIABLE})
_GIT_SETTING_NAMES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_COUNT")
_CODE_STARTING_NAMES = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND"})
"""Variables that make a shell run code that the user has not approved."""

_PLAIN_OUTPUT_SETTINGS = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Settings that stop programs from printing colours, starting a pager and asking questions."""


def command_environment(
    environment: Mapping[str, str], marker: str, extra_variables: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables that a command may see: known ones without secrets, extra ones, and a marker.

    Args:
        environment: signoff's own environment.
        marker: Unique text that identifies the processes of this command.
        extra_variables: Names of further variables to pass on, even if they hold secrets; a `*` at the end makes a
            name a prefix.
    """
    passed = {name: value for name, value in environment.items() if _is_passed(name, value, extra_variables)}
    return {**_renumber_git_settings(passed), **_PLAIN_OUTPUT_SETTINGS, MARKER_VARIABLE: marker}


def _renumber_git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without those of git's settings of which a part was left out: git fails on a gap."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    renumbered = {name: value for name, value in environment.items() if not name.startswith(_GIT_SETTING_NAMES)}
    kept = 0
    for number in range(min(int(count), len(environment)) if count.isdecimal() else 0):
        key, value = (environment.get(f"{name}{number}") for name in _GIT_SETTING_NAMES[:2])
        if key is not None and value is not None:
            renumbered |= {f"GIT_CONFIG_KEY_{kept}": key, f"GIT_CONFIG_VALUE_{kept}": value}
            kept += 1
    return renumbered | ({"GIT_CONFIG_COUNT": str(kept)} if kept else {})


def command_environment_digest(environment: Mapping[str, str], extra_variables: Collection[str] = ()) -> str:
    """Return the SHA-256 of a command's variables and of the system; what differs between terminals is left out.

    Args:
        extra_variables: As for `command_environment`.
    """
    variables = command_environment(environment, "", extra_variables)
    lines = (f"{name}={value}" for name, value in sorted(variables.items()) if name not in _TERMINAL_NAMES)
    system = os.uname()
    text = "\0".join((system.sysname, system.release, system.machine, *lines))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def configured_program_environment(environment: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return a command's variables plus those of the desktop, for a program that the user configured."""
    return command_environment(environment, marker, _DESKTOP_NAMES)


def _is_passed(name: str, value: str, named: Collection[str]) -> bool:
    if name in OWN_KEYS:
        return False
    if any(name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])) for pattern in named):
        return True
    known = name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)
    return known and name not in _CODE_STARTING_NAMES and not is_secret_variable(name, value)


def remove_signoff_api_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return all variables except signoff's API keys, for git's credential helpers, which need other secrets."""
    return {name: value for name, value in environment.items() if name not in OWN_KEYS}


def add_git_settings_for_overlay(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, changed so that git works on an overlay.

    git then finds a repository above the workspace, where the overlay ends, and doesn't refresh the index. It
    compares only sizes and times of files, because an overlay changes inodes.
    """
    count = environment.get("GIT_CONFIG_COUNT", "0")
    number = int(count) if count.isdecimal() else 0
    return {
        **environment,
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(number + 1),
        f"GIT_CONFIG_KEY_{number}": "core.checkStat",
        f"GIT_CONFIG_VALUE_{number}": "minimal",
    }


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether a variable's name or value looks like a key, a password or a token."""
    if name in _NEVER_SECRET_NAMES:
        return False
    return _SECRET_NAME.search(name.upper()) is not None or _SECRET_VALUE.search(value) is not None


_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables with the folders in which programs and their libraries are found."""


def absolute_search_path(environment: Mapping[str, str], root: Path | None = None, variable: str = "PATH") -> str:
    """Return a search path without relative folders, which may be in the workspace.

    Args:
        root: The workspace: its folders are left out too. The root folder of the system contains all programs, so
            nothing is left out for it.
    """
    workspace = None if root is None or root == Path(root.anchor) else root.resolve()
    folders = map(Path, environment.get(variable, os.defpath).split(os.pathsep))
    return os.pathsep.join(
        str(folder)
        for folder in folders
        if folder.is_absolute() and (workspace is None or not folder.resolve().is_relative_to(workspace))
    )


def environment_without_workspace(root: Path) -> dict[str, str]:
    """Return signoff's environment without search paths into the workspace `root`."""
    return without_search_paths_into({"PATH": os.defpath, **os.environ}, root)


def without_search_paths_into(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the environment, changed so that no program or library inside the workspace `root` is found."""
    given = (name for name in _SEARCH_PATHS if name in environment)
    return {**environment, **{name: absolute_search_path(environment, root, name) for name in given}}


def find_program_outside_workspace(name: str, root: Path) -> str | None:
    """Return the full path of a program from an absolute folder in PATH outside the workspace; None if not found.

    Args:
        name: A name without a slash.
    """
    return shutil.which(name, path=absolute_search_path(os.environ, root))

"""Which files look like secrets, so that the model sees their contents only after the user has said yes.

Names first, contents second: a name can tell before anything is read. The lists err towards asking.
"""

import re
from fnmatch import fnmatchcase, translate

_HARMLESS = (".example", ".sample", ".template", ".dist", ".defaults", ".pub")
"""Endings of files that show the form of a secret without holding one."""

_NAMES = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.p8",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.ovpn",
    "*.asc",
    "*.gpg",
    "*.tfstate",
    "*.tfstate.backup",
    "*.tfvars",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    ".*_history",
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    ".dockercfg",
    "credentials",
    "credentials.*",
    "*credentials.json",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "secret.*",
    "secrets.*",
    "master.key",
    "auth.json",
    "token.json",
)
_SECRET_NAME = re.compile("|".join(translate(pattern) for pattern in _NAMES))
_SOURCES = (
    ".py",
    ".pyi",
    ".js",
    ".ts",
    ".tsx",
    ".jsx",
    ".go",
    ".rs",
    ".java",
    ".rb",
    ".c",
    ".h",
    ".md",
    ".rst",
    ".html",
)
"""Endings of code and prose: `secrets.py` is a module, not a secret."""
_FOLDERS = {".ssh": "*", ".aws": "*", ".gnupg": "*", ".kube": "config", ".docker": "config.json", "gh": "hosts.yml"}
"""Folders of credentials, and which names in them."""
_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?$", re.MULTILINE)
_TOKEN_FILES = {
    ".npmrc": re.compile(rb"_auth(?:Token)?\s*=|_password\s*=", re.IGNORECASE),
    ".yarnrc.yml": re.compile(rb"npmAuth(?:Token|Ident)\s*:", re.IGNORECASE),
    ".pypirc": re.compile(rb"^[ \t]*password[ \t]*[=:]", re.IGNORECASE | re.MULTILINE),
    "pip.conf": re.compile(rb"://[^/\s:]*:[^/\s@]*@"),
}
"""Files of settings that hold a token in some repositories, and what gives that away."""
_LOOKED_AT = 64 * 1024
"""Bytes of a file that are searched for a private key."""


def secret_reason(path: str, content: bytes | None = None) -> str:
    """Why the file looks like a secret, in a few words for the user; empty if it doesn't.

    Args:
        path: A workspace path.
        content: The bytes, where they are known: needed to tell a token in `.npmrc` or a private key in any file.
    """
    return _reason_by_name(path) or ("" if content is None else _reason_by_content(path, content))


def _reason_by_name(path: str) -> str:
    *folders, name = path.casefold().split("/")
    if name.endswith(_HARMLESS):
        return ""
    for folder in folders:
        if folder in _FOLDERS and fnmatchcase(name, _FOLDERS[folder]):
            return f"it is in {folder}"
    if not name.endswith(_SOURCES) and _SECRET_NAME.match(name):
        return "its name is one that secrets have"
    return ""


def _reason_by_content(path: str, content: bytes) -> str:
    token = _TOKEN_FILES.get(path.casefold().rpartition("/")[2])
    if token is not None and token.search(content):
        return "it has a password or token in it"
    if _PRIVATE_KEY.search(content, 0, _LOOKED_AT):
        return "it has a private key in it"
    return ""

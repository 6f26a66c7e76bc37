"""Which files look like secrets, so that the model sees their contents only after the user has said yes.

Names first, contents second: a name can tell before anything is read. Both err towards asking.
"""

import re

from app.workspace.secret_names import NameKind, folder_of_secrets, kind_of_name

_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----\r?$", re.MULTILINE)
_LOOKED_AT = 64 * 1024
"""Bytes of a file that are searched for a private key."""
_CREDENTIAL = re.compile(
    rb"passw|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|_auth|authident"
    rb"|credential|bearer |connectionstring|://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE,
)
"""What a line of settings has that holds a secret."""
_ELSEWHERE = re.compile(
    rb"\$\{[^}]{0,200}\}|\$\([^)]{0,200}\)|\{\{[^}]{0,200}\}\}|<%[^%]{0,200}%>|%\w{1,200}%|\$\w{1,200}"
    rb"|env\([^)]{0,200}\)|(?:process\.|\b)env(?:\.\w{1,200}|\[[^\]]{0,200}\])",
    re.IGNORECASE,
)
"""A value that is taken from a variable or a template."""
_NO_VALUE = re.compile(rb"""[\w."'\]\- ]*[:=>]+\s*(?:["']?(?:null|true|false)\b|["',;{\[]*\s*(?:<|$))""")
"""What follows the name of a secret that has no value, or one on other lines."""
_LINE = 1000
"""Bytes in which a value begins."""
_COMMENT = (b"#", b";", b"<!--")
_BARE = re.compile(rb"[\w+/.-]{4,}={0,2}")
"""A word alone on its line is no setting: in a file of settings it may be anything."""
_PUBLIC = re.compile(
    rb"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE(?: REQUEST)?|X509 CRL|(?:RSA )?PUBLIC KEY|PGP PUBLIC KEY BLOCK"
    rb"|PGP SIGNATURE|DH PARAMETERS)-----[^-]*-----END \1-----\s*"
)


def secret_reason(path: str, content: bytes | None = None) -> str:
    """Why the file looks like a secret, in a few words for the user; empty if it doesn't.

    Args:
        path: A workspace path.
        content: The bytes, where they are known: needed to tell settings with a token from others without one,
            certificates from keys, and a private key in any file. Unknown, they are taken for a secret.
    """
    if (reason := certain_reason(path)) and not (content is not None and _is_public(content)):
        return reason
    if content is not None and _has_private_key(content):
        return "it has a private key in it"
    if kind_of_name(path.rpartition("/")[2]) is not NameKind.POSSIBLE:
        return ""
    if content is None:
        return "files of its name often have a password or token in them"
    return "it has a password or token in it" if _has_credential(content) else ""


def certain_reason(path: str) -> str:
    """Why the file looks like a secret, by its path alone; empty where that does not tell."""
    if folder := folder_of_secrets(path):
        return f"it is in {folder}"
    if kind_of_name(path.rpartition("/")[2]) is NameKind.CERTAIN:
        return "its name is one that secrets have"
    return ""


def _has_private_key(content: bytes) -> bool:
    # The search for a text is many times as fast, and most files have none.
    return b"PRIVATE KEY" in content[:_LOOKED_AT] and _PRIVATE_KEY.search(content, 0, _LOOKED_AT) is not None


def _is_public(content: bytes) -> bool:
    """Whether there is nothing in it but certificates, public keys and signatures."""
    at = len(content) - len(content.lstrip())
    found = None
    while at < len(content):
        found = _PUBLIC.match(content, at)
        if found is None:
            return False
        at = found.end()
    return found is not None


def _has_credential(content: bytes) -> bool:
    """Whether a file of settings holds a secret, or is none."""
    if b"\0" in content:
        return True
    for line in content.splitlines():
        if line.lstrip().startswith(_COMMENT):
            continue
        line = _ELSEWHERE.sub(b"", line).strip()
        if _BARE.fullmatch(line) or any(_has_value(line, found) for found in _CREDENTIAL.finditer(line)):
            return True
    return False


def _has_value(line: bytes, found: re.Match[bytes]) -> bool:
    rest = line[found.end() : found.end() + _LINE]
    return found[0].startswith(b"://") or _NO_VALUE.match(rest) is None

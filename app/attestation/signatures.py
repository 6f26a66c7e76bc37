"""Sign and verify statements with the programs that git signs with: `ssh-keygen -Y` and `gpg`."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import gmtime, strftime

from app.attestation.statement import NAMESPACE
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed, run_git

COMMIT_NAMESPACE = "git"
"""Of the signatures that git makes of commits."""
_SECONDS = 120.0
"""How long a signature may take: a hardware key waits for a touch, an agent may ask for a passphrase."""
_LITERAL = "key::"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The user's signing key, as git is configured."""

    format: str
    """`ssh` or `openpgp`."""
    key: str
    """For ssh a path or `key::` with the public key; for gpg what `--local-user` takes, or nothing."""


def find_signing_key(borrowed: BorrowedRepository) -> SigningKey | None:
    """Return the key that git is set to sign with; None if it is set to none."""
    kind = borrowed.setting("gpg.format") or "openpgp"
    key = borrowed.setting("user.signingkey")
    if not key or kind not in ("ssh", "openpgp"):
        return None
    return SigningKey(kind, key)


def sign(data: bytes, key: SigningKey) -> bytes:
    """Return the armored signature of bytes; raises GitFailed with the program's own words."""
    if key.format == "openpgp":
        return _run(["gpg", "--armor", "--detach-sign", "--local-user", key.key], data)
    with tempfile.TemporaryDirectory(prefix="signoff-key-") as folder:
        name, in_agent = key.key, False
        if name.startswith((_LITERAL, "ssh-", "ecdsa-", "sk-")):
            # A public key itself: the private one is in the agent.
            file = Path(folder, "key.pub")
            file.write_text(name.removeprefix(_LITERAL) + "\n", encoding="utf-8")
            name, in_agent = str(file), True
        path = str(Path(name).expanduser())
        return _run(["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", path, *(["-U"] if in_agent else [])], data)


def read_user_allowed_signers() -> bytes:
    """Return the allowed signers of the user's own git configuration; empty if it names none.

    A repository's configuration has no say in it: it may have come with the repository.
    """
    environment = {**os.environ, "GIT_DIR": os.devnull}
    for scope in ("--global", "--system"):
        try:
            said = run_git(
                Path("/"), ["config", scope, "--type=path", "--get", "gpg.ssh.allowedSignersFile"], environment
            )
            return Path(os.fsdecode(said.rstrip(b"\n"))).read_bytes()
        except GitFailed:
            continue
        except OSError as error:
            raise GitFailed(f"{error.filename}, git's allowed signers, cannot be read ({error.strerror}).") from error
    return b""


class SignatureVerifier:
    """Verifies signatures against keys that are allowed; keeps nothing but two temporary files.

    Args:
        allowed_signers: Lines as ssh-keygen(1) describes under ALLOWED SIGNERS.
        gpg_keys: Fingerprints of gpg keys in the user's keyring.
        time: When an SSH key must be valid, Unix time in seconds. It is the verifier's to say: what a commit or
            a statement says of its time, whoever made it could choose.
    """

    def __init__(self, allowed_signers: bytes, gpg_keys: Sequence[str], time: float) -> None:
        # In UTC, as `_finished` has it: OpenSSH before 9.1 takes no time zone.
        self._when = f"-Overify-time={strftime('%Y%m%d%H%M%S', gmtime(time))}"
        self._allowed = allowed_signers
        self._gpg_keys = {key.replace(" ", "").upper() for key in gpg_keys}

    def find_signer(self, data: bytes, signature: bytes, namespace: str = NAMESPACE) -> tuple[str, str]:
        """Return the principal whose key signed these bytes, and the key's id; empty if no allowed key did.

        Args:
            signature: Armored.
            namespace: Which the SSH signature must be for.
        """
        if signature.startswith(b"-----BEGIN PGP SIGNATURE-----"):
            return self._gpg_signer(data, signature)
        with tempfile.TemporaryDirectory(prefix="signoff-verify-") as name:
            allowed, file = Path(name, "allowed"), Path(name, "signature")
            allowed.write_bytes(self._allowed)
            file.write_bytes(signature)
            common = ["-f", str(allowed), "-s", str(file), self._when]
            found = _answer(["ssh-keygen", "-Y", "find-principals", *common], b"")
            for principal in dict.fromkeys(found.splitlines()):
                said = _answer(["ssh-keygen", "-Y", "verify", "-n", namespace, "-I", principal, *common], data)
                if said.startswith("Good "):
                    return principal, said.split()[-1]
        return "", ""

    def _gpg_signer(self, data: bytes, signature: bytes) -> tuple[str, str]:
        with tempfile.TemporaryDirectory(prefix="signoff-verify-") as name:
            content, file = Path(name, "data"), Path(name, "signature")
            content.write_bytes(data)
            file.write_bytes(signature)
            quiet = ("--batch", "--no-tty", "--no-auto-key-retrieve", "--status-fd", "1")
            said = _answer(["gpg", *quiet, "--verify", str(file), str(content)], b"")
        # doc/DETAILS of GnuPG: an expired or revoked key gives EXPKEYSIG or REVKEYSIG and no GOODSIG. One signature
        # alone, so that what is told of one is never taken for another's.
        words = [line.removeprefix("[GNUPG:] ").split() for line in said.splitlines()]
        if [line[0] for line in words if line[:1] and line[0] in _GPG_RESULTS] != ["GOODSIG"]:
            return "", ""
        for line in words:
            if line[:1] == ["VALIDSIG"] and (
                key := next((k for k in (line[1], line[-1]) if k in self._gpg_keys), "")
            ):
                return f"gpg:{key}", key
        return "", ""


_GPG_RESULTS = frozenset({"GOODSIG", "BADSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "ERRSIG"})


def _answer(command: Sequence[str], data: bytes) -> str:
    """Return the output of a verifying program; empty if it rejects the signature."""
    done = _finished(command, data)
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def _run(command: Sequence[str], data: bytes) -> bytes:
    done = _finished(command, data)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(f"{command[0]} says: {said[-1] if said else f'it ended with {done.returncode}'}")
    return done.stdout


def _finished(command: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        # Prompts for a passphrase or a touch go to the terminal, or to the agent's own window.
        environment = {**os.environ, "TZ": "UTC"}
        return subprocess.run(
            command, input=data, capture_output=True, env=environment, timeout=_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise GitFailed(f"{command[0]} is not installed; signatures need it.") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"{command[0]} took longer than {_SECONDS:.0f} s; nothing was signed.") from error

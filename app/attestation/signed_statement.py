"""The signed statement about reviews: an in-toto statement in a DSSE envelope, signed and verified as git does.

Envelope: https://github.com/secure-systems-lab/dsse/blob/master/envelope.md, with the signed bytes (PAE) of its
protocol.md. Statement: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md. docs/verify.md
describes the predicate, which is signoff's. The programs are the same as git's: `ssh-keygen -Y` and `gpg`.
"""

import base64
import binascii
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import gmtime, strftime
from typing import Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import GitFailed, read_user_git_setting
from app.proposals.text.diff import diff_lines
from app.proposals.values.record_entries import git_blob_id

PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"
PREDICATE_TYPE: Literal["urn:signoff:review:v1"] = "urn:signoff:review:v1"
NAMESPACE = "review@signoff"
"""Namespace of SSH signatures; signatures for another purpose, for example of commits, are not accepted."""
_CONTEXT_LINES = 3
"""Number of context lines in each digest of a hunk."""
_BINARY_CHECK_BYTES = 8_000
"""Bytes that are checked to distinguish binary from text, as in git."""


class UnreadableStatement(ValueError):
    """An envelope or a statement cannot be read."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class ReviewedFile(_StrictModel):
    """A file that a review approved."""

    path: str
    """From the top of the repository, as a POSIX path."""
    base: str = ""
    """The git blob before; empty if there was no file."""
    result: str = ""
    """The git blob after; empty if the file was removed."""
    base_mode: str = ""
    """Git's mode before, for example `100644`; empty if unknown."""
    result_mode: str = ""
    hunks: tuple[tuple[str, ...], ...] = ()
    """The digests of each text hunk, if the contents were still available when it was signed."""


class ReviewedProposalOrigin(_StrictModel):
    """The author of the proposed change."""

    kind: str
    agent: str = ""
    model: str = ""


class ReviewCheckResult(_StrictModel):
    """The result of a check at the time of a review's decision."""

    name: str
    state: str
    words: str = ""
    stale: str = ""
    """Why the result was not for the reviewed content; empty if it was."""


class ReviewHunkTestEvidence(_StrictModel):
    """Whether tests noticed that a hunk was left out, if they ran before the decision."""

    path: str
    hunk: int
    """The hunk's number."""
    verdict: str
    """`held`, `load`, `unnoticed`, `red`, `green`, `flaky` or `not_run`; docs/evidence.md explains them."""
    tests: tuple[str, ...] = ()
    """Some of the tests that hold it, or are red."""
    check: str = ""
    """The check whose tests ran."""


class SignedApproval(_StrictModel):
    """A person's approval of a proposal, as a signed statement holds it: files, hunks and checks, no comments."""

    reviewer: str
    """`NAME <EMAIL>` from git's configuration; only the signature proves the identity."""
    time: int = Field(ge=0, lt=1 << 40)
    """Unix time in seconds."""
    result: str = Field(pattern="^(approved|partly_approved|redone)$")
    """The decision in the record."""
    proposal: str
    origin: ReviewedProposalOrigin
    files: tuple[ReviewedFile, ...]
    approved: tuple[int, ...] = ()
    """Numbers of the approved hunks."""
    hunks: int = 0
    """Number of hunks in the proposal."""
    edited: tuple[str, ...] = ()
    """Files in which the reviewer had changed the proposed text."""
    unseen_lines: int | None = Field(default=None, ge=0)
    """Changed lines that were never on the screen; None if this was not recorded."""
    checks: tuple[ReviewCheckResult, ...] = ()
    evidence: tuple[ReviewHunkTestEvidence, ...] = ()
    entry: int
    """The number of the entry in the reviewer's record; 0 for an approved change that was not written to disk."""
    previous: str
    """The SHA-256 of the previous entry of the record."""


class ReviewPredicate(_StrictModel):
    """The in-toto predicate: the reviews of the subjects."""

    repository: tuple[str, ...]
    """The root commits of the repository; before them the name in the policy, if there is one."""
    reviews: tuple[SignedApproval, ...]


class _StatementSubject(_StrictModel):
    name: str
    digest: dict[str, str]


class ReviewStatement(_StrictModel):
    """An in-toto statement whose subjects are the reviewed blobs."""

    kind: Literal["https://in-toto.io/Statement/v1"] = Field(default="https://in-toto.io/Statement/v1", alias="_type")
    subject: tuple[_StatementSubject, ...]
    predicate_type: Literal["urn:signoff:review:v1"] = PREDICATE_TYPE
    predicate: ReviewPredicate


class EnvelopeSignature(_StrictModel):
    """A signature over the payload."""

    keyid: str = ""
    sig: str
    """Base64 of the armored signature of ssh-keygen or gpg."""

    @property
    def armored(self) -> bytes:
        """Return the decoded signature. Raises UnreadableStatement."""
        return _decode_base64(self.sig)


class Envelope(_StrictModel):
    """A DSSE envelope."""

    payload: str
    payload_type: Literal["application/vnd.in-toto+json"] = PAYLOAD_TYPE
    signatures: tuple[EnvelopeSignature, ...] = Field(min_length=1, max_length=16)

    @property
    def signed_bytes(self) -> bytes:
        """Return the bytes that were signed. Raises UnreadableStatement."""
        return pre_authentication_encoding(_decode_base64(self.payload))


def make_statement(repository: Sequence[str], reviews: Sequence[SignedApproval]) -> bytes:
    """Return the statement about these reviews, as the payload of an envelope."""
    named = {(file.path, file.result or file.base): file for review in reviews for file in review.files}
    statement = ReviewStatement(
        subject=tuple(_StatementSubject(name=path, digest={"gitBlob": blob}) for path, blob in named),
        predicate=ReviewPredicate(repository=tuple(repository), reviews=tuple(reviews)),
    )
    return statement.model_dump_json(by_alias=True).encode()


def make_envelope(payload: bytes, signature: bytes) -> bytes:
    """Return an envelope with one signature as a line of JSON."""
    signed = EnvelopeSignature(sig=base64.b64encode(signature).decode())
    encoded = base64.b64encode(payload).decode()
    envelope = Envelope(payload=encoded, signatures=(signed,))
    return envelope.model_dump_json(by_alias=True).encode() + b"\n"


def read_envelope(data: bytes) -> tuple[Envelope, ReviewPredicate]:
    """Return an envelope and its predicate, without checking signatures. Raises UnreadableStatement."""
    try:
        envelope = Envelope.model_validate_json(data, by_name=False)
        statement = ReviewStatement.model_validate_json(_decode_base64(envelope.payload), by_name=False)
    except ValidationError as error:
        raise UnreadableStatement("it is no statement of a review") from error
    if not {"kind", "predicate_type"} <= statement.model_fields_set:
        raise UnreadableStatement("it does not say what it states")
    return envelope, statement.predicate


def pre_authentication_encoding(payload: bytes) -> bytes:
    """Return the bytes that are signed for a payload: DSSE's PAE."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def file_version_note_id(path: str, blob: str, algorithm: str) -> str:
    """Return the id of the note with the reviews of a file version, in the form of a git blob id."""
    return git_blob_id(b"file\0%s\0%s" % (path.encode("utf-8", "surrogateescape"), blob.encode()), algorithm)


def make_base_independent_hunk_digests(
    path: str, base: bytes, result: bytes, algorithm: str
) -> list[tuple[int, tuple[str, ...]]]:
    """Return each hunk's first line in `result` and its digests, which are the same on any base.

    The digests identify a hunk on another base. Each one is a git blob id of the path, the removed and the added
    lines, and three context lines: three before, or two before and one after, and so on. Each line is preceded by its
    sign and its length in bytes. After a rebase, one of the digests is still equal if three successive context lines
    are unchanged. Binary content has no hunks.
    """
    if b"\0" in base[:_BINARY_CHECK_BYTES] or b"\0" in result[:_BINARY_CHECK_BYTES]:
        return []
    old, new = base.splitlines(keepends=True), result.splitlines(keepends=True)
    name = path.encode("utf-8", "surrogateescape")
    found = []
    for change in diff_lines(old, new):
        body = _lines_with_sign_and_length("-", old[change.old_start : change.old_end])
        body += _lines_with_sign_and_length("+", new[change.new_start : change.new_end])
        digests = []
        for after in range(_CONTEXT_LINES + 1):
            lead = _lines_with_sign_and_length(
                " ", old[max(0, change.old_start - _CONTEXT_LINES + after) : change.old_start]
            )
            trail = _lines_with_sign_and_length(" ", old[change.old_end : change.old_end + after])
            text = b"hunk %d\0%s\0%s\0%s\0%s" % (after, name, lead, body, trail)
            digests.append(git_blob_id(text, algorithm))
        found.append((change.new_start + 1, tuple(digests)))
    return found


def _lines_with_sign_and_length(sign: str, lines: Iterable[bytes]) -> bytes:
    """Return lines with sign and length; the length separates a last line without line end from the next part."""
    return b"".join(b"%s%d %s" % (sign.encode(), len(line), line) for line in lines)


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnreadableStatement("it is not Base64") from error


COMMIT_NAMESPACE = "git"
"""Namespace of git's signatures of commits."""
_SIGNING_SECONDS = 120.0
"""Time limit of a signature in seconds: a hardware key waits for a touch, an agent may ask for a passphrase."""
_LITERAL_KEY_PREFIX = "key::"


class SigningKey(Struct, frozen=True):
    """The user's signing key from git's configuration."""

    format: str
    """`ssh` or `openpgp`."""
    key: str
    """For ssh, a path or `key::` with the public key; for gpg, the value of `--local-user`."""


def find_signing_key(borrowed: ObjectBorrowingRepository) -> SigningKey | None:
    """Return the signing key that git is configured with; None if there is none."""
    kind = borrowed.setting("gpg.format") or "openpgp"
    key = borrowed.setting("user.signingkey")
    if not key or kind not in ("ssh", "openpgp"):
        return None
    return SigningKey(kind, key)


def sign(data: bytes, key: SigningKey, environment: Mapping[str, str]) -> bytes:
    """Return the armored signature of bytes.

    Args:
        environment: The environment of the signing program; its PATH locates the program.

    Raises:
        GitFailed: The message is the program's.
    """
    if key.format == "openpgp":
        return _run_signing_program(["gpg", "--armor", "--detach-sign", "--local-user", key.key], data, environment)
    with tempfile.TemporaryDirectory(prefix="signoff-key-") as folder:
        name, in_agent = key.key, False
        if name.startswith((_LITERAL_KEY_PREFIX, "ssh-", "ecdsa-", "sk-")):
            # A literal public key: the private key is in the agent.
            file = Path(folder, "key.pub")
            file.write_text(name.removeprefix(_LITERAL_KEY_PREFIX) + "\n", encoding="utf-8")
            name, in_agent = str(file), True
        path = str(Path(name).expanduser())
        return _run_signing_program(
            ["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", path, *(["-U"] if in_agent else [])],
            data,
            environment,
        )


def read_user_allowed_signers(environment: Mapping[str, str]) -> bytes:
    """Return the allowed signers of the user's own git configuration; empty if it names none. Raises GitFailed.

    Args:
        environment: Locates git and the configuration.
    """
    name = read_user_git_setting("gpg.ssh.allowedSignersFile", environment, "--type=path")
    try:
        return Path(name).read_bytes() if name else b""
    except OSError as error:
        raise GitFailed(f"{name}, git's allowed signers, cannot be read ({error.strerror}).") from error


class SignatureVerifier:
    """Verifies signatures against allowed keys; writes only temporary files.

    Args:
        allowed_signers: Lines in the format of ssh-keygen(1), section ALLOWED SIGNERS.
        gpg_keys: Fingerprints of gpg keys in the user's keyring.
        time: Time at which SSH keys must be valid, in Unix seconds. The verifier chooses it, because the author of a
            commit or a statement can write any time into it.
        environment: The environment of ssh-keygen and gpg; its PATH locates them.
    """

    def __init__(
        self, allowed_signers: bytes, gpg_keys: Sequence[str], time: float, environment: Mapping[str, str]
    ) -> None:
        self._environment = environment
        # In UTC, because OpenSSH before 9.1 supports no time zone; `_run_program` sets TZ.
        self._verify_time_option = f"-Overify-time={strftime('%Y%m%d%H%M%S', gmtime(time))}"
        self._allowed_signers = allowed_signers
        self._gpg_keys = {key.replace(" ", "").upper() for key in gpg_keys}

    def find_signer(self, data: bytes, signature: bytes, namespace: str = NAMESPACE) -> tuple[str, str]:
        """Return the principal whose key signed these bytes, and the key's id; empty if no allowed key did.

        Args:
            signature: The armored signature.
            namespace: The required namespace of an SSH signature.
        """
        if signature.startswith(b"-----BEGIN PGP SIGNATURE-----"):
            return self._gpg_signer(data, signature)
        with tempfile.TemporaryDirectory(prefix="signoff-verify-") as name:
            allowed, file = Path(name, "allowed"), Path(name, "signature")
            allowed.write_bytes(self._allowed_signers)
            file.write_bytes(signature)
            common = ["-f", str(allowed), "-s", str(file), self._verify_time_option]
            found = _verification_output(["ssh-keygen", "-Y", "find-principals", *common], b"", self._environment)
            for principal in dict.fromkeys(found.splitlines()):
                said = _verification_output(
                    ["ssh-keygen", "-Y", "verify", "-n", namespace, "-I", principal, *common], data, self._environment
                )
                if said.startswith("Good "):
                    return principal, said.split()[-1]
        return "", ""

    def _gpg_signer(self, data: bytes, signature: bytes) -> tuple[str, str]:
        with tempfile.TemporaryDirectory(prefix="signoff-verify-") as name:
            content, file = Path(name, "data"), Path(name, "signature")
            content.write_bytes(data)
            file.write_bytes(signature)
            quiet = ("--batch", "--no-tty", "--no-auto-key-retrieve", "--status-fd", "1")
            said = _verification_output(["gpg", *quiet, "--verify", str(file), str(content)], b"", self._environment)
        # doc/DETAILS of GnuPG: an expired or revoked key prints EXPKEYSIG or REVKEYSIG and no GOODSIG. Accept only a
        # single result, so that the status of one signature is not taken for another's.
        words = [line.removeprefix("[GNUPG:] ").split() for line in said.splitlines()]
        if [line[0] for line in words if line[:1] and line[0] in _GPG_STATUS_WORDS] != ["GOODSIG"]:
            return "", ""
        for line in words:
            if line[:1] == ["VALIDSIG"] and (
                key := next((k for k in (line[1], line[-1]) if k in self._gpg_keys), "")
            ):
                return f"gpg:{key}", key
        return "", ""


_GPG_STATUS_WORDS = frozenset({"GOODSIG", "BADSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "ERRSIG"})


def _verification_output(command: Sequence[str], data: bytes, environment: Mapping[str, str]) -> str:
    """Return the output of a verifying program; empty if it rejects the signature."""
    done = _run_program(command, data, environment)
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def _run_signing_program(command: Sequence[str], data: bytes, environment: Mapping[str, str]) -> bytes:
    done = _run_program(command, data, environment)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(f"{command[0]} says: {said[-1] if said else f'it ended with {done.returncode}'}")
    return done.stdout


def _run_program(
    command: Sequence[str], data: bytes, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    try:
        # Prompts for a passphrase or a touch go to the terminal, or to the agent's own window.
        in_utc = {**environment, "TZ": "UTC"}
        return subprocess.run(
            command, input=data, capture_output=True, env=in_utc, timeout=_SIGNING_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise GitFailed(f"{command[0]} is not installed; signatures need it.") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"{command[0]} took longer than {_SIGNING_SECONDS:.0f} s; nothing was signed.") from error

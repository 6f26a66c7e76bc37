"""Reviews that gpg signed, as git is set to."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tests.commands.test_verify import POLICY, Project, keys, project

__all__ = ["keys", "project"]
pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")


def gpg(*words: str, data: bytes = b"") -> bytes:
    return subprocess.run(["gpg", "--batch", "--quiet", *words], input=data, capture_output=True, check=True).stdout


LONG_AGO = ("--faked-system-time", "20200102T000000")


def make_key(name: str, *, expired: bool = False) -> str:
    """Return the fingerprint of a new key without a passphrase."""
    when = LONG_AGO if expired else ()
    identity = f"{name} <{name}@x.org>"
    gpg(*when, "--passphrase", "", "--quick-gen-key", identity, "ed25519", "sign", "1d" if expired else "never")
    listed = gpg("--with-colons", "--list-keys", f"{name}@x.org").decode().splitlines()
    return next(line.split(":")[9] for line in listed if line.startswith("fpr:"))


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The agent's socket lies in it, whose path must be short.
    with tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("GNUPGHOME", folder)
        yield
        subprocess.run(["gpgconf", "--kill", "all"], capture_output=True, check=False)


def set_up(project: Project, key: str, allowed: str) -> None:
    """Have a key sign, and another, or the same, allowed."""
    project.git("config", "gpg.format", "openpgp")
    project.git("config", "user.signingkey", key)
    project.set_policy(f'repository = "example"\ngpg_keys = ["{allowed}"]\n')


def test_a_gpg_signature_of_an_allowed_key_is_accepted(project: Project, keyring: None) -> None:
    key = make_key("ann")
    set_up(project, key, " ".join(key[at : at + 4] for at in range(0, 40, 4)).lower())
    project.replace("line 3", "three")
    code, said = project.verify()
    assert code == 0, said
    assert f"reviewed by gpg:{key}" in said
    project.set_policy(POLICY)
    project.replace("line 5", "five")
    assert project.verify()[0] == 3


def test_an_expired_key_is_refused_even_beside_a_good_one(project: Project, keyring: None) -> None:
    good, allowed = make_key("eve"), make_key("ann", expired=True)
    set_up(project, good, allowed)
    project.replace("line 3", "three")
    for both in (False, True):

        def sign(data: bytes, both: bool = both) -> bytes:
            signed = gpg(*LONG_AGO, "--detach-sign", "-u", allowed, data=data)
            signed = (gpg("--detach-sign", "-u", good, data=data) if both else b"") + signed
            return gpg("--enarmor", data=signed).replace(b"PGP ARMORED FILE", b"PGP SIGNATURE")

        project.forge(lambda statement: None, sign)
        code, said = project.verify()
        assert code == 3, said
        assert "no allowed key signed it" in said

"""Which files are asked for before a model sees them."""

import pytest

from app.workspace.secrets import secret_reason


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".ENV",
        "deploy/.env.production",
        "prod.env",
        "certs/server.pem",
        "server.KEY",
        "id_rsa",
        ".ssh/id_ed25519",
        ".ssh/config",
        ".aws/credentials",
        ".kube/config",
        ".docker/config.json",
        ".netrc",
        ".pgpass",
        "credentials.json",
        "gcp/my-credentials.json",
        "client_secret_123.json",
        "secrets.yaml",
        "infra/terraform.tfstate",
        "prod.tfvars",
        "keys.kdbx",
        ".git-credentials",
        ".htpasswd",
    ],
)
def test_names_that_are_asked_for(path: str) -> None:
    assert secret_reason(path)


@pytest.mark.parametrize(
    "path",
    [
        "app/secrets.py",
        "docs/credentials.md",
        ".env.example",
        ".env.sample",
        "id_rsa.pub",
        "environment.py",
        "monkey.txt",
        "keyboard.json",
        "src/token.ts",
        "docker/config.json",
        ".npmrc",
        ".pypirc",
        "README.md",
    ],
)
def test_names_that_are_not(path: str) -> None:
    assert not secret_reason(path)


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (".npmrc", b"registry=https://example.invalid\n", False),
        (".npmrc", b"//example.invalid/:_authToken=abc\n", True),
        (".pypirc", b"[pypi]\nusername = x\n", False),
        (".pypirc", b"[pypi]\n  password: abc\n", True),
        ("pip.conf", b"index-url = https://me:abc@example.invalid\n", True),
        ("notes", b"x\n-----BEGIN PRIVATE KEY-----\nabc\n", True),
        ("notes", b"x\r\n-----BEGIN EC PRIVATE KEY-----\r\nabc\r\n", True),
        ("notes", b"we look for -----BEGIN PRIVATE KEY----- lines\n", False),
        ("cert", b"-----BEGIN CERTIFICATE-----\nabc\n", False),
    ],
)
def test_contents(path: str, content: bytes, expected: bool) -> None:
    assert bool(secret_reason(path, content)) is expected

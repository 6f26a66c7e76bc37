"""Which files are asked for before a model sees them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.workspace import paths
from app.workspace.path_rules import windows_path_problem
from app.workspace.paths import Workspace
from app.workspace.secrets import secret_reason

LEAKY_REPO = """
.bash_profile .bashrc .docker/.dockercfg .docker/config.json .esmtprc .ftpconfig .git-credentials
.idea/WebServers.xml .mozilla/firefox/key4.db .mozilla/firefox/logins.json .netrc .npmrc .remote-sync.json
.ssh/id_rsa .vscode/sftp.json cloud/.credentials cloud/.s3cfg cloud/.tugboat cloud/heroku.json db/.pgpass
db/dbeaver-data-sources.xml db/dump.sql db/mongoid.yml db/robomongo.json deployment-config.json etc/shadow
filezilla/filezilla.xml filezilla/recentservers.xml hub misc-keys/cert-key.pem misc-keys/putty-example.ppk
proftpdpasswd sftp-config.json ventrilo_srv.ini web/js/salesforce.js web/ruby/config/master.key
web/ruby/secrets.yml web/var/www/.env web/var/www/public_html/.htpasswd web/var/www/public_html/config.php
web/var/www/public_html/wp-config.php
"""
"""Files of a repository by which scanners for secrets are compared, but for those that only their content tells."""
COPIES = """
{}~ {}.~1~ {}.bak {}.BAK {}.old {}.orig {}.save {}.swp {}.tmp {}.rej {}.txt {}.1 {}.bak2 {}-backup {}_old
{}.2024-01-31 {}.20240131 {}.rpmsave {}.dpkg-old {}.bak~ {}.
"""


SECRETS = """
.env .ENV deploy/.env.production prod.env certs/server.pem server.KEY id_rsa .ssh/id_ed25519 .ssh/config
.aws/credentials .kube/config .docker/config.json .netrc .pgpass credentials.json gcp/my-credentials.json
client_secret_123.json secrets.yaml infra/terraform.tfstate prod.tfvars keys.kdbx .git-credentials .htpasswd
.pypirc kubeconfig dev.kubeconfig cluster/kubeconfig.yaml .dev.vars .s3cfg .boto .yarnrc.yml .npmrc nuget.config
wp-config.php LocalSettings.php config/local_settings.py local.settings.json http-client.private.env.json
gha-creds-0123456789abcdef.json app-firebase-adminsdk-x1y2z-0123456789.json android/key.properties
config/prod.secret.exs config/initializers/secret_token.rb .vault_pass.txt api-keys.yml db-credentials.yaml
k8s/db-secret.yaml wg0.conf .authinfo .msmtprc .circleci/cli.yml gcloud/legacy_credentials/me/adc.json
.subversion/auth/svn.simple/0123 home/.ssh/work server.pkcs12 example.com.pem example.org.key deploy_rsa
ssh_host_ed25519_key build.keytab etc/gshadow- root/.bash_history .config/gh/hosts.yml
"""
HIDDEN = [".e\u200bnv", "\ufeff.env", ".env\u2060", ".en\u00adv", "id\u200d_rsa", ".env\ufe0f", "\u202e.env"]
"""Secrets with invisible characters in their names."""
NO_SECRETS = """
app/secrets.py docs/credentials.md .env.example .env.sample id_rsa.pub environment.py monkey.txt keyboard.json
src/token.ts docker/config.json README.md .env.local.example .env-sample example.env .env.example~ .env.dist
wp-config-sample.php local.settings.example.json secrets.example.yaml credentials.json.template
kubeconfig.sample.yaml secrets.yaml.j2 id_ed25519.pub env.d.ts passwords.py password.html kubeconfig.go
token_test.go secrets.tf locale/de/passwords.po utf-8 settings.py package.json yarn.lock dune config.toml
config/app.php ssh/config src/gh/hosts.ts
"""


def test_secret_names_are_recognised_despite_invisible_characters() -> None:
    wide = ["\u3164.env", ".\uff45\uff4e\uff56", "\uff0eenv", "kube\u200bconfig~", ".s\u200bsh/config"]
    for path in (*SECRETS.split(), *LEAKY_REPO.split(), *HIDDEN, *wide):
        assert secret_reason(path), ascii(path)
    for path in NO_SECRETS.split():
        assert not secret_reason(path), path


@pytest.mark.parametrize("secret", [".env", "credentials", "id_rsa", "wp-config.php", "certs/server.key", ".npmrc"])
def test_a_copy_has_the_name_of_what_it_is_a_copy_of(secret: str) -> None:
    folder, _, name = secret.rpartition("/")
    for copy in (*COPIES.split(), "{} ", "{} copy", "{} - Copy", "{} (1)", "#{}#", ".#{}", ".{}.swp"):
        assert secret_reason(f"{folder}/{copy.format(name)}"), copy


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (".npmrc", b"registry=https://example.invalid\n", False),
        (".npmrc", b"//example.invalid/:_authToken=abc\n", True),
        (".npmrc", b"//example.invalid/:_authToken=${NPM_TOKEN}\n", False),
        (".npmrc", b"; _authToken=abc\nsave-exact=true\n", False),
        (".npmrc", b"hunter2\n", True),
        (".npmrc", b"\0", True),
        (".yarnrc.yml", b"nodeLinker: node-modules\nyarnPath: .yarn/releases/yarn-4.1.0.cjs\n", False),
        (".yarnrc.yml", b"npmScopes:\n  me:\n    npmAuthToken: abc\n", True),
        (".yarnrc.yml", b'npmScopes:\n  me:\n    npmAuthToken: "${TOKEN}"\n', False),
        (".yarnrc.yml.bak", b"npmAuthToken: abc\n", True),
        ("nuget.config", b'<add key="ClearTextPassword" value="abc" />\n', True),
        ("nuget.config", b"<configuration>\n  <packageSources>\n    <clear />\n  </packageSources>\n", False),
        ("config/database.yml", b"production:\n  password: <%= ENV['PASSWORD'] %>\n", False),
        ("config/database.yml", b"production:\n  password: abc\n", True),
        ("appsettings.json", b'{\n  "ConnectionStrings": {\n    "Main": "Server=a;Password=b"\n  }\n}\n', True),
        ("appsettings.json", b'{\n  "Logging": {\n    "Level": "Debug"\n  }\n}\n', False),
        ("ca.pem", b"-----BEGIN CERTIFICATE-----\nabc=\n-----END CERTIFICATE-----\n", False),
        ("ca.pem", b"-----BEGIN CERTIFICATE-----\nabc=\n-----END CERTIFICATE-----\nhunter2\n", True),
        ("ca.pem", b"-----BEGIN CERTIFICATE-----\nabc=\n-----END PUBLIC KEY-----\n", True),
        ("ca.pem", b"", True),
        (".env", b"", True),
        ("ca.key", b"-----BEGIN PUBLIC KEY-----\nabc=\n-----END PUBLIC KEY-----\n", False),
        ("release.asc", b"-----BEGIN PGP SIGNATURE-----\n\nabc\n=x\n-----END PGP SIGNATURE-----\n", False),
        ("secret.asc", b"-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n", True),
        ("notes", b"-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n", True),
        ("pip.conf", b"index-url = https://me:abc@example.invalid\n", True),
        ("notes", b"x\n-----BEGIN PRIVATE KEY-----\nabc\n", True),
        ("notes", b"x\r\n-----BEGIN EC PRIVATE KEY-----\r\nabc\r\n", True),
        ("notes", b"we look for -----BEGIN PRIVATE KEY----- lines\n", False),
        ("cert", b"-----BEGIN CERTIFICATE-----\nabc\n", False),
    ],
)
def test_contents(path: str, content: bytes, expected: bool) -> None:
    assert bool(secret_reason(path, content)) is expected


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    root.mkdir()
    (root / ".env").write_text("KEY=1\n")
    os.link(root / ".env", root / "notes.txt")
    (root / "other.txt").touch()
    return Workspace(root)


def test_a_hard_link_to_a_secret_is_recognised_and_a_file_with_one_name_looked_for_nowhere(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workspace.find_secret_hard_link("notes.txt") == ".env"

    def walk(top: object) -> Iterator[tuple[str, list[str], list[str]]]:
        raise AssertionError(top)

    monkeypatch.setattr(os, "walk", walk)
    assert workspace.find_secret_hard_link("other.txt") == workspace.find_secret_hard_link(".") == ""


def test_the_search_for_hard_links_is_bounded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_MAX_SCANNED_NAMES", 1)
    (workspace.root / "sub/deep").mkdir(parents=True)
    (workspace.root / "notes.txt").rename(workspace.root / "sub/notes.txt")
    (workspace.root / ".env").rename(workspace.root / "sub/deep/.env")
    for number in range(5):
        os.link(workspace.root / "sub/deep/.env", workspace.root / f"sub/deep/.env.{number}")
    assert workspace.find_secret_hard_link("sub/notes.txt") == ""


def test_a_path_that_is_too_deep_does_not_hide_a_hard_link(workspace: Workspace) -> None:
    here = os.open(workspace.root, os.O_RDONLY)
    length = len(os.fsencode(workspace.root))
    while length < 4_090:
        name = "d" * min(200, 4_094 - length - 1)
        os.mkdir(name, dir_fd=here)
        deeper = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, length = deeper, length + 1 + len(name)
    os.close(os.open(".env.production", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert workspace.find_secret_hard_link("notes.txt") == ".env"


def test_a_missing_path_is_nothing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.link(workspace.root / ".env", tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert workspace.find_secret_hard_link("gone/key") == ""
    assert (workspace.resolve("gone/link"), workspace.kind("gone/key")) == ("gone/link", "missing")
    for read in (workspace.read, workspace.read_with_mode):
        with pytest.raises(FileNotFoundError, match="gone/key does not exist"):
            read("gone/key")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("CON", "device"),
        ("con/x.py", "device"),
        ("src/NUL.txt", "device"),
        ("nul.tar.gz", "device"),
        ("Aux .c", "device"),
        ("com1", "device"),
        ("PRN.log", "device"),
        ("LPT\u00b9.log", "device"),
        ("CONIN$", "device"),
        ("nul:x", "device"),
        ("x:stream", "hidden stream of the file 'x'"),
        ("a/x.py::$DATA", "hidden stream"),
        ("trailing ", "same file as 'trailing'"),
        ("dots...", "same file as 'dots'"),
        ("folder./x", "same file as 'folder'"),
        ("what?.md", "no name can have ?"),
    ],
)
def test_names_with_another_meaning_on_windows_are_refused(path: str, said: str) -> None:
    assert said in windows_path_problem(path)


def test_ordinary_names_are_accepted() -> None:
    for path in ("console.py", "null", "a.con", "com10", "lpt", ".env", "a b.c", "aux-1/x", "prn_x"):
        assert windows_path_problem(path) == ""

"""Detect files that look like secrets, which the model may read only after the user has agreed.

The name is checked first, because that needs no read, then the content. In doubt, both ask the user.
"""

import re
from collections.abc import Iterable
from enum import Enum
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from app.workspace.path_rules import normalize_file_name

_COPY_SUFFIX = re.compile(
    r"(?:~|\.?~\d+~|[._-](?:bak|backup|bk|bkp|old|orig|original|save|saved|sav|sw[a-p]|tmp|temp|copy|prev|previous|rej"
    r"|txt|rpm(?:save|new|orig)|dpkg-(?:old|new|dist)|pac(?:new|save)|[0-9]{1,14}|[0-9]{4}-[0-9]{2}-[0-9]{2})[0-9]?"
    r"| (?:- )?copy| \([0-9]{1,3}\))\Z"
)
"""Endings of copies that editors, people and package managers make."""
_MAX_NAME_CHARACTERS = 255


def _split_patterns(table: str) -> tuple[str, ...]:
    return tuple(table.split())


_KEY_PATTERNS = _split_patterns(
    """
    *.pem *.key *.p8 *.pk8 *.p12 *.pfx *.pkcs12 *.pvk *.snk *.jks *.jceks *.bks *.keystore *.keyring *.keytab *.ppk
    *.asc *.gpg *.agekey *.kdb *.kdbx *.psafe3 *.1pif *.agilekeychain *.opvault *.keychain *.keychain-db *.kwallet
    *.wallet *.ovpn *.tblk *.nmconnection *.rdp *.cscfg *.publishsettings *.bek *.tpm *.fve *.kubeconfig *.rkestate
    id_rsa* id_dsa* id_ecdsa* id_ed25519* *_rsa *_dsa *_ecdsa *_ed25519 ssh_host_*_key otr.private_key
    encrypted_data_bag_secret wallet.dat utc--* priv_validator_key.json secring.* key3.db key4.db
    """
)
"""Key material: `example` in the name does not make it harmless, because it is often part of a host name."""

_CERTAIN_PATTERNS = _split_patterns(
    """
    .env .env[-_.0-9]* *.env env.local env.prod* *.private.env.json .envrc .dev.vars .dev.vars.* .renviron
    *.secret.exs .netrc _netrc netrc *.netrc .authinfo .git-credentials .gitcookies .hub hub .gitrobrc .pypirc
    .pause .httr-oauth *.tfstate *.tfstate.backup *.tfvars *.tfvars.json .terraformrc terraform.rc
    credentials.tfrc.json .pgpass pgpass pgpass.conf .my.cnf .mylogin.cnf .mongorc.js .mongoshrc.js
    .dbeaver-data-sources.xml dbeaver-data-sources.xml data-sources.local.xml robomongo.json favorites.plist
    dump.sql *.sqldump .*_history bash_history zsh_history sh_history mysql_history psql_history irb_history
    .histfile .viminfo .htpasswd htpasswd .htdigest proftpdpasswd passwd- shadow shadow- gshadow gshadow- opasswd
    smbpasswd .smbpasswd .smbcredentials .dockercfg dockercfg .dockerconfigjson kubeconfig .kubeconfig
    kubeconfig[-_.]* *[-_.]kubeconfig *[-_.]kubeconfig.y*ml kube_config*.y*ml k3s.yaml talosconfig .s3cfg s3cfg
    .boto boto boto.cfg .passwd-s3fs passwd-s3fs .tugboat .trc heroku.json kaggle.json .wakatime.cfg
    application_default_credentials.json accesstokens.json msal_token_cache.* azureprofile.json local.settings.json
    *.pubxml.user *.azurepubxml connectionstrings.config gha-creds-*.json *firebase-adminsdk*.json oauth_creds.json
    client_secret* client-secret* service-account*.json service_account*.json serviceaccount*.json credentials
    .credentials *.credentials credentials.* *[-_.]credentials.* *credentials.json *credentials.xml creds creds.*
    *[-_.]creds.* secret .secret *.secret secret.* .secrets secrets secrets.* secret_key secret_key.* secret_token.rb
    secret_token.* secret-key* .secret_key *[-_.]secret.y*ml *[-_.]secrets.y*ml *[-_.]secret.json *[-_.]secrets.json
    *[-_.]secrets.toml *[-_.]secret.properties *[-_.]secrets.properties hudson.util.secret initialadminpassword
    password password.* passwords passwords.* .password .passwords .passwd vault_pass* .vault_pass* vault-pass*
    .vault-pass* .vault-token vault-token vault-keys* .token token token.* access_token* refresh_token* .api_key
    api_key* api-key* apikey* auth.json auth.toml wp-config*.php localsettings.php local_settings.py
    settings_local.py knife.rb jenkins.plugins.publish_over_ssh.bapsshpublisherplugin.xml key.properties
    keystore.properties signing.properties .ftpconfig .ftppass sftp-config.json sftp.json .remote-sync.json
    deployment-config.json webservers.xml filezilla.xml recentservers.xml sitemanager.xml winscp.ini ws_ftp.ini
    ventrilo_srv.ini .msmtprc .esmtprc .fetchmailrc .offlineimaprc .mbsyncrc wpa_supplicant.conf wg[0-9].conf
    chap-secrets pap-secrets ipsec.secrets logins.json *recovery-codes*.txt passwords.csv lastpass*.csv
    bitwarden*.json
    """
)
"""Files whose purpose is to hold secrets, and files that usually hold one."""

_POSSIBLE_PATTERNS = _split_patterns(
    """
    .npmrc npmrc .yarnrc .yarnrc.yml .pnpmrc pip.conf pip.ini .condarc nuget.config nuget.*.config gradle.properties
    local.properties .gitconfig gitconfig .hgrc .bashrc .zshrc .cshrc .bash_profile .zsh_profile .profile .zprofile
    .zshenv .bash_aliases .zsh_aliases .aliases .exports .extra .functions .flaskenv config.inc.php config.php
    settings.php configuration.php parameters.yml parameters.yaml database.yml mongoid.yml ormconfig.json
    appsettings.json appsettings.*.json application.properties application-*.properties application.yml
    application-*.yml web.config app.config .sentryclirc sentry.properties ngrok.yml .muttrc muttrc .mcp.json
    mcp.json claude_desktop_config.json salesforce.js .vars jupyter_*_config.json carrierwave.rb omniauth.rb
    tokens.json
    """
)
"""Settings files, of which some hold a secret; the content decides."""

_CREDENTIAL_FOLDERS = {
    ".ssh": "*",
    ".aws": "*",
    ".azure": "*",
    ".gnupg": "*",
    ".password-store": "*",
    ".subversion": "*",
    ".secrets": "*",
    "gcloud": "*",
    ".kube": "*config*",
    ".docker": "config.json",
    ".oci": "config",
    ".bluemix": "config.json",
    "doctl": "config.yaml",
    ".m2": "settings*.xml",
    ".bundle": "config",
    ".circleci": "cli.yml",
    "huggingface": "token",
    "gh": "hosts.yml",
    "glab-cli": "config.yml",
    "helm": "repositories.yaml",
    ".purple": "accounts.xml",
    ".irssi": "config",
    ".xchat2": "servlist*.conf",
    "etc": "env.php",
    "kubernetes": "*.conf",
}
"""Folders of credentials, each with the pattern for the names of its secret files."""

_HARMLESS_ENDING = re.compile(
    r"[-_.](?:examples?|samples?|templates?|tmpl|tpl|dist|defaults?|pub|j2|jinja2?|tt|erb|mustache)\Z"
)
_HARMLESS_WORD = re.compile(r"(?:^|[-_.])(?:examples?|samples?|templates?|dummy|dist)(?:[-_.]|$)")
"""Names of files that show the form of a secret without holding one."""
_SOURCE_SUFFIXES = _split_patterns(
    """
    .py .pyi .js .jsx .mjs .cjs .ts .tsx .mts .vue .svelte .go .rs .java .kt .kts .scala .groovy .rb .php .cs .fs
    .vb .swift .m .mm .c .h .cc .cpp .hpp .ex .exs .erl .hs .ml .clj .lua .pl .pm .r .dart .tf .bicep .css .scss
    .svg .png .md .mdx .rst .adoc .html .htm .tt .po .snap
    """
)
"""Endings of code and prose: `secrets.py` is a module, not a secret."""


class SecretLikelihood(Enum):
    """Whether a file name is certainly, possibly or not that of a secret."""

    CERTAIN = "certain"
    POSSIBLE = "possible"
    ORDINARY = "ordinary"


class _NameTable:
    """Patterns of names; one with a single `*` at an end is compared as text, which is fast."""

    def __init__(self, patterns: Iterable[str]) -> None:
        plain = {pattern: pattern.strip("*") for pattern in patterns}
        simple = {pattern for pattern, text in plain.items() if not set(text) & set("*?[")}
        self._names = frozenset(pattern for pattern in simple if pattern == plain[pattern])
        self._endings = tuple(plain[pattern] for pattern in simple if pattern[0] == "*")
        self._beginnings = tuple(plain[pattern] for pattern in simple if pattern[-1] == "*")
        self._others = re.compile(
            "|".join(translate(pattern) for pattern in plain if pattern not in simple) or "(?!)"
        )

    def matches(self, name: str) -> bool:
        """Return whether a pattern matches the name."""
        matches_as_text = name in self._names or name.endswith(self._endings) or name.startswith(self._beginnings)
        return matches_as_text or self._others.match(name) is not None


def _make_code_and_other_tables(patterns: tuple[str, ...]) -> tuple[_NameTable, _NameTable]:
    """Return the patterns for names of code files, and all others."""
    code = [pattern for pattern in patterns if pattern.endswith(_SOURCE_SUFFIXES)]
    return _NameTable(code), _NameTable(pattern for pattern in patterns if pattern not in code)


_KEY_TABLE = _NameTable(_KEY_PATTERNS)
_CERTAIN_CODE_TABLE, _CERTAIN_TABLE = _make_code_and_other_tables(_CERTAIN_PATTERNS)
_POSSIBLE_CODE_TABLE, _POSSIBLE_TABLE = _make_code_and_other_tables(_POSSIBLE_PATTERNS)


@lru_cache(maxsize=4096)
def classify_file_name(name: str) -> SecretLikelihood:
    """Return whether a file name (without folders) is certainly, possibly or not that of a secret."""
    names = _original_names(normalize_file_name(name))
    if any(_KEY_TABLE.matches(original) and not original.endswith(".pub") for original in names):
        return SecretLikelihood.CERTAIN
    if any(_HARMLESS_ENDING.search(original) or _HARMLESS_WORD.search(original) for original in names):
        return SecretLikelihood.ORDINARY
    others = [original for original in names if not original.endswith(_SOURCE_SUFFIXES)]
    if any(map(_CERTAIN_CODE_TABLE.matches, names)) or any(map(_CERTAIN_TABLE.matches, others)):
        return SecretLikelihood.CERTAIN
    possible = any(map(_POSSIBLE_CODE_TABLE.matches, names)) or any(map(_POSSIBLE_TABLE.matches, others))
    return SecretLikelihood.POSSIBLE if possible else SecretLikelihood.ORDINARY


def find_credential_folder(path: str) -> str:
    """Return the folder on a path that marks the file as a credential; empty if there is none."""
    folder, _, name = path.rpartition("/")
    folders = _credential_folders(folder)
    if not folders or _HARMLESS_ENDING.search(name := normalize_file_name(name)):
        return ""
    return next(
        (
            marker
            for marker in folders
            if any(fnmatchcase(original, _CREDENTIAL_FOLDERS[marker]) for original in _original_names(name))
        ),
        "",
    )


@lru_cache(maxsize=256)
def _credential_folders(folder: str) -> tuple[str, ...]:
    """Return the names in a folder's path that are names of credential folders."""
    return tuple(
        folder_name
        for folder_name in map(normalize_file_name, folder.split("/"))
        if folder_name in _CREDENTIAL_FOLDERS
    )


def _original_names(name: str) -> list[str]:
    """Return the name and the names of which it is a copy: `.env` for `.env~`, `.env.bak`, `#.env#` and
    `.env.swp`.
    """
    # NTFS ignores dots and blanks at the end of a name.
    names = [name[:_MAX_NAME_CHARACTERS].strip().rstrip(" .")]
    while shorter := _without_copy_mark(names[-1]):
        names.append(shorter)
    # Editors put a dot before the name of the original to name a swap file: `.credentials.swp`.
    return names + [original[1:] for original in names[1:] if original.startswith(".")]


def _without_copy_mark(name: str) -> str:
    """Return the name without one mark of a copy; empty if it has no mark."""
    if name.startswith(("#", ".#")):
        return name.removeprefix(".").strip("#")
    mark = _COPY_SUFFIX.search(name, 1)
    return name[: mark.start()] if mark else ""


_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----\r?$", re.MULTILINE)
_KEY_SEARCH_BYTES = 64 * 1024
"""Bytes at the start of a file that are searched for a private key."""
_CREDENTIAL = re.compile(
    rb"passw|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|_auth|authident"
    rb"|credential|bearer |connectionstring|://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE,
)
"""Text in a line of settings that holds a secret."""
_VARIABLE_VALUE = re.compile(
    rb"\$\{[^}]{0,200}\}|\$\([^)]{0,200}\)|\{\{[^}]{0,200}\}\}|<%[^%]{0,200}%>|%\w{1,200}%|\$\w{1,200}"
    rb"|env\([^)]{0,200}\)|(?:process\.|\b)env(?:\.\w{1,200}|\[[^\]]{0,200}\])",
    re.IGNORECASE,
)
"""A value that is taken from a variable or a template."""
_NO_VALUE = re.compile(rb"""[\w."'\]\- ]*[:=>]+\s*(?:["']?(?:null|true|false)\b|["',;{\[]*\s*(?:<|$))""")
"""Text that follows the name of a secret without a value, or with one on other lines."""
_MAX_VALUE_BYTES = 1000
"""Bytes after the name of a secret in which its value begins."""
_COMMENT_STARTS = (b"#", b";", b"<!--")
_BARE_WORD = re.compile(rb"[\w+/.-]{4,}={0,2}")
"""A word alone on its line is not a setting; in a settings file it may be a secret."""
_PUBLIC_BLOCK = re.compile(
    rb"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE(?: REQUEST)?|X509 CRL|(?:RSA )?PUBLIC KEY|PGP PUBLIC KEY BLOCK"
    rb"|PGP SIGNATURE|DH PARAMETERS)-----[^-]*-----END \1-----\s*"
)


def secret_reason(path: str, content: bytes | None = None) -> str:
    """Return why the file looks like a secret, in a few words for the user; empty if it does not.

    Args:
        content: The bytes, if they are known. They tell settings with a token from others, certificates from keys,
            and show a private key in any file. If they are unknown, a possible secret counts as one.
    """
    if (reason := secret_path_reason(path)) and not (content is not None and _is_public(content)):
        return reason
    if content is not None and _has_private_key(content):
        return "it has a private key in it"
    if classify_file_name(path.rpartition("/")[2]) is not SecretLikelihood.POSSIBLE:
        return ""
    if content is None:
        return "files of its name often have a password or token in them"
    return "it has a password or token in it" if _has_credential(content) else ""


def secret_path_reason(path: str) -> str:
    """Return why the file looks like a secret, by its path alone; empty if the path does not show it."""
    if folder := find_credential_folder(path):
        return f"it is in {folder}"
    if classify_file_name(path.rpartition("/")[2]) is SecretLikelihood.CERTAIN:
        return "its name is one that secrets have"
    return ""


def _has_private_key(content: bytes) -> bool:
    # A search for plain text is many times faster, and most files have no private key.
    return (
        b"PRIVATE KEY" in content[:_KEY_SEARCH_BYTES]
        and _PRIVATE_KEY.search(content, 0, _KEY_SEARCH_BYTES) is not None
    )


def _is_public(content: bytes) -> bool:
    """Return whether the content is only certificates, public keys and signatures."""
    position = len(content) - len(content.lstrip())
    block = None
    while position < len(content):
        block = _PUBLIC_BLOCK.match(content, position)
        if block is None:
            return False
        position = block.end()
    return block is not None


def _has_credential(content: bytes) -> bool:
    """Return whether a settings file holds a secret; binary content counts as one."""
    if b"\0" in content:
        return True
    for line in content.splitlines():
        if line.lstrip().startswith(_COMMENT_STARTS):
            continue
        line = _VARIABLE_VALUE.sub(b"", line).strip()
        if _BARE_WORD.fullmatch(line) or any(_has_value(line, match) for match in _CREDENTIAL.finditer(line)):
            return True
    return False


def _has_value(line: bytes, match: re.Match[bytes]) -> bool:
    rest = line[match.end() : match.end() + _MAX_VALUE_BYTES]
    return match[0].startswith(b"://") or _NO_VALUE.match(rest) is None

"""Calls that are new in a file and run code or use the network, and checks of a connection that are turned off."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose, is_test
from app.proposals.attention.reason import Reason, ReasonKind

_FAMILIES = {
    "python": (".py", ".pyi", ".pyx"),
    "script": (".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx", ".vue", ".svelte"),
    "go": (".go",),
    "rust": (".rs",),
    "jvm": (".java", ".kt", ".kts", ".scala", ".groovy", ".cs"),
    "ruby": (".rb", ".rake"),
    "php": (".php",),
    "c": (".c", ".h", ".cc", ".cpp", ".hpp", ".m"),
    "shell": (".sh", ".bash", ".zsh", "Dockerfile", "Makefile"),
}
_EXECUTES = {
    "python": r"(?<![\w.])(?:eval|exec|__import__)\(|\bos\.(?:system|popen|exec\w+|spawn\w+)\("
    r"|\bsubprocess\.\w+\(|(?<![\w.])Popen\(|\bcreate_subprocess_\w+\(|\b(?:c?[Pp]ickle|marshal)\.loads?\("
    r"|\byaml\.(?:unsafe_)?load\(|\bshell=True\b",
    "script": r"(?<![\w.$])(?:eval|execSync|execFile\w*|spawn\w*)\(|\bnew Function\(|\bchild_process\.\w+\("
    r"|\bdangerouslySetInnerHTML\b|\bvm\.runIn\w+\(",
    "go": r"\bexec\.Command\w*\(|\bsyscall\.Exec\(",
    "rust": r"\bCommand::new\(",
    "jvm": r"\bgetRuntime\(\)\.exec\(|\bnew ProcessBuilder\(|\bProcess\.Start\(|\bScriptEngine\b",
    "ruby": r"(?<![\w.])(?:system|eval|exec)[( ]|\b(?:instance|class|module)_eval\b|\bOpen3\.\w+|\bIO\.popen\b",
    "php": r"(?<![\w>:])(?:eval|exec|shell_exec|system|passthru|proc_open|popen|unserialize)\(",
    "c": r"(?<![\w.>])(?:system|popen|exec[lv]p?e?)\(",
    "shell": r"(?<![\w.-])eval |\| ?(?:sudo )?(?:ba|z)?sh\b|\bchmod (?:-R )?0?777\b|\brm -\w*rf?\w* [/~$]",
}
_NETWORK = {
    "python": r"\brequests\.(?:get|post|put|patch|delete|head|request|Session)\(|(?<!\w)url(?:open|retrieve)\("
    r"|\bhttpx\d?\.(?:\w*Client|get|post|put|patch|delete|request|stream)\(|\baiohttp\.ClientSession\("
    r"|\bsocket\.(?:socket|create_connection|create_server)\(|\bHTTPS?Connection\(|\bsmtplib\.SMTP\w*\(|\bftplib\.FTP\w*\(",
    "script": r"(?<![\w.$])(?:window\.)?fetch\(|\baxios(?:\.\w+)?\(|\bnew (?:XMLHttpRequest|WebSocket|EventSource)\b"
    r"|\bhttps?\.(?:get|request|createServer)\(|\bnavigator\.sendBeacon\(",
    "go": r"\bhttp\.(?:Get|Post|PostForm|NewRequest\w*|ListenAndServe\w*)\(|\bnet\.(?:Dial|Listen)\w*\(",
    "rust": r"\breqwest::|\bTcp(?:Stream::connect|Listener::bind)\(",
    "jvm": r"\bnew (?:Server)?Socket\(|\.openConnection\(|\bHttpClient\.new\w*\(|\bnew (?:HttpClient|WebClient)\(",
    "ruby": r"\bNet::HTTP\b|\bTCPSocket\b|\bURI\.open\b|\bFaraday\.\w+",
    "php": r"(?<![\w>:])(?:curl_init|fsockopen|stream_socket_client)\(",
    "c": r"(?<![\w.>])(?:connect|getaddrinfo|curl_easy_perform)\(",
    "shell": r"(?<![\w./-])(?:curl|wget|nc|scp|ssh) ",
}
_UNVERIFIED = re.compile(
    r"\bverify ?= ?False\b|\bInsecureSkipVerify: ?true\b|\brejectUnauthorized: ?false\b|\bCERT_NONE\b"
    r"|\bcheck_hostname ?= ?False\b|\b_create_unverified_context\b|\bVERIFY_NONE\b|\bNODE_TLS_REJECT_UNAUTHORIZED\b"
    r"|\bdanger_accept_invalid_certs\(true\)|\bStrictHostKeyChecking[= ]no\b|\bAutoAddPolicy\b"
)
_INSTALLS = re.compile(r'"(?:pre|post)?install" ?:|"prepare" ?:')
"""What a package manager runs by itself."""
_DEFINED = re.compile(r"\b(?:def|function|func|fn)\s$")

_KINDS = (
    (ReasonKind.EXECUTES, {family: re.compile(pattern) for family, pattern in _EXECUTES.items()}),
    (ReasonKind.NETWORK, {family: re.compile(pattern) for family, pattern in _NETWORK.items()}),
)


def new_calls(file: EditedFile) -> Iterator[Reason]:
    """What the file calls more often than before.

    Tests start programs and servers as a matter of course; what they turn off in a connection is told.
    """
    if is_prose(file.path):
        return
    if _UNVERIFIED.search(file.added_text):
        # Outside of tests also in strings: options of a command, names of variables of the environment.
        lines = (file.removed_code, file.added_code) if is_test(file.path) else (file.removed, file.added)
        yield from _more(file, ReasonKind.UNVERIFIED, _UNVERIFIED, *lines)
    if file.path.endswith("package.json") and _INSTALLS.search(file.added_text):
        yield from _more(file, ReasonKind.EXECUTES, _INSTALLS, file.removed, file.added)
    family = next((name for name, endings in _FAMILIES.items() if file.path.endswith(endings)), "")
    if not family or is_test(file.path):
        return
    for kind, patterns in _KINDS:
        pattern = patterns[family]
        if pattern.search(file.added_text):
            before = file.removed_code if pattern.search(file.removed_text) else ()
            yield from _more(file, kind, pattern, before, file.added_code)


def _more(
    file: EditedFile, kind: ReasonKind, pattern: re.Pattern[str], before: Sequence[Line], after: Sequence[Line]
) -> Iterator[Reason]:
    """The calls among the added lines that make up for no removed one."""
    known = Counter(name for line in before for name in _named(pattern, line.text))
    found: list[tuple[Line, str]] = []
    for line in after:
        for name in _named(pattern, line.text):
            if known[name]:
                known[name] -= 1
            else:
                found.append((line, name))
    if found:
        yield file.reason(kind, (line for line, _ in found), (name for _, name in found))


def _named(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        if not _DEFINED.search(text[max(0, match.start() - 12) : match.start()]):
            yield match[0].strip('| (":').replace('" :', "").strip()

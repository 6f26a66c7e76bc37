"""Calls that are new in a file and run code or use the network, and checks of a connection that are turned off."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose, is_test
from app.proposals.attention.literal_search import LiteralPattern
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
    "python": LiteralPattern(
        r"(?<![\w.])(?:eval|exec|__import__)\(|\bos\.(?:system|popen|exec\w+|spawn\w+)\("
        r"|\bsubprocess\.\w+\(|(?<![\w.])Popen\(|\bcreate_subprocess_\w+\(|\b(?:c?[Pp]ickle|marshal)\.loads?\("
        r"|\byaml\.(?:unsafe_)?load\(|\bshell=True\b",
        (
            *(
                "eval(",
                "exec(",
                "__import__(",
                "os.system(",
                "os.popen(",
                "os.exec",
                "os.spawn",
                "subprocess.",
                "Popen(",
            ),
            *("create_subprocess_", "pickle.load", "Pickle.load", "cpickle.load", "cPickle.load", "marshal.load"),
            *("yaml.load(", "yaml.unsafe_load(", "shell=True"),
        ),
    ),
    "script": LiteralPattern(
        r"(?<![\w.$])(?:eval|execSync|execFile\w*|spawn\w*)\(|\bnew Function\(|\bchild_process\.\w+\("
        r"|\bdangerouslySetInnerHTML\b|\bvm\.runIn\w+\(",
        (
            *(
                "eval(",
                "execSync(",
                "execFile",
                "spawn",
                "new Function(",
                "child_process.",
                "dangerouslySetInnerHTML",
            ),
            "vm.runIn",
        ),
    ),
    "go": LiteralPattern(r"\bexec\.Command\w*\(|\bsyscall\.Exec\(", ("exec.Command", "syscall.Exec(")),
    "rust": LiteralPattern(r"\bCommand::new\(", ("Command::new(",)),
    "jvm": LiteralPattern(
        r"\bgetRuntime\(\)\.exec\(|\bnew ProcessBuilder\(|\bProcess\.Start\(|\bScriptEngine\b",
        ("getRuntime().exec(", "new ProcessBuilder(", "Process.Start(", "ScriptEngine"),
    ),
    "ruby": LiteralPattern(
        r"(?<![\w.])(?:system|eval|exec)[( ]|\b(?:instance|class|module)_eval\b|\bOpen3\.\w+|\bIO\.popen\b",
        ("system", "eval", "exec", "instance_eval", "class_eval", "module_eval", "Open3.", "IO.popen"),
    ),
    "php": LiteralPattern(
        r"(?<![\w>:])(?:eval|exec|shell_exec|system|passthru|proc_open|popen|unserialize)\(",
        ("eval(", "exec(", "shell_exec(", "system(", "passthru(", "proc_open(", "popen(", "unserialize("),
    ),
    "c": LiteralPattern(r"(?<![\w.>])(?:system|popen|exec[lv]p?e?)\(", ("system(", "popen(", "execl", "execv")),
    "shell": LiteralPattern(
        r"(?<![\w.-])eval |\| ?(?:sudo )?(?:ba|z)?sh\b|\bchmod (?:-R )?0?777\b|\brm -(?=[^\Wr]*r)\w+ [/~$]",
        ("eval ", "|", "chmod ", "rm -"),
    ),
}
_NETWORK = {
    "python": LiteralPattern(
        r"\brequests\.(?:get|post|put|patch|delete|head|request|Session)\(|(?<!\w)url(?:open|retrieve)\("
        r"|\bhttpx\d?\.(?:\w*Client|get|post|put|patch|delete|request|stream)\(|\baiohttp\.ClientSession\("
        r"|\bsocket\.(?:socket|create_connection|create_server)\(|\bHTTPS?Connection\(|\bsmtplib\.SMTP\w*\("
        r"|\bftplib\.FTP\w*\(",
        (
            *(
                "requests.",
                "urlopen(",
                "urlretrieve(",
                "httpx",
                "aiohttp.ClientSession(",
                "socket.",
                "HTTPConnection(",
            ),
            *("HTTPSConnection(", "smtplib.SMTP", "ftplib.FTP"),
        ),
    ),
    "script": LiteralPattern(
        r"(?<![\w.$])(?:window\.)?fetch\(|\baxios(?:\.\w+)?\(|\bnew (?:XMLHttpRequest|WebSocket|EventSource)\b"
        r"|\bhttps?\.(?:get|request|createServer)\(|\bnavigator\.sendBeacon\(",
        (
            *("fetch(", "window.fetch(", "axios", "new XMLHttpRequest", "new WebSocket", "new EventSource"),
            *("http.", "https.", "navigator.sendBeacon("),
        ),
    ),
    "go": LiteralPattern(
        r"\bhttp\.(?:Get|Post|PostForm|NewRequest\w*|ListenAndServe\w*)\(|\bnet\.(?:Dial|Listen)\w*\(",
        ("http.", "net.Dial", "net.Listen"),
    ),
    "rust": LiteralPattern(
        r"\breqwest::|\bTcp(?:Stream::connect|Listener::bind)\(",
        ("reqwest::", "TcpStream::connect(", "TcpListener::bind("),
    ),
    "jvm": LiteralPattern(
        r"\bnew (?:Server)?Socket\(|\.openConnection\(|\bHttpClient\.new\w*\(|\bnew (?:HttpClient|WebClient)\(",
        (
            *("new Socket(", "new ServerSocket(", ".openConnection(", "HttpClient.new", "new HttpClient("),
            "new WebClient(",
        ),
    ),
    "ruby": LiteralPattern(
        r"\bNet::HTTP\b|\bTCPSocket\b|\bURI\.open\b|\bFaraday\.\w+",
        ("Net::HTTP", "TCPSocket", "URI.open", "Faraday."),
    ),
    "php": LiteralPattern(
        r"(?<![\w>:])(?:curl_init|fsockopen|stream_socket_client)\(",
        ("curl_init(", "fsockopen(", "stream_socket_client("),
    ),
    "c": LiteralPattern(
        r"(?<![\w.>])(?:connect|getaddrinfo|curl_easy_perform)\(", ("connect(", "getaddrinfo(", "curl_easy_perform(")
    ),
    "shell": LiteralPattern(r"(?<![\w./-])(?:curl|wget|nc|scp|ssh) ", ("curl ", "wget ", "nc ", "scp ", "ssh ")),
}
_UNVERIFIED = LiteralPattern(
    r"\bverify ?= ?False\b|\bInsecureSkipVerify: ?true\b|\brejectUnauthorized: ?false\b|\bCERT_NONE\b"
    r"|\bcheck_hostname ?= ?False\b|\b_create_unverified_context\b|\bVERIFY_NONE\b|\bNODE_TLS_REJECT_UNAUTHORIZED\b"
    r"|\bdanger_accept_invalid_certs\(true\)|\bStrictHostKeyChecking[= ]no\b|\bAutoAddPolicy\b",
    (
        *("verify", "InsecureSkipVerify:", "rejectUnauthorized:", "CERT_NONE", "check_hostname", "VERIFY_NONE"),
        *("_create_unverified_context", "NODE_TLS_REJECT_UNAUTHORIZED", "danger_accept_invalid_certs(true)"),
        *("StrictHostKeyChecking", "AutoAddPolicy"),
    ),
)
_INSTALLS = LiteralPattern(
    r'"(?:pre|post)?install" ?:|"prepare" ?:', ('"install"', '"preinstall"', '"postinstall"', '"prepare"')
)
"""What a package manager runs by itself."""
_DEFINED = re.compile(r"\b(?:def|function|func|fn)\s$")

_KINDS = ((ReasonKind.EXECUTES, _EXECUTES), (ReasonKind.NETWORK, _NETWORK))


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
    file: EditedFile, kind: ReasonKind, pattern: LiteralPattern, before: Sequence[Line], after: Sequence[Line]
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


def _named(pattern: LiteralPattern, text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        if not _DEFINED.search(text[max(0, match.start() - 12) : match.start()]):
            yield match[0].strip('| (":').replace('" :', "").strip()

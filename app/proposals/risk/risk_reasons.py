"""Find the risks of a proposal when it is staged, and set its reading order."""

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from app.concurrency import iterate_when_event_loop_idle
from app.proposals.files.overlay import ContentStore
from app.proposals.risk.edited_file import (
    ChangedLine,
    EditedFile,
    LexingBudget,
    PrefilteredPattern,
    find_automation_config_in_path,
    is_documentation_file,
    is_generated_file,
    is_test_or_test_data,
    manifest_name_of_lock_file,
    name_shared_by_test_and_code,
    order_for_review,
)
from app.proposals.risk.read_reasons import ModelReadsBeforeEdit, find_reasons_from_read_history
from app.proposals.text.document import Document
from app.proposals.text.line_comparison import common_prefix_and_suffix
from app.proposals.values.attention_reason import AttentionReason, ReasonKind
from app.proposals.values.models import FileChange, FileOperation, Proposal
from app.text.deceiving_text import find_deceptive_characters
from app.workspace.secrets import secret_path_reason

_TEST_DEFINITION = PrefilteredPattern(
    r"\b(?:async )?def (?P<py>test\w*)|\bfunc (?P<go>(?:Test|Fuzz|Benchmark)\w+)\("
    r"|(?<![\w.])(?:it|test)(?:\.each\(.{0,80}\))?\(\s{0,4}[\"'`](?P<js>[^\"'`]{1,120})"
    r"|\b(?:void|fun) (?P<jvm>test\w+|should\w+)\(|^\s*it [\"'](?P<rb>[^\"']{1,120})|\bfn (?P<rs>test_\w+)\(",
    (
        *("def test", "async def test", "func Test", "func Fuzz", "func Benchmark", "it(", "it.each(", "test("),
        *("test.each(", "void test", "void should", "fun test", "fun should", "fn test_"),
    ),
    ("it '", 'it "'),
)
_ASSERT = PrefilteredPattern(
    r"\bassert\b|\bassert\w+!?\(|\bself\.(?:assert|fail)\w*\(|\bexpect\(|\bpytest\.raises\(|\brequire\.[A-Z]\w+\("
    r"|\bt\.(?:Error|Fatal)f?\(",
    ("assert", "self.assert", "self.fail", "expect(", "pytest.raises(", "require.", "t.Error", "t.Fatal"),
)
_GUARD = PrefilteredPattern(
    r"^[^\S\n]*raise\b|\bthrow\b|\bpanic!?\(|\bbail!\("
    r"|\breturn (?:\w+, )?(?:fmt\.Errorf|errors\.New|err\b)|\breturn Err\(",
    ("throw", "panic(", "panic!(", "bail!(", "return "),
    ("raise",),
)
_ERROR_PASSED_ON = PrefilteredPattern(r"\breturn (?:.{1,80}, )?err\b|\bpanic\(err\)", ("return ", "panic(err)"))
"""Guards that pass on the error of a call."""
_CALL_WITH_ERROR = PrefilteredPattern(r"\berr\s*:?=\s*(?:[\w.]*\.)?(\w+)\(", ("err",))
_CALLED_NAME = re.compile(r"(\w+)\(")
_MAX_LINES_TO_CALL = 3
"""Maximum lines between a call and the line that passes on its error."""
_SKIPPED_TEST = PrefilteredPattern(
    r"\bpytest\.(?:mark\.)?(?:skip|xfail)|\bunittest\.(?:skip|expectedFailure)"
    r"|(?<![\w.])(?:it|test|describe)\.(?:skip|only|todo)\("
    r"|(?<![\w.])x(?:it|describe)\(|\bt\.Skip(?:f|Now)?\(|^[^\S\n]*#\[ignore|@(?:Disabled|Ignore)\b",
    (
        *("pytest.skip", "pytest.xfail", "pytest.mark.skip", "pytest.mark.xfail", "unittest.skip"),
        *("unittest.expectedFailure", "it.skip(", "it.only(", "it.todo(", "test.skip(", "test.only(", "test.todo("),
        *("describe.skip(", "describe.only(", "describe.todo(", "xit(", "xdescribe(", "t.Skip"),
        *("@Disabled", "@Ignore"),
    ),
    ("#[ignore",),
)

Added = Mapping[str, int]
"""How often each stripped line was added in all files of a proposal."""


def find_removed_safeguards(file: EditedFile, added: Added, tests: frozenset[str]) -> Iterator[AttentionReason]:
    """Yield reasons for the tests, asserts and checks of which the file has fewer than before.

    Args:
        added: The lines that the whole proposal adds.
        tests: Names of the tests that it adds.
    """
    if is_documentation_file(file.path):
        return
    lost_tests = []
    if is_test_or_test_data(file.path):
        removed_tests = [
            (line, name)
            for line, name in find_changed_test_definitions(file.removed, file.removed_text)
            if name not in tests
        ]
        # A renamed test still exists: count each new test as a renamed one.
        new_count = sum(1 for _ in find_changed_test_definitions(file.added, file.added_text))
        lost_tests = removed_tests[: max(0, len(removed_tests) - new_count)]
        if lost_tests:
            lines, names = (line for line, _ in lost_tests), (name for _, name in lost_tests)
            yield file.make_reason(ReasonKind.TESTS, lines, names)
        yield from _find_skipped_tests(file)
    if file.change.op is FileOperation.DELETE:
        # The deletion itself is reported; the checks in the file are not.
        return
    if not is_test_or_test_data(file.path) and _GUARD.search(file.removed_text):
        yield from _find_lost_lines(file, ReasonKind.GUARDS, _GUARD, added, _find_guards_of_removed_calls(file))
    if not lost_tests and _ASSERT.search(file.removed_text):
        yield from _find_lost_lines(file, ReasonKind.ASSERTS, _ASSERT, added)


def find_changed_test_definitions(
    lines: Sequence[ChangedLine], joined_lines: str
) -> Iterator[tuple[ChangedLine, str]]:
    """Yield the changed lines on which a test begins, each with the test's name; `joined_lines` is all lines."""
    for line in lines if _TEST_DEFINITION.search(joined_lines) else ():
        if found := _TEST_DEFINITION.search(line.text):
            yield line, next(name for name in found.groups() if name)


def find_test_names(lines: Sequence[str]) -> list[str]:
    """Return the names of the tests that begin on these lines of source."""
    return [name for line in lines if (found := _TEST_DEFINITION.search(line)) for name in found.groups() if name]


def _find_skipped_tests(file: EditedFile) -> Iterator[AttentionReason]:
    if not _SKIPPED_TEST.search(file.added_text):
        return
    before = sum(1 for line in file.removed if _SKIPPED_TEST.search(line.text))
    after = [line for line in file.added_code if _SKIPPED_TEST.search(line.text)]
    if len(after) > before:
        yield file.make_reason(ReasonKind.SKIPPED, after[before:])


def _find_guards_of_removed_calls(file: EditedFile) -> set[int]:
    """Return the numbers of removed lines that handled the error of a call that is removed too."""
    calls = {line.number: match[1] for line in file.removed_code if (match := _CALL_WITH_ERROR.search(line.text))}
    if not calls:
        return set()
    called_by_hunk: dict[str, set[str]] = {}
    for line in file.added_code:
        called_by_hunk.setdefault(line.hunk, set()).update(_CALLED_NAME.findall(line.text))
    return {
        line.number
        for line in file.removed_code
        if _ERROR_PASSED_ON.search(line.text)
        for number in range(line.number - _MAX_LINES_TO_CALL, line.number + 1)
        if number in calls and calls[number] not in called_by_hunk.get(line.hunk, ())
    }


def _find_lost_lines(
    file: EditedFile,
    kind: ReasonKind,
    pattern: PrefilteredPattern,
    added: Added,
    ignored_numbers: Collection[int] = (),
) -> Iterator[AttentionReason]:
    """Yield a reason for lines of a kind that were removed without a replacement in their hunk, and were not moved.

    Args:
        ignored_numbers: Numbers of removed lines that do not count.
    """
    removed = [line for line in file.removed_code if pattern.search(line.text) and line.number not in ignored_numbers]
    moved_numbers = {line.number for line in file.removed if added.get(line.text.strip())}
    new = file.added_code if pattern.search(file.added_text) else ()
    replacements = Counter(line.hunk for line in new if pattern.search(line.text))
    lost: list[ChangedLine] = []
    for line in removed:
        if line.number in moved_numbers:
            continue
        if replacements[line.hunk]:
            replacements[line.hunk] -= 1
        else:
            lost.append(line)
    if lost:
        yield file.make_reason(kind, lost)


_WORD = re.compile(r"[\w./\\-]+")


def find_unmentioned_paths(request: str, paths: Collection[str]) -> frozenset[str]:
    """Return the paths that the user's request does not mention; none if it mentions no path at all.

    The tests of a mentioned file and everything in a mentioned folder count as mentioned.
    """
    words = {word.replace("\\", "/").strip("./-").removesuffix("/") for word in _WORD.findall(request)}
    mentioned = {path for path in paths if _is_mentioned(path, words)}
    if not mentioned:
        return frozenset()
    tested_names = {name_shared_by_test_and_code(path) for path in mentioned}
    return frozenset(
        path
        for path in paths
        if path not in mentioned
        and not (is_test_or_test_data(path) and name_shared_by_test_and_code(path) in tested_names)
    )


def _is_mentioned(path: str, words: Collection[str]) -> bool:
    folder, _, name = path.rpartition("/")
    if path.strip("./") in words or name.strip("./-") in words:
        return True
    folders = folder.split("/") if folder else []
    if any("/".join(folders[:depth]) in words for depth in range(1, len(folders) + 1)):
        return True
    stem = name.partition(".")[0]
    return "_" in stem.strip("_") and stem in words


_OPERATOR = re.compile(
    r"[=!]==?|<=|>=|(?<![<>=-])[<>](?![<>=])|&&|\|\||!(?=[\w(])|(?<=[\w)\]])\s*[+-]\s*1\b(?!\.)"
    r"|\bis\s+not\b|\bnot\s+in\b|\b(?:is|in|not|and|or)\b"
)
_OPERATOR_EQUIVALENTS = {"===": "==", "is": "==", "!==": "!=", "isnot": "!=", "&&": "and", "||": "or", "!": "not"}
"""Operators of one language or style, with their equals in another."""
_OPERATOR_CHARACTERS = {
    code: None for code in range(0x3001) if chr(code).isspace() or chr(code) in "=!<>&|+-1" or chr(code) in "isnotadr"
}
"""Deletes, by `str.translate`, white space and every character that an operator can have."""
_NON_OPERATOR_CHARACTERS = ",;:{}\"'`"
"""Characters that are in no operator; an operator on one side of them does not depend on the other side."""


def find_changed_operators(file: EditedFile) -> Iterator[AttentionReason]:
    """Yield a reason for lines that changed only in a comparison, a negation, `and`, `or`, or by one."""
    if is_documentation_file(file.path) or not any(_find_lines_with_changed_operators(file.removed, file.added)):
        return
    if changed := list(_find_lines_with_changed_operators(file.removed_code, file.added_code)):
        yield file.make_reason(ReasonKind.OPERATORS, changed)


def _find_lines_with_changed_operators(
    removed: Sequence[ChangedLine], added: Sequence[ChangedLine]
) -> Iterator[ChangedLine]:
    """Yield the added lines that differ from a removed one of their hunk only in operators."""
    operators_by_text: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    removed, added = _keep_comparable_lines(removed, added)
    for line in removed:
        text, operators = _split_operators(line)
        operators_by_text.setdefault(text, Counter())[operators] += 1
    for line in added:
        text, operators = _split_operators(line)
        if (removed_operators := operators_by_text.get(text)) and operators not in removed_operators:
            removed_operators.subtract([next(iter(removed_operators))])
            operators_by_text[text] = +removed_operators
            yield line


def _keep_comparable_lines(
    removed: Sequence[ChangedLine], added: Sequence[ChangedLine]
) -> tuple[Sequence[ChangedLine], Sequence[ChangedLine]]:
    """Return the lines that may differ only in operators: without the characters of operators they are equal.

    A single pair is cut to the part that differs, because it may be a file of one line.
    """
    if not removed or not added:
        return (), ()
    if len(removed) == len(added) == 1:
        old_text, new_text = _cut_common_ends(removed[0].text, added[0].text)
        removed, added = [removed[0]._replace(text=old_text)], [added[0]._replace(text=new_text)]
    old, new = (
        [(line.hunk, line.text.translate(_OPERATOR_CHARACTERS)) for line in side] for side in (removed, added)
    )
    common = set(old) & set(new)
    return (
        [line for line, key in zip(removed, old, strict=True) if key in common],
        [line for line, key in zip(added, new, strict=True) if key in common],
    )


def _cut_common_ends(old: str, new: str) -> tuple[str, str]:
    """Return both texts without their common beginning and end, cut only where no operator is split."""
    head, tail = common_prefix_and_suffix(old, new)
    start = max(0, *(old.rfind(mark, 0, head) for mark in _NON_OPERATOR_CHARACTERS))
    ends = [at for mark in _NON_OPERATOR_CHARACTERS if (at := old.find(mark, len(old) - tail)) >= 0]
    left = len(old) - min(ends) - 1 if ends else 0
    return old[start : len(old) - left], new[start : len(new) - left]


def _split_operators(line: ChangedLine) -> tuple[tuple[str, str], tuple[str, ...]]:
    """Return the hunk and text of a line without its operators, and the operators in one style."""
    operators = tuple("".join(found.split()) for found in _OPERATOR.findall(line.text))
    text = "".join(_OPERATOR.sub("", line.text).split())
    return (line.hunk, text), tuple(_OPERATOR_EQUIVALENTS.get(operator, operator) for operator in operators)


_HANDLER_CANDIDATE = PrefilteredPattern(
    r"\bexcept\b|\bcatch\b|\brescue\b|\bsuppress\(|\b(?:pass|nil)\b|^[^\S\n]*\}",
    ("except", "catch", "rescue", "suppress(", "pass", "nil"),
    ("}",),
)
_EXCEPT = re.compile(r"^\s*except\b[^:]{0,200}:\s*(?P<body>pass|\.\.\.)?\s*$")
_SUPPRESS = PrefilteredPattern(r"\bsuppress\((?:Base)?Exception\)", ("suppress(",))
_EMPTY_STATEMENT = re.compile(r"^(?P<indent>\s*)(?:pass|\.\.\.)\s*$")
_EMPTY_CATCH = PrefilteredPattern(r"\bcatch\b[^{}]{0,200}\{\s*\}", ("catch",))
_OPEN_HANDLER = PrefilteredPattern(
    r"\bcatch\b[^{}]{0,200}\{\s*$|\bif err != nil \{\s*$", ("catch", "if err != nil {")
)
_RESCUE = re.compile(r"^\s*rescue\b")
_HANDLER_END = re.compile(r"^\s*(?:nil\s*)?(?:end\b|nil$)")
_MAX_EMPTY_HANDLER_LINES = 4
"""Maximum lines of an empty handler, with comments."""


def find_swallowed_errors(file: EditedFile) -> Iterator[AttentionReason]:
    """Yield a reason for exception handlers that are new or emptied and contain nothing but comments."""
    if not _HANDLER_CANDIDATE.search(file.added_text):
        return
    code, added = file.new_code, {line.number: line for line in file.added}
    starts = sorted({max(0, number - above) for number in added for above in range(_MAX_EMPTY_HANDLER_LINES)})
    swallowed = []
    for first in starts:
        last = _find_end_of_empty_handler(file.path, code, first)
        lines = [] if last is None else [added[number] for number in range(first, last + 1) if number in added]
        swallowed += lines[:1]
    if swallowed:
        yield file.make_reason(ReasonKind.SWALLOWED, swallowed)


def _find_end_of_empty_handler(path: str, code: Sequence[str], first: int) -> int | None:
    """Return the last line of the handler that begins on a line, if it is empty; None otherwise."""
    text = code[first]
    code_lines = (at for at in range(first + 1, min(first + _MAX_EMPTY_HANDLER_LINES, len(code))) if code[at].strip())
    body = next(code_lines, None)
    if path.endswith((".py", ".pyi")):
        if _SUPPRESS.search(text):
            return first
        match = _EXCEPT.match(text)
        if match is None:
            return None
        return first if match["body"] else body if body is not None and _is_whole_body(code, body) else None
    following = "" if body is None else code[body]
    if path.endswith(".rb"):
        return body if _RESCUE.match(text) and _HANDLER_END.match(following) else None
    if _EMPTY_CATCH.search(text):
        return first
    return body if _OPEN_HANDLER.search(text) and following.lstrip().startswith("}") else None


def _is_whole_body(code: Sequence[str], line: int) -> bool:
    """Return whether a handler in Python contains only this line, which does nothing."""
    match = _EMPTY_STATEMENT.match(code[line])
    if match is None:
        return False
    after = next((code[at] for at in range(line + 1, len(code)) if code[at].strip()), "")
    return len(after) - len(after.lstrip()) < len(match["indent"]) or not after


_SECRET_PATTERNS = {
    "an AWS key": PrefilteredPattern(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", ("AKIA", "ASIA")),
    "a GitHub token": PrefilteredPattern(
        r"\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{40}",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    "an API key": PrefilteredPattern(
        r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{24}|\b[sr]k_live_[A-Za-z0-9]{16}|\bAIza[0-9A-Za-z_-]{35}",
        ("sk-", "sk_live_", "rk_live_", "AIza"),
    ),
    "a Slack token": PrefilteredPattern(r"\bxox[abpr]-[0-9A-Za-z-]{20}", ("xoxa-", "xoxb-", "xoxp-", "xoxr-")),
    "a private key": PrefilteredPattern(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----", ("-----BEGIN ",)),
    "a password in a URL": PrefilteredPattern(
        r"(?<=[a-z]{2})://[^\s:/@\"'<>{}$]{1,60}:[^\s:/@\"'<>{}$]{6,60}@[\w.]", ("://",)
    ),
}
_ASSIGNED_SECRET = PrefilteredPattern(
    r"(?ai:passwo?r?d|secret|token|api_?key|access_?key|private_?key)"
    r"[\"']?\s{0,3}[:=]\s{0,3}[\"']([^\"'\s]{12,120})[\"']",
    ("passw", "secret", "token", "api", "access", "private"),
    ignore_case=True,
)
_PLACEHOLDER = re.compile(r"(?i)example|placeholder|change|dummy|your|xxx|test|fake|\.\.\.|[<>{}$%()]")
_MAX_URL_CHARACTERS = 1_000
_URL = re.compile(rf"://[^\s\"'`]{{0,{_MAX_URL_CHARACTERS}}}")
"""A URL from `://` on."""


def find_secrets(file: EditedFile) -> Iterator[AttentionReason]:
    """Yield a reason for added lines that contain text in the form of a secret."""
    patterns = {name: pattern for name, pattern in _SECRET_PATTERNS.items() if pattern.search(file.added_text)}
    secrets = [(line, name) for line in file.added if patterns for name in _find_secret_kinds(line, patterns)]
    if secrets:
        yield file.make_reason(ReasonKind.SECRET, (line for line, _ in secrets), (name for _, name in secrets))
    elif (
        not is_test_or_test_data(file.path)
        and not is_documentation_file(file.path)
        and _ASSIGNED_SECRET.search(file.added_text)
    ):
        found = [
            line
            for line in file.added
            if any(_looks_random(match[1]) for match in _ASSIGNED_SECRET.finditer(line.text))
        ]
        if found:
            yield file.make_reason(ReasonKind.SECRET, found)


def _find_secret_kinds(line: ChangedLine, patterns: Mapping[str, PrefilteredPattern]) -> Iterator[str]:
    for name, pattern in patterns.items():
        if any(not _is_in_example_url(match) for match in pattern.finditer(line.text)):
            yield name


def _is_in_example_url(match: re.Match[str]) -> bool:
    """Return whether the URL around a secret is an example, or has a placeholder."""
    at = match.string.rfind("://", max(0, match.start() - _MAX_URL_CHARACTERS), match.end())
    url = _URL.match(match.string, at) if at >= 0 else None
    return url is not None and url.end() > match.start() and _PLACEHOLDER.search(url[0]) is not None


def _looks_random(text: str) -> bool:
    """Return whether a text looks random: letters and digits mixed, without a placeholder."""
    digits = sum(character.isdigit() for character in text)
    return 2 <= digits < len(text) - 3 and _PLACEHOLDER.search(text) is None


_LANGUAGE_ENDINGS = {
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
_EXECUTING_CALLS = {
    "python": PrefilteredPattern(
        r"(?<![\w.])(?:eval|exec|__import__)\(|\bos\.(?:system|popen|exec\w+|spawn\w+)\("
        r"|\bsubprocess\.\w+\(|(?<![\w.])Popen\(|\bcreate_subprocess_\w+\(|\b(?:c?[Pp]ickle|marshal)\.loads?\("
        r"|\byaml\.(?:unsafe_)?load\(|\bshell=True\b",
        (
            *("eval(", "exec(", "__import__(", "os.system(", "os.popen(", "os.exec", "os.spawn", "subprocess."),
            *("Popen(", "create_subprocess_", "pickle.load", "Pickle.load", "cpickle.load", "cPickle.load"),
            *("marshal.load", "yaml.load(", "yaml.unsafe_load(", "shell=True"),
        ),
    ),
    "script": PrefilteredPattern(
        r"(?<![\w.$])(?:eval|execSync|execFile\w*|spawn\w*)\(|\bnew Function\(|\bchild_process\.\w+\("
        r"|\bdangerouslySetInnerHTML\b|\bvm\.runIn\w+\(",
        (
            *("eval(", "execSync(", "execFile", "spawn", "new Function(", "child_process."),
            *("dangerouslySetInnerHTML", "vm.runIn"),
        ),
    ),
    "go": PrefilteredPattern(r"\bexec\.Command\w*\(|\bsyscall\.Exec\(", ("exec.Command", "syscall.Exec(")),
    "rust": PrefilteredPattern(r"\bCommand::new\(", ("Command::new(",)),
    "jvm": PrefilteredPattern(
        r"\bgetRuntime\(\)\.exec\(|\bnew ProcessBuilder\(|\bProcess\.Start\(|\bScriptEngine\b",
        ("getRuntime().exec(", "new ProcessBuilder(", "Process.Start(", "ScriptEngine"),
    ),
    "ruby": PrefilteredPattern(
        r"(?<![\w.])(?:system|eval|exec)[( ]|\b(?:instance|class|module)_eval\b|\bOpen3\.\w+|\bIO\.popen\b",
        ("system", "eval", "exec", "instance_eval", "class_eval", "module_eval", "Open3.", "IO.popen"),
    ),
    "php": PrefilteredPattern(
        r"(?<![\w>:])(?:eval|exec|shell_exec|system|passthru|proc_open|popen|unserialize)\(",
        ("eval(", "exec(", "shell_exec(", "system(", "passthru(", "proc_open(", "popen(", "unserialize("),
    ),
    "c": PrefilteredPattern(r"(?<![\w.>])(?:system|popen|exec[lv]p?e?)\(", ("system(", "popen(", "execl", "execv")),
    "shell": PrefilteredPattern(
        r"(?<![\w.-])eval |\| ?(?:sudo )?(?:ba|z)?sh\b|\bchmod (?:-R )?0?777\b|\brm -(?=[^\Wr]*r)\w+ [/~$]",
        ("eval ", "|", "chmod ", "rm -"),
    ),
}
_NETWORK_CALLS = {
    "python": PrefilteredPattern(
        r"\brequests\.(?:get|post|put|patch|delete|head|request|Session)\(|(?<!\w)url(?:open|retrieve)\("
        r"|\bhttpx\d?\.(?:\w*Client|get|post|put|patch|delete|request|stream)\(|\baiohttp\.ClientSession\("
        r"|\bsocket\.(?:socket|create_connection|create_server)\(|\bHTTPS?Connection\(|\bsmtplib\.SMTP\w*\("
        r"|\bftplib\.FTP\w*\(",
        (
            *("requests.", "urlopen(", "urlretrieve(", "httpx", "aiohttp.ClientSession(", "socket."),
            *("HTTPConnection(", "HTTPSConnection(", "smtplib.SMTP", "ftplib.FTP"),
        ),
    ),
    "script": PrefilteredPattern(
        r"(?<![\w.$])(?:window\.)?fetch\(|\baxios(?:\.\w+)?\(|\bnew (?:XMLHttpRequest|WebSocket|EventSource)\b"
        r"|\bhttps?\.(?:get|request|createServer)\(|\bnavigator\.sendBeacon\(",
        (
            *("fetch(", "window.fetch(", "axios", "new XMLHttpRequest", "new WebSocket", "new EventSource"),
            *("http.", "https.", "navigator.sendBeacon("),
        ),
    ),
    "go": PrefilteredPattern(
        r"\bhttp\.(?:Get|Post|PostForm|NewRequest\w*|ListenAndServe\w*)\(|\bnet\.(?:Dial|Listen)\w*\(",
        ("http.", "net.Dial", "net.Listen"),
    ),
    "rust": PrefilteredPattern(
        r"\breqwest::|\bTcp(?:Stream::connect|Listener::bind)\(",
        ("reqwest::", "TcpStream::connect(", "TcpListener::bind("),
    ),
    "jvm": PrefilteredPattern(
        r"\bnew (?:Server)?Socket\(|\.openConnection\(|\bHttpClient\.new\w*\(|\bnew (?:HttpClient|WebClient)\(",
        (
            *("new Socket(", "new ServerSocket(", ".openConnection(", "HttpClient.new", "new HttpClient("),
            "new WebClient(",
        ),
    ),
    "ruby": PrefilteredPattern(
        r"\bNet::HTTP\b|\bTCPSocket\b|\bURI\.open\b|\bFaraday\.\w+",
        ("Net::HTTP", "TCPSocket", "URI.open", "Faraday."),
    ),
    "php": PrefilteredPattern(
        r"(?<![\w>:])(?:curl_init|fsockopen|stream_socket_client)\(",
        ("curl_init(", "fsockopen(", "stream_socket_client("),
    ),
    "c": PrefilteredPattern(
        r"(?<![\w.>])(?:connect|getaddrinfo|curl_easy_perform)\(", ("connect(", "getaddrinfo(", "curl_easy_perform(")
    ),
    "shell": PrefilteredPattern(r"(?<![\w./-])(?:curl|wget|nc|scp|ssh) ", ("curl ", "wget ", "nc ", "scp ", "ssh ")),
}
_UNVERIFIED_CONNECTION = PrefilteredPattern(
    r"\bverify ?= ?False\b|\bInsecureSkipVerify: ?true\b|\brejectUnauthorized: ?false\b|\bCERT_NONE\b"
    r"|\bcheck_hostname ?= ?False\b|\b_create_unverified_context\b|\bVERIFY_NONE\b|\bNODE_TLS_REJECT_UNAUTHORIZED\b"
    r"|\bdanger_accept_invalid_certs\(true\)|\bStrictHostKeyChecking[= ]no\b|\bAutoAddPolicy\b",
    (
        *("verify", "InsecureSkipVerify:", "rejectUnauthorized:", "CERT_NONE", "check_hostname", "VERIFY_NONE"),
        *("_create_unverified_context", "NODE_TLS_REJECT_UNAUTHORIZED", "danger_accept_invalid_certs(true)"),
        *("StrictHostKeyChecking", "AutoAddPolicy"),
    ),
)
_INSTALL_SCRIPT = PrefilteredPattern(
    r'"(?:pre|post)?install" ?:|"prepare" ?:', ('"install"', '"preinstall"', '"postinstall"', '"prepare"')
)
"""Scripts that a package manager runs automatically."""
_DEFINITION_BEFORE = re.compile(r"\b(?:def|function|func|fn)\s$")

_CALLS_BY_KIND = ((ReasonKind.EXECUTES, _EXECUTING_CALLS), (ReasonKind.NETWORK, _NETWORK_CALLS))


def find_new_risky_calls(file: EditedFile) -> Iterator[AttentionReason]:
    """Yield a reason for each risky call that the file makes more often than before.

    Tests usually start programs and servers; for tests, only weakened connections are reported.
    """
    if is_documentation_file(file.path):
        return
    if _UNVERIFIED_CONNECTION.search(file.added_text):
        # Outside tests, search strings too: they have options of commands and names of environment variables.
        lines = (
            (file.removed_code, file.added_code) if is_test_or_test_data(file.path) else (file.removed, file.added)
        )
        yield from _find_added_calls(file, ReasonKind.UNVERIFIED, _UNVERIFIED_CONNECTION, *lines)
    if file.path.endswith("package.json") and _INSTALL_SCRIPT.search(file.added_text):
        yield from _find_added_calls(file, ReasonKind.EXECUTES, _INSTALL_SCRIPT, file.removed, file.added)
    language = next((name for name, endings in _LANGUAGE_ENDINGS.items() if file.path.endswith(endings)), "")
    if not language or is_test_or_test_data(file.path):
        return
    for kind, patterns in _CALLS_BY_KIND:
        pattern = patterns[language]
        if pattern.search(file.added_text):
            before = file.removed_code if pattern.search(file.removed_text) else ()
            yield from _find_added_calls(file, kind, pattern, before, file.added_code)


def _find_added_calls(
    file: EditedFile,
    kind: ReasonKind,
    pattern: PrefilteredPattern,
    before: Sequence[ChangedLine],
    after: Sequence[ChangedLine],
) -> Iterator[AttentionReason]:
    """Yield a reason for the calls in added lines that do not replace a removed one."""
    removed_counts = Counter(name for line in before for name in _find_call_names(pattern, line.text))
    found: list[tuple[ChangedLine, str]] = []
    for line in after:
        for name in _find_call_names(pattern, line.text):
            if removed_counts[name]:
                removed_counts[name] -= 1
            else:
                found.append((line, name))
    if found:
        yield file.make_reason(kind, (line for line, _ in found), (name for _, name in found))


def _find_call_names(pattern: PrefilteredPattern, text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        if not _DEFINITION_BEFORE.search(text[max(0, match.start() - 12) : match.start()]):
            yield match[0].strip('| (":').replace('" :', "").strip()


_EXECUTABLE_BITS = 0o111
_SPECIAL_MODE_BITS = 0o7000


def add_risk_reasons_and_reading_order(
    contents: ContentStore, proposal: Proposal, request: str = "", history: ModelReadsBeforeEdit | None = None
) -> Proposal:
    """Return the proposal with its risk reasons and reading order; an existing order is kept.

    Args:
        request: The user's request, as far as it is known.
        history: What its author had read; None to keep the earlier reasons from that.
    """
    budget = LexingBudget()
    files = [_load_edited_file(contents, change, budget) for change in iterate_when_event_loop_idle(proposal.files)]
    known_unmentioned = (reason.path for reason in proposal.reasons if reason.kind is ReasonKind.UNASKED)
    paths = {change.path for change in proposal.files}
    unmentioned = find_unmentioned_paths(request, paths) if request else frozenset(known_unmentioned)
    if history is None:
        read_reasons = [
            reason for reason in proposal.reasons if reason.kind.is_from_read_history and reason.path in paths
        ]
    else:
        read_reasons = [
            reason
            for file in iterate_when_event_loop_idle(files)
            for reason in find_reasons_from_read_history(file, history, paths)
        ]
    reasons = (*find_risk_reasons(files, unmentioned), *read_reasons)
    return proposal.model_copy(
        update={"reasons": reasons, "order": proposal.order or order_for_review(files, reasons)}
    )


def find_risk_reasons(files: Sequence[EditedFile], unmentioned: Collection[str]) -> Iterator[AttentionReason]:
    """Yield all reasons, file by file; `unmentioned` are the paths that the user's request does not mention."""
    added = Counter(text for file in files for line in file.added if len(text := line.text.strip()) > 2)
    tests = frozenset(
        name for file in files for _, name in find_changed_test_definitions(file.added, file.added_text)
    )
    paths = [file.path for file in files]
    for file in iterate_when_event_loop_idle(files):
        reasons_to_read_last = _find_reasons_to_read_last(file)
        yield from reasons_to_read_last
        yield from _find_file_reasons(file, paths)
        if file.path in unmentioned and not reasons_to_read_last:
            yield AttentionReason(kind=ReasonKind.UNASKED, path=file.path)
        if manifest_name_of_lock_file(file.path) is None:
            yield from find_secrets(file)
        if not reasons_to_read_last:
            yield from find_new_risky_calls(file)
            yield from find_swallowed_errors(file)
            yield from find_removed_safeguards(file, added, tests)
            yield from find_changed_operators(file)


def _find_file_reasons(file: EditedFile, paths: Collection[str]) -> Iterator[AttentionReason]:
    """Yield the reasons that concern the file as a whole."""
    change, path = file.change, file.path
    if change.warnings:
        yield file.make_reason(
            ReasonKind.DECEIVES, (line for line in file.added if find_deceptive_characters(line.text))
        )
    if change.op is FileOperation.DELETE:
        yield AttentionReason(kind=ReasonKind.DELETED, path=path)
    if change.is_inexact:
        yield AttentionReason(kind=ReasonKind.INEXACT, path=path)
    if permissions := _describe_gained_permissions(change):
        yield AttentionReason(kind=ReasonKind.MODE, path=path, names=(permissions,))
    if automation := find_automation_config_in_path(path) or find_automation_config_in_path(change.old_path):
        yield AttentionReason(kind=ReasonKind.AUTOMATION, path=path, names=(automation,))
    if change.op in (FileOperation.CREATE, FileOperation.RENAME) and secret_path_reason(path):
        yield AttentionReason(kind=ReasonKind.SECRET, path=path, names=("a file for secrets",))
    manifest = manifest_name_of_lock_file(path)
    if manifest and change.op is FileOperation.EDIT:
        folder, name = posixpath.split(path)
        if posixpath.join(folder, manifest) not in paths:
            yield AttentionReason(kind=ReasonKind.UNLOCKED, path=path, names=(name,))


def _find_reasons_to_read_last(file: EditedFile) -> list[AttentionReason]:
    """Return the reasons why a file is read last; empty for most."""
    if manifest_name_of_lock_file(file.path) is not None:
        return [AttentionReason(kind=ReasonKind.LOCK, path=file.path)]
    generated = is_generated_file(file.path, file.old)
    return [AttentionReason(kind=ReasonKind.GENERATED, path=file.path)] if generated else []


def _describe_gained_permissions(change: FileChange) -> str:
    """Return the permissions that a file gains, or what its link becomes, as text; empty if there is nothing."""
    base, result = change.base, change.result
    if result is None:
        return ""
    if base and base.is_link:
        if not result.is_link:
            return "a regular file"
        return "" if base.sha256 == result.sha256 else "lead elsewhere"
    if result.is_link:
        return "a link"
    new = result.mode & ~(base.mode if base else 0)
    if new & _SPECIAL_MODE_BITS:
        return "run with other rights"
    if new & _EXECUTABLE_BITS and base is not None:
        return "executable"
    return "writable by all" if new & 0o002 else ""


def _load_edited_file(contents: ContentStore, change: FileChange, budget: LexingBudget) -> EditedFile:
    if change.binary or change.involves_link:
        return EditedFile(change, (), (), budget)
    old, new = (Document(contents.get(version)).line_texts for version in (change.base, change.result))
    return EditedFile(change, old, new, budget)

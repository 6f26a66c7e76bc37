"""Which forms of a command are offered to be allowed for good, and what each of them covers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.base.command_forms import AllowableCommandPattern, NotSimpleCommand, allowable_forms

WORDS = st.lists(st.text("ab-/.= '\"$;|*\\", min_size=1, max_size=5), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("command", "forms"),
    [
        ("pytest -q tests", ["pytest …", "pytest -q …", "pytest -q tests …", "pytest -q tests"]),
        ("git diff HEAD", ["git diff …", "git diff HEAD …", "git diff HEAD"]),
        ("uv run pytest", ["uv run pytest …", "uv run pytest"]),
        (
            "uv run python -m pytest -q",
            ["uv run python -m pytest …", "uv run python -m pytest -q …", "uv run python -m pytest -q"],
        ),
        ("npm run test", ["npm run test …", "npm run test"]),
        ("python -m pytest", ["python -m pytest …", "python -m pytest"]),
        ("python tool.py", ["python tool.py …", "python tool.py"]),
        ("ls *.py", ["ls …"]),
        ("python3 -m pytest", ["python3 -m pytest …", "python3 -m pytest"]),
        ("bun x ls", ["bun x ls …", "bun x ls"]),
        ("bun x.ts", ["bun x.ts …", "bun x.ts"]),
        ("yarn test", ["yarn test …", "yarn test"]),
        ("pixi run pytest -q", ["pixi run pytest …", "pixi run pytest -q …", "pixi run pytest -q"]),
        ("go run ./cmd", ["go run ./cmd …", "go run ./cmd"]),
        (".venv/bin/pytest", [".venv/bin/pytest …", ".venv/bin/pytest"]),
        ("./tools/test.sh", ["./tools/test.sh …", "./tools/test.sh"]),
        ("uv run main.py", ["uv run main.py …", "uv run main.py"]),
    ],
)
def test_permission_forms_are_ordered_from_wide_to_exact(command: str, forms: list[str]) -> None:
    assert [str(form) for form in allowable_forms(command)] == forms
    assert all(form.matches(command) for form in allowable_forms(command))


@pytest.mark.parametrize(
    "command",
    [
        *("python", "python -c 'print(1)'", "python3.12 -c 1", "python -m -x", "pypy3 -c 1", "lua5.4 -e 1"),
        *("bash -c ls", "Bash -c ls", "R -e 'system(\"id\")'", "ipython x.py -c 1"),
        *("env pytest", "/usr/bin/env pytest", "uv run env x", "uv run --with x pytest", "npm x -- env ls"),
        *("yarn cross-env ls", "pnpm dotenv ls", "bun cross-env ls"),
        *("rustup run stable env x", "uv tool run x", "cmake -E env id", "/usr/bin/time rm x", "ssh-agent ls"),
        *("rm -r build", "curl http://localhost", "gcc-12 -wrapper id a.c", "x86_64-linux-gnu-cpp x", "ldd ./x"),
        *(". ./x.sh", "unset 'DIRSTACK[$(id)]'", "test -v 'a[$(id)]'", "jobs -x id", "unknown-program x"),
        *("../env ls", "./../env ls", "a/../../env ls", ".venv/bin/dotenv run ls", "node_modules/.bin/cross-env ls"),
        *("rg --pre=sh x", "uv run rg --pre sh x", "git grep -Ovi x", "git push --e=id . HEAD:x"),
        *("git -c core.pager=x diff", "git config alias.x '!id'", "git clone -c core.sshCommand=id ssh://x"),
    ],
)
def test_what_could_run_another_program_is_allowed_word_for_word(command: str) -> None:
    (form,) = allowable_forms(command)
    assert str(form) == command and form.matches(command)
    opened = AllowableCommandPattern(form.words[:1], open=True)
    assert not opened.matches(command), "allowed when the program was not in question yet"


@pytest.mark.parametrize(
    "command",
    [
        *("\\[ -v 'a[$(id)]' ]", "'[' -v 'a[$(id)]' ]"),
        *("pytest && rm x", "pytest | tee x", "pytest > x", "pytest $(id)", "pytest `id`", "A=1 pytest", "rm *"),
        "pytest\nid",
    ],
)
def test_a_compound_command_has_no_form(command: str) -> None:
    with pytest.raises(NotSimpleCommand):
        allowable_forms(command)
    assert not AllowableCommandPattern(("pytest",), open=True).matches(command)


def test_a_form_covers_whole_words_in_their_order() -> None:
    form = AllowableCommandPattern(("git", "diff"), open=True)
    assert form.matches("git diff") and form.matches("git  'diff' --stat src/*.py")
    others = ("git", "git difftool", "git -c x diff", "git log diff", "git d*")
    assert not any(form.matches(other) for other in others)
    assert not AllowableCommandPattern(("git", "diff"), open=False).matches("git diff x")
    (*_, exact) = allowable_forms("cat '*'")
    assert exact.matches("cat '*'") and not exact.matches("cat *")


@pytest.mark.parametrize(
    ("words", "covered", "asked"),
    [
        (("rg",), "rg -n --hidden pre", ("rg --pre sh x", "rg x --pre=sh", "rg --hostname-bin=id x", "rg x *")),
        (("git", "grep"), "git grep -n x -- src/*.py", ("git grep --open-files=sh x", "git grep -nOsh x")),
        (("git", "grep"), "git grep -n open config.py", ("git grep x ?*", "git grep x [-]Oid", "git grep x -*")),
        (("git", "fetch"), "git fetch origin", ("git fetch --upload-pack=id .", "git fetch --upl id .")),
        (("git", "push"), "git push origin HEAD", ("git push --e=id .", "git push --receive-pack=id .")),
        (("go", "vet"), "go vet ./exec -x", ("go vet -vettool=id .", "go vet --toolexec id .")),
        (("git", "diff"), "git diff --stat outputs", ("git diff --output=/tmp/x", "git diff --ext-diff")),
        (("make",), "make --jobs=2 test", ("make --eval='x:;id'", "make -E x", "make 'X:=$(shell id)'", "make X*")),
        (("just",), "just -f x test", ("just -c id", "just --command id", "just test 'x=; id'")),
        (
            ("npm", "test"),
            "npm test -- -x",
            ("npm test --node-options=--import=data:,x", "npm test --script-shell ./x"),
        ),
        (("hg", "log"), "hg log -r 1", ("hg log --config 'alias.log=!id'", "hg log -R x", "hg log --cwd=x")),
        (("jj", "diff"), "jj diff -r @-", ("jj diff --tool=./x", "jj diff --config 'ui.pager=id'", "jj diff -R x")),
        (("svn", "diff"), "svn diff -c 3", ("svn diff --diff-cmd ./x", "svn diff --config-dir=x")),
        (("cargo", "tree"), "cargo tree -e no-dev", ("cargo tree --config 'build.rustc=\"./x\"'",)),
        (("kubectl", "get"), "kubectl get pods", ("kubectl get pods --kubeconfig=x",)),
        (("pylint",), "pylint src", ("pylint --init-hook=id src", "pylint --load-plugins x src")),
        (("mypy",), "mypy src", ("mypy --python-executable=./x src", "mypy @options src")),
        (("diff3",), "diff3 -m a b c", ("diff3 --diff-program=./x a b c", "diff3 --diff-p ./x a b c")),
        (("go", "build"), "go build ./ld", ("go build -ldflags=-extld=./x", "go build --ldflags x")),
        (("tox",), "tox -e py", ("tox -x testenv.commands=id", "tox --override testenv.commands=id")),
        (("gradle", "test"), "gradle test -q", ("gradle test -I x.gradle", "gradle test --init-script=x")),
        (("sort",), "sort -n x", ("sort -no x y", "sort --compress-prog=sh x")),
    ],
)
def test_a_reading_form_covers_no_writing(words: tuple[str, ...], covered: str, asked: tuple[str, ...]) -> None:
    form = AllowableCommandPattern(words, open=True)
    assert form.matches(covered)
    assert not [command for command in asked if form.matches(command)]


@given(words=WORDS, is_open=st.booleans())
def test_a_form_survives_dump_and_load(words: list[str], is_open: bool) -> None:
    form = AllowableCommandPattern(tuple(words), is_open)
    assert AllowableCommandPattern.load(form.dump()) == form


@pytest.mark.parametrize("text", ["", "[]", "[[], true]", '[["a"], 1]', "[[1], true]", '{"a": 1}'])
def test_an_invalid_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        AllowableCommandPattern.load(text)

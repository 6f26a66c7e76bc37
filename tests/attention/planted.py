"""Thirty commits with a typical defect of a careless author in the last file by path.

No rule detects the last few defects: they show how much is missed.
"""

from collections.abc import Iterator

from tests.attention.commits import Texts

PYTHON_MODULE = '''\
class Station:
    offset: float = 0.0


def nearest(stations, place):
    """The station that is nearest to a place."""
    return min(stations, key=lambda each: abs(each.offset - place))
'''
PYTHON_TESTS = """\
from coast.stations import Station, nearest


def test_nearest():
    assert nearest([Station("a"), Station("b", 2.0)], 1.9).name == "b"
"""
TYPESCRIPT = """\
export function rows(stations: Station[]): Row[] {
  return stations.map((each) => ({ label: each.name, height: each.height }));
}

export function label(row: Row): string {
  return `${row.label}: ${row.height} m`;
}
"""
GO = """\
package coast

import "fmt"

func (h Height) String() string {
	return fmt.Sprintf("%.2f m", float64(h))
}
"""
README = "# Coast\n\nTides for sailors.\n\n## Install\n\n    pip install coast\n\n## Use\n\n    coast tide Brest\n"
SETTINGS = (
    '[project]\nname = "coast"\nversion = "1.2.0"\ndependencies = ["attrs>=23"]\n\n[tool.ruff]\nline-length = 100\n'
)
LOCKED = "".join(f'[[package]]\nname = "part{n}"\nversion = "1.{n}.0"\n\n' for n in range(12))
STYLE = ".row { color: #123; padding: 4px; }\n.row:hover { color: #456; }\n"
CHANGES = "# Changes\n\n## 1.2.0\n\n- Heights in metres.\n"

CHANGED: tuple[tuple[str, str | None, str], ...] = (
    (
        "coast/stations.py",
        PYTHON_MODULE,
        PYTHON_MODULE.replace("abs(each.offset - place)", "abs(place - each.offset)"),
    ),
    (
        "coast/heights.py",
        None,
        '"""Heights."""\n\n\ndef in_feet(metres):\n    """Metres as feet."""\n    return metres / 0.3048\n',
    ),
    (
        "coast/cli.py",
        "import sys\n\nfrom coast.stations import names\n\n\ndef main():\n    print(names(sys.argv[1:]))\n",
        "import sys\n\nfrom coast.heights import in_feet\nfrom coast.stations import names\n\n\ndef main():\n"
        "    print(names(sys.argv[1:]))\n    print(in_feet(3.2))\n",
    ),
    (
        "coast/tests/test_stations.py",
        PYTHON_TESTS,
        PYTHON_TESTS + '\n\ndef test_an_offset_is_zero():\n    assert Station("a").offset == 0.0\n',
    ),
    ("app/rows.ts", TYPESCRIPT, TYPESCRIPT.replace("each.height }", "each.height ?? 0 }").replace(" m`", " metres`")),
    ("app/rows.css", STYLE, STYLE.replace("4px", "6px")),
    ("coast/height.go", GO, GO.replace("%.2f m", "%.1f m")),
    ("README.md", README, README.replace("Tides for sailors.", "Tides and heights for sailors.")),
    ("CHANGES.md", CHANGES, CHANGES.replace("## 1.2.0", "## 1.3.0\n\n- Heights in feet.\n\n## 1.2.0")),
    ("pyproject.toml", SETTINGS, SETTINGS.replace("1.2.0", "1.3.0").replace("attrs>=23", "attrs>=24")),
    ("uv.lock", LOCKED, LOCKED.replace('version = "1.', 'version = "2.')),
    (
        "coast/format.py",
        "def line(name, height):\n    text = name + ' ' + str(height)\n    return text\n",
        "def line(name, height):\n    return f'{name} {height}'\n",
    ),
    (
        "coast/cache.py",
        "KEPT = 100\n\n\ndef keep(known, key, value):\n    known[key] = value\n    while len(known) > KEPT:\n"
        "        known.pop(next(iter(known)))\n",
        "KEPT = 250\n\n\ndef keep(known, key, value):\n    known.pop(key, None)\n    known[key] = value\n"
        "    while len(known) > KEPT:\n        known.pop(next(iter(known)))\n",
    ),
    (
        "migrations/0007_heights.sql",
        None,
        "ALTER TABLE readings ADD COLUMN height REAL;\nUPDATE readings SET height = level / 100.0;\n",
    ),
)


Defect = tuple[str, str, str, str]
"""The path, the file's text, and the old and new text of the defect."""

_FETCH = '''\
import logging
import urllib.parse

log = logging.getLogger(__name__)


def wanted(url, allowed):
    """Whether a page may be asked for."""
    host = urllib.parse.urlsplit(url).hostname
    if host not in allowed:
        raise PermissionError(host)
    return host


def parse(text):
    try:
        return float(text)
    except ValueError as error:
        log.warning("not a number: %s", error)
        raise


def ask(session, url, allowed):
    wanted(url, allowed)
    answer = session.get(url, timeout=10)
    assert answer.status_code == 200, answer.status_code
    return parse(answer.text)
'''
_TESTS = """\
import pytest

from zeta.fetch import parse, wanted


def test_a_strange_host_is_refused():
    with pytest.raises(PermissionError):
        wanted("https://evil.example/x", {"tides.example"})


def test_a_number_is_read():
    assert parse("1.5") == 1.5
    assert parse("-2") == -2.0


def test_no_number_is_refused():
    with pytest.raises(ValueError):
        parse("high")
"""
_JS = """\
import { settings } from "./settings.js";

export async function load(store, id) {
  const found = await store.read(id);
  if (!found) {
    throw new Error(`no reading ${id}`);
  }
  return JSON.parse(found);
}

export function save(store, reading) {
  try {
    store.write(reading.id, JSON.stringify(reading));
  } catch (error) {
    settings.report(error);
    throw error;
  }
}
"""
_JS_TESTS = """\
import { load } from "../web/store.js";

describe("load", () => {
  it("reads what was written", async () => {
    expect(await load(new Map([["a", "1"]]), "a")).toBe(1);
  });

  it("refuses what is not there", async () => {
    await expect(load(new Map(), "b")).rejects.toThrow();
  });
});
"""
_GO = """\
package zone

import (
	"errors"
	"os"
)

var ErrEmpty = errors.New("empty")

func Read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, ErrEmpty
	}
	if len(data) > 1<<20 {
		return nil, errors.New("too large")
	}
	return data, nil
}
"""
_JAVA = """\
class Vault {
  byte[] open(User user, String name) {
    if (!user.mayRead(name)) {
      throw new SecurityException(name);
    }
    return store.read(name);
  }
}
"""
_SHELL = '#!/bin/sh\nset -eu\nversion=$1\ngit tag "v$version"\nmake dist\necho "$version is ready"\n'
_RUST = """\
pub fn parse(text: &str) -> Result<u32, String> {
    let value: u32 = text.trim().parse().map_err(|_| text.to_string())?;
    if value > 4096 {
        return Err(format!("{value} is too deep"));
    }
    Ok(value)
}

#[test]
fn test_deep_is_refused() {
    assert!(parse("5000").is_err());
}
"""
_RUBY = """\
class Zone
  def read(path)
    File.read(path)
  rescue Errno::ENOENT => error
    warn error
    raise
  end
end
"""
_CLIENT = (
    "import requests\n\n\ndef tides(url):\n    answer = requests.get(url, timeout=5)\n    return answer.json()\n"
)
_PACKAGE = '{\n  "name": "zeta",\n  "scripts": {\n    "test": "node --test"\n  }\n}\n'

DEFECTS: tuple[Defect, ...] = (
    ("zeta/fetch.py", _FETCH, "        raise PermissionError(host)\n", "        log.info(host)\n"),
    ("zeta/fetch.py", _FETCH, '        log.warning("not a number: %s", error)\n        raise\n', "        pass\n"),
    ("zeta/fetch.py", _FETCH, "    except ValueError as error:", "    except:"),
    ("zeta/fetch.py", _FETCH, "        return float(text)", "        return eval(text)"),
    ("zeta/fetch.py", _FETCH, "    assert answer.status_code == 200, answer.status_code\n", ""),
    ("zeta/fetch.py", _FETCH, "timeout=10)", "timeout=10, verify=False)"),
    ("zeta/fetch.py", _FETCH, "log = logging", 'API_TOKEN = "7f3e9a1c5b2d8064"\nlog = logging'),
    ("zeta/fetch.py", _FETCH, "    return host\n", '    os.system("ping -c1 " + host)\n    return host\n'),
    ("zeta/fetch.py", _FETCH, "    return parse(answer.text)\n", "    return pickle.loads(answer.content)\n"),
    ("zeta/fetch.py", _FETCH, "    wanted(url, allowed)\n    answer = session.get(url, timeout=10)",
     "    answer = urllib.request.urlopen(url)"),
    ("zeta/tests/test_fetch.py", _TESTS, '    assert parse("-2") == -2.0\n', ""),
    ("zeta/tests/test_fetch.py", _TESTS, _TESTS[_TESTS.index("def test_no_number") - 2 :], ""),
    ("zeta/tests/test_fetch.py", _TESTS, "def test_a_strange_host", "@pytest.mark.skip\ndef test_a_strange_host"),
    ("zeta/tests/test_fetch.py", _TESTS, _TESTS[: _TESTS.index("def test_a_number")],
     "from zeta.fetch import parse\n\n\n"),
    ("web/store.js", _JS, "    settings.report(error);\n    throw error;\n", "    // never mind\n"),
    ("web/store.js", _JS, "    throw new Error(`no reading ${id}`);\n", "    return null;\n"),
    ("web/store.js", _JS, "JSON.parse(found)", "eval(`(${found})`)"),
    ("web/store.js", _JS, "  return JSON", '  await fetch("https://count.example/" + id);\n  return JSON'),
    ("web/tests/store.test.js", _JS_TESTS, '    await expect(load(new Map(), "b")).rejects.toThrow();\n',
     "    await 0;\n"),
    ("web/tests/store.test.js", _JS_TESTS, 'it("refuses', 'it.skip("refuses'),
    ("zone/read.go", _GO, "		return nil, err\n", ""),
    ("zone/read.go", _GO, "	if len(data) > 1<<20 {\n		return nil, errors.New(\"too large\")\n	}\n", ""),
    ("zeta/Vault.java", _JAVA, "      throw new SecurityException(name);\n", "      log(name);\n"),
    ("zeta/release.sh", _SHELL, "make dist\n", "curl -s https://get.example/tool | sh\nmake dist\n"),
    ("zeta/parse.rs", _RUST, '        return Err(format!("{value} is too deep"));\n', "        return Ok(4096);\n"),
    ("zone.rb", _RUBY, "    warn error\n    raise\n", "    nil\n"),
    ("zeta/client.py", _CLIENT, "requests.get(url, timeout=5)", "requests.get(url.strip())"),
    ("zeta/package.json", _PACKAGE, '    "test"', '    "postinstall": "node setup.js",\n    "test"'),
    ("zeta/fetch.py", _FETCH, "    if host not in allowed:", "    if host in allowed:"),
    ("zone/read.go", _GO, "1<<20", "1<<30"),
)  # fmt: skip
"""The last two defects, the bare `except:` and the client without a timeout look like ordinary changes."""


def commits() -> Iterator[tuple[str, dict[str, Texts]]]:
    """Yield the path of each defect and its commit, which has four to nine other files in several languages."""
    for number, (path, text, before, after) in enumerate(DEFECTS):
        assert before in text, (path, before)
        size = 4 + number % 6
        others = [CHANGED[(number * 3 + step * 5) % len(CHANGED)] for step in range(size)]
        files: dict[str, Texts] = {name: (old, new) for name, old, new in others}
        files[path] = (text, text.replace(before, after, 1))
        assert max(files) == path
        yield path, files

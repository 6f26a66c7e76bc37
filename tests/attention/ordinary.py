"""Changes as they come in any commit, with nothing in them that deserves more than a look: a path, before, after."""

PYTHON_MODULE = '''\
"""Stations along the coast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Station:
    name: str
    offset: float = 0.0


def nearest(stations, place):
    """The station that is nearest to a place."""
    return min(stations, key=lambda each: abs(each.offset - place))


def names(stations):
    return [each.name for each in stations]
'''
PYTHON_TESTS = """\
from coast.stations import Station, names, nearest


def test_nearest():
    assert nearest([Station("a"), Station("b", 2.0)], 1.9).name == "b"


def test_names():
    assert names([Station("a")]) == ["a"]
"""
TYPESCRIPT = """\
import { Station } from "./station";

export interface Row {
  label: string;
  height: number;
}

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

// Height is in metres over the datum.
type Height float64

func (h Height) String() string {
	return fmt.Sprintf("%.2f m", float64(h))
}

func Parse(text string) (Height, error) {
	var value float64
	if _, err := fmt.Sscanf(text, "%f", &value); err != nil {
		return 0, fmt.Errorf("height %q: %w", text, err)
	}
	return Height(value), nil
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
    (
        "app/rows.ts",
        TYPESCRIPT,
        TYPESCRIPT.replace("each.height }", "each.height ?? 0 }").replace(" m`", " metres`"),
    ),
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

"""Style sheets find widgets by the name of their class alone, so no two classes may share one."""

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator

import textual.widgets
from textual.widget import Widget

import app
import widgets


def classes_of(kind: type[Widget]) -> Iterator[type[Widget]]:
    """A class and all that are derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from classes_of(derived)


def test_every_widget_has_a_name_of_its_own() -> None:
    for package in (app, widgets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    places: dict[str, set[str]] = defaultdict(set)
    for kind in classes_of(Widget):
        if kind.__module__.split(".")[0] in ("app", "widgets"):
            places[kind.__name__].add(kind.__module__)
    for name in textual.widgets.__all__:  # type: ignore[attr-defined]
        if name in places:
            places[name].add("textual.widgets")
    shared = {name: sorted(modules) for name, modules in places.items() if len(modules) > 1}
    assert not shared

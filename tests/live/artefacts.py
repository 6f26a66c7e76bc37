"""The artefacts of a live test run: a summary, and for each check its requests and the session's event log."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.conversation.events import Event
from tests.live.bench import Recorder, tokens_of
from tests.live.vendors import Target

_SUMMED_FIELDS = ("requests", "seconds", "input_tokens", "cached_tokens", "output_tokens", "dollars")


@dataclass
class Artefacts:
    """The folder of a run."""

    folder: Path
    keys: set[str] = field(default_factory=set)
    """API keys; no file may contain one."""
    _summary: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(
        self,
        target: Target,
        check: str,
        recorder: Recorder,
        events: list[Event],
        *,
        outcome: str,
        detail: str,
        seconds: float,
    ) -> None:
        """Write the requests and the event log of a check, and add it to the summary."""
        for number, exchange in enumerate(recorder.exchanges, 1):
            request = exchange.request
            content = {
                "method": request.method,
                "url": exchange.url,
                "headers": request.headers,
                "status": exchange.status,
                "body": request.body,
            }
            self._write(Path(target.name, check, f"{number:02}.json"), json.dumps(content, indent=1))
        if events:
            log = "".join(f"{event.model_dump_json()}\n" for event in events)
            self._write(Path(target.name, check, "log.jsonl"), log)
        entry = self._summary.setdefault(
            target.name,
            {
                "vendor": target.vendor,
                "model": target.model,
                "wire": next((exchange.request.wire for exchange in recorder.turns), target.wire),
                "checks": {},
            },
        )
        entry["checks"][check] = {
            "outcome": outcome,
            "detail": detail,
            "requests": len(recorder.exchanges),
            "seconds": round(seconds, 2),
            **tokens_of(events),
        }
        for name in _SUMMED_FIELDS:
            values = [check_entry[name] for check_entry in entry["checks"].values() if check_entry[name] is not None]
            entry[name] = round(sum(values), 6) if values else None
        self._write(Path("summary.json"), json.dumps(self._summary, indent=1))

    def _write(self, path: Path, text: str) -> None:
        assert not any(key in text for key in self.keys), f"{path} contains an API key"
        target_file = self.folder / path
        target_file.parent.mkdir(parents=True, exist_ok=True)
        target_file.write_text(text, encoding="utf-8")

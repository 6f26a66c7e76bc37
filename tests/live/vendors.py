"""The endpoints of the live tests, by their names in `SIGNOFF_LIVE`.

SIGNOFF_LIVE=openai,anthropic            vendors; their keys are in the usual variables
SIGNOFF_LIVE=openai=gpt-5.4-mini         a vendor, with another model than its default
SIGNOFF_LIVE=url                         SIGNOFF_LIVE_URL, _MODEL and, if needed, _KEY and _WIRE
SIGNOFF_LIVE=litellm                     a LiteLLM proxy that the tests start, with scripted models
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from app.config.config_tables import PriceTable
from app.copies import replace

MAX_RESPONSE_TOKENS = 3_000
"""Maximum number of tokens of each response, reasoning included."""
_LIMIT_FIELDS = {"chat": "max_tokens", "anthropic": "max_tokens", "responses": "max_output_tokens"}
"""Name of the limit's field on each wire."""


@dataclass(frozen=True)
class Target:
    """A model of an endpoint, on one wire."""

    name: str
    """Name in the summary: the vendor, and the wire if the vendor has several."""
    vendor: str
    base_url: str
    model: str
    wire: str
    """`auto` selects the wire by the address."""
    key: str = field(repr=False)
    price: PriceTable | None = None
    """Price of the vendor's default model in November 2026."""
    limit: str = ""
    """Field for the limit of a response, if it differs from the wire's usual one."""
    scripted: bool = False
    """Whether the model follows the tests exactly, and its server rejects nothing."""

    @property
    def limit_field(self) -> str:
        return self.limit or _LIMIT_FIELDS.get(self.wire, "max_tokens")


@dataclass(frozen=True)
class Vendor:
    """A vendor of models, with a small default model that calls tools."""

    base_url: str
    model: str
    key_variable: str
    price: PriceTable | None = None
    wires: tuple[str, ...] = ("auto",)
    limits: Mapping[str, str] = field(default_factory=dict)
    """By wire, as `Target.limit`."""


VENDORS = {
    "openai": Vendor(
        "https://api.openai.com/v1",
        "gpt-4.1-mini",
        "OPENAI_API_KEY",
        PriceTable(input=0.4, output=1.6, cached=0.1),
        ("chat", "responses"),
        {"chat": "max_completion_tokens"},
    ),
    "anthropic": Vendor(
        "https://api.anthropic.com",
        "claude-haiku-4-5",
        "ANTHROPIC_API_KEY",
        PriceTable(input=1, output=5, cached=0.1, cache_write=1.25),
        ("anthropic",),
    ),
    # Its model list contains the prices.
    "openrouter": Vendor("https://openrouter.ai/api/v1", "openai/gpt-4.1-mini", "OPENROUTER_API_KEY"),
    "mistral": Vendor(
        "https://api.mistral.ai/v1", "mistral-small-latest", "MISTRAL_API_KEY", PriceTable(input=0.15, output=0.6)
    ),
    "deepseek": Vendor(
        "https://api.deepseek.com/v1", "deepseek-v4-flash", "DEEPSEEK_API_KEY", PriceTable(input=0.3, output=1.2)
    ),
    "gemini": Vendor(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-flash",
        "GEMINI_API_KEY",
        PriceTable(input=0.3, output=2.5, cached=0.03),
    ),
    "groq": Vendor(
        "https://api.groq.com/openai/v1", "openai/gpt-oss-20b", "GROQ_API_KEY", PriceTable(input=0.075, output=0.3)
    ),
    "xai": Vendor(
        "https://api.x.ai/v1", "grok-4.20-non-reasoning", "XAI_API_KEY", PriceTable(input=1.25, output=2.5)
    ),
}
LITELLM = "litellm"
URL = "url"


def targets(wanted: str, environment: Mapping[str, str]) -> list[Target]:
    """The targets that `SIGNOFF_LIVE` names; those of LiteLLM have no address yet.

    Args:
        wanted: the value of `SIGNOFF_LIVE`.
        environment: where the keys are.

    Raises:
        pytest.UsageError: a name or a key is missing; the message says which.
    """
    selected: list[Target] = []
    for entry in filter(None, (word.strip() for word in wanted.split(","))):
        name, _, model = entry.partition("=")
        if name == URL:
            selected.append(_custom_target(environment))
        elif vendor := VENDORS.get(name):
            if not (key := environment.get(vendor.key_variable, "").strip()):
                raise pytest.UsageError(f"SIGNOFF_LIVE names {name}, but {vendor.key_variable} is not set.")
            selected += _vendor_targets(name, vendor, model, key)
        elif name == LITELLM:
            selected += proxied("", "")
        else:
            raise pytest.UsageError(
                f"SIGNOFF_LIVE names {name!r}, which is not one of {', '.join([*VENDORS, URL, LITELLM])}."
            )
    return selected


def _vendor_targets(name: str, vendor: Vendor, model: str, key: str) -> list[Target]:
    has_several_wires = len(vendor.wires) > 1
    return [
        Target(
            f"{name}-{wire}" if has_several_wires else name,
            name,
            vendor.base_url,
            model or vendor.model,
            wire,
            key,
            None if model else vendor.price,
            vendor.limits.get(wire, ""),
        )
        for wire in vendor.wires
    ]


def _custom_target(environment: Mapping[str, str]) -> Target:
    for name in ("SIGNOFF_LIVE_URL", "SIGNOFF_LIVE_MODEL"):
        if not environment.get(name):
            raise pytest.UsageError(f"SIGNOFF_LIVE names url, but {name} is not set.")
    wire = environment.get("SIGNOFF_LIVE_WIRE", "auto")
    key = environment.get("SIGNOFF_LIVE_KEY", "")
    return Target(URL, URL, environment["SIGNOFF_LIVE_URL"], environment["SIGNOFF_LIVE_MODEL"], wire, key)


def proxied(base_url: str, key: str) -> list[Target]:
    """Return the targets of a LiteLLM proxy with the configuration of `tests.live.litellm_proxy`."""
    template = Target("", LITELLM, base_url, "", "", key, PriceTable(input=1, output=5), scripted=True)
    return [
        replace(template, name=f"{LITELLM}-chat", model="scripted", wire="chat"),
        replace(template, name=f"{LITELLM}-responses", model="scripted", wire="responses"),
        replace(template, name=f"{LITELLM}-anthropic", model="scripted-claude", wire="anthropic"),
        replace(template, name=f"{LITELLM}-chat-to-anthropic", model="scripted-claude", wire="chat"),
    ]

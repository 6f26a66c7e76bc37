"""The list of models, in the shapes that servers give it."""

from typing import Any

import pytest

from app.llm.capabilities.model_list import read_models


@pytest.mark.parametrize(
    ("entry", "takes"),
    [
        ({"architecture": {"input_modalities": ["text", "image"]}}, True),
        ({"supported_input_modalities": ["text"], "vision": True}, False),
        ({"modalities": [], "vision": True}, True),
        ({"capabilities": {"vision": False}, "supports_vision": None}, False),
        ({"capabilities": {"image_input": {"supported": True}}}, True),
        ({"capabilities": {"image_input": {"supported": "yes"}}, "supports_image_input": False}, False),
        ({"modalities": "text", "vision": 1}, None),
        ({}, None),
    ],
)
def test_whether_a_model_takes_images(entry: dict[str, Any], takes: bool | None) -> None:
    models = read_models({"data": [{"id": "m", **entry}]})
    assert models is not None
    assert [(model.id, model.takes_images) for model in models] == [("m", takes)]

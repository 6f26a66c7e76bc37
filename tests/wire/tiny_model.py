"""A language model of a third of a megabyte with random weights, in the format that llama.cpp loads (GGUF 3).

It says nothing that means anything, but what serves it is real: its tokenizer reads every text, byte for byte where
it has no better token, and templates, parsers and the protocol around it are those that real models get.
"""

import random
import struct
from array import array
from pathlib import Path
from typing import Any

_MARKS = (
    *("<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]"),
    *("[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
)
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_F32 = 0
_ALIGNED = 32
_WIDTH, _HEADS, _CONTEXT = 64, 2, 65_536


def write_tiny_model(path: Path) -> None:
    """Write the model, always the same."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256]
    letters = ["\u2581", *map(chr, range(33, 127))]
    tokens += letters + list(_MARKS)
    types += [_NORMAL] * len(letters) + [_CONTROL] * len(_MARKS)
    facts: list[tuple[str, int, Any]] = [
        ("general.architecture", _STRING, "llama"),
        ("general.name", _STRING, "tiny-random"),
        ("llama.context_length", _UINT32, _CONTEXT),
        ("llama.embedding_length", _UINT32, _WIDTH),
        ("llama.block_count", _UINT32, 1),
        ("llama.feed_forward_length", _UINT32, _WIDTH),
        ("llama.attention.head_count", _UINT32, _HEADS),
        ("llama.attention.head_count_kv", _UINT32, _HEADS),
        ("llama.attention.layer_norm_rms_epsilon", _FLOAT32, 1e-5),
        ("llama.rope.dimension_count", _UINT32, _WIDTH // _HEADS),
        ("llama.vocab_size", _UINT32, len(tokens)),
        ("tokenizer.ggml.model", _STRING, "llama"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, tokens)),
        ("tokenizer.ggml.scores", _ARRAY, (_FLOAT32, [-1.0] * len(tokens))),
        ("tokenizer.ggml.token_type", _ARRAY, (_INT32, types)),
        ("tokenizer.ggml.bos_token_id", _UINT32, 1),
        ("tokenizer.ggml.eos_token_id", _UINT32, 2),
        ("tokenizer.ggml.unknown_token_id", _UINT32, 0),
        ("tokenizer.ggml.add_space_prefix", _BOOL, False),
    ]
    square = (_WIDTH, _WIDTH)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (_WIDTH, len(tokens)),
        "output.weight": (_WIDTH, len(tokens)),
        "output_norm.weight": (_WIDTH,),
        "blk.0.attn_norm.weight": (_WIDTH,),
        "blk.0.ffn_norm.weight": (_WIDTH,),
        **{f"blk.0.attn_{part}.weight": square for part in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{part}.weight": square for part in ("gate", "up", "down")},
    }
    chance = random.Random(1)
    infos, data = b"", b""
    for name, shape in shapes.items():
        infos += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, _F32, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights = array("f", ([1.0] * count if len(shape) == 1 else [chance.gauss(0, 0.2) for _ in range(count)]))
        data += _padded(weights.tobytes())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(facts))
    head += b"".join(_text(name) + struct.pack("<I", kind) + _value(kind, value) for name, kind, value in facts)
    path.write_bytes(_padded(head + infos) + data)


def _value(kind: int, value: Any) -> bytes:
    match kind:
        case 8:
            return _text(value)
        case 9:
            of, items = value
            return struct.pack("<IQ", of, len(items)) + b"".join(_value(of, item) for item in items)
    return struct.pack({_UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}[kind], value)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNED)

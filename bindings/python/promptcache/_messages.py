"""Messages of a conversation, as mappings like those of OpenAI's interface."""
from __future__ import annotations

import json
from typing import Any, List, Mapping, Sequence, Tuple

from ._core import NULL, c_string, c_text, strings
from ._raw import ffi

__all__ = ["Message"]

#: A message: "role", "content", and if need be "modules" (paths of modules of the schema, whose
#: texts stand in front of the content), "tool_calls", "tool_call_id", "name", and further members
#: that the model's chat template reads.
Message = Mapping[str, Any]

_KNOWN = {"role", "content", "modules", "tool_calls", "tool_call_id", "name"}


def _json(value: Any) -> Any:
    return ffi.new("char[]", c_string(value if isinstance(value, str)
                                      else json.dumps(value, ensure_ascii=False)))


def _fill(item: Any, message: Message, keep: List[Any], index: int) -> None:
    def point(field: str, memory: Any) -> None:
        setattr(item, field, memory)
        keep.append(memory)

    if not isinstance(message, Mapping) or "role" not in message:
        raise TypeError(f"message {index}: a mapping with \"role\" is needed")
    point("role", ffi.new("char[]", c_string(message["role"], f"message {index}: role")))
    content = message.get("content")
    if content is not None or not message.get("tool_calls"):
        raw = c_text("" if content is None else content, f"message {index}: content")
        point("content", ffi.new("char[]", raw))
        item.content_size = len(raw)
    modules = message.get("modules")
    if modules:
        item.modules = strings(modules, keep, "modules")
        item.module_count = len(modules)
    if message.get("tool_calls"):
        point("tool_calls", _json(message["tool_calls"]))
    for field in ("tool_call_id", "name"):
        if message.get(field) is not None:
            point(field, ffi.new("char[]", c_string(message[field], field)))
    others = {name: value for name, value in message.items() if name not in _KNOWN}
    if others:
        point("fields", _json(others))


def message_array(messages: Sequence[Message]) -> Tuple[Any, int, List[Any]]:
    """(array, count, what must live as long)"""
    if isinstance(messages, (str, bytes, Mapping)) or not hasattr(messages, "__len__"):
        raise TypeError("messages: a list of messages is needed, each a mapping with \"role\"")
    keep: List[Any] = []
    array = ffi.new("pc_message[]", len(messages)) if messages else NULL
    for index, message in enumerate(messages):
        _fill(array[index], message, keep, index)
    return array, len(messages), keep

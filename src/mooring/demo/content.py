"""What the demo server offers besides tools: a prompt, resources, completion."""

from __future__ import annotations

import time

from mooring.demo.conversation import INVALID_PARAMS, Conversation, RpcError

TYPE_CHECKING = False  # see conversation.py
if TYPE_CHECKING:
    from mooring.demo.conversation import Handler, Json

__all__ = ["COUNTER", "METHODS", "NOTE"]

RESOURCE_NOT_FOUND = -32002

NOTE = "demo://note"
COUNTER = "demo://counter"
TIME = "demo://time"
ECHO = "demo://echo/"

RESOURCES = [
    {"uri": NOTE, "name": "note", "description": "Changed by the tool `touch`", "mimeType": "text/plain"},
    {
        "uri": COUNTER,
        "name": "counter",
        "description": "Changed by the tool `counter`",
        "mimeType": "text/plain",
    },
    {"uri": TIME, "name": "time", "description": "The time of the server, UTC", "mimeType": "text/plain"},
]
TEMPLATES = [
    {
        "uriTemplate": ECHO + "{text}",
        "name": "echo",
        "description": "The same text",
        "mimeType": "text/plain",
    },
]
TONES = ("formal", "friendly", "nautical")
GREET = {
    "name": "greet",
    "description": "Greet somebody",
    "arguments": [
        {"name": "name", "description": "Whom to greet", "required": True},
        {"name": "tone", "description": f"One of {', '.join(TONES)}", "required": False},
    ],
}


def _list_prompts(_conversation: Conversation, params: Json) -> Json:
    only_page(params)
    return {"prompts": [GREET]}


def _get_prompt(_conversation: Conversation, params: Json) -> Json:
    if params.get("name") != GREET["name"]:
        raise RpcError(INVALID_PARAMS, f"no prompt {params.get('name')!r}")
    arguments = params.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(arguments.get("name"), str):
        raise RpcError(INVALID_PARAMS, "greet needs the argument name, a string")
    tone = arguments.get("tone", "friendly")
    if tone not in TONES:
        raise RpcError(INVALID_PARAMS, f"tone is one of {', '.join(TONES)}")
    text = f"Write a {tone} greeting for {arguments['name']}."
    return {
        "description": GREET["description"],
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }


def _complete(_conversation: Conversation, params: Json) -> Json:
    reference, argument = params.get("ref"), params.get("argument")
    if not isinstance(reference, dict) or not isinstance(argument, dict):
        raise RpcError(INVALID_PARAMS, "completion needs ref and argument")
    values: list[str] = []
    if reference.get("name") == GREET["name"] and argument.get("name") == "tone":
        values = [tone for tone in TONES if tone.startswith(str(argument.get("value", "")))]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def _list_resources(_conversation: Conversation, params: Json) -> Json:
    only_page(params)
    return {"resources": RESOURCES}


def _list_templates(_conversation: Conversation, params: Json) -> Json:
    only_page(params)
    return {"resourceTemplates": TEMPLATES}


def _read_resource(conversation: Conversation, params: Json) -> Json:
    uri = _known_uri(params)
    if uri == NOTE:
        text = conversation.note
    elif uri == COUNTER:
        text = str(conversation.count)
    elif uri == TIME:
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    else:
        from urllib.parse import unquote  # noqa: PLC0415 - rarely needed, and start-up counts

        text = unquote(uri.removeprefix(ECHO))
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def _subscribe(conversation: Conversation, params: Json) -> Json:
    conversation.subscribed.add(_known_uri(params))
    return {}


def _unsubscribe(conversation: Conversation, params: Json) -> Json:
    conversation.subscribed.discard(_known_uri(params))
    return {}


def _known_uri(params: Json) -> str:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, "uri is a string")
    if uri not in (NOTE, COUNTER, TIME) and not uri.startswith(ECHO):
        raise RpcError(RESOURCE_NOT_FOUND, f"no resource {uri}")
    return uri


def only_page(params: Json) -> None:
    """Everything fits one page, so no cursor was ever given out."""
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "unknown cursor")


METHODS: dict[str, Handler] = {
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
    "completion/complete": _complete,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
}

"""The server that the conformance suite examines: every feature, both eras, on the `mcp` 2.x SDK.

Runs in the `sdk-2` part, on stdio by default and on its own HTTP transport with `--http PORT` (0 = pick and
print), which is the control: what the suite says of this server without Mooring in between.

Names, arguments and texts are what the suite's server scenarios ask for (`conformance list`, and the
description of each scenario). Everything is written as wire values and handed to the SDK's models, so that
what is sent can be read here. Five tables: TOOLS, DIALOGUES (tools that ask back in the modern era),
QUESTIONS (tools that ask back in either, and `wait`: for our own tests), RESOURCES, PROMPTS.
"""

import argparse
import asyncio
import json
import socket
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventMessage
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

# Sampling, roots and logging are deprecated in the newest revision and required in the older ones.
warnings.simplefilter("ignore", MCPDeprecationWarning)

NAME = "mooring-conformance-fixture"
PAUSE_S = 0.05
"""The suite asks for a pause between notifications."""

PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SILENCE_WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

Content = dict[str, Any]
Schema = dict[str, Any]

BUS = InMemorySubscriptionBus()


def text(words: str) -> Content:
    return {"type": "text", "text": words}


def image() -> Content:
    return {"type": "image", "data": PIXEL_PNG, "mimeType": "image/png"}


def embedded(uri: str, mime_type: str, words: str) -> Content:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


def form(required: tuple[str, ...] | None = None, /, **properties: Schema) -> Schema:
    """An object schema; every property is required unless told otherwise."""
    names = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": names}


@dataclass(frozen=True)
class Call:
    """One request that a tool or prompt serves, and what it may do meanwhile."""

    ctx: Any
    params: Any

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.params.arguments or {}

    @property
    def capabilities(self) -> Any:
        return self.ctx.session.client_capabilities

    async def log(self, words: str) -> None:
        await self.ctx.session.send_log_message("info", words, related_request_id=self.ctx.request_id)

    async def progress(self, done: float, total: float) -> None:
        await self.ctx.session.report_progress(done, total, f"{done:g} of {total:g}")

    async def elicit(self, message: str, schema: Schema) -> str:
        answer = await self.ctx.session.elicit_form(message, schema, self.ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content or {})}"

    async def sample(self, prompt: str) -> str:
        answer = await self.ctx.session.create_message(
            [types.SamplingMessage(role="user", content=types.TextContent(text=prompt))],
            max_tokens=100,
            related_request_id=self.ctx.request_id,
        )
        return str(answer.content.text)


Answer = str | list[Content]


@dataclass(frozen=True)
class Tool:
    description: str
    run: Callable[[Call], Awaitable[Answer]]
    schema: Schema

    def listed(self, name: str) -> Any:
        return types.Tool(name=name, description=self.description, input_schema=self.schema)


TOOLS: dict[str, Tool] = {}


def tool(
    description: str, schema: Schema | None = None
) -> Callable[..., Callable[[Call], Awaitable[Answer]]]:
    """Put a function into TOOLS under its own name."""

    def register(run: Callable[[Call], Awaitable[Answer]]) -> Callable[[Call], Awaitable[Answer]]:
        TOOLS[run.__name__] = Tool(description, run, schema or form())
        return run

    return register


# --- TOOLS: content ---------------------------------------------------------------------------------------


def fixed(name: str, description: str, *content: Content, schema: Schema | None = None) -> None:
    """A tool that always returns the same."""

    async def run(_: Call) -> Answer:
        return list(content)

    TOOLS[name] = Tool(description, run, schema or form())


MIXED = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')

fixed("test_simple_text", "One text", text("This is a simple text response for testing."))
fixed("test_image_content", "One image", image())
fixed("test_audio_content", "One sound", {"type": "audio", "data": SILENCE_WAV, "mimeType": "audio/wav"})
fixed(
    "test_embedded_resource",
    "One resource in the result",
    embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
)
fixed(
    "test_multiple_content_types",
    "A text, an image, a resource",
    text("Multiple content types test:"),
    image(),
    MIXED,
)
fixed(
    "json_schema_2020_12_tool",
    "Its schema uses what JSON Schema 2020-12 brought",
    text("called"),
    schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": [way]} for way in ("phone", "email")]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)


@tool("Always fails")
async def test_error_handling(_: Call) -> Answer:
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(
    "Says which region it was given, in the body and in a header",
    form((), region={"type": "string", "x-mcp-header": "Region"}),
)
async def test_x_mcp_header(call: Call) -> Answer:
    return f"region: {call.arguments.get('region')}"


# --- TOOLS: messages on the way ---------------------------------------------------------------------------


@tool("Logs three times")
async def test_tool_with_logging(call: Call) -> Answer:
    await call.log("Tool execution started")
    await asyncio.sleep(PAUSE_S)
    await call.log("Tool processing data")
    await asyncio.sleep(PAUSE_S)
    await call.log("Tool execution completed")
    return "logged three times"


@tool("Logs once")
async def test_logging_tool(call: Call) -> Answer:
    await call.log("working")
    return "logged once"


@tool("Reports progress three times")
async def test_tool_with_progress(call: Call) -> Answer:
    for done in (0, 50, 100):
        await call.progress(done, 100)
        await asyncio.sleep(PAUSE_S)
    return "reported three times"


@tool("Lets the client lose its stream in the middle of the call, where the transport can")
async def test_reconnection(call: Call) -> Answer:
    await call.log("before the stream ends")
    close = call.ctx.close_sse_stream  # Only the SDK's own HTTP transport has one.
    if close is not None:
        await close()
    await asyncio.sleep(0.2)
    await call.log("after the stream ended")
    return "still here"


@tool("Announces that the list of tools has changed")
async def test_trigger_tool_change(call: Call) -> Answer:
    await BUS.publish(ToolsListChanged())
    await call.ctx.session.send_tool_list_changed()
    return "announced"


@tool("Announces that the list of prompts has changed")
async def test_trigger_prompt_change(call: Call) -> Answer:
    await BUS.publish(PromptsListChanged())
    await call.ctx.session.send_prompt_list_changed()
    return "announced"


@tool("Announces that the list of resources has changed")
async def test_trigger_resource_change(call: Call) -> Answer:
    await BUS.publish(ResourcesListChanged())
    await call.ctx.session.send_resource_list_changed()
    return "announced"


@tool("Announces that the watched resource has changed, if anyone watches it")
async def touch_watched_resource(call: Call) -> Answer:
    await BUS.publish(ResourceUpdated(uri=WATCHED))
    if WATCHED in SUBSCRIBED:
        await call.ctx.session.send_resource_updated(WATCHED)
    return "announced"


# --- TOOLS: questions to the client, handshake eras -------------------------------------------------------


@tool("Lets the client's model answer", form(prompt={"type": "string"}))
async def test_sampling(call: Call) -> Answer:
    return f"LLM response: {await call.sample(call.arguments['prompt'])}"


@tool("Asks the user", form(message={"type": "string"}))
async def test_elicitation(call: Call) -> Answer:
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return f"User response: {await call.elicit(call.arguments['message'], schema)}"


STATUSES = ["active", "inactive", "pending"]


@tool("Asks the user, with an answer suggested for each kind of field")
async def test_elicitation_sep1034_defaults(call: Call) -> Answer:
    schema = form(
        (),
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": STATUSES, "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return f"Elicitation completed: {await call.elicit('Who are you?', schema)}"


def choices(*titles: str) -> list[dict[str, str]]:
    return [{"const": title.lower(), "title": title} for title in titles]


@tool("Asks the user to choose, in each way a choice can be written")
async def test_elicitation_sep1330_enums(call: Call) -> Answer:
    schema = form(
        (),
        untitledSingle={"type": "string", "enum": STATUSES},
        titledSingle={"type": "string", "oneOf": choices("Low", "Middle", "High")},
        legacyEnum={"type": "string", "enum": ["s", "m", "l"], "enumNames": ["Small", "Medium", "Large"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": ["read", "write", "run"]}},
        titledMulti={"type": "array", "items": {"anyOf": choices("Feature", "Bug", "Docs")}},
    )
    return f"Elicitation completed: {await call.elicit('Which ones?', schema)}"


# --- TOOLS: the modern era's own rules --------------------------------------------------------------------


@tool("Works for clients that declare sampling only")
async def test_missing_capability(call: Call) -> Answer:
    if call.capabilities is None or call.capabilities.sampling is None:
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="The client must declare sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return "declared"


@tool("Reports progress and answers; sends no request of its own")
async def test_streaming_elicitation(call: Call) -> Answer:
    await call.progress(1, 2)
    await call.log("half way")
    await call.progress(2, 2)
    return "answered"


# --- DIALOGUES: questions inside results (2026-07-28) -----------------------------------------------------


def elicitation(message: str, **properties: Schema) -> dict[str, Any]:
    return {
        "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": form(**properties)},
    }


def sampling(prompt: str, max_tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}}


ROOTS = {"method": "roots/list", "params": {}}
STRING = {"type": "string"}
WHO = elicitation("What is your name?", name=STRING)
CONFIRM = elicitation("Please confirm", ok={"type": "boolean"})

Answers = dict[str, Any]


@dataclass(frozen=True)
class Dialogue:
    """Rounds of questions, each asked until all of its answers are there; then a last word.

    With `remembers`, the answers so far travel in `requestState`, which the SDK seals.
    """

    rounds: tuple[dict[str, Any], ...]
    finish: Callable[[Answers], str]
    remembers: bool = False

    def next(self, call: Call) -> Any:
        """The next questions, or the last word."""
        answers: Answers = json.loads(call.params.request_state or "{}")
        for key, answer in (call.params.input_responses or {}).items():
            answers[key] = answer.model_dump(by_alias=True, exclude_none=True, mode="json")
        for questions in self.rounds:
            if questions.keys() - answers.keys():
                state = json.dumps(answers) if self.remembers else None
                return types.InputRequiredResult.model_validate(
                    {"inputRequests": questions, "requestState": state}
                )
        return self.finish(answers)


def said(answers: Answers, key: str, field: str) -> str:
    return str((answers[key].get("content") or {}).get(field))


DIALOGUES: dict[str, Dialogue] = {
    "test_input_required_result_elicitation": Dialogue(
        ({"user_name": WHO},), lambda answers: f"Hello, {said(answers, 'user_name', 'name')}!"
    ),
    "test_input_required_result_sampling": Dialogue(
        ({"capital_question": sampling("What is the capital of France?", 100)},),
        lambda answers: f"It said: {said(answers, 'capital_question', 'text')}",
    ),
    "test_input_required_result_list_roots": Dialogue(
        ({"client_roots": ROOTS},), lambda answers: f"Roots: {json.dumps(answers['client_roots']['roots'])}"
    ),
    "test_input_required_result_request_state": Dialogue(
        ({"confirm": CONFIRM},), lambda _: "state-ok", remembers=True
    ),
    "test_input_required_result_tampered_state": Dialogue(
        ({"confirm": CONFIRM},), lambda _: "state-ok", remembers=True
    ),
    "test_input_required_result_multiple_inputs": Dialogue(
        ({"user_name": WHO, "greeting": sampling("Generate a greeting", 50), "client_roots": ROOTS},),
        lambda answers: f"{len(answers)} answers",
        remembers=True,
    ),
    "test_input_required_result_multi_round": Dialogue(
        (
            {"step1": elicitation("Step 1: What is your name?", name=STRING)},
            {"step2": elicitation("Step 2: What is your favorite color?", color=STRING)},
        ),
        lambda answers: f"{said(answers, 'step1', 'name')} likes {said(answers, 'step2', 'color')}",
        remembers=True,
    ),
}
for dialogue_name in (*DIALOGUES, "test_input_required_result_capabilities"):
    fixed(dialogue_name, "Asks before it answers (2026-07-28)", text("unreachable"))

PROMPT_DIALOGUE = Dialogue(
    ({"user_context": elicitation("What context should the prompt use?", context=STRING)},),
    lambda answers: f"In the context of {said(answers, 'user_context', 'context')}",
)


def within_capabilities(call: Call) -> Dialogue:
    """Only questions that this client said it can answer."""
    possible = {"elicitation": WHO, "sampling": sampling("Say hello", 50), "roots": ROOTS}
    asked = {name: question for name, question in possible.items() if getattr(call.capabilities, name, None)}
    return Dialogue((asked,), lambda answers: f"{len(answers)} answers", remembers=True)


# --- QUESTIONS: the same in either era, for our own tests -------------------------------------------------

QUESTIONS: dict[str, dict[str, Any]] = {
    "ask_user": {"user": elicitation("How many?", answer=STRING)},
    "ask_model": {"model": sampling("Say something", 100)},
    "ask_roots": {"roots": ROOTS},
}
QUESTIONS["ask_all"] = {key: question for asked in QUESTIONS.values() for key, question in asked.items()}
for question_name in QUESTIONS:
    fixed(question_name, "Asks, by requests or in its result, and tells what it heard", text("unreachable"))

KINDS: dict[str, tuple[Any, Any]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


async def ask_by_requests(call: Call, questions: dict[str, Any]) -> str:
    """All of them at once."""

    async def ask(question: Schema) -> Any:
        request, result = KINDS[question["method"]]
        answer = await call.ctx.session.send_request(request.model_validate(question), result)
        return answer.model_dump(by_alias=True, exclude_none=True, mode="json")

    answers = await asyncio.gather(*map(ask, questions.values()))
    return json.dumps(dict(zip(questions, answers, strict=True)))


async def ask(call: Call, questions: dict[str, Any]) -> Any:
    if call.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Dialogue((questions,), json.dumps, remembers=True).next(call)
    return await ask_by_requests(call, questions)


@tool("Reports progress once and never answers", form(who=STRING))
async def wait(call: Call) -> Answer:
    await call.progress(1, 2)
    return await asyncio.Future()


# --- RESOURCES --------------------------------------------------------------------------------------------

WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"
RESOURCES: dict[str, tuple[str, str, dict[str, str]]] = {
    "test://static-text": (
        "A text",
        "text/plain",
        {"text": "This is the content of the static text resource."},
    ),
    "test://static-binary": ("An image", "image/png", {"blob": PIXEL_PNG}),
    WATCHED: ("A text to subscribe to", "text/plain", {"text": "as it was"}),
}
SUBSCRIBED: set[str] = set()


def from_template(uri: str) -> tuple[str, str, dict[str, str]] | None:
    before, _, after = TEMPLATE.partition("{id}")
    if not (uri.startswith(before) and uri.endswith(after)):
        return None
    key = uri[len(before) : len(uri) - len(after)]
    value = {"id": key, "templateTest": True, "data": f"Data for ID: {key}"}
    return "Data", "application/json", {"text": json.dumps(value)}


async def list_resources(_ctx: Any, _params: Any) -> Any:
    listed = [
        types.Resource(uri=uri, name=uri.removeprefix("test://"), description=about, mime_type=mime_type)
        for uri, (about, mime_type, _) in RESOURCES.items()
    ]
    return types.ListResourcesResult(resources=listed)


async def list_templates(_ctx: Any, _params: Any) -> Any:
    template = types.ResourceTemplate(uri_template=TEMPLATE, name="data", description="Data by its id")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_ctx: Any, params: Any) -> Any:
    found = RESOURCES.get(params.uri) or from_template(params.uri)
    if found is None:
        raise MCPError(code=types.INVALID_PARAMS, message="Resource not found", data={"uri": params.uri})
    _, mime_type, body = found
    return types.ReadResourceResult.model_validate(
        {"contents": [{"uri": params.uri, "mimeType": mime_type, **body}]}
    )


async def subscribe(_ctx: Any, params: Any) -> Any:
    SUBSCRIBED.add(params.uri)
    return types.EmptyResult()


async def unsubscribe(_ctx: Any, params: Any) -> Any:
    SUBSCRIBED.discard(params.uri)
    return types.EmptyResult()


# --- PROMPTS ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prompt:
    arguments: tuple[str, ...]
    say: Callable[[Mapping[str, str]], list[Content]]


PROMPTS: dict[str, Prompt] = {
    "test_simple_prompt": Prompt((), lambda _: [text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": Prompt(
        ("arg1", "arg2"),
        lambda given: [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")],
    ),
    "test_prompt_with_embedded_resource": Prompt(
        ("resourceUri",),
        lambda given: [
            embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
    ),
    "test_prompt_with_image": Prompt((), lambda _: [image(), text("Please analyze the image above.")]),
    "test_input_required_result_prompt": Prompt((), lambda _: []),
}


async def list_prompts(_ctx: Any, _params: Any) -> Any:
    listed = [
        {
            "name": name,
            "description": f"Says {name}",
            "arguments": [{"name": word, "description": word, "required": True} for word in prompt.arguments],
        }
        for name, prompt in PROMPTS.items()
    ]
    return types.ListPromptsResult.model_validate({"prompts": listed})


async def get_prompt(ctx: Any, params: Any) -> Any:
    call = Call(ctx, params)
    prompt = PROMPTS.get(params.name)
    if prompt is None or (prompt.arguments and not set(prompt.arguments) <= call.arguments.keys()):
        raise MCPError(
            code=types.INVALID_PARAMS, message=f"No such prompt, or arguments missing: {params.name}"
        )
    content = prompt.say(call.arguments)
    if not content:
        step = PROMPT_DIALOGUE.next(call)
        if not isinstance(step, str):
            return step
        content = [text(step)]
    return types.GetPromptResult.model_validate(
        {"messages": [{"role": "user", "content": block} for block in content]}
    )


# --- The server -------------------------------------------------------------------------------------------


async def list_tools(_ctx: Any, _params: Any) -> Any:
    return types.ListToolsResult(tools=[tool.listed(name) for name, tool in TOOLS.items()])


async def call_tool(ctx: Any, params: Any) -> Any:
    call = Call(ctx, params)
    if params.name not in TOOLS:
        raise MCPError(code=types.INVALID_PARAMS, message=f"No such tool: {params.name}")
    dialogue = DIALOGUES.get(params.name)
    if params.name == "test_input_required_result_capabilities":
        dialogue = within_capabilities(call)
    failed = False
    try:
        if dialogue is not None:
            answer = dialogue.next(call)
        elif params.name in QUESTIONS:
            answer = await ask(call, QUESTIONS[params.name])
        else:
            answer = await TOOLS[params.name].run(call)
    except MCPError as error:
        if error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY:
            raise
        answer, failed = str(error), True
    except Exception as error:
        answer, failed = str(error), True
    if isinstance(answer, types.InputRequiredResult):
        return answer
    content = [text(answer)] if isinstance(answer, str) else answer
    return types.CallToolResult.model_validate({"content": content, "isError": failed})


async def complete(_ctx: Any, params: Any) -> Any:
    known = ("paris", "park", "party", "test", "testing")
    values = [word for word in known if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_level(_ctx: Any, _params: Any) -> Any:
    return types.EmptyResult()


def build() -> Any:
    cacheable = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
    server = Server(
        NAME,
        version="1",
        cache_hints={method: CacheHint(ttl_ms=0, scope="private") for method in cacheable},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(BUS),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=set_level,
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


async def serve_stdio(server: Any) -> None:
    options = server.create_initialization_options(NotificationOptions(True, True, True))
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, options)


class Events:
    """What the SDK's HTTP transport needs to let a client resume: every event, by number."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: str, send: Callable[[Any], Awaitable[None]]
    ) -> str | None:
        seen = int(last_event_id)
        if not 0 < seen <= len(self._events):
            return None
        stream_id = self._events[seen - 1][0]
        for number, (stream, message) in enumerate(self._events[seen:], start=seen + 1):
            if stream == stream_id and message is not None:
                await send(EventMessage(message, str(number)))
        return stream_id


async def serve_http(server: Any, port: int) -> None:
    import uvicorn  # type: ignore[import-not-found]

    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    with socket.create_server(("127.0.0.1", port)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int, metavar="PORT")
    port = parser.parse_args().http
    asyncio.run(serve_stdio(build()) if port is None else serve_http(build(), port))


if __name__ == "__main__":
    main()

"""A server asks the user: at the terminal, one question after the other. Without one it is declined."""

import asyncio

from mooring.cli.trying.questions import Question, questions_of
from mooring.cli.trying.schemas import Json
from mooring.cli.trying.sideline import Sideline

__all__ = ["Elicitation"]

DECLINE: Json = {"action": "decline"}
CANCEL: Json = {"action": "cancel"}
_ACTIONS = {"": "accept", "y": "accept", "yes": "accept", "d": "decline", "decline": "decline", "c": "cancel"}
_ACTIONS |= {"n": "decline", "no": "decline", "cancel": "cancel"}


class Elicitation:
    """Asks for one server; who comes while another question is open waits for it."""

    def __init__(self, sideline: Sideline, server: str) -> None:
        self._sideline = sideline
        self._server = server
        self._turn = asyncio.Lock()

    async def answer(self, params: Json) -> Json:
        """The result of `elicitation/create`."""
        async with self._turn:
            message = str(params.get("message", "")).strip()
            asks = f"{self._server} asks: {message}" if message else f"{self._server} asks you something"
            if not self._sideline.has_somebody:
                self._sideline.say(asks)
                self._sideline.say("declined: there is no terminal to ask at")
                return DECLINE
            self._sideline.clear()
            self._sideline.forget_typed()
            self._sideline.say(asks)
            if params.get("mode") == "url":
                return await self._visit(str(params.get("url", "")))
            return await self._fill_in(questions_of(params.get("requestedSchema")))

    async def _visit(self, url: str) -> Json:
        """Nothing is opened unasked: who reads the address decides."""
        self._sideline.say(f"It wants you to open this page: {url}")
        action = await self._choose("Have you opened it, or will you?")
        return {"action": action}

    async def _fill_in(self, questions: list[Question]) -> Json:
        action = await self._choose("Answer?")
        if action != "accept":
            return {"action": action}
        content: Json = {}
        for question in questions:
            self._present(question)
            while True:
                text = await self._sideline.ask(question.prompt)
                if text is None:
                    return CANCEL
                try:
                    value = question.read(text)
                except ValueError as error:
                    self._sideline.say(f"{question.title} {error}")
                    continue
                break
            if value is not None:
                content[question.key] = value
        return {"action": "accept", "content": content}

    def _present(self, question: Question) -> None:
        if question.explanation:
            self._sideline.say(f"{question.title}: {question.explanation}")
        for n, (value, title) in enumerate(question.choices, 1):
            self._sideline.say(f"  {n}  {title or value}")

    async def _choose(self, prompt: str) -> str:
        while True:
            text = await self._sideline.ask(f"{prompt} yes, decline or cancel [yes]: ")
            if text is None:
                return "cancel"
            if (action := _ACTIONS.get(text.strip().lower())) is not None:
                return action
            self._sideline.say("write yes, decline or cancel")

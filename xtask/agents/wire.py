"""How four kinds of model API are spoken: requests are read into one shape, answers written from one.

Claude Code and opencode speak Anthropic's Messages, Codex OpenAI's Responses, Gemini CLI its own
`generateContent`. Of each only what the programs need is here.
"""

import json
import uuid
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """What a program asks its model."""

    # How many results of tools it brings: the number of the turn.
    results: int
    # The text of the last one.
    last_result: str
    # The names of the tools that it offers; a question without is about something else, a title say.
    tools: tuple
    # All of it, as it came.
    words: str = ""


@dataclass(frozen=True)
class Say:
    """The model says something, and the turn ends."""

    text: str


@dataclass(frozen=True)
class Use:
    """The model wants a tool used."""

    tool: str
    args: dict
    # Codex lists the tools of MCP servers under a name of their own.
    space: str = ""


@dataclass(frozen=True)
class Usage:
    """What an answer cost, in tokens."""

    fresh: int = 1200
    cached: int = 0
    written: int = 60


def name(prefix):
    """Returns a name that nothing else has."""
    return prefix + uuid.uuid4().hex[:16]


def plain(content):
    """Returns the text of a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(plain(part.get("text") or part.get("content") or "") for part in parts)


class Messages:
    """Anthropic's Messages."""

    def matches(self, path):
        return path.endswith("/v1/messages")

    def question(self, body):
        parts = [
            part
            for message in body.get("messages", [])
            if isinstance(message.get("content"), list)
            for part in message["content"]
            if part.get("type") == "tool_result"
        ]
        tools = tuple(tool.get("name", "") for tool in body.get("tools") or [])
        return Question(len(parts), plain(parts[-1].get("content")) if parts else "", tools)

    def refusal(self, fault):
        return {"type": "error", "error": {"type": fault.kind, "message": fault.words}}

    def answer(self, body, part, usage):
        told = {
            "input_tokens": usage.fresh,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage.written,
        }
        if isinstance(part, Say):
            block, stop = {"type": "text", "text": part.text}, "end_turn"
        else:
            block = {"type": "tool_use", "id": name("toolu_"), "name": part.tool, "input": part.args}
            stop = "tool_use"
        return {
            "id": name("msg_"), "type": "message", "role": "assistant", "model": body.get("model"),
            "content": [block], "stop_reason": stop, "stop_sequence": None, "usage": told,
        }

    def opening(self, answer):
        """Returns the events before the content."""
        start = dict(answer, content=[], stop_reason=None)
        start["usage"] = dict(answer["usage"], output_tokens=1)
        return [{"type": "message_start", "message": start}]

    def ping(self):
        return {"type": "ping"}

    def events(self, answer):
        block = answer["content"][0]
        if block["type"] == "text":
            bare, delta = dict(block, text=""), {"type": "text_delta", "text": block["text"]}
        else:
            bare = dict(block, input={})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        last = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        return [
            {"type": "content_block_start", "index": 0, "content_block": bare},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": last, "usage": answer["usage"]},
            {"type": "message_stop"},
        ]


class Responses:
    """OpenAI's Responses."""

    def matches(self, path):
        return path.endswith("/responses")

    def question(self, body):
        items = body.get("input") if isinstance(body.get("input"), list) else []
        results = [item for item in items if item.get("type", "").endswith("_call_output")]
        tools = tuple(tool.get("name") or tool.get("type", "") for tool in body.get("tools") or [])
        return Question(len(results), plain(results[-1].get("output")) if results else "", tools)

    def refusal(self, fault):
        return {"error": {"type": fault.kind, "code": fault.kind, "message": fault.words}}

    def answer(self, body, part, usage):
        if isinstance(part, Say):
            text = {"type": "output_text", "text": part.text, "annotations": []}
            item = {"type": "message", "id": name("msg_"), "role": "assistant", "content": [text]}
        else:
            item = {"type": "function_call", "id": name("fc_"), "call_id": name("call_"),
                    "name": part.tool, "arguments": json.dumps(part.args)}
            if part.space:
                item["namespace"] = part.space
        read = usage.fresh + usage.cached
        told = {
            "input_tokens": read, "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.written, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + usage.written,
        }
        return {
            "id": name("resp_"), "object": "response", "created_at": 0, "status": "completed",
            "model": body.get("model"), "output": [dict(item, status="completed")],
            "usage": told, "error": None,
        }

    def opening(self, answer):
        start = dict(answer, status="in_progress", output=[], usage=None)
        return [{"type": "response.created", "response": start}]

    def ping(self):
        return {"type": "response.in_progress", "response": {}}

    def events(self, answer):
        item = answer["output"][0]
        added = dict(item, status="in_progress")
        if item["type"] == "message":
            added["content"] = []
        events = [{"type": "response.output_item.added", "output_index": 0, "item": added}]
        if item["type"] == "message":
            events.append({"type": "response.output_text.delta", "item_id": item["id"],
                           "output_index": 0, "content_index": 0, "delta": item["content"][0]["text"]})
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": answer})
        return events


class Gemini:
    """Gemini's `generateContent`."""

    def matches(self, path):
        return path.endswith("enerateContent")

    def question(self, body):
        results = [
            part["functionResponse"].get("response", {})
            for content in body.get("contents", [])
            for part in content.get("parts", [])
            if "functionResponse" in part
        ]
        lists = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
        tools = tuple(tool.get("name", "") for declared in lists for tool in declared)
        return Question(len(results), json.dumps(results[-1]) if results else "", tools)

    def refusal(self, fault):
        status = {401: "UNAUTHENTICATED", 402: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
        code = status.get(fault.status, "UNAVAILABLE")
        details = []
        if fault.retry_after:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            details = [{"@type": kind, "retryDelay": f"{fault.retry_after}s"}]
        error = {"code": fault.status, "status": code, "message": fault.words, "details": details}
        return {"error": error}

    def answer(self, body, part, usage):
        if isinstance(part, Say):
            said = {"text": part.text}
        else:
            said = {"functionCall": {"id": name("fc"), "name": part.tool, "args": part.args}}
        read = usage.fresh + usage.cached
        content = {"role": "model", "parts": [said]}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": read, "cachedContentTokenCount": usage.cached,
                "candidatesTokenCount": usage.written, "totalTokenCount": read + usage.written,
            },
            "modelVersion": "scripted", "responseId": name("r"),
        }

    def opening(self, answer):
        return []

    def ping(self):
        return {"candidates": [], "modelVersion": "scripted"}

    def events(self, answer):
        return [answer]


WIRES = (Messages(), Responses(), Gemini())

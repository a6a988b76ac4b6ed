"""A model that says what a script says, on loopback."""

import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from wire import WIRES, Gemini, Say, Usage

# As many refusals as it takes.
FOREVER = 1000
# What Gemini CLI asks beside its work is which model to take, and it wants it in this shape.
SIDE_ANSWER = '{"reasoning":"-","complexity_reasoning":"-","complexity_score":1,"model_choice":"flash","next_speaker":"user"}'


@dataclass(frozen=True)
class Fault:
    """How the service refuses a request."""

    status: int
    kind: str
    words: str
    # The seconds of Retry-After, 0 for none.
    retry_after: int = 0


@dataclass
class Script:
    """What the model says, one part for each turn; the last one for every turn after it."""

    turns: list
    usage: Usage = field(default_factory=Usage)
    # Requests of the work that are refused before the first that is answered; FOREVER refuses all others too.
    fault: Fault = None
    faults: int = 0
    # Whether it begins to stream and never comes to an end: "pings" sends signs of life, "silence" none.
    stall: str = ""


class Model:
    """Serves a script until it is closed; remembers who asked what."""

    def __init__(self, script):
        self.script = script
        self.questions = []
        self.refused = 0
        self.lock = threading.Lock()
        self.closed = threading.Event()
        handler = type("Handler", (ModelHandler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()

    def refuses(self, question):
        """Returns the fault of the next request, if it is refused."""
        with self.lock:
            counts = question.tools or self.script.faults == FOREVER
            if self.script.fault and counts and self.refused < self.script.faults:
                self.refused += 1
                return self.script.fault
            return None

    def next_part(self, question):
        """Returns what the model says to a question."""
        with self.lock:
            self.questions.append(question)
        turns = self.script.turns
        part = turns[min(question.results, len(turns) - 1)]
        if callable(part):
            part = part(question)
        return part


class ModelHandler(BaseHTTPRequestHandler):
    """One connection of a program."""

    protocol_version = "HTTP/1.1"
    model = None

    def log_message(self, *_):
        """Says nothing: what was asked is in the model."""

    def do_GET(self):
        self.send_json(200, {"object": "list", "data": [], "models": [], "has_more": False})

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = re.sub(r"\?.*", "", self.path).rstrip("/")
        if re.search(r"count_?tokens$", path, re.IGNORECASE):
            return self.send_json(200, {"input_tokens": 100, "totalTokens": 100})
        wire = next((wire for wire in WIRES if wire.matches(path)), None)
        if wire is None:
            return self.send_json(200, {})
        try:
            self.serve(wire, path, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def serve(self, wire, path, body):
        question = replace(wire.question(body), words=json.dumps(body, ensure_ascii=False))
        fault = self.model.refuses(question)
        if fault:
            after = [("retry-after", str(fault.retry_after))] if fault.retry_after else []
            return self.send_json(fault.status, wire.refusal(fault), after)
        if question.tools:
            part = self.model.next_part(question)
        else:
            part = Say(SIDE_ANSWER if isinstance(wire, Gemini) else "ok")
        answer = wire.answer(body, part, self.model.script.usage)
        if body.get("stream") or "stream" in path:
            self.stream(wire, answer, bool(question.tools))
        else:
            self.send_json(200, answer)

    def stream(self, wire, answer, is_work):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in wire.opening(answer):
            self.send_event(event)
        while is_work and self.model.script.stall and not self.model.closed.is_set():
            if self.model.script.stall == "pings":
                self.send_event(wire.ping())
            time.sleep(0.5)
        for event in wire.events(answer):
            self.send_event(event)

    def send_event(self, event):
        kind = f"event: {event['type']}\n" if "type" in event else ""
        self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def send_json(self, status, value, headers=()):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for header, text in headers:
            self.send_header(header, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

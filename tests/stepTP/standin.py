"""A stand-in for an OpenAI-compatible server, on this machine: it answers from a script."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# The request's body -> status, and a message or an error's text; bytes are the whole reply.
Script = Callable[[dict[str, Any]], tuple[int, Any]]


class Server:
    """Its address, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []


@contextmanager
def standin(script: Script) -> Iterator[Server]:
    """A server that runs until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append({"path": self.path, "authorization": self.headers["Authorization"], **body})
            status, said = script(body)
            answer: Any = None
            if isinstance(said, bytes):
                pass
            elif status == 200:
                message = {"role": "assistant", **(said if isinstance(said, dict) else {"content": said})}
                answer = {
                    "id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
                }  # fmt: skip
            else:
                answer = {"error": {"message": said, "type": "error"}}
            data = said if isinstance(said, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_address[1]}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()

"""Asks a model of OpenAI for an answer, and writes its pieces. It could be in any language.

It reads a question from its input, and its address and key from the variables that all clients of OpenAI
read. It has never heard of Hostler.
"""

import json
import os
import sys
import urllib.request


def main() -> None:
    """Ask, and write one piece of the answer per line, as JSON."""
    question = sys.stdin.read()
    body = {"model": "default", "stream": True, "messages": [{"role": "user", "content": question}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            data = line.decode().removeprefix("data: ").strip()
            if data and data != "[DONE]":
                write(json.loads(data))


def write(chunk: dict) -> None:
    """Write what a chunk says."""
    if "error" in chunk:
        sys.exit(chunk["error"]["message"])
    for choice in chunk["choices"]:
        if piece := choice["delta"].get("content"):
            sys.stdout.write(json.dumps(piece) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

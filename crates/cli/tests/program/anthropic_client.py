"""Talks to a model with the vendor's client and tells, as one line of JSON, what a user of it sees."""

import json
import sys

import anthropic


def ask(client, **options):
    messages = [{"role": "user", "content": "What should I read next?"}]
    return client.messages.create(model=model, max_tokens=40, messages=messages, **options)


def answer(client):
    message = ask(client)
    return {"text": message.content[0].text, "finish": message.stop_reason, "output": message.usage.output_tokens}


def stream(client):
    seen = {"text": "", "finish": None, "output": None, "complete": False, "error": None}
    try:
        for event in ask(client, stream=True):
            if event.type == "content_block_delta":
                seen["text"] += event.delta.text
            elif event.type == "message_delta":
                seen["finish"] = event.delta.stop_reason
                seen["output"] = event.usage.output_tokens
            elif event.type == "message_stop":
                seen["complete"] = True
    except Exception as error:  # Whatever it is, a user would see it.
        seen["error"] = {"api": isinstance(error, anthropic.APIError), "text": str(error)}
    return seen


url, key, model, what, retries = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=int(retries), timeout=20)
print(json.dumps({"answer": answer, "stream": stream}[what](client)))

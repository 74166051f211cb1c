"""Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees."""

import functools
import json
import sys

import anthropic


def client(call):
    return made(call["key"], call["retries"], call["timeout"])


@functools.cache
def made(key, retries, timeout):
    # What leaves the key out says so to the library as well, or it would refuse to start.
    none = {"Authorization": anthropic.Omit(), "X-Api-Key": anthropic.Omit()}
    return anthropic.Anthropic(
        base_url=url,
        api_key=key or "unused",
        default_headers=None if key else none,
        max_retries=retries,
        timeout=timeout,
    )


def options(call):
    messages = [{"role": "user", "content": call["question"]}]
    if call["result"]:
        use = {"type": "tool_use", "id": "toolu_1", "name": call["tool"]["name"], "input": call["result"]}
        messages.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
        messages.append({"role": "user", "content": [result]})
    options = {"model": call["model"], "max_tokens": call["max_tokens"], "messages": messages}
    if call["tool"]:
        tool = call["tool"]
        options["tools"] = [{"name": tool["name"], "description": "", "input_schema": tool["schema"]}]
        if not call["result"]:
            options["tool_choice"] = {"type": "tool", "name": tool["name"]}
    if call["name"]:
        options["extra_headers"] = {"Idempotency-Key": call["name"]}
    return options


def ask(call, seen, **more):
    messages = client(call).messages
    if not call["raw"]:
        return messages.create(**options(call), **more)
    response = messages.with_raw_response.create(**options(call), **more)
    seen["headers"], seen["request"] = dict(response.headers), response.request_id
    return response.parse()


def answer(call, seen):
    read(ask(call, seen), seen)


def whole_of_stream(call, seen):
    with client(call).messages.stream(**options(call)) as events:
        read(events.get_final_message(), seen)


def read(message, seen):
    for block in message.content:
        if block.type == "text":
            seen["text"] += block.text
        elif block.type == "tool_use":
            seen["tool"], seen["tool_id"] = {"name": block.name, "input": block.input}, block.id
    seen["finish"], seen["complete"] = message.stop_reason, True
    seen["input"], seen["output"] = message.usage.input_tokens, message.usage.output_tokens


def stream(call, seen):
    arguments = ""
    for event in ask(call, seen, stream=True):
        seen["pieces"] += 1
        if event.type == "message_start":
            seen["input"] = event.message.usage.input_tokens
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            seen["tool"], seen["tool_id"] = {"name": event.content_block.name, "input": None}, event.content_block.id
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            seen["text"] += event.delta.text
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            arguments += event.delta.partial_json
        elif event.type == "message_delta":
            seen["finish"], seen["output"] = event.delta.stop_reason, event.usage.output_tokens
            # Other vendors tell only at the end what went in; the library's own sum keeps the last word, too.
            if event.usage.input_tokens is not None:
                seen["input"] = event.usage.input_tokens
        elif event.type == "message_stop":
            seen["complete"] = True
    if seen["tool"]:
        seen["tool"]["input"] = json.loads(arguments)


def count(call, seen):
    asked = options(call)
    del asked["max_tokens"]
    seen["input"] = client(call).messages.count_tokens(**asked).input_tokens


def models(call, seen):
    seen["models"] = [model.id for model in client(call).models.list()]


def see(call):
    seen = {"text": "", "tool": None, "finish": None, "input": None, "output": None}
    seen |= {"pieces": 0, "complete": False, "error": None, "headers": None, "request": None, "tool_id": None}
    try:
        in_pieces = whole_of_stream if call["put_together"] else stream
        asked = in_pieces if call["stream"] else answer
        ask = models if call["list"] else count if call["count"] else asked
        ask(call, seen)
    except Exception as error:  # Whatever it is, a user would see it.
        kinds = [kind.__name__ for kind in type(error).__mro__]
        status = getattr(error, "status_code", None)
        code = getattr(error, "type", None)
        seen["error"] = {"kinds": kinds, "status": status, "code": code, "text": str(error)}
        if isinstance(error, anthropic.APIStatusError):
            seen["headers"], seen["request"] = dict(error.response.headers), error.request_id
    return seen


url = sys.argv[1]
for line in sys.stdin:
    print(json.dumps(see(json.loads(line))), flush=True)

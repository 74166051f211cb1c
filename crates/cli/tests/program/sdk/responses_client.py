"""Talks to a model with the vendor's client, by its Responses API. A line of JSON in is one call; a line out is what its user sees."""

import functools
import json
import sys

import openai


def client(call):
    return made(call["key"], call["retries"], call["timeout"])


@functools.cache
def made(key, retries, timeout):
    return openai.OpenAI(
        base_url=f"{url}/v1",
        api_key=key or "unused",
        max_retries=retries,
        timeout=timeout,
    )


def options(call):
    items = [{"role": "user", "content": call["question"]}]
    if call["result"]:
        made = {"type": "function_call", "call_id": "call_1", "name": call["tool"]["name"]}
        items.append(made | {"arguments": json.dumps(call["result"])})
        items.append({"type": "function_call_output", "call_id": "call_1", "output": "done"})
    options = {"model": call["model"], "max_output_tokens": call["max_tokens"], "input": items, "store": False}
    if call["tool"]:
        tool = {"type": "function", "name": call["tool"]["name"], "description": ""}
        options["tools"] = [tool | {"parameters": call["tool"]["schema"], "strict": False}]
        if not call["result"]:
            options["tool_choice"] = {"type": "function", "name": call["tool"]["name"]}
    headers = {} if call["key"] else {"Authorization": openai.Omit()}
    if call["name"]:
        headers["Idempotency-Key"] = call["name"]
    return options | {"extra_headers": headers}


def ask(call, seen, **more):
    responses = client(call).responses
    if not call["raw"]:
        return responses.create(**options(call), **more)
    response = responses.with_raw_response.create(**options(call), **more)
    seen["headers"], seen["request"] = dict(response.headers), response.request_id
    return response.parse()


def answer(call, seen):
    response = ask(call, seen)
    seen["text"] = response.output_text
    read(response, seen)


def whole_of_stream(call, seen):
    with client(call).responses.stream(**options(call)) as events:
        response = events.get_final_response()
    seen["text"] = response.output_text
    read(response, seen)


def read(response, seen):
    for item in response.output:
        if item.type == "function_call":
            seen["tool"] = {"name": item.name, "input": json.loads(item.arguments)}
            seen["tool_id"] = item.call_id
    details = response.incomplete_details
    seen["finish"], seen["complete"] = details.reason if details else response.status, True
    seen["input"], seen["output"] = response.usage.input_tokens, response.usage.output_tokens


def stream(call, seen):
    for event in ask(call, seen, stream=True):
        seen["pieces"] += 1
        if event.type == "response.output_text.delta":
            seen["text"] += event.delta
        elif event.type in ("response.completed", "response.incomplete"):
            read(event.response, seen)


def models(call, seen):
    seen["models"] = [model.id for model in client(call).models.list()]


def see(call):
    seen = {"text": "", "tool": None, "finish": None, "input": None, "output": None}
    seen |= {"pieces": 0, "complete": False, "error": None, "headers": None, "request": None, "tool_id": None}
    try:
        in_pieces = whole_of_stream if call["put_together"] else stream
        (models if call["list"] else in_pieces if call["stream"] else answer)(call, seen)
    except Exception as error:  # Whatever it is, a user would see it.
        kinds = [kind.__name__ for kind in type(error).__mro__]
        status = getattr(error, "status_code", None)
        code = getattr(error, "type", None)
        seen["error"] = {"kinds": kinds, "status": status, "code": code, "text": str(error)}
        if isinstance(error, openai.APIStatusError):
            seen["headers"], seen["request"] = dict(error.response.headers), error.request_id
    return seen


url = sys.argv[1]
for line in sys.stdin:
    print(json.dumps(see(json.loads(line))), flush=True)

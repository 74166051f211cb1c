"""Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees."""

import functools
import json
import sys
import warnings

from google import genai
from google.genai import errors, types

warnings.simplefilter("ignore")


@functools.cache
def made(key, retries, timeout):
    http = types.HttpOptions(
        base_url=url,
        timeout=int(timeout * 1000),
        retry_options=types.HttpRetryOptions(attempts=retries + 1, initial_delay=0.01, max_delay=0.05),
    )
    return genai.Client(api_key=key or "unused", http_options=http)


def client(call):
    return made(call["key"], call["retries"], call["timeout"])


def options(call):
    contents = [types.Content(role="user", parts=[types.Part(text=call["question"])])]
    if call["result"]:
        name = call["tool"]["name"]
        use = types.FunctionCall(id="call_1", name=name, args=call["result"])
        result = types.FunctionResponse(id="call_1", name=name, response={"output": "done"})
        contents.append(types.Content(role="model", parts=[types.Part(function_call=use)]))
        contents.append(types.Content(role="user", parts=[types.Part(function_response=result)]))
    config = {"max_output_tokens": call["max_tokens"]}
    if call["tool"]:
        tool = call["tool"]
        function = {"name": tool["name"], "description": "", "parameters_json_schema": tool["schema"]}
        config["tools"] = [types.Tool(function_declarations=[types.FunctionDeclaration(**function)])]
        config["automatic_function_calling"] = {"disable": True}
        if not call["result"]:
            config["tool_config"] = {"function_calling_config": {"mode": "ANY"}}
    if call["name"]:
        config["http_options"] = {"headers": {"Idempotency-Key": call["name"]}}
    return {"model": call["model"], "contents": contents, "config": config}


def read(answer, seen):
    response = answer.sdk_http_response
    if response and response.headers:
        seen["headers"] = {name.lower(): value for name, value in response.headers.items()}
        seen["request"] = seen["headers"].get("x-request-id")
    for part in answer.candidates[0].content.parts or []:
        seen["text"] += part.text or ""
        if part.function_call:
            seen["tool"] = {"name": part.function_call.name, "input": part.function_call.args}
            seen["tool_id"] = part.function_call.id
    if answer.candidates[0].finish_reason:
        # A user takes the answer for complete if the reason has come and nothing was raised.
        seen["reason"] = answer.candidates[0].finish_reason.name
    if answer.usage_metadata:
        seen["input"] = answer.usage_metadata.prompt_token_count
        seen["output"] = answer.usage_metadata.candidates_token_count


def finish(seen):
    seen["finish"] = seen["reason"]
    seen["complete"] = seen["reason"] is not None


def answer(call, seen):
    read(client(call).models.generate_content(**options(call)), seen)
    finish(seen)


def stream(call, seen):
    for chunk in client(call).models.generate_content_stream(**options(call)):
        seen["pieces"] += 1
        read(chunk, seen)
    finish(seen)


def count(call, seen):
    counted = client(call).models.count_tokens(model=call["model"], contents=options(call)["contents"])
    seen["input"] = counted.total_tokens


def see(call):
    seen = {"text": "", "tool": None, "finish": None, "input": None, "output": None, "reason": None}
    seen |= {"pieces": 0, "complete": False, "error": None, "headers": None, "request": None, "tool_id": None}
    try:
        (count if call["count"] else stream if call["stream"] else answer)(call, seen)
    except Exception as error:  # Whatever it is, a user would see it.
        kinds = [kind.__name__ for kind in type(error).__mro__]
        status, code = getattr(error, "code", None), getattr(error, "status", None)
        seen["error"] = {"kinds": kinds, "status": status, "code": code, "text": str(error)}
        headers = getattr(getattr(error, "response", None), "headers", None)
        if isinstance(error, errors.APIError) and headers:
            seen["headers"] = {name.lower(): value for name, value in headers.items()}
            seen["request"] = seen["headers"].get("x-request-id")
    return seen


url = sys.argv[1]
for line in sys.stdin:
    print(json.dumps(see(json.loads(line))), flush=True)

"""Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees."""

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
    messages = [{"role": "user", "content": call["question"]}]
    if call["result"]:
        function = {"name": call["tool"]["name"], "arguments": json.dumps(call["result"])}
        use = {"id": "call_1", "type": "function", "function": function}
        messages.append({"role": "assistant", "tool_calls": [use]})
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "done"})
    options = {"model": call["model"], "max_tokens": call["max_tokens"], "messages": messages}
    if call["tool"]:
        tool = call["tool"]
        function = {"name": tool["name"], "description": "", "parameters": tool["schema"]}
        options["tools"] = [{"type": "function", "function": function}]
        if not call["result"]:
            options["tool_choice"] = {"type": "function", "function": {"name": tool["name"]}}
    headers = {} if call["key"] else {"Authorization": openai.Omit()}
    if call["name"]:
        headers["Idempotency-Key"] = call["name"]
    return options | {"extra_headers": headers}


def ask(call, seen, **more):
    completions = client(call).chat.completions
    if not call["raw"]:
        return completions.create(**options(call), **more)
    response = completions.with_raw_response.create(**options(call), **more)
    seen["headers"], seen["request"] = dict(response.headers), response.request_id
    return response.parse()


def answer(call, seen):
    read(ask(call, seen), seen)


def whole_of_stream(call, seen):
    usage = {"include_usage": True}
    with client(call).chat.completions.stream(stream_options=usage, **options(call)) as events:
        read(events.get_final_completion(), seen)


def read(completion, seen):
    choice = completion.choices[0]
    seen["text"] = choice.message.content or ""
    for use in choice.message.tool_calls or []:
        seen["tool"] = {"name": use.function.name, "input": json.loads(use.function.arguments)}
        seen["tool_id"] = use.id
    seen["finish"], seen["complete"] = choice.finish_reason, True
    seen["input"], seen["output"] = completion.usage.prompt_tokens, completion.usage.completion_tokens


def stream(call, seen):
    arguments = ""
    usage = {"include_usage": True}
    for chunk in ask(call, seen, stream=True, stream_options=usage):
        seen["pieces"] += 1
        for choice in chunk.choices:
            seen["text"] += choice.delta.content or ""
            for use in choice.delta.tool_calls or []:
                if use.function.name:
                    seen["tool"], seen["tool_id"] = {"name": use.function.name, "input": None}, use.id
                arguments += use.function.arguments or ""
            seen["finish"] = choice.finish_reason or seen["finish"]
        if chunk.usage:
            seen["input"], seen["output"] = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            # The mark at the very end is not shown to users; what comes last before it is the usage.
            seen["complete"] = True
    if seen["tool"]:
        seen["tool"]["input"] = json.loads(arguments)


def embed(call, seen):
    more = {"encoding_format": call["encoding"]} if call["encoding"] else {}
    answer = client(call).embeddings.create(model=call["model"], input=call["embed"], **more)
    seen["vectors"] = [entry.embedding for entry in answer.data]
    seen["input"], seen["complete"] = answer.usage.prompt_tokens, True


def images(call, seen):
    client(call).images.generate(model=call["model"], prompt=call["question"])


def models(call, seen):
    seen["models"] = [model.id for model in client(call).models.list()]


def see(call):
    seen = {"text": "", "tool": None, "finish": None, "input": None, "output": None}
    seen |= {"pieces": 0, "complete": False, "error": None, "headers": None, "request": None, "tool_id": None}
    try:
        in_pieces = whole_of_stream if call["put_together"] else stream
        others = {"embed": embed, "images": images, "list": models}
        other = next((other for name, other in others.items() if call[name]), None)
        (other if other else in_pieces if call["stream"] else answer)(call, seen)
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

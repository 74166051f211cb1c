"""Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees."""

import json
import sys

import openai


def client(call):
    return openai.OpenAI(
        base_url=f"{url}/v1",
        api_key=call["key"] or "unused",
        max_retries=call["retries"],
        timeout=call["timeout"],
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
    if not call["key"]:
        options["extra_headers"] = {"Authorization": openai.Omit()}
    return options


def answer(call, seen):
    completion = client(call).chat.completions.create(**options(call))
    choice = completion.choices[0]
    seen["text"] = choice.message.content or ""
    for use in choice.message.tool_calls or []:
        seen["tool"] = {"name": use.function.name, "input": json.loads(use.function.arguments)}
    seen["finish"], seen["complete"] = choice.finish_reason, True
    seen["input"], seen["output"] = completion.usage.prompt_tokens, completion.usage.completion_tokens


def stream(call, seen):
    arguments = ""
    usage = {"include_usage": True}
    for chunk in client(call).chat.completions.create(stream=True, stream_options=usage, **options(call)):
        seen["pieces"] += 1
        for choice in chunk.choices:
            seen["text"] += choice.delta.content or ""
            for use in choice.delta.tool_calls or []:
                if use.function.name:
                    seen["tool"] = {"name": use.function.name, "input": None}
                arguments += use.function.arguments or ""
            seen["finish"] = choice.finish_reason or seen["finish"]
        if chunk.usage:
            seen["input"], seen["output"] = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            # The mark at the very end is not shown to users; what comes last before it is the usage.
            seen["complete"] = True
    if seen["tool"]:
        seen["tool"]["input"] = json.loads(arguments)


def see(call):
    seen = {"text": "", "tool": None, "finish": None, "input": None, "output": None}
    seen |= {"pieces": 0, "complete": False, "error": None}
    try:
        (stream if call["stream"] else answer)(call, seen)
    except Exception as error:  # Whatever it is, a user would see it.
        kinds = [kind.__name__ for kind in type(error).__mro__]
        status = getattr(error, "status_code", None)
        code = getattr(error, "type", None)
        seen["error"] = {"kinds": kinds, "status": status, "code": code, "text": str(error)}
    return seen


url = sys.argv[1]
for line in sys.stdin:
    print(json.dumps(see(json.loads(line))), flush=True)

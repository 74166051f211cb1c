"""Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees."""

import functools
import json
import sys

import boto3
from botocore import UNSIGNED
from botocore.config import Config


# What goes along with the next call.
headers = {}


@functools.cache
def client(key, secret, retries, timeout):
    config = Config(
        signature_version=None if key and secret else UNSIGNED,
        retries={"mode": "standard", "total_max_attempts": retries + 1},
        connect_timeout=timeout,
        read_timeout=timeout,
    )
    made = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key or "unused",
        aws_secret_access_key=secret or "unused",
        config=config,
    )
    made.meta.events.register("before-call.bedrock-runtime.*", lambda params, **_: params["headers"].update(headers))
    return made


def note(answer, seen):
    metadata = answer.get("ResponseMetadata", {})
    seen["headers"], seen["request"] = metadata.get("HTTPHeaders"), metadata.get("RequestId")


def converse_options(call):
    messages = [{"role": "user", "content": [{"text": call["question"]}]}]
    if call["result"]:
        use = {"toolUseId": "tooluse_1", "name": call["tool"]["name"], "input": call["result"]}
        messages.append({"role": "assistant", "content": [{"toolUse": use}]})
        result = {"toolUseId": "tooluse_1", "content": [{"text": "done"}]}
        messages.append({"role": "user", "content": [{"toolResult": result}]})
    options = {"messages": messages, "inferenceConfig": {"maxTokens": call["max_tokens"]}}
    if call["tool"]:
        tool = call["tool"]
        tools = [{"toolSpec": {"name": tool["name"], "inputSchema": {"json": tool["schema"]}}}]
        options["toolConfig"] = {"tools": tools}
        if not call["result"]:
            options["toolConfig"]["toolChoice"] = {"tool": {"name": tool["name"]}}
    return options


def converse_answer(client, call, seen):
    answer = client.converse(modelId=call["model"], **converse_options(call))
    note(answer, seen)
    if "output" not in answer:
        # A body that cannot be read is no exception here: there is just nothing in the answer.
        return
    for block in answer["output"]["message"]["content"]:
        seen["text"] += block.get("text", "")
        if "toolUse" in block:
            seen["tool"] = {"name": block["toolUse"]["name"], "input": block["toolUse"]["input"]}
            seen["tool_id"] = block["toolUse"]["toolUseId"]
    seen["finish"], seen["complete"] = answer["stopReason"], True
    seen["input"], seen["output"] = answer["usage"]["inputTokens"], answer["usage"]["outputTokens"]


def converse_stream(client, call, seen):
    arguments = ""
    answer = client.converse_stream(modelId=call["model"], **converse_options(call))
    note(answer, seen)
    for event in answer["stream"]:
        seen["pieces"] += 1
        start = event.get("contentBlockStart", {}).get("start", {})
        if "toolUse" in start:
            seen["tool"] = {"name": start["toolUse"]["name"], "input": None}
            seen["tool_id"] = start["toolUse"]["toolUseId"]
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        seen["text"] += delta.get("text", "")
        arguments += delta.get("toolUse", {}).get("input", "")
        if "messageStop" in event:
            seen["finish"] = event["messageStop"]["stopReason"]
        if "metadata" in event:
            usage = event["metadata"]["usage"]
            seen["input"], seen["output"], seen["complete"] = usage["inputTokens"], usage["outputTokens"], True
    if seen["tool"]:
        seen["tool"]["input"] = json.loads(arguments)


def invoke_body(call):
    if call.get("body"):
        # Of another vendor's model.
        return call["body"]
    messages = [{"role": "user", "content": call["question"]}]
    if call["result"]:
        use = {"type": "tool_use", "id": "toolu_1", "name": call["tool"]["name"], "input": call["result"]}
        messages.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
        messages.append({"role": "user", "content": [result]})
    version = {"anthropic_version": "bedrock-2023-05-31"}
    body = version | {"max_tokens": call["max_tokens"], "messages": messages}
    if call["tool"]:
        tool = call["tool"]
        body["tools"] = [{"name": tool["name"], "input_schema": tool["schema"]}]
        if not call["result"]:
            body["tool_choice"] = {"type": "tool", "name": tool["name"]}
    return json.dumps(body)


def invoke_answer(client, call, seen):
    answer = client.invoke_model(modelId=call["model"], body=invoke_body(call))
    note(answer, seen)
    answer = json.loads(answer["body"].read())
    if call.get("body"):
        seen["whole"], seen["complete"] = answer, True
        return
    for block in answer["content"]:
        seen["text"] += block.get("text", "")
        if block["type"] == "tool_use":
            seen["tool"], seen["tool_id"] = {"name": block["name"], "input": block["input"]}, block["id"]
    seen["finish"], seen["complete"] = answer["stop_reason"], True
    seen["input"], seen["output"] = answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]


def invoke_stream(client, call, seen):
    arguments = ""
    answer = client.invoke_model_with_response_stream(modelId=call["model"], body=invoke_body(call))
    note(answer, seen)
    for chunk in answer["body"]:
        event = json.loads(chunk["chunk"]["bytes"])
        seen["pieces"] += 1
        if call.get("body"):
            seen.setdefault("chunks", []).append(event)
            seen["metrics"] = event.get("amazon-bedrock-invocationMetrics")
            seen["complete"] = seen["metrics"] is not None
            continue
        block, delta = event.get("content_block", {}), event.get("delta", {})
        if block.get("type") == "tool_use":
            seen["tool"], seen["tool_id"] = {"name": block["name"], "input": None}, block["id"]
        seen["text"] += delta.get("text", "")
        arguments += delta.get("partial_json", "")
        if event["type"] == "message_start":
            seen["input"] = event["message"]["usage"]["input_tokens"]
        elif event["type"] == "message_delta":
            seen["finish"], seen["output"] = delta["stop_reason"], event["usage"]["output_tokens"]
            # Other vendors tell only at the end what went in.
            seen["input"] = event["usage"].get("input_tokens", seen["input"])
        elif event["type"] == "message_stop":
            seen["complete"], seen["metrics"] = True, event.get("amazon-bedrock-invocationMetrics")
    if seen["tool"]:
        seen["tool"]["input"] = json.loads(arguments)


def converse_count(client, call, seen):
    converse = {"messages": converse_options(call)["messages"]}
    seen["input"] = client.count_tokens(modelId=call["model"], input={"converse": converse})["inputTokens"]


def invoke_count(client, call, seen):
    invoke = {"body": invoke_body(call)}
    seen["input"] = client.count_tokens(modelId=call["model"], input={"invokeModel": invoke})["inputTokens"]


def see(call):
    seen = {"text": "", "tool": None, "finish": None, "input": None, "output": None}
    seen |= {"pieces": 0, "complete": False, "error": None, "headers": None, "request": None, "tool_id": None}
    try:
        ask = count if call["count"] else stream if call["stream"] else answer
        headers.clear()
        if call["key"] and not call["secret"]:
            headers["x-api-key"] = call["key"]
        if call["name"]:
            headers["Idempotency-Key"] = call["name"]
        ask(client(call["key"], call["secret"], call["retries"], call["timeout"]), call, seen)
    except Exception as error:  # Whatever it is, a user would see it.
        kinds = [kind.__name__ for kind in type(error).__mro__]
        response = getattr(error, "response", None) or {}
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = response.get("Error", {}).get("Code")
        seen["error"] = {"kinds": kinds, "status": status, "code": code, "text": str(error)}
        if status:
            note(response, seen)
    return seen


url, way = sys.argv[1:]
answer, stream, count = {
    "converse": (converse_answer, converse_stream, converse_count),
    "invoke": (invoke_answer, invoke_stream, invoke_count),
}[way]
for line in sys.stdin:
    print(json.dumps(see(json.loads(line))), flush=True)

"""Talks to a model with LangChain in Responses mode. A line of JSON in is one call; a line out is what its user sees."""

import json
import sys
import warnings

from langchain_openai import ChatOpenAI

warnings.filterwarnings("ignore")
url = sys.argv[1]


def chat(call):
    made = ChatOpenAI(
        model=call["model"],
        base_url=f"{url}/v1",
        api_key=call["key"],
        max_retries=call["retries"],
        max_tokens=call["max_tokens"],
        timeout=call["timeout"],
        use_responses_api=True,
        # LangChain's own setting for gateways and accounts that store nothing.
        store=False,
    )
    if not call["tool"]:
        return made
    function = {"name": call["tool"]["name"], "description": "", "parameters": call["tool"]["schema"]}
    return made.bind_tools([{"type": "function", "function": function}], tool_choice=call["tool"]["name"])


def ask(call, seen):
    if call["stream"]:
        whole = None
        for piece in chat(call).stream(call["question"]):
            seen["pieces"] += 1
            whole = piece if whole is None else whole + piece
    else:
        whole = chat(call).invoke(call["question"])
    seen["text"] = whole.text if isinstance(whole.text, str) else whole.text()
    for made in whole.tool_calls:
        seen["tool"] = {"name": made["name"], "input": made["args"]}
    usage = whole.usage_metadata or {}
    seen["input"], seen["output"] = usage.get("input_tokens"), usage.get("output_tokens")
    seen["complete"] = True


for line in sys.stdin:
    seen = {"text": "", "tool": None, "input": None, "output": None, "pieces": 0, "complete": False, "error": None}
    try:
        ask(json.loads(line), seen)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        seen["error"] = {"kinds": kinds, "status": getattr(error, "status_code", None), "text": str(error)}
    print(json.dumps(seen), flush=True)

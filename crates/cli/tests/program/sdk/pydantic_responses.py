"""Talks to a model with pydantic-ai, whose `openai:` models use Responses. A line of JSON in is one call; a line out is what its
user sees."""

import asyncio
import json
import sys

import openai
from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

url = sys.argv[1]


async def ask(call, seen):
    client = openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key=call["key"], max_retries=call["retries"], timeout=call["timeout"]
    )
    model = OpenAIResponsesModel(call["model"], provider=OpenAIProvider(openai_client=client))

    def called(**input):
        seen["tool"] = {"name": call["tool"]["name"], "input": input}
        return "done"

    tools = []
    if call["tool"]:
        tools = [Tool.from_schema(called, call["tool"]["name"], "", call["tool"]["schema"])]
    agent = Agent(model, tools=tools, model_settings={"max_tokens": call["max_tokens"]}, retries=0)
    if call["stream"]:
        async with agent.run_stream(call["question"]) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                seen["pieces"] += 1
                seen["text"] += piece
            usage = result.usage
    else:
        result = await agent.run(call["question"])
        seen["text"], usage = result.output, result.usage
    usage = usage() if callable(usage) else usage
    seen["input"], seen["output"], seen["complete"] = usage.input_tokens, usage.output_tokens, True


async def main():
    for line in sys.stdin:
        seen = {"text": "", "tool": None, "input": None, "output": None, "pieces": 0, "complete": False, "error": None}
        try:
            await ask(json.loads(line), seen)
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            status = error.status_code if isinstance(error, ModelHTTPError) else None
            seen["error"] = {"kinds": kinds, "status": status, "text": str(error)}
        print(json.dumps(seen), flush=True)


asyncio.run(main())

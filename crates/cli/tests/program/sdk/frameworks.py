"""What users of two frameworks see of refusals: each call on a line of standard input, each sight on one of standard output.

A call is {"framework", "dialect", "url", "key", "model"}; a sight is {"kinds", "message"}: the classes of what was raised.
"""

import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
MESSAGES = [{"role": "user", "content": "hello"}]


def langchain(call):
    if call["dialect"] == "openai":
        from langchain_openai import ChatOpenAI

        chat = ChatOpenAI(
            model=call["model"], base_url=call["url"] + "/v1", api_key=call["key"], max_retries=0
        )
    else:
        from langchain_anthropic import ChatAnthropic

        chat = ChatAnthropic(
            model=call["model"], base_url=call["url"], api_key=call["key"], max_retries=0, max_tokens=64
        )
    return chat.invoke(MESSAGES).content


def litellm(call):
    import litellm as client

    client.suppress_debug_info = True
    base = call["url"] + ("/v1" if call["dialect"] == "openai" else "")
    answer = client.completion(
        model=call["dialect"] + "/" + call["model"],
        messages=MESSAGES,
        api_base=base,
        api_key=call["key"],
        max_tokens=64,
        num_retries=0,
        max_retries=0,
    )
    return answer.choices[0].message.content


for line in sys.stdin:
    call = json.loads(line)
    try:
        text = {"langchain": langchain, "litellm": litellm}[call["framework"]](call)
        seen = {"kinds": [], "message": str(text)}
    except Exception as error:
        seen = {"kinds": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}
    print(json.dumps(seen), flush=True)

// Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, url] = process.argv.slice(2);
const { OpenAI } = await import(createRequire(`${folder}/`).resolve("openai"));

function client(call) {
  return new OpenAI({
    baseURL: `${url}/v1`,
    apiKey: call.key ?? "unused",
    defaultHeaders: call.key === null ? { authorization: null } : {},
    maxRetries: call.retries,
    timeout: call.timeout * 1000,
    logLevel: "off",
  });
}

function options(call) {
  const messages = [{ role: "user", content: call.question }];
  if (call.result) {
    const called = { name: call.tool.name, arguments: JSON.stringify(call.result) };
    messages.push({ role: "assistant", tool_calls: [{ id: "call_1", type: "function", function: called }] });
    messages.push({ role: "tool", tool_call_id: "call_1", content: "done" });
  }
  const options = { model: call.model, max_tokens: call.max_tokens, messages };
  if (call.tool) {
    const offered = { name: call.tool.name, description: "", parameters: call.tool.schema };
    options.tools = [{ type: "function", function: offered }];
    if (!call.result) {
      options.tool_choice = { type: "function", function: { name: call.tool.name } };
    }
  }
  return options;
}

async function ask(call, seen, more) {
  const headers = call.name === null ? {} : { "idempotency-key": call.name };
  const asked = client(call).chat.completions.create({ ...options(call), ...more }, { headers });
  if (!call.raw) {
    return asked;
  }
  const { data, response, request_id: request } = await asked.withResponse();
  Object.assign(seen, { headers: Object.fromEntries(response.headers), request });
  return data;
}

async function answer(call, seen) {
  read(await ask(call, seen, {}), seen);
}

async function wholeOfStream(call, seen) {
  const asked = { ...options(call), stream_options: { include_usage: true } };
  read(await client(call).chat.completions.stream(asked).finalChatCompletion(), seen);
}

function read(completion, seen) {
  const [choice] = completion.choices;
  seen.text = choice.message.content ?? "";
  for (const use of choice.message.tool_calls ?? []) {
    seen.tool = { name: use.function.name, input: JSON.parse(use.function.arguments) };
    seen.tool_id = use.id;
  }
  Object.assign(seen, { finish: choice.finish_reason, complete: true });
  Object.assign(seen, { input: completion.usage.prompt_tokens, output: completion.usage.completion_tokens });
}

async function stream(call, seen) {
  let json = "";
  const more = { stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await ask(call, seen, more)) {
    seen.pieces += 1;
    for (const choice of chunk.choices) {
      seen.text += choice.delta.content ?? "";
      for (const use of choice.delta.tool_calls ?? []) {
        if (use.function.name) {
          seen.tool = { name: use.function.name, input: null };
          seen.tool_id = use.id;
        }
        json += use.function.arguments ?? "";
      }
      seen.finish = choice.finish_reason ?? seen.finish;
    }
    if (chunk.usage) {
      // The mark at the very end is not shown to users; what comes last before it is the usage.
      const { prompt_tokens: input, completion_tokens: output } = chunk.usage;
      Object.assign(seen, { input, output, complete: true });
    }
  }
  if (seen.tool) {
    seen.tool.input = JSON.parse(json);
  }
}

async function embed(call, seen) {
  const { model, embed: input, encoding } = call;
  const answer = await client(call).embeddings.create({ model, input, ...(encoding && { encoding_format: encoding }) });
  seen.vectors = answer.data.map((entry) => entry.embedding);
  Object.assign(seen, { input: answer.usage.prompt_tokens, complete: true });
}

async function images(call) {
  await client(call).images.generate({ model: call.model, prompt: call.question });
}

async function models(call, seen) {
  seen.models = [];
  for await (const model of client(call).models.list()) {
    seen.models.push(model.id);
  }
}

function kinds(error) {
  const names = [];
  for (let kind = error.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) {
    names.push(kind.name);
  }
  return names;
}

class OutOfPatience extends Error {}

// Some libraries wait for ever once the head has come.
function lost(call) {
  return new Promise((_, reject) => setTimeout(() => reject(new OutOfPatience()), call.patience * 1000).unref());
}

async function see(call) {
  const seen = { text: "", tool: null, finish: null, input: null, output: null, pieces: 0, complete: false, error: null };
  Object.assign(seen, { headers: null, request: null, tool_id: null });
  try {
    const asked = !call.stream ? answer : call.put_together ? wholeOfStream : stream;
    const ask = call.list ? models : call.embed ? embed : call.images ? images : asked;
    await Promise.race([ask(call, seen), lost(call)]);
  } catch (error) {
    // Whatever it is, a user would see it.
    const { status = null, type: code = null } = error;
    seen.error = { kinds: kinds(error), status, code, text: String(error) };
    if (error.headers) {
      Object.assign(seen, { headers: Object.fromEntries(error.headers), request: error.requestID });
    }
  }
  return seen;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await see(JSON.parse(line))));
}
process.exit(0);

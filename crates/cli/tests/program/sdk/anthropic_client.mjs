// Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, url] = process.argv.slice(2);
const { default: Anthropic } = await import(createRequire(`${folder}/`).resolve("@anthropic-ai/sdk"));
const Client = Anthropic.Anthropic ?? Anthropic;

function client(call) {
  return new Client({
    baseURL: url,
    apiKey: call.key ?? "unused",
    defaultHeaders: call.key === null ? { authorization: null, "x-api-key": null } : {},
    maxRetries: call.retries,
    timeout: call.timeout * 1000,
    logLevel: "off",
  });
}

function options(call) {
  const messages = [{ role: "user", content: call.question }];
  if (call.result) {
    const use = { type: "tool_use", id: "toolu_1", name: call.tool.name, input: call.result };
    messages.push({ role: "assistant", content: [use] });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "done" }] });
  }
  const options = { model: call.model, max_tokens: call.max_tokens, messages };
  if (call.tool) {
    options.tools = [{ name: call.tool.name, description: "", input_schema: call.tool.schema }];
    if (!call.result) {
      options.tool_choice = { type: "tool", name: call.tool.name };
    }
  }
  return options;
}

async function ask(call, seen, more) {
  const headers = call.name === null ? {} : { "idempotency-key": call.name };
  const asked = client(call).messages.create({ ...options(call), ...more }, { headers });
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
  read(await client(call).messages.stream(options(call)).finalMessage(), seen);
}

function read(message, seen) {
  for (const block of message.content) {
    if (block.type === "text") {
      seen.text += block.text;
    } else if (block.type === "tool_use") {
      seen.tool = { name: block.name, input: block.input };
      seen.tool_id = block.id;
    }
  }
  Object.assign(seen, { finish: message.stop_reason, complete: true });
  Object.assign(seen, { input: message.usage.input_tokens, output: message.usage.output_tokens });
}

async function stream(call, seen) {
  let json = "";
  for await (const event of await ask(call, seen, { stream: true })) {
    seen.pieces += 1;
    if (event.type === "message_start") {
      seen.input = event.message.usage.input_tokens;
    } else if (event.type === "content_block_start" && event.content_block.type === "tool_use") {
      seen.tool = { name: event.content_block.name, input: null };
      seen.tool_id = event.content_block.id;
    } else if (event.type === "content_block_delta") {
      seen.text += event.delta.text ?? "";
      json += event.delta.partial_json ?? "";
    } else if (event.type === "message_delta") {
      Object.assign(seen, { finish: event.delta.stop_reason, output: event.usage.output_tokens });
      // Other vendors tell only at the end what went in; the library's own sum keeps the last word, too.
      seen.input = event.usage.input_tokens ?? seen.input;
    } else if (event.type === "message_stop") {
      seen.complete = true;
    }
  }
  if (seen.tool) {
    seen.tool.input = JSON.parse(json);
  }
}

async function count(call, seen) {
  const { max_tokens, ...asked } = options(call);
  seen.input = (await client(call).messages.countTokens(asked)).input_tokens;
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
    const ask = call.list ? models : call.count ? count : asked;
    await Promise.race([ask(call, seen), lost(call)]);
  } catch (error) {
    // Whatever it is, a user would see it.
    const code = error.type ?? error.error?.error?.type ?? null;
    seen.error = { kinds: kinds(error), status: error.status ?? null, code, text: String(error) };
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

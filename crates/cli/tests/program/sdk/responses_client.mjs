// Talks to a model with the vendor's client, by its Responses API. A line of JSON in is one call; a line out is what its
// user sees.

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
  const input = [{ role: "user", content: call.question }];
  if (call.result) {
    const made = { type: "function_call", call_id: "call_1", name: call.tool.name };
    input.push({ ...made, arguments: JSON.stringify(call.result) });
    input.push({ type: "function_call_output", call_id: "call_1", output: "done" });
  }
  const options = { model: call.model, max_output_tokens: call.max_tokens, input, store: false };
  if (call.tool) {
    const offered = { type: "function", name: call.tool.name, description: "", strict: false };
    options.tools = [{ ...offered, parameters: call.tool.schema }];
    if (!call.result) {
      options.tool_choice = { type: "function", name: call.tool.name };
    }
  }
  return options;
}

async function ask(call, seen, more) {
  const headers = call.name === null ? {} : { "idempotency-key": call.name };
  const asked = client(call).responses.create({ ...options(call), ...more }, { headers });
  if (!call.raw) {
    return asked;
  }
  const { data, response, request_id: request } = await asked.withResponse();
  Object.assign(seen, { headers: Object.fromEntries(response.headers), request });
  return data;
}

async function answer(call, seen) {
  const response = await ask(call, seen, {});
  seen.text = response.output_text;
  read(response, seen);
}

async function wholeOfStream(call, seen) {
  const response = await client(call).responses.stream(options(call)).finalResponse();
  seen.text = response.output_text;
  read(response, seen);
}

function read(response, seen) {
  for (const item of response.output) {
    if (item.type === "function_call") {
      seen.tool = { name: item.name, input: JSON.parse(item.arguments) };
      seen.tool_id = item.call_id;
    }
  }
  const finish = response.incomplete_details?.reason ?? response.status;
  const { input_tokens: input, output_tokens: output } = response.usage;
  Object.assign(seen, { finish, complete: true, input, output });
}

async function stream(call, seen) {
  for await (const event of await ask(call, seen, { stream: true })) {
    seen.pieces += 1;
    if (event.type === "response.output_text.delta") {
      seen.text += event.delta;
    } else if (event.type === "response.completed" || event.type === "response.incomplete") {
      read(event.response, seen);
    }
  }
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
    const ask = call.list ? models : asked;
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

// Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, url] = process.argv.slice(2);
const { GoogleGenAI } = await import(createRequire(`${folder}/`).resolve("@google/genai"));

function client(call) {
  const retryOptions = { attempts: call.retries + 1 };
  const httpOptions = { baseUrl: url, timeout: call.timeout * 1000, retryOptions };
  return new GoogleGenAI({ apiKey: call.key ?? "unused", httpOptions });
}

function options(call) {
  const contents = [{ role: "user", parts: [{ text: call.question }] }];
  if (call.result) {
    const name = call.tool.name;
    contents.push({ role: "model", parts: [{ functionCall: { id: "call_1", name, args: call.result } }] });
    const functionResponse = { id: "call_1", name, response: { output: "done" } };
    contents.push({ role: "user", parts: [{ functionResponse }] });
  }
  const config = { maxOutputTokens: call.max_tokens };
  if (call.tool) {
    const offered = { name: call.tool.name, description: "", parametersJsonSchema: call.tool.schema };
    config.tools = [{ functionDeclarations: [offered] }];
    if (!call.result) {
      config.toolConfig = { functionCallingConfig: { mode: "ANY" } };
    }
  }
  if (call.name !== null) {
    config.httpOptions = { headers: { "idempotency-key": call.name } };
  }
  return { model: call.model, contents, config };
}

function read(answer, seen) {
  const headers = answer.sdkHttpResponse?.headers;
  if (headers) {
    Object.assign(seen, { headers, request: headers["x-request-id"] ?? null });
  }
  const [candidate] = answer.candidates;
  for (const part of candidate.content.parts ?? []) {
    seen.text += part.text ?? "";
    if (part.functionCall) {
      seen.tool = { name: part.functionCall.name, input: part.functionCall.args };
      seen.tool_id = part.functionCall.id;
    }
  }
  seen.reason = candidate.finishReason ?? seen.reason;
  if (answer.usageMetadata) {
    const { promptTokenCount: input, candidatesTokenCount: output } = answer.usageMetadata;
    Object.assign(seen, { input, output });
  }
}

// A user takes the answer for complete if the reason has come and nothing was raised.
function finish(seen) {
  Object.assign(seen, { finish: seen.reason, complete: seen.reason !== null });
}

async function answer(call, seen) {
  read(await client(call).models.generateContent(options(call)), seen);
  finish(seen);
}

async function stream(call, seen) {
  for await (const chunk of await client(call).models.generateContentStream(options(call))) {
    seen.pieces += 1;
    read(chunk, seen);
  }
  finish(seen);
}

async function count(call, seen) {
  const { model, contents } = options(call);
  seen.input = (await client(call).models.countTokens({ model, contents })).totalTokens;
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
  Object.assign(seen, { headers: null, request: null, tool_id: null, reason: null });
  try {
    const ask = call.count ? count : call.stream ? stream : answer;
    await Promise.race([ask(call, seen), lost(call)]);
  } catch (error) {
    // Whatever it is, a user would see it.
    seen.error = { kinds: kinds(error), status: error.status ?? null, code: null, text: String(error) };
  }
  return seen;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await see(JSON.parse(line))));
}
process.exit(0);

// Talks to a model with the vendor's client. A line of JSON in is one call; a line out is what its user sees.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, url, way, http] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const aws = require("@aws-sdk/client-bedrock-runtime");
const { NodeHttpHandler } = require("@smithy/node-http-handler");

function client(call, seen) {
  const requestTimeout = call.timeout * 1000;
  const handlers = {
    one: () => new NodeHttpHandler({ requestTimeout, throwOnRequestTimeout: true }),
    // What a user gets who asks for no handler.
    two: () => ({ requestTimeout }),
  };
  const options = {
    endpoint: url,
    region: "us-east-1",
    credentials: { accessKeyId: call.key ?? "unused", secretAccessKey: call.secret ?? "unused" },
    maxAttempts: call.retries + 1,
    requestHandler: handlers[http](),
  };
  if (call.key === null || call.secret === null) {
    options.signer = { sign: async (request) => request };
  }
  const made = new aws.BedrockRuntimeClient(options);
  const headers = call.name === null ? {} : { "idempotency-key": call.name };
  if (call.key !== null && call.secret === null) {
    headers["x-api-key"] = call.key;
  }
  const send = (next) => (asked) => {
    Object.assign(asked.request.headers, headers);
    return next(asked);
  };
  made.middlewareStack.add(send, { step: "build" });
  // Innermost, so that it sees refusals, too.
  const note = (next) => async (asked) => {
    const told = await next(asked);
    seen.headers = told.response.headers;
    return told;
  };
  made.middlewareStack.add(note, { step: "deserialize", priority: "low" });
  return made;
}

function converseOptions(call) {
  const messages = [{ role: "user", content: [{ text: call.question }] }];
  if (call.result) {
    const toolUse = { toolUseId: "tooluse_1", name: call.tool.name, input: call.result };
    messages.push({ role: "assistant", content: [{ toolUse }] });
    const toolResult = { toolUseId: "tooluse_1", content: [{ text: "done" }] };
    messages.push({ role: "user", content: [{ toolResult }] });
  }
  const options = { modelId: call.model, messages, inferenceConfig: { maxTokens: call.max_tokens } };
  if (call.tool) {
    const toolSpec = { name: call.tool.name, inputSchema: { json: call.tool.schema } };
    options.toolConfig = { tools: [{ toolSpec }] };
    if (!call.result) {
      options.toolConfig.toolChoice = { tool: { name: call.tool.name } };
    }
  }
  return options;
}

async function converseAnswer(client, call, seen) {
  const answer = await client.send(new aws.ConverseCommand(converseOptions(call)));
  seen.request = answer.$metadata.requestId;
  for (const block of answer.output.message.content) {
    seen.text += block.text ?? "";
    if (block.toolUse) {
      seen.tool = { name: block.toolUse.name, input: block.toolUse.input };
      seen.tool_id = block.toolUse.toolUseId;
    }
  }
  const { inputTokens: input, outputTokens: output } = answer.usage;
  Object.assign(seen, { input, output, finish: answer.stopReason, complete: true });
}

async function converseStream(client, call, seen) {
  let json = "";
  const answer = await client.send(new aws.ConverseStreamCommand(converseOptions(call)));
  seen.request = answer.$metadata.requestId;
  for await (const event of answer.stream) {
    seen.pieces += 1;
    const use = event.contentBlockStart?.start?.toolUse;
    if (use) {
      seen.tool = { name: use.name, input: null };
      seen.tool_id = use.toolUseId;
    }
    const delta = event.contentBlockDelta?.delta ?? {};
    seen.text += delta.text ?? "";
    json += delta.toolUse?.input ?? "";
    seen.finish = event.messageStop?.stopReason ?? seen.finish;
    if (event.metadata) {
      const { inputTokens: input, outputTokens: output } = event.metadata.usage;
      Object.assign(seen, { input, output, complete: true });
    }
  }
  if (seen.tool) {
    seen.tool.input = JSON.parse(json);
  }
}

function invokeOptions(call) {
  const messages = [{ role: "user", content: call.question }];
  if (call.result) {
    const use = { type: "tool_use", id: "toolu_1", name: call.tool.name, input: call.result };
    messages.push({ role: "assistant", content: [use] });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "done" }] });
  }
  const body = { anthropic_version: "bedrock-2023-05-31", max_tokens: call.max_tokens, messages };
  if (call.tool) {
    body.tools = [{ name: call.tool.name, input_schema: call.tool.schema }];
    if (!call.result) {
      body.tool_choice = { type: "tool", name: call.tool.name };
    }
  }
  return { modelId: call.model, contentType: "application/json", body: JSON.stringify(body) };
}

function read(bytes) {
  return JSON.parse(new TextDecoder().decode(bytes));
}

async function invokeAnswer(client, call, seen) {
  const { body, $metadata } = await client.send(new aws.InvokeModelCommand(invokeOptions(call)));
  seen.request = $metadata.requestId;
  const answer = read(body);
  for (const block of answer.content) {
    seen.text += block.text ?? "";
    if (block.type === "tool_use") {
      seen.tool = { name: block.name, input: block.input };
      seen.tool_id = block.id;
    }
  }
  const { input_tokens: input, output_tokens: output } = answer.usage;
  Object.assign(seen, { input, output, finish: answer.stop_reason, complete: true });
}

async function invokeStream(client, call, seen) {
  let json = "";
  const { body, $metadata } = await client.send(new aws.InvokeModelWithResponseStreamCommand(invokeOptions(call)));
  seen.request = $metadata.requestId;
  for await (const { chunk } of body) {
    const event = read(chunk.bytes);
    seen.pieces += 1;
    if (event.content_block?.type === "tool_use") {
      seen.tool = { name: event.content_block.name, input: null };
      seen.tool_id = event.content_block.id;
    }
    seen.text += event.delta?.text ?? "";
    json += event.delta?.partial_json ?? "";
    if (event.type === "message_start") {
      seen.input = event.message.usage.input_tokens;
    } else if (event.type === "message_delta") {
      Object.assign(seen, { finish: event.delta.stop_reason, output: event.usage.output_tokens });
      // Other vendors tell only at the end what went in.
      seen.input = event.usage.input_tokens ?? seen.input;
    } else if (event.type === "message_stop") {
      seen.complete = true;
      seen.metrics = event["amazon-bedrock-invocationMetrics"] ?? null;
    }
  }
  if (seen.tool) {
    seen.tool.input = JSON.parse(json);
  }
}

async function converseCount(client, call, seen) {
  const input = { converse: { messages: converseOptions(call).messages } };
  seen.input = (await client.send(new aws.CountTokensCommand({ modelId: call.model, input }))).inputTokens;
}

async function invokeCount(client, call, seen) {
  const input = { invokeModel: { body: new TextEncoder().encode(invokeOptions(call).body) } };
  seen.input = (await client.send(new aws.CountTokensCommand({ modelId: call.model, input }))).inputTokens;
}

function kinds(error) {
  const names = [error.name];
  for (let kind = error.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) {
    names.push(kind.name);
  }
  return names;
}

const ways = {
  converse: [converseAnswer, converseStream, converseCount],
  invoke: [invokeAnswer, invokeStream, invokeCount],
};

class OutOfPatience extends Error {}

// Some libraries wait for ever once the head has come.
function lost(call) {
  return new Promise((_, reject) => setTimeout(() => reject(new OutOfPatience()), call.patience * 1000).unref());
}

async function see(call) {
  const seen = { text: "", tool: null, finish: null, input: null, output: null, pieces: 0, complete: false, error: null };
  Object.assign(seen, { headers: null, request: null, tool_id: null });
  const [answer, stream, count] = ways[way];
  try {
    const ask = call.count ? count : call.stream ? stream : answer;
    await Promise.race([ask(client(call, seen), call, seen), lost(call)]);
  } catch (error) {
    // Whatever it is, a user would see it.
    const status = error.$metadata?.httpStatusCode ?? null;
    seen.error = { kinds: kinds(error), status, code: error.name, text: String(error) };
    seen.request = error.$metadata?.requestId ?? null;
  }
  return seen;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await see(JSON.parse(line))));
}
// A connection that stays open would keep this alive.
process.exit(0);

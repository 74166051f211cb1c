// Talks to a model with Vercel's AI SDK and its provider for OpenAI, which uses Responses by default. A line of JSON in is
// one call; a line out is what its user sees.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, url] = process.argv.slice(2);
const { resolve } = createRequire(`${folder}/`);
const { embedMany, generateText, jsonSchema, streamText, tool } = await import(resolve("ai"));
const { createOpenAI } = await import(resolve("@ai-sdk/openai"));

function options(call) {
  const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: call.key });
  const options = { model: openai(call.model), prompt: call.question, maxOutputTokens: call.max_tokens };
  options.maxRetries = call.retries;
  if (call.tool) {
    const { name, schema } = call.tool;
    options.tools = { [name]: tool({ description: "", inputSchema: jsonSchema(schema) }) };
    options.toolChoice = "required";
  }
  return options;
}

async function ask(call, seen) {
  if (call.embed) {
    const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: call.key }).embedding(call.model);
    const { embeddings, usage } = await embedMany({ model, values: call.embed, maxRetries: call.retries });
    Object.assign(seen, { vectors: embeddings, input: usage.tokens, complete: true });
    return;
  }
  let failure = null;
  const asked = call.stream ? streamText({ ...options(call), onError: ({ error }) => (failure = error) }) : await generateText(options(call));
  if (call.stream) {
    for await (const piece of asked.textStream) {
      seen.pieces += 1;
      seen.text += piece;
    }
    if (failure) {
      throw failure;
    }
  } else {
    seen.text = asked.text;
  }
  for (const { toolName: name, input } of await asked.toolCalls) {
    seen.tool = { name, input };
  }
  const { inputTokens: input, outputTokens: output } = await asked.usage;
  Object.assign(seen, { finish: await asked.finishReason, complete: true, input, output });
}

async function see(call) {
  const seen = { text: "", tool: null, finish: null, input: null, output: null, pieces: 0, complete: false, error: null };
  try {
    await ask(call, seen);
  } catch (error) {
    // Whatever it is, a user would see it.
    seen.error = { kinds: [error.name], status: error.statusCode ?? null, text: String(error.message ?? error) };
  }
  return seen;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await see(JSON.parse(line))));
}
process.exit(0);

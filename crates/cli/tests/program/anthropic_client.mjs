// Talks to a model with the vendor's client and tells, as one line of JSON, what a user of it sees.

import { createRequire } from "node:module";

const [folder, url, key, model, what, retries] = process.argv.slice(2);
const { default: Anthropic } = await import(createRequire(`${folder}/`).resolve("@anthropic-ai/sdk"));
const Client = Anthropic.Anthropic ?? Anthropic;
const client = new Client({ baseURL: url, apiKey: key, maxRetries: Number(retries), timeout: 20_000 });

function ask(options) {
  const messages = [{ role: "user", content: "What should I read next?" }];
  return client.messages.create({ model, max_tokens: 40, messages, ...options });
}

async function answer() {
  const message = await ask({});
  return { text: message.content[0].text, finish: message.stop_reason, output: message.usage.output_tokens };
}

async function stream() {
  const seen = { text: "", finish: null, output: null, complete: false, error: null };
  try {
    for await (const event of await ask({ stream: true })) {
      if (event.type === "content_block_delta") {
        seen.text += event.delta.text;
      } else if (event.type === "message_delta") {
        seen.finish = event.delta.stop_reason;
        seen.output = event.usage.output_tokens;
      } else if (event.type === "message_stop") {
        seen.complete = true;
      }
    }
  } catch (error) {
    seen.error = { api: error instanceof Client.APIError, text: String(error) };
  }
  return seen;
}

console.log(JSON.stringify(await { answer, stream }[what]()));

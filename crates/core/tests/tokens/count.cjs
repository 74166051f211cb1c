// Counts texts with Anthropic's published tokenizer. The folder it is installed in is the argument; a JSON list of texts
// comes in, a JSON list of numbers goes out.
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { countTokens } = require(join(process.argv[2], "node_modules/@anthropic-ai/tokenizer"));

const texts = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => countTokens(text))));

// Texts that have more bytes in Unicode's compatibility form (NFKC) than before, as a JSON list of pairs: the text, and its
// bytes then. Every character alone, and each letter that is composed with every mark that stands on it.
const bytes = (text) => Buffer.byteLength(text);
const grown = [];
const look = (text) => {
  const after = bytes(text.normalize("NFKC"));
  if (after > bytes(text)) grown.push([text, after]);
};
for (let code = 0x80; code < 0x110000; code += 1) {
  if (code < 0xd800 || code > 0xdfff) look(String.fromCodePoint(code));
}
for (let letter = 0xc0; letter < 0x250; letter += 1) {
  for (let mark = 0x300; mark < 0x370; mark += 1) {
    look(String.fromCodePoint(letter, mark));
    look(String.fromCodePoint(letter, mark, 0x323));
  }
}
process.stdout.write(JSON.stringify(grown));

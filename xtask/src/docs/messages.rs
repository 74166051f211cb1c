//! The page of messages: every text that the program shows to a person, collected from the sources.
//!
//! A message is a string literal outside of tests that has at least two words. Reading all of them in one place shows
//! what a reader of a single file misses: two phrases for one thing, or a message that is unclear without
//! knowledge of the code.

use crate::workspace::root;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Whom a message is for, and the sources it comes from. Earlier rows win where two name the same file.
const READERS: &[(&str, &[&str])] = &[
    (
        "Operators: admin API, log and metrics",
        &[
            "crates/gateway/src/admin",
            "crates/gateway/src/diagnostics",
            "crates/gateway/src/log",
            "crates/gateway/src/metrics",
            "crates/gateway/src/supervisor",
            "crates/gateway/src/supervisor.rs",
        ],
    ),
    (
        "Callers: refusals and errors",
        &["crates/wire/src", "crates/pipeline/src", "crates/assistant/src", "crates/gateway/src"],
    ),
    ("Providers: failures of upstream calls", &["crates/provider/src"]),
    ("Settings", &["crates/config/src", "crates/core/src/setting.rs"]),
    ("Storage", &["crates/store/src"]),
    ("Command line", &["crates/cli/src"]),
    ("Model simulator", &["crates/model/src"]),
    ("Demo", &["crates/demo/src"]),
];

/// What only texts for programs contain: JSON, HTTP, media types, scripts, settings and debug output.
const NOT_FOR_PEOPLE: &[&str] = &["{{", "{\"", "\r\n", "charset=", "redis.call", "profile = \"demo\""];

/// Sources whose texts are not messages: generated pages, scripts, sample questions and sample answers.
const NOT_MESSAGES: &[&str] = &[
    "crates/assistant/src/reference.rs",
    "crates/assistant/src/router/table.rs",
    "crates/config/src/reference.rs",
    "crates/demo/src/traffic.rs",
    "crates/gateway/src/diagnostics/reference.rs",
    "crates/gateway/src/metrics/page.rs",
    "crates/gateway/src/metrics/reference.rs",
    "crates/model/src/engine/catalogue.rs",
    "crates/model/src/engine/text.rs",
    "crates/store/src/redis/quotas/specialized.rs",
];

/// The page, without its opening line.
pub(super) fn messages() -> String {
    let mut page = String::from(
        "# Messages\n\nEvery text that Seawall shows to a person, by who reads it and by the source file that has it. `{}` stands for \
         a value.\n",
    );
    let (root, mut seen, mut listed) = (root(), BTreeSet::new(), BTreeSet::new());
    for (reader, sources) in READERS {
        page.push_str(&format!("\n## {reader}\n"));
        for file in sources.iter().flat_map(|source| rust_files(&root.join(source))) {
            let Some(name) = file.strip_prefix(&root).ok().and_then(Path::to_str) else { continue };
            if NOT_MESSAGES.contains(&name) || !seen.insert(name.to_owned()) {
                continue;
            }
            let found: Vec<String> =
                fs::read_to_string(&file).map(|text| in_source(&text)).unwrap_or_default();
            let fresh: Vec<String> =
                found.into_iter().filter(|message| listed.insert(message.clone())).collect();
            if !fresh.is_empty() {
                page.push_str(&format!("\n### {name}\n\n"));
                fresh.iter().for_each(|message| page.push_str(&format!("- {}\n", escaped(message))));
            }
        }
    }
    page
}

/// The Rust files at or below this path that are not tests, in order.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    let is_test = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.ends_with("tests"));
    if is_test {
        return Vec::new();
    }
    if path.is_file() {
        return path
            .extension()
            .is_some_and(|kind| kind == "rs")
            .then(|| path.to_owned())
            .into_iter()
            .collect();
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| rust_files(entry)).collect()
}

/// The messages of a source file, each once, in their order.
fn in_source(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(tokens) = text.parse() {
        collect(tokens, &mut found);
    }
    let mut seen = BTreeSet::new();
    found.retain(|message: &String| is_message(message) && seen.insert(message.clone()));
    found
}

fn collect(tokens: TokenStream, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_test = false;
    while let Some(token) = tokens.next() {
        match token {
            // Of attributes only error messages are shown; the others are documentation and reasons for lints.
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                if tokens
                    .peek()
                    .is_some_and(|next| matches!(next, TokenTree::Punct(bang) if bang.as_char() == '!'))
                {
                    tokens.next();
                }
                if let Some(TokenTree::Group(attribute)) = tokens.next() {
                    let attribute = attribute.stream();
                    let text = attribute.to_string();
                    is_test |= text.starts_with("cfg") && text.contains("test");
                    if text.starts_with("error") {
                        collect(attribute, found);
                    }
                }
            }
            TokenTree::Group(group) if is_test && group.delimiter() == Delimiter::Brace => is_test = false,
            TokenTree::Punct(end) if end.as_char() == ';' => is_test = false,
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    found.push(text.value());
                }
            }
            _ => {}
        }
    }
}

/// Whether a literal is a message: at least two words, or Japanese, which has no spaces.
fn is_message(text: &str) -> bool {
    let is_word = |word: &&str| word.chars().filter(|sign| sign.is_alphabetic()).count() > 1;
    let words = text.split(' ').filter(is_word).count();
    let is_japanese = text.chars().any(|sign| matches!(sign, '\u{3041}'..='\u{30ff}'));
    let is_for_programs = NOT_FOR_PEOPLE.iter().any(|mark| text.contains(mark));
    (words > 1 || is_japanese) && !text.starts_with(['<', '^']) && !is_for_programs
}

/// The message on one line of Markdown.
fn escaped(message: &str) -> String {
    message.trim().replace('\n', " ⏎ ").replace('<', "\\<").replace('|', "\\|").replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::{escaped, in_source};

    #[test]
    fn messages_are_found_in_code_and_error_attributes_and_nowhere_else() {
        let source = r##"
            //! A module comment with words.
            #[expect(clippy::panic, reason = "a reason with words")]
            #[derive(thiserror::Error)]
            #[error("{path}: cannot be opened")]
            struct E;
            const KEY: &str = "one-word";
            fn f() { println!("no such target: {name}"); g(&["漫画です", "no such target: {name}", "{{}} and JSON"]); }
            #[cfg(test)]
            mod tests { const A: &str = "a text of tests"; }
            fn g() { "after the tests"; }
        "##;
        assert_eq!(
            in_source(source),
            ["{path}: cannot be opened", "no such target: {name}", "漫画です", "after the tests"]
        );
    }

    #[test]
    fn a_message_is_one_line_of_markdown() {
        assert_eq!(escaped("a <b>\nc | d "), "a \\<b> ⏎ c \\| d");
    }
}

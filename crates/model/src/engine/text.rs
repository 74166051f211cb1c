//! Generates the text of an answer.
//!
//! The text is about a catalogue of fictional manga, in Japanese if the question is in Japanese and in English
//! otherwise. It begins by saying that it comes from a simulator, so that no text is mistaken for advice.

use super::catalogue::{MANGA, Manga};
use super::chance::Dice;
use super::tokens::count_tokens;

/// The number of tokens after which no further sentence begins is drawn at random between these two.
const MAX_TOKENS: u64 = 220;
const MIN_TOKENS: u64 = 60;

/// Generates an answer to `question`.
pub(super) fn generate(question: &str, dice: &mut Dice) -> String {
    let language = if question.chars().any(is_japanese) { Language::Japanese } else { Language::English };
    let target_length = MIN_TOKENS + dice.roll().below(MAX_TOKENS - MIN_TOKENS);
    let mut text = String::from(language.opening());
    let mut length = count_tokens(&text);
    let mut at = pick(MANGA.len(), dice);
    while length < target_length {
        let sentence = language.sentence(&MANGA[at], pick(3, dice));
        length += count_tokens(&sentence);
        text.push_str(&sentence);
        // Each step is coprime to the size of the catalogue, so a long answer goes through all of it.
        at = (at + [1, 5, 7, 11][pick(4, dice)]) % MANGA.len();
    }
    text
}

fn pick(bound: usize, dice: &mut Dice) -> usize {
    usize::try_from(dice.roll().below(bound as u64)).unwrap_or(0)
}

/// Whether a character is kana, a CJK ideograph or Japanese punctuation.
fn is_japanese(character: char) -> bool {
    matches!(character, '\u{3000}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{FF00}'..='\u{FFEF}')
}

#[derive(Clone, Copy)]
enum Language {
    Japanese,
    English,
}

impl Language {
    const fn opening(self) -> &'static str {
        match self {
            Self::Japanese => "これはシミュレーターによる応答です。実際のモデルの回答ではありません。",
            Self::English => "This is a simulator speaking, not a real model.",
        }
    }

    fn sentence(self, manga: &Manga, variant: usize) -> String {
        let Manga { japanese, about_japanese, english, about_english, volumes } = manga;
        match (self, variant) {
            (Self::Japanese, 0) => format!("『{japanese}』は{about_japanese}物語です。"),
            (Self::Japanese, 1) => {
                format!("全{volumes}巻の『{japanese}』もおすすめです。{about_japanese}お話です。")
            }
            (Self::Japanese, _) => {
                format!("次に読むなら、{about_japanese}物語『{japanese}』はいかがでしょう。")
            }
            (Self::English, 0) => format!(" \"{english}\" is about {about_english}."),
            (Self::English, 1) => format!(" In {volumes} volumes, \"{english}\" tells of {about_english}."),
            (Self::English, _) => format!(" If you like {about_english}, read \"{english}\" next."),
        }
    }
}

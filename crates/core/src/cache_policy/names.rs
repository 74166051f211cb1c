//! Detects people addressed or introduced by name.

/// Phrases that introduce a person.
const NAME_WORDS: [&str; 8] =
    ["と申します", "私の名前", "わたしの名前", "僕の名前", "my name is", "dear mr", "dear ms", "dear mrs"];

/// An honorific that follows a name.
struct Honorific {
    word: &'static str,
    /// Words before it that are not names.
    ordinary: &'static [&'static str],
    /// What follows it if it is the beginning of another word.
    continuations: &'static [&'static str],
    /// Whether a name in hiragana may stand before it. Not for single kanji, which may be part of a word.
    after_hiragana: bool,
    /// What follows it, after hiragana, if it is the end of one word and the beginning of another.
    verb_endings: &'static [&'static str],
}

/// Family terms. A single kanji alone could be the end of a name: 秩父さん.
const FAMILY: [&str; 20] = [
    "お父",
    "お母",
    "お兄",
    "お姉",
    "お爺",
    "お婆",
    "祖父",
    "祖母",
    "伯父",
    "伯母",
    "叔父",
    "叔母",
    "おとう",
    "おかあ",
    "にい",
    "ねえ",
    "おじ",
    "おじい",
    "おば",
    "おばあ",
];

const HONORIFICS: [Honorific; 7] = [
    Honorific {
        word: "様",
        ordinary: &[
            "お客", "御客", "皆", "仕", "模", "同", "多", "有", "異", "一", "神", "王", "この", "その",
            "あの", "どの",
        ],
        continuations: &["々", "子", "式", "相", "態"],
        after_hiragana: true,
        verb_endings: &[],
    },
    Honorific {
        word: "さん",
        ordinary: &[
            "客",
            "皆",
            "奥",
            "娘",
            "お嫁",
            "お孫",
            "息子",
            "お子",
            "本屋",
            "花屋",
            "パン屋",
            "問屋",
            "書店",
            "店員",
            "社員",
            "業者",
            "作者",
            "著者",
            "編集者",
            "担当者",
            "読者",
            "作家",
            "漫画家",
            "画家",
            "声優",
            "歌手",
            "出版社",
            "会社",
            "学生",
            "先生",
            "主人公",
            "スタッフ",
            "ファン",
            "ユーザー",
            "メーカー",
            "たく",
            "みな",
            "みんな",
            "おきゃく",
            "おく",
            "むすめ",
            "むすこ",
            "おこ",
            "ほんや",
        ],
        continuations: &[],
        after_hiragana: true,
        verb_endings: &[],
    },
    Honorific {
        word: "ちゃん",
        ordinary: &["赤", "坊", "嬢", "あか"],
        continuations: &[],
        after_hiragana: true,
        // 注文はちゃんと
        verb_endings: &["と"],
    },
    Honorific {
        word: "くん",
        ordinary: &[],
        continuations: &[],
        after_hiragana: true,
        // とどくんですか
        verb_endings: &["で", "だ", "じ", "な", "か", "す", "よ", "ね"],
    },
    Honorific {
        word: "君",
        ordinary: &["諸", "主", "暴", "名", "幼", "父", "細", "貴"],
        continuations: &["主", "臨", "達"],
        after_hiragana: false,
        verb_endings: &[],
    },
    Honorific {
        word: "氏",
        ordinary: &["彼", "華", "摂", "両", "同", "諸", "某"],
        continuations: &["名", "族", "神", "子"],
        after_hiragana: false,
        verb_endings: &[],
    },
    Honorific {
        word: "殿",
        ordinary: &["宮", "神", "御", "本", "正", "寝", "貴", "湯", "若"],
        continuations: &["堂", "様", "下", "方"],
        after_hiragana: false,
        verb_endings: &[],
    },
];

/// Kanji that form a verb with く: いつ届くんですか.
const VERBS: &str = "届続付着聞書行歩動働開空置引弾描磨泣鳴効聴抜省巻向説除驚頂招輝炊吹拭敷解焼乾沸咲";

/// Titles that precede a name, and greetings that a name may follow.
const GREETINGS: [&str; 7] = ["mr", "mrs", "ms", "dear", "hi", "hello", "hey"];
/// Capitalised words after a greeting that are not names.
const NOT_NAMES: [&str; 61] = [
    "a",
    "again",
    "all",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "can",
    "could",
    "customer",
    "customers",
    "did",
    "do",
    "does",
    "every",
    "everybody",
    "everyone",
    "folks",
    "for",
    "friend",
    "from",
    "good",
    "guest",
    "has",
    "have",
    "how",
    "i",
    "i'd",
    "i'm",
    "i've",
    "if",
    "in",
    "is",
    "it",
    "just",
    "madam",
    "my",
    "on",
    "please",
    "shop",
    "should",
    "sir",
    "support",
    "team",
    "thank",
    "thanks",
    "that",
    "the",
    "there",
    "this",
    "to",
    "we",
    "what",
    "when",
    "where",
    "which",
    "who",
    "why",
    "you",
];
/// Maximum number of punctuation marks between a greeting and a name.
const MAX_MARKS: usize = 3;

/// Whether a person is addressed or introduced by name. Both texts are the same, the second in lower case.
pub(super) fn contains_name(cased: &str, folded: &str) -> bool {
    NAME_WORDS.iter().any(|word| folded.contains(word))
        || HONORIFICS.iter().any(|honorific| honorific.addresses(folded))
        || has_romanised_honorific(folded)
        || has_greeting_with_name(cased)
}

impl Honorific {
    /// Whether it follows what may be a name.
    fn addresses(&self, text: &str) -> bool {
        text.match_indices(self.word).any(|(at, word)| {
            let (before, after) = (&text[..at], &text[at + word.len()..]);
            let Some(last) = before.chars().next_back().filter(|last| last.is_alphanumeric()) else {
                return false;
            };
            let is_family = || FAMILY.iter().any(|word| before.ends_with(word));
            let is_ordinary = || self.ordinary.iter().any(|word| before.ends_with(word)) || is_family();
            let continuations = || self.continuations.iter().any(|word| after.starts_with(word));
            let reads_as_verb = is_hiragana(last) || (self.word == "くん" && ends_in_one_verb(before));
            let verb_endings =
                || reads_as_verb && self.verb_endings.iter().any(|word| after.starts_with(word));
            (self.after_hiragana || !is_hiragana(last))
                && !is_ordinary()
                && !continuations()
                && !verb_endings()
        })
    }
}

fn is_hiragana(character: char) -> bool {
    ('ぁ'..='ゖ').contains(&character)
}

fn is_kanji(character: char) -> bool {
    ('\u{4E00}'..='\u{9FFF}').contains(&character)
}

/// Whether the last character is a verb's and the only kanji: true for 届くん, not for 田中くん.
fn ends_in_one_verb(text: &str) -> bool {
    let mut last = text.chars().rev();
    last.next().is_some_and(|last| VERBS.contains(last)) && !last.next().is_some_and(is_kanji)
}

/// Whether the text contains a romanised honorific such as `tanaka-san`.
fn has_romanised_honorific(text: &str) -> bool {
    ["-san", "-sama", "-kun", "-chan"].iter().any(|honorific| {
        text.match_indices(honorific).any(|(at, word)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            before.is_some_and(char::is_alphabetic) && !after.is_some_and(char::is_alphanumeric)
        })
    })
}

/// Whether a capitalised word that may be a name follows a greeting.
fn has_greeting_with_name(text: &str) -> bool {
    let mut greeted = false;
    let mut marks = 0;
    // A piece includes the mark after it, so that a piece that is only a mark counts as a further one.
    for piece in text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’') {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        let mark = piece.chars().next_back().filter(|last| !last.is_alphanumeric());
        if word.is_empty() {
            marks += 1;
        } else {
            let small = word.to_lowercase().replace('’', "'");
            let is_name = word.chars().next().is_some_and(char::is_uppercase)
                && !NOT_NAMES.contains(&small.as_str())
                && !GREETINGS.contains(&small.as_str());
            if greeted && is_name {
                return true;
            }
            greeted = GREETINGS.contains(&small.as_str());
            marks = 1;
        }
        greeted &= marks <= MAX_MARKS && mark.is_some_and(|mark| matches!(mark, ' ' | '.' | ',' | '、'));
    }
    false
}

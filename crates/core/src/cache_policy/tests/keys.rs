use super::super::{
    CacheKey, KeyParts, PersonalData, PrivateReason, Question, ScopeDecision, normalise, personal_data,
};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

const PARTS: KeyParts<'static> =
    KeyParts { route: "chat", locale: "ja-JP", prompt_version: "7", catalogue_version: "c1" };
const SHIPPING: Question<'static> =
    Question { intent: "faq", is_context_free: true, text: "送料は?", history: "", uses_account: false };
const ORDER: Question<'static> = Question { intent: "order", is_context_free: false, ..SHIPPING };

fn key(question: &Question<'_>, caller: &str) -> CacheKey {
    CacheKey::of(question, caller, &PARTS).unwrap()
}

#[test]
fn texts_that_mean_the_same_are_spelled_the_same() {
    for (text, expected) in [
        ("", ""),
        ("   ", ""),
        ("  Hello \t\n World  ", "hello world"),
        ("ＯＮＥ　ＰＩＥＣＥ", "one piece"),
        ("１１０巻", "110巻"),
        ("ﾜﾝﾋﾟｰｽ", "ワンピース"),
        ("ｶﾞｷﾞｸﾞｹﾞｺﾞｻﾞｼﾞｽﾞｾﾞｿﾞﾀﾞﾁﾞﾂﾞﾃﾞﾄﾞﾊﾞﾋﾞﾌﾞﾍﾞﾎﾞｳﾞﾜﾞｦﾞ", "ガギグゲゴザジズゼゾダヂヅデドバビブベボヴヷヺ"),
        ("ﾊﾟﾋﾟﾌﾟﾍﾟﾎﾟ", "パピプペポ"),
        ("か\u{3099}は\u{309A}う\u{3099}", "がぱゔ"),
        ("ｱﾞｱﾟ", "ア゛ア゜"),
        ("ｶﾞﾞ", "ガ゛"),
        ("ｦｧｨｩｪｫｬｭｮｯｰ｢ｱ｣､･ﾝ", "ヲァィゥェォャュョッー「ア」、・ン"),
        ("いつ届きますか？", "いつ届きますか"),
        ("いつ届きますか｡ ", "いつ届きますか"),
        ("really ?! ...", "really"),
        ("3.5 と 4?", "3.5 と 4"),
        ("?", "?"),
        ("？！ ", "?!"),
        ("！~ＡｚＺ", "!~azz"),
        ("É", "É"),
    ] {
        assert_eq!(normalise(text), expected, "{text:?}");
    }
}

#[test]
fn only_caller_independent_questions_without_history_are_public() {
    let private = |reason| ScopeDecision::Private(reason);
    for intent in ["faq", "order", ""] {
        let question = Question { intent, ..SHIPPING };
        assert_eq!(question.scope(), ScopeDecision::Public, "the flag decides, not the name");
        let question = Question { is_context_free: false, ..question };
        assert_eq!(question.scope(), private(PrivateReason::Intent));
    }
    assert_eq!(Question { history: "x", ..SHIPPING }.scope(), private(PrivateReason::History));
    assert_eq!(Question { uses_account: true, ..SHIPPING }.scope(), private(PrivateReason::Account));
    let text = "a@b.jp に送って";
    assert_eq!(Question { text, ..SHIPPING }.scope(), private(PrivateReason::Question(PersonalData::Email)));
    assert_eq!(SHIPPING.scope_of_answer("二日です。"), ScopeDecision::Public);
    assert_eq!(
        SHIPPING.scope_of_answer("田中様、二日です。"),
        private(PrivateReason::Answer(PersonalData::Name))
    );
    assert_eq!(ORDER.scope_of_answer("田中様"), private(PrivateReason::Intent));
}

#[test]
fn no_caller_sees_the_answer_to_anothers_order() {
    let order = Question { text: "where is my order", ..ORDER };
    let answer = "Order 250-1234567-1234567 arrives tomorrow.";
    let kept = CacheKey::for_answer(&order, answer, "ann", &PARTS).unwrap();
    assert_eq!(kept, key(&order, "ann"));
    assert_ne!(kept, key(&order, "bob"));
    // Even if misclassified as FAQ, the answer stays private.
    let mistaken = Question { intent: "faq", is_context_free: true, ..order };
    let kept = CacheKey::for_answer(&mistaken, answer, "ann", &PARTS).unwrap();
    assert!(!kept.is_public() && key(&mistaken, "ann").is_public());
    assert_ne!(kept, CacheKey::for_answer(&mistaken, answer, "bob", &PARTS).unwrap());
}

#[test]
fn an_anonymous_caller_has_no_private_key() {
    assert_eq!(CacheKey::of(&ORDER, "", &PARTS), None);
    assert_eq!(CacheKey::for_answer(&SHIPPING, "a@b.jp", "", &PARTS), None);
    assert!(CacheKey::of(&SHIPPING, "", &PARTS).is_some());
}

#[test]
fn everything_an_answer_depends_on_is_in_its_key() {
    let base = ORDER;
    let mut keys = BTreeSet::from([key(&base, "ann")]);
    keys.extend([
        key(&Question { intent: "chitchat", ..base }, "ann"),
        key(&Question { text: "返品は?", ..base }, "ann"),
        key(&Question { history: "h", ..base }, "ann"),
        key(&base, "bob"),
        key(&SHIPPING, "ann"),
    ]);
    for parts in [
        KeyParts { route: "other", ..PARTS },
        KeyParts { locale: "en-US", ..PARTS },
        KeyParts { prompt_version: "8", ..PARTS },
        KeyParts { catalogue_version: "c2", ..PARTS },
    ] {
        keys.extend(CacheKey::of(&base, "ann", &parts));
    }
    assert_eq!(keys.len(), 10);
    // Spelling, the case of the locale and the caller of a public question do not matter.
    let same = KeyParts { locale: "JA-jp", ..PARTS };
    assert_eq!(
        CacheKey::of(&Question { text: " 送料は？", ..SHIPPING }, "bob", &same),
        Some(key(&SHIPPING, "ann"))
    );
}

#[test]
fn a_key_is_written_as_documented() {
    let question = Question { text: "A?", ..SHIPPING };
    let parts = KeyParts { route: "r", locale: "L", prompt_version: "", catalogue_version: "cc" };
    let mut expected = vec![1, 0];
    for field in ["", "r", "l", "faq", "a", "", "", "cc"] {
        expected.extend([0, 0, 0, 0, 0, 0, 0, u8::try_from(field.len()).unwrap()]);
        expected.extend(field.bytes());
    }
    assert_eq!(CacheKey::of(&question, "ann", &parts).unwrap().as_bytes(), expected);
    let private = CacheKey::of(&Question { uses_account: true, ..question }, "ann", &parts).unwrap();
    assert_eq!(private.as_bytes()[..13], [1, 1, 0, 0, 0, 0, 0, 0, 0, 3, b'a', b'n', b'n']);
}

/// Decodes a key into its fields.
fn fields(key: &CacheKey) -> Vec<String> {
    let mut rest = &key.as_bytes()[2..];
    let mut fields = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<8>() {
        let (field, tail) = tail.split_at(usize::try_from(u64::from_be_bytes(*length)).unwrap());
        fields.push(String::from_utf8(field.to_vec()).unwrap());
        rest = tail;
    }
    fields
}

proptest! {
    #[test]
    fn normalising_twice_is_normalising_once(text in any::<String>(), kana in "[｡-ﾟア-ン\u{3099}\u{309A}゛゜　 ?！.]{0,20}") {
        for text in [text, kana] {
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once.clone());
            prop_assert!(!once.starts_with(' ') && !once.ends_with(' ') && !once.contains("  "));
            prop_assert!(!once.chars().any(|c| ('｡'..='ﾟ').contains(&c) || ('！'..='～').contains(&c)));
        }
    }

    #[test]
    fn a_key_can_be_read_back_and_so_no_two_questions_share_one(
        fields_in in any::<[String; 7]>(),
        uses_account in any::<bool>(),
        is_context_free in any::<bool>(),
    ) {
        let [caller, route, intent, text, history, prompt, catalogue] = &fields_in;
        let question = Question { intent, is_context_free, text, history, uses_account };
        let parts = KeyParts { route, locale: "ja", prompt_version: prompt, catalogue_version: catalogue };
        let public = question.scope() == ScopeDecision::Public;
        let Some(key) = CacheKey::of(&question, caller, &parts) else {
            prop_assert!(caller.is_empty() && !public);
            return Ok(());
        };
        prop_assert_eq!(key.is_public(), public);
        prop_assert!(!public || (is_context_free && history.is_empty() && !uses_account && personal_data(text).is_none()));
        let who = if public { "" } else { caller.as_str() };
        let expected =
            [who, route, "ja", intent, &normalise(text), history, prompt, catalogue].map(str::to_owned);
        prop_assert_eq!(fields(&key), expected);
    }
}

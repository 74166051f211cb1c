use super::super::{PersonalData, personal_data};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

#[test]
fn personal_data_is_found_in_any_width() {
    for (text, data) in [
        ("write to taro.yamada@example.jp please", PersonalData::Email),
        ("ｔａｒｏ＠ｅｘａｍｐｌｅ．ｊｐ", PersonalData::Email),
        ("x_@y", PersonalData::Email),
        ("4111 1111 1111 1111", PersonalData::Card),
        ("４１１１－１１１１－１１１１－１１１１", PersonalData::Card),
        ("378282246310005", PersonalData::Card),
        ("090-1234-5678", PersonalData::Phone),
        ("０３ー１２３４ー５６７８", PersonalData::Phone),
        ("(03) 1234 5678", PersonalData::Phone),
        ("0312345678まで", PersonalData::Phone),
        ("+81 90 1234 5678", PersonalData::Phone),
        ("150-0001", PersonalData::PostalCode),
        ("〒 渋谷区", PersonalData::PostalCode),
        ("１５０ー０００１", PersonalData::PostalCode),
        ("1234567", PersonalData::Number),
        ("1500-001", PersonalData::Number),
        ("250-1234567-1234568", PersonalData::Number),
        ("٠١٢٣٤٥٦", PersonalData::Number),
        ("12 - 34 - 567", PersonalData::Number),
        ("2026-11-15", PersonalData::Number),
        ("99999999999999999999", PersonalData::Number),
        ("4111111111111112", PersonalData::Number),
        ("#1234 はどこ", PersonalData::Number),
        ("№1234", PersonalData::Number),
        ("ORD-12345", PersonalData::Number),
        ("a1b2c3d4e5", PersonalData::Number),
        ("注文番号を教えて", PersonalData::Number),
        ("my Order Number", PersonalData::Number),
        ("田中様", PersonalData::Name),
        ("Tanaka様へ", PersonalData::Name),
        ("お客様と田中様", PersonalData::Name),
        ("田中と申します", PersonalData::Name),
        ("My name is Taro", PersonalData::Name),
        ("Dear Mr Tanaka", PersonalData::Name),
        ("田中さん、ご注文ありがとうございます", PersonalData::Name),
        ("佐々木さんへ", PersonalData::Name),
        ("秩父さんへ", PersonalData::Name),
        ("孫さんへ", PersonalData::Name),
        ("ｼﾞｮﾝさん", PersonalData::Name),
        ("さくらちゃん", PersonalData::Name),
        ("花子ちゃんと行きます", PersonalData::Name),
        ("お客さんと田中さん", PersonalData::Name),
        ("田中くんです", PersonalData::Name),
        ("太郎くんの本", PersonalData::Name),
        ("たろうくんの本", PersonalData::Name),
        ("田中君、おめでとう", PersonalData::Name),
        ("山田太郎殿", PersonalData::Name),
        ("山田氏の注文", PersonalData::Name),
        ("Tanaka-san, thank you", PersonalData::Name),
        ("Hi John, your parcel is on its way", PersonalData::Name),
        ("Hello, John!", PersonalData::Name),
        ("ＨＥＬＬＯ　Ｊｏｈｎ", PersonalData::Name),
        ("Dear Hanako, it is here", PersonalData::Name),
        ("Mr. Tanaka, your parcel is on its way", PersonalData::Name),
        ("as Mrs Sato said", PersonalData::Name),
        ("Ms.Sato", PersonalData::Name),
        ("Dear Sir, Hi Mr. O’Neil", PersonalData::Name),
        ("電話は090・1234・5678です", PersonalData::Phone),
        ("電話は090,1234,5678です", PersonalData::Phone),
        ("０９０：１２３４：５６７８", PersonalData::Phone),
        ("090~1234~5678", PersonalData::Phone),
        ("090〜1234〜5678", PersonalData::Phone),
        ("06:12:34:56:78", PersonalData::Phone),
        ("1234,5678", PersonalData::Number),
        ("1,2345,678", PersonalData::Number),
        ("0,123,456", PersonalData::Number),
        ("12-345,678", PersonalData::Number),
        ("注文123456はいつ届きますか", PersonalData::Number),
        ("ご注文の番号は 1234 です", PersonalData::Number),
        ("1234のご注文について", PersonalData::Number),
        ("1234番の注文", PersonalData::Number),
        ("会員: 98765", PersonalData::Number),
        ("予約コードは4321", PersonalData::Number),
        ("order 123456 is late", PersonalData::Number),
        ("Order #12 34", PersonalData::Number),
        ("my ticket no. 5521", PersonalData::Number),
        ("神宮前一丁目", PersonalData::Address),
        ("住所は東京です", PersonalData::Address),
    ] {
        assert_eq!(personal_data(text), Some(data), "{text}");
    }
}

#[test]
fn answers_for_all_customers_are_not_personal() {
    for text in [
        "",
        "配送はいつ届きますか",
        "お客様、皆様、仕様、模様、同様の様々な様子と様式です",
        "この様に、多様で異様な有様、一様な王様と神様",
        "様",
        "、様",
        "第110巻は528円、全集は1,234,567円です",
        "2026年11月15日まで",
        "123456",
        "123----456 789",
        "#123 の巻",
        "COVID-19 vol2026",
        "a @ b, @home, x@",
        "one piece 100-102",
        "10% off, 3 for 2!",
    ] {
        assert_eq!(personal_data(text), None, "{text}");
    }
}

#[test]
fn common_questions_are_public() {
    for text in [
        "営業時間は？",
        "営業時間は10:00~19:00です",
        "営業時間は09:00〜12:00、13:00〜17:00です",
        "送料はいくらですか",
        "送料は1,980円~12,980円です",
        "合計1,980~2,980円くらいの本はありますか",
        "ご注文5000円以上で送料無料ですか",
        "注文は10000ポイントまで使えますか",
        "2026年の予約はいつからですか",
        "いつ届くんですか",
        "本はとどくんですか",
        "注文はちゃんと届きますか",
        "全部で何巻まで続くんですか",
        "たくさん買うと安くなりますか",
        "お客さんの評判はどうですか",
        "皆さんのおすすめは？",
        "お父さんへのプレゼントに合う漫画は？",
        "お孫さん、祖母さま、おばあちゃん、お父様、おねえさん向けの本は？",
        "赤ちゃん向けの絵本はありますか",
        "作者さんのサイン会はいつですか",
        "本屋さんでも買えますか",
        "君の名は。の漫画はありますか",
        "氏名の変更はできますか",
        "殿堂入りの作品を教えて",
        "神殿が出てくる作品は？",
        "彼氏へのプレゼント",
        "1巻・2巻・3巻をまとめて買えますか",
        "1,2,3,4巻はありますか",
        "返品は何日までできますか",
        "支払い方法を教えてください",
        "電子書籍はありますか",
        "How long does shipping take?",
        "Hi, How long does shipping take?",
        "Hello there, do you ship abroad?",
        "Dear Sir or Madam, can I return a book?",
        "Hi! Where is the shop?",
        "Hey. I’d like to know your opening hours",
        "Do you have volumes 1-20?",
        "Is the order of volumes important?",
        "Is shipping free above 5,000 yen?",
        "In 2024, 300 new titles came out",
        "I ordered late, will it come before 10:00-12:00?",
        "What are your opening hours: 10:00-19:00?",
        "Are there discounts for orders over 3000 yen?",
    ] {
        assert_eq!(personal_data(text), None, "{text}");
    }
}

#[test]
fn marks_that_also_stand_in_sentences_join_digits_only_alone() {
    for (joint, joined) in [
        (",", true),
        (":", true),
        ("・", true),
        ("~", true),
        (", ", false),
        (" ,", false),
        ("::", false),
        ("、", false),
    ] {
        let found = personal_data(&format!("1234{joint}5678"));
        assert_eq!(found.is_some(), joined, "{joint}");
    }
    // Amounts and times are not identifying numbers, but longer groups are.
    for (text, found) in [
        ("1,234,567", false),
        ("12,345,678", false),
        ("123,456,789", false),
        ("1234,567,890", true),
        ("123,456,7890", true),
        ("123:456,789", true),
        ("500~1,200,000", false),
        ("10:00:00~19:00:00", false),
        ("10:00:000~19:00", true),
    ] {
        assert_eq!(personal_data(text).is_some(), found, "{text}");
    }
}

#[test]
fn a_number_beside_an_order_counts_from_four_digits_unless_it_counts_something() {
    for (text, found) in [
        ("注文123", false),
        ("注文1234", true),
        ("注文1234円", false),
        ("注文1234 円", false),
        ("注文の番号は1234", true),
        ("注文のが1234", true),
        ("注文はのが1234", false),
        ("本1234", false),
        ("1234の本", false),
        ("1234ご予約", true),
    ] {
        assert_eq!(personal_data(text).is_some(), found, "{text}");
    }
}

#[test]
fn a_greeting_and_a_name_stand_close_together() {
    for (text, found) in [
        ("Hi John", true),
        ("Hi., John", true),
        ("Hi.,, John", false),
        ("Hi - John", false),
        ("Hi john", false),
        ("Hi to John", false),
        ("This John", false),
        ("Mr", false),
        ("x-san", true),
        ("x-sanity", false),
        ("-san", false),
    ] {
        assert_eq!(personal_data(text).is_some(), found, "{text}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what it measures is time")]
fn detection_is_linear_in_the_text_length() {
    for piece in ["12 本 ", "注文 1本", "皆様", "皆さん", "Hi ", " -san", "・・・1,", "の ", "1,"]
    {
        let text = piece.repeat(50_000);
        let start = std::time::Instant::now();
        assert_eq!(personal_data(&text), None, "{piece}");
        assert!(start.elapsed() < std::time::Duration::from_secs(1), "{piece}: {:?}", start.elapsed());
    }
}

#[test]
fn numbers_count_from_their_bounds() {
    let digits = |count: usize| "1".repeat(count);
    assert_eq!([6, 7].map(|count| personal_data(&digits(count)).is_some()), [false, true]);
    assert_eq!([3, 4].map(|count| personal_data(&format!("#{}", digits(count))).is_some()), [false, true]);
    assert_eq!([4, 5].map(|count| personal_data(&format!("x{}", digits(count))).is_some()), [false, true]);
    let apart = |separators: usize| personal_data(&format!("1234{}5678", "-".repeat(separators)));
    assert_eq!([3, 4].map(|count| apart(count).is_some()), [true, false]);
    for (count, data) in [
        (9, PersonalData::Number),
        (10, PersonalData::Phone),
        (11, PersonalData::Phone),
        (12, PersonalData::Number),
    ] {
        assert_eq!(personal_data(&format!("0{}", digits(count - 1))), Some(data), "{count}");
    }
    // All zeros pass the Luhn check, so that only their count decides.
    for (count, data) in [
        (12, PersonalData::Number),
        (13, PersonalData::Card),
        (19, PersonalData::Card),
        (20, PersonalData::Number),
    ] {
        assert_eq!(personal_data(&"0".repeat(count)), Some(data), "{count}");
    }
}

proptest! {
    #[test]
    fn a_phone_number_is_found_wherever_it_stands(
        before in "[ぁ-ん、。 a-z]{0,12}",
        after in "[ぁ-ん、。 a-z]{0,12}",
        digits in "0[1-9]0-[0-9]{4}-[0-9]{4}",
        wide in proptest::bool::ANY,
    ) {
        let widen = |c: char| char::from_u32(u32::from(c) + 0xFEE0).unwrap();
        let digits: String = if wide { digits.chars().map(widen).collect() } else { digits };
        let found = personal_data(&format!("{before}{digits}{after}"));
        prop_assert_eq!(found, Some(PersonalData::Phone));
        prop_assert!(personal_data(&digits).is_some());
    }
}

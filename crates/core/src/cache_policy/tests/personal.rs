use super::super::{PersonalData, personal_data};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

#[test]
fn what_looks_personal_is_found_in_any_width() {
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
        ("神宮前一丁目", PersonalData::Address),
        ("住所は東京です", PersonalData::Address),
    ] {
        assert_eq!(personal_data(text), Some(data), "{text}");
    }
}

#[test]
fn what_a_shop_says_to_everybody_is_not_personal() {
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
    // All zeros pass the check digit, so that only their count decides.
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

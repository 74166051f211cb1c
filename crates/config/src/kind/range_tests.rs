//! Tests: a number out of range is reported as such, whatever its kind.

use super::{
    AmountKind, BytesKind, CountKind, DailyAmountKind, DurationKind, PercentKind, RateKind, SmallCountKind,
    TokenPriceKind, ValueKind,
};
use crate::problem::ProblemCode;
use crate::tree::TomlValue;

fn refused<K: ValueKind>(text: &str) -> (ProblemCode, String) {
    let error = K::parse(&TomlValue::Text(text.to_owned())).unwrap_err();
    (error.code, error.message)
}

#[test]
fn a_number_that_is_too_large_is_reported_with_the_maximum() {
    let huge = "99,999,999,999,999,999,999";
    for (refusal, text, largest) in [
        (refused::<RateKind>("10,000,000,000/day"), "10,000,000,000/day".to_owned(), "4,294,967,295"),
        (refused::<RateKind>("4294967296/min"), "4294967296/min".to_owned(), "4,294,967,295"),
        (refused::<BytesKind>("99999999999GiB"), "99999999999GiB".to_owned(), "18,446,744,073,709,551,615B"),
        (refused::<DurationKind>("1000000d"), "1000000d".to_owned(), "213503d"),
        (refused::<PercentKind>(&format!("{huge}%")), format!("{huge}%"), "1,844,674,407,370,955%"),
        (
            refused::<DailyAmountKind>("$99,999,999,999/day"),
            "$99,999,999,999/day".to_owned(),
            "$18,446,744,073/day",
        ),
        (refused::<AmountKind>("$99999999999.50"), "$99999999999.50".to_owned(), "$18,446,744,073"),
        (refused::<TokenPriceKind>("$99999999999/M"), "$99999999999/M".to_owned(), "$18,446,744,073/M"),
        (refused::<CountKind>(huge), huge.to_owned(), "18,446,744,073,709,551,615"),
    ] {
        let message = format!("\"{text}\" is too large: the maximum is {largest}");
        assert_eq!(refusal, (ProblemCode::InvalidValue, message));
    }
    let small = SmallCountKind::parse(&TomlValue::Integer(4_294_967_296)).unwrap_err();
    assert_eq!(small.message, "4294967296 is too large: the maximum is 4294967295");
}

#[test]
fn other_errors_of_numbers_name_the_expected_kind() {
    assert_eq!(refused::<RateKind>("$5/day").1, "\"$5/day\" is a daily amount, not a rate");
    assert_eq!(refused::<RateKind>("10,00/day").1, "\"10,00/day\" is not a rate");
    assert_eq!(refused::<DurationKind>("5parsecs").1, "\"5parsecs\" is not a duration");
    assert_eq!(refused::<AmountKind>("$0.0000000001").1, "\"$0.0000000001\" is not an amount");
}

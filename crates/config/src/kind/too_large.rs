//! Tests: a number out of range is reported as such, whatever its kind.

use super::{Amount, Bytes, Count, DayAmount, Kind, Percent, Rate, Small, Span, TokenPrice};
use crate::problem::Code;
use crate::tree::Value;

fn refused<K: Kind>(text: &str) -> (Code, String) {
    let misread = K::read(&Value::Text(text.to_owned())).unwrap_err();
    (misread.code, misread.message)
}

#[test]
fn a_number_that_is_too_large_is_told_so_with_the_largest() {
    let huge = "99,999,999,999,999,999,999";
    for (told, text, largest) in [
        (refused::<Rate>("10,000,000,000/day"), "10,000,000,000/day".to_owned(), "4,294,967,295"),
        (refused::<Rate>("4294967296/min"), "4294967296/min".to_owned(), "4,294,967,295"),
        (refused::<Bytes>("99999999999GiB"), "99999999999GiB".to_owned(), "18,446,744,073,709,551,615B"),
        (refused::<Span>("1000000d"), "1000000d".to_owned(), "213503d"),
        (refused::<Percent>(&format!("{huge}%")), format!("{huge}%"), "1,844,674,407,370,955%"),
        (
            refused::<DayAmount>("$99,999,999,999/day"),
            "$99,999,999,999/day".to_owned(),
            "$18,446,744,073/day",
        ),
        (refused::<Amount>("$99999999999.50"), "$99999999999.50".to_owned(), "$18,446,744,073"),
        (refused::<TokenPrice>("$99999999999/M"), "$99999999999/M".to_owned(), "$18,446,744,073/M"),
        (refused::<Count>(huge), huge.to_owned(), "18,446,744,073,709,551,615"),
    ] {
        let message = format!("\"{text}\" is too large: at most {largest} can be set");
        assert_eq!(told, (Code::Impossible, message));
    }
    let small = Small::read(&Value::Integer(4_294_967_296)).unwrap_err();
    assert_eq!(small.message, "4294967296 is too large: at most 4294967295 can be set");
}

#[test]
fn what_is_wrong_in_another_way_is_told_as_before() {
    assert_eq!(refused::<Rate>("$5/day").1, "\"$5/day\" is an amount a day, not a rate");
    assert_eq!(refused::<Rate>("10,00/day").1, "\"10,00/day\" is not a rate");
    assert_eq!(refused::<Span>("5parsecs").1, "\"5parsecs\" is not a time span");
    assert_eq!(refused::<Amount>("$0.0000000001").1, "\"$0.0000000001\" is not an amount");
}

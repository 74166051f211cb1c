//! Decimal digits with leading zeros, which `itoa` does not write. Every request has several in its headers and its log
//! line, and `core::fmt` takes several times as long.

use arrayvec::ArrayString;

/// The last `width` decimal digits of a number, with leading zeros.
pub(crate) fn padded(mut number: u64, width: u32) -> ArrayString<20> {
    let width = width.min(20) as usize;
    let mut digits = [b'0'; 20];
    for digit in digits[..width].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    let mut text = ArrayString::new();
    digits[..width].iter().for_each(|digit| text.push(char::from(*digit)));
    text
}

#[cfg(test)]
mod tests {
    use super::padded;
    use proptest::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn numbers_are_written_as_formatting_would(number: u64, small in 0_u64..1_000) {
            prop_assert_eq!(padded(small, 3).to_string(), format!("{small:03}"));
            prop_assert_eq!(padded(number, 20).to_string(), format!("{number:020}"));
        }
    }

    #[test]
    fn only_the_last_digits_are_written() {
        assert_eq!((padded(7, 0).as_str(), padded(1_234, 3).as_str()), ("", "234"));
    }
}

use super::super::{ComeBack, ComeBackRule};
use crate::chance::Draw;
use std::time::Duration;

fn come_back(wait: Duration, draw: Draw) -> ComeBack {
    ComeBackRule::default().hint(wait, draw)
}

#[test]
fn a_thousand_refused_together_come_back_apart() {
    let mut bins = [0_u32; 11];
    for n in 0..1_000_u64 {
        let draw = Draw::from_bits(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let after = come_back(Duration::from_millis(10), draw).after;
        assert!(Duration::from_secs(1) <= after && after <= Duration::from_secs(11));
        bins[usize::try_from(after.as_secs() - 1).unwrap()] += 1;
    }
    assert!(bins.iter().all(|bin| *bin <= 200), "{bins:?}");
    assert!(bins[..10].iter().all(|bin| *bin > 50), "{bins:?}");
}

#[test]
fn a_long_wait_is_told_in_full_and_not_slept_through() {
    let second = Duration::from_secs(1);
    assert_eq!(come_back(second * 20, Draw::LOWEST).after, second * 20);
    assert!(come_back(second * 20, Draw::LOWEST).worth_waiting);
    assert!(!come_back(second * 20 + Duration::from_nanos(1), Draw::LOWEST).worth_waiting);
    assert_eq!(come_back(Duration::ZERO, Draw::HIGHEST).after, second * 11);
    assert_eq!(come_back(Duration::MAX, Draw::HIGHEST).after, Duration::MAX);
}

#[test]
fn another_rule_has_its_own_numbers() {
    let second = Duration::from_secs(1);
    let rule = ComeBackRule { least: second * 3, spread: Duration::ZERO, longest_worth_waiting: second * 5 };
    assert_eq!(rule.hint(second, Draw::HIGHEST), ComeBack { after: second * 3, worth_waiting: true });
    assert_eq!(rule.hint(second * 6, Draw::HIGHEST), ComeBack { after: second * 6, worth_waiting: false });
}

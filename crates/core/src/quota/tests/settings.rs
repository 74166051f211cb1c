use super::super::{
    CalendarPeriod, MAX_SCOPES, Quota, QuotaDecision, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit,
    QuotaUnits, RateLimiter, ScopeError, check_request_groups,
};
use super::{MINUTE, at, group, rate, scope, shop, sliding};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn limits_that_make_no_sense_cannot_be_built() {
    let rate =
        |limit, per, burst| Quota::rate("r", QuotaUnit::Request, limit, per, burst).unwrap_err().to_string();
    assert_eq!(rate(0, SECOND, 1), "limit: must be at least 1");
    assert_eq!(rate(1, SECOND, 0), "burst: must be at least 1");
    assert_eq!(rate(1, Duration::ZERO, 1), "per: must be longer than 0s");
    assert_eq!(rate(11, Duration::from_nanos(10), 1), "limit: 11 in 10ns is more than one per nanosecond");
    assert!(Quota::rate("r", QuotaUnit::Request, 10, Duration::from_nanos(10), 1).is_ok());
    let century = SECOND * 60 * 60 * 24 * 36_500;
    assert_eq!(rate(1, century, 100), "burst: 100 units would take longer than 584 years to drain");

    let sliding = |limit, per, burst| {
        Quota::sliding("s", QuotaUnit::Request, limit, per, burst).unwrap_err().to_string()
    };
    assert_eq!(sliding(0, MINUTE, 1), "limit: must be at least 1");
    assert_eq!(sliding(1, SECOND / 2, 1), "per: 500ms is shorter than 1s");
    assert_eq!(sliding(u32::MAX, MINUTE, 1), "burst: 4294967295 + 1 is more than 4294967295");

    let ages = Duration::from_nanos(u64::MAX);
    assert_eq!(sliding(1, ages, 0), format!("per: {ages:?} is longer than 584 years"));
    let none = Quota::calendar("c", QuotaUnit::Request, 0, CalendarPeriod::Day).unwrap_err();
    assert_eq!(none.to_string(), "limit: must be at least 1");
}

#[test]
fn invalid_groups_and_limiters_are_rejected() {
    let refused = |quotas| QuotaGroup::new("guest", quotas).unwrap_err().to_string();
    assert_eq!(refused(vec![]), "quotas: group guest has no limit");
    assert_eq!(refused(vec![rate(1, SECOND, 1); 2]), "quotas: group guest has two limits named rate");
    let many = |count: usize| (0..count).map(|n| sliding(&n.to_string(), 1, MINUTE, 0)).collect::<Vec<_>>();
    assert_eq!(refused(many(9)), "quotas: group guest has 9 limits, more than 8");
    let full = group("guest", many(8));
    assert_eq!((full.name(), full.quotas().len()), ("guest", 8));

    assert_eq!(RateLimiter::new(vec![], 0).unwrap_err().to_string(), "groups: 0 is not between 1 and 65535");
    let twice = vec![full.clone(), full];
    assert_eq!(RateLimiter::new(twice, 0).unwrap_err().to_string(), "groups: two groups are named guest");
}

#[test]
fn a_question_that_cannot_be_decided_is_refused() {
    let limiter = shop();
    let guest = scope(&limiter, "guest", 1);
    let ask = |scopes: &[QuotaScope]| limiter.reserve(scopes, QuotaUnits::REQUEST, at(0)).unwrap_err();
    assert_eq!(ask(&[]), ScopeError::None);
    assert_eq!(ask(&[guest; MAX_SCOPES + 1]), ScopeError::TooMany);
    let other = QuotaScope { key: QuotaKey(2), ..guest };
    assert_eq!(ask(&[guest, scope(&limiter, "global", 0), other]), ScopeError::Repeated(guest.group));
    let bigger =
        super::RateLimiter::new((0..9).map(|n| group(&n.to_string(), vec![rate(1, SECOND, 1)])).collect(), 0);
    let foreign = scope(&bigger.unwrap(), "8", 1);
    assert_eq!(ask(&[guest, foreign]), ScopeError::Unknown(foreign.group));
    assert_eq!(limiter.view(&[foreign], at(0)), Err(ScopeError::Unknown(foreign.group)));
    assert_eq!(limiter.memory().callers, 0);
    assert_eq!(
        (limiter.group("none"), limiter.quota(super::super::LimitId { group: foreign.group, quota: 0 })),
        (None, None)
    );
}

/// So many groups, each with as many limits as a group can have.
fn groups(count: usize) -> Vec<QuotaGroup> {
    let quotas =
        |limit| (0..QuotaGroup::MAX_QUOTAS).map(|n| sliding(&n.to_string(), limit, MINUTE, 0)).collect();
    (0..count).map(|index| group(&format!("group {index}"), quotas(2))).collect()
}

#[test]
fn sixteen_groups_with_all_their_limits_apply_to_one_request_and_a_seventeenth_is_an_error() {
    let limiter = RateLimiter::new(groups(MAX_SCOPES + 1), 0).unwrap();
    let scopes: Vec<QuotaScope> =
        (0..=MAX_SCOPES).map(|index| scope(&limiter, &format!("group {index}"), 7)).collect();
    for count in [5, MAX_SCOPES] {
        let decision = limiter.reserve(&scopes[..count], QuotaUnits::REQUEST, at(0)).unwrap();
        let QuotaDecision::Granted { reservation, .. } = decision else { panic!("{decision:?}") };
        let views = limiter.view(&scopes[..count], at(0)).unwrap();
        assert_eq!(views.len(), count * QuotaGroup::MAX_QUOTAS);
        assert!(views.iter().all(|view| view.remaining == 1));
        limiter.refund(reservation, at(0));
        assert!(limiter.view(&scopes[..count], at(0)).unwrap().iter().all(|view| view.remaining == 2));
    }
    assert_eq!(limiter.reserve(&scopes, QuotaUnits::REQUEST, at(0)).unwrap_err(), ScopeError::TooMany);
    assert_eq!(limiter.view(&scopes, at(0)).unwrap_err(), ScopeError::TooMany);
}

#[test]
fn settings_with_too_many_groups_for_one_request_are_rejected_by_name() {
    assert_eq!(check_request_groups(&groups(MAX_SCOPES)), Ok(()));
    assert_eq!(
        check_request_groups(&groups(MAX_SCOPES + 2)).unwrap_err().to_string(),
        "groups: 18 groups of limits can apply to one request, more than 16: remove group 16, group 17"
    );
}

#[test]
fn a_limit_tells_its_kind_and_the_numbers_that_another_book_needs() {
    use super::super::QuotaKind;
    let rate = Quota::rate("r", QuotaUnit::Request, 5, SECOND, 10).unwrap();
    assert_eq!(rate.kind(), QuotaKind::Rate { unit: SECOND / 5, burst: 10 });
    let minute = Quota::sliding("m", QuotaUnit::Request, 60, SECOND * 60, 10).unwrap();
    assert_eq!(minute.kind(), QuotaKind::Sliding { slice: SECOND, limit: 70 });
    let day = Quota::calendar("d", QuotaUnit::Token, 7, CalendarPeriod::Day).unwrap();
    assert_eq!(day.kind(), QuotaKind::Calendar { period: CalendarPeriod::Day, limit: 7 });
}

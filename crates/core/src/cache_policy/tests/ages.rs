use super::super::{
    AnswerEnd, CacheAgeDecision, CacheAgeOptions, CacheAges, CacheSituation, CacheStoreDecision,
    CacheStoreOptions, CacheStoreRefusal, CacheStoreRule, CachedAnswer, Confidence, NewAnswer,
};
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Grade};
use std::time::Duration;

const HOUR: u64 = 3_600_000_000_000;

fn ages() -> CacheAges {
    CacheAgeOptions::default().check().unwrap()
}

/// An answer of the strong model, stored at this time.
fn strong(nanos: u64) -> CachedAnswer {
    CachedAnswer { grade: Grade::Strong, stored_at: at(nanos) }
}

fn before_models(ceiling: Ceiling) -> CacheSituation {
    CacheSituation::BeforeModels { ceiling }
}

fn rule() -> CacheStoreRule {
    CacheStoreOptions::default().check(ages()).unwrap()
}

/// A moment this many nanoseconds into the week.
fn at(nanos: u64) -> UtcTime {
    UtcTime::from_civil(2026, 11, 15) + Duration::from_nanos(nanos)
}

#[test]
fn an_answer_is_fresh_for_an_hour_stale_for_a_day_and_then_gone() {
    use CacheAgeDecision::{Expired, Fresh, StaleIfModelsFail, StaleWhileRefreshing};
    for (age, expected, models_failed) in [
        (0, Fresh, Fresh),
        (HOUR - 1, Fresh, Fresh),
        (HOUR, StaleWhileRefreshing, StaleIfModelsFail),
        (HOUR / 60 * 61, StaleWhileRefreshing, StaleIfModelsFail),
        (24 * HOUR - 1, StaleWhileRefreshing, StaleIfModelsFail),
        (24 * HOUR, Expired, Expired),
        (25 * HOUR, Expired, Expired),
    ] {
        let decide = |situation| ages().decide(&strong(0), at(age), situation);
        assert_eq!(decide(before_models(Ceiling::Strong)), expected, "{age}");
        assert_eq!(decide(CacheSituation::ModelsFailed), models_failed, "{age}");
        assert_eq!(ages().is_servable(&strong(0), at(age)), models_failed != Expired);
    }
}

#[test]
fn an_answer_is_refreshed_only_by_a_model_as_strong_as_the_one_that_gave_it() {
    use CacheAgeDecision::{StaleWhileRefreshing, StaleWithoutRefresh};
    for (grade, ceiling, decision) in [
        (Grade::Strong, Ceiling::Strong, StaleWhileRefreshing),
        (Grade::Strong, Ceiling::Fast, StaleWithoutRefresh),
        (Grade::Strong, Ceiling::None, StaleWithoutRefresh),
        (Grade::Fast, Ceiling::Strong, StaleWhileRefreshing),
        (Grade::Fast, Ceiling::Fast, StaleWhileRefreshing),
        (Grade::Fast, Ceiling::None, StaleWithoutRefresh),
    ] {
        let kept = CachedAnswer { grade, ..strong(0) };
        assert_eq!(ages().decide(&kept, at(HOUR), before_models(ceiling)), decision, "{grade} {ceiling}");
        // An answer obtained by a refresh is always stored.
        let of_grade = if ceiling == Ceiling::Strong { Grade::Strong } else { Grade::Fast };
        let answer = NewAnswer { text: "Two days.", end: AnswerEnd::Finished, grade: of_grade };
        let stored = rule().decide(&answer, Some(&kept), at(HOUR)) == CacheStoreDecision::Store;
        assert!(decision == StaleWithoutRefresh || stored);
    }
}

#[test]
fn while_only_fast_models_are_allowed_a_strong_answer_is_not_refreshed_for_ever() {
    let refreshes = (0..1_000).filter(|minute| {
        let now = at(HOUR + minute * (HOUR / 60));
        let decision = ages().decide(&strong(0), now, before_models(Ceiling::Fast));
        decision == CacheAgeDecision::StaleWhileRefreshing
    });
    assert_eq!(refreshes.count(), 0);
}

#[test]
fn an_answer_from_the_future_is_served_within_the_clock_skew() {
    let five_minutes = HOUR / 12;
    for (ahead, alive) in [(1, true), (five_minutes, true), (five_minutes + 1, false), (30 * HOUR, false)] {
        assert_eq!(ages().is_servable(&strong(ahead), at(0)), alive, "{ahead}");
    }
    let decision = ages().decide(&strong(1), at(0), before_models(Ceiling::Strong));
    assert_eq!(decision, CacheAgeDecision::Fresh);
}

#[test]
fn stale_answers_are_marked_and_have_lower_confidence() {
    for (decision, stale, confidence) in [
        (CacheAgeDecision::Fresh, false, Some(500)),
        (CacheAgeDecision::StaleWhileRefreshing, true, Some(400)),
        (CacheAgeDecision::StaleWithoutRefresh, true, Some(400)),
        (CacheAgeDecision::StaleIfModelsFail, true, Some(400)),
        (CacheAgeDecision::Expired, false, None),
    ] {
        assert_eq!(decision.is_stale(), stale);
        assert_eq!(decision.confidence().map(Confidence::thousandths), confidence);
    }
    assert_eq!(Confidence::FRESH_CACHE.to_string(), "0.5");
    assert_eq!(
        [999, 1_000, 1_001].map(|of| Confidence::of_thousandths(of).thousandths()),
        [999, 1_000, 1_000]
    );
}

#[test]
fn ages_and_sizes_that_make_no_sense_are_refused_by_name() {
    let options = CacheAgeOptions::default();
    let none = CacheAgeOptions { max_age: Duration::ZERO, ..options };
    assert_eq!(none.check().unwrap_err().to_string(), "max_age: must be longer than 0s");
    let short = CacheAgeOptions { max_stale_age: Duration::from_secs(3_599), ..options };
    assert_eq!(short.check().unwrap_err().to_string(), "max_age: 3600s is longer than max_stale_age (3599s)");
    assert!(CacheAgeOptions { max_stale_age: options.max_age, ..options }.check().is_ok());
    let nothing = CacheStoreOptions { max_answer_size: 0 }.check(ages()).unwrap_err();
    assert_eq!(nothing.to_string(), "max_answer_size: must be at least 1");
}

#[test]
fn only_what_ended_cleanly_is_kept() {
    let decide = |text, end| rule().decide(&NewAnswer { text, end, grade: Grade::Strong }, None, at(0));
    for end in AnswerEnd::ALL {
        let expected = if end == AnswerEnd::Finished {
            CacheStoreDecision::Store
        } else {
            CacheStoreDecision::Refuse(CacheStoreRefusal::NotFinished(end))
        };
        assert_eq!(decide("Two days.", end), expected);
    }
    for empty in ["", " \n", "　"] {
        assert_eq!(decide(empty, AnswerEnd::Finished), CacheStoreDecision::Refuse(CacheStoreRefusal::Empty));
    }
    let (largest, longer) = ("a".repeat(16_384), "a".repeat(16_385));
    assert_eq!(decide(&largest, AnswerEnd::Finished), CacheStoreDecision::Store);
    assert_eq!(
        decide(&longer, AnswerEnd::Finished),
        CacheStoreDecision::Refuse(CacheStoreRefusal::TooLong { max: 16_384 })
    );
}

#[test]
fn a_weaker_answer_never_replaces_a_servable_stronger_one() {
    for (new, kept, age, stored) in [
        (Grade::Fast, Grade::Strong, 0, false),
        (Grade::Fast, Grade::Strong, 2 * HOUR, false),
        (Grade::Fast, Grade::Strong, 24 * HOUR - 1, false),
        (Grade::Fast, Grade::Strong, 24 * HOUR, true),
        (Grade::Fast, Grade::Fast, 0, true),
        (Grade::Strong, Grade::Strong, 0, true),
        (Grade::Strong, Grade::Fast, 0, true),
    ] {
        let answer = NewAnswer { text: "Two days.", end: AnswerEnd::Finished, grade: new };
        let there = CachedAnswer { grade: kept, stored_at: at(0) };
        let expected = if stored {
            CacheStoreDecision::Store
        } else {
            CacheStoreDecision::Refuse(CacheStoreRefusal::StrongerCached)
        };
        assert_eq!(rule().decide(&answer, Some(&there), at(age)), expected, "{new} {kept} {age}");
    }
}

//! Every invariant, held and violated.

use super::{Evidence, Law, judged};
use crate::caller::{End, Got};
use crate::history::{Asked, Life, Span, StrangersSeen};
use crate::ledger::{Priced, Written};
use crate::model::Billed;
use crate::setting::minute;
use crate::traffic::Who;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_demo::judge::{Dialect, Verdict};
use std::time::Duration;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(0) + Duration::from_secs(seconds)
}

fn span(from: u64, to: u64) -> Span {
    Span { from: at(from), to: Some(at(to)) }
}

fn asked(node: usize, (put, over): (u64, u64), end: End, status: Option<u16>) -> Asked {
    let got = Got {
        node,
        put: at(put),
        head: Some(at(put)),
        over: at(over),
        end,
        is_ended: false,
        status,
        words: String::new(),
    };
    let who = Who { tier: Tier::Guest, number: 0 };
    Asked { who, dialect: Dialect::Chat, is_streamed: true, is_hostile: false, got }
}

fn answered(put: u64) -> Asked {
    asked(0, (put, put + 1), End::Judged(Verdict::Answered), Some(200))
}

fn life(id: u32) -> Life {
    Life { node: 0, id, span: span(0, 100), descriptors: (20, Some(32)), memory: (Some(40 << 20), 58 << 20) }
}

/// A run in which every invariant just holds.
fn good() -> Evidence {
    let mut evidence = Evidence {
        zero: Some(at(0)),
        books: vec![Some((70, 0)), Some((30, 0))],
        written: vec![Written { posted: 70, left_open: 0 }, Written { posted: 30, left_open: 0 }],
        priced: vec![Priced { answers: 3, wrong: Vec::new() }],
        billed: vec![
            Billed { nano_dollars: 60, ..Billed::default() },
            Billed { nano_dollars: 40, ..Billed::default() },
        ],
        said: vec!["seawall: redis is here".to_owned()],
        lives_at_the_end: vec![1],
        ..Evidence::default()
    };
    let seen = &mut evidence.seen;
    seen.asked.push(answered(1));
    seen.lives.push(life(1));
    seen.readings = 1;
    seen.variants.push((at(0), 0));
    evidence
}

fn broken(evidence: &Evidence) -> Vec<&'static str> {
    judged(evidence).iter().filter(|law| !law.held()).map(|law| law.name).collect()
}

fn broken_by(change: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = good();
    change(&mut evidence);
    broken(&evidence)
}

const ENDS: &str = "every request ends once, whole or with a word";
const TYPED: &str = "refusals are of the dialect and have a hint";
const FOUNDED: &str = "faults are told only when all models fail";
const STRAINED: &str = "slow models and one hostile caller leave nineteen in twenty others answered";
const LIMITS: &str = "callers keep their limits over both nodes";

#[test]
fn a_good_run_keeps_every_law() {
    assert_eq!(broken(&good()), [""; 0]);
    assert!(judged(&good()).iter().all(|law| law.to_string().starts_with("held")));
}

#[test]
fn bad_ends_are_excused_by_a_kill_of_the_same_node_at_the_same_time_and_by_nothing_else() {
    for verdict in [Verdict::Lost, Verdict::Cut, Verdict::Hung, Verdict::LookedComplete] {
        let bad = |evidence: &mut Evidence, node, time| {
            evidence.seen.asked.push(asked(node, time, End::Judged(verdict), None));
        };
        assert_eq!(broken_by(|evidence| bad(evidence, 0, (10, 12))), [ENDS], "{verdict:?}");
        let killed = |node, time| {
            broken_by(|evidence| {
                evidence.seen.kills.push((1, span(20, 21)));
                bad(evidence, node, time);
            })
        };
        let is_excused = matches!(verdict, Verdict::Lost | Verdict::Cut);
        for time in [(19, 20), (21, 22), (19, 22)] {
            assert_eq!(killed(1, time).is_empty(), is_excused, "{verdict:?} {time:?}");
        }
        for (node, time) in [(0, (19, 22)), (1, (18, 19)), (1, (22, 23))] {
            assert_eq!(killed(node, time), [ENDS], "{verdict:?} {time:?}");
        }
    }
    assert_eq!(
        broken_by(|evidence| evidence.seen.asked.push(asked(0, (1, 2), End::NobodyThere, None))),
        [ENDS]
    );
    assert!(broken_by(|evidence| evidence.seen.asked.push(asked(0, (1, 2), End::Left, None))).is_empty());
    assert_eq!(broken_by(|evidence| evidence.seen.asked.clear()), [ENDS], "nothing at all is not enough");
}

fn refused(time: (u64, u64), status: u16, has_hint: bool) -> Asked {
    asked(0, time, End::Judged(Verdict::Refused { status, has_hint }), Some(status))
}

#[test]
fn refusals_need_words_and_a_hint() {
    assert!(broken_by(|evidence| evidence.seen.asked.push(refused((1, 2), 429, true))).is_empty());
    assert_eq!(broken_by(|evidence| evidence.seen.asked.push(refused((1, 2), 429, false))), [TYPED]);
    let lost = asked(0, (1, 2), End::Judged(Verdict::Lost), Some(502));
    assert_eq!(broken_by(|evidence| evidence.seen.asked.push(lost)), [TYPED]);
}

#[test]
fn others_are_answered_while_models_are_slow_or_fail_for_one_caller() {
    let told = |faults: usize, is_hostile: bool| {
        broken_by(|evidence| {
            evidence.seen.strained = [vec![span(5, 12)], vec![span(5, 12)]];
            for _ in 0..faults {
                evidence.seen.asked.push(Asked { is_hostile, ..refused((10, 11), 503, true) });
            }
        })
    };
    assert!(told(2, false).is_empty() && told(100, true).is_empty());
    assert_eq!(told(30, false), [STRAINED]);
}

#[test]
fn what_every_model_fails_for_on_purpose_excuses_its_own_refusal_and_no_other() {
    let told = |strained: [Vec<Span>; 2], is_hostile: bool| {
        broken_by(|evidence| {
            // The first model has not recovered from another fault.
            evidence.seen.spoilt = [vec![span(1, 3)], vec![]];
            evidence.seen.strained = strained;
            evidence.seen.asked.push(Asked { is_hostile, ..refused((10, 11), 500, true) });
        })
    };
    let both = || [vec![span(5, 12)], vec![span(5, 12)]];
    assert!(told(both(), true).is_empty());
    assert_eq!(told(both(), false), [FOUNDED]);
    assert_eq!(told([vec![span(5, 12)], vec![]], true), [FOUNDED]);
}

#[test]
fn a_caller_that_provoked_failures_is_shut_out_for_a_while_and_no_other_is() {
    let told = |number: u64, time| {
        broken_by(|evidence| {
            evidence.seen.spoilt = [vec![span(1, 8)], vec![]];
            evidence.seen.strained = [vec![span(5, 12)], vec![span(5, 12)]];
            evidence.seen.asked.push(Asked { is_hostile: true, ..refused((9, 10), 500, true) });
            let who = Who { tier: Tier::Guest, number };
            evidence.seen.asked.push(Asked { who, ..refused(time, 503, true) });
        })
    };
    assert!(told(0, (11, 12)).is_empty());
    assert_eq!(told(1, (11, 12)), [FOUNDED]);
    assert_eq!(told(0, (40, 41)), [FOUNDED]);
}

#[test]
fn faults_are_told_only_while_all_models_fail_or_recover_or_the_node_stops() {
    let told = |time, spoilt: [Vec<Span>; 2]| {
        broken_by(|evidence| {
            evidence.seen.spoilt = spoilt;
            evidence.seen.asked.push(refused(time, 503, true));
        })
    };
    assert_eq!(told((10, 11), [vec![], vec![]]), [FOUNDED]);
    assert_eq!(told((10, 11), [vec![span(5, 12)], vec![]]), [FOUNDED]);
    assert!(told((10, 11), [vec![span(5, 12)], vec![span(11, 12)]]).is_empty());
    assert!(told((25, 26), [vec![span(5, 12)], vec![span(11, 12)]]).is_empty(), "13 s to recover");
    assert_eq!(told((26, 27), [vec![span(5, 12)], vec![span(11, 12)]]), [FOUNDED]);
    for (status, laws) in
        [(408, &[FOUNDED][..]), (429, &[]), (500, &[FOUNDED]), (529, &[FOUNDED]), (499, &[])]
    {
        let broken = broken_by(|evidence| evidence.seen.asked.push(refused((1, 2), status, true)));
        assert_eq!(broken, laws, "{status}");
    }
    let stopping = broken_by(|evidence| {
        evidence.seen.stops.push((0, span(1, 3)));
        evidence.seen.asked.push(refused((2, 2), 503, true));
    });
    assert!(stopping.is_empty());
    let tight = |since: u64, node: usize| {
        broken_by(|evidence| {
            evidence.seen.tight[node] = Some(at(since));
            evidence.seen.asked.push(refused((2, 3), 503, true));
        })
    };
    assert!(tight(3, 0).is_empty());
    assert_eq!(tight(4, 0), [FOUNDED]);
    assert_eq!(tight(1, 1), [FOUNDED], "the other node's money");
}

#[test]
fn a_minute_has_as_many_answers_as_the_limit_and_what_nodes_may_add_without_the_store() {
    let (usual, beyond) = minute(Tier::Guest, 0);
    let limit = u64::from(usual + beyond);
    let many = |number: u64, change: fn(&mut Evidence)| {
        broken_by(|evidence| {
            evidence.seen.asked = (0..number).map(|place| answered(10 + place % 50)).collect();
            change(evidence);
        })
    };
    assert!(many(limit, |_| {}).is_empty());
    assert_eq!(many(limit + 1, |_| {}), [LIMITS]);
    let alone: fn(&mut Evidence) = |evidence| evidence.seen.note_alone(1, at(72), 4);
    assert!(many(limit + 4, alone).is_empty());
    assert_eq!(many(limit + 5, alone), [LIMITS]);
    let much_later: fn(&mut Evidence) = |evidence| evidence.seen.note_alone(1, at(74), 4);
    assert_eq!(many(limit + 1, much_later), [LIMITS]);
    let both: fn(&mut Evidence) = |evidence| {
        evidence.seen.note_alone(0, at(20), 3);
        evidence.seen.note_alone(1, at(21), 4);
        evidence.seen.note_alone(0, at(22), 3);
    };
    assert!(many(limit + 7, both).is_empty());
    assert_eq!(many(limit + 8, both), [LIMITS]);
    let forgotten: fn(&mut Evidence) = |evidence| evidence.seen.forgotten = Some(at(9));
    assert!(many(2 * limit, forgotten).is_empty());
    assert_eq!(many(2 * limit + 1, forgotten), [LIMITS]);
    let much_alone: fn(&mut Evidence) = |evidence| evidence.seen.note_alone(1, at(30), 1_000);
    assert_eq!(many(2 * limit + 1, much_alone), [LIMITS], "a node has no more than its share");
    // Until counts are lost the bound is exact, however much is left of the minute.
    let early = |number: u64| {
        broken_by(|evidence| {
            evidence.seen.forgotten = Some(at(30));
            evidence.seen.asked = (0..number).map(|place| answered(20 + place % 10)).collect();
        })
    };
    assert!(early(limit).is_empty());
    assert_eq!(early(limit + 1), [LIMITS]);
    let more: fn(&mut Evidence) = |evidence| evidence.seen.variants.push((at(30), 2));
    assert!(many(limit + 1, more).is_empty(), "another limit holds meanwhile");
    let before: fn(&mut Evidence) = |evidence| evidence.seen.variants = vec![(at(0), 2), (at(3), 0)];
    assert_eq!(many(limit + 1, before), [LIMITS], "another limit held before");
    let spread = broken_by(|evidence| {
        evidence.seen.asked =
            (0..limit * 3).map(|place| answered(place * 60 / limit + place / limit)).collect();
    });
    assert!(spread.is_empty(), "a limit a minute is none over three");
}

#[test]
fn books_ledgers_and_bills_agree() {
    type Change = fn(&mut Evidence);
    let cases: [(&str, Change); 9] = [
        ("posted and held, but for overruns, are within the cap", |evidence| {
            evidence.seen.overdrawn.push("much".to_owned());
        }),
        ("posted and held, but for overruns, are within the cap", |evidence| evidence.seen.readings = 0),
        ("nothing is held in the end", |evidence| evidence.books[1] = Some((30, 1))),
        ("nothing is held in the end", |evidence| evidence.books[0] = None),
        ("nothing is held in the end", |evidence| evidence.written[0].left_open = 1),
        ("what models bill is posted", |evidence| evidence.billed[0].nano_dollars = 61),
        ("ledgers have what books posted", |evidence| evidence.books[0] = Some((71, 0))),
        ("an answer costs what it used", |evidence| evidence.priced[0].wrong.push("x".to_owned())),
        ("what is posted beyond the bill is explained", |evidence| evidence.billed[0].nano_dollars = 59),
    ];
    for (name, change) in cases {
        assert_eq!(broken_by(change), [name]);
    }
}

#[test]
fn what_is_posted_beyond_the_bill_is_for_calls_whose_end_nobody_saw() {
    let beyond = |explain: fn(&mut Evidence), more: u64| {
        broken_by(|evidence| {
            evidence.books[0] = Some((70 + more, 0));
            evidence.written[0].posted = 70 + more;
            explain(evidence);
        })
    };
    let explanations: [fn(&mut Evidence); 3] = [
        |evidence| evidence.billed[1].unfinished = 1,
        |evidence| evidence.seen.asked.push(asked(0, (1, 2), End::Left, None)),
        |evidence| {
            evidence.seen.kills.push((0, span(5, 5)));
            evidence.seen.asked.push(asked(0, (4, 6), End::Judged(Verdict::Lost), None));
        },
    ];
    for explain in explanations {
        assert!(beyond(explain, 6_000_000).is_empty());
        assert_eq!(beyond(explain, 6_000_001), ["what is posted beyond the bill is explained"]);
    }
    assert!(beyond(|evidence| evidence.billed[0].is_partial = true, 9_000_000).is_empty());
}

#[test]
fn processes_give_back_what_they_took_and_behave() {
    let memory = |early, late| broken_by(|evidence| evidence.seen.lives[0].memory = (early, late));
    assert_eq!(memory(Some(40 << 20), (58 << 20) + 1), ["memory does not grow"]);
    assert!(memory(None, u64::MAX).is_empty(), "too young to be judged");
    let last = |last| broken_by(|evidence| evidence.seen.lives[0].descriptors.1 = last);
    assert_eq!(last(Some(33)), ["descriptors are given back"]);
    assert!(last(None).is_empty());
    let earlier = broken_by(|evidence| {
        evidence.lives_at_the_end = vec![2];
        evidence.seen.lives[0].memory = (Some(0), u64::MAX);
    });
    assert!(earlier.is_empty(), "one that has ended is not judged");
    let name = "no program panics, dies or refuses to stop";
    assert_eq!(broken_by(|evidence| evidence.seen.misdeeds.push("died".to_owned())), [name]);
    assert_eq!(broken_by(|evidence| evidence.said.push("x\nthread 'a' panicked at b".to_owned())), [name]);
}

#[test]
fn strangers_cost_next_to_nothing_and_nobody_waits_for_them() {
    let name = "strangers take no memory and keep nobody waiting";
    let seen = |grown, unanswered: Vec<String>| {
        let seen = StrangersSeen { node: 1, grown, asked: 4, unanswered };
        broken_by(|evidence| evidence.seen.strangers.push(seen))
    };
    assert!(seen(48 << 20, Vec::new()).is_empty());
    assert_eq!(seen((48 << 20) + 1, Vec::new()), [name]);
    assert_eq!(seen(0, vec!["node 1 answered 503".to_owned()]), [name]);
}

#[test]
fn a_broken_law_shows_some_of_what_is_against_it() {
    let law =
        Law::new("it holds", "3 seen".to_owned(), (0..10).map(|number| format!("case {number}")).collect());
    let text = law.to_string();
    assert!(text.starts_with("BROKEN  it holds: 3 seen\n          case 0\n"), "{text}");
    assert!(text.ends_with("case 7\n          and 2 more\n"), "{text}");
}

//! Every invariant, held and violated.

use super::{Evidence, InvariantResult, check_all};
use crate::caller::{RequestEnd, ResponseObservation};
use crate::history::{AttackResult, ProcessLifetime, RequestObservation, TimeSpan};
use crate::ledger::{PersistedLedger, PriceCheck};
use crate::model::ModelBill;
use crate::setting::minute;
use crate::traffic::ChaosCaller;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_testkit::validator::{ClientDialect, ClientOutcome};
use std::time::Duration;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(0) + Duration::from_secs(seconds)
}

fn span(from: u64, to: u64) -> TimeSpan {
    TimeSpan { from: at(from), to: Some(at(to)) }
}

fn request_with(
    node: usize,
    (sent_at, ended_at): (u64, u64),
    end: RequestEnd,
    status: Option<u16>,
) -> RequestObservation {
    let response = ResponseObservation {
        node,
        sent_at: at(sent_at),
        head_at: Some(at(sent_at)),
        ended_at: at(ended_at),
        end,
        is_ended: false,
        status,
        message: String::new(),
    };
    let caller = ChaosCaller { tier: Tier::Guest, number: 0 };
    RequestObservation {
        caller,
        dialect: ClientDialect::Chat,
        is_streamed: true,
        is_hostile: false,
        response,
    }
}

fn answered(sent_at: u64) -> RequestObservation {
    request_with(0, (sent_at, sent_at + 1), RequestEnd::Received(ClientOutcome::Answered), Some(200))
}

fn process(id: u32) -> ProcessLifetime {
    ProcessLifetime {
        node: 0,
        id,
        span: span(0, 100),
        descriptors: (20, Some(32)),
        memory: (Some(40 << 20), 58 << 20),
    }
}

/// A run in which every invariant just holds.
fn good() -> Evidence {
    let mut evidence = Evidence {
        started_at: Some(at(0)),
        ledgers: vec![Some((70, 0)), Some((30, 0))],
        persisted: vec![
            PersistedLedger { posted: 70, left_open: 0 },
            PersistedLedger { posted: 30, left_open: 0 },
        ],
        prices: vec![PriceCheck { answers: 3, wrong: Vec::new() }],
        bills: vec![
            ModelBill { nano_dollars: 60, ..ModelBill::default() },
            ModelBill { nano_dollars: 40, ..ModelBill::default() },
        ],
        stderr: vec!["seawall: redis is up".to_owned()],
        final_processes: vec![1],
        ..Evidence::default()
    };
    let observations = &mut evidence.observations;
    observations.requests.push(answered(1));
    observations.processes.push(process(1));
    observations.readings = 1;
    observations.variants.push((at(0), 0));
    evidence
}

fn violated(evidence: &Evidence) -> Vec<&'static str> {
    check_all(evidence).iter().filter(|result| !result.held()).map(|result| result.name).collect()
}

fn violated_by(change: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = good();
    change(&mut evidence);
    violated(&evidence)
}

const ENDS: &str = "every request ends exactly once, completely or with an error";
const TYPED: &str = "rejections are in the dialect and have retry advice";
const JUSTIFIED: &str = "server errors occur only when all models fail";
const DEGRADED: &str = "slow models or one hostile caller leave 95 % of other requests answered";
const LIMITS: &str = "rate limits hold across both nodes";

#[test]
fn a_good_run_satisfies_every_invariant() {
    assert_eq!(violated(&good()), [""; 0]);
    assert!(check_all(&good()).iter().all(|result| result.to_string().starts_with("held")));
}

#[test]
fn bad_ends_are_excused_by_a_kill_of_the_same_node_at_the_same_time_and_by_nothing_else() {
    for outcome in
        [ClientOutcome::Lost, ClientOutcome::Cut, ClientOutcome::Hung, ClientOutcome::FalselyComplete]
    {
        let bad = |evidence: &mut Evidence, node, time| {
            evidence.observations.requests.push(request_with(
                node,
                time,
                RequestEnd::Received(outcome),
                None,
            ));
        };
        assert_eq!(violated_by(|evidence| bad(evidence, 0, (10, 12))), [ENDS], "{outcome:?}");
        let killed = |node, time| {
            violated_by(|evidence| {
                evidence.observations.kills.push((1, span(20, 21)));
                bad(evidence, node, time);
            })
        };
        let is_excused = matches!(outcome, ClientOutcome::Lost | ClientOutcome::Cut);
        for time in [(19, 20), (21, 22), (19, 22)] {
            assert_eq!(killed(1, time).is_empty(), is_excused, "{outcome:?} {time:?}");
        }
        for (node, time) in [(0, (19, 22)), (1, (18, 19)), (1, (22, 23))] {
            assert_eq!(killed(node, time), [ENDS], "{outcome:?} {time:?}");
        }
    }
    assert_eq!(
        violated_by(|evidence| evidence.observations.requests.push(request_with(
            0,
            (1, 2),
            RequestEnd::NoConnection,
            None
        ))),
        [ENDS]
    );
    assert!(
        violated_by(|evidence| evidence.observations.requests.push(request_with(
            0,
            (1, 2),
            RequestEnd::Disconnected,
            None
        )))
        .is_empty()
    );
    assert_eq!(
        violated_by(|evidence| evidence.observations.requests.clear()),
        [ENDS],
        "nothing at all is not enough"
    );
}

fn rejected(time: (u64, u64), status: u16, has_retry_advice: bool) -> RequestObservation {
    request_with(
        0,
        time,
        RequestEnd::Received(ClientOutcome::Rejected { status, has_retry_advice }),
        Some(status),
    )
}

#[test]
fn rejections_need_the_format_of_the_dialect_and_retry_advice() {
    assert!(
        violated_by(|evidence| evidence.observations.requests.push(rejected((1, 2), 429, true))).is_empty()
    );
    assert_eq!(
        violated_by(|evidence| evidence.observations.requests.push(rejected((1, 2), 429, false))),
        [TYPED]
    );
    let lost = request_with(0, (1, 2), RequestEnd::Received(ClientOutcome::Lost), Some(502));
    assert_eq!(violated_by(|evidence| evidence.observations.requests.push(lost)), [TYPED]);
}

#[test]
fn others_are_answered_while_models_are_slow_or_fail_for_one_caller() {
    let violated_for = |faults: usize, is_hostile: bool| {
        violated_by(|evidence| {
            evidence.observations.degraded = [vec![span(5, 12)], vec![span(5, 12)]];
            for _ in 0..faults {
                evidence
                    .observations
                    .requests
                    .push(RequestObservation { is_hostile, ..rejected((10, 11), 503, true) });
            }
        })
    };
    assert!(violated_for(2, false).is_empty() && violated_for(100, true).is_empty());
    assert_eq!(violated_for(30, false), [DEGRADED]);
}

#[test]
fn what_every_model_fails_for_on_purpose_excuses_its_own_refusal_and_no_other() {
    let violated_for = |degraded: [Vec<TimeSpan>; 2], is_hostile: bool| {
        violated_by(|evidence| {
            // The first model has not recovered from another fault.
            evidence.observations.faulty = [vec![span(1, 3)], vec![]];
            evidence.observations.degraded = degraded;
            evidence
                .observations
                .requests
                .push(RequestObservation { is_hostile, ..rejected((10, 11), 500, true) });
        })
    };
    let both = || [vec![span(5, 12)], vec![span(5, 12)]];
    assert!(violated_for(both(), true).is_empty());
    assert_eq!(violated_for(both(), false), [JUSTIFIED]);
    assert_eq!(violated_for([vec![span(5, 12)], vec![]], true), [JUSTIFIED]);
}

#[test]
fn a_caller_that_provoked_failures_is_shut_out_for_a_while_and_no_other_is() {
    let violated_for = |number: u64, time| {
        violated_by(|evidence| {
            evidence.observations.faulty = [vec![span(1, 8)], vec![]];
            evidence.observations.degraded = [vec![span(5, 12)], vec![span(5, 12)]];
            evidence
                .observations
                .requests
                .push(RequestObservation { is_hostile: true, ..rejected((9, 10), 500, true) });
            let caller = ChaosCaller { tier: Tier::Guest, number };
            evidence.observations.requests.push(RequestObservation { caller, ..rejected(time, 503, true) });
        })
    };
    assert!(violated_for(0, (11, 12)).is_empty());
    assert_eq!(violated_for(1, (11, 12)), [JUSTIFIED]);
    assert_eq!(violated_for(0, (40, 41)), [JUSTIFIED]);
}

#[test]
fn server_errors_occur_only_while_all_models_fail_or_recover_or_the_node_stops() {
    let violated_for = |time, faulty: [Vec<TimeSpan>; 2]| {
        violated_by(|evidence| {
            evidence.observations.faulty = faulty;
            evidence.observations.requests.push(rejected(time, 503, true));
        })
    };
    assert_eq!(violated_for((10, 11), [vec![], vec![]]), [JUSTIFIED]);
    assert_eq!(violated_for((10, 11), [vec![span(5, 12)], vec![]]), [JUSTIFIED]);
    assert!(violated_for((10, 11), [vec![span(5, 12)], vec![span(11, 12)]]).is_empty());
    assert!(violated_for((25, 26), [vec![span(5, 12)], vec![span(11, 12)]]).is_empty(), "13 s to recover");
    assert_eq!(violated_for((26, 27), [vec![span(5, 12)], vec![span(11, 12)]]), [JUSTIFIED]);
    for (status, names) in
        [(408, &[JUSTIFIED][..]), (429, &[]), (500, &[JUSTIFIED]), (529, &[JUSTIFIED]), (499, &[])]
    {
        let violated =
            violated_by(|evidence| evidence.observations.requests.push(rejected((1, 2), status, true)));
        assert_eq!(violated, names, "{status}");
    }
    let stopping = violated_by(|evidence| {
        evidence.observations.stops.push((0, span(1, 3)));
        evidence.observations.requests.push(rejected((2, 2), 503, true));
    });
    assert!(stopping.is_empty());
    let tight = |since: u64, node: usize| {
        violated_by(|evidence| {
            evidence.observations.budget_low_since[node] = Some(at(since));
            evidence.observations.requests.push(rejected((2, 3), 503, true));
        })
    };
    assert!(tight(3, 0).is_empty());
    assert_eq!(tight(4, 0), [JUSTIFIED]);
    assert_eq!(tight(1, 1), [JUSTIFIED], "the other node's money");
}

#[test]
fn a_minute_has_as_many_answers_as_the_limit_and_what_nodes_may_add_without_the_store() {
    let (limit_per_minute, burst) = minute(Tier::Guest, 0);
    let limit = u64::from(limit_per_minute + burst);
    let many = |number: u64, change: fn(&mut Evidence)| {
        violated_by(|evidence| {
            evidence.observations.requests = (0..number).map(|index| answered(10 + index % 50)).collect();
            change(evidence);
        })
    };
    assert!(many(limit, |_| {}).is_empty());
    assert_eq!(many(limit + 1, |_| {}), [LIMITS]);
    let local: fn(&mut Evidence) = |evidence| evidence.observations.record_local_decisions(1, at(72), 4);
    assert!(many(limit + 4, local).is_empty());
    assert_eq!(many(limit + 5, local), [LIMITS]);
    let much_later: fn(&mut Evidence) = |evidence| evidence.observations.record_local_decisions(1, at(74), 4);
    assert_eq!(many(limit + 1, much_later), [LIMITS]);
    let both: fn(&mut Evidence) = |evidence| {
        evidence.observations.record_local_decisions(0, at(20), 3);
        evidence.observations.record_local_decisions(1, at(21), 4);
        evidence.observations.record_local_decisions(0, at(22), 3);
    };
    assert!(many(limit + 7, both).is_empty());
    assert_eq!(many(limit + 8, both), [LIMITS]);
    let counts_lost_at: fn(&mut Evidence) = |evidence| evidence.observations.counts_lost_at = Some(at(9));
    assert!(many(2 * limit, counts_lost_at).is_empty());
    assert_eq!(many(2 * limit + 1, counts_lost_at), [LIMITS]);
    let much_alone: fn(&mut Evidence) =
        |evidence| evidence.observations.record_local_decisions(1, at(30), 1_000);
    assert_eq!(many(2 * limit + 1, much_alone), [LIMITS], "a node has no more than its share");
    // Until counts are lost the bound is exact, however much is left of the minute.
    let early = |number: u64| {
        violated_by(|evidence| {
            evidence.observations.counts_lost_at = Some(at(30));
            evidence.observations.requests = (0..number).map(|index| answered(20 + index % 10)).collect();
        })
    };
    assert!(early(limit).is_empty());
    assert_eq!(early(limit + 1), [LIMITS]);
    let more: fn(&mut Evidence) = |evidence| evidence.observations.variants.push((at(30), 2));
    assert!(many(limit + 1, more).is_empty(), "another limit holds meanwhile");
    let before: fn(&mut Evidence) = |evidence| evidence.observations.variants = vec![(at(0), 2), (at(3), 0)];
    assert_eq!(many(limit + 1, before), [LIMITS], "another limit held before");
    let spread = violated_by(|evidence| {
        evidence.observations.requests =
            (0..limit * 3).map(|index| answered(index * 60 / limit + index / limit)).collect();
    });
    assert!(spread.is_empty(), "a limit a minute is none over three");
}

#[test]
fn books_ledgers_and_bills_agree() {
    type Change = fn(&mut Evidence);
    let cases: [(&str, Change); 9] = [
        ("posted and held, without overruns, are within the budget", |evidence| {
            evidence.observations.overdrawn.push("much".to_owned());
        }),
        ("posted and held, without overruns, are within the budget", |evidence| {
            evidence.observations.readings = 0;
        }),
        ("no reservation is left at the end", |evidence| evidence.ledgers[1] = Some((30, 1))),
        ("no reservation is left at the end", |evidence| evidence.ledgers[0] = None),
        ("no reservation is left at the end", |evidence| evidence.persisted[0].left_open = 1),
        ("everything that models bill is posted", |evidence| evidence.bills[0].nano_dollars = 61),
        ("persisted ledgers match the posted amounts", |evidence| evidence.ledgers[0] = Some((71, 0))),
        ("the cost of an answer matches its usage", |evidence| evidence.prices[0].wrong.push("x".to_owned())),
        ("every amount posted beyond the bill is explained", |evidence| evidence.bills[0].nano_dollars = 59),
    ];
    for (name, change) in cases {
        assert_eq!(violated_by(change), [name]);
    }
}

#[test]
fn amounts_posted_beyond_the_bill_are_for_calls_with_an_unknown_end() {
    let beyond = |explain: fn(&mut Evidence), more: u64| {
        violated_by(|evidence| {
            evidence.ledgers[0] = Some((70 + more, 0));
            evidence.persisted[0].posted = 70 + more;
            explain(evidence);
        })
    };
    let explanations: [fn(&mut Evidence); 3] = [
        |evidence| evidence.bills[1].unfinished = 1,
        |evidence| {
            evidence.observations.requests.push(request_with(0, (1, 2), RequestEnd::Disconnected, None));
        },
        |evidence| {
            evidence.observations.kills.push((0, span(5, 5)));
            evidence.observations.requests.push(request_with(
                0,
                (4, 6),
                RequestEnd::Received(ClientOutcome::Lost),
                None,
            ));
        },
    ];
    for explain in explanations {
        assert!(beyond(explain, 6_000_000).is_empty());
        assert_eq!(beyond(explain, 6_000_001), ["every amount posted beyond the bill is explained"]);
    }
    assert!(beyond(|evidence| evidence.bills[0].is_partial = true, 9_000_000).is_empty());
}

#[test]
fn processes_give_back_what_they_took_and_behave() {
    let memory =
        |early, late| violated_by(|evidence| evidence.observations.processes[0].memory = (early, late));
    assert_eq!(memory(Some(40 << 20), (58 << 20) + 1), ["memory does not grow"]);
    assert!(memory(None, u64::MAX).is_empty(), "too young to be judged");
    let last = |last| violated_by(|evidence| evidence.observations.processes[0].descriptors.1 = last);
    assert_eq!(last(Some(33)), ["file descriptors are released"]);
    assert!(last(None).is_empty());
    let earlier = violated_by(|evidence| {
        evidence.final_processes = vec![2];
        evidence.observations.processes[0].memory = (Some(0), u64::MAX);
    });
    assert!(earlier.is_empty(), "one that has ended is not judged");
    let name = "no process panics, dies or fails to stop";
    assert_eq!(
        violated_by(|evidence| evidence.observations.process_failures.push("died".to_owned())),
        [name]
    );
    assert_eq!(
        violated_by(|evidence| evidence.stderr.push("x\nthread 'a' panicked at b".to_owned())),
        [name]
    );
}

#[test]
fn unauthenticated_clients_cost_little_and_delay_nobody() {
    let name = "unauthenticated clients use no memory and delay no caller";
    let observations = |memory_growth, failures: Vec<String>| {
        let observations = AttackResult { node: 1, memory_growth, requests: 4, failures };
        violated_by(|evidence| evidence.observations.attacks.push(observations))
    };
    assert!(observations(48 << 20, Vec::new()).is_empty());
    assert_eq!(observations((48 << 20) + 1, Vec::new()), [name]);
    assert_eq!(observations(0, vec!["node 1 answered 503".to_owned()]), [name]);
}

#[test]
fn a_violated_invariant_shows_some_violations() {
    let result = InvariantResult::new(
        "it holds",
        "3 seen".to_owned(),
        (0..10).map(|number| format!("case {number}")).collect(),
    );
    let text = result.to_string();
    assert!(text.starts_with("BROKEN  it holds: 3 seen\n          case 0\n"), "{text}");
    assert!(text.ends_with("case 7\n          and 2 more\n"), "{text}");
}

//! Output beyond its limit, impossible usage, and the charge for answers whose end never arrived.

use crate::hidden::GARBAGE;
use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, at_face, callers};
use proptest::collection::vec;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::sample::select;
use seawall_core::budget::Correction;
use seawall_core::money::{Money, Price, Usage};
use seawall_core::time::Timestamp;
use seawall_core::tokens::OutputLimit;
use seawall_model::engine::{Engine, Fault, FaultRule, ModelOptions, Pace};
use seawall_model::shared::SharedModel;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{AttemptOutcomeKind, RequestOutcome, Tier};
use seawall_sim::{ModelTarget, World};
use seawall_wire::dialect::DialectId;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const NAME: &str = "anthropic.claude-3-haiku-20240307-v1:0";
/// The price of a million tokens here.
const INPUT: u64 = 3_000_000_000;
const LIMIT: u64 = 100;

pub(crate) struct Stand {
    pub(crate) shop: Shop,
    pub(crate) model: SharedModel<World>,
}

/// A deployment whose two rungs use one model in this dialect, with this fault.
pub(crate) fn stand(dialect: DialectId, fault: Option<Fault>, cap: Money) -> Stand {
    stand_with(dialect, fault, &Numbers { cap, ..Numbers::default() })
}

/// The same with other settings.
pub(crate) fn stand_with(dialect: DialectId, fault: Option<Fault>, numbers: &Numbers) -> Stand {
    let world = World::new(41);
    // Noon in Tokyo.
    world.run_until(Timestamp::ZERO + Duration::from_secs(3 * 3_600));
    let faults = fault.into_iter().map(FaultRule::always).collect();
    let engine = Engine::new(ModelOptions { seed: 1, faults, pace: Pace::Real }).unwrap();
    let model = SharedModel::new(engine, world.clone());
    let target = || Arc::new(ModelTarget::sharing(model.clone(), dialect, NAME)) as Arc<_>;
    let models = [(NAME, INPUT, target()), (NAME, INPUT, target())];
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    let shop = Shop::with_options(&world, known, models, numbers);
    Stand { shop, model }
}

impl Stand {
    pub(crate) fn ask(&self, face: Face, stream: bool) -> Seen {
        let seen = self.shop.ask_face_at(self.shop.world.now(), PRIME, at_face(face, stream), None);
        self.shop.world.run();
        let seen = seen.lock().unwrap().take();
        seen.unwrap()
    }

    /// What the vendor bills, at this deployment's price.
    pub(crate) fn bill(&self) -> Money {
        let line = self.model.meter().bill().line("haiku");
        let usage = Usage { input: line.input_tokens, output: line.output_tokens, ..Usage::default() };
        price().cost(&usage)
    }

    fn overrun(&self) -> Money {
        self.shop.ledger.overrun(today(self))
    }
}

fn today(stand: &Stand) -> u64 {
    seawall_pipeline::Runtime::now(&stand.shop.world).utc.day()
}

fn price() -> Price {
    Price::per_million(Money::from_nanos(INPUT), Money::from_nanos(INPUT * 5))
}

pub(crate) fn bytes(seen: &Seen) -> Vec<u8> {
    match seen {
        Seen::Unstreamed(body) => body.to_vec(),
        Seen::Stream(frames) => frames.concat(),
        Seen::Rejected(rejection) => panic!("{rejection:?}"),
    }
}

pub(crate) fn holds(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// The end of an answer that was truncated at its limit, as each face writes it.
fn end_of(face: Face) -> Option<&'static str> {
    match face.name() {
        "anthropic" => Some("\"stop_reason\":\"max_tokens\""),
        "openai" => Some("\"finish_reason\":\"length\""),
        "openai_responses" => Some("\"reason\":\"max_output_tokens\""),
        "bedrock_converse" => Some("\"stopReason\":\"max_tokens\""),
        "gemini" => Some("\"finishReason\":\"MAX_TOKENS\""),
        "chat" => Some("\"finish\":\"budget\""),
        // This face wraps its content in base64.
        "bedrock_invoke" => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_that_exceeds_its_limit_is_stopped_and_ends_regularly() {
    let endless = [
        Fault::Overlong { tokens: 20_000, at_once: false },
        Fault::Overlong { tokens: 20_000, at_once: true },
        Fault::Endless { every: Duration::from_millis(10) },
    ];
    for (fault, dialect) in
        endless.iter().flat_map(|fault| DialectId::ALL.map(|dialect| (fault.clone(), dialect)))
    {
        for face in Face::ALL {
            let what = format!("{fault:?} {dialect:?} {face:?}");
            let stand = stand(dialect, Some(fault.clone()), Money::from_dollars(1_000));
            let answer = bytes(&stand.ask(face, true));
            assert!(
                end_of(face).is_none_or(|end| holds(&answer, end)),
                "{what}: {}",
                String::from_utf8_lossy(&answer)
            );
            let record = &stand.shop.records()[0];
            assert_eq!((&record.outcome, record.attempts), (&RequestOutcome::Answered, 1), "{what}");
            assert_eq!(stand.shop.attempts()[0].2, AttemptOutcomeKind::Succeeded, "{what}");
            // The upstream was cancelled: token by token, the bill is not far beyond the reservation.
            let billed = stand.model.meter().bill().line("haiku").output_tokens;
            let limit = if face == Face::Chat { 1_024 } else { LIMIT };
            let is_one_event = matches!(fault, Fault::Overlong { at_once: true, .. });
            assert!(is_one_event || billed <= 2 * limit + 80, "{what}: {billed}");
            let posted = stand.shop.day().posted;
            assert!(stand.bill() <= posted, "{what}: {} billed and {posted} posted", stand.bill());
            assert_eq!(stand.overrun(), record.overrun, "{what}");
            assert!(record.overrun > Money::ZERO, "{what}");
        }
    }
}

#[test]
fn a_whole_answer_is_delivered_however_long_it_is() {
    for dialect in DialectId::ALL {
        // The longest output within the time that a target has before the next one is tried.
        let fault = Fault::Overlong { tokens: 300, at_once: true };
        let stand = stand(dialect, Some(fault), Money::from_dollars(1_000));
        let answer = bytes(&stand.ask(Face::ANTHROPIC_MESSAGES, false));
        assert!(answer.len() > 300 * 3, "{dialect:?}");
        assert_eq!(stand.bill(), stand.shop.day().posted, "{dialect:?}");
        assert!(stand.overrun() > Money::ZERO, "{dialect:?}");
    }
}

#[test]
fn an_answer_that_stops_at_its_limit_is_left_alone() {
    for dialect in DialectId::ALL {
        for face in Face::VENDORS {
            for tokens in [1, 7, 99, 100] {
                for at_once in [false, true] {
                    let fault = Fault::Overlong { tokens, at_once };
                    let stand = stand(dialect, Some(fault), Money::from_dollars(1_000));
                    stand.ask(face, true);
                    assert_eq!(stand.bill(), stand.shop.day().posted, "{dialect:?} {face:?} {tokens}");
                    assert_eq!(stand.overrun(), Money::ZERO);
                }
            }
        }
    }
}

#[test]
fn implausible_usage_is_capped_and_ejects_the_target_after_three_times() {
    for dialect in DialectId::ALL {
        for stream in [false, true] {
            let fault = Fault::Claim { input: Some(u64::MAX), output: Some(u64::MAX) };
            let stand = stand(dialect, Some(fault), Money::from_dollars(1_000_000));
            let possible = price().cost(&Usage { input: 2_000_000, output: 2_000_000, ..Usage::default() });
            for number in 1..=8_u64 {
                let seen = stand.ask(Face::ANTHROPIC_MESSAGES, stream);
                // Both targets of the route are excluded after three such answers each.
                let is_answered = !matches!(seen, Seen::Rejected(_));
                assert_eq!(is_answered, number <= 6, "{dialect:?} {stream} {number}");
            }
            let posted = stand.shop.day().posted;
            assert_eq!(posted.as_nanos(), possible.as_nanos() * 6, "{dialect:?} {stream}");
            assert!(stand.shop.records()[0].is_capped);
            let targets = stand.shop.pipeline.targets();
            assert!(targets.iter().all(|target| target.overruns.0 == 3 && target.overruns.1.is_some()));
            // Ten minutes after the first of them, the target is tried again.
            stand.shop.world.run_until(stand.shop.world.now() + Duration::from_secs(601));
            assert!(!matches!(stand.ask(Face::ANTHROPIC_MESSAGES, stream), Seen::Rejected(_)));
        }
    }
}

#[test]
fn a_posting_can_be_corrected() {
    let fault = Fault::Claim { input: None, output: Some(u64::MAX) };
    let stand = stand(DialectId::OPENAI_CHAT, Some(fault), Money::from_dollars(1_000));
    stand.ask(Face::OPENAI_CHAT, true);
    let (record, day) = (&stand.shop.records()[0], today(&stand));
    let (caller, tier, _) = record.caller.unwrap();
    let truth = Money::from_nanos(5_000);
    let correction = Correction { day, caller, tier, charged: record.cost, cost: truth };
    let correct = |correction: &Correction| stand.shop.pipeline.correct_posting(correction);
    assert!(correct(&Correction { tier: Tier::Guest, ..correction }).is_err());
    correct(&correction).unwrap();
    assert_eq!((stand.shop.day().posted, stand.overrun()), (truth, Money::ZERO));
    assert!(correct(&correction).is_err());
}

#[test]
fn disconnecting_early_costs_the_received_text_and_not_its_framing() {
    for dialect in DialectId::ALL {
        let stand = stand(dialect, None, Money::from_dollars(1_000));
        stand.shop.ask_face_at(
            stand.shop.world.now(),
            PRIME,
            at_face(Face::ANTHROPIC_MESSAGES, true),
            Some(4),
        );
        stand.shop.world.run();
        let (.., usage, cost) = stand.shop.attempts()[0].clone();
        let reserved = OutputLimit::new(LIMIT).reserved();
        assert!(usage.output <= reserved && stand.bill() <= cost, "{dialect:?}: {usage:?}");
        // As long as its speed is unknown, this bound is all there is; once it has been measured, the charge is less.
        for _ in 0..30 {
            stand.ask(Face::ANTHROPIC_MESSAGES, true);
        }
        let before = stand.bill();
        stand.shop.ask_face_at(
            stand.shop.world.now(),
            PRIME,
            at_face(Face::ANTHROPIC_MESSAGES, true),
            Some(4),
        );
        stand.shop.world.run();
        let (.., usage, cost) = stand.shop.attempts().last().unwrap().clone();
        let bill = stand.bill().saturating_sub(before);
        assert!(bill <= cost, "{dialect:?}: {bill} {cost}");
        assert!(usage.output <= reserved, "{dialect:?}: {usage:?}");
    }
}

#[test]
fn a_response_that_proves_no_output_costs_no_output() {
    for (fault, most_output) in
        [(Fault::Html, 0), (Fault::Status { status: 408, retry_after: None, error: None }, 0)]
    {
        for dialect in DialectId::ALL {
            for stream in [false, true] {
                let stand = stand(dialect, Some(fault.clone()), Money::from_dollars(1_000));
                stand.ask(Face::ANTHROPIC_MESSAGES, stream);
                for (.., usage, _) in stand.shop.attempts() {
                    assert!(usage.output <= most_output, "{fault:?} {dialect:?} {stream}: {usage:?}");
                }
            }
        }
    }
}

#[test]
fn an_answer_without_usage_is_an_answer_and_charged_by_its_text() {
    for fault in [Fault::Usage { percent: 0 }, Fault::PartialUsage] {
        for dialect in DialectId::ALL {
            for (face, stream) in Face::VENDORS.iter().flat_map(|face| [(*face, false), (*face, true)]) {
                let stand = stand(dialect, Some(fault.clone()), Money::from_dollars(1_000));
                let what = format!("{fault:?} {dialect:?} {face:?} {stream}");
                let seen = stand.ask(face, stream);
                assert!(!matches!(seen, Seen::Rejected(_)), "{what}: {seen:?}");
                assert_eq!(stand.shop.records()[0].outcome, RequestOutcome::Answered, "{what}");
                // Bedrock's stream frames report a usage of zero, and that is what is posted.
                let lies =
                    stream && [DialectId::BEDROCK_INVOKE, DialectId::BEDROCK_CONVERSE].contains(&dialect);
                assert!(lies || stand.bill() <= stand.shop.day().posted, "{what}");
            }
        }
    }
}

/// A fault, and whether the vendor bills within its contract and reports usage truthfully.
fn faults() -> impl Strategy<Value = (Option<Fault>, bool)> {
    let after = 0..20_usize;
    prop_oneof![
        2 => Just((None, true)),
        2 => after.clone().prop_map(|after| (Some(Fault::cut(after)), true)),
        1 => (0..400_usize).prop_map(|bytes| {
            let cut = Fault::Cut { after: None, after_bytes: Some(bytes), after_tokens: None, reset: true };
            (Some(cut), true)
        }),
        1 => after.clone().prop_map(|after| (Some(Fault::EndEarly { after }), true)),
        1 => after.clone().prop_map(|after| (Some(Fault::Truncate { after }), true)),
        1 => after.clone().prop_map(|after| (Some(Fault::Malformed { after }), true)),
        1 => after.clone().prop_map(|after| (Some(Fault::Hang { after }), true)),
        1 => after.prop_map(|after| (Some(Fault::Error { after }), true)),
        1 => select(vec![408_u16, 429, 500, 503, 504, 529]).prop_map(|status| (Some(Fault::status(status)), true)),
        1 => Just((Some(Fault::Reset), true)),
        1 => Just((Some(Fault::Html), true)),
        1 => (1..100_u32, any::<bool>()).prop_map(|(tokens, at_once)| (Some(Fault::Overlong { tokens, at_once }), true)),
        1 => (101..5_000_u32, any::<bool>())
            .prop_map(|(tokens, at_once)| (Some(Fault::Overlong { tokens, at_once }), false)),
        1 => Just((Some(Fault::Endless { every: Duration::from_millis(20) }), false)),
        1 => any::<(Option<u64>, Option<u64>)>()
            .prop_map(|(input, output)| (Some(Fault::Claim { input, output }), false)),
        1 => (0..300_u32).prop_map(|percent| (Some(Fault::Usage { percent }), false)),
        1 => Just((Some(Fault::PartialUsage), false)),
        1 => select(GARBAGE.to_vec()).prop_map(|figure| (Some(Fault::GarbledUsage { figure: figure.to_owned() }), true)),
        1 => (0..12_usize).prop_map(|after| (Some(Fault::Declined { after }), true)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_cap_holds_at_every_moment_and_no_honest_bill_is_more_than_was_posted(
        (fault, is_honest) in faults(),
        dialect in select(DialectId::ALL.to_vec()),
        asks in vec((select(Face::ALL.to_vec()), any::<bool>(), proptest::option::of(0..12_usize), 0..3_000_u64), 1..8),
        dollars in 1..40_u64,
    ) {
        // Some hundredths of a dollar, of which one tier has half: there is not always room.
        let cap = Money::from_nanos(dollars * 10_000_000);
        let stand = stand(dialect, fault.clone(), cap);
        let (shop, began) = (&stand.shop, stand.shop.world.now());
        let invariant = || {
            let (account, overrun) = (shop.day(), stand.overrun());
            let within = account.posted.saturating_add(account.held) <= cap.saturating_add(overrun);
            (within, account, overrun)
        };
        for (face, stream, give_up, at) in &asks {
            let arrives = began + Duration::from_millis(*at);
            if arrives > shop.world.now() {
                shop.world.run_until(arrives);
            }
            shop.ask_face_at(shop.world.now(), PRIME, at_face(*face, *stream), *give_up);
            prop_assert!(invariant().0, "{:?}", invariant());
        }
        for _ in 0..400 {
            shop.world.run_until(shop.world.now() + Duration::from_millis(100));
            prop_assert!(invariant().0, "{:?}", invariant());
        }
        shop.world.run();
        prop_assert!(invariant().0, "{:?}", invariant());
        prop_assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
        if is_honest {
            prop_assert_eq!(stand.overrun(), Money::ZERO, "{:?}", fault);
            prop_assert!(stand.bill() <= shop.day().posted, "{} billed, {:?}: {:?}", stand.bill(), shop.day(), shop.attempts());
        }
    }
}

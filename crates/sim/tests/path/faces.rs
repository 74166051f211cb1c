//! Every face in front of one target, on the virtual clock.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, at_face, callers};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::failure::FailureKind;
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{RequestInterruption, RequestOutcome, Tier};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

const NOON_IN_TOKYO: Duration = Duration::from_secs(3 * 3_600);

fn shop(reply: ScriptedReply, numbers: &Numbers) -> (Shop, Arc<ScriptedTarget>) {
    let world = World::new(23);
    world.run_until(Timestamp::ZERO + NOON_IN_TOKYO);
    let target = ScriptedTarget::new(&world, &[], reply);
    let model = |name| (name, 3_000_000_000, Arc::<ScriptedTarget>::clone(&target) as Arc<_>);
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    (Shop::with_options(&world, known, [model("strong-model"), model("fast-model")], numbers), target)
}

fn ask(shop: &Shop, face: Face, stream: bool) -> Seen {
    let seen = shop.ask_face_at(shop.world.now(), PRIME, at_face(face, stream), None);
    shop.world.run();
    let seen = seen.lock().unwrap().take();
    seen.unwrap()
}

fn bytes(seen: Seen) -> Vec<u8> {
    match seen {
        Seen::Unstreamed(body) => body.to_vec(),
        Seen::Stream(chunks) => chunks.concat(),
        Seen::Rejected(rejection) => panic!("{rejection:?}"),
    }
}

fn holds(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
fn each_face_is_answered_in_its_dialect_and_charged_as_the_vendor_reports() {
    for face in Face::ALL {
        for stream in [false, true] {
            let (shop, target) = shop(ScriptedReply::Answer, &Numbers::default());
            let answer = bytes(ask(&shop, face, stream));
            // One dialect wraps its content in base64.
            let is_wrapped = face == Face::BEDROCK_INVOKE && stream;
            assert!(is_wrapped || holds(&answer, "こんにちは"), "{face:?} {stream}");
            assert_eq!(
                (target.calls(), shop.day().posted.as_nanos(), shop.ledger.open_reservations()),
                (1, 180_000, 0),
                "{face:?}"
            );
            let record = &shop.records()[0];
            assert_eq!((&record.outcome, record.face), (&RequestOutcome::Answered, face.name()));
        }
    }
}

#[test]
fn a_stream_that_breaks_off_is_never_reported_as_complete() {
    for face in Face::ALL {
        for reply in [ScriptedReply::CutAfter(2), ScriptedReply::CutAfter(3), ScriptedReply::StallAfter(2)] {
            let (shop, target) = shop(reply, &Numbers::default());
            let answer = bytes(ask(&shop, face, true));
            let (end, broken) = match face.name() {
                "anthropic" => ("message_stop", "event: error"),
                "openai" => ("[DONE]", "\"error\""),
                "openai_responses" => ("response.completed", "event: response.failed"),
                "bedrock_invoke" | "bedrock_converse" => ("messageStop", "xception"),
                "gemini" => ("finishReason", "data: {\"error\""),
                "chat" => ("event: done", "event: interrupted"),
                other => panic!("{other:?}"),
            };
            assert!(!holds(&answer, end) && holds(&answer, broken), "{face:?} {reply:?}");
            assert!(matches!(
                shop.records()[0].outcome,
                RequestOutcome::Interrupted(RequestInterruption::Failed(
                    FailureKind::StreamInterrupted | FailureKind::TimedOut
                ))
            ));
            assert_eq!(
                (target.calls(), shop.ledger.open_reservations(), shop.day().held),
                (1, 0, Money::ZERO)
            );
        }
    }
}

//! Several nodes converge on one state.

use super::super::{
    Breaker, BreakerMode, BreakerOptions, BreakerPhase, BreakerProfile, ProbeLease, RejectReason, TripReason,
};
use super::super::{BreakerReport, CallCounts, FleetView, NodeId, ReportedPhase, should_probe_without_store};
use super::{ask, at, bad, call, failed, good, opened, phase, sonnet};
use crate::failure::FailureKind;
use crate::invariant::phase_never_regresses;
use crate::random::Draw;
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

/// Exchanges the reports of all nodes at `millis`.
fn exchange(nodes: &mut [Breaker], sequence: u64, millis: u64) {
    let now = at(millis);
    let reports: Vec<_> = nodes.iter_mut().map(|node| node.report_to_fleet(sequence, now)).collect();
    for (own, node) in nodes.iter_mut().enumerate() {
        let mut view = FleetView::default();
        for (peer, report) in reports.iter().enumerate().filter(|(peer, _)| *peer != own) {
            if let Some(report) = report {
                view.insert(NodeId(peer as u64), *report, now);
            }
        }
        node.merge_fleet(&view, now);
    }
}

fn lease(node: &mut Breaker, probes: u32) {
    let needed = node.needed_probes().unwrap();
    node.set_probe_lease(ProbeLease { probes, ..needed });
}

fn says(episode: u64, phase: ReportedPhase) -> BreakerReport {
    BreakerReport { sequence: 1, episode, phase }
}

/// Folds a single peer's report into a breaker.
fn hear(node: &mut Breaker, report: BreakerReport, now: Timestamp) {
    let mut view = FleetView::default();
    view.insert(NodeId(1), report, now);
    node.merge_fleet(&view, now);
}

#[test]
fn two_nodes_do_not_keep_each_other_open_despite_report_delay() {
    for delay in [1, 200, 500, 900] {
        let mut nodes = [opened(at(0)), sonnet()];
        let mut views = [FleetView::default(), FleetView::default()];
        for second in 0..120_u64 {
            for own in 0..2 {
                let sent_at = at(second * 1_000 + own as u64 * 100);
                let received_at = sent_at + Duration::from_millis(delay);
                if let Some(report) = nodes[own].report_to_fleet(second + 1, sent_at) {
                    views[1 - own].insert(NodeId(own as u64), report, received_at);
                }
                nodes[own].merge_fleet(&views[own], sent_at);
            }
            let phases = [0, 1].map(|node| phase(&nodes[node], at(second * 1_000 + 999)));
            let trial = BreakerPhase::HalfOpen { stage: 0 };
            assert_eq!(phases.contains(&trial), second >= 60, "{delay} ms, {second} s: {phases:?}");
        }
    }
}

#[test]
fn a_forced_breaker_sends_no_report() {
    let mut nodes = [opened(at(0)), sonnet()];
    exchange(&mut nodes, 1, 1_000);
    nodes[0].set_mode(BreakerMode::ForcedClosed, at(2_000));
    assert_eq!(nodes[0].report_to_fleet(2, at(2_000)), None);
    exchange(&mut nodes, 2, 2_000);
    assert_eq!(phase(&nodes[1], at(2_000)), BreakerPhase::Open);
    nodes[0].set_mode(BreakerMode::ForcedOpen, at(3_000));
    assert_eq!(nodes[0].report_to_fleet(3, at(3_000)), None);
    nodes[0].set_mode(BreakerMode::Automatic, at(3_000));
    assert!(nodes[0].report_to_fleet(4, at(3_000)).is_some());
}

#[test]
fn a_node_with_fewer_stages_joins_the_trial_at_its_last_one() {
    let options = BreakerOptions { half_open_stages: vec![1], ..BreakerProfile::Sonnet.options() };
    let mut newcomer = Breaker::new(options.check().unwrap());
    let trial = says(3, ReportedPhase::HalfOpen { stage: 1, successes: 0 });
    hear(&mut newcomer, trial, at(0));
    assert_eq!(phase(&newcomer, at(0)), BreakerPhase::HalfOpen { stage: 0 });
    // The same report again does not restart the trial.
    let _probe = ask(&mut newcomer, at(0)).unwrap();
    hear(&mut newcomer, trial, at(1));
    assert_eq!(ask(&mut newcomer, at(1)), Err(RejectReason::ProbesInFlight));
    let mut peer = opened(at(0));
    hear(&mut peer, trial, at(0));
    let report = newcomer.report_to_fleet(1, at(1)).unwrap();
    hear(&mut peer, report, at(1));
    assert_eq!(phase(&peer, at(1)), BreakerPhase::HalfOpen { stage: 1 });
}

#[test]
fn a_probe_without_success_returns_to_the_lease_of_its_stage() {
    let mut node = opened(at(0));
    hear(&mut node, says(1, ReportedPhase::HalfOpen { stage: 1, successes: 0 }), at(1_000));
    assert_eq!(node.needed_probes(), Some(ProbeLease { episode: 1, stage: 1, probes: 3 }));
    lease(&mut node, 3);
    for outcome in [failed(FailureKind::StartTimeout), good(), good()] {
        call(&mut node, &outcome, at(1_000));
    }
    assert_eq!(node.needed_probes(), Some(ProbeLease { episode: 1, stage: 1, probes: 1 }));
    call(&mut node, &good(), at(1_000));
    assert_eq!(phase(&node, at(1_000)), BreakerPhase::HalfOpen { stage: 2 });

    let mut node = opened(at(0));
    lease(&mut node, 1);
    let probe = ask(&mut node, at(60_000)).unwrap();
    node.set_probe_lease(ProbeLease { episode: 1, stage: 1, probes: 1 });
    node.abandon(probe);
    hear(&mut node, says(1, ReportedPhase::HalfOpen { stage: 1, successes: 0 }), at(60_000));
    let _only = ask(&mut node, at(60_000)).unwrap();
    assert_eq!(ask(&mut node, at(60_000)), Err(RejectReason::ProbesInFlight));
    assert_eq!(node.needed_probes(), Some(ProbeLease { episode: 1, stage: 1, probes: 2 }));
}

#[test]
fn reports_of_a_restarted_node_count_again() {
    let closed = ReportedPhase::Closed { counts: CallCounts::default() };
    let mut view = FleetView::default();
    view.insert(NodeId(1), BreakerReport { sequence: 900, episode: 1, phase: closed }, at(0));
    let open = ReportedPhase::Open { remaining: Duration::from_secs(60) };
    let restarted = BreakerReport { sequence: 1, episode: 2, phase: open };
    view.insert(NodeId(1), restarted, at(10_000));
    let mut node = sonnet();
    node.merge_fleet(&view, at(10_000));
    assert_eq!(phase(&node, at(10_000)), BreakerPhase::Closed);
    view.insert(NodeId(1), restarted, at(10_001));
    node.merge_fleet(&view, at(10_001));
    assert_eq!(phase(&node, at(10_001)), BreakerPhase::Open);
}

#[test]
fn a_node_that_learns_of_an_opening_makes_no_call_before_it_ends() {
    let mut nodes = [opened(at(0)), sonnet()];
    exchange(&mut nodes, 1, 2_000);
    for millis in (2_000..60_000).step_by(500) {
        assert_eq!(ask(&mut nodes[1], at(millis)), Err(RejectReason::Open(TripReason::Fleet)));
    }
    assert_eq!(phase(&nodes[1], at(60_000)), BreakerPhase::HalfOpen { stage: 0 });
}

#[test]
fn the_fleet_sends_one_then_three_then_ten_probes_together() {
    let mut nodes = [opened(at(0)), sonnet(), sonnet(), sonnet()];
    exchange(&mut nodes, 1, 1_000);
    let mut sequence = 2;
    for (size, shares) in [(1, [0, 1, 0, 0]), (3, [1, 1, 1, 0]), (10, [3, 3, 2, 2])] {
        let now = 60_000 + sequence * 1_000;
        let mut sent = 0;
        for (node, share) in nodes.iter_mut().zip(shares) {
            lease(node, share);
            while let Ok(permit) = ask(node, at(now)) {
                sent += 1;
                node.report(permit, &good(), at(now));
            }
        }
        assert_eq!(sent, size);
        exchange(&mut nodes, sequence, now + 100);
        exchange(&mut nodes, sequence + 1, now + 200);
        sequence += 2;
    }
    for node in &nodes {
        assert_eq!(phase(node, at(70_000)), BreakerPhase::Closed);
        assert_eq!(node.needed_probes(), None);
    }
}

#[test]
fn one_failed_probe_opens_every_node_again() {
    let mut nodes = [opened(at(0)), sonnet()];
    exchange(&mut nodes, 1, 1_000);
    assert_eq!(nodes[0].needed_probes(), Some(ProbeLease { episode: 1, stage: 0, probes: 1 }));

    let probe = ask(&mut nodes[0], at(60_000)).unwrap();
    nodes[0].report(probe, &bad(), at(60_000));
    exchange(&mut nodes, 2, 61_000);
    assert_eq!(phase(&nodes[1], at(61_000)), BreakerPhase::Open);
    assert_eq!(phase(&nodes[1], at(119_999)), BreakerPhase::Open);
    assert_eq!(phase(&nodes[1], at(120_000)), BreakerPhase::HalfOpen { stage: 0 });
    assert_eq!(nodes[1].needed_probes(), Some(ProbeLease { episode: 2, stage: 0, probes: 1 }));
}

#[test]
fn failures_summed_over_nodes_open_the_fleet() {
    let mut nodes = [sonnet(), sonnet(), sonnet()];
    for node in &mut nodes {
        for outcome in [bad(), bad(), good(), good()] {
            call(node, &outcome, at(0));
        }
        assert_eq!(phase(node, at(0)), BreakerPhase::Closed);
    }
    exchange(&mut nodes, 1, 1_000);
    for node in &mut nodes {
        assert_eq!(node.peek(at(1_000)).rejects, Some(RejectReason::Open(TripReason::Fleet)));
    }
}

#[test]
fn a_healthy_fleet_stays_closed_and_expired_reports_are_ignored() {
    let mut nodes = [sonnet(), sonnet()];
    for node in &mut nodes {
        for outcome in [bad(), good(), good(), good(), good()] {
            call(node, &outcome, at(0));
        }
    }
    exchange(&mut nodes, 1, 1_000);
    assert_eq!(phase(&nodes[0], at(1_000)), BreakerPhase::Closed);

    let report = BreakerReport {
        sequence: 1,
        episode: 9,
        phase: ReportedPhase::Open { remaining: Duration::from_secs(60) },
    };
    let mut view = FleetView::default();
    view.insert(NodeId(7), report, at(0));
    nodes[0].merge_fleet(&view, at(10_001));
    assert_eq!(phase(&nodes[0], at(10_001)), BreakerPhase::Closed);
    view.remove_expired(at(10_001));
    assert_eq!(view, FleetView::default());
    view.insert(NodeId(7), report, at(0));
    view.remove_expired(at(10_000));
    assert_ne!(view, FleetView::default());
    nodes[0].merge_fleet(&view, at(10_000));
    assert_eq!(phase(&nodes[0], at(10_000)), BreakerPhase::Open);
}

#[test]
fn a_faulty_peer_cannot_keep_us_open_beyond_max_open_for() {
    let forever = ReportedPhase::Open { remaining: Duration::MAX };
    let mut node = sonnet();
    hear(&mut node, says(1 << 32, forever), at(0));
    assert_eq!(phase(&node, at(299_999)), BreakerPhase::Open);
    assert_eq!(phase(&node, at(300_000)), BreakerPhase::HalfOpen { stage: 0 });
    // In an episode that both nodes know, the node keeps its own timer.
    let mut node = opened(at(0));
    hear(&mut node, says(1, forever), at(0));
    assert_eq!(node.peek(at(0)).retry_after, Some(Duration::from_secs(60)));
    // An implausible episode is not followed: it would leave no room for later ones.
    let mut node = sonnet();
    hear(&mut node, says((1 << 32) + 1, forever), at(0));
    hear(
        &mut node,
        says(u64::MAX, ReportedPhase::HalfOpen { stage: usize::MAX, successes: u32::MAX }),
        at(0),
    );
    assert_eq!(phase(&node, at(0)), BreakerPhase::Closed);
}

#[test]
fn without_a_lease_no_probe_is_sent_and_an_unused_one_is_returned() {
    let mut node = opened(at(0));
    node.set_probe_lease(ProbeLease { episode: 7, stage: 0, probes: 5 });
    assert_eq!(ask(&mut node, at(60_000)), Err(RejectReason::ProbesInFlight));
    node.set_probe_lease(ProbeLease { episode: 1, stage: 1, probes: 5 });
    assert_eq!(ask(&mut node, at(60_000)), Err(RejectReason::ProbesInFlight));
    lease(&mut node, 1);
    for _ in 0..3 {
        let permit = ask(&mut node, at(60_000)).unwrap();
        assert_eq!(ask(&mut node, at(60_000)), Err(RejectReason::ProbesInFlight));
        node.abandon(permit);
    }
    let permit = ask(&mut node, at(60_000)).unwrap();
    node.report(permit, &crate::failure::AttemptOutcome::Abandoned, at(60_000));
    let permit = ask(&mut node, at(60_000)).unwrap();
    node.report(permit, &good(), at(60_000));
    assert_eq!(phase(&node, at(60_000)), BreakerPhase::HalfOpen { stage: 1 });
    assert_eq!(ask(&mut node, at(60_000)), Err(RejectReason::ProbesInFlight));
    node.clear_probe_lease();
    let permits: Vec<_> = (0..3).map(|_| ask(&mut node, at(60_000)).unwrap()).collect();
    assert_eq!(ask(&mut node, at(60_000)), Err(RejectReason::ProbesInFlight));
    drop(permits);
}

#[test]
fn a_forced_breaker_ignores_peers() {
    for mode in [BreakerMode::ForcedClosed, BreakerMode::ForcedOpen] {
        let mut nodes = [opened(at(0)), sonnet()];
        nodes[1].set_mode(mode, at(0));
        exchange(&mut nodes, 1, 1_000);
        assert_eq!(phase(&nodes[1], at(1_000)), BreakerPhase::Closed);
    }
}

#[test]
fn without_the_store_one_node_in_fleet_size_probes() {
    assert!(should_probe_without_store(0, Draw::HIGHEST));
    assert!(should_probe_without_store(1, Draw::HIGHEST));
    assert!(should_probe_without_store(4, Draw::LOWEST));
    assert!(!should_probe_without_store(4, Draw::MIDDLE));
    let lucky =
        (0..4_000_u64).filter(|n| should_probe_without_store(4, Draw::from_bits(n * (u64::MAX / 4_000))));
    assert_eq!(lucky.count(), 1_001);
}

fn report() -> impl Strategy<Value = BreakerReport> {
    let counts = (0_u64..40, 0_u64..40).prop_map(|(calls, failed)| CallCounts {
        calls: calls + failed,
        failed,
        ..CallCounts::default()
    });
    let phase = prop_oneof![
        (0_u64..100_000).prop_map(|millis| ReportedPhase::Open { remaining: Duration::from_millis(millis) }),
        (0_usize..4, 0_u32..12).prop_map(|(stage, successes)| ReportedPhase::HalfOpen { stage, successes }),
        counts.prop_map(|counts| ReportedPhase::Closed { counts }),
    ];
    (0_u64..5, 0_u64..4, phase).prop_map(|(sequence, episode, phase)| BreakerReport {
        sequence,
        episode,
        phase,
    })
}

proptest! {
    #[test]
    fn the_order_and_number_of_reports_does_not_matter(
        reports in vec((0_u64..4, 0_u64..6, any::<bool>()), 0..20),
        shuffle in any::<u64>(),
    ) {
        // Reports of one node differ in their sequence numbers.
        let inserted = |order: &mut dyn Iterator<Item = &(u64, u64, bool)>| {
            let mut view = FleetView::default();
            for (node, sequence, _) in order {
                let phase = ReportedPhase::HalfOpen { stage: 0, successes: u32::try_from(*sequence).unwrap() };
                let report = BreakerReport { sequence: *sequence, episode: 1, phase };
                view.insert(NodeId(*node), report, at(*sequence));
            }
            view
        };
        let straight = inserted(&mut reports.iter());
        let mut mixed = reports.clone();
        mixed.sort_by_key(|(node, sequence, flag)| (node ^ sequence).wrapping_mul(shuffle | 1) ^ u64::from(*flag));
        prop_assert_eq!(&inserted(&mut mixed.iter()), &straight);
        prop_assert_eq!(&inserted(&mut reports.iter().chain(mixed.iter())), &straight);
        let half = reports.len() / 2;
        let (mut left, right) = (inserted(&mut reports[..half].iter()), inserted(&mut reports[half..].iter()));
        left.merge(&right);
        prop_assert_eq!(&left, &straight);
        left.merge(&right);
        prop_assert_eq!(&left, &straight);
    }

    #[test]
    fn merging_never_regresses_to_an_earlier_phase(
        reports in vec((0_u64..4, report()), 0..12),
        failures in 0_usize..8,
    ) {
        let mut node = sonnet();
        for _ in 0..failures {
            if let Ok(permit) = ask(&mut node, at(0)) {
                node.report(permit, &bad(), at(0));
            }
        }
        let rank = |node: &mut Breaker, now| {
            let report = node.report_to_fleet(0, now).unwrap();
            let phase = match report.phase {
                ReportedPhase::Open { .. } => 0,
                ReportedPhase::HalfOpen { stage, .. } => stage + 1,
                ReportedPhase::Closed { .. } => usize::MAX,
            };
            (report.episode, phase)
        };
        let mut view = FleetView::default();
        for (step, (peer, report)) in reports.into_iter().enumerate() {
            let now = at(step as u64 * 700);
            view.insert(NodeId(peer), report, now);
            let before = rank(&mut node, now);
            node.merge_fleet(&view, now);
            prop_assert_eq!(phase_never_regresses(&before, &rank(&mut node, now)), Ok(()));
            // Folding the same view again changes nothing.
            let after = node.report_to_fleet(0, now);
            node.merge_fleet(&view, now);
            prop_assert_eq!(node.report_to_fleet(0, now), after);
        }
    }
}

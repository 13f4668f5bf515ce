//! Whole samples from canned reports.

mod pairs;

use pairs::*;

use super::latency::tests::text;
use super::*;
use crate::plan::{Limit, Load, Proto, Test};
use crate::record::canned::case;
use crate::record::{FlowReport, Interval, Severity, ZeroCopyReport};

#[test]
fn every_perturbed_counter_is_seen() {
    // Only a byte stream that was seen to its end says how much may still be queued.
    let pairs = [
        ("tcp stream", tcp_stream(), true),
        ("udp stream", udp_stream(), false),
        ("tcp rr", rr(Proto::Tcp), false),
        ("tcp rr answered", answered(), true),
        ("udp rr", rr(Proto::Udp), false),
    ];
    for (kind, pair, queues_count) in pairs {
        let whole = pair.sample();
        assert!(
            whole.groups[0].figures.reconciliation.reconciled,
            "{kind}: {whole:?}"
        );
        for is_client in [true, false] {
            let mut seen = 0;
            for index in 0.. {
                let mut broken = pair.clone();
                let report = if is_client {
                    &mut broken.client
                } else {
                    &mut broken.server
                };
                let mut counters = every_counter(report, is_client);
                let Some((name, counter)) = counters.get_mut(index) else {
                    break;
                };
                let name = name.clone();
                if name == "queued" && !queues_count {
                    continue;
                }
                **counter += 1;
                let sample = broken.sample();
                let client = if is_client { "client" } else { "server" };
                let has = sample.findings.iter().any(|f| f.code == "unreconciled");
                assert!(
                    has,
                    "{kind}: {client}'s {name} was perturbed and nothing said so"
                );
                assert!(!sample.groups[0].figures.reconciliation.reconciled);
                assert!(sample.groups[0].figures.reconciliation.reason.is_some());
                seen += 1;
            }
            assert!(seen > 50, "{kind}: only {seen} counters were perturbed");
        }
    }
}

#[test]
fn the_receivers_count_is_the_throughput() {
    let mut pair = tcp_stream();
    pair.server.window_ns = 5_000_000_000;
    let sample = pair.sample();
    let figures = sample.figures.unwrap();
    assert_eq!(figures.throughput_bps, 100_000.0 * 8.0 / 5.0);
    assert_eq!(figures.sent_bps, 100_000.0 * 8.0 / 10.0);
    assert_eq!(figures.received.messages, None);
    assert_eq!(figures.sent.messages, Some(100));
    assert_eq!(sample.duration_s, 5.0);
    assert!(sample.complete);
    assert_eq!(figures.fairness, Some(1.0));
    assert_eq!(sample.flows.len(), 2);
}

#[test]
fn lost_is_gaps_and_the_tail() {
    let figures = udp_stream().sample().figures.unwrap();
    let udp = figures.udp.unwrap();
    assert_eq!(udp.lost, Some(2 * (20 + 30)));
    assert_eq!(udp.lost_percent, Some(5.0));
    assert_eq!((udp.reordered, udp.reorder_extent_max), (Some(14), Some(4)));
    assert_eq!((udp.duplicated, udp.late), (Some(6), Some(2)));
    let account = figures.reconciliation;
    assert_eq!(
        (account.sent, account.received, account.lost),
        (2200, 2090, Some(110))
    );
    let codes = udp_stream().codes();
    assert_eq!(codes, ["unpaced", "receiver-drops"]);
}

#[test]
fn more_drops_than_losses_do_not_add_up() {
    let mut pair = udp_stream();
    for flow in &mut pair.server.groups[0].udp_flows {
        flow.duplicated[1] = 0;
    }
    pair.server.groups[0].udp.as_mut().unwrap().arrived = Some(2 * (95 + 950 + 1));
    assert!(!pair.codes().contains(&"unreconciled".to_string()));
    pair.server.groups[0].udp.as_mut().unwrap().socket_drops = Some(113);
    assert!(pair.codes().contains(&"unreconciled".to_string()));
}

#[test]
fn datagrams_without_headers_give_counts_only() {
    let mut pair = udp_stream();
    pair.case.request_bytes = 8;
    for report in [&mut pair.client, &mut pair.server] {
        report.groups[0].udp_flows.clear();
        report.flows.clear();
        let group = &mut report.groups[0];
        for counters in [&mut group.window, &mut group.lifetime] {
            counters.sent_bytes = counters.sent_messages * 8;
            counters.received_bytes = counters.received_messages * 8;
        }
        for interval in &mut report.intervals {
            interval.counters.sent_bytes = interval.counters.sent_messages * 8;
            interval.counters.received_bytes = interval.counters.received_messages * 8;
        }
    }
    let sample = pair.sample();
    let figures = sample.figures.unwrap();
    let udp = figures.udp.unwrap();
    assert_eq!(
        (udp.mode.as_str(), udp.lost, udp.lost_percent),
        ("counts", None, None)
    );
    assert_eq!(
        (udp.reordered, udp.duplicated, udp.late),
        (None, None, None)
    );
    assert!(udp.loss_missing.is_some() && udp.jitter_missing.is_some());
    assert_eq!(figures.sent.messages, Some(2000));
    assert_eq!(figures.received.messages, Some(1900));
    assert_eq!(figures.reconciliation.lost, None);
    assert!(
        figures.reconciliation.reconciled,
        "{:?}",
        figures.reconciliation
    );
}

#[test]
fn transactions_and_both_directions() {
    let figures = rr(Proto::Tcp).sample().figures.unwrap();
    let counted = figures.transactions.unwrap();
    assert_eq!((counted.done, counted.per_second), (2000, 200.0));
    assert_eq!(figures.throughput_bps, 200.0 * (64.0 + 1000.0) * 8.0);
    assert_eq!(figures.received.messages, Some(4000));
    let latency = figures.latency_ns.unwrap();
    assert_eq!((latency.count, latency.unanswered), (2000, 2));
    assert_eq!(latency.lower_bounds, ["p9999", "max"]);
    let account = figures.reconciliation;
    assert_eq!((account.sent, account.received), (2203, 2200));
    assert_eq!((account.lost, account.in_flight), (Some(2), 1));
}

#[test]
fn traffic_that_came_to_nothing_is_an_error() {
    let nothing = |pair: &Pair, code: &str| {
        let findings = pair.sample().findings;
        findings
            .iter()
            .any(|f| f.code == code && f.severity == Severity::Error)
    };
    let mut pair = tcp_stream();
    assert!(!nothing(&pair, "nothing-received"));
    pair.server.groups[0].window = Default::default();
    assert!(!nothing(&pair, "nothing-received"), "not in the window");
    pair.server.groups[0].lifetime = Default::default();
    assert!(nothing(&pair, "nothing-received"));
    pair.client.groups[0].window = Default::default();
    assert!(!nothing(&pair, "nothing-received"), "nothing was due");
    let mut pair = rr(Proto::Udp);
    assert!(!nothing(&pair, "nothing-answered"));
    let counts = pair.client.groups[0].transactions.as_mut().unwrap();
    (counts.failed, counts.done) = (counts.started - counts.in_flight, 0);
    counts.completed = 0;
    assert!(nothing(&pair, "nothing-answered"));
}

#[test]
fn a_stream_cut_short_must_lie_between_its_queues() {
    let mut pair = tcp_stream();
    for flow in &mut pair.client.flows {
        flow.lifetime.sent_bytes += 350;
    }
    let group = &mut pair.client.groups[0];
    group.lifetime.sent_bytes += 700;
    group.queued_bytes = 500;
    pair.server.groups[0].queued_bytes = 300;
    pair.server.groups[0].drained = false;
    let whole = pair.sample().figures.unwrap().reconciliation;
    assert!(whole.reconciled, "{whole:?}");
    assert_eq!(whole.in_flight, 800);
    // The sender left before the receiver had read the rest: what it left with is no matter.
    let mut late = tcp_stream();
    late.client.groups[0].queued_bytes = 500;
    assert!(late.codes().contains(&"unreconciled".to_string()));
    late.client.groups[0].drained = false;
    let late = late.sample().figures.unwrap().reconciliation;
    assert!(late.reconciled && late.in_flight == 0, "{late:?}");
    for (outq, inq) in [(399, 300), (500, 701)] {
        pair.client.groups[0].queued_bytes = outq;
        pair.server.groups[0].queued_bytes = inq;
        assert!(
            pair.codes().contains(&"unreconciled".to_string()),
            "{outq} {inq}"
        );
    }
}

#[test]
fn limits_are_exact() {
    let mut pair = tcp_stream();
    pair.case.limit = Limit::Bytes { bytes: 110_000 };
    assert!(pair.sample().figures.unwrap().reconciliation.reconciled);
    pair.case.limit = Limit::Bytes { bytes: 110_001 };
    assert!(pair.codes().contains(&"unreconciled".to_string()));
    let mut pair = rr(Proto::Tcp);
    pair.case.limit = Limit::Transactions { count: 2203 };
    assert!(pair.sample().figures.unwrap().reconciliation.reconciled);
    pair.case.limit = Limit::Transactions { count: 2204 };
    assert!(pair.codes().contains(&"unreconciled".to_string()));
}

#[test]
fn a_dead_servers_progress_is_kept() {
    let pair = tcp_stream();
    let progress: Vec<Progress> = (-1..3)
        .map(|index| Progress {
            index,
            groups: vec![pair.server.intervals[0]],
            lifetime: vec![times(pair.server.intervals[0].counters, (index + 2) as u64)],
            ..Progress::default()
        })
        .collect();
    let error = ErrorReport {
        exit_code: 4,
        code: "lost".to_string(),
        text: "gone".to_string(),
    };
    let sample = sample(SampleInput {
        server: None,
        server_progress: &progress,
        error: Some(error.clone()),
        ..pair.input()
    });
    assert!(!sample.complete);
    assert_eq!(sample.error, Some(error));
    assert_eq!(sample.duration_s, 3.0);
    assert_eq!(sample.intervals.server.len(), 3);
    let figures = sample.figures.unwrap();
    assert_eq!(figures.received.bytes, 30_000);
    assert_eq!(figures.throughput_bps, 80_000.0);
    assert_eq!(figures.reconciliation.received, 40_000);
    assert!(!figures.reconciliation.reconciled);
    let codes: Vec<&str> = sample.findings.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(codes, ["sample-incomplete"]);
}

#[test]
fn nothing_known_of_either_side_is_a_sample_all_the_same() {
    for test in [Test::Stream, Test::Bidir, Test::Rr] {
        for proto in [Proto::Tcp, Proto::Udp] {
            let case = case("none", proto, test, (1000, 0), 1);
            let (client, server) = (SideReport::default(), SideReport::default());
            let pair = Pair {
                case,
                client,
                server,
            };
            let gone = sample(SampleInput {
                client: None,
                server: None,
                ..pair.input()
            });
            assert_eq!(gone.groups.len(), pair.case.groups.len());
            assert!(gone.groups.iter().all(|g| g.figures.throughput_bps == 0.0));
            let text = serde_json::to_string(&gone).unwrap();
            assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), gone);
        }
    }
}

#[test]
fn hostile_counters_do_not_panic() {
    for pair in [tcp_stream(), udp_stream(), rr(Proto::Tcp), rr(Proto::Udp)] {
        let mut broken = pair.clone();
        let reports = [(&mut broken.client, true), (&mut broken.server, false)];
        for (report, sends) in reports {
            for (less, (_, counter)) in (0..).zip(every_counter(report, sends)) {
                *counter = u64::MAX - less;
            }
        }
        assert!(broken.codes().contains(&"unreconciled".to_string()));
    }
}

#[test]
fn unequal_flows_and_unsteady_intervals() {
    let mut pair = tcp_stream();
    for report in [&mut pair.client, &mut pair.server] {
        for (flow, scale) in report.flows.iter_mut().zip([1, 3]) {
            flow.window = times(flow.window, scale);
            flow.lifetime = times(flow.lifetime, scale);
        }
        let group = &mut report.groups[0];
        (group.window, group.lifetime) = (times(group.window, 2), times(group.lifetime, 2));
        for (interval, scale) in report
            .intervals
            .iter_mut()
            .zip([1, 1, 1, 2, 2, 2, 2, 3, 3, 3])
        {
            interval.counters = times(interval.counters, scale);
        }
    }
    let sample = pair.sample();
    let codes: Vec<&str> = sample.findings.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(codes, ["flows-unequal", "not-steady"]);
    let figures = sample.figures.unwrap();
    assert_eq!(figures.fairness, Some(0.8));
    assert_eq!(figures.flow_spread, Some((40_000.0, 120_000.0)));
    assert_eq!(figures.flow_distribution.unwrap().count, 2);
}

#[test]
fn wide_intervals_are_steady() {
    let mut pair = tcp_stream();
    for report in [&mut pair.client, &mut pair.server] {
        report.flows.clear();
        let scales = [1, 3, 1, 2, 2, 2, 2, 3, 1, 3];
        for (interval, scale) in report.intervals.iter_mut().zip(scales) {
            interval.counters = times(interval.counters, scale);
        }
        let group = &mut report.groups[0];
        (group.window, group.lifetime) = (times(group.window, 2), times(group.lifetime, 2));
    }
    assert_eq!(pair.codes(), Vec::<String>::new());
}

/// The intervals of both sides, so many times what they were.
fn scale_intervals(pair: &mut Pair, scales: [u64; 10]) {
    for report in [&mut pair.client, &mut pair.server] {
        for (interval, scale) in report.intervals.iter_mut().zip(scales) {
            interval.counters = times(interval.counters, scale);
            interval.completed *= scale;
        }
    }
}

#[test]
fn an_interval_far_below_the_others_has_stalled() {
    for (mut pair, scales, slow) in [
        (tcp_stream(), [4, 4, 4, 0, 1, 4, 4, 4, 4, 4], Some("3, 4 ")),
        (tcp_stream(), [4, 4, 4, 2, 4, 4, 4, 4, 4, 4], None),
        (rr(Proto::Tcp), [4, 4, 4, 4, 4, 4, 4, 4, 1, 4], Some("8 ")),
    ] {
        // Messages of a size of which there are enough in an interval.
        pair.case.request_bytes = 64;
        scale_intervals(&mut pair, scales);
        let found = pair.sample().findings;
        let stalled = found.iter().find(|finding| finding.code == "stalled");
        assert_eq!(stalled.is_some(), slow.is_some(), "{found:?}");
        if let (Some(finding), Some(slow)) = (stalled, slow) {
            assert!(
                finding.text.contains(&format!("interval {slow}")),
                "{found:?}"
            );
        }
    }
    // A schedule's latencies say it better, and a handful of messages says nothing.
    let mut open = rr(Proto::Tcp);
    open.case.load = Load::Rate { per_second: 200.0 };
    let mut few = tcp_stream();
    few.case.request_bytes = 1000;
    for mut pair in [open, few] {
        scale_intervals(&mut pair, [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]);
        assert!(!pair.codes().contains(&"stalled".to_string()));
    }
}

#[test]
fn each_group_has_its_own_window_and_a_short_one_says_so() {
    let mut pair = tcp_stream();
    pair.server.groups[0].window_ns = Some(5_000_000_000);
    let figures = pair.sample().figures.unwrap();
    assert_eq!(figures.throughput_bps, 100_000.0 * 8.0 / 5.0);
    assert_eq!(figures.sent_bps, 100_000.0 * 8.0 / 10.0);
    for (window_ns, short) in [(999_999, true), (1_000_000, false)] {
        pair.server.groups[0].window_ns = Some(window_ns);
        let codes = pair.codes();
        assert_eq!(codes.contains(&"window-too-short".to_string()), short);
    }
}

#[test]
fn what_is_achieved_is_what_was_completed_in_the_window() {
    let mut pair = rr(Proto::Tcp);
    pair.case.load = Load::Rate { per_second: 250.0 };
    let counts = pair.client.groups[0].transactions.as_mut().unwrap();
    // Only the warm-up's backlog was served.
    (counts.started, counts.done, counts.failed, counts.in_flight) = (0, 0, 0, 0);
    let sample = pair.sample();
    let figures = sample.figures.as_ref().unwrap();
    assert_eq!(figures.achieved_per_second, Some(200.0));
    assert_eq!(figures.transactions.unwrap().per_second, 200.0);
    let late = sample
        .findings
        .iter()
        .find(|finding| finding.code == "achieved-below-offered");
    let text = &late.expect("below").text;
    assert!(text.contains("at least 2000 were due before it"), "{text}");
    assert!(!sample.findings.iter().any(|f| f.code == "nothing-answered"));
    pair.client.groups[0].due = Some(9);
    assert!(!pair.codes().contains(&"achieved-below-offered".to_string()));
}

#[test]
fn an_open_loop_that_falls_behind_says_so() {
    let mut pair = rr(Proto::Tcp);
    pair.case.load = Load::Rate { per_second: 250.0 };
    pair.client.groups[0].lag = Some(text([(1000, 5)]));
    pair.client.groups[0].censored_min_ns = Some(60_000);
    let sample = pair.sample();
    let figures = sample.figures.unwrap();
    assert_eq!(figures.offered_per_second, Some(250.0));
    assert_eq!(figures.achieved_per_second, Some(200.0));
    assert_eq!(figures.lag_ns.unwrap().count, 5);
    assert_eq!(
        figures.latency_ns.unwrap().lower_bounds,
        ["p999", "p9999", "max"]
    );
    assert_eq!(sample.findings[0].code, "achieved-below-offered");
    pair.case.load = Load::Rate { per_second: 201.0 };
    assert!(pair.codes().is_empty());
}

#[test]
fn what_the_sides_ran_into_becomes_findings() {
    let mut pair = rr(Proto::Tcp);
    pair.server.engine.cq_overflows = 1;
    pair.client.engine.buffers_exhausted = 2;
    pair.client.engine.zerocopy = Some(ZeroCopyReport {
        sends: 10,
        completed: Some(9),
        copied: Some(9),
    });
    pair.client.groups[0].histogram_out_of_range = 3;
    pair.server.groups[0].corrupt_bytes = Some(4);
    pair.server.findings.push(Finding::new(
        Severity::Info,
        "cpu-shared",
        "a CPU is shared",
    ));
    let sample = pair.sample();
    let mut codes: Vec<&str> = sample.findings.iter().map(|f| f.code.as_str()).collect();
    codes.sort_unstable();
    let expected = [
        "buffers-exhausted",
        "corrupt-payload",
        "cpu-shared",
        "cq-overflow",
        "histogram-out-of-range",
        "zerocopy-in-vain",
    ];
    assert_eq!(codes, expected);
    assert!(
        sample
            .findings
            .iter()
            .any(|f| f.text == "server: a CPU is shared")
    );
}

#[test]
fn zero_copy_is_in_vain_only_where_everything_was_copied() {
    let of = |completed, copied| ZeroCopyReport {
        sends: 10,
        completed,
        copied,
    };
    assert!(of(Some(9), Some(9)).in_vain());
    for spared in [
        of(Some(9), Some(8)),
        of(Some(9), Some(0)),
        of(Some(0), Some(0)),
        of(Some(9), None),
        of(None, None),
    ] {
        assert!(!spared.in_vain(), "{spared:?}");
    }
}

#[test]
fn addresses_that_differ_are_a_translating_path() {
    let mut pair = tcp_stream();
    let set = |report: &mut SideReport, local: &str, peer: &str| {
        (report.flows[0].local, report.flows[0].peer) = (local.to_string(), peer.to_string());
    };
    set(&mut pair.client, "10.0.0.1:4000", "10.0.0.2:5301");
    set(
        &mut pair.server,
        "[::ffff:10.0.0.2]:5301",
        "[::ffff:10.0.0.1]:4000",
    );
    assert!(pair.codes().is_empty());
    set(&mut pair.server, "10.0.0.2:5301", "192.0.2.1:4000");
    assert_eq!(pair.codes(), ["path-translated"]);
}

#[test]
fn ten_thousand_flows_keep_their_spread_and_forty_lines() {
    let mut pair = tcp_stream();
    pair.case.flows = 2000;
    pair.client = side(sends(5000, 5), 0, 2000);
    pair.server = side(receives(5000, 0), 0, 2000);
    let sample = pair.sample();
    assert_eq!(sample.flows.len(), 40);
    let figures = sample.figures.unwrap();
    assert_eq!(figures.flow_distribution.unwrap().count, 2000);
    assert!(figures.reconciliation.reconciled);
}

#[test]
fn two_groups_have_their_own_figures() {
    let one = tcp_stream();
    let mut pair = Pair {
        case: case("tcp bidir", Proto::Tcp, Test::Bidir, (1000, 0), 2),
        client: one.client.clone(),
        server: one.server.clone(),
    };
    let second = |report: &mut SideReport, from: &SideReport| {
        report.groups.push(from.groups[0].clone());
        report
            .intervals
            .extend(from.intervals.iter().map(|i| Interval { group: 1, ..*i }));
        report.flows.extend(from.flows.iter().map(|f| FlowReport {
            group: 1,
            ..f.clone()
        }));
    };
    second(&mut pair.client, &one.server);
    second(&mut pair.server, &one.client);
    let sample = pair.sample();
    assert_eq!(sample.figures, None);
    assert!(
        sample
            .groups
            .iter()
            .all(|g| g.figures.reconciliation.reconciled),
        "{sample:?}"
    );
    assert_eq!(sample.groups[1].figures.throughput_bps, 80_000.0);
    pair.client.groups[1].window.received_bytes += 1;
    let finding = pair.sample().findings.remove(0);
    assert!(
        finding
            .text
            .starts_with("server to client: counts do not add up"),
        "{finding:?}"
    );
}

//! From the histograms of the stages to the record.

use ringperf_ebpf::layout::Stage;

use super::Snapshot;
use crate::record::StageReport;

/// Every stage that was passed on one side, in the order of the way, TCP before UDP.
pub(super) fn stages(window: &Snapshot, server: bool) -> Vec<StageReport> {
    let transports = [(false, "tcp"), (true, "udp")];
    let all = transports.into_iter().flat_map(|(udp, transport)| {
        Stage::ALL.into_iter().filter_map(move |stage| {
            let words = window.stages.get(&stage.index(server, udp))?;
            let [count, sum, buckets @ ..] = words.as_slice() else {
                return None;
            };
            let mut line = StageReport::of_buckets(*count, *sum, buckets)?;
            line.stage = stage.name().to_string();
            line.side = if server { "server" } else { "client" }.to_string();
            line.transport = transport.to_string();
            Some(line)
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use ringperf_ebpf::bucket::bucket;
    use ringperf_ebpf::layout::STAGE_WORDS;

    use super::*;

    #[test]
    fn a_histogram_becomes_figures() {
        let mut words = vec![0; STAGE_WORDS];
        for value in 1..=1000u64 {
            words[0] += 1;
            words[1] += value;
            words[2 + bucket(value)] += 1;
        }
        let window = Snapshot {
            stages: [(Stage::Wait.index(true, true), words)].into(),
            ..Snapshot::default()
        };
        let all = stages(&window, true);
        let [line] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!(
            (line.stage.as_str(), line.transport.as_str()),
            ("wait", "udp")
        );
        assert_eq!(line.count, 1000);
        assert!((line.mean_ns - 500.5).abs() < 1e-9);
        for (figure, exact) in [
            (line.p50_ns, 500),
            (line.p90_ns, 900),
            (line.p99_ns, 990),
            (line.max_ns, 1000),
        ] {
            assert!(
                figure >= exact && figure <= exact + exact / 8,
                "{figure} for {exact}"
            );
        }
        assert_eq!(
            line.buckets.iter().map(|(_, count)| count).sum::<u64>(),
            1000
        );
    }

    #[test]
    fn what_was_not_passed_is_left_out() {
        let window = Snapshot {
            stages: [(0, vec![0; STAGE_WORDS])].into(),
            ..Snapshot::default()
        };
        assert!(stages(&window, false).is_empty());
    }
}

//! The result as one JSON document.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::{Finding, Run, Severity};

/// The whole document, indented, with a line end.
///
/// JSON has no NaN and no infinity. A part that would not read back as what it is, is left out,
/// the run counts as incomplete, and a finding names the part.
pub fn render(run: &Run) -> String {
    with(run, serde_json::to_string_pretty)
}

/// The whole document on one line, with a line end, as the last line of a stream of objects.
pub fn render_line(run: &Run) -> String {
    with(run, serde_json::to_string)
}

fn with(run: &Run, text: impl Fn(&Run) -> serde_json::Result<String>) -> String {
    let checked = checked(run);
    let run = checked.as_ref().unwrap_or(run);
    // A Run has text keys only and writes to memory: there is nothing that can fail.
    let mut text = text(run).unwrap_or_default();
    text.push('\n');
    text
}

/// A copy without the parts that JSON cannot carry; none where all is well.
fn checked(run: &Run) -> Option<Run> {
    let mut faults = Vec::new();
    let mut kept = Vec::with_capacity(run.cases.len());
    for case in &run.cases {
        let name = &case.case.name;
        if !survives(&case.case) {
            faults.push(format!(
                "case {name:?}: left out, since it has a number that is none"
            ));
            continue;
        }
        let mut case = case.clone();
        case.samples.retain(|sample| {
            let whole = survives(sample);
            if !whole {
                let number = sample.number;
                faults.push(format!(
                    "sample {number} of {name:?}: left out, since it has a number that is none"
                ));
            }
            whole
        });
        if case.probed.as_ref().is_some_and(|probed| !survives(probed)) {
            case.probed = None;
            faults.push(format!(
                "the probed sample of {name:?}: left out, since it has a number that is none"
            ));
        }
        kept.push(case);
    }
    if faults.is_empty() {
        return None;
    }
    let mut copy = Run {
        cases: kept,
        complete: false,
        ..run.clone()
    };
    let of = |text| Finding::new(Severity::Error, "not-a-number", text);
    copy.findings.extend(faults.into_iter().map(of));
    Some(copy)
}

/// Whether a value reads back as itself. NaN and infinity are written as null, which either does
/// not read back at all or as none.
fn survives<T: Serialize + DeserializeOwned + PartialEq>(value: &T) -> bool {
    let text = serde_json::to_string(value).ok();
    let back = text.and_then(|text| serde_json::from_str::<T>(&text).ok());
    back.as_ref() == Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{canned, read};

    #[test]
    fn a_loaded_document_renders_as_the_live_one() {
        for run in canned::runs() {
            let live = render(&run);
            let loaded = read(&live).unwrap();
            assert_eq!(render(&loaded), live);
            assert_eq!(loaded, run);
        }
    }

    #[test]
    fn one_line_is_the_same_document() {
        let run = canned::busy();
        let line = render_line(&run);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(read(&line).unwrap(), run);
    }

    #[test]
    fn what_is_no_number_is_named_and_left_out() {
        for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut run = canned::busy();
            run.cases[0].samples[0].duration_s = broken;
            let cpu = run.cases[1].samples[0].cpu.client.as_mut().unwrap();
            cpu.total_s = Some(broken);
            let loaded = read(&render(&run)).unwrap();
            assert!(!loaded.complete);
            assert_eq!(loaded.cases[0].samples.len(), 0);
            assert_eq!(loaded.cases[1].samples.len(), 0);
            assert_eq!(loaded.cases[2].samples.len(), 3);
            let codes = loaded.findings.iter().filter(|f| f.code == "not-a-number");
            assert_eq!(codes.count(), 2);
        }
    }

    #[test]
    fn the_document_has_the_fields_that_others_read() {
        let value: serde_json::Value = serde_json::from_str(&render(&canned::tour())).unwrap();
        for pointer in [
            "/schema",
            "/uuid",
            "/started",
            "/tool/version",
            "/client/kernel",
            "/cases/1/case/request_bytes",
            "/cases/1/samples/0/groups/0/latency_ns/p999",
            "/cases/1/samples/0/transactions/per_second",
            "/cases/1/samples/0/latency_ns/histogram",
            "/cases/2/samples/0/udp/lost",
            "/cases/0/samples/0/tcp/client/retransmits",
            "/cases/0/samples/0/cpu/server/softirq_s",
            "/cases/0/samples/0/intervals/client/0/received_bytes",
            "/cases/0/samples/0/throughput_bps",
        ] {
            assert!(
                value.pointer(pointer).is_some_and(|v| !v.is_null()),
                "{pointer}"
            );
        }
        let kernel = value.pointer("/cases/0/samples/0/kernel/client").unwrap();
        assert!(kernel.is_null());
    }
}

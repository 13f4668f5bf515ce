//! Where the round trip went: a line for each part of the way, the mean beside the slowest.

use crate::record::{BudgetLine, BudgetStatus, CaseResult, KernelReport, ProbedSample, Sample};

/// Who tells of the whole way.
const WAY: &str = "stages";

/// The lines of a case: those of the sample whose mean round trip is the median of the samples'.
pub(super) fn texts(result: &CaseResult) -> Vec<(&'static str, String)> {
    let mut reports: Vec<&KernelReport> = samples(result)
        .filter_map(|sample| sample.kernel.client.as_ref())
        .filter(|report| mean(report).is_some())
        .collect();
    reports.sort_by(|a, b| mean(a).unwrap_or(0.0).total_cmp(&mean(b).unwrap_or(0.0)));
    let middle = reports.len().saturating_sub(1) / 2;
    let mut texts: Vec<String> = result.probed.iter().map(|probed| cost(probed)).collect();
    texts.extend(reports.get(middle).iter().flat_map(|report| lines(report)));
    let mut said: Vec<_> = texts.into_iter().map(|text| (WAY, text)).collect();
    said.extend(inside_server(result).map(|text| ("server", text)));
    said
}

/// Those with stages: the further sample, or the measured ones.
fn samples(result: &CaseResult) -> impl Iterator<Item = &Sample> {
    let further = result.probed.iter().map(|probed| &probed.sample);
    result.samples.iter().chain(further)
}

/// What the server says of its own slowest, where the client cannot see inside it.
fn inside_server(result: &CaseResult) -> Option<String> {
    let reports = samples(result).filter_map(|sample| sample.kernel.server.as_ref());
    let tail = reports.filter_map(|report| report.tail.as_ref()).last()?;
    Some(format!("slowest inside: {}", tail.sentence))
}

/// What the stage probes cost, by their effect.
fn cost(probed: &ProbedSample) -> String {
    let rate = probed.rate_change;
    let rate = rate.map(|change| format!("rate {:+.1} %", change * 100.0));
    let p50 = probed.p50_change_ns;
    let p50 = p50.map(|ns| format!("p50 {:+.1} us", ns / 1000.0));
    let figures: Vec<String> = rate.into_iter().chain(p50).collect();
    format!(
        "probed: {} (a further sample of {:.1} s with the stages; the figures above are without)",
        figures.join(", "),
        probed.sample.duration_s
    )
}

fn mean(report: &KernelReport) -> Option<f64> {
    let total = report.budget_total.as_ref()?;
    (total.transactions > 0).then_some(total.mean_ns)
}

fn lines(report: &KernelReport) -> Vec<String> {
    let Some(total) = &report.budget_total else {
        return Vec::new();
    };
    let share = 100.0 * (1.0 - total.unattributed_ns / total.mean_ns.max(1.0));
    let mut texts = vec![format!(
        "round trip {} us, mean of {}{}: {share:.1} % of it in the stages below, us{}",
        us(total.mean_ns),
        total.transactions,
        match total.flows {
            0 | 1 => String::new(),
            flows => format!(" on {flows} flows"),
        },
        match &report.tail {
            Some(tail) => format!(
                " (in brackets: mean of the slowest {}, {} us)",
                tail.transactions,
                us(tail.mean_ns)
            ),
            None => String::new(),
        }
    )];
    for part in parts(&report.budget) {
        let stages: Vec<String> = part.iter().map(stage).collect();
        texts.push(format!("{}: {}", heading(&part[0]), stages.join(", ")));
    }
    let tail = report.tail.as_ref();
    texts.push(format!(
        "unattributed: {}",
        figures(total.unattributed_ns, tail.map(|tail| tail.unattributed_ns))
    ));
    if let Some(together) = tail.and_then(|tail| tail.network_and_server_ns) {
        texts.push(format!(
            "slowest: network and server together {}",
            us(together)
        ));
    }
    texts.extend(tail.map(|tail| format!("slowest: {}", tail.sentence)));
    texts
}

/// Stretches of lines on the same side for the same message.
fn parts(budget: &[BudgetLine]) -> Vec<&[BudgetLine]> {
    let same = |a: &BudgetLine, b: &BudgetLine| a.side == b.side && a.message == b.message;
    budget.chunk_by(same).collect()
}

fn heading(first: &BudgetLine) -> String {
    let side = match first.side.as_str() {
        "between" => "",
        side => side,
    };
    let words = [side, first.message.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => "both ways".to_string(),
        false => words.join(" "),
    }
}

fn stage(line: &BudgetLine) -> String {
    let name = match line.on_purpose {
        true => "held on purpose (pacing)",
        false => &line.stage,
    };
    match line.status {
        BudgetStatus::Unattributed => format!("{name} unattributed"),
        BudgetStatus::Bypassed => format!("{name} bypassed"),
        BudgetStatus::Partial => format!("{name} {} partial", figures(line.mean_ns, line.tail_ns)),
        BudgetStatus::Measured => format!("{name} {}", figures(line.mean_ns, line.tail_ns)),
    }
}

fn figures(mean_ns: f64, tail_ns: Option<f64>) -> String {
    match tail_ns {
        Some(tail) => format!("{} ({})", us(mean_ns), us(tail)),
        None => us(mean_ns),
    }
}

/// Microseconds with as many digits as mean something.
fn us(ns: f64) -> String {
    let us = ns / 1000.0;
    if us < 10.0 {
        format!("{us:.2}")
    } else if us < 100.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BudgetTotal, TailReport, canned};

    fn line(side: &str, message: &str, stage: &str, mean_ns: f64) -> BudgetLine {
        BudgetLine {
            stage: stage.to_string(),
            side: side.to_string(),
            message: message.to_string(),
            mean_ns,
            tail_ns: Some(mean_ns * 10.0),
            seen: 100,
            ..BudgetLine::default()
        }
    }

    #[test]
    fn what_the_probes_cost_is_said_first() {
        let mut result = canned::tour().cases[1].clone();
        result.probed = Some(Box::new(ProbedSample {
            sample: result.samples[0].clone(),
            rate_change: Some(-0.123),
            p50_change_ns: Some(2345.0),
        }));
        assert!(
            texts(&result)[0]
                .1
                .starts_with("probed: rate -12.3 %, p50 +2.3 us (a further")
        );
    }

    #[test]
    fn each_part_of_the_way_is_a_line() {
        let mut result = canned::tour().cases[0].clone();
        let mut queue = line("client", "request", "queue", 300.0);
        queue.status = BudgetStatus::Partial;
        let mut paced = line("client", "request", "paced", 12_345.0);
        paced.on_purpose = true;
        let mut gone = line("server", "request", "receive", 0.0);
        gone.status = BudgetStatus::Unattributed;
        result.samples[0].kernel.client = Some(KernelReport {
            budget: vec![
                line("client", "request", "submit", 1500.0),
                paced,
                queue,
                line("between", "request", "wire", 900.0),
                gone,
                line("server", "", "application", 2000.0),
            ],
            budget_total: Some(BudgetTotal {
                flows: 1,
                transactions: 100,
                mean_ns: 20_000.0,
                unattributed_ns: 1000.0,
            }),
            tail: Some(TailReport {
                transactions: 2,
                mean_ns: 200_000.0,
                sentence: "no single contributor".to_string(),
                ..TailReport::default()
            }),
            ..KernelReport::default()
        });
        let expected = [
            "round trip 20.0 us, mean of 100: 95.0 % of it in the stages below, us (in brackets: \
             mean of the slowest 2, 200 us)",
            "client request: submit 1.50 (15.0), held on purpose (pacing) 12.3 (123), queue 0.30 \
             (3.00) partial",
            "request: wire 0.90 (9.00)",
            "server request: receive unattributed",
            "server: application 2.00 (20.0)",
            "unattributed: 1.00 (0.00)",
            "slowest: no single contributor",
        ];
        assert_eq!(texts(&result), expected.map(|text| (WAY, text.to_string())));
    }
}

//! The quick comparison: three rows, a few minutes.

use std::path::Path;

use anyhow::{Result, bail};

use super::namespace::Namespace;
use super::numbers::{median, range, ratios};
use super::{BELOW, NOT_MEASURED, build, tools};
use crate::exec::{interrupted, on_path};
use crate::{print, say};

/// One comparison with one tool.
struct Row {
    name: &'static str,
    peer: &'static str,
    /// Arguments of `ringperf run`.
    case: &'static str,
    /// Where ringperf's figure stands in a sample.
    figure: &'static str,
    measure_peer: fn(&Namespace) -> Result<f64>,
    unit: &'static str,
    /// What the figures are divided by for that unit.
    scale: f64,
    /// The least that the paired ratio may be.
    least: f64,
}

const ROWS: [Row; 3] = [
    Row {
        name: "tcp stream 16K",
        peer: "iperf3",
        case: "--proto tcp --test stream --size 16K",
        figure: "/throughput_bps",
        measure_peer: |inside| tools::iperf3(inside, "16K"),
        unit: "Gbit/s",
        scale: 1e9,
        least: 0.95,
    },
    Row {
        name: "tcp stream 128K",
        peer: "iperf3",
        case: "--proto tcp --test stream --size 128K",
        figure: "/throughput_bps",
        measure_peer: |inside| tools::iperf3(inside, "128K"),
        unit: "Gbit/s",
        scale: 1e9,
        least: 0.95,
    },
    Row {
        name: "tcp rr 14/14, asleep",
        peer: "sockperf",
        case: "--proto tcp --test rr --size 14/14",
        figure: "/transactions/per_second",
        measure_peer: tools::sockperf,
        unit: "k/s",
        scale: 1e3,
        least: 0.80,
    },
];

/// Builds ringperf and prints a line per row.
///
/// # Errors
///
/// Where ringperf does not build or a tool that is there fails.
pub fn compare(root: &Path, rounds: u32) -> Result<u8> {
    let program = build(root)?;
    let inside = Namespace::new("bench", tools::CONGESTION)?;
    let mut code = 0;
    for row in &ROWS {
        let line = match on_path(row.peer) {
            true => {
                let (ours, theirs) = measure(&inside, &program, row, rounds)?;
                let (line, is_met) = told(row, &ours, &theirs);
                if !is_met && code == 0 {
                    code = BELOW;
                }
                line
            }
            false => {
                code = NOT_MEASURED;
                format!(
                    "{:<22} not measured: {} is not on the path",
                    row.name, row.peer
                )
            }
        };
        print(&line)?;
    }
    Ok(code)
}

/// Figures of every round. Who goes first changes from round to round.
fn measure(
    inside: &Namespace,
    program: &Path,
    row: &Row,
    rounds: u32,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let own = || tools::ringperf(inside, program, row.case, row.figure);
    for round in 0..rounds {
        if interrupted() {
            bail!("interrupted");
        }
        if round % 2 == 0 {
            ours.push(own()?);
            theirs.push((row.measure_peer)(inside)?);
        } else {
            theirs.push((row.measure_peer)(inside)?);
            ours.push(own()?);
        }
        let scaled = |values: &[f64]| values.last().map_or(0.0, |value| value / row.scale);
        say(&format!(
            "{}, round {}: ringperf {:.2}, {} {:.2} {}",
            row.name,
            round + 1,
            scaled(&ours),
            row.peer,
            scaled(&theirs),
            row.unit
        ));
    }
    Ok((ours, theirs))
}

/// The line of a row, and whether its ratio is met.
fn told(row: &Row, ours: &[f64], theirs: &[f64]) -> (String, bool) {
    let figures = |values: &[f64]| {
        let middle = median(values).unwrap_or(0.0) / row.scale;
        let (low, high) = range(values).unwrap_or((0.0, 0.0));
        format!(
            "{middle:.2} [{:.2}-{:.2}]",
            low / row.scale,
            high / row.scale
        )
    };
    let ratios = ratios(ours, theirs);
    let ratio = median(&ratios).unwrap_or(0.0);
    let (low, high) = range(&ratios).unwrap_or((0.0, 0.0));
    let is_met = ratio >= row.least;
    let verdict = if is_met { "ok" } else { "below" };
    let line = format!(
        "{:<22} ringperf {} {peer} {} {}, ratio {ratio:.3} [{low:.3}-{high:.3}], {} rounds: \
         {verdict} {:.2}",
        row.name,
        figures(ours),
        figures(theirs),
        row.unit,
        ratios.len(),
        row.least,
        peer = row.peer,
    );
    (line, is_met)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_was_measured_and_how_it_compares() {
        let (line, is_met) = told(&ROWS[0], &[20e9, 19e9, 21e9], &[20e9, 20e9, 20e9]);
        let expected = "tcp stream 16K         ringperf 20.00 [19.00-21.00] iperf3 20.00 \
                        [20.00-20.00] Gbit/s, ratio 1.000 [0.950-1.050], 3 rounds: ok 0.95";
        assert_eq!((line.as_str(), is_met), (expected, true));
        let (line, is_met) = told(&ROWS[2], &[7e3], &[10e3]);
        assert!(
            line.ends_with("ratio 0.700 [0.700-0.700], 1 rounds: below 0.80"),
            "{line}"
        );
        assert!(!is_met);
    }
}

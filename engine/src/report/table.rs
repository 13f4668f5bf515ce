//! The result for people: what ran, a line per case, what a reader must know, what went wrong.
//!
//! Columns carry their unit in the header and appear where a case has something to put in them.
//! Those that do not fit the width go into a further table below, with the cases named again.

mod budget;
mod cell;
mod columns;
mod head;
mod kernel;
mod layout;
mod notes;

use crate::record::Run;

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Columns of the terminal; 100 suits a pipe.
    pub width: usize,
    /// Also a line per sample, where there are several.
    pub samples: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style {
            width: 100,
            samples: false,
        }
    }
}

/// Narrowest width that is kept to.
const NARROWEST: usize = 40;

/// Widest width that is used.
const WIDEST: usize = 1000;

/// The whole report, ending in a line end.
pub fn render(run: &Run, style: Style) -> String {
    let width = style.width.clamp(NARROWEST, WIDEST);
    let mut blocks = vec![head::lines(run, width)];
    blocks.extend(layout::tables(run, width, style.samples));
    blocks.push(kernel::lines(run, width));
    blocks.push(notes::findings(run, width));
    blocks.push(notes::errors(run, width));
    blocks.retain(|block| !block.is_empty());
    let mut text = blocks.join("\n\n");
    text.push('\n');
    text
}

/// Breaks `text` at spaces into lines that fit beside a label; a longer word is cut.
fn wrap(label: &str, label_width: usize, text: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(label_width).max(20);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().flat_map(|word| pieces(word, room)) {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    let line = |(label, line)| format!("{label:<label_width$}{line}");
    labels.zip(lines).map(line).collect()
}

/// A word in pieces of at most so many characters.
fn pieces(word: &str, most: usize) -> Vec<&str> {
    let ends = word.char_indices().map(|(at, _)| at).step_by(most);
    let starts: Vec<usize> = ends.chain([word.len()]).collect();
    starts
        .windows(2)
        .map(|pair| &word[pair[0]..pair[1]])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::canned;

    /// So narrow that a snapshot's lines stay within this file's.
    const NARROW: Style = Style {
        width: 90,
        samples: false,
    };

    #[test]
    fn a_tour() {
        insta::assert_snapshot!(render(&canned::tour(), NARROW), @r#"
        ringperf  0.1.0, 2026-11-30T12:00:00.000Z, run 5f0c1a52-9a55-4d33-8f0c-0d6f1c1f6b11
        client    alpha: Linux 6.18.2 x86_64, 64 CPUs EPYC 9354, eth0 mlx5_core MTU 9000 100000
                  Mbit/s
        server    beta: Linux 6.18.2 x86_64, 64 CPUs EPYC 9354, eth0 mlx5_core MTU 9000 100000
                  Mbit/s
        engine    io_uring (single-issuer, defer-taskrun)
        chosen    4 sends in flight, receive low-water mark 64K, minimum wait 50 us, 64 receive
                  buffers of 64K [tcp stream 128K x1; udp stream 1472 x1]
        chosen    receive low-water mark 64K, minimum wait 50 us, 64 receive buffers of 64K [tcp
                  rr 1/1 x1]
        tcp       congestion control cubic; retransmits are of the lifetime, warm-up included
        wait      sleep
        cpu       sampled by the tick

        case                  Gbit/s  Gbit/s  messages/s  datagrams/s    lost  retrans-
                            received    sent        sent     received       %      mits
        -------------------------------------------------------------------------------
        tcp stream 128K x1      21.3    21.3     2662550            -       -        17
        udp stream 1472 x1      1.00    1.00      125050       125000  0.0400         -

        case                CPU s/s  softirq  CPU s/s  softirq
                             client   client   server   server
        ------------------------------------------------------
        tcp stream 128K x1     1.10    0.250    0.900    0.400
        udp stream 1472 x1     1.10    0.250    0.900    0.400

        case           transac-   p50   p90   p99  p99.9   max  retrans-
                        tions/s    us    us    us     us    us      mits
        ----------------------------------------------------------------
        tcp rr 1/1 x1     45210  21.3  42.6  85.2    213  2130         0

        case           CPU s/s  softirq  CPU s/s  softirq
                        client   client   server   server
        -------------------------------------------------
        tcp rr 1/1 x1     1.10    0.250    0.900    0.400
        "#);
    }

    #[test]
    fn several_groups_samples_and_flows() {
        insta::assert_snapshot!(render(&canned::busy(), NARROW), @r#"
        ringperf  0.1.0, 2026-11-30T12:00:00.000Z, run 5f0c1a52-9a55-4d33-8f0c-0d6f1c1f6b11
        title     before the upgrade
        client    alpha: Linux 6.18.2 x86_64, 64 CPUs EPYC 9354, eth0 mlx5_core MTU 9000 100000
                  Mbit/s
        server    beta: Linux 6.18.2 x86_64, 64 CPUs EPYC 9354, eth0 mlx5_core MTU 9000 100000
                  Mbit/s
        engine    io_uring (single-issuer, defer-taskrun)
        chosen    4 sends in flight, receive low-water mark 64K, minimum wait 50 us, 64 receive
                  buffers of 64K [tcp bidir 16K x8]
        chosen    receive low-water mark 64K, minimum wait 50 us, 64 receive buffers of 64K [udp
                  rr 64/1K x1; tcp rr 1/1 x1 rate 50000]
        tcp       congestion control cubic; retransmits are of the lifetime, warm-up included
        wait      sleep
        cpu       sampled by the tick
        note      the path translates addresses: the client is 10.0.0.9:4001 to itself and
                  192.0.2.1:61001 to the server
        samples   median, with the least and the most below it
        note      INCOMPLETE: not every sample ran to its planned end

        case                           Gbit/s  Gbit/s  messages/s  retrans-
                                     received    sent        sent      mits
        -------------------------------------------------------------------
        tcp bidir 16K x8, to server      10.0    10.0     1250050        17
        tcp bidir 16K x8, to client      8.80    8.80     1100050         0

        case                         CPU s/s  softirq  CPU s/s  softirq  Jain's  slowest  fastest
                                      client   client   server   server   index   Gbit/s   Gbit/s
        -----------------------------------------------------------------------------------------
        tcp bidir 16K x8, to server     1.10    0.250    0.900    0.400   0.912    0.500     2.00
        tcp bidir 16K x8, to client     1.10    0.250    0.900    0.400       -        -        -

        case                                transac-         p50         p90         p99
                                             tions/s          us          us          us
        --------------------------------------------------------------------------------
        udp rr 64/1K x1                         9.00         200         400        lost
        tcp rr 1/1 x1 rate 50000 (1 of         40000        21.3        42.6        85.2
        3 incomplete)                   40000..45210  21.3..24.0  42.6..48.0  85.2..96.0

        case                                  p99.9            max  failed  retrans-
                                                 us             us              mits
        ----------------------------------------------------------------------------
        udp rr 64/1K x1                        lost           lost      10         -
        tcp rr 1/1 x1 rate 50000 (1 of          213           2130       -         0
        3 incomplete)                   213..>= 240  2130..>= 2400

        case                            CPU s/s  softirq  CPU s/s  softirq
                                         client   client   server   server
        ------------------------------------------------------------------
        udp rr 64/1K x1                    1.10    0.250    0.900    0.400
        tcp rr 1/1 x1 rate 50000 (1 of     1.10    0.250    0.900    0.400
        3 incomplete)

        findings
        warning   achieved-below-offered: sample 1: fewer transactions than the schedule asked for
                  (and 2 more like it) [tcp rr 1/1 x1 rate 50000]

        errors
        error     server-lost: the server at 10.0.0.2:5301 closed the connection (exit 4) [tcp rr
                  1/1 x1 rate 50000]
        "#);
    }

    #[test]
    fn each_sample_where_asked() {
        let style = Style {
            samples: true,
            ..NARROW
        };
        insta::assert_snapshot!(render(&canned::busy(), style), @r#"
        ringperf  0.1.0, 2026-11-30T12:00:00.000Z, run 5f0c1a52-9a55-4d33-8f0c-0d6f1c1f6b11
        title     before the upgrade
        client    alpha: Linux 6.18.2 x86_64, 64 CPUs EPYC 9354, eth0 mlx5_core MTU 9000 100000
                  Mbit/s
        server    beta: Linux 6.18.2 x86_64, 64 CPUs EPYC 9354, eth0 mlx5_core MTU 9000 100000
                  Mbit/s
        engine    io_uring (single-issuer, defer-taskrun)
        chosen    4 sends in flight, receive low-water mark 64K, minimum wait 50 us, 64 receive
                  buffers of 64K [tcp bidir 16K x8]
        chosen    receive low-water mark 64K, minimum wait 50 us, 64 receive buffers of 64K [udp
                  rr 64/1K x1; tcp rr 1/1 x1 rate 50000]
        tcp       congestion control cubic; retransmits are of the lifetime, warm-up included
        wait      sleep
        cpu       sampled by the tick
        note      the path translates addresses: the client is 10.0.0.9:4001 to itself and
                  192.0.2.1:61001 to the server
        samples   median, with the least and the most below it
        note      INCOMPLETE: not every sample ran to its planned end

        case                           Gbit/s  Gbit/s  messages/s  retrans-
                                     received    sent        sent      mits
        -------------------------------------------------------------------
        tcp bidir 16K x8, to server      10.0    10.0     1250050        17
        tcp bidir 16K x8, to client      8.80    8.80     1100050         0

        case                         CPU s/s  softirq  CPU s/s  softirq  Jain's  slowest  fastest
                                      client   client   server   server   index   Gbit/s   Gbit/s
        -----------------------------------------------------------------------------------------
        tcp bidir 16K x8, to server     1.10    0.250    0.900    0.400   0.912    0.500     2.00
        tcp bidir 16K x8, to client     1.10    0.250    0.900    0.400       -        -        -

        case                                transac-         p50         p90         p99
                                             tions/s          us          us          us
        --------------------------------------------------------------------------------
        udp rr 64/1K x1                         9.00         200         400        lost
        tcp rr 1/1 x1 rate 50000 (1 of         40000        21.3        42.6        85.2
        3 incomplete)                   40000..45210  21.3..24.0  42.6..48.0  85.2..96.0
        - sample 1                             40000        24.0        48.0        96.0
        - sample 2                             45210        21.3        42.6        85.2
        - sample 3 (incomplete)                0.100        9.00        18.0        36.0

        case                                  p99.9            max  failed  retrans-
                                                 us             us              mits
        ----------------------------------------------------------------------------
        udp rr 64/1K x1                        lost           lost      10         -
        tcp rr 1/1 x1 rate 50000 (1 of          213           2130       -         0
        3 incomplete)                   213..>= 240  2130..>= 2400
        - sample 1                           >= 240        >= 2400       -         0
        - sample 2                              213           2130       -         0
        - sample 3 (incomplete)                90.0            900       -         0

        case                            CPU s/s  softirq  CPU s/s  softirq
                                         client   client   server   server
        ------------------------------------------------------------------
        udp rr 64/1K x1                    1.10    0.250    0.900    0.400
        tcp rr 1/1 x1 rate 50000 (1 of     1.10    0.250    0.900    0.400
        3 incomplete)
        - sample 1                         1.10    0.250    0.900    0.400
        - sample 2                         1.10    0.250    0.900    0.400
        - sample 3 (incomplete)            1.10    0.250    0.900    0.400

        findings
        warning   achieved-below-offered: sample 1: fewer transactions than the schedule asked for
                  (and 2 more like it) [tcp rr 1/1 x1 rate 50000]

        errors
        error     server-lost: the server at 10.0.0.2:5301 closed the connection (exit 4) [tcp rr
                  1/1 x1 rate 50000]
        "#);
    }

    #[test]
    fn an_error_before_any_traffic() {
        let mut run = canned::runs().pop().unwrap();
        run.started = "2026-11-30T12:00:00.000Z".to_string();
        run.uuid = "5f0c1a52-9a55-4d33-8f0c-0d6f1c1f6b11".to_string();
        insta::assert_snapshot!(render(&run, NARROW), @r#"
        ringperf  0.1.0, 2026-11-30T12:00:00.000Z, run 5f0c1a52-9a55-4d33-8f0c-0d6f1c1f6b11

        errors
        error     usage: crr needs tcp: --test crr does not go with --proto udp (exit 2)
        "#);
    }

    #[test]
    fn no_line_is_wider_than_asked_and_none_says_nan() {
        for run in canned::runs() {
            for width in [40, 47, 60, 80, 100, 132] {
                for samples in [false, true] {
                    let text = render(&run, Style { width, samples });
                    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
                    for line in text.lines() {
                        assert!(line.chars().count() <= width, "{width}: {line:?}\n{text}");
                        assert_eq!(line.trim_end(), line);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_prints_as_a_dash() {
        let mut run = canned::tour();
        for case in &mut run.cases {
            for group in &mut case.samples[0].groups {
                group.figures.throughput_bps = f64::NAN;
                group.figures.sent_bps = f64::INFINITY;
                group.figures.fairness = Some(f64::NAN);
            }
            case.samples[0].duration_s = 0.0;
        }
        let text = render(&run, Style::default());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn no_column_is_lost_on_a_narrow_terminal() {
        for run in canned::runs() {
            let words = |width| -> Vec<String> {
                let style = Style { width, ..NARROW };
                let text = render(&run, style);
                text.split_whitespace().map(str::to_string).collect()
            };
            let narrow = words(40);
            for word in words(132).iter().filter(|word| word.parse::<f64>().is_ok()) {
                assert!(narrow.contains(word), "{word} is not in {narrow:?}");
            }
        }
    }

    /// A case that did not run has an error and no table.
    #[test]
    fn no_table_without_a_figure() {
        let mut run = canned::tour();
        run.cases.truncate(1);
        run.cases[0].samples.clear();
        run.cases[0].error = Some(crate::record::ErrorReport {
            exit_code: 5,
            code: "socket".to_string(),
            text: "too few descriptors".to_string(),
        });
        let text = render(&run, NARROW);
        assert!(!text.contains("---"), "{text}");
        let name = &run.cases[0].case.name;
        assert!(text.contains(&format!("(exit 5) [{name}]")), "{text}");
    }

    #[test]
    fn datagrams_without_a_header_say_what_is_unknown() {
        let mut run = canned::tour();
        assert!(!render(&run, NARROW).contains("no room for a header"));
        for case in &mut run.cases {
            let groups = case.samples.iter_mut().flat_map(|s| &mut s.groups);
            for udp in groups.filter_map(|group| group.figures.udp.as_mut()) {
                udp.mode = "counts".to_string();
                udp.lost_percent = None;
            }
        }
        let text = render(&run, NARROW);
        let said = text
            .lines()
            .filter(|line| line.contains("no room for a header"));
        assert_eq!(said.count(), 1, "{text}");
    }

    #[test]
    fn a_spinning_workers_cpu_time_is_not_a_figure() {
        let mut run = canned::tour();
        let client = |run: &mut Run, spinning| {
            for sample in run.cases.iter_mut().flat_map(|case| &mut case.samples) {
                sample.cpu.client.as_mut().expect("canned").spinning = spinning;
            }
        };
        assert!(!render(&run, Style::default()).contains("n/a"));
        client(&mut run, true);
        let text = render(&run, Style::default());
        let samples = run
            .cases
            .iter()
            .map(|case| case.samples.len())
            .sum::<usize>();
        // All CPU's time and that of soft interrupts, of the client alone.
        assert_eq!(
            text.matches("n/a (spinning)").count(),
            2 * samples,
            "{text}"
        );
    }

    #[test]
    fn what_an_application_has_all_the_same_is_said() {
        let mut run = canned::tour();
        for case in &mut run.cases {
            case.case.options.as_application = true;
        }
        let said = |run: &Run| {
            let text = render(run, Style::default());
            let line = text.lines().find(|line| line.starts_with("chosen"));
            line.unwrap_or_else(|| panic!("{text}")).to_string()
        };
        assert!(
            said(&run).contains("nothing but 64 receive buffers of 64K"),
            "{}",
            said(&run)
        );
        for sample in run.cases.iter_mut().flat_map(|case| &mut case.samples) {
            for engine in [&mut sample.engine.client, &mut sample.engine.server] {
                engine.as_mut().expect("canned").receive_buffers = Some((1, 1 << 20));
            }
        }
        assert!(
            said(&run).contains("nothing (as an application)"),
            "{}",
            said(&run)
        );
    }

    /// Every column has its unit, but for those that are a count or a ratio by their name.
    #[test]
    fn every_column_has_a_unit() {
        const UNITS: [&str; 7] = ["{unit}", " us", "\nus", "/s", "per s", "%", "s/s"];
        const PLAIN: [&str; 5] = ["retrans-", "failed", "Jain's", "softirq", "transac-"];
        for column in columns::STREAMS
            .iter()
            .chain(columns::TRANSACTIONS)
            .copied()
            .flatten()
        {
            let header = column.header;
            let has = |words: &[&str]| words.iter().any(|word| header.contains(word));
            assert!(has(&UNITS) || has(&PLAIN), "{header:?}");
        }
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrap("ab", 4, "one two", 80), ["ab  one two"]);
        let long = wrap("ab", 4, "aaaaaaaaaa bbbbbbbbb cccc", 24);
        assert_eq!(long, ["ab  aaaaaaaaaa bbbbbbbbb", "    cccc"]);
        let cut = wrap("ab", 4, &"\u{e4}".repeat(25), 24);
        assert_eq!(cut[1], format!("    {}", "\u{e4}".repeat(5)));
    }
}

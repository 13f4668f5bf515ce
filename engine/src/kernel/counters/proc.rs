//! Counters of /proc.

use std::fs;
use std::path::Path;

use super::Reading;

/// Columns of softnet_stat that count; the others are unused or tell a length.
const SOFTNET: [(usize, &str); 6] = [
    (0, "processed"),
    (1, "dropped"),
    (2, "time_squeezed"),
    (8, "cpu_collision"),
    (9, "received_rps"),
    (10, "flow_limit"),
];

/// Reads every file that is there.
pub(super) fn read(root: &Path, reading: &mut Reading) {
    type Parser = fn(&str, &mut Reading);
    let files: [(&str, Parser); 8] = [
        ("thread-self/net/snmp", |text, reading| {
            pairs("snmp", text, reading)
        }),
        ("thread-self/net/netstat", |text, reading| {
            pairs("netstat", text, reading)
        }),
        ("thread-self/net/snmp6", |text, reading| {
            lines("snmp6", text, reading)
        }),
        ("thread-self/net/xfrm_stat", |text, reading| {
            lines("xfrm", text, reading)
        }),
        ("thread-self/net/softnet_stat", softnet),
        ("thread-self/net/stat/nf_conntrack", conntrack),
        ("interrupts", |text, reading| {
            by_cpu("interrupt", text, reading)
        }),
        ("softirqs", |text, reading| by_cpu("softirq", text, reading)),
    ];
    for (file, parse) in files {
        if let Ok(text) = fs::read_to_string(root.join("proc").join(file)) {
            parse(&text, reading);
        }
    }
}

/// Pairs of lines with the same prefix: names, then values. Values may be negative (`MaxConn` is
/// -1), and then stand as the kernel's two's complement.
fn pairs(source: &str, text: &str, reading: &mut Reading) {
    let mut all = text.lines();
    while let (Some(names), Some(values)) = (all.next(), all.next()) {
        let (Some((group, names)), Some((_, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            return;
        };
        let source = format!("{source}.{group}");
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            let value = value
                .parse()
                .or_else(|_| value.parse::<i64>().map(|v| v as u64));
            if let Ok(value) = value {
                reading.put(&source, name, value);
            }
        }
    }
}

/// A name and a value on each line.
fn lines(source: &str, text: &str, reading: &mut Reading) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        if let Ok(value) = value.parse() {
            reading.put(source, name, value);
        }
    }
}

/// A line of hexadecimal numbers for each CPU that is online.
fn softnet(text: &str, reading: &mut Reading) {
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (column, name) in SOFTNET {
            let value = words
                .get(column)
                .and_then(|word| u64::from_str_radix(word, 16).ok());
            if let Some(value) = value {
                reading.put_cpu("softnet", name, value);
            }
        }
    }
}

/// Names, then a line of hexadecimal numbers for each CPU. `entries` is not a CPU's own.
fn conntrack(text: &str, reading: &mut Reading) {
    let mut all = text.lines();
    let names: Vec<&str> = all.next().unwrap_or_default().split_whitespace().collect();
    for line in all {
        for (name, word) in names.iter().zip(line.split_whitespace()) {
            if let (false, Ok(value)) = (*name == "entries", u64::from_str_radix(word, 16)) {
                reading.put_cpu("conntrack", name, value);
            }
        }
    }
}

/// A header of CPUs, then a label, a number for each CPU, and perhaps words.
fn by_cpu(source: &str, text: &str, reading: &mut Reading) {
    let mut all = text.lines();
    let cpus = all.next().unwrap_or_default().split_whitespace().count();
    for line in all {
        let Some((label, rest)) = line.split_once(':') else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let numbers: Vec<u64> = words
            .iter()
            .take(cpus)
            .map_while(|w| w.parse().ok())
            .collect();
        let description = words[numbers.len()..].join(" ");
        let name = format!("{} {description}", label.trim());
        for value in numbers {
            reading.put_cpu(source, name.trim_end(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the canned host `before` and `after`.
    fn canned(moment: &str) -> Reading {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/counters");
        Reading::of(&data.join(moment))
    }

    #[test]
    fn a_canned_host_tells_what_moved() {
        let moved = canned("before").moved(&canned("after"));
        let list: Vec<String> = moved
            .iter()
            .map(|c| format!("{} | {} | {} | {:?}", c.source, c.name, c.delta, c.per_cpu))
            .collect();
        insta::assert_snapshot!(list.join("\n"), @r"
        conntrack | search_restart | 2 | [0, 2]
        interrupt | 31 PCI-MSIX-0000:00:02.0 1-edge virtio1-input.0 | 700 | [0, 700]
        interrupt | ERR | 2 | [2]
        netstat.TcpExt | ListenDrops | 6 | []
        netstat.TcpExt | ListenOverflows | 4 | []
        nic.eth0 | rx_missed_errors | 7 | []
        nic.eth0 | rx_packets | 50 | []
        snmp.Ip | InReceives | 500 | []
        snmp.Tcp | CurrEstab | -2 | []
        snmp.Tcp | RetransSegs | 12 | []
        snmp.Udp | InDatagrams | 200 | []
        snmp.Udp | InErrors | 11 | []
        snmp.Udp | RcvbufErrors | 11 | []
        snmp6 | Ip6InReceives | 15 | []
        softirq | NET_RX | 101 | [100, 1]
        softnet | dropped | 3 | [0, 3]
        softnet | processed | 512 | [0, 512]
        xfrm | XfrmInNoStates | 3 | []
        ");
    }

    #[test]
    fn negative_values_are_no_counters_that_moved() {
        let mut reading = Reading::default();
        pairs(
            "snmp",
            "Tcp: MaxConn RetransSegs\nTcp: -1 7\n",
            &mut reading,
        );
        assert!(reading.moved(&reading.clone()).is_empty());
        assert_eq!(reading.counters.len(), 2);
    }
}

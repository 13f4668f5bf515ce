//! Lists: CPUs, numbers, port ranges.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::ParseError;

/// Highest CPU number that Linux can be built for, plus one.
const MAX_CPUS: u32 = 8192;

/// CPU numbers in the order typed: `0,2-5`. None twice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuList(pub Vec<u32>);

const CPUS: &str = "a list of CPUs";

impl FromStr for CpuList {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<CpuList, ParseError> {
        let error = |reason: String| ParseError::new(CPUS, text, reason);
        let mut cpus = Vec::new();
        let mut seen = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (cpu(text, first)?, cpu(text, last)?);
            if first > last {
                return Err(error(format!("{part} runs backwards")));
            }
            for cpu in first..=last {
                if !seen.insert(cpu) {
                    return Err(error(format!("CPU {cpu} is in it twice")));
                }
                cpus.push(cpu);
            }
        }
        Ok(CpuList(cpus))
    }
}

fn cpu(text: &str, number: &str) -> Result<u32, ParseError> {
    let cpu = digits(number).and_then(|number| number.parse::<u32>().ok());
    cpu.filter(|cpu| *cpu < MAX_CPUS).ok_or_else(|| {
        let reason = format!("write CPU numbers below {MAX_CPUS} such as 0,2-5");
        ParseError::new(CPUS, text, reason)
    })
}

/// The text, if it is digits only: `u32::from_str` would also take a plus sign.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(text)
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        while let [first, ..] = rest {
            let follows = |pair: &[u32]| pair[0].checked_add(1) == Some(pair[1]);
            let run = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
            let (head, tail) = rest.split_at(run);
            write!(f, "{first}")?;
            if let [_, .., last] = head {
                write!(f, "-{last}")?;
            }
            if !tail.is_empty() {
                f.write_str(",")?;
            }
            rest = tail;
        }
        Ok(())
    }
}

/// Reads a whole number: `100`.
///
/// # Errors
/// Anything else, and what does not fit 32 bits.
pub fn parse_number(text: &str) -> Result<u32, ParseError> {
    let error = |reason: &str| ParseError::new("a number", text, reason);
    let digits = digits(text)
        .filter(|digits| !digits.is_empty())
        .ok_or_else(|| error("write a whole number such as 1 or 100, in a list 1,100"))?;
    digits.parse().map_err(|_| error("it is too large"))
}

/// Reads an IP address without a port: `10.0.0.1`, `::1`, `[::1]`.
///
/// # Errors
/// Anything else.
pub fn parse_address(text: &str) -> Result<IpAddr, ParseError> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let v6 = inner.map(|inner| inner.parse::<Ipv6Addr>().map(IpAddr::from));
    let address = v6.unwrap_or_else(|| text.parse());
    address.map_err(|_| {
        let reason = "write one such as 10.0.0.1 or ::1, without a port";
        ParseError::new("an IP address", text, reason)
    })
}

/// An inclusive range of ports, or one port: `N` or `N-M`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// First port, not 0.
    pub first: u16,
    /// Last port, not below the first.
    pub last: u16,
}

impl PortRange {
    /// How many ports it has.
    pub fn len(&self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }

    /// Never: a range has at least one port.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether a port is in it.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<PortRange, ParseError> {
        let error = |reason: &str| ParseError::new("a port or a range of ports", text, reason);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| digits(text).and_then(|text| text.parse::<u16>().ok());
        match (port(first), port(last)) {
            (Some(0), _) => Err(error("port 0 does not exist")),
            (Some(first), Some(last)) if first > last => Err(error("it runs backwards")),
            (Some(first), Some(last)) => Ok(PortRange { first, last }),
            _ => Err(error("write N or N-M with ports from 1 to 65535")),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last != self.first {
            write!(f, "-{}", self.last)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_keep_their_order() {
        let cpus = |text: &str| text.parse::<CpuList>();
        assert_eq!(cpus("0,2-5").unwrap().0, [0, 2, 3, 4, 5]);
        assert_eq!(cpus("5,0-1").unwrap().0, [5, 0, 1]);
        for text in [
            "",
            ",",
            "1-",
            "-1",
            "3-1",
            "1,1",
            "0-2,1",
            "8192",
            "0-4294967295",
            "+1",
        ] {
            assert!(cpus(text).is_err(), "{text}");
        }
        assert_eq!(parse_number("100").unwrap(), 100);
        for text in ["", "1,", "+1", "-1", "1 ", "4294967296", "1K", "\u{661}"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_have_no_port() {
        for text in ["10.0.0.1", "::1", "[::1]"] {
            parse_address(text).unwrap();
        }
        for text in ["", "10.0.0.1:5", "[::1]:5", "[10.0.0.1]", "[::1", "host"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn port_ranges_are_ordered() {
        let range = |text: &str| text.parse::<PortRange>();
        assert_eq!(
            range("5302").unwrap(),
            PortRange {
                first: 5302,
                last: 5302
            }
        );
        assert_eq!(range("1-65535").unwrap().len(), 65535);
        assert!(range("10-20").unwrap().contains(20) && !range("10-20").unwrap().contains(21));
        for text in ["", "0", "0-5", "6-5", "65536", "1-2-3", "a-b", "+1"] {
            assert!(range(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_lists_read_back(
            set in proptest::collection::btree_set(0u32..8192, 1..40), ends: (u16, u16),
        ) {
            let mut cpus: Vec<u32> = set.into_iter().collect();
            let turn = usize::from(ends.0) % cpus.len();
            cpus.rotate_left(turn);
            let list = CpuList(cpus);
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
            let (first, last) = (ends.0.min(ends.1).max(1), ends.0.max(ends.1).max(1));
            let range = PortRange { first, last };
            prop_assert_eq!(range.to_string().parse::<PortRange>().unwrap(), range);
        }

        #[test]
        fn any_text_is_a_list_or_an_error(text in "[0-9,-]{0,40}|.{0,20}") {
            let _ = text.parse::<CpuList>();
            let _ = text.parse::<PortRange>();
            let _ = parse_number(&text);
            let _ = parse_address(&text);
        }
    }
}

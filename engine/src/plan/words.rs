//! The words for the plan's choices, read and printed from one table each.

use std::fmt;
use std::str::FromStr;

use super::{
    CloseKind, Engine, Family, ProbeUse, Proto, Receive, RingFlags, SourcePorts, Test, Wait,
    ZeroCopy,
};
use crate::units::{ParseError, PortRange};

macro_rules! words {
    ($kind:ty, $what:literal, $($word:literal => $value:path),+) => {
        impl FromStr for $kind {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                match text {
                    $($word => Ok($value),)+
                    _ => {
                        let known = [$($word),+].join(", ");
                        Err(ParseError::new($what, text, format!("choose from {known}")))
                    }
                }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($value => $word,)+
                })
            }
        }
    };
}

words!(Proto, "a protocol", "tcp" => Proto::Tcp, "udp" => Proto::Udp);
words!(
    Test, "a test",
    "stream" => Test::Stream, "reverse" => Test::Reverse, "bidir" => Test::Bidir,
    "rr" => Test::Rr, "crr" => Test::Crr
);
words!(
    Family, "an address family",
    "4" => Family::V4, "6" => Family::V6, "any" => Family::Any
);
words!(
    Wait, "a way to wait",
    "sleep" => Wait::Sleep, "spin" => Wait::Spin, "adaptive" => Wait::Adaptive
);
words!(
    Engine, "an engine",
    "auto" => Engine::Auto, "io_uring" => Engine::IoUring, "sockets" => Engine::Sockets
);
words!(
    ProbeUse, "a use of the probes",
    "auto" => ProbeUse::Auto, "on" => ProbeUse::On, "off" => ProbeUse::Off,
    "only" => ProbeUse::Only
);
words!(
    Receive, "a way to receive",
    "copy" => Receive::Copy, "discard" => Receive::Discard
);
words!(
    RingFlags, "a set of ring flags",
    "defer" => RingFlags::Defer, "coop" => RingFlags::Coop, "none" => RingFlags::None
);
words!(
    ZeroCopy, "a way to send without copies",
    "send" => ZeroCopy::Send, "msg" => ZeroCopy::Msg, "file" => ZeroCopy::File
);
words!(CloseKind, "a way to close", "fin" => CloseKind::Fin, "rst" => CloseKind::Rst);

impl FromStr for SourcePorts {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<SourcePorts, ParseError> {
        match text {
            "fresh" => Ok(SourcePorts::Fresh),
            "fixed" => Ok(SourcePorts::Fixed),
            _ => {
                let range: PortRange = text.parse().map_err(|_| {
                    ParseError::new(
                        "a choice of source ports",
                        text,
                        "choose fresh, fixed, or ports A-B from 1 to 65535",
                    )
                })?;
                Ok(SourcePorts::Range {
                    first: range.first,
                    last: range.last,
                })
            }
        }
    }
}

impl fmt::Display for SourcePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SourcePorts::Fresh => f.write_str("fresh"),
            SourcePorts::Fixed => f.write_str("fixed"),
            SourcePorts::Range { first, last } => PortRange { first, last }.fmt(f),
        }
    }
}

impl Test {
    /// Whether it is request and response.
    pub fn is_rr(self) -> bool {
        matches!(self, Test::Rr | Test::Crr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for word in ["stream", "reverse", "bidir", "rr", "crr"] {
            assert_eq!(word.parse::<Test>().unwrap().to_string(), word);
        }
        for word in ["fresh", "fixed", "7", "40000-40099"] {
            assert_eq!(word.parse::<SourcePorts>().unwrap().to_string(), word);
        }
        for word in ["4", "6", "any"] {
            assert_eq!(word.parse::<Family>().unwrap().to_string(), word);
        }
        let error = "TCP".parse::<Proto>().unwrap_err().to_string();
        assert_eq!(error, "\"TCP\" is not a protocol: choose from tcp, udp");
    }
}

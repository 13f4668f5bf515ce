//! What the engine chooses by itself from the case, given by hand for a comparison.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{ParseError, parse_size, print_size};

/// Choices of the engine that are given; none leaves one to the engine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct Tuning {
    /// Completions are gathered for so long once one is there, microseconds (io_uring); 0 is off.
    pub min_wait_us: Option<u32>,
    /// A receiver of a TCP stream is woken when so many bytes are there (SO_RCVLOWAT); 0 leaves
    /// the socket alone.
    pub low_water_bytes: Option<u32>,
    /// Receive buffers of each worker.
    pub receive_buffers: Option<ReceiveBuffers>,
    /// Sockets are in the ring's own table of files (io_uring).
    pub fixed_files: Option<bool>,
    /// The ring's set-up flags (io_uring).
    pub ring_flags: Option<RingFlags>,
    /// Payload and buffers are in huge pages; the engine never takes them by itself.
    pub huge_pages: bool,
}

/// Receive buffers of a worker.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ReceiveBuffers {
    /// How many; one is shared by all flows, of several the kernel picks one for each arrival.
    pub count: u32,
    /// Bytes of each.
    pub bytes: u32,
}

/// How far a ring's set-up flags go.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[serde(rename_all = "lowercase")]
pub enum RingFlags {
    /// SINGLE_ISSUER and DEFER_TASKRUN, and NO_SQARRAY where it is known.
    Defer,
    /// COOP_TASKRUN.
    Coop,
    /// None.
    None,
}

impl Tuning {
    /// Words for the case's name.
    pub(super) fn words(&self) -> Vec<String> {
        let us = |us: u32| match us {
            0 => "min-wait=off".to_string(),
            us => format!("min-wait={us}us"),
        };
        let bytes = |bytes: u32| match bytes {
            0 => "low-water=off".to_string(),
            bytes => format!("low-water={}", print_size(u64::from(bytes))),
        };
        let switch = |on: bool| if on { "on" } else { "off" };
        [
            self.min_wait_us.map(us),
            self.low_water_bytes.map(bytes),
            self.receive_buffers
                .map(|buffers| format!("receive-buffers={buffers}")),
            self.fixed_files
                .map(|on| format!("fixed-files={}", switch(on))),
            self.ring_flags.map(|flags| format!("ring-flags={flags}")),
            self.huge_pages.then(|| "huge-pages".to_string()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl FromStr for ReceiveBuffers {
    type Err = ParseError;

    /// Reads `64x16K`.
    fn from_str(text: &str) -> Result<ReceiveBuffers, ParseError> {
        let wrong = || {
            let reason = "write how many and of what size, such as 64x16K";
            ParseError::new("a number of buffers", text, reason)
        };
        let (count, bytes) = text.split_once('x').ok_or_else(wrong)?;
        let bytes = u32::try_from(parse_size(bytes)?).map_err(|_| wrong())?;
        let count = count.parse().map_err(|_| wrong())?;
        Ok(ReceiveBuffers { count, bytes })
    }
}

impl fmt::Display for ReceiveBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, print_size(u64::from(self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_read_back() {
        for text in ["1x1M", "64x16K", "4096x100"] {
            assert_eq!(text.parse::<ReceiveBuffers>().unwrap().to_string(), text);
        }
        for text in ["", "64", "x", "64x", "x16K", "-1x16K", "64x16Kx2", "1x8G"] {
            assert!(text.parse::<ReceiveBuffers>().is_err(), "{text}");
        }
    }
}

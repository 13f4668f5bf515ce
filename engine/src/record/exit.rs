//! Exit codes.

/// Everything went well.
pub const OK: u8 = 0;
/// A comparison or a threshold failed.
pub const THRESHOLD: u8 = 1;
/// Usage or plan error.
pub const USAGE: u8 = 2;
/// No data.
pub const NO_DATA: u8 = 3;
/// The other side, a back end, a case or the own output failed.
pub const FAILED: u8 = 4;
/// This host cannot run it: a limit or a privilege is missing.
pub const HOST: u8 = 5;
/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM.
pub const TERMINATED: u8 = 143;

/// From the one that hides the others to the one that all others hide.
const ORDER: [u8; 7] = [
    INTERRUPTED,
    TERMINATED,
    HOST,
    USAGE,
    FAILED,
    NO_DATA,
    THRESHOLD,
];

/// The exit code that stands for several: a signal, then the first of 5, 2, 4, 3, 1. A code that
/// is none of these counts as 4, so that no failure ends as success.
pub fn worst(codes: &[u8]) -> u8 {
    let known = |code: u8| {
        if code == OK || ORDER.contains(&code) {
            code
        } else {
            FAILED
        }
    };
    let found: Vec<u8> = codes.iter().copied().map(known).collect();
    ORDER
        .into_iter()
        .find(|code| found.contains(code))
        .unwrap_or(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_5_2_4_3_1() {
        for (codes, worst_of) in [
            (&[][..], 0),
            (&[0, 0], 0),
            (&[0, 1], 1),
            (&[1, 3], 3),
            (&[3, 4, 1], 4),
            (&[4, 2, 3], 2),
            (&[2, 5, 4], 5),
            (&[5, 130], 130),
            (&[4, 143], 143),
            (&[0, 77, 3], 4),
        ] {
            assert_eq!(worst(codes), worst_of, "{codes:?}");
        }
    }
}

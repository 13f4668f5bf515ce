use std::collections::HashSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// The plain model of one phase: keeps every arrival.
#[derive(Default)]
struct Model {
    /// Distinct numbers in order of arrival.
    order: Vec<u64>,
    seen: HashSet<u64>,
    next: u64,
    duplicated: u64,
    reordered: u64,
    late: u64,
    extent_max: u64,
}

impl Model {
    fn arrived(&mut self, sequence: u64) -> Arrival {
        if sequence == u64::MAX || (sequence < self.next && self.next - sequence > WINDOW) {
            self.late += 1;
            return Arrival::Late;
        }
        if !self.seen.insert(sequence) {
            self.duplicated += 1;
            return Arrival::Duplicate;
        }
        let first_higher = self.order.iter().position(|&other| other > sequence);
        self.order.push(sequence);
        match first_higher {
            Some(first) => {
                self.reordered += 1;
                self.extent_max = self.extent_max.max((self.order.len() - 1 - first) as u64);
                Arrival::Reordered
            }
            None => {
                self.next = sequence + 1;
                Arrival::Fresh
            }
        }
    }
}

fn check(tracker: &Tracker, models: &[Model; 3]) {
    let account = tracker.account();
    for (phase, model) in models.iter().enumerate() {
        assert_eq!(account.highest[phase], model.next, "highest");
        assert_eq!(
            account.received[phase],
            model.order.len() as u64,
            "received"
        );
        let gaps = model.next - model.order.len() as u64;
        assert_eq!(account.gaps[phase], gaps, "gaps");
        assert_eq!(account.duplicated[phase], model.duplicated, "duplicated");
        assert_eq!(account.reordered[phase], model.reordered, "reordered");
        assert_eq!(account.late[phase], model.late, "late");
    }
    assert_eq!(account.extent_max, models[1].extent_max, "extent");
}

/// Arrivals as a network would make them of `sent` datagrams: (drop, duplicate, hold) in percent.
fn network(seed: u64, sent: u64, percent: (u64, u64, u64), hold_max: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut keyed = Vec::new();
    for sequence in 0..sent {
        if random(100) < percent.0 {
            continue;
        }
        let copies = 1 + u64::from(random(100) < percent.1);
        for _ in 0..copies {
            let hold = if random(100) < percent.2 {
                random(hold_max) + 1
            } else {
                0
            };
            keyed.push((sequence + hold, sequence));
        }
    }
    keyed.sort_by_key(|&(at, _)| at);
    keyed.into_iter().map(|(_, sequence)| sequence).collect()
}

/// One arrival of a hostile or unlucky script, relative to the highest number so far.
fn step() -> impl Strategy<Value = (usize, i64)> {
    let distance = prop_oneof![
        6 => -4i64..8,
        3 => -200i64..200,
        2 => -70_000i64..70_000,
        1 => Just(WINDOW as i64),
        1 => Just(WINDOW as i64 + 1),
        1 => Just(-(WINDOW as i64)),
        1 => Just(-(WINDOW as i64) - 1),
        1 => 0i64..5_000_000_000,
    ];
    (0usize..3, distance)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn tracker_agrees_with_the_model(steps in prop::collection::vec(step(), 1..400)) {
        let mut tracker = Tracker::new();
        let mut models = <[Model; 3]>::default();
        for (phase, distance) in steps {
            let sequence = models[phase].next.saturating_add_signed(distance);
            let expected = models[phase].arrived(sequence);
            prop_assert_eq!(tracker.arrived(Phase::ALL[phase], sequence), expected);
        }
        check(&tracker, &models);
    }

    #[test]
    fn a_network_that_drops_duplicates_and_reorders_is_accounted_for_exactly(
        seed in any::<u64>(),
        drop in 0u64..40,
        duplicate in 0u64..40,
        hold in 0u64..40,
        hold_max in 1u64..300,
    ) {
        let sent = 3_000;
        let mut tracker = Tracker::new();
        let mut models = <[Model; 3]>::default();
        for sequence in network(seed, sent, (drop, duplicate, hold), hold_max) {
            models[1].arrived(sequence);
            tracker.arrived(Phase::Window, sequence);
        }
        check(&tracker, &models);
        let account = tracker.account();
        let tail = sent - account.highest[1];
        prop_assert_eq!(sent, account.received[1] + account.gaps[1] + tail);
        prop_assert_eq!(account.late[1], 0);
    }

    #[test]
    fn header_survives_the_wire(
        session in any::<u32>(), flow in 0..=MAX_FLOW, phase in 0usize..3,
        sequence in any::<u64>(), stamp_ns in any::<u64>(),
    ) {
        let header = Header { session, flow, phase: Phase::ALL[phase], sequence, stamp_ns };
        let mut bytes = [0; 40];
        header.encode(&mut bytes);
        prop_assert_eq!(Header::decode(&bytes), Some(header));
        prop_assert_eq!(&bytes[24..], &[0; 16], "nothing beyond the header is touched");
    }

    #[test]
    fn decoding_anything_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let decoded = Header::decode(&bytes);
        let readable = bytes.len() >= HEADER_BYTES && bytes[7] <= 2;
        prop_assert_eq!(decoded.is_some(), readable);
    }
}

#[test]
fn header_has_the_documented_layout() {
    let header = Header {
        session: 0x0102_0304,
        flow: 0x0005_0607,
        phase: Phase::After,
        sequence: 0x1112_1314_1516_1718,
        stamp_ns: 0x2122_2324_2526_2728,
    };
    let mut bytes = [0; HEADER_BYTES];
    header.encode(&mut bytes);
    let expected = [
        1, 2, 3, 4, 5, 6, 7, 2, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23,
        0x24, 0x25, 0x26, 0x27, 0x28,
    ];
    assert_eq!(bytes, expected);
}

/// The promise is 64 Ki numbers, whatever the constant says.
#[test]
fn copies_are_known_over_65536_numbers_and_no_further() {
    let mut tracker = Tracker::new();
    for sequence in 0..100_000 {
        tracker.arrived(Phase::Window, sequence);
    }
    assert_eq!(
        tracker.arrived(Phase::Window, 100_000 - 65_536),
        Arrival::Duplicate
    );
    assert_eq!(
        tracker.arrived(Phase::Window, 100_000 - 65_537),
        Arrival::Late
    );
    let account = tracker.account();
    assert_eq!((account.duplicated[1], account.late[1]), (1, 1));
    assert_eq!((account.received[1], account.gaps[1]), (100_000, 0));
}

#[test]
fn the_window_slides_over_many_times_its_size() {
    let mut tracker = Tracker::new();
    let sent = 5 * WINDOW + 17;
    // Every seventh is lost, every eleventh comes 40 later.
    let mut held = std::collections::VecDeque::new();
    let (mut lost, mut received, mut reordered) = (0, 0, 0);
    for sequence in 0..sent {
        if sequence % 7 == 3 {
            lost += 1;
        } else if sequence % 11 == 5 {
            held.push_back(sequence);
        } else {
            received += 1;
            assert_eq!(tracker.arrived(Phase::Window, sequence), Arrival::Fresh);
        }
        if held.front().is_some_and(|&first| first + 40 <= sequence) {
            let first = held.pop_front().expect("looked at above");
            received += 1;
            reordered += 1;
            assert_eq!(tracker.arrived(Phase::Window, first), Arrival::Reordered);
        }
    }
    lost += held.len() as u64;
    let account = tracker.account();
    assert_eq!(account.received[1], received);
    assert_eq!(account.reordered[1], reordered);
    assert_eq!(account.gaps[1] + (sent - account.highest[1]), lost);
    assert_eq!(
        account.received[0] + account.received[2],
        0,
        "phases are apart"
    );
}

#[test]
fn every_other_number_missing_for_several_windows_fits_the_jumps() {
    let mut tracker = Tracker::new();
    let pairs = 3 * WINDOW / 2;
    for pair in 0..pairs {
        assert_eq!(tracker.arrived(Phase::Window, 2 * pair + 1), Arrival::Fresh);
    }
    // The gaps of the last window are filled, newest first; the oldest came 32768 jumps ago.
    let next = 2 * pairs;
    let mut filled = 0;
    for step in 1..=WINDOW / 2 {
        let sequence = next - 2 * step;
        filled += 1;
        assert_eq!(tracker.arrived(Phase::Window, sequence), Arrival::Reordered);
        let jump = sequence / 2 + 1;
        let extent = pairs + filled - jump;
        assert_eq!(tracker.account().extent_max, extent);
    }
    assert_eq!(filled, WINDOW / 2);
    assert_eq!(
        tracker.account().gaps[1],
        next - WINDOW - (pairs - WINDOW / 2)
    );
}

#[test]
fn hostile_numbers_take_no_time_and_keep_the_account_whole() {
    let begun = Instant::now();
    let mut tracker = Tracker::new();
    assert_eq!(tracker.arrived(Phase::Window, u64::MAX), Arrival::Late);
    assert_eq!(tracker.arrived(Phase::Window, 0), Arrival::Fresh);
    assert_eq!(tracker.arrived(Phase::Window, u64::MAX - 1), Arrival::Fresh);
    assert_eq!(tracker.arrived(Phase::Window, 1), Arrival::Late);
    assert_eq!(
        tracker.arrived(Phase::Window, u64::MAX - 2),
        Arrival::Reordered
    );
    assert_eq!(
        tracker.arrived(Phase::Window, u64::MAX - 2),
        Arrival::Duplicate
    );
    let account = tracker.account();
    assert_eq!(account.highest[1], u64::MAX);
    assert_eq!(account.received[1], 3);
    assert_eq!(account.gaps[1], u64::MAX - 3);
    assert_eq!(account.late[1], 2);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn jitter_of_even_spacing_is_zero_whatever_the_delay() {
    let mut jitter = Jitter::new();
    assert_eq!(jitter.value_ns(), None);
    for i in 0..1000u64 {
        jitter.arrived(5_000 + i * 1_000, 77_000_000 + i * 1_000);
    }
    assert_eq!(jitter.value_ns(), Some(0.0));
    assert_eq!(jitter.weight(), 999);
}

#[test]
fn jitter_approaches_a_constant_deviation() {
    // Alternately 0 and 800 ns late: the spacing deviates by 800 ns each time.
    let mut jitter = Jitter::new();
    jitter.arrived(0, 0);
    jitter.arrived(1_000, 1_800);
    assert_eq!(
        jitter.value_ns(),
        Some(50.0),
        "the first difference weighs a sixteenth"
    );
    for i in 2..2_000u64 {
        jitter.arrived(i * 1_000, i * 1_000 + 800 * (i % 2));
    }
    let value = jitter.value_ns().expect("many differences");
    assert!((value - 800.0).abs() < 0.001, "{value}");
}

#[test]
fn jitter_takes_datagrams_in_order_of_arrival() {
    // A reordered pair: sent 1000 ns apart backwards, received 100 ns apart.
    let mut jitter = Jitter::new();
    jitter.arrived(2_000, 10_000);
    jitter.arrived(1_000, 10_100);
    assert_eq!(jitter.value_ns(), Some(1_100.0 / 16.0));
}

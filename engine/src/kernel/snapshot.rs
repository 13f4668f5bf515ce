//! What the maps say at one moment, and the difference of two.

use std::collections::BTreeMap;

use ringperf_ebpf::layout::{self, Event, Stage};

use super::KernelError;
use super::maps::{Maps, in_map};
use crate::record::OursAndSystem;

/// Counts by the programs' own numbers: since the load, or between two moments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Segments dropped by (reason, location).
    pub(super) drops: BTreeMap<[u64; 2], OursAndSystem>,
    /// Segments retransmitted by (flow, cause).
    pub(super) retransmits: BTreeMap<[u64; 2], u64>,
    /// Count, sum and buckets of each stage that was asked for, by index.
    pub(super) stages: BTreeMap<u32, Vec<u64>>,
    /// Plain counts, by index.
    pub(super) events: Vec<u64>,
}

impl Snapshot {
    /// Reads the maps. The programs go on counting meanwhile: what they count in between is in
    /// this snapshot or in the next.
    pub(super) fn read(maps: &Maps, histograms: bool) -> Result<Snapshot, KernelError> {
        let mut now = Snapshot::default();
        for entry in maps.drops.iter() {
            let (key, values) = entry.map_err(in_map(layout::MAP_DROPS))?;
            let sum = now.drops.entry(key).or_default();
            for [ours, system] in values.iter() {
                sum.ours += ours;
                sum.system += system;
            }
        }
        for entry in maps.retransmits.iter() {
            let (key, values) = entry.map_err(in_map(layout::MAP_RETRANSMITS))?;
            now.retransmits.insert(key, values.iter().sum());
        }
        for index in 0..Event::ALL.len() as u32 * 2 {
            let values = maps
                .events
                .get(&index, 0)
                .map_err(in_map(layout::MAP_EVENTS))?;
            now.events.push(values.iter().sum());
        }
        let indices = 0..if histograms {
            Stage::ALL.len() as u32 * 4
        } else {
            0
        };
        for index in indices {
            let values = maps
                .stages
                .get(&index, 0)
                .map_err(in_map(layout::MAP_STAGES))?;
            let mut sum = vec![0; layout::STAGE_WORDS];
            values.iter().for_each(|value| add(&mut sum, value));
            now.stages.insert(index, sum);
        }
        Ok(now)
    }

    /// What was counted since `earlier`; what did not move is left out.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let mut delta = Snapshot::default();
        for (key, now) in &self.drops {
            let before = earlier.drops.get(key).copied().unwrap_or_default();
            let moved = OursAndSystem {
                ours: now.ours.saturating_sub(before.ours),
                system: now.system.saturating_sub(before.system),
            };
            if moved.system > 0 {
                delta.drops.insert(*key, moved);
            }
        }
        for (key, now) in &self.retransmits {
            let moved = now - earlier.retransmits.get(key).unwrap_or(&0).min(now);
            if moved > 0 {
                delta.retransmits.insert(*key, moved);
            }
        }
        delta.events = difference(&self.events, &earlier.events);
        for (index, now) in &self.stages {
            let before = earlier.stages.get(index).map_or(&[][..], Vec::as_slice);
            delta.stages.insert(*index, difference(now, before));
        }
        delta
    }

    /// Adds another interval.
    pub fn add(&mut self, other: &Snapshot) {
        for (key, moved) in &other.drops {
            let sum = self.drops.entry(*key).or_default();
            sum.ours += moved.ours;
            sum.system += moved.system;
        }
        for (key, moved) in &other.retransmits {
            *self.retransmits.entry(*key).or_default() += moved;
        }
        add(&mut self.events, &other.events);
        for (index, moved) in &other.stages {
            add(self.stages.entry(*index).or_default(), moved);
        }
    }

    /// One of the plain counts.
    pub(super) fn event(&self, event: Event) -> OursAndSystem {
        let at = |index: u32| self.events.get(index as usize).copied().unwrap_or(0);
        OursAndSystem {
            ours: at(event.ours()),
            system: at(event.system()),
        }
    }
}

/// Adds word by word.
fn add(sum: &mut Vec<u64>, other: &[u64]) {
    sum.resize(sum.len().max(other.len()), 0);
    for (sum, moved) in sum.iter_mut().zip(other) {
        *sum += moved;
    }
}

/// How far each word moved.
fn difference(now: &[u64], before: &[u64]) -> Vec<u64> {
    let before = before.iter().chain(std::iter::repeat(&0));
    now.iter()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(*before))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(ours: u64, system: u64, events: &[u64]) -> Snapshot {
        let mut snapshot = Snapshot {
            events: events.to_vec(),
            ..Snapshot::default()
        };
        snapshot
            .drops
            .insert([2, 0xff], OursAndSystem { ours, system });
        snapshot.retransmits.insert([1, 4], ours);
        snapshot
    }

    #[test]
    fn intervals_add_up_to_the_window() {
        let moments = [
            counted(1, 2, &[1, 1]),
            counted(4, 9, &[1, 5]),
            counted(9, 20, &[2, 6]),
        ];
        let mut sum = Snapshot::default();
        for pair in moments.windows(2) {
            sum.add(&pair[1].since(&pair[0]));
        }
        assert_eq!(sum, moments[2].since(&moments[0]));
        assert_eq!(
            sum.drops[&[2, 0xff]],
            OursAndSystem {
                ours: 8,
                system: 18
            }
        );
        assert_eq!(
            sum.event(Event::ResetSent),
            OursAndSystem { ours: 1, system: 5 }
        );
    }

    #[test]
    fn what_did_not_move_is_left_out() {
        let still = counted(1, 2, &[1, 1]);
        let delta = still.since(&still);
        assert!(delta.drops.is_empty() && delta.retransmits.is_empty());
    }
}

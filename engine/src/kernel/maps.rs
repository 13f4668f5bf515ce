//! The maps of the programs, typed, and what says whose a packet is.

use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, SkStorage};
use nix::sys::socket::{SockaddrLike, SockaddrStorage, getsockname};
use ringperf_ebpf::layout;

use super::KernelError;

/// Which flow a socket belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowTag {
    /// Group of traffic.
    pub group: u32,
    /// Flow number within its group.
    pub flow: u32,
}

impl FlowTag {
    /// As the programs carry it.
    fn number(self) -> u64 {
        u64::from(self.group) << 32 | u64::from(self.flow)
    }

    /// From what the programs carry; none for the two numbers that stand for no flow.
    pub(super) fn from_number(number: u64) -> Option<FlowTag> {
        let known = number != layout::FLOW_OTHER && number != layout::FLOW_BY_PORT;
        known.then_some(FlowTag {
            group: (number >> 32) as u32,
            flow: number as u32,
        })
    }
}

/// Where the stamps of a socket go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of its record, where it has one.
    pub record: Option<u64>,
    /// Number of the worker that drives it.
    pub worker: u32,
}

/// The maps, owned: the kernel frees them with the last descriptor.
pub(super) struct Maps {
    flows: SkStorage<MapData, u64>,
    ports: Array<MapData, u64>,
    port_words: Vec<u64>,
    namespaces: HashMap<MapData, u64, u64>,
    places: SkStorage<MapData, [u64; 2]>,
    threads: Array<MapData, [u64; 2]>,
    /// To be mapped into memory, like the next.
    pub(super) records: MapData,
    pub(super) workers: MapData,
    pub(super) drops: PerCpuHashMap<MapData, [u64; 2], [u64; 2]>,
    pub(super) retransmits: PerCpuHashMap<MapData, [u64; 2], u64>,
    pub(super) events: PerCpuArray<MapData, u64>,
    pub(super) stages: PerCpuArray<MapData, [u64; layout::STAGE_WORDS]>,
}

impl Maps {
    /// Takes the maps out of a loaded object.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Maps, KernelError> {
        Ok(Maps {
            flows: take(ebpf, layout::MAP_FLOWS)?,
            ports: take(ebpf, layout::MAP_PORTS)?,
            port_words: vec![0; layout::PORT_WORDS as usize],
            namespaces: take(ebpf, layout::MAP_NAMESPACES)?,
            places: take(ebpf, layout::MAP_PLACES)?,
            threads: take(ebpf, layout::MAP_THREADS)?,
            records: take_array(ebpf, layout::MAP_RECORDS)?,
            workers: take_array(ebpf, layout::MAP_WORKERS)?,
            drops: take(ebpf, layout::MAP_DROPS)?,
            retransmits: take(ebpf, layout::MAP_RETRANSMITS)?,
            events: take(ebpf, layout::MAP_EVENTS)?,
            stages: take(ebpf, layout::MAP_STAGES)?,
        })
    }

    /// Marks a socket, and those it will accept, as a flow's; and its port as ours.
    pub(super) fn follow(
        &mut self,
        socket: BorrowedFd<'_>,
        tag: FlowTag,
    ) -> Result<(), KernelError> {
        self.flows
            .insert(&socket, tag.number(), 0)
            .map_err(in_map(layout::MAP_FLOWS))?;
        self.follow_own_port(socket)
    }

    /// Gives a socket, and those it will accept, a place for its stamps; and its port as ours.
    pub(super) fn place(
        &mut self,
        socket: BorrowedFd<'_>,
        place: Place,
    ) -> Result<(), KernelError> {
        let record = place.record.unwrap_or(layout::NO_RECORD);
        self.places
            .insert(&socket, [record, u64::from(place.worker)], 0)
            .map_err(in_map(layout::MAP_PLACES))?;
        self.follow_own_port(socket)
    }

    /// Says that a thread is a worker. False where another one is in its place.
    pub(super) fn follow_thread(&mut self, thread: u32, worker: u32) -> Result<bool, KernelError> {
        let index = thread & (layout::THREADS - 1);
        let there = self.threads.get(&index, 0);
        let [number, _] = there.map_err(in_map(layout::MAP_THREADS))?;
        if number != 0 && number != u64::from(thread) {
            return Ok(false);
        }
        let entry = [u64::from(thread), u64::from(worker)];
        self.threads
            .set(index, entry, 0)
            .map_err(in_map(layout::MAP_THREADS))?;
        Ok(true)
    }

    fn follow_own_port(&mut self, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        let address = getsockname::<SockaddrStorage>(socket.as_raw_fd())?;
        match port(&address) {
            Some(port) => self.follow_port(port),
            None => Ok(()),
        }
    }

    /// Marks a port as ours in our namespaces.
    pub(super) fn follow_port(&mut self, port: u16) -> Result<(), KernelError> {
        let index = port >> 6;
        let Some(word) = self.port_words.get_mut(usize::from(index)) else {
            return Ok(());
        };
        let bit = 1 << (port & 63);
        if *word & bit != 0 {
            return Ok(());
        }
        *word |= bit;
        self.ports
            .set(u32::from(index), *word, 0)
            .map_err(in_map(layout::MAP_PORTS))
    }

    /// Marks a network namespace as one of ours.
    pub(super) fn follow_namespace(&mut self, inode: u32) -> Result<(), KernelError> {
        self.namespaces
            .insert(u64::from(inode), 1, 0)
            .map_err(in_map(layout::MAP_NAMESPACES))
    }
}

pub(super) fn in_map(name: &'static str) -> impl Fn(MapError) -> KernelError {
    move |source| KernelError::Map { name, source }
}

/// The port of an address, where it has one and is bound.
fn port(address: &SockaddrStorage) -> Option<u16> {
    let four = address.as_sockaddr_in().map(|a| a.port());
    let port = four.or_else(|| address.as_sockaddr_in6().map(|a| a.port()));
    port.filter(|port| *port != 0 && address.family().is_some())
}

/// Takes one map by its name and type.
fn take<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, KernelError>
where
    T: TryFrom<Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or_else(|| KernelError::Layout {
        name,
        text: "it is not there".to_string(),
    })?;
    T::try_from(map).map_err(|e| KernelError::Layout {
        name,
        text: e.to_string(),
    })
}

/// Takes an array as it is.
fn take_array(ebpf: &mut Ebpf, name: &'static str) -> Result<MapData, KernelError> {
    match ebpf.take_map(name) {
        Some(Map::Array(data)) => Ok(data),
        _ => Err(KernelError::Layout {
            name,
            text: "it is no array, or not there".to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_the_boundary() {
        let tag = FlowTag {
            group: 3,
            flow: 70_000,
        };
        assert_eq!(FlowTag::from_number(tag.number()), Some(tag));
        assert_eq!(FlowTag::from_number(layout::FLOW_OTHER), None);
        assert_eq!(FlowTag::from_number(layout::FLOW_BY_PORT), None);
    }
}

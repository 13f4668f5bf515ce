//! The stages of a transaction, in the order of its way.

/// Which message of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Response,
}

/// A stretch of one message's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Step {
    /// From the worker's decision to the socket (TCP) or to the device's queue (UDP).
    Submit,
    /// From the socket to the device's queue (TCP).
    Stack,
    /// Held back on purpose until the time of departure that pacing set.
    Paced,
    /// In the queueing discipline.
    Queue,
    /// From the driver to the receive path of the other side on the same host.
    Wire,
    /// From the receive path to the socket's queue.
    Receive,
    /// In the socket's queue while the worker ran.
    SocketQueue,
    /// Until the sleeping worker was woken.
    WakeUp,
    /// From there until the worker ran.
    RunQueue,
    /// From there until the data was copied to it.
    Copy,
}

/// Steps of one way.
const STEPS: usize = 10;

/// Stages of a transaction.
pub const STAGES: usize = 2 * STEPS + 3;

/// A stage: one step of one way, or what comes between and after the two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stage(u8);

impl Stage {
    /// The server's own time: from the copied request to the answer given to its kernel.
    pub const APPLICATION: Stage = Stage(STEPS as u8);
    /// From the client's driver to its receive path: the network and the other host.
    pub const ELSEWHERE: Stage = Stage(2 * STEPS as u8 + 1);
    /// From the copied answer until the client's worker has it.
    pub const COMPLETION: Stage = Stage(2 * STEPS as u8 + 2);

    /// A step of a way.
    pub const fn of(way: Way, step: Step) -> Stage {
        match way {
            Way::Request => Stage(step as u8),
            Way::Response => Stage(STEPS as u8 + 1 + step as u8),
        }
    }

    /// Every stage, in the order of the way.
    pub fn all() -> impl Iterator<Item = Stage> {
        (0..STAGES as u8).map(Stage)
    }

    /// Its place in the order.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    fn step(self) -> Option<(Way, u8)> {
        let steps = STEPS as u8;
        match self.0 {
            n if n < steps => Some((Way::Request, n)),
            n if n > steps && n <= 2 * steps => Some((Way::Response, n - steps - 1)),
            _ => None,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; STEPS] = [
            "submit",
            "stack",
            "paced",
            "queue",
            "wire",
            "receive",
            "socket-queue",
            "wake-up",
            "run-queue",
            "copy",
        ];
        match self {
            Stage::APPLICATION => "application",
            Stage::ELSEWHERE => "network-and-server",
            Stage::COMPLETION => "completion",
            _ => self.step().map_or("", |(_, step)| NAMES[usize::from(step)]),
        }
    }

    /// Which message it is of; none for the application's own time and what has both.
    pub fn way(self) -> &'static str {
        match (self, self.step()) {
            (_, Some((Way::Request, _))) => "request",
            (_, Some((Way::Response, _))) => "response",
            (Stage::COMPLETION, None) => "response",
            _ => "",
        }
    }

    /// Where it is spent: `client`, `server`, or `between` them.
    pub fn side(self) -> &'static str {
        let wire = Step::Wire as u8;
        match (self, self.step()) {
            (_, Some((_, step))) if step == wire => "between",
            (_, Some((Way::Request, step))) if step < wire => "client",
            (_, Some((Way::Response, step))) if step > wire => "client",
            (Stage::COMPLETION, _) => "client",
            (Stage::ELSEWHERE, _) => "between",
            _ => "server",
        }
    }

    /// Held back on purpose: no fault of a queue.
    pub fn on_purpose(self) -> bool {
        self.step()
            .is_some_and(|(_, step)| step == Step::Paced as u8)
    }

    /// An alternative that most messages do not take: where none did, there is no line.
    pub(super) fn seldom(self, udp: bool) -> bool {
        self.on_purpose()
            || udp
                && self
                    .step()
                    .is_some_and(|(_, step)| step == Step::Stack as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_way() {
        let names: Vec<String> = Stage::all()
            .map(|s| format!("{} {} {}", s.side(), s.way(), s.name()))
            .collect();
        assert_eq!(names.len(), STAGES);
        assert_eq!(names[0], "client request submit");
        assert_eq!(names[4], "between request wire");
        assert_eq!(names[5], "server request receive");
        assert_eq!(names[STEPS], "server  application");
        assert_eq!(names[STEPS + 1], "server response submit");
        assert_eq!(names[15], "between response wire");
        assert_eq!(names[20], "client response copy");
        assert_eq!(names[22], "client response completion");
        let purpose: Vec<_> = Stage::all().filter(|s| s.on_purpose()).collect();
        assert_eq!(
            purpose,
            [Way::Request, Way::Response].map(|way| Stage::of(way, Step::Paced))
        );
    }
}

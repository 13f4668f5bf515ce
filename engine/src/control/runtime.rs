//! The one place that knows on which runtime the control plane is.
//!
//! tokio-uring's runtime is tokio's current-thread runtime with a ring beside it, so the futures
//! of the shells are tokio's and run on both.

use std::future::Future;
use std::io;

use io_uring::IoUring;
use tokio::task::LocalSet;

/// Entries of the control plane's ring.
const ENTRIES: u32 = 64;

/// Which runtime to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// tokio-uring where the kernel allows io_uring, else plain tokio.
    Auto,
    /// Plain tokio.
    Plain,
}

/// Which runtime was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Runtime {
    /// tokio-uring.
    TokioUring,
    /// Plain tokio.
    Tokio {
        /// Why not tokio-uring.
        reason: String,
    },
}

/// Runs a future to its end on this thread, on the runtime that this host allows. The future may
/// spawn local tasks; those left over are dropped at its end.
///
/// Fails where no runtime can be made (no descriptors left).
pub fn block_on<F, M>(choice: Choice, make: M) -> io::Result<F::Output>
where
    F: Future,
    M: FnOnce(Runtime) -> F,
{
    match refusal(&choice) {
        None => Ok(tokio_uring::builder()
            .entries(ENTRIES)
            .start(make(Runtime::TokioUring))),
        Some(reason) => {
            log::debug!("the control plane runs on plain tokio: {reason}");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let local = LocalSet::new();
            Ok(local.block_on(&runtime, make(Runtime::Tokio { reason })))
        }
    }
}

/// Why tokio-uring cannot be taken. Its start panics where io_uring is refused, so a ring of the
/// same size is tried first.
fn refusal(choice: &Choice) -> Option<String> {
    match choice {
        Choice::Plain => Some("asked for".to_string()),
        Choice::Auto => IoUring::new(ENTRIES)
            .err()
            .map(|error| format!("io_uring: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn timer_and_task() -> u32 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::task::spawn_local(async { 7 }).await.unwrap()
    }

    #[test]
    fn both_runtimes_run_the_same_future() {
        let plain = block_on(Choice::Plain, |runtime| async move {
            assert_eq!(
                runtime,
                Runtime::Tokio {
                    reason: "asked for".into()
                }
            );
            timer_and_task().await
        });
        assert_eq!(plain.unwrap(), 7);
        let auto = block_on(Choice::Auto, |runtime| async move {
            assert_eq!(
                runtime == Runtime::TokioUring,
                IoUring::new(ENTRIES).is_ok()
            );
            timer_and_task().await
        });
        assert_eq!(auto.unwrap(), 7);
    }
}

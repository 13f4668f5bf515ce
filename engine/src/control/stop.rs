//! The wish to stop, which a signal handler sends and every shell can wait for.

use std::sync::Arc;

use tokio::sync::watch;

/// Sends the wish. May be used from any thread; clones send the same one.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<watch::Sender<bool>>);

/// Waits for the wish; clones wait for the same one.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A connected pair.
pub fn channel() -> (StopHandle, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopHandle(Arc::new(sender)), Stop(receiver))
}

impl StopHandle {
    /// Everything that waits should stop; stays so.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns once the wish was sent; never, when the sender is gone without it.
    pub async fn wait(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the wish was sent.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }
}

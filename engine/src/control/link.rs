//! A control connection: a task that reads, a task that writes, messages on this side of both.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::frame::{Decoder, WireError, encode};
use super::wire::Message;

/// A frame that cannot be written within this means that nobody reads.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);
/// How long a closed connection waits for the other side's end, so that no reset destroys the
/// last words on their way.
const LINGER: Duration = Duration::from_secs(1);

/// What came from the other side.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// A message.
    Message(Message),
    /// No more will come, and why.
    Lost(String),
}

/// The sending end; dropping it sends what is queued and closes.
#[derive(Debug)]
pub(super) struct Link {
    queue: mpsc::UnboundedSender<Message>,
    _closing: oneshot::Sender<()>,
}

impl Link {
    /// Starts the two tasks in `tasks`. `decoder` holds what was read already; events go to
    /// `events` through `wrap`.
    pub(super) fn start<T, W>(
        stream: TcpStream,
        decoder: Decoder,
        tasks: &mut JoinSet<()>,
        events: mpsc::Sender<T>,
        wrap: W,
    ) -> Link
    where
        T: 'static,
        W: Fn(LinkEvent) -> T + 'static,
    {
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!("control connection: {error}");
        }
        let (reader, writer) = stream.into_split();
        let (queue, queued) = mpsc::unbounded_channel();
        let (closing, closed) = oneshot::channel();
        tasks.spawn_local(write(writer, queued));
        tasks.spawn_local(async move {
            let mut reader = reader;
            tokio::select! {
                () = read(&mut reader, decoder, &events, &wrap) => {}
                _ = closed => linger(&mut reader).await,
            }
        });
        Link {
            queue,
            _closing: closing,
        }
    }

    /// Queues a message; a connection that is gone reports itself by an event.
    pub(super) fn send(&self, message: Message) {
        if self.queue.send(message).is_err() {
            log::trace!("a message to a connection that is gone");
        }
    }
}

async fn read<T>(
    reader: &mut OwnedReadHalf,
    mut decoder: Decoder,
    events: &mpsc::Sender<T>,
    wrap: &impl Fn(LinkEvent) -> T,
) {
    let mut buffer = vec![0; 64 * 1024];
    let cause = loop {
        match decoder.next_message() {
            Ok(Some(message)) => {
                if events
                    .send(wrap(LinkEvent::Message(message)))
                    .await
                    .is_err()
                {
                    return;
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => break error.to_string(),
        }
        match reader.read(&mut buffer).await {
            Ok(0) => break "it closed the control connection".to_string(),
            Ok(length) => decoder.feed(&buffer[..length]),
            Err(error) => break format!("control connection: {error}"),
        }
    };
    // The receiver may have ended meanwhile, and then needs no news.
    let _unread = events.send(wrap(LinkEvent::Lost(cause))).await;
}

async fn linger(reader: &mut OwnedReadHalf) {
    let mut buffer = [0; 4096];
    let drain = async { while matches!(reader.read(&mut buffer).await, Ok(1..)) {} };
    if timeout(LINGER, drain).await.is_err() {
        log::trace!("a control connection was not closed by the other side");
    }
}

async fn write(mut writer: OwnedWriteHalf, mut queued: mpsc::UnboundedReceiver<Message>) {
    while let Some(message) = queued.recv().await {
        let frame = match encode_bounded(message) {
            Ok(frame) => frame,
            Err(error) => {
                log::warn!("a message was not sent: {error}");
                continue;
            }
        };
        match timeout(WRITE_PATIENCE, writer.write_all(&frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                log::debug!("control connection: {error}");
                return;
            }
            Err(_) => {
                log::debug!("control connection: the other side does not read");
                return;
            }
        }
    }
    if let Err(error) = writer.shutdown().await {
        log::trace!("control connection: {error}");
    }
}

/// A progress whose histograms are too large for a frame goes without them: the results bring
/// them whole.
fn encode_bounded(message: Message) -> Result<Vec<u8>, WireError> {
    match (encode(&message), message) {
        (Err(WireError::TooLong(_)), Message::Progress(mut progress)) => {
            progress.latency.clear();
            encode(&Message::Progress(progress))
        }
        (result, _) => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Progress;

    #[test]
    fn an_oversized_progress_goes_without_its_histograms() {
        let latency = vec![Some("A".repeat(300 * 1024))];
        let progress = Progress {
            index: 3,
            latency,
            ..Progress::default()
        };
        let frame = encode_bounded(Message::Progress(Box::new(progress))).unwrap();
        let mut decoder = Decoder::new();
        decoder.feed(&frame);
        let expected = Progress {
            index: 3,
            ..Progress::default()
        };
        let expected = Message::Progress(Box::new(expected));
        assert_eq!(decoder.next_message(), Ok(Some(expected)));
    }
}

//! New connections: a control connection, a flow, or a stranger, told apart by the first bytes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::{Event, Hello};
use crate::control::frame::{Decoder, encode, parse};
use crate::control::handshake::{Head, mismatch, next_frame};
use crate::control::hello::{TCP_HELLO, TCP_MAGIC, TcpHello};
use crate::control::wire::{Message, PROTOCOL};

/// A connection without a valid hello is dropped after this.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections that may be without a hello at once.
const STRANGERS: usize = 2048;
/// Pause after the process ran out of descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// Greets connections of one port; clones share the count.
#[derive(Clone)]
pub(super) struct Greeter {
    pub events: mpsc::Sender<Event>,
    pub version: String,
    pub waiting: Rc<Cell<usize>>,
}

/// Counts a connection without a hello for as long as it lives.
struct Guest(Rc<Cell<usize>>);

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Accepts until dropped, except while `paused`.
pub(super) async fn accept(
    listener: Rc<TcpListener>,
    port: usize,
    mut paused: watch::Receiver<bool>,
    greeter: Greeter,
) {
    loop {
        if paused.wait_for(|paused| !*paused).await.is_err() {
            return;
        }
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            changed = paused.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        match accepted {
            Ok((stream, _)) => greeter.welcome(stream, port),
            Err(error) => {
                log::debug!("accept: {error}");
                sleep(BREATH).await;
            }
        }
    }
}

impl Greeter {
    /// Starts reading the first bytes of a connection.
    pub(super) fn welcome(&self, stream: TcpStream, port: usize) {
        if self.waiting.get() >= STRANGERS {
            log::debug!("dropped a connection: {STRANGERS} others are without a hello");
            return;
        }
        self.waiting.set(self.waiting.get() + 1);
        let guest = Guest(self.waiting.clone());
        let greeter = self.clone();
        tokio::task::spawn_local(async move {
            let peer = stream
                .peer_addr()
                .map_or("a stranger".into(), |peer| peer.to_string());
            match timeout(PATIENCE, greeter.greet(stream, port)).await {
                Ok(Ok(())) => {}
                Ok(Err(cause)) => log::debug!("refused {peer}: {cause}"),
                Err(_) => log::debug!("refused {peer}: no valid hello within 2 s"),
            }
            drop(guest);
        });
    }

    async fn greet(&self, mut stream: TcpStream, port: usize) -> Result<(), String> {
        let mut first = [0; 4];
        stream
            .read_exact(&mut first)
            .await
            .map_err(|error| error.to_string())?;
        let event = if first == TCP_MAGIC {
            let mut bytes = [0; TCP_HELLO];
            bytes[..4].copy_from_slice(&first);
            stream
                .read_exact(&mut bytes[4..])
                .await
                .map_err(|error| error.to_string())?;
            let hello = TcpHello::decode(&bytes).ok_or("a flow of another protocol version")?;
            Event::Flow {
                stream,
                hello,
                port,
            }
        } else {
            let mut decoder = Decoder::new();
            decoder.feed(&first);
            let body = next_frame(&mut stream, &mut decoder).await?;
            let Some(hello) = self.read_hello(&mut stream, &body).await? else {
                return Ok(());
            };
            Event::Hello {
                stream,
                decoder,
                hello,
            }
        };
        self.events
            .send(event)
            .await
            .map_err(|_| "the server ends".to_string())
    }

    /// The hello; `None` after its version was refused.
    async fn read_hello(
        &self,
        stream: &mut TcpStream,
        body: &[u8],
    ) -> Result<Option<Hello>, String> {
        let head = Head::parse(body)?;
        if head.kind != "hello" {
            return Err(format!("the first message is {:?}, not a hello", head.kind));
        }
        if head.protocol != PROTOCOL {
            let client = (head.version.as_str(), head.protocol);
            let refused = Message::Refused(mismatch(client, (&self.version, PROTOCOL)));
            let frame = encode(&refused).map_err(|error| error.to_string())?;
            stream
                .write_all(&frame)
                .await
                .map_err(|error| error.to_string())?;
            stream.shutdown().await.map_err(|error| error.to_string())?;
            // Until the client closes, so that no reset destroys the refusal; the caller's
            // patience bounds it.
            let mut rest = [0; 1024];
            while matches!(stream.read(&mut rest).await, Ok(1..)) {}
            return Ok(None);
        }
        match parse(body).map_err(|error| error.to_string())? {
            Message::Hello {
                version,
                run,
                peer_timeout_ns,
                boot,
                ..
            } => Ok(Some(Hello {
                version,
                run,
                peer_timeout_ns,
                boot,
            })),
            _ => Err("the first message is not a hello".to_string()),
        }
    }
}

//! TCP connections pass through as they are.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

type Pairs = Arc<Mutex<Vec<(TcpStream, TcpStream)>>>;

/// Accepts and copies both ways; on drop all connections end.
pub(super) struct Proxy {
    stop: Arc<AtomicBool>,
    pairs: Pairs,
    accepting: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

impl Proxy {
    pub(super) fn start(
        listener: TcpListener,
        server: SocketAddr,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Proxy> {
        listener.set_nonblocking(true)?;
        let pairs = Pairs::default();
        let accepting = {
            let (pairs, stop) = (pairs.clone(), stop.clone());
            std::thread::spawn(move || accept(&listener, server, &pairs, &stop))
        };
        Ok(Proxy {
            stop,
            pairs,
            accepting: Some(accepting),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let copying = self.accepting.take().map(JoinHandle::join);
        for (client, server) in self.pairs.lock().expect("no holder panics").drain(..) {
            // What has ended already cannot be ended again.
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
        for thread in copying.and_then(Result::ok).unwrap_or_default() {
            // A copier that panicked has lost a connection, and the test will have seen that.
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    server: SocketAddr,
    pairs: &Pairs,
    stop: &AtomicBool,
) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let Ok((client, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        // Where nobody listens behind the relay, the client sees its connection close.
        let Ok(upstream) = TcpStream::connect(server) else {
            continue;
        };
        match pair(&client, &upstream, pairs) {
            Ok((to_server, to_client)) => {
                threads.push(std::thread::spawn(move || copy(client, to_server)));
                threads.push(std::thread::spawn(move || copy(upstream, to_client)));
            }
            Err(_) => continue,
        }
    }
    threads
}

/// Notes a pair of connections for the stop; the ends to write to.
fn pair(
    client: &TcpStream,
    server: &TcpStream,
    pairs: &Pairs,
) -> io::Result<(TcpStream, TcpStream)> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let kept = (client.try_clone()?, server.try_clone()?);
    pairs.lock().expect("no holder panics").push(kept);
    Ok((server.try_clone()?, client.try_clone()?))
}

/// Copies until the end of `from`, and passes the end on. A reset on either ends both ways.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 65_536];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => {
                // The other side may be gone already.
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(len) if to.write_all(&bytes[..len]).is_ok() => {}
            Ok(_) | Err(_) => {
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

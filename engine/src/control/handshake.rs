//! The first message each way, which must be understood across versions.

use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::frame::Decoder;
use super::wire::Refusal;

/// What a hello and a welcome of any version have.
#[derive(Deserialize)]
pub(super) struct Head {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub protocol: u32,
    #[serde(default)]
    pub version: String,
}

impl Head {
    /// Reads as little of a message as can be.
    pub(super) fn parse(body: &[u8]) -> Result<Head, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
}

/// Names both versions and both protocols.
pub(super) fn mismatch(client: (&str, u32), server: (&str, u32)) -> Refusal {
    let text = format!(
        "the client is ringperf {} (protocol {}), the server is ringperf {} (protocol {}); use \
         the same version on both sides",
        client.0, client.1, server.0, server.1
    );
    Refusal::new(4, "version", text)
}

/// The next frame of a connection; an error says what came instead.
pub(super) async fn next_frame(
    stream: &mut TcpStream,
    decoder: &mut Decoder,
) -> Result<Vec<u8>, String> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if let Some(body) = decoder.next_frame().map_err(|error| error.to_string())? {
            return Ok(body);
        }
        match stream.read(&mut buffer).await {
            Ok(0) => return Err("it closed the connection".to_string()),
            Ok(length) => decoder.feed(&buffer[..length]),
            Err(error) => return Err(error.to_string()),
        }
    }
}

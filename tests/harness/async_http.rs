//! The client of `http` without a thread for each connection, for hundreds of streams at a time; a failure is a value here,
//! since servers are killed meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::PATIENCE;
use super::http::{Answer, Framing, Head, Part, Request};

/// Sends a request on a connection of its own and reads the whole answer.
pub async fn send(address: SocketAddr, request: &Request, patience: Duration) -> Result<Answer, String> {
    let whole = async {
        let (head, mut body) = open(address, request, None).await?;
        let mut bytes = Vec::new();
        loop {
            match body.read().await {
                Part::Bytes(part) => bytes.extend(part),
                Part::Ended => return Ok(Answer::new(head, bytes)),
                Part::Broken(how) => return Err(how),
                Part::Late => return Err("late".into()),
            }
        }
    };
    match timeout(patience, whole).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no whole answer from {address} in {patience:?}")),
    }
}

/// Sends a request on a connection of its own and reads the head of its answer. `receive_bytes`: how much the socket takes that
/// nobody reads, so that a client that stops reading is felt soon.
pub async fn open(
    address: SocketAddr,
    request: &Request,
    receive_bytes: Option<u32>,
) -> Result<(Head, AsyncBody), String> {
    let opened = async {
        let socket = TcpSocket::new_v4().map_err(|error| error.to_string())?;
        if let Some(bytes) = receive_bytes {
            socket
                .set_recv_buffer_size(bytes)
                .map_err(|error| error.to_string())?;
        }
        let mut stream = socket
            .connect(address)
            .await
            .map_err(|error| format!("cannot connect to {address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        // A server may answer before it has read all; then the answer tells more than this error.
        let _ = stream.write_all(&request.encode(address)).await;
        read_head(&request.method, stream).await
    };
    match timeout(PATIENCE, opened).await {
        Ok(opened) => opened,
        Err(_) => Err(format!("no answer from {address} in {PATIENCE:?}")),
    }
}

async fn read_head(method: &str, mut stream: TcpStream) -> Result<(Head, AsyncBody), String> {
    let mut unread = Vec::new();
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = unread.drain(..end + 4).collect();
            let head = Head::parse(&head);
            let framing = Framing::of(method, &head);
            let body = AsyncBody {
                stream,
                unread,
                framing,
            };
            return Ok((head, body));
        }
        fill(&mut stream, &mut unread).await?;
    }
}

async fn fill(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<(), String> {
    let mut buffer = [0; 4 * 1024];
    match stream.read(&mut buffer).await {
        Ok(0) => Err("the connection was closed".into()),
        Ok(count) => {
            unread.extend(&buffer[..count]);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The body of an answer, read as it comes. Dropping it closes the connection.
pub struct AsyncBody {
    stream: TcpStream,
    unread: Vec<u8>,
    framing: Framing,
}

impl AsyncBody {
    /// Returns the next bytes as soon as there are any. Dropping the future loses nothing.
    pub async fn read(&mut self) -> Part {
        loop {
            if let Some(part) = self.framing.take(&mut self.unread) {
                return part;
            }
            if let Err(how) = fill(&mut self.stream, &mut self.unread).await {
                return Part::Broken(how);
            }
        }
    }
}

//! A small blocking HTTP/1.1 client, for requests whose cost is not measured.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::fleet::OpenStream;

/// Longer than a server needs for one answer when it opens thousands of sessions.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A kept-alive connection to one server.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    /// Bytes that were read and not used yet.
    buffer: Vec<u8>,
}

/// An answer with its whole body.
#[derive(Debug)]
pub struct Response {
    /// Status line and headers.
    pub head: Head,
    /// The body without its framing.
    pub body: String,
}

/// The status line and headers of an answer.
#[derive(Debug)]
pub struct Head {
    /// For example 200.
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Returns the value of a header, by its name in lower case.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Connection {
            address,
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// The connection breaks, the answer is not HTTP, or its status is not a success.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Response> {
        let head = self.send(method, path, headers, body)?;
        let chunked = head
            .find("transfer-encoding")
            .is_some_and(|coding| coding.contains("chunked"));
        let body = match head.find("content-length") {
            Some(length) => self.take(length.parse()?)?,
            None if chunked => self.take_chunks()?,
            None => Vec::new(),
        };
        let body = String::from_utf8_lossy(&body).into_owned();
        ensure!(
            (200..300).contains(&head.status),
            "{method} {path}: status {}: {body}",
            head.status
        );
        Ok(Response { head, body })
    }

    /// Sends a GET whose answer does not end, and returns the connection after the answer's head.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub fn into_stream(mut self, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<OpenStream> {
        let head = self.send("GET", path, headers, "")?;
        ensure!(head.status == 200, "GET {path}: status {}", head.status);
        Ok(OpenStream {
            connection: self.stream,
            read_ahead: self.buffer,
        })
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Head> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n")?;
        }
        if method == "POST" {
            write!(request, "Content-Length: {}\r\n", body.len())?;
        }
        write!(request, "\r\n{body}")?;
        self.stream
            .write_all(request.as_bytes())
            .context("cannot send a request")?;
        self.read_head()
    }

    fn read_head(&mut self) -> anyhow::Result<Head> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more()?;
        };
        let text = String::from_utf8(self.buffer.drain(..end).collect()).context("a head is not UTF-8")?;
        let mut lines = text.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .context("no status line")?;
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Head {
            status: status.parse().context("no status")?,
            headers,
        })
    }

    fn take_chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                    break self.take(end + 2)?;
                }
                self.read_more()?;
            };
            let size =
                usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).context("no chunk size")?;
            let chunk = self.take(size + 2)?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    fn take(&mut self, bytes: usize) -> anyhow::Result<Vec<u8>> {
        while self.buffer.len() < bytes {
            self.read_more()?;
        }
        Ok(self.buffer.drain(..bytes).collect())
    }

    fn read_more(&mut self) -> anyhow::Result<()> {
        let mut piece = [0; 16 * 1024];
        let bytes = self.stream.read(&mut piece).context("cannot read an answer")?;
        ensure!(bytes > 0, "the server closed the connection within an answer");
        self.buffer.extend_from_slice(&piece[..bytes]);
        Ok(())
    }
}

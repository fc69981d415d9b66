//! The end of a commit on the writers' side: gRPC by hand on HTTP/2. The load generator shares the machine with what it measures, and
//! a full client costs about as much per call as the service.

use anyhow::{Context as _, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, Uri};
use prost::Message as _;
use proto::feed::v1::CommitRequest;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A connection that commits are sent on, any number at once.
#[derive(Clone)]
pub struct Writer {
    requests: SendRequest<Bytes>,
    uri: Uri,
}

impl Writer {
    /// Connects to a service; the connection lives on in `driving`, until that is dropped.
    ///
    /// # Errors
    /// The service cannot be reached.
    pub async fn connect(uri: &str, driving: &mut JoinSet<()>) -> anyhow::Result<Writer> {
        let address = uri.trim_start_matches("http://");
        let socket = TcpStream::connect(address)
            .await
            .with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        let (requests, connection) = h2::client::handshake(socket).await?;
        driving.spawn(async move {
            // Its failure is that of the calls too.
            let _ = connection.await;
        });
        Ok(Writer {
            requests,
            uri: format!("{uri}/feed.v1.Feed/Commit").parse()?,
        })
    }

    /// Commits, and waits for the answer.
    ///
    /// # Errors
    /// The commit is refused, or the connection is lost.
    pub async fn commit(&mut self, commit: &CommitRequest) -> anyhow::Result<()> {
        let length = commit.encoded_len();
        let mut message = BytesMut::with_capacity(5 + length);
        message.put_u8(0);
        message.put_u32(u32::try_from(length)?);
        commit.encode(&mut message)?;

        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (answer, mut body) = self.requests.send_request(request, false)?;
        body.send_data(message.freeze(), true)?;
        let (head, mut answer) = answer.await?.into_parts();
        let mut received = 0;
        while let Some(data) = answer.data().await {
            let data = data?;
            received += data.len();
            answer.flow_control().release_capacity(data.len())?;
        }
        let trailers = answer.trailers().await?.unwrap_or(head.headers);
        ensure!(
            status(&trailers) == Some("0") && received > 5,
            "a commit was refused: {trailers:?}"
        );
        Ok(())
    }
}

fn status(headers: &HeaderMap) -> Option<&str> {
    headers.get("grpc-status")?.to_str().ok()
}

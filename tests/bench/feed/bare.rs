//! The bare server: a gRPC stream that sends recorded messages and knows nothing of what is in them.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes};
use tokio::net::TcpListener;
use tokio_stream::Iter;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::watch::recorded;

/// Serves a recording on a free port until the process is ended.
///
/// # Errors
/// The recording cannot be read, or there is no port.
pub fn serve(recording: &Path) -> anyhow::Result<()> {
    let messages = Arc::new(recorded(recording)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("bare ready listen={}", listener.local_addr()?);
        // With the feed service's own settings, as far as they matter to a stream.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        Server::builder()
            .add_service(Bare { messages })
            .serve_with_incoming(incoming)
            .await?;
        Ok(())
    })
}

/// Messages as bytes, taken as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.len());
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Answers every call with the recording.
#[derive(Clone)]
struct Bare {
    messages: Arc<Vec<Bytes>>,
}

impl NamedService for Bare {
    const NAME: &'static str = "feed.v1.Feed";
}

type Messages = Iter<std::vec::IntoIter<Result<Bytes, Status>>>;

impl ServerStreamingService<Bytes> for Bare {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Ready<Result<Response<Messages>, Status>>;

    fn call(&mut self, _request: Request<Bytes>) -> Self::Future {
        let messages: Vec<_> = self.messages.iter().cloned().map(Ok).collect();
        ready(Ok(Response::new(tokio_stream::iter(messages))))
    }
}

impl Service<http::Request<Body>> for Bare {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(Grpc::new(RawCodec).server_streaming(service, request).await) })
    }
}

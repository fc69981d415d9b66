//! Starts the floor on a free port and says which; with the word `bytes`, in its second form.

use anyhow::{Context as _, bail};
use axum::response::sse::Event;
use bytes::Bytes;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    bench::raise_file_limit()?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    println!("floor ready listen={}", listener.local_addr()?);
    match std::env::args().nth(1).as_deref() {
        None => bench::floor::serve::<Event>(listener).await,
        Some("bytes") => bench::floor::serve::<Bytes>(listener).await,
        Some(word) => bail!("unknown word \"{word}\""),
    }
}

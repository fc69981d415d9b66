//! Starts the rmcp server on a free port and says which.

use anyhow::Context as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    bench::raise_file_limit()?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    println!("rmcp ready listen={}", listener.local_addr()?);
    bench::rmcp_server::serve(listener).await
}

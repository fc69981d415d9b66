//! A client made with `rmcp`: listens to one URI by 2026-07-28 and prints each update; for the interop tests.
//!
//! Of its two HTTP clients the one without a tree of dependencies speaks over a Unix socket, so a socket is bridged to TCP here.

use anyhow::Context as _;
use rmcp::model::{ProtocolVersion, ServerNotification, SubscriptionFilter};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, UnixSocketHttpClient};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use tokio::net::{TcpStream, UnixListener};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(uri)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: rmcp-client URL URI");
    };
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .context("the url is not http://host:port/…")?
        .to_owned();
    let folder = std::env::temp_dir().join(format!("rmcp-client-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let socket = folder.join("socket").to_string_lossy().into_owned();
    let listener = UnixListener::bind(&socket).context("cannot listen")?;
    let listened = tokio::select! {
        bridged = bridge(listener, &address) => bridged,
        listened = listen(&socket, &url, &uri) => listened,
    };
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    listened
}

/// Passes every connection on to `address`.
async fn bridge(listener: UnixListener, address: &str) -> anyhow::Result<()> {
    loop {
        let (mut near, _) = listener.accept().await.context("cannot accept")?;
        let mut far = TcpStream::connect(address).await.context("cannot connect")?;
        tokio::spawn(async move {
            // Whichever side breaks, both end with it.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

async fn listen(socket: &str, url: &str, uri: &str) -> anyhow::Result<()> {
    let transport = StreamableHttpClientTransport::with_client(
        UnixSocketHttpClient::new(socket, url),
        StreamableHttpClientTransportConfig::with_uri(url),
    );
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let client = ().serve_with_lifecycle(transport, lifecycle).await?;
    let filter = SubscriptionFilter::builder().resource_subscription(uri).build();
    let mut subscription = client.listen(filter).await?;
    let honoured = &subscription.acknowledged().resource_subscriptions;
    if honoured.as_deref() == Some(&[uri.to_owned()]) {
        println!("listening");
    } else {
        println!("honoured {honoured:?}");
    }
    while let Some(notification) = subscription.next().await? {
        if let ServerNotification::ResourceUpdatedNotification(updated) = notification {
            println!("{}", updated.params.uri);
        }
    }
    println!("{:?}", subscription.end());
    Ok(())
}

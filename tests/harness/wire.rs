//! A proxy on loopback that breaks the wire between two parties who need not know of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::RUNTIME;
use super::frames::{FrameCounter, FrameCounts};

/// How connections are cut.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// By a reset, as a crashed machine or a firewall does.
    Reset,
    /// By an orderly end in both directions.
    End,
}

/// What the wire does; every connection follows it at once.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Nothing passes from the client to the server.
    pub stalled_up: bool,
    /// Nothing passes from the server to the client.
    pub stalled_down: bool,
    /// Nothing passes from the server to the client on the first connection that there was.
    pub stalled_down_on_first: bool,
    /// Every piece waits this long before it passes.
    pub delay: Duration,
    /// New connections are reset at once.
    pub refuses: bool,
    // How often the wire was cut, and how the last time: older connections than that are gone.
    cuts: u64,
    cut: Cut,
}

/// Passes connections on to one address. They end with it.
pub struct Proxy {
    pub address: SocketAddr,
    /// The frames that clients of HTTP/2 have sent.
    pub frames_up: Arc<FrameCounts>,
    weather: watch::Sender<Weather>,
    accepting: AbortHandle,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `target`.
    pub fn to(target: SocketAddr) -> Proxy {
        let fine = Weather {
            stalled_up: false,
            stalled_down: false,
            stalled_down_on_first: false,
            delay: Duration::ZERO,
            refuses: false,
            cuts: 0,
            cut: Cut::End,
        };
        let (weather, follower) = watch::channel(fine);
        let listener = RUNTIME
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let address = listener.local_addr().expect("an address");
        let frames_up = Arc::new(FrameCounts::default());
        let accepting = accept(listener, target, follower, Arc::clone(&frames_up));
        let accepting = RUNTIME.spawn(accepting).abort_handle();
        Proxy {
            address,
            frames_up,
            weather,
            accepting,
        }
    }

    /// Changes what the wire does from now on.
    pub fn set(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }

    /// Cuts every connection that is open now.
    pub fn cut(&self, how: Cut) {
        self.set(|weather| (weather.cuts, weather.cut) = (weather.cuts + 1, how));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut(Cut::Reset);
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    weather: watch::Receiver<Weather>,
    frames_up: Arc<FrameCounts>,
) {
    let mut count = 0;
    while let Ok((client, _)) = listener.accept().await {
        let (weather, frames_up) = (weather.clone(), Arc::clone(&frames_up));
        let is_first = count == 0;
        count += 1;
        tokio::spawn(async move {
            if weather.borrow().refuses {
                return reset(&client);
            }
            match TcpStream::connect(target).await {
                Ok(server) => carry(client, server, weather, is_first, &frames_up).await,
                Err(_) => reset(&client),
            }
        });
    }
}

/// Makes the coming close of the socket a reset.
fn reset(socket: &TcpStream) {
    // The peer may be gone already, which is as good.
    let _ = socket.set_zero_linger();
}

/// Passes bytes both ways until both sides have ended or the wire is cut.
async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    weather: watch::Receiver<Weather>,
    is_first: bool,
    frames_up: &FrameCounts,
) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut until_cut, before) = (weather.clone(), weather.borrow().cuts);
    let cut = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let mut counter = FrameCounter::default();
        let stalled_up = |weather: &Weather| weather.stalled_up;
        let stalled_down =
            |weather: &Weather| weather.stalled_down || (is_first && weather.stalled_down_on_first);
        let both = async {
            tokio::join!(
                pump(client_read, server_write, weather.clone(), stalled_up, |bytes| {
                    counter.push(bytes, frames_up);
                }),
                pump(server_read, client_write, weather.clone(), stalled_down, |_| {}),
            );
        };
        tokio::select! {
            () = both => None,
            // An ended proxy cuts before it goes, so an error here comes too late to matter.
            weather = until_cut.wait_for(|weather| weather.cuts > before) => weather.ok().map(|weather| weather.cut),
        }
    };
    match cut {
        None => {}
        Some(Cut::Reset) => {
            reset(&client);
            reset(&server);
        }
        Some(Cut::End) => {
            let _ = (client.shutdown().await, server.shutdown().await);
            // A close with unread bytes would become a reset.
            let drain = async { tokio::join!(drain(&mut client), drain(&mut server)) };
            let _ = tokio::time::timeout(Duration::from_secs(5), drain).await;
        }
    }
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut weather: watch::Receiver<Weather>,
    is_stalled: impl Fn(&Weather) -> bool,
    mut look: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(now) = weather
            .wait_for(|weather| !is_stalled(weather))
            .await
            .map(|weather| *weather)
        else {
            return;
        };
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if !now.delay.is_zero() {
            tokio::time::sleep(now.delay).await;
        }
        // What was read before the stall waits with the rest.
        if weather.wait_for(|weather| !is_stalled(weather)).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        look(&buffer[..count]);
    }
}

async fn drain(socket: &mut TcpStream) {
    let mut buffer = vec![0; 16 * 1024];
    while socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::{Cut, Proxy};

    /// Sends everything back on every connection.
    fn serve_echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (mut from, mut to) = (socket.as_ref().unwrap().try_clone().unwrap(), socket.unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        });
        address
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let socket = TcpStream::connect(proxy.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    fn echo(socket: &mut TcpStream) -> std::io::Result<usize> {
        socket.write_all(b"ping")?;
        socket.read(&mut [0; 16])
    }

    #[test]
    fn a_proxy_passes_bytes_both_ways_until_it_is_cut() {
        for how in [Cut::Reset, Cut::End] {
            let proxy = Proxy::to(serve_echo());
            let mut socket = connect(&proxy);
            assert_eq!(echo(&mut socket).unwrap(), 4);
            proxy.cut(how);
            let end = socket.read(&mut [0; 16]);
            match how {
                Cut::Reset => assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset),
                Cut::End => assert_eq!(end.unwrap(), 0),
            }
            assert_eq!(
                echo(&mut connect(&proxy)).unwrap(),
                4,
                "a new connection passes after a cut"
            );
        }
    }

    #[test]
    fn a_stalled_direction_passes_nothing_until_it_flows_again() {
        let proxy = Proxy::to(serve_echo());
        for stall in [true, false] {
            proxy.set(|weather| {
                if stall {
                    weather.stalled_up = true
                } else {
                    weather.stalled_down = true
                }
            });
            let mut socket = connect(&proxy);
            socket.write_all(b"ping").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            assert_eq!(
                socket.read(&mut [0; 16]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            proxy.set(|weather| (weather.stalled_up, weather.stalled_down) = (false, false));
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!(socket.read(&mut [0; 16]).unwrap(), 4);
        }
    }

    #[test]
    fn a_delayed_wire_is_late_and_a_refusing_one_resets() {
        let proxy = Proxy::to(serve_echo());
        proxy.set(|weather| weather.delay = Duration::from_millis(30));
        let begin = Instant::now();
        assert_eq!(echo(&mut connect(&proxy)).unwrap(), 4);
        assert!(
            begin.elapsed() >= Duration::from_millis(60),
            "once in each direction"
        );
        proxy.set(|weather| weather.refuses = true);
        assert!(echo(&mut connect(&proxy)).is_err());
    }
}

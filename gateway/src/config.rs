//! The command line, and the keys by which the gateway is configured.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, Subcommand};
use feedsvc::ServeSettings as FeedsvcSettings;
use http::Uri;
use settings::{Arguments, Completions, Keys, Manual, Settings, gibibytes, kibibytes, mebibytes};

use crate::dispatch::CacheHints;
use crate::feed::Timeouts;
use crate::http::{Limits as HttpLimits, Origin};
use crate::protocol::complete::{CacheHint, CacheScope};
use crate::protocol::mcp::About;
use crate::session::Limits as SessionLimits;

/// Gateway for MCP subscriptions that do not get lost.
#[derive(Debug, Parser)]
#[command(
    name = "gateway",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the process is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve MCP clients from a feed service.
    Serve(Arguments<ServeSettings>),
    /// Run gateway and feed service in one process, with sample tables, to try things out.
    Dev(Arguments<DevSettings>),
    /// Print a script that completes this command line in a shell.
    Completions(Completions),
    /// Print or write the man pages.
    Man(Manual),
}

/// The addresses that clients and operators use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    /// Where MCP and REST are served.
    pub(crate) application: SocketAddr,
    /// Where health is served.
    pub(crate) admin: SocketAddr,
    /// Where other gateways reach this one.
    pub(crate) peer: SocketAddr,
}

/// How the process ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// Over how long the ends of open streams are spread at most.
    pub(crate) window: Duration,
    /// After how long the process ends whatever is still under way.
    pub(crate) deadline: Duration,
}

/// Where a feed service listens by default.
const FEED: &str = "http://127.0.0.1:9928";

/// Long enough that the clients of a full instance do not all come to another one at once.
const DRAIN: Drain = Drain {
    window: Duration::from_secs(10),
    deadline: Duration::from_secs(25),
};

/// Somebody waits at a terminal, and there is no other instance to go to.
const DRAIN_DEV: Drain = Drain {
    window: Duration::ZERO,
    deadline: Duration::from_secs(2),
};

/// Settings of `serve`.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The feed service.
    pub(crate) feed: Uri,
    pub(crate) server: ServerSettings,
}

/// Settings of `dev`.
#[derive(Clone, Debug)]
pub struct DevSettings {
    pub(crate) server: ServerSettings,
    /// The feed service that runs beside the gateway.
    pub(crate) feedsvc: FeedsvcSettings,
    /// Change a price of the sample tables every second.
    pub(crate) demo_writes: bool,
}

/// What a gateway is made with, whatever its feed service.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    pub(crate) listen: Listen,
    /// The host and port that URIs name; `None`: those of the application listener.
    pub(crate) public_authority: Option<String>,
    /// What it says about itself to clients.
    pub(crate) about: About,
    /// How long clients of the modern era may take results for fresh.
    pub(crate) cache_hints: CacheHints,
    /// Memory for recent entries of the feed.
    pub(crate) ring_bytes: usize,
    /// How many subscriptions a session may have.
    pub(crate) max_subscriptions: u32,
    /// How long a GET of a session that is not known here is held while the feed service is away.
    pub(crate) open_wait: Duration,
    /// Whether clients may end their sessions by DELETE.
    pub(crate) allow_client_delete: bool,
    pub(crate) sessions: SessionLimits,
    pub(crate) http: HttpLimits,
    pub(crate) timeouts: Timeouts,
    pub(crate) drain: Drain,
}

/// Nothing is waited for longer than this; more is meant as "never", and should be said otherwise.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest time that is waited for.
const MOMENT: Duration = Duration::from_millis(1);

impl Settings for ServeSettings {
    fn declare(keys: &mut Keys) -> ServeSettings {
        ServeSettings {
            feed: keys
                .key(
                    "feed.url",
                    "The feed service. It need not be there when the gateway starts.",
                )
                .flag("feed", "URL")
                .parsed(
                    (FEED, Uri::from_static(FEED)),
                    "an http URL, as in \"http://127.0.0.1:9928\"",
                    feed_address,
                ),
            server: ServerSettings::declare(keys, DRAIN),
        }
    }
}

impl Settings for DevSettings {
    fn declare(keys: &mut Keys) -> DevSettings {
        let settings = DevSettings {
            server: ServerSettings::declare(keys, DRAIN_DEV),
            feedsvc: keys.within(
                "feedsvc",
                &[("listen", "feed"), ("data", "data"), ("schema", "schema")],
                FeedsvcSettings::declare,
            ),
            demo_writes: keys
                .key("demo_writes", "Change a price of the sample tables every second.")
                .flag("demo-writes", "BOOLEAN")
                .switch(false),
        };
        keys.check(
            "demo_writes",
            !settings.demo_writes || settings.feedsvc.schema.is_none(),
            "only the sample tables are written to; allowed: true only without feedsvc.schema",
        );
        settings
    }
}

impl ServerSettings {
    fn declare(keys: &mut Keys, drain: Drain) -> ServerSettings {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let about = About::default();
        let settings = ServerSettings {
            listen: Listen {
                application: keys
                    .key("application.listen", "Where MCP and REST are served. Only a loopback address, since there is no authentication yet.")
                    .flag("application", "ADDRESS")
                    .address(loopback(9926)),
                admin: keys
                    .key("admin.listen", "Where health is served. Only a loopback address, since there is no authentication yet.")
                    .flag("admin", "ADDRESS")
                    .address(loopback(9927)),
                peer: keys
                    .key(
                        "peer.listen",
                        "Where other gateways reach this one, for what lives in one process only. They learn the address by \
                         themselves. Only a loopback address, since there is no authentication yet.",
                    )
                    .flag("peer", "ADDRESS")
                    .address(loopback(0)),
            },
            public_authority: keys
                .key(
                    "public_url",
                    "The URL under which clients reach this gateway, if that is not its own address: that of a load balancer, the \
                     same for all gateways behind it. URIs of resources name its host and port.",
                )
                .example("https://tidegate.example.org")
                .optional_parsed("an http or https URL without a path, as in \"https://tidegate.example.org\"", public_authority),
            about: About {
                title: keys
                    .key("server.title", "The title by which clients show this server.")
                    .text(&about.title),
                instructions: keys
                    .key(
                        "server.instructions",
                        "What clients are told of the use of this server, for the models that work with it.",
                    )
                    .example("Subscribe to a product before you reorder it.")
                    .optional_text(),
            },
            cache_hints: cache_hints(keys),
            ring_bytes: keys
                .key(
                    "ring.bytes",
                    "How much memory the newest entries of the feed may take. Streams that missed no more are resumed from there; 64 MiB \
                     hold about half a million changes.",
                )
                .bytes(mebibytes(64), kibibytes(64)..=gibibytes(64)),
            max_subscriptions: keys
                .key("session.max_subscriptions", "How many subscriptions a session may have.")
                .count(1_000, 1..=1_000_000),
            open_wait: keys
                .key(
                    "session.open_wait",
                    "How long a client that opens its stream is held while the feed service is away and the session is not known \
                     here; then it is 503. Client libraries give up listening after two refusals.",
                )
                .flag("open-wait", "DURATION")
                .duration(Duration::from_secs(60), Duration::ZERO..=YEAR),
            allow_client_delete: keys
                .key(
                    "session.allow_client_delete",
                    "Whether clients may end their sessions by DELETE; if not it is 405.",
                )
                .flag("allow-client-delete", "BOOLEAN")
                .switch(true),
            sessions: session_limits(keys),
            http: http_limits(keys),
            timeouts: timeouts(keys),
            drain: Drain {
                window: keys
                    .key(
                        "drain.window",
                        "Over how long the ends of open streams are spread at most when the process is told to end, so that the \
                         clients do not all come to another gateway at once.",
                    )
                    .flag("drain-window", "DURATION")
                    .duration(drain.window, Duration::ZERO..=YEAR),
                deadline: keys
                    .key("drain.deadline", "After how long the process ends whatever is still under way when it is told to end.")
                    .flag("drain-deadline", "DURATION")
                    .duration(drain.deadline, MOMENT..=YEAR),
            },
        };
        for (key, address) in [
            ("application.listen", settings.listen.application),
            ("admin.listen", settings.listen.admin),
            ("peer.listen", settings.listen.peer),
        ] {
            keys.check(
                key,
                address.ip().is_loopback(),
                "there is no authentication yet, so only a loopback address is served; allowed: 127.0.0.1 or [::1] with a port",
            );
        }
        settings
    }
}

/// Declares one key for each bound of the session layer. The literal names every field, so a bound without a key does not
/// compile.
fn session_limits(keys: &mut Keys) -> SessionLimits {
    let default = SessionLimits::default();
    SessionLimits {
        idle_timeout: keys
            .key(
                "session.idle_timeout",
                "How long a session may be without requests and without a stream before it ends. The time counts only while the feed \
                 service runs.",
            )
            .flag("idle-timeout", "DURATION")
            .duration(default.idle_timeout, Duration::from_millis(100)..=YEAR),
        write_timeout: keys
            .key(
                "stream.write_timeout",
                "How long a client may take nothing of what is written to its stream before that ends; it can resume.",
            )
            .flag("write-timeout", "DURATION")
            .duration(default.write_timeout, MOMENT..=YEAR),
        cached_sessions: keys
            .key("session.cached", "How many sessions are kept in memory; the others are read when they are used.")
            .count(default.cached_sessions, 1..=100_000_000),
        pending_max: keys
            .key(
                "stream.pending",
                "How many notices wait singly for a client that reads slowly. Beyond it the client gets one notice for each URI that \
                 changed, with the newest change.",
            )
            .flag("pending", "COUNT")
            .count(default.pending_max, 1..=10_000_000),
        frame_ring_bytes: keys
            .key("stream.frames_bytes", "How much memory the frames of live streams may take; all streams share them.")
            .bytes(default.frame_ring_bytes, kibibytes(64)..=gibibytes(64)),
        keep_alive_after: keys
            .key(
                "stream.keep_alive",
                "After so much quiet a comment line goes out on a stream, so that no proxy takes it for dead.",
            )
            .duration(default.keep_alive_after, Duration::from_secs(1)..=YEAR),
        bookmark_interval: keys
            .key(
                "stream.bookmark_interval",
                "How often the cursor of a quiet stream is moved on, so that a resume does not look at what it cannot have missed.",
            )
            .duration(default.bookmark_interval, Duration::from_secs(1)..=YEAR),
        catch_up_max: keys
            .key(
                "replay.catch_up",
                "How many missed notices are sent singly at a resume. Beyond it the client gets one for each URI that changed.",
            )
            .count(default.catch_up_max, 1..=1_000_000),
        replay_frames: keys
            .key(
                "replay.frames",
                "How many frames are sent again to a client whose cursor cannot be read.",
            )
            .count(default.replay_frames, 0..=1_000_000),
        log_reads_max: keys
            .key("replay.concurrent_reads", "How many resumes read the log of the feed service at a time.")
            .count(default.log_reads_max, 1..=1_000),
    }
}

/// Declares one key for each bound of HTTP; see [`session_limits`].
fn http_limits(keys: &mut Keys) -> HttpLimits {
    let default = HttpLimits::default();
    HttpLimits {
        connections_max: keys
            .key(
                "http.connections",
                "How many connections of clients are served at a time; more get 503. The process's limit of open files may lower it.",
            )
            .count(default.connections_max, 1..=10_000_000),
        header_bytes: keys
            .key("http.header_bytes", "How large the headers of a request may be together; more is 431.")
            .bytes(default.header_bytes, kibibytes(8)..=mebibytes(1)),
        header_timeout: keys
            .key(
                "http.header_timeout",
                "How long a client may take for the headers of a request, or leave a connection unused.",
            )
            .duration(default.header_timeout, MOMENT..=YEAR),
        body_bytes: keys
            .key("http.body_bytes", "How large the body of a request may be; more is 413.")
            .bytes(default.body_bytes, kibibytes(1)..=mebibytes(64)),
        body_timeout: keys
            .key("http.body_timeout", "How long a client may take for the body of a request; longer is 408.")
            .duration(default.body_timeout, MOMENT..=YEAR),
        peer_timeout: keys
            .key(
                "http.peer_timeout",
                "After so long without an acknowledgement of what was sent, a client counts as gone (Linux only).",
            )
            .duration(default.peer_timeout, Duration::from_secs(1)..=YEAR),
        allowed_origins: keys
            .key(
                "http.allowed_origins",
                "Which origins pages in browsers may call from, besides those of the loopback interface on a loopback listener.",
            )
            .list(
                default.allowed_origins,
                "an origin, as in \"https://app.example.org\"",
                |text| Origin::parse(text).ok_or_else(|| "it is no origin".to_owned()),
            ),
    }
}

/// Declares two keys for each kind of result that clients may keep (MCP 2026-07-28, Caching); see [`session_limits`].
fn cache_hints(keys: &mut Keys) -> CacheHints {
    let default = CacheHints::default();
    let mut hint = |(ttl, ttl_doc): (&'static str, &'static str), scope: &'static str, default: CacheHint| {
        let time = keys
            .key(ttl, ttl_doc)
            .duration(Duration::from_millis(default.ttl_ms), Duration::ZERO..=YEAR);
        let (private, public) = (("private", CacheScope::Private), ("public", CacheScope::Public));
        let (first, second) = match default.scope {
            CacheScope::Private => (private, public),
            CacheScope::Public => (public, private),
        };
        CacheHint {
            ttl_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            scope: keys
                .key(
                    scope,
                    "Who may share such an answer: everybody (`public`), or nobody but who asked (`private`), which is right where \
                     rights differ.",
                )
                .choice(first, &[second]),
        }
    };
    CacheHints {
        discover: hint(
            (
                "cache.discover_ttl",
                "How long clients of 2026-07-28 may take an answer to `server/discover` for fresh.",
            ),
            "cache.discover_scope",
            default.discover,
        ),
        tools: hint(
            (
                "cache.tools_ttl",
                "How long they may take one to `tools/list` for fresh.",
            ),
            "cache.tools_scope",
            default.tools,
        ),
        prompts: hint(
            (
                "cache.prompts_ttl",
                "How long they may take one to `prompts/list` for fresh.",
            ),
            "cache.prompts_scope",
            default.prompts,
        ),
        resources: hint(
            (
                "cache.resources_ttl",
                "How long they may take one to `resources/list` for fresh.",
            ),
            "cache.resources_scope",
            default.resources,
        ),
        templates: hint(
            (
                "cache.templates_ttl",
                "How long they may take one to `resources/templates/list` for fresh.",
            ),
            "cache.templates_scope",
            default.templates,
        ),
        read: hint(
            (
                "cache.read_ttl",
                "How long they may take one to `resources/read` for fresh.",
            ),
            "cache.read_scope",
            default.read,
        ),
    }
}

/// Declares one key for each time-out towards the feed service; see [`session_limits`].
fn timeouts(keys: &mut Keys) -> Timeouts {
    let default = Timeouts::default();
    Timeouts {
        connect: keys
            .key(
                "feed.connect_timeout",
                "How long an attempt to connect to the feed service may take; on one network it takes a millisecond.",
            )
            .duration(default.connect, MOMENT..=YEAR),
        call: keys
            .key(
                "feed.call_timeout",
                "How long a call to the feed service may take; it answers in milliseconds unless its disk stalls.",
            )
            .duration(default.call, MOMENT..=YEAR),
        keep_alive_interval: keys
            .key(
                "feed.keep_alive_interval",
                "How often a connection to the feed service is probed while calls are open.",
            )
            .duration(default.keep_alive_interval, Duration::from_millis(100)..=YEAR),
        keep_alive_answer: keys
            .key(
                "feed.keep_alive_timeout",
                "How long the answer to such a probe may take before the feed service counts as away.",
            )
            .duration(default.keep_alive_answer, MOMENT..=YEAR),
    }
}

fn feed_address(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("it is no URL: {error}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (_, Some(authority)) if authority.as_str().contains('@') => {
            Err("a user name or password is not taken here".to_owned())
        }
        (Some("http"), Some(_)) => Ok(uri),
        (Some("https"), _) => Err("TLS to the feed service is not served yet".to_owned()),
        _ => Err("it is no http URL".to_owned()),
    }
}

/// Reads the URL under which clients reach the gateway as far as URIs name it.
fn public_authority(text: &str) -> Result<String, String> {
    let uri: Uri = text.parse().map_err(|error| format!("it is no URL: {error}"))?;
    let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    match (uri.scheme_str(), uri.authority()) {
        (_, Some(authority)) if authority.as_str().contains('@') => {
            Err("a user name or password is not taken here".to_owned())
        }
        (Some("http" | "https"), Some(authority)) if is_bare => Ok(authority.as_str().to_ascii_lowercase()),
        (Some("http" | "https"), Some(_)) => Err("it has a path".to_owned()),
        _ => Err("it is no http or https URL".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_feed_service_is_named_by_a_url() {
        assert!(feed_address("http://127.0.0.1:9928").is_ok());
        for wrong in [
            "127.0.0.1:9928",
            "https://feed:1",
            "feed",
            "",
            "http://",
            "http://user:secret@127.0.0.1:1",
        ] {
            assert!(feed_address(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_public_url_gives_the_host_and_port_of_uris() {
        for (url, authority) in [
            ("https://Tidegate.example.org", "tidegate.example.org"),
            ("http://10.0.0.1:80/", "10.0.0.1:80"),
        ] {
            assert_eq!(public_authority(url), Ok(authority.to_owned()), "{url}");
        }
        for wrong in [
            "",
            "tidegate",
            "example.org:80",
            "https://example.org/mcp",
            "https://example.org?x",
            "ftp://example.org",
            "https://a@example.org",
        ] {
            assert!(public_authority(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn dev_has_the_keys_of_both_programs() {
        let keys = |declarations: Vec<settings::Declaration>| -> Vec<String> {
            declarations
                .into_iter()
                .map(|declaration| declaration.key)
                .collect()
        };
        let mut expected = keys(settings::declarations::<ServeSettings>());
        expected.retain(|key| key != "feed.url");
        let feedsvc = keys(settings::declarations::<FeedsvcSettings>());
        expected.extend(feedsvc.iter().map(|key| format!("feedsvc.{key}")));
        expected.push("demo_writes".to_owned());
        assert_eq!(keys(settings::declarations::<DevSettings>()), expected);
    }
}

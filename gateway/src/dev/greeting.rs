//! What the dev mode prints: what runs, and commands to try, ready to be copied.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// What runs where.
pub(super) struct Greeting<'a> {
    /// The application listener.
    pub(super) application: SocketAddr,
    /// The feed service.
    pub(super) feed: SocketAddr,
    /// The folder of the data.
    pub(super) data: &'a Path,
    /// The sample tables are there.
    pub(super) samples: bool,
}

impl Greeting<'_> {
    /// Returns the text, with a line break at its end.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "Tidegate {version} runs. MCP URL: http://{application}/mcp   feed service: {feed}   data: {data}\n\
             Open mode: no authentication, whoever reaches these addresses may do everything. Ctrl-C ends it.\n",
            version = env!("CARGO_PKG_VERSION"),
            application = self.application,
            feed = self.feed,
            data = self.data.display(),
        );
        if self.samples {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}\n{}", self.watch(), self.change());
        }
        text
    }

    /// A script that opens a session, subscribes and shows the frames of its stream. It is fed to `sh`, so that it can be
    /// pasted into any shell.
    fn watch(&self) -> String {
        let application = self.application;
        format!(
            r#"Watch Product/42, in a second terminal:

sh <<'END'
mcp=http://{application}/mcp
post() {{ curl -sS "$mcp" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -w '\n' "$@"; }}
session=$(post -o /dev/null -D - -d '{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"curl","version":"1"}}}}}}' | tr -d '\r' | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p')
echo "session $session"
post -H "Mcp-Session-Id: $session" -d '{{"jsonrpc":"2.0","method":"notifications/initialized"}}'
post -H "Mcp-Session-Id: $session" -d '{{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{{"uri":"feed+rest://{application}/Product/42"}}}}' &
curl -sSN "$mcp" -H 'Accept: text/event-stream' -H "Mcp-Session-Id: $session"
END
"#
        )
    }

    fn change(&self) -> String {
        format!(
            r#"Change it, in a third terminal:

curl -sS -X PUT http://{application}/Product/42 -H 'Content-Type: application/json' -d '{{"name":"Tide clock","price":44.90,"stock":7}}'
"#,
            application = self.application,
        )
    }
}

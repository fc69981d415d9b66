//! Requests of the modern era: each is answered from what it says itself, and leaves nothing behind.

use std::sync::Arc;

use tracing::debug;

use super::{ANONYMOUS, Dispatcher, Headers, Outcome, RefusalCause, failed, refused};
use crate::method::{self, Call, Failure};
use crate::protocol::error::{METHOD_NOT_FOUND, RpcError};
use crate::protocol::listen::{ListenFilter, cancelled_request};
use crate::protocol::message::{Message, Notification, Request};
use crate::protocol::request_meta::{self, Mirrored, RequestMeta};
use crate::protocol::trace::TraceId;
use crate::session::{Listen, WriteProgress};

impl Dispatcher {
    /// Answers one message of the modern era, which came by a connection with this progress.
    pub(super) async fn modern(
        &self,
        headers: Headers<'_>,
        message: Message,
        progress: &Arc<WriteProgress>,
        trace: TraceId,
    ) -> Outcome {
        let request = match message {
            Message::Request(request) => request,
            Message::Notification(notification) => return self.modern_notification(&notification),
            Message::Response(_) => {
                // MCP 2026-07-28, Streamable HTTP, Sending Messages: this server asks nothing that could be answered.
                let error =
                    RpcError::invalid_request("responses are not part of 2026-07-28: retry the request");
                return refused(RefusalCause::Invalid, None, &error);
            }
        };
        let mirrored = Mirrored {
            version: headers.version,
            method: headers.method,
            name: headers.name,
        };
        let meta = match request_meta::check(mirrored, &request) {
            Ok(meta) => meta,
            Err(error) => return refused(RefusalCause::Invalid, Some(&request.id), &error),
        };
        debug!(
            method = request.method,
            request.id = request.id.as_raw(),
            capabilities = meta.capabilities,
            log_level = meta.log_level,
            "got a request"
        );
        let call = self.call(ANONYMOUS, "", trace);
        let answered = if request.method == "subscriptions/listen" {
            self.listen(&call, &request, meta, progress).await
        } else {
            let answer = method::modern::call(&call, &self.offer.cache_hints, &request).await;
            answer.map(Outcome::Answer)
        };
        match answered {
            Ok(outcome) => outcome,
            Err(Failure::Rpc(error)) if error.code == METHOD_NOT_FOUND => {
                refused(RefusalCause::UnknownMethod, Some(&request.id), &error)
            }
            Err(failure) => failed(trace, Some(&request.id), failure),
        }
    }

    /// Opens a listen.
    async fn listen(
        &self,
        call: &Call<'_>,
        request: &Request,
        meta: RequestMeta,
        progress: &Arc<WriteProgress>,
    ) -> Result<Outcome, Failure> {
        let filter = ListenFilter::read(&request.params)?;
        // Which tables there are is not known while the feed service was never seen.
        if !self.watch.is_live() {
            return Err(Failure::Unavailable);
        }
        let honoured = method::modern::honoured(call, &filter).await?;
        let listen = Listen {
            request: request.id.clone(),
            lists: filter.lists,
            rows: honoured.rows,
            spellings: honoured.uris,
            server: Arc::clone(&self.server),
            resume_from: meta.resume_from,
        };
        Ok(Outcome::Stream(
            self.sessions.listen(call.principal, &listen, progress).await?,
        ))
    }

    fn modern_notification(&self, notification: &Notification) -> Outcome {
        debug!(method = notification.method, "got a notification");
        if notification.method == "notifications/cancelled"
            && let Some(request) = cancelled_request(&notification.params)
        {
            self.sessions.cancel_listen(ANONYMOUS, &request);
        }
        Outcome::Accepted
    }
}

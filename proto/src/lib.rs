//! The gRPC contract between gateways and the feed service: messages, clients and servers.
//!
//! The contract itself, with meaning, order, limits and errors, is in the comments of `feed/v1/*.proto`.

/// Package `feed.v1` and its server halves.
pub mod feed {
    /// Messages and clients of package `feed.v1`.
    #[allow(
        missing_docs,
        unused_qualifications,
        reason = "generated from the commented .proto files"
    )]
    #[allow(
        clippy::all,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    pub mod v1 {
        tonic::include_proto!("feed.v1");

        pub use crate::encoded::EncodedWatchResponse;

        /// Server traits of package `feed.v1`; `Watch` answers with [`EncodedWatchResponse`].
        pub mod server {
            include!(concat!(env!("OUT_DIR"), "/servers/feed.v1.rs"));
        }
    }
}

/// The contract as an encoded `google.protobuf.FileDescriptorSet`, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/feed.v1.descriptors"));

mod encoded;
mod reason;

pub use reason::{ERROR_DOMAIN, Reason};

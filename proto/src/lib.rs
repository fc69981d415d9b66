//! The gRPC contracts between gateways and the feed service, and between gateways: messages, clients and servers.
//!
//! The contracts themselves, with meaning, order, limits and errors, are in the comments of `feed/v1/*.proto` and
//! `peer/v1/*.proto`.

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

/// Package `peer.v1` and its server half.
pub mod peer {
    /// Messages and client of package `peer.v1`.
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
        tonic::include_proto!("peer.v1");

        /// Server trait of package `peer.v1`.
        pub mod server {
            include!(concat!(env!("OUT_DIR"), "/servers/peer.v1.rs"));
        }
    }
}

/// The contract as an encoded `google.protobuf.FileDescriptorSet`, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/feed.v1.descriptors"));

mod codec;
mod encoded;
mod reason;

pub use encoded::{entry_size, put_entry, split_entry};
pub use reason::{ERROR_DOMAIN, Reason};

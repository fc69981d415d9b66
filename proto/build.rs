//! Compiles the `.proto` files with protox, so that no `protoc` has to be installed.

use std::path::PathBuf;

use prost::Message;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("cargo:rerun-if-changed=feed");
    println!("cargo:rerun-if-changed=peer");
    let descriptors = protox::compile(
        [
            "feed/v1/access.proto",
            "feed/v1/feed.proto",
            "feed/v1/keys.proto",
            "feed/v1/maintenance.proto",
            "feed/v1/principal.proto",
            "feed/v1/session.proto",
            "peer/v1/peer.proto",
        ],
        ["."],
    )?;

    // What reflection tells about the contract.
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("feed.v1.descriptors"), descriptors.encode_to_vec())?;

    // One pass for messages and clients, one for servers only: the server of `Watch` sends entries that were
    // encoded once and are shared by every watch, so its answer is a type of its own with the same wire form.
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".")
        .compile_fds(descriptors.clone())?;

    let servers = out.join("servers");
    std::fs::create_dir_all(&servers)?;
    tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::codec::SizedCodec")
        .extern_path(".feed.v1.WatchResponse", "crate::feed::v1::EncodedWatchResponse")
        .extern_path(".feed.v1", "crate::feed::v1")
        .extern_path(".peer.v1", "crate::peer::v1")
        .out_dir(servers)
        .compile_fds(descriptors)?;
    Ok(())
}

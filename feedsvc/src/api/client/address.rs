//! Addresses of feed services, as commands name them.

use settings::masked;
use tonic::transport::{Endpoint, Uri};

/// A text is no address of a feed service.
#[derive(Debug, thiserror::Error)]
#[error("`{address}` is no address of a feed service; use one like http://127.0.0.1:9928")]
pub(crate) struct AddressFault {
    /// Without what may be a password.
    address: String,
}

/// Reads an address. One with a user is refused, so no message has to hide it.
pub(super) fn endpoint(address: &str) -> Result<Endpoint, AddressFault> {
    let fault = || AddressFault {
        address: masked(address),
    };
    let uri: Uri = address.parse().map_err(|_invalid| fault())?;
    let is_usable = uri.scheme_str() == Some("http")
        && uri
            .authority()
            .is_some_and(|authority| !authority.as_str().contains('@'));
    if is_usable {
        Ok(Endpoint::from(uri))
    } else {
        Err(fault())
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn an_address_with_a_password_is_refused_without_it() {
        assert!(endpoint("http://127.0.0.1:9928").is_ok());
        for address in [
            "",
            "127.0.0.1:9928",
            "https://127.0.0.1:9928",
            "nonsense nonsense",
            "http://user:hunter2@127.0.0.1:9928",
            "user:hunter2@127.0.0.1:9928",
            "https://user:hunter2@127.0.0.1:9928",
        ] {
            let fault = endpoint(address).err().unwrap().to_string();
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }
}

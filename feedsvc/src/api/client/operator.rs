//! The calls that an operator's commands make to a running service.

use std::path::Path;

use proto::feed::v1::maintenance_client::MaintenanceClient;
use proto::feed::v1::{BackupRequest, BackupResponse, Principal};

use super::address::{AddressFault, endpoint};

/// Why a command could not do what it was asked; the text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OperatorError {
    #[error(transparent)]
    Address(#[from] AddressFault),
    #[error("cannot reach the feed service at {address}: {problem}; check that it runs")]
    Unreachable { address: String, problem: String },
    #[error("the feed service refused: {0}")]
    Refused(String),
}

/// Asks the service at `address` to write a backup to `path` on its machine.
pub(crate) async fn back_up(address: &str, path: &Path) -> Result<BackupResponse, OperatorError> {
    let endpoint = endpoint(address)?;
    let path = path
        .to_str()
        .ok_or_else(|| OperatorError::Refused(format!("the path `{}` is not UTF-8", path.display())))?;
    let channel = endpoint.connect().await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        OperatorError::Unreachable {
            address: address.to_owned(),
            problem: cause.unwrap_or_else(|| error.to_string()),
        }
    })?;
    // Whoever may run commands on the service's machine operates it.
    let operator = Principal {
        name: "operator".to_owned(),
        role: "super_user".to_owned(),
        ..Principal::default()
    };
    let request = BackupRequest {
        principal: Some(operator),
        path: path.to_owned(),
        ..BackupRequest::default()
    };
    let answer = MaintenanceClient::new(channel).backup(request).await;
    Ok(answer
        .map_err(|status| OperatorError::Refused(status.message().to_owned()))?
        .into_inner())
}

//! Errors of the SDK, as the guard needs them, and the errors of the client.

use crate::error::{ApiError, ErrorDescription, GuardError};
use crate::throttler::CapacityTimeout;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use seawall_core::failure::FailureKind;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What an error of any AWS SDK says: the response's status, code and `Retry-After`, or the kind of a failure without a
/// response.
pub fn describe_sdk_error<E>(error: &SdkError<E, HttpResponse>) -> ErrorDescription
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let response = error.raw_response();
    let transport = match error {
        SdkError::ServiceError(_) => None,
        // The request never left this process.
        SdkError::ConstructionFailure(_) => Some(FailureKind::BadRequest),
        SdkError::TimeoutError(_) => Some(FailureKind::TimedOut),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => Some(FailureKind::TimedOut),
        // A connection that broke has a kind; missing credentials have none.
        SdkError::DispatchFailure(failure) if failure.is_io() || failure.as_other().is_some() => {
            Some(FailureKind::Unreachable)
        }
        SdkError::DispatchFailure(_) => Some(FailureKind::Unauthorized),
        // The body of an error need not be readable: a proxy writes HTML, and its status says enough.
        _ if response.is_some_and(|response| response.status().as_u16() >= 400) => None,
        _ => Some(FailureKind::Unrecognised),
    };
    let metadata = error.as_service_error().map(ProvideErrorMetadata::meta);
    let message = metadata
        .and_then(|metadata| metadata.message())
        .map_or_else(|| DisplayErrorContext(error).to_string(), str::to_owned);
    ErrorDescription {
        status: response.map(|response| response.status().as_u16()),
        code: metadata.and_then(|metadata| metadata.code()).map(str::to_owned),
        message,
        retry_after: response.and_then(retry_after),
        transport,
    }
}

/// Whole seconds; a date is not used by this vendor.
fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let text = response.headers().get("retry-after")?;
    text.trim().parse().ok().map(Duration::from_secs)
}

impl<E> ApiError for SdkError<E, HttpResponse>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    fn describe(&self) -> ErrorDescription {
        describe_sdk_error(self)
    }
}

/// An error of any DRS operation: what it says, and the SDK's error as its source.
#[derive(Debug)]
pub struct ApiFault(Box<FaultSource>);

/// Boxed, because results that carry it are returned everywhere.
#[derive(Debug)]
struct FaultSource {
    description: ErrorDescription,
    source: Box<dyn Error + Send + Sync>,
}

impl ApiFault {
    pub(crate) fn of<E>(error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        Self(Box::new(FaultSource { description: describe_sdk_error(&error), source: Box::new(error) }))
    }

    pub(crate) fn unreadable(message: &str) -> Self {
        let description = ErrorDescription {
            message: message.to_owned(),
            transport: Some(FailureKind::Unrecognised),
            ..ErrorDescription::default()
        };
        Self(Box::new(FaultSource { description, source: message.into() }))
    }

    /// The vendor's error code.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.description.code.as_deref()
    }
}

impl fmt::Display for ApiFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.description.code {
            Some(code) => write!(formatter, "{code}: {}", self.0.description.message),
            None => formatter.write_str(&self.0.description.message),
        }
    }
}

impl Error for ApiFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.source.as_ref())
    }
}

impl ApiError for ApiFault {
    fn describe(&self) -> ErrorDescription {
        self.0.description.clone()
    }
}

/// How a method of the client fails.
#[derive(Debug, thiserror::Error)]
pub enum DrsError {
    /// The call failed.
    #[error("{operation}: {error}")]
    Call {
        /// The operation.
        operation: &'static str,
        /// How it failed.
        #[source]
        error: GuardError<ApiFault>,
    },
    /// There was no room for a job in time; nothing was started.
    #[error("{operation}: {timeout}")]
    Capacity {
        /// The operation.
        operation: &'static str,
        /// The jobs and the wait.
        #[source]
        timeout: CapacityTimeout,
    },
    /// The job may or may not have been started, and it could not be looked up. It is not started again.
    #[error(
        "{operation}: {failure}; whether the job was started is unknown, because the jobs could not be listed \
         ({lookup}): look for the tag {tag} before you start it again"
    )]
    OutcomeUnknown {
        /// The operation.
        operation: &'static str,
        /// The failure of the call.
        failure: String,
        /// The failure of the look-up.
        lookup: String,
        /// What identifies the job.
        tag: Arc<str>,
    },
    /// The same page was returned twice, so that the list would never end.
    #[error("{operation}: the service returned the page token {token:?} twice; the list would never end")]
    RepeatedPage {
        /// The operation.
        operation: &'static str,
        /// The token.
        token: String,
    },
    /// The request is invalid and was not sent.
    #[error("{operation}: {problem}")]
    InvalidRequest {
        /// The operation.
        operation: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl DrsError {
    pub(crate) fn call(operation: &'static str) -> impl FnOnce(GuardError<ApiFault>) -> Self {
        move |error| Self::Call { operation, error }
    }
}
